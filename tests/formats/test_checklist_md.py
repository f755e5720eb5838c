from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.core.records import TaskStatus
from ralph.formats.checklist_md import read_checklist_md
from ralph.formats.planned import MAX_TASK_CHARS, PlannedTask, ReadProblem


def read(text: str) -> tuple[PlannedTask, ...]:
    """Read a checklist that nothing is wrong with."""
    tasks, unreadable = read_checklist_md(text)
    assert unreadable == ()
    return tasks


def tree(text: str) -> list[tuple[str, str | None]]:
    """Give each title with the title of its parent."""
    tasks = read_checklist_md(text)[0]
    titles = {task.key: task.title for task in tasks}
    return [(task.title, titles[task.parent_key] if task.parent_key else None) for task in tasks]


# --- items -------------------------------------------------------------------------


@pytest.mark.parametrize("bullet", ["-", "*", "+", "1.", "12)"])
def test_every_kind_of_list_makes_tasks(bullet: str) -> None:
    assert read(f"{bullet} [ ] Fix the parser\n") == (PlannedTask(key="#1", title="Fix the parser", line=1),)


@pytest.mark.parametrize(
    ("mark", "status"),
    [
        (" ", TaskStatus.PENDING),
        ("", TaskStatus.PENDING),
        ("~", TaskStatus.PENDING),
        ("/", TaskStatus.PENDING),
        ("x", TaskStatus.DONE),
        ("X", TaskStatus.DONE),
    ],
)
def test_the_mark_in_the_box_is_the_status(mark: str, status: TaskStatus) -> None:
    assert [task.status for task in read(f"- [{mark}] a")] == [status]


@pytest.mark.parametrize(
    "text", ["- no box", "[ ] no bullet", "- [a](link)", "- [ ](link)", "-[ ] no space", "text - [ ] a"]
)
def test_what_is_no_box_is_no_task(text: str) -> None:
    assert read_checklist_md(text) == ((), ())


def test_a_mark_nobody_knows_is_left_out_and_reported() -> None:
    tasks, unreadable = read_checklist_md("- [?] a\n- [ ] b")

    assert [task.title for task in tasks] == ["b"]
    assert unreadable == (ReadProblem(line=1, why="Skipped: unknown mark '[?]'."),)


def test_an_item_without_a_title_is_reported_and_its_children_move_up() -> None:
    tasks, unreadable = read_checklist_md("- [ ] a\n  - [ ]\n    - [ ] b")

    assert [(task.key, task.title, task.parent_key) for task in tasks] == [("#1", "a", None), ("#3", "b", "#1")]
    assert unreadable == (ReadProblem(line=2, why="Skipped: the task has no title."),)


def test_a_title_as_long_as_a_file_is_left_out() -> None:
    tasks, unreadable = read_checklist_md(f"- [ ] {'a' * MAX_TASK_CHARS}b\n- [ ] c")

    assert [task.title for task in tasks] == ["c"]
    assert unreadable[0].line == 1


@pytest.mark.parametrize("text", ["- [-] a\n  - [ ] b\n- [ ] c", "- [ ] ~~a~~\n  - [x] b\n- [ ] c"])
def test_cancelled_work_is_left_out_with_everything_below_it(text: str) -> None:
    tasks, unreadable = read_checklist_md(text)

    assert [task.title for task in tasks] == ["c"]
    assert unreadable == (
        ReadProblem(line=1, why="Skipped: the item is canceled."),
        ReadProblem(line=2, why="Skipped: the item is part of a canceled one."),
    )


def test_done_and_struck_through_is_done() -> None:
    assert [(task.title, task.status) for task in read("- [x] ~~a~~")] == [("a", TaskStatus.DONE)]


# --- titles and ids ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "title"),
    [
        ("**Fix it**", "Fix it"),
        ("__Fix it__", "Fix it"),
        ("*Fix it*", "Fix it"),
        ("_Fix it_", "Fix it"),
        ("***Fix it***", "Fix it"),
        ("**Fix it**: handle tabs", "Fix it: handle tabs"),
        ("**a** and **b**", "**a** and **b**"),
        ("Fix `**kwargs` in `__init__`", "Fix `**kwargs` in `__init__`"),
        ("__init__ is slow", "__init__ is slow"),
        ("`code`", "`code`"),
        ("lint **/*.py and **/*.js", "lint **/*.py and **/*.js"),
        ("2 * 3 * 4", "2 * 3 * 4"),
        ("Fix\x1b[31m it\u200b <!-- later -->", "Fix it"),
    ],
)
def test_emphasis_around_a_title_goes_and_the_rest_stays(written: str, title: str) -> None:
    assert [task.title for task in read(f"- [ ] {written}")] == [title]


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ("Fix it (t-abc123)", "t-abc123"),
        ("**Fix it** (t-abc123)", "t-abc123"),
        ("Fix it <!-- id: t-abc123 -->", "t-abc123"),
        ("Fix it <!--id:step-2.1-->", "step-2.1"),
    ],
)
def test_an_id_at_the_end_of_a_title_is_the_key(written: str, key: str) -> None:
    assert [(task.key, task.title) for task in read(f"- [ ] {written}")] == [(key, "Fix it")]


def test_the_second_item_with_an_id_is_left_out() -> None:
    tasks, unreadable = read_checklist_md("- [ ] a (t-abc123)\n- [ ] b (t-abc123)")

    assert [task.title for task in tasks] == ["a"]
    assert unreadable == (ReadProblem(line=2, why="Skipped: the id 't-abc123' is already used on line 1."),)


# --- nesting -----------------------------------------------------------------------


@pytest.mark.parametrize("indent", ["  ", "    ", "\t", "   "])
def test_indented_items_are_children(indent: str) -> None:
    text = f"- [ ] a\n{indent}- [ ] b\n{indent * 2}- [ ] c\n{indent}1. [ ] d\n- [ ] e"

    assert tree(text) == [("a", None), ("b", "a"), ("c", "b"), ("d", "a"), ("e", None)]


def test_one_column_more_or_less_changes_nothing() -> None:
    text = "- [ ] a\n - [ ] b\n   - [ ] c\n  - [ ] d\n - [ ] e"

    assert tree(text) == [("a", None), ("b", None), ("c", "b"), ("d", "b"), ("e", None)]


def test_text_that_is_not_indented_ends_the_item_above() -> None:
    assert tree("- [ ] a\n- Group\n  - [ ] b") == [("a", None), ("b", None)]
    assert tree("- [ ] a\n\n## Part\n\n  - [ ] b") == [("a", None), ("b", None)]


def test_a_plain_bullet_between_two_boxes_does_not_part_them() -> None:
    assert tree("- [ ] a\n  - plain\n    - [ ] b") == [("a", None), ("b", "a")]


@pytest.mark.parametrize(
    ("text", "statuses"),
    [
        ("- [x] a\n  - [ ] b", [TaskStatus.PENDING, TaskStatus.PENDING]),
        ("- [ ] a\n  - [x] b", [TaskStatus.DONE, TaskStatus.DONE]),
        (
            "- [x] a\n  - [x] b\n    - [ ] c\n  - [x] d",
            [TaskStatus.PENDING, TaskStatus.PENDING, TaskStatus.PENDING, TaskStatus.DONE],
        ),
    ],
)
def test_a_parent_is_as_far_as_its_children(text: str, statuses: list[TaskStatus]) -> None:
    assert [task.status for task in read(text)] == statuses


def test_a_parent_whose_children_are_all_cancelled_stands_by_its_own_mark() -> None:
    tasks, _ = read_checklist_md("- [x] a\n  - [-] b")

    assert [task.status for task in tasks] == [TaskStatus.DONE]


# --- text around the items -----------------------------------------------------------


def test_indented_text_below_an_item_is_its_body() -> None:
    tasks = read("- [ ] a\n  First.\n\n  - one\n    - two\n  - [ ] b\n    Of b.\n\n  Of a.\n\nOf nobody.\n")

    assert [(task.title, task.body) for task in tasks] == [("a", "First.\n\n- one\n  - two\n\nOf a."), ("b", "Of b.")]


def test_secrets_in_a_body_are_taken_out() -> None:
    assert [task.body for task in read("- [ ] a\n  password=hunter2hunter2")] == ["password=[redacted]"]


def test_a_top_level_task_says_from_which_section_it_is() -> None:
    tasks = read("# Plan\n- [ ] a\n## **Parser**\n- [ ] b\n  Text.\n  - [ ] c\n# Other\n- [ ] d")

    assert [task.body for task in tasks] == ["", "Section: Parser\n\nText.", "", ""]


@pytest.mark.parametrize("fence", ["```", "~~~", "````"])
def test_boxes_in_a_code_block_are_text(fence: str) -> None:
    text = f"{fence}md\n- [ ] example\n{fence}\n- [ ] a\n  {fence}\n  - [ ] shown\n\n      deep\n  {fence}\n- [ ] b"

    tasks = read(text)

    assert [(task.title, task.body) for task in tasks] == [
        ("a", f"{fence}\n- [ ] shown\n\n    deep\n{fence}"),
        ("b", ""),
    ]


def test_a_code_block_ends_only_with_its_own_fence() -> None:
    text = "````\n```\n- [ ] a\n~~~~\n````\n- [ ] b\n```inline``` code\n- [ ] c\n- ```\n  - [ ] d\n  ```\n- [ ] e"

    assert [title for title, _ in tree(text)] == ["b", "c", "e"]


def test_boxes_in_a_comment_are_not_read() -> None:
    assert [task.title for task in read("<!-- - [ ] a -->\n<!--\n- [ ] b\n-->\n- [ ] c")] == ["c"]


@pytest.mark.parametrize(("opening", "what"), [("```", "code block"), ("<!--", "comment")])
def test_a_block_that_never_ends_is_reported_where_it_starts(opening: str, what: str) -> None:
    tasks, unreadable = read_checklist_md(f"- [ ] a\n\n{opening}\n- [ ] b\n")

    assert [task.title for task in tasks] == ["a"]
    assert unreadable == (ReadProblem(line=3, why=f"Skipped the {what} that starts here: it never ends."),)


def test_line_ends_of_every_kind_are_counted() -> None:
    tasks = read("\ufeff- [ ] a\r\n\r\n- [x] b\r- [ ] c")

    assert [(task.title, task.line) for task in tasks] == [("a", 1), ("b", 3), ("c", 4)]


# --- anything at all -----------------------------------------------------------------

rows = st.tuples(
    st.sampled_from(["", " ", "  ", "    ", "\t"]),
    st.sampled_from(["- [ ] ", "- [x] ", "* [-] ", "1. [] ", "- [?] ", "- ", "## ", "```", "~~~", "<!--", "-->", ""]),
    st.text(max_size=6) | st.sampled_from(["**a**", "~~a~~", "a (t-abc123)", "a <!-- id: b -->", "*", "__", "-->"]),
).map("".join)


@given(st.text() | st.lists(rows, max_size=12).map("\n".join))
def test_no_text_makes_the_reader_fail(text: str) -> None:
    tasks, unreadable = read_checklist_md(text)

    keys = [task.key for task in tasks]
    lines = text.count("\n") + text.count("\r") + 1
    assert len(set(keys)) == len(keys)
    assert all(task.title and 1 <= task.line <= lines for task in tasks)
    assert all(task.parent_key is None or task.parent_key in keys[:place] for place, task in enumerate(tasks))
    assert all(1 <= problem.line <= lines and "\n" not in problem.why for problem in unreadable)
