"""Records for tests, with sensible defaults."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from ralph.agents import Limits, SessionOptions
from ralph.core.actor import Actor
from ralph.core.config import STORE_VARIABLE
from ralph.core.hashing import sha256_hex
from ralph.core.records import (
    AgentReply,
    Attempt,
    AttemptOutcome,
    AttemptResult,
    Episode,
    EpisodeKind,
    FailureReport,
    Memory,
    Speaker,
    Task,
    TaskStatus,
    now,
    replace,
)
from ralph.project import Project
from ralph.store import Store, open_database
from ralph.store.maintenance.check import check_rows
from ralph.store.memories import ChangeInfo
from ralph.workspace import DATABASE, FOLDER, init_project


@cache
def _empty_database() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / DATABASE
        open_database(str(path), create=True).close()
        return path.read_bytes()


def put_empty_database(path: Path) -> None:
    """Put a file there that is a database without any project: to make its tables takes ten times as long."""
    path.write_bytes(_empty_database())


def set_up_project(directory: Path) -> None:
    """Set a directory up as a project, in the database that is tested."""
    if not os.environ.get(STORE_VARIABLE):
        (directory / FOLDER).mkdir()
        put_empty_database(directory / FOLDER / DATABASE)
    init_project(directory)


def a_memory(title: str, body: str = "", **fields: object) -> Memory:
    memory = Memory(id="mem-1-0000", kind="knowledge", title=title, content=body, created_at=now(), updated_at=now())
    return replace(memory, **fields)


def an_episode(text: str, *, kind: EpisodeKind = EpisodeKind.SESSION, source: str = "s1", **fields: object) -> Episode:
    id = "ep-" + sha256_hex(f"{kind}/{source}/{text}".encode())[:16]
    episode = Episode(id=id, kind=kind, source=source, agent="claude", speaker=Speaker.PERSON, text=text, at=now())
    return replace(episode, **fields)


def remember(store: Store, memory: Memory, *, by_person: bool = False) -> Memory:
    """Keep a memory, as an attempt would; give it as it is kept."""
    return store.memories.add(memory, ChangeInfo(who="t", why="t"), by_person=by_person).memory


def begin(store: Store, run_id: str, worker: str = "w", lease_seconds: float = 60) -> tuple[Task, Attempt]:
    begun = store.attempts.begin(run_id, worker, lease_seconds, agent="test")
    assert begun is not None
    return begun.task, begun.attempt


def finish(
    store: Store,
    task: Task,
    attempt: Attempt,
    outcome: AttemptOutcome,
    status: TaskStatus = TaskStatus.PENDING,
    memories: tuple[Memory, ...] = (),
    report: FailureReport | None = None,
    **fields: object,
) -> None:
    ended = replace(attempt, outcome=outcome, ended_at=now(), **fields)
    store.attempts.finish(
        AttemptResult(attempt=ended, report=report, memories=memories, task_status=status), task.claim_token
    )


def a_report(attempt: Attempt, why: str = "It broke.", **fields: object) -> FailureReport:
    assert attempt.task_id
    assert attempt.number
    report = FailureReport(
        run_id=attempt.run_id,
        iteration=attempt.iteration,
        task_id=attempt.task_id,
        attempt_number=attempt.number,
        tried="Something.",
        why=why,
        created_at=now(),
    )
    return replace(report, **fields)


def a_session(directory: Path, **changes: object) -> SessionOptions:
    session = SessionOptions(
        directory=directory,
        model=None,
        limits=Limits(seconds=20.0),
        environment={},
        should_stop=lambda: False,
        on_output=lambda text: None,
    )
    return replace(session, **changes)


class ScriptedAgent:
    """Answers in turn; an answer may be a text, a reply, an error to raise, or a function of prompt and session."""

    name = "scripted"
    reports_files = True
    reports_cost = True
    reports_tokens = True
    accepts_model = True

    def __init__(self, *answers: str | AgentReply | Exception | Callable[[str, SessionOptions], str]) -> None:
        self._answers = list(answers)
        self.prompts: list[str] = []

    def check(self) -> None:
        pass

    def work(self, prompt: str, session: SessionOptions) -> AgentReply:
        self.prompts.append(prompt)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, AgentReply):
            return replace(answer, text=answer.text.replace("TASK", session.environment["RALPH_TASK_ID"]))
        text = answer if isinstance(answer, str) else answer(prompt, session)
        return AgentReply(text=text.replace("TASK", session.environment["RALPH_TASK_ID"]), seconds=0.1, files=())


def as_agent(project: Project, **fields: Any) -> Project:
    """Return a project opened by an agent; `session`, `task_id` and the like say where it runs."""
    return Project(project.root, project.store, project.config, Actor(kind="agent", **fields))


def damaged_rows(store: Store) -> list[str]:
    """Return the problems of rows that do not match their checksums."""
    return list(check_rows(store.scope).problems)


def claim_task(store: Store, worker: str, lease_seconds: float, task_id: str | None = None) -> Task | None:
    """Claim a task without beginning an attempt."""
    return store.tasks.claims.claim(worker, lease_seconds, task_id, lambda task: task)
