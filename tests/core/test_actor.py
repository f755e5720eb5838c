from __future__ import annotations

from pathlib import Path

import pytest

import ralph
from ralph.core.actor import AGENT, PERSON, Actor, actor_from_environment
from ralph.core.errors import UsageError

SOURCE = Path(ralph.__file__).parent
ENTRY_POINTS = {"__init__.py", "cli/output.py", "cli/mcp.py", "integrations/hooks.py"}
TRUST = "core/trust_record.py"
"""Reads a variable that is a person's word, and counts only in a process that a person started."""


def test_only_entry_points_find_out_who_is_asking() -> None:
    callers = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if "actor_from_environment(" in path.read_text(encoding="utf-8")
    }

    assert callers - {"core/actor.py", TRUST} == ENTRY_POINTS


def test_the_session_of_a_loop_makes_an_agent() -> None:
    variables = {"RALPH_SESSION": "s-1", "RALPH_TASK_ID": "t-000001", "RALPH_RUN_ID": "run-1", "RALPH_ATTEMPT": "2"}

    actor = actor_from_environment(variables)

    assert actor == Actor(kind="agent", session="s-1", task_id="t-000001", run_id="run-1", attempt=2)
    assert actor.is_loop_session
    assert actor.session_key == "s-1"
    assert actor_from_environment({"RALPH_TASK_ID": "t-000001"}) == PERSON
    assert actor_from_environment({}, is_agent=True) == AGENT


def test_agents_are_refused_what_is_for_people() -> None:
    PERSON.require_person("undo changes")
    with pytest.raises(UsageError) as refused:
        AGENT.require_person("undo changes")
    assert refused.value.code == "person-required"
