"""Notifications of a run, sent by a thread of their own so that they never delay or harm it."""

from __future__ import annotations

import queue
import threading
from contextlib import contextmanager

from ralph.core.errors import RalphError
from ralph.core.records import replace
from ralph.loop.progress import progress_event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self

    from ralph.core.settings import NotifyConfig
    from ralph.loop.notify.sending import Notification
    from ralph.loop.progress import EventHandler, ProgressEvent

MAX_PENDING = 100
"""Maximum number of notifications that wait to be sent; further ones are dropped."""
CLOSE_SECONDS = 15.0
"""Time that a run that has ended waits for its notifications to be sent, in seconds."""


@contextmanager
def notified(
    config: NotifyConfig, project: str, forward: EventHandler, read_report: Callable[[str], str]
) -> Iterator[EventHandler]:
    """Return an event handler that forwards events and, if notifications go anywhere, notifies a person."""
    if not config.has_target:
        yield forward
        return
    with Notifier(config, project, forward, read_report) as notifier:
        yield notifier


class Notifier:
    """Event handler that forwards the events of a run and notifies a person of some of them."""

    def __init__(
        self, config: NotifyConfig, project: str, forward: EventHandler, read_report: Callable[[str], str]
    ) -> None:
        """`project` names the project in titles; problems become warnings among the forwarded events.

        `read_report` returns the report of a run by its id; it is called by another thread.
        """
        from ralph.loop.notify.messages import RunMessages

        self._config = config
        self._messages = RunMessages(project)
        self._forward = forward
        self._read_report = read_report
        self._lock = threading.Lock()
        self._pending: queue.Queue[Notification | None] = queue.Queue(MAX_PENDING)
        self._thread = threading.Thread(target=self._send_all, name="notifications", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._pending.put_nowait(None)
        except queue.Full:
            return
        self._thread.join(CLOSE_SECONDS)

    def __call__(self, event: ProgressEvent) -> None:
        """Forward an event, and notify a person if they want to know about it."""
        with self._lock:
            self._forward(event)
        if notification := self._messages.notification_of(event):
            self.notify(notification)

    def notify(self, notification: Notification) -> None:
        """Send a notification soon, if the person wants to know about such events."""
        if set(notification.events) & set(self._config.on):
            try:
                self._pending.put_nowait(notification)
            except queue.Full:
                self._warn("Too many notifications wait to be sent; one was dropped.")

    def _send_all(self) -> None:
        from ralph.loop.notify.sending import send_notification

        while notification := self._pending.get():
            for problem in send_notification(self._config, self._with_report(notification)):
                self._warn(problem)

    def _with_report(self, notification: Notification) -> Notification:
        """Return the notification of the end of a run with its report as the text, if that can be read."""
        if "ended" not in notification.events:
            return notification
        try:
            return replace(notification, body=self._read_report(notification.run_id))
        except RalphError:
            return notification

    def _warn(self, message: str) -> None:
        with self._lock:
            self._forward(progress_event("warning", message=message))
