"""`ralph memory` actions on all memories: clean up, consolidate, verify, embed, statistics."""

from __future__ import annotations

from ralph.cli.memory_text import print_stats, summary_line
from ralph.cli.output import pluralize, print_json, print_table, printable, symbol, undo_command
from ralph.core.records import MemoryState

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from ralph.memory.maintenance import Removal
    from ralph.project import Project

MAX_LEFT_SHOWN = 20
"""Number of memories shown that a consolidation left."""


def init(project: Project, args: argparse.Namespace) -> None:
    """Create the Markdown file of the memories."""
    print(f"Memories file created: {project.files.create(force=args.force)}")


def files(project: Project, args: argparse.Namespace) -> None:
    """Show the memories whose file went back to an older version, or decide on them."""
    held = project.files.held()
    if args.choice == "show" or not held:
        _print_held(project, held, args)
        return
    from ralph.formats.sync.three_way import FileChoice

    outcome = project.files.resolve_held(FileChoice(args.choice))
    count = pluralize(len(held), "memory")
    if args.format == "json":
        print_json({"choice": args.choice, "resolved": len(held), "change": outcome.change_id})
    elif args.choice == "restore":
        print(f"Wrote {count} to the files again.")
    else:
        deleted = sum(project.store.memories.get(id).state is not MemoryState.ACTIVE for _, id in held)
        undo = undo_command(outcome.change_id, args)
        print(f"Deleted {pluralize(deleted, 'memory')}, reverted {len(held) - deleted:,}. To undo: {undo}")


def _print_held(project: Project, held: list[tuple[str, str]], args: argparse.Namespace) -> None:
    memories = {id: project.store.memories.get(id) for _, id in held}
    if args.format == "json":
        print_json([{"id": id, "file": path, "state": memories[id].state} for path, id in held])
    elif not held:
        print("The files are as Ralph wrote them, or newer.")
    else:
        print_table(("ID", "FILE", "MEMORY"), [(id, path, summary_line(memories[id])) for path, id in held])


def cleanup(project: Project, args: argparse.Namespace) -> None:
    """Delete memories that are old, unused or of low confidence."""
    removal = project.memory.maintenance.cleanup(
        min_confidence=args.min_confidence,
        older_than_days=args.older_than,
        unused=args.unused,
        yes=args.yes,
        dry_run=args.dry_run,
    )
    _print_removal(removal, args, "deleted", "Nothing to clean up.")


def clear(project: Project, args: argparse.Namespace) -> None:
    """Delete all memories."""
    _print_removal(project.memory.maintenance.clear(yes=args.yes), args, "deleted", "There are no memories.")


def consolidate(project: Project, args: argparse.Namespace) -> None:
    """Merge near-duplicate memories."""
    removal = project.memory.maintenance.consolidate(yes=args.yes, dry_run=args.dry_run)
    _print_removal(removal, args, "superseded", "Nothing to consolidate.")
    if removal.left:
        shown = removal.left[:MAX_LEFT_SHOWN]
        rows = [(memory.id, memory.kind, summary_line(memory)) for memory, _ in shown]
        print_table(("LEFT", "TYPE", "MEMORY"), rows, [[f"why: {why}"] for _, why in shown])
        print(f"{pluralize(len(removal.left), 'memory')} left: edit or delete what no longer holds.")


def _print_removal(removal: Removal, args: argparse.Namespace, participle: str, nothing: str) -> None:
    if not removal.removed:
        print(nothing)
        return
    rows = [(memory.id, memory.kind, summary_line(memory)) for memory, _ in removal.removed]
    print_table(("ID", "TYPE", "MEMORY"), rows, [[f"why: {why}"] for _, why in removal.removed])
    count = f"{len(rows):,} of {pluralize(removal.present, 'memory')}"
    if args.dry_run:
        print(f"{count} would be {participle}. Nothing was changed.")
    else:
        print(f"{count} {participle}. To undo: {undo_command(removal.change_id, args)}")


def embed(project: Project, args: argparse.Namespace) -> None:
    """Compute the missing embeddings of memories."""
    from ralph.cli.bars import progress_bar

    with progress_bar():
        made = project.memory.maintenance.embed()
    up_to_date = "All memories have embeddings."
    print(f"Computed {pluralize(made, 'embedding')}. {up_to_date}" if made else up_to_date)


def verify(project: Project, args: argparse.Namespace) -> int:
    """Check the stored memories for damage. Returns 1 if any is damaged."""
    from ralph.cli.bars import progress_bar

    with progress_bar():
        problems = project.memory.maintenance.verify()
    if args.format == "json":
        print_json(problems)
    else:
        print("\n".join(map(printable, problems)) or f"{symbol('✓ ')}No damage found.")
        if problems:
            print("To restore an undamaged backup: ralph restore")
            print("To repair a memory by hand: ralph memory edit ID --content TEXT")
    return 1 if problems else 0


def stats(project: Project, args: argparse.Namespace) -> None:
    """Show statistics about the memories."""
    found = project.memory.stats()
    if args.format == "json":
        print_json(found)
    else:
        print_stats(found)
