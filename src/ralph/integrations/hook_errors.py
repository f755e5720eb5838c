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
    from collections.abc import Iterable, Iterator
    from typing import Any

ERRORS_FILE = "problems.jsonl"
QUEUE_FILE = "waiting.jsonl"
LAST_SUCCESS_FILE = "worked"
MAX_ERRORS_BYTES = 256 * 1024
"""Size of the error log at which its older half is dropped, in bytes."""
MAX_QUEUE_BYTES = 16 * 1024 * 1024
"""Maximum size of the queue, in bytes."""
CLAIM_TIMEOUT_SECONDS = 60.0
"""Age at which a taken file counts as abandoned, in seconds; longer than a hook lives."""
MAX_APPEND_ATTEMPTS = 20
"""Maximum number of attempts to append to a file that others are taking."""
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
    statements: tuple[Statement, ...]


@record
class Statement:
    """A memory stated by an agent, as far as it is queued."""

    kind: str
    title: str
    body: str
    tags: tuple[str, ...] = ()


def record_hook_error(root: str, event: str, agent: str, problem: str) -> None:
    """Record that a hook failed, and why."""
    line = {"at": now(), "event": event, "agent": agent, "problem": problem}
    _append(root, ERRORS_FILE, line, MAX_ERRORS_BYTES)


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
                with open(f"{folder}/{LAST_SUCCESS_FILE}", "w", encoding="utf-8") as file:  # noqa: PTH123
                    file.write(now())
        except OSError:
            pass


def last_hook_success(root: str) -> str:
    """Return when a hook last succeeded after a failure; empty if none has."""
    return max((_read(f"{folder}/{LAST_SUCCESS_FILE}", 100).strip() for folder in _own_folders(root)), default="")


def queue_statements(root: str, agent: str, session: str, said: Iterable[Statement]) -> bool:
    """Queue statements that could not be stored; return whether that succeeded."""
    statements = [{"kind": one.kind, "title": one.title, "body": one.body, "tags": list(one.tags)} for one in said]
    return _append(
        root, QUEUE_FILE, {"at": now(), "agent": agent, "session": session, "said": statements}, MAX_QUEUE_BYTES
    )


def count_queued(root: str) -> int:
    """Return the number of queued entries."""
    return sum(len(_read_lines(path, _QUEUE_FIELDS)) for folder in _own_folders(root) for path in _queue_files(folder))


def has_queued(root: str) -> bool:
    """Return whether anything is queued; fast, because every hook calls it."""
    return any(_queue_files(folder) for folder in _own_folders(root))


def claim_queued(root: str) -> Iterator[tuple[list[QueuedStatements], str]]:
    """Yield queued entries with the file that holds them until `done` is called.

    Each file is taken by one process only; if that process dies, the file is found again.

    """
    for folder in _own_folders(root):
        for path in _queue_files(folder):
            taken = f"{folder}/{QUEUE_FILE}.{os.getpid()}.{time.time_ns()}"
            if _is_taken_by_other(path):
                continue
            try:
                os.rename(path, taken)  # noqa: PTH104
                _wait_for_writers(taken)
            except OSError:
                continue
            yield [_parse_entry(line) for line in _read_lines(taken, _QUEUE_FIELDS)], taken


def _parse_entry(line: dict[str, Any]) -> QueuedStatements:
    items = line.get("said")
    statements = [
        Statement(
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
    """Return the queue files, including those taken by another process."""
    try:
        names = os.listdir(folder)  # noqa: PTH208
    except OSError:
        return []
    return [f"{folder}/{name}" for name in sorted(names) if name == QUEUE_FILE or name.startswith(f"{QUEUE_FILE}.")]


def _is_taken_by_other(path: str) -> bool:
    """Return whether a running process has taken a file."""
    holder = path.rpartition(f"/{QUEUE_FILE}")[2].strip(".").partition(".")[0]
    if not holder.isdecimal() or int(holder) == os.getpid():
        return False
    try:
        is_new = time.time() - os.stat(path).st_ctime < CLAIM_TIMEOUT_SECONDS  # noqa: PTH116
        os.kill(int(holder), 0)
    except PermissionError:
        return is_new
    except (OSError, OverflowError):
        return False
    return is_new


def _wait_for_writers(path: str) -> None:
    """Wait for processes that are writing to a file that was just renamed."""
    import fcntl

    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
    finally:
        os.close(handle)


def delete_claimed(path: str) -> None:
    """Delete a taken file once its content is stored."""
    _unlink(path)


def release_claimed(path: str) -> None:
    """Return a taken file to the queue."""
    try:
        os.link(path, f"{os.path.dirname(path)}/{QUEUE_FILE}")  # noqa: PTH120
        _unlink(path)
    except OSError:
        pass  # The queue has new entries or the disk is full; the file is found again once this process has ended.


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


def _append(root: str, name: str, line: dict[str, Any], largest: int) -> bool:
    # The leading newline separates this line from one that was cut off by a full disk.
    data = b"\n" + json.dumps(line).encode() + b"\n"
    for folder in _folders(root):
        try:
            for place in (os.path.dirname(folder), folder):  # noqa: PTH120 -- makedirs applies the mode to the last folder only
                os.makedirs(place, mode=0o700, exist_ok=True)  # noqa: PTH103
            path = f"{folder}/{name}"
            if not _is_private(folder) or not _make_room(path, largest):
                continue
            if any(_try_append(path, data) for _ in range(MAX_APPEND_ATTEMPTS)):
                return True
        except OSError:
            continue
    return False


def _try_append(path: str, data: bytes) -> bool:
    """Append to a file and return whether that succeeded; it fails if the file was just taken."""
    import fcntl

    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH)
        is_written = _is_same_file(handle, path) and os.write(handle, data) == len(data)
        if is_written:
            os.fsync(handle)  # queued statements exist nowhere else
        return is_written
    finally:
        os.close(handle)


def _is_same_file(handle: int, path: str) -> bool:
    """Return whether an open file is still the one at a path."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))  # noqa: PTH116
    except FileNotFoundError:
        return False


def _make_room(path: str, largest: int) -> bool:
    """Return whether a file may grow. Errors lose their older half; queued statements are never dropped."""
    try:
        size = os.path.getsize(path)  # noqa: PTH202
    except OSError:
        return True
    if size <= largest:
        return True
    if not path.endswith(ERRORS_FILE):
        return False
    with open(path, "rb") as file:  # noqa: PTH123
        file.seek(size - largest // 2)
        file.readline()
        rest = file.read()
    new = f"{path}.{os.getpid()}"
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        os.write(handle, rest)
    finally:
        os.close(handle)
    os.replace(new, path)  # noqa: PTH105
    return True


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


def _unlink(path: str) -> None:
    try:
        os.unlink(path)  # noqa: PTH108
    except OSError:
        pass
