"""Access to the synced files of a working copy, with change detection."""

from __future__ import annotations

import os
import time

from ralph.core.files import is_being_written, is_inside, remove_seen, replace_seen, sweep
from ralph.core.records import record, timestamp
from ralph.store.sync_state import RESTORED, Synced

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ralph.store import Store

MEMORIES = ".agent/memories.md"
OLD_MEMORIES = ".ralph/agent/memories.md"
KNOWLEDGE = ".ralph/knowledge/"
LARGEST = 64 * 1024 * 1024
"""Maximum size of a synced file, in bytes."""
TICK_NS = 20_000_000
"""Resolution of file timestamps, in nanoseconds. A file modified more recently is read later, because another write
could leave its timestamp unchanged."""
SETTLING_SECONDS = 0.5
"""Time to wait for another program to finish writing a file, in seconds."""
UNWRITTEN = "unwritten"
"""Stored instead of the fingerprint when a file could not be written."""
FORGOTTEN_SECONDS = 90 * 86_400
"""Age of the last sync after which a working copy is forgotten, in seconds."""
MANY_FILES = 20
"""Number of new files from which they are flushed to disk together instead of one by one."""


class FileUnusableError(Exception):
    """A file cannot be read or written; the message is a sentence for users."""


@record
class Content:
    """The content of a file and its stat when it was read."""

    path: str
    text: str
    """Invalid UTF-8 is decoded to surrogates, so that it can be written back."""
    stat: tuple[int, int]
    """Size in bytes and modification time in nanoseconds."""


def memories_path(root: Path | str) -> str:
    """Return the relative path of the markdown memories, whether or not the file exists."""
    if not os.path.lexists(f"{root}/{MEMORIES}") and os.path.lexists(f"{root}/{OLD_MEMORIES}"):
        return OLD_MEMORIES
    return MEMORIES


class Disk:
    """The synced files of one working copy, compared with their state at the last sync."""

    def __init__(self, store: Store, root: Path | str, place: str) -> None:
        self._root = os.fspath(root)
        self.synced = Synced(store.scope, place)
        self.is_shared = store.is_shared
        self._store = store
        self.memories = memories_path(root)
        self.is_unwritten = False
        self._last_sync = self.synced.mark()
        self._known: dict[str, tuple[int, int]] | None = None

    def is_stale(self) -> bool:
        """Return whether a file or the store has changed since the last sync."""
        return (self._store.memories.last_event(), self.files_mark()) != self._last_sync

    def files_mark(self) -> str:
        """Return a fingerprint of the current files."""
        return _fingerprint(self._stats())

    @property
    def root(self) -> Path:
        """The directory of the working copy."""
        from pathlib import Path  # slow to import, and not needed if nothing has changed

        return Path(self._root)

    @property
    def is_restored(self) -> bool:
        """Return whether the store was restored from a backup, which makes it win over the files."""
        return self._last_sync[1] == RESTORED

    def is_untouched(self, kinds: Sequence[str], folder: str) -> bool:
        """Return whether no memory of these kinds and no file in this folder has changed since the last sync."""
        return self._last_sync[1] not in ("", UNWRITTEN, RESTORED) and not self.synced.has_touched(
            self._last_sync[0], kinds, folder
        )

    def _stats(self) -> dict[str, tuple[int, int]]:
        """Return the size and modification time of every synced file, by path."""
        found: dict[str, tuple[int, int]] = {}
        try:
            with os.scandir(os.path.join(self._root, KNOWLEDGE)) as entries:  # noqa: PTH118
                for entry in entries:
                    if entry.name.endswith(".md") and not entry.name.startswith("."):
                        stat = entry.stat()
                        found[KNOWLEDGE + entry.name] = stat.st_size, stat.st_mtime_ns
        except OSError:
            pass  # missing, or unreadable, which the sync reports
        if size := self._stat(self.memories):
            found[self.memories] = size
        return found

    def knowledge_paths(self) -> list[str]:
        """Return the relative paths of the knowledge files, sorted."""
        try:
            names = sorted(path.name for path in (self.root / KNOWLEDGE).iterdir())
        except OSError:
            return []
        return [KNOWLEDGE + name for name in names if name.endswith(".md") and not name.startswith(".")]

    def has_changed(self, path: str) -> bool:
        """Return whether a file has changed since the last sync."""
        if self._known is None:
            self._known = self.synced.files()
        return self._stat(path) != self._known.get(path)

    def exists(self, path: str) -> bool:
        """Return whether anything exists at a path."""
        return os.path.lexists(f"{self._root}/{path}")

    def read(self, path: str) -> Content | None:
        """Read a file; return None if it does not exist."""
        refuse_foreign(self.root, path)
        deadline = time.monotonic() + SETTLING_SECONDS
        while (stat := self._stat(path)) is not None:
            is_late = time.monotonic() > deadline
            if is_late or not 0 <= time.time_ns() - stat[1] < TICK_NS:
                text = mirrored(self.root, path).decode("utf-8", "surrogateescape")
                # Editors that save in place leave a partial file for a moment.
                if self._stat(path) == stat and not is_being_written(f"{self._root}/{path}"):
                    return Content(path=path, text=text, stat=stat)
                if is_late or time.time_ns() - stat[1] > SETTLING_SECONDS * 1e9:
                    self.is_unwritten = True
                    raise FileUnusableError(f"{path} is being written by another program; it will be synced later.")
            time.sleep(TICK_NS / 1e9)
        return None

    def write(self, path: str, text: str, seen: Content | None, *, durably: bool = True) -> Content | None:
        """Replace a file; return None if it no longer is as it was seen."""
        refuse_foreign(self.root, path)
        content = text.encode("utf-8", "surrogateescape")
        # Backdated, so that even an immediate save by somebody else gets another timestamp.
        changed_ns = time.time_ns() - 2 * TICK_NS
        try:
            full_path = self.root.joinpath(os.path.realpath(self.root / path))
            if not replace_seen(
                full_path, content, seen.stat if seen else None, changed_ns=changed_ns, durably=durably
            ):
                return None
        except OSError as error:
            self.is_unwritten = True
            raise FileUnusableError(f"Cannot write {path}: {error.strerror}.") from error
        return Content(path=path, text=text, stat=(len(content), changed_ns))

    def delete(self, path: str, seen: Content) -> bool:
        """Delete a file and return True, unless it no longer is as it was seen."""
        refuse_foreign(self.root, path)
        try:
            return remove_seen(self.root / path, seen.stat)
        except OSError as error:
            self.is_unwritten = True
            raise FileUnusableError(f"Cannot delete {path}: {error.strerror}.") from error

    def note(self, content: Content) -> None:
        """Record the stat of a file that has been processed."""
        self.synced.note(content.path, content.stat)

    def settle(self) -> None:
        """Record that everything is synced up to the newest event, or that a file could not be written."""
        for folder in (KNOWLEDGE, os.path.dirname(self.memories)):  # noqa: PTH120
            sweep(os.path.join(self._root, folder))  # noqa: PTH118
        fingerprint = UNWRITTEN if self.is_unwritten else _fingerprint(self.synced.files())
        if self.is_shared and not self._last_sync[1]:
            # Short-lived containers leave records behind, so new working copies clean up.
            self.synced.forget_places(timestamp(time.time() - FORGOTTEN_SECONDS))
        self.synced.note_mark(self._store.memories.last_event(), fingerprint)

    def _stat(self, path: str) -> tuple[int, int] | None:
        try:
            found = os.stat(os.path.join(self._root, path))  # noqa: PTH116, PTH118
        except OSError:
            return None
        return found.st_size, found.st_mtime_ns


def content_of(root: Path, path: str) -> bytes:
    """Return the bytes of a synced file; raise `FileUnusableError` if it must not be read."""
    refuse_foreign(root, path)
    full_path = root / path
    try:
        if not full_path.is_file() or full_path.stat().st_size > LARGEST:
            raise FileUnusableError(
                f"{path} is not a regular file of at most {LARGEST // 1024 // 1024} MB; it is not synced."
            )
        return full_path.read_bytes()
    except OSError as error:
        raise FileUnusableError(f"Cannot read {path}: {error.strerror}.") from error


def mirrored(root: Path, path: str) -> bytes:
    """Return the bytes of a synced text file; raise `FileUnusableError` if it must not be read."""
    content = content_of(root, path)
    if b"\0" in content:
        raise FileUnusableError(f"{path} is not a text file (it contains NUL bytes); it is not synced.")
    return content


def refuse_foreign(root: Path, path: str) -> None:
    """Raise `FileUnusableError` for symlinks to the database or to files outside the project.

    Closing any file handle of the SQLite database would release the locks of this process on it.
    """
    if not is_inside(root / path, root):
        raise FileUnusableError(f"{path} is a symlink that points outside the project; it is not synced.")
    if "/.ralph/ralph.db" in os.path.realpath(root / path):
        raise FileUnusableError(f"{path} is a symlink to the database; it is not synced.")


def _fingerprint(files: Mapping[str, tuple[int, int]]) -> str:
    import zlib

    text = "".join(f"{path}:{size}:{date}\n" for path, (size, date) in sorted(files.items())).encode()
    return f"{len(files)}-{zlib.crc32(text):08x}-{zlib.adler32(text):08x}" if files else ""
