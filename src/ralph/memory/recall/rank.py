"""Ranking of memories for a context, with an explanation of every score.

A score is a sum of named components, each a weight (`WEIGHTS`) times an amount. Word matches are scored by BM25 over
title, text and paths, relative to the best hit. Scores also propagate between related memories: those that touch the
same files, and those learned at the same time.
"""

from __future__ import annotations

import math

from ralph.core.tokenize import inverse_document_frequency, parse_string_list
from ralph.memory.lifecycle.confidence import days_between, days_of, decayed_confidence
from ralph.memory.lifecycle.staleness import staleness_penalty
from ralph.memory.recall.query import path_segments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from typing import Any

    from ralph.memory.recall.query import RecallContext, RecallQuery

    Row = dict[str, Any]

WEIGHTS = {
    "words": 1.0,
    "paths": 0.45,
    "named": 0.3,
    "title": 0.1,
    "files": 1.3,
    "folders": 0.3,
    "together": 0.35,
    "links": 0.2,
    "meaning": 0.5,
    "recency": 0.15,
    "tags": 0.05,
    "confidence": 0.1,
    "success": 0.1,
    "hat": 0.05,
    "task type": 0.05,
    "feature": 0.1,
    "failure": 0.1,
    "stale": -0.3,
}
"""Weight of each score component. docs/recall.md lists the measured effect of most of them."""

CONTENT_COMPONENTS = ("words", "title", "paths", "named", "meaning")
"""Components that come from the memory itself."""

BM25_SATURATION, BM25_LENGTH_PENALTY = 1.5, 0.4
"""BM25 parameters: saturation of repeated words and penalty for long texts."""
TYPICAL_PATH_WORDS = 20
"""Number of path words above which the path score is reduced; a memory naming many files is about none."""
TITLE_LENGTH_PENALTY = 0.05
"""Penalty per word of a title."""
TITLE_FIELD_WEIGHT, BODY_FIELD_WEIGHT, PATHS_FIELD_WEIGHT, TAGS_FIELD_WEIGHT = 3.0, 1.0, 3.0, 1.0
"""Weight of a word by where it occurs; tags only count if the word occurs nowhere else."""
COMMON_STEMS = frozenset(
    "add allow build chang check creat ensur extend fix handl implement improv introduc make mend move refactor remov"
    " renam replac support updat write"
    " assert assertionerror call error except fail failur file last line ok pass py pytest python ran recent run test"
    " traceback unittest".split()
)
"""Stems that occur in nearly every task or in the output of nearly every failing test.

They do not count as evidence that a memory is relevant.
"""
PRIOR_TEXTS = 30
"""Number of virtual texts without the word, to smooth the statistics of small collections."""
FEEDBACK_HITS = 5
"""Number of top hits used for file-based feedback."""
OWN_FEEDBACK_DISCOUNT = 0.5
"""Share of the feedback of a memory that does not apply to itself, since others may name no files."""
FEEDBACK_EXPONENT = 3
"""Exponent that favors the best of the top hits."""
SHARE_TO_NEXT, SHARE_TO_PREVIOUS = 1.4, 0.5
"""Share of the score passed to the next and to the previous memory: an answer follows its query."""
NEIGHBOR_CAP = 0.98
"""Maximum score reached through a neighbor, relative to the score of the neighbor."""
MEANING_EVIDENCE = 1.1
"""Evidence of a memory with maximum similarity in meaning, even without a common word."""
HALF_LIFE_DAYS = 365.0
"""Half-life of the recency component, in days."""
CONSECUTIVE_WITHIN_DAYS = 10 / (24 * 60)
"""Maximum time between two memories learned together, in days."""


class ScoredMemory:
    """A candidate memory with its row, score components and total score."""

    __slots__ = ("_vocabulary", "components", "evidence", "files", "row", "score")

    def __init__(self, row: Row) -> None:
        self.row = row
        self._vocabulary: set[str] | None = None
        self.files = parse_string_list(row["files"])
        self.components: dict[str, float] = {}
        self.score = 0.0
        self.evidence = 0.0
        """Share of the query it covers, times how distinctive the matching words are."""

    @property
    def vocabulary(self) -> set[str]:
        """The words of its title and text."""
        if self._vocabulary is None:
            self._vocabulary = {*self.row["title_words"].split(), *self.row["body_words"].split()}
        return self._vocabulary

    @property
    def content_score(self) -> float:
        """The part of the score that comes from its own content."""
        return sum(self.components.get(name, 0.0) for name in CONTENT_COMPONENTS)

    def add(self, name: str, amount: float) -> None:
        """Add a score component."""
        if amount:
            share = WEIGHTS[name] * amount
            self.components[name] = self.components.get(name, 0.0) + share
            self.score += share


class Ranking:
    """Candidate memories for a query, scored together."""

    def __init__(
        self, context: RecallContext, query: RecallQuery, document_frequency: Mapping[str, int], total: int
    ) -> None:
        self._context = context
        self._query = query
        self._rarity = {
            word: inverse_document_frequency(document_frequency.get(word, 0), total) for word in query.words
        }
        self._word_weights = {word: weight * self._rarity[word] for word, weight in query.words.items()}
        self._path_weights = {word: weight * self._rarity.get(word, 0.0) for word, weight in query.paths.items()}
        self._distinctiveness = {
            word: math.log((total + PRIOR_TEXTS) / (document_frequency.get(word, 0) + 1))
            for word in query.words
            if word not in COMMON_STEMS
            and word not in query.hints
            and not _is_unknown_compound(word, document_frequency)
        }
        self._total_weight = sum(query.words[word] * value for word, value in self._distinctiveness.items()) or 1.0
        self._total_title_weight = sum(self._distinctiveness.get(word, 0.0) for word in query.title) or 1.0
        self._mentions_by_part = _index_by_part(query.mentions)
        self._mention_scores: dict[str, float] = {}
        self._mean_length = 0.0
        self._maxima: tuple[float, ...] = ()
        self.hits: dict[int, ScoredMemory] = {}

    def add(self, rows: Iterable[Row]) -> None:
        """Add rows not added yet and score their content and file names.

        Later rows are scored relative to the first ones, which are the best matches.
        """
        new = [ScoredMemory(row) for row in rows if row["seq"] not in self.hits]
        new = list({hit.row["seq"]: hit for hit in new}.values())
        split = [_Words(hit.row) for hit in new]
        self._mean_length = self._mean_length or _mean([words.length for words in split])
        amounts = [self._score_content(hit, words) for hit, words in zip(new, split, strict=True)]
        if not self._maxima:
            self._maxima = tuple(max(column) or 1.0 for column in zip(*amounts, strict=True))
        for hit, (text, title, paths) in zip(new, amounts, strict=True):
            hit.add("words", text / self._maxima[0])
            hit.add("title", title / self._maxima[1])
            hit.add("paths", paths / self._maxima[2])
            hit.add("named", max(map(self._score_mention, hit.files), default=0.0))
            self.hits[hit.row["seq"]] = hit

    def _score_content(self, hit: ScoredMemory, words: _Words) -> tuple[float, float, float]:
        """Return the BM25 scores of text, title and paths, and set the evidence."""
        saturation = BM25_SATURATION * (
            1 - BM25_LENGTH_PENALTY + BM25_LENGTH_PENALTY * words.length / self._mean_length
        )
        weights = self._word_weights
        text = covered = covered_title = distinct = 0.0
        for word, count in words.counts(weights).items():
            distinctiveness = self._distinctiveness.get(word, 0.0)
            distinct += distinctiveness
            covered += distinctiveness * self._query.words[word]
            if word in self._query.title:
                covered_title += distinctiveness
            text += weights[word] * count / (count + saturation)
        hit.evidence = (distinct + 1) * max(covered / self._total_weight, covered_title / self._total_title_weight)
        return text, self._score_title(words), self._score_paths(words)

    def _score_title(self, words: _Words) -> float:
        query_words = self._query.title
        matching = sum(self._rarity.get(word, 0.0) for word in set(words.title) if word in query_words)
        return matching / (1 + TITLE_LENGTH_PENALTY * len(words.title)) if matching else 0.0

    def _score_paths(self, words: _Words) -> float:
        weights = self._path_weights
        counts: dict[str, int] = {}
        for word in words.paths:
            if word in weights:
                counts[word] = counts.get(word, 0) + 1
        saturation = BM25_SATURATION * max(1.0, len(words.paths) / TYPICAL_PATH_WORDS)
        return sum(weights[word] * count / (count + saturation) for word, count in counts.items())

    def _score_mention(self, path: str) -> float:
        """Return the share of a path that the query names; 1 for all of it."""
        if path not in self._mention_scores:
            parts = path_segments(path)
            if len(parts) > 1 and parts[-1] in ("__init__", "index", "mod"):
                parts = parts[:-1]
            best = 0
            for mention, position in self._mentions_by_part.get(parts[-1] if parts else "", ()):
                matching = 1
                while (
                    matching < len(parts)
                    and matching <= position
                    and mention[position - matching] == parts[-1 - matching]
                ):
                    matching += 1
                best = max(best, matching)
            self._mention_scores[path] = best / len(parts) if parts else 0.0
        return self._mention_scores[path]

    # --- feedback between memories -----------------------------------------------------

    def top_files(self) -> list[str]:
        """Return the files of the top hits, most relevant first."""
        return sorted(feedback := self._feedback(_whole_path), key=lambda path: -sum(feedback[path].values()))

    def score_shared_files(self) -> None:
        """Add scores for sharing files or folders with the top hits."""
        for name, place_of in (("files", _whole_path), ("folders", _folder)):
            feedback = self._feedback(place_of)
            sums = {place: sum(shares.values()) for place, shares in feedback.items()}
            total = sum(hit.score**FEEDBACK_EXPONENT for hit in self.top(FEEDBACK_HITS))
            for hit in self.hits.values() if feedback and total else ():
                seq = hit.row["seq"]
                best = 0.0
                for place in map(place_of, hit.files):
                    if place in sums:
                        best = max(best, sums[place] - OWN_FEEDBACK_DISCOUNT * feedback[place].get(seq, 0.0))
                hit.add(name, best / total)

    def _feedback(self, place_of: Callable[[str], str]) -> dict[str, dict[int, float]]:
        """Return the feedback of each top hit for the files or folders it touches."""
        feedback: dict[str, dict[int, float]] = {}
        for hit in self.top(FEEDBACK_HITS):
            places = {place_of(path) for path in hit.files}
            for place in places:
                feedback.setdefault(place, {})[hit.row["seq"]] = hit.score**FEEDBACK_EXPONENT / len(places) ** 0.25
        return feedback

    def top(self, limit: int) -> list[ScoredMemory]:
        """Return the current top hits."""
        return sorted(self.hits.values(), key=_sort_key)[:limit]

    def score_neighbors(self, consecutive: Iterable[tuple[int, int]]) -> None:
        """Add scores for memories learned right before or after a match, given pairs of consecutive memories.

        No memory overtakes the neighbor it gains from.
        """
        before = {seq: (hit.score, hit.content_score, hit.evidence) for seq, hit in self.hits.items()}
        for first, second in consecutive:
            if first in before and second in before and _is_consecutive(self.hits[first].row, self.hits[second].row):
                for source, target, share in ((first, second, SHARE_TO_NEXT), (second, first, SHARE_TO_PREVIOUS)):
                    hit = self.hits[target]
                    score, content, evidence = before[source]
                    headroom = max(NEIGHBOR_CAP * score - hit.score, 0.0) / WEIGHTS["together"]
                    hit.add("together", min(share * content, headroom))
                    if _has_same_origin(hit.row, self.hits[source].row):
                        hit.evidence = max(hit.evidence, share * WEIGHTS["together"] * evidence)

    def score_links(self, links: Iterable[tuple[int, int]]) -> None:
        """Add scores for links to and from matches, given pairs of source and target."""
        scores = {seq: hit.score for seq, hit in self.hits.items()}
        best = max(scores.values(), default=0.0) or 1.0
        gained: dict[int, float] = {}
        for first, second in links:
            if first in scores and second in scores:
                gained[first] = max(gained.get(first, 0.0), scores[second] / best)
                gained[second] = max(gained.get(second, 0.0), scores[first] / best)
        for seq, amount in gained.items():
            self.hits[seq].add("links", amount)

    def score_similarity(self, similarities: Mapping[int, float]) -> None:
        """Add scores for similarity in meaning."""
        for seq, amount in similarities.items():
            if hit := self.hits.get(seq):
                hit.add("meaning", amount)
                hit.evidence = max(hit.evidence, MEANING_EVIDENCE * amount)

    def score_failures(self, tasks: Collection[str]) -> None:
        """Add scores for memories learned in tasks that failed the same way."""
        for hit in self.hits.values():
            hit.add("failure", float(hit.row["origin_task"] in tasks))

    def score_metadata(self) -> None:
        """Add scores for tags, age, confidence, success and origin."""
        context = self._context
        self.score_recency()
        at = days_of(context.at)
        for hit in self.hits.values():
            row = hit.row
            hit.add("tags", self._score_tags(row["tag_words"]))
            hit.add("confidence", decayed_confidence(row["confidence"], at - days_of(_last_confirmed(row))))
            hit.add("success", row["success_rate"] or 0.0)
            hit.add("hat", float(bool(row["hat"]) and row["hat"] == context.hat))
            hit.add("task type", float(bool(row["task_type"]) and row["task_type"] == context.task_type))
            hit.add("feature", float(bool(row["feature"]) and row["feature"] == context.feature))
            hit.add("stale", staleness_penalty(row["stale"]))

    def score_recency(self) -> None:
        """Add scores for recency."""
        at = days_of(self._context.at)
        for hit in self.hits.values():
            created = days_of(hit.row["created_at"] if "created_at" in hit.row else hit.row["started_at"])
            hit.add("recency", 0.5 ** (max(at - created, 0.0) / HALF_LIFE_DAYS))

    def _score_tags(self, tags: str) -> float:
        """Return the share of the tag words that occur in the query."""
        tag_words = tags.split()
        return sum(1 for word in tag_words if word in self._word_weights) / len(tag_words) if tag_words else 0.0


class _Words:
    """Index words of a row."""

    __slots__ = ("body", "length", "paths", "tags", "title")

    def __init__(self, row: Row) -> None:
        self.title = row["title_words"].split()
        self.body = row["body_words"].split()
        self.paths = row["path_words"].split()
        self.tags = row["tag_words"].split()
        self.length = (
            TITLE_FIELD_WEIGHT * len(self.title)
            + BODY_FIELD_WEIGHT * len(self.body)
            + PATHS_FIELD_WEIGHT * len(self.paths)
        )

    def counts(self, query_words: Mapping[str, float]) -> dict[str, float]:
        """Return the weighted number of occurrences of each query word."""
        counts: dict[str, float] = {}
        for words, weight in (
            (self.title, TITLE_FIELD_WEIGHT),
            (self.body, BODY_FIELD_WEIGHT),
            (self.paths, PATHS_FIELD_WEIGHT),
        ):
            for word in filter(query_words.__contains__, words):
                counts[word] = counts.get(word, 0.0) + weight
        for word in filter(query_words.__contains__, self.tags):
            counts.setdefault(word, TAGS_FIELD_WEIGHT)
        return counts


def _is_unknown_compound(word: str, document_frequency: Mapping[str, int]) -> bool:
    """Return whether a word is a compound identifier that no memory has; its parts are counted already."""
    return ("_" in word or "." in word) and not document_frequency.get(word)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values and sum(values) else 1.0


def _sort_key(hit: ScoredMemory) -> tuple[float, int]:
    return -hit.score, -hit.row["seq"]


def _whole_path(path: str) -> str:
    return path


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _last_confirmed(row: Row) -> str:
    """Return when a memory was last created, used or verified."""
    return max(str(row["used_at"] or ""), str(row["verified_at"] or ""), str(row["created_at"]))


def _origin(row: Row) -> tuple[object, ...]:
    """Return the session or attempt a memory was learned in; empty if unknown."""
    origin = tuple(row[name] for name in ("origin_session", "origin_run", "origin_task", "origin_attempt"))
    return origin if any(origin) else ()


def _has_same_origin(one: Row, other: Row) -> bool:
    return bool(_origin(one)) and _origin(one) == _origin(other)


def _is_consecutive(one: Row, other: Row) -> bool:
    """Return whether two memories were learned one after the other.

    Memories with the same timestamp were imported in bulk, unless one session or attempt learned both.
    """
    if _origin(one) or _origin(other):
        return _has_same_origin(one, other)
    return 0 < abs(days_between(one["created_at"], other["created_at"])) <= CONSECUTIVE_WITHIN_DAYS


def _index_by_part(mentions: Iterable[tuple[str, ...]]) -> dict[str, list[tuple[tuple[str, ...], int]]]:
    """Return the mentions by each of their parts, with its position."""
    result: dict[str, list[tuple[tuple[str, ...], int]]] = {}
    for mention in mentions:
        for position, part in enumerate(mention):
            result.setdefault(part, []).append((mention, position))
    return result
