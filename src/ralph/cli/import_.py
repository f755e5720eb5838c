"""`ralph import`: past work of this project, and what other tools know of it."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from pathlib import Path

from ralph.cli.bars import progress_bar
from ralph.cli.output import add_format_option, open_project, pluralize, positive_count, print_json, printable
from ralph.core.consent import may_read_sessions, record_session_consent
from ralph.core.errors import UsageError
from ralph.formats.transcripts import READERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from ralph.memory.capture.available import AvailableHistory
    from ralph.memory.capture.session_import import ImportSummary, Progress
    from ralph.project import Project

DESCRIPTION = """\
Importing again adds only what is new.

  ralph import                 # commits and sessions
  ralph import git             # the commits of the current branch
  ralph import sessions        # sessions of Claude Code, Codex, Gemini CLI, opencode and aider in this project
  ralph import FILE|FOLDER     # transcripts of sessions, or memories and tasks of other tools
"""
CONSENT = (
    "Coding agents keep transcripts of your sessions in your home directory, for example in ~/.claude. If you agree,"
    " Ralph reads those of this project, and of other projects when you run an import there."
)
REVOKE = "Your consent applies to this machine; to withdraw it: ralph import --revoke"
NO_CONSENT = (
    "Past sessions were not read, because that needs your consent on this machine. To agree and import them:"
    " ralph import sessions --yes"
)
MAX_PROBLEMS_SHOWN = 10
"""Maximum number of problems that are printed."""
LEFT_OUT_EXIT_CODE = 4
"""Exit code if something could not be read, as of `ralph memory import`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = f"{parser.description}\n\n{DESCRIPTION}"
    parser.add_argument("what", nargs="*", metavar="WHAT", help="git, sessions, or files and folders; default: both")
    parser.add_argument(
        "--agent", action="append", choices=tuple(READERS), default=[], help="only sessions of this agent; repeatable"
    )
    parser.add_argument(
        "--since", default="", metavar="DATE", help="only commits and sessions since a date, 2026-01-31"
    )
    parser.add_argument(
        "--max",
        type=positive_count("commits"),
        default=0,
        metavar="N",
        help="only the newest N commits (default: 5000)",
    )
    parser.add_argument(
        "--any-project", action="store_true", help="with transcripts in files: also sessions of other projects"
    )
    parser.add_argument("--again", action="store_true", help="read everything again, also what was forgotten")
    parser.add_argument("--dry-run", action="store_true", help="only show what would be imported")
    parser.add_argument("--yes", action="store_true", help="agree that past sessions are read on this machine")
    parser.add_argument("--revoke", action="store_true", help="no longer agree to that; what is imported stays")
    add_format_option(parser)
    parser.set_defaults(act=run)


def run(args: argparse.Namespace) -> int:
    """Import what is named, or all past work."""
    if args.revoke:
        return _revoke()
    args.since = date_option(args.since, "--since")
    files = [word for word in args.what if word not in ("git", "sessions")]
    with open_project(args) as project:
        summaries: list[ImportSummary] = []
        transcripts = [path for path in files if _holds_transcripts(path)]
        others = [path for path in files if path not in transcripts]
        status = _import_files(project, args, others) if others else 0
        if transcripts:
            options = {"since": args.since, "dry_run": args.dry_run, "again": args.again}
            with _progress("sessions") as progress:
                summaries += project.episodes.import_files(
                    transcripts, any_project=args.any_project, progress=progress, **options
                )
        if "git" in args.what or not args.what:
            summaries += _commits(project, args, is_named="git" in args.what)
        has_refused = False
        if "sessions" in args.what or not args.what:
            summaries += _sessions(project, args)
            has_refused = not may_read_sessions()
        hint = "" if args.what or args.format == "json" else foreign_data_hint(project)
    if summaries or not others:
        status = max(status, _print(summaries, args, has_refused=has_refused))
    if hint:
        print(hint)
    return status


def import_history(project: Project, available: AvailableHistory) -> None:
    """Import what was found when the project was set up; the person has just agreed to it."""
    summaries: list[ImportSummary] = []
    if available.commits:
        with _progress("commits") as progress:
            summaries.append(project.episodes.import_commits(progress=progress))
    if available.sessions:
        record_session_consent(True)
        with _progress("sessions") as progress:
            summaries += project.episodes.import_sessions(progress=progress)
    for line in _lines(summaries, is_dry_run=False):
        print(f"  {line}")


def foreign_data_hint(project: Project) -> str:
    """Return how to import what other tools keep of a project, or an empty string; their files are not read."""
    from shlex import quote

    from ralph.formats.sources import find_foreign

    home = "" if may_read_sessions() is False else str(Path.home())
    here = os.path.realpath(".") + "/"
    found = find_foreign(os.path.realpath(project.directory), home, os.environ)
    names = [quote(printable(path.removeprefix(here))) for path in found]
    return f"Found data of other tools. To import it: ralph import {' '.join(names)}" if names else ""


def date_option(text: str, option: str) -> str:
    """Return the timestamp of a date that an option names; empty if it is not given."""
    from ralph.memory.validation import parse_date

    try:
        return parse_date(text) if text else ""
    except UsageError as error:
        raise UsageError(f"{option}: {error}.", code=error.code) from None


def _revoke() -> int:
    record_session_consent(False)
    print("Past sessions are no longer read on this machine. To erase what was imported: ralph forget --kind session")
    return 0


def _holds_transcripts(path: str) -> bool:
    """Return whether a file or folder that a person named holds sessions; chat never becomes memories."""
    from ralph.formats.transcripts.named import holds_transcripts

    return path != "-" and holds_transcripts(path)


def _import_files(project: Project, args: argparse.Namespace, files: Sequence[str]) -> int:
    from ralph.cli.transfer import import_memories

    for path in files:
        if path != "-" and not Path(path).exists():
            raise UsageError(f"No such file or directory: {path}. To import past work: ralph import git, or sessions")
    args.path, args.stage, args.force, args.form = list(files), False, False, None
    with project.synced():
        return import_memories(project, args)


def _commits(project: Project, args: argparse.Namespace, *, is_named: bool) -> list[ImportSummary]:
    options = {"since": args.since, "dry_run": args.dry_run, "again": args.again}
    try:
        with _progress("commits") as progress:
            return [project.episodes.import_commits(limit=args.max, progress=progress, **options)]
    except UsageError as error:
        if is_named or error.code not in ("no-repository", "not-trusted"):
            raise
        if error.code == "not-trusted":
            print(f"Warning: {error}", file=sys.stderr)
        return []  # sessions can be imported without a repository, and are the person's own


def _sessions(project: Project, args: argparse.Namespace) -> list[ImportSummary]:
    project.actor.require("episodes.import")
    agents = args.agent or tuple(READERS)
    if args.yes:
        record_session_consent(True)
    elif not may_read_sessions() and not all(READERS[name].is_in_project for name in agents):
        if _ask_consent(is_named="sessions" in args.what):
            record_session_consent(True)
        else:
            agents = tuple(name for name in agents if READERS[name].is_in_project)
    if not agents:
        return []
    options = {"since": args.since, "dry_run": args.dry_run, "again": args.again}
    with _progress("sessions") as progress:
        return project.episodes.import_sessions(agents, progress=progress, **options)


def _ask_consent(*, is_named: bool) -> bool:
    """Ask whether past sessions may be read; anything but yes is a no."""
    from ralph.cli.interactive import ask, is_interactive

    if not is_interactive() and is_named:
        raise UsageError(f"{NO_CONSENT}. {CONSENT}", code="no-terminal")
    if is_interactive():
        print(f"{CONSENT} {REVOKE}")
        if ask("May Ralph read them? [y/N] ").lower() in ("y", "yes"):
            return True
    print(NO_CONSENT, file=sys.stderr)
    return False


@contextmanager
def _progress(noun: str) -> Iterator[Progress]:
    """Yield what a progress bar is told."""
    with progress_bar() as bar:
        yield lambda done, total: bar.show(f"Reading {noun}", done, total)


# --- output --------------------------------------------------------------------------


def _print(summaries: Sequence[ImportSummary], args: argparse.Namespace, *, has_refused: bool) -> int:
    if args.format == "json":
        print_json(list(summaries))
    else:
        for line in _lines(summaries, is_dry_run=args.dry_run, has_refused=has_refused):
            print(line)
    problems = [problem for summary in summaries for problem in summary.problems]
    sys.stdout.flush()
    for problem in problems[:MAX_PROBLEMS_SHOWN]:
        place = f"{problem.path}, byte {problem.offset:,}" if problem.offset else problem.path
        print(printable(f"{place}: {problem.reason}"), file=sys.stderr)
    if len(problems) > MAX_PROBLEMS_SHOWN:
        print(f"… and {len(problems) - MAX_PROBLEMS_SHOWN:,} more; see them all with --format json", file=sys.stderr)
    return LEFT_OUT_EXIT_CODE if problems else 0


def _lines(summaries: Sequence[ImportSummary], *, is_dry_run: bool, has_refused: bool = False) -> list[str]:
    lines = [_line(summary, is_dry_run) for summary in summaries if _has_content(summary)]
    lines += [note for summary in summaries for note in summary.notes]
    if not lines:
        lines = ["Nothing else was found to import." if has_refused else "Nothing was found to import."]
    if is_dry_run and lines:
        lines.append("Nothing was imported, because of --dry-run.")
    return lines


def _has_content(summary: ImportSummary) -> bool:
    is_up_to_date = summary.source == "git" and not summary.notes
    return bool(summary.read or summary.unchanged or summary.left_out or summary.problems or is_up_to_date)


def _line(summary: ImportSummary, is_dry_run: bool) -> str:
    """Return what came in from one kind of source, and what did not."""
    new = "would be new" if is_dry_run else "new"
    if not (summary.read or summary.left_out or summary.problems):
        parts = ["nothing new"]
    elif summary.source == "git":
        parts = [f"{pluralize(summary.read, 'commit')} read, {summary.added:,} {new}"]
    else:
        parts = [f"{pluralize(summary.read, 'session')} read, {pluralize(summary.added, 'passage')} {new}"]
    parts += [f"{summary.known:,} already known"] if summary.known else []
    parts += [f"{pluralize(summary.unchanged, 'session')} unchanged"] if summary.unchanged else []
    left_out = ", ".join(f"{reason} ({count:,})" for reason, count in summary.left_out)
    parts += [f"left out: {left_out}"] if left_out else []
    return f"{summary.title}: {'; '.join(parts)}"
