"""Codex, the Gemini CLI and opencode in headless mode: the prompt goes to stdin, JSON events come from stdout.

A `_Stream` defines the arguments and the event format of one of them. How a session ended is read from its last
events, not from the exit code: a safety block exits with 0.

"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from ralph.agents.programs import (
    AgentProgram,
    activity_line,
    build_reply,
    describe_tool_call,
    model_error_phrase,
    strip_period,
)
from ralph.agents.streams import MAX_COUNT, JsonLinesParser, MessageBuffer, count_at, number_at, text_at, value_at
from ralph.agents.supervisor.process import run_program
from ralph.core.agents import AGENTS
from ralph.core.environment import allowed_environment
from ralph.core.records import AgentReply, SessionEnding
from ralph.core.text import clean, one_line, sanitize

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from typing import Any, ClassVar

    from ralph.agents import SessionOptions
    from ralph.agents.supervisor.process import ProcessResult
    from ralph.core.config import AgentConfig

# Endings by error message; the first match wins.
_ENDING_PATTERNS = (
    (SessionEnding.REFUSED, r"blocked due to|content.?filter|\bflagged\b|\brefusal\b|\bsafety\b"),
    (
        SessionEnding.OUT_OF_TURNS,
        r"session turns|token limit|max_output_tokens|context (?:window|length)|loop detected|turn.?limited"
        r"|output.?length|context.?overflow|maximum context",
    ),
)
_ENDING_PHRASES = {
    SessionEnding.REFUSED: "was refused by the model",
    SessionEnding.OUT_OF_TURNS: "reached a limit",
    SessionEnding.CRASHED: "stopped early",
}


def build(config: AgentConfig, directory: Path, *, accepts_model: bool) -> HeadlessAgent:
    """Return the configured agent."""
    return HeadlessAgent(config, directory, accepts_model=accepts_model)


class HeadlessAgent:
    """Codex, the Gemini CLI or opencode, run from its command line."""

    reports_files = False
    reports_tokens = True

    def __init__(self, config: AgentConfig, directory: Path, *, accepts_model: bool = False) -> None:
        self.name = config.name
        self._stream = _STREAMS[config.name]
        self.accepts_model = accepts_model
        self.reports_cost = AGENTS[config.name].reports_cost
        self._program = AgentProgram(
            title=config.name,
            package=self._stream.package,
            default_name=config.name,
            command=config.command or (config.name,),
        )
        self._permissions = config.permissions
        self._variable_names = config.environment
        self._directory = directory
        self._is_checked = False

    def check(self) -> None:
        """Raise `AgentUnavailableError` if the program is missing or only partly installed."""
        if not self._is_checked:
            self._program.version(self._directory, self._environment())
            self._is_checked = True

    def work(self, prompt: str, session: SessionOptions) -> AgentReply:
        """Send the prompt, process the events and return the agent's messages as the reply."""
        program = self._program.path(self._directory)
        permissions = "read" if session.read_only else self._permissions
        stream = self._stream(session.on_output)
        ended = run_program(
            [program, *self._program.command[1:], *stream.arguments(permissions, session.model or "")],
            directory=session.directory,
            limits=session.limits,
            stdin=stream.prompt(prompt),
            environment={
                **stream.defaults,
                **self._environment(),
                **stream.variables(permissions),
                **session.environment,
            },
            should_stop=session.should_stop,
            on_output=stream.add,
            max_output_bytes=0,
        )
        return build_reply(stream, program, ended)

    def _environment(self) -> dict[str, str]:
        return allowed_environment(agent=self.name, variable_names=self._variable_names)


# --- common parts ----------------------------------------------------------------------


class _Stream(ABC):
    """Command-line arguments and event parser of one agent."""

    package: ClassVar[str]
    """Name of the npm package."""
    defaults: ClassVar[Mapping[str, str]] = {}
    """Default environment variables; the user's own values take precedence."""

    def __init__(self, on_output: Callable[[str], None]) -> None:
        self.messages = MessageBuffer()
        self.session = ""
        self.cost_usd = 0.0
        self.tokens_in: int | None = None
        self.tokens_out: int | None = None
        self.turns: int | None = None

        self._on_output = on_output
        self._lines = JsonLinesParser()
        self._ending: tuple[SessionEnding, str] | None = None
        """Ending the agent reported, with its explanation."""
        self._last_error = ""
        """Last error reported on the way."""

    @abstractmethod
    def arguments(self, permissions: str, model: str) -> list[str]:
        """Return the arguments for a session with these permissions: all, edit or read."""

    def variables(self, permissions: str) -> Mapping[str, str]:
        """Return the environment variables such a session needs."""
        return {}

    def prompt(self, text: str) -> str:
        """Return the prompt escaped so that the agent takes all of it as plain text."""
        return text

    @abstractmethod
    def handle(self, event: dict[str, Any]) -> None:
        """Process one event."""

    def add(self, text: str) -> None:
        """Process text as it arrives."""
        for event in self._lines.add(text):
            self.handle(event)

    def finish(self) -> None:
        """Process a last line without a newline."""
        for event in self._lines.finish():
            self.handle(event)

    def add_message(self, text: str) -> None:
        """Add a message of the agent."""
        if message := self.messages.add(text):
            self._on_output(f"{message}\n")

    def note(self, text: str) -> None:
        """Show an activity in the live output."""
        if line := activity_line(text):
            self._on_output(line)

    def record_error(self, text: str) -> None:
        """Record an error the agent reported; it may continue nevertheless."""
        self._last_error = _error_message(text)
        self.note(self._last_error)

    def set_session(self, session: str) -> None:
        """Record the agent's id of the session."""
        self.session = one_line(clean(session[:200])) or self.session

    def ending_without_event(self, ended: ProcessResult) -> SessionEnding:
        """Return the ending of a session that exited without a final event."""
        return SessionEnding.CRASHED

    def ending(self, name: str, ended: ProcessResult) -> tuple[SessionEnding, str]:
        """Return the ending of the session and a sentence about it; limits we enforced take precedence."""
        if ended.ending not in (SessionEnding.FINISHED, SessionEnding.CRASHED):
            return ended.ending, _with_last_output(ended.detail, self._last_error)
        if self._ending is None:
            detail = ended.detail or f"{name} {_ENDING_PHRASES[SessionEnding.CRASHED]}: it reported no ending."
            return self.ending_without_event(ended), _with_last_output(
                detail, self._last_error or sanitize(self._lines.last_skipped)
            )
        ending, words = self._ending
        if ending is SessionEnding.FINISHED:
            # The reported ending outweighs the exit code; the detail may list processes that survived.
            return ending, ended.detail if ended.ending is SessionEnding.FINISHED else ""
        words = words or self._last_error
        phrase = model_error_phrase(words) if ending is SessionEnding.MODEL_FAILED else _ENDING_PHRASES[ending]
        return ending, f"{name} {phrase}: {words}" if words else f"{name} {phrase}."


def _with_last_output(sentence: str, output: str) -> str:
    return f"{strip_period(sentence)}; its last output was: {output}" if output and output not in sentence else sentence


def _match_ending(words: str) -> SessionEnding | None:
    return next((ending for ending, pattern in _ENDING_PATTERNS if re.search(pattern, words, re.IGNORECASE)), None)


def _error_message(message: str) -> str:
    """Return an error as one line, extracting the message from a JSON API response."""
    message = message[:20_000]
    match = re.search(r"\{.*\}", message, re.DOTALL)
    try:
        response = json.loads(match[0]) if match else None
    except (ValueError, RecursionError):
        response = None
    text = text_at(response, "error", "message") or text_at(response, "message")
    return one_line(sanitize(text or message))


# --- agents ----------------------------------------------------------------------------


class _Codex(_Stream):
    """`codex exec --json`: only turn.failed is fatal, whatever errors came before."""

    package = "@openai/codex"

    # Codex reads and edits by running commands, so "edit" is a sandbox that limits them to the directory.
    _SANDBOXES: ClassVar[Mapping[str, str]] = {
        "all": "danger-full-access",
        "edit": "workspace-write",
        "read": "read-only",
    }

    def arguments(self, permissions: str, model: str) -> list[str]:
        model_option = ["--model", model] if model else []
        return [
            "exec",
            "--json",
            "--skip-git-repo-check",
            "--sandbox",
            self._SANDBOXES[permissions],
            *model_option,
            "-",
        ]

    def handle(self, event: dict[str, Any]) -> None:
        kind = text_at(event, "type")
        if kind == "thread.started":
            self.set_session(text_at(event, "thread_id"))
        elif kind == "turn.started":
            self._ending = None
        elif kind in ("item.started", "item.completed"):
            self._handle_item(kind, value_at(event, "item"))
        elif kind == "error":
            self.record_error(text_at(event, "message"))
        elif kind == "turn.completed":
            self._ending = SessionEnding.FINISHED, ""
            self.tokens_in = count_at(event, "usage", "input_tokens")
            self.tokens_out = count_at(event, "usage", "output_tokens")
        elif kind == "turn.failed":
            words = text_at(event, "error", "message")
            self._ending = _match_ending(words) or SessionEnding.MODEL_FAILED, _error_message(words)

    def _handle_item(self, kind: str, item: object) -> None:
        item_type, is_new = text_at(item, "type"), kind == "item.started"
        if item_type == "agent_message" and not is_new:
            self.add_message(text_at(item, "text"))
        elif item_type == "error" and not is_new:
            self.note(text_at(item, "message"))
        elif item_type == "command_execution" and is_new:
            self.note(f"runs {text_at(item, 'command')}")
        elif item_type not in ("agent_message", "error", "command_execution", "reasoning") and is_new:
            self.note(f"{item_type} {text_at(item, 'tool') or text_at(item, 'query')}")


class _Gemini(_Stream):
    """`gemini -o stream-json`: messages come in chunks; the result is `error` for a block that exits with 0."""

    package = "@google/gemini-cli"
    # Otherwise it refuses to start in an untrusted directory, such as a new worktree.
    defaults: ClassVar[Mapping[str, str]] = {"GEMINI_CLI_TRUST_WORKSPACE": "true"}

    _MODES: ClassVar[Mapping[str, str]] = {"all": "yolo", "edit": "auto_edit", "read": "default"}
    """In headless mode, "default" disables every tool that would need approval."""
    _NO_KEY = 41
    """Exit code when no authentication is configured."""

    def __init__(self, on_output: Callable[[str], None]) -> None:
        super().__init__(on_output)
        self._chunks: list[str] = []

    def arguments(self, permissions: str, model: str) -> list[str]:
        model_option = ["--model", model] if model else []
        return ["--output-format", "stream-json", "--approval-mode", self._MODES[permissions], *model_option]

    def prompt(self, text: str) -> str:
        """Return the prompt with @ escaped, which would insert the content of the file named after it."""
        return re.sub(r"(?<!\\)@", r"\\@", text)

    def handle(self, event: dict[str, Any]) -> None:
        kind = text_at(event, "type")
        if kind == "message" and text_at(event, "role") == "assistant":
            self._chunks.append(text_at(event, "content"))
            if value_at(event, "delta") is True:
                return
        self._end_message()
        if kind == "init":
            self.set_session(text_at(event, "session_id"))
        elif kind == "tool_use":
            self.note(f"{text_at(event, 'tool_name')} {describe_tool_call(value_at(event, 'parameters'))}")
        elif kind == "error":
            self.record_error(text_at(event, "message"))
        elif kind == "result":
            self._handle_result(event)

    def finish(self) -> None:
        super().finish()
        self._end_message()

    def ending_without_event(self, ended: ProcessResult) -> SessionEnding:
        return SessionEnding.MODEL_FAILED if ended.exit_code == self._NO_KEY else SessionEnding.CRASHED

    def _end_message(self) -> None:
        if self._chunks:
            self.add_message("".join(self._chunks))
            self._chunks.clear()

    def _handle_result(self, event: dict[str, Any]) -> None:
        total, tokens_in = count_at(event, "stats", "total_tokens"), count_at(event, "stats", "input_tokens")
        tokens_out = count_at(event, "stats", "output_tokens")
        self.tokens_in = tokens_in
        # Only the total includes thinking tokens.
        self.tokens_out = None if tokens_out is None else max(tokens_out, (total or 0) - (tokens_in or 0))
        words = text_at(event, "error", "message")
        if text_at(event, "status") == "success":
            # Hitting one of its own limits still counts as success in its result.
            is_stopped = _match_ending(self._last_error) is SessionEnding.OUT_OF_TURNS
            self._ending = (SessionEnding.OUT_OF_TURNS if is_stopped else SessionEnding.FINISHED), ""
        else:
            self._ending = _match_ending(words or self._last_error) or SessionEnding.MODEL_FAILED, _error_message(words)


_OPENCODE_READ_TOOLS = (
    *("read", "glob", "grep", "list", "lsp", "webfetch", "websearch"),
    *("todoread", "todowrite", "task", "skill"),
)


def opencode_variables(permissions: str) -> Mapping[str, str]:
    """Return the permission rules for opencode, which would end its turn if a request were denied."""
    rules = {"edit": {"bash": "deny"}, "read": {"*": "deny", **dict.fromkeys(_OPENCODE_READ_TOOLS, "allow")}}
    return {"OPENCODE_PERMISSION": json.dumps(rules[permissions])} if permissions in rules else {}


class _OpenCode(_Stream):
    """`opencode run --format json`: there is no final event, so the last step or error decides."""

    package = "opencode-ai"

    _REASONS: ClassVar[Mapping[str, SessionEnding]] = {
        "length": SessionEnding.OUT_OF_TURNS,
        "content-filter": SessionEnding.REFUSED,
        "tool-calls": SessionEnding.CRASHED,
        "error": SessionEnding.MODEL_FAILED,
    }
    """Endings by finish reason of the last step; a step with tool calls should not be the last."""

    def arguments(self, permissions: str, model: str) -> list[str]:
        model_option = ["--model", model] if model else []
        return ["run", "--format", "json", "--auto", *model_option]

    def variables(self, permissions: str) -> Mapping[str, str]:
        return opencode_variables(permissions)

    def handle(self, event: dict[str, Any]) -> None:
        kind, part = text_at(event, "type"), value_at(event, "part")
        self.set_session(text_at(event, "sessionID"))
        if kind == "step_start":
            self._ending = None
        elif kind == "text":
            self.add_message(text_at(part, "text"))
        elif kind == "tool_use":
            self.note(f"{text_at(part, 'tool')} {describe_tool_call(value_at(part, 'state', 'input'))}")
        elif kind == "step_finish":
            self._ending = self._REASONS.get(text_at(part, "reason"), SessionEnding.FINISHED), ""
            self._add_usage(part)
        elif kind == "error":
            words = text_at(event, "error", "data", "message") or text_at(event, "error", "name")
            self.record_error(words)
            ending = _match_ending(f"{text_at(event, 'error', 'name')} {words}")
            self._ending = ending or SessionEnding.MODEL_FAILED, _error_message(words)

    def _add_usage(self, step: object) -> None:
        self.turns = (self.turns or 0) + 1
        self.cost_usd += number_at(step, "cost") or 0.0
        if not isinstance(value_at(step, "tokens"), dict):
            return
        read, written = (("input",), ("cache", "read"), ("cache", "write")), (("output",), ("reasoning",))
        self.tokens_in = _sum(self.tokens_in, step, read)
        self.tokens_out = _sum(self.tokens_out, step, written)


def _sum(total: int | None, step: object, paths: tuple[tuple[str, ...], ...]) -> int:
    return min(MAX_COUNT, (total or 0) + sum(count_at(step, "tokens", *path) or 0 for path in paths))


_STREAMS: Mapping[str, type[_Stream]] = {"codex": _Codex, "gemini": _Gemini, "opencode": _OpenCode}
