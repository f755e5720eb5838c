"""Codex, run as `codex exec --json`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ralph.agents.headless import HeadlessAgent, HeadlessDriver, error_message, match_ending
from ralph.agents.streams import count_at, text_at, value_at
from ralph.core.records import SessionEnding

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any, ClassVar

    from ralph.core.config import AgentConfig


def build(config: AgentConfig, directory: Path, *, accepts_model: bool) -> HeadlessAgent:
    """Return the agent as configured."""
    return HeadlessAgent(config, directory, _CodexDriver, accepts_model=accepts_model)


class _CodexDriver(HeadlessDriver):
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
            self._ending = match_ending(words) or SessionEnding.MODEL_FAILED, error_message(words)

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
