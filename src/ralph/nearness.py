"""Which memories mean nearly what is asked, whatever their words.

Only where the extra is installed. A process that stays (a run, a server) keeps the vectors at hand and asks the store
for new ones alone; missing ones are made by `make_missing`, when nobody waits. Where the store's server compares
vectors by itself and has many, only some are at hand, to know how far they usually are: the server gives the nearest.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from ralph.store.vectors import Vectors, any_made

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any, Protocol

    from ralph.meaning import Encoder
    from ralph.memory.question import Context
    from ralph.store import Store
    from ralph.store.database import Row

    class Nearness(Protocol):
        """How near memories are to what was asked: 0 for the usual, 1 for very near."""

        def current(self, seqs: Iterable[int]) -> list[int]:
            """Give those whose texts are still what they were when they were read."""

        def nearest(self, most: int = ...) -> list[int]:
            """Give the numbers of the nearest memories."""

        def of(self, seqs: Iterable[int]) -> dict[int, float]:
            """Give how near these are, as far as it is known."""


QUERY_TOKENS = 128
"""So much of a question is read: what it is about stands at its beginning, and a long one takes long."""
BATCH = 16
PAGE = 5_000
NEAREST = 50
MANY = 4_096
"""So many vectors are taken at hand in a moment, also where the server could compare them."""
SAMPLE = 4_096
"""So many of more than that tell how far all of them usually are."""
WIDER = 4
"""A server looks for so many times what is wanted: it does not know what all have in common."""
PART = 4_096
"""So many vectors are compared at a time: as numbers they take four times the room."""
FEW = 20
"""What so many vectors share is only half taken for what all such texts share."""
SPREAD = 4.0
"""So many times the usual spread above the middle is as near as can be."""

_at_hand: WeakKeyDictionary[Store, Space] = WeakKeyDictionary()
_parts: WeakKeyDictionary[Store, tuple[int, Space]] = WeakKeyDictionary()
"""What is at hand of a store whose server compares, and the newest vector it had then."""
_encoders: list[Encoder | None] = []


def encoder() -> Encoder | None:
    """Give the model if the extra is installed; it is loaded once."""
    if not _encoders:
        from ralph.meaning import load

        _encoders.append(load())
    return _encoders[0]


def near(store: Store, context: Context) -> Nearness | None:
    """Give how near memories are in meaning to what is asked; None without the extra, or before anything is known."""
    text = "\n".join(filter(None, (context.title, context.body, *context.errors)))
    if not text.strip() or not any_made(store.scope):
        return None
    model = encoder()  # takes long to load: not for nothing
    if model is None:
        return None
    vectors = Vectors(store.scope, model.model, model.size)
    query = model.encode([text], QUERY_TOKENS)[0]
    if newest := vectors.newest(MANY):
        return _part(store, vectors, newest).compare_on_server(query, vectors)
    space = _at_hand.setdefault(store, Space())
    space.refresh(vectors)
    return space.compare(query, vectors)


def _part(store: Store, vectors: Vectors, newest: int) -> Space:
    """Give some of the vectors at hand, others when there are new ones."""
    known = _parts.get(store)
    if known is None or known[0] != newest:
        known = _parts[store] = (newest, Space())
        known[1].take(vectors.some(SAMPLE))
    return known[1]


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
        rows: list[Row] = []
        while page := vectors.after(self._made, PAGE):
            self._made = page[-1]["made"]
            rows += page
        self.take(rows)

    def take(self, rows: Sequence[Row]) -> None:
        """Take in vectors, each with the number of its memory."""
        import numpy as np

        if not rows:
            return
        for row in rows:
            self._place.setdefault(row["seq"], len(self._place))
        self._seqs = list(self._place)
        taken = _matrix(np, rows)
        grown = np.zeros((len(self._seqs), taken.shape[1]), np.int8)
        if self._rows is not None:
            grown[: len(self._rows)] = self._rows
        grown[[self._place[row["seq"]] for row in rows]] = taken
        self._rows = grown
        self._measure(np)

    def _measure(self, np: Any) -> None:
        """Note how long each vector is, and what all have in common."""
        lengths, shared = [], np.zeros(self._rows.shape[1], np.float32)
        for part in self._parts(np):
            long = _lengths(np, part)
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
        asked = Asked(np, query, self._shared)
        near = asked.near(self._along(np, asked.direction), self._common)
        return Near(self._seqs, self._place, Scale(near).of(near), vectors)

    def compare_on_server(self, query: bytes, vectors: Vectors) -> Nearness:
        """Give how near memories are to a vector when these are only some of all, and the server has the others."""
        import numpy as np

        if self._rows is None:
            return self.compare(query, vectors)
        asked = Asked(np, query, self._shared)
        return NearOnServer(asked, Scale(asked.near(self._along(np, asked.direction), self._common)), vectors)


class Asked:
    """The direction of what is asked, without what all memories have in common."""

    def __init__(self, np: Any, query: bytes, shared: Any) -> None:
        self._np, self._shared = np, shared
        asked = np.frombuffer(query, np.int8).astype(np.float32)
        asked /= max(float(np.linalg.norm(asked)), 1e-6)
        asked -= shared
        self.direction = asked / max(float(np.linalg.norm(asked)), 1e-6)

    def near(self, along: Any, common: Any) -> Any:
        """Give the cosine with vectors, of which it is known how far they go this way and how far the shared one."""
        own = self._shared @ self._shared
        return (along - self._shared @ self.direction) / self._np.sqrt(1 - 2 * common + own + 1e-12)

    def near_to(self, rows: Sequence[Row]) -> Any:
        """Give the cosine with the vectors of rows."""
        part = _matrix(self._np, rows).astype(self._np.float32)
        lengths = _lengths(self._np, part)
        return self.near(part @ self.direction / lengths, part @ self._shared / lengths)


class Scale:
    """Tells how far a cosine stands out among all: 0 for the usual, 1 for very near."""

    def __init__(self, near: Any) -> None:
        self._middle, self._spread = near.mean(), SPREAD * (float(near.std()) or 1.0)

    def of(self, near: Any) -> Any:
        """Give how far each stands out."""
        return (near - self._middle) / self._spread


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


class NearOnServer:
    """The same, where the server knows which are the nearest."""

    def __init__(self, asked: Asked, scale: Scale, vectors: Vectors) -> None:
        self._asked, self._scale, self._vectors = asked, scale, vectors
        self._known: dict[int, float] = {}

    def current(self, seqs: Iterable[int]) -> list[int]:
        """Give those that have a vector of their text."""
        wanted = list(seqs)
        self._note(self._vectors.of([seq for seq in wanted if seq not in self._known]))
        return [seq for seq in wanted if seq in self._known]

    def nearest(self, most: int = NEAREST) -> list[int]:
        """Give the numbers of the nearest memories."""
        found = self._note(self._vectors.nearest(self._asked.direction.tolist(), WIDER * most))
        return sorted(found, key=lambda seq: -self._known[seq])[:most]

    def of(self, seqs: Iterable[int]) -> dict[int, float]:
        """Give how near these are, as far as it is known."""
        return {seq: max(self._known[seq], 0.0) for seq in self.current(seqs)}

    def _note(self, rows: Sequence[Row]) -> list[int]:
        if not rows:
            return []
        seqs = [row["seq"] for row in rows]
        self._known.update(zip(seqs, self._scale.of(self._asked.near_to(rows)).tolist(), strict=True))
        return seqs


def _matrix(np: Any, rows: Sequence[Row]) -> Any:
    return np.frombuffer(b"".join(row["vector"] for row in rows), np.int8).reshape(len(rows), -1)


def _lengths(np: Any, part: Any) -> Any:
    return np.sqrt(np.maximum(np.einsum("ij,ij->i", part, part), 1))
