"""`ralph journal`."""

from __future__ import annotations

from ralph.cli.output import add_format, count_of, moment, open_project, print_json, print_table, safe
from ralph.records import FAILURES, AgentSession, Outcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from ralph.past import JournalEntry
    from ralph.records import Attempt

SESSION = "session/"
SHORT_ID = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    one = actions.add_parser("list", help="List the latest entries", description="List the latest entries.")
    one.add_argument("--run", metavar="ID")
    one.add_argument("--task", metavar="ID")
    one.add_argument("--outcome", choices=tuple(Outcome))
    one.add_argument("--last", type=count_of("entries"), default=20, metavar="N", help="how many (default: 20)")
    add_format(one)
    one.set_defaults(act=list_entries)
    one = actions.add_parser("search", help="Find entries by their notes", description="Find entries by their notes.")
    one.add_argument("query", nargs="+")
    one.add_argument("--last", type=count_of("entries"), default=20, metavar="N", help="how many (default: 20)")
    add_format(one)
    one.set_defaults(act=search)
    one = actions.add_parser("show", help="Show one entry", description="Show one entry.")
    one.add_argument("entry", help="RUN/ITERATION, an iteration of the latest run, or session/ID")
    add_format(one)
    one.set_defaults(act=show)


def list_entries(args: argparse.Namespace) -> None:
    """List the latest entries, newest last."""
    narrowed = args.run or args.task or args.outcome
    entries: Sequence[Attempt | AgentSession]
    with open_project(args) as project:
        if narrowed:
            entries = project.journal(args.last, run=args.run, task=args.task, outcome=_outcome(args))
        else:
            entries = _told(project.past.journal(args.last)[0])
    entries = entries[::-1]
    nothing = "No entry matches." if narrowed else "No entries yet. They come with: ralph run"
    _print(entries, args, nothing)


def search(args: argparse.Namespace) -> None:
    """Find entries by their notes, best first."""
    with open_project(args) as project:
        found = project.past.search(" ".join(args.query), args.last)
    _print(_told(found), args, "Nothing found.")


def show(args: argparse.Namespace) -> None:
    """Show one entry whole."""
    from ralph.loop.prompt import journal_text

    with open_project(args) as project:
        if args.entry.startswith(SESSION):
            _print_session(project.sessions.get(args.entry.removeprefix(SESSION)), args)
            return
        entry = project.journal_entry(args.entry)
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


def _outcome(args: argparse.Namespace) -> Outcome | None:
    return Outcome(args.outcome) if args.outcome else None


def _print_session(session: AgentSession, args: argparse.Namespace) -> None:
    if args.format == "json":
        print_json(session)
        return
    ended = f"ended {moment(session.ended_at)} ({session.ending or 'no reason given'})" if session.ended_at else "open"
    print(safe(f"{SESSION}{session.id}: {session.agent}, began {moment(session.started_at)}, {ended}"))
    told, left = len(session.shown), len(session.learned)
    print(f"{session.prompts} prompts, {session.compactions} compactions, {told} memories shown, {left} learned")
    for name, text in (("Asked", session.title), ("Said last", session.summary)):
        if text:
            print(f"\n{name}:\n{safe(text)}")
    if session.learned:
        print(f"\nLearned: {', '.join(session.learned)}")


def _notes(entry: Attempt) -> str:
    """Give what to say of an attempt: why it failed before what it said."""
    if entry.outcome in FAILURES and entry.reason:
        return f"{entry.reason} · {entry.notes}" if entry.notes else entry.reason
    return entry.notes or entry.reason or "-"


def _told(entries: Sequence[JournalEntry]) -> list[Attempt | AgentSession]:
    """Give what entries are about."""
    return [one for entry in entries if (one := entry.attempt or entry.session)]


def _seconds(session: AgentSession) -> float:
    from ralph.memory.lifecycle import days_between

    return days_between(session.started_at, session.ended_at or session.last_at) * 86_400


def _short(id: str, others: Sequence[str]) -> str:
    """Give the beginning of a session's id that tells it from the others that are listed."""
    length = SHORT_ID
    while length < len(id) and any(other != id and other.startswith(id[:length]) for other in others):
        length += 1
    return id[:length]


def _row(entry: Attempt | AgentSession, sessions: Sequence[str]) -> tuple[object, ...]:
    if isinstance(entry, AgentSession):
        learned = f"[{len(entry.learned)} learned] " if entry.learned else ""
        return (
            f"{SESSION}{_short(entry.id, sessions)}",
            moment(entry.started_at),
            *("-", "-"),
            "session" if entry.ended_at else "open",
            f"{_seconds(entry):.0f}s",
            learned + (entry.title or entry.summary or entry.agent),
        )
    return (
        f"{entry.run_id}/{entry.iteration}",
        moment(entry.started_at),
        entry.task_id or "-",
        entry.number or "-",
        entry.outcome or "running",
        f"{entry.seconds:.1f}s",
        _notes(entry),
    )


def _print(entries: Sequence[Attempt | AgentSession], args: argparse.Namespace, nothing: str) -> None:
    if args.format == "json":
        print_json(entries)
    elif entries:
        sessions = [entry.id for entry in entries if isinstance(entry, AgentSession)]
        rows = [_row(entry, sessions) for entry in entries]
        print_table(("ENTRY", "WHEN", "TASK", "ATTEMPT", "OUTCOME", "TIME", "NOTES"), rows, spare=("WHEN", "ATTEMPT"))
    else:
        print(nothing)
