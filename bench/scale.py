"""How well a known memory is found again among up to a million, and what that costs, beside tantivy.

A query is three or eight words of one memory (`short`, `search`), or five of them in the title of a task whose text is
about something else (`task`). The texts are those of `recall_speed`. A million takes half an hour to add, so the sizes
are chosen:
`RALPH_BENCH_SIZES=10000,100000,1000000 make bench-scale`. `RALPH_BENCH_STORE=postgres` measures on PostgreSQL.
"""

from __future__ import annotations

import os
import random
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from bench.measure import Table, best
from bench.recall_speed import SMALL_WORDS, Texts, fill, memories
from ralph.core.records import Memory, now
from ralph.memory.recall.query import RecallContext
from ralph.project import Project
from ralph.workspace import init_project

SIZES = (10_000, 100_000)
QUERIES = 60
REPEATS = 2
FOUND_WITHIN = 5
WORDS = {"short": 3, "search": 8, "task": 5}
"""Number of words of a memory in each kind of query."""
OTHER_WORDS = 30
HIT_BAR, TIME_BAR = 0.85, 3.0
"""Share of tantivy's hits that is needed, and times its median that a recall may take."""
INDEX_MEMORY = 256_000_000
"""Memory that tantivy may use while it indexes, in bytes."""


class KnownItem(NamedTuple):
    """A memory to find again, and what is asked for it."""

    id: str
    context: RecallContext


def known_items(size: int, kind: str, count: int = QUERIES) -> list[KnownItem]:
    """Return queries for random memories of the first `size`, the same ones in every run."""
    chance, texts = random.Random(size), Texts(-size)
    items = []
    for number in chance.sample(range(size), count):
        start = number - number % 1000
        memory = list(memories(start, min(start + 1000, size)))[number - start]
        words = _words_of(memory, chance, WORDS[kind])
        body = texts.words(OTHER_WORDS) if kind == "task" else ""
        items.append(KnownItem(memory.id, RecallContext(title=words, body=body, at=now())))
    return items


def _words_of(memory: Memory, chance: random.Random, count: int) -> str:
    words = [word for word in f"{memory.title} {memory.content}".split() if word.isalnum() and word not in SMALL_WORDS]
    distinct = list(dict.fromkeys(words))
    return " ".join(chance.sample(distinct, min(count, len(distinct))))


class Tantivy:
    """The same texts in an index of tantivy, with its English stems."""

    def __init__(self, directory: Path, size: int) -> None:
        import tantivy  # type: ignore[import-not-found, unused-ignore]

        builder = tantivy.SchemaBuilder()
        builder.add_text_field("id", stored=True, tokenizer_name="raw")
        builder.add_text_field("text", tokenizer_name="en_stem")
        directory.mkdir(exist_ok=True)
        self._index: Any = tantivy.Index(builder.build(), path=str(directory))
        writer = self._index.writer(INDEX_MEMORY, 1)
        for one in memories(0, size):
            text = " ".join((one.title, one.content, *one.tags, *one.files))
            writer.add_document(tantivy.Document(id=one.id, text=text))
        writer.commit()
        writer.wait_merging_threads()
        self._index.reload()

    def find(self, context: RecallContext) -> list[str]:
        """Return the ids of the best matches for all words of a context."""
        searcher = self._index.searcher()
        words = " ".join(re.findall(r"[^\W_]+", f"{context.title} {context.body}".lower()))
        hits = searcher.search(self._index.parse_query(words, ["text"]), FOUND_WITHIN).hits
        return [searcher.doc(address)["id"][0] for _, address in hits]


def run(table: Table) -> None:
    """Measure at each size, both in one run."""
    sizes = [int(size) for size in os.environ.get("RALPH_BENCH_SIZES", "").split(",") if size] or list(SIZES)
    with tempfile.TemporaryDirectory(prefix="ralph-bench-") as name, _store_url() as url:
        init_project(Path(name), url=url) if url else init_project(Path(name))
        present = 0
        with Project.open(Path(name)) as project:
            for size in sizes:
                print(f"A known memory among {size:,}, {'PostgreSQL' if url else 'SQLite'}")
                fill(project, present, size)
                present = size
                measure(table, project, Tantivy(Path(name) / f"tantivy-{size}", size), size)


def measure(table: Table, project: Project, peer: Tantivy, size: int) -> None:
    """Print hits and median time of both for each kind of query."""

    def recall(context: RecallContext) -> list[str]:
        return [one.memory.id for one in project.memory.recall(context, FOUND_WITHIN)]

    for kind in WORDS:
        items = known_items(size, kind)
        theirs, their_time = _hits_and_time(peer.find, items)
        ours, our_time = _hits_and_time(recall, items)
        table.row(f"{kind}: tantivy, hit@{FOUND_WITHIN} {theirs:.2f}", their_time * 1000, 1.0)
        table.row(f"{kind}: a recall, hit@{FOUND_WITHIN} {ours:.2f}", our_time * 1000, our_time / their_time, TIME_BAR)
        is_met = ours >= HIT_BAR * theirs
        table.missed += not is_met
        print(f"  hits against tantivy's: {ours / theirs:.2f}  (at least {HIT_BAR:g}: {'met' if is_met else 'MISSED'})")


def _hits_and_time(find: Callable[[RecallContext], list[str]], items: Sequence[KnownItem]) -> tuple[float, float]:
    hits = sum(item.id in find(item.context) for item in items)
    times = [best(lambda item=item: find(item.context), REPEATS) for item in items]  # type: ignore[misc]
    return hits / len(items), median(times)


@contextmanager
def _store_url() -> Iterator[str]:
    """Yield the URL of a database on a server of our own, or an empty string for a file."""
    if os.environ.get("RALPH_BENCH_STORE") != "postgres":
        yield ""
        return
    from tests.postgres import Server

    server = Server(is_durable=True)
    try:
        server.run("CREATE DATABASE bench")
        yield server.url("bench")
    finally:
        server.remove()
