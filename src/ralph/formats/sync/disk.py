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
from ralph.core.memory_files import KNOWLEDGE_DIR, fingerprint, memories_path, stat_file, stat_files
from ralph.core.records import record, timestamp
from ralph.store.sync_state import RESTORED_MARK, SyncState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ralph.core.files import FileParts
    from ralph.core.memory_files import FileStats
    from ralph.store import Store
    from ralph.store.database import Row

MAX_SYNCED_BYTES = 32 * 1024 * 1024
"""Maximum size of a synced file, in bytes. Reading and writing it takes six times as much memory."""
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
    """A file as it was read or written."""

    path: str
    stat: tuple[int, int]
    """Size in bytes and modification time in nanoseconds."""
    content: bytes = b""
    """What was read."""

    @property
    def text(self) -> str:
        """The decoded content; invalid UTF-8 becomes surrogates, so that `encode_text` can write it back."""
        return self.content.decode("utf-8", "surrogateescape")


def encode_text(text: str) -> bytes:
    """Return the content of a file with this text."""
    return text.encode("utf-8", "surrogateescape")


class SyncedFiles:
    """The synced files of one working copy, compared with their state at the last sync."""

    def __init__(self, store: Store, root: Path | str, place: str) -> None:
        self.root = os.fspath(root)
        self.sync_state = SyncState(store.scope, place)
        self.is_shared = store.is_shared
        self._store = store
        self.memories = memories_path(root)
        self.has_unwritten = False
        seq, mark, self._layout, self.held_count = self.sync_state.last_sync()
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
        return fingerprint(self._stats(), self._layout)

    @property
    def is_restored(self) -> bool:
        """Return whether the store was restored from a backup, which makes it win over the files."""
        return self._last_sync[1] == RESTORED_MARK

    def files_as_synced(self) -> dict[str, tuple[int, int]]:
        """Return the files, by path, if all are as the last sync left them; otherwise nothing."""
        found = self._stats()
        return found if fingerprint(found, self._layout) == self._last_sync[1] else {}

    @property
    def insertion_offsets(self) -> dict[str, int]:
        """Where new entries of each kind go in the markdown file, if it is as the last sync left it."""
        pairs = (pair.partition(":") for pair in self._layout.split(",") if pair)
        return {kind: int(offset) for kind, _, offset in pairs}

    @insertion_offsets.setter
    def insertion_offsets(self, offsets: Mapping[str, int]) -> None:
        self._layout = ",".join(f"{kind}:{offset}" for kind, offset in offsets.items())

    def changed_memories(self, limit: int) -> list[Row]:
        """Return up to `limit` memories that have changed since the last sync, oldest first."""
        return self.sync_state.changed_memories(self._last_sync[0], limit)

    def is_unchanged(self, kinds: Sequence[str], folder: str) -> bool:
        """Return whether no memory of these kinds and no file in this folder has changed since the last sync."""
        return self._last_sync[1] not in ("", UNWRITTEN, RESTORED_MARK) and not self.sync_state.has_changes_since(
            self._last_sync[0], kinds, folder
        )

    def _stats(self) -> FileStats:
        return stat_files(self.root, self.memories)

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
                content = read_text_bytes(self.root, path)
                # Editors that save in place leave a partial file for a moment.
                if self._stat(path) == stat and not is_being_written(f"{self.root}/{path}"):
                    return FileContent(path=path, stat=stat, content=content)
                if is_late or time.time_ns() - stat[1] > WRITE_WAIT_SECONDS * 1e9:
                    self.has_unwritten = True
                    raise UnusableFileError(f"{path} is being written by another program; it will be synced later.")
            time.sleep(TIMESTAMP_RESOLUTION_NS / 1e9)
        return None

    def write(
        self, path: str, content: bytes | FileParts, seen: FileContent | None, *, is_durable: bool = True
    ) -> FileContent | None:
        """Replace a file; return None if it no longer is as it was seen."""
        check_inside_project(self.root, path)
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
        size = len(content) if isinstance(content, bytes) else sum(map(len, content))
        return FileContent(path=path, stat=(size, changed_ns))

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

        `files` are the synced files if they are known and no other entries are held; otherwise all records are read.
        """
        for folder in (KNOWLEDGE_DIR, os.path.dirname(self.memories)):  # noqa: PTH120
            delete_temporary_files(os.path.join(self.root, folder))  # noqa: PTH118
        if not files:
            self.held_count = len(self.sync_state.held_entries())
        files = files or self.sync_state.files()
        mark = UNWRITTEN if self.has_unwritten else fingerprint(files, self._layout)
        if self.is_shared and not self._last_sync[1]:
            # Short-lived containers leave records behind, so new working copies clean up.
            self.sync_state.delete_stale_places(timestamp(time.time() - STALE_COPY_SECONDS))
        self.sync_state.record_sync(self._store.memories.history.last_event_seq(), mark, self._layout, self.held_count)

    def _stat(self, path: str) -> tuple[int, int] | None:
        return stat_file(self.root, path)


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
