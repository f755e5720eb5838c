"""`ralph forget`."""

from __future__ import annotations

from ralph.cli.import_ import date_option
from ralph.cli.output import add_format_option, open_project, pluralize, print_json, printable
from ralph.core.records import EpisodeKind
from ralph.store.episodes import EpisodeFilter

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from ralph.memory.episodes import Forgotten


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = (
        "Erase past sessions, attempts and commits that match all options, with their search entries; of attempts that"
        " are named or match also notes, failure reports and live output. Memories stay; to delete one: ralph memory"
        " delete ID."
    )
    parser.add_argument("--session", default="", metavar="ID", help="of this session, or attempt as RUN/ITERATION")
    parser.add_argument("--before", default="", metavar="DATE", help="said before a date, 2026-01-31")
    parser.add_argument("--matching", default="", metavar="TEXT", help="that contain this text, ignoring case")
    parser.add_argument("--kind", choices=[kind.value for kind in EpisodeKind], help="only of this kind")
    parser.add_argument("--dry-run", action="store_true", help="only count them")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    add_format_option(parser)
    parser.set_defaults(act=run)


def run(args: argparse.Namespace) -> int:
    """Erase past work, after asking."""
    filter = EpisodeFilter(
        kinds=(args.kind,) if args.kind else (),
        within=args.session.removeprefix("session/"),
        before=date_option(args.before, "--before"),
        matching=args.matching,
    )
    with open_project(args) as project:
        found = project.episodes.forget(filter, dry_run=True)
        if args.dry_run or not _is_any(found):
            return _print(found, args)
        if not args.yes:
            from ralph.cli.interactive import confirm

            if not confirm(f"Erase {_describe(found)} for good?", "In scripts, add --yes."):
                return 1
        found = project.episodes.forget(filter)
        root = project.directory
    return _print(found, args, root)


def _print(found: Forgotten, args: argparse.Namespace, erased_in: str = "") -> int:
    if args.format == "json":
        print_json(found)
    elif erased_in:
        print(f"Erased {_describe(found)}.")
        if found.remains:
            print(found.remains)
        print("Later imports leave them out, unless you use --again.")
        _print_copies(erased_in)
    else:
        print(f"{_describe(found)} found. Nothing was erased.")
    return 0 if _is_any(found) else 1


def _is_any(found: Forgotten) -> bool:
    return bool(found.episodes or found.sessions or found.reports or found.logs or found.quotes)


def _print_copies(root: str) -> None:
    """Print which copies of the database may still hold what was erased, and how to delete them."""
    from pathlib import Path
    from shlex import join

    from ralph.maintenance import copy_folders

    if folders := copy_folders(Path(root)):
        print(f"Earlier backups still hold them. To delete all backups: {printable(join(['rm', '-r', *folders]))}")


def _describe(found: Forgotten) -> str:
    parts = [pluralize(found.episodes, "passage")]
    parts += [f"the titles of {pluralize(found.sessions, 'session')}"] if found.sessions else []
    parts += [f"the words of {pluralize(found.reports, 'report')}"] if found.reports else []
    parts += [f"the live output of {pluralize(found.logs, 'run')}"] if found.logs else []
    parts += [f"{pluralize(found.quotes, 'quote')} in what reflections proposed"] if found.quotes else []
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))
