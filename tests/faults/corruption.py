"""Damage to the file: a database is damaged at one place, looked at, and restored, as often as wanted.

Each copy is hurt once, somewhere: a bit, a byte, a page, its end, a backup, a checksum. What has
any effect has to be found; and what a restore then says is lost has to be all that is lost.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import apsw

from ralph.core.errors import RalphError
from ralph.core.records import AgentSession, AttemptOutcome, TaskStatus, now, record, record_fields
from ralph.formats.sync import sync
from ralph.store import Store, open_store
from ralph.store.maintenance.backup import make_backup
from ralph.store.maintenance.check import check_database
from ralph.store.maintenance.restore import DAMAGED_FOLDER, RestoreResult, restore
from ralph.store.tasks import TaskDraft
from ralph.store.vectors import VectorStore
from tests.faults.trial import Shown, Trial
from tests.make import a_report, begin, finish
from tests.store.make import LEARNED

PAGE = 4096
WORKERS = 2
DATABASE = "ralph.db"
WITHOUT_LOG = 0.7
"""So many of the damaged files have no write-ahead log, which would hide pages of the file."""
UNUSED = ("sqlite_sequence", "writing")
"""Tables whose damage does no harm: numbers for new rows, which only have to be high, and one that nobody reads."""
TOLD = {
    "memory": ("memory", ("id",)),
    "attempt": ("attempts", ("run_id", "iteration")),
    "task": ("tasks", ("id",)),
    "feature": ("features", ("id",)),
    "failure report": ("failures", ("run_id", "iteration")),
    "session": ("sessions", ("id",)),
    "run": ("runs", ("id",)),
    "note on a task": ("task_log", ("task_id", "at", "message")),
    "dependency": ("task_needs", ("task_id", "needs_id")),
}
"""What a restore counts, the table of each, and what tells its rows apart."""
UNCOUNTED = ("seq", "claimed_by", "claim_token", "lease_until", "seen", "stale")

Rows = dict[str, list[tuple[object, ...]]]


# --- a database as a project has it ----------------------------------------------------------


def build(folder: Path) -> Path:
    """Make a project with all there is in one, two backups, and more that is in the write-ahead log alone.

    Gives the folder that trials make copies of.
    """
    from tests.make import set_up_project

    folder.mkdir()
    set_up_project(folder)
    home = folder / ".ralph"
    _in_process(folder, "first")
    make_backup(str(home / DATABASE), "older")
    _in_process(folder, "second")
    make_backup(str(home / DATABASE), "newer")
    _in_process(folder, "third")
    _in_process(folder, "fourth")
    assert (home / f"{DATABASE}-wal").stat().st_size > 10 * PAGE
    return home


def _in_process(folder: Path, part: str) -> None:
    """Write in a process that dies at once: what it wrote stays in the write-ahead log."""
    code = f"from tests.faults.corruption import write; write({str(folder)!r}, {part!r})"
    environment = {name: text for name, text in os.environ.items() if name != "RALPH_STORE"}
    subprocess.run([sys.executable, "-c", code], check=False, cwd=Path(__file__).parents[2], env=environment)


def write(folder: str, part: str) -> None:
    """Write one part of what a project has, and die."""
    from ralph.project import Project

    with Project.open(Path(folder)) as project:
        if part == "fourth":  # from here on another generation of the log
            project.store.database.query("PRAGMA wal_checkpoint(TRUNCATE)")
        {"first": _first, "second": _second, "third": _third, "fourth": _fourth}[part](project.store)
        sync(project.store, project.root)
        if part == "first":
            project.store.database.query("PRAGMA wal_checkpoint(TRUNCATE)")
        os._exit(9)


def _first(store: Store) -> None:
    store.features.add("Search", "It finds things.", "First this, then that.")
    tasks = store.tasks.add_all([TaskDraft(title=f"Task {n}", body="What has to be done. " * 6) for n in range(24)])
    store.tasks.graph.add_dependencies(tasks[3].id, [tasks[20].id, tasks[21].id])
    for n in range(3):
        store.tasks.log(tasks[n].id, f"A note of a person, number {n}.", "person")
    _work(store, "First", 8)
    _learn(store, "First", 24)
    rows = VectorStore(store.scope, "model", 64).missing(100)
    VectorStore(store.scope, "model", 64).put(rows, [random.Random(n).randbytes(64) for n in range(len(rows))])


def _second(store: Store) -> None:
    _work(store, "Second", 4)
    _learn(store, "Second", 6)
    store.features.add("Export", "It writes things.")


def _third(store: Store) -> None:
    _learn(store, "Third", 8)
    memory = store.memories.all()[1]
    store.memories.update(memory.id, "edited", LEARNED, content="Another text than before.")


def _fourth(store: Store) -> None:
    _learn(store, "Fourth", 5)
    _work(store, "Fourth", 3)
    added = store.tasks.add(TaskDraft(title="Added last"))
    store.tasks.log(added.id, "Said last.", "person")
    begin(store, store.runs.start("test").id)


def _work(store: Store, name: str, count: int) -> None:
    run = store.runs.start("test", '{"limit": 3}')
    for n in range(count):
        task, attempt = begin(store, run.id)
        notes = f"Looked at the parser, part {n} of {name}."
        if n % 2:
            finish(
                store, task, attempt, AttemptOutcome.FAILED, TaskStatus.BLOCKED, report=a_report(attempt), notes=notes
            )
        else:
            finish(store, task, attempt, AttemptOutcome.DONE, TaskStatus.DONE, notes=notes)
    store.runs.end(run.id, "complete", 12.5)
    at = now()
    store.sessions.save(AgentSession(id=f"s-{name}", agent="claude", started_at=at, last_at=at, title=name))


def _learn(store: Store, name: str, count: int) -> None:
    from tests.make import a_memory

    for n in range(count):
        body = f"All that {name} knows of the encoder, part {n}. See [[{name} fact {n // 2}]] and src/part{n}.py."
        kind = ("knowledge", "fix", "pattern")[n % 3]
        memory = a_memory(f"{name} fact {n}", body, kind=kind, tags=("encoder",), files=(f"src/part{n}.py",))
        store.memories.add(memory, LEARNED)


# --- what is in it ---------------------------------------------------------------------------


@record
class State:
    """All that can be read in a database through SQL."""

    schema: list[tuple[object, ...]]
    rows: dict[str, list[tuple[object, ...]]]
    columns: dict[str, tuple[str, ...]]
    found: list[list[tuple[object, ...]]]
    """What the search indexes give for every word there is."""


def state(path: Path) -> State:
    """Give all that can be read in a database."""
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        schema = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name").fetchall()
        tables = [
            str(name)
            for kind, name, _, sql in schema
            if kind == "table" and not str(sql).startswith("CREATE VIRTUAL") and "_index_" not in str(name)
        ]
        columns: dict[str, tuple[str, ...]] = {}
        rows: dict[str, list[tuple[object, ...]]] = {}
        for table in tables:
            columns[table] = tuple(str(row[1]) for row in connection.execute(f'PRAGMA table_info("{table}")'))
            rows[table] = connection.execute(f'SELECT * FROM "{table}" ORDER BY rowid').fetchall()
        found = []
        for index in ("memory", "attempt", "failure"):
            words = sorted(
                {
                    word
                    for row in connection.execute(f"SELECT title, body, paths, tags FROM {index}_words")
                    for text in row
                    for word in str(text).split()
                }
            )
            for word in words:
                sql = f"SELECT rowid FROM {index}_index WHERE {index}_index MATCH ?"
                found.append(connection.execute(sql, (f'"{word}"',)).fetchall())
        return State(schema=schema, rows=rows, columns=columns, found=found)


def differs(one: State, other: State) -> str:
    """Give the first thing that is not the same; nothing when all is."""
    if one.schema != other.schema:
        return "schema"
    for table, rows in one.rows.items():
        if table not in UNUSED and rows != other.rows.get(table):
            return table
    return "" if one.found == other.found else "search"


def keyed(state: State, noun: str) -> dict[tuple[object, ...], dict[str, object]]:
    """Give the rows of what a restore counts, by what tells them apart, without what nobody would miss."""
    table, key = TOLD[noun]
    names = state.columns[table]
    found = {}
    for values in state.rows[table]:
        row = dict(zip(names, values, strict=True))
        kept = {name: value for name, value in row.items() if name not in UNCOUNTED}
        if table == "tasks" and kept["status"] == "in_progress":
            kept["status"] = "pending"
        found[tuple(row[name] for name in ("project_id", *key))] = kept
    return found


# --- damage ----------------------------------------------------------------------------------


def _flip(path: Path, chance: random.Random, mask: Callable[[], int], where: Callable[[bytes], int]) -> str:
    content = bytearray(path.read_bytes())
    at = where(bytes(content))
    content[at] ^= mask()
    _overwrite(path, bytes(content))
    return f"at {at}"


def _overwrite(path: Path, content: bytes) -> None:
    with path.open("rb+") as file:
        file.write(content)
        file.truncate(len(content))


def _in_use(content: bytes, chance: random.Random) -> int:
    """Give a place where something is written."""
    while True:
        at = chance.randrange(len(content))
        if content[at]:
            return at


def bit_anywhere(home: Path, chance: random.Random) -> str:
    return _flip(
        home / DATABASE, chance, lambda: 1 << chance.randrange(8), lambda content: chance.randrange(len(content))
    )


def bit_in_use(home: Path, chance: random.Random) -> str:
    return _flip(home / DATABASE, chance, lambda: 1 << chance.randrange(8), lambda content: _in_use(content, chance))


def byte_in_use(home: Path, chance: random.Random) -> str:
    return _flip(home / DATABASE, chance, lambda: chance.randrange(1, 256), lambda content: _in_use(content, chance))


def page_zeroed(home: Path, chance: random.Random) -> str:
    content = (home / DATABASE).read_bytes()
    at = chance.randrange(len(content) // PAGE) * PAGE
    _overwrite(home / DATABASE, content[:at] + bytes(PAGE) + content[at + PAGE :])
    return f"page {at // PAGE + 1}"


def page_overwritten(home: Path, chance: random.Random) -> str:
    """Put another page of the same file, or noise, in the place of one."""
    content = (home / DATABASE).read_bytes()
    pages = len(content) // PAGE
    at, other = (chance.randrange(pages) * PAGE for _ in range(2))
    page = content[other : other + PAGE] if chance.random() < 0.7 else chance.randbytes(PAGE)
    _overwrite(home / DATABASE, content[:at] + page + content[at + PAGE :])
    return f"page {at // PAGE + 1} by {other // PAGE + 1}"


def cut(home: Path, chance: random.Random) -> str:
    content = (home / DATABASE).read_bytes()
    lengths = (0, 1, 99, 100, PAGE, chance.randrange(len(content)), chance.randrange(len(content) // PAGE) * PAGE)
    length = lengths[chance.randrange(len(lengths))]
    _overwrite(home / DATABASE, content[:length])
    return f"to {length}"


def backup_flipped(home: Path, chance: random.Random) -> str:
    """Damage the newest backup too."""
    newest = max((home / "backups").glob("*newer.db"))
    where = _flip(newest, chance, lambda: 1 << chance.randrange(8), lambda content: chance.randrange(len(content)))
    return f"{where}; {byte_in_use(home, chance)}"


def sum_flipped(home: Path, chance: random.Random) -> str:
    """Damage the checksum of the newest backup too."""
    newest = max((home / "backups").glob("*newer.db.sha256"))
    where = _flip(newest, chance, lambda: 1 << chance.randrange(8), lambda content: chance.randrange(64))
    return f"{where}; {cut(home, chance)}"


KINDS: dict[str, tuple[Callable[[Path, random.Random], str], int]] = {
    "bit anywhere": (bit_anywhere, 15),
    "bit in use": (bit_in_use, 33),
    "byte in use": (byte_in_use, 19),
    "page zeroed": (page_zeroed, 8),
    "page overwritten": (page_overwritten, 8),
    "file cut": (cut, 10),
    "backup flipped": (backup_flipped, 4),
    "checksum flipped": (sum_flipped, 3),
}
"""Each kind of damage, and how many of a hundred are of it."""


# --- one trial -------------------------------------------------------------------------------


@record
class Told:
    """What became of one damaged copy."""

    kind: str
    is_found: bool
    has_effect: bool
    is_exact: bool
    """The restore could count all that is lost."""
    wrong: tuple[str, ...]
    """What must not happen."""


@cache
def _truth(home: str) -> State:
    """Give what is in the sound database; of a copy, because whoever opens the last one empties the log."""
    copy = Path(home).parent / f"truth-{os.getpid()}"
    _copied(Path(home), copy)
    found = state(copy / DATABASE)
    assert check_database(str(copy / DATABASE), deep=True).problems == ()
    shutil.rmtree(copy)
    return found


def _copied(home: Path, place: Path) -> None:
    """Copy what is in a project's folder."""
    shutil.copytree(home, place, ignore=shutil.ignore_patterns("knowledge", "*-shm"))


def attempt(home: Path, place: Path, kind: str, seed: int) -> Told:
    """Damage a copy, look at it, use it, restore it; say what was wrong about any of that."""
    truth = _truth(str(home))
    _copied(home, place)
    try:
        chance = random.Random(seed)
        if chance.random() < WITHOUT_LOG:
            _empty_log(place)
        where = KINDS[kind][0](place, chance)
        return _looked_at(place, truth, kind, f"{kind} {where}, seed {seed}")
    finally:
        shutil.rmtree(place)


def _empty_log(place: Path) -> None:
    """Take over into the file what is in the log, as whoever closes a database does."""
    with closing(apsw.Connection(str(place / DATABASE))) as connection:
        connection.pragma("wal_checkpoint(TRUNCATE)")


def _looked_at(place: Path, truth: State, kind: str, name: str) -> Told:
    path, log = place / DATABASE, place / f"{DATABASE}-wal"
    before = path.read_bytes(), log.read_bytes() if log.exists() else b""
    wrong: list[str] = []
    health = check_database(str(path), deep=True)
    is_found = bool(health.problems or health.outdated_entries)
    effect = _effect(place, truth)
    if effect and not is_found:
        wrong.append(f"{name}: not found, {effect} differs")
    wrong += [f"{name}: {text}" for text in used(place)]
    now_there = path.read_bytes(), log.read_bytes() if log.exists() else b""
    if now_there != before:
        wrong.append(f"{name}: looking changed the file")
    try:
        done = restore(str(path))
        wrong += [f"{name}: {text}" for text in restored(place, done, truth, before)]
        is_exact = done.loss.is_exact
    except RalphError as error:
        wrong.append(f"{name}: not restored: {error}")
        is_exact = False
    return Told(kind=kind, is_found=is_found, has_effect=bool(effect), is_exact=is_exact, wrong=tuple(wrong))


def _effect(place: Path, truth: State) -> str:
    """Give what of a damaged database is not what it was, read through SQL from a copy; nothing when all is."""
    copy = _beside(place, "read")
    try:
        return differs(truth, state(copy))
    except (apsw.Error, UnicodeError):
        return "cannot be read"
    finally:
        shutil.rmtree(copy.parent)


def _beside(place: Path, name: str) -> Path:
    """Copy a damaged database with what belongs to it: SQLite alone would delete the log of an empty one."""
    copy = place / name
    copy.mkdir()
    for file in place.glob(f"{DATABASE}*"):
        shutil.copy(file, copy)
    return copy / DATABASE


def used(place: Path) -> list[str]:
    """Use a copy of a damaged database as commands do; give what is not one clear sentence."""
    copy = _beside(place, "used")
    wrong = []
    try:
        store = open_store(str(copy), is_own=True)
        try:
            store.memories.all()
            store.tasks.all()
            store.attempts.latest(10)
            store.memories.index.search_words({"encoder": 1.0}, 10, None)
            store.tasks.add(TaskDraft(title="Added to a damaged database"))
        finally:
            store.close()
    except RalphError as error:
        if "ralph " not in str(error) and "disk" not in str(error):
            wrong.append(f"no way out is named: {error}")
    except Exception as error:
        wrong.append(f"{type(error).__name__}: {error}")
    shutil.rmtree(copy.parent)
    return wrong


def restored(place: Path, done: RestoreResult, truth: State, before: tuple[bytes, bytes]) -> list[str]:
    """Give what is wrong with what a restore did and said."""
    wrong = []
    kept = Path(done.saved_to)
    if kept.parent != place / DAMAGED_FOLDER or (kept / DATABASE).read_bytes() != before[0]:
        wrong.append("the original was not kept as it was")
    log = kept / f"{DATABASE}-wal"
    if before[1] and (not log.exists() or log.read_bytes() != before[1]):
        wrong.append("the log was not kept as it was")
    if problems := check_database(str(place / DATABASE), deep=True).problems:
        wrong.append(f"what was restored is not sound: {problems[0]}")
        return wrong
    after = state(place / DATABASE)
    gap = done.loss
    for noun in TOLD:
        was, became = keyed(truth, noun), keyed(after, noun)
        gone = sum(1 for key in was if key not in became)
        changed = sum(1 for key, row in was.items() if key in became and became[key] != row)
        is_open = not gap.is_exact
        if gone > gap.added.get(noun, 0) and not is_open:
            wrong.append(f"{gone} × {noun} lost, told {gap.added.get(noun, 0)}: {done.loss_message}")
        if changed > gap.changed.get(noun, 0) and not is_open:
            wrong.append(f"{changed} × {noun} changed back, told {gap.changed.get(noun, 0)}: {done.loss_message}")
        if any(key not in was for key in became):
            wrong.append(f"a {noun} came from nowhere")
    return wrong


# --- all of them -----------------------------------------------------------------------------


def _attempt(given: tuple[str, str, str, int]) -> dict[str, Any]:
    home, place, kind, seed = given
    os.environ.pop("RALPH_STORE", None)
    return record_fields(attempt(Path(home), Path(place), kind, seed))


def run(folder: Path, size: int, seed: int) -> Shown:
    """Damage so many copies; nothing may go unnoticed, and nothing may be lost that is not told."""
    chance = random.Random(seed)
    home = build(folder / "project")
    kinds = chance.choices(list(KINDS), [share for _, share in KINDS.values()], k=max(0, size - len(KINDS)))
    kinds = [*KINDS, *kinds][:size]
    given = [(str(home), str(folder / f"copy-{n}"), kind, seed * 1_000_003 + n) for n, kind in enumerate(kinds)]
    if size < 100:
        told = [Told(**_attempt(one)) for one in given]
    else:
        with ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn")) as workers:
            told = [Told(**one) for one in workers.map(_attempt, given, chunksize=10)]
    wrong = [text for one in told for text in one.wrong]
    for text in wrong[:20]:
        print(text, file=sys.stderr)
    return Shown(load=f"{size:,} copies, each damaged once", tried=len(told), lost=len(wrong), says=figures(told))


def figures(told: list[Told]) -> str:
    """Say how many had an effect, were found, and could be counted."""
    effect = [one for one in told if one.has_effect]
    harmless = [one for one in told if not one.has_effect]
    found = sum(one.is_found for one in effect)
    return (
        f"{len(effect):,} had an effect, {found:,} of them found; of {len(harmless):,} in unused bytes "
        f"{sum(one.is_found for one in harmless):,} found; {sum(one.is_exact for one in told):,} losses counted exactly"
    )


def by_kind(told: list[Told]) -> dict[str, Counter[str]]:
    """Give how each kind of damage went, for whoever looks closer."""
    counted: dict[str, Counter[str]] = {}
    for one in told:
        name = ("effect" if one.has_effect else "none") + (", found" if one.is_found else "")
        counted.setdefault(one.kind, Counter())[name] += 1
    return counted


TRIALS = (
    Trial(
        name="corruption",
        test="corruption",
        allowed="0 unnoticed, loss ≤ reported gap",
        size=1000,
        run=run,
    ),
)

if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as made:
        home = build(Path(made) / "project")
        size, first = int(sys.argv[1]), int(sys.argv[2])
        results = [
            attempt(home, Path(made) / f"c{n}", kind, first + n)
            for n in range(size)
            for kind in [random.Random(first + n).choices(list(KINDS), [w for _, w in KINDS.values()])[0]]
        ]
        for one in results:
            for text in one.wrong:
                print(text)
        print(json.dumps(by_kind(results), indent=1))
        print(figures(results))
