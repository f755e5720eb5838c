"""Sending of notifications. Whatever fails is returned as a sentence without URLs, which hold secrets."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from importlib.util import find_spec

from ralph.core.config import personal_file
from ralph.core.errors import ConfigError
from ralph.core.extras import install_hint
from ralph.core.records import record
from ralph.core.text import truncate
from ralph.loop.notify.webhooks import escape_markup, webhook_request

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

    from ralph.core.actor import Actor
    from ralph.core.settings import NotifyConfig
    from ralph.loop.notify.webhooks import WebhookRequest

SEND_SECONDS = 10.0
"""Time in which a target has to take a notification, in seconds."""
MAX_DESKTOP_CHARACTERS = 500
"""Maximum length of a text on the desktop, in characters."""
_APPLE_SCRIPT = ("on run argv", "display notification (item 2 of argv) with title (item 1 of argv)", "end run")


@record
class Notification:
    """What a person is told."""

    events: tuple[str, ...]
    """Those of `NOTIFY_EVENTS` that it tells about."""
    title: str
    body: str
    run_id: str = ""


def send_notification(config: NotifyConfig, notification: Notification, seconds: float = SEND_SECONDS) -> list[str]:
    """Send a notification to all targets; return one sentence for each that did not take it."""
    targets = (
        ("command", bool(config.command), lambda: _run_command(config.command, notification, seconds)),
        ("webhook", bool(config.webhook), lambda: _call_webhook(config, notification, seconds)),
        ("desktop", config.desktop, lambda: _show_on_desktop(notification, seconds)),
        ("apprise", bool(config.apprise), lambda: _use_apprise(config.apprise, notification)),
    )
    problems = []
    for name, is_used, send in targets:
        if is_used and (problem := _try(send)):
            problems.append(f"The notification was not sent ({name}): {problem}.")
    return problems


def send_test(config: NotifyConfig, actor: Actor) -> list[str]:
    """Send a test notification to all targets; return one sentence for each that did not take it."""
    actor.require("notify.test")
    if not config.has_target:
        raise ConfigError(
            "No notifications are set up. Set command, webhook, desktop or apprise under [notify] in"
            f" {personal_file()}.",
            code="notify-not-set-up",
        )
    body = "Notifications work. Runs tell you here what happens."
    return send_notification(config, Notification(events=("test",), title="Ralph: test", body=body))


def _try(send: object) -> str:
    assert callable(send)
    try:
        return str(send())
    except subprocess.TimeoutExpired:
        return "it took too long"
    except TimeoutError:
        return "no answer in time"
    except OSError as error:
        return error.strerror or type(error).__name__
    except HTTPException as error:
        return type(error).__name__  # its text may hold the URL
    except ValueError as error:
        return str(error) if str(error).startswith("the URL of") else "the URL is not valid"


# --- programs ---------------------------------------------------------------------------


def _run_command(command: Sequence[str], notification: Notification, seconds: float) -> str:
    variables = {
        "RALPH_NOTIFICATION_TITLE": notification.title,
        "RALPH_NOTIFICATION_EVENT": notification.events[0],
        "RALPH_NOTIFICATION_RUN": notification.run_id,
    }
    return _run(command, f"{notification.body}\n", variables, seconds)


def _show_on_desktop(notification: Notification, seconds: float) -> str:
    body = truncate(notification.body, MAX_DESKTOP_CHARACTERS)
    if sys.platform == "darwin":
        script = [word for line in _APPLE_SCRIPT for word in ("-e", line)]
        return _run(["osascript", *script, notification.title, body], "", {}, seconds)
    # The text, unlike the title, may have markup, such as links.
    return _run(["notify-send", "--app-name=Ralph", "--", notification.title, escape_markup(body)], "", {}, seconds)


def _run(command: Sequence[str], text: str, variables: dict[str, str], seconds: float) -> str:
    """Run a program without a shell, away from the project, and end all of it when it takes too long."""
    process = subprocess.Popen(
        list(command),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=os.path.expanduser("~"),  # noqa: PTH111
        env={**os.environ, **variables},
        start_new_session=True,
    )
    try:
        process.communicate(text.encode("utf-8", "replace"), timeout=seconds)
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return f"exit status {process.returncode}" if process.returncode else ""


# --- HTTP -------------------------------------------------------------------------------


def _call_webhook(config: NotifyConfig, notification: Notification, seconds: float) -> str:
    return _post(webhook_request(config, notification.title, notification.body), seconds)


def _post(request: WebhookRequest, seconds: float) -> str:
    """Send a request, without proxies and redirects; return what was wrong with the answer, if anything."""
    kind = HTTPSConnection if request.is_encrypted else HTTPConnection
    connection = kind(request.host, request.port, timeout=seconds)
    headers = {"Content-Type": "application/json", "User-Agent": "ralph"}
    if request.token:
        headers["Authorization"] = f"Bearer {request.token}"
    timer = threading.Timer(seconds, lambda: _shut_down(connection.sock))  # the time-out of a socket is per packet
    timer.daemon = True
    timer.start()
    try:
        connection.request("POST", request.path, json.dumps(request.payload).encode(), headers)
        status = connection.getresponse().status
    finally:
        timer.cancel()
        connection.close()
    redirect = ", and redirects are not followed" if 300 <= status < 400 else ""
    return "" if 200 <= status < 300 else f"HTTP {status}{redirect}"


def _shut_down(sock: socket.socket | None) -> None:
    if sock is not None:
        with suppress(OSError):
            sock.shutdown(2)


# --- apprise ----------------------------------------------------------------------------


def _use_apprise(urls: Sequence[str], notification: Notification) -> str:
    if find_spec("apprise") is None:
        return f"apprise is missing; {install_hint('notify')}"
    import logging

    import apprise

    logging.getLogger("apprise").addHandler(logging.NullHandler())  # its messages may name URLs
    logging.getLogger("apprise").propagate = False
    sender = apprise.Apprise()
    if not sender.add(list(urls)):
        return "a URL is not valid"
    return "" if sender.notify(title=notification.title, body=notification.body) else "a service did not take it"
