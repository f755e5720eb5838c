"""Episodes from the turns of a transcript.

A passage is an exchange: what a person asked and what the agent answered, because an answer rarely repeats the words
of its question, and what a short exchange decides belongs to the one before. Long exchanges are cut at paragraphs.
"""

from __future__ import annotations

from ralph.core.hashing import sha256_hex
from ralph.core.records import EPISODE_PREFIX, Episode, EpisodeKind, Speaker, Turn, record, replace
from ralph.core.text import cut_at_space, sanitize_all
from ralph.memory.lifecycle.supersession import encode_rules, may_state_rules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Iterator, Sequence

    from ralph.core.records import Attempt, Question, Task

MAX_PASSAGE_CHARACTERS = 1_600
"""Length up to which the turns of an exchange are joined into one passage, in characters."""
MAX_TAIL_CHARACTERS = 200
"""Length up to which a turn is added to a passage that is full: a short answer means little alone."""
MIN_EXCHANGE_CHARACTERS = 120
"""Length below which an exchange that asks nothing is added to the one before it, in characters."""
MAX_JOINED_CHARACTERS = 400
"""Length of all short exchanges that are added to one exchange, in characters; a long chat is cut."""
MIN_PASSAGE_CHARACTERS = 20
"""Shorter passages, such as "yes, go on", say nothing by themselves."""
TOO_SHORT = f"exchanges under {MIN_PASSAGE_CHARACTERS} characters"
MAX_TURN_CHARACTERS = 64_000
"""Length of a turn that is read, in characters; longer ones are pasted files."""
MAX_SANITIZED_TURNS = 200
"""Number of turns that are redacted at once."""
MAX_SANITIZED_CHARACTERS = 500_000
"""Length of turns that are redacted at once, in characters."""
TOO_LONG = f"the rest of turns above {MAX_TURN_CHARACTERS:,} characters"
MAX_ATTEMPT_CHARACTERS = 32_000
"""Length of what is kept of the output of an attempt, in characters from its end."""
_QUESTION_MARKS = ("?", "\uff1f", "\u061f")
"""Question marks of Latin, Chinese and Arabic script."""
MAX_FILES = 50
"""Maximum number of files of a passage."""
SPEAKER_LABELS = {Speaker.PERSON: "Person", Speaker.AGENT: "Agent", Speaker.TOOL: "Failed command"}
"""How a speaker is named in the text of a passage."""


@record
class Origin:
    """Where the turns of a transcript come from."""

    kind: EpisodeKind
    source: str
    agent: str
    at: str
    """Time of turns that have none."""


def episode_id(*parts: object) -> str:
    """Return the id of a passage, `ep-{16 hex}`: the same whenever and wherever it is read."""
    return EPISODE_PREFIX + sha256_hex("\n".join(map(str, parts)).encode("utf-8", "replace"))[:16]


def to_episodes(
    turns: Iterable[Turn], origin: Origin, position: int = 0, left_out: Counter[str] | None = None
) -> Iterator[Episode]:
    """Yield the passages of a transcript, the first at `position` of its source."""
    for exchange in exchanges(sanitized_turns(turns, left_out)):
        for episode in exchange_episodes(exchange, origin, position, left_out):
            yield episode
            position += 1


def sanitized_turns(turns: Iterable[Turn], left_out: Counter[str] | None = None) -> Iterator[Turn]:
    """Yield turns as they may be stored, reading some ahead; `left_out` counts those that are cut."""
    batch: list[Turn] = []
    length = 0
    for turn in turns:
        batch.append(turn)
        length += len(turn.text)
        if len(batch) >= MAX_SANITIZED_TURNS or length > MAX_SANITIZED_CHARACTERS:
            yield from _sanitized(batch, left_out)
            batch, length = [], 0
    yield from _sanitized(batch, left_out)


def _sanitized(turns: Sequence[Turn], left_out: Counter[str] | None) -> Iterator[Turn]:
    if left_out is not None and (count := sum(len(turn.text) > MAX_TURN_CHARACTERS for turn in turns)):
        left_out[TOO_LONG] += count
    texts = sanitize_all([cut_at_space(turn.text, MAX_TURN_CHARACTERS) for turn in turns])
    for turn, text in zip(turns, texts, strict=True):
        yield turn if text == turn.text else replace(turn, text=text)


def exchange_episodes(
    exchange: Sequence[Turn], origin: Origin, position: int, left_out: Counter[str] | None = None
) -> Iterator[Episode]:
    """Yield the passages of an exchange of sanitized turns; `left_out` counts by reason what is not in them."""
    first, is_kept = exchange[0], False
    for part, passage in enumerate(_passages(exchange)):
        if sum(len(text) for _, text in passage) < MIN_PASSAGE_CHARACTERS:
            continue
        is_kept = True
        yield Episode(
            id=episode_id(origin.kind, origin.agent, first.key, part),
            kind=origin.kind,
            source=origin.source,
            agent=origin.agent,
            position=position,
            speaker=passage[0][0],
            text=join_turns(passage),
            files=tuple(dict.fromkeys(path for turn in exchange for path in turn.files))[:MAX_FILES],
            branch=first.branch,
            at=first.at or origin.at,
            rules=_rules(passage, origin),
        )
        position += 1
    if not is_kept and left_out is not None and any(turn.text for turn in exchange):
        left_out[TOO_SHORT] += 1


def _rules(passage: Sequence[tuple[Speaker, str]], origin: Origin) -> str:
    """Return the rules that a person states in a passage; what a subagent is asked is no person's."""
    if origin.kind is not EpisodeKind.SESSION or "/" in origin.source:
        return ""
    said = [text for speaker, text in passage if speaker is Speaker.PERSON and may_state_rules(text)]
    if not said:
        return ""
    from ralph.memory.lifecycle.rules import find_rules

    return encode_rules(find_rules("\n".join(said)))


def exchanges(turns: Iterable[Turn]) -> Iterator[list[Turn]]:
    """Yield what a person said, with everything until a person speaks again.

    A short exchange that asks nothing belongs to the one before it: "right, leave it at seven", "done" is the answer to
    what was asked there. So do last words that nobody answers. The last exchange is open: more turns may change where
    it ends, so whoever reads on has to start with it again.
    """
    before: list[Turn] = []
    exchange: list[Turn] = []
    room = 0
    for turn in turns:
        if turn.speaker is Speaker.PERSON and _is_answered(exchange):
            if before and _is_conclusion(exchange) and _length(exchange) <= room:
                before += exchange
                room -= _length(exchange)
            else:
                if before:
                    yield before
                before, room = exchange, MAX_JOINED_CHARACTERS
            exchange = []
        exchange.append(turn)
    if before and (_is_conclusion(exchange) or not _is_answered(exchange)):
        exchange = before + exchange
    elif before:
        yield before
    if exchange:
        yield exchange


def _is_answered(exchange: Sequence[Turn]) -> bool:
    return any(turn.speaker is not Speaker.PERSON for turn in exchange)


def _is_conclusion(exchange: Sequence[Turn]) -> bool:
    """Return whether an exchange means little without the one before it."""
    asks = any(mark in turn.text for turn in exchange if turn.speaker is Speaker.PERSON for mark in _QUESTION_MARKS)
    return _length(exchange) < (MIN_PASSAGE_CHARACTERS if asks else MIN_EXCHANGE_CHARACTERS)


def _length(exchange: Sequence[Turn]) -> int:
    return sum(len(turn.text) for turn in exchange)


def _passages(exchange: Sequence[Turn]) -> Iterator[list[tuple[Speaker, str]]]:
    """Yield the parts of an exchange, each with its speakers."""
    passage: list[tuple[Speaker, str]] = []
    length = 0
    for turn in exchange:
        for text in _split(_unlabeled(turn.text)):
            room = MAX_PASSAGE_CHARACTERS + (MAX_TAIL_CHARACTERS if len(text) <= MAX_TAIL_CHARACTERS else 0)
            if passage and length + len(text) > room:
                yield passage
                passage, length = [], 0
            passage.append((turn.speaker, text))
            length += len(text)
    if passage:
        yield passage


def _unlabeled(text: str) -> str:
    """Return a text without lines that seem to be said by another speaker: those are indented."""
    for label in SPEAKER_LABELS.values():
        text = text.replace(f"\n{label}: ", f"\n {label}: ")
    return text


def _split(text: str) -> Iterator[str]:
    """Yield a text in parts that fit into a passage, cut at paragraphs, lines or words."""
    while len(text) > MAX_PASSAGE_CHARACTERS:
        end = MAX_PASSAGE_CHARACTERS
        for mark in ("\n\n", "\n", " "):
            if (found := text.rfind(mark, end // 2, end)) > 0:
                end = found
                break
        yield text[:end].rstrip()
        text = text[end:].lstrip("\n")
    if text:
        yield text


def join_turns(passage: Sequence[tuple[Speaker, str]]) -> str:
    """Return the text of a passage; who speaks is named where that changes."""
    lines: list[str] = []
    last = passage[0][0]
    for speaker, text in passage:
        lines.append(text if speaker is last else f"{SPEAKER_LABELS[speaker]}: {text}")
        last = speaker
    return "\n".join(lines)


def attempt_transcript(attempt: Attempt, text: str) -> tuple[Episode, ...]:
    """Return the passages of an attempt: the end of what its session said.

    What it was asked is in the task; with it, every attempt would match the next one at the same task.
    """
    source = f"{attempt.run_id}/{attempt.iteration}"
    said = Turn(key=source, speaker=Speaker.AGENT, text=_end_of(text), files=attempt.files)
    origin = Origin(
        kind=EpisodeKind.ATTEMPT, source=source, agent=attempt.agent, at=attempt.ended_at or attempt.started_at
    )
    return tuple(to_episodes([said], origin))


def notes_passages(task: Task, attempt: Attempt, questions: Sequence[Question], position: int) -> tuple[Episode, ...]:
    """Return the notes of an attempt at a task that is deleted, and what was asked in it, as passages.

    `position` is the place of the first one in the source.
    """
    source = f"{attempt.run_id}/{attempt.iteration}"
    notes = attempt.notes.removeprefix(attempt.feedback).strip()
    said = [
        (Speaker.PERSON, attempt.feedback),
        (Speaker.AGENT, notes),
        *(one for asked in questions for one in ((Speaker.AGENT, asked.text), _answer_of(asked))),
    ]
    spoken = [(speaker, text) for speaker, text in said if text]
    if not spoken:
        return ()
    about = Turn(key=f"{source}/notes", speaker=Speaker.AGENT, text=f"Notes on {task.id}, {task.title}:")
    turns = [about, *(Turn(key=f"{source}/notes", speaker=speaker, text=text) for speaker, text in spoken)]
    at = attempt.ended_at or attempt.started_at
    origin = Origin(kind=EpisodeKind.ATTEMPT, source=source, agent=attempt.agent, at=at)
    # One exchange, so that the title is found with each of them.
    cleaned = [replace(turn, files=attempt.files) for turn in sanitized_turns(turns)]
    return tuple(exchange_episodes(cleaned, origin, position))


def _answer_of(question: Question) -> tuple[Speaker, str]:
    return Speaker.PERSON if question.answered_by == "person" else Speaker.AGENT, question.answer


def _end_of(text: str) -> str:
    """Return the end of a text from the start of a line on, or else of a word: half a secret is not known as one."""
    if len(text) <= MAX_ATTEMPT_CHARACTERS:
        return text
    end = text[-MAX_ATTEMPT_CHARACTERS:]
    return end.partition("\n")[2] or end.partition(" ")[2]


def spoken_parts(episode: Episode) -> list[tuple[Speaker, str]]:
    """Return what was said in a passage, by whom, in order: the inverse of how its turns were joined."""
    first, *lines = episode.text.split("\n")
    parts: list[tuple[Speaker, list[str]]] = [(episode.speaker, [first])]
    for line in lines:
        speaker, text = _label_of(line, parts[-1][0])
        if speaker:
            parts.append((speaker, [text]))
        else:
            parts[-1][1].append(line)
    return [(speaker, text) for speaker, said in parts if (text := "\n".join(said).strip("\n"))]


def _label_of(line: str, last: Speaker) -> tuple[Speaker | None, str]:
    """Return who starts to speak with a line and what they say; a label is written only where the speaker changes."""
    for speaker, label in SPEAKER_LABELS.items():
        if speaker is not last and line.startswith(f"{label}: "):
            return speaker, line.removeprefix(f"{label}: ")
    return None, line
