from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.formats.planned import PlannedProject, PlannedTask, ReadProblem
from ralph.formats.task_files import read_tasks


@pytest.mark.parametrize(
    "text",
    [
        '{"title": "a"}',
        '# A comment, not a heading\n\n{ "title": "a"}',
        '[{"title": "a"}]',
        '\ufeff// plan\r\n[\r\n  {"title": "a"}\r\n]',
        '{"title": "a", "description": "steps:\\n- [ ] one"}',
        '- [ ] a\n```json\n{"title": "b"}\n```',
        '# Plan\n\n```json\n{"title": "b"}\n```\n\n- [ ] a',
        "# Plan\n\n[link](there)\n\n1. [ ] a",
        "{% include x %}\n- [ ] a",
    ],
)
def test_the_form_is_told_by_what_the_file_says(text: str) -> None:
    planned = read_tasks(text, "plan.txt")
    tasks, unreadable = planned.tasks, planned.problems

    assert [task.title for task in tasks] == ["a"]
    assert unreadable == ()


def test_json_lines_after_a_bad_first_line_are_still_json_lines() -> None:
    planned = read_tasks('oops\n{"title": "a"}', "tasks.jsonl")
    tasks, unreadable = planned.tasks, planned.problems

    assert tasks == (PlannedTask(key="#1", title="a", line=2),)
    assert [problem.line for problem in unreadable] == [1]


@pytest.mark.parametrize(
    "text", ["Hello.", "# Plan\n\n- no boxes\n", "```\n- [ ] a\n```", "a,b\n1,2", "[x](y)", "[ ] a"]
)
def test_a_file_that_is_neither_is_told_in_one_sentence(text: str) -> None:
    why = "No tasks found in notes.md: it has neither JSON lines nor a markdown checklist (`- [ ] title`)."
    assert read_tasks(text, "notes.md") == PlannedProject(problems=(ReadProblem(line=1, why=why),))


@pytest.mark.parametrize("text", ["", "\n \n", "[]", "[ ]\n", "\ufeff"])
def test_a_file_that_plans_nothing_has_nothing_wrong_with_it(text: str) -> None:
    assert read_tasks(text, "tasks.jsonl") == PlannedProject()


@given(
    st.text() | st.lists(st.sampled_from(["- [ ] a", '{"title": "a"}', "\n", "#", "[", "{", "```", " "])).map("".join)
)
def test_no_text_makes_the_reader_fail(text: str) -> None:
    planned = read_tasks(text, "any")
    tasks, unreadable = planned.tasks, planned.problems

    assert len({task.key for task in tasks}) == len(tasks)
    assert all(problem.why.endswith(".") for problem in unreadable)
