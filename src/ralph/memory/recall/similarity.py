"""Similarity of two memories in meaning, for whoever compares a few of them."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ralph.core.records import Memory

MAX_ENCODED = 1_000
"""Number of texts that are encoded for comparisons, about 5 s; later ones are compared by words alone."""


class PairSimilarity:
    """Cosine of the embeddings of two memories. The model is loaded for the first comparison, if it is installed."""

    def __init__(self) -> None:
        self._vectors: dict[str, Any] = {}

    def __call__(self, one: Memory, other: Memory) -> float | None:
        """Return the cosine of two memories; None without the extra."""
        first, second = self._vector(one.content or one.title), self._vector(other.content or other.title)
        return None if first is None or second is None else float(first @ second)

    def _vector(self, text: str) -> Any:
        if text not in self._vectors and len(self._vectors) < MAX_ENCODED:
            self._vectors[text] = _encode(text)
        return self._vectors.get(text)


def _encode(text: str) -> Any:
    from ralph.memory.recall.vector_search import cached_encoder

    model = cached_encoder()
    if model is None:
        return None
    import numpy as np

    vector = np.frombuffer(model.encode([text])[0], np.int8).astype(np.float32)
    return vector / np.linalg.norm(vector)
