"""Handling of Ctrl+C and termination signals.

Signals are only counted; the loop acts on them when it is safe. The first one ends
the agent's session and asks for feedback, the second one stops the run. While
the person is being asked, a signal interrupts the question.
"""

from __future__ import annotations

import signal
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any


class Interrupts:
    """Counter of Ctrl+C and termination signals, active inside the `with` block."""

    def __init__(self) -> None:
        self.count = 0
        self.is_terminated = False
        self.is_asking = False
        self._previous_handlers: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for kind in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                if signal.getsignal(kind) is not signal.SIG_IGN:  # ignored under nohup
                    self._previous_handlers[kind] = signal.signal(kind, self._count_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for kind, handler in self._previous_handlers.items():
            signal.signal(kind, handler)

    def _count_signal(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        self.is_terminated = self.is_terminated or number != signal.SIGINT
        if self.is_asking:
            raise KeyboardInterrupt

    @property
    def is_requested(self) -> bool:
        """Whether the session should be ended."""
        return self.count > 0

    @property
    def is_forced(self) -> bool:
        """Whether the whole run should stop without asking for feedback."""
        return self.count > 1 or self.is_terminated

    def reset(self) -> None:
        """Reset the count after the person has been asked."""
        self.count = 0
