"""Resources a client can read by URI: the key memories, one memory, one task."""

from __future__ import annotations

from ralph.core.errors import NotFoundError, RalphError
from ralph.integrations.mcp.arguments import UNPAIRED_SURROGATE, is_encodable
from ralph.integrations.mcp.memory_tools import memory_text, prime_text
from ralph.integrations.mcp.protocol import RESOURCE_NOT_FOUND, JsonRpcError
from ralph.integrations.mcp.task_tools import task_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ralph.integrations.project_handle import ProjectHandle
    from ralph.project import Project

INTERNAL_ERROR = -32603
PRIME_URI = "ralph://prime"
_MEMORY = "ralph://memory/"
_TASK = "ralph://task/"
_MARKDOWN = "text/markdown"
MAX_URI_CHARS = 200

RESOURCES: list[dict[str, Any]] = [
    {
        "uri": PRIME_URI,
        "name": "prime",
        "title": "Key memories",
        "description": "The most important memories of this project, under 8,000 characters.",
        "mimeType": _MARKDOWN,
        "annotations": {"audience": ["assistant"], "priority": 0.9},
    }
]
RESOURCE_TEMPLATES: list[dict[str, Any]] = [
    {
        "uriTemplate": _MEMORY + "{id}",
        "name": "memory",
        "title": "A memory",
        "description": "One memory with its details.",
        "mimeType": _MARKDOWN,
    },
    {
        "uriTemplate": _TASK + "{id}",
        "name": "task",
        "title": "A task",
        "description": "One task with its details and previous failures.",
        "mimeType": _MARKDOWN,
    },
]


def read_resource(handle: ProjectHandle, uri: str) -> dict[str, Any]:
    """Return the contents of the resource at a URI."""
    if len(uri) > MAX_URI_CHARS:
        raise JsonRpcError(RESOURCE_NOT_FOUND, f"Resource not found: the URI has {len(uri):,} characters.")
    if not is_encodable(uri):
        raise JsonRpcError(RESOURCE_NOT_FOUND, f"Resource not found: the URI {UNPAIRED_SURROGATE}.")
    try:
        text = handle.call_with_project(lambda project: _read(project, uri))
    except NotFoundError as error:
        raise JsonRpcError(RESOURCE_NOT_FOUND, str(error), {"uri": uri}) from error
    except RalphError as error:
        raise JsonRpcError(INTERNAL_ERROR, str(error)) from error
    if text is None:
        raise JsonRpcError(RESOURCE_NOT_FOUND, f"Resource not found: {uri!r}.", {"uri": uri})
    return {"uri": uri, "mimeType": _MARKDOWN, "text": text}


def _read(project: Project, uri: str) -> str | None:
    if uri == PRIME_URI:
        return prime_text(project)
    if uri.startswith(_MEMORY):
        return memory_text(project, uri.removeprefix(_MEMORY))
    if uri.startswith(_TASK):
        return task_text(project, uri.removeprefix(_TASK))
    return None
