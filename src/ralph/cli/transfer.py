"""`ralph memory import`, `export` and `merge`."""

from __future__ import annotations

import sys
from pathlib import Path

from ralph.cli.output import plural, print_json, safe, undoing
from ralph.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from ralph.project import Project
    from ralph.store.known_memories import Wanted
    from ralph.transferring import Brought

MOST_COMPLAINTS = 20
STANDARD_INPUT = "standard input"


def import_memories(project: Project, args: argparse.Namespace) -> int:
    """Take in memories; fails when nothing could be read from one of the paths."""
    from ralph.formats.memory_files import Format

    form = Format(args.form) if args.form else None
    results = []
    with project.transfer.together() as change:
        for path in _paths(args):
            if path == "-":
                text = _standard_input()
                brought = [project.bring(text, STANDARD_INPUT, stage=args.stage, force=args.force, format=form)]
            else:
                brought = project.bring_path(Path(path), stage=args.stage, force=args.force, format=form)
            results.append((STANDARD_INPUT if path == "-" else path, brought))
    return _print_brought(results, args, change)


def _paths(args: argparse.Namespace) -> list[str]:
    paths: list[str] = args.path
    if not paths and sys.stdin.isatty():
        raise UsageError("Say what to import: a file, a folder, or - for standard input.")
    for path in paths:
        # Nothing is imported when one of several paths is mistyped.
        if path != "-" and not Path(path).exists():
            raise UsageError(f"{path} cannot be read: there is no such file.")
    return paths or ["-"]


def _standard_input() -> str:
    return sys.stdin.buffer.read().decode("utf-8", "replace")


def merge(project: Project, args: argparse.Namespace) -> int:
    """Take in all memories of another project."""
    with project.transfer.together() as change:
        brought = project.merge(Path(args.path))
    return _print_brought([(args.path, brought)], args, change)


def _print_brought(results: Sequence[tuple[str, Sequence[Brought]]], args: argparse.Namespace, change: str) -> int:
    groups = [(path, group) for path, brought in results for group in _by_format(brought)]
    all_brought = [one for _, group in groups for one in group]
    has_changed = any(one.change_id for one in all_brought)
    if args.format == "json":
        print_json([_fields(path, group) for path, group in groups])
    else:
        for path, group in groups:
            print(_counted(path, group))
        if has_changed:
            but = " (the tasks stay)" if any(one.tasks for one in all_brought) else ""
            print(f"To undo{but}: {undoing(change, args)}")
    _print_complaints(all_brought)
    return 1 if any(not any(map(_holds_something, brought)) for _, brought in results) else 0


def _by_format(brought: Sequence[Brought]) -> list[list[Brought]]:
    groups: dict[str, list[Brought]] = {}
    for one in brought:
        groups.setdefault(one.format, []).append(one)
    return list(groups.values())


def _counted(path: str, group: Sequence[Brought]) -> str:
    """Give the line that says what became of the files of one format."""
    form = group[0].format
    what = form if len(group) == 1 else plural(len(group), f"{form} file")
    notes = dict.fromkeys(one.note for one in group if one.note)
    return "; ".join([f"{safe(path)} ({what}): {_counts(form, group)}", *notes])


def _counts(form: str, group: Sequence[Brought]) -> str:
    """Say how many came in, and what became of the others; of nothing nothing is said."""

    def count(name: str) -> int:
        return sum(getattr(one, name) for one in group)

    known = "already known"
    if count("tasks") or form == "tasks":
        came, known = f"{plural(count('tasks'), 'task')} added", "already there"
    elif count("staged") or form == "loop-state":
        came = f"{plural(count('staged'), 'learning')} new"
    else:
        came = f"{count('new')} new"
    others = {
        "merged": count("merged"),
        "brought back": count("revived"),
        known: count("known"),
        "said twice in it": count("again"),
        "stay deleted": count("refused"),
        "rejected": sum(not bad.was_read for one in group for bad in one.problems),
        "wait for: ralph learn review": count("quarantined"),
    }
    return ", ".join([came, *(f"{number:,} {what}" for what, number in others.items() if number)])


def _fields(path: str, group: Sequence[Brought]) -> dict[str, object]:
    return {
        "path": path,
        "format": group[0].format,
        "files": len(group),
        "new": sum(one.new for one in group),
        "merged": sum(one.merged for one in group),
        "revived": sum(one.revived for one in group),
        "known": sum(one.known for one in group),
        "again": sum(one.again for one in group),
        "refused": sum(one.refused for one in group),
        "quarantined": sum(one.quarantined for one in group),
        "rejected": _complaints(group, are_notes=False),
        "notes": _complaints(group, are_notes=True),
        "tasks": sum(one.tasks for one in group),
        "staged": sum(one.staged for one in group),
        "change_id": next((one.change_id for one in group if one.change_id), ""),
    }


def _complaints(group: Sequence[Brought], *, are_notes: bool) -> list[dict[str, object]]:
    return [
        {"file": one.name, "line": bad.line, "why": bad.why}
        for one in group
        for bad in one.problems
        if bad.was_read is are_notes
    ]


def _holds_something(one: Brought) -> bool:
    kept = one.new or one.merged or one.revived or one.known or one.again or one.refused
    return bool(kept or one.tasks or one.staged) or not one.problems


def _print_complaints(brought: Sequence[Brought]) -> None:
    from ralph.formats.memory_files import BY_FORCE

    sys.stdout.flush()
    complaints = [f"{one.name}:{problem.line}: {problem.why}" for one in brought for problem in one.problems]
    for complaint in complaints[:MOST_COMPLAINTS]:
        print(safe(complaint), file=sys.stderr)
    if len(complaints) > MOST_COMPLAINTS:
        print(f"… and {len(complaints) - MOST_COMPLAINTS} more.", file=sys.stderr)
    if any(complaint.endswith(BY_FORCE) for complaint in complaints):
        print("To take it in all the same: --force", file=sys.stderr)


def export(project: Project, args: argparse.Namespace, wanted: Wanted) -> None:
    """Write memories to a file, to a folder or to standard output."""
    if args.format == "knowledge" and not args.to:
        raise UsageError("Knowledge is a folder of files: say where with --to FOLDER.")
    exported = project.transfer.export(args.format, wanted)
    if args.to:
        project.transfer.save(exported, args.format, Path(args.to), force=args.force)
        print(f"{plural(exported.count, 'memory')} written to {safe(args.to)}.")
    else:
        sys.stdout.flush()
        for _, pieces in exported.files:
            for piece in pieces:
                sys.stdout.buffer.write(piece.encode("utf-8", "replace"))
        if args.format == "bundle" and sys.stdout.isatty():
            sys.stdout.flush()
            print("This is the bundle, with the history; --format json is the version 1 document.", file=sys.stderr)
    if exported.left_out:
        have = "has" if exported.left_out == 1 else "have"
        print(f"{plural(exported.left_out, 'memory')} of other kinds {have} no place in this format.", file=sys.stderr)
