"""A person is told about a run wherever they want, and no failing notification delays or harms it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ralph.core.config import load_config, load_notify_config
from ralph.core.environment import allowed_environment
from ralph.core.errors import ConfigError
from ralph.core.records import TaskStatus
from ralph.core.settings import NOTIFY_EVENTS, NotifyConfig
from ralph.loop.notify import sending
from ralph.loop.notify.sending import Notification, send_notification
from ralph.loop.notify.webhooks import webhook_request
from ralph.loop.report_formats import report_text
from tests.cli.ran import run
from tests.loop.trial import Trial

SECRET = "s3cr3t-T0ken-91"
TOLD = Notification(events=("ended",), title="shop: 2 done", body="All <@U1> & done.", run_id="run-1")


class Hook:
    """A webhook on this machine: what it was sent, and what it answers."""

    def __init__(self) -> None:
        self.got: list[tuple[str, dict[str, str], Any]] = []
        self.status = 200
        self.seconds = 0.0
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                hook.got.append((self.path, dict(self.headers), json.loads(body)))
                time.sleep(hook.seconds)
                self.send_response(hook.status)
                self.send_header("Location", "/elsewhere")
                self.end_headers()

            def log_message(self, *words: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def titles(self) -> list[str]:
        return [payload["title"] for _, _, payload in self.got]


@pytest.fixture
def hook() -> Iterator[Hook]:
    opened = Hook()
    yield opened
    opened.close()


@pytest.fixture
def own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a place for a person's own settings."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    file = tmp_path / "config/ralph/config.toml"
    file.parent.mkdir(parents=True)
    return file


# --- where they go --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "path", "payload"),
    [
        (
            "https://hooks.slack.com/services/T/B/x",
            "/services/T/B/x",
            {"text": "*shop: 2 done*\nAll &lt;@U1&gt; &amp; done."},
        ),
        (
            "https://discord.com/api/webhooks/1/x",
            "/api/webhooks/1/x",
            {"content": "**shop: 2 done**\nAll <@U1> & done.", "allowed_mentions": {"parse": []}},
        ),
        ("https://ntfy.sh/night", "/", {"topic": "night", "title": "shop: 2 done", "message": "All <@U1> & done."}),
        (
            "https://ntfy.example.com/a/night",
            "/a/",
            {"topic": "night", "title": "shop: 2 done", "message": "All <@U1> & done."},
        ),
        (
            "https://api.telegram.org/bot1:x/sendMessage?chat_id=-42",
            "/bot1:x/sendMessage",
            {"chat_id": -42, "text": "shop: 2 done\n\nAll <@U1> & done."},
        ),
        ("https://example.com/h?a=1", "/h?a=1", {"title": "shop: 2 done", "text": "All <@U1> & done."}),
    ],
)
def test_each_service_gets_the_message_in_its_shape(url: str, path: str, payload: dict[str, Any]) -> None:
    request = webhook_request(NotifyConfig(webhook=url), TOLD.title, TOLD.body)

    assert (request.path, request.payload) == (path, payload)
    assert request.is_encrypted


def test_a_link_cannot_look_like_another_one() -> None:
    request = webhook_request(
        NotifyConfig(webhook="https://discord.com/api/webhooks/1/x"), "t", "[x](http://evil)" * 500
    )

    assert "](" not in request.payload["content"]
    assert len(request.payload["content"]) < 2_000


def test_a_long_text_is_cut_to_what_the_service_takes() -> None:
    for url in ("https://discord.com/api/webhooks/1/x", "https://ntfy.sh/night"):
        request = webhook_request(NotifyConfig(webhook=url), "t", "ä" * 100_000)
        assert len(json.dumps(request.payload, ensure_ascii=False)) < 2_000


def test_a_webhook_gets_the_notification_with_its_token(hook: Hook) -> None:
    config = NotifyConfig(webhook=f"{hook.url}/night", format="ntfy", token=SECRET)

    assert send_notification(config, TOLD) == []
    ((path, headers, payload),) = hook.got
    assert (path, payload["topic"], headers["Authorization"]) == ("/", "night", f"Bearer {SECRET}")


def test_proxies_are_not_used(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")

    assert send_notification(NotifyConfig(webhook=hook.url), TOLD) == []


@pytest.mark.parametrize("status", [302, 404, 500])
def test_an_answer_that_is_no_success_is_named_without_the_url(hook: Hook, status: int) -> None:
    hook.status = status

    (problem,) = send_notification(NotifyConfig(webhook=f"{hook.url}/{SECRET}"), TOLD)

    assert f"HTTP {status}" in problem
    assert SECRET not in problem
    assert len(hook.got) == 1


def test_a_server_that_never_answers_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/{SECRET}"
        began = time.monotonic()

        (problem,) = send_notification(NotifyConfig(webhook=url), TOLD, seconds=0.3)

    assert SECRET not in problem
    assert time.monotonic() - began < 5


def test_a_command_gets_the_text_without_a_shell(tmp_path: Path) -> None:
    title = "os.environ['RALPH_NOTIFICATION_TITLE']"
    program = f"import os, sys, pathlib; pathlib.Path(sys.argv[1]).write_text({title} + sys.stdin.read() + sys.argv[2])"
    out = tmp_path / "out"

    problems = send_notification(
        NotifyConfig(command=(sys.executable, "-c", program, str(out), "$(touch x); `id`")), TOLD
    )

    assert problems == []
    assert out.read_text() == f"{TOLD.title}{TOLD.body}\n$(touch x); `id`"


def test_a_command_that_fails_or_hangs_is_ended_with_all_it_started(tmp_path: Path) -> None:
    file = tmp_path / "pid"

    (failed,) = send_notification(NotifyConfig(command=("sh", "-c", "exit 3")), TOLD)
    (hung,) = send_notification(
        NotifyConfig(command=("sh", "-c", f"sleep 600 & echo $! > {file}; wait")), TOLD, seconds=0.5
    )
    (missing,) = send_notification(NotifyConfig(command=("no-such-program",)), TOLD)

    assert "exit status 3" in failed
    assert "too long" in hung
    assert "No such file" in missing
    pid = int(file.read_text())
    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.skipif(sys.platform != "linux", reason="the program of the desktop differs")
def test_the_desktop_gets_the_text_as_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "notify-send"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/got\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    assert send_notification(NotifyConfig(desktop=True), TOLD) == []
    assert (tmp_path / "got").read_text().splitlines() == [
        "--app-name=Ralph",
        "--",
        TOLD.title,
        "All &lt;@U1&gt; &amp; done.",
    ]


def test_a_missing_apprise_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "find_spec", lambda name: None)

    (problem,) = send_notification(NotifyConfig(apprise=(f"ntfy://{SECRET}",)), TOLD)

    assert "notify extra" in problem
    assert SECRET not in problem


def test_apprise_sends_where_it_is_told(hook: Hook) -> None:
    pytest.importorskip("apprise")
    config = NotifyConfig(apprise=(hook.url.replace("http://", "json://"),))

    assert send_notification(config, TOLD) == []
    assert hook.got[0][2]["message"] == TOLD.body


# --- whose settings they are ----------------------------------------------------------


def test_settings_are_a_persons_own(own_settings: Path) -> None:
    own_settings.write_text('[notify]\nwebhook = "https://ntfy.sh/mine"\non = ["ended"]\n')

    assert load_notify_config().webhook == "https://ntfy.sh/mine"
    assert (
        load_notify_config({**os.environ, "RALPH_NOTIFY_WEBHOOK": "https://ntfy.sh/x"}).webhook == "https://ntfy.sh/x"
    )
    assert load_notify_config().on == ("ended",)


def test_a_repository_cannot_say_where_notifications_go(tmp_path: Path, own_settings: Path) -> None:
    (tmp_path / ".ralph.toml").write_text('[notify]\nwebhook = "https://evil.example.com/x"\ncommand = ["sh"]\n')

    config = load_config(tmp_path)

    assert not load_notify_config().has_target
    assert any("[notify]" in warning and str(own_settings) in warning for warning in config.warnings)


@pytest.mark.parametrize(
    "text",
    [
        'webhook = "ftp://example.com/TOKEN"',
        'webhook = "https://u:TOKEN@example.com"',
        "webhook = TOKEN",
        'on = ["x"]',
        'webhook = ["https://TOKEN"]',
        'command = "curl TOKEN"',
        'format = "TOKEN"',
        '[notify.webhook]\nTOKEN = "TOKEN"',
    ],
)
def test_invalid_settings_are_an_error_that_names_no_secret(own_settings: Path, text: str) -> None:
    own_settings.write_text(f"[notify]\n{text.replace('TOKEN', SECRET)}\n")

    with pytest.raises(ConfigError) as error:
        load_notify_config()

    assert SECRET not in str(error.value)


def test_agents_and_gates_do_not_get_the_variables() -> None:
    passed = allowed_environment(variable_names=["*"], environment={"RALPH_NOTIFY_TOKEN": SECRET, "A": "1"})

    assert passed == {"A": "1"}


# --- of a run -------------------------------------------------------------------------

AGENT = """
if [ "$RALPH_TASK_ID" = {asks} ]; then
    echo '<question>Cents or euros?</question>'
else
    echo "<task-done>$RALPH_TASK_ID</task-done>"
fi
"""


def night(trial: Trial, own_settings: Path, settings: str, *options: str) -> str:
    """Run four tasks, of which one asks; give what was printed."""
    asks = trial.project.tasks.add("Round prices", priority=1)
    for number in range(3):
        trial.project.tasks.add(f"Another {number}")
    own_settings.write_text(f"[notify]\n{settings}\n")
    trial.script(AGENT.format(asks=asks.id))
    return trial.ralph("run", *options, "--", "sh", "agent.sh").out


def test_a_run_tells_what_happened(trial: Trial, hook: Hook, own_settings: Path) -> None:
    night(trial, own_settings, f'webhook = "{hook.url}/{SECRET}"', "--max-iterations", "5")

    (asked, scarce, ended) = [payload for _, _, payload in hook.got]
    assert "asks" in asked["title"]
    assert "Cents or euros?" in asked["text"]
    assert "ralph task answer" in asked["text"]
    assert "4 of 5 iterations" in scarce["text"]
    assert "3 done" in ended["title"]
    (told,) = trial.project.store.runs.latest(2)
    assert ended["text"] == report_text(trial.project.store, trial.root, told.id)
    assert "Cents or euros?" in ended["text"]
    assert all(trial.root.name in title for title in hook.titles())


def test_a_person_chooses_what_to_be_told(trial: Trial, hook: Hook, own_settings: Path) -> None:
    night(trial, own_settings, f'webhook = "{hook.url}"\non = ["budget"]', "--max-iterations", "5")

    assert len(hook.got) == 1


def test_a_failing_notification_is_a_line_and_nothing_else(trial: Trial, hook: Hook, own_settings: Path) -> None:
    hook.status = 500

    printed = night(trial, own_settings, f'webhook = "{hook.url}/{SECRET}"\ntoken = "{SECRET}"')

    assert "HTTP 500" in printed
    assert SECRET not in printed
    log = next((trial.root / ".ralph/ralph.db-live").glob("*.jsonl")).read_text()
    assert "HTTP 500" in log
    assert SECRET not in log
    statuses = sorted(task.status for task in trial.project.tasks.list())
    assert statuses == [TaskStatus.BLOCKED, *[TaskStatus.DONE] * 3]


def test_a_slow_notification_delays_no_attempt(trial: Trial, hook: Hook, own_settings: Path) -> None:
    hook.seconds = 3.0

    night(trial, own_settings, f'webhook = "{hook.url}"\non = ["blocked"]')

    first, second, *_ = trial.attempts()
    waited = datetime.fromisoformat(second.started_at) - datetime.fromisoformat(first.ended_at or "")
    assert waited.total_seconds() < hook.seconds / 2


def test_a_missing_login_is_told(trial: Trial, hook: Hook, own_settings: Path) -> None:
    own_settings.write_text(f'[notify]\nwebhook = "{hook.url}"\non = ["login"]\n')
    trial.settings('[agent]\nname = "claude"\ncommand = ["sh", "agent.sh"]\n')
    event = {"type": "result", "subtype": "success", "is_error": True, "result": "Not logged in · Please run /login"}
    trial.script(f"case \"$*\" in *--version*) echo 2.1.325; exit 0;; esac\necho '{json.dumps(event)}'\nexit 1\n")
    trial.project.tasks.add("Fix it")

    trial.ralph("--trust", "run")

    (title,) = hook.titles()
    assert "not logged in" in title


# --- ralph notify test ----------------------------------------------------------------


def test_notifications_can_be_tried(
    tmp_path: Path, hook: Hook, own_settings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, tmp_path, "notify", "test").error == "notify-not-set-up"
    own_settings.write_text(f'[notify]\nwebhook = "{hook.url}"\n')

    sent = run(capsys, tmp_path, "notify", "test")
    hook.status = 403
    failed = run(capsys, tmp_path, "notify", "test")

    assert (sent.code, failed.code) == (0, 1)
    assert ", ".join(NOTIFY_EVENTS) in sent.out
    assert "HTTP 403" in failed.err
    assert len(hook.got) == 2


def test_a_run_without_notifications_loads_nothing_for_them() -> None:
    code = "import ralph.loop.notify.notifier, sys; sys.exit('http.client' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
