"""What reading and importing a repository's history cost, against the `git log` that they take."""

from __future__ import annotations

import os
import random
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from bench.measure import Table
from bench.prose import forget_words, paragraph
from ralph.core.git import stream_git
from ralph.memory.capture.git_history import LOG_COMMAND, read_commits
from ralph.memory.capture.history import HistoryImport
from ralph.store import create_store

COMMITS = 10_000
FOLDERS, FILES = 40, 60
"""Folders of the repository, and files in each."""
REPEATS = 5
START = 1_600_000_000
MINUTES_APART = 90
SUBJECTS = (
    "Add {} to {}",
    "fix: {} in {}",
    "Bump {} from 1.2.3 to 1.2.4 in {}",
    "Make {} of {} faster",
    "Revert {} {}",
)


def run(table: Table) -> None:
    """Measure, and print a row for git alone and those for the reader and the import, which run the same command."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        _make(root)
        print(f"git history, {COMMITS:,} commits", flush=True)
        log = _least_cpu(lambda: sum(map(len, stream_git(root, *LOG_COMMAND, "--name-only", "HEAD", "--"))))
        read = _least_cpu(lambda: sum(1 for _ in read_commits(root, limit=COMMITS)))
        few = _least_cpu(lambda: sum(1 for _ in read_commits(root, limit=100)))
        table.row("git log, CPU", log * 1000, 1.0)
        table.row("its commits as episodes, links included, CPU with git", read * 1000, read / log, 2.0)
        table.row("the newest 100 of them", few * 1000, few / log)
        stored = _least_cpu(lambda: _import(root))
        table.row("ralph import git: also redacted, stored and indexed", stored * 1000, stored / log, goal=2.0)


def _import(root: Path) -> None:
    """Import all commits into a new database."""
    forget_words()
    with tempfile.TemporaryDirectory() as folder, closing(create_store(f"sqlite:///{folder}/b.db", "bench")) as store:
        HistoryImport(store, str(root)).import_commits(limit=COMMITS)


def _least_cpu(act: Callable[[], object]) -> float:
    """Return the CPU seconds of a call and of the processes it ran, the least of several calls."""
    return min(_cpu(act) for _ in range(REPEATS))


def _cpu(act: Callable[[], object]) -> float:
    before = os.times()
    act()
    return sum(os.times()[:4]) - sum(before[:4])


def _make(root: Path) -> None:
    subprocess.run(["git", "init", "--quiet", "--initial-branch=main"], cwd=root, check=True)
    importing = subprocess.Popen(["git", "fast-import", "--quiet"], cwd=root, stdin=subprocess.PIPE)
    with importing, importing.stdin as stdin:  # type: ignore[union-attr]
        stdin.writelines(_commits(random.Random(1)))
    if importing.returncode:
        raise SystemExit("git fast-import failed.")


def _commits(chance: random.Random) -> Iterator[bytes]:
    for number in range(COMMITS):
        said = paragraph(chance)
        subject = chance.choice(SUBJECTS).format(*said.split()[:2])
        message = f"{subject}\n\n{said}\n\nSigned-off-by: A <a@b.example>\n".encode()
        at = START + number * MINUTES_APART * 60
        yield f"commit refs/heads/main\ncommitter A <a@b.example> {at} +0000\n".encode()
        yield b"data %d\n%s" % (len(message), message)
        for _ in range(chance.randrange(4) + 1):
            path = f"src/part{chance.randrange(FOLDERS)}/file{chance.randrange(FILES)}.py"
            yield f"M 100644 inline {path}\ndata <<END\n{number}\nEND\n".encode()
        yield b"\n"
