"""What an attempt is told, through the same surface that prompts and `ralph prompt` use."""

from __future__ import annotations

import pytest

from ralph.core.config import Config, ExecutionConfig, FilterConfig, MemoriesConfig, PromptConfig
from ralph.core.records import AttemptOutcome, Difficulty, Prompt, PromptContext, TaskMetrics, TaskStatus, replace
from ralph.loop.prepare import prepare_attempt
from ralph.memory.recall.gather import gather_context
from ralph.project import Project
from ralph.store import Store
from ralph.store.tasks import TaskDraft
from tests.make import a_memory, a_report, begin, finish, remember


def journal(store: Store, count: int, notes: str, task: str = "Something else") -> str:
    """Make a run of so many failed attempts with the same notes; give its id."""
    if task not in [one.title for one in store.tasks.all()]:
        store.tasks.add(TaskDraft(title=task))
    run = store.runs.start("test")
    for n in range(count):
        finish(store, *begin(store, run.id), AttemptOutcome.FAILED, notes=f"{notes} {n}")
    return run.id


def known(store: Store, title: str, body: str = "", run_id: str = "", **config: object) -> PromptContext:
    task = store.tasks.add(TaskDraft(title=title, body=body))
    return gather_context(store, task, TaskMetrics(task_id=task.id), replace(Config(), **config), run_id=run_id)


def test_the_last_five_of_the_run_come_in_order_then_five_matches_of_other_runs(store: Store) -> None:
    old = journal(store, 8, "the parser wants tabs")
    new = journal(store, 7, "the parser wants tabs")

    entries = known(store, "Mend the parser", run_id=new).journal

    assert [(entry.run_id, entry.iteration) for entry in entries[:5]] == [(new, n) for n in (3, 4, 5, 6, 7)]
    assert len(entries) == 10
    assert {entry.run_id for entry in entries[5:]} == {old}


def test_a_long_run_does_not_hide_what_other_runs_noted(store: Store) -> None:
    old = journal(store, 1, "the parser wants tabs")
    new = journal(store, 60, "the parser again")

    entries = known(store, "Mend the parser", run_id=new).journal

    assert [entry.run_id for entry in entries[5:]] == [old]


def test_a_rare_word_far_down_in_a_task_finds_what_was_noted(store: Store) -> None:
    journal(store, 1, "The xylophone is out of tune: screw its bars down.")
    words = " ".join(f"filler{n}word" for n in range(40))

    assert len(known(store, "Tune it", f"{words} and the xylophone with its bars").journal) == 1
    assert known(store, "Paint the fence", words).journal == ()


def test_failures_of_other_tasks_are_told_when_they_are_the_same_or_about_the_same(store: Store) -> None:
    other = store.tasks.add(TaskDraft(title="Export the ledger"))
    run = store.runs.start("test")
    task, attempt = begin(store, run.id)
    report = replace(a_report(attempt), why="the ledger export loses umlauts", fingerprint="same")
    finish(store, task, attempt, AttemptOutcome.FAILED, report=report)

    assert [one.task_id for one in known(store, "Export the ledger as a table").similar_reports] == [other.id]
    assert known(store, "Paint the fence").similar_reports == ()


@pytest.mark.parametrize("inject", ["manual", "none"])
def test_memories_are_not_put_into_prompts_by_themselves_unless_asked(store: Store, inject: str) -> None:
    remember(store, a_memory("Parser", "The parser wants tabs."))

    assert len(known(store, "Parser one").memories) == 1
    assert known(store, "Parser two", memories=MemoriesConfig(inject=inject)).memories == ()
    assert known(store, "Parser three", memories=MemoriesConfig(enabled=False)).memories == ()


def test_the_filter_is_applied_before_the_best_are_chosen(store: Store) -> None:
    for n in range(20):
        remember(store, a_memory(f"Parser {n}", "parser parser", tags=("x",)))
    remember(store, a_memory("The fix", "parser lexer", kind="fix", tags=("y",)))

    by_type = known(store, "Parser", memories=MemoriesConfig(filter=FilterConfig(types=("fix",))))
    by_tag = known(store, "The lexer of the parser", memories=MemoriesConfig(filter=FilterConfig(tags=("y",))))
    recent = known(store, "Fix the lexer of the parser", memories=MemoriesConfig(filter=FilterConfig(recent=1)))

    assert [one.memory.title for one in by_type.memories] == ["The fix"]
    assert [one.memory.title for one in by_tag.memories] == ["The fix"]
    assert {one.memory.title for one in recent.memories} >= {"The fix"}


def test_old_memories_are_left_out_when_only_recent_ones_are_wanted(store: Store) -> None:
    remember(store, a_memory("Parser", "old", created_at="2020-01-01T00:00:00.000Z"))

    assert known(store, "Parser", memories=MemoriesConfig(filter=FilterConfig(recent=30))).memories == ()


def test_a_memory_with_only_common_words_in_common_is_not_shown(store: Store) -> None:
    remember(store, a_memory("Round money half up", "Use cents when you write the first line.", tags=("money",)))

    assert known(store, "Write the first line again, please, and check everything").memories == ()
    assert [one.memory.title for one in known(store, "Round the money").memories] == ["Round money half up"]


def test_parent_prerequisites_and_their_notes_are_known(store: Store) -> None:
    first = store.tasks.add(TaskDraft(title="first"))
    run = store.runs.start("test")
    finish(store, *begin(store, run.id), AttemptOutcome.DONE, TaskStatus.DONE, notes="Reads bytes.")
    whole = store.tasks.add(TaskDraft(title="whole"))
    task = store.tasks.add(TaskDraft(title="part", parent_id=whole.id, needs=(first.id,)))

    seen = gather_context(store, task, TaskMetrics(task_id=task.id), Config())
    blind = gather_context(store, task, TaskMetrics(task_id=task.id), Config(), with_memory=False)

    assert [(one.id, notes) for one, notes in seen.prerequisites] == [(first.id, "Reads bytes.")]
    assert [one.id for one in seen.parents] == [whole.id]
    assert [notes for _, notes in blind.prerequisites] == [""]


def prompt(project: Project, id: str, config: Config) -> Prompt:
    metrics = project.store.stats.metrics(id)
    task = project.store.tasks.get(id)
    return prepare_attempt(project.store, config, task, metrics, run_id="", iteration=1, attempt_number=2).prompt


def test_budgets_and_thresholds_of_the_settings_are_kept(project: Project) -> None:
    task = project.tasks.add("Mend the parser")
    for n in range(6):
        subject = ("tabs", "blanks", "quotes", "numbers", "comments", "strings")[n]
        memory = a_memory(f"Parser {n}", f"parser {subject} " * 30, id=f"mem-1-{n:04}", tags=("parser",))
        remember(project.store, memory)
    run = project.store.runs.start("test")
    attempt = begin(project.store, run.id)[1]
    finish(project.store, project.store.tasks.get(task.id), attempt, AttemptOutcome.FAILED, report=a_report(attempt))

    def tokens(config: Config) -> dict[str, int]:
        return {section.name: section.tokens for section in prompt(project, task.id, config).sections}

    small = replace(Config(), memories=MemoriesConfig(budget=200))
    usual, narrow = tokens(Config())["Project Knowledge"], tokens(small)["Project Knowledge"]
    assert usual > 200 >= narrow > 0
    section = next(one for one in prompt(project, task.id, small).sections if one.name == "Project Knowledge")
    assert section.cap_tokens == 200
    assert tokens(replace(Config(), prompt=PromptConfig(budget_tokens=500)))["Project Knowledge"] == 0
    assert "Stuck Loop Warning" in tokens(replace(Config(), execution=ExecutionConfig(stuck_after=1)))
    assert "Stuck Loop Warning" not in tokens(Config())


def test_loop_status_tells_how_it_has_been_going(project: Project) -> None:
    task = project.tasks.add("A")
    run = project.store.runs.start("test")
    for outcome in (AttemptOutcome.DONE, AttemptOutcome.FAILED, AttemptOutcome.FAILED, AttemptOutcome.FAILED):
        finish(project.store, *begin(project.store, run.id), outcome, difficulty=Difficulty.HARD)

    text = project.prompts.preview(task.id).text

    assert "Last 4 attempts in this project: 25% done, 75% failed" in text
    assert "Attempt 5 at this task\n" in text
    assert project.store.stats.metrics(task.id).difficulty is Difficulty.HARD
