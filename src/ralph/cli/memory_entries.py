"""`ralph memory` actions on single memories: show, edit, delete, undo, share, history."""

from __future__ import annotations

from ralph.cli.interactive import edit_text, is_interactive
from ralph.cli.memory_add import print_replaced
from ralph.cli.memory_text import (
    changed_fields,
    print_confidence_history,
    print_history,
    print_markdown_entry,
    print_memory,
    print_origin,
    print_why,
)
from ralph.cli.output import pluralize, print_json, printable, read_text_argument, symbol, undo_command
from ralph.core.errors import UsageError
from ralph.core.records import EPISODE_PREFIX, record_fields
from ralph.formats.public_memory import public_fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from ralph.core.records import MemoryEvent
    from ralph.project import Project


MAX_UNDONE_SHOWN = 10
"""Number of restored memories that `undo` lists."""


def show(project: Project, args: argparse.Namespace) -> None:
    """Show a memory, or a passage of past work, in full."""
    if args.memory.startswith(EPISODE_PREFIX):
        from ralph.cli.episodes import show_episode

        show_episode(project, args)
        return
    view = project.memory.show(args.memory)
    if args.format == "json":
        extra = {
            "confidence_now": view.confidence,
            "links": dict(view.links),
            "linked_from": [other.id for other in view.linked_from],
            "supersedes": [other.id for other in view.supersedes],
            "shown_to": view.shown_to,
        }
        print_json(public_fields(view.memory) | extra)
    elif args.format == "markdown":
        print_markdown_entry(view.memory)
    else:
        print_memory(view)


def edit(project: Project, args: argparse.Namespace) -> None:
    """Edit a memory, by options or in an editor."""
    changes = {name: getattr(args, name) for name in ("title", "tags", "files", "confidence")} | {"type": args.kind}
    body = read_text_argument(args.content) if args.content is not None else None
    if body is None and all(value is None for value in changes.values()):
        body = _from_editor(project, args.memory)
        if body is None:
            print("Nothing was changed.")
            return
    result = project.memory.edit(args.memory, content=body, why=args.why, **changes)
    memory = result.memory
    print(f"Memory updated: {memory.id}")
    print_replaced(result.superseded)
    print(f"To undo: {undo_command(memory.id, args)}")


def _from_editor(project: Project, id: str) -> str | None:
    """Open the text of a memory in an editor. Return None if it was not changed."""
    if not is_interactive():
        raise UsageError("Nothing to change. Use --content, --title, --type, --tags, --files or --confidence.")
    body = project.memory.show(id).memory.content
    new_body = edit_text(body)
    return new_body if new_body != body else None


def confirm(project: Project, args: argparse.Namespace) -> None:
    """Confirm that memories still hold."""
    for before, _ in project.memory.confirm(*args.memory, why=args.why):
        doubts = f", although {printable(before.stale)}" if before.stale else ""
        print(f"{symbol('✓ ')}Memory confirmed: {before.id}{doubts}")


def delete(project: Project, args: argparse.Namespace) -> None:
    """Delete memories."""
    deleted, change = project.memory.delete(*args.memory, why=args.why)
    for memory in deleted:
        print(f"{symbol('🗑️  ')}Memory deleted: {memory.id}")
    print(f"To undo: {undo_command(deleted[0].id if len(deleted) == 1 else change, args)}")


def undo(project: Project, args: argparse.Namespace) -> None:
    """Undo changes of one memory, or one change of several."""
    undone = project.memory.undo(args.memory, to=args.to, only=args.only)
    for memory in undone[:MAX_UNDONE_SHOWN]:
        print(f"Undone: {memory.id} is {memory.state}: {printable(memory.title)}")
    if len(undone) > MAX_UNDONE_SHOWN:
        print(f"… and {pluralize(len(undone) - MAX_UNDONE_SHOWN, 'more memory')}.")


def share(project: Project, args: argparse.Namespace) -> None:
    """Share memories with all projects in the database."""
    messages = {"added": "Memory shared", "revived": "Memory shared again", "edited": "Shared memory updated"}
    for result in project.memory.sharing.share(*args.memory):
        print(f"{messages.get(result.what, 'Already shared')}: {result.memory.id}")
    print("Other projects in this database receive it with their next command. To undo: ralph memory unshare ID")


def unshare(project: Project, args: argparse.Namespace) -> None:
    """Stop sharing memories."""
    for memory in project.memory.sharing.unshare(*args.memory):
        print(f"No longer shared: {memory.id}")


def explain(project: Project, args: argparse.Namespace) -> None:
    """Explain where a memory or a passage of past work comes from, or how it scores for a task."""
    if args.task and args.prompt:
        raise UsageError("Use either --task or --prompt, not both.", code="invalid-option")
    if args.memory.startswith(EPISODE_PREFIX):
        from ralph.cli.episodes import explain_episode

        explain_episode(project, args)
        return
    if args.task or args.prompt:
        prompts = project.prompts
        found = (
            prompts.explain(args.memory, args.task) if args.task else prompts.explain_typed(args.memory, args.prompt)
        )
        if args.format == "json":
            print_json(
                {
                    "id": found.memory.id,
                    "memory": public_fields(found.memory),
                    "task_id": found.task_id,
                    "is_shown": found.is_shown,
                    "shown": found.is_shown,
                    "reason": found.reason,
                    "is_rule": found.is_rule,
                    "score": found.score,
                    "because": dict(found.because),
                    "relevance": found.relevance,
                    "evidence": found.evidence,
                    "rank": found.rank,
                    "ranked": found.ranked,
                }
            )
        else:
            print_why(found, with_score=args.explain)
        return
    view, events = project.memory.show(args.memory), project.memory.history(args.memory)
    is_rule = project.memory.rules.is_told(view.memory.id)
    if args.format == "json":
        print_json(
            {
                "memory": public_fields(view.memory),
                "is_rule": is_rule,
                "confidence_now": view.confidence,
                "history": [event_fields(event) for event in events],
                "shown_to": view.shown_to,
            }
        )
    else:
        print_origin(view, events, is_rule=is_rule)


def history(project: Project, args: argparse.Namespace) -> None:
    """Show the history of a memory, or its confidence over time."""
    if args.confidence:
        points = project.memory.confidence_over_time(args.memory)
        if args.format == "json":
            print_json(points)
        else:
            print_confidence_history(points)
        return
    events = project.memory.history(args.memory)
    if args.format == "json":
        print_json([event_fields(event) for event in events])
    else:
        print_history(events)


def event_fields(event: MemoryEvent) -> dict[str, object]:
    """Return the fields of an event for JSON output."""
    changed = {name: {"was": was, "became": became} for name, (was, became) in changed_fields(event).items()}
    return {name: value for name, value in record_fields(event).items() if name not in ("was", "became")} | {
        "changed": changed
    }
