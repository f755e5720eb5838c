"""Transcripts made by hand, and what their readers find in them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ralph.core.records import Turn, record
from ralph.formats.transcripts import READERS
from ralph.formats.transcripts.base import Transcript, TranscriptProblem

AT = "2026-11-17T06:30:{:02d}.414Z"


@record
class Found:
    """What a reader finds in the home of a person."""

    transcripts: tuple[Transcript, ...]
    turns: tuple[Turn, ...]
    problems: tuple[TranscriptProblem, ...]

    @property
    def said(self) -> list[tuple[str, str]]:
        """Who said what."""
        return [(turn.speaker.value, turn.text) for turn in self.turns]

    @property
    def texts(self) -> list[str]:
        return [turn.text for turn in self.turns]

    @property
    def reasons(self) -> list[tuple[str, int]]:
        return [(Path(problem.path).name, problem.offset) for problem in self.problems]


def find(agent: str, home: Path, directories: Sequence[Path], environ: Mapping[str, str] | None = None) -> Found:
    """Read all transcripts of an agent for directories."""
    reader, problems = READERS[agent], list[TranscriptProblem]()
    transcripts = list(
        reader.find(str(home), environ or {}, [str(one.resolve()) for one in directories], problems.append)
    )
    turns = [turn for one in transcripts for turn in reader.turns(one, problems.append)]
    return Found(transcripts=tuple(transcripts), turns=tuple(turns), problems=tuple(problems))


def read(transcript: Transcript, offset: int = 0) -> Found:
    """Read one transcript from an offset on."""
    problems = list[TranscriptProblem]()
    turns = tuple(READERS[transcript.agent].turns(transcript, problems.append, offset))
    return Found(transcripts=(transcript,), turns=turns, problems=tuple(problems))


def json_lines(*entries: object) -> str:
    """Return entries as JavaScript writes them."""
    return "".join(json.dumps(entry, separators=(",", ":"), ensure_ascii=False) + "\n" for entry in entries)


def write(path: Path, *entries: object) -> Path:
    """Write entries as JSON lines; text and bytes as they are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    parts = (one if isinstance(one, str | bytes) else json_lines(one) for one in entries)
    path.write_bytes(b"".join(one.encode() if isinstance(one, str) else one for one in parts))
    return path


class Claude:
    """A session of Claude Code, record by record."""

    def __init__(self, directory: Path | str, version: str = "2.1.325", session: str = "s1") -> None:
        self._fields = {"cwd": str(directory), "version": version, "sessionId": session, "gitBranch": "main"}
        self._number = 0

    def _entry(self, type: str, message: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        fields = {"type": type, "uuid": f"{self._fields['sessionId']}-{self._number}", "isSidechain": False}
        return {**fields, **self._fields, "timestamp": AT.format(self._number % 60), "message": message, **more}

    def user(self, content: object, **more: Any) -> dict[str, Any]:
        """A record under a person's role."""
        return self._entry("user", {"role": "user", "content": content}, more)

    def says(self, text: str, id: str = "", **more: Any) -> dict[str, Any]:
        """A text of the agent."""
        return self.block({"type": "text", "text": text}, id, **more)

    def block(self, block: dict[str, Any], id: str = "", **more: Any) -> dict[str, Any]:
        """A block of a message of the agent."""
        id = id or f"msg_{self._fields['sessionId']}_{self._number}"
        return self._entry("assistant", {"id": id, "role": "assistant", "model": "m", "content": [block]}, more)

    def calls(self, name: str, id: str = "toolu_1", **arguments: Any) -> dict[str, Any]:
        """A tool call."""
        return self.block({"type": "tool_use", "id": id, "name": name, "input": arguments})

    def result(self, output: object, id: str = "toolu_1", *, is_error: bool = False, **more: Any) -> dict[str, Any]:
        """The result of a tool call."""
        block = {"type": "tool_result", "tool_use_id": id, "content": output}
        return self.user([{**block, "is_error": True} if is_error else block], **more)


class Codex:
    """A session of Codex, record by record, as one version writes it."""

    def __init__(self, directory: Path | str, version: str = "0.166.0", session: str = "c1") -> None:
        self._directory, self._version, self._session = str(directory), version, session
        self._number = 0

    @property
    def is_bare(self) -> bool:
        return self._version == "0.20.0"

    def meta(self, **more: Any) -> dict[str, Any]:
        """The first record."""
        at = AT.format(0)
        if self.is_bare:
            return {"id": self._session, "timestamp": at, "instructions": None, "git": {}}
        fields = {"id": self._session, "timestamp": at, "cwd": self._directory, "git": {"branch": "main"}}
        return self._line("session_meta", {**fields, "instructions": "x" * 20_000, **more})

    def _line(self, type: str, payload: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        ordinal = {"ordinal": self._number} if self._version == "0.166.0" else {}
        return {"timestamp": AT.format(self._number % 60), **ordinal, "type": type, "payload": payload}

    def item(self, type: str, **fields: Any) -> dict[str, Any]:
        """An item of the conversation."""
        if self.is_bare:
            return {"type": type, **fields}
        return self._line("response_item", {"type": type, **fields})

    def message(self, role: str, *texts: str, kind: str = "") -> dict[str, Any]:
        """A message of a person, the agent or the program."""
        parts = [{"type": "output_text" if role == "assistant" else "input_text", "text": text} for text in texts]
        more: dict[str, Any] = {}
        if self._version == "0.166.0":
            more["id"] = f"msg_{self._session}_{self._number}"
            more["internal_chat_message_metadata_passthrough"] = {
                "content_item_kinds": [kind or "user.text"] * len(texts)
            }
        return self.item("message", role=role, content=parts, **more)

    def event(self, type: str, **fields: Any) -> dict[str, Any]:
        """An event, which repeats an item."""
        return {"record_type": "state"} if self.is_bare else self._line("event_msg", {"type": type, **fields})

    def runs(self, command: str, id: str = "call_1", **more: Any) -> dict[str, Any]:
        """A call of the shell."""
        if self._version == "0.166.0":
            arguments = {"cmd": command, **more}
            return self.item("function_call", name="exec_command", arguments=json.dumps(arguments), call_id=id)
        arguments = {"command": ["bash", "-lc", command], **more}
        return self.item("function_call", name="shell", arguments=json.dumps(arguments), call_id=id)

    def output(self, code: int, text: str, id: str = "call_1") -> dict[str, Any]:
        """The result of a call of the shell."""
        if self._version == "0.166.0":
            told = f"Chunk ID: e\nWall time: 0.0 seconds\nProcess exited with code {code}\nOutput:\n{text}"
        elif self._version == "0.92.0":
            told = f"Exit code: {code}\nWall time: 0 seconds\nOutput:\n{text}"
        else:
            told = json.dumps({"output": text, "metadata": {"exit_code": code, "duration_seconds": 0.0}})
        return self.item("function_call_output", call_id=id, output=told)


class Gemini:
    """A session of the Gemini CLI, message by message."""

    def __init__(self, session: str = "g1") -> None:
        self._session = session
        self._number = 0

    def header(self, **more: Any) -> dict[str, Any]:
        """The first line of a `.jsonl` file."""
        fields = {
            "sessionId": self._session,
            "projectHash": "x",
            "startTime": AT.format(0),
            "lastUpdated": AT.format(0),
        }
        return {**fields, "kind": "main", **more}

    def user(self, *parts: object) -> dict[str, Any]:
        """A message under a person's role."""
        return self._message("user", [{"text": part} if isinstance(part, str) else part for part in parts])

    def says(self, text: str, *calls: dict[str, Any]) -> dict[str, Any]:
        """A message of the agent, with its tool calls."""
        return {
            **self._message("gemini", text),
            "thoughts": [{"subject": "Hm"}],
            **({"toolCalls": calls} if calls else {}),
        }

    def _message(self, type: str, content: object) -> dict[str, Any]:
        self._number += 1
        id = f"{self._session}-{self._number}"
        return {"id": id, "timestamp": AT.format(self._number % 60), "type": type, "content": content}

    def ran(self, command: str, output: str) -> dict[str, Any]:
        """A call of the shell."""
        return self.called("run_shell_command", {"command": command}, output)

    def called(self, name: str, arguments: dict[str, Any], output: str, status: str = "success") -> dict[str, Any]:
        """A tool call."""
        response = {"functionResponse": {"id": "x", "name": name, "response": {"output": output}}}
        return {"id": f"{name}_1", "name": name, "args": arguments, "result": [response], "status": status}
