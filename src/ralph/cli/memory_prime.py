"""`ralph memory prime`. Agents run it at the start of every session, so imports are kept to a minimum."""

from __future__ import annotations

from ralph.cli.output import print_json, read_text_argument
from ralph.memory.recall.prime import render_primer
from ralph.memory.validation import check_type, days_ago
from ralph.store.memory_queries import MemoryFilter

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from ralph.core.records import Memory
    from ralph.project import Project


def prime(project: Project, args: argparse.Namespace) -> None:
    """Print the memories to put into a prompt, or nothing if there are none."""
    kinds = known_kinds(project, args.kinds)
    filter = MemoryFilter(kinds=kinds, tags=args.tags, after=days_ago(args.recent) if args.recent else "")
    text = None if args.text is None else read_text_argument(args.text)
    if args.format == "markdown":
        print(project.memory.rules.primer(filter, args.budget, task_id=args.task, text=text).text, end="")
        return
    found = project.memory.prime(filter, args.budget, task_id=args.task, text=text)
    if args.format == "json":
        from ralph.formats.public_memory import public_fields

        print_json([public_fields(memory) for memory in found])
    elif found:
        from ralph.cli.memory_text import print_memories

        print_memories(found)
    else:
        print("No memory is relevant enough.")


def known_kinds(project: Project, kinds: tuple[str, ...]) -> tuple[str, ...]:
    """Return these memory types. Raise UsageError for an unknown one."""
    return tuple(check_type(kind, lambda: project.store.memories.stats.counts("kind")) for kind in kinds)


def print_markdown(memories: Sequence[Memory]) -> None:
    """Print memories as Markdown, grouped by type."""
    print(render_primer(memories), end="")
