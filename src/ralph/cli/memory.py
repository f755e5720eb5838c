"""`ralph memory`."""

from __future__ import annotations

import sys

from ralph.cli.output import (
    add_format,
    adder_of,
    count_of,
    open_project,
    plural,
    print_file_problems,
    print_json,
    print_table,
    read_text,
    safe,
    undoing,
)
from ralph.errors import UsageError
from ralph.records import KINDS, Source, State
from ralph.text import accept, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    from ralph.project import Project
    from ralph.records import Memory, MemoryEvent, Recalled
    from ralph.remembering import Removal, Why
    from ralph.sharing import SharedMemory
    from ralph.store.known_memories import Wanted

    Adder = Callable[..., argparse.ArgumentParser]

SHOWN = 10
WIDEST_REASON = 60
WRITING = ("add", "edit", "confirm", "delete", "init", "import", "merge", "undo", "clear", "cleanup", "consolidate")
"""Actions that change something: they fail when they cannot bring the files up to date."""
OLD_DAYS = 90
RANKERS = ("tags", "weighted", "hats", "recent", "learnings")
IMPORTS = (
    "bundle",
    "json",
    "learnings",
    "staging",
    "csv",
    "markdown",
    "knowledge",
    "progress",
    "guardrails",
    "notes",
    "tasks",
    "loop-state",
)
EXPORTS = ("bundle", "json", "learnings", "staging", "csv", "markdown", "knowledge")

EPILOG = """\
Examples:
  ralph memory add "ECONNREFUSED means: start docker" --type fix --tags docker
  ralph memory search docker --explain         what each score is made of
  ralph memory prime --budget 2000             what an agent should know first
  ralph memory prime --for "flaky login test"  the few that matter for something
  ralph memory import notes.md other-project/  files, folders, or a pipe
  ralph memory export > memories.jsonl         all of it, with its history
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = EPILOG
    action = adder_of(parser.add_subparsers(dest="action", metavar="ACTION", required=True), run)
    _add_entries(action)
    _add_views(action)
    _add_upkeep(action)
    _add_transfer(action)


def _add_entries(action: Adder) -> None:
    one = action("add", add, "Remember something")
    one.add_argument("words", nargs="?", metavar="CONTENT", help="what to remember; - reads standard input")
    one.add_argument("--content", metavar="TEXT", help="the same as CONTENT")
    one.add_argument("--type", "-t", dest="kind", metavar="TYPE", help=f"{', '.join(KINDS)} (default: pattern)")
    one.add_argument("--title", help="default: the first sentence")
    one.add_argument("--tags", type=words_of, default=(), help="separated by commas")
    one.add_argument("--files", type=paths_of, default=(), help="files it is about, separated by commas")
    one.add_argument("--confidence", type=share, metavar="X", help="from 0 to 1 (default: 0.6)")
    _add_project(one)
    one.add_argument("--format", choices=("table", "json", "quiet"), default="table", help="quiet prints the id alone")

    one = action("search", search, "Find memories, best first")
    one.add_argument("query", nargs="*", metavar="QUERY", help="any words; without them the newest are shown")
    _add_filters(one)
    one.add_argument("--all", action="store_true", help=f"show all, not only the best {SHOWN}")
    one.add_argument("--ranker", choices=RANKERS, help="rank by another formula")
    one.add_argument(
        "--task", metavar="ID", help="its words count too, and --explain says what its next prompt leaves out, and why"
    )
    one.add_argument("--explain", action="store_true", help="show what each score is made of")
    _add_text_format(one)

    one = action("list", list_memories, "List memories, newest first")
    _add_filters(one)
    one.add_argument("--last", type=count_of("memories"), default=0, metavar="N", help="only the newest N")
    _add_state(one)
    one.add_argument("--task-type", metavar="TYPE", help="only those learned from tasks of this type")
    one.add_argument("--min-success-rate", type=share, default=0.0, metavar="X", help="from 0 to 1")
    one.add_argument("--shared", action="store_true", help="those that all projects of the database get")
    one.add_argument(
        "--stale", action="store_true", help="only those whose files have changed, moved or gone since, and which"
    )
    _add_text_format(one)

    one = action("show", show, "Show all about a memory")
    one.add_argument("memory", metavar="ID")
    _add_project(one)
    _add_text_format(one)

    one = action("edit", edit, "Change a memory; without options, in your editor")
    one.add_argument("memory", metavar="ID")
    one.add_argument("--content", metavar="TEXT", help="- reads standard input")
    one.add_argument("--title")
    one.add_argument("--type", "-t", dest="kind", metavar="TYPE")
    one.add_argument("--tags", type=words_of, help="separated by commas; '' takes all away")
    one.add_argument("--files", type=paths_of, help="separated by commas; '' takes all away")
    one.add_argument("--confidence", type=share, metavar="X", help="from 0 to 1")
    one.add_argument("--why", metavar="TEXT", default="", help="goes into the history")
    _add_project(one)

    one = action("confirm", confirm, "Say that memories still hold, though their files have changed")
    one.add_argument("memory", nargs="+", metavar="ID")
    one.add_argument("--why", metavar="TEXT", default="", help="goes into the history")
    _add_project(one)

    one = action("delete", delete, "Take memories out of use; undo brings them back")
    one.add_argument("memory", nargs="+", metavar="ID")
    one.add_argument("--why", metavar="TEXT", default="", help="goes into the history")
    _add_project(one)


def _add_views(action: Adder) -> None:
    one = action("prime", prime, "Print the memories to put before an agent")
    one.add_argument("--budget", type=not_negative, default=0, metavar="TOKENS", help="at most so many tokens")
    one.add_argument(
        "--type", "-t", dest="kinds", metavar="TYPES", type=words_of, default=(), help="separated by commas"
    )
    one.add_argument("--tags", type=words_of, default=(), help="any of these, separated by commas")
    one.add_argument("--recent", type=not_negative, default=0, metavar="DAYS", help="only from the last so many days")
    one.add_argument("--task", metavar="ID", help="only the few that a prompt for this task would show")
    one.add_argument("--for", dest="text", metavar="TEXT", help="the same for any text; - reads standard input")
    _add_project(one)
    one.add_argument("--format", choices=("markdown", "json", "table"), default="markdown", help="(default: markdown)")

    one = action("init", init, "Make the markdown file that people and git can edit")
    one.add_argument("--force", action="store_true", help="make it anew; the old one is kept as .bak")

    one = action("why", why, "Say where a memory comes from, or why a task is shown it or not")
    one.add_argument("memory", metavar="ID")
    one.add_argument("--task", metavar="ID", help="what its score for this task is made of, and its place")
    _add_project(one)
    add_format(one)

    one = action("history", history, "Show all that happened to a memory")
    one.add_argument("memory", metavar="ID")
    one.add_argument("--confidence", action="store_true", help="how sure it was over time, up to now")
    _add_project(one)
    add_format(one)

    one = action("undo", undo, "Take back the latest change of a memory, or all of a change")
    one.add_argument("memory", metavar="ID", help="a memory, or a change made to several (chg-…)")
    one.add_argument("--to", type=not_negative, metavar="EVENT", help="all that came after this event of its history")
    one.add_argument(
        "--only", type=not_negative, metavar="EVENT", help="this one; nothing when something came after it"
    )
    _add_project(one)

    one = action("verify", verify, "Check that what is stored is undamaged")
    _add_project(one)
    add_format(one)
    one = action("stats", stats, "Count the memories")
    _add_project(one)
    add_format(one)


def _add_upkeep(action: Adder) -> None:
    one = action("clear", clear, "Take all memories out of use; one undo brings them back")
    one.add_argument("--yes", action="store_true", help="needed, because it is all of them")
    _add_project(one)
    one.set_defaults(dry_run=False)

    one = action("cleanup", cleanup, "Take memories out of use that are doubtful, old and unused")
    one.add_argument("--min-confidence", type=share, metavar="X", help="take those that are less sure or do worse")
    one.add_argument(
        "--older-than",
        type=not_negative,
        nargs="?",
        const=OLD_DAYS,
        metavar="DAYS",
        help=f"take those neither changed nor used for so long (without a number: {OLD_DAYS})",
    )
    one.add_argument("--unused", action="store_true", help="take those that were never used")
    _add_caution(one)
    _add_project(one)
    one = action("consolidate", consolidate, "Let one memory stand for those that say nearly the same")
    _add_caution(one)
    _add_project(one)
    action("embed", embed, "Work out what memories mean, for recall by meaning (extra semantic)")


def _add_transfer(action: Adder) -> None:
    one = action("import", import_memories, "Take in memories from files, folders or other programs")
    one.add_argument("path", nargs="*", metavar="PATH", help="- or nothing reads standard input")
    one.add_argument("--stage", action="store_true", help="hold them back until they are reviewed")
    one.add_argument("--force", action="store_true", help="also when a checksum does not match")
    one.add_argument("--from", dest="form", choices=IMPORTS, help="what it is, when that cannot be told")
    _add_project(one)
    add_format(one)

    one = action("export", export, "Write memories in a format for elsewhere")
    one.add_argument("--to", metavar="FILE", help="default: standard output")
    one.add_argument(
        "--format", choices=EXPORTS, default="bundle", help="bundle keeps all, with the history (default: bundle)"
    )
    one.add_argument("--force", action="store_true", help="replace files that are there")
    _add_filters(one)
    _add_state(one)

    one = action("merge", merge, "Take in all memories of another project")
    one.add_argument("path", metavar="PATH", help="its folder or database, or anything that import reads")
    add_format(one)

    one = action("share", offer, "Offer memories to all projects of the database, or again as they are now")
    one.add_argument("memory", nargs="+", metavar="ID")
    _add_project(one)
    one = action("unshare", withdraw, "Share memories no longer; where they were used or edited they stay")
    one.add_argument("memory", nargs="+", metavar="ID")
    _add_project(one)

    one = action("watch", watch, "Show what happens to memories, as it happens")
    one.add_argument("--since", type=not_negative, metavar="EVENT", help="begin after this event (default: now)")
    one.add_argument("--for", dest="seconds", type=not_negative, metavar="SECONDS", help="default: until Ctrl+C")
    add_format(one)


def _add_filters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--type",
        "-t",
        dest="kinds",
        metavar="TYPES",
        type=words_of,
        default=(),
        help="only of these, separated by commas",
    )
    parser.add_argument("--tags", type=words_of, default=(), help="only with any of these, separated by commas")
    parser.add_argument("--after", type=moment, metavar="DATE", help="only made then (UTC) or later")
    parser.add_argument("--before", type=moment, metavar="DATE", help="only made then (UTC) or before")
    parser.add_argument("--min-confidence", type=share, default=0.0, metavar="X", help="from 0 to 1")
    parser.add_argument("--source", choices=tuple(Source), help="only those that came in so")
    _add_project(parser)


def _add_state(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--state", choices=(*State, "all"), help="(default: active)")


def _add_project(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--project", metavar="NAME", help="another project of the same database")


def _add_caution(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")
    parser.add_argument("--yes", "-y", action="store_true", help="also when it is more than a fifth of all")


def _add_text_format(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--format", choices=("table", "json", "markdown"), default="table", help="how to print (default: table)"
    )


def run(args: argparse.Namespace) -> int:
    """Do what is asked for, then say what is wrong with the files."""
    with open_project(args) as opened:
        other = getattr(args, "project", None)
        project = opened if other is None else opened.neighbour(other)
        code = args.do(project, args) or 0
        print_file_problems(project, in_full=args.action in WRITING)
        if project.memory.is_unwritten and args.action in WRITING:
            print("It is stored, and will be written to the files with the next command.", file=sys.stderr)
            return 1
    return code


# --- one memory ------------------------------------------------------------------------------


def add(project: Project, args: argparse.Namespace) -> None:
    """Remember something."""
    if (args.words is None) == (args.content is None):
        raise UsageError("Say what to remember, once: ralph memory add CONTENT")
    kept = project.memory.add(
        _content(args.words if args.content is None else args.content),
        kind=args.kind,
        title=args.title or "",
        tags=args.tags,
        files=args.files,
        confidence=args.confidence,
    )
    memory = kept.memory
    if args.format == "json":
        _print_json(memory)
    elif args.format == "quiet":
        print(memory.id)
    elif kept.what == "added":
        print(f"📝 Memory stored: {memory.id}")
    elif kept.what == "revived":
        print(f"📝 Brought back: {memory.id}")
    else:
        print(f"📝 Known already: {memory.id} (learned {plural(memory.support, 'time')})")


def show(project: Project, args: argparse.Namespace) -> None:
    """Show all about a memory."""
    view = project.memory.show(args.memory)
    if args.format == "json":
        from ralph.memory.public import public_fields

        beside = {
            "confidence_now": view.confidence,
            "links": dict(view.links),
            "linked_from": [other.id for other in view.linked_from],
            "shown_to": view.shown_to,
        }
        print_json(public_fields(view.memory) | beside)
    elif args.format == "markdown":
        from ralph.cli.memory_text import print_entry

        print_entry(view.memory)
    else:
        from ralph.cli.memory_text import print_view

        print_view(view)


def edit(project: Project, args: argparse.Namespace) -> None:
    """Change a memory, by options or in an editor."""
    names = ("title", "kind", "tags", "files", "confidence")
    changes = {name: getattr(args, name) for name in names}
    body = _content(args.content) if args.content is not None else None
    if body is None and all(value is None for value in changes.values()):
        body = _from_editor(project, args.memory)
        if body is None:
            print("Nothing was changed.")
            return
    memory = project.memory.edit(args.memory, body=body, why=args.why, **changes).memory
    print(f"Memory changed: {memory.id}")
    print(f"To undo: {undoing(memory.id, args)}")


def _from_editor(project: Project, id: str) -> str | None:
    """Give the text of a memory as a person changed it; None when they did not."""
    from ralph.cli.editor import edited, is_attended

    if not is_attended():
        raise UsageError("Say what to change: --content, --title, --type, --tags, --files or --confidence.")
    body = project.memory.show(id).memory.body
    after = edited(body)
    return after if after != body else None


def confirm(project: Project, args: argparse.Namespace) -> None:
    """Say that memories still hold."""
    for before, _ in project.memory.confirm(*args.memory, why=args.why):
        doubts = f", though {safe(before.stale)}" if before.stale else ""
        print(f"✓ Memory confirmed: {before.id}{doubts}")


def delete(project: Project, args: argparse.Namespace) -> None:
    """Take memories out of use."""
    deleted, change = project.memory.delete(*args.memory, why=args.why)
    for memory in deleted:
        print(f"🗑️  Memory deleted: {memory.id}")
    print(f"To undo: {undoing(deleted[0].id if len(deleted) == 1 else change, args)}")


def why(project: Project, args: argparse.Namespace) -> None:
    """Say where a memory comes from, or how it scores for a task."""
    from ralph.cli.memory_text import print_in_brief, print_why
    from ralph.memory.public import public_fields

    if args.task:
        found = project.memory.why(args.memory, args.task)
        if args.format == "json":
            print_json(
                {
                    "id": found.memory.id,
                    "memory": public_fields(found.memory),
                    "task_id": found.task_id,
                    "is_shown": found.is_shown,
                    "shown": found.is_shown,
                    "reason": found.reason,
                    "score": found.score,
                    "because": dict(found.because),
                    "rank": found.rank,
                    "ranked": found.ranked,
                }
            )
        else:
            print_why(found)
        return
    view, events = project.memory.show(args.memory), project.memory.history(args.memory)
    if args.format == "json":
        print_json(
            {
                "memory": public_fields(view.memory),
                "confidence_now": view.confidence,
                "history": [_event_fields(event) for event in events],
                "shown_to": view.shown_to,
            }
        )
    else:
        print_in_brief(view, events)


def history(project: Project, args: argparse.Namespace) -> None:
    """Show all that happened to a memory, or how sure it was over time."""
    from ralph.cli.memory_text import print_confidence, print_history

    if args.confidence:
        points = project.memory.confidence_over_time(args.memory)
        if args.format == "json":
            print_json(points)
        else:
            print_confidence(points)
        return
    events = project.memory.history(args.memory)
    if args.format == "json":
        print_json([_event_fields(event) for event in events])
    else:
        print_history(events)


def undo(project: Project, args: argparse.Namespace) -> None:
    """Take back what was done to one memory, or to several at once."""
    undone = _undone(project, args)
    for memory in undone[:SHOWN]:
        print(f"Undone: {memory.id} is {memory.state}: {safe(memory.title)}")
    if len(undone) > SHOWN:
        print(f"… and {plural(len(undone) - SHOWN, 'more memory')}.")


def _undone(project: Project, args: argparse.Namespace) -> list[Memory]:
    if not project.memory.is_change(args.memory):
        return [project.memory.undo(args.memory, to=args.to, only=args.only)]
    if args.to is not None or args.only is not None:
        option = "--to" if args.to is not None else "--only"
        raise UsageError(f"{args.memory} is a change of several memories: {option} goes with the id of one memory.")
    return project.memory.undo_change(args.memory)


# --- with other projects ---------------------------------------------------------------------


def offer(project: Project, args: argparse.Namespace) -> None:
    """Offer memories to all projects."""
    said = {"added": "Memory shared", "revived": "Memory shared again", "edited": "Memory shared as it is now"}
    for kept in project.memory.share(*args.memory):
        print(f"{said.get(kept.what, 'Shared already')}: {kept.memory.id}")
    print("The other projects of this database take it in with their next command. To undo: ralph memory unshare ID")


def withdraw(project: Project, args: argparse.Namespace) -> None:
    """Share memories no longer."""
    for memory in project.memory.unshare(*args.memory):
        print(f"No longer shared: {memory.id}")


# --- many ------------------------------------------------------------------------------------


def search(project: Project, args: argparse.Namespace) -> None:
    """Find memories, best first."""
    limit = SHOWN if args.format == "table" and not args.all else sys.maxsize - 1
    found = project.memory.search(" ".join(args.query), _wanted(project, args), limit + 1, args.ranker or "", args.task)
    shown = found[:limit]
    memories = [one.memory for one in shown]
    is_judged = args.task and (args.explain or args.format == "json")
    whys = project.memory.why_each(memories, args.task) if is_judged else []
    if args.format == "json":
        print_json(list(_found_fields(shown, whys)))
    elif args.format == "markdown":
        _print_markdown(memories)
    elif shown:
        from ralph.cli.memory_text import print_explained, print_found

        if args.explain:
            print_explained(shown, whys)
        else:
            print_found(shown)
        if len(found) > len(shown):
            print(f"{len(shown)} shown; --all shows all.")
    else:
        print("Nothing found.")


def _found_fields(found: Sequence[Recalled], whys: Sequence[Why]) -> Iterator[dict[str, object]]:
    """Give what was found for programs; whether a prompt shows it is known for a task alone."""
    from ralph.memory.public import public_fields

    for place, one in enumerate(found, 1):
        why = whys[place - 1] if whys else None
        yield public_fields(one.memory) | {
            "score": one.score,
            "rank": place,
            "because": dict(one.because),
            "shown": why.is_shown if why else None,
            "reason": why.reason if why else None,
        }


def list_memories(project: Project, args: argparse.Namespace) -> None:
    """List memories, newest first."""
    from ralph.store.known_memories import Wanted

    wanted = _wanted(project, args)
    if args.shared:
        _list_shared(project.memory.shared(wanted, args.last), args)
        return
    found = project.memory.find(wanted, args.last)
    if args.format == "json":
        _print_json_list(found)
    elif args.format == "markdown":
        _print_markdown(found)
    elif found:
        from ralph.cli.memory_text import print_memories

        print_memories(found, with_state=args.state is not None, with_doubts=args.stale)
        if args.stale:
            print("Of one that still holds, say so: ralph memory confirm ID")
    elif wanted == Wanted(is_stale=True):
        print("No memory is stale: the files they name are as they were.")
    else:
        print("No memory matches." if wanted != Wanted() else "No memories yet. Add one with: ralph memory add TEXT")


def _list_shared(found: Sequence[SharedMemory], args: argparse.Namespace) -> None:
    from ralph.cli.memory_text import in_words
    from ralph.memory.public import public_fields

    if args.format == "json":
        print_json([public_fields(one.memory) | {"shared_from": one.project} for one in found])
    elif args.format == "markdown":
        _print_markdown([one.memory for one in found])
    elif found:
        rows = [(one.memory.id, one.memory.kind, one.project, in_words(one.memory)) for one in found]
        print_table(("ID", "TYPE", "FROM", "MEMORY"), rows)
    else:
        print("No shared memory matches. Share one with: ralph memory share ID")


def prime(project: Project, args: argparse.Namespace) -> None:
    """Print the memories to put before an agent; nothing when there are none."""
    from ralph.remembering import days_ago
    from ralph.store.known_memories import Wanted

    kinds = _known_kinds(project, args.kinds)
    wanted = Wanted(kinds=kinds, tags=args.tags, after=days_ago(args.recent) if args.recent else "")
    text = None if args.text is None else _content(args.text)
    found = project.memory.prime(wanted, args.budget, task_id=args.task, text=text)
    if args.format == "json":
        _print_json_list(found)
    elif args.format == "markdown":
        _print_markdown(found)
    elif found:
        from ralph.cli.memory_text import print_memories

        print_memories(found)
    else:
        print("There is nothing to tell: no memory has enough to do with it.")


def verify(project: Project, args: argparse.Namespace) -> int:
    """Check what is stored; 1 when something is wrong."""
    problems = project.memory.verify()
    if args.format == "json":
        print_json(problems)
    else:
        print("\n".join(map(safe, problems)) or "✓ All that is stored is undamaged.")
        if problems:
            print("To bring back a sound copy: ralph restore")
            print("To keep a memory that reads right: ralph memory edit ID --content TEXT")
    return 1 if problems else 0


def stats(project: Project, args: argparse.Namespace) -> None:
    """Count the memories."""
    found = project.memory.stats()
    if args.format == "json":
        print_json(found)
    else:
        from ralph.cli.memory_text import print_stats

        print_stats(found)


def cleanup(project: Project, args: argparse.Namespace) -> None:
    """Take memories out of use that are no longer worth their place."""
    removal = project.memory.cleanup(
        min_confidence=args.min_confidence,
        older_than_days=args.older_than,
        unused=args.unused,
        yes=args.yes,
        dry_run=args.dry_run,
    )
    _print_removal(removal, args, "taken out of use", "Nothing to clean up.")


def clear(project: Project, args: argparse.Namespace) -> None:
    """Take all memories out of use."""
    _print_removal(project.memory.clear(yes=args.yes), args, "taken out of use", "There are none.")


def consolidate(project: Project, args: argparse.Namespace) -> None:
    """Let one memory stand for its near-duplicates."""
    removal = project.memory.consolidate(yes=args.yes, dry_run=args.dry_run)
    _print_removal(removal, args, "put aside", "Nothing to consolidate.")


def embed(project: Project, args: argparse.Namespace) -> None:
    """Work out what memories mean, as far as it is not known yet."""

    def goes_on(done: int) -> bool:
        if sys.stderr.isatty():
            print(f"\r{plural(done, 'memory')} ", end="", file=sys.stderr, flush=True)
        return True

    made = project.memory.embed(goes_on)
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)
    known = "The meaning of every memory is known."
    print(f"Worked out what {plural(made, 'memory')} {'means' if made == 1 else 'mean'}. {known}" if made else known)


def _print_removal(removal: Removal, args: argparse.Namespace, done: str, nothing: str) -> None:
    from ralph.cli.memory_text import in_words

    if not removal.removed:
        print(nothing)
        return
    rows = [(memory.id, memory.kind, one_line(why, WIDEST_REASON), in_words(memory)) for memory, why in removal.removed]
    print_table(("ID", "TYPE", "WHY", "MEMORY"), rows)
    counted = f"{len(rows):,} of {plural(removal.present, 'memory')}"
    if args.dry_run:
        print(f"{counted} would be {done}. Nothing was changed.")
    else:
        print(f"{counted} {done}. To undo: {undoing(removal.change_id, args)}")


def watch(project: Project, args: argparse.Namespace) -> None:
    """Show what happens to memories, as it happens."""
    seconds = float("inf") if args.seconds is None else args.seconds
    for event, memory in project.memory.follow(args.since, seconds, _tell):
        _print_event(event, memory, args)


def _tell(sentence: str) -> None:
    print(safe(sentence), file=sys.stderr, flush=True)


def _print_event(event: MemoryEvent, memory: Memory | None, args: argparse.Namespace) -> None:
    if args.format == "json":
        import json

        fields = _event_fields(event) | {"title": memory.title if memory else None}
        print(json.dumps(fields, ensure_ascii=False), flush=True)
        return
    from ralph.cli.memory_text import change_of, in_words, when

    said = in_words(memory) if event.was is None and memory else change_of(event)
    print(f"{event.seq}  {when(event.at)}  {event.who} {event.what} {event.memory_id}: {safe(said)}", flush=True)


# --- files and other programs ----------------------------------------------------------------


def init(project: Project, args: argparse.Namespace) -> None:
    """Make the markdown file."""
    print(f"Memories file made: {project.memory.init_file(force=args.force)}")


def import_memories(project: Project, args: argparse.Namespace) -> int:
    """Take in memories from files, folders or a pipe."""
    from ralph.cli.transfer import import_memories

    return import_memories(project, args)


def export(project: Project, args: argparse.Namespace) -> None:
    """Write memories in a format for elsewhere."""
    from ralph.cli.transfer import export

    export(project, args, _wanted(project, args))


def merge(project: Project, args: argparse.Namespace) -> int:
    """Take in all memories of another project."""
    from ralph.cli.transfer import merge

    return merge(project, args)


# --- what is args, and how it is printed ----------------------------------------------------


def _wanted(project: Project, args: argparse.Namespace) -> Wanted:
    from ralph.store.known_memories import Wanted

    state = getattr(args, "state", None)
    states = tuple(State) if state == "all" else (State(state or State.ACTIVE),)
    if state is None and args.action == "export":
        from ralph.transferring import states_in

        states = states_in(args.format)
    return Wanted(
        kinds=_known_kinds(project, args.kinds),
        states=states,
        tags=args.tags,
        sources=(Source(args.source),) if args.source else (),
        task_type=getattr(args, "task_type", None),
        min_confidence=args.min_confidence,
        min_success_rate=getattr(args, "min_success_rate", 0.0),
        after=args.after or "",
        before=args.before or "",
        is_stale=getattr(args, "stale", False),
    )


def _known_kinds(project: Project, kinds: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(project.memory.known_kind(kind) for kind in kinds)


def _content(text: str) -> str:
    return read_text("-") if text == "-" else text


def _print_markdown(memories: Sequence[Memory]) -> None:
    from ralph.memory.prime import primed

    print(primed(memories), end="")


def _print_json(memory: Memory) -> None:
    from ralph.memory.public import public_fields

    print_json(public_fields(memory))


def _print_json_list(memories: Sequence[Memory]) -> None:
    from ralph.memory.public import public_fields

    print_json([public_fields(memory) for memory in memories])


def _event_fields(event: MemoryEvent) -> dict[str, object]:
    from ralph.cli.memory_text import changed_fields
    from ralph.records import fields_of

    changed = {name: {"was": was, "became": became} for name, (was, became) in changed_fields(event).items()}
    return {name: value for name, value in fields_of(event).items() if name not in ("was", "became")} | {
        "changed": changed
    }


def words_of(text: str) -> tuple[str, ...]:
    """Read words with commas between them, in lower case."""
    # Cleaned before it is made lower case: a key in small letters is no longer known as one.
    return tuple(dict.fromkeys(accept(word).lower() for word in text.split(",") if word.strip()))


def paths_of(text: str) -> tuple[str, ...]:
    """Read paths with commas between them."""
    return tuple(dict.fromkeys(path.strip() for path in text.split(",") if path.strip()))


def share(text: str) -> float:
    """Read a number from 0 to 1."""
    import argparse

    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"it must be a number from 0 to 1, not {text!r}")
    return value


def not_negative(text: str) -> int:
    """Read a whole number of 0 or more."""
    import argparse

    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise argparse.ArgumentTypeError(f"it must be a whole number of at most nine digits, not {text!r}")
    return int(text)


def moment(text: str) -> str:
    """Read a date or a date and time, in UTC unless it says otherwise."""
    import argparse

    from ralph.remembering import moment_said

    try:
        return moment_said(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
