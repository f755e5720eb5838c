"""Read what an agent tells over the Agent Client Protocol: what its session offers, what it does, how it ended.

Everything is read with forgiveness, as JSON that may have any shape: a value that is not there is passed over.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from ralph.agents.programs import noted, without_model
from ralph.agents.streams import Said, at, count_at, list_at, number_at, text_at
from ralph.records import Ending, record
from ralph.text import clean, one_line

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from acp.exceptions import RequestError

INTERNAL = -32603


# --- what a session offers ---------------------------------------------------------


@record
class Setting:
    """Something about a session that can be chosen."""

    method: str
    option: str
    """The id of the option; empty where the setting has a method of its own."""
    offered: dict[str, str]
    """The name of each value."""
    current: str

    def params(self, value: str) -> dict[str, str]:
        """Give what has to be said to have this value."""
        if self.option:
            return {"configId": self.option, "value": value}
        return {"modeId" if self.method == "session/set_mode" else "modelId": value}

    def find(self, wanted: str) -> str | None:
        """Give the value that is meant: by itself, or else by its name."""
        for value in self.offered:
            if value.casefold() == wanted.casefold():
                return value
        return next((value for value, name in self.offered.items() if name.casefold() == wanted.casefold()), None)


def setting_in(session: object, what: str, method: str) -> Setting:
    """Give how a new session lets its mode or its model be chosen."""
    for option in list_at(session, "configOptions"):
        if text_at(option, "category") == what or text_at(option, "id") == what:
            groups = list_at(option, "options")
            choices = [one for group in groups for one in (list_at(group, "options") or [group])]
            return Setting(
                method="session/set_config_option",
                option=text_at(option, "id"),
                offered=_names(choices, "value"),
                current=text_at(option, "currentValue"),
            )
    # As it was before there were options; agents of that age are still about.
    kind = what.capitalize()
    return Setting(
        method=method,
        option="",
        offered=_names(list_at(session, f"{what}s", f"available{kind}s"), "modelId" if what == "model" else "id"),
        current=text_at(session, f"{what}s", f"current{kind}Id"),
    )


def _names(choices: list[Any], key: str) -> dict[str, str]:
    return {text_at(one, key): text_at(one, "name") for one in choices if text_at(one, key)}


# --- how it ended ------------------------------------------------------------------

_LIMIT_WORDS = re.compile(
    r"max(?:imum)?[_ -](?:output[_ -])?tokens?|output token (?:maximum|limit)|max(?:imum)?[_ -](?:number of )?turns"
    r"|maximum budget|max[_ -]budget",
    re.IGNORECASE,
)
_REFUSAL_WORDS = re.compile(r"\brefus(?:al|ed)\b|usage polic|content[_ ]filter|prohibited_content", re.IGNORECASE)
_SERVICE_WORDS = re.compile(
    r"\bapi\b|\b[45]\d\d\b|http|rate.?limit|overload|quota|credit|billing|\bkey\b|auth|log ?in|credential|\bmodel\b"
    r"|network|connect|fetch failed|timed? ?out|server_error|unavailable",
    re.IGNORECASE,
)
_NEEDS_LOGIN = -32000
_PROTOCOL_FAULTS = (-32700, -32600, -32601, -32602, -32002)


def ending_of_stop(reason: str, name: str) -> tuple[Ending, str]:
    """Give the ending that a stop reason stands for."""
    return {
        "end_turn": (Ending.FINISHED, ""),
        "max_tokens": (Ending.OUT_OF_TURNS, f"{name} stopped: its model may say no more than it said."),
        "max_turn_requests": (Ending.OUT_OF_TURNS, f"{name} stopped: it has asked its model as often as it may."),
        "refusal": (Ending.REFUSED, f"{name} stopped: its model refuses to go on."),
    }.get(reason, (Ending.CRASHED, f"{name} gave up its turn, though nobody asked it to."))


def ending_of_error(error: RequestError, name: str) -> tuple[Ending, str]:
    """Give the ending that an error answer stands for."""
    why = words_of(error)
    shape = f"{text_at(error.data, 'errorKind')} {why}"
    if error.code == _NEEDS_LOGIN:
        return Ending.MODEL_FAILED, f"{name} is not logged in: start it once by hand and log in, or set its key. {why}"
    if error.code in _PROTOCOL_FAULTS:
        return Ending.CRASHED, f"{name} does not understand Ralph: {why}"
    if _LIMIT_WORDS.search(shape):
        return Ending.OUT_OF_TURNS, f"{name} stopped: {why}"
    if _REFUSAL_WORDS.search(shape):
        return Ending.REFUSED, f"{name} stopped: {why}"
    # Some pass on the status that the service answered with.
    if error.code > 0 or _SERVICE_WORDS.search(shape):
        return Ending.MODEL_FAILED, f"{name} {without_model(shape)}: {why}"
    return Ending.CRASHED, f"{name} failed: {why}"


def words_of(error: RequestError) -> str:
    """Give what an error says, in one line."""
    parts = [_unwrapped(str(error)), text_at(error.data, "details"), text_at(error.data, "message")]
    if isinstance(error.data, str):
        parts.append(error.data)
    parts = [part for index, part in enumerate(parts) if part and part not in parts[:index]]
    return one_line(clean(": ".join(parts)), 400)


def _unwrapped(message: str) -> str:
    """Give what an answer of the service says, where an agent passes it on as it came."""
    try:
        return text_at(json.loads(message), "error", "message") or message
    except (ValueError, RecursionError):
        return message


def tokens_told(answer: object) -> tuple[int | None, int | None]:
    """Give how many tokens went in and came out, where an agent tells; what was cached went in too."""
    usage = at(answer, "usage")
    tokens_in, tokens_out = count_at(usage, "inputTokens"), count_at(usage, "outputTokens")
    total = count_at(usage, "totalTokens")
    if tokens_in is not None and tokens_out is not None and total is not None:
        # Some count what was cached among the input, some beside it; the total has it once.
        return max(tokens_in, total - tokens_out), tokens_out
    if tokens_in is not None or tokens_out is not None:
        return tokens_in, tokens_out
    quota = at(answer, "_meta", "quota", "token_count")
    return count_at(quota, "input_tokens"), count_at(quota, "output_tokens")


# --- what is heard -----------------------------------------------------------------


class Heard:
    """What the agent tells while it works."""

    def __init__(self, heard: Callable[[str], None]) -> None:
        self.session_id = ""
        self.is_cancelled = False
        self.cost_usd = 0.0
        self.kinds: dict[str, str] = {}
        """The kind of each tool that is used, by the id of the call."""
        self._heard = heard
        self._said = Said()
        self._message: list[str] = []
        self._message_id = ""
        self._titles: dict[str, str] = {}
        self._ends_a_line = True

    def update(self, params: object) -> None:
        """Take one update of a session."""
        if self.session_id and text_at(params, "sessionId") != self.session_id:
            return
        update = at(params, "update")
        kind = text_at(update, "sessionUpdate")
        if kind == "agent_message_chunk":
            self._chunk(update)
        elif kind in ("tool_call", "tool_call_update"):
            self._tool(update)
        elif kind == "usage_update" and text_at(update, "cost", "currency").upper() == "USD":
            self.cost_usd = number_at(update, "cost", "amount") or self.cost_usd

    def denied(self, title: str) -> None:
        """Tell that a tool was not allowed."""
        self._on_a_new_line()
        self._tell(noted(f"not allowed: {title}"))

    def text(self) -> str:
        """Give all messages in order."""
        self._end_message()
        return self._said.text()

    def _chunk(self, update: object) -> None:
        if at(update, "_meta", "claudeCode", "parentToolUseId"):
            return  # An agent of its own: what that one says is no answer to us.
        message_id, text = text_at(update, "messageId"), text_at(update, "content", "text")
        if message_id != self._message_id:
            self._end_message()
            self._message_id = message_id
        if text:
            self._message.append(text)
            self._tell(clean(text))

    def _tool(self, update: object) -> None:
        call_id, kind, title = text_at(update, "toolCallId"), text_at(update, "kind"), text_at(update, "title")
        if kind:
            self.kinds[call_id] = kind
        if not self._message_id:
            self._end_message()
        if title and self._titles.get(call_id) != title:
            self._titles[call_id] = title
            self._on_a_new_line()
            self._tell(noted(title))

    def _end_message(self) -> None:
        if self._message:
            self._said.add("".join(self._message))
            self._message = []
            self._on_a_new_line()

    def _on_a_new_line(self) -> None:
        if not self._ends_a_line:
            self._tell("\n")

    def _tell(self, text: str) -> None:
        if text:
            self._ends_a_line = text.endswith("\n")
            self._heard(text)
