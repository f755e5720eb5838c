"""A server that compares vectors by itself finds what is found with all of them at hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import product
from pathlib import Path

import pytest

from ralph.core.records import MemoryState, now
from ralph.memory.recall import embeddings
from ralph.memory.recall.query import RecallContext
from ralph.project import Project
from ralph.store import Store, create_store, open_database
from ralph.store.memories import ChangeInfo
from ralph.store.postgres.driver import PostgresDatabase
from ralph.store.postgres.pgvector import VECTOR_SIZE
from ralph.store.vectors import VectorStore, enable_server_search
from tests.make import a_memory, set_up_project
from tests.postgres import Server

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.skipif(not embeddings.is_installed(), reason="no embedding model installed"),
]

WHO = ("The parser", "The login page", "The mail queue", "The image scaler", "The invoice printer", "The test runner")
WHAT = (
    "forgets what it was told when the machine restarts",
    "takes a minute for what should take a second",
    "shows dates a day late to people in Asia",
    "stops when a name has an accent in it",
    "writes the same line twice",
    "needs a lock, or two of them ruin the file",
    "must never print a password",
)
QUERIES = (
    "users get signed out all the time",
    "slow documents",
    "wrong timezone",
    "unicode trouble in usernames",
    "secrets in the log",
)


def vector_of(n: int) -> bytes:
    """Give a vector that points nearly the same way as those of neighbouring numbers."""
    return bytes([127, n % 100, n // 100 % 100, *([1] * (VECTOR_SIZE - 3))])


def put(store: Store, count: int, vector: Callable[[int], bytes], model: str = "m") -> list[int]:
    """Keep so many memories with vectors made up; give their numbers."""
    memories = [a_memory(f"{store.project_name} {n}", id=f"mem-{n}-0000") for n in range(count)]
    store.memories.insert_all_unchecked(memories, ChangeInfo(who="t", why="t"))
    seqs = store.memories.index.seqs_by_id([memory.id for memory in memories])
    vectors = VectorStore(store.scope, model, VECTOR_SIZE)
    rows = sorted(vectors.missing(count), key=lambda row: row["seq"])
    vectors.put(rows, [vector(n) for n in range(count)])
    return sorted(seqs.values())


def postgres(store: Store) -> PostgresDatabase:
    assert isinstance(store.database, PostgresDatabase)
    return store.database


DIRECTION = [1.0, *([0.0] * (VECTOR_SIZE - 1))]


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[Project]:
    directory = tmp_path / "project"
    directory.mkdir()
    set_up_project(directory)
    with Project.open(directory) as project:
        texts = [f"{who} {what}" for who, what in product(WHO, WHAT)]
        memories = [a_memory(text, id=f"mem-{n}-0000") for n, text in enumerate(texts)]
        project.store.memories.insert_all_unchecked(memories, ChangeInfo(who="test", why=""))
        project.memory.maintenance.embed()
        yield project


def test_a_small_project_finds_its_own_among_many_that_are_nearer(store_url: str) -> None:
    with closing(create_store(store_url, "large")) as large, closing(create_store(store_url, "small")) as small:
        put(large, 3_000, lambda n: bytes([127, n % 10, n // 10 % 10, *([0] * (VECTOR_SIZE - 3))]))
        own = put(small, 30, lambda n: bytes([30 + n, 120, *([1] * (VECTOR_SIZE - 2))]))
        database = postgres(small)
        database.execute("ANALYZE memory_vectors")

        found = database.pgvector.nearest(small.project_id, "m", DIRECTION, 20)

        assert [row["seq"] for row in found] == own[:-21:-1]
        all_there_are = database.pgvector.nearest(small.project_id, "m", DIRECTION, 200)
        assert {row["seq"] for row in all_there_are} == set(own)


def test_the_index_is_read_on_until_enough_of_a_project_are_found(store_url: str) -> None:
    with closing(create_store(store_url, "large")) as large, closing(create_store(store_url, "small")) as small:
        put(large, 3_000, lambda n: bytes([127, n % 10, n // 10 % 10, *([0] * (VECTOR_SIZE - 3))]))
        own = put(small, 30, lambda n: bytes([30 + n, 120, *([1] * (VECTOR_SIZE - 2))]))
        database = postgres(small)
        for way in ("seqscan", "bitmapscan", "sort"):
            database.execute(f"SET enable_{way} = off")  # so that the index is the way to go

        found = database.pgvector.nearest(small.project_id, "m", DIRECTION, 20)

        assert {row["seq"] for row in found} == set(own[-20:])


def test_a_sample_is_taken_from_all_over_a_project_also_when_it_grew_at_moments_far_apart(store: Store) -> None:
    early = put(store, 200, vector_of)
    vectors = VectorStore(store.scope, "m", VECTOR_SIZE)
    assert {early.index(row["seq"]) // 50 for row in vectors.sample(100)} == {0, 1, 2, 3}

    store.scope.execute(
        "UPDATE memory_vectors SET made = made + 100000000 WHERE project_id = :project_id AND seq = :seq",
        seq=early[-1],
    )

    assert len({row["seq"] for row in vectors.sample(100)}) >= 50


def test_only_vectors_of_the_asked_model_and_of_texts_as_they_are_now_count(store: Store) -> None:
    seqs = put(store, 10, vector_of)
    database = postgres(store)
    store.memories.update("mem-3-0000", "edited", ChangeInfo(who="person", why=""), body="Something else")

    found = [row["seq"] for row in database.pgvector.nearest(store.project_id, "m", DIRECTION, 20)]

    assert sorted(found) == [seq for seq in seqs if seq != seqs[3]]
    assert database.pgvector.nearest(store.project_id, "another", DIRECTION, 20) == []


def test_a_vector_that_is_none_is_kept_and_never_near(store: Store) -> None:
    damaged = (bytes(VECTOR_SIZE), b"", b"\1\2", b"\1" * (VECTOR_SIZE + 1))
    seqs = put(store, 6, lambda n: damaged[n] if n < len(damaged) else vector_of(n))

    found = postgres(store).pgvector.nearest(store.project_id, "m", DIRECTION, 20)

    assert sorted(row["seq"] for row in found) == seqs[len(damaged) :]


def test_what_is_no_longer_active_is_not_recalled_by_what_it_means(
    filled: Project,
) -> None:
    context = RecallContext(title=QUERIES[0], at=now())
    first = filled.memory.recall(context, 1)[0].memory.id

    filled.memory._memories.update(first, "pruned", ChangeInfo(who="person", why=""), state=MemoryState.PRUNED)

    assert first not in [found.memory.id for found in filled.memory.recall(context, 50)]


# --- with pgvector and without -------------------------------------------------------------


@pytest.fixture
def plain_url(server: Server, store_url: str) -> Iterator[str]:
    """Give the URL of a database whose user may not make extensions."""
    server.run("CREATE ROLE plain LOGIN")
    server.run("CREATE DATABASE plain OWNER plain")
    yield server.url("plain", user="plain")
    server.run("DROP DATABASE plain WITH (FORCE)")
    server.run("DROP ROLE plain")


def test_a_pgvector_that_is_too_old_is_left_alone(plain_url: str, server: Server) -> None:
    server.run("CREATE EXTENSION vector", "plain")
    server.run("UPDATE pg_extension SET extversion = '0.7.4' WHERE extname = 'vector'", "plain")

    with closing(open_database(plain_url, create=True)) as database:
        assert not enable_server_search(database)


@pytest.mark.own_store
@pytest.mark.usefixtures("tmp_path")  # says that it touches a store
def test_an_older_server_compares_too() -> None:
    old = Server("16")
    try:
        old.run("CREATE DATABASE one")
        with closing(create_store(old.url("one"), "one")) as store:
            seqs = put(store, 120, lambda n: bytes([127, n, *([0] * (VECTOR_SIZE - 2))]))

            found = postgres(store).pgvector.nearest(store.project_id, "m", [0.0, *DIRECTION[:-1]], 5)

            assert {row["seq"] for row in found} == set(seqs[-5:])
    finally:
        old.remove()
