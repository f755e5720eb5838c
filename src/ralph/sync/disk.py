"""The files of a working copy that mirror memories: which there are, and which have changed."""

from __future__ import annotations

import os
import time

from ralph.files import is_inside, write_whole
from ralph.records import record
from ralph.store.synced import Synced, SyncedFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from ralph.store import Store

MEMORIES = ".agent/memories.md"
OLD_MEMORIES = ".ralph/agent/memories.md"
KNOWLEDGE = ".ralph/knowledge/"
LARGEST = 64 * 1024 * 1024
TICK_NS = 20_000_000
"""A file changed this shortly before it was noted may change again and keep its date."""
SETTLING_SECONDS = 0.5
NEVER = -1


class Unusable(Exception):
    """A file cannot be read or written; says why in one sentence."""


@record
class Content:
    """A file as it was read."""

    path: str
    text: str
    """Bytes that are no UTF-8 are kept as surrogates, so that they can be written back."""
    stat: tuple[int, int]


def memories_path(root: Path) -> str:
    """Give where the markdown memories of a project are, or would be."""
    if not os.path.lexists(root / MEMORIES) and os.path.lexists(root / OLD_MEMORIES):
        return OLD_MEMORIES
    return MEMORIES


class Disk:
    """The mirrored files under one root, seen against what was last in step."""

    def __init__(self, store: Store, root: Path, place: str) -> None:
        self.root = root
        self.synced = Synced(store.scope, place)
        self._store = store
        self._known = self.synced.files()
        self.memories = memories_path(root)
        self.is_unwritten = False

    def is_stale(self) -> bool:
        """Say whether a file or the store has changed since they were in step."""
        event = self._store.memories.last_event()
        synced = self.synced.event()
        if event != synced and (event or self._known or synced != NEVER):
            return True
        paths = {self.memories, *self.knowledge_paths()}
        return any(path not in paths for path in self._known) or any(self.has_changed(path) for path in paths)

    def knowledge_paths(self) -> list[str]:
        """Give the paths of the knowledge files, in order."""
        try:
            with os.scandir(self.root / KNOWLEDGE) as found:
                names = [one.name for one in found if one.name.endswith(".md") and not one.name.startswith(".")]
        except OSError:
            return []
        return [KNOWLEDGE + name for name in sorted(names)]

    def has_changed(self, path: str) -> bool:
        """Say whether a file is not as it was when it was last in step."""
        known, stat = self._known.get(path), self._stat(path)
        if known is None:
            return stat is not None
        if stat != (known.bytes, known.changed_ns):
            return True
        if known.changed_ns + TICK_NS < known.synced_ns or stat is None:
            return False
        try:
            return _digest(self._bytes(path)) != known.digest
        except Unusable:
            return True

    def exists(self, path: str) -> bool:
        """Say whether there is something at a path."""
        return os.path.lexists(self.root / path)

    def read(self, path: str) -> Content | None:
        """Give a file's text; None when there is no file."""
        stat = self._settled(path)
        if stat is None:
            return None
        return Content(path=path, text=self._bytes(path).decode("utf-8", "surrogateescape"), stat=stat)

    def _settled(self, path: str) -> tuple[int, int] | None:
        """Wait, not for long, until an editor has stopped writing."""
        deadline = time.monotonic() + SETTLING_SECONDS
        stat = self._stat(path)
        while stat and time.time_ns() - stat[1] < TICK_NS and time.monotonic() < deadline:
            time.sleep(TICK_NS / 1e9)
            stat = self._stat(path)
        return stat

    def write(self, path: str, text: str, seen: Content | None) -> Content | None:
        """Put a text in place of what was seen at a path; None when that has changed meanwhile."""
        self._refuse_foreign(path)
        if self._stat(path) != (seen.stat if seen else None):
            return None
        try:
            # Dated a little back, so that any later save, however soon, has another date.
            changed_ns = time.time_ns() - 2 * TICK_NS
            written = write_whole(self.root / path, text.encode("utf-8", "surrogateescape"), changed_ns)
        except OSError as error:
            self.is_unwritten = True
            raise Unusable(f"{path} cannot be written: {error.strerror}.") from error
        return Content(path=path, text=text, stat=(written.st_size, written.st_mtime_ns))

    def delete(self, path: str, seen: Content) -> bool:
        """Take a file away, if it still is as it was seen."""
        self._refuse_foreign(path)
        if self._stat(path) != seen.stat:
            return False
        try:
            (self.root / path).unlink(missing_ok=True)
        except OSError as error:
            self.is_unwritten = True
            raise Unusable(f"{path} cannot be removed: {error.strerror}.") from error
        return True

    def note(self, content: Content) -> None:
        """Remember that a file is in step as it was read or written."""
        self.synced.note(
            SyncedFile(
                path=content.path,
                bytes=content.stat[0],
                changed_ns=content.stat[1],
                digest=_digest(content.text.encode("utf-8", "surrogateescape")),
                synced_ns=time.time_ns(),
            )
        )

    def settle(self) -> None:
        """Note that all is in step up to the newest event, or that it is not."""
        self.synced.note_event(NEVER if self.is_unwritten else self._store.memories.last_event())

    def _stat(self, path: str) -> tuple[int, int] | None:
        try:
            found = (self.root / path).stat()
        except OSError:
            return None
        return found.st_size, found.st_mtime_ns

    def _bytes(self, path: str) -> bytes:
        self._refuse_foreign(path)
        whole = self.root / path
        try:
            if not whole.is_file() or whole.stat().st_size > LARGEST:
                raise Unusable(f"{path} is no regular file of at most {LARGEST // 1024 // 1024} MB; it is left alone.")
            return whole.read_bytes()
        except OSError as error:
            raise Unusable(f"{path} cannot be read: {error.strerror}.") from error

    def _refuse_foreign(self, path: str) -> None:
        if not is_inside(self.root / path, self.root):
            raise Unusable(f"{path} is a link that leads out of the project; it is left alone.")


def _digest(content: bytes) -> str:
    import hashlib

    return hashlib.sha256(content).hexdigest()
