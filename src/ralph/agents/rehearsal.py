"""An agent without a model: it plays from a playbook, for demonstrations, tests and trying things out.

It is deterministic and needs no network. What it does follows from its prompt
and its playbook alone: whatever it seems to have learned, it was told.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

from ralph.errors import AgentMissing
from ralph.records import Ending, Reply, record
from ralph.text import count_tokens, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ralph.agents import Session

PLAYBOOK = ".ralph/rehearsal.toml"
TICK_SECONDS = 0.05
MOST_SECONDS = 3600

_TASK = re.compile(
    r"^## Task\n(.*?)(?=^### Completed Prerequisites|^## Feature: |^## Project Knowledge|^## Run Journal"
    r"|^### Previous Attempts|^### Stuck Loop Warning|^### Loop Status|\Z)",
    re.DOTALL | re.MULTILINE,
)
_TASK_ID = re.compile(r"^\*\*(\S+?)\*\*:", re.MULTILINE)
_ATTEMPT = re.compile(r"^- Attempt (\d+) at this task", re.MULTILINE)


# --- the playbook ------------------------------------------------------------------


@record
class Edit:
    """One change to one file."""

    file: str
    replace: str | None
    """The text that gives way; None when the whole file is written."""
    text: str


@record
class Idea:
    """One way to go about a task."""

    says: str
    """The answer; `{task_id}` stands for the task's id."""
    edits: tuple[Edit, ...] = ()
    knows: tuple[str, ...] = ()
    """Phrases; with all of them in the prompt, the agent thinks of this idea at once."""
    seconds: float = 0.0
    """How long it pretends to think."""


@record
class Part:
    """What the agent can think of for one task, in the order it would think of it."""

    about: str
    """A phrase of the task."""
    ideas: tuple[Idea, ...]


@record
class Playbook:
    """All that the agent can think of."""

    parts: tuple[Part, ...]


def read_playbook(path: Path) -> Playbook:
    """Read a playbook file, or say what is wrong with it and where."""
    import tomllib

    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
        return Playbook(parts=tuple(_part(where, table) for where, table in _tables("the file", tree, "task")))
    except FileNotFoundError:
        raise AgentMissing(f"The rehearsal agent needs a playbook: write {path}, or choose another agent.") from None
    except _Malformed as error:
        raise AgentMissing(f"The playbook {path} is wrong: {error}.") from None
    except (tomllib.TOMLDecodeError, OSError, UnicodeDecodeError, RecursionError) as error:
        raise AgentMissing(f"The playbook {path} cannot be read: {error}.") from error


class _Malformed(Exception):
    """Says what is wrong, and where in the playbook."""


def _part(where: str, table: dict[str, Any]) -> Part:
    _refuse_unknown(where, table, "about", "idea")
    ideas = [_idea(*one) for one in _tables(where, table, "idea")]
    return Part(about=_text(where, table, "about"), ideas=tuple(ideas))


def _idea(where: str, table: dict[str, Any]) -> Idea:
    _refuse_unknown(where, table, "says", "edit", "knows", "seconds")
    knows, seconds = table.get("knows", []), table.get("seconds", 0.0)
    if not isinstance(knows, list) or not all(isinstance(phrase, str) and phrase.strip() for phrase in knows):
        raise _Malformed(f"{where}: knows must be a list of phrases, not {knows!r}")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= MOST_SECONDS:
        raise _Malformed(f"{where}: seconds must be a number from 0 to {MOST_SECONDS}, not {seconds!r}")
    edits = [_edit(*one) for one in _tables(where, table, "edit")] if "edit" in table else []
    return Idea(says=_text(where, table, "says"), edits=tuple(edits), knows=tuple(knows), seconds=float(seconds))


def _edit(where: str, table: dict[str, Any]) -> Edit:
    if set(table) not in ({"file", "write"}, {"file", "replace", "with"}):
        raise _Malformed(f"{where}: an edit has file and write, or file, replace and with")
    replaced = _text(where, table, "replace") if "replace" in table else None
    text = _text(where, table, "write" if replaced is None else "with", may_be_empty=True)
    return Edit(file=_text(where, table, "file"), replace=replaced, text=text)


def _tables(where: str, table: dict[str, Any], key: str) -> list[tuple[str, dict[str, Any]]]:
    """Give the tables of a list, each with its place in the playbook."""
    found = table.get(key)
    if not isinstance(found, list) or not found or not all(isinstance(one, dict) for one in found):
        raise _Malformed(f"{where} has no [[{key}]]")
    prefix = f"{where}, " if where != "the file" else ""
    return [(f"{prefix}{key} {number}", one) for number, one in enumerate(found, start=1)]


def _refuse_unknown(where: str, table: dict[str, Any], *known: str) -> None:
    for key in table:
        if key not in known:
            raise _Malformed(f"{where}: nobody knows {key!r}, only {', '.join(known)}")


def _text(where: str, table: dict[str, Any], key: str, *, may_be_empty: bool = False) -> str:
    value = table.get(key)
    if isinstance(value, str) and (may_be_empty or value.strip()):
        return value
    raise _Malformed(f"{where}: {key} must be a text" + (f", not {value!r}" if key in table else ""))


# --- the agent ---------------------------------------------------------------------


class RehearsalAgent:
    """Plays a playbook, the given one or the one in a file."""

    name = "rehearsal"
    knows_files = True
    reports_cost = False

    def __init__(self, playbook: Playbook | Path) -> None:
        self._playbook = playbook

    @classmethod
    def from_project(cls, directory: Path) -> RehearsalAgent:
        """Give an agent that plays the project's own playbook."""
        return cls(directory / PLAYBOOK)

    def check(self) -> None:
        """Raise `AgentMissing`, with what to do, when there is no playbook or it is malformed."""
        self._read()

    def _read(self) -> Playbook:
        return read_playbook(self._playbook) if isinstance(self._playbook, Path) else self._playbook

    def work(self, prompt: str, session: Session) -> Reply:
        """Choose an idea by what the prompt says, make its edits, and say what it says."""
        began = time.monotonic()
        task_id, part = _task_in(prompt, self._read())
        idea = choose(part, prompt) if part else None
        ending, detail = _think(idea.seconds if idea else 0.0, session)
        text, files = _play(idea, task_id, session.directory) if ending is Ending.FINISHED else ("", ())
        session.heard(text)
        return Reply(
            text=text,
            ending=ending,
            detail=detail,
            seconds=time.monotonic() - began,
            tokens_in=count_tokens(prompt),
            tokens_out=count_tokens(text),
            files=files,
        )


def choose(part: Part, prompt: str) -> Idea:
    """Give the best idea for a prompt.

    Each attempt brings the next idea to mind. A prompt that holds all that a later idea
    knows brings that one to mind at once.
    """
    said = _flat(prompt)
    attempts = _ATTEMPT.findall(prompt)
    place = min(int(attempts[-1]) if attempts else 1, len(part.ideas)) - 1
    known = [
        number
        for number, idea in enumerate(part.ideas)
        if idea.knows and all(_flat(phrase) in said for phrase in idea.knows)
    ]
    return part.ideas[max([place, *known])]


def _task_in(prompt: str, playbook: Playbook) -> tuple[str, Part | None]:
    """Give the task's id and the first part that is about it."""
    section = _TASK.search(prompt)
    task = section[1] if section else ""
    id = _TASK_ID.search(task)
    part = next((part for part in playbook.parts if _flat(part.about) in _flat(task)), None)
    return id[1] if id else "", part


def _flat(text: str) -> str:
    return " ".join(text.casefold().split())


def _think(seconds: float, session: Session) -> tuple[Ending, str]:
    """Let time pass, unless it is cut short."""
    until = time.monotonic() + min(seconds, session.limits.seconds)
    while (left := until - time.monotonic()) > 0:
        if session.should_stop():
            return Ending.STOPPED, "The rehearsal was stopped."
        time.sleep(min(left, TICK_SECONDS))
    if seconds > session.limits.seconds:
        return Ending.TIMED_OUT, f"The rehearsal took longer than {session.limits.seconds:g} seconds."
    return Ending.FINISHED, ""


def _play(idea: Idea | None, task_id: str, directory: Path) -> tuple[str, tuple[str, ...]]:
    """Make an idea's edits, or none when one is impossible; give the answer and the files that changed."""
    if idea is None:
        return _cannot(task_id, "Looked for the task in the playbook.", "The playbook has no such task"), ()
    changed: list[str] = []
    try:
        for file, text in _edited(idea.edits, directory).items():
            if _write(directory / file, text):
                changed.append(file)
    except (_Impossible, OSError, UnicodeDecodeError) as error:
        files = ", ".join(dict.fromkeys(edit.file for edit in idea.edits))
        return _cannot(task_id, f"Editing {files}.", str(error)), tuple(changed)
    return idea.says.replace("{task_id}", task_id), tuple(changed)


class _Impossible(Exception):
    """An edit that cannot be made, and why."""


def _edited(edits: tuple[Edit, ...], directory: Path) -> dict[str, str]:
    """Give the new text of every file, with nothing written yet."""
    texts: dict[str, str] = {}
    for edit in edits:
        path = directory / edit.file
        if not path.resolve().is_relative_to(directory.resolve()):
            raise _Impossible(f"{edit.file} is outside of the project")
        if edit.replace is None:
            texts[edit.file] = edit.text
            continue
        text = texts[edit.file] if edit.file in texts else path.read_text(encoding="utf-8")
        if edit.replace not in text:
            raise _Impossible(f"{edit.file} does not hold the text to replace: {edit.replace.strip()}")
        texts[edit.file] = text.replace(edit.replace, edit.text, 1)
    return texts


def _write(path: Path, text: str) -> bool:
    """Write a file, and say whether that changed it."""
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return True


def _cannot(task_id: str, tried: str, why: str) -> str:
    return f"""\
<failure-report>
what_tried: {tried}
why_failed: {one_line(why, 400)}.
error_category: rehearsal
</failure-report>
<retry-suggestion>Change the playbook, {PLAYBOOK}.</retry-suggestion>
<task-failed>{task_id}</task-failed>
"""
