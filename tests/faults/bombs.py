"""Files and messages that are small and unfold to something huge, or hold what nobody means.

Every reader gets every bomb: as the whole of what it reads, and as one value in what is otherwise right. It may refuse
it or skip it, in a sentence that names the file; it may not crash, not take long, not take much memory, and not keep
a part that cannot be written out again.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

from ralph.agents.streams import JsonLinesParser
from ralph.cli import main
from ralph.core.records import record
from ralph.formats.transcripts.tail import read_agent_messages
from ralph.loop import run_log
from ralph.project import Project
from tests.faults.links import in_time, make_clone
from tests.faults.trial import Shown, Trial
from tests.make import damaged_rows

CPU_SECONDS = 2.0
MEGABYTES = 200
DEPTH = 100_000
DIGITS = 100_000
LONG_LINE = 50 * 1024 * 1024
SPARSE = 200 * 1024 * 1024
PLACE = "@VALUE@"

LAUGHS = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{','.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(12)
)
VALUES = {
    "lists in lists": "[" * DEPTH + "]" * DEPTH,
    "lists without an end": "[" * DEPTH,
    "objects in objects": '{"a":' * DEPTH + "1" + "}" * DEPTH,
    "no number": "NaN",
    "infinity": "Infinity",
    "minus infinity": "-Infinity",
    "too large a number": "1e999",
    "a number of many digits": "9" * DIGITS,
    "a fraction of many digits": "0." + "9" * DIGITS,
    "a number below zero": "-9223372036854775809",
    "half a character": '"\\ud800"',
    "a NUL": '"a\\u0000b"',
    "the year nought": '"0000-01-01T00:00:00Z"',
    "the year ten thousand": '"10000-01-01T00:00:00Z"',
    "a day that is none": '"2026-02-31T25:61:61Z"',
    "many small things": "[" + "{}," * 300_000 + "{}]",
    "an object": '{"a": {"b": [1]}}',
    "nothing": "null",
}
"""What stands for one value."""
WHOLES: dict[str, bytes] = {
    "aliases of aliases": LAUGHS.encode(),
    "aliases of aliases as front matter": f"---\ntitle: t\ntags: [x]\n{LAUGHS}---\n\nText.\n".encode(),
    "a tag for an object": b"---\ntitle: !!python/object/apply:os.system ['touch pwned']\ntags: [x]\n---\n\nText.\n",
    "a tag alone": b"memories: !!python/object/apply:os.system ['touch pwned']\n",
    "merged keys": b"---\n<<: [{title: t}, {tags: [x]}]\ntitle: t\ntags: [x]\n---\n\nText.\n",
    "keys that are lists": b"---\n? [a, b]\n: c\ntitle: t\ntags: [x]\n---\n\nText.\n",
    "brackets in front matter": b"---\ntitle: t\ntags: " + b"[" * DEPTH + b"\n---\n\nText.\n",
    "dates out of range": b"---\ntitle: t\ntags: [x]\ncreated_at: 10000-13-45T99:99:99Z\n---\n\nText.\n",
    "brackets": b"[" * DEPTH,
    "braces": b"{" * DEPTH,
    "tables in tables": b"a." * DEPTH + b"b = 1\n",
    "lists of lists as a setting": b"[memories]\nfiles = " + b"[" * DEPTH + b"\n",
    "keys that are there twice": b'{"memories": [], "memories": [], "version": 1, "version": 2}',
    "NULs": b"\0" * 4096,
    "no text": bytes(range(256)) * 64,
    "a byte order mark and no more": b"\xef\xbb\xbf",
    "wrong UTF-8": b"\xff\xfe\xc3\x28" * 1000,
    "quotes without an end": b'"' * DEPTH + b",",
    "commas": b"," * DEPTH + b"\n",
    "backticks": b"`" * DEPTH,
    "headings": b"### mem-1-0001\n" * 20_000,
    "marks of a conflict": b"<<<<<<< HEAD\n" * 20_000 + b"=======\n" * 20_000,
    "comments without an end": b"<!-- tags: " * 20_000,
    "gzip": bytes.fromhex("1f8b0800000000000003") + b"\0" * 100,
    "half an object": b'{"version": 1, "memories": [{"id": "mem-1", "content": "Half',
}
MARK_LINE, MARK_SPARSE = b"a line of 50 MB", b"200 MB of nothing"


@record
class Reader:
    """One way in: where the bytes go, what is asked then, and what is right around a single value."""

    file: str
    asks: tuple[tuple[str, ...], ...]
    right: str = ""
    """With `@VALUE@` for the value; none where there is nothing like it."""
    is_input: bool = False
    """Whether it comes on standard input."""


def _imports(*words: str) -> tuple[tuple[str, ...], ...]:
    return (words,)


_ENTRY = f'{{"id": "mem-1-0001", "type": "pattern", "content": "Text.", "tags": ["x"], "confidence": {PLACE}}}'
_DATED = _ENTRY.replace('"confidence"', '"created_at"')
READERS: dict[str, Reader] = {
    "a knowledge file": Reader(
        file=".ralph/knowledge/bomb.md",
        asks=(("memory", "list"),),
        right=f"---\ntitle: t\ntags: [x]\ncreated_at: {PLACE}\n---\n\nText.\n",
    ),
    "memories.md": Reader(file=".agent/memories.md", asks=(("memory", "list"),)),
    "ralph.yml": Reader(file="ralph.yml", asks=(("status",),), right=f"memories: {PLACE}\n"),
    ".ralph.toml": Reader(file=".ralph.toml", asks=(("status",),), right=f"[memories]\nbudget = {PLACE}\n"),
    "JSON": Reader(
        file="memories.json", asks=_imports("memory", "import", "memories.json"), right=f'{{"memories": [{_ENTRY}]}}'
    ),
    "JSON with a date": Reader(
        file="dated.json", asks=_imports("memory", "import", "dated.json"), right=f'{{"memories": [{_DATED}]}}'
    ),
    "a bundle": Reader(
        file="bundle.jsonl",
        asks=_imports("memory", "import", "bundle.jsonl", "--force"),
        right='{"ralph_bundle":1,"project":"p","exported_at":"2026-01-01T00:00:00Z"}\n' + _ENTRY + "\n",
    ),
    "learnings": Reader(
        file="ralph-learnings.json",
        asks=_imports("memory", "import", "ralph-learnings.json", "--force"),
        right=f'{{"version": "1.0", "checksum": "", "learnings": [{{"id": "l1", "content": {PLACE}}}]}}',
    ),
    "staging": Reader(
        file="staging.json",
        asks=_imports("memory", "import", "staging.json", "--force"),
        right=f'{{"version": "1.0", "checksum": "", "staged": [{{"id": "l1", "learning": {PLACE}}}]}}',
    ),
    "CSV": Reader(
        file="memories.csv",
        asks=_imports("memory", "import", "memories.csv"),
        right=f"id,type,content,confidence\nmem-1-0001,pattern,Text.,{PLACE}\n",
    ),
    "tasks": Reader(
        file="tasks.jsonl",
        asks=_imports("task", "import", "tasks.jsonl"),
        right=f'{{"title": "A task", "priority": {PLACE}}}\n',
    ),
    "a checklist": Reader(file="tasks.md", asks=_imports("task", "import", "tasks.md")),
    "progress.txt": Reader(file="progress.txt", asks=_imports("memory", "import", "progress.txt")),
    "a loop's state": Reader(
        file="state.json",
        asks=_imports("learn", "extract", "--state", "state.json"),
        right=f'{{"iteration": {PLACE}, "history": [{PLACE}]}}',
    ),
    "Claude's settings": Reader(
        file=".claude/settings.local.json", asks=_imports("setup", "claude", "--dry-run"), right=f'{{"hooks": {PLACE}}}'
    ),
    "a list of servers": Reader(
        file=".mcp.json", asks=_imports("setup", "claude", "--dry-run"), right=f'{{"mcpServers": {PLACE}}}'
    ),
    "Codex's settings": Reader(
        file=".codex/config.toml", asks=_imports("setup", "codex", "--dry-run"), right=f"x = {PLACE}\n"
    ),
    "a hook": Reader(file="event", asks=(("hook",),), is_input=True, right=f'{{"session_id": {PLACE}, "cwd": "."}}'),
    "MCP": Reader(
        file="message",
        asks=(("mcp",),),
        is_input=True,
        right=f'{{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {PLACE}}}\n',
    ),
    "what an agent prints": Reader(file="stream", asks=(("stream",),), right=f'{{"type": "x", "usage": {PLACE}}}\n'),
    "what a run told": Reader(
        file=".ralph/ralph.db-live/r-1.jsonl", asks=(("live",),), right=f'{{"event": "said", "seconds": {PLACE}}}\n'
    ),
    "a transcript": Reader(
        file="transcript.jsonl",
        asks=(("transcript",),),
        right=f'{{"message": {{"role": "assistant", "content": {PLACE}}}}}\n',
    ),
}


@record
class Case:
    """A bomb for a reader."""

    reader: str
    bomb: str
    is_whole: bool


def cases() -> list[Case]:
    """Give all there are."""
    found = []
    for name, reader in READERS.items():
        wholes = [*WHOLES, MARK_LINE.decode(), MARK_SPARSE.decode()]
        found += [Case(reader=name, bomb=bomb, is_whole=True) for bomb in wholes]
        found += [Case(reader=name, bomb=bomb, is_whole=False) for bomb in VALUES if reader.right]
    return found


def run(folder: Path, size: int, seed: int) -> Shown:
    """Give so many bombs to readers, spread over all there are."""
    every = cases()
    size = min(size, len(every))
    chosen = [every[(n * len(every) // size + seed) % len(every)] for n in range(size)]
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else folder
    lost = 0
    slowest, largest = 0.0, 0.0
    with tempfile.TemporaryDirectory(dir=place, prefix="ralph-bombs-") as quick:
        make_clone(Path(quick) / "pattern")
        for case in chosen:
            wrong, seconds, megabytes = tried(case, Path(quick))
            slowest, largest = max(slowest, seconds), max(largest, megabytes)
            if wrong:
                lost += 1
                print(f"{case.bomb} for {case.reader}: {'; '.join(wrong)}", file=sys.stderr)
    return Shown(
        load=f"{len(WHOLES) + len(VALUES) + 2} bombs for {len(READERS)} readers",
        tried=len(chosen),
        lost=lost,
        says=f"at most {slowest:.1f} s of CPU and {largest:.0f} MB",
    )


TRIALS = (Trial(name="bombs", test="YAML, JSON bombs", allowed="0", size=len(cases()), run=run),)


def put(case: Case, clone: Path) -> Path:
    """Write what a reader is given."""
    reader = READERS[case.reader]
    path = clone / reader.file
    path.parent.mkdir(parents=True, exist_ok=True)
    if not case.is_whole:
        path.write_text(reader.right.replace(PLACE, VALUES[case.bomb]))
    elif case.bomb == MARK_LINE.decode():
        path.write_bytes(b'{"a": "' + b"x" * LONG_LINE + b'"}\n')
    elif case.bomb == MARK_SPARSE.decode():
        with path.open("wb") as file:
            file.truncate(SPARSE)
    else:
        path.write_bytes(WHOLES[case.bomb])
    return path


def tried(case: Case, folder: Path) -> tuple[list[str], float, float]:
    """Give what went wrong, and the CPU seconds and megabytes it took."""
    clone = folder / "clone"
    shutil.rmtree(clone, ignore_errors=True)
    shutil.copytree(folder / "pattern", clone, symlinks=True)
    path = put(case, clone)
    reader = READERS[case.reader]
    usage = folder / "usage"

    def work() -> None:
        base = _resident()
        for words in reader.asks:
            code = _ask(words, path, clone)
            print(f"\n-> {code}", flush=True)
        used = resource.getrusage(resource.RUSAGE_SELF)
        usage.write_text(f"{used.ru_utime + used.ru_stime} {used.ru_maxrss / 1024 - base}")

    usage.write_text("0 0")
    said = folder / "said"
    wrong = [] if in_time(work, said, clone) else ["it took too long"]
    seconds, megabytes = map(float, usage.read_text().split())
    text = said.read_text(errors="replace")
    if "Traceback" in text:
        wrong.append("a traceback: " + text[text.index("Traceback") :].strip().split("\n")[-1][:200])
    if seconds > CPU_SECONDS:
        wrong.append(f"{seconds:.1f} s")
    if megabytes > MEGABYTES:
        wrong.append(f"{megabytes:.0f} MB")
    if "-> 0" not in text and "-> 1" not in text and "-> 2" not in text and "-> 3" not in text:
        wrong.append("no exit code")
    is_long = text.count("\n") > 60 or len(text) > 20_000
    if is_long and "-> 0" not in text:
        wrong.append(f"{len(text):,} characters were said")
    if (clone / "pwned").exists():
        wrong.append("it was run")
    return [*wrong, *_kept_wrongly(clone)], seconds, megabytes


def _resident() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def _kept_wrongly(clone: Path) -> list[str]:
    """Say what is stored that cannot be written out, read or shown again."""
    toml, yml = clone / ".ralph.toml", clone / "ralph.yml"
    toml.unlink(missing_ok=True)
    yml.unlink(missing_ok=True)
    with Project.open(clone) as project:
        kept = list(project.store.memories.all())
        wrong = [f"{one.id} holds half a character" for one in kept if not _is_text(f"{one.title}{one.content}")]
        for one in kept:
            json.loads(json.dumps(one.confidence), parse_constant=_refuse)
        return wrong + (["what is stored is damaged"] if damaged_rows(project.store) else [])


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def _refuse(word: str) -> NoReturn:
    raise AssertionError(f"{word} is stored")


def _ask(words: tuple[str, ...], path: Path, clone: Path) -> int:
    if words == ("stream",):
        return _stream(path)
    if words == ("live",):
        run_log.read_events(clone, "r-1")
        return 0
    if words == ("transcript",):
        read_agent_messages(str(path))
        return 0
    if _is_input(words):
        os.dup2(os.open(path, os.O_RDONLY), 0)
        sys.stdin = open(0, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
    if words == ("hook",):
        from ralph.integrations import hooks

        return hooks.main(["session-start"])
    try:
        return main(words)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1


def _is_input(words: tuple[str, ...]) -> bool:
    return words in (("hook",), ("mcp",))


def _stream(path: Path) -> int:
    lines = JsonLinesParser()
    with path.open(encoding="utf-8", errors="replace") as file:
        while piece := file.read(64 * 1024):
            lines.add(piece)
    lines.finish()
    return 0
