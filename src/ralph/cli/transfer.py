"""`ralph memory import`, `export` and `merge`."""

from __future__ import annotations

import sys
from pathlib import Path

from ralph.cli.output import pluralize, print_json, printable, undo_command
from ralph.core.errors import UsageError
from ralph.formats.registry import FORMATS

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from ralph.memory.import_export import ImportResult
    from ralph.project import Project
    from ralph.store.memory_queries import MemoryFilter

MAX_PROBLEMS_SHOWN = 20
"""Maximum number of problems that are printed."""
STANDARD_INPUT = "standard input"
LEFT_OUT_EXIT_CODE = 4
"""Exit code if something was imported and something else was left out."""


def import_memories(project: Project, args: argparse.Namespace) -> int:
    """Import memories and tasks. Fails if nothing could be read from one of the paths, or something was left out."""
    from ralph.cli.bars import progress_bar

    results = []
    with progress_bar(), project.transfer.together(dry_run=args.dry_run) as change:
        for path in _paths(args):
            if path == "-":
                text = _standard_input()
                imported = [
                    project.transfer.import_text(
                        text, STANDARD_INPUT, stage=args.stage, force=args.force, format=args.form
                    )
                ]
            else:
                imported = project.transfer.import_path(
                    Path(path), stage=args.stage, force=args.force, format=args.form
                )
            results.append((STANDARD_INPUT if path == "-" else path, imported))
    return _print_results(results, args, change, is_dry_run=args.dry_run)


def _paths(args: argparse.Namespace) -> list[str]:
    paths: list[str] = args.path
    if not paths and sys.stdin.isatty():
        raise UsageError("Nothing to import. Pass a file, a directory, or - for standard input.")
    for path in paths:
        # Check all paths first: a mistyped one must not lead to a partial import.
        if path != "-" and not Path(path).exists():
            raise UsageError(f"No such file or directory: {path}")
    return paths or ["-"]


def _standard_input() -> str:
    return sys.stdin.buffer.read().decode("utf-8", "replace")


def merge(project: Project, args: argparse.Namespace) -> int:
    """Import all memories of another project."""
    from ralph.cli.bars import progress_bar

    with progress_bar(), project.transfer.together() as change:
        imported = project.transfer.merge(Path(args.path))
    return _print_results([(args.path, imported)], args, change)


def _print_results(
    results: Sequence[tuple[str, Sequence[ImportResult]]],
    args: argparse.Namespace,
    change: str,
    *,
    is_dry_run: bool = False,
) -> int:
    groups = [(path, group) for path, imported in results for group in _by_format(imported)]
    all_imported = [result for _, group in groups for result in group]
    has_changed = any(result.change_id for result in all_imported)
    if args.format == "json":
        print_json([_fields(path, group) | {"dry_run": is_dry_run} for path, group in groups])
    else:
        for path, group in groups:
            print(_summary_line(path, group))
        if is_dry_run:
            print("Dry run: nothing was changed.")
        elif has_changed:
            note = " (tasks are kept)" if any(result.tasks for result in all_imported) else ""
            print(f"To undo{note}: {undo_command(change, args)}")
    _print_problems(all_imported)
    if any(not any(result.has_content for result in imported) for _, imported in results):
        return 1
    return LEFT_OUT_EXIT_CODE if any(result.rejected for result in all_imported) else 0


def _by_format(results: Sequence[ImportResult]) -> list[list[ImportResult]]:
    groups: dict[str, list[ImportResult]] = {}
    for result in results:
        groups.setdefault(result.format, []).append(result)
    return list(groups.values())


def _summary_line(path: str, group: Sequence[ImportResult]) -> str:
    """Return the summary line of the files of one format."""
    format = group[0].format
    source = format if len(group) == 1 else pluralize(len(group), f"{format} file")
    return "; ".join([f"{printable(path)} ({source}): {_counts(format, group)}", *_notes(group)])


def _notes(group: Sequence[ImportResult]) -> list[str]:
    return list(dict.fromkeys(result.note for result in group if result.note))


def _counts(format: str, group: Sequence[ImportResult]) -> str:
    """Summarize how many records were imported and what happened to the others, omitting zeros."""

    def count(name: str) -> int:
        return sum(getattr(result, name) for result in group)

    content = FORMATS[format].content if format in FORMATS else "memories"
    known_label = "already known"
    if content == "tasks":
        imported, known_label = f"{pluralize(count('tasks'), 'task')} added", "already there"
    elif content == "project":
        parts = [pluralize(count("tasks"), "task")]
        parts += [
            pluralize(count(name), noun) for name, noun in (("features", "feature"), ("new", "memory")) if count(name)
        ]
        imported = f"{', '.join(parts)} added"
    elif content == "episodes":
        imported = f"{pluralize(count('episodes'), 'passage')} added"
    elif content == "loop-state":
        imported = f"{pluralize(count('staged'), 'learning')} new"
    else:
        imported = f"{count('new')} new"
    others = {
        "merged": count("merged"),
        "restored": count("revived"),
        known_label: count("known"),
        "duplicated in the file": count("again"),
        "skipped (deleted earlier)": count("refused"),
        "superseded by newer ones": count("superseded"),
        "rejected": count("rejected"),
        "waiting for ralph learn review": count("quarantined"),
    }
    return ", ".join([imported, *(f"{number:,} {label}" for label, number in others.items() if number)])


def _fields(path: str, group: Sequence[ImportResult]) -> dict[str, object]:
    return {
        "path": path,
        "format": group[0].format,
        "files": len(group),
        "new": sum(result.new for result in group),
        "merged": sum(result.merged for result in group),
        "revived": sum(result.revived for result in group),
        "known": sum(result.known for result in group),
        "again": sum(result.again for result in group),
        "refused": sum(result.refused for result in group),
        "superseded": sum(result.superseded for result in group),
        "quarantined": sum(result.quarantined for result in group),
        "rejected": _problem_fields(group, are_notes=False),
        "notes": _problem_fields(group, are_notes=True),
        "tasks": sum(result.tasks for result in group),
        "features": sum(result.features for result in group),
        "episodes": sum(result.episodes for result in group),
        "staged": sum(result.staged for result in group),
        "note": "; ".join(_notes(group)),
        "change_id": next((result.change_id for result in group if result.change_id), ""),
    }


def _problem_fields(group: Sequence[ImportResult], *, are_notes: bool) -> list[dict[str, object]]:
    return [
        {"file": result.name, "line": problem.line, "why": problem.why}
        for result in group
        for problem in result.problems
        if problem.was_read is are_notes
    ]


def _print_problems(results: Sequence[ImportResult]) -> None:
    sys.stdout.flush()
    problems = [f"{result.name}:{problem.line}: {problem.why}" for result in results for problem in result.problems]
    for problem in problems[:MAX_PROBLEMS_SHOWN]:
        print(printable(problem), file=sys.stderr)
    if len(problems) > MAX_PROBLEMS_SHOWN:
        print(f"… and {len(problems) - MAX_PROBLEMS_SHOWN} more.", file=sys.stderr)
    if any(problem.needs_force for result in results for problem in result.problems):
        print("To import it anyway, use --force.", file=sys.stderr)


def export(project: Project, args: argparse.Namespace, filter: MemoryFilter) -> None:
    """Export memories to a file, a directory or standard output."""
    if FORMATS[args.format].is_directory and not args.to:
        raise UsageError(f"The {args.format} format is a directory of files. Use --to to name it.")
    exported = project.transfer.export(args.format, filter)
    if args.to:
        project.transfer.save(exported, args.format, Path(args.to), force=args.force)
        print(f"{pluralize(exported.count, 'memory')} written to {printable(args.to)}.")
    else:
        sys.stdout.flush()
        for _, pieces in exported.files:
            for piece in pieces:
                sys.stdout.buffer.write(piece.encode("utf-8", "replace"))
        if args.format == "bundle" and sys.stdout.isatty():
            sys.stdout.flush()
            print(
                "This is the bundle format, with the history. For the version 1 document, use --format json.",
                file=sys.stderr,
            )
    if exported.left_out:
        print(
            f"{pluralize(exported.left_out, 'memory')} of other types cannot be written in this format.",
            file=sys.stderr,
        )
