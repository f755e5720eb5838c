"""A model for real agent programs: it plays a script over HTTP, on this machine alone.

A test writes down what the model answers, in order, whatever wire the agent speaks:

    model.play(
        calls("Write", {"file_path": "a.txt", "content": "x"}),         # a tool call
        says("Written."),                                                # the last word
        says("Yes.", when="Is it true?"),    # only for a conversation that holds these words
        fails(429, "Slow down.", headers={"retry-after": "1"}, repeat=True),
        refuses(), hangs(), Step(text="cut", stop="length"), Step(text="half", drop_after=200),
    )

A request is answered by the first step not yet used whose `when` is in the conversation, or is empty; a step with
`repeat` is never used up. Requests without tools (titles, probes) get a harmless answer and use no step but one
marked `aside`. What was received is in `model.requests`: `request.text`, `request.last`, `request.has("words")`,
`request.tools`, `request.body`. The `model` fixture fails the test on steps that were not used and on requests
that no step was for.

Wires: Anthropic messages, Gemini generateContent, OpenAI responses and chat completions; streams and whole answers.
"""

from __future__ import annotations

import json
import math
import re
import socket
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

from ralph.core.records import record

Json = dict[str, Any]

END, TOOLS, LENGTH, REFUSAL = "end", "tools", "length", "refusal"


# --- the script ----------------------------------------------------------------------


@record
class Call:
    """A tool that the model wants used."""

    name: str
    arguments: Mapping[str, Any]


@record
class Step:
    """One answer of the model, in the words of no wire."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    stop: str = ""
    """end, tools, length or refusal; empty: as the calls have it."""
    tokens_in: int = 100
    tokens_out: int = 20

    when: str = ""
    """Only for a conversation that holds these words; empty for any."""
    repeat: bool = False
    """It answers as often as it is asked, at least once."""
    aside: bool = False
    """For a request without tools, and for no other."""

    status: int = 200
    error: str = ""
    """What the service says is wrong, for a status that is not 200."""
    headers: Mapping[str, str] = {}
    stream_error: str = ""
    """The stream breaks off with this error after the text."""
    hang_seconds: float = 0.0
    """Nothing at all comes before that."""
    drop_after: int | None = None
    """The connection is cut after so many bytes of the body."""
    stall_after: int | None = None
    """After so many bytes of the body nothing more comes, and the connection stays open."""

    @property
    def stopped(self) -> str:
        """Why the model stopped."""
        return self.stop or (TOOLS if self.calls else END)


def says(text: str, **more: Any) -> Step:
    """Give a step that is text and nothing else."""
    return Step(text=text, **more)


def calls(name: str, arguments: Mapping[str, Any], **more: Any) -> Step:
    """Give a step that has one tool used."""
    return Step(calls=(Call(name=name, arguments=arguments),), **more)


def fails(status: int, error: str = "The service failed.", **more: Any) -> Step:
    """Give a step in which the service fails."""
    return Step(status=status, error=error, **more)


def refuses(text: str = "", **more: Any) -> Step:
    """Give a step in which the model refuses to go on."""
    return Step(text=text, stop=REFUSAL, **more)


def hangs(**more: Any) -> Step:
    """Give a step that never answers, as often as it is asked."""
    return Step(**{"hang_seconds": math.inf, "repeat": True, **more})


# --- what was received ---------------------------------------------------------------

# Where a conversation is in a request, over all wires, and what in it is not words.
_CONVERSATION = ("system", "instructions", "systemInstruction", "messages", "input", "contents")
_NOT_WORDS = ("type", "role", "id", "tool_use_id", "call_id", "tool_call_id", "signature", "encrypted_content", "data")


class Request:
    """One request that an agent sent."""

    def __init__(self, path: str, headers: Mapping[str, str], body: Json) -> None:
        self.path = path
        self.headers = headers
        self.body = body
        self.text = "\n".join(word for part in _CONVERSATION for word in _words(body.get(part)))
        """All text of the conversation, with what the system said first."""
        turns = body.get("messages") or body.get("contents") or body.get("input")
        self.last = "\n".join(_words(turns[-1] if isinstance(turns, list) else turns))
        """The text of its last turn: what was asked, or what a tool gave back."""
        self.tools = tuple(_tool_names(body.get("tools")))

    def has(self, *words: str) -> bool:
        """Say whether all of these are in the conversation."""
        return all(one in self.text for one in words)

    def __repr__(self) -> str:
        return f"<{self.path} {len(self.tools)} tools: …{self.last[-300:]!r}>"


def _words(part: object) -> Iterator[str]:
    """Give the strings in a piece of JSON that somebody said."""
    if isinstance(part, str):
        yield part
    elif isinstance(part, list):
        for one in part:
            yield from _words(one)
    elif isinstance(part, dict):
        for name, one in part.items():
            if name not in _NOT_WORDS or not isinstance(one, str):
                yield from _words(one)


def _tool_names(tools: object) -> Iterator[str]:
    for tool in tools if isinstance(tools, list) else []:
        if "functionDeclarations" in tool:
            yield from _tool_names(tool["functionDeclarations"])
        else:
            yield str(tool.get("name") or tool.get("function", {}).get("name") or tool.get("type"))


# --- the wires -----------------------------------------------------------------------


class Wire(Protocol):
    """How one kind of service says what a step holds."""

    def whole(self, step: Step, number: int) -> Json:
        """Give the answer in one piece."""

    def events(self, step: Step, number: int) -> list[str]:
        """Give the answer as the events of a stream."""

    def failure(self, status: int, error: str) -> Json:
        """Give the body of an answer that is an error."""


def _event(content: Json, name: str = "") -> str:
    return (f"event: {name}\n" if name else "") + f"data: {json.dumps(content)}\n\n"


def _halves(text: str) -> list[str]:
    """Give a text in two pieces, as streams come in pieces."""
    middle = len(text) // 2
    return [half for half in (text[:middle], text[middle:]) if half]


class Anthropic:
    """POST /v1/messages"""

    STOPS: Mapping[str, str] = {END: "end_turn", TOOLS: "tool_use", LENGTH: "max_tokens", REFUSAL: "refusal"}
    ERRORS: Mapping[int, str] = {
        400: "invalid_request_error",
        401: "authentication_error",
        403: "permission_error",
        404: "not_found_error",
        413: "request_too_large",
        429: "rate_limit_error",
        529: "overloaded_error",
    }

    def whole(self, step: Step, number: int) -> Json:
        texts: list[Json] = [{"type": "text", "text": step.text}] if step.text else []
        uses: list[Json] = [
            {"type": "tool_use", "id": f"toolu_{number}_{index}", "name": call.name, "input": dict(call.arguments)}
            for index, call in enumerate(step.calls)
        ]
        return {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "model": "scripted",
            "content": texts + uses,
            "stop_reason": self.STOPS[step.stopped],
            "stop_sequence": None,
            "usage": {"input_tokens": step.tokens_in, "output_tokens": step.tokens_out},
        }

    def events(self, step: Step, number: int) -> list[str]:
        message = self.whole(step, number)
        blocks: list[Json] = message["content"]
        start = {**message, "content": [], "stop_reason": None, "usage": {**message["usage"], "output_tokens": 1}}
        parts: list[Json] = [{"type": "message_start", "message": start}]
        for index, block in enumerate(blocks):
            if block["type"] == "text":
                empty: Json = {"type": "text", "text": ""}
                deltas: list[Json] = [{"type": "text_delta", "text": half} for half in _halves(block["text"])]
            else:
                empty = {**block, "input": {}}
                halves = _halves(json.dumps(block["input"]))
                deltas = [{"type": "input_json_delta", "partial_json": half} for half in halves]
            parts.append({"type": "content_block_start", "index": index, "content_block": empty})
            parts += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
            parts.append({"type": "content_block_stop", "index": index})
        if step.stream_error:
            parts.append(self.failure(529, step.stream_error))
        else:
            end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
            parts.append({"type": "message_delta", "delta": end, "usage": {"output_tokens": step.tokens_out}})
            parts.append({"type": "message_stop"})
        return [_event(part, part["type"]) for part in parts]

    def failure(self, status: int, error: str) -> Json:
        return {"type": "error", "error": {"type": self.ERRORS.get(status, "api_error"), "message": error}}


class Gemini:
    """POST /v1beta/models/NAME:generateContent and :streamGenerateContent"""

    STOPS: Mapping[str, str] = {END: "STOP", TOOLS: "STOP", LENGTH: "MAX_TOKENS", REFUSAL: "SAFETY"}
    ERRORS: Mapping[int, str] = {
        400: "INVALID_ARGUMENT",
        401: "UNAUTHENTICATED",
        403: "PERMISSION_DENIED",
        404: "NOT_FOUND",
        429: "RESOURCE_EXHAUSTED",
        503: "UNAVAILABLE",
    }

    def whole(self, step: Step, number: int) -> Json:
        texts: list[Json] = [{"text": step.text}] if step.text else []
        return self._answer(texts + self._uses(step), step, self.STOPS[step.stopped])

    def events(self, step: Step, number: int) -> list[str]:
        parts = [self._answer([{"text": half}], step, None) for half in _halves(step.text)]
        if step.stream_error:
            parts.append(self.failure(503, step.stream_error))
        else:
            parts.append(self._answer(self._uses(step), step, self.STOPS[step.stopped]))
        return [_event(part) for part in parts]

    def failure(self, status: int, error: str) -> Json:
        return {"error": {"code": status, "message": error, "status": self.ERRORS.get(status, "INTERNAL")}}

    def _uses(self, step: Step) -> list[Json]:
        return [{"functionCall": {"name": call.name, "args": dict(call.arguments)}} for call in step.calls]

    def _answer(self, parts: list[Json], step: Step, finish: str | None) -> Json:
        candidate: Json = {"index": 0, "content": {"role": "model", "parts": parts}}
        return {
            "candidates": [{**candidate, "finishReason": finish} if finish else candidate],
            "usageMetadata": {
                "promptTokenCount": step.tokens_in,
                "candidatesTokenCount": step.tokens_out,
                "totalTokenCount": step.tokens_in + step.tokens_out,
            },
            "modelVersion": "scripted",
        }


class Responses:
    """POST /v1/responses"""

    def whole(self, step: Step, number: int) -> Json:
        answer = self._begun(number)
        answer["output"] = self._items(step, number)
        answer["usage"] = {
            "input_tokens": step.tokens_in,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": step.tokens_out,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": step.tokens_in + step.tokens_out,
        }
        if step.stream_error:
            error = {"code": "server_error", "message": step.stream_error}
            return {**answer, "status": "failed", "error": error}
        if step.stopped == LENGTH:
            return {**answer, "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
        return {**answer, "status": "completed"}

    def events(self, step: Step, number: int) -> list[str]:
        answer = self.whole(step, number)
        parts: list[Json] = [{"type": "response.created", "response": self._begun(number)}]
        for index, item in enumerate(answer["output"]):
            place = {"output_index": index, "item_id": item["id"]}
            empty = {**item, "content": []} if item["type"] == "message" else {**item, "arguments": ""}
            parts.append({"type": "response.output_item.added", "output_index": index, "item": empty})
            if item["type"] == "message":
                halves, kind = _halves(step.text), "response.output_text.delta"
            else:
                halves, kind = _halves(item["arguments"]), "response.function_call_arguments.delta"
            parts += [{"type": kind, **place, "content_index": 0, "delta": half} for half in halves]
            parts.append({"type": "response.output_item.done", "output_index": index, "item": item})
        parts.append({"type": f"response.{answer['status']}", "response": answer})
        return [_event({**part, "sequence_number": index}, part["type"]) for index, part in enumerate(parts)]

    def failure(self, status: int, error: str) -> Json:
        return {"error": {"type": "error", "code": str(status), "message": error, "param": None}}

    def _begun(self, number: int) -> Json:
        return {
            "id": f"resp_{number}",
            "object": "response",
            "created_at": 1,
            "status": "in_progress",
            "model": "scripted",
            "output": [],
        }

    def _items(self, step: Step, number: int) -> list[Json]:
        items: list[Json] = []
        if step.text or step.stopped == REFUSAL:
            content: Json = {"type": "output_text", "text": step.text, "annotations": []}
            if step.stopped == REFUSAL:
                content = {"type": "refusal", "refusal": step.text}
            items.append({"type": "message", "role": "assistant", "status": "completed", "content": [content]})
        for index, call in enumerate(step.calls):
            made = {"call_id": f"call_{number}_{index}", "name": call.name, "arguments": json.dumps(call.arguments)}
            items.append({"type": "function_call", "status": "completed", **made})
        return [{"id": f"item_{number}_{index}", **item} for index, item in enumerate(items)]


class Chat:
    """POST /v1/chat/completions"""

    STOPS: Mapping[str, str] = {END: "stop", TOOLS: "tool_calls", LENGTH: "length", REFUSAL: "content_filter"}

    def whole(self, step: Step, number: int) -> Json:
        message: Json = {"role": "assistant", "content": step.text or None}
        if step.calls:
            message["tool_calls"] = self._uses(step, number)
        choice = {"index": 0, "message": message, "finish_reason": self.STOPS[step.stopped]}
        return {**self._head(number, "chat.completion"), "choices": [choice], "usage": self._usage(step)}

    def events(self, step: Step, number: int) -> list[str]:
        deltas: list[Json] = [{"role": "assistant", "content": half} for half in _halves(step.text)]
        deltas += [{"tool_calls": [{"index": index, **use}]} for index, use in enumerate(self._uses(step, number))]
        head = self._head(number, "chat.completion.chunk")
        parts: list[Json] = [
            {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas
        ]
        if step.stream_error:
            return [_event(part) for part in [*parts, self.failure(500, step.stream_error)]]
        end = {"index": 0, "delta": {}, "finish_reason": self.STOPS[step.stopped]}
        parts.append({**head, "choices": [end], "usage": self._usage(step)})
        return [*map(_event, parts), "data: [DONE]\n\n"]

    def failure(self, status: int, error: str) -> Json:
        return {"error": {"type": "error", "code": str(status), "message": error, "param": None}}

    def _head(self, number: int, kind: str) -> Json:
        return {"id": f"chat_{number}", "object": kind, "created": 1, "model": "scripted"}

    def _uses(self, step: Step, number: int) -> list[Json]:
        return [
            {
                "id": f"call_{number}_{index}",
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
            }
            for index, call in enumerate(step.calls)
        ]

    def _usage(self, step: Step) -> Json:
        total = step.tokens_in + step.tokens_out
        return {"prompt_tokens": step.tokens_in, "completion_tokens": step.tokens_out, "total_tokens": total}


_WIRES: tuple[tuple[str, Wire], ...] = (
    (r"/v1/messages", Anthropic()),
    (r"/v1(?:beta)?/models/[^/]+:(?:streamG|g)enerateContent", Gemini()),
    (r"(?:/v1)?/responses", Responses()),
    (r"(?:/v1)?/chat/completions", Chat()),
)
_COUNTS: Mapping[str, Json] = {
    "/v1/messages/count_tokens": {"input_tokens": 100},
    ":countTokens": {"totalTokens": 100},
}

HARMLESS = says(
    json.dumps({"title": "A test", "complexity_reasoning": "Simple.", "complexity_score": 1}), tokens_in=0, tokens_out=0
)
"""For requests without tools: JSON that suits those who ask for a title, or how hard a question is."""
NO_STEP = fails(400, "The script of the test has no step for this request.")


# --- the server ----------------------------------------------------------------------


class ModelServer:
    """A model service on this machine that plays a script; closed with the test."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        """Those with tools, in the order they came: the conversations."""
        self.asides: list[Request] = []
        """Those without tools: titles, probes, summaries."""
        self.unexpected: list[Request] = []
        """Those that no step was for."""
        self._steps: list[Step] = []
        self._used: list[bool] = []
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._http = _Server(("127.0.0.1", 0), _Handler)
        self._http.model = self
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where it answers, without a slash at the end."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def play(self, *steps: Step) -> None:
        """Add steps to the script."""
        with self._lock:
            self._steps += steps
            self._used += [False] * len(steps)

    def left(self) -> list[Step]:
        """Give the steps that nothing has asked for yet."""
        with self._lock:
            return [step for step, used in zip(self._steps, self._used, strict=True) if not used]

    def close(self) -> None:
        """End the service, with all that hangs."""
        self._closing.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def answer(self, request: Request) -> tuple[Step, int]:
        """Take a request in, and choose the step for it; the number tells answers apart."""
        with self._lock:
            kept = self.requests if request.tools else self.asides
            kept.append(request)
            number = len(self.requests) + len(self.asides)
            for index, step in enumerate(self._steps):
                is_spent = self._used[index] and not step.repeat
                if not is_spent and step.aside == (not request.tools) and step.when in request.text:
                    self._used[index] = True
                    return step, number
            if not request.tools:
                return HARMLESS, number
            self.unexpected.append(request)
            return NO_STEP, number

    def wait(self, seconds: float) -> None:
        """Wait so long, or until the service is closed."""
        self._closing.wait(None if math.isinf(seconds) else seconds)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    model: ModelServer

    def handle_error(self, request: object, client_address: object) -> None:
        """Agents hang up as they like."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_HEAD(self) -> None:
        self._send(200, {}, b"")

    def do_GET(self) -> None:
        self._send(404, {}, json.dumps({"error": {"message": "There is nothing here."}}).encode())

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers.get("content-length") or 0))
        path, _, query = self.path.partition("?")
        for ending, count in _COUNTS.items():
            if path.endswith(ending):
                return self._send(200, {}, json.dumps(count).encode())
        wire = next((wire for pattern, wire in _WIRES if re.fullmatch(pattern, path)), None)
        if wire is None:
            return self.do_GET()
        body = json.loads(sent)
        step, number = self.server.model.answer(Request(self.path, dict(self.headers.items()), body))
        if step.hang_seconds:
            self.server.model.wait(step.hang_seconds)
            if math.isinf(step.hang_seconds):
                return self._hang_up()
        if step.status != 200:
            return self._send(
                step.status, step.headers, json.dumps(wire.failure(step.status, step.error)).encode(), step
            )
        if body.get("stream") or "alt=sse" in query:
            events = "".join(wire.events(step, number)).encode()
            return self._send(200, {"content-type": "text/event-stream", **step.headers}, events, step)
        return self._send(200, step.headers, json.dumps(wire.whole(step, number)).encode(), step)

    def _send(self, status: int, headers: Mapping[str, str], body: bytes, step: Step = HARMLESS) -> None:
        self.send_response(status)
        # The whole length is promised: an answer that is cut is then no answer that ended.
        for name, value in {"content-type": "application/json", "content-length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if step.drop_after is not None:
            self.wfile.write(body[: step.drop_after])
            return self._hang_up()
        if step.stall_after is not None:
            self.wfile.write(body[: step.stall_after])
            self.server.model.wait(math.inf)
            return self._hang_up()
        self.wfile.write(body)
        return None

    def _hang_up(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the test has the requests."""
