"""Two projects in one database: whatever is asked of one with the ids of the other gives and changes nothing there.

The operations are those the classes have: one that is added is tried without being named here. What to try for an
argument follows from its type; an operation with a parameter of another type is skipped and listed.
"""

from __future__ import annotations

import inspect
import random
import re
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from ralph.core.errors import RalphError
from ralph.core.paging import Page
from ralph.core.records import (
    AgentSession,
    Attempt,
    AttemptOutcome,
    AttemptResult,
    HeldChange,
    MemoryEvent,
    MemoryState,
    Question,
    Run,
    SubtaskSigil,
    Task,
    TaskStatus,
    now,
    record,
    replace,
)
from ralph.memory.import_export import ExportResult
from ralph.memory.recall.query import RecallContext
from ralph.memory.sessions import SessionContext
from ralph.project import Project
from ralph.store import Store
from ralph.store.database import WordMatches
from ralph.store.memories import ChangeInfo
from ralph.store.memory_queries import MemoryFilter
from ralph.store.shared import SharedMemories
from ralph.store.sync_state import SyncState
from ralph.store.tasks import TaskDraft
from ralph.store.vectors import VectorStore
from ralph.workspace import init_project
from tests.faults.trial import Shown, Trial
from tests.make import a_memory, a_report, an_episode, begin, finish

SECRET = "quokkafern"
"""Stands in every text of the other project, and in none that is asked with."""
MODEL, WIDTH = "test", 4
BY_US = ChangeInfo(who="person", why="test", id="chg-0000aaaa")
SQL = (
    "' OR 1=1 --",
    "' OR ''='",
    '" OR ""="',
    "x' UNION SELECT * FROM memory --",
    "'; DELETE FROM memory; --",
    "t-1'; UPDATE tasks SET title = 'x' --",
    "%",
    "_" * 8,
    "*",
    "../../" + "x" * 40,
    ":project_id",
    "\\' OR 1=1 #",
    "{{7*7}}",
    "1) OR (1=1",
)
LEFT_OUT = {
    "Store.backup": "copies the whole file, which is what it is for",
    "Store.for_project": "is how a person works on another project on purpose",
    "Store.close": "ends the connection",
    "Store.reopen": "opens the same project",
    "Store.watch": "waits",
    "Project.for_project": "is how a person works on another project on purpose",
    "Project.close": "ends the connection",
    "RunService.start": "is the loop, which goes through all of these",
    "ImportExport.import_path": "reads a file, and imports what `import_text` does",
    "ImportExport.merge": "reads a file",
    "ImportExport.merge_store": "is given another store on purpose",
    "ImportExport.save": "writes what `export` gives",
    "MemoryEvents.follow": "waits; what it gives is from `since`",
    "MemoryMaintenance.embed": "needs a model",
}
"""What is not tried, and why."""
DATED = ("ImportExport.bundle", "ImportExport.export")
"""What says something else each time: it holds the moment it was made in."""


@record
class Facts:
    """What somebody might know of the other project."""

    project_id: str
    ids: tuple[str, ...]
    """Of everything that has one."""
    tasks: tuple[str, ...]
    memories: tuple[str, ...]
    run: str
    feature: str
    session: str
    token: int
    worker: str
    seqs: tuple[int, ...]
    row: dict[str, Any]
    """Of a memory, as it is stored."""


# --- the two projects ----------------------------------------------------------------------


def fill(store: Store, word: str, mark: str) -> Facts:
    """Fill a project; its ids have a mark, its texts a word."""
    tasks = tuple(f"t-{mark}0000{n}" for n in range(4))
    feature = store.features.add(f"Search {mark}", f"{word} spec", f"{word} plan").id
    for id in tasks:
        store.tasks.add(TaskDraft(id=id, title=f"Mend parser {word}", body=f"{word} parser", feature_id=feature))
    store.tasks.graph.add_dependencies(tasks[2], [tasks[1]])
    store.tasks.log(tasks[0], f"{word} log", word)
    run = store.runs.start(word, f'{{"said": "{word}"}}').id
    memories = tuple(f"mem-{mark}1-000{n}" for n in range(3))
    for n, id in enumerate(memories):
        memory = a_memory(
            f"Parser {word} {n}",
            f"{word} number {n}, see [[Parser {word} 0]].",
            id=id,
            files=("src/parser.py",),
            tags=("parser", word),
            origin_task=tasks[0],
            origin_run=run,
            origin_attempt=1,
            state=MemoryState.STAGED if n == 2 else MemoryState.ACTIVE,
        )
        store.memories.insert_unchecked(memory, replace(BY_US, id=f"chg-{mark}000000"))
    task, attempt = begin(store, run, f"{word}-worker")
    report = a_report(
        attempt, f"{word} parser broke.", fingerprint="same", trace=f"{word} parser.py", files=("src/parser.py",)
    )
    finish(
        store,
        task,
        attempt,
        AttemptOutcome.FAILED,
        report=report,
        notes=f"{word} parser notes",
        files=("src/parser.py",),
        shown=memories[:1],
    )
    held, _ = begin(store, run, f"{word}-worker")
    store.held_changes.add(
        HeldChange(
            task_id=task.id, run_id=run, iteration=1, digest=word, reason=f"{word} parser", diff=word, created_at=now()
        )
    )
    store.questions.add(Question(task_id=task.id, text=f"{word} parser?", asked_at=now()))
    store.episodes.add([an_episode(f"{word} parser of the other project", source=f"talk-{mark}")])
    store.episodes.cursors.save("git", 1, word)
    store.sessions.save(
        AgentSession(
            id=f"session-{mark}", agent="claude", title=f"{word} parser", summary=word, started_at=now(), last_at=now()
        )
    )
    for index in ("memory", "episode"):
        vectors = VectorStore(store.scope, MODEL, WIDTH, index)
        rows = vectors.missing(10)
        vectors.put(rows, [bytes([7] * WIDTH)] * len(rows))
    synced = SyncState(store.scope)
    synced.save_file("memories.md", (1, 2))
    synced.save_entries("memories.md", {memories[0]: f"{word} agreed"})
    events = store.memories.history.since(0, 100)
    seqs = (
        *(event.seq for event in events),
        *store.memories.index.seqs_by_id(memories).values(),
        store.events.last_seq(),
    )
    ids = (*tasks, *memories, run, feature, f"Search {mark}", f"session-{mark}", f"chg-{mark}000000", f"{run}/1")
    return Facts(
        project_id=store.project_id,
        ids=ids,
        tasks=tasks,
        memories=memories,
        run=run,
        feature=feature,
        session=f"session-{mark}",
        token=held.claim_token,
        worker=f"{word}-worker",
        seqs=tuple(sorted(set(seqs))),
        row=store.memories.rows("id = :id", id=memories[0])[0],
    )


def tables(store: Store) -> list[str]:
    """Give every table that has rows of projects."""
    if store.is_shared:
        sql = "SELECT table_name AS name FROM information_schema.columns WHERE column_name = 'project_id'"
        sql += " AND table_schema = current_schema()"
    else:
        sql = "SELECT m.name FROM sqlite_schema AS m, pragma_table_info(m.name) AS c"
        sql += " WHERE m.type = 'table' AND c.name = 'project_id'"
    return sorted({str(row["name"]) for row in store.database.query(sql)})


def rows_of(store: Store, project_id: str, names: list[str]) -> dict[str, list[str]]:
    """Give all rows of a project, byte for byte."""
    return {
        name: sorted(
            repr(row) for row in store.database.query(f"SELECT * FROM {name} WHERE project_id = :id", id=project_id)
        )
        for name in names
    }


# --- what is tried ---------------------------------------------------------------------------


class Payloads:
    """What to give for an argument, by its type and name."""

    def __init__(self, theirs: Facts, choose: random.Random) -> None:
        self._theirs = theirs
        self._choose = choose

    def of(self, called: str, parameter: inspect.Parameter) -> Any:
        """Return a value to try; raise LookupError for a type without one."""
        name, kind = parameter.name, str(parameter.annotation).replace(" | None", "")
        named = f"{called}({name})"
        choices = self._for(named, name, kind)
        if kind == "str" and (fitting := self._fitting(called.partition(".")[0], name)) and self._choose.random() < 0.6:
            choices = fitting
        if choices is None:
            raise LookupError(f"{named}: {kind}")
        return self._choose.choice(choices)

    def _fitting(self, part: str, name: str) -> tuple[str, ...]:
        """Give ids of the kind that is asked for."""
        theirs = self._theirs
        if "task" in name or name in ("only", "parent", "parent_id"):
            return theirs.tasks
        if "run" in name:
            return (theirs.run,)
        if name not in ("id", "ids", "id_or_name", "name", "before"):
            return ()
        return next(
            (
                ids
                for noun, ids in {
                    "Memory": theirs.memories,
                    "Learning": theirs.memories,
                    "Task": theirs.tasks,
                    "Feature": (theirs.feature,),
                    "Session": (theirs.session,),
                    "Attempt": (theirs.run,),
                    "Run": (theirs.run,),
                    "Journal": (theirs.run,),
                    "Stats": (theirs.run,),
                }.items()
                if part.startswith(noun)
            ),
            (),
        )

    def _for(self, named: str, name: str, kind: str) -> Any:
        theirs = self._theirs
        at = now()
        attempt = Attempt(
            run_id=theirs.run, iteration=1, task_id=theirs.tasks[0], number=1, agent="x", outcome=AttemptOutcome.DONE,
            notes="n", worker=theirs.worker, started_at=at, ended_at=at,
        )  # fmt: skip
        memory = a_memory("Own title", "Own words.", id=self._choose.choice(theirs.memories))
        task = Task(id=theirs.tasks[0], title="Own", claim_token=theirs.token, created_at=at, updated_at=at)
        text = (*theirs.ids, *SQL, theirs.project_id)
        several = (list(theirs.ids), list(theirs.tasks), list(theirs.memories), list(SQL))
        event = MemoryEvent(
            seq=theirs.seqs[0], memory_id=memory.id, what="added", was=None, became=None, who="x", why="", at=at
        )
        by_name: dict[str, tuple[Any, ...]] = {
            "MemoryStore.rows(condition)": ("id = :id", "title LIKE :id", "1 = 1"),
            "MemoryStore.rows(values)": tuple({"id": one} for one in text),
            "StatsStore.group_by(columns)": (("outcome",), ("model", "hat"), ("task_kind",)),
            "StatsStore.group_by(filters)": ({}, {"model": SQL[0]}, {"hat": "creator"}),
            "ImportExport.export(format)": ("json", "markdown", "csv", "bundle"),
            "AttemptStore.record_start(attempt)": (replace(attempt, outcome=None),),
            "AttemptStore.release_vanished(workers)": ({theirs.worker},),
            "VectorStore.put(rows)": ([theirs.row] * 2,),
            "VectorStore.put(vectors)": ([bytes(WIDTH)] * 2,),
            "MemoryStore.set_file_state(changes)": ([(theirs.row, "a", "b")],),
            "LearningService.list(status)": (None, "all", "pending", "rejected"),
            "column": ("kind", "state"),
            "columns": ("*",),
            "condition": ("",),
            "values": several,
            "order": ("seq",),
            "fields": ({"body": "Changed."}, {"state": MemoryState.PRUNED}),
            "changes": ({"title": "Changed"},),
            "limit": (1, 3, 50, 10**6),
        }
        by_kind: dict[str, tuple[Any, ...]] = {
            "str": text,
            "int": (0, 1, 3, *theirs.seqs, 10**6, theirs.token),
            "float": (0.0, 0.5, 60.0),
            "bool": (False, True),
            "object": text,
            "Any": text,
            "TaskStatus": tuple(TaskStatus),
            "MemoryState": tuple(MemoryState),
            "AttemptOutcome": tuple(AttemptOutcome),
            "Iterable[TaskStatus]": (tuple(TaskStatus),),
            "TaskDraft": tuple(
                TaskDraft(title="Own", id=one, parent_id=parent, needs=needs, feature_id=feature)
                for one in (theirs.tasks[0], None)
                for parent, needs, feature in (
                    (None, (), None),
                    (theirs.tasks[0], (), None),
                    (None, theirs.tasks[:2], None),
                    (None, (), theirs.feature),
                )
            ),
            "Sequence[TaskDraft]": (
                [TaskDraft(title="Own", needs=(theirs.tasks[0],))],
                [TaskDraft(title="Own", id=SQL[0])],
            ),
            "Sequence[SubtaskSigil]": (
                [SubtaskSigil(title="Own"), SubtaskSigil(title=SQL[1], needs=(theirs.tasks[0],))],
            ),
            "Task": (task,),
            "Attempt": (attempt, replace(attempt, outcome=None)),
            "Run": (Run(id=theirs.run, agent="x", started_at=at),),
            "Sequence[Run]": ([Run(id=theirs.run, agent="x", started_at=at)],),
            "AttemptResult": (
                AttemptResult(attempt=attempt, report=None, memories=(memory,), task_status=TaskStatus.DONE),
                AttemptResult(
                    attempt=attempt, report=a_report(attempt), memories=(), task_status=TaskStatus.PENDING, log=("own",)
                ),
            ),
            "AgentSession": (
                AgentSession(id=theirs.session, agent="x", shown=theirs.memories, started_at=at, last_at=at),
            ),
            "Memory": (memory,),
            "ChangeInfo": (BY_US,),
            "Sequence[Memory]": ([memory],),
            "Iterable[Memory]": ([memory],),
            "Iterable[tuple[Memory, Memory]]": ([(memory, replace(memory, content="Changed."))],),
            "Iterable[tuple[Memory, Sequence[MemoryEvent]]]": ([(memory, [event])],),
            "Sequence[tuple[Memory, Sequence[MemoryEvent]]]": ([(memory, [event])],),
            "Iterable[Memory | MemoryEvent | ReadProblem]": ([memory, event],),
            "Sequence[ReadProblem]": ((),),
            "MemoryFilter": (
                MemoryFilter(),
                MemoryFilter(states=tuple(MemoryState)),
                MemoryFilter(tags=(SQL[0],)),
                MemoryFilter(feature=theirs.feature),
            ),
            "RecallContext": (RecallContext(title="Mend parser", files=("src/parser.py",), failure="same", at=at),),
            "SessionContext": (SessionContext(text="x", ids=theirs.memories),),
            "Mapping[str, float]": ({"parser": 1.0}, {SQL[0]: 1.0, "mend": 2.0}, {"*": 1.0}),
            "Mapping[str, object]": ({"title": "Own title"},),
            "Mapping[str, str]": ({theirs.memories[0]: "agreed"},),
            "Sequence[float]": ([0.5] * WIDTH,),
            "Sequence[int]": ([], list(theirs.seqs), [1, 2, 3]),
            "tuple[int, int]": ((0, 0), (10**6, 10**6), (0, theirs.seqs[0])),
            "tuple[str, int]": (("", 0), ("9", 10**6), (SQL[0], 1)),
            "tuple[str, str]": (("", ""), ("9", "z"), (SQL[0], theirs.memories[0])),
            "Page": (Page(limit=3), Page(limit=50)),
            "Place": ((None, "9", 10**6), (theirs.seqs[0], "9", 1)),
            "ImportFormat": (None,),
            "Callable[[Task], R]": (lambda task: task.id,),
            "Callable[[Memory], object]": (lambda memory: None,),
            "Callable[[], Iterable[str]]": (lambda: ["{}"],),
        }
        for one in ("Sequence[str]", "Iterable[str]", "Collection[str]", "Sequence[str] | Sequence[int]"):
            by_kind[one] = several
        return by_name.get(named) or by_name.get(name) or by_kind.get(kind)


def operations(mine: Project) -> list[tuple[str, Callable[..., Any]]]:
    """Give every public operation of a store and of a project, by class and name, in order."""
    store = mine.store
    parts: list[object] = [
        store, store.tasks, store.features, store.attempts, store.events, store.stats, store.sessions, store.memories,
        SyncState(store.scope), SharedMemories(store.scope), VectorStore(store.scope, MODEL, WIDTH),
        mine, mine.memory, mine.memory.maintenance, mine.memory.sharing, mine.memory.events, mine.transfer,
        mine.sessions, mine.learnings, mine.tasks, mine.features, mine.runs, mine.prompts, mine.journal, mine.stats,
    ]  # fmt: skip
    found = []
    for part in parts:
        for name, _ in inspect.getmembers(type(part), inspect.isfunction):
            called = f"{type(part).__name__}.{name}"
            if not name.startswith("_") and called not in LEFT_OUT:
                found.append((called, getattr(part, name)))
    return found


def arguments(called: str, operation: Callable[..., Any], payloads: Payloads) -> tuple[list[Any], dict[str, Any]]:
    """Give what to call an operation with; what has a default is given now and then."""
    given: list[Any] = []
    named: dict[str, Any] = {}
    for parameter in inspect.signature(operation).parameters.values():
        value = payloads.of(called, parameter)
        if parameter.kind is parameter.VAR_POSITIONAL:
            given += value if isinstance(value, tuple) else [value]
        elif parameter.kind is parameter.VAR_KEYWORD:
            named |= value
        elif parameter.kind is parameter.KEYWORD_ONLY:
            named[parameter.name] = value
        else:
            given.append(value)
    return given, named


# --- the trial -------------------------------------------------------------------------------


class _Undone(Exception):
    """What was tried is taken back."""


@record
class Tried:
    """What became of the tries."""

    calls: int
    operations: int
    answered: int
    """Calls that gave an answer, and were not refused."""
    wrong: tuple[str, ...]
    crashed: tuple[str, ...]
    """Calls that ended in another error than one with a sentence for people."""
    skipped: tuple[str, ...]
    """Operations that were not tried, because no value is known for the type of a parameter."""


def attack(mine: Project, theirs: Facts, calls: int, seed: int, only: tuple[str, ...] = ()) -> Tried:
    """Call every operation of one project with what is known of the other, until there were so many calls."""
    store = mine.store
    choose = random.Random(seed)
    payloads = Payloads(theirs, choose)
    names = tables(store)
    before = rows_of(store, theirs.project_id, names)
    every = [(called, operation) for called, operation in operations(mine) if not only or called in only]
    wrong: list[str] = []
    crashed: list[str] = []
    skipped: set[str] = set()
    answered = 0
    for number in range(max(calls, len(every))):
        called, operation = every[number % len(every)]
        try:
            given, named = arguments(called, operation, payloads)
        except LookupError as error:
            skipped.add(str(error))
            continue
        answer: object = None
        after: dict[str, list[str]] | None = None
        try:
            with store.transaction():
                unwritten = _written(store)
                try:
                    answer = _whole(operation(*given, **named))
                    answered += 1
                except (RalphError, AssertionError):
                    pass
                except Exception as error:  # whatever it is, the other project must be as it was
                    crashed.append(f"{called}: {type(error).__name__}: {error}")
                try:
                    after = before if _written(store) == unwritten else rows_of(store, theirs.project_id, names)
                except RalphError:  # the transaction cannot go on; nothing of it stays
                    pass
                raise _Undone
        except (_Undone, RalphError):
            pass
        is_reading = after is before
        after = after or rows_of(store, theirs.project_id, names)
        said, asked = _said(answer), repr((given, named))
        if SECRET in said or any(id in said and id not in asked for id in theirs.ids):
            wrong.append(f"{called}{(*given, named)!r} gave {said}"[:600])
        elif (
            is_reading
            and answer is not None
            and called not in DATED
            and said != _said(_alone(store, theirs, operation, given, named))
        ):
            wrong.append(f"{called}{(*given, named)!r} gave {said}, and something else without the other"[:600])
        if after != before:
            changed = [name for name in names if after[name] != before[name]]
            wrong.append(f"{called}{(*given, named)!r} changed {changed}"[:600])
    return Tried(
        calls=max(calls, len(every)),
        operations=len(every),
        answered=answered,
        wrong=tuple(wrong),
        crashed=tuple(crashed),
        skipped=tuple(sorted(skipped)),
    )


def _alone(
    store: Store, theirs: Facts, operation: Callable[..., Any], given: list[Any], named: dict[str, Any]
) -> object:
    """Give what an operation says when the other project is not there."""
    answer: object = None
    try:
        with store.transaction():
            store.database.execute("DELETE FROM projects WHERE id = :id", id=theirs.project_id)
            answer = _whole(operation(*given, **named))
            raise _Undone
    except (_Undone, RalphError, AssertionError):
        pass
    return answer


def _written(store: Store) -> object:
    """Give what changes when a transaction writes: to compare all rows takes longer."""
    sql = "pg_current_xact_id_if_assigned()::text" if store.is_shared else "total_changes()"
    return store.database.query(f"SELECT {sql} AS n")[0]["n"]


def _whole(answer: object) -> object:
    """Give an answer with all that is in it, as long as it can be asked for."""
    if isinstance(answer, WordMatches):
        return answer.rows, answer.word_counts  # of how many is said in two ways, which differ by what is not indexed
    if isinstance(answer, ExportResult):
        return [(name, list(pieces)) for name, pieces in answer.files], answer.count, answer.left_out
    return list(islice(answer, 1000)) if isinstance(answer, Iterator) else answer


def _said(answer: object) -> str:
    """Give an answer as text, without what is different each time: the moment it was given in, and where it lies."""
    return re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z|0x[0-9a-f]{8,}", "", repr(answer))


def both(folder: Path) -> tuple[Project, Facts]:
    """Set up two projects in one database; give one, and what there is to know of the other."""
    init_project(folder)
    mine = Project.open(folder)
    store = mine.store
    fill(store, "ours", "a")
    other = store.for_project(store.projects.add(f"other-{SECRET}").id)
    return mine, fill(other, SECRET, "f")


def run(folder: Path, size: int, seed: int) -> Shown:
    """Try so many payloads."""
    mine, theirs = both(folder)
    try:
        tried = attack(mine, theirs, size, seed)
    finally:
        mine.close()
    print(*tried.wrong[:10], sep="\n", end="", file=sys.stderr)
    return Shown(
        load=f"{tried.operations} operations with ids of another project",
        tried=tried.calls,
        lost=len(tried.wrong),
        says=f"{tried.answered:,} answered with nothing of it, the others refused",
    )


TRIALS = (Trial(name="apart", test="cross-project", allowed="0", size=3000, run=run),)
