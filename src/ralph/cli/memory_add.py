"""`ralph memory add`: apart from the other actions, because many of these commands may run at once."""

from __future__ import annotations

from ralph.cli.output import pluralize, print_json, read_text_argument, symbol
from ralph.core.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from ralph.project import Project


def add(project: Project, args: argparse.Namespace) -> None:
    """Add a memory."""
    if (args.words is None) == (args.content is None):
        raise UsageError("Pass the text of the memory exactly once: ralph memory add CONTENT")
    result = project.memory.add(
        read_text_argument(args.words if args.content is None else args.content),
        type=args.kind,
        title=args.title or "",
        tags=args.tags,
        files=args.files,
        confidence=args.confidence,
    )
    memory = result.memory
    if args.format == "json":
        from ralph.formats.public_memory import public_fields

        print_json(public_fields(memory))
    elif args.format == "quiet":
        print(memory.id)
    elif result.what in ("added", "revived"):
        print(f"{symbol('📝 ')}Memory {'stored' if result.what == 'added' else 'restored'}: {memory.id}")
        print_replaced(result.superseded)
    elif result.what == "updated":
        print(f"{symbol('📝 ')}Memory updated: {memory.id} (what it said before: ralph memory history {memory.id})")
    else:
        print(f"{symbol('📝 ')}Already known: {memory.id} (learned {pluralize(memory.support, 'time')})")


def print_replaced(ids: Sequence[str]) -> None:
    """Print which memories a new or edited one takes the place of, and how to keep both."""
    for id in ids:
        print(f"It takes the place of {id}. If both hold: ralph memory undo {id}")
