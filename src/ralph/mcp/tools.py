"""The tools an agent gets: what each is for, what it takes, and what it does.

Small results first: a search gives one line for each find, and `show_memory` the rest. All text that comes out of the
store is data somebody wrote: it is neutralised, so that nothing in it comes back as a sigil.

A result with fields must say all there is to say in them: Claude Code shows its model the fields and not the text. What
reads best as text, like a whole memory, has therefore none.
"""

from __future__ import annotations

from ralph.errors import RalphError
from ralph.mcp.arguments import checked, worded
from ralph.records import KINDS, Status, record
from ralph.text import one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from ralph.opened import Opened
    from ralph.project import Project, TaskView
    from ralph.records import Memory, Recalled, Task

    Arguments = dict[str, Any]
    Said = tuple[str, dict[str, Any] | None]
    """What a model reads; and the same as fields, where a model reads those as well."""

PRIME_TOKENS = 1_900
"""Four characters each: what an agent is told stays under 8,000 characters, above which some clients cut it."""
LONGEST_TEXT = 20_000
"""Characters of the text of a memory or of a task that is shown at once."""
WIDEST = 160
"""Characters of a memory in a list."""
SHOWN_REPORTS = 3
SHOWN_ATTEMPTS = 5
FOUND = 10
LISTED = 20
OPEN = "open"
READY = "ready"
ALL = "all"


# --- what they take -----------------------------------------------------------------------


def _text(description: str, most: int = 200, **more: object) -> dict[str, Any]:
    return {"type": "string", "description": description, "minLength": 1, "maxLength": most, **more}


def _number(description: str, least: int, most: int, usual: int) -> dict[str, Any]:
    return {"type": "integer", "description": description, "minimum": least, "maximum": most, "default": usual}


def _texts(description: str, most: int = 50, longest: int = 300) -> dict[str, Any]:
    items = {"type": "string", "minLength": 1, "maxLength": longest}
    return {"type": "array", "description": description, "items": items, "maxItems": most}


_TASK = "Id of a task, like t-3f9a01."
_MEMORY = "Id of a memory, like mem-1763289600-9f3c."


@record
class Tool:
    """One tool: what it is for, what it takes, and what does it."""

    name: str
    title: str
    description: str
    takes: dict[str, dict[str, Any]]
    needs: tuple[str, ...] = ()
    reads: bool = False
    """Whether it leaves everything as it is."""
    repeats: bool = False
    """Whether doing it twice is the same as doing it once."""
    act: Callable[[Project, Arguments], Said]

    @property
    def schema(self) -> dict[str, Any]:
        """What it takes, as JSON Schema."""
        schema: dict[str, Any] = {"type": "object", "properties": self.takes, "additionalProperties": False}
        return {**schema, "required": list(self.needs)} if self.needs else schema

    @property
    def listed(self) -> dict[str, Any]:
        """How a list of tools names it."""
        hints = {
            "title": self.title,
            "readOnlyHint": self.reads,
            "destructiveHint": False,
            "idempotentHint": self.reads or self.repeats,
            "openWorldHint": False,
        }
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": self.schema,
            "annotations": hints,
        }


def listing() -> list[dict[str, Any]]:
    """Give all tools as a client lists them."""
    return [tool.listed for tool in TOOLS]


def call(opened: Opened, name: str, arguments: Arguments) -> dict[str, Any] | None:
    """Do what a tool does and give its result, which may be a sentence about what went wrong; None for no such tool."""
    tool = next((one for one in TOOLS if one.name == name), None)
    if tool is None:
        return None
    try:
        given = checked(name, tool.schema, arguments)
        text, fields = opened.use(lambda project: tool.act(project, given))
    except RalphError as error:
        return {"content": [{"type": "text", "text": worded(error)}], "isError": True}
    result = {"content": [{"type": "text", "text": text}], "isError": False}
    return {**result, "structuredContent": fields} if fields is not None else result


# --- memories -----------------------------------------------------------------------------


def _remember(project: Project, given: Arguments) -> Said:
    kept = project.memory.add(
        given["content"],
        kind=given.get("type"),
        title=given.get("title", ""),
        tags=given.get("tags", ()),
        files=given.get("files", ()),
    )
    memory = kept.memory
    said = {
        "added": f"Remembered as {memory.id}",
        "revived": f"Brought back: {memory.id}",
    }.get(kept.what, f"Known already as {memory.id}, learned {memory.support} times")
    later = " It will be written to the files with the next command." if project.memory.is_unwritten else ""
    return f"{said}: {_shown(memory.title)}.{later}", {**_brief(memory), "what": kept.what}


def _search(project: Project, given: Arguments) -> Said:
    from ralph.store.known_memories import Wanted

    wanted = Wanted(kinds=tuple(given.get("types", ())), tags=tuple(given.get("tags", ())))
    limit, query = given.get("limit", FOUND), given.get("query", "")
    found = project.memory.search(query, wanted, limit, task_id=given.get("task"))
    fields = {"memories": [_found_fields(one) for one in found]}
    if not found:
        return "No memory matches. Other words may find some; prime gives the surest ones.", fields
    order = "best first" if query or given.get("task") else "newest first"
    head = f"{_count(len(found), 'memory', 'memories')}, {order}. show_memory gives all of one."
    return "\n".join([head, *map(_found_line, found)]), fields


def _found_fields(one: Recalled) -> dict[str, Any]:
    fields = {"id": one.memory.id, "kind": one.memory.kind, "line": _in_words(one.memory), "score": round(one.score, 2)}
    return {**fields, "check_first": _doubt(one.memory)} if one.memory.stale else fields


def _found_line(one: Recalled) -> str:
    doubt = f" (check first: {_doubt(one.memory)})" if one.memory.stale else ""
    score = f" (score {one.score:.2f})" if one.score else ""
    return f"- {one.memory.id} [{_shown(one.memory.kind)}] {_in_words(one.memory)}{score}{doubt}"


def _doubt(memory: Memory) -> str:
    return _shown(one_line(memory.stale, WIDEST))


def _in_words(memory: Memory) -> str:
    """Give a memory on one line: its title, and what it says beyond that."""
    start = memory.title.removesuffix("...")
    return _shown(one_line(memory.body if memory.body.startswith(start) else f"{memory.title}: {memory.body}", WIDEST))


def _brief(memory: Memory) -> dict[str, Any]:
    return {"id": memory.id, "kind": memory.kind, "title": _shown(memory.title)}


def _show_memory(project: Project, given: Arguments) -> Said:
    return memory_text(project, given["id"]), None


def memory_text(project: Project, id: str) -> str:
    """Give all about a memory."""
    from ralph.records import State

    view = project.memory.show(id)
    memory = view.memory
    reason = f" ({_shown(memory.state_reason)})" if memory.state_reason else ""
    helped = "" if memory.success_rate is None else f", went well in {memory.success_rate:.0%}"
    links = [id for _, id in view.links if id] + [other.id for other in view.linked_from]
    facts = {
        "State": "" if memory.state is State.ACTIVE else f"{memory.state}{reason}, not in use",
        "Check first": _shown(memory.stale),
        "Sure": f"{view.confidence:.2f}, shown {_count(memory.uses, 'time', 'times')}{helped}",
        "Learned": memory.created_at[:10] + (f", at {memory.origin_task}" if memory.origin_task else ""),
        "Tags": ", ".join(map(_shown, memory.tags)),
        "Files": ", ".join(map(_shown, memory.files)),
        "Linked": ", ".join(dict.fromkeys(links)),
    }
    head = f"{memory.id} [{_shown(memory.kind)}] {_shown(memory.title)}"
    return "\n".join([head, *_facts(facts), "", _shown(_cut(memory.body))])


def _prime(project: Project, given: Arguments) -> Said:
    return prime_text(project, given.get("budget_tokens", PRIME_TOKENS), given.get("task"), given.get("text")), None


def prime_text(
    project: Project, budget_tokens: int = PRIME_TOKENS, task: str | None = None, text: str | None = None
) -> str:
    """Give the memories to start with, as markdown."""
    from ralph.memory.prime import primed
    from ralph.store.known_memories import Wanted

    chosen = project.memory.prime(Wanted(), budget_tokens, task_id=task, text=text)
    nothing = "Nothing that has to do with it is remembered." if task or text else "Nothing is remembered yet."
    return primed(chosen) or nothing


def _report_failure(project: Project, given: Arguments) -> Said:
    category = given.get("category", "unknown")
    if "task" in given:
        attempt, task = project.report_failure(
            given["task"],
            given["tried"],
            given["why"],
            category=category,
            files=given.get("files", ()),
            trace=given.get("trace", ""),
        )
        said = f"Recorded as attempt {attempt.number} at {task.id}, which is now {task.status}"
        reason = f": {_shown(task.reason)}" if task.reason else ""
        return f"{said}{reason}. The next attempt is told what you tried.", None
    trace = f"\n\n```\n{given['trace']}\n```" if "trace" in given else ""
    kept = project.memory.add(
        f"{given['tried'].strip()}\n\nWhy it failed: {given['why'].strip()}{trace}",
        kind="pitfall",
        tags=() if category == "unknown" else (category,),
        files=given.get("files", ()),
    )
    memory = kept.memory
    return f"Remembered as a pitfall: {memory.id}.", {**_brief(memory), "what": kept.what}


# --- tasks --------------------------------------------------------------------------------


def _list_tasks(project: Project, given: Arguments) -> Said:
    which = given.get("status", OPEN)
    status = None if which in (OPEN, READY, ALL) else Status(which)
    tasks = project.tasks(status=status, feature=given.get("feature"), ready=which == READY)
    if which == OPEN:
        tasks = [task for task in tasks if task.status is not Status.DONE]
    shown = tasks[: given.get("limit", LISTED)]
    fields = {"tasks": [_task_fields(task) for task in shown], "total": len(tasks)}
    if not tasks:
        return f"No task is {which}." if which != ALL else "There are no tasks.", fields
    more = f" The first {len(shown)} of them:" if len(shown) < len(tasks) else ""
    head = f"{_count(len(tasks), 'task', 'tasks')}, most urgent first.{more}"
    return "\n".join([head, *map(_task_line, shown)]), fields


def _task_fields(task: Task) -> dict[str, Any]:
    fields = {
        "id": task.id,
        "status": task.status.value,
        "title": _shown(task.title),
        "priority": task.priority,
        "needs": list(task.needs),
        "part_of": task.parent_id,
        "reason": _shown(task.reason),
    }
    return {name: value for name, value in fields.items() if value}


def _task_line(task: Task) -> str:
    more = [f"priority {task.priority}"] if task.priority else []
    more += [f"needs {' '.join(task.needs)}"] if task.needs else []
    more += [f"part of {task.parent_id}"] if task.parent_id else []
    return f"- {task.id} [{task.status}] {_shown(task.title)}" + (f" ({', '.join(more)})" if more else "")


def _show_task(project: Project, given: Arguments) -> Said:
    return task_text(project, given["id"]), None


def task_text(project: Project, id: str) -> str:
    """Give all about a task, with what earlier attempts at it came to."""
    from ralph.loop.prompt import report_text

    seen = project.task(id)
    task = seen.task
    facts = {
        "Priority": task.priority,
        "Feature": _shown(seen.feature.name) if seen.feature else "",
        "Part of": task.parent_id,
        "Parts": _named(seen.parts),
        "Needs": _named(seen.needs),
        "Needed by": _named(seen.needed_by),
        "Reason": _shown(task.reason),
        "Worker": task.claimed_by,
        "Attempts": _attempts(seen),
    }
    lines = [f"{task.id} [{task.status}] {_shown(task.title)}", *_facts(facts)]
    if task.body:
        lines += ["", _shown(_cut(task.body))]
    if reports := project.failures(SHOWN_REPORTS, task=id):
        lines += ["", "What failed before, latest first:", "", *map(report_text, reports)]
    return "\n".join(lines).rstrip()


def _named(tasks: Sequence[Task]) -> str:
    return ", ".join(f"{task.id} {_shown(task.title)} ({task.status})" for task in tasks)


def _attempts(seen: TaskView) -> str:
    latest = "; ".join(f"{one.number} {one.outcome or 'running'}" for one in seen.attempts[:SHOWN_ATTEMPTS])
    return f"{seen.metrics.total_attempts}, latest first: {latest}" if latest else ""


def _add_task(project: Project, given: Arguments) -> Said:
    task = project.add_task(
        given["title"],
        given.get("body", ""),
        priority=given.get("priority", 0),
        parent=given.get("parent"),
        feature=given.get("feature"),
        needs=given.get("needs", ()),
    )
    return f"Task added: {task.id} {_shown(task.title)}", _task_fields(task)


def _finish_task(project: Project, given: Arguments) -> Said:
    task = project.done(given["id"])
    return f"Task done: {task.id} {_shown(task.title)}", _task_fields(task)


# --- words --------------------------------------------------------------------------------


def _shown(text: str) -> str:
    from ralph.memory.render import quoted

    return quoted(text)


def _cut(text: str) -> str:
    from ralph.text import cut

    return cut(text, LONGEST_TEXT)


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _facts(facts: dict[str, Any]) -> list[str]:
    return [f"{name}: {value}" for name, value in facts.items() if value]


TOOLS = (
    Tool(
        name="remember",
        title="Remember something",
        description="Store something learned about this project that the next session should know: a fix, a pitfall,"
        " a convention, a decision. One thing per call, in one or two plain sentences. Say it again if it is known:"
        " that makes it surer.",
        takes={
            "content": _text("What to remember.", 20_000),
            "type": _text(f"One of {', '.join(KINDS)}; pattern if not given.", 50),
            "title": _text("A heading; the first sentence if not given."),
            "tags": _texts("A few words to find it by.", 20, 64),
            "files": _texts("Files it is about, as paths in the project; those named in the content if not given."),
        },
        needs=("content",),
        repeats=True,
        act=_remember,
    ),
    Tool(
        name="search_memories",
        title="Search the memories",
        description="Find what was learned before about something, best first: before you start work, when an error"
        " turns up, before a decision. Gives one line each with its id.",
        takes={
            "query": _text("Any words, an error message or a path; the newest memories if not given.", 2_000),
            "types": _texts("Only of these types.", 20, 50),
            "tags": _texts("Only with any of these tags.", 20, 64),
            "task": _text(f"{_TASK} Its words count too."),
            "limit": _number("At most so many.", 1, 50, FOUND),
        },
        reads=True,
        act=_search,
    ),
    Tool(
        name="show_memory",
        title="Show a memory",
        description="Show all of one memory: its text, how sure it is, which files it is about.",
        takes={"id": _text(_MEMORY)},
        needs=("id",),
        reads=True,
        act=_show_memory,
    ),
    Tool(
        name="prime",
        title="What to know first",
        description="Get the memories that matter most, as markdown, at the start of work or after the context was"
        " compacted. With a task or a text, the few that have to do with it.",
        takes={
            "task": _text(_TASK),
            "text": _text("What the work is about.", 20_000),
            "budget_tokens": _number("At most so many tokens.", 50, PRIME_TOKENS, PRIME_TOKENS),
        },
        reads=True,
        act=_prime,
    ),
    Tool(
        name="report_failure",
        title="Report what did not work",
        description="Record an approach that failed, so that the next attempt does not repeat it. With a task it counts"
        " as a failed attempt at it; without one it is remembered as a pitfall.",
        takes={
            "tried": _text("What was tried, in a sentence or two.", 4_000),
            "why": _text("Why it did not work.", 4_000),
            "task": _text(_TASK),
            "category": _text("One word, like test_failure, build_error, timeout or wrong_approach.", 50),
            "files": _texts("Files it was about, as paths in the project."),
            "trace": _text("The part of the error output that tells most.", 4_000),
        },
        needs=("tried", "why"),
        act=_report_failure,
    ),
    Tool(
        name="list_tasks",
        title="List the tasks",
        description="List the tasks of this project, most urgent first.",
        takes={
            "status": _text(
                f"Which ones; {OPEN} are all but done ones, {READY} those that could start now.",
                20,
                enum=[OPEN, READY, *(status.value for status in Status), ALL],
                default=OPEN,
            ),
            "feature": _text("Only of this feature, by name or id."),
            "limit": _number("At most so many.", 1, 200, LISTED),
        },
        reads=True,
        act=_list_tasks,
    ),
    Tool(
        name="show_task",
        title="Show a task",
        description="Show all about a task: what is to be done, what it waits for, and what failed before. Read this"
        " before you work on it.",
        takes={"id": _text(_TASK)},
        needs=("id",),
        reads=True,
        act=_show_task,
    ),
    Tool(
        name="add_task",
        title="Add a task",
        description="Add a task for later, for example work you found that is not part of what you were asked to do.",
        takes={
            "title": _text("What is to be done, in one line."),
            "body": _text("All that is needed to do it.", 50_000),
            "priority": _number("Higher goes first.", -1_000, 1_000, 0),
            "parent": _text(f"{_TASK} The new one is a part of it."),
            "needs": _texts("Ids of tasks that must be done first.", 50, 64),
            "feature": _text("The feature it belongs to, by name or id."),
        },
        needs=("title",),
        act=_add_task,
    ),
    Tool(
        name="finish_task",
        title="Finish a task",
        description="Say that a task is done, once its work is complete and checked. Not inside a session of Ralph's"
        " own loop: there the loop decides.",
        takes={"id": _text(_TASK)},
        needs=("id",),
        act=_finish_task,
    ),
)
