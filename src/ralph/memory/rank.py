"""Put what was found in the order of its use for a context, and say why.

A score is a sum of named shares: each is what one thing that speaks for a memory is worth (`WEIGHTS`) times how much of
it there is. What is found by words is compared with the best that was found; the words that are rare count most
(BM25 over title, text and paths). A memory also gains by what is known of others: those that touch the same files, and
those learned at the same time, share in each other's scores.
"""

from __future__ import annotations

import math

from ralph.memory.lifecycle import days_between, days_of, faded_from
from ralph.memory.question import parts_of
from ralph.memory.staleness import doubt
from ralph.memory.words import rarity, texts_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from typing import Any

    from ralph.memory.question import Context, Question

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
"""What each thing that speaks for a memory is worth, or against it. docs/recall.md tells what most bring, measured."""

CONTENT = ("words", "title", "paths", "named", "meaning")

SATURATION, BY_LENGTH = 1.5, 0.4
"""BM25: how soon a word said again adds nothing, and how much a long text counts less."""
USUAL_PATH_WORDS = 20
"""Of a few files; what names many is about none of them."""
TITLE_LENGTH = 0.05
"""How much a long title counts less."""
IN_TITLE, IN_BODY, IN_PATHS, IN_TAGS = 3.0, 1.0, 3.0, 1.0
"""What a word counts by where it stands; a tag only when its word stands nowhere else."""
COMMONPLACE = frozenset(
    "add allow build chang check creat ensur extend fix handl implement improv introduc make mend move refactor remov"
    " renam replac support updat write"
    " assert assertionerror call error except fail failur file last line ok pass py pytest python ran recent run test"
    " traceback unittest".split()
)
"""Stems of what nearly every task does, and of what nearly every failing test prints.

They are of no use to tell whether a memory speaks of the thing at hand.
"""
PRIOR = 30
"""As if there were so many more texts, without the words: of a few texts it tells little that a word is in one."""
FEEDBACK = 5
"""So many of the best raise what touches the same files."""
OWN = 0.5
"""How much of what a memory says for its own files does not come back to it: others may name none."""
SHARPNESS = 3
"""How much more the very best of them counts."""
BEFORE, AFTER = 1.4, 0.5
"""What the memory right before shares, and the one right after: an answer follows its question."""
NOT_AHEAD = 0.98
NEAR_ENOUGH = 1.1
"""What stands out by its meaning as far as can be is an answer, though it may not have one word of the question."""
HALF_LIFE_DAYS = 365.0
TOGETHER_DAYS = 10 / (24 * 60)


class Scored:
    """One memory that was found: its row, what speaks for it, and the sum."""

    __slots__ = ("_vocabulary", "evidence", "files", "row", "score", "shares")

    def __init__(self, row: Row) -> None:
        self.row = row
        self._vocabulary: set[str] | None = None
        self.files = texts_in(row["files"])
        self.shares: dict[str, float] = {}
        self.score = 0.0
        self.evidence = 0.0
        """How much it says of what was asked: the share of it that it holds, times how telling the words are."""

    @property
    def vocabulary(self) -> set[str]:
        """The words of its title and text."""
        if self._vocabulary is None:
            self._vocabulary = {*self.row["title_words"].split(), *self.row["body_words"].split()}
        return self._vocabulary

    @property
    def by_content(self) -> float:
        """What of its score comes from what it says itself."""
        return sum(self.shares.get(name, 0.0) for name in CONTENT)

    def add(self, name: str, amount: float) -> None:
        """Count one thing that speaks for it, or against it."""
        if amount:
            share = WEIGHTS[name] * amount
            self.shares[name] = self.shares.get(name, 0.0) + share
            self.score += share


class Ranking:
    """The memories found for a question, to be scored together."""

    def __init__(self, context: Context, question: Question, held_by: Mapping[str, int], total: int) -> None:
        self._context = context
        self._question = question
        self._rarity = {word: rarity(held_by.get(word, 0), total) for word in question.words}
        self._worth = {word: weight * self._rarity[word] for word, weight in question.words.items()}
        self._path_worth = {word: weight * self._rarity.get(word, 0.0) for word, weight in question.paths.items()}
        self._telling = {
            word: math.log((total + PRIOR) / (held_by.get(word, 0) + 1))
            for word in question.words
            if word not in COMMONPLACE and word not in question.hints and not _is_unheard_name(word, held_by)
        }
        self._whole = sum(question.words[word] * telling for word, telling in self._telling.items()) or 1.0
        self._whole_title = sum(self._telling.get(word, 0.0) for word in question.title) or 1.0
        self._named = _by_part(question.mentions)
        self._named_files: dict[str, float] = {}
        self._mean = 0.0
        self._bests: tuple[float, ...] = ()
        self.found: dict[int, Scored] = {}

    def add(self, rows: Iterable[Row]) -> None:
        """Take in rows with their words, each once, and score them by what they say and which files they name.

        What comes later is measured by what came first: the best matches.
        """
        new = [Scored(row) for row in rows if row["seq"] not in self.found]
        new = list({one.row["seq"]: one for one in new}.values())
        split = [_Words(one.row) for one in new]
        self._mean = self._mean or _mean([words.length for words in split])
        amounts = [self._content(one, words) for one, words in zip(new, split, strict=True)]
        if not self._bests:
            self._bests = tuple(max(column) or 1.0 for column in zip(*amounts, strict=True))
        for one, (text, title, paths) in zip(new, amounts, strict=True):
            one.add("words", text / self._bests[0])
            one.add("title", title / self._bests[1])
            one.add("paths", paths / self._bests[2])
            one.add("named", max(map(self._how_named, one.files), default=0.0))
            self.found[one.row["seq"]] = one

    def _content(self, one: Scored, words: _Words) -> tuple[float, float, float]:
        """Give the BM25 score of text, title and paths."""
        room = SATURATION * (1 - BY_LENGTH + BY_LENGTH * words.length / self._mean)
        worth = self._worth
        text = held = held_of_title = told = 0.0
        for word, count in words.counts(worth).items():
            telling = self._telling.get(word, 0.0)
            told += telling
            held += telling * self._question.words[word]
            if word in self._question.title:
                held_of_title += telling
            text += worth[word] * count / (count + room)
        one.evidence = (told + 1) * max(held / self._whole, held_of_title / self._whole_title)
        return text, self._title(words), self._paths(words)

    def _title(self, words: _Words) -> float:
        wanted = self._question.title
        held = sum(self._rarity.get(word, 0.0) for word in set(words.title) if word in wanted)
        return held / (1 + TITLE_LENGTH * len(words.title)) if held else 0.0

    def _paths(self, words: _Words) -> float:
        worth = self._path_worth
        counts: dict[str, int] = {}
        for word in words.paths:
            if word in worth:
                counts[word] = counts.get(word, 0) + 1
        room = SATURATION * max(1.0, len(words.paths) / USUAL_PATH_WORDS)
        return sum(worth[word] * count / (count + room) for word, count in counts.items())

    def _how_named(self, path: str) -> float:
        """Give how much of a file's path the question names: 1 for all of it."""
        if path not in self._named_files:
            parts = parts_of(path)
            if len(parts) > 1 and parts[-1] in ("__init__", "index", "mod"):
                parts = parts[:-1]
            best = 0
            for mention, at in self._named.get(parts[-1] if parts else "", ()):
                same = 1
                while same < len(parts) and same <= at and mention[at - same] == parts[-1 - same]:
                    same += 1
                best = max(best, same)
            self._named_files[path] = best / len(parts) if parts else 0.0
        return self._named_files[path]

    # --- what others say of it ---------------------------------------------------------

    def files_of_the_best(self) -> list[str]:
        """Give the files that the best so far touch, the most telling first."""
        return sorted(felt := self._felt(_whole_path), key=lambda path: -sum(felt[path].values()))

    def by_files(self) -> None:
        """Raise what touches the files, or the folders, that the best touch."""
        for name, place_of in (("files", _whole_path), ("folders", _folder)):
            felt = self._felt(place_of)
            sums = {place: sum(by.values()) for place, by in felt.items()}
            whole = sum(one.score**SHARPNESS for one in self.best(FEEDBACK))
            for one in self.found.values() if felt and whole else ():
                seq = one.row["seq"]
                best = 0.0
                for place in map(place_of, one.files):
                    if place in sums:
                        best = max(best, sums[place] - OWN * felt[place].get(seq, 0.0))
                one.add(name, best / whole)

    def _felt(self, place_of: Callable[[str], str]) -> dict[str, dict[int, float]]:
        """Give what each of the best says for the places it touches."""
        felt: dict[str, dict[int, float]] = {}
        for one in self.best(FEEDBACK):
            places = {place_of(path) for path in one.files}
            for place in places:
                felt.setdefault(place, {})[one.row["seq"]] = one.score**SHARPNESS / len(places) ** 0.25
        return felt

    def best(self, most: int) -> list[Scored]:
        """Give the best so far."""
        return sorted(self.found.values(), key=_order)[:most]

    def by_neighbours(self, following: Iterable[tuple[int, int]]) -> None:
        """Let memories share with those learned right before and after; each pair is one and the next one.

        Nobody gets ahead by that of the one who shares.
        """
        alone = {seq: (one.score, one.by_content, one.evidence) for seq, one in self.found.items()}
        for first, second in following:
            if first in alone and second in alone and _is_together(self.found[first].row, self.found[second].row):
                for giver, taker, part in ((first, second, BEFORE), (second, first, AFTER)):
                    one = self.found[taker]
                    score, content, evidence = alone[giver]
                    room = max(NOT_AHEAD * score - one.score, 0.0) / WEIGHTS["together"]
                    one.add("together", min(part * content, room))
                    if _is_of_one_work(one.row, self.found[giver].row):
                        one.evidence = max(one.evidence, part * WEIGHTS["together"] * evidence)

    def by_links(self, links: Iterable[tuple[int, int]]) -> None:
        """Let memories share with those they link to; each pair is one and the one it names."""
        alone = {seq: one.score for seq, one in self.found.items()}
        best = max(alone.values(), default=0.0) or 1.0
        gained: dict[int, float] = {}
        for first, second in links:
            if first in alone and second in alone:
                gained[first] = max(gained.get(first, 0.0), alone[second] / best)
                gained[second] = max(gained.get(second, 0.0), alone[first] / best)
        for seq, amount in gained.items():
            self.found[seq].add("links", amount)

    def by_meaning(self, nearness: Mapping[int, float]) -> None:
        """Raise what means the same, whatever its words."""
        for seq, amount in nearness.items():
            if one := self.found.get(seq):
                one.add("meaning", amount)
                one.evidence = max(one.evidence, NEAR_ENOUGH * amount)

    def by_failure(self, tasks: Collection[str]) -> None:
        """Raise what was learned in tasks that failed the same way."""
        for one in self.found.values():
            one.add("failure", float(one.row["origin_task"] in tasks))

    def by_record(self) -> None:
        """Count what is noted of each: tags, age, how sure it is, what it was learned for."""
        context = self._context
        self.by_age()
        at = days_of(context.at)
        for one in self.found.values():
            row = one.row
            one.add("tags", self._tags(row["tag_words"]))
            one.add("confidence", faded_from(row["confidence"], at - days_of(_last_word(row))))
            one.add("success", row["success_rate"] or 0.0)
            one.add("hat", float(bool(row["hat"]) and row["hat"] == context.hat))
            one.add("task type", float(bool(row["task_type"]) and row["task_type"] == context.task_type))
            one.add("feature", float(bool(row["feature"]) and row["feature"] == context.feature))
            one.add("stale", doubt(row["stale"]))

    def by_age(self) -> None:
        """Count how young each is."""
        at = days_of(self._context.at)
        for one in self.found.values():
            made_at = days_of(one.row["created_at"] if "created_at" in one.row else one.row["started_at"])
            one.add("recency", 0.5 ** (max(at - made_at, 0.0) / HALF_LIFE_DAYS))

    def _tags(self, tags: str) -> float:
        """Give the share of the words in a memory's tags that the question speaks of."""
        found = tags.split()
        return sum(1 for word in found if word in self._worth) / len(found) if found else 0.0


class _Words:
    """The words a row was indexed by."""

    __slots__ = ("body", "length", "paths", "tags", "title")

    def __init__(self, row: Row) -> None:
        self.title = row["title_words"].split()
        self.body = row["body_words"].split()
        self.paths = row["path_words"].split()
        self.tags = row["tag_words"].split()
        self.length = IN_TITLE * len(self.title) + IN_BODY * len(self.body) + IN_PATHS * len(self.paths)

    def counts(self, wanted: Mapping[str, float]) -> dict[str, float]:
        """Give how often each wanted word is there, by the weight of where it stands."""
        counts: dict[str, float] = {}
        for words, weight in ((self.title, IN_TITLE), (self.body, IN_BODY), (self.paths, IN_PATHS)):
            for word in filter(wanted.__contains__, words):
                counts[word] = counts.get(word, 0.0) + weight
        for word in filter(wanted.__contains__, self.tags):
            counts.setdefault(word, IN_TAGS)
        return counts


def _is_unheard_name(word: str, held_by: Mapping[str, int]) -> bool:
    """Say whether a word is a name of several parts that no memory has: its parts count already."""
    return ("_" in word or "." in word) and not held_by.get(word)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values and sum(values) else 1.0


def _order(one: Scored) -> tuple[float, int]:
    return -one.score, -one.row["seq"]


def _whole_path(path: str) -> str:
    return path


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _last_word(row: Row) -> str:
    """Give when something last spoke for a memory."""
    return max(str(row["used_at"] or ""), str(row["verified_at"] or ""), str(row["created_at"]))


def _origin(row: Row) -> tuple[object, ...]:
    """Give the session or attempt that taught a memory, nothing if it is not known."""
    origin = tuple(row[name] for name in ("origin_session", "origin_run", "origin_task", "origin_attempt"))
    return origin if any(origin) else ()


def _is_of_one_work(one: Row, other: Row) -> bool:
    return bool(_origin(one)) and _origin(one) == _origin(other)


def _is_together(one: Row, other: Row) -> bool:
    """Say whether two memories were learned one after the other.

    What has the very same date came in with many others at once, unless one session or attempt learned both.
    """
    if _origin(one) or _origin(other):
        return _is_of_one_work(one, other)
    return 0 < abs(days_between(one["created_at"], other["created_at"])) <= TOGETHER_DAYS


def _by_part(mentions: Iterable[tuple[str, ...]]) -> dict[str, list[tuple[tuple[str, ...], int]]]:
    """Give the mentions by each of their parts, with the place of it."""
    found: dict[str, list[tuple[tuple[str, ...], int]]] = {}
    for mention in mentions:
        for at, part in enumerate(mention):
            found.setdefault(part, []).append((mention, at))
    return found
