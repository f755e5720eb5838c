"""What went wrong in hooks, where nobody saw it, and what could not be stored then.

It is kept with the person's other state, apart from the project. Nothing here raises because a disk is full or a
file is broken: it is the last resort of who has failed.
"""

from __future__ import annotations

import json
import os
import stat
import time

from ralph.files import kept_for
from ralph.records import now, record
from ralph.text import accept, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

PROBLEMS = "problems.jsonl"
WAITING = "waiting.jsonl"
WORKED = "worked"
LARGEST = 256 * 1024
"""Bytes of the list of problems; then its older half goes."""
LARGEST_WAITING = 16 * 1024 * 1024
LONGEST_TAKEN_SECONDS = 60.0
"""More than a hook lives: who took something longer ago is gone."""
MOST_TRIES = 20
LONGEST_WORD = 200
_PROBLEM = ("at", "event", "agent", "problem")
_WAITING = ("at", "agent", "session")


@record
class Mishap:
    """One hook that failed."""

    at: str
    event: str
    agent: str
    problem: str


@record
class Waiting:
    """What a session said while it could not be stored."""

    at: str
    agent: str
    session: str
    said: tuple[Statement, ...]


@record
class Statement:
    """What an agent asked to have remembered, as far as it is put by."""

    kind: str
    title: str
    body: str
    tags: tuple[str, ...] = ()


def note(root: str, event: str, agent: str, problem: str) -> None:
    """Note that a hook failed, and why."""
    line = {"at": now(), "event": event, "agent": agent, "problem": problem}
    _append(root, PROBLEMS, line, LARGEST)


def noted(root: str) -> list[Mishap]:
    """Give the hooks of a project that failed, oldest first, as far as they are remembered."""
    found = [
        Mishap(at=line["at"], event=line["event"], agent=line["agent"], problem=line["problem"])
        for folder in _own_folders(root)
        for line in _lines(f"{folder}/{PROBLEMS}", _PROBLEM)
    ]
    return sorted(found, key=lambda one: one.at)


def all_well(root: str) -> None:
    """Note that a hook worked, where one has failed before; otherwise that goes without saying."""
    for folder in _own_folders(root):
        try:
            if os.path.exists(f"{folder}/{PROBLEMS}"):  # noqa: PTH110
                with open(f"{folder}/{WORKED}", "w", encoding="utf-8") as file:  # noqa: PTH123
                    file.write(now())
        except OSError:
            pass


def worked_at(root: str) -> str:
    """Give when a hook last worked after one had failed; empty when none has."""
    return max((_text(f"{folder}/{WORKED}", 100).strip() for folder in _own_folders(root)), default="")


def put_by(root: str, agent: str, session: str, said: Iterable[Statement]) -> bool:
    """Keep what could not be stored; say whether that worked."""
    stated = [{"kind": one.kind, "title": one.title, "body": one.body, "tags": list(one.tags)} for one in said]
    return _append(root, WAITING, {"at": now(), "agent": agent, "session": session, "said": stated}, LARGEST_WAITING)


def waiting(root: str) -> int:
    """Give how many answers wait to be stored."""
    return sum(len(_lines(path, _WAITING)) for folder in _own_folders(root) for path in _all_waiting(folder))


def are_waiting(root: str) -> bool:
    """Say whether something waits to be stored; quick, for this is asked at every hook."""
    return any(_all_waiting(folder) for folder in _own_folders(root))


def take(root: str) -> Iterator[tuple[list[Waiting], str]]:
    """Give what waits to be stored, and where it is until `done` says that it is stored.

    Whoever takes it has it alone; if they die, it is found again.
    """
    for folder in _own_folders(root):
        for path in _all_waiting(folder):
            taken = f"{folder}/{WAITING}.{os.getpid()}.{time.time_ns()}"
            if _is_held(path):
                continue
            try:
                os.rename(path, taken)  # noqa: PTH104
                _await_writers(taken)
            except OSError:
                continue
            yield [_put_by(line) for line in _lines(taken, _WAITING)], taken


def _put_by(line: dict[str, Any]) -> Waiting:
    stated = line.get("said")
    said = [
        Statement(
            kind=_word(one["kind"]) or "context",
            title=accept(one["title"]),
            body=accept(one["body"]),
            tags=_tags(one),
        )
        for one in (stated if isinstance(stated, list) else ())
        if isinstance(one, dict) and all(isinstance(one.get(name), str) for name in ("kind", "title", "body"))
    ]
    return Waiting(at=_moment(line["at"]), agent=_word(line["agent"]), session=_word(line["session"]), said=tuple(said))


def _word(text: str) -> str:
    return one_line(accept(text[:LONGEST_WORD]), LONGEST_WORD)


def _moment(at: str) -> str:
    """Give a moment as it was noted, or this one: what is no moment would stay with a memory for good."""
    try:
        time.strptime(at, "%Y-%m-%dT%H:%M:%S.%fZ")
    except ValueError:
        return now()
    return min(at, now()) if len(at) == len(now()) else now()


def _tags(one: dict[str, Any]) -> tuple[str, ...]:
    tags = one.get("tags")
    return tuple(accept(tag) for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else ()


def _all_waiting(folder: str) -> list[str]:
    """Give the files with what waits, those that somebody has taken too."""
    try:
        names = os.listdir(folder)  # noqa: PTH208
    except OSError:
        return []
    return [f"{folder}/{name}" for name in sorted(names) if name == WAITING or name.startswith(f"{WAITING}.")]


def _is_held(path: str) -> bool:
    """Say whether somebody who is still at it has taken a file."""
    holder = path.rpartition(f"/{WAITING}")[2].strip(".").partition(".")[0]
    if not holder.isdecimal() or int(holder) == os.getpid():
        return False
    try:
        is_new = time.time() - os.stat(path).st_ctime < LONGEST_TAKEN_SECONDS  # noqa: PTH116
        os.kill(int(holder), 0)
    except PermissionError:
        return is_new
    except (OSError, OverflowError):
        return False
    return is_new


def _await_writers(path: str) -> None:
    """Wait for who is just writing into a file that was renamed under their hands."""
    import fcntl

    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
    finally:
        os.close(handle)


def done(taken: str) -> None:
    """Forget what was taken, once it is stored."""
    _gone(taken)


def put_back(taken: str) -> None:
    """Let what was taken wait again."""
    try:
        os.link(taken, f"{os.path.dirname(taken)}/{WAITING}")  # noqa: PTH120
        _gone(taken)
    except OSError:
        pass  # There is more by now, or no room: it is found where it is, once this process has ended.


def _folders(root: str) -> list[str]:
    """Give where a project's mishaps are: with the person's other state, or where temporary files are.

    Not in the project: what is there may come from somebody else, who would choose what we read, and over links what
    we write.
    """
    usual = kept_for(root, "hooks")
    temporary = os.environ.get("TMPDIR") or "/tmp"  # noqa: S108 -- a folder that is not ours there is not used
    places = [usual, f"{temporary}/ralph-hooks-{os.getuid()}/{usual.rpartition('/')[2]}"]
    return [place for place in places if place.startswith("/")]


def _own_folders(root: str) -> list[str]:
    """Give those of the folders that are there and the person's own."""
    return [folder for folder in _folders(root) if _is_ours(folder)]


def _is_ours(folder: str) -> bool:
    """Say whether a folder is there, and nobody but the person can write in it, nor lead us elsewhere from it."""
    for place in (os.path.dirname(folder), folder):  # noqa: PTH120
        try:
            found = os.lstat(place)
        except OSError:
            return False
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
            return False
    return True


def _append(root: str, name: str, line: dict[str, Any], largest: int) -> bool:
    # A line that was cut off because the disk was full must not take this one with it.
    data = b"\n" + json.dumps(line).encode() + b"\n"
    for folder in _folders(root):
        try:
            for place in (os.path.dirname(folder), folder):  # noqa: PTH120 -- the mode is that of the last folder only
                os.makedirs(place, mode=0o700, exist_ok=True)  # noqa: PTH103
            path = f"{folder}/{name}"
            if not _is_ours(folder) or not _has_room(path, largest):
                continue
            if any(_is_written(path, data) for _ in range(MOST_TRIES)):
                return True
        except OSError:
            continue
    return False


def _is_written(path: str, data: bytes) -> bool:
    """Add to a file, and say whether that worked; not when somebody has just taken it."""
    import fcntl

    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH)
        is_written = _is_still(handle, path) and os.write(handle, data) == len(data)
        if is_written:
            os.fsync(handle)  # what waits to be stored is nowhere else
        return is_written
    finally:
        os.close(handle)


def _is_still(handle: int, path: str) -> bool:
    """Say whether an open file is still the one at a path; somebody may just have taken it."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))  # noqa: PTH116
    except FileNotFoundError:
        return False


def _has_room(path: str, largest: int) -> bool:
    """Say whether a file may grow. Of problems the older half goes; what waits is never dropped, and then full."""
    try:
        size = os.path.getsize(path)  # noqa: PTH202
    except OSError:
        return True
    if size <= largest:
        return True
    if not path.endswith(PROBLEMS):
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


def _text(path: str, most: int) -> str:
    """Give the beginning of a file; nothing where there is none that can be read."""
    try:
        if not os.path.isfile(path):  # noqa: PTH113 -- to open a pipe waits for whoever writes into it
            return ""
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            return file.read(most)
    except OSError:
        return ""


def _lines(path: str, names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Give the lines of a file that are objects with these texts in them."""
    found = []
    for line in _text(path, 2 * LARGEST_WAITING).splitlines():
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict) and all(isinstance(entry.get(name), str) for name in names):
            found.append(entry)
    return found


def _gone(path: str) -> None:
    try:
        os.unlink(path)  # noqa: PTH108
    except OSError:
        pass
