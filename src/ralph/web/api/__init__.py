"""Endpoints of the JSON API."""

from __future__ import annotations

from ralph.web.api import episodes, memories, memory, projects, rules, runs, staging, stats, tasks, transfer

ENDPOINTS = (
    *memories.calls.all,
    *transfer.calls.all,
    *memory.calls.all,
    *rules.calls.all,
    *staging.calls.all,
    *projects.calls.all,
    *tasks.calls.all,
    *tasks.features.all,
    *runs.runs.all,
    *runs.journal.all,
    *runs.failures.all,
    *episodes.calls.all,
    *stats.calls.all,
)
