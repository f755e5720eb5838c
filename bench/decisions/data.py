"""The data: what was said and committed in a project, and tasks that need to know it.

`decisions` has talks with an agent and a project's commits, most of them about other things, and tasks whose fix is
right only if a policy is known. The policy was decided in a commit (`history`), in a chat (`conversation`), or changed
by a later chat (`conversation-amended`): each source is a project of its own. `rules` has dialogues in which a mentor
states rules for code, and changes some of them later.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from bench.recall.sets import BadData, read_lines

MOST_ASKS = 5
"""Asks of a dialogue that are measured."""
EVERYWHERE = "all"
"""Mark of what belongs to the project of every source."""

T = TypeVar("T")


class Turn(NamedTuple):
    """What one side said."""

    role: str
    text: str


class Chat(NamedTuple):
    """A session with an agent."""

    id: str
    at: str
    turns: list[Turn]


class Change(NamedTuple):
    """A commit."""

    id: str
    at: str
    subject: str
    body: str
    files: list[str]


class Policy(NamedTuple):
    """What was decided."""

    text: str
    marker: str
    """Words that only who knows it would say; empty if there are none."""
    superseded: list[str]
    """Last words of the chats in which something else was decided before."""
    current: str = ""
    """All that was said where it was decided; what it repeats of an earlier decision still holds."""


class Rule(NamedTuple):
    """What a mentor wants all code to be like, and its earlier forms."""

    current: str
    superseded: list[str]


class Question(NamedTuple):
    """What an agent is told, and what its answer is graded by."""

    id: str
    ask: str
    source: str
    expected: Policy | list[Rule]


class Scene(NamedTuple):
    """All that happened in a project, and what is asked afterwards."""

    chats: list[Chat]
    changes: list[Change]
    passages: list[str]
    """The same as plain texts."""
    questions: list[Question]


def read_decisions(folder: Path) -> list[Scene]:
    """Return a scene for each source of decisions."""
    chats = _read(folder / "chats.jsonl.gz", lambda row: (row["of"], _chat(row)))
    changes = _read(folder / "commits.jsonl.gz", lambda row: (row["of"], _change(row)))
    said = {chat.id: [turn.text for turn in chat.turns] for _, chat in chats}
    tasks = _read(folder / "tasks.jsonl.gz", lambda row: _decision(row, said))
    scenes = []
    for source in dict.fromkeys(task.source for task in tasks):
        here = (EVERYWHERE, source)
        own_chats = [chat for of, chat in chats if of in here]
        own_changes = [change for of, change in changes if of in here]
        questions = [task for task in tasks if task.source == source]
        passages = [*(text for chat in own_chats for text in _pairs(chat)), *map(_change_text, own_changes)]
        scenes.append(Scene(own_chats, own_changes, passages, questions))
    return scenes


def read_rules(folder: Path) -> list[Scene]:
    """Return a scene for each dialogue."""
    return _read(folder / "dialogues.jsonl.gz", _dialogue)


def _read(file: Path, make: Callable[[dict[str, Any]], T]) -> list[T]:
    rows = []
    for number, line in enumerate(read_lines(file), start=1):
        try:
            rows.append(make(json.loads(line)))
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            told = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
            raise BadData(f"{file}, line {number} cannot be used: {told.rstrip('.')}.") from error
    return rows


def _chat(row: dict[str, Any]) -> Chat:
    return Chat(row["id"], row["at"], [Turn(turn["role"], turn["text"]) for turn in row["turns"]])


def _change(row: dict[str, Any]) -> Change:
    return Change(row["id"], row["at"], row["subject"], row["body"], row["files"])


def _decision(row: dict[str, Any], said: dict[str, list[str]]) -> Question:
    superseded = [said[id][-1] for id in row.get("superseded", ())]
    current = "\n".join(text for id in row.get("gold", ()) for text in said.get(id, ()))
    policy = Policy(row["policy"], row["marker"] or "", superseded, current)
    return Question(row["id"], row["report"], row["source"], policy)


def _pairs(chat: Chat) -> list[str]:
    """Return what was said as passages of a prompt and its answer."""
    said = [f"{turn.role}: {turn.text}" for turn in chat.turns]
    return ["\n".join(said[place : place + 2]) for place in range(0, len(said), 2)]


def _change_text(change: Change) -> str:
    return f"{change.subject}\n{change.body}\n{' '.join(change.files[:10])}"


def _dialogue(row: dict[str, Any]) -> Scene:
    passages = [text for session in row["sessions"] for text in session["text"].split("\n\n")]
    mentor = _mentor([session["text"] for session in row["sessions"]])
    rules = [Rule(rule["current"], rule["superseded"]) for rule in row["rules"]]
    return Scene(
        chats=[
            Chat(f"{row['id']}-{session['id']}", session["at"], _turns(session["text"].split("\n\n"), mentor))
            for session in row["sessions"]
        ],
        changes=[],
        passages=passages,
        questions=[Question(row["id"], f"Write a {ask}", "rules", rules) for ask in row["asks"][:MOST_ASKS]],
    )


def _mentor(texts: Sequence[str]) -> str:
    """Return who says the most in a dialogue: it is the mentor who explains."""
    said: Counter[str] = Counter()
    for paragraph in (one for text in texts for one in text.split("\n\n")):
        name, colon, words = paragraph.partition(": ")
        said[name if colon else ""] += len(words)
    return max(filter(None, said), key=lambda name: said[name], default="")


def _turns(paragraphs: Sequence[str], mentor: str) -> list[Turn]:
    """Return a talk of two people as one of a user, the mentor, with an agent."""
    turns: list[Turn] = []
    for paragraph in paragraphs:
        name, colon, text = paragraph.partition(": ")
        is_named = bool(colon) and len(name.split()) == 1
        role = ("user" if name == mentor else "assistant") if is_named else turns[-1].role if turns else "user"
        turns.append(Turn(role, text if is_named else paragraph))
    return turns


SETS: dict[str, Callable[[Path], list[Scene]]] = {"decisions": read_decisions, "rules": read_rules}


def read_set(name: str, folder: Path) -> list[Scene]:
    """Return the scenes of a set, which has a folder of its own."""
    if not (folder / name).is_dir():
        raise BadData(f"BENCH_DATA names {folder}, which has no folder {name}.")
    return SETS[name](folder / name)
