"""Detection and merging of near-duplicate memories.

Similarity alone is not enough, because memories that contradict each other must never be merged. Negations, numbers,
identifiers and paths have to match, and so does the word order. If one text has a significant word of its own, the
other may not have a different one in its place: "use pytest" and "use unittest" differ in a single word.
"""

from __future__ import annotations

from collections import Counter

from ralph.core.limits import MAX_TAGS
from ralph.core.records import MemorySource, record, replace
from ralph.memory.lifecycle.confidence import current_confidence
from ralph.memory.lifecycle.fingerprint import normalized_words
from ralph.memory.lifecycle.frames import alternative_groups, is_change
from ralph.memory.lifecycle.same_fact import (
    MIN_WORDS_BESIDE_MEANING,
    ONE_FACT,
    Relation,
    common_words,
    comparable_key,
    prepare,
    relate,
)
from ralph.memory.lifecycle.supersession import concern_same_files, stated_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ralph.core.records import Memory

MIN_SIMILARITY = 0.8
"""Minimum share of common words, relative to the longer text, so that merging loses little."""
MIN_SIMILARITY_WITH_TAGS = 0.7
"""Minimum share of common words for memories whose tags overlap."""
MIN_TAG_OVERLAP = 0.5
"""Minimum share of common tags, relative to the memory with fewer tags."""
MIN_SHARED_WORDS = 2
"""Number of words that two memories must share to be compared as paraphrases."""
MAX_STATEMENT = 400
"""Length up to which a memory is one statement, in characters."""
MAX_WORD_COUNT = 50
"""Number of memories with a word, or a twentieth of all, above which it is too common to find paraphrases by."""
CONSOLIDATE_ABOVE_ACTIVE = 200
"""Number of active memories above which they are consolidated automatically."""
CONSOLIDATE_EVERY_ITERATIONS = 10
"""Minimum number of iterations between two automatic consolidations."""

_NEGATIONS = frozenset(
    "no not never none nor neither without avoid non unless if only except until before after instead with when while"
    " then".split()
)
"""Words that negate or restrict a statement; two duplicates must have the same ones."""
# Words that do not change the meaning of a statement. "can", "all", "before" and "only" do, so they are not listed.
_INSIGNIFICANT = frozenset(
    "always and as because but by do does each every for has have into its must need needs our own per prefer should"
    " so such their them they use used uses using via we where which within you your".split()
)
_SUFFIXES = ("ing", "ed", "es", "ly", "e", "s")


@record
class Paraphrases:
    """Memories that say the same in other words."""

    clusters: tuple[tuple[Memory, tuple[Memory, ...]], ...] = ()
    """Survivors, each with those that say the same."""
    conflicts: tuple[tuple[Memory, Memory], ...] = ()
    """Memories that say something else about the same, which only a person or a newer statement can decide."""


@record
class _Text:
    """Text of one or more memories, prepared for comparison."""

    memories: list[Memory]
    """Memories with exactly these words, best first."""
    words: frozenset[str]
    significant: tuple[str, ...]
    """Distinct significant words, in order."""


def find_duplicates(
    memories: Sequence[Memory], at: str, threshold: float = MIN_SIMILARITY
) -> list[tuple[Memory, list[Memory]]]:
    """Return each memory that has near-duplicates, with its duplicates; the most trusted memory survives."""
    result = []
    best_first = sorted(memories, key=lambda memory: _rank(memory, at))
    for texts in _group_texts(best_first).values():
        duplicates = _find_duplicates(texts, threshold)
        seen: set[int] = set()
        for index, text in enumerate(texts):
            if index in seen:
                continue
            others = sorted(duplicates.get(index, set()) - seen)
            seen.update(others, [index])
            survivor, *redundant = [*text.memories, *(memory for other in others for memory in texts[other].memories)]
            if redundant:
                result.append((survivor, redundant))
    return result


def find_paraphrases(
    memories: Sequence[Memory], at: str, similarity: Callable[[Memory, Memory], float | None] = lambda one, other: None
) -> Paraphrases:
    """Return the memories that others say in other words; `similarity` compares two by meaning if it can.

    Each is compared with the survivor itself, never with another paraphrase: similarity does not add up.
    """
    best_first = sorted(filter(_is_plain, memories), key=lambda memory: _rank(memory, at))
    clusters: dict[int, list[Memory]] = {}
    conflicts: list[tuple[Memory, Memory]] = []
    redundant: set[int] = set()
    for index, other in _candidate_pairs(best_first):
        if index in redundant or other in redundant:
            continue
        relation = _relation(best_first[index], best_first[other], similarity)
        if relation in ONE_FACT:
            redundant.add(other)
            clusters.setdefault(index, []).append(best_first[other])
        elif relation is Relation.CHANGE:
            conflicts.append((best_first[index], best_first[other]))
    return Paraphrases(
        clusters=tuple((best_first[index], tuple(others)) for index, others in clusters.items()),
        conflicts=tuple(conflicts),
    )


def find_contradictions(memories: Sequence[Memory]) -> list[tuple[Memory, Memory]]:
    """Return pairs of memories of which the later one says something else about the same; the earlier one first.

    Memories of what failed are none: they say what was the case once.
    """
    statements = [one for one in memories if _is_plain(one) and one.kind != "fix" and len(one.content) <= MAX_STATEMENT]
    oldest_first = sorted(statements, key=lambda one: (stated_at(one), one.id))
    return [
        (oldest_first[index], oldest_first[other])
        for index, other in _candidate_pairs(oldest_first)
        if comparable_key(oldest_first[index]) == comparable_key(oldest_first[other])
        and concern_same_files(oldest_first[index], oldest_first[other])
        and is_change(oldest_first[other].content, oldest_first[index].content)
    ]


def _candidate_pairs(memories: Sequence[Memory]) -> Iterator[tuple[int, int]]:
    """Yield the indexes of memories that share words which are not too common, the better one first."""
    statements = [prepare(memory.content or memory.title) for memory in memories]
    by_word: dict[str, list[int]] = {}
    for index, statement in enumerate(statements):
        for word in (*statement.weights, *alternative_groups(statement.weights)):
            by_word.setdefault(word, []).append(index)
    most = max(MAX_WORD_COUNT, len(memories) // 20)
    for index, statement in enumerate(statements):
        words = (*statement.weights, *alternative_groups(statement.weights))
        rare = (by_word[word] for word in words if len(by_word[word]) <= most)
        shared = Counter(other for found in rare for other in found if other > index)
        yield from ((index, other) for other, count in shared.items() if count >= MIN_SHARED_WORDS)


def _is_plain(memory: Memory) -> bool:
    return not memory.structured_content and memory.kind != "knowledge"


def _relation(one: Memory, other: Memory, similarity: Callable[[Memory, Memory], float | None]) -> Relation:
    text, other_text = one.content or one.title, other.content or other.title
    if comparable_key(one) != comparable_key(other):
        return Relation.DIFFERENT
    if common_words(prepare(text), prepare(other_text)) < MIN_WORDS_BESIDE_MEANING:
        return Relation.DIFFERENT
    alike = similarity(one, other)
    relation = relate(other_text, text, alike)
    return relation if relation is not Relation.DIFFERENT else relate(text, other_text, alike)


def _rank(memory: Memory, at: str) -> tuple[float, int, str, str]:
    return -current_confidence(memory, at), -memory.support, memory.created_at, memory.id


def merge_duplicates(survivor: Memory, others: Sequence[Memory], at: str) -> Memory:
    """Return the survivor with the tags, files, loops and counts of the others, and the highest confidence."""
    memories = [survivor, *others]
    merged = replace(
        survivor,
        **_best_wording(survivor, others),
        tags=tuple(dict.fromkeys(tag for memory in memories for tag in memory.tags))[:MAX_TAGS],
        files=tuple(dict.fromkeys(path for memory in memories for path in memory.files))[:MAX_TAGS],
        origin_loops=tuple(dict.fromkeys(loop for memory in memories for loop in memory.origin_loops)),
        support=sum(memory.support for memory in memories),
        uses=sum(memory.uses for memory in memories),
        wins=sum(memory.wins for memory in memories),
        losses=sum(memory.losses for memory in memories),
        success_rate=_success_rate(memories),
        used_at=max(filter(None, (memory.used_at for memory in memories)), default=None),
        verified_at=max(filter(None, (memory.verified_at for memory in memories)), default=None),
        updated_at=at,
    )
    # Merging must not raise confidence: the decayed value of the result equals the highest decayed value.
    decay = 1.0 - current_confidence(replace(merged, confidence=1.0), at)
    highest = max(current_confidence(memory, at) for memory in memories)
    return replace(merged, confidence=min(max(memory.confidence for memory in memories), round(highest + decay, 6)))


def _best_wording(survivor: Memory, others: Sequence[Memory]) -> dict[str, str]:
    """Return the title and text of what refines a survivor that Ralph worded itself; nothing for other words."""
    if survivor.source is not MemorySource.AUTOMATIC:
        return {}
    refined = (one for one in others if relate(one.content, survivor.content) is Relation.REFINEMENT)
    best = max(refined, key=lambda one: len(one.content), default=None)
    return {"title": best.title, "content": best.content} if best else {}


def _success_rate(memories: Sequence[Memory]) -> float | None:
    rates = [(memory.success_rate, memory.support) for memory in memories if memory.success_rate is not None]
    return sum(rate * support for rate, support in rates) / sum(support for _, support in rates) if rates else None


def is_consolidation_due(active: int, iterations_since: int) -> bool:
    """Return whether to consolidate now: many active memories, and the last time was a while ago."""
    return active > CONSOLIDATE_ABOVE_ACTIVE and iterations_since >= CONSOLIDATE_EVERY_ITERATIONS


# --- similarity --------------------------------------------------------------------


def _group_texts(memories: Iterable[Memory]) -> dict[tuple[object, ...], list[_Text]]:
    """Return the texts of the memories in groups within which duplicates are possible, in order."""
    texts: dict[tuple[object, ...], dict[tuple[str, ...], _Text]] = {}
    for memory in memories:
        words = normalized_words(memory.content or memory.title).split()
        stems = tuple(dict.fromkeys(_stem(word) for word in words))
        names = frozenset(word for word in words if not word.replace("-", "").replace("'", "").isalpha())
        negations = tuple(sorted(Counter(word for word in words if word in _NEGATIONS).items()))
        significant = tuple(stem for stem in stems if stem not in _INSIGNIFICANT)
        if significant:
            group = texts.setdefault((memory.kind, memory.task_type, memory.feature, names, negations), {})
            text = _Text(memories=[], words=frozenset(stems), significant=significant)
            group.setdefault(stems, text).memories.append(memory)
    return {key: list(group.values()) for key, group in texts.items()}


def _stem(word: str) -> str:
    """Return a plain word without its suffix, so that `installing` and `install` match."""
    if len(word) < 6 or not word.isalpha():
        return word
    for suffix in _SUFFIXES:
        stem = word.removesuffix(suffix)
        if stem != word and len(stem) >= 4 and not word.endswith("ss"):
            return stem[:-1] if stem[-1] == stem[-2] and stem[-1] not in "aeiousl" else stem
    return word


def _find_duplicates(texts: list[_Text], threshold: float) -> dict[int, set[int]]:
    """Return the indexes of the near-duplicates of each text, by index.

    One of two near-duplicates contains all significant words of the other. Intersecting from the rarest word on leaves
    hardly any candidates after two or three words.
    """
    texts_by_word: dict[str, set[int]] = {}
    for index, text in enumerate(texts):
        for word in text.significant:
            texts_by_word.setdefault(word, set()).add(index)
    duplicates: dict[int, set[int]] = {}
    for index, text in enumerate(texts):
        sets = sorted((texts_by_word[word] for word in text.significant), key=len)
        for other in set.intersection(*sets) - {index}:
            if _is_duplicate(text, texts[other], threshold):
                duplicates.setdefault(index, set()).add(other)
                duplicates.setdefault(other, set()).add(index)
    return duplicates


def _is_duplicate(fewer: _Text, more: _Text, threshold: float) -> bool:
    """Return whether a text containing all significant words of another is a near-duplicate of it."""
    common = len(fewer.words & more.words) / max(len(fewer.words), len(more.words))
    if common <= min(threshold, MIN_SIMILARITY_WITH_TAGS):
        return False
    if common <= threshold and not _tags_overlap(fewer.memories[0], more.memories[0]):
        return False
    shared = set(fewer.significant)
    # Word order matters: "the cache uses the database" is not "the database uses the cache".
    return fewer.significant == tuple(word for word in more.significant if word in shared)


def _tags_overlap(memory: Memory, other: Memory) -> bool:
    fewer = min(len(memory.tags), len(other.tags))
    return bool(fewer) and len(set(memory.tags) & set(other.tags)) >= MIN_TAG_OVERLAP * fewer
