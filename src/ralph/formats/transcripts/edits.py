"""Files that an agent edited without a word, until it says something."""

from __future__ import annotations

from ralph.core.records import Turn, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class PendingEdits:
    """Edits since the last turn: they come with what the agent says next, or with a turn without text."""

    def __init__(self) -> None:
        self._files: dict[str, tuple[str, ...]] = {}
        self._last: Callable[[], Turn] | None = None

    def add(self, call: str, files: tuple[str, ...], turn: Callable[[], Turn]) -> None:
        """Add the files that a tool call edits, and how to make a turn of them."""
        if files:
            self._files[call] = (*self._files.get(call, ()), *files)
            self._last = turn

    def drop(self, call: str) -> None:
        """Forget the edit of a call that failed."""
        self._files.pop(call, None)

    def take(self) -> tuple[str, ...]:
        """Return the edited files, once."""
        if not self._files:
            return ()
        files = tuple(dict.fromkeys(file for files in self._files.values() for file in files))
        self._files.clear()
        return files

    def alone(self) -> Iterator[Turn]:
        """Yield a turn without text for files about which the agent said nothing."""
        if (files := self.take()) and self._last is not None:
            yield replace(self._last(), files=files)
