"""What many memories and episodes cost: adding one more, hooks that keep nothing, and many sessions at once."""

from __future__ import annotations

import compileall
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import ralph
from bench.cold import PROGRAM, command
from bench.hooks import BAR, INITIALIZE, PROMPT, START, hook
from bench.measure import Table
from bench.memory import BENCH, memories, words
from bench.writers import cpu
from ralph.core.records import Episode, EpisodeKind, Speaker, now
from ralph.formats.memories_document import SECTION_HEADINGS
from ralph.integrations.hook_errors import list_hook_errors
from ralph.project import Project
from ralph.workspace import init_project

FEW, MANY = 10, 10_000
EPISODES, PASSAGES = 50_000, 10
"""Episodes of past sessions, and how many of them are of one session."""
GROWTH = 2.0
"""Most that one memory may cost among many others, of one among few."""
REPEATS = 15
CALLS = 20
"""Calls of a running MCP server."""
SESSIONS, TURNS = 20, 3


def run(table: Table) -> None:
    """Measure each way in with few memories and with many, in turns, so that both meet the same noise."""
    compileall.compile_dir(str(Path(ralph.__file__).parent), quiet=2)  # as after an install
    with tempfile.TemporaryDirectory(prefix="ralph-bench-", dir=Path.home()) as name:
        few, many = (make_project(Path(name) / str(count), count) for count in (FEW, MANY))
        print(f"CPU of adding one memory, {MANY:,} present to {FEW}")
        for what, measure in DOORS.items():
            measured = [(measure(few), measure(many)) for _ in range(REPEATS)]
            least = [min(column) for column in zip(*measured, strict=True)]
            table.row(what, least[1] * 1000, least[1] / least[0], GROWTH)
        sessions_at_once(table, many)
        add_episodes(many)
        quiet_hooks(table, many)


def quiet_hooks(table: Table, directory: Path) -> None:
    """Measure hooks that find nothing to keep and no passage to quote with a prompt, in turns with bare Python."""
    print(f"CPU of hooks that keep nothing, {MANY:,} memories and {EPISODES:,} episodes")
    transcript = {"session_id": "quiet", "transcript_path": write_transcript(directory)}
    given = {
        "session-start": START,
        "user-prompt-submit": {"session_id": "quiet", "prompt": "Why does the lexer skip a comma?"},
        "stop": {**transcript, "last_assistant_message": "Done."},
        "session-end": transcript,
    }
    hook(directory, PROGRAM, "hook", "stop", given=given["stop"])  # keeps the turns, once
    calls: dict[str, Callable[[], None]] = {"": lambda: command(directory, sys.executable, "-c", "pass")}
    for event in given:
        calls[event] = lambda e=event: hook(directory, PROGRAM, "hook", e, given=given[e])  # type: ignore[misc]
    measured = [[cpu(call) for call in calls.values()] for _ in range(REPEATS)]
    nothing, *least = [min(column) for column in zip(*measured, strict=True)]
    table.row("python -c pass", nothing * 1000, 1.0)
    for event, spent in zip(given, least, strict=True):
        table.row(f"ralph hook {event}", spent * 1000, spent / nothing, BAR)
    with Project.open(directory) as project:
        assert not project.sessions.get("quiet").shown


def add_episodes(directory: Path) -> None:
    """Add passages of sessions on the branch of the directory; one in seven has a word of the prompt."""
    subprocess.run(("git", "init", "-q", "-b", "main", str(directory)), check=True)
    chance, at = random.Random(1), now()
    some = ("lexer", "comma", "skip", *[""] * 18)
    episodes = [
        Episode(
            id=f"ep-{number:016x}",
            kind=EpisodeKind.SESSION,
            source=f"past-{number // PASSAGES}",
            agent="claude",
            position=number % PASSAGES,
            speaker=Speaker.PERSON,
            text=f"{words(chance, 40)} {chance.choice(some)}",
            branch="main",
            at=at,
        )
        for number in range(EPISODES)
    ]
    with Project.open(directory) as project:
        for start in range(0, EPISODES, 500):
            project.store.episodes.add(episodes[start : start + 500])


def write_transcript(directory: Path) -> str:
    """Write a transcript of a session in the directory as Claude Code does; return its path."""
    path = directory / "session.jsonl"
    turns = (("user", "Please look at the build."), ("assistant", "It is done, all of it."))
    common = {"sessionId": "quiet", "cwd": str(directory.resolve()), "gitBranch": "main", "timestamp": now()}
    entries = (
        {"type": role, "uuid": role, **common, "message": {"role": role, "content": text}} for role, text in turns
    )
    path.write_text("".join(json.dumps(entry, separators=(",", ":")) + "\n" for entry in entries))
    return str(path)


def make_project(directory: Path, count: int) -> Path:
    """Make a project with memories that are in its files."""
    directory.mkdir()
    init_project(directory)
    with Project.open(directory) as project:
        for number, kind in enumerate(SECTION_HEADINGS):
            some = memories(-(-count // len(SECTION_HEADINGS)), first=number * count, kind=kind)
            project.store.memories.insert_all_unchecked(some, BENCH)
        project.files.sync()
    return directory


def a_fact() -> str:
    """Return a sentence that nobody has said before."""
    return f"The parser of {os.urandom(4).hex()} drops {os.urandom(4).hex()} after a tab."


def stop(directory: Path, session: str = "bench") -> None:
    """End a turn in which the agent stated a memory."""
    message = f"Done.\nMEMORY:fix:{a_fact()}"
    hook(directory, PROGRAM, "hook", "stop", given={"session_id": session, "last_assistant_message": message})


def mcp_calls(directory: Path, calls: int) -> None:
    """Start an MCP server that adds memories, and wait for its end."""
    messages = [INITIALIZE, {"jsonrpc": "2.0", "method": "notifications/initialized"}]
    for number in range(calls):
        arguments = {"name": "remember", "arguments": {"content": a_fact(), "type": "fix"}}
        messages.append({"jsonrpc": "2.0", "id": number + 2, "method": "tools/call", "params": arguments})
    text = "".join(json.dumps(message) + "\n" for message in messages)
    told = subprocess.run((PROGRAM, "mcp"), cwd=directory, check=True, input=text.encode(), capture_output=True).stdout
    answers = [json.loads(line) for line in told.splitlines()]
    assert not [one for one in answers if "error" in one or one["result"].get("isError")], answers
    assert len(answers) == calls + 1, answers


def one_mcp_call(directory: Path) -> float:
    """Return the CPU time of one call of a running server, in seconds."""
    return (cpu(lambda: mcp_calls(directory, CALLS + 1)) - cpu(lambda: mcp_calls(directory, 1))) / CALLS


DOORS: dict[str, Callable[[Path], float]] = {
    "ralph memory add": lambda directory: cpu(lambda: command(directory, PROGRAM, "memory", "add", a_fact())),
    "ralph hook stop": lambda directory: cpu(lambda: stop(directory)),
    "ralph mcp, started for it": lambda directory: cpu(lambda: mcp_calls(directory, 1)),
    "ralph mcp, one call of a running server": one_mcp_call,
}


def sessions_at_once(table: Table, directory: Path) -> None:
    """Let sessions work at once, each of which states a memory in every turn; count the hooks that took too long."""
    print(f"{SESSIONS} sessions at once, {MANY:,} memories")
    before = len(list_hook_errors(str(directory)))
    waits: list[float] = []

    def timed(act: Callable[[], None]) -> None:
        began = time.perf_counter()
        act()
        waits.append(time.perf_counter() - began)

    def work(session: str) -> None:
        timed(lambda: hook(directory, PROGRAM, "hook", "session-start", given={**START, "session_id": session}))
        for _ in range(TURNS):
            timed(
                lambda: hook(directory, PROGRAM, "hook", "user-prompt-submit", given={**PROMPT, "session_id": session})
            )
            timed(lambda: stop(directory, session))

    threads = [threading.Thread(target=work, args=(f"session-{number}",)) for number in range(SESSIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    waits.sort()
    table.row("p50 of a hook", waits[len(waits) // 2] * 1000, 1.0)
    table.row("slowest", waits[-1] * 1000, waits[-1] / waits[len(waits) // 2])
    failed = len(list_hook_errors(str(directory))) - before
    table.missed += failed > 0
    print(f"  {failed} of {len(waits)} hooks failed  (at most 0: {'MISSED' if failed else 'met'})", flush=True)
