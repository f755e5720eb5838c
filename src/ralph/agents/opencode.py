"""opencode, run as `opencode run --format json`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ralph.agents.headless import HeadlessAgent, HeadlessDriver, error_message, match_ending
from ralph.agents.programs import describe_tool_call
from ralph.agents.streams import MAX_COUNT, count_at, number_at, text_at, value_at
from ralph.core.records import SessionEnding

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any, ClassVar

    from ralph.core.config import AgentConfig


def build(config: AgentConfig, directory: Path, *, accepts_model: bool) -> HeadlessAgent:
    """Return the agent as configured."""
    return HeadlessAgent(config, directory, _OpenCodeDriver, accepts_model=accepts_model)


_OPENCODE_READ_TOOLS = (
    *("read", "glob", "grep", "list", "lsp", "webfetch", "websearch"),
    *("todoread", "todowrite", "task", "skill"),
)


def opencode_variables(permissions: str) -> Mapping[str, str]:
    """Return the permission rules for opencode, which would end its turn if a request were denied."""
    rules = {"edit": {"bash": "deny"}, "read": {"*": "deny", **dict.fromkeys(_OPENCODE_READ_TOOLS, "allow")}}
    return {"OPENCODE_PERMISSION": json.dumps(rules[permissions])} if permissions in rules else {}


class _OpenCodeDriver(HeadlessDriver):
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
            ending = match_ending(f"{text_at(event, 'error', 'name')} {words}")
            self._ending = ending or SessionEnding.MODEL_FAILED, error_message(words)

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
