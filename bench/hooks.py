"""What a hook costs the session that waits for it, and what a server costs before it answers, beside peers.

The peers come from npm: `make bench-hooks` installs them; without them their rows are left out, and it says so.
"""

from __future__ import annotations

import compileall
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import ralph
from bench.cold import PROGRAM, peak_megabytes
from bench.measure import Table, best
from bench.recall_speed import SMALL, fill
from ralph.project import Project
from ralph.workspace import init_project

REPEATS = 30
FEWER = 5
MEGABYTES = 60
BAR = 6.0
PEERS = Path(sys.executable).parent.parent / "hook-peers" / "node_modules"
START = {"session_id": "bench", "hook_event_name": "SessionStart", "source": "startup"}
PROMPT = {"session_id": "bench", "hook_event_name": "UserPromptSubmit", "prompt": "Why does the parser drop a tab?"}
STOP = {
    "session_id": "bench",
    "hook_event_name": "Stop",
    "last_assistant_message": "MEMORY:fix:The parser wants tabs.",
}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}},
}


def run(table: Table) -> None:
    """Measure our hooks with many memories, then the hooks and the server of others."""
    compileall.compile_dir(str(Path(ralph.__file__).parent), quiet=2)  # as after an install
    with tempfile.TemporaryDirectory(prefix="ralph-bench-") as name:
        directory = Path(name)
        print(f"Hooks with {SMALL:,} memories")
        init_project(directory)
        with Project.open(directory) as project:
            fill(project, 0, SMALL)
        hook(directory, PROGRAM, "hook", "session-start", given=START)  # writes the files, once
        nothing = best(lambda: hook(directory, sys.executable, "-c", "pass"), REPEATS)
        table.row("python -c pass", nothing * 1000, 1.0)
        for event, given, bar in (
            ("session-start", START, BAR),
            ("user-prompt-submit", PROMPT, None),
            ("stop", STOP, None),
        ):
            spent = best(lambda e=event, g=given: hook(directory, PROGRAM, "hook", e, given=g), REPEATS)  # type: ignore[misc]
            table.row(f"ralph hook {event}", spent * 1000, spent / nothing, bar)
            if event == "session-start":
                ours = spent
        taken = peak_megabytes(directory, PROGRAM, "hook", "session-start")
        table.missed += taken > MEGABYTES
        print(
            f"  it takes {taken:.1f} MB  (at most {MEGABYTES}: {'met' if taken <= MEGABYTES else 'MISSED'})", flush=True
        )
        served = best(lambda: answer_of(directory, [PROGRAM, "mcp"]), FEWER * 2)
        table.row("ralph mcp, until it has answered initialize", served * 1000, served / nothing)
        beside(table, directory, nothing, ours, served)


def beside(table: Table, directory: Path, nothing: float, ours: float, served: float) -> None:
    """Measure what others' sessions wait for; their stores are empty, which is in their favour."""
    if not PEERS.is_dir() or not shutil.which("node"):
        print("  claude-mem and the MCP reference memory server are not installed: make bench-hooks")
        return
    server = ["node", str(next((PEERS / "@modelcontextprotocol/server-memory/dist").glob("index.js")))]
    spent = best(lambda: answer_of(directory, server), FEWER)
    table.row("MCP reference memory server, the same", spent * 1000, spent / nothing)
    print(f"  ralph mcp takes {served / spent:.2f} of its time; ralph hook session-start {ours / spent:.2f}")
    with tempfile.TemporaryDirectory(prefix="ralph-bench-") as home:
        environment = {**os.environ, "HOME": home, "CLAUDE_MEM_WORKER_PORT": str(free_port())}
        environment["PATH"] = f"{next((PEERS / '@oven').glob('*/bin'))}:{environment['PATH']}"
        scripts = PEERS / "claude-mem/plugin/scripts"
        worker = ["node", str(scripts / "bun-runner.js"), str(scripts / "worker-service.cjs")]
        try:
            hook(directory, *worker, "start", given=START, environment=environment)
            spent = sum(
                best(lambda w=words: hook(directory, *worker, *w, given=START, environment=environment), FEWER)  # type: ignore[misc]
                for words in (("start",), ("hook", "claude-code", "context"))
            )
        finally:
            hook(directory, *worker, "stop", environment=environment)
    table.row("claude-mem, both commands of its SessionStart hook", spent * 1000, spent / nothing)
    print(f"  ralph hook session-start takes {ours / spent:.3f} of its time")


def hook(
    directory: Path, *words: str, given: dict[str, str] | None = None, environment: dict[str, str] | None = None
) -> None:
    """Call a hook as an agent does, to its end; without a time limit, for with one Python looks only now and then."""
    told = json.dumps({**given, "cwd": str(directory)}) if given else ""
    subprocess.run(words, cwd=directory, check=True, input=told.encode(), stdout=subprocess.DEVNULL, env=environment)


def answer_of(directory: Path, words: list[str]) -> None:
    """Start an MCP server and wait for its first answer."""
    environment = {**os.environ, "MEMORY_FILE_PATH": str(directory / "memory.jsonl")}
    with subprocess.Popen(
        words, cwd=directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    ) as server:
        assert server.stdin
        assert server.stdout
        server.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
        server.stdin.flush()
        answer = json.loads(server.stdout.readline())
        assert answer["id"] == 1, answer
        server.kill()


def free_port() -> int:
    """Give a port of this machine that nobody uses."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
