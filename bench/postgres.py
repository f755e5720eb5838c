"""On PostgreSQL: what a recall costs against one bare full-text query, and claims against a bare queue.

The server is started for this, with its settings as they come, and is durable as any other.
"""

from __future__ import annotations

import multiprocessing
import re
import tempfile
import time
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import psycopg
from tests.make import claim_task
from tests.postgres import Server

from bench.measure import Table, best
from bench.recall_speed import Texts, fill, memories
from ralph.memory.recall.query import RecallContext
from ralph.project import Project
from ralph.store import open_store
from ralph.store.tasks import TaskDraft
from ralph.workspace import init_project

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from multiprocessing.synchronize import Barrier

MANY = 100_000
QUERIES = 8
REPEATS = 3
SHOWN = 8
WORKERS = 8
CLAIMS = 150
"""Of each worker."""
ROUNDS = 3
RECALL_BAR = 3.0
CLAIMS_BAR = 0.7
"""At least this share of the rate of a bare queue."""


def run(table: Table) -> None:
    """Measure on a server of our own."""
    server = Server(is_durable=True)
    try:
        server.run("CREATE DATABASE bench")
        with tempfile.TemporaryDirectory(prefix="ralph-bench-") as name:
            _claims(table, Path(name) / "claims", server.url("bench"))
            _recall(table, Path(name) / "recall", server.url("bench"))
    finally:
        server.remove()


# --- recall --------------------------------------------------------------------------------


def _recall(table: Table, directory: Path, url: str) -> None:
    print(f"PostgreSQL: recall with {MANY:,} memories")
    directory.mkdir()
    init_project(directory, url=url)
    with Project.open(directory) as project, closing(psycopg.connect(url, autocommit=True)) as connection:
        fill(project, 0, MANY)
        _fill_bare(connection)
        connection.execute("VACUUM ANALYZE")
        texts = Texts(-1)
        for what, asked in (
            ("a task of about 40 words", [texts.task() for _ in range(QUERIES)]),
            ("ten words", [texts.search() for _ in range(QUERIES)]),
        ):
            ours = _middle(lambda context: project.memory.recall(context, SHOWN), asked)
            bare = _middle(lambda context: _find_bare(connection, context), asked)
            table.row(f"one bare tsvector query, {what}", bare * 1000, 1.0)
            table.row(f"a recall, {what}", ours * 1000, ours / bare, RECALL_BAR)


def _middle(work: Callable[[RecallContext], object], asked: Sequence[RecallContext]) -> float:
    return median(best(lambda one=one: work(one), REPEATS) for one in asked)  # type: ignore[misc]


def _fill_bare(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    """Keep the same texts under the server's own full-text index."""
    connection.execute("CREATE TABLE bare (seq BIGINT PRIMARY KEY, words TSVECTOR NOT NULL)")
    with connection.cursor() as cursor, connection.transaction():
        cursor.executemany(
            "INSERT INTO bare VALUES (%s, to_tsvector('english', %s))",
            [
                (number, " ".join((one.title, one.content, *one.tags, *one.files)))
                for number, one in enumerate(memories(0, MANY))
            ],
        )
    connection.execute("CREATE INDEX bare_words ON bare USING gin (words)")


def _find_bare(connection: psycopg.Connection[tuple[object, ...]], context: RecallContext) -> object:
    words = dict.fromkeys(re.findall(r"[^\W_]+", f"{context.title} {context.body}".lower()))
    return connection.execute(
        """
        WITH asked AS (SELECT to_tsquery('english', %s) AS q)
        SELECT seq FROM bare, asked WHERE words @@ q ORDER BY ts_rank(words, q) DESC LIMIT 20
        """,
        (" | ".join(words),),
    ).fetchall()


# --- claims --------------------------------------------------------------------------------


def _claims(table: Table, directory: Path, url: str) -> None:
    print(f"PostgreSQL: {WORKERS} workers claim {WORKERS * CLAIMS:,} tasks")
    directory.mkdir()
    init_project(directory, url=url)
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        connection.execute(
            """
            CREATE TABLE queue (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, status TEXT NOT NULL,
                priority BIGINT NOT NULL, payload TEXT NOT NULL, worker TEXT, lease_until TIMESTAMPTZ);
            CREATE INDEX queue_in_order ON queue (status, priority DESC, id)
            """
        )
    ours, bare, begun = [], [], []
    for _ in range(ROUNDS):
        store = open_store(url, "claims")
        store.tasks.add_all([TaskDraft(title=f"Task {n}") for n in range(WORKERS * CLAIMS)])
        store.close()
        with closing(psycopg.connect(url, autocommit=True)) as connection:
            connection.execute(
                "INSERT INTO queue (status, priority, payload) SELECT 'pending', 0, 'Task ' || n"
                f" FROM generate_series(1, {WORKERS * CLAIMS}) AS n"
            )
            connection.execute("VACUUM ANALYZE")
        bare.append(_together(_claim_bare, url))
        ours.append(_together(_claim, url))
        store = open_store(url, "claims")
        store.tasks.add_all([TaskDraft(title=f"Task {n}") for n in range(WORKERS * CLAIMS)])
        store.close()
        begun.append(_together(_begin, url))
    table.row("a claim from a bare SKIP LOCKED queue", min(bare) * 1000, 1.0)
    table.row("a claim of a task", min(ours) * 1000, min(ours) / min(bare), 1 / CLAIMS_BAR)
    table.row("a claim with its attempt, as a run makes it", min(begun) * 1000, min(begun) / min(bare))


def _together(work: Callable[[str, Barrier], None], url: str) -> float:
    """Give the time a claim takes when all workers claim at once."""
    start = multiprocessing.get_context("fork").Barrier(WORKERS + 1)
    workers = [multiprocessing.get_context("fork").Process(target=work, args=(url, start)) for _ in range(WORKERS)]
    for one in workers:
        one.start()
    start.wait()
    begin = time.perf_counter()
    for one in workers:
        one.join()
    return (time.perf_counter() - begin) / (WORKERS * CLAIMS)


def _claim(url: str, start: Barrier) -> None:
    store = open_store(url, "claims")
    start.wait()
    for _ in range(CLAIMS):
        assert claim_task(store, "worker", 60)
    store.close()


def _begin(url: str, start: Barrier) -> None:
    store = open_store(url, "claims")
    run = store.runs.start("bench")
    start.wait()
    for _ in range(CLAIMS):
        assert store.attempts.begin(run.id, "worker", 60, agent="bench")
    store.close()


def _claim_bare(url: str, start: Barrier) -> None:
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        start.wait()
        for _ in range(CLAIMS):
            claimed = connection.execute(
                """
                UPDATE queue SET status = 'taken', worker = %s, lease_until = now() + INTERVAL '60 seconds'
                WHERE id = (
                    SELECT id FROM queue WHERE status = 'pending' ORDER BY priority DESC, id LIMIT 1
                    FOR UPDATE SKIP LOCKED
                )
                RETURNING *
                """,
                ("worker",),
            ).fetchall()
            assert claimed
