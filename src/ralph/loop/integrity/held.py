"""Changes that wait for a person, and those that a person approved, as the check of one task sees them. Pure."""

from __future__ import annotations

import hashlib

from ralph.core.records import record
from ralph.loop.integrity.snapshot import state_digest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ralph.core.records import HeldChange
    from ralph.loop.integrity.judge import ProtectedChange
    from ralph.loop.integrity.snapshot import TreeSnapshot


@record
class ContentMark:
    """Content of a file by which a change to it is recognized."""

    path: str
    digest: str
    was: str = ""
    """Digest before the change; empty if it is not known."""

    def __str__(self) -> str:
        """Return the mark as it is stored."""
        return f"{self.path}\n{self.digest}\n{self.was}"

    def is_in(self, tree: TreeSnapshot) -> bool:
        """Return whether a tree has the change, whatever the mode of the file."""
        return self.digest.removesuffix("x") == state_digest(tree.states.get(self.path)).removesuffix("x")

    def is_undone_in(self, tree: TreeSnapshot) -> bool:
        """Return whether a tree has the file as it was before the change."""
        return bool(self.was) and self.was == state_digest(tree.states.get(self.path))

    def is_replaced_in(self, tree: TreeSnapshot) -> bool:
        """Return whether a tree has neither this content nor the one before it."""
        return bool(self.was) and state_digest(tree.states.get(self.path)) not in (self.digest, self.was)


def mark_of(change: ProtectedChange) -> ContentMark:
    """Return the mark of a change."""
    return ContentMark(path=change.path, digest=change.digest, was=change.was)


def marks_digest(marks: Iterable[str]) -> str:
    """Return the hash by which a person approves exactly these changes."""
    return hashlib.sha256("\n\n".join(sorted(marks)).encode("utf-8", "surrogateescape")).hexdigest()


def parse_marks(held: HeldChange) -> list[ContentMark]:
    """Return the marks of a held change."""
    parts = ((*mark.rsplit("\n", 2), "")[:3] for mark in held.marks)
    return [ContentMark(path=path, digest=digest, was=was) for path, digest, was in parts]


class HeldChanges:
    """Held changes of all unfinished tasks, from the point of view of one of them."""

    def __init__(self, changes: Sequence[HeldChange], task_id: str) -> None:
        """`changes` are the oldest first."""
        self._changes, self._task_id = changes, task_id
        self._approved: dict[str, dict[str, ContentMark]] = {}
        """By task and path, the content that a person approved last."""
        for held in changes:
            if held.approved_at:
                self._approved.setdefault(held.task_id, {}).update({mark.path: mark for mark in parse_marks(held)})

    @property
    def approved(self) -> Sequence[ContentMark]:
        """What a person approved for this task."""
        return tuple(self._approved.get(self._task_id, {}).values())

    def is_approved(self, change: ProtectedChange | ContentMark, task_id: str = "") -> bool:
        """Return whether a person approved this content for a task, by default for this one."""
        mark = self._approved.get(task_id or self._task_id, {}).get(change.path)
        return mark is not None and mark.digest == change.digest

    def owner_of(self, change: ProtectedChange) -> str:
        """Return the other task that made a change which was held, or an empty string."""
        for held in reversed(self._changes):
            if held.task_id != self._task_id and any(
                (mark.path, mark.digest) == (change.path, change.digest) for mark in parse_marks(held)
            ):
                return held.task_id
        return ""

    def waiting(self, is_present: Callable[[ContentMark], bool]) -> list[tuple[HeldChange, list[ContentMark]]]:
        """Return the changes that are there and that nobody approved, newest first, each with what is there of it."""
        found = []
        for held in reversed(self._changes):
            marks = [
                mark
                for mark in parse_marks(held)
                if is_present(mark) and not self.is_approved(mark) and not self.is_approved(mark, held.task_id)
            ]
            if marks:
                found.append((held, marks))
        return found

    def is_own(self, held: HeldChange) -> bool:
        """Return whether this task made a change."""
        return held.task_id == self._task_id
