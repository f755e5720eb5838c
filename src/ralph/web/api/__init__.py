"""Endpoints of the JSON API."""

from __future__ import annotations

from ralph.web.api import (
    attention,
    episodes,
    find,
    memories,
    memory,
    projects,
    rules,
    runs,
    staging,
    stats,
    steering,
    tasks,
    transfer,
)

ENDPOINTS = (
    *memories.calls.all,
    *transfer.calls.all,
    *memory.calls.all,
    *rules.calls.all,
    *staging.calls.all,
    *projects.calls.all,
    *tasks.calls.all,
    *tasks.features.all,
    *steering.calls.all,
    *runs.runs.all,
    *runs.journal.all,
    *runs.failures.all,
    *episodes.calls.all,
    *stats.calls.all,
    *attention.calls.all,
    *find.calls.all,
)
