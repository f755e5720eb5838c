"""What it costs to keep a memory, to import many, and to keep a markdown file in step."""

from __future__ import annotations

import random
import resource
import sys
import tempfile
from pathlib import Path

import apsw

from bench.measure import Table, best, seconds
from ralph.core.records import Memory, MemorySource, now
from ralph.formats.bundle import write_bundle
from ralph.formats.memories_md import write_memories_md
from ralph.formats.sync import sync
from ralph.project import Project
from ralph.store.memories import ChangeInfo
from ralph.workspace import init_project

MANY = 100_000
ENTRIES = 10_000
ADDED = 200
REPEATS = 5
VOCABULARY = 20_000
BENCH = ChangeInfo(who="bench", why="bench")


def words(chance: random.Random, count: int) -> str:
    """Give so many words, some of them frequent, as in real text."""
    return " ".join(f"w{int(VOCABULARY * chance.random() ** 3):x}ord" for _ in range(count))


def memories(count: int, first: int = 0, kind: str = "pitfall") -> list[Memory]:
    """Give so many different memories of about 200 characters."""
    chance = random.Random(first)
    at = now()
    return [
        Memory(
            id=f"mem-{first + n}-bench",
            kind=kind,
            title=words(chance, 6),
            content=f"{words(chance, 20)} {first + n}",
            tags=(words(chance, 1), words(chance, 1)),
            source=MemorySource.IMPORTED,
            created_at=at,
            updated_at=at,
        )
        for n in range(count)
    ]


class Raw:
    """A bare table with a full-text index, filled by hand."""

    def __init__(self, directory: Path) -> None:
        self._connection = apsw.Connection(str(directory / f"raw-{random.random()}.db"))
        self._connection.pragma("journal_mode", "wal")
        self._connection.pragma("synchronous", "full")
        self._connection.execute(
            """
            CREATE TABLE m (seq INTEGER PRIMARY KEY, id TEXT UNIQUE, kind TEXT, title TEXT, body TEXT, tags TEXT,
                files TEXT);
            CREATE VIRTUAL TABLE f USING fts5 (title, body, tags, files, content = 'm', content_rowid = 'seq',
                tokenize = 'porter unicode61 remove_diacritics 2');
            INSERT INTO f (f, rank) VALUES ('automerge', 2);
            CREATE TRIGGER added AFTER INSERT ON m BEGIN
                INSERT INTO f (rowid, title, body, tags, files)
                VALUES (new.seq, new.title, new.body, new.tags, new.files);
            END;
            """
        )

    def insert(self, some: list[Memory], *, together: bool) -> None:
        """Insert rows, all in one transaction or each in its own."""
        rows = [(one.id, one.kind, one.title, one.content, " ".join(one.tags), "") for one in some]
        batches = [rows] if together else [[row] for row in rows]
        for batch in batches:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany(
                "INSERT INTO m (id, kind, title, body, tags, files) VALUES (?,?,?,?,?,?)", batch
            )
            self._connection.execute("COMMIT")


def run(table: Table) -> None:
    """Measure in turns, so that all meet the same noise."""
    with tempfile.TemporaryDirectory(prefix="ralph-bench-", dir=Path.home()) as name:
        directory = Path(name)
        init_project(directory)
        with Project.open(directory) as project:
            _import_and_add(table, project, directory)
        (directory / "files").mkdir()
        init_project(directory / "files")
        with Project.open(directory / "files") as project:
            _in_step(table, project)


def _import_and_add(table: Table, project: Project, directory: Path) -> None:
    print(f"Importing {MANY:,} memories, then adding with so many present")
    many = memories(MANY)
    text = "".join(write_bundle(((one, ()) for one in many), "bench", now()))
    raw = Raw(directory)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    raw_batch = seconds(lambda: raw.insert(many, together=True))
    ours = seconds(lambda: project.transfer.import_text(text, "bench.jsonl"))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert project.store.memories.stats.count() == MANY
    table.row(f"raw inserts with full text, {MANY:,} in one transaction", raw_batch * 1000, 1.0)
    table.row("an import of them, read, checked, with history", ours * 1000, ours / raw_batch, 4.0)
    grown = (after - before) / (1024 if sys.platform != "darwin" else 1024 * 1024)
    print(f"  {MANY / ours:,.0f} a second; raw {MANY / raw_batch:,.0f}; memory of the process grew by {grown:,.0f} MB")
    raws, adds = [], []
    for n in range(REPEATS):
        some = memories(ADDED, first=MANY * 2 + n * ADDED)
        raws.append(seconds(lambda some=some: raw.insert(some, together=False)) / ADDED)  # type: ignore[misc]
        adds.append(
            seconds(lambda some=some: [project.store.memories.add(one, BENCH) for one in some]) / ADDED  # type: ignore[misc]
        )
    table.row("one raw durable insert with full text", min(raws) * 1000, 1.0)
    table.row("one memory added", min(adds) * 1000, min(adds) / min(raws), 3.0)


def _in_step(table: Table, project: Project) -> None:
    print(f"A memories.md with {ENTRIES:,} entries")
    path = project.root / ".agent" / "memories.md"
    path.parent.mkdir()
    path.write_text(write_memories_md(memories(ENTRIES, kind="pattern")))
    first = seconds(lambda: sync(project.store, project.root))
    assert project.store.memories.stats.count() == ENTRIES
    sync(project.store, project.root)
    read = best(lambda: path.read_text().split("\n"), 20)
    again = best(lambda: sync(project.store, project.root), 20)
    table.row("reading and splitting it", read * 1000, 1.0)
    table.row("keeping it in step, nothing changed", again * 1000, again / read, 2.0)
    path.write_text(path.read_text() + "\n### mem-1-beef\n> One more.\n")
    changed = seconds(lambda: sync(project.store, project.root))
    table.row("the same, one entry typed by a person", changed * 1000, changed / read)
    table.row("taking all of them in for the first time", first * 1000, first / read)
