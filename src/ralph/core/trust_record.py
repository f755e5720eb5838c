"""What a person trusts a directory with on this machine: values of its settings, and its memory files.

Files of a project may come from somebody else. Until a person agrees, what they say must not run programs, open a
database elsewhere or reach an agent. The decision is recorded in the user's state directory, never in the project.
"""

from __future__ import annotations

import json
import os

from ralph.core.actor import PERSON, current_actor
from ralph.core.ancestry import enclosing_sessions
from ralph.core.errors import RalphError
from ralph.core.files import is_own_path, state_path, write_atomically
from ralph.core.records import record
from ralph.core.settings import SECTIONS
from ralph.core.store_url import file_path, is_postgres, strip_password

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path
    from typing import Any

    from ralph.core.actor import Actor

TRUST_VARIABLE = "RALPH_TRUST"
"""Environment variable with which a person trusts every directory that a process works in."""
_RECORD, _AGREED, _SESSION_RECORD = "trust", "agreed", "trust-in-sessions"
_TRUE_VALUES = ("1", "true", "yes")
_STORE_URL, _STORE_PROJECT = "store.url", "store.project"


@record
class TrustRecord:
    """The decision of a person about one directory."""

    settings: dict[str, Any]
    """Accepted values by name of the setting, as JSON has them."""
    files: bool | None
    """Whether the memory files count; None if nobody has decided, as in projects of 0.1.0."""


def trusts_everything(root: Path | str, environment: Mapping[str, str]) -> bool:
    """Return whether a person trusts all directories for this process; an agent can only trust those it has made."""
    is_set = environment.get(TRUST_VARIABLE, "").strip().lower() in _TRUE_VALUES
    return is_set and not deciding_actor(root).is_agent


def deciding_actor(root: Path | str) -> Actor:
    """Return who would decide about a directory: an agent, unless its session has created the directory."""
    place = os.fspath(root)
    actor = current_actor(PERSON, place, lambda: place)
    return actor if actor.is_agent else current_actor(PERSON, place, lambda: _database(place))


def record_paths(root: Path | str) -> tuple[str, str]:
    """Return the paths of the records about a directory: the decision, and what 0.1.0 recorded."""
    return state_path(root, _decision(root)), state_path(root, _AGREED)


def _decision(root: Path | str) -> str:
    """Return the kind of record that counts for this process.

    What a session decides about a directory of its own counts in sessions only: afterwards another one may be there.
    """
    sessions, place = enclosing_sessions(), os.fspath(root)
    is_own = bool(sessions) and all(sessions[-1].owns(place, one) for one in (place, _database(place)))
    return _SESSION_RECORD if is_own else _RECORD


def _database(root: str) -> str:
    """Return the database of a directory: one that was moved into a new directory is not new."""
    return os.path.join(root, ".ralph", "ralph.db")  # noqa: PTH118


def read_trust(root: Path | str) -> TrustRecord | None:
    """Return the decision about a directory, or None if there is none."""
    found = _read(root, _decision(root))
    try:
        fields = json.loads(found) if found else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict) or fields.get("directory") != _real_path(root):
        return None
    settings, files = fields.get("settings"), fields.get("files")
    return TrustRecord(
        settings=settings if isinstance(settings, dict) else {}, files=files if isinstance(files, bool) else None
    )


def save_trust(root: Path | str, settings: Mapping[str, Any], files: bool | None) -> None:
    """Record which values of settings a person accepts, and whether the memory files count."""
    from pathlib import Path

    fields = {"directory": _real_path(root), "settings": as_recorded(settings), "files": files}
    path = Path(record_paths(root)[0])
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(path, json.dumps(fields, indent=2).encode())
    except OSError as error:
        raise RalphError(f"Cannot record the decision: {error.strerror}: {path}.", code="trust-not-recorded") from error


def revoke_trust(root: Path | str) -> None:
    """Record that a directory is not trusted."""
    save_trust(root, {}, files=False)
    try:
        os.unlink(record_paths(root)[1])  # noqa: PTH108
    except OSError:
        pass  # 0.1.0 recorded nothing


def accept_settings(root: Path | str, settings: Mapping[str, Any], *, are_all: bool = False) -> None:
    """Add values that a person has just chosen to what is accepted; leave the rest of the decision as it is.

    With `are_all`, settings that are not among them are no longer accepted.
    """
    known = read_trust(root) or TrustRecord(settings={}, files=None)
    if not settings and not known.settings:
        return
    try:
        save_trust(root, {**({} if are_all else known.settings), **settings}, known.files)
    except RalphError:
        pass  # they are asked about it


def are_files_trusted(root: Path | str) -> bool | None:
    """Return whether the memory files of a directory count; None if nobody has decided."""
    if trusts_everything(root, os.environ):
        return True
    known = read_trust(root)
    return known.files if known else None


def find_untrusted(
    root: Path | str, settings: Mapping[str, Any], url: str, environment: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the names of settings from files whose values nobody has accepted; `url` is the store in use."""
    if not settings or trusts_everything(root, environment):
        return ()
    known = read_trust(root)
    accepted = known.settings if known else {}
    if not accepted.keys() & {_STORE_URL, _STORE_PROJECT} and _read(root, _AGREED) == _location(url):
        # What `ralph init` of 0.1.0 recorded: the location alone.
        accepted = {**accepted, **{name: settings.get(name) for name in (_STORE_URL, _STORE_PROJECT)}}
    values, known_values = as_recorded(settings), as_recorded(accepted)
    return tuple(name for name, value in values.items() if name not in known_values or known_values[name] != value)


def untrusted_text(root: Path | str, names: Iterable[str]) -> str:
    """Return which settings do not count, and why: they have changed, or the directory was never trusted."""
    known = read_trust(root)
    if known and known.files:
        return f"settings changed since this directory was trusted: {', '.join(names)}"
    return f"this directory is not trusted; not used: {', '.join(names)}"


def find_removed(root: Path | str, present: Collection[str], environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of settings that a person has accepted and that are gone, or back at their defaults."""
    known = read_trust(root)
    if not known or not known.settings or trusts_everything(root, environment):
        return ()
    # A store that comes from the environment is in no file.
    skipped = () if _STORE_URL in known.settings else ("store.",)
    return tuple(
        name
        for name, value in known.settings.items()
        if name not in present and not name.startswith(skipped) and _is_decision(name, value)
    )


def _is_decision(name: str, value: object) -> bool:
    """Return whether a value that was accepted differs from the default of a setting that needs trust."""
    section, _, key = name.rpartition(".")
    setting = SECTIONS[section].settings.get(key) if section in SECTIONS else None
    return setting is not None and setting.needs_trust and as_recorded({name: setting.default})[name] != value


def as_recorded(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return values as JSON has them, URLs without their passwords."""
    values: dict[str, Any] = json.loads(json.dumps(dict(settings)))
    return {name: strip_password(value) if isinstance(value, str) else value for name, value in values.items()}


def is_outside(root: Path | str, url: str) -> bool:
    """Return whether a database is on a server, outside a directory, or that of a project further down in it."""
    try:
        return is_postgres(url) or not is_own_path(os.path.join(root, file_path(url)), root)  # noqa: PTH118
    except ValueError:  # a NUL in the path
        return True


def _real_path(root: Path | str) -> str:
    return os.fsencode(os.path.realpath(root)).decode("utf-8", "replace")


def _location(url: str) -> str:
    return strip_password(url) if is_postgres(url) else str(file_path(url))


def _read(root: Path | str, what: str) -> str:
    try:
        with open(state_path(root, what), encoding="utf-8") as file:  # noqa: PTH123
            return file.read()
    except (OSError, ValueError):
        return ""
