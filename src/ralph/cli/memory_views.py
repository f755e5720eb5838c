"""`ralph memory` actions that list memories: search, list, export, watch."""

from __future__ import annotations

import json
import sys

from ralph.cli import transfer
from ralph.cli.memory import DEFAULT_SEARCH_LIMIT
from ralph.cli.memory_entries import event_fields
from ralph.cli.memory_prime import known_kinds, print_markdown
from ralph.cli.memory_text import (
    format_datetime,
    print_memories,
    print_scored_memories,
    score_fields,
    summarize_event,
    summary_line,
)
from ralph.cli.output import print_json, print_table, printable
from ralph.core.paging import Page
from ralph.core.records import MemorySource, MemoryState
from ralph.formats.public_memory import public_fields
from ralph.formats.registry import FORMATS
from ralph.store.memory_queries import MemoryFilter

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from ralph.core.records import Memory, MemoryEvent, RecalledMemory
    from ralph.loop.prompts import Explanation
    from ralph.memory.sharing import SharedMemory
    from ralph.project import Project


def search(project: Project, args: argparse.Namespace) -> None:
    """Search memories, or past work with `--episodes`, best match first."""
    if args.episodes or args.kind:
        from ralph.cli.episodes import search_episodes

        search_episodes(project, args)
        return
    limit = DEFAULT_SEARCH_LIMIT if args.format == "table" and not args.all else sys.maxsize - 1
    hits = project.memory.search(
        " ".join(args.query), _filter_from(project, args), limit + 1, ranker=args.ranker or "", task_id=args.task
    )
    shown = hits[:limit]
    memories = [hit.memory for hit in shown]
    needs_reasons = args.task and (args.explain or args.format == "json")
    explanations = project.prompts.explain_all(memories, args.task) if needs_reasons else []
    if args.format == "json":
        print_json(list(_hit_fields(shown, explanations)))
    elif args.format == "markdown":
        print_markdown(memories)
    elif shown:
        if args.explain:
            print_scored_memories(shown, explanations)
        else:
            print_memories(memories)
        if len(hits) > len(shown):
            print(f"Showing the best {len(shown)}. Use --all to show all.")
    else:
        past = "" if project.store.episodes.is_empty() else " To search past work: ralph memory search --episodes TEXT"
        print(f"No memory matches.{past}")


def _hit_fields(hits: Sequence[RecalledMemory], explanations: Sequence[Explanation]) -> Iterator[dict[str, object]]:
    """Return search results for JSON output."""
    for hit, scored in zip(hits, score_fields(hits, explanations), strict=True):
        yield public_fields(hit.memory) | scored


def list_memories(project: Project, args: argparse.Namespace) -> None:
    """List memories, newest first."""
    filter = _filter_from(project, args)
    if args.shared:
        _list_shared(project.memory.sharing.list(filter, args.last), args)
        return
    found = project.memory.list(filter, Page(limit=args.last) if args.last else None)
    if args.format == "json":
        print_json([public_fields(memory) for memory in found])
    elif args.format == "markdown":
        print_markdown(found)
    elif found:
        print_memories(found, with_state=args.state is not None, with_staleness=args.stale)
        if args.stale:
            print("To confirm a memory that still holds: ralph memory confirm ID")
    elif filter == MemoryFilter(is_stale=True):
        print("No stale memories: none of their files have changed.")
    else:
        none = "No memories are in use." if project.files.problems else "No memories yet."
        print("No memory matches." if filter != MemoryFilter() else f"{none} Add one with: ralph memory add TEXT")


def _list_shared(memories: Sequence[SharedMemory], args: argparse.Namespace) -> None:
    if args.format == "json":
        print_json([public_fields(shared.memory) | {"shared_from": shared.project} for shared in memories])
    elif args.format == "markdown":
        print_markdown([shared.memory for shared in memories])
    elif memories:
        rows = [
            (shared.memory.id, shared.memory.kind, shared.project, summary_line(shared.memory)) for shared in memories
        ]
        print_table(("ID", "TYPE", "FROM", "MEMORY"), rows)
    else:
        print("No shared memory matches. Share one with: ralph memory share ID")


def export(project: Project, args: argparse.Namespace) -> None:
    """Export memories in an exchange format."""
    transfer.export(project, args, _filter_from(project, args))


def watch(project: Project, args: argparse.Namespace) -> None:
    """Show changes of memories as they happen."""
    seconds = float("inf") if args.seconds is None else args.seconds
    for event, memory in project.memory.events.follow(args.since, seconds, _print_status, project.files.sync):
        _print_event(event, memory, args)


def _print_status(sentence: str) -> None:
    print(printable(sentence), file=sys.stderr, flush=True)


def _print_event(event: MemoryEvent, memory: Memory | None, args: argparse.Namespace) -> None:
    if args.format == "json":
        fields = event_fields(event) | {"title": memory.title if memory else None}
        print(json.dumps(fields, ensure_ascii=False), flush=True)
        return
    text = summary_line(memory) if event.was is None and memory else summarize_event(event)
    print(
        f"{event.seq}  {format_datetime(event.at)}  {event.who} {event.what} {event.memory_id}: {printable(text)}",
        flush=True,
    )


def _filter_from(project: Project, args: argparse.Namespace) -> MemoryFilter:
    state = getattr(args, "state", None)
    states = tuple(MemoryState) if state == "all" else (MemoryState(state or MemoryState.ACTIVE),)
    if state is None and args.action == "export":
        states = FORMATS[args.format].exported_states
    return MemoryFilter(
        kinds=known_kinds(project, args.kinds),
        states=states,
        tags=args.tags,
        sources=(MemorySource(args.source),) if args.source else (),
        task_type=getattr(args, "task_type", None),
        min_confidence=args.min_confidence,
        min_success_rate=getattr(args, "min_success_rate", 0.0),
        after=args.after or "",
        before=args.before or "",
        is_stale=getattr(args, "stale", False),
    )
