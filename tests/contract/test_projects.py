"""Several projects in one database: strictly apart, whatever is done in one of them.

Both hold the same ids, titles and words, so that a statement which forgets its project has something to find.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest

from ralph.core.errors import ConflictError, NotFoundError, StoreError, UsageError
from ralph.core.records import AttemptOutcome, Memory, MemoryEvent, MemoryState, TaskStatus, replace
from ralph.core.tokenize import TOKENIZER_VERSION
from ralph.memory.recall.candidates import find_similar_attempts, find_similar_failures, rank_memories
from ralph.memory.recall.query import RecallContext
from ralph.store import Store, create_store, open_database, open_store
from ralph.store.index import reindex_outdated
from ralph.store.memories import ChangeInfo
from ralph.store.memory_queries import MemoryFilter
from ralph.store.projects import SHARED_ID, ProjectStore
from ralph.store.sync_state import SyncState
from ralph.store.tasks import TaskDraft
from ralph.store.vectors import VectorStore
from tests.make import a_memory, a_report, begin, claim_task, damaged_rows, finish
from tests.store.make import asked

TABLES = (
    "features", "tasks", "task_needs", "task_log", "runs", "attempts", "failures", "run_events", "memory",
    "memory_events", "memory_links", "memory_files", "memory_words", "attempt_words", "failure_words", "memory_vectors",
    "synced_places", "synced_files", "synced_entries",
)  # fmt: skip
BY_TEST = ChangeInfo(who="person", why="test", id="chg-00000001")
MODEL, SIZE = "test", 4
LEFT, RIGHT = "left", "right"


@pytest.fixture
def open_one(store_url: str) -> Callable[[str], Store]:
    """Give a way to open one of two projects in one database."""
    create_store(store_url, LEFT).close()
    database = open_database(store_url)
    ProjectStore(database).add(RIGHT)
    database.close()
    return lambda name: open_store(store_url, name)


@pytest.fixture
def both(open_one: Callable[[str], Store]) -> Iterator[tuple[Store, Store]]:
    """Give two projects that hold the same ids, titles and words, and say in their texts whose they are."""
    left, right = open_one(LEFT), open_one(RIGHT)
    for store in (left, right):
        fill(store, store.project_name)
    yield left, right
    left.close()
    right.close()


def fill(store: Store, whose: str) -> None:
    """Fill a project: equal ids everywhere, and a word of its own in every text."""
    for n in range(3):
        store.tasks.add(TaskDraft(id=f"t-00000{n}", title=f"Mend parser {n}", body=f"{whose} parser"))
    store.tasks.graph.add_dependencies("t-000002", ["t-000001"])
    store.features.add("Search", f"{whose} spec")
    store.tasks.log("t-000000", f"{whose} log", "person")
    store.scope.insert("runs", id="run-1", agent="test", started_at="2026-01-01T00:00:00.000Z", ending="", iterations=0)
    task, attempt = begin(store, "run-1", worker=f"{whose}-worker")
    report = a_report(
        attempt, f"{whose} parser broke.", fingerprint="same", trace="parser.py", files=("src/parser.py",)
    )
    finish(
        store,
        task,
        attempt,
        AttemptOutcome.FAILED,
        report=report,
        notes=f"{whose} parser notes",
        files=("src/parser.py",),
        shown=("mem-1-0001",),
    )
    links = (
        a_memory("Parser", f"{whose} parser, see [[Lexer]].", id="mem-1-0001"),
        a_memory("Lexer", f"{whose} lexer."),
    )
    for n, memory in enumerate(links):
        named = replace(
            memory, id=f"mem-1-000{n + 1}", files=("src/parser.py",), tags=("parser",), origin_task="t-000000"
        )
        store.memories.add(named, replace(BY_TEST, who="agent"))
    vectors = VectorStore(store.scope, MODEL, SIZE)
    rows = vectors.missing(10)
    vectors.put(rows, [bytes([len(whose)] * SIZE)] * len(rows))
    synced = SyncState(store.scope)
    synced.record_sync(1, f"{whose} mark")
    synced.save_file("memories.md", (1, len(whose)))
    synced.save_entries("memories.md", {"mem-1-0001": f"{whose} agreed"})


def rows_of(store: Store) -> dict[str, list[tuple[Any, ...]]]:
    """Give all rows of a project, in every table."""
    found = {}
    for table in TABLES:
        rows = store.scope.query(f"SELECT * FROM {table} WHERE project_id = :project_id")
        found[table] = sorted(tuple(map(repr, row.values())) for row in rows)
    return found


def test_both_have_rows_in_every_table(both: tuple[Store, Store]) -> None:
    for store in both:
        assert [table for table, rows in rows_of(store).items() if not rows] == []


# --- nothing is seen ------------------------------------------------------------------------


def memory_texts(memories: Any) -> list[str]:
    return [one.content for one in memories if isinstance(one, Memory)]


def linked(store: Store) -> list[tuple[int, int]]:
    """Give the links from and to the first memory."""
    index = store.memories.index
    return index.linked_pairs(index.rows("id = :id", id="mem-1-0001"))


def everything_read(store: Store) -> dict[str, object]:
    """Give what every way to read gives, as text."""
    tasks, attempts, memories = store.tasks, store.attempts, store.memories
    context = RecallContext(
        title="Mend parser", files=("src/parser.py",), failure="same", at="2026-06-01T00:00:00.000Z"
    )
    seqs = list(memories.index.seqs_by_id(["mem-1-0001", "mem-1-0002"]).values())
    found = memories.index.search_words(asked("parser lexer"), 50)
    return {
        "tasks": (
            tasks.all(),
            tasks.progress.ready(),
            tasks.get("t-000000"),
            tasks.graph.subtree("t-000000"),
            tasks.claims.claimed(),
        ),
        "needs": (
            tasks.graph.dependents("t-000001"),
            tasks.progress.has_unfinished(),
            tasks.progress.counts(),
            tasks.progress.with_status(TaskStatus.PENDING),
        ),
        "log": tasks.read_log("t-000000"),
        "features": (store.features.all(), store.features.get("Search")),
        "runs": (store.runs.latest(50), store.runs.get("run-1")),
        "attempts": (attempts.latest(50), attempts.recent("run-1", 50), attempts.get("run-1", 1), attempts.running()),
        "numbers": (
            store.stats.totals(),
            store.stats.metrics("t-000000"),
            store.stats.failing_tasks(),
            store.stats.count_since(""),
        ),
        "outcomes": (store.stats.recent_outcomes(50), attempts.completion_notes("t-000000"), store.failures.counts()),
        "journal": [row["notes"] for row in attempts.search(asked("parser"), 50).rows],
        "matching": (find_similar_attempts(store, context, 50), find_similar_failures(store, context, 50)),
        "failures": (
            store.failures.latest(50),
            store.failures.with_fingerprint("same", 50),
            store.failures.tasks_with("same"),
        ),
        "failure words": [row["why"] for row in store.failures.search(asked("parser"), 50).rows],
        "memories": (
            memories.all(),
            memories.get("mem-1-0001"),
            list(memories.listing.containing(MemoryFilter(), "parser")),
        ),
        "everything": memory_texts(memories.history.all_with_history()),
        "surest": memories.listing.most_confident(MemoryFilter(), 50),
        "words": ([row["body"] for row in found.rows], found.word_counts, found.total),
        "ranked": [one.row["body"] for one in rank_memories(store, context)],
        "links": (memories.index.links("mem-1-0001"), memories.index.by_title("Lexer")),
        "linked": [sorted(seqs.index(seq) for seq in pair) for pair in linked(store)],
        "files": [seqs.index(seq) for seq in memories.index.seqs_naming_files(["src/parser.py"], 50)],
        "next": [
            row["body"]
            for row in memories.index.rows_with_words([s for pair in memories.index.neighbor_pairs(seqs) for s in pair])
        ],
        "statistics": (
            memories.stats.count(),
            memories.stats.counts("kind"),
            memories.stats.averages()["total"],
            memories.listing.texts_of_kinds(()),
        ),
        "history": [(one.memory_id, one.what) for one in memories.history.since(0, 50)],
        "own history": len(memories.history.of("mem-1-0001")),
        "shown": len(memories.history.attempts_shown("mem-1-0001", 50)),
        "vectors": [bytes(row["vector"]) for row in VectorStore(store.scope, MODEL, SIZE).created_after(0, 50)],
        "agreed": (
            SyncState(store.scope).last_sync(),
            SyncState(store.scope).files(),
            SyncState(store.scope).entries("memories.md"),
        ),
        "damaged": damaged_rows(store),
    }


def test_no_way_to_read_gives_anything_of_the_other_project(both: tuple[Store, Store]) -> None:
    left, right = both

    assert RIGHT not in repr(everything_read(left))
    assert LEFT not in repr(everything_read(right)).replace("left_out", "")


def test_what_is_read_is_the_same_as_if_the_project_were_alone(both: tuple[Store, Store]) -> None:
    left, right = both
    beside = everything_read(left)

    right.projects.remove(right.project_id)

    assert everything_read(left) == beside


def test_how_rare_a_word_is_does_not_depend_on_other_projects(both: tuple[Store, Store]) -> None:
    left, right = both
    for n in range(200):
        right.memories.insert_unchecked(a_memory(f"Parser {n}", f"parser lexer {n}", id=""), BY_TEST)

    found = left.memories.index.search_words(asked("parser lexer"), 50)

    assert found.total == 2
    assert max(found.word_counts.values()) <= 2
    assert sorted(row["title"] for row in found.rows) == ["Lexer", "Parser"]


def test_a_small_project_finds_its_own_among_thousands_of_another(both: tuple[Store, Store]) -> None:
    left, right = both
    many = [a_memory(f"Parser {n}", f"parser lexer {n}", id=f"mem-2-{n:04}") for n in range(3_000)]
    right.memories.insert_all_unchecked(many, BY_TEST)

    found = left.memories.index.search_words(asked("parser lexer"), 5)

    assert sorted(row["title"] for row in found.rows) == ["Lexer", "Parser"]


def test_what_only_the_other_project_has_is_not_found(both: tuple[Store, Store]) -> None:
    left, right = both
    right.tasks.add(TaskDraft(id="t-00000f", title="Theirs"))
    right.memories.insert_unchecked(a_memory("Theirs", "Quokka.", id="mem-9-0001"), BY_TEST)
    right.scope.insert("runs", id="run-9", agent="test", started_at="2026-01-01", ending="", iterations=0)

    for look in (
        lambda: left.tasks.get("t-00000f"),
        lambda: left.tasks.graph.add_dependencies("t-000000", ["t-00000f"]),
        lambda: left.tasks.update("t-000000", parent_id="t-00000f"),
        lambda: left.tasks.delete("t-00000f"),
        lambda: left.memories.get("mem-9-0001"),
        lambda: left.runs.get("run-9"),
        lambda: left.features.get(right.features.add("Theirs alone").id),
    ):
        with pytest.raises(NotFoundError):
            look()
    assert left.memories.index.search_words(asked("quokka"), 9).rows == []


def test_what_the_other_project_has_more_of_does_not_count(both: tuple[Store, Store]) -> None:
    left, right = both
    before = linked(left), left.failures.tasks_with("same")
    right.memories.update("mem-1-0002", "edited", BY_TEST, content="See [[Parser]].")
    right.scope.execute("UPDATE failures SET task_id = 't-000001' WHERE project_id = :project_id")

    assert (linked(left), left.failures.tasks_with("same")) == before
    assert left.memories.index.links("mem-1-0001")[1] == []


def test_a_change_is_undone_in_one_project_alone_even_under_the_same_id(both: tuple[Store, Store]) -> None:
    left, right = both
    change = replace(BY_TEST, id="chg-00000002")
    left.memories.update("mem-1-0001", "edited", change, content="Edited.")
    right.memories.update("mem-1-0002", "edited", change, content="Edited.")

    undone = left.memories.undo_change(change.id, ChangeInfo(who="person", why="undo"))

    assert [memory.id for memory in undone] == ["mem-1-0001"]
    assert left.memories.get("mem-1-0002").content == "left lexer."
    assert right.memories.get("mem-1-0002").content == "Edited."


# --- nothing is changed ---------------------------------------------------------------------


def work(store: Store) -> None:
    task, attempt = begin(store, "run-1")
    finish(store, task, attempt, AttemptOutcome.DONE, TaskStatus.DONE, notes="New notes", shown=("mem-1-0001",))


def expire(store: Store) -> None:
    begin(store, "run-1", worker="gone", lease_seconds=-1)
    store.tasks.claims.release_expired()


def recover(store: Store) -> None:
    begin(store, "run-1", worker="gone")
    store.attempts.release_vanished({"gone"})


def learn_again(store: Store) -> None:
    store.memories.add(a_memory("Parser", "Another text, see [[Other]].", tags=("parser",)), BY_TEST)


def bring(store: Store) -> None:
    event = MemoryEvent(seq=1, memory_id="x", what="added", was=None, became=None, who="x", why="x", at="2026-01-01")
    new = a_memory("Parser", "Brought parser.", id="mem-1-0001", tags=("other",))
    store.memories.import_memories([(new, ()), (a_memory("New", "New.", id="mem-1-0009"), (event,))], BY_TEST)


def change_and_undo(store: Store) -> None:
    store.memories.update("mem-1-0001", "edited", BY_TEST, content="Edited [[New]].", files=("src/new.py",))
    store.memories.update("mem-1-0002", "edited", BY_TEST, title="Edited")
    store.memories.undo_change(BY_TEST.id, ChangeInfo(who="person", why="undo"))


def undo(store: Store) -> None:
    store.memories.update("mem-1-0001", "edited", BY_TEST, content="Edited.")
    store.memories.undo("mem-1-0001", ChangeInfo(who="person", why="undo"))


def supersede(store: Store) -> None:
    one, other = store.memories.get("mem-1-0001"), store.memories.get("mem-1-0002")
    assert store.memories.consolidate(one, replace(one, content="Merged."), [other], BY_TEST)


def end_run(store: Store) -> None:
    for index in ("memory", "attempt", "failure"):
        store.database.execute(
            f"UPDATE {index}_words SET version = {TOKENIZER_VERSION} WHERE version <> {TOKENIZER_VERSION}"
        )
        store.scope.execute(f"UPDATE {index}_words SET version = 0 WHERE project_id = :project_id")
    store.runs.end("run-1", "done")


def vectors(store: Store) -> None:
    kept = VectorStore(store.scope, "another", SIZE)
    rows = kept.missing(10)
    assert len(rows) == 2
    kept.put(rows, [bytes(SIZE)] * len(rows))


def agree(store: Store) -> None:
    synced = SyncState(store.scope)
    synced.save_entries("memories.md", {"mem-1-0001": None, "mem-1-0002": "agreed"})
    synced.record_sync(9, "new")
    synced.delete_file("memories.md")


DEEDS: dict[str, Callable[[Store], object]] = {
    "a task is added": lambda store: store.tasks.add(TaskDraft(title="New", needs=("t-000000",))),
    "a task is changed": lambda store: store.tasks.update("t-000000", title="Other", priority=9, feature_id=""),
    "needs are changed": lambda store: store.tasks.graph.remove_dependencies("t-000002", ["t-000001"]),
    "a task is moved": lambda store: store.tasks.set_status("t-000001", TaskStatus.DONE, tuple(TaskStatus)),
    "a task is logged": lambda store: store.tasks.log("t-000000", "New", "person"),
    "a task is deleted": lambda store: store.tasks.delete("t-000000"),
    "a task is claimed": lambda store: claim_task(store, "w", 60),
    "a lease runs out": expire,
    "a vanished worker is recovered": recover,
    "an attempt is made": work,
    "a run is started": lambda store: store.runs.start("test"),
    "a run ends": end_run,
    "a feature is deleted": lambda store: store.features.delete(store.features.get("Search").id),
    "a memory is learned again": learn_again,
    "memories are brought": bring,
    "memories are used": lambda store: store.memories.credit_outcome(["mem-1-0001"], "2026-06-01", won=True),
    "a task's memories are unlinked": lambda store: store.memories.detach_task("t-000000"),
    "a memory is changed back": undo,
    "a change is undone": change_and_undo,
    "a memory stands for another": supersede,
    "vectors are made": vectors,
    "files are agreed on": agree,
    "the project is renamed": lambda store: store.projects.rename(store.project_id, "Other"),
    "the project is removed": lambda store: store.projects.remove(store.project_id),
}


@pytest.mark.parametrize("deed", DEEDS, ids=lambda deed: deed.replace(" ", "-"))
def test_nothing_done_in_one_project_changes_a_row_of_the_other(both: tuple[Store, Store], deed: str) -> None:
    left, right = both
    before, mine = (rows_of(right), right.project_name), (rows_of(left), left.projects.all())

    DEEDS[deed](left)

    assert (rows_of(right), right.project_name) == before
    assert (rows_of(left), left.projects.all()) != mine


def test_a_claim_of_one_project_cannot_be_settled_in_the_other(both: tuple[Store, Store]) -> None:
    left, right = both
    mine, theirs = claim_task(left, "w", 60), claim_task(right, "w", 60)
    assert mine is not None
    assert theirs is not None
    assert (mine.id, mine.claim_token) == (theirs.id, theirs.claim_token)

    left.tasks.claims.settle(mine.id, mine.claim_token, TaskStatus.DONE)

    assert right.tasks.get(theirs.id).status is TaskStatus.IN_PROGRESS
    assert right.tasks.claims.heartbeat(theirs.id, theirs.claim_token, 60)
    assert not left.tasks.claims.settle(mine.id, mine.claim_token, TaskStatus.DONE)


def test_who_has_nothing_to_do_does_not_get_a_task_of_the_other_project(both: tuple[Store, Store]) -> None:
    left, right = both
    for task in left.tasks.all():
        left.tasks.set_status(task.id, TaskStatus.DONE, tuple(TaskStatus))

    assert claim_task(left, "w", 60) is None
    assert not left.tasks.progress.has_unfinished()
    assert claim_task(right, "w", 60) is not None


def test_indexes_are_renewed_for_one_project_at_a_time(both: tuple[Store, Store]) -> None:
    left, _ = both
    left.database.execute("UPDATE memory_words SET version = 0")

    renewed = reindex_outdated(left.scope)

    assert renewed == 2
    outdated = "SELECT COUNT(*) AS n FROM memory_words WHERE project_id = :project_id AND version = 0"
    assert [store.scope.query(outdated)[0]["n"] for store in both] == [0, 2]


def test_a_damaged_row_is_told_of_in_its_own_project_alone(both: tuple[Store, Store]) -> None:
    left, right = both
    right.scope.execute("UPDATE memory SET body = 'x' WHERE project_id = :project_id AND id = 'mem-1-0001'")
    right.scope.execute("UPDATE tasks SET title = 'x' WHERE project_id = :project_id AND id = 't-000000'")

    assert damaged_rows(left) == []
    assert len(damaged_rows(right)) == 2  # a task and a memory


def test_who_watches_the_events_of_one_project_gets_none_of_the_other(both: tuple[Store, Store]) -> None:
    left, right = both
    seen = left.memories.history.last_event_seq()

    right.memories.insert_unchecked(a_memory("Theirs", "Theirs.", id=""), BY_TEST)

    assert left.memories.history.since(seen, 9) == []
    assert left.memories.history.last_event_seq() == seen


def test_what_a_person_deleted_in_one_project_can_be_learned_in_the_other(both: tuple[Store, Store]) -> None:
    left, _ = both
    left.memories.update("mem-1-0001", "deleted", BY_TEST, state=MemoryState.PRUNED)
    again = a_memory("Parser", "Learned again.", tags=("parser",))

    kept = [store.memories.add(again, ChangeInfo(who="agent", why="")).what for store in both]

    assert kept == ["refused", "updated"]


# --- names ----------------------------------------------------------------------------------


def test_a_project_is_found_by_its_name_and_its_id(both: tuple[Store, Store]) -> None:
    left, right = both
    projects = left.projects

    assert [one.name for one in projects.all()] == [LEFT, RIGHT]
    assert projects.get(RIGHT) == projects.get(right.project_id)
    with pytest.raises(NotFoundError, match="nobody"):
        projects.get("nobody")


def test_two_projects_never_have_one_name(both: tuple[Store, Store]) -> None:
    left, right = both

    for taken in (RIGHT, right.project_id, "shared"):
        with pytest.raises(UsageError):
            left.projects.rename(left.project_id, taken)
        with pytest.raises(UsageError):
            left.projects.add(taken)
    assert left.project_name == LEFT
    assert left.projects.rename(left.project_id, LEFT).name == LEFT


def test_a_project_keeps_its_id_and_all_it_holds_when_it_is_renamed(
    both: tuple[Store, Store], open_one: Callable[[str], Store]
) -> None:
    left, _ = both
    before = rows_of(left)

    renamed = left.projects.rename(left.project_id, "New name")

    assert (renamed.id, renamed.name) == (left.project_id, "New name")
    again = open_one("New name")
    assert rows_of(again) == before
    again.close()
    with pytest.raises(StoreError, match="only: New name, right"):
        open_one(LEFT)


def test_who_says_no_name_is_told_which_there_are(both: tuple[Store, Store], store_url: str) -> None:
    with pytest.raises(StoreError, match="left, right"):
        open_store(store_url)


# --- removing -------------------------------------------------------------------------------


def test_a_removed_project_leaves_no_row_and_says_what_went(both: tuple[Store, Store]) -> None:
    left, right = both

    gone = left.projects.remove(left.project_id)

    assert gone == {"tasks": 3, "features": 1, "runs": 1, "attempts": 1, "failures": 1, "memory": 2}
    assert all(rows == [] for rows in rows_of(left).values())
    assert [one.id for one in left.projects.all()] == [right.project_id]
    assert right.memories.index.search_words(asked("parser"), 9).total == 2
    assert right.stats.totals()["attempts"] == 1


def test_a_project_somebody_works_on_is_not_removed(both: tuple[Store, Store]) -> None:
    left, right = both
    claim_task(right, "theirs", 60)
    begin(left, "run-1", worker="machine/1")
    before = rows_of(left)

    with pytest.raises(ConflictError, match="machine/1"):
        left.projects.remove(left.project_id)

    assert rows_of(left) == before


@pytest.mark.postgres
@pytest.mark.parametrize("is_removed", [True, False])
def test_nobody_gets_a_task_of_a_project_that_is_being_removed(
    both: tuple[Store, Store], open_one: Callable[[str], Store], monkeypatch: pytest.MonkeyPatch, is_removed: bool
) -> None:
    left, _ = both
    worker = open_one(LEFT)
    worker.tasks.add(TaskDraft(title="To do"))
    run = worker.runs.start("test")
    look = ProjectStore.check_not_busy
    begun: list[object] = []

    def look_and_wait(projects: ProjectStore, id: str) -> None:
        look(projects, id)
        begun.append(worker.attempts.begin(run.id, "w", 60, agent="test"))
        if not is_removed:
            raise ConflictError("No.")

    monkeypatch.setattr(ProjectStore, "check_not_busy", look_and_wait)
    with nullcontext() if is_removed else pytest.raises(ConflictError, match="No"):
        left.projects.remove(left.project_id)

    assert begun == [None]
    if not is_removed:
        assert worker.attempts.begin(run.id, "w", 60, agent="test")
    worker.close()


def test_a_claim_whose_lease_ran_out_holds_no_project(both: tuple[Store, Store]) -> None:
    left, _ = both
    claim_task(left, "gone", -1)

    left.projects.remove(left.project_id)

    assert left.projects.find(LEFT) is None


def test_a_project_of_the_same_name_can_be_made_after_a_removal_and_is_empty(both: tuple[Store, Store]) -> None:
    left, right = both
    left.projects.remove(left.project_id)

    again = Store(right.database, right.projects.add(LEFT).id)

    assert again.project_id != left.project_id
    assert all(rows == [] for rows in rows_of(again).values())
    fill(again, LEFT)
    assert RIGHT not in repr(everything_read(again))


# --- what is listed -------------------------------------------------------------------------


def test_the_list_says_what_each_project_holds(both: tuple[Store, Store]) -> None:
    left, right = both
    right.tasks.set_status("t-000001", TaskStatus.DONE, tuple(TaskStatus))
    right.memories.update("mem-1-0001", "deleted", BY_TEST, state=MemoryState.PRUNED)
    newest = right.memories.history.of("mem-1-0001")[-1].at

    one, other = left.projects.summaries()

    assert (one.name, one.tasks, one.open_tasks, one.memories, one.attempts) == (LEFT, 3, 3, 2, 1)
    assert (other.name, other.tasks, other.open_tasks, other.memories, other.attempts) == (RIGHT, 3, 2, 1, 1)
    assert other.last_activity == newest


def test_a_project_in_which_nothing_happened_was_last_active_when_it_was_made(store: Store) -> None:
    (one,) = store.projects.summaries()

    assert (one.tasks, one.memories, one.attempts) == (0, 0, 0)
    assert one.last_activity == one.created_at


# --- what all share -------------------------------------------------------------------------


def test_nobody_opens_the_project_of_what_all_share(both: tuple[Store, Store], store_url: str) -> None:
    left, _ = both
    assert left.projects.find_shared() is None
    shared = left.projects.ensure_shared()

    assert shared == left.projects.ensure_shared() == left.projects.find_shared()
    assert (shared.id, shared.name) == (SHARED_ID, "shared")
    assert shared not in left.projects.all()
    for name in ("shared", SHARED_ID):
        with pytest.raises(StoreError):
            open_store(store_url, name)


@pytest.mark.sqlite  # a server is never asked for its only project
def test_one_project_is_still_the_only_one_beside_what_is_shared(store: Store, store_url: str) -> None:
    store.projects.ensure_shared()

    opened = open_store(store_url)

    assert opened.project_id == store.project_id
    opened.close()


def test_a_folder_may_be_called_shared(store_url: str) -> None:
    store = create_store(store_url, "shared")

    shared = store.projects.ensure_shared()

    assert store.project_name == "shared"
    assert (shared.id, shared.name) == (SHARED_ID, "shared memories")
    assert store.projects.find("shared") == store.projects.all()[0]
    store.close()
