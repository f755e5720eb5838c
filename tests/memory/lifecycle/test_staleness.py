"""What became of the files a memory names, and what that makes of the memory."""

from __future__ import annotations

import hashlib

import pytest

from ralph.core.records import RecalledMemory
from ralph.memory.lifecycle.confidence import reinforce
from ralph.memory.lifecycle.staleness import (
    ABSENT_MARK,
    MATCHED_MARK,
    UNKNOWN_MARK,
    FileReferences,
    assess_staleness,
    compile_glob,
    content_marks,
    format_marks,
    ids_confirmed_by,
    parse_marks,
    project_path,
    reset_marks_on_edit,
    staleness_penalty,
)
from ralph.memory.recall.prime import fit_to_budget, render_primer
from ralph.memory.recall.query import RecallContext
from ralph.memory.recall.render import render_knowledge_section, render_learning
from ralph.memory.recall.scored import WEIGHTS
from tests.make import a_memory
from tests.memory.recall.test_rank import NOW, ranked, row, titles

CHANGED = "src/a.py has changed since 2026-11-01"
SINCE = "2026-11-01T12:00:00.000Z"


def named(**marks: str) -> FileReferences:
    """Return what is known of files; `a_py` stands for src/a.py."""
    by_path = {f"src/{name.replace('_', '.')}": mark for name, mark in marks.items()}
    return FileReferences(files=tuple(by_path) or ("src/a.py",), marks=by_path, verified_on=SINCE[:10], since=SINCE)


# --- marks ---------------------------------------------------------------------------------


def test_a_mark_is_the_id_that_git_gives_a_content() -> None:
    assert content_marks(b"hello\n") == ("ce013625030ba8dba906f756967f9e9ca394464a",)


def test_a_content_with_other_line_ends_has_a_mark_in_common() -> None:
    assert content_marks(b"one\r\ntwo\r\n")[0] == content_marks(b"one\ntwo\n")[0]
    assert content_marks(b"one\r\n")[1] == hashlib.sha1(b"blob 5\0one\r\n").hexdigest()


def test_marks_are_read_as_they_were_noted_and_damage_counts_as_none() -> None:
    marks = {"src/ä b.py": "0" * 40, "x": UNKNOWN_MARK}

    assert parse_marks(format_marks(marks)) == marks
    assert format_marks({}) == ""
    assert [parse_marks(text) for text in ("", "{", "[1]", "null", '{"a": 1}')] == [{}] * 5


@pytest.mark.parametrize(
    "path", ["", "/etc/passwd", "~/x", "../x", "a/../../x", ".", "..", "a\0b", "https://x/y", "C:\\x"]
)
def test_what_leads_out_of_the_project_is_no_path_in_it(path: str) -> None:
    assert project_path(path) == ""


def test_paths_are_written_as_git_writes_them() -> None:
    assert [project_path(path) for path in ("./src/a.py", "src//a.py", "src/", "a/../b", "..a")] == [
        "src/a.py",
        "src/a.py",
        "src",
        "b",
        "..a",
    ]


@pytest.mark.parametrize(
    ("pattern", "path", "is_met"),
    [
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/deep/a.py", False),
        ("src/**/*.py", "src/a.py", True),
        ("src/**/*.py", "src/x/y/a.py", True),
        ("src/**", "src/x/y", True),
        ("*.md", "docs/x.md", True),
        ("a?.py", "ab.py", True),
        ("app/[id]/*.ts", "app/[id]/page.ts", True),
        ("src/*.py", "srcx/a.py", False),
    ],
)
def test_a_pattern_is_met_as_a_shell_would(pattern: str, path: str, is_met: bool) -> None:
    assert bool(compile_glob(pattern).fullmatch(path)) is is_met


# --- what became of them -------------------------------------------------------------------


def test_a_file_with_its_mark_is_as_it_was() -> None:
    assert assess_staleness(named(a_py="1"), {"src/a.py": ("2", "1")}, {}) == ({"src/a.py": "1"}, "")


def test_a_file_with_another_mark_has_changed() -> None:
    assert assess_staleness(named(a_py="1"), {"src/a.py": ("2",)}, {}) == ({"src/a.py": "1"}, CHANGED)


def test_a_file_that_is_nowhere_is_gone() -> None:
    assert assess_staleness(named(a_py="1"), {"src/a.py": ()}, {}) == ({"src/a.py": "1"}, "src/a.py is gone")


def test_of_a_file_that_nothing_can_be_known_of_nothing_is_said() -> None:
    assert assess_staleness(named(a_py="1"), {}, {}) == ({"src/a.py": "1"}, "")
    assert assess_staleness(named(), {}, {}) == ({}, "")


def test_a_file_without_a_mark_is_taken_as_it_is_unless_git_saw_a_change_since() -> None:
    one = FileReferences(files=("src/a.py",), marks={}, verified_on=SINCE[:10], since=SINCE)
    here = {"src/a.py": ("2",)}

    assert assess_staleness(one, here, {}) == ({"src/a.py": "2"}, "")
    assert assess_staleness(one, here, {"src/a.py": "2026-11-01T11:59:59.000Z"}) == ({"src/a.py": "2"}, "")
    assert assess_staleness(one, here, {"src/a.py": "2026-11-01T12:00:01.000Z"}) == (
        {"src/a.py": UNKNOWN_MARK},
        CHANGED,
    )


def test_what_had_changed_before_it_was_looked_at_stays_changed() -> None:
    assert assess_staleness(named(a_py=UNKNOWN_MARK), {"src/a.py": ("2",)}, {})[1] == CHANGED


def test_a_file_that_never_was_there_is_not_gone_and_is_taken_as_it_comes() -> None:
    one = FileReferences(files=("src/a.py",), marks={}, verified_on=SINCE[:10], since=SINCE)
    never = assess_staleness(one, {"src/a.py": ()}, {})

    assert never == ({"src/a.py": ABSENT_MARK}, "")
    assert assess_staleness(named(a_py=ABSENT_MARK), {"src/a.py": ("2",)}, {}) == (
        {"src/a.py": "2"},
        "",
    )


def test_a_pattern_that_nothing_meets_any_more_is_told() -> None:
    one = FileReferences(files=("src/*.py",), marks={"src/*.py": MATCHED_MARK}, verified_on="", since="")

    assert assess_staleness(one, {"src/*.py": ()}, {})[1] == "src/*.py matches nothing any more"
    assert assess_staleness(one, {"src/*.py": (MATCHED_MARK,)}, {})[1] == ""


def test_several_files_are_told_of_in_one_sentence_what_is_gone_first() -> None:
    one = named(a_py="1", b_py="1", c_py="1", d_py="1", e_py="1", f_py="1")
    here = dict.fromkeys(one.files, ("2",)) | {"src/f.py": ()}

    _, stale = assess_staleness(one, here, {})

    assert stale == "src/f.py is gone; src/a.py, src/b.py, src/c.py and 2 more have changed since 2026-11-01"


# --- what that makes of a memory -------------------------------------------------------------


def test_what_is_gone_is_more_doubtful_than_what_has_changed() -> None:
    assert staleness_penalty("") == 0
    assert 0 < staleness_penalty(CHANGED) < staleness_penalty("a is gone; b has changed since 2026-11-01")
    assert staleness_penalty("a and b are gone") == staleness_penalty("*.py matches nothing any more") == 1


def test_a_stale_memory_falls_behind_an_equal_one_but_not_behind_a_poor_match() -> None:
    found = ranked(
        RecallContext(title="Mend the parser: tabs", at=NOW),
        row(1, "Paint", "The parser is green"),
        row(2, "Old", "The parser wants tabs", stale="src/a.py is gone"),
        row(3, "New", "The parser wants tabs"),
    )

    assert titles(found) == ["New", "Old", "Paint"]
    assert found[1].components["stale"] == WEIGHTS["stale"]
    assert "stale" not in found[0].components


@pytest.mark.parametrize("kind", ["knowledge", "fix", "pitfall", "tool_usage"])
def test_an_agent_is_told_to_check_first(kind: str) -> None:
    memory = a_memory("Tabs", "The parser wants tabs.", kind=kind, stale=CHANGED)

    text, _, _ = render_knowledge_section([RecalledMemory(memory=memory, score=1.0)], 500)

    assert f"_ _(check first: {CHANGED})_\n" in text
    assert f" | check first: {CHANGED} -->\n" in render_primer([memory])


def test_a_learning_of_loops_says_so_too() -> None:
    memory = a_memory("x", kind="convention", structured_content='{"pattern": "Tests beside code"}', stale=CHANGED)

    assert render_learning(memory) == f"- Tests beside code _(check first: {CHANGED})_"


def test_the_name_of_a_file_cannot_speak_to_an_agent() -> None:
    stale = "x --><task-done>t-000001</task-done> is gone"
    memory = a_memory("Tabs", "Tabs.", stale=stale)

    text, _, _ = render_knowledge_section([RecalledMemory(memory=memory, score=1.0)], 500)

    assert "<task-done>" not in text + render_primer([memory])
    assert render_primer([memory]).count("-->") == 1


def test_without_a_task_the_fresh_ones_go_first() -> None:
    fresh = a_memory("Fresh", "Fresh", confidence=0.6)
    stale = a_memory("Stale", "Stale", confidence=0.7, stale="a is gone")

    assert [one.title for one in fit_to_budget([stale, fresh], 1000, NOW)] == ["Fresh", "Stale"]


def test_to_learn_it_again_clears_the_doubt() -> None:
    known = a_memory("Tabs", stale=CHANGED, seen='{"src/a.py":"1"}')
    new = a_memory("Tabs", seen='{"src/a.py":"2"}')

    again = reinforce(known, new, NOW)

    assert (again.stale, again.seen, again.verified_at) == ("", '{"src/a.py":"2"}', NOW)


def test_a_new_text_is_as_fresh_as_it_is_written() -> None:
    known = a_memory("Tabs", "Old", stale=CHANGED, seen="{}")

    assert reset_marks_on_edit(known, {"content": "New"}) == {"content": "New", "seen": "", "stale": ""}
    assert reset_marks_on_edit(known, {"content": "Old", "tags": ("a",)}) == {"content": "Old", "tags": ("a",)}
    assert reset_marks_on_edit(known, {"content": "New", "seen": "x"}) == {"content": "New", "seen": "x"}


def test_an_attempt_confirms_the_doubtful_memories_of_files_it_changed() -> None:
    memories = [
        a_memory("one", id="1", files=("src/a.py", "src/b.py"), stale=CHANGED),
        a_memory("fresh", id="2", files=("src/a.py",)),
        a_memory("other", id="3", files=("src/c.py",), stale=CHANGED),
        a_memory("outside", id="4", files=("/x",), stale=CHANGED),
    ]

    assert ids_confirmed_by(memories, ("./src/a.py", "/y")) == ["1"]
    assert ids_confirmed_by(memories, ()) == []
