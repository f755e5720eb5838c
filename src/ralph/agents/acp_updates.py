"""Parsing of Agent Client Protocol payloads: session options, stop reasons, errors, usage and updates.

Payloads are untrusted JSON: missing values and values of the wrong type are ignored.

"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from ralph.agents.programs import activity_line, model_error_phrase
from ralph.agents.streams import MessageBuffer, count_at, list_at, number_at, text_at, value_at
from ralph.core.records import SessionEnding, record
from ralph.core.text import clean, one_line

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from acp.exceptions import RequestError

INTERNAL_ERROR = -32603
"""JSON-RPC code for an internal error."""


# --- session options --------------------------------------------------------------


@record
class SessionOption:
    """A selectable option of a session: its mode or its model."""

    method: str
    option_id: str
    """Id of the config option; empty if the setting has its own method."""
    choices: dict[str, str]
    """Display name by value."""
    current: str

    def params(self, value: str) -> dict[str, str]:
        """Return the request parameters that select this value."""
        if self.option_id:
            return {"configId": self.option_id, "value": value}
        return {"modeId" if self.method == "session/set_mode" else "modelId": value}

    def find(self, name: str) -> str | None:
        """Return the offered value that matches by value or by name, or None."""
        for value in self.choices:
            if value.casefold() == name.casefold():
                return value
        return next((value for value, title in self.choices.items() if title.casefold() == name.casefold()), None)


def find_session_option(session: object, category: str, method: str) -> SessionOption:
    """Return how a new session lets its mode or model be selected."""
    for option in list_at(session, "configOptions"):
        if text_at(option, "category") == category or text_at(option, "id") == category:
            groups = list_at(option, "options")
            choices = [one for group in groups for one in (list_at(group, "options") or [group])]
            return SessionOption(
                method="session/set_config_option",
                option_id=text_at(option, "id"),
                choices=_names(choices, "value"),
                current=text_at(option, "currentValue"),
            )
    # Agents that predate config options list modes and models separately.
    kind = category.capitalize()
    return SessionOption(
        method=method,
        option_id="",
        choices=_names(
            list_at(session, f"{category}s", f"available{kind}s"), "modelId" if category == "model" else "id"
        ),
        current=text_at(session, f"{category}s", f"current{kind}Id"),
    )


def _names(choices: list[Any], key: str) -> dict[str, str]:
    return {text_at(one, key): text_at(one, "name") for one in choices if text_at(one, key)}


# --- endings -----------------------------------------------------------------------

_LIMIT_WORDS = re.compile(
    r"max(?:imum)?[_ -](?:output[_ -])?tokens?|output token (?:maximum|limit)|max(?:imum)?[_ -](?:number of )?turns"
    r"|maximum budget|max[_ -]budget",
    re.IGNORECASE,
)
_REFUSAL_WORDS = re.compile(r"\brefus(?:al|ed)\b|usage polic|content[_ ]filter|prohibited_content", re.IGNORECASE)
_API_ERROR_WORDS = re.compile(
    r"\bapi\b|\b[45]\d\d\b|http|rate.?limit|overload|quota|credit|billing|\bkey\b|auth|log ?in|credential|\bmodel\b"
    r"|network|connect|fetch failed|timed? ?out|server_error|unavailable|missing provider",
    re.IGNORECASE,
)
_NEEDS_LOGIN = -32000
_PROTOCOL_ERRORS = (-32700, -32600, -32601, -32602, -32002)


def ending_for_stop_reason(reason: str, name: str) -> tuple[SessionEnding, str]:
    """Return the ending and detail for a stop reason."""
    return {
        "end_turn": (SessionEnding.FINISHED, ""),
        "max_tokens": (SessionEnding.OUT_OF_TURNS, f"{name} stopped: the model reached its output token limit."),
        "max_turn_requests": (SessionEnding.OUT_OF_TURNS, f"{name} stopped: it reached its limit of model requests."),
        "refusal": (SessionEnding.REFUSED, f"{name} stopped: the model refused to continue."),
    }.get(reason, (SessionEnding.CRASHED, f"{name} canceled its turn without being asked to."))


def ending_for_error(error: RequestError, name: str) -> tuple[SessionEnding, str]:
    """Return the ending and detail for an error response."""
    message = error_text(error)
    description = f"{text_at(error.data, 'errorKind')} {message}"
    if error.code == _NEEDS_LOGIN:
        return SessionEnding.MODEL_FAILED, f"{name} is not logged in: {message}"
    if error.code in _PROTOCOL_ERRORS:
        return SessionEnding.CRASHED, f"{name} rejected a protocol message: {message}"
    if _LIMIT_WORDS.search(description):
        return SessionEnding.OUT_OF_TURNS, f"{name} stopped: {message}"
    if _REFUSAL_WORDS.search(description):
        return SessionEnding.REFUSED, f"{name} stopped: {message}"
    # Some agents use the HTTP status of the model API as the error code.
    if error.code > 0 or _API_ERROR_WORDS.search(description):
        return SessionEnding.MODEL_FAILED, f"{name} {model_error_phrase(description)}: {message}"
    return SessionEnding.CRASHED, f"{name} failed: {message}"


def error_text(error: RequestError) -> str:
    """Return an error's message as one line."""
    parts = [_unwrap(str(error)), text_at(error.data, "details"), text_at(error.data, "message")]
    if isinstance(error.data, str):
        parts.append(error.data)
    parts = [part for index, part in enumerate(parts) if part and part not in parts[:index]]
    return one_line(clean(": ".join(parts)), 400)


def _unwrap(message: str) -> str:
    """Return the message inside a JSON response of the model API that an agent passed through."""
    try:
        return text_at(json.loads(message), "error", "message") or message
    except (ValueError, RecursionError):
        return message


def reported_tokens(answer: object) -> tuple[int | None, int | None]:
    """Return input and output token counts where reported; cached tokens count as input."""
    usage = value_at(answer, "usage")
    tokens_in, tokens_out = count_at(usage, "inputTokens"), count_at(usage, "outputTokens")
    total = count_at(usage, "totalTokens")
    if tokens_in is not None and tokens_out is not None and total is not None:
        # Agents disagree whether the input includes cached tokens; the total counts them once.
        return max(tokens_in, total - tokens_out), tokens_out
    if tokens_in is not None or tokens_out is not None:
        return tokens_in, tokens_out
    quota = value_at(answer, "_meta", "quota", "token_count")
    return count_at(quota, "input_tokens"), count_at(quota, "output_tokens")


# --- session updates ---------------------------------------------------------------


class AcpUpdates:
    """Messages, tool calls and costs collected from session updates."""

    def __init__(self, on_output: Callable[[str], None]) -> None:
        self.session_id = ""
        self.is_cancelled = False
        self.cost_usd = 0.0
        self.tokens: tuple[int | None, int | None] = (None, None)
        """Input and output tokens that came with messages; most agents report them in their answer instead."""
        self.kinds: dict[str, str] = {}
        """Tool kind by tool call id."""
        self._on_output = on_output
        self._messages = MessageBuffer()
        self._chunks: list[str] = []
        self._message_id = ""
        self._titles: dict[str, str] = {}
        self._is_at_line_start = True

    def handle(self, params: object) -> None:
        """Process one session update."""
        if self.session_id and text_at(params, "sessionId") != self.session_id:
            return
        update = value_at(params, "update")
        kind = text_at(update, "sessionUpdate")
        if kind == "agent_message_chunk":
            self._add_chunk(update)
        elif kind in ("tool_call", "tool_call_update"):
            self._add_tool_call(update)
        elif kind == "usage_update" and text_at(update, "cost", "currency").upper() == "USD":
            self.cost_usd = number_at(update, "cost", "amount") or self.cost_usd

    def show_denied(self, title: str) -> None:
        """Show that a tool was denied."""
        self._start_new_line()
        self._emit(activity_line(f"not allowed: {title}"))

    def text(self) -> str:
        """Return all messages in order."""
        self._end_message()
        return self._messages.text()

    def _add_chunk(self, update: object) -> None:
        self._add_tokens(value_at(update, "_meta", "usage"))
        if value_at(update, "_meta", "claudeCode", "parentToolUseId"):
            return  # Messages of a subagent are not part of the reply.
        message_id, text = text_at(update, "messageId"), text_at(update, "content", "text")
        if message_id != self._message_id:
            self._end_message()
            self._message_id = message_id
        if text:
            self._chunks.append(text)
            self._emit(clean(text))

    def _add_tokens(self, usage: object) -> None:
        if isinstance(usage, dict):
            tokens_in, tokens_out = reported_tokens({"usage": usage})
            self.tokens = (self.tokens[0] or 0) + (tokens_in or 0), (self.tokens[1] or 0) + (tokens_out or 0)

    def _add_tool_call(self, update: object) -> None:
        call_id, kind, title = text_at(update, "toolCallId"), text_at(update, "kind"), text_at(update, "title")
        if kind:
            self.kinds[call_id] = kind
        if not self._message_id:
            self._end_message()
        if title and self._titles.get(call_id) != title:
            self._titles[call_id] = title
            self._start_new_line()
            self._emit(activity_line(title))

    def _end_message(self) -> None:
        if self._chunks:
            self._messages.add("".join(self._chunks))
            self._chunks = []
            self._start_new_line()

    def _start_new_line(self) -> None:
        if not self._is_at_line_start:
            self._emit("\n")

    def _emit(self, text: str) -> None:
        if text:
            self._is_at_line_start = text.endswith("\n")
            self._on_output(text)
