"""One session with an agent over the Agent Client Protocol.

The agent sends requests while it works on ours, so this module uses asyncio; no other part of the agents does. It
needs the SDK, an optional dependency, and is therefore imported when a session starts.
Input is parsed leniently: unknown lines and updates are ignored.

"""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any

from acp.connection import Connection
from acp.exceptions import RequestError
from acp.schema import (
    ClientCapabilities,
    Implementation,
    InitializeRequest,
    InitializeResponse,
    NewSessionRequest,
    NewSessionResponse,
    PromptRequest,
    PromptResponse,
    RequestPermissionRequest,
    TextContentBlock,
)
from pydantic import ValidationError

from ralph import __version__
from ralph.agents.acp_transport import AcpTransport
from ralph.agents.acp_updates import (
    AcpUpdates,
    SessionOption,
    ending_for_error,
    ending_for_stop_reason,
    error_text,
    find_session_option,
    reported_tokens,
)
from ralph.agents.streams import text_at
from ralph.agents.supervisor.output import LimitTracker
from ralph.agents.supervisor.process import DRAIN_SECONDS, GUARD_SECONDS, POLL_INTERVAL_SECONDS
from ralph.core.records import AgentReply, SessionEnding, record
from ralph.core.text import clean, one_line

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from ralph.agents import SessionOptions
    from ralph.agents.supervisor.process import GuardedProcess

PROTOCOL_VERSION = 1
REQUEST_TIMEOUT_SECONDS = 60.0
"""Timeout of each request before the prompt is sent, in seconds."""
CANCEL_SECONDS = 2.0
"""Time the agent has to end its turn after a cancellation, in seconds."""
EXIT_SECONDS = 0.5
"""Time the agent has to exit by itself once its stdin is closed, in seconds."""
MAX_LISTED_MODELS = 20
"""Maximum number of models listed in an error message."""


# --- one session -------------------------------------------------------------------


class _SessionEndedError(Exception):
    """The session ended early."""

    def __init__(self, ending: SessionEnding, detail: str) -> None:
        super().__init__(detail)
        self.ending = ending
        self.detail = detail


_ABRUPT_LIMITS = (SessionEnding.FLOODED, SessionEnding.OUT_OF_MEMORY, SessionEnding.TOO_MANY_PROCESSES)
"""Limits after which an agent gets no time for last messages."""


@record
class ToolRules:
    """Which tools may be used without asking a person."""

    kinds: frozenset[str] | None
    """Allowed kinds of tools, or None for all."""
    names: frozenset[str] = frozenset()
    """Allowed tools that do not say what kind they are of."""

    def allow(self, kind: str, title: str) -> bool:
        """Return whether a tool may be used, if not all may be."""
        return kind in (self.kinds or ()) or (kind in ("", "other") and title in self.names)


class AcpSession:
    """One session with one agent, from handshake to exit."""

    def __init__(
        self, program: GuardedProcess, prompt: str, session: SessionOptions, rules: ToolRules, mode: str
    ) -> None:
        self._mode = mode
        self._program = program
        self._prompt = prompt
        self._session = session
        self._rules = rules
        self._allowance = LimitTracker(session.limits, session.should_stop, program.guard_pid)
        self._updates = AcpUpdates(session.on_output)
        self._transport = AcpTransport(program, self._allowance, self._updates.handle)
        self._limit: SessionEnding | None = None
        self._ending = SessionEnding.CRASHED
        self._detail = ""
        self._tokens: tuple[int | None, int | None] = (None, None)
        self._exit_code: int | None = None
        self._exception: BaseException | None = None

    def run(self) -> None:
        """Run the session until the agent has answered or must stop, then terminate it."""
        loop = asyncio.new_event_loop()
        loop.set_exception_handler(self._record_exception)
        try:
            loop.run_until_complete(self._run())
        finally:
            if tasks := asyncio.all_tasks(loop):
                for task in tasks:
                    task.cancel()
                loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self._transport.stop_reading(loop)
            loop.close()
        if self._exception:
            raise self._exception

    def reply(self, seconds: float) -> AgentReply:
        """Return the result of the session."""
        ending, detail = self._ending, self._detail
        if self._limit:
            ending, detail = self._limit, self._allowance.describe_limit(self._program.name, self._limit)
        if self._program.survivors:
            detail = f"{detail} These processes could not be terminated: {self._program.survivors}.".lstrip()
        tokens_in, tokens_out = self._tokens
        return AgentReply(
            text=self._updates.text(),
            ending=ending,
            detail=detail,
            exit_code=self._exit_code,
            seconds=seconds,
            cost_usd=self._updates.cost_usd,
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            session=self._updates.session_id,
        )

    def _record_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Record an exception raised in a callback that nobody awaits."""
        self._exception = self._exception or context.get("exception")

    async def _run(self) -> None:
        self._transport.start_reading()
        connection = Connection(self._answer, self._transport)
        conversation = asyncio.ensure_future(self._run_conversation(connection))
        while not conversation.done() and not self._exception:
            await asyncio.wait({conversation}, timeout=POLL_INTERVAL_SECONDS)
            if not conversation.done() and (limit := self._allowance.exceeded_limit(time.monotonic())):
                self._limit = limit
                await self._cancel(connection, conversation)
                break
        conversation.cancel()
        await asyncio.wait({conversation})
        if not conversation.cancelled():
            self._ending, self._detail = conversation.result()
        await self._await_exit()
        await connection.close()

    async def _cancel(self, connection: Connection, conversation: asyncio.Future[tuple[SessionEnding, str]]) -> None:
        """Cancel the turn, so that the agent can stop its tools and send its last messages."""
        self._updates.is_cancelled = True
        if self._limit in _ABRUPT_LIMITS or not self._updates.session_id or self._transport.is_closed:
            return
        try:
            await connection.send_notification("session/cancel", {"sessionId": self._updates.session_id})
        except ConnectionError:
            return
        await asyncio.wait({conversation}, timeout=CANCEL_SECONDS)

    async def _await_exit(self) -> None:
        """Wait until all processes are gone, draining their pipes meanwhile."""
        if not self._limit:
            self._transport.close_stdin()
            await self._transport.wait_until_gone(EXIT_SECONDS)
        self._exit_code = self._program.exit_code
        self._program.request_termination()
        await self._transport.wait_until_gone(GUARD_SECONDS)

    # Requests to the agent.

    async def _run_conversation(self, connection: Connection) -> tuple[SessionEnding, str]:
        """Conduct the whole conversation and return how it ended."""
        try:
            await self._start_session(connection)
            return await self._send_prompt(connection)
        except _SessionEndedError as ended:
            return ended.ending, ended.detail
        except RequestError as error:
            return ending_for_error(error, self._program.name)
        except ConnectionError:
            return await self._explain_disconnect()

    async def _start_session(self, connection: Connection) -> None:
        request = InitializeRequest(
            protocol_version=PROTOCOL_VERSION,
            client_capabilities=ClientCapabilities(),
            client_info=Implementation(name="ralph", version=__version__),
        )
        answer = await self._await_answer("initialize", connection.send_request("initialize", _params(request)))
        version = self._read(InitializeResponse, "initialize", answer).protocol_version
        if version != PROTOCOL_VERSION:
            raise _SessionEndedError(
                SessionEnding.CRASHED,
                f"{self._program.name} speaks ACP version {version}, but Ralph needs version {PROTOCOL_VERSION}."
                " Install a compatible version.",
            )
        new_session = NewSessionRequest(cwd=str(self._session.directory.absolute()), mcp_servers=[])
        answer = await self._await_answer("session/new", connection.send_request("session/new", _params(new_session)))
        self._updates.session_id = self._read(NewSessionResponse, "session/new", answer).session_id
        if self._mode:
            await self._choose_mode(connection, find_session_option(answer, "mode", "session/set_mode"))
        if self._session.model:
            await self._choose_model(
                connection, find_session_option(answer, "model", "session/set_model"), self._session.model
            )

    async def _choose_mode(self, connection: Connection, modes: SessionOption) -> None:
        """Select the mode that enforces the permissions; fail without it unless everything is allowed."""
        if self._mode in modes.choices:
            await self._set_option(connection, modes, self._mode)
        elif self._rules.kinds is not None:
            raise _SessionEndedError(
                SessionEnding.CRASHED,
                f"{self._program.name} does not offer the mode {self._mode}, which enforces its permissions. Install a"
                " newer version.",
            )

    async def _choose_model(self, connection: Connection, models: SessionOption, name: str) -> None:
        """Select one of the models the session offers."""
        chosen = models.find(name)
        if chosen is None:
            names = ", ".join(one_line(clean(value), 60) for value in list(models.choices)[:MAX_LISTED_MODELS])
            raise _SessionEndedError(
                SessionEnding.MODEL_FAILED,
                f"{self._program.name} does not offer the model {name}. Choose one of: {names}."
                if names
                else f"{self._program.name} offers no choice of models. Remove the model from the configuration.",
            )
        try:
            await self._set_option(connection, models, chosen)
        except RequestError as error:
            raise _SessionEndedError(
                SessionEnding.MODEL_FAILED, f"{self._program.name} rejected the model {name}: {error_text(error)}"
            ) from error

    async def _set_option(self, connection: Connection, setting: SessionOption, value: str) -> None:
        if value != setting.current:
            params = {"sessionId": self._updates.session_id, **setting.params(value)}
            await self._await_answer(setting.method, connection.send_request(setting.method, params))

    async def _send_prompt(self, connection: Connection) -> tuple[SessionEnding, str]:
        prompt = TextContentBlock(type="text", text=self._prompt)
        request = PromptRequest(session_id=self._updates.session_id, prompt=[prompt])
        answer = await connection.send_request("session/prompt", _params(request))
        response = self._read(PromptResponse, "session/prompt", answer)
        in_answer = reported_tokens(answer)
        self._tokens = self._updates.tokens if in_answer == (None, None) else in_answer
        return ending_for_stop_reason(response.stop_reason, self._program.name)

    async def _await_answer(self, method: str, answer: Awaitable[Any]) -> Any:
        """Await an answer with the startup timeout."""
        try:
            return await asyncio.wait_for(answer, REQUEST_TIMEOUT_SECONDS)
        except TimeoutError:
            printed = self._transport.stray or self._transport.last_stderr_line()
            raise _SessionEndedError(
                SessionEnding.CRASHED,
                f"{self._program.name} did not answer {method} within {REQUEST_TIMEOUT_SECONDS:g} s."
                f" Check that it speaks ACP and is logged in.{f' It printed: {printed}' if printed else ''}",
            ) from None

    def _read(self, model: type[Any], method: str, answer: object) -> Any:
        """Validate an answer against its schema."""
        try:
            return model.model_validate(answer)
        except ValidationError:
            received = one_line(clean(json.dumps(answer)))
            raise _SessionEndedError(
                SessionEnding.CRASHED, f"{self._program.name} sent an invalid ACP response to {method}: {received}"
            ) from None

    async def _explain_disconnect(self) -> tuple[SessionEnding, str]:
        """Explain why the connection ended in the middle of the session."""
        if self._allowance.is_flooded:
            return SessionEnding.FLOODED, self._allowance.describe_limit(self._program.name, SessionEnding.FLOODED)
        await self._transport.wait_until_gone(DRAIN_SECONDS)
        if self._program.exit_code is None:
            if not self._transport.is_guard_gone:
                return SessionEnding.CRASHED, f"{self._program.name} closed its output in the middle of the session."
            if self._session.should_stop():
                # Ctrl+C also reaches a guard that has not left our session yet.
                return SessionEnding.STOPPED, self._allowance.describe_limit(self._program.name, SessionEnding.STOPPED)
        return SessionEnding.CRASHED, self._program.describe_exit(
            self._transport.stderr.text().strip() or self._transport.stray
        )

    # Requests from the agent.

    async def _answer(self, method: str, params: Any, is_notification: bool) -> Any:
        if is_notification:
            return None
        if method == "session/request_permission":
            return self._answer_permission(params)
        raise RequestError.method_not_found(method)

    def _answer_permission(self, params: Any) -> Any:
        """Answer a permission request for a tool."""
        request = RequestPermissionRequest.model_validate(params)
        if self._updates.is_cancelled:
            return {"outcome": {"outcome": "cancelled"}}
        kind = text_at(params, "toolCall", "kind") or self._updates.kinds.get(request.tool_call.tool_call_id, "")
        if self._rules.kinds is None:
            kinds = ["allow_once", "allow_always"]
        elif self._rules.allow(kind, request.tool_call.title or ""):
            # A permanent permission may cover more than this request.
            kinds = ["allow_once"]
        else:
            kinds = []
            # An exception in the listener must not be reported as the answer to this request.
            asyncio.get_running_loop().call_soon(self._updates.show_denied, request.tool_call.title or kind or "a tool")
        for choice in [*kinds, "reject_once", "reject_always"]:
            for option in request.options:
                if option.kind == choice:
                    return {"outcome": {"outcome": "selected", "optionId": option.option_id}}
        return {"outcome": {"outcome": "cancelled"}}


def _params(request: Any) -> dict[str, Any]:
    dumped: dict[str, Any] = request.model_dump(mode="json", by_alias=True, exclude_none=True)
    return dumped
