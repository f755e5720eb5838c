"""Selection of the sentences that are worth their room in a prompt.

A decision is one sentence in a long talk, and a long memory answers a question with a part of it. Sentences are chosen
by the words they share with the query, by what they are (a rule, a choice, a figure; said by a person, at the end of a
talk), and by how relevant their passage is.
"""

from __future__ import annotations

import math
import re

from ralph.core.records import EpisodeKind, Speaker, record
from ralph.core.tokenize import tokenize
from ralph.memory.capture.passages import spoken_parts
from ralph.memory.lifecycle.supersession import decode_rules, states_any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from ralph.core.records import Episode, RecalledEpisode

HALF_MATCH = 6.0
"""Information in common with the query that gives a sentence half of the value for matching."""
DECIDING_VALUE, FIGURE_VALUE, PERSON_VALUE, ENDING_VALUE, QUESTION_COST = 0.35, 0.2, 0.15, 0.4, 0.35
"""Value of a sentence that decides something, has a figure or a name, is said by a person, or is at the end of a talk;
and the cost of a question."""
MIN_VALUE = 0.25
"""Value below which a sentence is left out, even if there is room."""
MIN_CHARACTERS = 16
"""Length below which a sentence is left out: "Agreed." says nothing alone."""
LENGTH_EXPONENT = 0.3
"""Exponent of the length of a sentence that its value is divided by."""
MARK_CHARACTERS = 12
"""Room that the marks around a sentence take, in characters; three times as much if it no longer holds."""
MAX_SUPERSEDED_SENTENCES = 3
"""Number of sentences quoted of a source that no longer holds."""
OMISSION = "[…]"

_DECIDING = re.compile(
    r"\b(?:must|never|always|only|exactly|at (?:most|least)|no longer|instead|because|rule|policy|decid\w*|decision"
    r"|agreed|use|keep|cap(?:ped)?|limit\w*|requir\w*|should|shall|going forward|from now on|supersed\w*|amend\w*|not"
    r"|cannot|don't|won't|allow\w*|refuse\w*|default\w*|first|before|after|unless|except|regardless|still)\b",
    re.IGNORECASE,
)
_FIGURE = re.compile(r"\d|`[^`]+`|'[^']+'|\"[^\"]+\"|\w+_\w+|\w+\(\)|\b[A-Z]{2,}\b")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[\"'`(\[A-Z0-9])|\n+")
_LIST_ITEM = re.compile(r"^ {0,3}(?:[-*+]|\d{1,2}[.)]) ", re.MULTILINE)
_FENCE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)


@record
class Sentence:
    """A sentence of a passage or a memory."""

    place: tuple[str, int, int]
    """Source, position of the passage in it, and number of the sentence in the passage."""
    text: str
    speaker: Speaker | None = None


def passage_sentences(episode: Episode) -> list[Sentence]:
    """Return the sentences of a passage in order; lines are never joined."""
    sentences: list[Sentence] = []
    for speaker, said in spoken_parts(episode):
        for text in split_sentences(said):
            place = (episode.source, episode.position, len(sentences))
            sentences.append(Sentence(place=place, text=text, speaker=speaker))
    return sentences


def split_sentences(text: str) -> list[str]:
    """Return the sentences and lines of a text in order, without blank ones."""
    return [part.strip() for part in _SENTENCE_END.split(text) if part.strip()]


def choose_sentences(
    recalled: Sequence[RecalledEpisode], query: Iterable[str], room: int, overhead: Callable[[RecalledEpisode], int]
) -> list[Sentence]:
    """Return the most valuable sentences of passages that fit into a number of characters, in the order of their place.

    `overhead` returns the room that the first sentence of a source takes in addition.
    """
    weights = word_weights([item.episode.text for item in recalled], set(query))
    ends: dict[str, int] = {}
    for item in recalled:
        ends[item.episode.source] = max(ends.get(item.episode.source, 0), item.episode.position)
    valued: list[tuple[float, Sentence, RecalledEpisode]] = []
    for item in recalled:
        rules = decode_rules(item.episode.rules)
        for sentence in passage_sentences(item.episode):
            if states_any(sentence.text, rules):
                continue  # it is among the standing rules, in its newest form
            is_subject = item.episode.kind is EpisodeKind.COMMIT and not sentence.place[2]
            is_end = is_subject or item.episode.position == ends[item.episode.source]
            value = sentence_value(sentence.text, weights, sentence.speaker) + ENDING_VALUE * is_end
            if value >= MIN_VALUE and len(sentence.text) >= MIN_CHARACTERS:
                valued.append((item.relevance * value / len(sentence.text) ** LENGTH_EXPONENT, sentence, item))
    chosen: list[Sentence] = []
    counts: dict[str, int] = {}
    for _, sentence, item in sorted(valued, key=lambda one: -one[0]):
        source = sentence.place[0]
        if item.superseded_at and counts.get(source, 0) >= MAX_SUPERSEDED_SENTENCES:
            continue
        cost = len(sentence.text) + MARK_CHARACTERS * (3 if item.superseded_at else 1)
        cost += 0 if source in counts else overhead(item)
        if cost <= room:
            room -= cost
            counts[source] = counts.get(source, 0) + 1
            chosen.append(sentence)
    return sorted(chosen, key=lambda sentence: sentence.place)


def shorten(text: str, query: Iterable[str], room: int) -> str:
    """Return the most valuable sentences of a text that fit into a number of characters, with marks for omissions.

    The items of a list stay whole. A text with code blocks is cut at its end, because a part of one is worth nothing.
    """
    if len(text) <= room:
        return text
    is_list = len(_LIST_ITEM.findall(text)) > 1
    sentences = [line for line in text.splitlines() if line.strip()] if is_list else split_sentences(text)
    if _FENCE.search(text) or len(sentences) < 2:
        return f"{text[: max(0, room - len(OMISSION) - 1)].rstrip()} {OMISSION}"
    weights = word_weights(sentences, set(query))
    values = [sentence_value(sentence, weights, None) for sentence in sentences]
    values[0] += ENDING_VALUE  # what a memory begins with says what it is about
    chosen: set[int] = set()
    for place in sorted(range(len(sentences)), key=lambda n: -values[n] / len(sentences[n]) ** LENGTH_EXPONENT):
        cost = len(sentences[place]) + MARK_CHARACTERS
        if cost <= room or not chosen:
            room -= cost
            chosen.add(place)
    return _with_omissions(sentences, chosen)


def _with_omissions(sentences: Sequence[str], chosen: Collection[int]) -> str:
    """Return chosen sentences in order, with a mark where others are left out."""
    lines: list[str] = []
    for place, sentence in enumerate(sentences):
        if place in chosen:
            lines.append(sentence)
        elif not lines or lines[-1] != OMISSION:
            lines.append(OMISSION)
    return "\n".join(lines)


def sentence_value(text: str, weights: Mapping[str, float], speaker: Speaker | None) -> float:
    """Return how much a sentence is worth for a query, given the weights of its words."""
    match = sum(weights.get(word, 0.0) for word in set(tokenize(text)))
    value = match / (match + HALF_MATCH)
    value += DECIDING_VALUE * bool(_DECIDING.search(text)) + FIGURE_VALUE * bool(_FIGURE.search(text))
    return value + PERSON_VALUE * (speaker is Speaker.PERSON) - QUESTION_COST * text.endswith("?")


def word_weights(texts: Sequence[str], query: set[str]) -> dict[str, float]:
    """Return the weight of each query word: less the more of the texts have it."""
    held_by: dict[str, int] = {}
    for text in texts:
        for word in query.intersection(tokenize(text)):
            held_by[word] = held_by.get(word, 0) + 1
    return {word: math.log(1 + 2 * len(texts) / count) for word, count in held_by.items()}
