"""Drive Codex, the Gemini CLI and opencode without their terminals: the prompt goes in on stdin, events come out.

Each prints JSON, an object a line, and each in its own way; a `_Stream` is what one of them is asked with and how it
is read. How a session ended is told by its last events, not by the exit code: a block for safety exits with 0.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from ralph.agents.process import run_program
from ralph.agents.programs import Program, bare, noted, reply_of, used_on, without_model
from ralph.agents.streams import MOST_COUNTED, JsonLines, Said, at, count_at, number_at, text_at
from ralph.environment import allowed
from ralph.records import Ending, Reply
from ralph.text import accept, clean, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from typing import Any, ClassVar

    from ralph.agents import Session
    from ralph.agents.process import Ended
    from ralph.config import AgentConfig

# What their words for a bad end come to: the first that fits.
_WORDS = (
    (Ending.REFUSED, r"blocked due to|content.?filter|\bflagged\b|\brefusal\b|\bsafety\b"),
    (
        Ending.OUT_OF_TURNS,
        r"session turns|token limit|max_output_tokens|context (?:window|length)|loop detected|turn.?limited"
        r"|output.?length|context.?overflow|maximum context",
    ),
)
_PHRASES = {
    Ending.REFUSED: "was refused by its model",
    Ending.OUT_OF_TURNS: "came to a limit",
    Ending.CRASHED: "stopped before it was done",
}


class HeadlessAgent:
    """Codex, the Gemini CLI or opencode, by its command line."""

    knows_files = False
    reports_tokens = True

    def __init__(self, config: AgentConfig, directory: Path, *, takes_model: bool = False) -> None:
        self.name = config.name
        self._stream = _STREAMS[config.name]
        self.takes_model = takes_model
        self.reports_cost = self._stream.tells_cost
        self._program = Program(
            title=config.name,
            package=self._stream.package,
            usual=config.name,
            command=config.command or (config.name,),
        )
        self._permissions = config.permissions
        self._named = config.environment
        self._directory = directory
        self._is_checked = False

    def check(self) -> None:
        """Raise `AgentUnavailableError`, with what to do, when it is not here or only half installed."""
        if not self._is_checked:
            self._program.version(self._directory, self._allowed())
            self._is_checked = True

    def work(self, prompt: str, session: Session) -> Reply:
        """Give it the prompt, listen to its events, and take all that it says for the answer."""
        program = self._program.path(self._directory)
        may = "read" if session.read_only else self._permissions
        stream = self._stream(session.heard)
        ended = run_program(
            [program, *self._program.command[1:], *stream.arguments(may, session.model or "")],
            directory=session.directory,
            limits=session.limits,
            stdin=stream.prompt(prompt),
            environment={**stream.defaults, **self._allowed(), **stream.variables(may), **session.environment},
            should_stop=session.should_stop,
            heard=stream.add,
            keep_bytes=0,
        )
        return reply_of(stream, program, ended)

    def _allowed(self) -> dict[str, str]:
        return allowed(agent=self.name, named=self._named)


# --- what all of them have in common ---------------------------------------------------


class _Stream(ABC):
    """How one agent is asked, and what is made of its events."""

    package: ClassVar[str]
    """What npm knows it by."""
    tells_cost: ClassVar[bool] = False
    defaults: ClassVar[Mapping[str, str]] = {}
    """Variables for those who have not set them otherwise."""

    def __init__(self, heard: Callable[[str], None]) -> None:
        self.said = Said()
        self.session = ""
        self.cost_usd = 0.0
        self.tokens_in: int | None = None
        self.tokens_out: int | None = None
        self.turns: int | None = None

        self._heard = heard
        self._lines = JsonLines()
        self._end: tuple[Ending, str] | None = None
        """How it says that it ended, and its words for that."""
        self._trouble = ""
        """The last thing that went wrong on the way."""

    # How it is asked.

    @abstractmethod
    def arguments(self, may: str, model: str) -> list[str]:
        """Give the arguments for a session that may do all, edit or read."""

    def variables(self, may: str) -> Mapping[str, str]:
        """Give what such a session needs in its environment."""
        return {}

    def prompt(self, text: str) -> str:
        """Give the prompt such that the agent takes it for text, all of it."""
        return text

    # How it is read.

    @abstractmethod
    def take(self, event: dict[str, Any]) -> None:
        """Take one event."""

    def add(self, text: str) -> None:
        """Take what has arrived."""
        for event in self._lines.add(text):
            self.take(event)

    def finish(self) -> None:
        """Take what stands in a last line without an end."""
        for event in self._lines.finish():
            self.take(event)

    def say(self, text: str) -> None:
        """Take a message of the agent's own."""
        if message := self.said.add(text):
            self._heard(f"{message}\n")

    def note(self, text: str) -> None:
        """Let those who watch know what it does."""
        if line := noted(text):
            self._heard(line)

    def went_wrong(self, text: str) -> None:
        """Take what it says went wrong; it may go on all the same."""
        self._trouble = _plain(text)
        self.note(self._trouble)

    def named(self, session: str) -> None:
        """Take its name for the session."""
        self.session = one_line(clean(session[:200])) or self.session

    def without_end(self, ended: Ended) -> Ending:
        """Give what it comes to when it exits without having said how it ended."""
        return Ending.CRASHED

    def verdict(self, name: str, ended: Ended) -> tuple[Ending, str]:
        """Give how the session ended, and a sentence about that; what we ended ourselves, we know best."""
        if ended.ending not in (Ending.FINISHED, Ending.CRASHED):
            return ended.ending, _with_last_word(ended.detail, self._trouble)
        if self._end is None:
            how = ended.detail or f"{name} {_PHRASES[Ending.CRASHED]}: it never said how it ended."
            return self.without_end(ended), _with_last_word(how, self._trouble or accept(self._lines.stray))
        ending, words = self._end
        if ending is Ending.FINISHED:
            # Its last word counts for more than its exit code, but not for processes that could not be ended.
            return ending, ended.detail if ended.ending is Ending.FINISHED else ""
        words = words or self._trouble
        phrase = without_model(words) if ending is Ending.MODEL_FAILED else _PHRASES[ending]
        return ending, f"{name} {phrase}: {words}" if words else f"{name} {phrase}."


def _with_last_word(sentence: str, word: str) -> str:
    return f"{bare(sentence)}; its last word was: {word}" if word and word not in sentence else sentence


def _ending_in(words: str) -> Ending | None:
    return next((ending for ending, pattern in _WORDS if re.search(pattern, words, re.IGNORECASE)), None)


def _plain(message: str) -> str:
    """Give what an error says as one line, also when it is what the service answered, in JSON."""
    message = message[:20_000]
    found = re.search(r"\{.*\}", message, re.DOTALL)
    try:
        answer = json.loads(found[0]) if found else None
    except (ValueError, RecursionError):
        answer = None
    told = text_at(answer, "error", "message") or text_at(answer, "message")
    return one_line(accept(told or message))


# --- each of them ----------------------------------------------------------------------


class _Codex(_Stream):
    """`codex exec --json`: only turn.failed is fatal, whatever went wrong before."""

    package = "@openai/codex"

    # It reads and edits by running commands, so "edit" is the sandbox that keeps these to the directory.
    _SANDBOXES: ClassVar[Mapping[str, str]] = {
        "all": "danger-full-access",
        "edit": "workspace-write",
        "read": "read-only",
    }

    def arguments(self, may: str, model: str) -> list[str]:
        chosen = ["--model", model] if model else []
        return ["exec", "--json", "--skip-git-repo-check", "--sandbox", self._SANDBOXES[may], *chosen, "-"]

    def take(self, event: dict[str, Any]) -> None:
        kind = text_at(event, "type")
        if kind == "thread.started":
            self.named(text_at(event, "thread_id"))
        elif kind == "turn.started":
            self._end = None
        elif kind in ("item.started", "item.completed"):
            self._take_item(kind, at(event, "item"))
        elif kind == "error":
            self.went_wrong(text_at(event, "message"))
        elif kind == "turn.completed":
            self._end = Ending.FINISHED, ""
            self.tokens_in = count_at(event, "usage", "input_tokens")
            self.tokens_out = count_at(event, "usage", "output_tokens")
        elif kind == "turn.failed":
            words = text_at(event, "error", "message")
            self._end = _ending_in(words) or Ending.MODEL_FAILED, _plain(words)

    def _take_item(self, kind: str, item: object) -> None:
        what, is_new = text_at(item, "type"), kind == "item.started"
        if what == "agent_message" and not is_new:
            self.say(text_at(item, "text"))
        elif what == "error" and not is_new:
            self.note(text_at(item, "message"))
        elif what == "command_execution" and is_new:
            self.note(f"runs {text_at(item, 'command')}")
        elif what not in ("agent_message", "error", "command_execution", "reasoning") and is_new:
            self.note(f"{what} {text_at(item, 'tool') or text_at(item, 'query')}")


class _Gemini(_Stream):
    """`gemini -o stream-json`: messages come in pieces; the result says `error` for a block that exits with 0."""

    package = "@google/gemini-cli"
    # Or it refuses to start in a directory that nobody has opened in its terminal, as a new worktree is.
    defaults: ClassVar[Mapping[str, str]] = {"GEMINI_CLI_TRUST_WORKSPACE": "true"}

    _MODES: ClassVar[Mapping[str, str]] = {"all": "yolo", "edit": "auto_edit", "read": "default"}
    """With nobody to ask, "default" leaves out every tool that it would ask for."""
    _NO_KEY = 41
    """Its exit code when it has no way to log in."""

    def __init__(self, heard: Callable[[str], None]) -> None:
        super().__init__(heard)
        self._pieces: list[str] = []

    def arguments(self, may: str, model: str) -> list[str]:
        chosen = ["--model", model] if model else []
        return ["--output-format", "stream-json", "--approval-mode", self._MODES[may], *chosen]

    def prompt(self, text: str) -> str:
        """Give the prompt with its @ escaped: it would put every file that is named after one into the prompt."""
        return re.sub(r"(?<!\\)@", r"\\@", text)

    def take(self, event: dict[str, Any]) -> None:
        kind = text_at(event, "type")
        if kind == "message" and text_at(event, "role") == "assistant":
            self._pieces.append(text_at(event, "content"))
            if at(event, "delta") is True:
                return
        self._end_message()
        if kind == "init":
            self.named(text_at(event, "session_id"))
        elif kind == "tool_use":
            self.note(f"{text_at(event, 'tool_name')} {used_on(at(event, 'parameters'))}")
        elif kind == "error":
            self.went_wrong(text_at(event, "message"))
        elif kind == "result":
            self._take_result(event)

    def finish(self) -> None:
        super().finish()
        self._end_message()

    def without_end(self, ended: Ended) -> Ending:
        return Ending.MODEL_FAILED if ended.exit_code == self._NO_KEY else Ending.CRASHED

    def _end_message(self) -> None:
        if self._pieces:
            self.say("".join(self._pieces))
            self._pieces.clear()

    def _take_result(self, event: dict[str, Any]) -> None:
        total, tokens_in = count_at(event, "stats", "total_tokens"), count_at(event, "stats", "input_tokens")
        tokens_out = count_at(event, "stats", "output_tokens")
        self.tokens_in = tokens_in
        # What it thought is in the total alone.
        self.tokens_out = None if tokens_out is None else max(tokens_out, (total or 0) - (tokens_in or 0))
        words = text_at(event, "error", "message")
        if text_at(event, "status") == "success":
            # It calls it a success to be stopped by a limit of its own.
            is_stopped = _ending_in(self._trouble) is Ending.OUT_OF_TURNS
            self._end = (Ending.OUT_OF_TURNS if is_stopped else Ending.FINISHED), ""
        else:
            self._end = _ending_in(words or self._trouble) or Ending.MODEL_FAILED, _plain(words)


_OPENCODE_LOOKS = (
    *("read", "glob", "grep", "list", "lsp", "webfetch", "websearch"),
    *("todoread", "todowrite", "task", "skill"),
)


def opencode_variables(may: str) -> Mapping[str, str]:
    """Give what tells opencode what it may do; when it is asked and told no, it would end its turn."""
    rules = {"edit": {"bash": "deny"}, "read": {"*": "deny", **dict.fromkeys(_OPENCODE_LOOKS, "allow")}}
    return {"OPENCODE_PERMISSION": json.dumps(rules[may])} if may in rules else {}


class _OpenCode(_Stream):
    """`opencode run --format json`: there is no last event, so its last step or error is."""

    package = "opencode-ai"
    tells_cost = True

    _REASONS: ClassVar[Mapping[str, Ending]] = {
        "length": Ending.OUT_OF_TURNS,
        "content-filter": Ending.REFUSED,
        "tool-calls": Ending.CRASHED,
        "error": Ending.MODEL_FAILED,
    }
    """Why a step was the last, where that is bad: one that has tools used is never the last by itself."""

    def arguments(self, may: str, model: str) -> list[str]:
        chosen = ["--model", model] if model else []
        return ["run", "--format", "json", "--auto", *chosen]

    def variables(self, may: str) -> Mapping[str, str]:
        return opencode_variables(may)

    def take(self, event: dict[str, Any]) -> None:
        kind, part = text_at(event, "type"), at(event, "part")
        self.named(text_at(event, "sessionID"))
        if kind == "step_start":
            self._end = None
        elif kind == "text":
            self.say(text_at(part, "text"))
        elif kind == "tool_use":
            self.note(f"{text_at(part, 'tool')} {used_on(at(part, 'state', 'input'))}")
        elif kind == "step_finish":
            self._end = self._REASONS.get(text_at(part, "reason"), Ending.FINISHED), ""
            self._count(part)
        elif kind == "error":
            words = text_at(event, "error", "data", "message") or text_at(event, "error", "name")
            self.went_wrong(words)
            ending = _ending_in(f"{text_at(event, 'error', 'name')} {words}")
            self._end = ending or Ending.MODEL_FAILED, _plain(words)

    def _count(self, step: object) -> None:
        self.turns = (self.turns or 0) + 1
        self.cost_usd += number_at(step, "cost") or 0.0
        if not isinstance(at(step, "tokens"), dict):
            return
        read, written = (("input",), ("cache", "read"), ("cache", "write")), (("output",), ("reasoning",))
        self.tokens_in = _sum(self.tokens_in, step, read)
        self.tokens_out = _sum(self.tokens_out, step, written)


def _sum(so_far: int | None, step: object, places: tuple[tuple[str, ...], ...]) -> int:
    return min(MOST_COUNTED, (so_far or 0) + sum(count_at(step, "tokens", *place) or 0 for place in places))


_STREAMS: Mapping[str, type[_Stream]] = {"codex": _Codex, "gemini": _Gemini, "opencode": _OpenCode}
