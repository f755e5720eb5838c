"""Access to the synced files of a working copy, with change detection."""

from __future__ import annotations

import os
import time

from ralph.core.files import (
    delete_temporary_files,
    is_being_written,
    is_inside,
    remove_if_unchanged,
    replace_if_unchanged,
)
from ralph.core.records import record, timestamp
from ralph.store.sync_state import RESTORED_MARK, SyncState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ralph.store import Store
    from ralph.store.database import Row

MEMORIES_PATH = ".agent/memories.md"
OLD_MEMORIES_PATH = ".ralph/agent/memories.md"
KNOWLEDGE_DIR = ".ralph/knowledge/"
MAX_SYNCED_BYTES = 64 * 1024 * 1024
"""Maximum size of a synced file, in bytes."""
TIMESTAMP_RESOLUTION_NS = 20_000_000
"""Resolution of file timestamps, in nanoseconds. A file modified more recently is read later, because another write
could leave its timestamp unchanged."""
WRITE_WAIT_SECONDS = 0.5
"""Time to wait for another program to finish writing a file, in seconds."""
UNWRITTEN = "unwritten"
"""Stored instead of the fingerprint when a file could not be written."""
STALE_COPY_SECONDS = 90 * 86_400
"""Age of the last sync after which a working copy is forgotten, in seconds."""
BULK_FLUSH_FILES = 20
"""Number of new files from which they are flushed to disk together instead of one by one."""


class UnusableFileError(Exception):
    """A file cannot be read or written; the message is a sentence for users."""


@record
class FileContent:
    """The content of a file and its stat when it was read."""

    path: str
    text: str
    """Invalid UTF-8 is decoded to surrogates, so that it can be written back."""
    stat: tuple[int, int]
    """Size in bytes and modification time in nanoseconds."""


def memories_path(root: Path | str) -> str:
    """Return the relative path of the markdown memories, whether or not the file exists."""
    if not os.path.lexists(f"{root}/{MEMORIES_PATH}") and os.path.lexists(f"{root}/{OLD_MEMORIES_PATH}"):
        return OLD_MEMORIES_PATH
    return MEMORIES_PATH


class SyncedFiles:
    """The synced files of one working copy, compared with their state at the last sync."""

    def __init__(self, store: Store, root: Path | str, place: str) -> None:
        self.root = os.fspath(root)
        self.sync_state = SyncState(store.scope, place)
        self.is_shared = store.is_shared
        self._store = store
        self.memories = memories_path(root)
        self.has_unwritten = False
        seq, mark, self.held_count = self.sync_state.last_sync()
        self._last_sync = seq, mark
        self._known: dict[str, tuple[int, int]] | None = None

    def is_stale(self) -> bool:
        """Return whether a file or the store has changed since the last sync."""
        seq, mark = self._last_sync
        return self._store.memories.history.last_event_seq() != seq or self.fingerprint() != mark

    def has_edits(self) -> bool:
        """Return whether a file has changed since the last sync, or could not be written by it."""
        return self.fingerprint() != self._last_sync[1]

    def has_new_content(self) -> bool:
        """Return whether a file is not as the last sync left it."""
        return self._stats() != self.sync_state.files()

    def fingerprint(self) -> str:
        """Return a fingerprint of the current files."""
        return _fingerprint(self._stats())

    @property
    def is_restored(self) -> bool:
        """Return whether the store was restored from a backup, which makes it win over the files."""
        return self._last_sync[1] == RESTORED_MARK

    def files_as_synced(self) -> dict[str, tuple[int, int]]:
        """Return the files, by path, if all are as the last sync left them; otherwise nothing."""
        found = self._stats()
        return found if _fingerprint(found) == self._last_sync[1] else {}

    def changed_memories(self, limit: int) -> list[Row]:
        """Return up to `limit` memories that have changed since the last sync, oldest first."""
        return self.sync_state.changed_memories(self._last_sync[0], limit)

    def is_unchanged(self, kinds: Sequence[str], folder: str) -> bool:
        """Return whether no memory of these kinds and no file in this folder has changed since the last sync."""
        return self._last_sync[1] not in ("", UNWRITTEN, RESTORED_MARK) and not self.sync_state.has_changes_since(
            self._last_sync[0], kinds, folder
        )

    def _stats(self) -> dict[str, tuple[int, int]]:
        """Return the size and modification time of every synced file, by path."""
        found: dict[str, tuple[int, int]] = {}
        try:
            with os.scandir(os.path.join(self.root, KNOWLEDGE_DIR)) as entries:  # noqa: PTH118
                for entry in entries:
                    if entry.name.endswith(".md") and not entry.name.startswith("."):
                        stat = entry.stat()
                        found[KNOWLEDGE_DIR + entry.name] = stat.st_size, stat.st_mtime_ns
        except OSError:
            pass  # missing, or unreadable, which the sync reports
        if size := self._stat(self.memories):
            found[self.memories] = size
        return found

    def knowledge_paths(self) -> list[str]:
        """Return the relative paths of the knowledge files, sorted."""
        try:
            names = sorted(os.listdir(f"{self.root}/{KNOWLEDGE_DIR}"))  # noqa: PTH208
        except OSError:
            return []
        return [KNOWLEDGE_DIR + name for name in names if name.endswith(".md") and not name.startswith(".")]

    def has_changed(self, path: str) -> bool:
        """Return whether a file has changed since the last sync."""
        if self._known is None:
            self._known = self.sync_state.files()
        return self._stat(path) != self._known.get(path)

    def exists(self, path: str) -> bool:
        """Return whether anything exists at a path."""
        return os.path.lexists(f"{self.root}/{path}")

    def read(self, path: str) -> FileContent | None:
        """Read a file; return None if it does not exist."""
        check_inside_project(self.root, path)
        deadline = time.monotonic() + WRITE_WAIT_SECONDS
        while (stat := self._stat(path)) is not None:
            is_late = time.monotonic() > deadline
            if is_late or not 0 <= time.time_ns() - stat[1] < TIMESTAMP_RESOLUTION_NS:
                text = read_text_bytes(self.root, path).decode("utf-8", "surrogateescape")
                # Editors that save in place leave a partial file for a moment.
                if self._stat(path) == stat and not is_being_written(f"{self.root}/{path}"):
                    return FileContent(path=path, text=text, stat=stat)
                if is_late or time.time_ns() - stat[1] > WRITE_WAIT_SECONDS * 1e9:
                    self.has_unwritten = True
                    raise UnusableFileError(f"{path} is being written by another program; it will be synced later.")
            time.sleep(TIMESTAMP_RESOLUTION_NS / 1e9)
        return None

    def write(self, path: str, text: str, seen: FileContent | None, *, is_durable: bool = True) -> FileContent | None:
        """Replace a file; return None if it no longer is as it was seen."""
        check_inside_project(self.root, path)
        content = text.encode("utf-8", "surrogateescape")
        # Backdated, so that even an immediate save by somebody else gets another timestamp.
        changed_ns = time.time_ns() - 2 * TIMESTAMP_RESOLUTION_NS
        try:
            full_path = os.path.realpath(f"{self.root}/{path}")
            if not replace_if_unchanged(
                full_path, content, seen.stat if seen else None, modified_ns=changed_ns, is_durable=is_durable
            ):
                return None
        except OSError as error:
            self.has_unwritten = True
            raise UnusableFileError(f"Cannot write {path}: {error.strerror}.") from error
        return FileContent(path=path, text=text, stat=(len(content), changed_ns))

    def delete(self, path: str, seen: FileContent) -> bool:
        """Delete a file and return True, unless it no longer is as it was seen."""
        check_inside_project(self.root, path)
        try:
            return remove_if_unchanged(f"{self.root}/{path}", seen.stat)
        except OSError as error:
            self.has_unwritten = True
            raise UnusableFileError(f"Cannot delete {path}: {error.strerror}.") from error

    def mark_synced(self, content: FileContent) -> None:
        """Record the stat of a file that has been processed."""
        self.sync_state.save_file(content.path, content.stat)

    def finish(self, files: Mapping[str, tuple[int, int]] | None = None) -> None:
        """Record that everything is synced up to the newest event, or that a file could not be written.

        `files` are the synced files if they are known and no entry is held; otherwise all records are read.
        """
        for folder in (KNOWLEDGE_DIR, os.path.dirname(self.memories)):  # noqa: PTH120
            delete_temporary_files(os.path.join(self.root, folder))  # noqa: PTH118
        self.held_count = 0 if files else len(self.sync_state.held_entries())
        fingerprint = UNWRITTEN if self.has_unwritten else _fingerprint(files or self.sync_state.files())
        if self.is_shared and not self._last_sync[1]:
            # Short-lived containers leave records behind, so new working copies clean up.
            self.sync_state.delete_stale_places(timestamp(time.time() - STALE_COPY_SECONDS))
        self.sync_state.record_sync(self._store.memories.history.last_event_seq(), fingerprint, self.held_count)

    def _stat(self, path: str) -> tuple[int, int] | None:
        try:
            found = os.stat(os.path.join(self.root, path))  # noqa: PTH116, PTH118
        except OSError:
            return None
        return found.st_size, found.st_mtime_ns


def read_bytes(root: Path | str, path: str) -> bytes:
    """Return the bytes of a synced file; raise `UnusableFileError` if it must not be read."""
    check_inside_project(root, path)
    full_path = f"{root}/{path}"
    try:
        if not os.path.isfile(full_path) or os.stat(full_path).st_size > MAX_SYNCED_BYTES:  # noqa: PTH113, PTH116
            raise UnusableFileError(
                f"{path} is not a regular file of at most {MAX_SYNCED_BYTES // 1024 // 1024} MB; it is not synced."
            )
        with open(full_path, "rb") as file:  # noqa: PTH123
            return file.read()
    except OSError as error:
        raise UnusableFileError(f"Cannot read {path}: {error.strerror}.") from error


def read_text_bytes(root: Path | str, path: str) -> bytes:
    """Return the bytes of a synced text file; raise `UnusableFileError` if it must not be read."""
    content = read_bytes(root, path)
    if b"\0" in content:
        raise UnusableFileError(f"{path} is not a text file (it contains NUL bytes); it is not synced.")
    return content


def check_inside_project(root: Path | str, path: str) -> None:
    """Raise `UnusableFileError` for symlinks to the database or to files outside the project.

    Closing any file handle of the SQLite database would release the locks of this process on it.
    """
    full_path = f"{root}/{path}"
    if not is_inside(full_path, root):
        raise UnusableFileError(f"{path} is a symlink that points outside the project; it is not synced.")
    if "/.ralph/ralph.db" in os.path.realpath(full_path):
        raise UnusableFileError(f"{path} is a symlink to the database; it is not synced.")


def _fingerprint(files: Mapping[str, tuple[int, int]]) -> str:
    import zlib

    text = "".join(f"{path}:{size}:{date}\n" for path, (size, date) in sorted(files.items())).encode()
    return f"{len(files)}-{zlib.crc32(text):08x}-{zlib.adler32(text):08x}" if files else ""
