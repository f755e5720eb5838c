"""An agent without a model: it plays from a playbook, for demonstrations, tests and trying things out.

It is deterministic and needs no network. What it does follows from its prompt
and its playbook alone: whatever it seems to have learned, it was told.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

from ralph.config import HATS, toml_in
from ralph.errors import AgentUnavailableError
from ralph.records import Ending, Reply, record, replace
from ralph.text import clean, count_tokens, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ralph.agents import Session

PLAYBOOK = ".ralph/rehearsal.toml"
TICK_SECONDS = 0.05
MOST_SECONDS = 3600
MOST_TOKENS = 10_000_000
NOTHING_WRONG = "pass"
HAT_VARIABLE = "RALPH_HAT"

_TASK = re.compile(
    r"^## Task\n(.*?)(?=^### Completed Prerequisites|^### Merge Conflicts|^## Feature: |^## Project Knowledge"
    r"|^## Run Journal|^### Handed Over|^### Previous Attempts|^### Failures of Other Tasks|^### Stuck Loop Warning"
    r"|^### Loop Status|^## Changed Files|^## What the Session Said|\Z)",
    re.DOTALL | re.MULTILINE,
)
_TASK_ID = re.compile(r"^\*\*(\S+?)\*\*:", re.MULTILINE)
_ATTEMPT = re.compile(r"^- Attempt (\d+) at this task", re.MULTILINE)
_HANDED = re.compile(r"^#### From the \w+, attempt \d+$", re.MULTILINE)


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
    models: tuple[str, ...] = ()
    """Only these think of it; none means all."""
    hats: tuple[str, ...] = ()
    """Only these think of it; none means all."""
    seconds: float = 0.0
    """How long it pretends to think."""
    tokens: int = 0
    """How many it pretends to think, besides those of its answer."""


@record
class Part:
    """What the agent can think of for one task, in the order it would think of it."""

    about: str
    """A phrase of the task."""
    ideas: tuple[Idea, ...]
    review: str = NOTHING_WRONG
    """What a session that verifies the work finds wrong; `pass` when there is nothing."""
    review_file: str = ""
    review_holds: str = ""
    """When that file holds this text, there is nothing wrong after all."""


@record
class Playbook:
    """All that the agent can think of."""

    parts: tuple[Part, ...]


def read_playbook(path: Path) -> Playbook:
    """Read a playbook file, or say what is wrong with it and where."""
    try:
        tree = toml_in(path.read_text(encoding="utf-8"))
        return Playbook(parts=tuple(_part(where, table) for where, table in _tables("the file", tree, "task")))
    except FileNotFoundError:
        raise AgentUnavailableError(
            f"The rehearsal agent needs a playbook: write {path}, or choose another agent."
        ) from None
    except _Malformed as error:
        raise AgentUnavailableError(f"The playbook {path} is wrong: {one_line(clean(str(error)), 300)}.") from None
    except (OSError, ValueError) as error:
        raise AgentUnavailableError(f"The playbook {path} cannot be read: {error}.") from error


class _Malformed(Exception):
    """Says what is wrong, and where in the playbook."""


def _part(where: str, table: dict[str, Any]) -> Part:
    _refuse_unknown(where, table, "about", "idea", "review", "review_file", "review_holds")
    ideas = [_idea(*one) for one in _tables(where, table, "idea")]
    review = _text(where, table, "review") if "review" in table else NOTHING_WRONG
    checked = [key for key in ("review_file", "review_holds") if key in table]
    if checked and (len(checked) == 1 or review == NOTHING_WRONG):
        raise _Malformed(f"{where}: review_file and review_holds go together, with a review that finds something wrong")
    about = _text(where, table, "about")
    return Part(about=about, ideas=tuple(ideas), review=review, **{key: _text(where, table, key) for key in checked})


def _idea(where: str, table: dict[str, Any]) -> Idea:
    _refuse_unknown(where, table, "says", "edit", "knows", "models", "hats", "seconds", "tokens")
    hats = _texts(where, table, "hats", "hats")
    for hat in hats:
        if hat not in HATS:
            raise _Malformed(f"{where}: there is no hat {hat!r}, only {', '.join(HATS)}")
    edits = [_edit(*one) for one in _tables(where, table, "edit")] if "edit" in table else []
    return Idea(
        says=_text(where, table, "says"),
        edits=tuple(edits),
        knows=_texts(where, table, "knows", "phrases"),
        models=_texts(where, table, "models", "models"),
        hats=hats,
        seconds=float(_number(where, table, "seconds", MOST_SECONDS)),
        tokens=int(_number(where, table, "tokens", MOST_TOKENS)),
    )


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


def _texts(where: str, table: dict[str, Any], key: str, what: str) -> tuple[str, ...]:
    found = table.get(key, [])
    if isinstance(found, list) and all(isinstance(one, str) and one.strip() for one in found):
        return tuple(found)
    raise _Malformed(f"{where}: {key} must be a list of {what}, not {found!r}")


def _number(where: str, table: dict[str, Any], key: str, most: int) -> float:
    value = table.get(key, 0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise _Malformed(f"{where}: {key} must be a number from 0 to {most}, not {value!r}")
    return value


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
    reports_tokens = True

    def __init__(self, playbook: Playbook | Path) -> None:
        self._playbook = playbook
        self._read_before: tuple[tuple[int, int], Playbook] | None = None
        self.takes_model = self._tells_models_apart()

    @classmethod
    def from_project(cls, directory: Path) -> RehearsalAgent:
        """Give an agent that plays the project's own playbook."""
        return cls(directory / PLAYBOOK)

    def check(self) -> None:
        """Raise `AgentUnavailableError`, with what to do, when there is no playbook or it is malformed."""
        self._read()

    def _tells_models_apart(self) -> bool:
        try:
            parts = self._read().parts
        except AgentUnavailableError:  # which `check` tells
            return False
        return any(idea.models for part in parts for idea in part.ideas)

    def _read(self) -> Playbook:
        """Give the playbook as it is now; its file is only read again after it has changed."""
        if not isinstance(self._playbook, Path):
            return self._playbook
        mark = _mark(self._playbook)
        if not self._read_before or self._read_before[0] != mark:
            self._read_before = mark, read_playbook(self._playbook)
        return self._read_before[1]

    def work(self, prompt: str, session: Session) -> Reply:
        """Choose an idea by what the prompt says, make its edits, and say what it says; only judge if that is asked."""
        began = time.monotonic()
        task_id, part = _task_in(prompt, self._read())
        if session.read_only:
            return _replied(_reviewed(part, session.directory), prompt, session, began)
        hat = session.environment.get(HAT_VARIABLE, "")
        idea = choose(part, prompt, model=session.model, hat=hat) if part else None
        ending, detail = _think(idea.seconds if idea else 0.0, session)
        if ending is not Ending.FINISHED:
            return replace(_replied("", prompt, session, began), ending=ending, detail=detail)
        if idea is None:
            why = _lacking(part, session, hat)
            return _replied(_cannot(task_id, "Looked for the task in the playbook.", why), prompt, session, began)
        text, files = _play(idea, task_id, session.directory)
        reply = _replied(text, prompt, session, began)
        return replace(reply, files=files, tokens_out=(reply.tokens_out or 0) + idea.tokens)


def _mark(path: Path) -> tuple[int, int]:
    """Give what changes when a file does."""
    try:
        found = path.stat()
    except OSError:  # which reading it tells
        return 0, 0
    return found.st_mtime_ns, found.st_size


def _replied(text: str, prompt: str, session: Session, began: float) -> Reply:
    session.heard(text)
    return Reply(
        text=text,
        seconds=time.monotonic() - began,
        tokens_in=count_tokens(prompt),
        tokens_out=count_tokens(text),
        files=(),
    )


def choose(part: Part, prompt: str, *, model: str | None = None, hat: str = "") -> Idea | None:
    """Give the best idea for a prompt, of those that this model thinks of under this hat; None when there are none.

    Each attempt brings the next idea to mind; one that only handed over does not count. A prompt that holds all that
    a later idea knows brings that one to mind at once.
    """
    ideas = [
        idea for idea in part.ideas if (not idea.models or model in idea.models) and (not idea.hats or hat in idea.hats)
    ]
    if not ideas:
        return None
    said = _flat(prompt)
    known = [
        number
        for number, idea in enumerate(ideas)
        if idea.knows and all(_flat(phrase) in said for phrase in idea.knows)
    ]
    return ideas[max([min(_tries(prompt), len(ideas) - 1), *known])]


def _tries(prompt: str) -> int:
    """Give how many attempts at the task went before, without those that only handed over."""
    attempts = _ATTEMPT.findall(prompt)
    return max(0, int(attempts[-1]) - 1 - len(_HANDED.findall(prompt))) if attempts else 0


def _lacking(part: Part | None, session: Session, hat: str) -> str:
    if part is None:
        return "The playbook has no such task"
    who = " and ".join(filter(None, [session.model and f"the model {session.model}", hat and f"the hat {hat}"]))
    return f"The playbook has no idea for {who or 'an agent without a model'}"


def _reviewed(part: Part | None, directory: Path) -> str:
    """Give the answer of a session that only judges the work."""
    if part is None:
        return "<verify-fail>The playbook has no such task.</verify-fail>\n"
    if part.review == NOTHING_WRONG or (part.review_file and _holds(directory, part.review_file, part.review_holds)):
        return "<verify-pass/>\n"
    return f"<verify-fail>{part.review}</verify-fail>\n"


def _holds(directory: Path, file: str, text: str) -> bool:
    try:
        return text in (directory / file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False


def _task_in(prompt: str, playbook: Playbook) -> tuple[str, Part | None]:
    """Give the task's id and the first part that is about it."""
    section = _TASK.search(prompt)
    task = section[1] if section else ""
    id, said = _TASK_ID.search(task), _flat(task)
    part = next((part for part in playbook.parts if _flat(part.about) in said), None)
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


def _play(idea: Idea, task_id: str, directory: Path) -> tuple[str, tuple[str, ...]]:
    """Make an idea's edits, or none when one is impossible; give the answer and the files that changed."""
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
