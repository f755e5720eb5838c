"""Which memories mean nearly what is asked, whatever their words.

Only where the extra is installed. A process that stays (a run, a server) keeps the vectors at hand and asks the store
for new ones alone; missing ones are made by `make_missing`, when nobody waits.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from ralph.store.vectors import Vectors, any_made

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from ralph.meaning import Encoder
    from ralph.memory.question import Context
    from ralph.store import Store

QUERY_TOKENS = 128
"""So much of a question is read: what it is about stands at its beginning, and a long one takes long."""
BATCH = 16
PAGE = 5_000
NEAREST = 50
PART = 4_096
"""So many vectors are compared at a time: as numbers they take four times the room."""
FEW = 20
"""What so many vectors share is only half taken for what all such texts share."""
SPREAD = 4.0
"""So many times the usual spread above the middle is as near as can be."""

_at_hand: WeakKeyDictionary[Store, Space] = WeakKeyDictionary()
_encoders: list[Encoder | None] = []


def encoder() -> Encoder | None:
    """Give the model if the extra is installed; it is loaded once."""
    if not _encoders:
        from ralph.meaning import load

        _encoders.append(load())
    return _encoders[0]


def near(store: Store, context: Context) -> Near | None:
    """Give how near memories are in meaning to what is asked; None without the extra, or before anything is known."""
    text = "\n".join(filter(None, (context.title, context.body, *context.errors)))
    if not text.strip() or not any_made(store.scope):
        return None
    model = encoder()  # takes long to load: not for nothing
    if model is None:
        return None
    space = _at_hand.setdefault(store, Space())
    vectors = Vectors(store.scope, model.model, model.size)
    space.refresh(vectors)
    return space.compare(model.encode([text], QUERY_TOKENS)[0], vectors)


def make_missing(store: Store, goes_on: Callable[[int], bool] = lambda _: True) -> int:
    """Make the vectors that are missing while `goes_on`, told how many are made, says so; give that number."""
    model = encoder()
    made = 0
    if model is None:
        return 0
    vectors = Vectors(store.scope, model.model, model.size)
    while goes_on(made) and (rows := vectors.missing(BATCH)):
        vectors.put(rows, model.encode([f"{row['title']}\n{row['body']}" for row in rows]))
        made += len(rows)
    return made


class Space:
    """The vectors of a project at hand, to be compared with one."""

    def __init__(self) -> None:
        self._seqs: list[int] = []
        self._place: dict[int, int] = {}
        self._made = 0
        self._rows: Any = None
        self._lengths: Any = None
        self._shared: Any = None
        self._common: Any = None

    def refresh(self, vectors: Vectors) -> None:
        """Take in what was made since the last time."""
        import numpy as np

        is_new = False
        while rows := vectors.after(self._made, PAGE):
            is_new = True
            self._made = rows[-1]["made"]
            for row in rows:
                self._place.setdefault(row["seq"], len(self._place))
            self._seqs = list(self._place)
            size = len(rows[0]["vector"])
            grown = np.zeros((len(self._seqs), size), np.int8)
            if self._rows is not None:
                grown[: len(self._rows)] = self._rows
            places = [self._place[row["seq"]] for row in rows]
            grown[places] = np.frombuffer(b"".join(row["vector"] for row in rows), np.int8).reshape(len(rows), size)
            self._rows = grown
        if is_new:
            self._measure(np)

    def _measure(self, np: Any) -> None:
        """Note how long each vector is, and what all have in common."""
        lengths, shared = [], np.zeros(self._rows.shape[1], np.float32)
        for part in self._parts(np):
            long = np.sqrt(np.maximum(np.einsum("ij,ij->i", part, part), 1))
            lengths.append(long)
            shared += (1 / long) @ part
        self._lengths = np.concatenate(lengths)
        self._shared = shared / (len(self._seqs) + FEW)
        self._common = self._along(np, self._shared)

    def _parts(self, np: Any) -> Iterator[Any]:
        for start in range(0, len(self._rows), PART):
            yield self._rows[start : start + PART].astype(np.float32)

    def _along(self, np: Any, direction: Any) -> Any:
        return np.concatenate([part @ direction for part in self._parts(np)]) / self._lengths

    def compare(self, query: bytes, vectors: Vectors) -> Near:
        """Give how near each memory is to a vector, without what they all have in common."""
        import numpy as np

        if self._rows is None:
            return Near((), {}, np.zeros(0, np.float32), vectors)
        asked = np.frombuffer(query, np.int8).astype(np.float32)
        asked /= max(float(np.linalg.norm(asked)), 1e-6)
        asked -= self._shared
        asked /= max(float(np.linalg.norm(asked)), 1e-6)
        own = self._shared @ self._shared
        near = (self._along(np, asked) - self._shared @ asked) / np.sqrt(1 - 2 * self._common + own + 1e-12)
        amounts = (near - near.mean()) / (SPREAD * (float(near.std()) or 1.0))
        return Near(self._seqs, self._place, amounts, vectors)


class Near:
    """How near each memory is to what was asked: 0 for the usual, 1 for very near."""

    def __init__(self, seqs: Sequence[int], place: Mapping[int, int], amounts: Any, vectors: Vectors) -> None:
        self._seqs, self._place, self._amounts, self._vectors = seqs, place, amounts, vectors

    def current(self, seqs: Iterable[int]) -> list[int]:
        """Give those whose texts are still what they were when they were read."""
        wanted = list(seqs)
        there = self._vectors.current(wanted)
        return [seq for seq in wanted if seq in there]

    def nearest(self, most: int = NEAREST) -> list[int]:
        """Give the numbers of the nearest memories."""
        most = min(most, len(self._amounts))
        best = self._amounts.argpartition(len(self._amounts) - most)[-most:] if most else ()
        return [self._seqs[place] for place in sorted(best, key=lambda place: -self._amounts[place])]

    def of(self, seqs: Iterable[int]) -> dict[int, float]:
        """Give how near these are, as far as it is known."""
        places = {seq: self._place[seq] for seq in seqs if seq in self._place}
        return {
            seq: max(float(self._amounts[place]), 0.0) for seq, place in places.items() if place < len(self._amounts)
        }
