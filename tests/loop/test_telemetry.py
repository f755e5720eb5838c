"""Telemetry of runs: what a collector receives, and that a run does not depend on one."""

from __future__ import annotations

import gzip
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ralph.core.records import TaskStatus
from ralph.loop.telemetry import CLOSE_SECONDS
from tests.loop.trial import SAYS_DONE, Trial

SECRET = "QUOTA-7731"
PLAYBOOK = f"""
[[task]]
about = "parser"
[[task.idea]]
says = "It does not work: {SECRET}. <task-failed>{{task_id}}</task-failed>"
models = ["haiku", "sonnet", "opus"]
[[task.idea]]
says = "{SECRET} is in. <task-done>{{task_id}}</task-done>"
models = ["haiku", "sonnet", "opus"]
tokens = 2000
"""


class Collector:
    """Receiver of OTLP over HTTP on loopback, which keeps and decodes what it is sent."""

    def __init__(self) -> None:
        received: list[tuple[str, bytes]] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                received.append((self.path, body))
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.received = received
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Collector:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def spans(self) -> list[Any]:
        found = []
        for path, body in self.received:
            if path == "/v1/traces":
                for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                    found += [span for scope in resource.scope_spans for span in scope.spans]
        return found

    @property
    def metrics(self) -> dict[str, Any]:
        """Metrics by name, as sent last."""
        found: dict[str, Any] = {}
        for path, body in self.received:
            if path == "/v1/metrics":
                for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                    found |= {one.name: one for scope in resource.scope_metrics for one in scope.metrics}
        return found


def attributes(carrier: Any) -> dict[str, Any]:
    values = {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in carrier.attributes}
    return {
        key: [item.string_value for item in value.values] if hasattr(value, "values") else value
        for key, value in values.items()
    }


@contextmanager
def silent_endpoint() -> Iterator[str]:
    """Give an address at which everybody is let in and nobody is answered."""
    with socket.create_server(("127.0.0.1", 0), backlog=50) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def refusing_endpoint() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}"


def test_a_run_is_a_trace_and_each_attempt_a_span(trial: Trial) -> None:
    (trial.root / ".ralph/rehearsal.toml").write_text(PLAYBOOK)
    memory = trial.project.memory.add(f"The parser wants {SECRET}.").memory
    task = trial.project.tasks.add(f"Fix the parser {SECRET}", f"It eats {SECRET}.")
    with Collector() as collector:
        trial.settings(
            f'[telemetry]\nendpoint = "{collector.url}/"\n[agent]\nname = "rehearsal"\n'
            '[models]\nstrategy = "fixed"\n[memories]\nmeaning = false\n'
        )

        ran = trial.ralph("run")

    assert trial.status(task) is TaskStatus.DONE, ran.out
    spans = {span.name: span for span in collector.spans}
    assert len(collector.spans) == 3
    run, attempts = spans["ralph.run"], [one for one in collector.spans if one.name == "invoke_agent rehearsal"]
    assert {one.trace_id for one in attempts} == {run.trace_id}
    assert {one.parent_span_id for one in attempts} == {run.span_id}
    assert run.end_time_unix_nano >= max(one.end_time_unix_nano for one in attempts)
    about = attributes(run)
    assert (about["ralph.run.ending"], about["ralph.run.done"], about["ralph.run.iterations"]) == ("complete", 1, 2)
    failed, done = (attributes(one) for one in attempts)
    shared = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "rehearsal",
        "ralph.task.id": task.id,
        "ralph.hat": "creator",
    }
    assert failed.items() >= shared.items()
    assert done.items() >= shared.items()
    assert [one["ralph.attempt.number"] for one in (failed, done)] == [1, 2]
    assert [one["ralph.attempt.outcome"] for one in (failed, done)] == ["failed", "done"]
    assert failed["error.type"]
    assert [one.status.code for one in attempts] == [2, 0]
    recorded = trial.project.tasks.get(task.id).attempts[0]
    assert done["gen_ai.request.model"] == recorded.model
    assert done["gen_ai.usage.input_tokens"] == recorded.tokens_in
    assert done["gen_ai.usage.output_tokens"] == recorded.tokens_out
    assert recorded.cost_usd > 0
    assert done["ralph.cost_usd"] == pytest.approx(recorded.cost_usd)
    assert memory.id in done["ralph.memories.shown"]
    assert done["ralph.memories.count"] == len(done["ralph.memories.shown"])


def test_metrics_count_attempts_tokens_and_cost(trial: Trial) -> None:
    (trial.root / ".ralph/rehearsal.toml").write_text(PLAYBOOK)
    trial.project.tasks.add("Fix the parser")
    with Collector() as collector:
        trial.settings(
            f'[telemetry]\nendpoint = "{collector.url}"\n[agent]\nname = "rehearsal"\n'
            '[models]\nstrategy = "fixed"\n[memories]\nmeaning = false\n'
        )

        trial.ralph("run")

    metrics = collector.metrics
    outcomes = {
        attributes(one)["ralph.attempt.outcome"]: one.as_int for one in metrics["ralph.attempts"].sum.data_points
    }
    assert outcomes == {"failed": 1, "done": 1}
    attempts = [
        one for run in trial.project.store.runs.latest(1) for one in trial.project.store.attempts.latest(9, run=run.id)
    ]
    cost = sum(one.as_double for one in metrics["ralph.cost"].sum.data_points)
    assert cost == pytest.approx(sum(one.cost_usd for one in attempts))
    tokens = {
        attributes(one)["gen_ai.token.type"]: one.sum
        for one in metrics["gen_ai.client.token.usage"].histogram.data_points
    }
    assert tokens == {
        "input": sum(one.tokens_in or 0 for one in attempts),
        "output": sum(one.tokens_out or 0 for one in attempts),
    }
    assert sum(one.count for one in metrics["gen_ai.client.operation.duration"].histogram.data_points) == 2
    assert [one.as_int for one in metrics["ralph.tasks.done"].sum.data_points] == [1]
    assert [attributes(one)["ralph.run.ending"] for one in metrics["ralph.runs"].sum.data_points] == ["complete"]


def test_no_text_of_people_or_agents_is_sent(trial: Trial) -> None:
    (trial.root / ".ralph/rehearsal.toml").write_text(PLAYBOOK)
    trial.project.memory.add(f"The parser wants {SECRET}.")
    trial.project.tasks.add(f"Fix the parser {SECRET}", f"It eats {SECRET}.")
    with Collector() as collector:
        trial.settings(f'[telemetry]\nendpoint = "{collector.url}"\n[agent]\nname = "rehearsal"\n')
        trial.ralph("run")

    assert collector.received
    sent = b"".join(body for _, body in collector.received)
    assert SECRET.encode() not in sent
    assert b"parser" not in sent
    assert str(trial.root).encode() not in sent


def test_workers_have_spans_of_their_own(trial: Trial) -> None:
    from tests.trusting import git

    git(trial.root, "init")
    (trial.root / "agent.sh").write_text(f"echo $RALPH_TASK_ID > $RALPH_TASK_ID\n{SAYS_DONE}\n")
    tasks = {trial.project.tasks.add(f"Task {number}").id for number in range(3)}
    with Collector() as collector:
        trial.settings(f'[telemetry]\nendpoint = "{collector.url}"\n[memories]\nmeaning = false\n')
        git(trial.root, "add", "agent.sh", ".ralph.toml")
        git(trial.root, "commit", "-m", "Start")
        trial.ralph("run", "--parallel", "2", "--", "sh", "agent.sh")

    attempts = [attributes(one) for one in collector.spans if one.name != "ralph.run"]
    assert sorted(one["ralph.task.id"] for one in attempts) == sorted(tasks)
    assert {one["ralph.attempt.outcome"] for one in attempts} == {"done"}


@pytest.mark.parametrize("answers", [False, None])
def test_a_collector_that_is_out_of_reach_neither_fails_nor_holds_up_a_run(trial: Trial, answers: bool | None) -> None:
    tasks = [trial.project.tasks.add(f"Task {number}") for number in range(3)]
    with silent_endpoint() as silent:
        url = refusing_endpoint() if answers is None else silent
        trial.settings(f'[telemetry]\nendpoint = "{url}"\n[memories]\nmeaning = false\n')
        trial.script(f"{SAYS_DONE}\n")
        ended: list[float] = []
        thread = threading.Thread(target=_await_done, args=(trial, len(tasks), ended))
        thread.start()

        ran = trial.ralph("run", "--", "sh", "agent.sh")
        took = time.monotonic()
        thread.join()

    assert ran.code == 0
    assert all(trial.status(task) is TaskStatus.DONE for task in tasks)
    assert "Telemetry was not sent" in ran.out + ran.err
    assert "Traceback" not in ran.out + ran.err
    assert took - ended[0] < CLOSE_SECONDS + 10, "the run waited for its collector"


def _await_done(trial: Trial, count: int, ended: list[float]) -> None:
    from ralph.project import Project

    with Project.open(trial.root) as project:
        deadline = time.monotonic() + 60
        while project.tasks.counts().get(TaskStatus.DONE, 0) < count and time.monotonic() < deadline:
            time.sleep(0.02)
    ended.append(time.monotonic())


def test_without_the_extra_a_run_says_how_to_get_it(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ralph.loop.telemetry", None)
    task = trial.project.tasks.add("Do it")
    trial.settings('[telemetry]\nendpoint = "http://127.0.0.1:9"\n[memories]\nmeaning = false\n')
    trial.script(f"{SAYS_DONE}\n")

    ran = trial.ralph("run", "--", "sh", "agent.sh")

    assert (ran.code, trial.status(task)) == (0, TaskStatus.DONE)
    assert "otel" in ran.out + ran.err


@pytest.mark.parametrize("url", ["localhost:4318", "ftp://localhost", "http://me:secret@localhost:4318"])
def test_what_is_no_endpoint_is_refused(trial: Trial, url: str) -> None:
    trial.settings(f'[telemetry]\nendpoint = "{url}"\n')

    ran = trial.ralph("run", "--", "true")

    assert ran.code == 2
    assert "secret" not in ran.out + ran.err


def test_nothing_of_it_is_loaded_unless_it_is_on(trial: Trial) -> None:
    trial.project.tasks.add("Do it")
    trial.script(f"{SAYS_DONE}\n")
    code = "import sys; from ralph.cli import main; main(sys.argv[1:]); print(*sys.modules, file=sys.stderr)"

    done = subprocess.run(
        [sys.executable, "-c", code, "-C", str(trial.root), "run", "--", "sh", "agent.sh"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert not [name for name in done.stderr.split() if name.startswith(("opentelemetry", "google", "requests"))]
