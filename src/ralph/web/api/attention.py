"""Endpoint for what needs a person."""

from __future__ import annotations

from typing import Annotated

import msgspec

from ralph.loop.attention import Attention
from ralph.project import Project
from ralph.web.endpoints import EndpointGroup, QueryParams

calls = EndpointGroup("attention")


class AttentionQuery(QueryParams):
    """Extent of the list."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=200, description="Maximum number of items of each sort.")] = 50


@calls.get("/api/attention")
def show_attention(project: Project, query: AttentionQuery) -> Attention:
    """Return what needs a person: questions, changes to approve, tasks that gave up, conflicts, staged learnings.

    To act on an item by its `kind`: `question`, `blocked` and `failed` with `POST /api/tasks/{id}/answer`; `approval`
    with `POST /api/tasks/{id}/approve` and its `digest`; `conflict` with `POST /api/memories/{id}/keep` and the id of
    a statement; `learning` with `POST /api/staging/{id}/approve` or `/reject`.
    """
    return project.attention(query.limit)
