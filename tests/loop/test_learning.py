"""What a run teaches without being told: fixes, habits, strategies, antipatterns, conventions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ralph.core.config import AgentConfig, Config, ExecutionConfig, HatsConfig, MemoriesConfig
from ralph.core.errors import UsageError
from ralph.core.records import AgentReply, Memory, MemoryState, SessionEnding, replace
from ralph.loop.options import RunOptions
from ralph.loop.progress import ProgressEvent
from ralph.loop.run import Loop
from ralph.memory.lifecycle.staging import pending_reason
from ralph.project import Project
from ralph.store.memories import ChangeInfo
from ralph.store.memory_queries import MemoryFilter
from tests.make import ScriptedAgent, a_memory, damaged_rows, remember, set_up_project

DONE = "<task-done>TASK</task-done>"
FAILED = "<task-failed>TASK</task-failed>"


def run(
    project: Project,
    agent: ScriptedAgent,
    *,
    gates: tuple[str, ...] = (),
    review: bool = False,
    hats: tuple[str, ...] = ("creator",),
) -> list[ProgressEvent]:
    events: list[ProgressEvent] = []
    config = replace(
        Config(),
        execution=replace(ExecutionConfig(), gates=gates),
        hats=replace(HatsConfig(), order=hats),
        agent=replace(AgentConfig(), outage_seconds=0),
        memories=replace(MemoriesConfig(), review=review),
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


def test_the_memory_files_that_ralph_writes_are_no_work_of_a_session(project: Project) -> None:
    project.tasks.add("Add an endpoint")
    files = (".agent/memories.md", ".ralph/knowledge/tabs.md", "api.py")

    run(project, ScriptedAgent(AgentReply(text=FAILED, files=files), done("Added it.", files)))

    done_, failed = project.store.attempts.latest(2)
    assert done_.files == failed.files == ("api.py",)
    (report,) = project.store.failures.latest(1)
    assert report.files == ("api.py",)


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


@pytest.mark.parametrize(
    "said",
    [
        "As noted in memory: Grammar files must use tabs, because the parser rejects spaces.",
        "Tabs are required in grammar files because the parser rejects spaces.",
    ],
)
@pytest.mark.parametrize("sigil", ["<journal>{}</journal>", "MEMORY:pattern:{}", "{}\n"])
def test_who_was_told_something_does_not_confirm_it_by_saying_it_in_other_words(
    project: Project, said: str, sigil: str
) -> None:
    text = "Grammar files must use tabs, because the parser rejects spaces."
    known = remember(project.store, a_memory("Parser tabs", text, kind="constraint", tags=("parser",)))
    project.tasks.add("Fix the grammar of the parser")

    run(project, ScriptedAgent(f"{sigil.format(said)}\n{DONE}"))

    (memory,) = project.store.memories.all()
    assert (memory.id, memory.content, memory.support) == (known.id, text, 1)


def test_who_was_not_told_confirms_it(project: Project) -> None:
    text = "Grammar files must use tabs, because the parser rejects spaces."
    known = remember(project.store, a_memory("Parser tabs", text, kind="constraint"))
    project.tasks.add("Translate the welcome mail")

    run(project, ScriptedAgent(done("Tabs are required in grammar files because the parser rejects spaces.")))

    assert project.store.memories.get(known.id).support == 2


def test_what_is_new_beside_it_is_learned(project: Project) -> None:
    remember(project.store, a_memory("Parser tabs", "The parser wants tabs in every grammar file.", tags=("parser",)))
    project.tasks.add("Fix the parser")

    run(project, ScriptedAgent(f"MEMORY:pitfall:The lexer drops a trailing newline in grammar files.\n{DONE}"))

    assert [memory.kind for memory in of_kind(project, "pitfall")] == ["pitfall"]


# --- the end of a run (H4, H5) ---------------------------------------------------------


def test_a_finished_run_is_extracted_validated_and_promoted_by_itself(project: Project) -> None:
    for n in range(6):
        project.tasks.add(f"Fix failing test {n}")
    tests = tuple(f"tests/test_{name}.py" for name in ("core", "cart", "api"))
    agent = ScriptedAgent(done("Write tests first, then the code.", ("src/app/core.py", *tests)))

    events = run(project, agent)

    (strategy,) = of_kind(project, "strategy")
    content = json.loads(strategy.structured_content)
    assert strategy.task_type == "test-fix"
    assert content["effectiveness"] == 1
    assert content["iterations"] == 6
    assert round(strategy.confidence, 2) == 0.61  # the bound on six of six, not 0.9
    assert of_kind(project, "estimate") == []  # figures are no memories
    (convention,) = of_kind(project, "convention")
    assert "Tests are in tests/ as test_*.py. 3 files, no exception." in convention.content
    assert [event.what for event in events].count("extracted") == 1
    told = project.prompts.preview(project.tasks.add("Fix failing test: test-driven development approach").id).text
    assert "## Knowledge Base (from previous loops)\n\n## Proven Strategies\n\n- " in told
    assert "(effectiveness: 100%)" in told


def a_failure(why: str) -> str:
    return f"<failure-report>\nwhat_tried: x\nwhy_failed: {why}\n</failure-report>{FAILED}"


def test_the_same_error_twice_is_an_antipattern_and_once_is_none(project: Project) -> None:
    project.tasks.add("Implement the importer")
    failure = a_failure("ModuleNotFoundError: cannot find module foo")

    run(project, ScriptedAgent(failure, failure, a_failure("SyntaxError: invalid syntax"), DONE))

    (antipattern,) = of_kind(project, "antipattern")
    assert antipattern.title == "Avoid: ModuleNotFoundError: cannot find module foo"
    assert json.loads(antipattern.structured_content)["occurrences"] == 2
    assert antipattern.success_rate == 0
    assert round(antipattern.confidence, 2) == 0.44  # two occurrences, and a task that was done without it


def failures_of_two_tasks(project: Project, *reasons: str) -> list[str]:
    """Return the antipatterns after two tasks have failed for a reason each, and were done."""
    replies = []
    for title, reason in zip("AB", reasons, strict=True):
        project.tasks.add(title)
        replies.append(a_failure(reason))
    run(project, ScriptedAgent(*replies, done()))
    return [memory.content for memory in of_kind(project, "antipattern")]


def test_the_same_error_at_another_time_and_place_is_one_antipattern(project: Project) -> None:
    (learned,) = failures_of_two_tasks(
        project,
        "ModuleNotFoundError: No module named 'yaml' at /home/a/x.py:12 2026-01-01T10:00:00Z",
        "/srv/b/y.py:7: ModuleNotFoundError: No module named 'yaml' (took 3.2s)",
    )

    assert "Avoid: ModuleNotFoundError: No module named 'yaml'. " in learned
    assert "Seen 2 times in 2 tasks" in learned


@pytest.mark.parametrize(
    "reasons",
    [
        ("FileNotFoundError: No such file: 'data/a.csv'", "FileNotFoundError: No such file: 'data/b.csv'"),
        ("Not logged in. Please run /login", "Not logged in. Please run /login"),
    ],
)
def test_other_errors_and_those_of_the_service_are_none(project: Project, reasons: tuple[str, str]) -> None:
    assert failures_of_two_tasks(project, *reasons) == []


@pytest.mark.parametrize(
    "error",
    ["test_sync[1] failed", "FAILED tests/test_sync.py::test_sync[1] - assert 3 == 4", "AssertionError: 3 != 4"],
)
def test_a_flaky_test_that_fails_in_two_tasks_is_no_lesson(project: Project, error: str) -> None:
    assert failures_of_two_tasks(project, error, error) == []

    (waiting,) = project.learnings.list()
    assert waiting.state is MemoryState.STAGED
    assert "review" in pending_reason(waiting)
    project.learnings.accept(waiting.id)  # a person may know better
    assert of_kind(project, "antipattern")


def test_missing_files_are_no_network_failure(project: Project) -> None:
    for title in ("Implement the importer", "Implement the exporter"):
        project.tasks.add(title)
    failure = a_failure("FileNotFoundError: [Errno 2] No such file or directory: 'rates.csv'")

    run(project, ScriptedAgent(failure, DONE, failure, DONE))

    (antipattern,) = of_kind(project, "antipattern")
    assert "rates.csv" in antipattern.title
    assert "network" not in antipattern.content.lower()


@pytest.mark.parametrize(
    "answer",
    [
        AgentReply(text="", ending=SessionEnding.CRASHED, detail="claude exited with 1: Not logged in"),
        AgentReply(text="", ending=SessionEnding.MODEL_FAILED, detail="API Error: 401 Invalid credentials"),
        AgentReply(text="", ending=SessionEnding.MODEL_FAILED, detail="Credit balance is too low"),
        AgentReply(text="", ending=SessionEnding.WENT_SILENT, detail="the agent printed nothing for 300 s"),
        AgentReply(text="I looked around."),
        AgentReply(text="", ending=SessionEnding.REFUSED, detail="the agent was refused by the model"),
        AgentReply(text="", ending=SessionEnding.FLOODED, detail="the agent printed more than 64 MB"),
    ],
)
def test_failures_of_agents_and_services_are_counted_and_teach_nothing(project: Project, answer: AgentReply) -> None:
    for title in ("Implement the importer", "Implement the exporter"):
        project.tasks.add(title)

    for _ in range(3):  # what waiting cannot mend ends a run at once
        run(project, ScriptedAgent(answer, answer, DONE, answer, DONE))

    assert of_kind(project, "antipattern") == []
    assert project.learnings.list() == []
    (counted,) = project.stats.failures()
    assert (counted.cause, counted.attempts, counted.tasks) in (
        ("agent", 3, 2),
        ("agent", 3, 1),
        ("service", 3, 2),
        ("service", 3, 1),
    )


def test_a_word_in_the_journal_is_no_strategy(project: Project) -> None:
    for n in range(3):
        project.tasks.add(f"Fix failing test {n}")

    run(project, ScriptedAgent(done("ok")))

    assert of_kind(project, "strategy") == []
    assert project.learnings.list() == []


def test_one_task_stages_a_strategy_and_a_second_one_promotes_it(project: Project) -> None:
    project.tasks.add("Refactor the parser")
    run(project, ScriptedAgent(done("Write tests first.")))
    (waiting,) = project.learnings.list()

    project.tasks.add("Refactor the lexer")
    run(project, ScriptedAgent(done("Write tests first.")))

    assert (waiting.kind, waiting.state, round(waiting.confidence, 2)) == ("strategy", MemoryState.STAGED, 0.21)
    (strategy,) = of_kind(project, "strategy")
    assert (strategy.id, round(strategy.confidence, 2)) == (waiting.id, 0.34)
    assert len(strategy.origin_loops) == 2


def test_a_strategy_that_turned_a_failure_into_a_success_needs_no_second_task(project: Project) -> None:
    project.tasks.add("Refactor the parser")

    run(project, ScriptedAgent(a_failure("AssertionError: 1 != 2"), done("Write tests first.")))

    (strategy,) = of_kind(project, "strategy")
    assert json.loads(strategy.structured_content)["turned"] == 1
    assert round(strategy.confidence, 2) == 0.34


def test_with_hats_a_run_teaches_conventions_and_strategies_of_all_its_iterations(project: Project) -> None:
    for name in ("cart", "api", "cli"):
        project.tasks.add(f"Fix failing test of the {name}")
    files = tuple(f"tests/test_{name}.py" for name in ("cart", "api", "cli"))
    creator = AgentReply(text=f"<journal>Write tests first.</journal>{DONE}", seconds=2.0, files=files)
    critic = AgentReply(text=DONE, seconds=1.0, files=())

    run(project, ScriptedAgent(*[creator, critic] * 3), hats=("creator", "critic"))

    (strategy,) = of_kind(project, "strategy")
    assert json.loads(strategy.structured_content)["tasks"] == 3
    assert [one.title for one in of_kind(project, "convention")] == ["Tests are in tests/ as test_*.py"]
    (estimate,) = project.stats.estimates()
    assert (estimate.task_type, estimate.tasks, estimate.attempts, estimate.seconds) == ("test-fix", 3, 2, 3.0)


def test_estimates_are_exported_with_learnings_and_figures_where_they_are_imported(
    project: Project, tmp_path: Path
) -> None:
    for n in range(3):
        project.tasks.add(f"Fix failing test {n}")
    run(project, ScriptedAgent(a_failure("AssertionError: 1 != 2"), done(), done(), done()))
    exported = "".join(
        piece for _, pieces in project.transfer.export("learnings", MemoryFilter()).files for piece in pieces
    )
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    set_up_project(elsewhere)

    here = project.transfer.import_text(exported, "ralph-learnings.json")
    with Project.open(elsewhere) as other:
        there = other.transfer.import_text(exported, "ralph-learnings.json")
        again = other.transfer.import_text(exported, "ralph-learnings.json")
        listed = other.memory.list(MemoryFilter(kinds=("estimate",)))
        told = other.sessions.start_context("s-1").text
        prompt = other.prompts.preview(other.tasks.add("Fix failing login test").id).text

        assert (here.new, here.known) == (0, len(listed))
        assert (there.new, again.new, again.known) == (len(listed), 0, len(listed))
        assert {one.origin_loops for one in listed} == {(project.store.runs.latest(1)[0].id,)}
        assert other.memory.list() == []
        assert "stimate" not in told
        assert "- Tasks like this took 1.3 attempts" in prompt


def test_with_review_what_is_extracted_waits_for_a_person(project: Project) -> None:
    for n in range(3):
        project.tasks.add(f"Fix failing test {n}")

    tests = tuple(f"tests/test_{n}.py" for n in range(3))
    run(project, ScriptedAgent(done("Write tests first.", tests)), review=True)

    waiting = project.learnings.list()
    assert len(waiting) == 2
    assert of_kind(project, "strategy") == []
    accepted = project.learnings.accept(waiting[0].id).memory
    rejected = project.learnings.reject(waiting[1].id, "not true here").memory
    assert accepted.state is MemoryState.ACTIVE
    assert (rejected.state, rejected.state_reason) == (MemoryState.REJECTED, "not true here")


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

    assert counts.extracted == 2  # a strategy and an estimate
    assert (checked.rejected, promoted.promoted) == (0, checked.validated)
    assert {memory.origin_loops for memory in project.store.memories.all()} == {("ralph-001",)}
    assert of_kind(project, "estimate") == []  # kept as a figure
    figure = project.stats.estimate("Fix failing login tests")
    assert figure is not None
    assert (figure.attempts, figure.seconds, figure.is_imported) == (3, 126, True)


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

    events = run(project, ScriptedAgent(DONE))

    assert [event.details for event in events if event.what == "retired"] == [{"count": 1, "left": 0}]
    assert "consolidated" not in {event.what for event in events}
    assert project.store.memories.get(learned.id).state is MemoryState.PRUNED
    assert project.store.memories.get(stated.id).state is MemoryState.ACTIVE


def test_old_learnings_that_are_suspiciously_many_are_left_with_a_word(project: Project) -> None:
    old = "2020-01-01T00:00:00.000Z"
    for n in range(8):
        remember(project.store, a_memory(f"Old {n}", f"Old habit {n}.", kind="tool_usage", created_at=old))
    project.tasks.add("Anything")

    events = run(project, ScriptedAgent(DONE))

    assert [event.details for event in events if event.what == "retired"] == [{"count": 0, "left": 8}]
    assert len(of_kind(project, "tool_usage")) == 8


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
