"""A deterministic agent without a model that follows a playbook, for demos, tests and dry runs.

It needs no network. Its behavior follows from its prompt and playbook alone.

"""

from __future__ import annotations

import re
import time
from pathlib import Path

from ralph.core.config import HATS, parse_toml
from ralph.core.errors import AgentUnavailableError
from ralph.core.records import AgentReply, SessionEnding, record, replace
from ralph.core.text import clean, count_tokens, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ralph.agents import SessionOptions
    from ralph.core.config import AgentConfig

PLAYBOOK = ".ralph/rehearsal.toml"
WAIT_STEP_SECONDS = 0.05
MAX_IDEA_SECONDS = 3600
"""Maximum simulated duration, in seconds."""
MAX_IDEA_TOKENS = 10_000_000
REVIEW_PASSED = "pass"
"""Review text that stands for a passed review."""
HAT_VARIABLE = "RALPH_HAT"

_TASK = re.compile(
    r"^## Task\n(.*?)(?=^### Completed Prerequisites|^### Merge Conflicts|^## Feature: |^## Project Knowledge"
    r"|^## Run Journal|^### Handed Over|^### Previous Attempts|^### Failures of Other Tasks|^### Stuck Loop Warning"
    r"|^### Loop Status|^## Changed Files|^## What the Session Said|\Z)",
    re.DOTALL | re.MULTILINE,
)
_TASK_ID = re.compile(r"^\*\*(\S+?)\*\*:", re.MULTILINE)
_ATTEMPT = re.compile(r"^- Attempt (\d+) at this task", re.MULTILINE)
_HANDOVER = re.compile(r"^#### From the \w+, attempt \d+$", re.MULTILINE)

MAX_PLAYBOOK_KB = 4_096
"""Maximum size of a playbook; nothing edits it, so reading it is fast."""


# --- the playbook ------------------------------------------------------------------


@record
class PlaybookEdit:
    """One change to one file."""

    file: str
    replace: str | None
    """Text to replace; None when the whole file is written."""
    text: str


@record
class PlaybookIdea:
    """One way to approach a task."""

    says: str
    """Answer text; `{task_id}` is replaced by the task's id."""
    edits: tuple[PlaybookEdit, ...] = ()
    knows: tuple[str, ...] = ()
    """Phrases that select this idea at once if all of them are in the prompt."""
    models: tuple[str, ...] = ()
    """Models that have this idea; empty means all."""
    hats: tuple[str, ...] = ()
    """Hats that have this idea; empty means all."""
    seconds: float = 0.0
    """Simulated duration, in seconds."""
    tokens: int = 0
    """Simulated thinking tokens, in addition to those of the answer."""


@record
class PlaybookTask:
    """Ideas for one task, in the order in which they are tried."""

    about: str
    """Phrase that identifies the task."""
    ideas: tuple[PlaybookIdea, ...]
    review: str = REVIEW_PASSED
    """Problem a verification session reports; `pass` for none."""
    review_file: str = ""
    review_holds: str = ""
    """If `review_file` contains this text, the review passes after all."""


@record
class Playbook:
    """All ideas of the agent."""

    tasks: tuple[PlaybookTask, ...]


def read_playbook(path: Path) -> Playbook:
    """Read a playbook file, or raise an error that says what is wrong and where."""
    try:
        tree = parse_toml(path.read_text(encoding="utf-8"), MAX_PLAYBOOK_KB)
        return Playbook(tasks=tuple(_part(where, table) for where, table in _tables("the file", tree, "task")))
    except FileNotFoundError:
        raise AgentUnavailableError(
            f"The rehearsal agent needs a playbook. Create {path} or choose another agent.", code="no-playbook"
        ) from None
    except _InvalidPlaybookError as error:
        message = f"The playbook {path} is invalid: {one_line(clean(str(error)), 300)}."
        raise AgentUnavailableError(message, code="invalid-playbook") from None
    except (OSError, ValueError) as error:
        message = f"The playbook {path} cannot be read: {error}."
        raise AgentUnavailableError(message, code="unreadable-playbook") from error


class _InvalidPlaybookError(Exception):
    """The playbook is invalid."""


def _part(where: str, table: dict[str, Any]) -> PlaybookTask:
    _reject_unknown_keys(where, table, "about", "idea", "review", "review_file", "review_holds")
    ideas = [_idea(*one) for one in _tables(where, table, "idea")]
    review = _string(where, table, "review") if "review" in table else REVIEW_PASSED
    checked = [key for key in ("review_file", "review_holds") if key in table]
    if checked and (len(checked) == 1 or review == REVIEW_PASSED):
        raise _InvalidPlaybookError(
            f"{where}: review_file and review_holds need each other and a review other than pass"
        )
    about = _string(where, table, "about")
    return PlaybookTask(
        about=about, ideas=tuple(ideas), review=review, **{key: _string(where, table, key) for key in checked}
    )


def _idea(where: str, table: dict[str, Any]) -> PlaybookIdea:
    _reject_unknown_keys(where, table, "says", "edit", "knows", "models", "hats", "seconds", "tokens")
    hats = _string_list(where, table, "hats", "hats")
    for hat in hats:
        if hat not in HATS:
            raise _InvalidPlaybookError(f"{where}: unknown hat {hat!r}, choose one of {', '.join(HATS)}")
    edits = [_edit(*one) for one in _tables(where, table, "edit")] if "edit" in table else []
    return PlaybookIdea(
        says=_string(where, table, "says"),
        edits=tuple(edits),
        knows=_string_list(where, table, "knows", "phrases"),
        models=_string_list(where, table, "models", "models"),
        hats=hats,
        seconds=float(_number(where, table, "seconds", MAX_IDEA_SECONDS)),
        tokens=int(_number(where, table, "tokens", MAX_IDEA_TOKENS)),
    )


def _edit(where: str, table: dict[str, Any]) -> PlaybookEdit:
    if set(table) not in ({"file", "write"}, {"file", "replace", "with"}):
        raise _InvalidPlaybookError(f"{where}: an edit needs file and write, or file, replace and with")
    replaced = _string(where, table, "replace") if "replace" in table else None
    text = _string(where, table, "write" if replaced is None else "with", may_be_empty=True)
    return PlaybookEdit(file=_string(where, table, "file"), replace=replaced, text=text)


def _tables(where: str, table: dict[str, Any], key: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the tables of a list, each with its location in the playbook."""
    tables = table.get(key)
    if not isinstance(tables, list) or not tables or not all(isinstance(one, dict) for one in tables):
        raise _InvalidPlaybookError(f"{where} has no [[{key}]]")
    prefix = f"{where}, " if where != "the file" else ""
    return [(f"{prefix}{key} {number}", one) for number, one in enumerate(tables, start=1)]


def _reject_unknown_keys(where: str, table: dict[str, Any], *known: str) -> None:
    for key in table:
        if key not in known:
            raise _InvalidPlaybookError(f"{where}: unknown key {key!r}, use one of {', '.join(known)}")


def _string_list(where: str, table: dict[str, Any], key: str, noun: str) -> tuple[str, ...]:
    value = table.get(key, [])
    if isinstance(value, list) and all(isinstance(one, str) and one.strip() for one in value):
        return tuple(value)
    raise _InvalidPlaybookError(f"{where}: {key} must be a list of {noun}, not {value!r}")


def _number(where: str, table: dict[str, Any], key: str, most: int) -> float:
    value = table.get(key, 0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise _InvalidPlaybookError(f"{where}: {key} must be a number from 0 to {most}, not {value!r}")
    return value


def _string(where: str, table: dict[str, Any], key: str, *, may_be_empty: bool = False) -> str:
    value = table.get(key)
    if isinstance(value, str) and (may_be_empty or value.strip()):
        return value
    raise _InvalidPlaybookError(f"{where}: {key} must be a string" + (f", not {value!r}" if key in table else ""))


# --- the agent ---------------------------------------------------------------------


def build(config: AgentConfig, directory: Path, *, accepts_model: bool) -> RehearsalAgent:
    """Return an agent that follows the project's own playbook, which decides whether models matter."""
    return RehearsalAgent(directory / PLAYBOOK)


class RehearsalAgent:
    """Agent that follows a playbook, given as an object or as a file."""

    name = "rehearsal"
    reports_files = True
    reports_cost = False
    reports_tokens = True

    def __init__(self, playbook: Playbook | Path) -> None:
        self._playbook = playbook
        self._cached: tuple[tuple[int, int], Playbook] | None = None
        self.accepts_model = self._distinguishes_models()

    def check(self) -> None:
        """Raise `AgentUnavailableError` if the playbook is missing or invalid."""
        self._load()

    def _distinguishes_models(self) -> bool:
        try:
            parts = self._load().tasks
        except AgentUnavailableError:  # reported by `check`
            return False
        return any(idea.models for part in parts for idea in part.ideas)

    def _load(self) -> Playbook:
        """Return the current playbook, reading its file only after a change."""
        if not isinstance(self._playbook, Path):
            return self._playbook
        state = _file_state(self._playbook)
        if not self._cached or self._cached[0] != state:
            self._cached = state, read_playbook(self._playbook)
        return self._cached[1]

    def work(self, prompt: str, session: SessionOptions) -> AgentReply:
        """Choose an idea that fits the prompt, make its edits and return its answer; review if read-only."""
        started = time.monotonic()
        task_id, part = _find_task(prompt, self._load())
        if session.read_only:
            return _reply(_review(part, session.directory), prompt, session, started)
        hat = session.environment.get(HAT_VARIABLE, "")
        idea = choose_idea(part, prompt, model=session.model, hat=hat) if part else None
        ending, detail = _wait(idea.seconds if idea else 0.0, session)
        if ending is not SessionEnding.FINISHED:
            return replace(_reply("", prompt, session, started), ending=ending, detail=detail)
        if idea is None:
            reason = _missing_idea(part, session, hat)
            return _reply(
                _failure_reply(task_id, "Searched the playbook for the task.", reason), prompt, session, started
            )
        text, files = _apply_idea(idea, task_id, session.directory)
        reply = _reply(text, prompt, session, started)
        return replace(reply, files=files, tokens_out=(reply.tokens_out or 0) + idea.tokens)


def _file_state(path: Path) -> tuple[int, int]:
    """Return a value that changes when the file does."""
    try:
        status = path.stat()
    except OSError:  # reported when the file is read
        return 0, 0
    return status.st_mtime_ns, status.st_size


def _reply(text: str, prompt: str, session: SessionOptions, started: float) -> AgentReply:
    session.on_output(text)
    return AgentReply(
        text=text,
        seconds=time.monotonic() - started,
        tokens_in=count_tokens(prompt),
        tokens_out=count_tokens(text),
        files=(),
    )


def choose_idea(part: PlaybookTask, prompt: str, *, model: str | None = None, hat: str = "") -> PlaybookIdea | None:
    """Return the best idea for a prompt among those for this model and hat, or None.

    Each attempt moves on to the next idea, except attempts that only handed over. A later idea is chosen at once if the
    prompt contains all phrases it depends on.

    """
    ideas = [
        idea for idea in part.ideas if (not idea.models or model in idea.models) and (not idea.hats or hat in idea.hats)
    ]
    if not ideas:
        return None
    normalized = _normalize(prompt)
    matching = [
        number
        for number, idea in enumerate(ideas)
        if idea.knows and all(_normalize(phrase) in normalized for phrase in idea.knows)
    ]
    return ideas[max([min(_count_attempts(prompt), len(ideas) - 1), *matching])]


def _count_attempts(prompt: str) -> int:
    """Return the number of earlier attempts at the task, without those that only handed over."""
    attempts = _ATTEMPT.findall(prompt)
    return max(0, int(attempts[-1]) - 1 - len(_HANDOVER.findall(prompt))) if attempts else 0


def _missing_idea(part: PlaybookTask | None, session: SessionOptions, hat: str) -> str:
    if part is None:
        return "The playbook has no such task"
    who = " and ".join(filter(None, [session.model and f"the model {session.model}", hat and f"the hat {hat}"]))
    return f"The playbook has no idea for {who or 'an agent without a model'}"


def _review(part: PlaybookTask | None, directory: Path) -> str:
    """Return the answer of a review session."""
    if part is None:
        return "<verify-fail>The playbook has no such task.</verify-fail>\n"
    if part.review == REVIEW_PASSED or (part.review_file and _contains(directory, part.review_file, part.review_holds)):
        return "<verify-pass/>\n"
    return f"<verify-fail>{part.review}</verify-fail>\n"


def _contains(directory: Path, file: str, text: str) -> bool:
    try:
        return text in (directory / file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False


def _find_task(prompt: str, playbook: Playbook) -> tuple[str, PlaybookTask | None]:
    """Return the task's id and the first part that matches it."""
    section = _TASK.search(prompt)
    task = section[1] if section else ""
    id, normalized = _TASK_ID.search(task), _normalize(task)
    part = next((part for part in playbook.tasks if _normalize(part.about) in normalized), None)
    return id[1] if id else "", part


def _normalize(text: str) -> str:
    return " ".join(text.casefold().split())


def _wait(seconds: float, session: SessionOptions) -> tuple[SessionEnding, str]:
    """Wait, unless stopped or out of time."""
    deadline = time.monotonic() + min(seconds, session.limits.seconds)
    while (remaining := deadline - time.monotonic()) > 0:
        if session.should_stop():
            return SessionEnding.STOPPED, "The rehearsal was stopped."
        time.sleep(min(remaining, WAIT_STEP_SECONDS))
    if seconds > session.limits.seconds:
        return SessionEnding.TIMED_OUT, f"The rehearsal took longer than {session.limits.seconds:g} seconds."
    return SessionEnding.FINISHED, ""


def _apply_idea(idea: PlaybookIdea, task_id: str, directory: Path) -> tuple[str, tuple[str, ...]]:
    """Make all edits of an idea, or none if one is impossible; return the answer and the changed files."""
    changed: list[str] = []
    try:
        for file, text in _apply_edits(idea.edits, directory).items():
            if _write(directory / file, text):
                changed.append(file)
    except (_EditError, OSError, UnicodeDecodeError) as error:
        files = ", ".join(dict.fromkeys(edit.file for edit in idea.edits))
        return _failure_reply(task_id, f"Editing {files}.", str(error)), tuple(changed)
    return idea.says.replace("{task_id}", task_id), tuple(changed)


class _EditError(Exception):
    """An edit cannot be made."""


def _apply_edits(edits: tuple[PlaybookEdit, ...], directory: Path) -> dict[str, str]:
    """Return the new text of every file without writing anything."""
    texts: dict[str, str] = {}
    for edit in edits:
        path = directory / edit.file
        if not path.resolve().is_relative_to(directory.resolve()):
            raise _EditError(f"{edit.file} is outside the project")
        if edit.replace is None:
            texts[edit.file] = edit.text
            continue
        text = texts[edit.file] if edit.file in texts else path.read_text(encoding="utf-8")
        if edit.replace not in text:
            raise _EditError(f"{edit.file} does not contain the text to replace: {edit.replace.strip()}")
        texts[edit.file] = text.replace(edit.replace, edit.text, 1)
    return texts


def _write(path: Path, text: str) -> bool:
    """Write a file and return whether that changed it."""
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return True


def _failure_reply(task_id: str, tried: str, reason: str) -> str:
    return f"""\
<failure-report>
what_tried: {tried}
why_failed: {one_line(reason, 400)}.
error_category: rehearsal
</failure-report>
<retry-suggestion>Edit the playbook {PLAYBOOK}.</retry-suggestion>
<task-failed>{task_id}</task-failed>
"""
