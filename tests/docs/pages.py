"""Commands that pages show: find them, and run those of a page as a reader would.

A page is run in one shell, in a copy of a prepared project, with a scripted `claude` in the place of Claude Code. What
is not run is named here with the reason (`NOT_RUN`), or by a comment above its block: `<!-- not run: REASON -->`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from ralph.core.records import record

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
FENCE = re.compile(r"^( *)```+ *(\w*)([^\n`]*)$")
COMMENT = re.compile(r"^<!-- not run: (.+) -->$")
TITLE = re.compile(r'title="([^"]+)"')
PROGRAMS = (
    "ralph|ralph-memory|claude|codex|gemini|git|make|pip|pipx|uv|uvx|npm|npx|python3?|sqlite3|curl|echo|export|bd"
)
COMMAND = re.compile(rf"^(?:{PROGRAMS}) ")
ID = re.compile(
    r"\b(?:mem-\d{10}-[0-9a-f]{4}|t-[0-9a-f]{6}|run-[0-9a-f]{8}|ep-[0-9a-f]{16}|chg-[0-9a-f]{8})(?![0-9a-f])"
)
ANOTHER_PROJECT = "<!-- another project -->"
"""Comment in a page: from here on, commands are run in a new project."""

MARK = "--- ended with"

NOT_RUN = {
    r"(npm|npx|pip|pipx|uv|uvx) ": "installs packages; tests/distribution/test_install.py installs ours",
    r"(claude|codex|gemini)( |$)": "starts a session with a paid model; tests/real_agents does, with a scripted one",
    r"make ": "a target of this repository, with its own run in make check or make torture",
    r"bd ": "a program of others; its export is read by tests/formats",
    r"ralph serve": "serves until it is ended; tests/web",
    r"ralph watch": "follows a run until it ends; tests/cli/test_watch.py",
    r"ralph mcp --http": "serves until it is ended; tests/integrations/mcp",
    r"curl ": "needs a server; tests/web",
    r"git clone ": "needs a host",
    r".*postgresql://": "needs a PostgreSQL server; tests/postgres_only",
    r"ralph run --agent (?!claude\b)": "needs a program that is not installed here; tests/real_agents",
    r"ralph (pause|resume|stop)\b": "needs a run in another terminal; tests/loop/test_steering.py",
    r"ralph notify test": "sends a message; tests/cli",
}
"""Commands that no page runs, by how they start, and why."""

ASKS = re.compile(r"^ralph (setup|trust|restore|task approve)\b(?!.*--(yes|dry-run|plugin))")
"""Commands that ask a person in a terminal; where there is none, they are run with `--yes`."""


@record
class Block:
    """A code block of a page that shows commands."""

    line: int
    commands: tuple[str, ...]
    output: tuple[str, ...] = ()
    """What the page shows for each of the commands."""
    reason: str = ""
    """Why it is not run, if the page says so."""
    file: str = ""
    """Name of the file whose content it shows, instead of commands."""
    content: str = ""


def blocks(page: str) -> Iterator[Block]:
    """Return the code blocks of a page that show commands or files, in order."""
    lines = page.split("\n")
    at = 0
    while at < len(lines):
        reason = next((found[1] for before in lines[max(at - 2, 0) : at] if (found := COMMENT.match(before))), "")
        fence = FENCE.match(lines[at])
        start = at
        if fence:
            at += 1
            while lines[at].strip() != "```":
                at += 1
            content = [line.removeprefix(fence[1]) for line in lines[start + 1 : at]]
            title = TITLE.search(fence[3])
            if title:
                yield Block(line=start, commands=(), file=title[1], content="\n".join([*content, ""]))
            elif fence[2] == "console":
                yield _transcript(start, content, reason)
            elif fence[2] in ("", "sh"):
                yield Block(line=start, commands=_commands(content), reason=reason)
        elif lines[at].startswith("    ") and not lines[at - 1].strip():
            while at + 1 < len(lines) and (lines[at + 1].startswith("    ") or not lines[at + 1].strip()):
                at += 1
            yield Block(line=start, commands=_commands(line[4:] for line in lines[start : at + 1]), reason=reason)
        at += 1


def _commands(lines: Iterator[str] | list[str]) -> tuple[str, ...]:
    plain = (line.removeprefix("$ ") for line in lines)
    return tuple(line for line in plain if COMMAND.match(line))


def _transcript(start: int, lines: list[str], reason: str) -> Block:
    commands: list[str] = []
    output: list[str] = []
    for line in lines:
        if line.startswith("$ "):
            commands.append(line[2:])
            output.append("")
        elif commands and commands[-1].endswith("\\") and not output[-1]:
            commands[-1] += f"\n{line.removeprefix('> ')}"
        elif commands:
            output[-1] += f"{line}\n"
    return Block(line=start, commands=tuple(commands), output=tuple(output), reason=reason)


def reason_not_to_run(block: Block, command: str) -> str:
    """Return why a command is not run; empty for one that is."""
    return block.reason or next((why for start, why in NOT_RUN.items() if re.match(start, command)), "")


# --- running ----------------------------------------------------------------------------


@record
class Ended:
    """A command that was run."""

    command: str
    shown: str
    output: str
    code: int


def run_page(page: str, directory: Path, environment: dict[str, str], ids: dict[str, str]) -> list[Ended]:
    """Run the commands of a page in one shell, in a directory, and return how each ended.

    Ids that a page shows as output stand for those that were printed, in the commands after it; `ids` has what is there
    from the start.
    """
    ended: list[Ended] = []
    ids = dict(ids)
    with subprocess.Popen(
        ["bash"], cwd=directory, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as shell:
        for block in blocks(page):
            if block.file and not block.reason:
                source = directory.parent / f"line-{block.line}"
                source.write_text(block.content, encoding="utf-8")
                _run(shell, f'mkdir -p "$(dirname {block.file})" && cp {source} {block.file}')
            for command, shown in zip(block.commands, block.output or ("…\n",) * len(block.commands), strict=True):
                if reason_not_to_run(block, command):
                    continue
                printed, code = _run(shell, _with_ids(command, ids))
                if matches(shown, printed):
                    ids |= dict(zip(ID.findall(shown), ID.findall(printed), strict=False))
                output = _with_ids(printed, {there: here for here, there in ids.items()})
                for folder in (environment["HOME"], str(directory.parent)):
                    output = output.replace(folder, "/home/you")
                ended.append(Ended(command=command, shown=shown, output=output, code=code))
    return ended


def _with_ids(text: str, ids: dict[str, str]) -> str:
    return ID.sub(lambda found: ids.get(found[0], found[0]), text)


def _run(shell: subprocess.Popen[str], command: str) -> tuple[str, int]:
    """Run one command in a shell, and return what it printed and its exit status."""
    assert shell.stdin
    assert shell.stdout
    command = ASKS.sub(lambda found: f"{found[0]} --yes", command)
    shell.stdin.write(f"{{ {command}\n}} 2>&1 </dev/null; code=$?; echo; echo '{MARK}' $code\n")
    shell.stdin.flush()
    output = ""
    for line in shell.stdout:
        if line.startswith(MARK):
            text = output.rstrip("\n")
            return f"{text}\n" if text else "", int(line.split()[-1])
        output += line
    raise AssertionError(f"the shell ended: {command}\n{output}")


def reader(home: Path, programs: Path, installed: Path | None = None) -> dict[str, str]:
    """Return the environment of a reader: an empty home, `ralph` and a scripted `claude` in the PATH.

    `installed` is the folder of an installed `ralph`; by default it is the one of this repository.
    """
    home.mkdir(exist_ok=True)
    programs.mkdir(exist_ok=True)
    for name in ("scripted_claude.py", "playbook.json"):
        shutil.copy(HERE / name, programs)
    _program(programs / "claude", f'exec {sys.executable} {programs / "scripted_claude.py"} "$@"')
    if not installed:
        installed = programs
        _program(programs / "ralph", f'PYTHONPATH={ROOT / "src"} exec {sys.executable} -m ralph "$@"')
    (home / ".gitconfig").write_text("[user]\n\tname = A Reader\n\temail = reader@example.com\n", encoding="utf-8")
    kept = {name: os.environ[name] for name in ("LANG", "TMPDIR") if name in os.environ}
    return kept | {
        "HOME": str(home),
        "PATH": f"{programs}:{installed}:{os.environ['PATH']}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "COLUMNS": "120",
    }


def _program(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
    path.chmod(0o755)


# --- comparing --------------------------------------------------------------------------

MASKS = (
    (r"mem-\d{10}-[0-9a-f]{4}", "mem-ID"),
    (r"\bt-[0-9a-f]{6}(?![0-9a-f])", "t-ID"),
    (r"\brun-[0-9a-f]{8}(?![0-9a-f])", "run-ID"),
    (r"\bchg-[0-9a-f]{8}(?![0-9a-f])", "chg-ID"),
    (r"\bep-[0-9a-f]{16}(?![0-9a-f])", "ep-ID"),
    (r"\b(commit(?:ted)?) [0-9a-f]{7,12}\b", r"\1 COMMIT"),
    (r"\b(?=[0-9a-f]*\d)(?=\d*[a-f])[0-9a-f]{7}(?:[0-9a-f]{5})?\b", "COMMIT"),
    (r"\d{4}-\d\d-\d\d( \d\d:\d\d)?", "DATE"),
    (r"\b\d\d-\d\d \d\d:\d\d(:\d\d)?\b", "DATE"),
    (r"\b[A-Z][a-z]{2} \d\d? [A-Z][a-z]{2}( \d{4})?( \d\d:\d\d)?", "DATE"),
    (r"\b\d\d:\d\d\b", "TIME"),
    (r"used: \d+\.\d of", "used: N of"),
    (r"\b\d+\.\d+ ?s\b", "TIME"),
    (r"\b(\d+h )?(\d+m )?\d+s\b", "TIME"),
    (r" {2,}", "  "),
    (r" +\n", "\n"),
    (r"─+|-{5,}|={5,}", "---"),
)
"""What differs from run to run, and how it is compared."""


def masked(text: str) -> str:
    """Return a transcript without what differs from run to run."""
    for pattern, replacement in MASKS:
        text = re.sub(pattern, replacement, text)
    return text


def matches(shown: str, output: str) -> bool:
    """Return whether a page shows what was printed; `…` stands for any text, on a line of its own for any lines."""
    parts = [
        r"(?:.*\n)*?" if line.strip() == "…" else re.escape(line).replace("…", ".*") + r"\n"
        for line in masked(shown).splitlines()
    ]
    return re.fullmatch("".join(parts), masked(output)) is not None


def with_output(page: str, ended: list[Ended]) -> str:
    """Return a page with what its commands printed in place of what it shows; parts with `…` stay as they are."""
    at = 0
    for one in ended:
        before = f"$ {one.command.replace(chr(10), chr(10) + '> ')}\n"
        if before + one.shown not in page[at:]:
            continue  # in a block that shows no output
        at = page.index(before + one.shown, at) + len(before)
        if "…" not in one.shown and not matches(one.shown, one.output):
            page = page[:at] + one.output + page[at + len(one.shown) :]
    return page
