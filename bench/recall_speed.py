"""What a recall costs as memories grow, against one bare full-text query, and how large its index is.

The texts are made up, the same on every machine: words as frequent as in real text, names of code, paths of files.
A million takes many minutes to make, so it is measured only with RALPH_BENCH_LARGE=1.
"""

from __future__ import annotations

import os
import random
import re
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from statistics import median
from typing import Any

import apsw

from bench.measure import Table, best
from ralph.core.memory_types import SIGNAL_TYPES
from ralph.core.records import Memory, MemorySource, now, timestamp
from ralph.memory.recall.candidates import recall_memories
from ralph.memory.recall.query import RecallContext
from ralph.project import Project
from ralph.store.memories import ChangeInfo
from ralph.workspace import init_project

SMALL, MANY, LARGE = 10_000, 100_000, 1_000_000
QUERIES = 20
REPEATS = 5
BATCH = 5_000
SHOWN = 8
VOCABULARY, NAMES, PATHS = 50_000, 20_000, 5_000
START = 1_600_000_000
MINUTES_APART = 4
BENCH = ChangeInfo(who="bench", why="bench")

SMALL_WORDS = (
    "the of and to a in is it that for on was with as be by this are from at not or have an which but has can if when"
    " will all one we they were there been their more no its so about into than then them only some would other out up"
    " do after also because should must before how where what each does new use any now may most such while same over"
    " these two our between under both very without here just who"
).split()
"""The most frequent words of English, the most frequent first: two fifths of a text are such words."""
_BEGINNINGS = "b c d f g h j k l m n p r s t v w z br cl dr fl gr pl pr sh st tr".split()
_ENDINGS = ("", "s", "ing", "ed")


def _word(number: int) -> str:
    """Give a made-up word of two or three syllables; every fourth is the same one with another ending."""
    root, ending = divmod(number, len(_ENDINGS))
    syllables: list[str] = []
    while root or not syllables:
        root, at = divmod(root, len(_BEGINNINGS) * 5)
        syllables.append(_BEGINNINGS[at // 5] + "aeiou"[at % 5])
    return "".join((*syllables, "mnrt"[number % 3], _ENDINGS[ending]))


def _shares(count: int, evenness: float) -> list[float]:
    """Give how often each of so many things is there, the most frequent first, added up (Zipf's law)."""
    return list(accumulate(1 / (rank + evenness) for rank in range(count)))


_CONTENT_WORDS = [_word(number) for number in range(VOCABULARY)]
_WORDS = [*SMALL_WORDS, *_CONTENT_WORDS]
_OF_WORDS, _OF_NAMES, _OF_PATHS = _shares(len(_WORDS), 2.7), _shares(NAMES, 50), _shares(PATHS, 20)


def _names(chance: random.Random) -> list[str]:
    pairs = [chance.choices(_CONTENT_WORDS[:5000], k=2) for _ in range(NAMES)]
    return [f"{one}_{other}" if chance.random() < 0.5 else one + other.capitalize() for one, other in pairs]


def _paths(chance: random.Random) -> list[str]:
    some = _CONTENT_WORDS[:2000]
    return [
        f"src/{chance.choice(some[:40])}/{chance.choice(some[:200])}/{chance.choice(some)}_{chance.choice(some)}.py"
        for _ in range(PATHS)
    ]


_NAMES = _names(random.Random(1))
_PATHS = _paths(random.Random(2))


class Texts:
    """Made-up texts: the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def words(self, count: int) -> str:
        """Give so many words; one in twenty is a name in code."""
        found = self._chance.choices(_WORDS, cum_weights=_OF_WORDS, k=count)
        for at in range(count):
            if self._chance.random() < 0.05:
                found[at] = self._chance.choices(_NAMES, cum_weights=_OF_NAMES)[0]
        return " ".join(found)

    def paths(self, count: int) -> tuple[str, ...]:
        """Give the paths of at most so many files."""
        return tuple(dict.fromkeys(self._chance.choices(_PATHS, cum_weights=_OF_PATHS, k=count)))

    def memory(self, number: int) -> Memory:
        """Give a memory of 20 to 120 words; some are knowledge, and some link to it."""
        chance = self._chance
        at = timestamp(START + (number + chance.random() / 2) * MINUTES_APART * 60)
        is_knowledge = chance.random() < 0.05
        link = f" See [[Topic {chance.randint(0, number)}]]." if chance.random() < 0.05 else ""
        return Memory(
            id=f"mem-{number}-bench",
            kind="knowledge" if is_knowledge else chance.choice(SIGNAL_TYPES),
            title=f"Topic {number}" if is_knowledge else self.words(chance.randint(4, 10)),
            content=self.words(chance.randint(20, 120)) + link,
            tags=tuple(dict.fromkeys(chance.choices(_CONTENT_WORDS[:500], k=chance.randint(0, 3)))),
            files=self.paths(chance.randint(0, 3)),
            source=MemorySource.AUTOMATIC,
            confidence=chance.randint(30, 90) / 100,
            origin_session=f"session-{number // 3}",
            created_at=at,
            updated_at=at,
        )

    def task(self) -> RecallContext:
        """Give what a task asks: a title, and a text that may name a file."""
        chance = self._chance
        named = f" It is in {self.paths(1)[0]}." if chance.random() < 0.3 else ""
        title, body = self.words(chance.randint(6, 10)), self.words(chance.randint(20, 60))
        return RecallContext(title=title, body=body + named, at=now())

    def search(self) -> RecallContext:
        """Give what a search for ten words asks."""
        return RecallContext(title=self.words(10), at=now())


def memories(first: int, end: int) -> Iterator[Memory]:
    """Give the memories with these numbers, the same ones in every run; the first is a multiple of a thousand."""
    for start in range(first, end, 1000):
        texts = Texts(start)
        yield from (texts.memory(number) for number in range(start, min(start + 1000, end)))


def fill(project: Project, first: int, end: int) -> int:
    """Keep the memories with these numbers; give how many bytes of text they are."""
    size = 0
    for start in range(first, end, BATCH):
        some = list(memories(start, min(start + BATCH, end)))
        project.store.memories.insert_all_unchecked(some, BENCH)
        size += sum(len(" ".join((one.title, one.content, *one.tags, *one.files)).encode()) for one in some)
    return size


class Bare:
    """The same texts under SQLite's own full-text index, all in one part: as quick as it gets."""

    def __init__(self, path: Path, end: int) -> None:
        self._connection = apsw.Connection(str(path))
        self._connection.pragma("journal_mode", "wal")
        self._connection.execute(
            """
            CREATE TABLE m (seq INTEGER PRIMARY KEY, title TEXT, body TEXT, tags TEXT, files TEXT);
            CREATE VIRTUAL TABLE f USING fts5 (title, body, tags, files, content = 'm', content_rowid = 'seq',
                tokenize = 'porter unicode61 remove_diacritics 2');
            """
        )
        rows = ((one.title, one.content, " ".join(one.tags), " ".join(one.files)) for one in memories(0, end))
        with self._connection:
            self._connection.executemany("INSERT INTO m (title, body, tags, files) VALUES (?, ?, ?, ?)", rows)
            self._connection.execute("INSERT INTO f (f) VALUES ('rebuild')")
            self._connection.execute("INSERT INTO f (f) VALUES ('optimize')")

    def find(self, context: RecallContext, without: Collection[str] = ()) -> list[tuple[Any, ...]]:
        """Find the best twenty for all the words of a context."""
        words = dict.fromkeys(re.findall(r"[^\W_]+", f"{context.title} {context.body}".lower()))
        asked = " OR ".join(f'"{word}"' for word in words if word not in without)
        sql = "SELECT rowid FROM f WHERE f MATCH ? ORDER BY rank LIMIT 20"
        return self._connection.execute(sql, (asked or '""',)).fetchall()


def run(table: Table) -> None:
    """Measure in a project that grows."""
    sizes = (SMALL, MANY, LARGE) if os.environ.get("RALPH_BENCH_LARGE") == "1" else (SMALL, MANY)
    with tempfile.TemporaryDirectory(prefix="ralph-bench-") as name:
        measure(table, Path(name), sizes)


def measure(table: Table, directory: Path, sizes: Sequence[int], queries: int = QUERIES) -> None:
    """Measure recall at each size against that at the first, and at the second against a bare query."""
    texts = Texts(-1)
    tasks = [texts.task() for _ in range(queries)]
    searches = [texts.search() for _ in range(queries)]
    init_project(directory)
    small = text_bytes = present = 0.0
    with Project.open(directory) as project:
        for place, size in enumerate(sizes):
            print(f"Recall with {size:,} memories")
            text_bytes += fill(project, int(present), size)
            present = size
            asked = _middle(lambda context: project.memory.recall(context, SHOWN), tasks)
            sought = _middle(lambda context: project.memory.recall(context, SHOWN), searches)
            chosen = _middle(lambda context: recall_memories(project.store, context), tasks)
            small = small or asked
            table.row("a recall for a task", asked * 1000, asked / small, 5.0 if place else None)
            table.row("the same, the few to show chosen", chosen * 1000, chosen / small)
            table.row("a recall for ten words", sought * 1000, sought / small)
            if place == 1:
                _against_a_bare_query(table, Bare(directory / "bare.db", size), (tasks, asked), (searches, sought))
                _size(table, project, text_bytes)


def _middle(act: Callable[[RecallContext], object], contexts: Sequence[RecallContext]) -> float:
    """Give the median over the contexts of the shortest time of each."""
    return median(best(lambda context=context: act(context), REPEATS) for context in contexts)  # type: ignore[misc]


def _against_a_bare_query(table: Table, bare: Bare, *asked: tuple[Sequence[RecallContext], float]) -> None:
    for what, (contexts, ours) in zip(("all words of a task", "ten words"), asked, strict=True):
        theirs = _middle(bare.find, contexts)
        table.row(f"a bare full-text query for {what}", theirs * 1000, 1.0)
        table.row("a recall against it", ours * 1000, ours / theirs, 0.25)
        telling = _middle(lambda context: bare.find(context, SMALL_WORDS), contexts)
        table.row("the bare query without words like `the`", telling * 1000, telling / theirs)


def _size(table: Table, project: Project, text_bytes: float) -> None:
    """Say how large the index is, with the words and files it is made of."""
    parts = project.store.database.query(
        """
        SELECT name, pgsize FROM dbstat WHERE aggregate = TRUE
            AND (name LIKE 'memory_words%' OR name LIKE 'memory_index%' OR name LIKE '%memory_files%')
        """
    )
    size = sum(part["pgsize"] for part in parts)
    ratio = size / text_bytes
    table.missed += ratio > 2.0
    verdict = "met" if ratio <= 2.0 else "MISSED"
    print(f"  the index: {size / 1e6:,.1f} MB, {ratio:.2f} x the text  (at most 2: {verdict})", flush=True)
