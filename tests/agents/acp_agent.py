"""A real ACP agent that plays a script: `python acp_agent.py SCRIPT.json`.

The script is a JSON object. `turn` is a list of what it does with its prompt, an object with one key each:

    {"say": TEXT, "id": MESSAGE_ID}   {"think": TEXT}   {"update": {...}}   {"print": TEXT}   {"complain": TEXT}
    {"ask": KIND, "options": [...]}   ask whether it may, and say the chosen option; KIND may be null
    {"sleep": SECONDS}   {"await_cancel": SECONDS}   {"start": PATH}   {"exit": CODE}   {"hang_up": true}
    {"stop": REASON}   {"env": BEGINNING}   say the variables whose names begin like this

Besides, `session` is what a new session holds. What it is asked goes into `log`, a line of JSON each.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pydantic


def _of_what_is_used(**settings: Any) -> dict[str, Any]:
    """Let the SDK prepare a message when it is first used, and describe none: that halves the time to start."""
    return {**settings, "use_attribute_docstrings": False, "defer_build": True}


pydantic.ConfigDict = _of_what_is_used  # type: ignore[assignment,misc]

import acp  # noqa: E402
from acp.schema import (  # noqa: E402
    AgentMessageChunk,
    AgentThoughtChunk,
    InitializeResponse,
    NewSessionResponse,
    PermissionOption,
    PromptResponse,
    SetSessionConfigOptionResponse,
    TextContentBlock,
    ToolCallUpdate,
)

OPTIONS = ("allow_always", "allow_once", "reject_always", "reject_once")
STAYS = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"


class ScriptedAgent:
    """Does what its script says."""

    def __init__(self, script: dict[str, Any]) -> None:
        self._script = script
        self._cancelled = asyncio.Event()
        self._client: Any = None

    def on_connect(self, conn: Any) -> None:
        self._client = conn

    async def initialize(self, protocol_version: int, **asked: Any) -> InitializeResponse:
        self._note("initialize", capabilities=_plain(asked.get("client_capabilities")))
        return InitializeResponse(protocol_version=protocol_version)

    async def new_session(self, cwd: str, **asked: Any) -> NewSessionResponse:
        self._note("session/new", cwd=cwd, servers=asked.get("mcp_servers"), where=str(Path.cwd()))
        return NewSessionResponse.model_validate({"sessionId": "s-1", **self._script.get("session", {})})

    async def set_config_option(self, config_id: str, session_id: str, value: Any, **_: Any) -> Any:
        self._note("session/set_config_option", option=config_id, session=session_id, value=value)
        return SetSessionConfigOptionResponse(config_options=[])

    async def set_session_mode(self, mode_id: str, session_id: str, **_: Any) -> None:
        self._note("session/set_mode", mode=mode_id, session=session_id)

    async def cancel(self, session_id: str, **_: Any) -> None:
        self._note("session/cancel", session=session_id)
        self._cancelled.set()

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> PromptResponse:
        text = prompt[0].text
        self._note("session/prompt", session=session_id, length=len(text), text=text[:200])
        for step in self._script["turn"]:
            if response := await self._play(step, session_id):
                return response
        return PromptResponse(stop_reason="end_turn")

    async def _play(self, step: dict[str, Any], session_id: str) -> PromptResponse | None:
        match step:
            case {"say": text}:
                await self._say(session_id, text, step.get("id"))
            case {"think": text}:
                block = TextContentBlock(type="text", text=text)
                update = AgentThoughtChunk(session_update="agent_thought_chunk", content=block)
                await self._client.session_update(session_id, update)
            case {"update": update}:
                # As it is, also when the SDK would not have it.
                params = {"sessionId": step.get("session", session_id), "update": update}
                _print(json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params}))
            case {"ask": kind}:
                await self._say(session_id, await self._ask(session_id, kind, step) + "\n", None)
            case {"print": text}:
                _print(text)
            case {"complain": text}:
                print(text, file=sys.stderr, flush=True)
            case {"sleep": seconds}:
                await asyncio.sleep(seconds)
            case {"await_cancel": seconds}:
                await asyncio.wait_for(self._cancelled.wait(), seconds)
            case {"start": path}:
                _start(Path(path))
            case {"exit": code}:
                os._exit(code)
            case {"hang_up": True}:
                os.close(1)
                await asyncio.sleep(60)
            case {"env": beginning}:
                found = [f"{name}={value}" for name, value in os.environ.items() if name.startswith(beginning)]
                await self._say(session_id, "\n".join(found), None)
            case {"stop": reason}:
                return PromptResponse(stop_reason=reason)
            case _:
                raise ValueError(f"Nobody knows {step}.")
        return None

    async def _say(self, session_id: str, text: str, message_id: str | None) -> None:
        block = TextContentBlock(type="text", text=text)
        update = AgentMessageChunk(session_update="agent_message_chunk", content=block, message_id=message_id)
        await self._client.session_update(session_id, update)

    async def _ask(self, session_id: str, kind: Any, step: dict[str, Any]) -> str:
        options = [PermissionOption(option_id=f"id-{one}", name=one, kind=one) for one in step.get("options", OPTIONS)]
        call = ToolCallUpdate(tool_call_id=step.get("call", "c-1"), title="A tool", kind=kind)
        answer = await self._client.request_permission(session_id=session_id, tool_call=call, options=options)
        return str(getattr(answer.outcome, "option_id", answer.outcome.outcome))

    def _note(self, method: str, **details: Any) -> None:
        if log := self._script.get("log"):
            with Path(log).open("a") as file:
                file.write(json.dumps({"method": method, **details}) + "\n")


def _plain(found: Any) -> Any:
    return found.model_dump(mode="json", by_alias=True, exclude_none=True) if found else None


def _print(text: str) -> None:
    # Not through the SDK's stream, which is free by now: the line before it has been written.
    os.write(1, text.encode() + b"\n")


def _start(path: Path) -> None:
    """Start a process that has its own session and no ear for SIGTERM, and write down its id."""
    started = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", *STAYS],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert started.stdout
    started.stdout.readline()
    path.write_text(f"{started.pid}\n")


if __name__ == "__main__":
    asyncio.run(acp.run_agent(ScriptedAgent(json.loads(Path(sys.argv[1]).read_text()))))  # type: ignore[arg-type]
