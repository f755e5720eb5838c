"""`ralph learn`: from what happened to what is kept."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from ralph.cli import main
from ralph.cli.progress import format_event
from ralph.core.records import Memory, MemorySource, MemoryState, now
from ralph.loop.progress import progress_event
from ralph.project import Project
from ralph.store.memories import ChangeInfo
from tests.cli.ran import Ralph, Ran, run
from tests.cli.terminal import at_terminal
from tests.make import set_up_project

QUESTION = "[q]uit: "


@pytest.fixture
def here(tmp_path: Path) -> Path:
    set_up_project(tmp_path)
    return tmp_path


@pytest.fixture
def ralph(here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ralph:
    """Run one `ralph learn` command, with something on standard input."""

    def learn(*words: str, given: str = "", noun: str = "learn") -> Ran:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given.encode())))
        return run(capsys, here, noun, *words)

    return learn


def stage(here: Path, body: str, **fields: Any) -> str:
    """Put a learning into the staging area."""
    settings: dict[str, Any] = {
        "kind": "pitfall",
        "title": body,
        "source": MemorySource.AUTOMATIC,
        "state": MemoryState.STAGED,
        "created_at": now(),
        "updated_at": now(),
    }
    with Project.open(here) as project:
        memory = Memory(id="", content=body, **settings | fields)
        return project.store.memories.insert_unchecked(memory, ChangeInfo(who="ralph", why="extracted")).id


def loop_state(**fields: object) -> str:
    iterations = [
        {"number": n, "status": "completed", "duration": 60_000, "learnings": ["Wrote the failing tests first (TDD)"]}
        for n in range(1, 6)
    ]
    return json.dumps({"loopId": "loop-7", "objective": "Fix the tests", "iterations": iterations} | fields)


# --- extract ---------------------------------------------------------------------------------


def test_learnings_are_extracted_from_the_state_of_a_loop(here: Path, ralph: Ralph) -> None:
    (here / "state.json").write_text(loop_state())

    first = ralph("extract", "--state", str(here / "state.json"))
    second = ralph("extract", "--state", "-", given=loop_state())

    assert first.code == second.code == 0, first.err
    assert "learnings (0 already known).\nThey are staged." in first.out
    count = int(first.out.split("extracted ")[1].split()[0])
    assert second.out == f"standard input: extracted {count} learnings ({count} already known).\n"
    assert len(ralph("list", "--format", "json").json) == count
    assert ralph("list", "--format", "json", noun="memory").json == []


def test_what_is_extracted_can_be_kept_at_once(here: Path, ralph: Ralph) -> None:
    told = ralph("extract", "--state", "-", "--promote", "--format", "json", given=loop_state()).json

    assert told["source"] == "standard input"
    assert told["extracted"] == told["promoted"] + told["rejected"] + told["waiting"]
    assert told["promoted"] > 0
    listed = ralph("list", "--format", "json", noun="memory").json
    figures = ralph("list", "--type", "estimate", "--format", "json", noun="memory").json
    assert len(listed) + len(figures) == told["promoted"]
    assert len(figures) == 1


def test_the_latest_run_is_learned_from_unless_another_is_named(here: Path, ralph: Ralph) -> None:
    nothing = ralph("extract")
    with Project.open(here) as project:
        project.tasks.add("Fix the tests")
    agent = 'echo "<journal>Wrote the failing tests first</journal><task-done>$RALPH_TASK_ID</task-done>"'
    main(["-C", str(here), "run", "--", "sh", "-c", agent])

    ran, told = ralph("extract"), ralph("extract", "--format", "json").json
    named = ralph("extract", "--run", told["source"])

    assert nothing.code == 1
    assert nothing.error == "no-run"
    assert ran.code == named.code == 0
    assert told["source"].startswith("run-")
    assert ralph("extract", "--run", "run-nobody").code == 1


def test_a_handover_is_learned_from(ralph: Ralph) -> None:
    said = "The entry point is in `src/app/main.py`, which calls the router in `src/app/routes.py` for every request."

    ran = ralph("extract", "--from", "explorer", "--to", "planner", "-", given=said)
    again = ralph("extract", "--from", "explorer", "--to", "planner", "--format", "json", given=said).json

    assert ran.code == 0, ran.err
    assert "Found 1 memory (0 already known)." in ran.out
    assert [one["type"] for one in again] == ["architecture"]
    assert again[0]["what"] != "added"


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("extract", "--from", "explorer"), "invalid-usage"),
        (("extract", "--run", "run-1", "--state", "-"), "invalid-usage"),
        (("extract", "notes.md"), "invalid-usage"),
        (("extract", "--state", "no-such-file"), "invalid-usage"),
        (("extract", "--state", "-"), "unreadable-state"),
        (("review",), "no-terminal"),
        (("clear",), "no-terminal"),
    ],
)
def test_wrong_usage_is_one_sentence_and_exit_code_2(ralph: Ralph, words: tuple[str, ...], error: str) -> None:
    ran = ralph(*words)

    assert (ran.code, ran.error) == (2, error)
    assert ran.err.count("\n") == 1


def test_what_a_run_taught_adds_up() -> None:
    counts = {"extracted": 3, "merged": 2, "validated": 2, "rejected": 0, "waiting": 1, "promoted": 1}

    lines = [line for _, line in format_event(progress_event("extracted", **counts))]

    assert lines == [
        "Extracted 3 learnings (1 new, 2 already known).",
        "Validated learnings: 1 promoted, 1 to review (ralph learn review), 1 waiting for more data.",
    ]


# --- list, validate, promote -----------------------------------------------------------------


def test_learnings_are_listed_by_status(here: Path, ralph: Ralph) -> None:
    assert "No learnings are waiting." in ralph("list").out
    pending = stage(here, "Pending one")
    validated = stage(here, "Validated one", validated_at=now())
    rejected = stage(here, "Rejected one", state=MemoryState.REJECTED, state_reason="too vague")
    held = stage(here, "From the web", state=MemoryState.QUARANTINED, state_reason="brought in by an agent")

    def listed(*words: str) -> list[str]:
        return [one["id"] for one in ralph("list", *words, "--format", "json").json]

    assert listed() == [pending, validated, held]
    assert listed("--status", "pending") == [pending]
    assert listed("--status", "validated") == [validated]
    assert listed("--status", "rejected") == [rejected]
    assert listed("--status", "quarantined") == [held]
    assert listed("--status", "all") == [pending, validated, rejected, held]
    table = ralph("list", "--status", "rejected").out.splitlines()
    assert table[0].split() == ["ID", "STATUS", "TYPE", "CONF", "TIMES", "LEARNING"]
    assert table[2] == "  reason: too vague"


def test_a_task_shows_what_tasks_of_its_type_took_and_memories_do_not(here: Path, ralph: Ralph) -> None:
    for complexity, iterations, confidence in (("low", 2, 0.4), ("low", 3, 0.6), ("medium", 4, 0.9)):
        stage(
            here,
            f"{complexity} {confidence}",
            kind="estimate",
            task_type="refactor",
            structured_content=json.dumps(
                {"complexity": complexity, "totalIterations": iterations, "avgIterationTime": 60_000}
            ),
            confidence=confidence,
            state=MemoryState.ACTIVE,
        )
    with Project.open(here) as project:
        task = project.tasks.add("Refactor the parser").id
        other = project.tasks.add("Write the guide").id
        easy = project.stats.estimate("Refactor the lexer", difficulty="easy")

        assert easy is not None
        assert (easy.attempts, easy.seconds, easy.is_imported) == (3, 180, True)
        assert "- Tasks like this took 4 attempts, 4 min (imported, 1 loop)" in project.prompts.preview(task).text
    assert "  Tasks like this took: 4 attempts, 4 min (imported, 1 loop)\n" in ralph("show", task, noun="task").out
    assert "took" not in ralph("show", other, noun="task").out
    assert "Estimate" not in ralph("list", noun="memory").out
    assert len(ralph("list", "--type", "estimate", "--format", "json", noun="memory").json) == 3


def test_an_estimate_that_waits_says_what_for(here: Path, ralph: Ralph) -> None:
    content = '{"factor": "x", "recommendedIterations": 3, "averageTimePerIteration": 60, "sampleSize": 1}'
    stage(
        here, "Tests take 3 iterations", kind="estimate", structured_content=content, task_type="bugfix", confidence=0.2
    )

    assert "needs more iterations" in ralph("list").out


def test_learnings_are_checked_and_promoted(here: Path, ralph: Ralph) -> None:
    good = stage(here, "Good one")
    weak = stage(
        here, "Weak one", kind="strategy", structured_content='{"approach": "x"}', task_type="general", confidence=0.1
    )

    early = ralph("promote")
    checked = ralph("validate")
    promoted = ralph("promote", "--format", "json")

    assert early.out == "0 learnings promoted, 2 left in the staging area.\n"
    assert checked.out.startswith("1 validated, 1 rejected, 0 waiting for more data.\n")
    assert promoted.json == {"promoted": 1, "left": 0}
    assert [one["id"] for one in ralph("list", "--format", "json", noun="memory").json] == [good]
    assert ralph("list", "--status", "rejected", "--format", "json").json[0]["id"] == weak
    assert ralph("validate", "--format", "json").json == {"validated": 0, "rejected": 0, "waiting": 0}


def test_only_the_named_are_promoted(here: Path, ralph: Ralph) -> None:
    first, second = stage(here, "First"), stage(here, "Second")

    ran = ralph("promote", second, "--validate")

    assert ran.out == "1 learning promoted, 1 left in the staging area.\n"
    assert [one["id"] for one in ralph("list", "--format", "json").json] == [first]
    assert ralph("promote", second).code == 1
    assert ralph("promote", "mem-1-aaaa").error == "memory-not-found"


# --- review and clear ------------------------------------------------------------------------


def test_a_person_reviews_one_by_one(here: Path, ralph: Ralph) -> None:
    bodies = ("Keep me", "Reject me", "Skip me", "Change me", "Not reached")
    kept, rejected, skipped, changed, left = (stage(here, body, origin_task="t-1") for body in bodies)

    code, seen = at_terminal(
        here,
        "learn",
        "review",
        typed=[
            (QUESTION, "what?\n"),
            (QUESTION, "y\n"),
            (QUESTION, "n\n"),
            ("Reason", "Too Vague\n"),
            (QUESTION, "s\n"),
            (QUESTION, "e\n"),
            ("New text on one line", "Changed by Hand\n"),
            (QUESTION, "q\n"),
        ],
        environment={"VISUAL": "", "EDITOR": "", "NO_COLOR": "1"},
    )

    assert code == 0, seen
    assert "1/5  " in seen
    assert "  n  reject it, optionally with a reason\n" in seen
    assert "From: learned from a run, task t-1" in seen
    assert "2 kept, 1 rejected, 2 left." in seen
    active = {one["id"]: one["content"] for one in ralph("list", "--format", "json", noun="memory").json}
    assert active == {kept: "Keep me", changed: "Changed by Hand"}
    no = ralph("list", "--status", "rejected", "--format", "json").json
    assert [(one["id"], one["state_reason"]) for one in no] == [(rejected, "Too Vague")]
    assert [one["id"] for one in ralph("list", "--format", "json").json] == [skipped, left]


def test_a_review_uses_the_editor_and_ends_with_the_input(here: Path, ralph: Ralph) -> None:
    id = stage(here, "Tabs are fine")
    stage(here, "Another")

    code, seen = at_terminal(
        here,
        "learn",
        "review",
        typed=[(QUESTION, "e\n"), (QUESTION, "\x04")],
        environment={"EDITOR": "sed -i s/fine/forbidden/", "VISUAL": ""},
    )

    assert code == 0, seen
    assert "1 kept, 0 rejected, 1 left." in seen
    assert ralph("show", id, "--format", "json", noun="memory").json["content"] == "Tabs are forbidden"


def test_a_review_with_nothing_to_decide_says_so(here: Path) -> None:
    code, seen = at_terminal(here, "learn", "review")

    assert (code, seen) == (0, "No learnings are waiting for a decision.\n")


def test_the_staging_area_is_cleared_and_can_be_brought_back(here: Path, ralph: Ralph) -> None:
    id = stage(here, "One")

    no, _ = at_terminal(here, "learn", "clear", typed=[("[y/N] ", "n\n")])
    ran = ralph("clear", "--yes")
    again = ralph("clear", "--yes")
    ralph("undo", ran.out.split()[-1], noun="memory")

    assert no == 1
    assert ran.out.startswith("1 learning removed from the staging area. To undo: ralph memory undo chg-")
    assert again.out == "The staging area is already empty.\n"
    assert [one["id"] for one in ralph("list", "--format", "json").json] == [id]
