"""Reading and import of transcripts, beside `json.loads` over the same lines."""

from __future__ import annotations

import json
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from bench.measure import Table
from bench.prose import forget_words, output, paragraph
from ralph.formats.transcripts import READERS
from ralph.formats.transcripts.base import Transcript
from ralph.memory.capture.session_import import ImportContext, SessionImport
from ralph.store import create_store

MEGABYTES = 50
AT_MOST = 3.0
TOOL_CALLS = (3, 6)
"""Tool calls of an exchange, on average; what is said and failed then is about 4 and 2 % of the bytes."""


def run(table: Table) -> None:
    """Print how long transcripts take."""
    for calls in TOOL_CALLS:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "s.jsonl"
            write_transcript(path, MEGABYTES * 1024 * 1024, calls)
            _measure(table, path)


def _measure(table: Table, path: Path) -> None:
    size = path.stat().st_size
    transcript = Transcript(agent="claude", session="s", path=str(path), directory="/p", root="/p", size=size)
    kept = sum(len(turn.text) for turn in READERS["claude"].turns(transcript, _refuse)) / size
    print(f"Transcript of {MEGABYTES} MB, {kept:.1%} of it kept: time of json.loads over the same lines = 1")
    base = _cpu_seconds(lambda: _parse_all(path))
    read = _cpu_seconds(lambda: sum(1 for _ in READERS["claude"].turns(transcript, _refuse)))
    stored = _cpu_seconds(lambda: _import(transcript))
    table.row("turns of a Claude Code transcript", read * 1000, read / base, AT_MOST)
    table.row("ralph import sessions: also redacted, stored, indexed", stored * 1000, stored / base, goal=AT_MOST)


def _import(transcript: Transcript) -> None:
    """Import the transcript into a new database."""
    forget_words()
    with tempfile.TemporaryDirectory() as folder, closing(create_store(f"sqlite:///{folder}/b.db", "bench")) as store:
        SessionImport(ImportContext(store), READERS["claude"], []).read(transcript)


def write_transcript(path: Path, size: int, calls: int = TOOL_CALLS[0]) -> None:
    """Write a transcript of Claude Code: mostly tool output, as real ones are."""
    chance, written = random.Random(1), 0
    with path.open("w") as file:
        for entry in _entries(chance, calls):
            written += file.write(json.dumps(entry, separators=(",", ":"), ensure_ascii=False) + "\n")
            if written >= size:
                return


def _entries(chance: random.Random, calls: int) -> Iterator[dict[str, object]]:
    """Yield exchanges: a prompt, tool calls of which some fail, what the agent says, and what surrounds it."""
    number = 0
    while True:
        number += 1
        yield _message("user", number, paragraph(chance)[:400])
        for _ in range(chance.randrange(2 * calls)):
            number += 1
            id, is_error = f"toolu_{number}", chance.random() < 0.03
            thought = {"type": "thinking", "thinking": paragraph(chance), "signature": "x" * 400}
            yield _message("assistant", number, [thought])
            call = {"type": "tool_use", "id": id, "name": chance.choice(("Bash", "Edit", "Read"))}
            arguments = {"command": "make test", "file_path": "/p/a.py", "new_string": output(chance, 400)}
            yield _message("assistant", number, [{**call, "input": arguments}])
            shown = output(chance, chance.randrange(500, 6_000))
            result = {"type": "tool_result", "tool_use_id": id, "content": shown, "is_error": is_error}
            yield {**_message("user", number, [result]), "toolUseResult": {"stdout": shown}}
            yield {"type": "progress", "data": {"hook": "PostToolUse"}, "uuid": f"p{number}"}
        said = f"{paragraph(chance)}\n\n{paragraph(chance)}"
        yield _message("assistant", number, [{"type": "text", "text": said}])


def _message(type: str, number: int, content: object) -> dict[str, object]:
    at = f"2026-11-17T06:{number // 60 % 60:02d}:{number % 60:02d}.000Z"
    fields = {"uuid": f"{type}-{number}", "timestamp": at, "sessionId": "s", "cwd": "/p", "version": "2.1.325"}
    return {"isSidechain": False, **fields, "type": type, "message": {"id": "m", "role": type, "content": content}}


def _parse_all(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for line in file if json.loads(line))


def _cpu_seconds(act: Callable[[], object]) -> float:
    """Return the least CPU time of three calls."""
    times = []
    for _ in range(3):
        start = time.process_time()
        act()
        times.append(time.process_time() - start)
    return min(times)


def _refuse(problem: object) -> None:
    raise AssertionError(f"The transcript of the benchmark has a problem: {problem}")
