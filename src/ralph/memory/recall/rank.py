"""Ranking of memories for a context, with an explanation of every score.

A score is a sum of named components, each a weight (`WEIGHTS`) times an amount. Word matches are scored by BM25 over
title, text and paths, relative to the best hit. Scores also propagate between related memories: those that touch the
same files, and those learned at the same time. The same amounts, with other weights, give the estimate of relevance.
"""

from __future__ import annotations

import math
from functools import lru_cache

from ralph.core.tokenize import inverse_document_frequency, parse_string_list, tokenize
from ralph.memory.lifecycle.confidence import days_of, decayed_confidence
from ralph.memory.lifecycle.staleness import staleness_penalty
from ralph.memory.recall.common_words import COMMON_STEMS, everyday_shares
from ralph.memory.recall.estimate import INHERITED_SHARE, SHORT_TALK, SOURCE_SHARE
from ralph.memory.recall.feedback import COVERAGE_HITS, chance, file_weight, votes
from ralph.memory.recall.query import path_segments
from ralph.memory.recall.relations import (
    file_key,
    folder,
    has_same_origin,
    is_consecutive,
    is_meant_to_fail,
    last_confirmed,
    whole_path,
)
from ralph.memory.recall.scored import FILE_COMPONENTS, MIN_PROSE_WORDS, PROSE_WEIGHTS, WEIGHTS, ScoredMemory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from typing import Any

    from ralph.memory.recall.query import RecallContext, RecallQuery

    Row = dict[str, Any]

BM25_SATURATION, BM25_LENGTH_PENALTY = 1.5, 0.4
"""BM25 parameters: saturation of repeated words and penalty for long texts."""
TYPICAL_PATH_WORDS = 20
"""Number of path words above which the path score is reduced; a memory naming many files is about none."""
TITLE_LENGTH_PENALTY = 0.05
"""Penalty per word of a title."""
TITLE_FIELD_WEIGHT, BODY_FIELD_WEIGHT, PATHS_FIELD_WEIGHT, TAGS_FIELD_WEIGHT = 3.0, 1.0, 3.0, 1.0
"""Weight of a word by where it occurs; tags only count if the word occurs nowhere else."""
MAX_SUBJECT_WORDS, MAX_TELLING_WORDS = 8, 5
"""Number of words, and of telling ones, up to which a title names a subject; a longer one tells a story.

Everyday words count as a part of a telling one.
"""
MIN_CERTAIN_WORDS = 2
"""Number of telling words of a title that say what it is about."""
PACKAGE_FILES = ("__init__", "index", "mod")
"""Names of files that stand for the folder they are in."""
CERTAIN_MENTION = 0.5
"""Share of a path that has to be named for the file to be meant."""
COMMON_WORD_SHARE = 0.5
"""Share of the information of a word that counts if it says nothing about the subject."""
MAX_COMMON_DIGITS = 2
"""Number of digits up to which a number says nothing about the subject; a status or an issue has more."""
CERTAIN_TAG_RARITY, MAX_TAG_RARITY = 1.8, 4.0
"""Distinctiveness of a tag from which it names a subject rather than the whole project, and that counts fully."""
MAX_DISTINCTIVENESS = 4.5
"""Distinctiveness of a word that no text has."""
PRIOR_TEXTS = 30
"""Number of virtual texts without the word, to smooth the statistics of small collections."""
SHARE_TO_NEXT, SHARE_TO_PREVIOUS = 1.4, 0.5
"""Share of the score passed to the next and to the previous memory: an answer follows its query."""
NEIGHBOR_CAP = 0.98
"""Maximum score reached through a neighbor, relative to the score of the neighbor."""
NEUTRAL_COSINE = 0.1
"""Cosine, after centering, that tells neither for nor against a memory."""
NEAREST_COSINE, NEAREST_LEAD = 0.25, 0.05
"""Cosine from which what is by so much the nearest in meaning needs no words in common with the query."""
HALF_LIFE_DAYS = 365.0
"""Half-life of the recency component, in days."""
MAX_SPLIT_TAGS = 1_000
"""Number of tags whose words are kept in memory."""
_DATE_COLUMNS = ("created_at", "started_at", "at")
"""Columns with the date of a memory, a journal entry or an episode."""


class Ranking:
    """Candidate memories for a query, scored together."""

    def __init__(
        self,
        context: RecallContext,
        query: RecallQuery,
        document_frequency: Mapping[str, int],
        total: int,
        weights: Mapping[str, float] = WEIGHTS,
        *,
        project: str = "",
    ) -> None:
        """`project` is the name of the project, whose words tell nothing in it."""
        common = {word for word in query.words if is_common(word)} | set(tokenize(project))
        self._context = context
        self._weights = weights
        self._query = query
        self._is_prose = weights is WEIGHTS and not context.files and len(query.words) >= MIN_PROSE_WORDS
        self._rarity = {
            word: inverse_document_frequency(document_frequency.get(word, 0), total) for word in query.words
        }
        self._word_weights = {word: query.words[word] * self._rarity[word] for word in sorted(query.words)}
        self._path_weights = {word: weight * self._rarity.get(word, 0.0) for word, weight in query.paths.items()}
        # In relation to the number of texts: among many, the best chance match has rarer words.
        scale = MAX_DISTINCTIVENESS / math.log(total + PRIOR_TEXTS)
        self._distinctiveness = {
            word: scale * max(0.0, math.log((total + PRIOR_TEXTS) / (document_frequency.get(word, 0) + 1)))
            for word in query.words
        }
        # Passages are talk themselves: what everyday words a title shares with them tells as much as others.
        shares = everyday_shares(query.title) if weights is WEIGHTS else dict.fromkeys(query.title, 1.0)
        title = {
            word: share * self._distinctiveness.get(word, 0.0) for word, share in shares.items() if word not in common
        }
        total_title = sum(title.values())
        self._title_shares = {word: value / total_title for word, value in title.items()} if total_title else {}
        """Share of what the title tells that each of its telling words tells."""
        told = sum(value for word, value in self._distinctiveness.items() if word not in common)
        self._title_part = total_title / told if told else 0.0
        """Share of what the query tells that its title tells: all of it for a search."""
        self._subject = {
            *_subject_words(query.title, {word: shares[word] for word in title}),
            *tokenize(context.feature or ""),
        }
        self._common_information = {
            word: COMMON_WORD_SHARE * value if word in common else None
            for word, value in self._distinctiveness.items()
            if word not in query.hints
        }
        """What each common word tells; None for a word that tells something about the subject."""
        self.telling_words = sum(1 for value in self._common_information.values() if value is None)
        """Number of words of the query that tell something about its subject."""
        self._mentions_by_part = _index_by_part(query.mentions)
        self._mention_scores: dict[str, float] = {}
        self._mean_length = 0.0
        self._file_weight = 0.0
        """How much files count: nothing if the best match has no rival, or no candidate names files."""
        self._maxima: tuple[float, ...] = ()
        self.hits: dict[int, ScoredMemory] = {}

    def add(self, rows: Iterable[Row]) -> None:
        """Add rows not added yet and score their content and file names.

        Later rows are scored relative to the first ones, which are the best matches.
        """
        new = [ScoredMemory(row, self._weights_for(row)) for row in rows if row["seq"] not in self.hits]
        new = list({hit.row["seq"]: hit for hit in new}.values())
        split = [self._index_words(hit.row) for hit in new]
        self._mean_length = self._mean_length or _mean([words.length for words in split])
        amounts = [self._score_content(hit, words) for hit, words in zip(new, split, strict=True)]
        if not self._maxima:
            self._maxima = tuple(max(column) or 1.0 for column in zip(*amounts, strict=True))
            texts = [text for text, _, _ in amounts]
            self._file_weight = file_weight(new, texts)
        for hit, (text, title, paths) in zip(new, amounts, strict=True):
            hit.add("words", text / self._maxima[0])
            hit.add("title", title / self._maxima[1])
            hit.add("paths", paths / self._maxima[2] * self._file_weight)
            if hit.certainty:  # so far only for having every telling word of the title
                hit.add("every word", self._title_part * self._file_weight)
            named = max(map(self._score_mention, hit.files), default=0.0)
            hit.add("named", named)
            if named >= CERTAIN_MENTION:
                hit.certainty = "is about a file that is named"
            self.hits[hit.row["seq"]] = hit

    def _weights_for(self, row: Row) -> Mapping[str, float]:
        is_prose = self._is_prose and row["files"] == "[]" and row["body_words"].count(" ") >= MIN_PROSE_WORDS
        return PROSE_WEIGHTS if is_prose else self._weights

    def _index_words(self, row: Row) -> _Words:
        paths = row["path_words"] if "paths" in self._weights else ""
        return _Words(row["title_words"].split(), row["body_words"].split(), paths.split(), row["tag_words"].split())

    def _score_content(self, hit: ScoredMemory, words: _Words) -> tuple[float, float, float]:
        """Return the BM25 scores of text, title and paths, and note what the words tell."""
        saturation = BM25_SATURATION * (
            1 - BM25_LENGTH_PENALTY + BM25_LENGTH_PENALTY * words.length / self._mean_length
        )
        weights, counts = self._word_weights, words.count(self._word_weights)
        text = information = 0.0
        telling = []
        for word in sorted(counts):
            count = counts[word]
            text += weights[word] * count / (count + saturation)
            if word not in self._common_information:
                continue
            common = self._common_information[word]
            if common is not None:
                information += common
            elif distinctiveness := self._distinctiveness[word]:
                information += distinctiveness
                telling.append(word)
        hit.telling = tuple(sorted(telling, key=lambda word: (-self._distinctiveness[word], word)))
        hit.add("information", math.log1p(information))
        named = (self._distinctiveness[word] for word in telling if word in self._query.identifiers)
        hit.add("identifier", max(named, default=0.0) / MAX_DISTINCTIVENESS)
        covered = [word for word in telling if word in self._title_shares]
        hit.add("covered", sum(self._title_shares[word] for word in covered))
        if len(covered) == len(self._title_shares) >= MIN_CERTAIN_WORDS:
            hit.certainty = "has every telling word of the title"
        return text, self._score_title(words), self._score_paths(words)

    def _score_title(self, words: _Words) -> float:
        matching = sum(self._rarity.get(word, 0.0) for word in dict.fromkeys(words.title) if word in self._query.title)
        return matching / (1 + TITLE_LENGTH_PENALTY * len(words.title)) if matching else 0.0

    def _score_paths(self, words: _Words) -> float:
        weights = self._path_weights
        counts: dict[str, int] = {}
        for word in filter(weights.__contains__, words.paths):
            counts[word] = counts.get(word, 0) + 1
        saturation = BM25_SATURATION * max(1.0, len(words.paths) / TYPICAL_PATH_WORDS)
        return sum(weights[word] * count / (count + saturation) for word, count in counts.items())

    def _score_mention(self, path: str) -> float:
        """Return the share of a path that the query names; 1 for all of it."""
        if path not in self._mention_scores:
            parts = path_segments(path)
            is_package = len(parts) > 1 and parts[-1] in PACKAGE_FILES
            parts = parts[:-1] if is_package else parts
            best = 0
            for mention, position in self._mentions_by_part.get(parts[-1] if parts else "", ()):
                if is_package and mention[position + 1 :] not in ((), path_segments(path)[-1:]):
                    continue  # it names something in the package
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
        """Return the files that the query is probably about, most probable first."""
        shares = votes(self.hits.values(), whole_path)
        return sorted(shares, key=lambda path: -shares[path])

    def score_shared_files(self) -> None:
        """Add scores for the chance to touch what the query is about, to what matches by its content as well."""
        for name, place_of in (("files", file_key), ("folders", folder)):
            shares = votes(self.hits.values(), place_of)
            for hit in self.hits.values() if shares else ():
                if hit.content_score and hit.files:
                    hit.add(name, self._file_weight * chance(set(map(place_of, hit.files)), shares))
        self._compensate_without_files()

    def _compensate_without_files(self) -> None:
        """Credit candidates without files with what the best matches earn by files, as far as their words match."""
        best = sorted(self.hits.values(), key=lambda hit: -hit.amounts.get("words", 0.0))[:COVERAGE_HITS]
        earned = [sum(hit.components.get(name, 0.0) for name in FILE_COMPONENTS) for hit in best if hit.files]
        for hit in self.hits.values() if sum(earned) else ():
            if not hit.files:
                hit.add("no files", _mean(earned) * hit.amounts.get("words", 0.0))

    def top(self, limit: int) -> list[ScoredMemory]:
        """Return the current top hits."""
        return sorted(self.hits.values(), key=_sort_key)[:limit]

    def score_neighbors(self, consecutive: Iterable[tuple[int, int]]) -> None:
        """Add scores for memories learned right before or after a match, given pairs of consecutive memories.

        No memory overtakes the neighbor it gains from.
        """
        before = {seq: (hit.score, hit.content_score, hit.relevance) for seq, hit in self.hits.items()}
        for first, second in consecutive:
            if first in before and second in before and is_consecutive(self.hits[first].row, self.hits[second].row):
                for source, target, share in ((first, second, SHARE_TO_NEXT), (second, first, SHARE_TO_PREVIOUS)):
                    hit = self.hits[target]
                    score, content, relevance = before[source]
                    headroom = max(NEIGHBOR_CAP * score - hit.score, 0.0) / WEIGHTS["together"]
                    hit.add("together", min(share * content, headroom))
                    if hit.telling or has_same_origin(hit.row, self.hits[source].row):
                        hit.inherited = max(hit.inherited, INHERITED_SHARE * relevance)

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

    def score_similarity(self, similarities: Mapping[int, tuple[float, float]]) -> None:
        """Add scores for similarity in meaning, given relative to other texts and as a cosine."""
        for seq, (amount, _) in similarities.items():
            if hit := self.hits.get(seq):
                hit.add("meaning", amount)
        if self.telling_words < MIN_CERTAIN_WORDS:
            return  # small talk is similar to anything
        for seq, (_, cosine) in similarities.items():
            if hit := self.hits.get(seq):
                hit.amounts["cosine"] = cosine - NEUTRAL_COSINE
        cosines = sorted(((cosine, seq) for seq, (_, cosine) in similarities.items()), reverse=True)[:2]
        (best, nearest), (second, _) = (*cosines, (0.0, 0), (0.0, 0))[:2]
        if best >= max(NEAREST_COSINE, second + NEAREST_LEAD) and nearest in self.hits:
            self.hits[nearest].amounts["nearest"] = best - second

    def require_telling(self, count: float) -> None:
        """Let words count as evidence only where at least so many of them tell something about the subject."""
        for hit in self.hits.values():
            if len(hit.telling) < count:
                hit.telling, hit.too_few = (), hit.telling

    def top_sources(self, limit: int) -> list[str]:
        """Return the sources of the top hits, at most `limit`."""
        return list(dict.fromkeys(hit.row["source"] for hit in self.top(limit)))

    def score_sources(self, ends: Collection[int]) -> None:
        """Add scores for other matching passages of the same session, and for its end, where a talk is concluded."""
        by_source: dict[tuple[str, str], list[ScoredMemory]] = {}
        for hit in self.hits.values():
            by_source.setdefault((hit.row["kind"], hit.row["source"]), []).append(hit)
        for hits in by_source.values():
            ranked = sorted(hits, key=lambda hit: -hit.components.get("words", 0.0))
            best, relevance = ranked[0].components.get("words", 0.0), ranked[0].relevance
            passages = 1 + max(hit.row["position"] for hit in hits)
            share = max(SOURCE_SHARE, min(1.0, SHORT_TALK / passages))
            for hit in hits if len(hits) > 1 else ():
                other = ranked[1] if hit is ranked[0] else ranked[0]
                hit.add("source", other.components.get("words", 0.0))
                hit.inherited = max(hit.inherited, share * relevance)
                if hit.row["seq"] in ends:
                    hit.add("end", best)
                    hit.inherited = max(hit.inherited, relevance)

    def score_success(self) -> None:
        """Add scores for the share of attempts that completed their task after they were shown it."""
        for hit in self.hits.values():
            wins, losses = hit.row["wins"], hit.row["losses"]
            hit.add("success", wins / (wins + losses) if wins + losses else 0.0)

    def score_failures(self, tasks: Collection[str]) -> None:
        """Add scores for memories learned in tasks that failed the same way."""
        for hit in self.hits.values():
            if hit.row["origin_task"] in tasks:
                hit.add("failure", 1.0)
                hit.certainty = "was learned from the same failure"

    def score_metadata(self) -> None:
        """Add scores for tags, age, confidence, success and origin."""
        context = self._context
        self.score_recency()
        at = days_of(context.at)
        for hit in self.hits.values():
            row = hit.row
            hit.add("tags", self._score_tags(row["tag_words"]))
            self._score_subject(hit)
            hit.add("confidence", decayed_confidence(row["confidence"], at - days_of(last_confirmed(row))))
            hit.add("success", row["success_rate"] or 0.0)
            hit.add("hat", float(bool(row["hat"]) and row["hat"] == context.hat))
            hit.add("task type", float(bool(row["task_type"]) and row["task_type"] == context.task_type))
            hit.add("feature", float(bool(row["feature"]) and row["feature"] == context.feature))
            hit.add("stale", staleness_penalty(row["stale"]))
            hit.add("meant to fail", float(is_meant_to_fail(row)))
        self._score_dates()

    def _score_dates(self) -> None:
        """Add scores for having been learned when the title says, to what matches by its content as well."""
        if not self._query.periods:
            return
        from ralph.memory.recall.dates import closeness

        for hit in self.hits.values():
            if hit.content_score:
                hit.add("date", closeness(days_of(hit.row["created_at"]), self._query.periods))

    def score_recency(self) -> None:
        """Add scores for recency."""
        at = days_of(self._context.at)
        for hit in self.hits.values():
            created = days_of(next(hit.row[name] for name in _DATE_COLUMNS if name in hit.row))
            hit.add("recency", 0.5 ** (max(at - created, 0.0) / HALF_LIFE_DAYS))

    def _score_subject(self, hit: ScoredMemory) -> None:
        """Note tags that occur in the query; one in the title or the feature name tells what the task is about."""
        for tag in parse_string_list(hit.row["tags"]):
            words = _tag_words(tag)
            if not words or not all(word in self._word_weights for word in words):
                continue
            rarity = min(self._distinctiveness[word] for word in words)
            hit.raise_to("tagged", rarity / MAX_TAG_RARITY)
            if rarity >= CERTAIN_TAG_RARITY and all(word in self._subject for word in words):
                hit.certainty = f"its tag {tag} names the subject"
                hit.raise_to("subject tag", 1.0)

    def _score_tags(self, tags: str) -> float:
        """Return the share of the tag words that occur in the query."""
        tag_words = tags.split()
        return sum(1 for word in tag_words if word in self._word_weights) / len(tag_words) if tag_words else 0.0


class _Words:
    """Index words of a row."""

    __slots__ = ("body", "length", "paths", "tags", "title")

    def __init__(self, title: list[str], body: list[str], paths: list[str], tags: list[str]) -> None:
        self.title, self.body, self.paths, self.tags = title, body, paths, tags
        self.length = TITLE_FIELD_WEIGHT * len(title) + BODY_FIELD_WEIGHT * len(body) + PATHS_FIELD_WEIGHT * len(paths)

    def count(self, asked: Mapping[str, float]) -> dict[str, float]:
        """Return the weighted number of occurrences of each of these words."""
        counts: dict[str, float] = {}
        for words, weight in (
            (self.title, TITLE_FIELD_WEIGHT),
            (self.body, BODY_FIELD_WEIGHT),
            (self.paths, PATHS_FIELD_WEIGHT),
        ):
            for word in filter(asked.__contains__, words):
                counts[word] = counts.get(word, 0.0) + weight
        for word in filter(asked.__contains__, self.tags):
            counts.setdefault(word, TAGS_FIELD_WEIGHT)
        return counts


def _subject_words(title: Collection[str], shares: Mapping[str, float]) -> Iterable[str]:
    """Return the words of a title that may name its subject; of a long one, those that are not everyday words."""
    if len(title) <= MAX_SUBJECT_WORDS:
        return title
    is_story = sum(shares.values()) > MAX_TELLING_WORDS
    return () if is_story else (word for word, share in shares.items() if share == 1)


@lru_cache(MAX_SPLIT_TAGS)
def _tag_words(tag: str) -> tuple[str, ...]:
    """Return the words of a tag; none if they say nothing about a subject."""
    words = tokenize(tag)
    return () if all(map(is_common, words)) else tuple(words)


def is_common(word: str) -> bool:
    """Return whether a word says nothing about the subject of a text: small numbers and versions occur anywhere."""
    return word in COMMON_STEMS or (len(number := word.removeprefix("v")) <= MAX_COMMON_DIGITS and number.isdigit())


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values and sum(values) else 1.0


def _sort_key(hit: ScoredMemory) -> tuple[float, int]:
    return -hit.score, -hit.row["seq"]


def _index_by_part(mentions: Iterable[tuple[str, ...]]) -> dict[str, list[tuple[tuple[str, ...], int]]]:
    """Return the mentions by each of their parts, with its position."""
    result: dict[str, list[tuple[tuple[str, ...], int]]] = {}
    for mention in mentions:
        for position, part in enumerate(mention):
            result.setdefault(part, []).append((mention, position))
    return result
