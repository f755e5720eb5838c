"""Recall by embeddings, over a real store and the real model."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from ralph.core.records import now
from ralph.memory.recall import embeddings, vector_search
from ralph.memory.recall.candidates import rank_memories
from ralph.memory.recall.episodes import rank_episodes
from ralph.memory.recall.query import RecallContext
from ralph.store import Store
from ralph.store.episodes import EpisodeFilter
from ralph.store.memories import ChangeInfo
from ralph.store.vectors import VectorStore
from tests.make import a_memory, an_episode, remember

pytestmark = pytest.mark.skipif(not embeddings.is_installed(), reason="no embedding model installed")

TEXTS = (
    "The login form drops the session when cookies are blocked",
    "Money is rounded half up to cents",
    "Deploy by pushing a tag",
    "The parser wants tabs",
    "Photos are scaled down before they are sent",
    "Mails are sent by a queue",
)


@pytest.fixture
def filled(store: Store) -> Store:
    for n, text in enumerate(TEXTS):
        remember(store, a_memory(f"Note {n}", text, id=f"mem-1-{n:04}", tags=()))
    return store


def test_what_means_the_same_is_found_without_a_word_in_common(filled: Store) -> None:
    context = RecallContext(title="users get signed out all the time", at=now())
    assert rank_memories(filled, context, by_meaning=True) == []

    assert vector_search.embed_missing(filled) == len(TEXTS)
    found = rank_memories(filled, context, by_meaning=True)

    assert found[0].row["body"] == TEXTS[0]
    assert found[0].components["meaning"] > 0
    assert rank_memories(filled, context) == []


def test_an_edited_text_loses_its_vector_until_it_is_made_anew(filled: Store) -> None:
    vector_search.embed_missing(filled)
    filled.memories.update(
        "mem-1-0000", "edited", ChangeInfo(who="person", why=""), content="Invoices are printed in A4"
    )
    model = vector_search.cached_encoder()
    assert model
    vectors = VectorStore(filled.scope, model.model, model.size)

    assert len(vectors.missing(10)) == 1
    assert vector_search.embed_missing(filled) == 1
    assert vector_search.embed_missing(filled) == 0
    near = vector_search.search_vectors(filled, "invoices are printed", ())
    first = filled.memories.index.seqs_by_id(["mem-1-0000"])["mem-1-0000"]
    assert max(near, key=lambda seq: near[seq]) == first


def test_a_text_that_changed_while_it_was_read_gets_no_vector(filled: Store) -> None:
    vectors = VectorStore(filled.scope, "m", 8)
    rows = vectors.missing(1)
    filled.memories.update("mem-1-0005", "edited", ChangeInfo(who="person", why=""), content="Something else")

    vectors.put(rows, [b"\1" * 8])

    assert vectors.created_after(0, 10) == []


def test_vectors_of_another_model_count_as_missing(filled: Store) -> None:
    other = VectorStore(filled.scope, "another", 8)
    other.put(other.missing(2), [b"\1" * 8, b"\2" * 8])

    assert vector_search.embed_missing(filled) == len(TEXTS)
    assert other.created_after(0, 10) == []


def test_a_run_makes_missing_vectors_in_the_background_and_leaves_no_thread(
    filled: Store, open_again: Callable[[], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_search, "FIRST_PASS_SECONDS", 0.0)
    model = vector_search.cached_encoder()
    assert model
    vectors = VectorStore(filled.scope, model.model, model.size)

    with vector_search.EmbeddingThread(open_again, is_enabled=True):
        waited = threading.Event()
        for _ in range(300):
            if not vectors.missing(1):
                break
            waited.wait(0.1)

    assert not vectors.missing(1)
    for thread in threading.enumerate():
        if thread.name == "embedding":  # on a busy machine the run does not wait for its end
            thread.join(60)
    assert "embedding" not in [thread.name for thread in threading.enumerate()]


def test_the_end_of_a_run_does_not_wait_for_a_batch_in_progress(
    open_again: Callable[[], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_search, "FIRST_PASS_SECONDS", 0.0)
    has_begun, may_end = threading.Event(), threading.Event()

    def open_slowly() -> Store:
        has_begun.set()
        may_end.wait(60)
        return open_again()

    with vector_search.EmbeddingThread(open_slowly, is_enabled=True):
        assert has_begun.wait(60)

    threads = [thread for thread in threading.enumerate() if thread.name == "embedding"]
    assert len(threads) == 1
    may_end.set()
    threads[0].join(60)
    assert not threads[0].is_alive()


def test_without_wish_or_extra_nothing_is_started(
    filled: Store, open_again: Callable[[], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_search, "FIRST_PASS_SECONDS", 0.0)
    monkeypatch.setattr(embeddings, "MODEL_PACKAGE", "no_such_package")
    monkeypatch.setattr(vector_search, "_encoders", [])

    with vector_search.EmbeddingThread(open_again, is_enabled=True):
        pass
    with vector_search.EmbeddingThread(open_again, is_enabled=False):
        pass

    assert vector_search.embed_missing(filled) == 0
    assert vector_search.search_vectors(filled, "login", ()) == {}


def test_a_damaged_vector_is_passed_over_and_made_anew(filled: Store) -> None:
    vector_search.embed_missing(filled)
    seqs = filled.memories.index.seqs_by_id(["mem-1-0001", "mem-1-0002"])
    for seq, damage in zip(seqs.values(), (b"", b"\1\2"), strict=True):
        filled.scope.execute(
            "UPDATE memory_vectors SET vector = :v WHERE project_id = :project_id AND seq = :seq", v=damage, seq=seq
        )

    near = vector_search.search_vectors(filled, "users get signed out", seqs.values())

    assert len(near) == len(TEXTS) - 2
    assert vector_search.embed_missing(filled) == 2


def test_an_edited_text_is_not_found_by_what_it_meant_before(filled: Store) -> None:
    vector_search.embed_missing(filled)
    context = RecallContext(title="users get signed out all the time", at=now())
    assert rank_memories(filled, context, by_meaning=True)[0].row["id"] == "mem-1-0000"

    filled.memories.update(
        "mem-1-0000", "edited", ChangeInfo(who="person", why=""), title="Bread", content="Bake it twice"
    )

    found = {one.row["id"]: one.components for one in rank_memories(filled, context, by_meaning=True)}
    assert "meaning" not in found.get("mem-1-0000", {})


def test_threads_that_need_the_model_at_the_same_time_load_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_search, "_encoders", [])
    with ThreadPoolExecutor(4) as threads:
        models = list(threads.map(lambda _: vector_search.cached_encoder(), range(4)))

    assert len(vector_search._encoders) == 1
    assert {id(model) for model in models} == {id(vector_search._encoders[0])}


def test_the_stores_of_all_threads_share_the_vectors(filled: Store) -> None:
    vector_search.embed_missing(filled)
    context = RecallContext(title="users get signed out all the time", at=now())

    def search(_: int) -> tuple[str, int]:
        with closing(filled.reopen()) as store:
            found = rank_memories(store, context, by_meaning=True)
            return found[0].row["body"], id(vector_search._space(store, "memory"))

    here = id(vector_search._space(filled, "memory"))
    with ThreadPoolExecutor(4) as threads:
        assert set(threads.map(search, range(8))) == {(TEXTS[0], here)}


def test_vectors_made_elsewhere_are_found_by_all(filled: Store) -> None:
    with closing(filled.reopen()) as other:
        for store in (filled, other):
            assert rank_memories(store, RecallContext(title="pictures", at=now()), by_meaning=True) == []
        vector_search.embed_missing(other)
        for store in (filled, other):
            assert rank_memories(store, RecallContext(title="pictures", at=now()), by_meaning=True)


def test_no_text_is_encoded_once_a_run_is_stopping(filled: Store) -> None:
    answers = iter([True, True, True])  # before the model, the first batch and its first texts are read

    assert vector_search.embed_missing(filled, lambda _: next(answers, False)) == vector_search.ENCODE_BATCH_SIZE
    assert vector_search.embed_missing(filled, lambda _: False) == 0


def test_past_work_is_found_by_meaning_as_well(store: Store) -> None:
    passages = [an_episode(text, source=f"s{n}") for n, text in enumerate(TEXTS)]
    store.episodes.add(passages)
    question = RecallContext(title="users get signed out all the time", at=now())
    assert rank_episodes(store, question, by_meaning=True) == []

    assert vector_search.embed_missing(store) == len(TEXTS)

    found = rank_episodes(store, question, by_meaning=True)
    assert found[0].row["body"] == TEXTS[0]
    assert found[0].components["meaning"] > 0
    store.episodes.forget(EpisodeFilter(source="s0"))
    assert TEXTS[0] not in [one.row["body"] for one in rank_episodes(store, question, by_meaning=True)]
