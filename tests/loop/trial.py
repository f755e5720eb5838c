"""A project to run the loop in, in this process or by command, and to look at what came of it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ralph.agents import Agent
from ralph.core.config import Config
from ralph.core.records import Attempt, AttemptOutcome, Memory, Task, TaskStatus, replace
from ralph.loop.options import RunOptions, RunSummary
from ralph.loop.progress import ProgressEvent
from ralph.loop.run import Loop
from ralph.project import Project
from tests.cli.ran import Ran, run

DONE = "<task-done>TASK</task-done>"
FAILED = "<task-failed>TASK</task-failed>"
SAYS_DONE = 'echo "<task-done>$RALPH_TASK_ID</task-done>"'
SAYS_FAILED = 'echo "<task-failed>$RALPH_TASK_ID</task-failed>"'
SOON_SECONDS = 30.0


class Trial:
    """A project, the runs in it, and what they told."""

    def __init__(self, project: Project, capsys: pytest.CaptureFixture[str]) -> None:
        self.project = project
        self.root = project.root
        self.events: list[ProgressEvent] = []
        self._capsys = capsys

    def run(
        self,
        agent: Agent,
        order: RunOptions | None = None,
        /,
        *,
        ask: Callable[[Task], str] | None = None,
        **sections: dict[str, object],
    ) -> RunSummary:
        """Run the loop with an agent; each section of the settings may be changed."""
        usual = Config()
        changed = {name: replace(getattr(usual, name), **values) for name, values in sections.items()}
        loop = Loop(
            store=self.project.store,
            agent=agent,
            config=replace(usual, **changed),
            directory=self.root,
            run_options=order or RunOptions(iterations=20),
            emit=self.events.append,
            ask_feedback=ask,
        )
        return loop.run_loop()

    # --- by command ------------------------------------------------------------------

    def ralph(self, *words: str) -> Ran:
        """Run a command in the project's directory."""
        return run(self._capsys, self.root, *words)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a command in a process of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "ralph", *words], cwd=self.root, stdout=subprocess.PIPE, text=True
        )

    def settings(self, text: str) -> None:
        """Replace the project's settings, but for where it is kept."""
        kept = [
            line
            for line in (self.root / ".ralph.toml").read_text().splitlines()
            if line.startswith(("url =", "project ="))
        ]
        (self.root / ".ralph.toml").write_text("\n".join(["[store]", *kept, text, ""]))

    def script(self, text: str) -> None:
        """Write the program that plays the agent; it keeps its prompts."""
        keep = (
            'kind=prompt; [ "$RALPH_READ_ONLY" ] && kind=review\ncat > ".ralph/$kind.$RALPH_TASK_ID.$RALPH_ATTEMPT"\n'
        )
        (self.root / "agent.sh").write_text(keep + text)

    def kept_prompt(self, task: Task, attempt: int, kind: str = "prompt") -> str:
        """Give what the program was told."""
        return (self.root / f".ralph/{kind}.{task.id}.{attempt}").read_text()

    def soon(self, name: str) -> None:
        """Wait until a file is there."""
        deadline = time.monotonic() + SOON_SECONDS
        while not (self.root / name).exists():
            assert time.monotonic() < deadline, f"{name} never came"
            time.sleep(0.02)

    def git(self, *words: str) -> str:
        """Run git in the project's directory."""
        who = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main")
        ran = subprocess.run(["git", *who, *words], cwd=self.root, check=True, capture_output=True, text=True)
        return ran.stdout

    def commit_all(self) -> None:
        """Make the directory a repository in which everything is committed."""
        self.git("init", "-q")
        self.git("add", "-A")
        self.git("commit", "-qm", "start")

    # --- what came of it --------------------------------------------------------------

    def attempts(self) -> list[Attempt]:
        """Give all attempts, oldest first."""
        return list(reversed(self.project.store.attempts.latest(1000)))

    def outcomes(self) -> list[AttemptOutcome | None]:
        """Give how the attempts ended, oldest first."""
        return [attempt.outcome for attempt in self.attempts()]

    def last(self) -> Attempt:
        """Give the latest attempt."""
        return self.attempts()[-1]

    def models(self) -> list[tuple[str | None, str]]:
        """Give the model of each attempt and the reason for it, oldest first."""
        return [(attempt.model, attempt.model_reason) for attempt in self.attempts()]

    def status(self, task: Task) -> TaskStatus:
        """Give where a task stands."""
        return self.project.store.tasks.get(task.id).status

    def log(self, task: Task) -> str:
        """Give a task's log in one text."""
        return "\n".join(line.message for line in self.project.tasks.read_log(task.id))

    def memories(self, kind: str | None = None) -> list[Memory]:
        """Give what is remembered, of one kind if given."""
        return [memory for memory in self.project.store.memories.all() if kind in (None, memory.kind)]

    def told(self, what: str) -> list[dict[str, object]]:
        """Give the details of all events of one sort."""
        return [event.details for event in self.events if event.what == what]


def is_alive(pid: int) -> bool:
    """Say whether a process is there and has not ended."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def leave(pid: int) -> None:
    """End a process of ours, if it is still there."""
    if is_alive(pid):
        os.kill(pid, 9)
