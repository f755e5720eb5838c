"""What agents and gates find in their environment, and what they miss there."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from ralph.config import STORE_VARIABLE
from ralph.environment import allowed, held_back, is_among
from ralph.store.url import is_postgres, password_in, without_password

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ralph.config import Config
    from ralph.records import Attempt

_URLS = (STORE_VARIABLE, "RALPH_STORE_DIRECT_URL")
_PASSWORD = "PGPASSWORD"  # noqa: S105 -- the name of a variable
READ_CHARACTERS = 20_000
LEAST_NAME = 4
"""Shorter names are words that anything may say."""


def session_variables(config: Config, task_id: str, attempt: Attempt, *, read_only: bool = False) -> dict[str, str]:
    """Give what a session is told by its environment: what it is about, and where the project is kept.

    A password does not go along, unless a person named the variable that has it.
    """
    found = {
        "RALPH_TASK_ID": task_id,
        "RALPH_RUN_ID": attempt.run_id,
        "RALPH_ATTEMPT": str(attempt.number),
        "RALPH_HAT": attempt.hat,
    }
    if read_only:
        found["RALPH_READ_ONLY"] = "1"
    for variable in _URLS:
        if (url := os.environ.get(variable)) and not is_among(variable, config.agent.environment):
            found[variable] = without_password(url.strip())
    return found


def gate_variables(config: Config, session: Mapping[str, str]) -> dict[str, str]:
    """Give all that a gate finds: as much as an agent, but for what that logs in to its model with."""
    return {**allowed(named=config.agent.environment), **session}


def missed(text: str, given: Mapping[str, str]) -> list[str]:
    """Give the variables that a person has set, that a program did not get, and that its last words name."""
    words = set(re.findall(r"[A-Za-z_]\w*", text[-READ_CHARACTERS:], re.ASCII))
    return [name for name in held_back(given) if name in words and len(name) >= LEAST_NAME]


def how_to_give(names: Sequence[str]) -> str:
    """Say that variables are set and not passed on, and how they are."""
    listed = ", ".join(f'"{name}"' for name in names)
    what = "is set here, but agents and gates do not get it" if len(names) == 1 else "are set here, but not passed on"
    return f"{', '.join(names)} {what}. If they need it: environment = [{listed}] under [agent] in .ralph.toml."


def kept_password(config: Config) -> str:
    """Say that sessions cannot use the store by themselves, when its password is in a variable they do not get."""
    url = os.environ.get(STORE_VARIABLE, "").strip()
    if url == config.store.url and password_in(url):
        variable = STORE_VARIABLE
    elif is_postgres(config.store.url) and not password_in(config.store.url) and os.environ.get(_PASSWORD):
        variable = _PASSWORD
    else:
        return ""
    if is_among(variable, config.agent.environment):
        return ""
    return (
        f"Agents do not get the password in {variable}: ralph commands, hooks and MCP servers in their sessions need it"
        f' in ~/.pgpass, or environment = ["{variable}"] under [agent] in .ralph.toml.'
    )
