from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ralph.core.records import Task, TaskStatus, replace
from ralph.core.text import sanitize
from ralph.formats.planned import MAX_TASK_CHARS, PlannedTask, ReadProblem
from ralph.formats.tasks_jsonl import read_tasks_jsonl, write_tasks_jsonl

FOREIGN = """\
{"id":"task-17-4a8d","title":"Add the page","description":"With a list","status":"closed","priority":1,"blocked_by":[],\
"loop_id":"primary-1","created":"2026-02-08T11:35:04+00:00","closed":"2026-02-08T11:35:49+00:00"}
{"id":"task-17-f9fc","title":"Add the route","status":"open","priority":3,"blocked_by":["task-17-4a8d"],\
"loop_id":"primary-1","created":"2026-02-08T11:35:08+00:00"}
"""


def one(**fields: object) -> PlannedTask:
    """Read a single task that nothing is wrong with."""
    tasks, unreadable = read_tasks_jsonl(json.dumps(fields))
    assert unreadable == ()
    return tasks[0]


def complaint(line: str) -> str:
    """Give what is said about a line that gives no task."""
    tasks, unreadable = read_tasks_jsonl(line)
    assert tasks == ()
    assert [problem.line for problem in unreadable] == [1]
    return unreadable[0].why


# --- what a line says ------------------------------------------------------------


def test_a_line_of_another_loop_becomes_a_task() -> None:
    tasks, unreadable = read_tasks_jsonl(FOREIGN)

    assert unreadable == ()
    assert tasks == (
        PlannedTask(
            key="task-17-4a8d", title="Add the page", body="With a list", status=TaskStatus.DONE, priority=5, line=1
        ),
        PlannedTask(key="task-17-f9fc", title="Add the route", priority=3, dependency_keys=("task-17-4a8d",), line=2),
    )


def test_a_title_is_enough() -> None:
    assert one(title="Fix it") == PlannedTask(key="#1", title="Fix it", line=1)


def test_numbers_are_ids_too() -> None:
    tasks, _ = read_tasks_jsonl('{"id": 1, "title": "a"}\n{"id": 2, "title": "b", "deps": [1], "parent": 1}')

    assert [(task.key, task.dependency_keys, task.parent_key) for task in tasks] == [
        ("1", (), None),
        ("2", ("1",), "1"),
    ]


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("open", TaskStatus.PENDING),
        ("todo", TaskStatus.PENDING),
        ("pending", TaskStatus.PENDING),
        ("in_progress", TaskStatus.PENDING),
        ("In Progress", TaskStatus.PENDING),
        ("in-progress", TaskStatus.PENDING),
        ("started", TaskStatus.PENDING),
        ("doing", TaskStatus.PENDING),
        ("closed", TaskStatus.DONE),
        ("DONE", TaskStatus.DONE),
        ("completed", TaskStatus.DONE),
        ("failed", TaskStatus.FAILED),
        ("blocked", TaskStatus.BLOCKED),
        ("", TaskStatus.PENDING),
        (None, TaskStatus.PENDING),
    ],
)
def test_every_word_for_a_status_has_its_meaning(word: str | None, status: TaskStatus) -> None:
    assert one(title="a", status=word).status is status


def test_an_unknown_status_is_reported_and_taken_as_pending() -> None:
    tasks, unreadable = read_tasks_jsonl('{"title": "a", "status": "simmering"}')

    assert [task.status for task in tasks] == [TaskStatus.PENDING]
    assert unreadable == (ReadProblem(line=1, why="Unknown status 'simmering'; used pending instead.", was_read=True),)


def test_a_cancelled_task_is_left_out_with_the_reason() -> None:
    assert complaint('{"title": "a", "status": "Cancelled"}') == "Skipped: the status of the task is 'Cancelled'."


@pytest.mark.parametrize("field", ["needs", "deps", "dependencies", "depends_on", "blocked_by"])
@pytest.mark.parametrize("value", [["t-1", "t-2", "t-1"], "t-1, t-2,", [" t-1", "t-2", ""]])
def test_needs_are_read_under_every_name_as_list_or_text(field: str, value: object) -> None:
    assert one(title="a", **{field: value}).dependency_keys == ("t-1", "t-2")


def test_needs_under_two_names_add_up() -> None:
    assert one(title="a", needs=["t-1"], deps=["t-2"]).dependency_keys == ("t-1", "t-2")


def test_description_and_body_parent_and_feature_have_two_names() -> None:
    assert one(title="a", body="b", parent_id="p", feature_id="f-1") == one(
        title="a", description="b", parent="p", feature="f-1"
    )


def test_a_field_of_the_wrong_kind_is_reported_and_the_task_kept() -> None:
    tasks, unreadable = read_tasks_jsonl(
        '{"id": [1], "title": "a", "description": 3, "needs": {"a": 1}, "deps": [null, "t-1"], "priority": "high"}'
    )

    assert tasks == (PlannedTask(key="#1", title="a", dependency_keys=("t-1",), line=1),)
    assert [problem.why for problem in unreadable] == [
        "Ignored id: not an id or name.",
        "Ignored description: not a string.",
        "Invalid priority 'high'; used 0 instead.",
        "Ignored needs: not a list of ids.",
        "Ignored an item of deps: not an id.",
    ]


def test_foreign_text_is_cleaned_and_secrets_are_taken_out() -> None:
    task = one(title="Fix\u0000 \u001b[31mthe\u200b\nparser\ud800", description="password=hunter2hunter2\r\nnext")

    assert task.title == "Fix the parser"
    assert task.body == "password=[redacted]\nnext"


# --- priority ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("theirs", "ours"), [(1, 5), (2, 4), (5, 1), (0, 5), (-7, 5), (99, 1), (None, 3), ("2", 4), (2.0, 4)]
)
@pytest.mark.parametrize("field", ["loop_id", "created", "blocked_by"])
def test_the_other_loops_most_urgent_goes_first_here_too(field: str, theirs: object, ours: int) -> None:
    assert one(title="a", priority=theirs, **{field: ""}).priority == ours


def test_one_line_of_another_loop_makes_the_whole_file_theirs() -> None:
    tasks, _ = read_tasks_jsonl('{"title": "a", "priority": 1}\n{"title": "b", "priority": 2, "blocked_by": ["#1"]}')

    assert [task.priority for task in tasks] == [5, 4]


def test_our_own_priority_stays_as_it_is() -> None:
    assert [one(title="a", priority=number).priority for number in (-3, 0, 1, 700)] == [-3, 0, 1, 700]


@pytest.mark.parametrize("number", ["9" * 400, "-1000001", "1e999", "1.5", "true"])
def test_a_priority_no_database_takes_is_reported_and_taken_as_none(number: str) -> None:
    tasks, unreadable = read_tasks_jsonl(f'{{"title": "a", "priority": {number}}}')

    assert [task.priority for task in tasks] == [0]
    assert "; used 0 instead." in unreadable[0].why


# --- lines -------------------------------------------------------------------------


def test_blank_lines_and_comments_are_passed_over_but_counted() -> None:
    tasks, unreadable = read_tasks_jsonl('\ufeff# plan\r\n\r\n// first\r\n{"title": "a"}\r\n  # last\r\n{"title": "b"}')

    assert [(task.key, task.title, task.line) for task in tasks] == [("#1", "a", 4), ("#2", "b", 6)]
    assert unreadable == ()


def test_a_bad_line_costs_only_itself() -> None:
    tasks, unreadable = read_tasks_jsonl('{"title": "a"}\n{"title": "b"\n{"title": "c"}')

    assert [task.title for task in tasks] == ["a", "c"]
    assert unreadable == (ReadProblem(line=2, why="Skipped: the line is not valid JSON (expecting ',' delimiter)."),)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"id": "t-1"}', "Skipped: the task has no title."),
        ('{"title": "  "}', "Skipped: the task has no title."),
        ('{"title": 3}', "Skipped: the task has no title."),
        ('"text"', "Skipped: a task must be a JSON object with a title."),
        ("3", "Skipped: a task must be a JSON object with a title."),
        ('{"title": "a"} {"title": "b"}', """Skipped: unexpected text after the JSON value: '{"title": "b"}'."""),
        ('{"title": "a", "cost": NaN}', "Skipped: the line is not valid JSON (NaN is not a valid number)."),
        (f'{{"title": "a", "n": {"9" * 5000}}}', "Skipped: the line is not valid JSON (a number is too long)."),
        ('{"title": ' + "[" * 100_000, "Skipped: the line is not valid JSON (nested too deeply)."),
        (
            f'{{"title": "{"a" * MAX_TASK_CHARS}"}}',
            "Skipped: the task is longer than 1,048,576 characters.",
        ),
    ],
    ids=lambda value: value[:20],
)
def test_what_cannot_be_a_task_is_told_in_one_sentence(line: str, why: str) -> None:
    assert complaint(line) == why


def test_the_second_task_with_an_id_is_left_out() -> None:
    tasks, unreadable = read_tasks_jsonl('{"id": "t-1", "title": "a"}\n\n{"id": "t-1", "title": "b"}')

    assert [task.title for task in tasks] == ["a"]
    assert unreadable == (ReadProblem(line=3, why="Skipped: the id 't-1' is already used on line 1."),)


def test_a_value_nested_as_deep_as_json_allows_does_no_harm() -> None:
    deep = "[" * 900 + "]" * 900

    tasks, unreadable = read_tasks_jsonl(f'{{"title": "a", "status": {deep}, "needs": [{deep}], "priority": {deep}}}')

    assert tasks == (PlannedTask(key="#1", title="a", line=1),)
    assert len(unreadable) == 3


# --- arrays ------------------------------------------------------------------------


def test_a_whole_file_array_is_read_with_the_line_of_each_task() -> None:
    tasks, unreadable = read_tasks_jsonl(
        '# plan\n[\n  {\n    "title": "a"\n  },\n  {"title": "b"}, {"title": "c"},\n]\n'
    )

    assert [(task.key, task.title, task.line) for task in tasks] == [("#1", "a", 3), ("#2", "b", 6), ("#3", "c", 6)]
    assert unreadable == ()


def test_an_empty_array_has_no_tasks() -> None:
    assert read_tasks_jsonl("[]\n") == ((), ())


def test_entries_of_an_array_that_are_no_tasks_cost_only_themselves() -> None:
    tasks, unreadable = read_tasks_jsonl(
        f'[1,\n{{"title": "a"}},\n{{"title": "{"a" * MAX_TASK_CHARS}"}}]\n{{"title": "b"}}'
    )

    assert [(task.title, task.line) for task in tasks] == [("a", 2), ("b", 4)]
    assert [problem.line for problem in unreadable] == [1, 3]


@pytest.mark.parametrize("rest", ["", '{"title": "b"', '{"title": NaN}]', "[" * 100_000, '"a" "b"]'])
def test_a_broken_array_is_read_as_far_as_it_goes(rest: str) -> None:
    tasks, unreadable = read_tasks_jsonl('[{"title": "a"},\n' + rest)

    assert [task.title for task in tasks] == ["a"]
    assert unreadable[-1].line == 2
    assert unreadable[-1].why.startswith("Skipped the rest of the array: invalid JSON (")


# --- writing -----------------------------------------------------------------------


def a_task(**fields: object) -> Task:
    task = Task(id="t-000001", title="a", created_at="2026-01-01T00:00:00.000Z", updated_at="2026-01-01T00:00:00.000Z")
    return replace(task, **fields)


def test_a_task_is_written_on_one_line_under_our_own_names() -> None:
    text = write_tasks_jsonl(
        [a_task(title="Größe", body="two\nlines", needs=("t-000002",), parent_id="t-000003", feature_id="f-000001")]
    )

    assert text == (
        '{"id": "t-000001", "title": "Größe", "description": "two\\nlines", "status": "pending", "priority": 0, '
        '"parent": "t-000003", "needs": ["t-000002"], "feature": "f-000001"}\n'
    )


def test_a_task_somebody_works_on_is_pending_where_it_is_read() -> None:
    tasks, unreadable = read_tasks_jsonl(write_tasks_jsonl([a_task(status=TaskStatus.IN_PROGRESS)]))

    assert [task.status for task in tasks] == [TaskStatus.PENDING]
    assert unreadable == ()


ids = st.integers(0, 20).map(lambda number: f"t-{number:06x}")
bodies = st.text(max_size=20).map(sanitize)
titles = bodies.map(lambda text: " ".join(text.split())).filter(bool)
own_tasks = st.builds(
    lambda **fields: a_task(**fields),
    id=ids,
    title=titles,
    body=bodies,
    status=st.sampled_from([status for status in TaskStatus if status is not TaskStatus.IN_PROGRESS]),
    priority=st.integers(-1_000_000, 1_000_000),
    parent_id=st.none() | ids,
    feature_id=st.none() | st.just("f-000001"),
    needs=st.lists(ids, unique=True, max_size=3).map(tuple),
)


@given(st.lists(own_tasks, unique_by=lambda task: task.id, max_size=6))
def test_what_is_written_is_read_back_the_same(tasks: list[Task]) -> None:
    read, unreadable = read_tasks_jsonl(write_tasks_jsonl(tasks))

    assert unreadable == ()
    assert read == tuple(
        PlannedTask(
            key=task.id,
            title=task.title,
            body=task.body,
            status=task.status,
            priority=task.priority,
            parent_key=task.parent_id,
            dependency_keys=task.needs,
            feature=task.feature_id,
            line=line,
        )
        for line, task in enumerate(tasks, start=1)
    )


# --- anything at all -----------------------------------------------------------------

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["t-1", "open"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
field_names = st.sampled_from(["id", "title", "description", "body", "status", "priority", "parent", "needs", "deps",
                               "blocked_by", "feature", "loop_id"])  # fmt: skip
broken_json = st.lists(
    st.sampled_from(['{"title": "a"}', "{", "}", "[", "]", ",", ":", '"', "\n", "NaN", "1", "#", "\r"])
)


@settings(max_examples=30)
@given(
    st.text()
    | broken_json.map("".join)
    | st.lists(st.dictionaries(field_names, json_values)).map(json.dumps)
    | st.lists(st.dictionaries(field_names, json_values).map(json.dumps)).map("\n".join)
)
def test_no_text_makes_the_reader_fail(text: str) -> None:
    tasks, unreadable = read_tasks_jsonl(text)

    lines = text.count("\n") + text.count("\r") + 1
    assert len({task.key for task in tasks}) == len(tasks)
    assert all(task.title and 1 <= task.line <= lines for task in tasks)
    assert all(1 <= problem.line <= lines and "\n" not in problem.why for problem in unreadable)
