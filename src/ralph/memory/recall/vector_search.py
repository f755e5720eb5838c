"""Vector search for memories with a similar meaning.

Only available with the extra. A process loads the vectors of a project once, for all of its threads, and later only
new ones: with 20,000 memories that takes 0.2 s and a comparison 10 ms. Missing vectors are computed in the background.
"""

from __future__ import annotations

import os
import threading
from functools import lru_cache
from weakref import WeakKeyDictionary, WeakValueDictionary

from ralph.core.errors import RalphError
from ralph.core.tracking import is_tracked, report_progress
from ralph.memory.recall.nearest import file_number
from ralph.store.vectors import VectorStore, has_vectors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    from ralph.memory.recall.embeddings import Encoder
    from ralph.memory.recall.nearest import Similarities
    from ralph.store import Store
    from ralph.store.database import Row

MAX_QUERY_TOKENS = 128
"""Number of tokens read of a query: the subject is at the start, and long queries are slow."""
STORE_BATCH_SIZE, ENCODE_BATCH_SIZE = 16, 4
"""Number of vectors stored, and of texts encoded, at a time; a run that is stopped waits for the latter."""
LOAD_PAGE_SIZE = 5_000
"""Number of vectors loaded from the store at a time."""
MAX_NEAREST = 50
"""Number of nearest texts that a search returns."""
COMPARE_CHUNK_SIZE = 4_096
"""Number of vectors compared at a time; as floats they take four times the memory."""
SIMILARITY_DEVIATIONS = 4.0
"""Number of standard deviations that a similarity of 1 is above the mean."""
CENTERING_PRIOR = 20
"""Number of vectors at which their mean and that of texts in general count the same for centering."""
GENERAL_TEXT, GENERAL_LENGTH = "This is a note about the project.", 0.7
"""Text whose vector has about the direction of the mean of texts in general, and the length of that mean."""
FIRST_PASS_SECONDS, PASS_INTERVAL_SECONDS = 3.0, 5.0
"""Delay before the first and between later background passes; short runs end before the model is loaded."""
SHUTDOWN_SECONDS = 1.0
"""Time the end of a run waits for a batch in progress, in seconds; giving up on one is harmless."""
BACKGROUND_NICE = 5
"""Nice value of background threads. A lower priority would slow down the whole process on a busy machine: whatever
waits for the interpreter lock would wait for a thread that gets no time to release it."""

_lock = threading.Lock()
_spaces: WeakKeyDictionary[Store, dict[str, VectorSpace]] = WeakKeyDictionary()
_shared_spaces: WeakValueDictionary[tuple[object, ...], VectorSpace] = WeakValueDictionary()
"""Spaces in use, by database and project: every thread has a store of its own, but all use the same vectors."""
_encoders: list[Encoder | None] = []


def cached_encoder() -> Encoder | None:
    """Return the model if the extra is installed; it is loaded once, whichever thread is first."""
    with _lock:
        if not _encoders:
            from ralph.memory.recall.embeddings import load_encoder

            _encoders.append(load_encoder())
        return _encoders[0]


def is_encoder_loaded() -> bool:
    """Return whether this process has loaded the model, so that a search takes no longer than elsewhere."""
    return bool(_encoders and _encoders[0])


def search_vectors(store: Store, text: str, seqs: Iterable[int], index: str = "memory") -> Similarities:
    """Return the similarity to a text of these memories, or episodes, and of the nearest ones.

    Texts without a current vector are left out.
    """
    model = cached_encoder() if has_vectors(store.scope, index) else None  # slow to load, so only if there are vectors
    if model is None:
        return {}
    vectors = VectorStore(store.scope, model.model, model.size, index)
    loaded = _space(store, index).refresh(vectors, model)
    return loaded.search(_encode_query(text), seqs, vectors) if loaded else {}


@lru_cache(maxsize=1)
def _encode_query(text: str) -> bytes:
    """Return the vector of a query; memories and episodes are searched with the same one."""
    model = cached_encoder()
    return model.encode([text], MAX_QUERY_TOKENS)[0] if model else b""


def _space(store: Store, index: str) -> VectorSpace:
    """Return the vectors of a project, which the stores of all threads share until the last one is closed."""
    with _lock:
        spaces = _spaces.setdefault(store, {})
        if index not in spaces:
            url = store.database.display_url
            key = (url, file_number(url), store.project_id, index)
            spaces[index] = _shared_spaces.setdefault(key, VectorSpace())
        return spaces[index]


class VectorSpace:
    """In-memory vectors of a project, for all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last_loaded = 0
        self._loaded: LoadedVectors | None = None

    def refresh(self, vectors: VectorStore, model: Encoder) -> LoadedVectors | None:
        """Load the vectors computed since the last call; return all of them, or None if there are none."""
        with self._lock:
            added = []
            while page := vectors.created_after(self._last_loaded, LOAD_PAGE_SIZE):
                self._last_loaded = page[-1]["made"]
                added += page
            if added:
                self._loaded = _add_vectors(self._loaded, added, model)
            return self._loaded


def _add_vectors(loaded: LoadedVectors | None, added: list[Row], model: Encoder) -> LoadedVectors:
    import numpy as np

    rows = dict(loaded.rows) if loaded else {}
    for row in added:
        rows.setdefault(row["seq"], len(rows))
    new = np.frombuffer(b"".join(row["vector"] for row in added), np.int8).reshape(len(added), -1)
    matrix = np.zeros((len(rows), new.shape[1]), np.int8)
    if loaded:
        matrix[: len(loaded.matrix)] = loaded.matrix
    matrix[[rows[row["seq"]] for row in added]] = new
    general = loaded.general if loaded else _unit_vector(np, model.encode([GENERAL_TEXT])[0])
    return LoadedVectors(np, rows, matrix, general)


def _unit_vector(np: Any, vector: bytes) -> Any:
    floats = np.frombuffer(vector, np.int8).astype(np.float32)
    return floats / max(float(np.linalg.norm(floats)), 1e-6)


class LoadedVectors:
    """Vectors of a project at one moment; never changed, so that threads can use them at the same time."""

    def __init__(self, np: Any, rows: Mapping[int, int], matrix: Any, general: Any) -> None:
        """Compute the length of each vector and the mean direction; `general` is that of texts in general."""
        self.rows = rows
        """Row of each memory, by its sequence number."""
        self.matrix, self.general = matrix, general
        self._np = np
        lengths, total = [], np.zeros(matrix.shape[1], np.float32)
        for part in self._chunks():
            norms = np.sqrt(np.maximum(np.einsum("ij,ij->i", part, part), 1))
            lengths.append(norms)
            total += (1 / norms) @ part
        self._lengths = np.concatenate(lengths)
        weight = len(rows) + CENTERING_PRIOR
        self._means = total / weight, (total + CENTERING_PRIOR * GENERAL_LENGTH * general) / weight
        """Mean of these texts, and that of them and texts in general."""
        self._along_means = tuple(map(self._project, self._means))
        """Projection of each vector on each mean."""

    def _chunks(self) -> Iterator[Any]:
        for start in range(0, len(self.matrix), COMPARE_CHUNK_SIZE):
            yield self.matrix[start : start + COMPARE_CHUNK_SIZE].astype(self._np.float32)

    def _project(self, direction: Any) -> Any:
        return self._np.concatenate([part @ direction for part in self._chunks()]) / self._lengths

    def _centered(self, along: Any, unit: Any, mean: Any, along_mean: Any) -> Any:
        """Return the cosines with a unit vector, both less a mean; `along` and `along_mean` are projections."""
        lengths = self._np.sqrt(1 - 2 * along_mean + mean @ mean + 1e-12)
        length = max(float(self._np.linalg.norm(unit - mean)), 1e-6)
        return (along - along_mean - mean @ unit + mean @ mean) / (lengths * length)

    def search(self, query: bytes, seqs: Iterable[int], vectors: VectorStore) -> Similarities:
        """Return the similarity to a query vector of these texts and of the nearest, as far as their vector is current.

        The first figure is relative to the others, 0 for the average and 1 for very similar, and tells which are the
        most similar; the second is a cosine and tells whether they are similar at all. All texts of a project have
        something in common, so both are centered. Of few texts a mean tells little, so for the cosine, whose size
        counts, texts in general count as well.
        """
        unit = _unit_vector(self._np, query)
        along = self._project(unit)
        among, cosines = (
            self._centered(along, unit, *mean) for mean in zip(self._means, self._along_means, strict=True)
        )
        relative = (among - among.mean()) / (SIMILARITY_DEVIATIONS * (float(among.std()) or 1.0))
        limit = min(MAX_NEAREST, len(among))
        best = sorted(among.argpartition(len(among) - limit)[-limit:], key=lambda row: -among[row])
        all_seqs = list(self.rows)
        asked = dict.fromkeys((*(all_seqs[row] for row in best), *(seq for seq in seqs if seq in self.rows)))
        current = vectors.filter_current(list(asked))
        rows = {seq: self.rows[seq] for seq in asked if seq in current}
        return {seq: (max(float(relative[row]), 0.0), float(cosines[row])) for seq, row in rows.items()}


# --- computing vectors -----------------------------------------------------------------


def embed_missing(store: Store, should_continue: Callable[[int], bool] = lambda _: True) -> int:
    """Compute missing vectors while `should_continue`, called with the count so far, returns true; return the count."""
    count = 0
    model = cached_encoder() if should_continue(count) else None
    if model is None:
        return 0
    for index, noun in (("memory", "memories"), ("episode", "passages")):
        vectors = VectorStore(store.scope, model.model, model.size, index)
        total = count + vectors.count_missing() if is_tracked() else 0
        while should_continue(count) and (rows := vectors.missing(STORE_BATCH_SIZE)):
            encoded: list[bytes] = []
            while len(encoded) < len(rows) and should_continue(count):
                batch = rows[len(encoded) : len(encoded) + ENCODE_BATCH_SIZE]
                encoded += model.encode([f"{row['title']}\n{row['body']}" for row in batch])
            vectors.put(rows[: len(encoded)], encoded)
            count += len(encoded)
            report_progress(f"Embedding {noun}", count, total)
    return count


class EmbeddingThread:
    """Low-priority background thread that computes missing embeddings."""

    def __init__(
        self,
        open_store: Callable[[], Store],
        is_enabled: bool,
        should_pause: Callable[[], bool] = lambda: False,
        *,
        interval: float = PASS_INTERVAL_SECONDS,
        batch: int = 0,
    ) -> None:
        """`should_pause` says whether the run is about to end: no other batch is computed.

        Between passes there are `interval` seconds. With `batch`, a pass computes about so many at most.
        """
        self._open_store = open_store
        self._is_enabled = is_enabled
        self._should_pause = should_pause
        self._interval, self._batch = interval, batch
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._embed_periodically, name="embedding", daemon=True)

    def __enter__(self) -> EmbeddingThread:
        if self._is_enabled:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._is_enabled:
            # On a busy machine, a batch at the lowest priority can take minutes.
            self._thread.join(SHUTDOWN_SECONDS)

    def _should_continue(self, count: int = 0) -> bool:
        is_full = self._batch and count >= self._batch
        return not is_full and not self._ended.is_set() and not self._should_pause()

    def _embed_periodically(self) -> None:
        if self._ended.wait(FIRST_PASS_SECONDS) or not self._should_continue():
            return
        from ralph.memory.recall.embeddings import is_installed

        if not is_installed():
            return
        lower_thread_priority()
        store: Store | None = None
        while True:
            try:
                store = store or self._open_store()
                embed_missing(store, self._should_continue)
                store.database.release_connection()
            except RalphError:
                pass  # the run itself reports database errors
            if self._ended.wait(self._interval):
                break
        if store:
            store.close()


def lower_thread_priority() -> None:
    """Lower the priority of this thread, where threads have one."""
    try:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), BACKGROUND_NICE)
    except (AttributeError, OSError):
        pass
