"""`ralph journal`."""

from __future__ import annotations

from ralph.cli.output import (
    action_adder,
    add_format_option,
    add_last_option,
    format_time,
    print_json,
    print_list,
    printable,
    symbol,
)
from ralph.core.errors import NotFoundError
from ralph.core.paging import Page
from ralph.core.records import FAILED_OUTCOMES, AgentSession, AttemptOutcome, outcome_word, stored_outcome
from ralph.loop.journal_section import journal_text
from ralph.memory.lifecycle.confidence import days_between

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from ralph.core.records import Attempt
    from ralph.loop.journal import JournalEntry
    from ralph.project import Project

OUTCOMES = (*dict.fromkeys(map(outcome_word, AttemptOutcome)), AttemptOutcome.BLOCKED.value)
"""Outcomes to filter by: those that are shown, and the stored name of one of them."""
SESSION_PREFIX = "session/"
MIN_SHORT_ID_LENGTH = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    action = action_adder(parser)
    sub = action("list", list_entries, "List the latest entries")
    sub.add_argument("--run", metavar="ID", help="only of this run")
    sub.add_argument("--task", metavar="ID", help="only of this task")
    sub.add_argument("--outcome", choices=OUTCOMES, help="only with this outcome")
    add_last_option(sub, "entries")
    add_format_option(sub)
    sub = action("search", search, "Search entries by their notes")
    sub.add_argument("query", nargs="+", help="words to search for")
    add_last_option(sub, "entries")
    add_format_option(sub)
    sub = action("show", show, "Show one entry")
    sub.add_argument("entry", help="RUN/ITERATION, an iteration of the latest run, or session/ID")
    sub.add_argument("--transcript", action="store_true", help="print what was said, word for word")
    add_format_option(sub)


def list_entries(project: Project, args: argparse.Namespace) -> None:
    """List the latest entries, newest last."""
    is_filtered = args.run or args.task or args.outcome
    entries: Sequence[Attempt | AgentSession]
    if is_filtered:
        entries = project.journal.attempts(Page(limit=args.last), run=args.run, task=args.task, outcome=_outcome(args))
    else:
        entries = _records(project.journal.list(Page(limit=args.last)))
    entries = entries[::-1]
    empty_message = "No entry matches." if is_filtered else "No entries yet. Start a run with: ralph run"
    _print(entries, args, empty_message)


def search(project: Project, args: argparse.Namespace) -> None:
    """Search entries by their notes, best match first."""
    found = project.journal.search(" ".join(args.query), args.last)
    _print(_records(found), args, "No entry matches. Notes on deleted tasks: ralph memory search --episodes WORDS")


def show(project: Project, args: argparse.Namespace) -> None:
    """Show one entry in full, or its transcript."""
    if args.transcript:
        from ralph.cli.episodes import show_transcript

        show_transcript(project, args)
        return
    if args.entry.startswith(SESSION_PREFIX):
        _show_session(project, args)
        return
    entry = project.journal.get(args.entry)
    if args.format == "json":
        print_json(entry)
        return
    text, _ = journal_text([entry], 1_000_000, "")
    print(text.removeprefix("## Run Journal\n").strip())
    about = (
        *(("Attempt", entry.number), ("Reason", entry.reason), ("Error", entry.error_type)),
        *(("Turns", entry.turns), ("Session", entry.agent_session)),
    )
    for name, value in about:
        if value:
            print(f"- **{name}**: {value}")


def _show_session(project: Project, args: argparse.Namespace) -> None:
    """Show a session that hooks recorded, or else what was imported of one."""
    id = args.entry.removeprefix(SESSION_PREFIX)
    try:
        _print_session(project.sessions.get(id), args)
    except NotFoundError:
        from ralph.cli.episodes import show_imported_session

        if not show_imported_session(project, id, args):
            raise


def _outcome(args: argparse.Namespace) -> AttemptOutcome | None:
    return AttemptOutcome(stored_outcome(args.outcome)) if args.outcome else None


def _print_session(session: AgentSession, args: argparse.Namespace) -> None:
    if args.format == "json":
        print_json(session)
        return
    ended = (
        f"ended {format_time(session.ended_at)} ({session.ending or 'no reason given'})" if session.ended_at else "open"
    )
    print(
        printable(f"{SESSION_PREFIX}{session.id}: {session.agent}, started {format_time(session.started_at)}, {ended}")
    )
    shown, learned = len(session.shown), len(session.learned)
    print(f"{session.prompts} prompts, {session.compactions} compactions, {shown} memories shown, {learned} learned")
    for name, text in (("First prompt", session.title), ("Last message", session.summary)):
        if text:
            print(f"\n{name}:\n{printable(text)}")
    if session.learned:
        print(f"\nLearned: {', '.join(session.learned)}")


def _notes(entry: Attempt) -> str:
    """Return the notes of an attempt, after the reason of its failure if it failed."""
    if entry.outcome in FAILED_OUTCOMES and entry.reason:
        return symbol(" · ", "; ").join(filter(None, (entry.reason, entry.notes)))
    return entry.notes or entry.reason or "-"


def _records(entries: Sequence[JournalEntry]) -> list[Attempt | AgentSession]:
    """Return the attempts and sessions of journal entries."""
    return [record for entry in entries if (record := entry.attempt or entry.session)]


def _seconds(session: AgentSession) -> float:
    return days_between(session.started_at, session.ended_at or session.last_at) * 86_400


def _short_id(id: str, others: Sequence[str]) -> str:
    """Return the shortest prefix of a session id that is unique among those listed."""
    length = MIN_SHORT_ID_LENGTH
    while length < len(id) and any(other != id and other.startswith(id[:length]) for other in others):
        length += 1
    return id[:length]


def _row(entry: Attempt | AgentSession, sessions: Sequence[str]) -> tuple[object, ...]:
    if isinstance(entry, AgentSession):
        learned = f"[{len(entry.learned)} learned] " if entry.learned else ""
        return (
            f"{SESSION_PREFIX}{_short_id(entry.id, sessions)}",
            format_time(entry.started_at),
            *("-", "-"),
            "session" if entry.ended_at else "open",
            f"{_seconds(entry):.0f}s",
            learned + (entry.title or entry.summary or entry.agent),
        )
    return (
        f"{entry.run_id}/{entry.iteration}",
        format_time(entry.started_at),
        entry.task_id or "-",
        entry.number or "-",
        outcome_word(entry.outcome),
        f"{entry.seconds:.1f}s",
        _notes(entry),
    )


def _print(entries: Sequence[Attempt | AgentSession], args: argparse.Namespace, empty: str) -> None:
    sessions = [entry.id for entry in entries if isinstance(entry, AgentSession)]
    rows = [_row(entry, sessions) for entry in entries]
    headings = ("ENTRY", "WHEN", "TASK", "ATTEMPT", "OUTCOME", "TIME", "NOTES")
    print_list(args, entries, headings, rows, empty, droppable=("WHEN", "ATTEMPT"))
