"""How a session ended, for the next one: its last exchanges, long ones without their middle."""

from __future__ import annotations

import re
from itertools import groupby

from ralph.core.records import Speaker, replace
from ralph.memory.capture.passages import join_turns, spoken_parts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ralph.core.records import Episode

    Said = list[tuple[Speaker, str]]
    """Who said what, in order."""

MAX_QUESTION_CHARACTERS = 200
"""Length of the prompt that is quoted with a shortened answer, in characters."""
MIN_ROOM_CHARACTERS = 300
"""Room below which no exchange is shortened to fit, in characters."""
GAP, LINE = "[…]", "\n"
_SENTENCE = re.compile(r"[.!?:](?=\s)|\n")
_LABEL_CHARACTERS = 20
"""Room for the name of a speaker, in characters."""


def last_exchanges(passages: Sequence[Episode], room: int, clean: Callable[[str], str]) -> list[Episode]:
    """Return the last exchanges of a session that fit, each as one passage; `clean` removes what is not quoted.

    Of a long one, the start of the question and both ends of the last message are kept: it starts with what was done,
    and ends with what is left to do.
    """
    exchanges = [list(group) for _, group in groupby(passages, key=lambda one: one.at)]
    found: list[Episode] = []
    for exchange in reversed(exchanges):
        said = [(speaker, clean(text).strip()) for speaker, text in _said(exchange)]
        said = [(speaker, text) for speaker, text in said if text]
        if not said:
            continue
        text = join_turns(said)
        is_whole = len(text) <= room
        if not is_whole:
            if found and room < MIN_ROOM_CHARACTERS:
                break
            said = _shortened(said, room)
            text = join_turns(said)
        found.append(replace(exchange[0], speaker=said[0][0], text=text))
        room -= len(text)
        if not is_whole:
            break
    return found[::-1]


def _said(exchange: Sequence[Episode]) -> Said:
    """Return what was said in the passages of one exchange; a message may go on in the next passage."""
    said: Said = []
    for passage in exchange:
        for speaker, text in spoken_parts(passage):
            if said and said[-1][0] is speaker:
                said[-1] = speaker, f"{said[-1][1]}{'' if text.startswith(' ') else LINE}{text}"
            else:
                said.append((speaker, text))
    return said


def _shortened(said: Said, room: int) -> Said:
    """Return the last messages that fit, the first of them without its middle, behind the start of the question."""
    kept: Said = []
    is_asked = said[0][0] is Speaker.PERSON and len(said) > 1
    if is_asked:
        question = _start(said[0][1], MAX_QUESTION_CHARACTERS)
        kept.append((Speaker.PERSON, question if question == said[0][1] else f"{question} {GAP}"))
        room -= len(kept[0][1]) + _LABEL_CHARACTERS
    ending: Said = []
    for speaker, text in reversed(said[is_asked:]):
        room -= _LABEL_CHARACTERS
        ending.append((speaker, text if len(text) <= room else _ends(text, room)))
        room -= len(text)
        if room <= _LABEL_CHARACTERS:
            break
    return [*kept, *reversed(ending)]


def _ends(text: str, room: int) -> str:
    """Return the first sentences and the end of a text."""
    start = _start(text, max(room // 3, 0))
    end = text[len(text) - max(room - len(start) - len(GAP) - 2, 0) :]
    cut = _SENTENCE.search(end, 0, len(end) // 2)
    end = end[cut.end() :] if cut else end.partition(" ")[2]
    return f"{start} {GAP}\n{end.strip()}" if start else f"{GAP} {end.strip()}"


def _start(text: str, length: int) -> str:
    """Return the first sentences of a text that fit, or else words."""
    if len(text) <= length:
        return text
    ends = [found.end() for found in _SENTENCE.finditer(text, 0, length)]
    return text[: ends[-1]].rstrip() if ends else text[:length].rpartition(" ")[0]
