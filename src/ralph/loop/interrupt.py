"""Ctrl+C without tearing anything: a signal only leaves a note, and the loop looks at it when it is safe.

The first one ends the agent's session and asks the person; the second stops
the run. While the person is being asked, a signal interrupts the question.
"""

from __future__ import annotations

import signal
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any


class Interrupts:
    """Collects Ctrl+C and termination signals while the block runs."""

    def __init__(self) -> None:
        self.count = 0
        self.terminated = False
        self.asking = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for kind in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                if signal.getsignal(kind) is not signal.SIG_IGN:  # as under nohup
                    self._before[kind] = signal.signal(kind, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for kind, handler in self._before.items():
            signal.signal(kind, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        self.terminated = self.terminated or number != signal.SIGINT
        if self.asking:
            raise KeyboardInterrupt

    @property
    def wanted(self) -> bool:
        """Say whether the session should be ended."""
        return self.count > 0

    @property
    def insists(self) -> bool:
        """Say whether the whole run should stop, without a question."""
        return self.count > 1 or self.terminated

    def forget(self) -> None:
        """Start counting anew: the person has been heard."""
        self.count = 0
