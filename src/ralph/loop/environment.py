"""Environment variables of agents and gates."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from ralph.core.config import STORE_VARIABLE
from ralph.core.environment import allowed_environment, matches_pattern, withheld_variables
from ralph.core.store_url import get_password, is_postgres, strip_password
from ralph.loop.git.worktrees import SESSION_ACTION

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ralph.core.config import Config
    from ralph.core.records import Attempt

_URLS = (STORE_VARIABLE, "RALPH_STORE_DIRECT_URL")
_PASSWORD = "PGPASSWORD"  # noqa: S105 -- the name of a variable
SEARCHED_OUTPUT_CHARACTERS = 20_000
"""Number of characters at the end of an output that are searched for variable names."""
MIN_VARIABLE_NAME_LENGTH = 4
"""Minimum length of a variable name to look for; shorter ones are ordinary words."""


def session_variables(config: Config, task_id: str, attempt: Attempt, *, read_only: bool = False) -> dict[str, str]:
    """Return the variables that describe an attempt and its store to a session."""
    variables = {
        "RALPH_TASK_ID": task_id,
        "RALPH_RUN_ID": attempt.run_id,
        "RALPH_ATTEMPT": str(attempt.number),
        "RALPH_HAT": attempt.hat,
        "GIT_REFLOG_ACTION": SESSION_ACTION,
    }
    if read_only:
        variables["RALPH_READ_ONLY"] = "1"
    return variables | store_variables(config)


def store_variables(config: Config) -> dict[str, str]:
    """Return the variables that name the store, without passwords unless the configuration passes them on."""
    return {
        variable: strip_password(url.strip())
        for variable in _URLS
        if (url := os.environ.get(variable)) and not matches_pattern(variable, config.agent.environment)
    }


def gate_environment(config: Config, session: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a gate: that of an agent without its model credentials."""
    return {**allowed_environment(variable_names=config.agent.environment), **session}


def missing_variables(output: str, environment: Mapping[str, str]) -> list[str]:
    """Return variables that are set here, were not passed to a program, and are named at the end of its output."""
    words = set(re.findall(r"[A-Za-z_]\w*", output[-SEARCHED_OUTPUT_CHARACTERS:], re.ASCII))
    return [name for name in withheld_variables(environment) if name in words and len(name) >= MIN_VARIABLE_NAME_LENGTH]


def missing_variables_hint(names: Sequence[str]) -> str:
    """Return a message on how to pass on variables that are set here."""
    listed = ", ".join(f'"{name}"' for name in names)
    what = "is set here but not" if len(names) == 1 else "are set here but not"
    return (
        f"{', '.join(names)} {what} passed to agents and gates."
        f" To pass on: set environment = [{listed}] under [agent] in .ralph.toml."
    )


def missing_password_warning(config: Config) -> str:
    """Return a warning if the store's password is in a variable that sessions do not get, else an empty string."""
    url = os.environ.get(STORE_VARIABLE, "").strip()
    if url == config.store.url and get_password(url):
        variable = STORE_VARIABLE
    elif is_postgres(config.store.url) and not get_password(config.store.url) and os.environ.get(_PASSWORD):
        variable = _PASSWORD
    else:
        return ""
    if matches_pattern(variable, config.agent.environment):
        return ""
    return (
        f"The password in {variable} is not passed to agents, so ralph commands, hooks and MCP servers in a session"
        f' cannot log in. Put it in ~/.pgpass, or set environment = ["{variable}"] under [agent] in .ralph.toml.'
    )
