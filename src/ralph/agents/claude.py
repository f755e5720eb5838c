"""Drive Claude Code without its terminal: the prompt goes in on stdin, its events come out a line each.

How a session ended is told by its last result event, never by the exit code, which is 0 for an interrupt too; and
within the event by what it says besides `subtype`, which is `success` when the service failed.
"""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING

from ralph.agents.process import run_program
from ralph.agents.programs import Program, bare, first_line, noted, reply_of, used_on, without_model
from ralph.agents.streams import JsonLines, Said, at, count_at, list_at, number_at, text_at
from ralph.environment import allowed
from ralph.errors import AgentUnavailableError
from ralph.records import Ending, Reply
from ralph.text import accept, clean, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from typing import Any

    from ralph.agents import Session
    from ralph.agents.process import Ended
    from ralph.config import AgentConfig

OLDEST = (2, 0, 0)
"""The oldest release whose events were seen to tell all that is read here."""
HOPELESS = (401, 403)
"""Answers of the service that no other try changes; Claude Code would try for minutes."""
PARTING_SECONDS = 30.0
"""So long it may be silent after its result before it is ended: what it said is complete."""
STREAM = ("-p", "--output-format", "stream-json", "--verbose")

# What it may use unasked, and what it may not use at all: whatever is in neither list is up to the person's settings.
_LOOK = ("Read", "Grep", "Glob", "LS", "NotebookRead", "WebFetch", "WebSearch", "TodoWrite", "Task")
_CHANGE = ("Edit", "MultiEdit", "Write", "NotebookEdit")
_RUN = ("Bash", "BashOutput", "KillShell", "PowerShell", "Monitor", "Workflow")
_ALWAYS_DENIED = ("AskUserQuestion", "CronCreate", "ScheduleWakeup")
"""Nobody is there to answer, and a session that waits for its alarm never ends."""
_ALLOWED = {"all": (*_LOOK, *_CHANGE, *_RUN, "Skill"), "edit": (*_LOOK, *_CHANGE), "read": _LOOK}
_DENIED = {
    "all": _ALWAYS_DENIED,
    "edit": (*_ALWAYS_DENIED, *_RUN),
    "read": (*_ALWAYS_DENIED, *_RUN, *_CHANGE, "EnterWorktree"),
}
_UNATTENDED = {
    # After its last word it would wait for whatever it started in the background, a server too, until a limit ends it.
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
    # A file that the prompt names after an @, any file, would go to the model, whatever is permitted.
    "CLAUDE_CODE_DISABLE_FILE_MENTIONS": "1",
}
"""Variables for a session that nobody watches, for those who have not set them otherwise."""
_MENTION = re.compile(r"(?<!\S)@(?=\"([^\"\n]{1,500})\"|(\S{0,500}\w))")

# How it ends a session that did not go well, by `terminal_reason`, `subtype` or `api_error`, over all releases.
_LIMITS = (
    *("max_turns", "budget_exhausted", "prompt_too_long", "blocking_limit", "rapid_refill_breaker"),
    *("error_max_turns", "error_max_budget_usd", "max_output_tokens", "request_too_large"),
)
_ABORTED = ("aborted_tools", "aborted_streaming")
_MOST_REMEMBERED = 200
"""So many messages, and so many texts of each, are remembered, to tell what comes twice."""


class ClaudeAgent:
    """Claude Code, by its command line."""

    name = "claude"
    knows_files = False
    reports_cost = True
    reports_tokens = True
    takes_model = True

    def __init__(self, config: AgentConfig, directory: Path) -> None:
        self._program = Program(
            title="Claude Code",
            package="@anthropic-ai/claude-code",
            usual="claude",
            command=config.command or ("claude",),
        )
        self._permissions = config.permissions
        self._named = config.environment
        self._directory = directory
        self._is_checked = False

    def check(self) -> None:
        """Raise `AgentUnavailableError`, with what to do, when it is not here, only half installed, or too old."""
        if self._is_checked:
            return
        version = self._program.version(self._directory, self._environment({}))
        if version < OLDEST:
            found, oldest = (".".join(map(str, one)) for one in (version, OLDEST))
            raise AgentUnavailableError(
                f"Claude Code {found} is too old, Ralph needs {oldest} or newer: update it with {self._program.install}"
            )
        self._is_checked = True

    def work(self, prompt: str, session: Session) -> Reply:
        """Give it the prompt, listen to its events, and take all that it says itself for the answer."""
        program = self._program.path(self._directory)
        events = _Events(session.heard)
        ended = run_program(
            [program, *self._program.command[1:], *self._arguments(session)],
            directory=session.directory,
            limits=session.limits,
            stdin=without_mentions(prompt, session.directory),
            environment=self._environment(session.environment),
            should_stop=lambda: session.should_stop() or events.is_over(),
            heard=events.add,
            keep_bytes=0,
        )
        return reply_of(events, program, ended)

    def _environment(self, more: Mapping[str, str]) -> dict[str, str]:
        return claude_environment({**allowed(agent=self.name, named=self._named), **more})

    def _arguments(self, session: Session) -> list[str]:
        may = "read" if session.read_only else self._permissions
        arguments = [*STREAM, "--allowedTools", ",".join(_ALLOWED[may]), "--disallowedTools", ",".join(_DENIED[may])]
        # A person's own default may be to plan, or to permit all. `acceptEdits` would keep some commands from running.
        arguments += ["--permission-mode", "default"]
        if session.model:
            arguments += ["--model", session.model]
        return arguments


def claude_environment(given: Mapping[str, str]) -> dict[str, str]:
    """Give the variables of a session that nobody watches, made of those that it is given."""
    # Some releases refuse to start inside of another session; with its own prompt and end this one is none.
    return {name: value for name, value in {**_UNATTENDED, **given}.items() if name != "CLAUDECODE"}


def without_mentions(prompt: str, directory: Path) -> str:
    """Give the prompt with files named, not mentioned: `a.txt` for `@a.txt`, as older releases need it."""

    def drop(found: re.Match[str]) -> str:
        path = os.path.expanduser((found[1] or found[2]).partition("#")[0])  # noqa: PTH111
        return "" if os.path.exists(os.path.join(directory, path)) else "@"  # noqa: PTH110, PTH118

    return _MENTION.sub(drop, prompt)


# --- what it prints ------------------------------------------------------------------


class _Events:
    """Makes of the events of one session what was said, what it took and how it ended."""

    def __init__(self, heard: Callable[[str], None]) -> None:
        self.said = Said()
        self.session = ""
        self.cost_usd = 0.0
        self.tokens_in: int | None = None
        self.tokens_out: int | None = None

        self._heard = heard
        self._lines = JsonLines()
        self._result: dict[str, Any] | None = None
        self._turns_told: int | None = None
        self._messages = 0
        self._seen: dict[str, set[int]] = {}
        """The latest messages by id, each with marks of its texts."""
        self._counted = [0, 0]
        """Tokens in and out that messages told of, for a session that never gets to its result."""
        self._notice = ""
        """What the program itself said in place of the model: most often an error."""
        self._stop_reason = ""
        self._heard_at = 0.0
        self._hopeless = ""
        """Why its model's service will never answer it."""
        self._is_ended = False
        """Whether we ended it because there was nothing to wait for."""
        self._is_refused = False
        """The model was stopped, and has said nothing since."""

    @property
    def turns(self) -> int | None:
        """How often the model was asked, as far as that is known."""
        return self._turns_told if self._turns_told is not None else self._messages or None

    def add(self, text: str) -> None:
        """Take what has arrived."""
        self._heard_at = time.monotonic()
        for event in self._lines.add(text):
            self._take(event)

    def finish(self) -> None:
        """Take what stands in a last line without an end."""
        for event in self._lines.finish():
            self._take(event)

    def _take(self, event: dict[str, Any]) -> None:
        self.session = one_line(clean(text_at(event, "session_id"))) or self.session
        if text_at(event, "refused_message_id") and not at(event, "parent_tool_use_id"):
            self._is_refused = True
        kind, subtype = text_at(event, "type"), text_at(event, "subtype")
        if kind == "assistant":
            self._take_message(event)
        elif kind == "result":
            self._take_result(event)
        elif kind == "system" and subtype == "init":
            self._result = None  # It goes on: something it had started came to an end.
        elif kind == "system" and subtype == "api_retry":
            self._take_retry(event)
        elif kind == "system" and subtype == "permission_denied":
            self._note(f"{text_at(event, 'tool_name') or 'a tool'} was not permitted")

    def _take_retry(self, event: dict[str, Any]) -> None:
        status, error = count_at(event, "error_status"), one_line(accept(text_at(event, "error")[:2000]), 60)
        what = " ".join(filter(None, [str(status or ""), error])) or "no answer"
        tried, most = count_at(event, "attempt"), count_at(event, "max_retries")
        self._note(f"model's service: {what}{f', try {tried} of {most}' if tried and most else ''}")
        if status in HOPELESS:
            self._hopeless = what

    def is_over(self) -> bool:
        """Say whether there is nothing to wait for: it has given its result, or is kept from its model for good."""
        is_silent = self._result is not None and time.monotonic() - self._heard_at > PARTING_SECONDS
        self._is_ended = bool(self._hopeless) or is_silent
        return self._is_ended

    def _take_message(self, event: dict[str, Any]) -> None:
        message = at(event, "message")
        is_from_program = at(event, "is_api_error_message") is True or text_at(message, "model") == "<synthetic>"
        marks = self._marks(text_at(message, "id"), message, is_from_program=is_from_program)
        if at(event, "parent_tool_use_id"):
            return  # What subagents say is between them and the one that asked.
        self._result = None
        if not is_from_program:
            if not marks:
                self._messages += 1
                self._stop_reason = ""
            self._stop_reason = text_at(message, "stop_reason") or self._stop_reason
        for block in _blocks(message):
            kind = text_at(block, "type")
            mark = hash((kind, text_at(block, "text"), text_at(block, "id")))
            if mark in marks:
                continue
            if len(marks) < _MOST_REMEMBERED:
                marks.add(mark)
            if kind == "text" and is_from_program:
                self._notice = text_at(block, "text")
                self._note(self._notice)
            elif kind == "text":
                self._say(text_at(block, "text"), text_at(message, "stop_reason"))
            elif kind == "tool_use":
                self._note(f"{text_at(block, 'name')} {used_on(at(block, 'input'))}")

    def _marks(self, id: str, message: object, *, is_from_program: bool) -> set[int]:
        """Give the marks of what was read of this message before; its tokens count the first time."""
        if id and id in self._seen:
            return self._seen[id]
        marks: set[int] = set()
        if id:
            self._seen[id] = marks
            if len(self._seen) > _MOST_REMEMBERED:
                del self._seen[next(iter(self._seen))]
        if not is_from_program and isinstance(at(message, "usage"), dict):
            self._counted[0] += _read_tokens(at(message, "usage"))
            self._counted[1] += count_at(message, "usage", "output_tokens") or 0
            self._know_tokens(*self._counted)
        return marks

    def _say(self, text: str, stop_reason: str) -> None:
        if message := self.said.add(text):
            self._is_refused = stop_reason == "refusal"
            self._heard(f"{message}\n")

    def _note(self, text: str) -> None:
        if line := noted(text):
            self._heard(line)

    def _take_result(self, event: dict[str, Any]) -> None:
        self._result = event
        # Turns are those since the result before, cost and tokens by model those of the whole session.
        turns = count_at(event, "num_turns")
        if turns is not None:
            self._turns_told = (self._turns_told or 0) + turns
        self.cost_usd = max(self.cost_usd, number_at(event, "total_cost_usd") or 0.0)
        usage, by_model = at(event, "usage"), at(event, "modelUsage")
        if isinstance(usage, dict):
            self._know_tokens(_read_tokens(usage), count_at(usage, "output_tokens") or 0)
        if isinstance(by_model, dict) and by_model:
            self._know_tokens(
                sum(_read_tokens(one) for one in by_model.values()),
                sum(count_at(one, "outputTokens") or 0 for one in by_model.values()),
            )

    def _know_tokens(self, tokens_in: int, tokens_out: int) -> None:
        """Keep the larger counts: no source tells of more than there was, and some tell of a part."""
        self.tokens_in = max(self.tokens_in or 0, tokens_in)
        self.tokens_out = max(self.tokens_out or 0, tokens_out)

    # How it ended.

    def verdict(self, name: str, ended: Ended) -> tuple[Ending, str]:
        """Give how the session ended, and a sentence about that; what we ended ourselves, we know best."""
        if ended.ending is Ending.STOPPED and self._is_ended:
            if self._result is None:
                return Ending.MODEL_FAILED, f"{name} could not use its model: {self._hopeless}"
        elif ended.ending not in (Ending.FINISHED, Ending.CRASHED):
            return ended.ending, ended.detail
        if self._result is None:
            return Ending.CRASHED, self._without_result(name, ended)
        ending, what = self._judge(self._result, ended)
        if ending is Ending.FINISHED:
            return ending, ended.detail if ended.ending is Ending.FINISHED else ""
        said = first_line(self._words()) or one_line(clean(text_at(self._result, "subtype")))
        return ending, f"{name} {what}: {said}" if said not in ("", "success") else f"{name} {what}."

    def _without_result(self, name: str, ended: Ended) -> str:
        how = ended.detail or f"{name} stopped before it was done: it gave no result."
        said = first_line(self._notice) or accept(self._lines.stray)
        return f"{bare(how)}; its last word was: {said}" if said and said not in how else how

    def _judge(self, result: dict[str, Any], ended: Ended) -> tuple[Ending, str]:
        subtype, reason, error = (text_at(result, key) for key in ("subtype", "terminal_reason", "api_error"))
        is_error = at(result, "is_error")
        if not isinstance(is_error, bool):
            is_error = subtype != "success" or ended.exit_code != 0
        told = {subtype, reason, error, text_at(result, "api_error_type")}
        # An older release calls it no error to be out of turns, but for the subtype.
        if not is_error and not subtype.startswith("error"):
            if self._is_refused or (count_at(result, "safety_stops") and not self.said.text()):
                return Ending.REFUSED, "was refused by its model"
            return Ending.FINISHED, ""
        if text_at(result, "stop_reason") == "refusal" or self._stop_reason == "refusal":
            return Ending.REFUSED, "was refused by its model"
        if told & set(_LIMITS) or self._stop_reason == "max_tokens" or self._words().startswith("Prompt is too long"):
            return Ending.OUT_OF_TURNS, "came to a limit"
        if told & set(_ABORTED):
            return Ending.CRASHED, "was interrupted"
        if subtype == "success" or reason in ("api_error", "model_error"):
            is_answered = at(result, "api_error_status") is not None
            return Ending.MODEL_FAILED, without_model("" if is_answered else f"{error} {self._words()}")
        return Ending.CRASHED, "ended with an error"

    def _words(self) -> str:
        """Give what the program says about the end."""
        result = self._result
        errors = [one for one in list_at(result, "errors") if isinstance(one, str)]
        return text_at(result, "result").strip() or "; ".join(errors[:3]).strip() or self._notice


def _blocks(message: object) -> list[Any]:
    content = at(message, "content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else list_at(message, "content")


def _read_tokens(usage: object) -> int:
    """Give all tokens that the model read, from a cache or not; the names are those of messages and of models."""
    return sum(
        count_at(usage, key) or 0
        for key in (
            *("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"),
            *("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens"),
        )
    )
