"""Talk to one agent over the Agent Client Protocol, from the first word to the last.

Both ends talk at once here: the agent asks back while it works, so asyncio is used, in this module alone. What it
sends is read with forgiveness: a line or an update that nobody knows is passed over.
"""

from __future__ import annotations

import asyncio
import codecs
import json
import os
import time
from typing import TYPE_CHECKING, Any

from ralph.agents.acp_told import (
    INTERNAL,
    Heard,
    Setting,
    ending_of_error,
    ending_of_stop,
    setting_in,
    tokens_told,
    words_of,
)
from ralph.agents.process import (
    CHUNK_BYTES,
    DRAIN_SECONDS,
    GUARD_SECONDS,
    STDERR_BYTES,
    TICK_SECONDS,
    Allowance,
    Kept,
)
from ralph.agents.streams import JsonLines, at, text_at
from ralph.records import Ending, Reply
from ralph.text import clean, one_line

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import IO

    from acp.connection import Connection

    from ralph.agents import Session
    from ralph.agents.process import Guarded

PROTOCOL = 1
START_SECONDS = 60.0
"""How long the agent may take for each answer before it is given the prompt."""
CANCEL_SECONDS = 2.0
"""How long it may take to end its turn when asked to."""
PARTING_SECONDS = 0.5
"""How long it may take to go by itself when it hears no more from us."""
MOST_NAMED = 20
"""So many models are named to choose from."""
LINE_CHARACTERS = 16 * 1024 * 1024


# --- one session -------------------------------------------------------------------


class _Over(Exception):
    """The session is over before its time, and why."""

    def __init__(self, ending: Ending, detail: str) -> None:
        super().__init__(detail)
        self.ending = ending
        self.detail = detail


class Talk:
    """One session with one agent, from the first word to the last."""

    def __init__(
        self, program: Guarded, prompt: str, session: Session, allowed: frozenset[str] | None, mode: str
    ) -> None:
        self._mode = mode
        self._program = program
        self._prompt = prompt
        self._session = session
        self._allowed = allowed
        self._allowance = Allowance(session.limits, session.should_stop)
        self._heard = Heard(session.heard)
        self._wire = _Wire(program, self._allowance, self._heard.update)
        self._limit: Ending | None = None
        self._ending = Ending.CRASHED
        self._detail = ""
        self._tokens: tuple[int | None, int | None] = (None, None)
        self._exit_code: int | None = None
        self._fault: BaseException | None = None

    def until_the_end(self) -> None:
        """Talk until the agent has answered or has to end, and end it."""
        loop = asyncio.new_event_loop()
        loop.set_exception_handler(self._fail)
        try:
            loop.run_until_complete(self._run())
        finally:
            if tasks := asyncio.all_tasks(loop):
                for task in tasks:
                    task.cancel()
                loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self._wire.let_go(loop)
            loop.close()
        if self._fault:
            raise self._fault

    def reply(self, seconds: float) -> Reply:
        """Give what came of it."""
        ending, detail = self._ending, self._detail
        if self._limit:
            ending, detail = self._limit, self._allowance.sentence(self._program.name, self._limit)
        if self._program.survivors:
            detail = f"{detail} These processes could not be ended: {self._program.survivors}.".lstrip()
        tokens_in, tokens_out = self._tokens
        return Reply(
            text=self._heard.text(),
            ending=ending,
            detail=detail,
            exit_code=self._exit_code,
            seconds=seconds,
            cost_usd=self._heard.cost_usd,
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            session=self._heard.session_id,
        )

    def _fail(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Keep what was raised where nobody waits for it: a fault of ours or of whoever listens."""
        self._fault = self._fault or context.get("exception")

    async def _run(self) -> None:
        from acp.connection import Connection

        self._wire.attend()
        connection = Connection(self._answer, self._wire)
        talking = asyncio.ensure_future(self._converse(connection))
        while not talking.done() and not self._fault:
            await asyncio.wait({talking}, timeout=TICK_SECONDS)
            if not talking.done() and (limit := self._allowance.passed(time.monotonic())):
                self._limit = limit
                await self._cancel(connection, talking)
                break
        talking.cancel()
        await asyncio.wait({talking})
        if not talking.cancelled():
            self._ending, self._detail = talking.result()
        await self._part()
        await connection.close()

    async def _cancel(self, connection: Connection, talking: asyncio.Future[tuple[Ending, str]]) -> None:
        """Have the agent end its turn, so that it may end its tools and say its last words."""
        self._heard.is_cancelled = True
        if self._limit is Ending.FLOODED or not self._heard.session_id or self._wire.is_closed:
            return
        try:
            await connection.send_notification("session/cancel", {"sessionId": self._heard.session_id})
        except ConnectionError:
            return
        await asyncio.wait({talking}, timeout=CANCEL_SECONDS)

    async def _part(self) -> None:
        """Wait until all processes are gone, with their pipes kept empty meanwhile."""
        if not self._limit:
            self._wire.hang_up()
            await self._wire.gone(PARTING_SECONDS)
        self._exit_code = self._program.exit_code
        self._program.ask_to_end()
        await self._wire.gone(GUARD_SECONDS)

    # What is said.

    async def _converse(self, connection: Connection) -> tuple[Ending, str]:
        """Have the whole conversation; give how it ended."""
        from acp.exceptions import RequestError

        try:
            await self._begin(connection)
            return await self._send_prompt(connection)
        except _Over as over:
            return over.ending, over.detail
        except RequestError as error:
            return ending_of_error(error, self._program.name)
        except ConnectionError:
            return await self._broken_off()

    async def _begin(self, connection: Connection) -> None:
        from acp.schema import (
            ClientCapabilities,
            Implementation,
            InitializeRequest,
            InitializeResponse,
            NewSessionRequest,
            NewSessionResponse,
        )

        from ralph import __version__

        hello = InitializeRequest(
            protocol_version=PROTOCOL,
            client_capabilities=ClientCapabilities(),
            client_info=Implementation(name="ralph", version=__version__),
        )
        answer = await self._within("initialize", connection.send_request("initialize", _params(hello)))
        version = self._read(InitializeResponse, "initialize", answer).protocol_version
        if version != PROTOCOL:
            raise _Over(
                Ending.CRASHED,
                f"{self._program.name} speaks version {version} of ACP, and Ralph version {PROTOCOL}: install one"
                " that goes with it.",
            )
        wanted = NewSessionRequest(cwd=str(self._session.directory.absolute()), mcp_servers=[])
        answer = await self._within("session/new", connection.send_request("session/new", _params(wanted)))
        self._heard.session_id = self._read(NewSessionResponse, "session/new", answer).session_id
        if self._mode:
            await self._choose_mode(connection, setting_in(answer, "mode", "session/set_mode"))
        if self._session.model:
            await self._choose_model(connection, setting_in(answer, "model", "session/set_model"), self._session.model)

    async def _choose_mode(self, connection: Connection, modes: Setting) -> None:
        """Have the session work in the mode for what it may do; without that mode only one that may do all goes on."""
        if self._mode in modes.offered:
            await self._set(connection, modes, self._mode)
        elif self._allowed is not None:
            raise _Over(
                Ending.CRASHED,
                f"{self._program.name} does not offer the mode {self._mode}, which keeps it to what it may do: install"
                " a newer one.",
            )

    async def _choose_model(self, connection: Connection, models: Setting, wanted: str) -> None:
        """Have the session use a model, of those that it offers."""
        from acp.exceptions import RequestError

        chosen = models.find(wanted)
        if chosen is None:
            names = ", ".join(one_line(clean(value), 60) for value in list(models.offered)[:MOST_NAMED])
            raise _Over(
                Ending.MODEL_FAILED,
                f"{self._program.name} does not offer the model {wanted}: choose one of {names}."
                if names
                else f"{self._program.name} offers no choice of models: leave the model out.",
            )
        try:
            await self._set(connection, models, chosen)
        except RequestError as error:
            raise _Over(
                Ending.MODEL_FAILED, f"{self._program.name} does not take the model {wanted}: {words_of(error)}"
            ) from error

    async def _set(self, connection: Connection, setting: Setting, value: str) -> None:
        if value != setting.current:
            params = {"sessionId": self._heard.session_id, **setting.params(value)}
            await self._within(setting.method, connection.send_request(setting.method, params))

    async def _send_prompt(self, connection: Connection) -> tuple[Ending, str]:
        from acp.schema import PromptRequest, PromptResponse, TextContentBlock

        prompt = TextContentBlock(type="text", text=self._prompt)
        request = PromptRequest(session_id=self._heard.session_id, prompt=[prompt])
        answer = await connection.send_request("session/prompt", _params(request))
        response = self._read(PromptResponse, "session/prompt", answer)
        self._tokens = tokens_told(answer)
        return ending_of_stop(response.stop_reason, self._program.name)

    async def _within(self, method: str, answer: Awaitable[Any]) -> Any:
        """Give the answer, if it comes in time."""
        try:
            return await asyncio.wait_for(answer, START_SECONDS)
        except TimeoutError:
            printed = self._wire.stray or self._wire.last_words()
            raise _Over(
                Ending.CRASHED,
                f"{self._program.name} did not answer {method} within {START_SECONDS:g} s: check that it speaks ACP,"
                f" and is logged in.{f' It printed: {printed}' if printed else ''}",
            ) from None

    def _read(self, model: type[Any], method: str, answer: object) -> Any:
        """Give an answer as what it should be."""
        from pydantic import ValidationError

        try:
            return model.model_validate(answer)
        except ValidationError:
            got = one_line(clean(json.dumps(answer)))
            raise _Over(
                Ending.CRASHED, f"{self._program.name} answered {method} with what is no ACP answer: {got}"
            ) from None

    async def _broken_off(self) -> tuple[Ending, str]:
        """Say why the connection ended in the middle."""
        if self._allowance.is_flooded:
            return Ending.FLOODED, self._allowance.sentence(self._program.name, Ending.FLOODED)
        await self._wire.gone(DRAIN_SECONDS)
        if self._program.exit_code is None:
            if not self._wire.is_guard_gone:
                return Ending.CRASHED, f"{self._program.name} closed its output in the middle of the session."
            if self._session.should_stop():
                # Ctrl+C reaches a guard that has not yet left our session; that is a stop like any other.
                return Ending.STOPPED, self._allowance.sentence(self._program.name, Ending.STOPPED)
        return Ending.CRASHED, self._program.death(self._wire.stderr.text().strip() or self._wire.stray)

    # What is asked back.

    async def _answer(self, method: str, params: Any, is_notification: bool) -> Any:
        from acp.exceptions import RequestError

        if is_notification:
            return None
        if method == "session/request_permission":
            return self._permit(params)
        raise RequestError.method_not_found(method)

    def _permit(self, params: Any) -> Any:
        """Choose an answer to the question whether a tool may be used."""
        from acp.schema import RequestPermissionRequest

        asked = RequestPermissionRequest.model_validate(params)
        if self._heard.is_cancelled:
            return {"outcome": {"outcome": "cancelled"}}
        kind = text_at(params, "toolCall", "kind") or self._heard.kinds.get(asked.tool_call.tool_call_id, "")
        if self._allowed is None:
            wanted = ["allow_once", "allow_always"]
        elif kind in self._allowed:
            # What is allowed for good may be more than was asked for.
            wanted = ["allow_once"]
        else:
            wanted = []
            # A fault of whoever listens must not look like one of the question.
            asyncio.get_running_loop().call_soon(self._heard.denied, asked.tool_call.title or kind or "a tool")
        for choice in [*wanted, "reject_once", "reject_always"]:
            for option in asked.options:
                if option.kind == choice:
                    return {"outcome": {"outcome": "selected", "optionId": option.option_id}}
        return {"outcome": {"outcome": "cancelled"}}


def _params(request: Any) -> dict[str, Any]:
    dumped: dict[str, Any] = request.model_dump(mode="json", by_alias=True, exclude_none=True)
    return dumped


# --- the pipes ---------------------------------------------------------------------


class _Wire:
    """The agent's pipes as the SDK wants to have them: messages in, messages out.

    Nothing here raises for what the agent does: the SDK would log it, onto the terminal of whoever runs Ralph.
    """

    def __init__(self, program: Guarded, allowance: Allowance, updated: Callable[[object], None]) -> None:
        self.stderr = Kept(0, STDERR_BYTES)
        self.is_closed = False
        """Whether no more messages will come."""
        self.is_guard_gone = False
        self._program = program
        self._allowance = allowance
        self._updated = updated
        self._lines = JsonLines(LINE_CHARACTERS)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._incoming: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._unsent = bytearray()
        self._gone = asyncio.Event()
        self._attended: set[int] = set()

    @property
    def stray(self) -> str:
        """The last line on stdout that was no message, in short."""
        return self._lines.stray

    def last_words(self) -> str:
        """Give the last line on stderr, in short."""
        return one_line(self.stderr.text().rstrip().rpartition("\n")[2])

    # For the SDK.

    async def send(self, message: dict[str, Any]) -> None:
        """Write a message, or forget it when the agent does not listen any more."""
        stdin = self._program.stdin
        if stdin and not stdin.closed:
            self._unsent += json.dumps(message, separators=(",", ":"), default=str).encode() + b"\n"
            self._watch(stdin, self._write, to_write=True)

    async def receive(self) -> dict[str, Any] | None:
        """Give the next message, None when there will be none."""
        return await self._incoming.get()

    async def close(self) -> None:
        """Write no more."""
        self.hang_up()

    # For the session.

    def attend(self) -> None:
        """Begin to listen."""
        self._watch(self._program.news, self._read_news)
        self._watch(self._program.stdout, self._read_stdout)
        self._watch(self._program.stderr, self._read_stderr)
        if self._program.stdin:
            os.set_blocking(self._program.stdin.fileno(), False)

    def hang_up(self) -> None:
        """Let the agent know that we have nothing more to say."""
        self._unsent.clear()
        self._drop(self._program.stdin)

    async def gone(self, seconds: float) -> None:
        """Wait until the agent and all that it started are gone, but no longer than that."""
        try:
            await asyncio.wait_for(self._gone.wait(), seconds)
        except TimeoutError:
            pass

    def let_go(self, loop: asyncio.AbstractEventLoop) -> None:
        """Listen no more."""
        for fd in self._attended:
            loop.remove_reader(fd)
            loop.remove_writer(fd)
        self._attended.clear()

    def _watch(self, pipe: IO[bytes] | None, react: Callable[[], None], *, to_write: bool = False) -> None:
        if pipe:
            loop = asyncio.get_running_loop()
            os.set_blocking(pipe.fileno(), False)
            (loop.add_writer if to_write else loop.add_reader)(pipe.fileno(), react)
            self._attended.add(pipe.fileno())

    def _drop(self, pipe: IO[bytes] | None) -> None:
        if pipe and not pipe.closed:
            loop = asyncio.get_running_loop()
            loop.remove_reader(pipe.fileno())
            loop.remove_writer(pipe.fileno())
            self._attended.discard(pipe.fileno())
            pipe.close()

    def _read(self, pipe: IO[bytes] | None) -> bytes | None:
        """Give what there is to read, None when that is nothing just now; close the pipe at its end."""
        if not pipe or pipe.closed:
            return b""
        try:
            chunk = os.read(pipe.fileno(), CHUNK_BYTES)
        except BlockingIOError:
            return None
        if not chunk:
            self._drop(pipe)
        return chunk

    def _read_stdout(self) -> None:
        chunk = self._read(self._program.stdout)
        if chunk is None:
            return
        self._allowance.took(len(chunk))
        found = self._lines.add(self._decoder.decode(chunk, final=not chunk))
        for message in found if chunk else [*found, *self._lines.finish()]:
            self._take(message)
        if not chunk or self._allowance.is_flooded:
            self._close()

    def _read_stderr(self) -> None:
        chunk = self._read(self._program.stderr)
        if chunk:
            self.stderr.add(chunk)
            self._allowance.took(len(chunk))
            if self._allowance.is_flooded:
                self._drop(self._program.stderr)

    def _read_news(self) -> None:
        chunk = self._read(self._program.news)
        if chunk is None:
            return
        self._program.hear_news(chunk)
        if not chunk or self._program.exit_code is not None:
            # Whoever it started may hold its output open, or it itself, when its guard was killed.
            asyncio.get_running_loop().call_later(DRAIN_SECONDS, self._close)
        if not chunk:
            self.is_guard_gone = True
            self._gone.set()

    def _close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._drop(self._program.stdout)
            self._incoming.put_nowait(None)

    def _take(self, message: dict[str, Any]) -> None:
        """Pass on what the SDK understands; updates are taken at once, in the order they came."""
        method, id = message.get("method"), message.get("id")
        if method == "session/update":
            self._updated(message.get("params"))
        elif "id" in message and isinstance(id, int | str) and isinstance(method, str | None):
            if "error" in message:
                message = {**message, "error": _error(message["error"])}
            self._incoming.put_nowait(message)

    def _write(self) -> None:
        stdin = self._program.stdin
        if not stdin or stdin.closed:
            return
        try:
            del self._unsent[: os.write(stdin.fileno(), self._unsent[:CHUNK_BYTES])]
        except BlockingIOError:
            return
        except BrokenPipeError:  # It does not want to hear more.
            self.hang_up()
            return
        if not self._unsent:
            asyncio.get_running_loop().remove_writer(stdin.fileno())


def _error(told: object) -> dict[str, Any]:
    """Give an error as an answer should have it."""
    code = at(told, "code")
    return {
        "code": code if isinstance(code, int) else INTERNAL,
        "message": text_at(told, "message") or "it does not say why",
        "data": at(told, "data"),
    }
