"""`ralph memory`."""

from __future__ import annotations

import sys

from ralph.cli.output import (
    action_adder,
    add_format_option,
    open_project,
    pluralize,
    positive_count,
    print_file_problems,
    print_json,
    print_table,
    printable,
    read_input_text,
    undo_command,
)
from ralph.core.errors import UsageError
from ralph.core.memory_types import MEMORY_KINDS
from ralph.core.paging import Page
from ralph.core.records import MemorySource, MemoryState
from ralph.core.text import one_line, sanitize
from ralph.memory.recall.rankers import RANKERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    from ralph.core.records import Memory, MemoryEvent, RecalledMemory
    from ralph.loop.prompts import Explanation
    from ralph.memory.maintenance import Removal
    from ralph.memory.sharing import SharedMemory
    from ralph.project import Project
    from ralph.store.memory_queries import MemoryFilter

    Adder = Callable[..., argparse.ArgumentParser]

DEFAULT_SEARCH_LIMIT = 10
"""Number of memories listed by default."""
MAX_REASON_LENGTH = 60
"""Maximum length of a reason in a table, in characters."""
_WRITE_ACTIONS = (
    "add",
    "edit",
    "confirm",
    "delete",
    "init",
    "import",
    "merge",
    "undo",
    "clear",
    "cleanup",
    "consolidate",
)
"""Actions that change memories. They fail if the memory files cannot be updated."""
DEFAULT_CLEANUP_DAYS = 90
"""Default of `cleanup --older-than`, in days."""

EPILOG = """\
Examples:
  ralph memory add "ECONNREFUSED means: start docker" --type fix --tags docker
  ralph memory search docker --explain         explain the scores
  ralph memory prime --budget 2000             memories to put into a prompt
  ralph memory prime --for "flaky login test"  memories relevant to a text
  ralph memory import notes.md other-project/  files and directories
  ralph memory export > memories.jsonl         all memories and their history
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = EPILOG
    action = action_adder(parser.add_subparsers(dest="action", metavar="ACTION", required=True), run)
    _add_entries(action)
    _add_views(action)
    _add_upkeep(action)
    _add_transfer(action)


def _add_entries(action: Adder) -> None:
    sub = action("add", add, "Add a memory")
    sub.add_argument("words", nargs="?", metavar="CONTENT", help="text of the memory; - reads standard input")
    sub.add_argument("--content", metavar="TEXT", help="the same as CONTENT")
    sub.add_argument("--type", "-t", dest="kind", metavar="TYPE", help=f"{', '.join(MEMORY_KINDS)} (default: pattern)")
    sub.add_argument("--title", help="title (default: the first sentence)")
    sub.add_argument("--tags", type=parse_words, default=(), help="comma-separated tags")
    sub.add_argument("--files", type=parse_paths, default=(), help="comma-separated files it is about")
    sub.add_argument("--confidence", type=parse_share, metavar="X", help="confidence from 0 to 1 (default: 0.6)")
    _add_project(sub)
    sub.add_argument(
        "--format",
        choices=("table", "json", "quiet"),
        default="table",
        help="quiet prints only the id (default: table)",
    )

    sub = action("search", search, "Search memories, best match first")
    sub.add_argument(
        "query", nargs="*", metavar="QUERY", help="words to search for (default: show the newest memories)"
    )
    _add_filters(sub)
    sub.add_argument("--all", action="store_true", help=f"show all matches, not only the best {DEFAULT_SEARCH_LIMIT}")
    sub.add_argument("--ranker", choices=tuple(RANKERS), help="use another ranking formula")
    sub.add_argument(
        "--task", metavar="ID", help="also match the text of this task; --explain shows why its prompt omits a memory"
    )
    sub.add_argument("--explain", action="store_true", help="show how each score is computed")
    _add_text_format(sub)

    sub = action("list", list_memories, "List memories, newest first")
    _add_filters(sub)
    sub.add_argument("--last", type=positive_count("memories"), default=0, metavar="N", help="show only the newest N")
    _add_state(sub)
    sub.add_argument("--task-type", metavar="TYPE", help="only memories learned from tasks of this type")
    sub.add_argument(
        "--min-success-rate", type=parse_share, default=0.0, metavar="X", help="minimum success rate, from 0 to 1"
    )
    sub.add_argument("--shared", action="store_true", help="memories shared with all projects in the database")
    sub.add_argument(
        "--stale", action="store_true", help="only memories whose files have changed or been deleted since"
    )
    _add_text_format(sub)

    sub = action("show", show, "Show a memory in full")
    sub.add_argument("memory", metavar="ID", help="id of the memory")
    _add_project(sub)
    _add_text_format(sub)

    sub = action("edit", edit, "Edit a memory; without options, in your editor")
    sub.add_argument("memory", metavar="ID", help="id of the memory")
    sub.add_argument("--content", metavar="TEXT", help="new text; - reads standard input")
    sub.add_argument("--title", help="new title")
    sub.add_argument("--type", "-t", dest="kind", metavar="TYPE", help="new type")
    sub.add_argument("--tags", type=parse_words, help="new comma-separated tags; '' for none")
    sub.add_argument("--files", type=parse_paths, help="new comma-separated files; '' for none")
    sub.add_argument("--confidence", type=parse_share, metavar="X", help="new confidence from 0 to 1")
    sub.add_argument("--why", metavar="TEXT", default="", help="reason, recorded in the history")
    _add_project(sub)

    sub = action("confirm", confirm, "Confirm that memories still hold although their files have changed")
    sub.add_argument("memory", nargs="+", metavar="ID", help="ids of the memories")
    sub.add_argument("--why", metavar="TEXT", default="", help="reason, recorded in the history")
    _add_project(sub)

    sub = action("delete", delete, "Delete memories; undo restores them")
    sub.add_argument("memory", nargs="+", metavar="ID", help="ids of the memories")
    sub.add_argument("--why", metavar="TEXT", default="", help="reason, recorded in the history")
    _add_project(sub)


def _add_views(action: Adder) -> None:
    sub = action("prime", prime, "Print the memories to put into a prompt")
    sub.add_argument(
        "--budget",
        type=parse_non_negative,
        default=0,
        metavar="TOKENS",
        help="maximum number of tokens (default: no limit)",
    )
    sub.add_argument(
        "--type", "-t", dest="kinds", metavar="TYPES", type=parse_words, default=(), help="comma-separated types"
    )
    sub.add_argument("--tags", type=parse_words, default=(), help="comma-separated tags; any of them matches")
    sub.add_argument(
        "--recent", type=parse_non_negative, default=0, metavar="DAYS", help="only memories of the last N days"
    )
    sub.add_argument("--task", metavar="ID", help="only memories that a prompt for this task would include")
    sub.add_argument(
        "--for", dest="text", metavar="TEXT", help="only memories relevant to this text; - reads standard input"
    )
    _add_project(sub)
    sub.add_argument(
        "--format", choices=("markdown", "json", "table"), default="markdown", help="output format (default: markdown)"
    )

    sub = action("init", init, "Create the Markdown file of the memories, to edit and commit")
    sub.add_argument("--force", action="store_true", help="replace an existing file; the old one is kept as .bak")

    sub = action("why", explain_memory, "Explain where a memory comes from, or why a prompt includes or omits it")
    sub.add_argument("memory", metavar="ID", help="id of the memory")
    sub.add_argument("--task", metavar="ID", help="show its score and rank for this task")
    _add_project(sub)
    add_format_option(sub)

    sub = action("history", history, "Show the history of a memory")
    sub.add_argument("memory", metavar="ID", help="id of the memory")
    sub.add_argument("--confidence", action="store_true", help="show the confidence over time")
    _add_project(sub)
    add_format_option(sub)

    sub = action("undo", undo, "Undo the latest change of a memory, or a change of several memories")
    sub.add_argument("memory", metavar="ID", help="id of a memory, or of a change of several memories (chg-…)")
    sub.add_argument(
        "--to", type=parse_non_negative, metavar="EVENT", help="undo everything after this event of its history"
    )
    sub.add_argument(
        "--only", type=parse_non_negative, metavar="EVENT", help="undo only this event; fails if others came after it"
    )
    _add_project(sub)

    sub = action("verify", verify, "Check the stored memories for damage")
    _add_project(sub)
    add_format_option(sub)
    sub = action("stats", stats, "Show statistics about the memories")
    _add_project(sub)
    add_format_option(sub)


def _add_upkeep(action: Adder) -> None:
    sub = action("clear", clear, "Delete all memories; one undo restores them")
    sub.add_argument("--yes", action="store_true", help="required, because this deletes all memories")
    _add_project(sub)
    sub.set_defaults(dry_run=False)

    sub = action("cleanup", cleanup, "Delete memories that are old, unused and of low confidence")
    sub.add_argument(
        "--min-confidence", type=parse_share, metavar="X", help="delete those with a lower confidence or success rate"
    )
    sub.add_argument(
        "--older-than",
        type=parse_non_negative,
        nargs="?",
        const=DEFAULT_CLEANUP_DAYS,
        metavar="DAYS",
        help=f"delete those not changed or used for so many days (without a number: {DEFAULT_CLEANUP_DAYS})",
    )
    sub.add_argument("--unused", action="store_true", help="delete those that were never used")
    _add_caution(sub)
    _add_project(sub)
    sub = action("consolidate", consolidate, "Merge near-duplicate memories")
    _add_caution(sub)
    _add_project(sub)
    action("embed", embed, "Compute embeddings for semantic search (extra: semantic)")


class _FormatNames:
    """Names of the file formats, loaded when they are needed: most actions do not list them."""

    def __init__(self, *, can_export: bool = False) -> None:
        self._can_export = can_export

    def __iter__(self) -> Iterator[str]:
        from ralph.formats.registry import export_formats, import_formats

        return iter(export_formats() if self._can_export else import_formats())


def _add_transfer(action: Adder) -> None:
    sub = action("import", import_memories, "Import memories from files, directories or other programs")
    sub.add_argument("path", nargs="*", metavar="PATH", help="files or directories (default: -, standard input)")
    sub.add_argument("--stage", action="store_true", help="stage them for review instead of activating them")
    sub.add_argument("--force", action="store_true", help="import even if a checksum does not match")
    sub.add_argument("--from", dest="form", choices=_FormatNames(), help="format, if it cannot be detected")
    _add_project(sub)
    add_format_option(sub)

    sub = action("export", export, "Export memories in an exchange format")
    sub.add_argument("--to", metavar="FILE", help="output file (default: standard output)")
    sub.add_argument(
        "--format",
        choices=_FormatNames(can_export=True),
        default="bundle",
        help="bundle includes the history (default: bundle)",
    )
    sub.add_argument("--force", action="store_true", help="overwrite existing files")
    _add_filters(sub)
    _add_state(sub)

    sub = action("merge", merge, "Import all memories of another project")
    sub.add_argument("path", metavar="PATH", help="its directory or database, or anything import can read")
    add_format_option(sub)

    sub = action("share", share_memories, "Share memories with all projects in the database, or update shared ones")
    sub.add_argument("memory", nargs="+", metavar="ID", help="ids of the memories")
    _add_project(sub)
    sub = action(
        "unshare", unshare_memories, "Stop sharing memories; projects that used or edited them keep their copies"
    )
    sub.add_argument("memory", nargs="+", metavar="ID", help="ids of the memories")
    _add_project(sub)

    sub = action("watch", watch, "Show changes of memories as they happen")
    sub.add_argument("--since", type=parse_non_negative, metavar="EVENT", help="start after this event (default: now)")
    sub.add_argument(
        "--for",
        dest="seconds",
        type=parse_non_negative,
        metavar="SECONDS",
        help="stop after this time (default: until Ctrl+C)",
    )
    add_format_option(sub)


def _add_filters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--type",
        "-t",
        dest="kinds",
        metavar="TYPES",
        type=parse_words,
        default=(),
        help="only these comma-separated types",
    )
    parser.add_argument("--tags", type=parse_words, default=(), help="only with any of these comma-separated tags")
    parser.add_argument("--after", type=parse_date, metavar="DATE", help="only created at this time (UTC) or later")
    parser.add_argument("--before", type=parse_date, metavar="DATE", help="only created at this time (UTC) or earlier")
    parser.add_argument(
        "--min-confidence", type=parse_share, default=0.0, metavar="X", help="minimum confidence, from 0 to 1"
    )
    parser.add_argument("--source", choices=tuple(MemorySource), help="only from this source")
    _add_project(parser)


def _add_state(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--state", choices=(*MemoryState, "all"), help="only in this state (default: active)")


def _add_project(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--project", metavar="NAME", help="use another project in the same database")


def _add_caution(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="show what would change, without changing anything")
    parser.add_argument(
        "--yes", "-y", action="store_true", help="proceed even if more than a fifth of all memories is affected"
    )


def _add_text_format(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--format", choices=("table", "json", "markdown"), default="table", help="output format (default: table)"
    )


def run(args: argparse.Namespace) -> int:
    """Run the action, then print problems with the memory files."""
    with open_project(args) as opened:
        other = getattr(args, "project", None)
        project = opened if other is None else opened.open_other(other)
        with project.synced():
            code = args.do(project, args) or 0
        print_file_problems(project, in_full=args.action in _WRITE_ACTIONS)
        if project.files.is_unwritten and args.action in _WRITE_ACTIONS:
            print("The change is stored and will be written to the files by the next command.", file=sys.stderr)
            return 1
    return code


# --- one memory ------------------------------------------------------------------------------


def add(project: Project, args: argparse.Namespace) -> None:
    """Add a memory."""
    if (args.words is None) == (args.content is None):
        raise UsageError("Pass the text of the memory exactly once: ralph memory add CONTENT")
    result = project.memory.add(
        _content(args.words if args.content is None else args.content),
        type=args.kind,
        title=args.title or "",
        tags=args.tags,
        files=args.files,
        confidence=args.confidence,
    )
    memory = result.memory
    if args.format == "json":
        _print_json(memory)
    elif args.format == "quiet":
        print(memory.id)
    elif result.what == "added":
        print(f"📝 Memory stored: {memory.id}")
    elif result.what == "revived":
        print(f"📝 Memory restored: {memory.id}")
    else:
        print(f"📝 Already known: {memory.id} (learned {pluralize(memory.support, 'time')})")


def show(project: Project, args: argparse.Namespace) -> None:
    """Show a memory in full."""
    view = project.memory.show(args.memory)
    if args.format == "json":
        from ralph.formats.public_memory import public_fields

        extra = {
            "confidence_now": view.confidence,
            "links": dict(view.links),
            "linked_from": [other.id for other in view.linked_from],
            "shown_to": view.shown_to,
        }
        print_json(public_fields(view.memory) | extra)
    elif args.format == "markdown":
        from ralph.cli.memory_text import print_markdown_entry

        print_markdown_entry(view.memory)
    else:
        from ralph.cli.memory_text import print_memory

        print_memory(view)


def edit(project: Project, args: argparse.Namespace) -> None:
    """Edit a memory, by options or in an editor."""
    changes = {name: getattr(args, name) for name in ("title", "tags", "files", "confidence")} | {"type": args.kind}
    body = _content(args.content) if args.content is not None else None
    if body is None and all(value is None for value in changes.values()):
        body = _from_editor(project, args.memory)
        if body is None:
            print("Nothing was changed.")
            return
    memory = project.memory.edit(args.memory, content=body, why=args.why, **changes).memory
    print(f"Memory updated: {memory.id}")
    print(f"To undo: {undo_command(memory.id, args)}")


def _from_editor(project: Project, id: str) -> str | None:
    """Open the text of a memory in an editor. Return None if it was not changed."""
    from ralph.cli.editor import edit_text, is_interactive

    if not is_interactive():
        raise UsageError("Nothing to change. Use --content, --title, --type, --tags, --files or --confidence.")
    body = project.memory.show(id).memory.body
    new_body = edit_text(body)
    return new_body if new_body != body else None


def confirm(project: Project, args: argparse.Namespace) -> None:
    """Confirm that memories still hold."""
    for before, _ in project.memory.confirm(*args.memory, why=args.why):
        doubts = f", although {printable(before.stale)}" if before.stale else ""
        print(f"✓ Memory confirmed: {before.id}{doubts}")


def delete(project: Project, args: argparse.Namespace) -> None:
    """Delete memories."""
    deleted, change = project.memory.delete(*args.memory, why=args.why)
    for memory in deleted:
        print(f"🗑️  Memory deleted: {memory.id}")
    print(f"To undo: {undo_command(deleted[0].id if len(deleted) == 1 else change, args)}")


def explain_memory(project: Project, args: argparse.Namespace) -> None:
    """Explain where a memory comes from, or how it scores for a task."""
    from ralph.cli.memory_text import print_origin, print_why
    from ralph.formats.public_memory import public_fields

    if args.task:
        found = project.prompts.explain(args.memory, args.task)
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
        print_origin(view, events)


def history(project: Project, args: argparse.Namespace) -> None:
    """Show the history of a memory, or its confidence over time."""
    from ralph.cli.memory_text import print_confidence_history, print_history

    if args.confidence:
        points = project.memory.confidence_over_time(args.memory)
        if args.format == "json":
            print_json(points)
        else:
            print_confidence_history(points)
        return
    events = project.memory.history(args.memory)
    if args.format == "json":
        print_json([_event_fields(event) for event in events])
    else:
        print_history(events)


def undo(project: Project, args: argparse.Namespace) -> None:
    """Undo changes of one memory, or one change of several."""
    undone = project.memory.undo(args.memory, to=args.to, only=args.only)
    for memory in undone[:DEFAULT_SEARCH_LIMIT]:
        print(f"Undone: {memory.id} is {memory.state}: {printable(memory.title)}")
    if len(undone) > DEFAULT_SEARCH_LIMIT:
        print(f"… and {pluralize(len(undone) - DEFAULT_SEARCH_LIMIT, 'more memory')}.")


# --- shared memories -------------------------------------------------------------------------


def share_memories(project: Project, args: argparse.Namespace) -> None:
    """Share memories with all projects in the database."""
    messages = {"added": "Memory shared", "revived": "Memory shared again", "edited": "Shared memory updated"}
    for result in project.memory.sharing.share(*args.memory):
        print(f"{messages.get(result.what, 'Already shared')}: {result.memory.id}")
    print("Other projects in this database receive it with their next command. To undo: ralph memory unshare ID")


def unshare_memories(project: Project, args: argparse.Namespace) -> None:
    """Stop sharing memories."""
    for memory in project.memory.sharing.unshare(*args.memory):
        print(f"No longer shared: {memory.id}")


# --- several memories ------------------------------------------------------------------------


def search(project: Project, args: argparse.Namespace) -> None:
    """Search memories, best match first."""
    limit = DEFAULT_SEARCH_LIMIT if args.format == "table" and not args.all else sys.maxsize - 1
    hits = project.memory.search(
        " ".join(args.query), _filter_from(project, args), limit + 1, ranker=args.ranker or "", task_id=args.task
    )
    shown = hits[:limit]
    memories = [hit.memory for hit in shown]
    needs_reasons = args.task and (args.explain or args.format == "json")
    whys = project.prompts.explain_all(memories, args.task) if needs_reasons else []
    if args.format == "json":
        print_json(list(_hit_fields(shown, whys)))
    elif args.format == "markdown":
        _print_markdown(memories)
    elif shown:
        from ralph.cli.memory_text import print_hits, print_scored_hits

        if args.explain:
            print_scored_hits(shown, whys)
        else:
            print_hits(shown)
        if len(hits) > len(shown):
            print(f"Showing the best {len(shown)}. Use --all to show all.")
    else:
        print("No memory matches.")


def _hit_fields(hits: Sequence[RecalledMemory], whys: Sequence[Explanation]) -> Iterator[dict[str, object]]:
    """Return search results for JSON output. `shown` and `reason` are only known for a task."""
    from ralph.formats.public_memory import public_fields

    for rank, hit in enumerate(hits, 1):
        why = whys[rank - 1] if whys else None
        yield public_fields(hit.memory) | {
            "score": hit.score,
            "rank": rank,
            "because": dict(hit.because),
            "shown": why.is_shown if why else None,
            "reason": why.reason if why else None,
        }


def list_memories(project: Project, args: argparse.Namespace) -> None:
    """List memories, newest first."""
    from ralph.store.memory_queries import MemoryFilter

    filter = _filter_from(project, args)
    if args.shared:
        _list_shared(project.memory.sharing.list(filter, args.last), args)
        return
    if args.stale:
        project.memory.maintenance.update_staleness()
    found = project.memory.list(filter, Page(limit=args.last) if args.last else None)
    if args.format == "json":
        _print_json_list(found)
    elif args.format == "markdown":
        _print_markdown(found)
    elif found:
        from ralph.cli.memory_text import print_memories

        print_memories(found, with_state=args.state is not None, with_staleness=args.stale)
        if args.stale:
            print("To confirm a memory that still holds: ralph memory confirm ID")
    elif filter == MemoryFilter(is_stale=True):
        print("No stale memories: none of their files have changed.")
    else:
        print(
            "No memory matches." if filter != MemoryFilter() else "No memories yet. Add one with: ralph memory add TEXT"
        )


def _list_shared(memories: Sequence[SharedMemory], args: argparse.Namespace) -> None:
    from ralph.cli.memory_text import summary_line
    from ralph.formats.public_memory import public_fields

    if args.format == "json":
        print_json([public_fields(shared.memory) | {"shared_from": shared.project} for shared in memories])
    elif args.format == "markdown":
        _print_markdown([shared.memory for shared in memories])
    elif memories:
        rows = [
            (shared.memory.id, shared.memory.kind, shared.project, summary_line(shared.memory)) for shared in memories
        ]
        print_table(("ID", "TYPE", "FROM", "MEMORY"), rows)
    else:
        print("No shared memory matches. Share one with: ralph memory share ID")


def prime(project: Project, args: argparse.Namespace) -> None:
    """Print the memories to put into a prompt, or nothing if there are none."""
    from ralph.memory.validation import days_ago
    from ralph.store.memory_queries import MemoryFilter

    kinds = _known_kinds(project, args.kinds)
    filter = MemoryFilter(kinds=kinds, tags=args.tags, after=days_ago(args.recent) if args.recent else "")
    text = None if args.text is None else _content(args.text)
    found = project.memory.prime(filter, args.budget, task_id=args.task, text=text)
    if args.format == "json":
        _print_json_list(found)
    elif args.format == "markdown":
        _print_markdown(found)
    elif found:
        from ralph.cli.memory_text import print_memories

        print_memories(found)
    else:
        print("No memory is relevant enough.")


def verify(project: Project, args: argparse.Namespace) -> int:
    """Check the stored memories for damage. Returns 1 if any is damaged."""
    problems = project.memory.maintenance.verify()
    if args.format == "json":
        print_json(problems)
    else:
        print("\n".join(map(printable, problems)) or "✓ No damage found.")
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
        from ralph.cli.memory_text import print_stats

        print_stats(found)


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


def embed(project: Project, args: argparse.Namespace) -> None:
    """Compute the missing embeddings of memories."""

    def show_progress(done: int) -> bool:
        if sys.stderr.isatty():
            print(f"\r{pluralize(done, 'memory')} ", end="", file=sys.stderr, flush=True)
        return True

    made = project.memory.maintenance.embed(show_progress)
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)
    up_to_date = "All memories have embeddings."
    print(f"Computed {pluralize(made, 'embedding')}. {up_to_date}" if made else up_to_date)


def _print_removal(removal: Removal, args: argparse.Namespace, participle: str, nothing: str) -> None:
    from ralph.cli.memory_text import summary_line

    if not removal.removed:
        print(nothing)
        return
    rows = [
        (memory.id, memory.kind, one_line(why, MAX_REASON_LENGTH), summary_line(memory))
        for memory, why in removal.removed
    ]
    print_table(("ID", "TYPE", "WHY", "MEMORY"), rows)
    count = f"{len(rows):,} of {pluralize(removal.present, 'memory')}"
    if args.dry_run:
        print(f"{count} would be {participle}. Nothing was changed.")
    else:
        print(f"{count} {participle}. To undo: {undo_command(removal.change_id, args)}")


def watch(project: Project, args: argparse.Namespace) -> None:
    """Show changes of memories as they happen."""
    seconds = float("inf") if args.seconds is None else args.seconds
    for event, memory in project.memory.events.follow(args.since, seconds, _print_status, project.files.sync):
        _print_event(event, memory, args)


def _print_status(sentence: str) -> None:
    print(printable(sentence), file=sys.stderr, flush=True)


def _print_event(event: MemoryEvent, memory: Memory | None, args: argparse.Namespace) -> None:
    if args.format == "json":
        import json

        fields = _event_fields(event) | {"title": memory.title if memory else None}
        print(json.dumps(fields, ensure_ascii=False), flush=True)
        return
    from ralph.cli.memory_text import format_datetime, summarize_event, summary_line

    text = summary_line(memory) if event.was is None and memory else summarize_event(event)
    print(
        f"{event.seq}  {format_datetime(event.at)}  {event.who} {event.what} {event.memory_id}: {printable(text)}",
        flush=True,
    )


# --- import and export -----------------------------------------------------------------------


def init(project: Project, args: argparse.Namespace) -> None:
    """Create the Markdown file of the memories."""
    print(f"Memories file created: {project.files.create(force=args.force)}")


def import_memories(project: Project, args: argparse.Namespace) -> int:
    """Import memories from files, directories or standard input."""
    from ralph.cli.transfer import import_memories

    return import_memories(project, args)


def export(project: Project, args: argparse.Namespace) -> None:
    """Export memories in an exchange format."""
    from ralph.cli.transfer import export

    export(project, args, _filter_from(project, args))


def merge(project: Project, args: argparse.Namespace) -> int:
    """Import all memories of another project."""
    from ralph.cli.transfer import merge

    return merge(project, args)


# --- arguments and output --------------------------------------------------------------------


def _filter_from(project: Project, args: argparse.Namespace) -> MemoryFilter:
    from ralph.store.memory_queries import MemoryFilter

    state = getattr(args, "state", None)
    states = tuple(MemoryState) if state == "all" else (MemoryState(state or MemoryState.ACTIVE),)
    if state is None and args.action == "export":
        from ralph.formats.registry import FORMATS

        states = FORMATS[args.format].exported_states
    return MemoryFilter(
        kinds=_known_kinds(project, args.kinds),
        states=states,
        tags=args.tags,
        sources=(MemorySource(args.source),) if args.source else (),
        task_type=getattr(args, "task_type", None),
        min_confidence=args.min_confidence,
        min_success_rate=getattr(args, "min_success_rate", 0.0),
        after=args.after or "",
        before=args.before or "",
        is_stale=getattr(args, "stale", False),
    )


def _known_kinds(project: Project, kinds: tuple[str, ...]) -> tuple[str, ...]:
    from ralph.memory.validation import check_type

    return tuple(check_type(kind, lambda: project.store.memories.stats.counts("kind")) for kind in kinds)


def _content(text: str) -> str:
    return read_input_text("-") if text == "-" else text


def _print_markdown(memories: Sequence[Memory]) -> None:
    from ralph.memory.recall.prime import render_primer

    print(render_primer(memories), end="")


def _print_json(memory: Memory) -> None:
    from ralph.formats.public_memory import public_fields

    print_json(public_fields(memory))


def _print_json_list(memories: Sequence[Memory]) -> None:
    from ralph.formats.public_memory import public_fields

    print_json([public_fields(memory) for memory in memories])


def _event_fields(event: MemoryEvent) -> dict[str, object]:
    from ralph.cli.memory_text import changed_fields
    from ralph.core.records import record_fields

    changed = {name: {"was": was, "became": became} for name, (was, became) in changed_fields(event).items()}
    return {name: value for name, value in record_fields(event).items() if name not in ("was", "became")} | {
        "changed": changed
    }


def parse_words(text: str) -> tuple[str, ...]:
    """Parse a comma-separated list of words, in lower case."""
    # Secrets are redacted before lowercasing: a lowercased key would not be recognized.
    return tuple(dict.fromkeys(sanitize(word).lower() for word in text.split(",") if word.strip()))


def parse_paths(text: str) -> tuple[str, ...]:
    """Parse a comma-separated list of paths."""
    return tuple(dict.fromkeys(path.strip() for path in text.split(",") if path.strip()))


def parse_share(text: str) -> float:
    """Parse a number from 0 to 1."""
    import argparse

    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"must be a number from 0 to 1, not {text!r}")
    return value


def parse_non_negative(text: str) -> int:
    """Parse an integer of 0 or more."""
    import argparse

    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise argparse.ArgumentTypeError(f"must be an integer from 0 to 999999999, not {text!r}")
    return int(text)


def parse_date(text: str) -> str:
    """Parse a date, or a date and time. Without a time zone it is UTC."""
    import argparse

    from ralph.memory.validation import parse_date

    try:
        return parse_date(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
