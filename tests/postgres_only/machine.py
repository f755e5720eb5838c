"""A working copy and the commands run in it: what another machine is to the database."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from ralph.project import Project

AGENT = """
echo "$RALPH_TASK_ID" >> started.txt
echo "<knowledge tags=\\"task\\" title=\\"About $RALPH_TASK_ID\\">It was $RALPH_TASK_ID.</knowledge>"
echo "<journal>Did $RALPH_TASK_ID.</journal><task-done>$RALPH_TASK_ID</task-done>"
"""
"""What a worker does with a task: it leaves one memory, and the task is done."""
_OURS = ("RALPH_", "PG")
_IMPATIENT = """
from ralph.store import postgres
postgres.PATIENCE_SECONDS = {seconds}
from ralph.__main__ import main
raise SystemExit(main())
"""
"""The command, for a person who waits less long for a server that is away."""


class Ran:
    """What a command printed and how it ended."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Machine:
    """A directory in which commands run as processes of their own, with a database to keep their records in."""

    def __init__(self, directory: Path, url: str, *, patience_seconds: float | None = None, **environment: str) -> None:
        self.directory = directory
        self.url = url
        impatient = ["-c", _IMPATIENT.format(seconds=patience_seconds)]
        self._program = [sys.executable, *(["-m", "ralph"] if patience_seconds is None else impatient)]
        directory.mkdir(parents=True, exist_ok=True)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
        self.environment = {**kept, "RALPH_STORE": url, "NO_COLOR": "1", "RALPH_TRUST": "1", **environment}

    def ralph(self, *words: str, stdin: bytes = b"", seconds: float = 60, **environment: str) -> Ran:
        """Run a command to its end."""
        done = subprocess.run(
            [*self._program, *words],
            cwd=self.directory,
            env={**self.environment, **environment},
            input=stdin,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())

    def must(self, *words: str) -> str:
        """Run a command that must go well; give what it printed."""
        ran = self.ralph(*words)
        assert ran.code == 0, ran.err
        return ran.out

    def start(self, *words: str) -> Running:
        """Start a command and go on."""
        return Running(
            subprocess.Popen(
                [*self._program, *words],
                cwd=self.directory,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        )

    def work(self, *words: str, agent: str = AGENT) -> Running:
        """Start a worker that does its tasks as a shell script says."""
        (self.directory / "agent.sh").write_text(agent)
        return self.start("run", "--format", "json", *words, "--", "sh", "agent.sh")

    def open(self) -> Project:
        """Open the project from this process."""
        return Project.open(self.directory)


class Running:
    """A command that runs, and the lines it has printed so far, each with the moment it came."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.lines: list[tuple[float, str]] = []
        self.errors = ""
        self._new: queue.Queue[tuple[float, str]] = queue.Queue()
        self._readers = [threading.Thread(target=one, daemon=True) for one in (self._read, self._read_errors)]
        for reader in self._readers:
            reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            one = time.monotonic(), line.decode().rstrip("\n")
            self.lines.append(one)
            self._new.put(one)

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.errors += line.decode()

    @property
    def events(self) -> list[dict[str, Any]]:
        """What it told of itself, of what it printed as JSON."""
        return [json.loads(line) for _, line in list(self.lines) if line.endswith("}")]

    def told(self, name: str) -> list[dict[str, Any]]:
        """Give the events of one name."""
        return [one for one in self.events if one["event"] == name]

    def wait_for(self, sign: str, seconds: float = 30) -> float:
        """Wait until it prints a line that holds this, from those not waited for yet; give when that was."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                at, line = self._new.get(timeout=max(deadline - time.monotonic(), 0.001))
            except queue.Empty:
                raise AssertionError(f"no {sign!r} in {[one for _, one in self.lines]} {self.errors}") from None
            if sign in line:
                return at

    def end(self, seconds: float = 60) -> int:
        """Wait until it ends by itself; give its exit code."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"it goes on: {[one for _, one in self.lines]} {self.errors}") from None
        for reader in self._readers:
            reader.join(5)
        return code

    def kill(self) -> None:
        """End it without a word, if it has not ended."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def one_sentence(ran: Ran, secret: str = "") -> str:
    """Give what a command that was refused says: one line on stderr, with nothing that only we understand."""
    assert ran.code in (1, 2), (ran.code, ran.out, ran.err)
    assert "Traceback" not in ran.err
    assert ran.err.startswith("Error: "), ran.err
    assert ran.err.count("\n") == 1, ran.err
    assert ran.err.rstrip("\n")[-1] in ".!?" or ": ralph " in ran.err or "docs/" in ran.err, ran.err
    if secret:
        assert secret not in ran.err + ran.out
    return ran.err.removeprefix("Error: ").rstrip("\n")
