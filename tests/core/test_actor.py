from __future__ import annotations

from pathlib import Path

import pytest

import ralph
from ralph.agents.supervisor import reaper
from ralph.core import actor as actors
from ralph.core import ancestry
from ralph.core.actor import AGENT, PERSON, Actor, current_actor, session_agent
from ralph.core.ancestry import LoopSession
from ralph.core.errors import UsageError

SOURCE = Path(ralph.__file__).parent
DOORS = {
    "workspace.py",
    "maintenance.py",
    "integrations/hooks.py",
    "cli/trust.py",
    "core/consent.py",
    "core/trust_record.py",
}
"""Modules that find out who is asking, for all others."""
VARIABLES = {"RALPH_SESSION": "s-1", "RALPH_TASK_ID": "t-000001", "RALPH_RUN_ID": "run-1", "RALPH_ATTEMPT": "2"}


@pytest.fixture(autouse=True)
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run outside of any session, also if these tests run in one."""
    monkeypatch.setattr(actors, "enclosing_sessions", tuple)
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_only_those_who_open_a_project_find_out_who_is_asking() -> None:
    callers = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if "current_actor(" in path.read_text(encoding="utf-8")
    }

    assert callers - {"core/actor.py"} == DOORS


def test_the_variable_alone_makes_an_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    assert current_actor() == PERSON
    assert current_actor(AGENT) == AGENT
    monkeypatch.setenv("RALPH_TASK_ID", "t-000001")
    assert current_actor() == PERSON
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)

    actor = current_actor()

    assert actor == Actor(kind="agent", session="s-1", task_id="t-000001", run_id="run-1", attempt=2)
    assert actor.is_loop_session
    assert actor.session_key == "s-1"


def test_the_identity_is_what_the_loop_gave_to_the_outermost_session(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sessions = (LoopSession(variables={**VARIABLES, "RALPH_SESSION": "forged"}), LoopSession(variables=VARIABLES))
    monkeypatch.setattr(actors, "enclosing_sessions", lambda: sessions)
    monkeypatch.setenv("RALPH_SESSION", "another")
    monkeypatch.setenv("RALPH_TASK_ID", "t-000002")

    actor = current_actor()

    assert (actor.session, actor.task_id) == ("s-1", "t-000001")


def test_a_project_created_in_a_session_is_its_own_unless_the_session_works_there(tmp_path: Path) -> None:
    file = tmp_path / "ralph.db"
    file.touch()
    began_before = LoopSession(variables={**VARIABLES, "PWD": "/"}, started=1.0)
    began_after = LoopSession(variables={**VARIABLES, "PWD": "/"})
    works_here = LoopSession(variables={**VARIABLES, "PWD": str(tmp_path / "sub")}, started=1.0)

    def agent(*sessions: LoopSession) -> Actor | None:
        return session_agent(sessions, str(tmp_path), lambda: str(file))

    assert agent() is None
    assert agent(began_before) is None
    assert agent(began_after) is not None
    assert agent(works_here) is not None
    assert agent(began_after, began_before) is not None
    assert session_agent((began_before,), str(tmp_path), lambda: "") is not None  # it is on a server


def test_the_inherited_variable_does_not_bind_in_a_project_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "ralph.db").touch()
    session = LoopSession(variables={**VARIABLES, "PWD": "/"}, started=1.0)
    monkeypatch.setattr(actors, "enclosing_sessions", lambda: (session,))

    def find_file() -> str:
        return str(tmp_path / "ralph.db")

    monkeypatch.setenv("RALPH_SESSION", "s-1")
    assert current_actor(PERSON, str(tmp_path), find_file) == PERSON
    monkeypatch.setenv("RALPH_SESSION", "s-2")
    assert current_actor(PERSON, str(tmp_path), find_file).is_loop_session


def test_agents_are_refused_what_is_for_people() -> None:
    PERSON.require("memory.undo")
    with pytest.raises(UsageError) as refused:
        AGENT.require("memory.undo")
    assert refused.value.code == "person-required"


def test_the_guard_and_those_who_look_for_it_agree() -> None:
    """The guard imports nothing of Ralph, so it has its own copies."""
    assert (reaper.GUARD_NAME, reaper.MARK_RESOURCE) == (ancestry.GUARD_NAME, ancestry.MARK_RESOURCE)
    assert reaper.TAG_VARIABLE == ancestry.SESSION_VARIABLE
