"""What others do with the same memories and queries, each set up the way its own documentation shows.

Nothing here calls a language model or leaves this machine. Packages are imported when a ranker is made, so that one
that is missing takes no other with it. MiniLM stands in wherever a peer would fetch an embedding from a hub.
"""

from __future__ import annotations

import functools
import logging
import os
import tempfile
import uuid
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from bench.recall.mcp_memory import McpMemory, McpMemoryWhole
from bench.recall.minilm import CACHE, SIZE, minilm
from bench.recall.rankers import Ranker
from bench.recall.texts import Memory, Query, memory_text, query_text

MANY = 100
CHROMA_BATCH = 5_000
"""Chroma takes no more than 5,461 in one call."""

OFFLINE = {"MEM0_TELEMETRY": "False", "MEM0_DIR": str(CACHE / "mem0"), "HF_HUB_OFFLINE": "1"}
"""Read by mem0 and fastembed when they are imported."""


class Bm25s:
    """BM25 of the package bm25s: its tokenizer, English stop words, Snowball stems, its own k1 and b."""

    def __init__(self) -> None:
        self._bm25s: Any = import_module("bm25s")
        self._stemmer: Any = import_module("Stemmer").Stemmer("english")
        self._ids: list[str] = []
        self._words: list[list[str]] = []
        self._index: Any = None

    def add(self, memories: list[Memory]) -> None:
        """Index anew, as an index of bm25s cannot grow."""
        if not memories:
            return
        self._ids.extend(memory["id"] for memory in memories)
        # One text for each memory, as its documentation shows: title, content, files and tags together.
        self._words.extend(self._split([memory_text(memory) for memory in memories]))
        self._index = self._bm25s.BM25()
        self._index.index(self._words, show_progress=False)

    def search(self, query: Query, budget_tokens: int) -> list[str]:
        """Ask with every word."""
        words = self._split([query_text(query)])
        if self._index is None or not words[0]:
            return []
        found, scores = self._index.retrieve(words, k=min(MANY, len(self._ids)), show_progress=False)
        return [self._ids[n] for n, score in zip(found[0], scores[0], strict=True) if score > 0]

    def close(self) -> None:
        """Nothing is open."""

    def _split(self, texts: list[str]) -> list[list[str]]:
        words: list[list[str]] = self._bm25s.tokenize(
            texts, stopwords="en", stemmer=self._stemmer, return_ids=False, show_progress=False
        )
        return words


class Chroma:
    """Chroma in memory: nearest vectors by cosine."""

    def __init__(self) -> None:
        chromadb: Any = import_module("chromadb")
        self._client: Any = _chroma_client()
        # Cosine and an embedding function of one's own, both as in its guide to collections.
        self._collection: Any = self._client.create_collection(
            name=f"bench-{uuid.uuid4().hex}",
            embedding_function=_chroma_minilm(chromadb),
            configuration={"hnsw": {"space": "cosine"}},
        )

    def add(self, memories: list[Memory]) -> None:
        """Add documents."""
        for first in range(0, len(memories), CHROMA_BATCH):
            some = memories[first : first + CHROMA_BATCH]
            # Its metadata only filters, so files and tags stand in the document, where they can be found.
            self._collection.add(
                ids=[memory["id"] for memory in some], documents=[memory_text(memory) for memory in some]
            )

    def search(self, query: Query, budget_tokens: int) -> list[str]:
        """Ask with the whole text."""
        found = self._collection.query(
            query_texts=[query_text(query)], n_results=min(MANY, self._collection.count()), include=[]
        )
        ids: list[str] = found["ids"][0]
        return ids

    def close(self) -> None:
        """Drop the collection; the client is one for all."""
        self._client.delete_collection(self._collection.name)


class Mem0:
    """mem0 on a local Qdrant: vectors and BM25 together, memories stored as they are.

    `infer=False` because extracting facts would call a language model. Its keyword half comes from fastembed, whose
    list of stop words is on a hub: the same kind of list is handed to it instead. spaCy's model is on no registry, so
    its lemmas are missing; fastembed stems all the same. Entities are linked only by the half that calls a model.
    """

    def __init__(self) -> None:
        os.environ.update(OFFLINE)
        logging.getLogger("mem0").setLevel(logging.ERROR)
        mem0: Any = import_module("mem0")
        bm25: Any = import_module("fastembed.sparse.bm25")
        stop_words = set(import_module("bm25s.stopwords").STOPWORDS_EN_PLUS)
        minilm()
        self._folder = tempfile.TemporaryDirectory(prefix="ralph-bench-")
        self._memory: Any = mem0.Memory.from_config(
            {
                "vector_store": {
                    "provider": "qdrant",
                    "config": {"path": f"{self._folder.name}/qdrant", "embedding_model_dims": SIZE},
                },
                # Both clients are made but never called: the embedder is replaced below.
                "llm": {"provider": "openai", "config": {"api_key": "not called"}},
                "embedder": {"provider": "openai", "config": {"api_key": "not called"}},
                "history_db_path": f"{self._folder.name}/history.db",
            }
        )
        self._memory.embedding_model = _Mem0MiniLM()
        self._memory.vector_store._bm25_encoder = bm25.Bm25(
            "Qdrant/bm25", specific_model_path=self._folder.name, stopwords=stop_words
        )
        self._ids: dict[str, str] = {}

    def add(self, memories: list[Memory]) -> None:
        """Add one by one, as its interface wants it."""
        for memory in memories:
            # Files and tags stand in the text: its metadata only filters.
            added = self._memory.add(memory_text(memory), user_id="bench", infer=False)
            self._ids[added["results"][0]["id"]] = memory["id"]

    def search(self, query: Query, budget_tokens: int) -> list[str]:
        """Ask with the whole text; a threshold of 0 so that nothing is held back."""
        found = self._memory.search(query_text(query), top_k=MANY, filters={"user_id": "bench"}, threshold=0.0)
        return [self._ids[one["id"]] for one in found["results"]]

    def close(self) -> None:
        """Close the stores and remove their files."""
        self._memory.vector_store.client.close()
        self._memory.close()
        self._folder.cleanup()


class _Mem0MiniLM:
    """What mem0 asks of an embedder."""

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        """Return the vector of a text."""
        return [float(x) for x in minilm().encode([text])[0]]

    def embed_batch(self, texts: Sequence[str], memory_action: str = "add") -> list[list[float]]:
        """Return the vectors of texts."""
        return [self.embed(text) for text in texts]


@functools.cache
def _chroma_client() -> Any:
    chromadb: Any = import_module("chromadb")
    settings: Any = import_module("chromadb.config").Settings(anonymized_telemetry=False)
    return chromadb.EphemeralClient(settings)


def _chroma_minilm(chromadb: Any) -> Any:
    """Return what Chroma asks of an embedding function; it has to inherit from Chroma's."""
    vectors = minilm()

    def call(self: Any, input: Sequence[str]) -> list[Any]:
        return vectors.encode(input)

    methods: dict[str, Any] = {
        "__init__": lambda self: None,
        "__call__": call,
        "name": staticmethod(lambda: "minilm"),
        "get_config": lambda self: {},
        "build_from_config": staticmethod(lambda config: None),
    }
    return type("MiniLM", (chromadb.EmbeddingFunction,), methods)()


RANKERS: dict[str, Callable[[], Ranker]] = {
    "bm25s": Bm25s,
    "chromadb": Chroma,
    "mem0": Mem0,
    "mcp-memory": McpMemory,
    "mcp-memory:whole": McpMemoryWhole,
}
