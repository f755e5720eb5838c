"""What a run teaches without being told: fixes, habits, strategies, antipatterns, estimates, conventions."""

from __future__ import annotations

import json

import pytest

from ralph.core.config import Config, ExecutionConfig, MemoriesConfig
from ralph.core.errors import UsageError
from ralph.core.records import AgentReply, Memory, MemoryState, replace
from ralph.loop.options import RunOptions
from ralph.loop.progress import ProgressEvent
from ralph.loop.run import Loop
from ralph.project import Project
from ralph.store.memories import ChangeInfo
from tests.make import ScriptedAgent, a_memory, damaged_rows, remember

DONE = "<task-done>TASK</task-done>"
FAILED = "<task-failed>TASK</task-failed>"


def run(
    project: Project, agent: ScriptedAgent, *, gates: tuple[str, ...] = (), review: bool = False
) -> list[ProgressEvent]:
    events: list[ProgressEvent] = []
    config = replace(
        Config(), execution=replace(ExecutionConfig(), gates=gates), memories=replace(MemoriesConfig(), review=review)
    )
    Loop(
        store=project.store,
        agent=agent,
        config=config,
        directory=project.root,
        run_options=RunOptions(iterations=20),
        emit=events.append,
    ).run_loop()
    return events


def of_kind(project: Project, kind: str) -> list[Memory]:
    return [memory for memory in project.store.memories.all() if memory.kind == kind]


def done(notes: str = "", files: tuple[str, ...] = ()) -> AgentReply:
    return AgentReply(text=f"<journal>{notes}</journal>\n{DONE}", seconds=2.0, files=files)


# --- gates, completion, hand-over (I3) -----------------------------------------------


def test_a_gate_that_passes_after_failing_leaves_a_fix_with_problem_and_change(project: Project) -> None:
    project.tasks.add("Write the greeting")
    flag = project.root / "flag"

    def second(prompt: str, session: object) -> str:
        flag.write_text("x")
        return f"<journal>Created the flag file in config/flags.toml first.</journal>{DONE}"

    run(project, ScriptedAgent(DONE, second), gates=("test -e flag || { echo 'FlagError: no flag'; exit 1; }",))

    (fix,) = of_kind(project, "fix")
    assert "**Problem:**" in fix.content
    assert "FlagError: no flag" in fix.content
    assert "**Fix:** Created the flag file" in fix.content
    assert "quality-gate" in fix.tags
    assert fix.confidence == 0.7
    assert fix.origin_task


def test_a_gate_that_passes_at_once_leaves_no_fix(project: Project) -> None:
    project.tasks.add("Write the greeting")

    run(project, ScriptedAgent(done("All fine.")), gates=("true",))

    assert of_kind(project, "fix") == []


def test_the_notes_of_a_done_attempt_tell_of_the_project(project: Project) -> None:
    project.tasks.add("Add an endpoint")
    notes = "I looked around first. All API handlers live in internal/api/, one file per resource. Let me go on."

    run(project, ScriptedAgent(done(notes)))

    learned = [memory for memory in project.store.memories.all() if "internal/api/" in memory.content]
    assert [memory.kind for memory in learned] in (["pattern"], ["convention"])
    assert not any("looked around" in memory.content for memory in project.store.memories.all())


def test_a_hand_over_between_roles_keeps_what_was_found(project: Project) -> None:
    text = (
        "- The API handlers are organised in internal/api/, with one file per resource.\n"
        "- Uses testify for assertions instead of the standard testing package.\n"
        "- Next I will look at the tests.\n"
    )

    kept = project.learnings.extract_handover("explorer", "planner", text)

    assert {one.memory.kind for one in kept} == {"architecture", "dependency"}
    assert all(one.memory.source == "automatic" for one in kept)


# --- echoes --------------------------------------------------------------------------


def test_what_the_prompt_told_is_not_learned_when_an_agent_says_it_again(project: Project) -> None:
    known = remember(
        project.store, a_memory("Parser tabs", "The parser wants tabs in every grammar file.", tags=("parser",))
    )
    project.tasks.add("Fix the parser")

    events = run(project, ScriptedAgent(f"MEMORY:pattern:The parser wants tabs in every grammar file.\n{DONE}"))

    assert of_kind(project, "pattern") == []
    assert project.store.memories.get(known.id).support == 1
    ignored = [event.details["problem"] for event in events if event.what == "ignored"]
    assert any("repeated from the prompt" in str(problem) for problem in ignored)


def test_what_is_new_beside_it_is_learned(project: Project) -> None:
    remember(project.store, a_memory("Parser tabs", "The parser wants tabs in every grammar file.", tags=("parser",)))
    project.tasks.add("Fix the parser")

    run(project, ScriptedAgent(f"MEMORY:pitfall:The lexer drops a trailing newline in grammar files.\n{DONE}"))

    assert [memory.kind for memory in of_kind(project, "pitfall")] == ["pitfall"]


# --- the end of a run (H4, H5) ---------------------------------------------------------


def test_a_finished_run_is_extracted_validated_and_promoted_by_itself(project: Project) -> None:
    for n in range(6):
        project.tasks.add(f"Fix failing test {n}")
    agent = ScriptedAgent(done("Write tests first, then the code.", ("src/app/core.py", "tests/test_core.py")))

    events = run(project, agent)

    (strategy,) = of_kind(project, "strategy")
    content = json.loads(strategy.structured_content)
    assert strategy.task_type == "test-fix"
    assert content["effectiveness"] == 1
    assert content["iterations"] == 6
    assert strategy.confidence == 0.9
    (estimate,) = of_kind(project, "estimate")
    assert json.loads(estimate.structured_content)["totalIterations"] == 1  # for one task of six
    assert of_kind(project, "convention")
    assert [event.what for event in events].count("extracted") == 1
    told = project.prompts.preview(
        project.tasks.add("Fix failing test: estimate the test-driven development approach").id
    ).text
    assert "## Knowledge Base (from previous loops)\n\n## Proven Strategies\n\n- " in told
    assert "(effectiveness: 100%)" in told


def test_the_same_error_twice_is_an_antipattern_and_once_is_none(project: Project) -> None:
    project.tasks.add("Implement the importer")
    report = (
        "<failure-report>\nwhat_tried: x\nwhy_failed: ModuleNotFoundError: cannot find module foo\n</failure-report>"
    )

    run(project, ScriptedAgent(f"{report}{FAILED}", f"{report}{FAILED}", DONE))

    (antipattern,) = of_kind(project, "antipattern")
    assert json.loads(antipattern.structured_content)["occurrences"] == 2
    assert antipattern.success_rate == 0


def test_with_review_what_is_extracted_waits_for_a_person(project: Project) -> None:
    for n in range(3):
        project.tasks.add(f"Fix failing test {n}")

    run(project, ScriptedAgent(done("Write tests first.")), review=True)

    waiting = project.learnings.list()
    assert waiting
    assert of_kind(project, "strategy") == []
    accepted = project.learnings.accept(waiting[0].id).memory
    rejected = project.learnings.reject(waiting[1].id, "not true here").memory
    assert accepted.state is MemoryState.ACTIVE
    assert (rejected.state, rejected.state_reason) == (MemoryState.REJECTED, "not true here")


def test_an_estimate_of_one_iteration_waits_for_more_instead_of_being_rejected(project: Project) -> None:
    project.tasks.add("Refactor the parser")
    run(project, ScriptedAgent(done()))
    first = [(memory.kind, memory.state) for memory in project.learnings.list()]

    project.tasks.add("Refactor the lexer")
    run(project, ScriptedAgent(done()))

    assert first == [("estimate", MemoryState.STAGED)]
    (estimate,) = of_kind(project, "estimate")
    assert len(estimate.origin_loops) == 2


def test_extracting_a_run_again_changes_nothing(project: Project) -> None:
    for n in range(3):
        project.tasks.add(f"Fix failing test {n}")
    run(project, ScriptedAgent(done("Write tests first.")))
    before = project.store.memories.history.last_event_seq()

    _, counts = project.learnings.extract()

    assert counts.extracted == counts.merged > 0
    assert project.store.memories.history.last_event_seq() == before


STATE = {
    "loopId": "ralph-001",
    "objective": "Fix failing authentication tests",
    "status": "completed",
    "currentIteration": 3,
    "iterations": [
        {
            "number": n,
            "status": "completed",
            "duration": 42000,
            "analysis": {"progressMade": True},
            "learnings": ["Write tests first"],
            "filesModified": ["src/auth/login.ts", "test/auth/login.test.ts"],
        }
        for n in (1, 2, 3)
    ],
}


def test_a_loop_state_of_another_program_can_be_learned_from(project: Project) -> None:
    counts = project.learnings.extract_state(json.dumps(STATE), "state.json")
    checked = project.learnings.validate()
    promoted, _ = project.learnings.promote()

    assert counts.extracted >= 3
    assert (checked.rejected, promoted.promoted) == (0, checked.validated)
    assert {memory.origin_loops for memory in project.store.memories.all()} == {("ralph-001",)}


@pytest.mark.parametrize("text", ["", "not json", "{}", "[1, 2]", '{"iterations": 5}'])
def test_what_is_no_loop_state_is_one_sentence(project: Project, text: str) -> None:
    with pytest.raises(UsageError, check=lambda error: error.code == "unreadable-state"):
        project.learnings.extract_state(text, "state.json")


def test_more_than_200_memories_are_consolidated_at_the_end_of_a_run(project: Project) -> None:
    for n in range(190):
        body = f"The loader of module number{n} waits for the plugin host before it reads the settings"
        remember(project.store, a_memory(f"One {n}", body, kind="pattern"))
        if n < 20:  # as another program would add it, without a look at what is known
            double = a_memory(f"Two {n}", f"{body} again", kind="pattern")
            project.store.memories.insert_unchecked(double, ChangeInfo(who="t", why="t"))
    for n in range(10):
        project.tasks.add(f"Something {n}")

    events = run(project, ScriptedAgent(DONE))

    assert [event.what for event in events].count("consolidated") == 1
    assert project.store.memories.stats.count(MemoryState.SUPERSEDED) == 20


def test_what_was_shown_gains_by_a_done_attempt_and_loses_by_a_failed_one(project: Project) -> None:
    known = remember(project.store, a_memory("Parser tabs", "The parser wants tabs.", tags=("parser",), confidence=0.6))
    project.tasks.add("Fix the parser")

    run(project, ScriptedAgent("nothing", DONE))

    after = project.store.memories.get(known.id)
    assert (after.uses, after.wins, after.losses, after.success_rate) == (2, 1, 1, 0.5)
    # Of nothing that ended before, a failure takes as much as a success gives; after one failure it takes less.
    assert after.confidence == 0.6
    assert after.used_at
    assert damaged_rows(project.store) == []


def test_learnings_nothing_has_spoken_for_in_months_are_retired_softly(project: Project) -> None:
    old = "2020-01-01T00:00:00.000Z"
    learned = remember(project.store, a_memory("Old", "An old habit.", kind="tool_usage", created_at=old))
    stated = remember(project.store, a_memory("Stated", "A stated rule.", kind="convention", created_at=old))
    for n in range(10):
        remember(project.store, a_memory(f"New {n}", f"New fact {n}.", kind="pattern"))
    project.tasks.add("Anything")

    run(project, ScriptedAgent(DONE))

    assert project.store.memories.get(learned.id).state is MemoryState.PRUNED
    assert project.store.memories.get(stated.id).state is MemoryState.ACTIVE


def test_what_a_run_learns_twice_is_one_memory(project: Project) -> None:
    project.tasks.add("Add an endpoint")
    project.tasks.add("Add another endpoint")
    first = done("Run migrations before the integration tests, otherwise the `events` table is missing.")
    second = done("Before running integration tests, run the migrations; otherwise the `events` table is missing.")

    run(project, ScriptedAgent(first, second))

    (learned,) = [one for one in project.store.memories.all() if "migrations" in one.content.lower()]
    assert learned.support == 2


def test_near_duplicates_that_are_suspiciously_many_are_left_with_a_word(project: Project) -> None:
    for n in range(210):
        double = a_memory(
            f"Rule {n % 70}", f"Service{chr(97 + n % 70)} retries failed uploads number{n % 70}", kind="fix"
        )
        project.store.memories.insert_unchecked(double, ChangeInfo(who="t", why="t"))
    for n in range(10):
        project.tasks.add(f"Something {n}")

    events = run(project, ScriptedAgent(DONE))

    (event,) = [event for event in events if event.what == "consolidated"]
    assert (event.details["superseded"], event.details["left"]) == (0, 140)
