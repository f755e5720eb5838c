"""Find memories that say nearly the same, and make one of them.

Alike is not enough: what one memory says and the other contradicts is never merged.
Negations, numbers, identifiers and paths have to be the same, the order of the words
too, and where one has a telling word of its own, the other may not have another in its
place: "use pytest" and "use unittest" differ in one word only.
"""

from __future__ import annotations

from collections import Counter

from ralph.memory.fingerprint import same_words
from ralph.memory.lifecycle import faded
from ralph.memory.limits import MOST_TAGS
from ralph.records import record, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ralph.records import Memory

ALIKE = 0.8
"""Share of the words that two memories have in common, of the one with more words: so nothing much is lost."""
ALIKE_WITH_TAGS = 0.7
TAG_OVERLAP = 0.5
"""Of the one with fewer tags."""
TOO_MANY_ACTIVE = 200
EVERY_ITERATIONS = 10

_NEGATIONS = frozenset(
    "no not never none nor neither without avoid non unless if only except until before after instead with when while"
    " then".split()
)
"""Words that turn or bound what is said: two texts must have the same of them."""
# Words that can come or go without changing what is said. Not "can", "all", "before", "only": those can.
_SOFT = frozenset(
    "always and as because but by do does each every for has have into its must need needs our own per prefer should"
    " so such their them they use used uses using via we where which within you your".split()
)
_ENDINGS = ("ing", "ed", "es", "ly", "e", "s")


@record
class _Text:
    """What one or more memories say, ready to be compared."""

    memories: list[Memory]
    """All with these very words, best first."""
    words: frozenset[str]
    telling: tuple[str, ...]
    """The words that carry the meaning, in order, each once."""


def clusters(memories: Sequence[Memory], at: str, threshold: float = ALIKE) -> list[tuple[Memory, list[Memory]]]:
    """Give each memory that others nearly repeat, with those others; the surest is the one that survives."""
    found = []
    best_first = sorted(memories, key=lambda memory: _rank(memory, at))
    for texts in _comparable(best_first).values():
        near = _neighbours(texts, threshold)
        taken: set[int] = set()
        for place, text in enumerate(texts):
            if place in taken:
                continue
            others = sorted(near.get(place, set()) - taken)
            taken.update(others, [place])
            survivor, *repeated = [*text.memories, *(memory for other in others for memory in texts[other].memories)]
            if repeated:
                found.append((survivor, repeated))
    return found


def _rank(memory: Memory, at: str) -> tuple[float, int, str, str]:
    return -faded(memory, at), -memory.support, memory.created_at, memory.id


def merge(survivor: Memory, others: Sequence[Memory], at: str) -> Memory:
    """Give the survivor with what the others add: their tags, files, loops and counts, and the highest confidence."""
    everyone = [survivor, *others]
    merged = replace(
        survivor,
        tags=tuple(dict.fromkeys(tag for one in everyone for tag in one.tags))[:MOST_TAGS],
        files=tuple(dict.fromkeys(path for one in everyone for path in one.files))[:MOST_TAGS],
        origin_loops=tuple(dict.fromkeys(loop for one in everyone for loop in one.origin_loops)),
        support=sum(one.support for one in everyone),
        uses=sum(one.uses for one in everyone),
        wins=sum(one.wins for one in everyone),
        losses=sum(one.losses for one in everyone),
        success_rate=_success_rate(everyone),
        used_at=max(filter(None, (one.used_at for one in everyone)), default=None),
        verified_at=max(filter(None, (one.verified_at for one in everyone)), default=None),
        updated_at=at,
    )
    # Nothing gets surer by being merged: as of now the result is as sure as the surest of them.
    weeks_cost = 1.0 - faded(replace(merged, confidence=1.0), at)
    surest = max(faded(one, at) for one in everyone)
    return replace(merged, confidence=min(max(one.confidence for one in everyone), round(surest + weeks_cost, 6)))


def _success_rate(memories: Sequence[Memory]) -> float | None:
    known = [(one.success_rate, one.support) for one in memories if one.success_rate is not None]
    return sum(rate * support for rate, support in known) / sum(support for _, support in known) if known else None


def is_due(active: int, iterations_since: int) -> bool:
    """Say whether it is time to consolidate: many active memories, and the last time is a while ago."""
    return active > TOO_MANY_ACTIVE and iterations_since >= EVERY_ITERATIONS


# --- what is alike -----------------------------------------------------------------


def _comparable(memories: Iterable[Memory]) -> dict[tuple[object, ...], list[_Text]]:
    """Give what the memories say, in groups within which two could say the same; the order stays."""
    texts: dict[tuple[object, ...], dict[tuple[str, ...], _Text]] = {}
    for memory in memories:
        words = same_words(memory.body or memory.title).split()
        stems = tuple(dict.fromkeys(_stem(word) for word in words))
        names = frozenset(word for word in words if not word.replace("-", "").replace("'", "").isalpha())
        negations = tuple(sorted(Counter(word for word in words if word in _NEGATIONS).items()))
        telling = tuple(stem for stem in stems if stem not in _SOFT)
        if telling:
            group = texts.setdefault((memory.kind, memory.task_type, memory.feature, names, negations), {})
            fresh = _Text(memories=[], words=frozenset(stems), telling=telling)
            group.setdefault(stems, fresh).memories.append(memory)
    return {key: list(group.values()) for key, group in texts.items()}


def _stem(word: str) -> str:
    """Give a plain word without its ending: `installing` and `install` are the same."""
    if len(word) < 6 or not word.isalpha():
        return word
    for ending in _ENDINGS:
        stem = word.removesuffix(ending)
        if stem != word and len(stem) >= 4 and not word.endswith("ss"):
            return stem[:-1] if stem[-1] == stem[-2] and stem[-1] not in "aeiousl" else stem
    return word


def _neighbours(texts: list[_Text], threshold: float) -> dict[int, set[int]]:
    """Give for each text the places of those that nearly repeat it.

    Of two such texts one has all telling words of the other. Going through the words from
    the rarest on, hardly any other text is left after two or three.
    """
    holders: dict[str, set[int]] = {}
    for place, text in enumerate(texts):
        for word in text.telling:
            holders.setdefault(word, set()).add(place)
    near: dict[int, set[int]] = {}
    for place, text in enumerate(texts):
        sets = sorted((holders[word] for word in text.telling), key=len)
        for other in set.intersection(*sets) - {place}:
            if _is_near(text, texts[other], threshold):
                near.setdefault(place, set()).add(other)
                near.setdefault(other, set()).add(place)
    return near


def _is_near(fewer: _Text, more: _Text, threshold: float) -> bool:
    """Say whether a text that has all telling words of another one nearly repeats it."""
    common = len(fewer.words & more.words) / max(len(fewer.words), len(more.words))
    if common <= min(threshold, ALIKE_WITH_TAGS):
        return False
    if common <= threshold and not _share_tags(fewer.memories[0], more.memories[0]):
        return False
    shared = set(fewer.telling)
    # In the same order: "the cache uses the database" is not "the database uses the cache".
    return fewer.telling == tuple(word for word in more.telling if word in shared)


def _share_tags(one: Memory, other: Memory) -> bool:
    fewer = min(len(one.tags), len(other.tags))
    return bool(fewer) and len(set(one.tags) & set(other.tags)) >= TAG_OVERLAP * fewer
