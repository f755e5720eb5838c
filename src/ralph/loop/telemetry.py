"""Traces and metrics of runs for OpenTelemetry, by its semantic conventions for generative AI.

One trace per run, one span per attempt. Attributes are names, ids and numbers: no prompt, answer, title, path or
error text. The SDK queues and sends in threads of its own and drops what it cannot send, so that a run neither waits
nor fails; it is imported only if an endpoint is configured.
"""

from __future__ import annotations

import logging
import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Status, StatusCode, set_span_in_context

from ralph import __version__
from ralph.core.records import FAILED_OUTCOMES, AttemptOutcome
from ralph.loop.options import RunEnding
from ralph.loop.progress import progress_event

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opentelemetry.trace import Span

    from ralph.core.settings import TelemetryConfig
    from ralph.loop.progress import EventHandler, ProgressEvent

    Attributes = dict[str, str | int | float | bool | list[str]]

SEND_SECONDS = 5.0
"""Time after which sending is given up, in seconds."""
CLOSE_SECONDS = 3.0
"""Time that a run that has ended waits for its telemetry to be sent, in seconds."""
METRICS_MILLISECONDS = 60_000
"""Interval at which metrics are sent."""
MAX_LISTED_MEMORIES = 50
"""Number of memories of an attempt that are listed by id."""
_LIBRARY = "opentelemetry"
_PROVIDERS = {"claude": "anthropic", "codex": "openai", "gemini": "gcp.gemini"}
"""Names that the conventions have for the providers of agents that use one only."""


class RunTelemetry:
    """Event handler that forwards the events of a run and turns them into spans and metrics."""

    def __init__(self, config: TelemetryConfig, project: str, forward: EventHandler) -> None:
        self._forward = forward
        self._lock = threading.Lock()
        self._run: Span | None = None
        self._agent = ""
        self.is_unsent = False
        """Whether some of it could not be sent in time."""
        self._attempts: dict[object, tuple[Span, Attributes]] = {}
        """Open spans and what their metrics are told apart by, by worker."""
        endpoint = config.endpoint.rstrip("/")
        named = {"service.name": os.environ.get("OTEL_SERVICE_NAME") or "ralph"}
        resource = Resource.create({**named, "service.version": __version__, "ralph.project": project})
        self._tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
        spans = OTLPSpanExporter(endpoint=f"{endpoint}/v1/traces", timeout=SEND_SECONDS)
        self._tracers.add_span_processor(BatchSpanProcessor(spans))
        self._tracer = self._tracers.get_tracer("ralph", __version__)
        reader = PeriodicExportingMetricReader(
            OTLPMetricExporter(endpoint=f"{endpoint}/v1/metrics", timeout=SEND_SECONDS),
            export_interval_millis=METRICS_MILLISECONDS,
            export_timeout_millis=SEND_SECONDS * 1000,
        )
        self._meters = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
        meter = self._meters.get_meter("ralph", __version__)
        self._tokens = meter.create_histogram("gen_ai.client.token.usage", "{token}", "Tokens of an attempt")
        self._duration = meter.create_histogram("gen_ai.client.operation.duration", "s", "Duration of an attempt")
        self._outcomes = meter.create_counter("ralph.attempts", "{attempt}", "Attempts that ended")
        self._cost = meter.create_counter("ralph.cost", "USD", "Cost of attempts")
        self._done = meter.create_counter("ralph.tasks.done", "{task}", "Tasks that got done")
        self._learned = meter.create_counter("ralph.memories.learned", "{memory}", "Memories that attempts added")
        self._runs = meter.create_counter("ralph.runs", "{run}", "Runs that ended")

    def __call__(self, event: ProgressEvent) -> None:
        """Forward an event and record it."""
        self._forward(event)
        with self._lock:
            self._record(event.what, event.details)

    def close(self) -> None:
        """Send what is left, but do not wait for long."""
        for span, _ in self._attempts.values():
            span.end()
        if self._run:
            self._run.end()  # has no effect if the run ended in order
        threads = [
            threading.Thread(target=shut_down, name="telemetry", daemon=True)
            for shut_down in (self._tracers.shutdown, self._meters.shutdown)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(CLOSE_SECONDS / len(threads))
        self.is_unsent = any(thread.is_alive() for thread in threads)

    def _record(self, what: str, details: Mapping[str, object]) -> None:
        worker = details.get("worker", 0)
        match what:
            case "run_started":
                self._start_run(details)
            case "attempt_started":
                self._start_attempt(worker, details)
            case "recalled" if worker in self._attempts:
                memories = details["memories"]
                assert isinstance(memories, list)
                span, _ = self._attempts[worker]
                span.set_attribute("ralph.memories.count", len(memories))
                span.set_attribute("ralph.memories.shown", [one["id"] for one in memories[:MAX_LISTED_MEMORIES]])
            case "learned" if details.get("is_new"):
                self._learned.add(1)
            case "attempt_ended":
                self._end_attempt(worker, details)
            case "run_ended":
                self._end_run(details)

    def _start_run(self, details: Mapping[str, object]) -> None:
        self._agent = str(details["agent"])
        run: Attributes = {
            "ralph.run.id": str(details["run_id"]),
            "ralph.run.workers": _integer(details["workers"]),
            "ralph.run.is_resumed": bool(details["is_resumed"]),
            "gen_ai.agent.name": self._agent,
        }
        self._run = self._tracer.start_span("ralph.run", attributes=run)

    def _start_attempt(self, worker: object, details: Mapping[str, object]) -> None:
        agent = str(details.get("agent") or self._agent)
        shared: Attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": agent}
        if agent in _PROVIDERS:
            shared["gen_ai.provider.name"] = _PROVIDERS[agent]
        if details["model"]:
            shared["gen_ai.request.model"] = str(details["model"])
        own: Attributes = {
            "ralph.task.id": str(details["task_id"]),
            "ralph.attempt.number": _integer(details["attempt"]),
            "ralph.attempt.iteration": _integer(details["iteration"]),
            "ralph.hat": str(details["hat"]),
            "ralph.with_memory": bool(details["with_memory"]),
        }
        context = set_span_in_context(self._run) if self._run else None
        span = self._tracer.start_span(f"invoke_agent {agent}", context, attributes={**shared, **own})
        self._attempts[worker] = span, shared

    def _end_attempt(self, worker: object, details: Mapping[str, object]) -> None:
        if worker not in self._attempts:
            return
        span, shared = self._attempts.pop(worker)
        outcome, cost = AttemptOutcome(str(details["outcome"])), float(str(details["cost_usd"]))
        span.set_attribute("ralph.attempt.outcome", outcome.value)
        span.set_attribute("ralph.task.status", str(details["task_status"]))
        span.set_attribute("ralph.cost_usd", cost)
        span.set_attribute("ralph.gates.passed", _integer(details["checks_passed"]))
        if details["agent_session"]:
            span.set_attribute("gen_ai.conversation.id", str(details["agent_session"]))
        for direction, name in (("input", "tokens_in"), ("output", "tokens_out")):
            if details[name] is not None:
                span.set_attribute(f"gen_ai.usage.{direction}_tokens", _integer(details[name]))
                self._tokens.record(_integer(details[name]), {**shared, "gen_ai.token.type": direction})
        error: Attributes = {}
        if outcome in FAILED_OUTCOMES:
            error["error.type"] = str(details["error_type"] or details["cause"] or "unknown")
            span.set_attributes(error)
            span.set_status(Status(StatusCode.ERROR))
        span.end()
        self._duration.record(float(str(details["seconds"])), {**shared, **error})
        self._outcomes.add(1, {**shared, "ralph.attempt.outcome": outcome.value})
        if cost:
            self._cost.add(cost, shared)
        if outcome is AttemptOutcome.DONE and not details["handed_to"]:
            self._done.add(1, shared)

    def _end_run(self, details: Mapping[str, object]) -> None:
        ending = RunEnding(str(details["ending"])).name.lower()
        self._runs.add(1, {"ralph.run.ending": ending, "gen_ai.agent.name": self._agent})
        if self._run:
            self._run.set_attribute("ralph.run.ending", ending)
            self._run.set_attribute("ralph.run.iterations", _integer(details["iterations"]))
            self._run.set_attribute("ralph.run.done", _integer(details["done"]))
            self._run.set_attribute("ralph.cost_usd", float(str(details["cost_usd"])))
            self._run.end()


@contextmanager
def exported(config: TelemetryConfig, project: str, forward: EventHandler) -> Iterator[EventHandler]:
    """Return an event handler that forwards events and sends telemetry about them."""
    problems, logger = _Problems(), logging.getLogger(_LIBRARY)
    was_propagating, logger.propagate = logger.propagate, False
    logger.addHandler(problems)
    try:
        telemetry = RunTelemetry(config, project, forward)
        try:
            yield telemetry
        finally:
            telemetry.close()
    finally:
        logger.removeHandler(problems)
        logger.propagate = was_propagating
        if problems.count or telemetry.is_unsent:
            host = urlsplit(config.endpoint).netloc
            message = f"Telemetry was not sent to {host}, or not all of it. Is a collector for OTLP over HTTP there?"
            forward(progress_event("warning", message=message))


class _Problems(logging.Handler):
    """Counts what the library complains about, which would otherwise be printed in the midst of the run's output."""

    count = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Count a record."""
        self.count += record.levelno >= logging.WARNING


def _integer(value: object) -> int:
    return int(str(value or 0))
