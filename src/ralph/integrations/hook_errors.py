"""Errors of hooks, which nobody sees when they happen, and statements that could not be stored then.

Both are kept in the user's state directory, outside the project. Nothing here raises because a disk is full or a file
is broken: this is the fallback after another error.
"""

from __future__ import annotations

import json
import os
import stat
import time

from ralph.core.files import state_path
from ralph.core.records import now, record
from ralph.core.text import one_line, sanitize

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

ERRORS_FILE = "problems.jsonl"
QUEUE_FILE = "waiting.jsonl"
"""Name of a queued entry, followed by its time."""
LAST_SUCCESS_FILE = "worked"
MAX_ERRORS_BYTES = 256 * 1024
"""Size of the error log at which its older half is dropped, in bytes."""
MAX_QUEUE_BYTES = 16 * 1024 * 1024
"""Maximum size of the queue, in bytes."""
MAX_FIELD_CHARACTERS = 200
_ERROR_FIELDS = ("at", "event", "agent", "problem")
_QUEUE_FIELDS = ("at", "agent", "session")


@record
class HookError:
    """A failed hook."""

    at: str
    event: str
    agent: str
    problem: str


@record
class QueuedStatements:
    """Statements of a session that could not be stored."""

    at: str
    agent: str
    session: str
    statements: tuple[QueuedStatement, ...]


@record
class QueuedStatement:
    """A memory stated by an agent, as far as it is queued."""

    kind: str
    title: str
    body: str
    tags: tuple[str, ...] = ()


def record_hook_error(root: str, event: str, agent: str, problem: str) -> None:
    """Record that a hook failed, and why."""
    line = {"at": now(), "event": event, "agent": agent, "problem": problem}
    # The leading newline separates this line from one that was cut off by a full disk.
    data = b"\n" + json.dumps(line).encode() + b"\n"
    for folder in _writable_folders(root):
        try:
            path = f"{folder}/{ERRORS_FILE}"
            _drop_older_half(path)
            _write(path, data, os.O_APPEND)
        except OSError:
            continue
        return


def list_hook_errors(root: str) -> list[HookError]:
    """Return the recorded hook errors of a project, oldest first."""
    errors = [
        HookError(at=fields["at"], event=fields["event"], agent=fields["agent"], problem=fields["problem"])
        for folder in _own_folders(root)
        for fields in _read_lines(f"{folder}/{ERRORS_FILE}", _ERROR_FIELDS)
    ]
    return sorted(errors, key=lambda one: one.at)


def record_hook_success(root: str) -> None:
    """Record that a hook succeeded, if one has failed before."""
    for folder in _own_folders(root):
        try:
            if os.path.exists(f"{folder}/{ERRORS_FILE}"):  # noqa: PTH110
                _write(f"{folder}/{LAST_SUCCESS_FILE}", now().encode(), os.O_TRUNC)
        except OSError:
            pass


def last_hook_success(root: str) -> str:
    """Return when a hook last succeeded after a failure; empty if none has."""
    return max((_read(f"{folder}/{LAST_SUCCESS_FILE}", 100).strip() for folder in _own_folders(root)), default="")


# --- queue -------------------------------------------------------------------------


def queue_statements(root: str, agent: str, session: str, statements: Iterable[QueuedStatement]) -> bool:
    """Queue statements that could not be stored; return whether that succeeded."""
    fields = [{"kind": one.kind, "title": one.title, "body": one.body, "tags": list(one.tags)} for one in statements]
    data = json.dumps({"at": now(), "agent": agent, "session": session, "said": fields}).encode() + b"\n"
    return any(_add_to_queue(folder, data) for folder in _writable_folders(root))


def _add_to_queue(folder: str, data: bytes) -> bool:
    """Write an entry to a file of its own, which others see only when it is complete."""
    name = f"{time.time_ns()}.{os.urandom(4).hex()}"
    try:
        if sum(map(_size, _queue_files(folder))) > MAX_QUEUE_BYTES:
            return False
        _write(f"{folder}/.{name}", data, os.O_EXCL)
        os.rename(f"{folder}/.{name}", f"{folder}/{QUEUE_FILE}.{name}")  # noqa: PTH104
    except OSError:
        return False
    return True


def count_queued(root: str) -> int:
    """Return the number of queued entries."""
    return sum(len(_read_lines(path, _QUEUE_FIELDS)) for folder in _own_folders(root) for path in _queue_files(folder))


def has_queued(root: str) -> bool:
    """Return whether anything is queued; fast, because every hook calls it."""
    return any(_queue_files(folder) for folder in _own_folders(root))


def claim_queued(root: str) -> Iterator[QueuedStatements]:
    """Yield queued entries, each to one process only. An entry is deleted when the next one is requested."""
    import fcntl  # hardly ever needed, and every hook loads this module

    for folder in _own_folders(root):
        for path in _queue_files(folder):
            try:
                handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            except OSError:
                continue
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # released when this process ends, however it ends
                if os.path.exists(path):  # noqa: PTH110 -- otherwise another process has stored it
                    yield from map(_parse_entry, _read_lines(path, _QUEUE_FIELDS))
                    os.unlink(path)  # noqa: PTH108
            except OSError:
                continue
            finally:
                os.close(handle)


def _parse_entry(line: dict[str, Any]) -> QueuedStatements:
    items = line.get("said")
    statements = [
        QueuedStatement(
            kind=_short_text(one["kind"]) or "context",
            title=sanitize(one["title"]),
            body=sanitize(one["body"]),
            tags=_tags(one),
        )
        for one in (items if isinstance(items, list) else ())
        if isinstance(one, dict) and all(isinstance(one.get(name), str) for name in ("kind", "title", "body"))
    ]
    return QueuedStatements(
        at=_valid_time(line["at"]),
        agent=_short_text(line["agent"]),
        session=_short_text(line["session"]),
        statements=tuple(statements),
    )


def _short_text(text: str) -> str:
    return one_line(sanitize(text[:MAX_FIELD_CHARACTERS]), MAX_FIELD_CHARACTERS)


def _valid_time(at: str) -> str:
    """Return a valid timestamp: the given one, or the current time if it is malformed or in the future."""
    try:
        time.strptime(at, "%Y-%m-%dT%H:%M:%S.%fZ")
    except ValueError:
        return now()
    return min(at, now()) if len(at) == len(now()) else now()


def _tags(one: dict[str, Any]) -> tuple[str, ...]:
    tags = one.get("tags")
    return tuple(sanitize(tag) for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else ()


def _queue_files(folder: str) -> list[str]:
    """Return the queued entries, oldest first."""
    try:
        names = os.listdir(folder)  # noqa: PTH208
    except OSError:
        return []
    return [f"{folder}/{name}" for name in sorted(names) if name.startswith(QUEUE_FILE)]


# --- files -------------------------------------------------------------------------


def _folders(root: str) -> list[str]:
    """Return the candidate folders: in the user's state directory, or in the temporary one.

    Not in the project: its content may come from somebody else, who would choose what we read and, with links, what we
    write.
    """
    default = state_path(root, "hooks")
    temporary = os.environ.get("TMPDIR") or "/tmp"  # noqa: S108 -- only used if it belongs to the user
    paths = [default, f"{temporary}/ralph-hooks-{os.getuid()}/{default.rpartition('/')[2]}"]
    return [path for path in paths if path.startswith("/")]


def _own_folders(root: str) -> list[str]:
    """Return the folders that exist and belong to the user alone."""
    return [folder for folder in _folders(root) if _is_private(folder)]


def _is_private(folder: str) -> bool:
    """Return whether a folder exists and nobody but the user can write to it or replace it by a link."""
    for path in (os.path.dirname(folder), folder):  # noqa: PTH120
        try:
            status = os.lstat(path)
        except OSError:
            return False
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
            return False
    return True


def _writable_folders(root: str) -> Iterator[str]:
    """Yield the folders that can be created and belong to the user alone."""
    for folder in _folders(root):
        try:
            for path in (os.path.dirname(folder), folder):  # noqa: PTH120 -- makedirs applies the mode to the last only
                os.makedirs(path, mode=0o700, exist_ok=True)  # noqa: PTH103
        except OSError:
            continue
        if _is_private(folder):
            yield folder


def _write(path: str, data: bytes, flags: int) -> None:
    """Write to a file durably, without following links: queued statements exist nowhere else."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | flags, 0o600)
    try:
        if os.write(handle, data) < len(data):
            raise OSError("The disk is full.")
        os.fsync(handle)
    finally:
        os.close(handle)


def _drop_older_half(path: str) -> None:
    """Drop the older half of a log that is too large."""
    if _size(path) > MAX_ERRORS_BYTES:
        recent = _read(path, 2 * MAX_ERRORS_BYTES)[-MAX_ERRORS_BYTES // 2 :].partition("\n")[2]
        _write(f"{path}.new", recent.encode(), os.O_TRUNC)
        os.replace(f"{path}.new", path)  # noqa: PTH105


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)  # noqa: PTH202
    except OSError:
        return 0


def _read(path: str, most: int) -> str:
    """Return the beginning of a file, or an empty string if it cannot be read."""
    try:
        if not os.path.isfile(path):  # noqa: PTH113 -- opening a named pipe would block
            return ""
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            return file.read(most)
    except OSError:
        return ""


def _read_lines(path: str, names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the JSON objects in a file that have all these string fields."""
    entries = []
    for line in _read(path, 2 * MAX_QUEUE_BYTES).splitlines():
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict) and all(isinstance(entry.get(name), str) for name in names):
            entries.append(entry)
    return entries


def find_ralph_folder(directories: Sequence[str]) -> str:
    """Return the nearest directory that contains a `.ralph` folder, or an empty string.

    That folder is in every linked worktree if git tracks something in it; the main worktree has the project.
    """
    from ralph.workspace import FOLDER, main_worktree

    for directory in directories:
        if "\0" in directory:
            continue
        place, below = main_worktree(directory) or os.path.realpath(directory), ""
        while place != below:
            if os.path.isdir(f"{place}/{FOLDER}"):  # noqa: PTH112
                return place
            place, below = os.path.dirname(place), place  # noqa: PTH120
    return ""
