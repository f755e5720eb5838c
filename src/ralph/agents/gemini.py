"""The Gemini CLI, run as `gemini --output-format stream-json`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ralph.agents.headless import HeadlessAgent, HeadlessDriver, error_message, match_ending
from ralph.agents.programs import describe_tool_call
from ralph.agents.streams import count_at, text_at, value_at
from ralph.core.records import SessionEnding

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from typing import Any, ClassVar

    from ralph.agents.supervisor.process import ProcessResult
    from ralph.core.config import AgentConfig


def build(config: AgentConfig, directory: Path, *, accepts_model: bool) -> HeadlessAgent:
    """Return the agent as configured."""
    return HeadlessAgent(config, directory, _GeminiDriver, accepts_model=accepts_model)


class _GeminiDriver(HeadlessDriver):
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

    def prompt(self, text: str, directory: Path) -> str:
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
            is_stopped = match_ending(self._last_error) is SessionEnding.OUT_OF_TURNS
            self._ending = (SessionEnding.OUT_OF_TURNS if is_stopped else SessionEnding.FINISHED), ""
        else:
            self._ending = match_ending(words or self._last_error) or SessionEnding.MODEL_FAILED, error_message(words)
