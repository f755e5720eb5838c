"""Tools of the MCP server.

Results are small: a search returns one line per hit, and `show_memory` the full text. Text from the store is untrusted
and is escaped, so that it cannot contain a sigil.

Structured results must be complete, because Claude Code shows the model the fields and not the text. Results that read
best as text, such as a whole memory, have no fields.
"""

from __future__ import annotations

from ralph.core.errors import RalphError
from ralph.core.memory_types import MEMORY_KINDS
from ralph.core.paging import Page, ResultList
from ralph.core.records import TaskStatus, record
from ralph.core.text import one_line
from ralph.integrations.mcp.arguments import error_text, validate_arguments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from ralph.core.records import Memory, RecalledMemory, Task
    from ralph.integrations.project_handle import ProjectHandle
    from ralph.loop.tasks import TaskView
    from ralph.project import Project

    Arguments = dict[str, Any]
    ToolResult = tuple[str, dict[str, Any] | None]
    """Text of a result, and the same as fields if it is structured."""

PRIME_BUDGET_TOKENS = 1_900
"""Token budget of `prime`, which keeps its text under 8,000 characters, where some clients truncate."""
MAX_TEXT_CHARS = 20_000
"""Maximum length of the text of a memory or task, in characters."""
MAX_LINE_CHARS = 160
"""Maximum length of a memory in a list, in characters."""
MAX_SHOWN_REPORTS = 3
"""Number of failure reports shown with a task."""
MAX_SHOWN_ATTEMPTS = 5
"""Number of attempts shown with a task."""
DEFAULT_SEARCH_LIMIT = 10
"""Default number of memories in a search result."""
DEFAULT_TASK_LIMIT = 20
"""Default number of tasks in a list."""
OPEN = "open"
READY = "ready"
ALL = "all"


# --- schemas ------------------------------------------------------------------------------


def _string(description: str, max_length: int = 200, **more: object) -> dict[str, Any]:
    return {"type": "string", "description": description, "minLength": 1, "maxLength": max_length, **more}


def _integer(description: str, minimum: int, maximum: int, default: int) -> dict[str, Any]:
    return {"type": "integer", "description": description, "minimum": minimum, "maximum": maximum, "default": default}


def _strings(description: str, max_items: int = 50, max_length: int = 300) -> dict[str, Any]:
    items = {"type": "string", "minLength": 1, "maxLength": max_length}
    return {"type": "array", "description": description, "items": items, "maxItems": max_items}


_TASK = "ID of a task, such as t-3f9a01."
_MEMORY = "ID of a memory, such as mem-1763289600-9f3c."


@record
class Tool:
    """Description, input schema and handler of a tool."""

    name: str
    title: str
    description: str
    properties: dict[str, dict[str, Any]]
    required: tuple[str, ...] = ()
    is_read_only: bool = False
    """Whether the tool changes nothing."""
    is_idempotent: bool = False
    """Whether the tool is idempotent."""
    handler: Callable[[Project, Arguments], ToolResult]

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments."""
        schema: dict[str, Any] = {"type": "object", "properties": self.properties, "additionalProperties": False}
        return {**schema, "required": list(self.required)} if self.required else schema

    @property
    def listing_entry(self) -> dict[str, Any]:
        """Entry of the tool in `tools/list`."""
        hints = {
            "title": self.title,
            "readOnlyHint": self.is_read_only,
            "destructiveHint": False,
            "idempotentHint": self.is_read_only or self.is_idempotent,
            "openWorldHint": False,
        }
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": self.schema,
            "annotations": hints,
        }


def list_tools() -> list[dict[str, Any]]:
    """Return the entries of all tools for `tools/list`."""
    return [tool.listing_entry for tool in TOOLS]


def call_tool(opened: ProjectHandle, name: str, arguments: Arguments) -> dict[str, Any] | None:
    """Call a tool and return its result, which may describe an error; return None if there is no such tool."""
    tool = next((one for one in TOOLS if one.name == name), None)
    if tool is None:
        return None
    try:
        arguments = validate_arguments(name, tool.schema, arguments)
        text, fields = opened.call_with_project(lambda project: tool.handler(project, arguments))
    except RalphError as error:
        return {"content": [{"type": "text", "text": error_text(error)}], "isError": True}
    result = {"content": [{"type": "text", "text": text}], "isError": False}
    return {**result, "structuredContent": fields} if fields is not None else result


# --- memories -----------------------------------------------------------------------------


def _remember(project: Project, arguments: Arguments) -> ToolResult:
    result = project.memory.add(
        arguments["content"],
        type=arguments.get("type"),
        title=arguments.get("title", ""),
        tags=arguments.get("tags", ()),
        files=arguments.get("files", ()),
    )
    memory = result.memory
    summary = {
        "added": f"Remembered as {memory.id}",
        "revived": f"Restored {memory.id}",
    }.get(result.what, f"Already known as {memory.id}, learned {memory.support} times")
    note = " The next command will write it to the memory files." if project.files.is_unwritten else ""
    return f"{summary}: {_escape(memory.title)}.{note}", {**_brief(memory), "what": result.what}


def _search(project: Project, arguments: Arguments) -> ToolResult:
    from ralph.store.memory_queries import MemoryFilter

    filters = MemoryFilter(kinds=tuple(arguments.get("types", ())), tags=tuple(arguments.get("tags", ())))
    limit, query = arguments.get("limit", DEFAULT_SEARCH_LIMIT), arguments.get("query", "")
    hits = project.memory.search(query, filters, limit, task_id=arguments.get("task"))
    fields = {"memories": [_hit_fields(hit) for hit in hits]}
    if not hits:
        return "No memory matches. Try other words, or call prime for the most reliable ones.", fields
    order = "best first" if query or arguments.get("task") else "newest first"
    head = f"{_count(len(hits), 'memory', 'memories')}, {order}. Use show_memory for the full text."
    return "\n".join([head, *map(_hit_line, hits)]), fields


def _hit_fields(hit: RecalledMemory) -> dict[str, Any]:
    fields = {
        "id": hit.memory.id,
        "kind": hit.memory.kind,
        "line": _summary_line(hit.memory),
        "score": round(hit.score, 2),
    }
    return {**fields, "check_first": _staleness(hit.memory)} if hit.memory.stale else fields


def _hit_line(hit: RecalledMemory) -> str:
    staleness = f" (check first: {_staleness(hit.memory)})" if hit.memory.stale else ""
    score = f" (score {hit.score:.2f})" if hit.score else ""
    return f"- {hit.memory.id} [{_escape(hit.memory.kind)}] {_summary_line(hit.memory)}{score}{staleness}"


def _staleness(memory: Memory) -> str:
    return _escape(one_line(memory.stale, MAX_LINE_CHARS))


def _summary_line(memory: Memory) -> str:
    """Return a memory on one line: its body, preceded by the title unless the body starts with it."""
    start = memory.title.removesuffix("...")
    return _escape(
        one_line(memory.body if memory.body.startswith(start) else f"{memory.title}: {memory.body}", MAX_LINE_CHARS)
    )


def _brief(memory: Memory) -> dict[str, Any]:
    return {"id": memory.id, "kind": memory.kind, "title": _escape(memory.title)}


def _show_memory(project: Project, arguments: Arguments) -> ToolResult:
    return memory_text(project, arguments["id"]), None


def memory_text(project: Project, id: str) -> str:
    """Return a memory with its details as text."""
    from ralph.core.records import MemoryState

    view = project.memory.show(id)
    memory = view.memory
    reason = f" ({_escape(memory.state_reason)})" if memory.state_reason else ""
    success = "" if memory.success_rate is None else f", success rate {memory.success_rate:.0%}"
    links = [id for _, id in view.links if id] + [other.id for other in view.linked_from]
    facts = {
        "State": "" if memory.state is MemoryState.ACTIVE else f"{memory.state}{reason} (not in use)",
        "Check first": _escape(memory.stale),
        "Confidence": f"{view.confidence:.2f}, used {_count(memory.uses, 'time', 'times')}{success}",
        "Learned": memory.created_at[:10] + (f", in {memory.origin_task}" if memory.origin_task else ""),
        "Tags": ", ".join(map(_escape, memory.tags)),
        "Files": ", ".join(map(_escape, memory.files)),
        "Linked": ", ".join(dict.fromkeys(links)),
    }
    head = f"{memory.id} [{_escape(memory.kind)}] {_escape(memory.title)}"
    return "\n".join([head, *_fact_lines(facts), "", _escape(_truncate(memory.body))])


def _prime(project: Project, arguments: Arguments) -> ToolResult:
    return prime_text(
        project, arguments.get("budget_tokens", PRIME_BUDGET_TOKENS), arguments.get("task"), arguments.get("text")
    ), None


def prime_text(
    project: Project, budget_tokens: int = PRIME_BUDGET_TOKENS, task: str | None = None, text: str | None = None
) -> str:
    """Return the most important memories, or those relevant to a task or text, as Markdown."""
    from ralph.memory.recall.prime import render_primer
    from ralph.store.memory_queries import MemoryFilter

    memories = project.memory.prime(MemoryFilter(), budget_tokens, task_id=task, text=text)
    empty = "Nothing relevant is remembered." if task or text else "Nothing is remembered yet."
    return render_primer(memories) or empty


def _report_failure(project: Project, arguments: Arguments) -> ToolResult:
    category = arguments.get("category", "unknown")
    if "task" in arguments:
        attempt, task = project.tasks.report_failure(
            arguments["task"],
            arguments["tried"],
            arguments["why"],
            category=category,
            files=arguments.get("files", ()),
            trace=arguments.get("trace", ""),
        )
        summary = f"Recorded as attempt {attempt.number} at {task.id}, which is now {task.status}"
        reason = f": {_escape(task.reason)}" if task.reason else ""
        return f"{summary}{reason}. The next attempt will see what you tried.", None
    trace = f"\n\n```\n{arguments['trace']}\n```" if "trace" in arguments else ""
    result = project.memory.add(
        f"{arguments['tried'].strip()}\n\nWhy it failed: {arguments['why'].strip()}{trace}",
        type="pitfall",
        tags=() if category == "unknown" else (category,),
        files=arguments.get("files", ()),
    )
    memory = result.memory
    return f"Remembered as a pitfall: {memory.id}.", {**_brief(memory), "what": result.what}


# --- tasks --------------------------------------------------------------------------------


def _list_tasks(project: Project, arguments: Arguments) -> ToolResult:
    which = arguments.get("status", OPEN)
    status = None if which in (OPEN, READY, ALL) else TaskStatus(which)
    tasks = project.tasks.list(status=status, feature=arguments.get("feature"), ready=which == READY or None)
    if which == OPEN:
        tasks = ResultList(task for task in tasks if task.status is not TaskStatus.DONE)
    shown = tasks[: arguments.get("limit", DEFAULT_TASK_LIMIT)]
    fields = {"tasks": [_task_fields(task) for task in shown], "total": len(tasks)}
    if not tasks:
        return f"No task is {which}." if which != ALL else "There are no tasks.", fields
    more = f" The first {len(shown)}:" if len(shown) < len(tasks) else ""
    head = f"{_count(len(tasks), 'task', 'tasks')}, ordered by priority.{more}"
    return "\n".join([head, *map(_task_line, shown)]), fields


def _task_fields(task: Task) -> dict[str, Any]:
    fields = {
        "id": task.id,
        "status": task.status.value,
        "title": _escape(task.title),
        "priority": task.priority,
        "needs": list(task.needs),
        "part_of": task.parent_id,
        "reason": _escape(task.reason),
    }
    return {name: value for name, value in fields.items() if value}


def _task_line(task: Task) -> str:
    more = [f"priority {task.priority}"] if task.priority else []
    more += [f"needs {' '.join(task.needs)}"] if task.needs else []
    more += [f"part of {task.parent_id}"] if task.parent_id else []
    return f"- {task.id} [{task.status}] {_escape(task.title)}" + (f" ({', '.join(more)})" if more else "")


def _show_task(project: Project, arguments: Arguments) -> ToolResult:
    return task_text(project, arguments["id"]), None


def task_text(project: Project, id: str) -> str:
    """Return a task with its details and previous failures as text."""
    from ralph.loop.prompt import report_text

    view = project.tasks.get(id)
    task = view.task
    facts = {
        "Priority": task.priority,
        "Feature": _escape(view.feature.name) if view.feature else "",
        "Part of": task.parent_id,
        "Parts": _task_names(view.parts),
        "Needs": _task_names(view.needs),
        "Needed by": _task_names(view.needed_by),
        "Reason": _escape(task.reason),
        "Worker": task.claimed_by,
        "Attempts": _attempts(view),
    }
    lines = [f"{task.id} [{task.status}] {_escape(task.title)}", *_fact_lines(facts)]
    if task.body:
        lines += ["", _escape(_truncate(task.body))]
    if reports := project.journal.failures(Page(limit=MAX_SHOWN_REPORTS), task=id):
        lines += ["", "Previous failures, latest first:", "", *map(report_text, reports)]
    return "\n".join(lines).rstrip()


def _task_names(tasks: Sequence[Task]) -> str:
    return ", ".join(f"{task.id} {_escape(task.title)} ({task.status})" for task in tasks)


def _attempts(view: TaskView) -> str:
    latest = "; ".join(
        f"{attempt.number} {attempt.outcome or 'running'}" for attempt in view.attempts[:MAX_SHOWN_ATTEMPTS]
    )
    return f"{view.metrics.total_attempts}, latest first: {latest}" if latest else ""


def _add_task(project: Project, arguments: Arguments) -> ToolResult:
    task = project.tasks.add(
        arguments["title"],
        arguments.get("body", ""),
        priority=arguments.get("priority", 0),
        parent=arguments.get("parent"),
        feature=arguments.get("feature"),
        needs=arguments.get("needs", ()),
    )
    return f"Task added: {task.id} {_escape(task.title)}", _task_fields(task)


def _finish_task(project: Project, arguments: Arguments) -> ToolResult:
    task = project.tasks.done(arguments["id"])
    return f"Task done: {task.id} {_escape(task.title)}", _task_fields(task)


# --- formatting ---------------------------------------------------------------------------


def _escape(text: str) -> str:
    from ralph.memory.recall.render import escape_untrusted

    return escape_untrusted(text)


def _truncate(text: str) -> str:
    from ralph.core.text import truncate

    return truncate(text, MAX_TEXT_CHARS)


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _fact_lines(facts: dict[str, Any]) -> list[str]:
    return [f"{name}: {value}" for name, value in facts.items() if value]


TOOLS = (
    Tool(
        name="remember",
        title="Remember something",
        description="Store something learned about this project that the next session should know: a fix, a pitfall,"
        " a convention, a decision. One thing per call, in one or two plain sentences. Storing it again raises its"
        " confidence.",
        properties={
            "content": _string("What to remember.", 20_000),
            "type": _string(f"One of {', '.join(MEMORY_KINDS)}. Default: pattern.", 50),
            "title": _string("Title. Default: the first sentence."),
            "tags": _strings("Keywords to find it by.", 20, 64),
            "files": _strings("Related files, as project paths. Default: those named in the content."),
        },
        required=("content",),
        is_idempotent=True,
        handler=_remember,
    ),
    Tool(
        name="search_memories",
        title="Search memories",
        description="Find memories about a topic, best match first. Use it before you start work, when you see an error"
        " and before a decision. Returns one line per memory with its ID.",
        properties={
            "query": _string("Any words, an error message or a path. Default: the newest memories.", 2_000),
            "types": _strings("Only memories of these types.", 20, 50),
            "tags": _strings("Only memories with any of these tags.", 20, 64),
            "task": _string(f"{_TASK} Its text is added to the query."),
            "limit": _integer("Maximum number of results.", 1, 50, DEFAULT_SEARCH_LIMIT),
        },
        is_read_only=True,
        handler=_search,
    ),
    Tool(
        name="show_memory",
        title="Show a memory",
        description="Show one memory in full: its text, confidence and related files.",
        properties={"id": _string(_MEMORY)},
        required=("id",),
        is_read_only=True,
        handler=_show_memory,
    ),
    Tool(
        name="prime",
        title="Load key memories",
        description="Get the most important memories as Markdown, at the start of work or after the context was"
        " compacted. With a task or a text, only those relevant to it.",
        properties={
            "task": _string(_TASK),
            "text": _string("What the work is about.", 20_000),
            "budget_tokens": _integer("Maximum size, in tokens.", 50, PRIME_BUDGET_TOKENS, PRIME_BUDGET_TOKENS),
        },
        is_read_only=True,
        handler=_prime,
    ),
    Tool(
        name="report_failure",
        title="Report a failure",
        description="Record an approach that failed, so that the next attempt does not repeat it. With a task, it"
        " counts as a failed attempt; without one, it is remembered as a pitfall.",
        properties={
            "tried": _string("What you tried, in a sentence or two.", 4_000),
            "why": _string("Why it did not work.", 4_000),
            "task": _string(_TASK),
            "category": _string("One word, such as test_failure, build_error, timeout or wrong_approach.", 50),
            "files": _strings("Related files, as project paths."),
            "trace": _string("The most informative part of the error output.", 4_000),
        },
        required=("tried", "why"),
        handler=_report_failure,
    ),
    Tool(
        name="list_tasks",
        title="List tasks",
        description="List the tasks of this project, ordered by priority.",
        properties={
            "status": _string(
                f"Which tasks: {OPEN} are all that are not done, {READY} those that can start now.",
                20,
                enum=[OPEN, READY, *(status.value for status in TaskStatus), ALL],
                default=OPEN,
            ),
            "feature": _string("Only tasks of this feature, by name or ID."),
            "limit": _integer("Maximum number of results.", 1, 200, DEFAULT_TASK_LIMIT),
        },
        is_read_only=True,
        handler=_list_tasks,
    ),
    Tool(
        name="show_task",
        title="Show a task",
        description="Show a task in full: what to do, what it depends on, and what failed before. Read this before you"
        " work on it.",
        properties={"id": _string(_TASK)},
        required=("id",),
        is_read_only=True,
        handler=_show_task,
    ),
    Tool(
        name="add_task",
        title="Add a task",
        description="Add a task for later, for example work you noticed that is outside the current task.",
        properties={
            "title": _string("What to do, in one line."),
            "body": _string("Everything needed to do it.", 50_000),
            "priority": _integer("Tasks with a higher priority run first.", -1_000, 1_000, 0),
            "parent": _string(f"{_TASK} The new task becomes part of it."),
            "needs": _strings("IDs of tasks that must be done first.", 50, 64),
            "feature": _string("Feature it belongs to, by name or ID."),
        },
        required=("title",),
        handler=_add_task,
    ),
    Tool(
        name="finish_task",
        title="Finish a task",
        description="Mark a task as done once its work is complete and verified. Do not use it in a session started by"
        " Ralph's loop: there the loop decides.",
        properties={"id": _string(_TASK)},
        required=("id",),
        handler=_finish_task,
    ),
)
