"""Vector search for memories with a similar meaning.

Only available with the extra. A long-running process (a run, a server) keeps the vectors in memory and only loads new
ones from the store; `embed_missing` computes missing ones in the background.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from ralph.store.vectors import VectorStore, has_vectors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from ralph.memory.recall.embeddings import Encoder
    from ralph.memory.recall.query import RecallContext
    from ralph.store import Store
    from ralph.store.database import Row

MAX_QUERY_TOKENS = 128
"""Number of tokens read of a query: the subject is at the start, and long queries are slow."""
ENCODE_BATCH_SIZE = 16
"""Number of texts encoded at a time."""
LOAD_PAGE_SIZE = 5_000
"""Number of vectors loaded from the store at a time."""
DEFAULT_NEAREST = 50
"""Number of most similar memories returned by default."""
COMPARE_CHUNK_SIZE = 4_096
"""Number of vectors compared at a time; as floats they take four times the memory."""
CENTERING_PRIOR = 20
"""Number of vectors at which half of their mean is used for centering."""
MAX_SIMILARITY_DEVIATIONS = 4.0
"""Number of standard deviations above the mean that counts as maximum similarity."""

_spaces: WeakKeyDictionary[Store, VectorSpace] = WeakKeyDictionary()
_encoders: list[Encoder | None] = []


def cached_encoder() -> Encoder | None:
    """Return the model if the extra is installed; it is loaded once."""
    if not _encoders:
        from ralph.memory.recall.embeddings import load_encoder

        _encoders.append(load_encoder())
    return _encoders[0]


def find_similar(store: Store, context: RecallContext) -> Similarities | None:
    """Return the similarity of memories to a context; None without the extra or without vectors."""
    text = "\n".join(filter(None, (context.title, context.body, *context.errors)))
    if not text.strip() or not has_vectors(store.scope):
        return None
    model = cached_encoder()  # slow to load, so only if there are vectors
    if model is None:
        return None
    vectors = VectorStore(store.scope, model.model, model.size)
    query = model.encode([text], MAX_QUERY_TOKENS)[0]
    space = _spaces.setdefault(store, VectorSpace())
    space.refresh(vectors)
    return space.compare(query, vectors)


def embed_missing(store: Store, should_continue: Callable[[int], bool] = lambda _: True) -> int:
    """Compute missing vectors while `should_continue`, called with the count so far, returns true; return the count."""
    model = cached_encoder()
    count = 0
    if model is None:
        return 0
    vectors = VectorStore(store.scope, model.model, model.size)
    while should_continue(count) and (rows := vectors.missing(ENCODE_BATCH_SIZE)):
        vectors.put(rows, model.encode([f"{row['title']}\n{row['body']}" for row in rows]))
        count += len(rows)
    return count


class VectorSpace:
    """In-memory vectors of a project."""

    def __init__(self) -> None:
        self._seqs: list[int] = []
        self._index: dict[int, int] = {}
        self._last_loaded = 0
        self._rows: Any = None
        self._lengths: Any = None
        self._shared: Any = None
        self._common: Any = None

    def refresh(self, vectors: VectorStore) -> None:
        """Load the vectors computed since the last call."""
        rows: list[Row] = []
        while page := vectors.created_after(self._last_loaded, LOAD_PAGE_SIZE):
            self._last_loaded = page[-1]["made"]
            rows += page
        self.add(rows)

    def add(self, rows: Sequence[Row]) -> None:
        """Add vectors, each with the sequence number of its memory."""
        import numpy as np

        if not rows:
            return
        for row in rows:
            self._index.setdefault(row["seq"], len(self._index))
        self._seqs = list(self._index)
        added = _matrix(np, rows)
        grown = np.zeros((len(self._seqs), added.shape[1]), np.int8)
        if self._rows is not None:
            grown[: len(self._rows)] = self._rows
        grown[[self._index[row["seq"]] for row in rows]] = added
        self._rows = grown
        self._update_statistics(np)

    def _update_statistics(self, np: Any) -> None:
        """Compute the length of each vector and the mean direction."""
        lengths, shared = [], np.zeros(self._rows.shape[1], np.float32)
        for part in self._chunks(np):
            norms = _lengths(np, part)
            lengths.append(norms)
            shared += (1 / norms) @ part
        self._lengths = np.concatenate(lengths)
        self._shared = shared / (len(self._seqs) + CENTERING_PRIOR)
        self._common = self._project(np, self._shared)

    def _chunks(self, np: Any) -> Iterator[Any]:
        for start in range(0, len(self._rows), COMPARE_CHUNK_SIZE):
            yield self._rows[start : start + COMPARE_CHUNK_SIZE].astype(np.float32)

    def _project(self, np: Any, direction: Any) -> Any:
        return np.concatenate([part @ direction for part in self._chunks(np)]) / self._lengths

    def compare(self, query: bytes, vectors: VectorStore) -> Similarities:
        """Return the similarity of each memory to a query vector, after centering."""
        import numpy as np

        if self._rows is None:
            return Similarities((), {}, np.zeros(0, np.float32), vectors)
        centered = CenteredQuery(np, query, self._shared)
        similarities = centered.cosine(self._project(np, centered.direction), self._common)
        return Similarities(self._seqs, self._index, SimilarityScale(similarities).apply(similarities), vectors)


class CenteredQuery:
    """Direction of a query vector after centering."""

    def __init__(self, np: Any, query: bytes, shared: Any) -> None:
        self._np, self._shared = np, shared
        vector = np.frombuffer(query, np.int8).astype(np.float32)
        vector /= max(float(np.linalg.norm(vector)), 1e-6)
        vector -= shared
        self.direction = vector / max(float(np.linalg.norm(vector)), 1e-6)

    def cosine(self, along: Any, common: Any) -> Any:
        """Return the cosine similarity to vectors, given their projections on the query and on the mean direction."""
        own = self._shared @ self._shared
        return (along - self._shared @ self.direction) / self._np.sqrt(1 - 2 * common + own + 1e-12)


class SimilarityScale:
    """Scale of similarities relative to their distribution: 0 for the mean, 1 for very similar."""

    def __init__(self, near: Any) -> None:
        self._mean, self._spread = near.mean(), MAX_SIMILARITY_DEVIATIONS * (float(near.std()) or 1.0)

    def apply(self, near: Any) -> Any:
        """Return the scaled similarities."""
        return (near - self._mean) / self._spread


class Similarities:
    """Similarity of memories to a query: 0 for the average, 1 for very similar."""

    def __init__(self, seqs: Sequence[int], place: Mapping[int, int], amounts: Any, vectors: VectorStore) -> None:
        self._seqs, self._index, self._amounts, self._vectors = seqs, place, amounts, vectors

    def with_current_vector(self, seqs: Iterable[int]) -> list[int]:
        """Return the memories whose text has not changed since its vector was computed."""
        requested = list(seqs)
        current = self._vectors.filter_current(requested)
        return [seq for seq in requested if seq in current]

    def nearest(self, limit: int = DEFAULT_NEAREST) -> list[int]:
        """Return the sequence numbers of the most similar memories."""
        limit = min(limit, len(self._amounts))
        best = self._amounts.argpartition(len(self._amounts) - limit)[-limit:] if limit else ()
        return [self._seqs[place] for place in sorted(best, key=lambda place: -self._amounts[place])]

    def similarity_of(self, seqs: Iterable[int]) -> dict[int, float]:
        """Return the similarity of these memories, as far as known."""
        places = {seq: self._index[seq] for seq in seqs if seq in self._index}
        return {
            seq: max(float(self._amounts[place]), 0.0) for seq, place in places.items() if place < len(self._amounts)
        }


def _matrix(np: Any, rows: Sequence[Row]) -> Any:
    return np.frombuffer(b"".join(row["vector"] for row in rows), np.int8).reshape(len(rows), -1)


def _lengths(np: Any, part: Any) -> Any:
    return np.sqrt(np.maximum(np.einsum("ij,ij->i", part, part), 1))
