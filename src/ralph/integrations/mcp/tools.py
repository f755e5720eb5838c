"""Tools of the MCP server: one table, from which listings, calls and documentation are derived.

Results are small: a search returns one line per hit, and `show_memory` the full text. Text from the store is untrusted
and is escaped, so that it cannot contain a sigil.

Structured results must be complete, because Claude Code shows the model the fields and not the text. Results that read
best as text, such as a whole memory, have no fields.
"""

from __future__ import annotations

from ralph.core.errors import RalphError
from ralph.core.memory_types import MEMORY_KINDS
from ralph.core.records import EpisodeKind, TaskStatus
from ralph.integrations.mcp import memory_tools, task_tools
from ralph.integrations.mcp.arguments import error_text, validate_arguments
from ralph.integrations.mcp.memory_tools import DEFAULT_HISTORY_LIMIT, DEFAULT_SEARCH_LIMIT, PRIME_BUDGET_TOKENS
from ralph.integrations.mcp.task_tools import ALL, DEFAULT_TASK_LIMIT, OPEN, READY
from ralph.integrations.mcp.tool import Tool, integer, string, strings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ralph.integrations.mcp.tool import Arguments
    from ralph.integrations.project_handle import ProjectHandle

_TASK = "ID of a task."
_MEMORY = "ID of a memory."
_QUERY = "Words, an error message or a path. Default: the newest."
_FILES = "Related files, as project paths."


_TOOLS = (
    Tool(
        name="remember",
        title="Remember something",
        description="Store something learned about this project that the next session should know: a fix, a pitfall,"
        " a convention, a decision. One thing per call, in one or two plain sentences. With an ID, correct that"
        " memory instead.",
        properties={
            "content": string("What to remember.", 20_000),
            "type": string(f"One of {', '.join(MEMORY_KINDS)}. Default: pattern.", 50),
            "title": string("Default: the first sentence."),
            "tags": strings("Keywords to find it by.", 20, 64),
            "files": strings(_FILES),
            "id": string(f"{_MEMORY} Its text is replaced."),
        },
        required=("content",),
        is_idempotent=True,
        handler=memory_tools.remember,
    ),
    Tool(
        name="forget",
        title="Forget a memory",
        description="Delete a memory that is wrong or of no use. Not one of a person's.",
        properties={"id": string(_MEMORY), "why": string("Why, in a sentence.", 500)},
        required=("id", "why"),
        is_destructive=True,
        handler=memory_tools.forget,
    ),
    Tool(
        name="search_memories",
        title="Search memories",
        description="Find memories about a topic. Use it before you start work, when you see an error and before a"
        " decision. Returns one line per memory with its ID.",
        properties={
            "query": string(_QUERY, 2_000),
            "types": strings("Only these types.", 20, 50),
            "tags": strings("Only with any of these tags.", 20, 64),
            "task": string(f"{_TASK} Its text is added to the query."),
            "limit": integer("Maximum number.", 1, 50, DEFAULT_SEARCH_LIMIT),
        },
        is_read_only=True,
        handler=memory_tools.search_memories,
    ),
    Tool(
        name="show_memory",
        title="Show a memory",
        description="Show a memory in full.",
        properties={"id": string(_MEMORY)},
        required=("id",),
        is_read_only=True,
        handler=memory_tools.show_memory,
    ),
    Tool(
        name="search_history",
        title="Search past work",
        description="Find what was said and done before, word for word, in past sessions, attempts and commits. Use it"
        " when no memory answers: why something is as it is, what was decided or tried.",
        properties={
            "query": string(_QUERY, 2_000),
            "kind": string("Only this kind.", 20, enum=[kind.value for kind in EpisodeKind]),
            "limit": integer("Maximum number.", 1, 20, DEFAULT_HISTORY_LIMIT),
        },
        is_read_only=True,
        handler=memory_tools.search_history,
    ),
    Tool(
        name="prime",
        title="Load key memories",
        description="Get the most important memories, at the start of work or after the context was compacted. With a"
        " task or a text, only those relevant to it.",
        properties={
            "task": string(_TASK),
            "text": string("What the work is about.", 20_000),
            "budget_tokens": integer("Maximum size.", 50, PRIME_BUDGET_TOKENS, PRIME_BUDGET_TOKENS),
        },
        is_read_only=True,
        handler=memory_tools.prime,
    ),
    Tool(
        name="report_failure",
        title="Report a failure",
        description="Record an approach that failed, so that nobody repeats it. With a task, it is a failed attempt and"
        " ends your claim; without one, a pitfall to remember.",
        properties={
            "tried": string("What you tried.", 4_000),
            "why": string("Why it did not work.", 4_000),
            "task": string(_TASK),
            "category": string("Such as test_failure, build_error, timeout or wrong_approach.", 50),
            "files": strings(_FILES),
            "trace": string("The most informative part of the error output.", 4_000),
        },
        required=("tried", "why"),
        handler=memory_tools.report_failure,
    ),
    Tool(
        name="list_tasks",
        title="List tasks",
        description="List tasks by priority.",
        properties={
            "status": string(
                f"{OPEN}: not done; {READY}: can start now.",
                20,
                enum=[OPEN, READY, *(status.value for status in TaskStatus), ALL],
                default=OPEN,
            ),
            "feature": string("Only of this feature."),
            "limit": integer("Maximum number.", 1, 200, DEFAULT_TASK_LIMIT),
        },
        is_read_only=True,
        handler=task_tools.list_tasks,
    ),
    Tool(
        name="show_task",
        title="Show a task",
        description="Show a task in full: what to do, what it depends on, and what failed before.",
        properties={"id": string(_TASK)},
        required=("id",),
        is_read_only=True,
        handler=task_tools.show_task,
    ),
    Tool(
        name="claim_task",
        title="Claim a task",
        description="Take the next ready task, or the one with this ID, so that nobody else works on it. Returns all"
        " that is known about it. Claim before you change files: they are compared when you finish. Again with the"
        " same ID: show it once more.",
        properties={"id": string(_TASK)},
        handler=task_tools.claim_task,
    ),
    Tool(
        name="finish_task",
        title="Finish a task",
        description="Finish the task you claimed, once its work is complete. Runs the gates, which may take minutes;"
        " the result says DONE or NOT DONE and why. Not in a session started by Ralph's loop.",
        properties={"id": string(_TASK), "notes": string("What you did and learned.", 4_000)},
        required=("id",),
        handler=task_tools.finish_task,
    ),
    Tool(
        name="add_task",
        title="Add a task",
        description="Add a task for later, such as work you noticed outside the current task.",
        properties={
            "title": string("What to do, in one line."),
            "body": string("Everything needed to do it.", 50_000),
            "priority": integer("Higher runs first.", -1_000, 1_000, 0),
            "parent": string(f"{_TASK} The new one becomes part of it."),
            "needs": strings("IDs of tasks that must be done first.", 50, 64),
            "feature": string("Feature it belongs to, by name or ID."),
        },
        required=("title",),
        handler=task_tools.add_task,
    ),
    Tool(
        name="answer_task",
        title="Answer the question of a task",
        description="Pass on what a person answered to the question of a blocked task. Use only the person's own words,"
        " and only when they asked you to.",
        properties={"id": string(_TASK), "answer": string("What the person said, word for word.", 20_000)},
        required=("id", "answer"),
        handler=task_tools.answer_task,
    ),
)
TOOLS = {tool.name: tool for tool in _TOOLS}


def list_tools() -> list[dict[str, Any]]:
    """Return the entries of all tools for `tools/list`."""
    return [tool.listing_entry for tool in TOOLS.values()]


def call_tool(handle: ProjectHandle, name: str, arguments: Arguments) -> dict[str, Any] | None:
    """Call a tool and return its result, which may describe an error; return None if there is no such tool."""
    tool = TOOLS.get(name)
    if tool is None:
        return None
    try:
        arguments = validate_arguments(name, tool.schema, arguments)
        text, fields = handle.call_with_project(lambda project: tool.handler(project, arguments))
    except RalphError as error:
        return {"content": [{"type": "text", "text": error_text(error)}], "isError": True}
    result = {"content": [{"type": "text", "text": text}], "isError": False}
    return {**result, "structuredContent": fields} if fields is not None else result
