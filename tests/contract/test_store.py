"""What the store promises on every database: tasks, claims, attempts, failure reports, memories."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from ralph.core.errors import ClaimLostError, ConflictError, NotFoundError, TaskCycleError, UsageError
from ralph.core.records import AttemptOutcome, Difficulty, TaskStatus, replace
from ralph.store import Store
from ralph.store.attempts import WORKER_VANISHED
from ralph.store.index import index_rows
from ralph.store.tasks import TaskDraft
from tests.make import a_memory, a_report, begin, claim_task, damaged_rows, finish, remember
from tests.store.make import found_by, notes_found_by


def add(store: Store, title: str, **fields: object) -> str:
    return store.tasks.add(replace(TaskDraft(title=title), **fields)).id


def titles(store: Store) -> list[str]:
    return [task.title for task in store.tasks.progress.ready()]


# --- the graph ------------------------------------------------------------------------


def test_a_task_is_given_back_as_it_was_added(store: Store) -> None:
    feature = store.features.add("Search", "spec", "plan")
    first = add(store, "First")

    task = store.tasks.add(
        TaskDraft(title="Fix", body="now", priority=3, parent_id=first, feature_id=feature.id, needs=())
    )

    assert task.id.startswith("t-")
    assert len(task.id) == 8
    assert (task.title, task.body, task.priority, task.parent_id) == ("Fix", "now", 3, first)
    assert (task.feature_id, task.status, task.needs) == (feature.id, TaskStatus.PENDING, ())
    assert store.tasks.get(task.id) == task


def test_a_cycle_is_refused_with_its_path_and_nothing_changes(store: Store) -> None:
    a = add(store, "A")
    b = add(store, "B", needs=(a,))
    c = add(store, "C", needs=(b,))

    with pytest.raises(TaskCycleError) as refused:
        store.tasks.graph.add_dependencies(a, [c])

    assert refused.value.path[0] == refused.value.path[-1]
    assert set(refused.value.path) == {a, b, c}
    assert all(id in str(refused.value) for id in (a, b, c))
    assert store.tasks.get(a).needs == ()


def test_a_part_cannot_wait_for_its_whole(store: Store) -> None:
    parent = add(store, "Parent")

    with pytest.raises(TaskCycleError):
        add(store, "Child", parent_id=parent, needs=(parent,))

    assert [task.title for task in store.tasks.all()] == ["Parent"]


def test_a_task_cannot_be_put_below_itself(store: Store) -> None:
    parent = add(store, "Parent")
    child = add(store, "Child", parent_id=parent)

    with pytest.raises(TaskCycleError):
        store.tasks.update(parent, parent_id=child)


def test_unknown_ids_are_named(store: Store) -> None:
    with pytest.raises(NotFoundError, match="t-nobody"):
        add(store, "A", needs=("t-nobody",))
    with pytest.raises(NotFoundError, match="t-nobody"):
        store.tasks.get("t-nobody")
    assert store.tasks.all() == []


def test_an_id_that_is_taken_is_refused(store: Store) -> None:
    add(store, "A", id="t-000001")

    with pytest.raises(UsageError, match="t-000001"):
        add(store, "B", id="t-000001")


def test_ready_are_pending_leaves_whose_needs_are_done_by_priority_then_age(store: Store) -> None:
    first = add(store, "first")
    add(store, "waits", needs=(first,), priority=9)
    add(store, "urgent", priority=5)
    parent = add(store, "parent", priority=8)
    add(store, "part", parent_id=parent)

    assert titles(store) == ["urgent", "first", "part"]


def test_what_a_parent_waits_for_its_parts_wait_for_too(store: Store) -> None:
    first = add(store, "first")
    parent = add(store, "parent", needs=(first,))
    add(store, "part", parent_id=parent)

    before = titles(store)
    store.tasks.set_status(first, TaskStatus.DONE, tuple(TaskStatus))

    assert before == ["first"]
    assert titles(store) == ["part"]


def test_a_parent_follows_its_parts_all_the_way_up(store: Store) -> None:
    top = add(store, "top")
    middle = add(store, "middle", parent_id=top)
    a, b = add(store, "a", parent_id=middle), add(store, "b", parent_id=middle)

    def statuses() -> tuple[TaskStatus, TaskStatus]:
        return store.tasks.get(top).status, store.tasks.get(middle).status

    store.tasks.set_status(a, TaskStatus.DONE, tuple(TaskStatus))
    half = statuses()
    store.tasks.set_status(b, TaskStatus.DONE, tuple(TaskStatus))
    full = statuses()
    store.tasks.set_status(b, TaskStatus.FAILED, tuple(TaskStatus))
    failed = statuses()
    store.tasks.set_status(b, TaskStatus.PENDING, tuple(TaskStatus))

    assert half == (TaskStatus.IN_PROGRESS, TaskStatus.IN_PROGRESS)
    assert full == (TaskStatus.DONE, TaskStatus.DONE)
    assert failed == (TaskStatus.FAILED, TaskStatus.FAILED)
    assert statuses() == (TaskStatus.IN_PROGRESS, TaskStatus.IN_PROGRESS)


def test_the_parts_of_a_failed_task_are_not_started(store: Store) -> None:
    parent = add(store, "parent")
    a = add(store, "a", parent_id=parent)
    add(store, "b", parent_id=parent)

    store.tasks.set_status(a, TaskStatus.FAILED, tuple(TaskStatus))

    assert titles(store) == []


def test_a_parent_whose_last_part_is_deleted_can_be_worked_on(store: Store) -> None:
    parent = add(store, "parent")
    store.tasks.set_status(add(store, "a", parent_id=parent), TaskStatus.DONE, tuple(TaskStatus))
    b = add(store, "b", parent_id=parent)
    store.tasks.delete(store.tasks.graph.subtree(parent)[1].id)
    store.tasks.delete(b)

    assert titles(store) == ["parent"]


def test_the_status_of_a_parent_cannot_be_set_by_hand(store: Store) -> None:
    parent = add(store, "parent")
    add(store, "part", parent_id=parent)

    with pytest.raises(ConflictError, match="subtasks"):
        store.tasks.set_status(parent, TaskStatus.DONE, tuple(TaskStatus))


def test_deleting_a_task_takes_its_attempts_and_leaves_what_was_learned(store: Store) -> None:
    id = add(store, "A")
    run = store.runs.start("test")
    task, attempt = begin(store, run.id)
    memory = a_memory("Kept", origin_task=id, origin_attempt=1)
    finish(store, task, attempt, AttemptOutcome.FAILED, memories=(memory,), report=a_report(attempt))

    store.tasks.delete(id)

    assert store.attempts.latest(10) == []
    assert store.failures.latest(10) == []
    assert store.database.query("SELECT * FROM strategy_metrics") == []
    assert [(m.title, m.origin_task) for m in store.memories.all()] == [("Kept", None)]
    assert damaged_rows(store) == []


def test_a_task_others_wait_for_is_not_deleted(store: Store) -> None:
    a = add(store, "A")
    b = add(store, "B", needs=(a,))

    with pytest.raises(ConflictError, match=b):
        store.tasks.delete(a)

    assert len(store.tasks.all()) == 2


def test_deleting_a_feature_leaves_its_tasks(store: Store) -> None:
    feature = store.features.add("Search")
    id = add(store, "A", feature_id=feature.id)

    store.features.delete(feature.id)

    assert store.tasks.get(id).feature_id is None
    assert store.features.all() == []
    assert damaged_rows(store) == []


# --- claims ------------------------------------------------------------------------------


def test_a_task_is_claimed_once(store: Store) -> None:
    add(store, "A")

    claimed = claim_task(store, "one", 60)

    assert claimed is not None
    assert (claimed.status, claimed.claimed_by, claimed.claim_token) == (TaskStatus.IN_PROGRESS, "one", 1)
    assert claim_task(store, "two", 60) is None


def test_many_workers_never_get_the_same_task(open_again: Callable[[], Store]) -> None:
    store = open_again()
    store.tasks.add_all([TaskDraft(title=str(n)) for n in range(40)])
    claimed: list[str] = []

    def work(name: str) -> None:
        mine = open_again()
        while task := claim_task(mine, name, 60):
            claimed.append(task.id)
            mine.tasks.claims.settle(task.id, task.claim_token, TaskStatus.DONE)
        mine.close()

    threads = [threading.Thread(target=work, args=(f"w{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(claimed) == len(set(claimed)) == 40


def test_a_lease_that_ran_out_lets_another_worker_in_and_keeps_the_old_one_out(store: Store) -> None:
    id = add(store, "A")
    first = claim_task(store, "slow", 0.05)
    time.sleep(0.1)

    second = claim_task(store, "quick", 60)

    assert first is not None
    assert second is not None
    assert second.claim_token == first.claim_token + 1
    assert not store.tasks.claims.heartbeat(id, first.claim_token, 60)
    assert not store.tasks.claims.settle(id, first.claim_token, TaskStatus.DONE)
    assert store.tasks.get(id).status is TaskStatus.IN_PROGRESS
    store.tasks.claims.settle(id, second.claim_token, TaskStatus.DONE)
    assert store.tasks.get(id).status is TaskStatus.DONE


def test_a_heartbeat_keeps_the_claim(store: Store) -> None:
    id = add(store, "A")
    task = claim_task(store, "one", 0.01)
    assert task is not None

    assert store.tasks.claims.heartbeat(id, task.claim_token, 60)

    assert (store.tasks.get(id).lease_until or "") > (task.lease_until or "")
    assert claim_task(store, "two", 60) is None


def test_release_puts_a_task_back(store: Store) -> None:
    id = add(store, "A")
    task = claim_task(store, "one", 60)
    assert task is not None

    store.tasks.claims.settle(id, task.claim_token, TaskStatus.PENDING)

    assert store.tasks.get(id).status is TaskStatus.PENDING
    assert store.tasks.get(id).claimed_by is None
    assert claim_task(store, "two", 60) is not None


def test_a_persons_word_takes_the_task_from_its_worker(store: Store) -> None:
    id = add(store, "A")
    task = claim_task(store, "one", 60)
    assert task is not None

    store.tasks.set_status(id, TaskStatus.DONE, tuple(TaskStatus))

    assert not store.tasks.claims.settle(id, task.claim_token, TaskStatus.PENDING)
    assert store.tasks.get(id).status is TaskStatus.DONE


def test_one_task_alone_can_be_claimed(store: Store) -> None:
    add(store, "urgent", priority=9)
    id = add(store, "this")

    task = claim_task(store, "one", 60, task_id=id)

    assert task is not None
    assert task.id == id
    assert claim_task(store, "two", 60, task_id=id) is None


# --- attempts ------------------------------------------------------------------------------


def test_attempts_are_numbered_within_their_task_and_iterations_within_their_run(store: Store) -> None:
    add(store, "A", priority=1)
    add(store, "B")
    seen = []
    for agent in ("one", "two"):
        run = store.runs.start(agent)
        for _ in range(3):
            task, attempt = begin(store, run.id)
            status = TaskStatus.DONE if attempt.number == 2 else TaskStatus.PENDING
            finish(
                store,
                task,
                attempt,
                AttemptOutcome.DONE if status is TaskStatus.DONE else AttemptOutcome.FAILED,
                status,
            )
            seen.append((task.title, attempt.number, attempt.iteration))
            if not store.tasks.progress.ready():
                break

    assert seen == [("A", 1, 1), ("A", 2, 2), ("B", 1, 3), ("B", 2, 1)]
    assert run.id.startswith("run-")
    assert len(run.id) == 12


def test_every_field_of_an_attempt_is_kept(store: Store) -> None:
    add(store, "A")
    run = store.runs.start("test")
    task, attempt = begin(store, run.id)
    finish(
        store,
        task,
        attempt,
        AttemptOutcome.RETRIED,
        model="sonnet",
        model_reason="because",
        reason="the gate failed",
        seconds=1.25,
        cost_usd=0.5,
        tokens_in=10,
        tokens_out=20,
        files=("src/a.py", "ü.py"),
        notes="Notes\nin lines",
        difficulty=Difficulty.HARD,
        shown=("mem-1-0000",),
        hat="critic",
    )

    kept = store.attempts.get(run.id, 1)

    assert kept.outcome is AttemptOutcome.RETRIED
    assert (kept.model, kept.reason, kept.seconds, kept.cost_usd) == ("sonnet", "the gate failed", 1.25, 0.5)
    assert (kept.tokens_in, kept.tokens_out, kept.files) == (10, 20, ("src/a.py", "ü.py"))
    assert (kept.notes, kept.difficulty, kept.shown, kept.hat) == (
        "Notes\nin lines",
        Difficulty.HARD,
        ("mem-1-0000",),
        "critic",
    )
    assert damaged_rows(store) == []


@pytest.mark.parametrize("outcome", list(AttemptOutcome))
def test_every_outcome_can_be_stored(store: Store, outcome: AttemptOutcome) -> None:
    add(store, "A")
    run = store.runs.start("test")
    task, attempt = begin(store, run.id)

    finish(store, task, attempt, outcome)

    assert store.attempts.recent(run.id, 5)[0].outcome is outcome


def test_metrics_count_failures_in_a_row_and_done_resets_them(store: Store) -> None:
    id = add(store, "A")
    run = store.runs.start("test")
    outcomes = [
        AttemptOutcome.FAILED,
        AttemptOutcome.DONE,
        AttemptOutcome.RETRIED,
        AttemptOutcome.INTERRUPTED,
        AttemptOutcome.BLOCKED,
        AttemptOutcome.ERROR,
    ]
    for outcome in outcomes:
        task, attempt = begin(store, run.id)
        finish(store, task, attempt, outcome, model="opus" if outcome is AttemptOutcome.DONE else "haiku")

    metrics = store.stats.metrics(id)

    assert (metrics.total_attempts, metrics.consecutive_failures) == (6, 3)
    assert metrics.suggested_model == "opus"
    row = store.database.query("SELECT * FROM strategy_metrics")[0]
    assert (row["consecutive_failures"], row["stuck_flag"]) == (3, 1)


def test_a_reset_gives_all_retries_back_but_remembers_the_failures(store: Store) -> None:
    id = add(store, "A")
    run = store.runs.start("test")
    for _ in range(2):
        finish(store, *begin(store, run.id), AttemptOutcome.FAILED)

    store.tasks.set_status(id, TaskStatus.PENDING, tuple(TaskStatus))

    metrics = store.stats.metrics(id)
    assert (metrics.consecutive_failures, metrics.failures_since_reset) == (2, 0)


def test_when_a_task_is_stuck_follows_the_settings_and_a_reset(store: Store) -> None:
    def is_stuck() -> int:
        return int(store.database.query("SELECT stuck_flag FROM strategy_metrics")[0]["stuck_flag"])

    id = add(store, "A")
    run = store.runs.start("test")
    for _ in range(2):
        finish(store, *begin(store, run.id), AttemptOutcome.FAILED)
    assert is_stuck() == 0

    store.projects.set_stuck_after(store.project_id, 2)
    assert is_stuck() == 1

    store.tasks.set_status(id, TaskStatus.PENDING, tuple(TaskStatus))
    assert is_stuck() == 0


def test_the_attempt_of_a_vanished_worker_is_closed_when_its_task_is_taken_over(store: Store) -> None:
    add(store, "A")
    run = store.runs.start("test")
    _, first = begin(store, run.id, "dead", lease_seconds=0.05)
    time.sleep(0.1)

    _, second = begin(store, run.id, "alive")

    closed = store.attempts.get(run.id, first.iteration)
    assert (closed.outcome, closed.reason) == (AttemptOutcome.INTERRUPTED, WORKER_VANISHED)
    assert second.number == 2


def test_claims_of_workers_known_to_be_gone_are_taken_back_at_once(store: Store) -> None:
    id = add(store, "A")
    run = store.runs.start("test")
    begin(store, run.id, "dead")

    recovered = store.attempts.release_vanished({"dead", "never heard of"})

    assert recovered == [id]
    assert store.tasks.get(id).status is TaskStatus.PENDING
    assert store.attempts.running() == []
    assert "vanished" in store.tasks.read_log(id)[0].message


def test_who_lost_the_claim_is_recorded_but_changes_nothing(store: Store) -> None:
    id = add(store, "A")
    run = store.runs.start("test")
    task, attempt = begin(store, run.id, "slow", lease_seconds=0.05)
    time.sleep(0.1)
    begin(store, run.id, "quick")

    with pytest.raises(ClaimLostError):
        finish(
            store, task, attempt, AttemptOutcome.DONE, TaskStatus.DONE, memories=(a_memory("Still true"),), notes="late"
        )

    assert store.tasks.get(id).status is TaskStatus.IN_PROGRESS
    late = store.attempts.get(run.id, attempt.iteration)
    assert (late.outcome, late.notes) == (AttemptOutcome.INTERRUPTED, "late")
    assert [memory.title for memory in store.memories.all()] == ["Still true"]


def test_a_task_deleted_while_it_is_worked_on_loses_nothing_that_was_learned(store: Store) -> None:
    id = add(store, "A")
    run = store.runs.start("test")
    task, attempt = begin(store, run.id)
    store.tasks.set_status(id, TaskStatus.PENDING, tuple(TaskStatus))
    store.tasks.delete(id)

    with pytest.raises(ClaimLostError):
        finish(store, task, attempt, AttemptOutcome.DONE, TaskStatus.DONE, memories=(a_memory("Kept"),))

    assert [memory.title for memory in store.memories.all()] == ["Kept"]


def test_settling_is_all_or_nothing(store: Store) -> None:
    id = add(store, "A")
    run = store.runs.start("test")
    task, attempt = begin(store, run.id)
    broken = a_memory("Bad", confidence=7.0)

    with pytest.raises(Exception, match=r"(?i)check"):
        finish(store, task, attempt, AttemptOutcome.DONE, TaskStatus.DONE, memories=(a_memory("Good"), broken))

    assert store.tasks.get(id).status is TaskStatus.IN_PROGRESS
    assert store.attempts.get(run.id, 1).outcome is None
    assert store.memories.all() == []


# --- the journal ----------------------------------------------------------------------------


def journal(store: Store, count: int, notes: Callable[[int], str]) -> str:
    if not store.tasks.all():
        add(store, "A")
    run = store.runs.start("test")
    for n in range(1, count + 1):
        finish(store, *begin(store, run.id), AttemptOutcome.FAILED, notes=notes(n))
    return run.id


def test_recent_are_the_last_of_the_run_oldest_first(store: Store) -> None:
    run = journal(store, 6, lambda n: f"note {n}")

    assert [entry.iteration for entry in store.attempts.recent(run, 5)] == [2, 3, 4, 5, 6]


def test_search_never_gives_entries_of_the_current_run(store: Store) -> None:
    old = journal(store, 2, lambda n: "the parser wants tabs")
    new = journal(store, 2, lambda n: "the parser wants tabs")

    found = store.attempts.search({"parser": 1.0}, 10, exclude_run=new)

    assert {row["run_id"] for row in found.rows} == {old}


def test_empty_notes_never_match(store: Store) -> None:
    journal(store, 3, lambda n: "")

    assert store.attempts.search({"parser": 1.0, "a": 1.0, "": 1.0}, 10).rows == []


def test_the_index_of_the_journal_follows_every_change_of_the_text(store: Store) -> None:
    id = add(store, "A")
    run = store.runs.start("test")
    slow, attempt = begin(store, run.id, "slow", lease_seconds=0.05)
    time.sleep(0.1)
    finish(store, *begin(store, run.id, "quick"), AttemptOutcome.FAILED, notes="first words")
    found = [notes_found_by(store, text) for text in ("first", "second")]
    with pytest.raises(ClaimLostError):
        finish(store, slow, attempt, AttemptOutcome.DONE, notes="second words")
    later = [notes_found_by(store, text) for text in ("first", "second")]
    store.tasks.delete(id)

    assert (found, later) == ([["first words"], []], [["first words"], ["second words"]])
    assert [notes_found_by(store, text) for text in ("first", "second")] == [[], []]


def test_common_words_do_not_hide_a_rare_one(store: Store) -> None:
    add(store, "A")
    run = store.runs.start("test")
    task, attempt = begin(store, run.id)
    finish(store, task, attempt, AttemptOutcome.DONE, TaskStatus.DONE, notes="common words and one xylophone")
    with store.transaction():
        for n in range(3000):
            store.scope.insert(
                "attempts",
                **(_row(store) | {"iteration": 10 + n, "number": 10 + n, "notes": "common words everywhere"}),
            )
        index_rows(store.scope, "attempt", "r.iteration >= 10")

    assert notes_found_by(store, "common words, xylophone", 3)[0] == "common words and one xylophone"


def _row(store: Store) -> dict[str, object]:
    row = store.database.query("SELECT * FROM attempts LIMIT 1")[0]
    return {name: value for name, value in row.items() if name not in ("seq", "checksum", "project_id")} | {
        "outcome": "failed"
    }


# --- failure reports and memories -----------------------------------------------------------


def test_reports_come_freshest_first_and_are_counted_by_category(store: Store) -> None:
    add(store, "A")
    run = store.runs.start("test")
    for n, category in enumerate(["build_error", "test_failure", "test_failure"]):
        task, attempt = begin(store, run.id)
        finish(store, task, attempt, AttemptOutcome.FAILED, report=a_report(attempt, f"why {n}", category=category))

    assert [report.why for report in store.failures.latest(10)] == ["why 2", "why 1", "why 0"]
    assert [report.why for report in store.failures.latest(10, category="build_error")] == ["why 0"]
    counts = [(row["category"], row["failures"], row["tasks"]) for row in store.failures.counts()]
    assert counts == [("test_failure", 2, 1), ("build_error", 1, 1)]


def test_the_same_title_again_brings_the_memory_up_to_date(store: Store) -> None:
    first = remember(store, a_memory("Use tabs", "old", tags=("a",)))

    again = remember(store, a_memory("USE TABS", "new", tags=("b",)))

    assert again.id == first.id
    assert [(m.content, m.tags) for m in store.memories.all()] == [("new", ("a", "b"))]
    assert [event.what for event in store.memories.history.of(first.id)] == ["added", "updated"]
    assert [found_by(store, text) for text in ("old", "new")] == [[], ["Use tabs"]]


def test_an_id_that_is_taken_is_made_anew(store: Store) -> None:
    one = remember(store, a_memory("One"))
    two = remember(store, a_memory("Two"))

    assert one.id != two.id


def test_a_changed_row_is_found_by_its_checksum(store: Store) -> None:
    add(store, "A")
    remember(store, a_memory("One"))
    before = damaged_rows(store)

    store.database.execute("UPDATE memory SET body = 'flipped'")

    assert before == []
    assert len(damaged_rows(store)) == 1


def test_the_documents_table_names_can_be_queried(store: Store) -> None:
    add(store, "A")
    run = store.runs.start("test")
    task, attempt = begin(store, run.id)
    finish(
        store,
        task,
        attempt,
        AttemptOutcome.FAILED,
        memories=(a_memory("One", "text"),),
        report=a_report(attempt),
        notes="n",
    )
    expected = {
        "journal": ("run_id", "iteration", "outcome", "duration_secs", "files_modified", "notes", "created_at"),
        "iteration_outcomes": ("task_id", "attempt_number", "duration_ms", "tokens_input", "outcome", "error_type"),
        "failure_reports": ("what_was_tried", "why_it_failed", "error_category", "stack_trace_snippet"),
        "strategy_metrics": ("total_attempts", "consecutive_failures", "stuck_flag", "suggested_model"),
        "learnings": ("category", "content", "relevance_tags", "pruned_at", "superseded_by"),
        "memories": ("type", "title", "content", "file_refs", "created_by_hat", "use_count"),
    }

    for view, columns in expected.items():
        rows = store.database.query(f"SELECT {', '.join(columns)} FROM {view}")
        assert len(rows) == 1, view


def test_another_projects_records_are_out_of_reach(store: Store) -> None:
    add(store, "Mine")
    remember(store, a_memory("Mine", "parser"))
    store.database.execute("INSERT INTO projects (id, name, created_at) VALUES ('p-other', 'other', 'x')")
    other = Store(store.database, "p-other")

    assert other.tasks.all() == []
    assert claim_task(other, "w", 60) is None
    assert other.memories.all() == []
    assert [found_by(one, "parser") for one in (store, other)] == [["Mine"], []]
    with pytest.raises(NotFoundError):
        other.tasks.get(store.tasks.all()[0].id)


def test_a_part_belongs_to_the_feature_of_its_whole(store: Store) -> None:
    feature = store.features.add("Search")
    parent = add(store, "Whole", feature_id=feature.id)

    child = store.tasks.add(TaskDraft(title="Part", parent_id=parent))

    assert child.feature_id == feature.id
