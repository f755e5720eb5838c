"""The files of a working copy that mirror memories: which there are, and which have changed."""

from __future__ import annotations

import os
import time

from ralph.files import is_being_written, is_inside, remove_seen, replace_seen, sweep
from ralph.records import record, timestamp
from ralph.store.synced import RESTORED, Synced

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ralph.store import Store

MEMORIES = ".agent/memories.md"
OLD_MEMORIES = ".ralph/agent/memories.md"
KNOWLEDGE = ".ralph/knowledge/"
LARGEST = 64 * 1024 * 1024
TICK_NS = 20_000_000
"""A file changed this shortly ago may change again and keep its date: it is read a moment later."""
SETTLING_SECONDS = 0.5
UNWRITTEN = "unwritten"
FORGOTTEN_SECONDS = 90 * 86_400
"""So long after it was last in step a working copy counts as gone."""
MANY_FILES = 20
"""So many new files are made durable together."""


class FileUnusableError(Exception):
    """A file cannot be read or written; says why in one sentence."""


@record
class Content:
    """A file as it was read."""

    path: str
    text: str
    """Bytes that are no UTF-8 are kept as surrogates, so that they can be written back."""
    stat: tuple[int, int]


def memories_path(root: Path | str) -> str:
    """Give where the markdown memories of a project are, or would be."""
    if not os.path.lexists(f"{root}/{MEMORIES}") and os.path.lexists(f"{root}/{OLD_MEMORIES}"):
        return OLD_MEMORIES
    return MEMORIES


class Disk:
    """The mirrored files under one root, seen against what was last in step."""

    def __init__(self, store: Store, root: Path | str, place: str) -> None:
        self._root = os.fspath(root)
        self.synced = Synced(store.scope, place)
        self.is_shared = store.is_shared
        self._store = store
        self.memories = memories_path(root)
        self.is_unwritten = False
        self._mark = self.synced.mark()
        self._known: dict[str, tuple[int, int]] | None = None

    def is_stale(self) -> bool:
        """Say whether a file or the store has changed since they were in step."""
        return (self._store.memories.last_event(), self.files_mark()) != self._mark

    def files_mark(self) -> str:
        """Give a mark of the files as they are, which changes when one of them does."""
        return _mark(self._sizes())

    @property
    def root(self) -> Path:
        """The directory of the working copy."""
        from pathlib import Path  # takes milliseconds to load, which a sync with nothing to do need not spend

        return Path(self._root)

    @property
    def is_restored(self) -> bool:
        """Say whether the store is that of a backup: then the files are older news than it is."""
        return self._mark[1] == RESTORED

    def is_untouched(self, kinds: Sequence[str], folder: str) -> bool:
        """Say whether nothing has happened to memories of some kinds, or in some files, since all was in step."""
        return self._mark[1] not in ("", UNWRITTEN, RESTORED) and not self.synced.has_touched(
            self._mark[0], kinds, folder
        )

    def _sizes(self) -> dict[str, tuple[int, int]]:
        """Give size and date of every file there is."""
        found: dict[str, tuple[int, int]] = {}
        try:
            with os.scandir(os.path.join(self._root, KNOWLEDGE)) as entries:  # noqa: PTH118
                for one in entries:
                    if one.name.endswith(".md") and not one.name.startswith("."):
                        stat = one.stat()
                        found[KNOWLEDGE + one.name] = stat.st_size, stat.st_mtime_ns
        except OSError:
            pass  # no folder, or one that cannot be read: the sync says so
        if size := self._stat(self.memories):
            found[self.memories] = size
        return found

    def knowledge_paths(self) -> list[str]:
        """Give the paths of the knowledge files, in order."""
        try:
            names = sorted(one.name for one in (self.root / KNOWLEDGE).iterdir())
        except OSError:
            return []
        return [KNOWLEDGE + name for name in names if name.endswith(".md") and not name.startswith(".")]

    def has_changed(self, path: str) -> bool:
        """Say whether a file is not as it was when it was last in step."""
        if self._known is None:
            self._known = self.synced.files()
        return self._stat(path) != self._known.get(path)

    def exists(self, path: str) -> bool:
        """Say whether there is something at a path."""
        return os.path.lexists(f"{self._root}/{path}")

    def read(self, path: str) -> Content | None:
        """Give a file's text; None when there is no file."""
        refuse_foreign(self.root, path)
        deadline = time.monotonic() + SETTLING_SECONDS
        while (stat := self._stat(path)) is not None:
            is_late = time.monotonic() > deadline
            if is_late or not 0 <= time.time_ns() - stat[1] < TICK_NS:
                text = mirrored(self.root, path).decode("utf-8", "surrogateescape")
                # An editor that saves in place leaves half a file for a while: that is nobody's wish.
                if self._stat(path) == stat and not is_being_written(f"{self._root}/{path}"):
                    return Content(path=path, text=text, stat=stat)
                if is_late or time.time_ns() - stat[1] > SETTLING_SECONDS * 1e9:
                    self.is_unwritten = True
                    raise FileUnusableError(f"{path} is being written by another program; it is brought in step later.")
            time.sleep(TICK_NS / 1e9)
        return None

    def write(self, path: str, text: str, seen: Content | None, *, durably: bool = True) -> Content | None:
        """Put a text in place of what was seen at a path; None when that has changed meanwhile."""
        refuse_foreign(self.root, path)
        content = text.encode("utf-8", "surrogateescape")
        # Dated a little back, so that any later save, however soon, has another date.
        changed_ns = time.time_ns() - 2 * TICK_NS
        try:
            whole = self.root.joinpath(os.path.realpath(self.root / path))
            if not replace_seen(whole, content, seen.stat if seen else None, changed_ns=changed_ns, durably=durably):
                return None
        except OSError as error:
            self.is_unwritten = True
            raise FileUnusableError(f"{path} cannot be written: {error.strerror}.") from error
        return Content(path=path, text=text, stat=(len(content), changed_ns))

    def delete(self, path: str, seen: Content) -> bool:
        """Take a file away, if it still is as it was seen."""
        refuse_foreign(self.root, path)
        try:
            return remove_seen(self.root / path, seen.stat)
        except OSError as error:
            self.is_unwritten = True
            raise FileUnusableError(f"{path} cannot be removed: {error.strerror}.") from error

    def note(self, content: Content) -> None:
        """Remember that a file is in step, or cannot be, as it was read or written."""
        self.synced.note(content.path, content.stat)

    def settle(self) -> None:
        """Note that all is in step up to the newest event; when something could not be written, that it is not."""
        for folder in (KNOWLEDGE, os.path.dirname(self.memories)):  # noqa: PTH120
            sweep(os.path.join(self._root, folder))  # noqa: PTH118
        mark = UNWRITTEN if self.is_unwritten else _mark(self.synced.files())
        if self.is_shared and not self._mark[1]:
            # Whoever is new makes room: containers come and go.
            self.synced.forget_places(timestamp(time.time() - FORGOTTEN_SECONDS))
        self.synced.note_mark(self._store.memories.last_event(), mark)

    def _stat(self, path: str) -> tuple[int, int] | None:
        try:
            found = os.stat(os.path.join(self._root, path))  # noqa: PTH116, PTH118
        except OSError:
            return None
        return found.st_size, found.st_mtime_ns


def content_of(root: Path, path: str) -> bytes:
    """Give what is in a mirrored file, whatever it is; raises `FileUnusableError` for one that is left alone."""
    refuse_foreign(root, path)
    whole = root / path
    try:
        if not whole.is_file() or whole.stat().st_size > LARGEST:
            raise FileUnusableError(
                f"{path} is no regular file of at most {LARGEST // 1024 // 1024} MB; it is left alone."
            )
        return whole.read_bytes()
    except OSError as error:
        raise FileUnusableError(f"{path} cannot be read: {error.strerror}.") from error


def mirrored(root: Path, path: str) -> bytes:
    """Give what is in a mirrored file; raises `FileUnusableError` for one that is left alone."""
    content = content_of(root, path)
    if b"\0" in content:
        raise FileUnusableError(f"{path} is no text: it holds NUL bytes. It is left alone.")
    return content


def refuse_foreign(root: Path, path: str) -> None:
    """Leave alone what is not inside the project, and the database: to close a file of it ends our locks on it."""
    if not is_inside(root / path, root):
        raise FileUnusableError(f"{path} is a link that leads out of the project; it is left alone.")
    if "/.ralph/ralph.db" in os.path.realpath(root / path):
        raise FileUnusableError(f"{path} is a link to the database; it is left alone.")


def _mark(files: Mapping[str, tuple[int, int]]) -> str:
    """Give a mark that changes when a file is added, taken away, or gets another size or date."""
    import zlib

    text = "".join(f"{path}:{size}:{date}\n" for path, (size, date) in sorted(files.items())).encode()
    return f"{len(files)}-{zlib.crc32(text):08x}-{zlib.adler32(text):08x}" if files else ""
