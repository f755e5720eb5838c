"""State of the directory of a serial run that gates may depend on."""

from __future__ import annotations

import threading
from contextlib import suppress
from posixpath import basename, splitext
from typing import TYPE_CHECKING

from ralph.loop.integrity.expectations import Expectations
from ralph.loop.integrity.held import parse_marks
from ralph.loop.integrity.judge import is_code, protection_for
from ralph.loop.integrity.kept import KeptContents
from ralph.loop.integrity.protected import MAX_SCRIPT_BYTES, RECIPES, Protection, is_script
from ralph.loop.integrity.snapshot import DirectorySnapshot, FileState, content_digest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from ralph.core.records import HeldChange
    from ralph.loop.integrity.held import ContentMark
    from ralph.loop.integrity.snapshot import TreeSnapshot


class RunBase:
    """State of a directory in which one task after another works; safe to use from several threads.

    What a person accepted moves the base; what a task left behind without being accepted does not, so that neither
    a later attempt nor a later task starts from it.
    """

    def __init__(self, root: Path, protect: Sequence[str], gates: Sequence[str]) -> None:
        self.root = root
        self.protect, self.gates = tuple(protect), tuple(gates)
        self._lock = threading.Lock()
        self._base: DirectorySnapshot | None = None
        self._latest: DirectorySnapshot | None = None
        self._started: dict[str, DirectorySnapshot] = {}
        self._named = Protection(protect=self.protect)
        self._kept = KeptContents(root)
        self._expectations: Expectations | None = None
        self._before_unfinished: dict[str, tuple[bytes, bool] | None] = {}
        self._recipes = "\n".join((*self.gates, *_recipe_texts(root)))

    def begin(self, task_id: str, held: Sequence[HeldChange] = ()) -> None:
        """Record the state before the first session of a task in this run.

        `held` are changes of unfinished work: tests that it changed count as they were before it.
        """
        with self._lock:
            is_first = self._base is None
            if task_id not in self._started:
                self._started[task_id] = self._take()
            if is_first and self._base:
                self._rewind(self._base, [mark for one in held if not one.approved_at for mark in parse_marks(one)])

    @property
    def is_open(self) -> bool:
        """Whether the state that gates may depend on is still to be recorded."""
        return self._base is None

    def leave_out(self, files: Mapping[str, tuple[bytes, bool] | None]) -> None:
        """Let files count as they were before unfinished work of a task, which a run finds or takes out of the tree."""
        self._before_unfinished.update(files)

    def _leave_out_unfinished(self, base: DirectorySnapshot) -> None:
        for path, before in self._before_unfinished.items():
            if before is None:
                base.states.pop(path, None)
                base.contents.pop(path, None)
            else:
                base.states[path] = FileState(digest=content_digest(before[0]), is_executable=before[1])
                base.contents[path] = before[0]

    def _rewind(self, base: DirectorySnapshot, marks: Sequence[ContentMark]) -> None:
        for mark in reversed(marks):
            content = self._kept.read(mark.was.removesuffix("x"))
            if content is not None and mark.is_in(base):
                is_executable = mark.was.endswith("x")
                base.states[mark.path] = FileState(digest=mark.was.removesuffix("x"), is_executable=is_executable)
                base.contents[mark.path] = content
        self._kept.prune({mark.was.removesuffix("x") for mark in marks})

    def keep(self, paths: Collection[str]) -> None:
        """Keep the base version of files for later runs, which find another one."""
        base = self.base()
        for path in paths:
            if (content := base.read(path)) is not None:
                self._kept.write(content)

    def base(self) -> DirectorySnapshot:
        """Return the state that gates may depend on."""
        with self._lock:
            return self._base or self._take()

    def started(self, task_id: str) -> DirectorySnapshot:
        """Return the state before the first session of a task in this run."""
        return self._started.get(task_id) or self.base()

    def observe(self) -> DirectorySnapshot:
        """Return the state now."""
        with self._lock:
            return self._take()

    def accept(self, now: TreeSnapshot, paths: Collection[str]) -> None:
        """Make the present version of some files part of the base."""
        base = self.base()
        for path in paths:
            if path in now.states:
                base.states[path] = now.states[path]
            else:
                base.states.pop(path, None)
            content = now.read(path)
            if content is not None:
                base.contents[path] = content
            base.hijacks[path] = now.hijacks_in(path)

    def _take(self) -> DirectorySnapshot:
        if self._latest is None:
            # What tests and gates read is known once these are.
            first = self._latest = DirectorySnapshot(self.root, self._is_named)
            self._expectations = Expectations(first, protection_for(first, self.protect, self.gates, ()))
        taken = self._latest = DirectorySnapshot(self.root, self._is_kept, self._latest)
        if self._base is None:
            # A copy of the tables: accepted files are written into them.
            self._base = DirectorySnapshot(self.root, self._is_kept, taken)
            self._leave_out_unfinished(self._base)
        return taken

    def _is_kept(self, path: str) -> bool:
        return self._is_named(path) or bool(self._expectations and self._expectations.include(path))

    def _is_named(self, path: str) -> bool:
        """Return whether gates may depend on a file, as far as that is known without having read any."""
        if self._named.kind_of(path) is not None or is_script(path, is_executed=True):
            return True
        name = basename(path)  # a program that a gate may run, or a list that it reads
        if not is_code(path):
            return name in self._recipes
        return name == "__main__.py" or splitext(name)[0] in self._recipes


def _recipe_texts(root: Path) -> Iterator[str]:
    for name in RECIPES:
        with suppress(OSError):
            yield (root / name).read_text(encoding="utf-8", errors="replace")[:MAX_SCRIPT_BYTES]
