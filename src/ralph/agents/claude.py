"""Claude Code in headless mode: the prompt goes to stdin, stream-json events come from stdout.

How a session ended is read from its last result event, never from the exit code, which is 0 after an interrupt too.
Within that event `subtype` alone is not enough: it is `success` even when the API failed.

"""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING

from ralph.agents.headless import HeadlessAgent, HeadlessDriver
from ralph.agents.programs import describe_tool_call, first_line, model_error_phrase, strip_period
from ralph.agents.streams import count_at, list_at, number_at, text_at, value_at
from ralph.core.records import SessionEnding
from ralph.core.text import clean, one_line, sanitize

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from typing import Any

    from ralph.agents.supervisor.process import ProcessResult
    from ralph.core.config import AgentConfig

MIN_VERSION = (2, 0, 0)
"""Oldest release whose events contain everything that is read here."""
LOGIN_ERROR_STATUSES = (401, 403)
"""HTTP statuses that no retry will change; Claude Code would retry for minutes."""
SILENCE_AFTER_RESULT_SECONDS = 30.0
"""Time the program may stay silent after its result before it is terminated, in seconds."""
STREAM_OPTIONS = ("-p", "--output-format", "stream-json", "--verbose")

# Tools allowed without asking and tools denied; anything in neither list depends on the user's settings.
_READ_TOOLS = ("Read", "Grep", "Glob", "LS", "NotebookRead", "WebFetch", "WebSearch", "TodoWrite", "Task")
_EDIT_TOOLS = ("Edit", "MultiEdit", "Write", "NotebookEdit")
_EXECUTE_TOOLS = ("Bash", "BashOutput", "KillShell", "PowerShell", "Monitor", "Workflow")
_ALWAYS_DENIED = ("AskUserQuestion", "CronCreate", "ScheduleWakeup")
"""Nobody is there to answer, and a session that waits for an alarm never ends."""
_ALLOWED = {
    "all": (*_READ_TOOLS, *_EDIT_TOOLS, *_EXECUTE_TOOLS, "Skill"),
    "edit": (*_READ_TOOLS, *_EDIT_TOOLS),
    "read": _READ_TOOLS,
}
_DENIED = {
    "all": _ALWAYS_DENIED,
    "edit": (*_ALWAYS_DENIED, *_EXECUTE_TOOLS),
    "read": (*_ALWAYS_DENIED, *_EXECUTE_TOOLS, *_EDIT_TOOLS, "EnterWorktree"),
}
_UNATTENDED = {
    # Otherwise it waits at the end for background tasks, including servers, until a limit stops it.
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
    # Otherwise any file mentioned with @ in the prompt is sent to the model, regardless of permissions.
    "CLAUDE_CODE_DISABLE_FILE_MENTIONS": "1",
}
"""Default variables for an unattended session; the user's own values take precedence."""
_MENTION = re.compile(r"(?<!\S)@(?=\"([^\"\n]{1,500})\"|(\S{0,500}\w))")

# Values of `terminal_reason`, `subtype` or `api_error` in any release.
_LIMIT_REASONS = (
    *("max_turns", "budget_exhausted", "prompt_too_long", "blocking_limit", "rapid_refill_breaker"),
    *("error_max_turns", "error_max_budget_usd", "max_output_tokens", "request_too_large"),
)
_ABORT_REASONS = ("aborted_tools", "aborted_streaming")
_MAX_REMEMBERED = 200
"""Maximum number of messages, and of blocks per message, remembered to detect repeats."""


def build(config: AgentConfig, directory: Path, *, accepts_model: bool) -> HeadlessAgent:
    """Return Claude Code as configured."""
    return HeadlessAgent(config, directory, _ClaudeDriver, accepts_model=accepts_model)


def claude_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of an unattended session."""
    # With CLAUDECODE set, some releases refuse to start because they take this for a nested session.
    return {name: value for name, value in {**_UNATTENDED, **variables}.items() if name != "CLAUDECODE"}


def strip_file_mentions(prompt: str, directory: Path) -> str:
    """Return the prompt with existing files named instead of mentioned: `a.txt` for `@a.txt`.

    Older releases would attach the content of mentioned files.

    """

    def drop(match: re.Match[str]) -> str:
        path = os.path.expanduser((match[1] or match[2]).partition("#")[0])  # noqa: PTH111
        return "" if os.path.exists(os.path.join(directory, path)) else "@"  # noqa: PTH110, PTH118

    return _MENTION.sub(drop, prompt)


# --- events --------------------------------------------------------------------------


class _ClaudeDriver(HeadlessDriver):
    """Arguments of a session, and what its events tell."""

    title = "Claude Code"
    package = "@anthropic-ai/claude-code"
    min_version = MIN_VERSION

    def __init__(self, on_output: Callable[[str], None]) -> None:
        super().__init__(on_output)
        self._result: dict[str, Any] | None = None
        self._reported_turns: int | None = None
        self._messages = 0
        self._seen: dict[str, set[int]] = {}
        """Hashes of blocks by message id, for the latest messages."""
        self._token_totals = [0, 0]
        """Input and output tokens summed over messages, for sessions without a result event."""
        self._notice = ""
        """Last text from the program itself instead of the model, usually an error."""
        self._stop_reason = ""
        self._last_output_at = 0.0
        self._login_error = ""
        """Why the API will never accept this login."""
        self._is_terminated_by_us = False
        """Whether we terminated it because there was nothing to wait for."""
        self._is_refused = False
        """Whether the model refused and has written nothing since."""

    def arguments(self, permissions: str, model: str) -> list[str]:
        allowed, denied = ",".join(_ALLOWED[permissions]), ",".join(_DENIED[permissions])
        # The user's own default mode may be plan mode or bypass. `acceptEdits` would block some commands.
        tools = ["--allowedTools", allowed, "--disallowedTools", denied, "--permission-mode", "default"]
        return [*STREAM_OPTIONS, *tools, *(["--model", model] if model else [])]

    def cost_arguments(self, max_cost_usd: float) -> list[str]:
        return ["--max-budget-usd", f"{max_cost_usd:.6f}"]

    def environment(self, variables: dict[str, str]) -> dict[str, str]:
        return claude_environment(variables)

    def prompt(self, text: str, directory: Path) -> str:
        return strip_file_mentions(text, directory)

    def add(self, text: str) -> None:
        self._last_output_at = time.monotonic()
        super().add(text)

    def finish(self) -> None:
        super().finish()
        self.turns = self._reported_turns if self._reported_turns is not None else self._messages or None

    def handle(self, event: dict[str, Any]) -> None:
        self.session = one_line(clean(text_at(event, "session_id"))) or self.session
        if text_at(event, "refused_message_id") and not value_at(event, "parent_tool_use_id"):
            self._is_refused = True
        kind, subtype = text_at(event, "type"), text_at(event, "subtype")
        if kind == "assistant":
            self._handle_message(event)
        elif kind == "result":
            self._handle_result(event)
        elif kind == "system" and subtype == "init":
            self._result = None  # A background task ended, and the session continues.
        elif kind == "system" and subtype == "api_retry":
            self._handle_retry(event)
        elif kind == "rate_limit_event":
            self._handle_usage_limit(value_at(event, "rate_limit_info"))
        elif kind == "system" and subtype == "permission_denied":
            self.note(f"{text_at(event, 'tool_name') or 'a tool'} was denied")

    def _handle_retry(self, event: dict[str, Any]) -> None:
        status, error = count_at(event, "error_status"), one_line(sanitize(text_at(event, "error")[:2000]), 60)
        problem = " ".join(filter(None, [str(status or ""), error])) or "no answer"
        attempt, limit = count_at(event, "attempt"), count_at(event, "max_retries")
        self.note(f"API error: {problem}{f', attempt {attempt} of {limit}' if attempt and limit else ''}")
        if status in LOGIN_ERROR_STATUSES:
            self._login_error = problem

    def _handle_usage_limit(self, limit: object) -> None:
        """Record when a limit resets; with paid overage, a session goes on beyond a limit that rejects."""
        is_limit = text_at(limit, "status") == "rejected" and value_at(limit, "isUsingOverage") is not True
        self.next_reset = number_at(limit, "resetsAt")
        self.resets_at = self.next_reset if is_limit else None

    def is_over(self) -> bool:
        is_silent = self._result is not None and time.monotonic() - self._last_output_at > SILENCE_AFTER_RESULT_SECONDS
        self._is_terminated_by_us = bool(self._login_error) or is_silent
        return self._is_terminated_by_us

    def _handle_message(self, event: dict[str, Any]) -> None:
        message = value_at(event, "message")
        is_from_program = value_at(event, "is_api_error_message") is True or text_at(message, "model") == "<synthetic>"
        seen = self._seen_hashes(text_at(message, "id"), message, is_from_program=is_from_program)
        if value_at(event, "parent_tool_use_id"):
            return  # Messages of subagents are not part of the reply.
        self._result = None
        if not is_from_program:
            if not seen:
                self._messages += 1
                self._stop_reason = ""
            self._stop_reason = text_at(message, "stop_reason") or self._stop_reason
        for block in _blocks(message):
            kind = text_at(block, "type")
            block_hash = hash((kind, text_at(block, "text"), text_at(block, "id")))
            if block_hash in seen:
                continue
            if len(seen) < _MAX_REMEMBERED:
                seen.add(block_hash)
            if kind == "text" and is_from_program:
                self._notice = text_at(block, "text")
                self.note(self._notice)
            elif kind == "text":
                self._add_message(text_at(block, "text"), text_at(message, "stop_reason"))
            elif kind == "tool_use":
                self.note(f"{text_at(block, 'name')} {describe_tool_call(value_at(block, 'input'))}")

    def _seen_hashes(self, id: str, message: object, *, is_from_program: bool) -> set[int]:
        """Return hashes of the blocks already read of this message; count its tokens the first time."""
        if id and id in self._seen:
            return self._seen[id]
        seen: set[int] = set()
        if id:
            self._seen[id] = seen
            if len(self._seen) > _MAX_REMEMBERED:
                del self._seen[next(iter(self._seen))]
        if not is_from_program and isinstance(value_at(message, "usage"), dict):
            self._token_totals[0] += _input_tokens(value_at(message, "usage"))
            self._token_totals[1] += count_at(message, "usage", "output_tokens") or 0
            self._raise_token_counts(*self._token_totals)
        return seen

    def _add_message(self, text: str, stop_reason: str) -> None:
        if self.add_message(text):
            self._is_refused = stop_reason == "refusal"

    def _handle_result(self, event: dict[str, Any]) -> None:
        self._result = event
        # Turns count from the previous result; cost and tokens per model cover the whole session.
        turns = count_at(event, "num_turns")
        if turns is not None:
            self._reported_turns = (self._reported_turns or 0) + turns
        self.cost_usd = max(self.cost_usd, number_at(event, "total_cost_usd") or 0.0)
        usage, by_model = value_at(event, "usage"), value_at(event, "modelUsage")
        if isinstance(usage, dict):
            self._raise_token_counts(_input_tokens(usage), count_at(usage, "output_tokens") or 0)
        if isinstance(by_model, dict) and by_model:
            self._raise_token_counts(
                sum(_input_tokens(one) for one in by_model.values()),
                sum(count_at(one, "outputTokens") or 0 for one in by_model.values()),
            )

    def _raise_token_counts(self, tokens_in: int, tokens_out: int) -> None:
        """Keep the larger counts: no source overstates usage, and some report only part of it."""
        self.tokens_in = max(self.tokens_in or 0, tokens_in)
        self.tokens_out = max(self.tokens_out or 0, tokens_out)

    def ending(self, name: str, ended: ProcessResult) -> tuple[SessionEnding, str]:
        if ended.ending is SessionEnding.STOPPED and self._is_terminated_by_us:
            if self._result is None:
                return SessionEnding.MODEL_FAILED, f"{name} could not use its model: {self._login_error}"
        elif ended.ending not in (SessionEnding.FINISHED, SessionEnding.CRASHED):
            return ended.ending, ended.detail
        if self._result is None:
            return SessionEnding.CRASHED, self._describe_missing_result(name, ended)
        ending, phrase = self._classify(self._result, ended)
        if ending is SessionEnding.FINISHED:
            return ending, ended.detail if ended.ending is SessionEnding.FINISHED else ""
        explanation = first_line(self._explanation()) or one_line(clean(text_at(self._result, "subtype")))
        return ending, f"{name} {phrase}: {explanation}" if explanation not in ("", "success") else f"{name} {phrase}."

    def _describe_missing_result(self, name: str, ended: ProcessResult) -> str:
        detail = ended.detail or f"{name} stopped early: it gave no result."
        message = first_line(self._notice) or sanitize(self._lines.last_skipped)
        return (
            f"{strip_period(detail)}; its last output was: {message}" if message and message not in detail else detail
        )

    def _classify(self, result: dict[str, Any], ended: ProcessResult) -> tuple[SessionEnding, str]:
        subtype, reason, error = (text_at(result, key) for key in ("subtype", "terminal_reason", "api_error"))
        is_error = value_at(result, "is_error")
        if not isinstance(is_error, bool):
            is_error = subtype != "success" or ended.exit_code != 0
        reasons = {subtype, reason, error, text_at(result, "api_error_type")}
        # Older releases report the turn limit in the subtype only.
        if not is_error and not subtype.startswith("error"):
            if self._is_refused or (count_at(result, "safety_stops") and not self.messages.text()):
                return SessionEnding.REFUSED, "was refused by the model"
            return SessionEnding.FINISHED, ""
        if text_at(result, "stop_reason") == "refusal" or self._stop_reason == "refusal":
            return SessionEnding.REFUSED, "was refused by the model"
        if (
            reasons & set(_LIMIT_REASONS)
            or self._stop_reason == "max_tokens"
            or self._explanation().startswith("Prompt is too long")
        ):
            return SessionEnding.OUT_OF_TURNS, "reached a limit"
        if reasons & set(_ABORT_REASONS):
            return SessionEnding.CRASHED, "was interrupted"
        if subtype == "success" or reason in ("api_error", "model_error"):
            is_answered = value_at(result, "api_error_status") is not None
            return SessionEnding.MODEL_FAILED, model_error_phrase(
                "" if is_answered else f"{error} {self._explanation()}"
            )
        return SessionEnding.CRASHED, "ended with an error"

    def _explanation(self) -> str:
        """Return the program's own explanation of the ending."""
        result = self._result
        errors = [one for one in list_at(result, "errors") if isinstance(one, str)]
        return text_at(result, "result").strip() or "; ".join(errors[:3]).strip() or self._notice


def _blocks(message: object) -> list[Any]:
    content = value_at(message, "content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else list_at(message, "content")


def _input_tokens(usage: object) -> int:
    """Return all tokens the model read, cached or not, in either of the two naming schemes."""
    return sum(
        count_at(usage, key) or 0
        for key in (
            *("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"),
            *("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens"),
        )
    )
