"""Coding agents in headless mode: the prompt goes to stdin, JSON events come from stdout.

An `HeadlessDriver` defines the arguments and the event format of one of them. How a session ended is read from its last
events, not from the exit code: a safety block or an interrupt may exit with 0.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from ralph.agents.programs import AgentProgram, activity_line, model_error_phrase, strip_period
from ralph.agents.streams import JsonLinesParser, MessageBuffer, text_at
from ralph.agents.supervisor.process import run_program
from ralph.core.agents import AGENTS
from ralph.core.environment import allowed_environment
from ralph.core.errors import AgentUnavailableError
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


class HeadlessAgent:
    """An agent that is run from its command line."""

    reports_files = False

    def __init__(
        self, config: AgentConfig, directory: Path, driver_type: type[HeadlessDriver], *, accepts_model: bool = True
    ) -> None:
        self.name = config.name
        self.accepts_model = accepts_model
        self.reports_cost = AGENTS[config.name].reports_cost
        self.reports_tokens = AGENTS[config.name].reports_tokens
        self._driver_type = driver_type
        self._program = AgentProgram(
            title=driver_type.title or config.name,
            package=driver_type.package,
            default_name=config.name,
            command=config.command or (config.name,),
        )
        self._permissions = config.permissions
        self._variable_names = config.environment
        self._directory = directory
        self._is_checked = False

    def check(self) -> None:
        """Raise `AgentUnavailableError` if the program is missing, only partly installed or too old."""
        if self._is_checked:
            return
        driver = self._driver_type(lambda _: None)
        version = self._program.version(self._directory, driver.environment(self._inherited()))
        if version < driver.min_version:
            found, oldest = (".".join(map(str, one)) for one in (version, driver.min_version))
            raise AgentUnavailableError(
                f"{self._program.title} {found} is too old: Ralph needs {oldest} or newer."
                f" Update with: {self._program.install_command}",
                code="agent-too-old",
            )
        self._is_checked = True

    def work(self, prompt: str, session: SessionOptions) -> AgentReply:
        """Send the prompt, process the events and return the agent's messages as the reply."""
        program = self._program.path(self._directory)
        permissions = "read" if session.read_only else self._permissions
        driver = self._driver_type(session.on_output)
        ended = run_program(
            [
                program,
                *self._program.command[1:],
                *driver.arguments(permissions, session.model or ""),
                *(driver.cost_arguments(session.max_cost_usd) if session.max_cost_usd else ()),
            ],
            directory=session.directory,
            limits=session.limits,
            stdin=driver.prompt(prompt, session.directory),
            environment=driver.environment(
                {**self._inherited(), **driver.variables(permissions), **session.environment}
            ),
            should_stop=lambda: session.should_stop() or driver.is_over(),
            on_output=driver.add,
            max_output_bytes=0,
        )
        return driver.reply(program.rpartition("/")[2], ended)

    def _inherited(self) -> dict[str, str]:
        return allowed_environment(agent=self.name, variable_names=self._variable_names)


class HeadlessDriver(ABC):
    """Command-line arguments and event parser of one agent."""

    package: ClassVar[str]
    """Name of the npm package."""
    title: ClassVar[str] = ""
    """Display name, if it differs from the agent's name."""
    min_version: ClassVar[tuple[int, ...]] = ()
    """Oldest release whose events can be read."""
    defaults: ClassVar[Mapping[str, str]] = {}
    """Default environment variables; the user's own values take precedence."""

    def __init__(self, on_output: Callable[[str], None]) -> None:
        self.messages = MessageBuffer()
        self.session = ""
        self.cost_usd = 0.0
        self.tokens_in: int | None = None
        self.tokens_out: int | None = None
        self.turns: int | None = None
        self.resets_at: float | None = None
        """When a usage limit that was reached resets, in seconds since the epoch."""
        self.next_reset: float | None = None
        """When the current usage limit resets, reached or not."""
        self._on_output = on_output
        self._lines = JsonLinesParser()
        self._ending: tuple[SessionEnding, str] | None = None
        """Ending the agent reported, with its explanation."""
        self._last_error = ""
        """Last error reported on the way."""

    @abstractmethod
    def arguments(self, permissions: str, model: str) -> list[str]:
        """Return the arguments for a session with these permissions: all, edit or read."""

    def cost_arguments(self, max_cost_usd: float) -> list[str]:
        """Return the arguments that end a session after a cost, if the agent has any."""
        return []

    def variables(self, permissions: str) -> Mapping[str, str]:
        """Return the environment variables such a session needs."""
        return {}

    def environment(self, variables: dict[str, str]) -> dict[str, str]:
        """Return the environment of a session, given all other variables."""
        return {**self.defaults, **variables}

    def prompt(self, text: str, directory: Path) -> str:
        """Return the prompt escaped so that the agent takes all of it as plain text."""
        return text

    def is_over(self) -> bool:
        """Return whether there is nothing more to wait for, although the program still runs."""
        return False

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

    def reply(self, name: str, ended: ProcessResult) -> AgentReply:
        """Return the reply of a session whose program, of this name, has ended."""
        self.finish()
        ending, detail = self.ending(name, ended)
        return AgentReply(
            text=self.messages.text(),
            ending=ending,
            detail=detail,
            exit_code=ended.exit_code,
            seconds=ended.seconds,
            cost_usd=self.cost_usd,
            tokens_in=self.tokens_in,
            tokens_out=self.tokens_out,
            turns=self.turns,
            session=self.session,
            resets_at=self.resets_at if ending is SessionEnding.MODEL_FAILED else None,
            next_reset=self.next_reset,
        )

    def add_message(self, text: str) -> str:
        """Add a message of the agent and return it as stored."""
        if message := self.messages.add(text):
            self._on_output(f"{message}\n")
        return message

    def note(self, text: str) -> None:
        """Show an activity in the live output."""
        if line := activity_line(text):
            self._on_output(line)

    def record_error(self, text: str) -> None:
        """Record an error the agent reported; it may continue nevertheless."""
        self._last_error = error_message(text)
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


def match_ending(words: str) -> SessionEnding | None:
    """Return the ending that an error message stands for, if it is a known one."""
    return next((ending for ending, pattern in _ENDING_PATTERNS if re.search(pattern, words, re.IGNORECASE)), None)


def error_message(message: str) -> str:
    """Return an error as one line, extracting the message from a JSON API response."""
    message = message[:20_000]
    match = re.search(r"\{.*\}", message, re.DOTALL)
    try:
        response = json.loads(match[0]) if match else None
    except (ValueError, RecursionError):
        response = None
    text = text_at(response, "error", "message") or text_at(response, "message")
    return one_line(sanitize(text or message))
