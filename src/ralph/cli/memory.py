"""`ralph memory`: its actions and their arguments.

The handler of an action is named here and loaded when the action runs: agents run `ralph memory prime` at the start of
every session, which should not load the others.
"""

from __future__ import annotations

import argparse
import sys

from ralph.cli import load_command
from ralph.cli.output import action_adder, add_format_option, open_project, positive_count, print_file_problems
from ralph.core.errors import UsageError
from ralph.core.memory_types import MEMORY_KINDS
from ralph.core.records import MemorySource, MemoryState
from ralph.core.text import sanitize
from ralph.memory.recall.rankers import RANKERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Adder = Callable[..., argparse.ArgumentParser]

DEFAULT_SEARCH_LIMIT = 10
"""Number of search results listed by default."""
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
    "files",
)
"""Actions that change memories. They fail if the memory files cannot be updated."""
DEFAULT_CLEANUP_DAYS = 90
"""Default of `cleanup --older-than`, in days."""

EPILOG = """\
Examples:
  ralph memory add "ECONNREFUSED means: start docker" --type fix --tags docker
  ralph memory search docker --explain         explain the scores
  ralph memory search docker --episodes        past sessions and commits
  ralph memory prime --budget 2000             memories to put into a prompt
  ralph memory prime --for "flaky login test"  memories relevant to a text
  ralph memory import notes.md other-project/  files and directories
  ralph memory export > memories.jsonl         all memories and their history
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = EPILOG
    action = action_adder(parser, run)
    _add_entries(action)
    _add_views(action)
    _add_upkeep(action)
    _add_transfer(action)


def _add_entries(action: Adder) -> None:
    sub = action("add", "memory_add.add", "Add a memory")
    sub.add_argument("words", nargs="?", metavar="CONTENT", help="text of the memory; - reads standard input")
    sub.add_argument("--content", metavar="TEXT", help="the same as CONTENT")
    sub.add_argument("--type", "-t", dest="kind", metavar="TYPE", help=f"{', '.join(MEMORY_KINDS)} (default: pattern)")
    sub.add_argument("--title", help="title (default: the first sentence)")
    sub.add_argument("--tags", type=parse_words, default=(), help="comma-separated tags")
    sub.add_argument("--files", type=parse_paths, default=(), help="comma-separated files it is about")
    sub.add_argument("--confidence", type=parse_share, metavar="X", help="confidence from 0 to 1 (default: 0.6)")
    _add_project(sub)
    add_format_option(sub, "quiet", help="quiet prints only the id")

    sub = action("search", "memory_views.search", "Search memories, best match first")
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
    sub.add_argument(
        "--episodes", action="store_true", help="search past sessions, attempts and commits instead of memories"
    )
    sub.add_argument("--kind", choices=_LazyChoices(_episode_kinds), help="with --episodes: only passages of this kind")
    add_format_option(sub, "markdown")

    sub = action("list", "memory_views.list_memories", "List memories, newest first")
    _add_filters(sub)
    sub.add_argument("--last", type=positive_count("memories"), default=0, metavar="N", help="show only the newest N")
    _add_state(sub)
    sub.add_argument("--task-type", metavar="TYPE", help="only memories learned from tasks of this type")
    sub.add_argument(
        "--min-success-rate", type=parse_share, default=0.0, metavar="X", help="minimum success rate, from 0 to 1"
    )
    sub.add_argument("--shared", action="store_true", help="list memories shared with all projects in the database")
    sub.add_argument(
        "--stale", action="store_true", help="only memories whose files have changed or been deleted since"
    )
    add_format_option(sub, "markdown")

    sub = action("show", "memory_entries.show", "Show a memory in full")
    sub.add_argument("memory", metavar="ID", help="id of the memory, or of a passage of past work (ep-…)")
    _add_project(sub)
    add_format_option(sub, "markdown")

    sub = action("edit", "memory_entries.edit", "Edit a memory; without options, in your editor")
    sub.add_argument("memory", metavar="ID", help="id of the memory")
    sub.add_argument("--content", metavar="TEXT", help="new text; - reads standard input")
    sub.add_argument("--title", help="new title")
    sub.add_argument("--type", "-t", dest="kind", metavar="TYPE", help="new type")
    sub.add_argument("--tags", type=parse_words, help="new comma-separated tags; '' for none")
    sub.add_argument("--files", type=parse_paths, help="new comma-separated files; '' for none")
    sub.add_argument("--confidence", type=parse_share, metavar="X", help="new confidence from 0 to 1")
    sub.add_argument("--why", metavar="TEXT", default="", help="reason, recorded in the history")
    _add_project(sub)

    sub = action(
        "confirm", "memory_entries.confirm", "Confirm that memories still hold although their files have changed"
    )
    sub.add_argument("memory", nargs="+", metavar="ID", help="ids of the memories")
    sub.add_argument("--why", metavar="TEXT", default="", help="reason, recorded in the history")
    _add_project(sub)

    for name, description in (
        ("pin", "Pin a memory, or the rules of a passage (ep-…), to every prompt"),
        ("unpin", "Unpin a memory"),
    ):
        sub = action(name, f"memory_rules.{name}", description)
        sub.add_argument("memory", metavar="ID", help="id of the memory" + (" or passage" if name == "pin" else ""))
        sub.add_argument("--why", metavar="TEXT", default="", help="reason, recorded in the history")
        _add_project(sub)

    sub = action("delete", "memory_entries.delete", "Delete memories; undo restores them")
    sub.add_argument("memory", nargs="+", metavar="ID", help="ids of the memories")
    sub.add_argument("--why", metavar="TEXT", default="", help="reason, recorded in the history")
    _add_project(sub)


def _add_views(action: Adder) -> None:
    sub = action("prime", "memory_prime.prime", "Print the memories to put into a prompt")
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

    sub = action("rules", "memory_rules.list_rules", "List the standing rules that every prompt tells")
    _add_project(sub)
    add_format_option(sub)
    sub = action("conflicts", "memory_rules.conflicts", "List rules that contradict each other, and decide on them")
    sub.add_argument("--keep", metavar="ID", help="let this memory or passage take the place of what contradicts it")
    sub.add_argument("--why", metavar="TEXT", default="", help="reason, recorded in the history")
    _add_project(sub)
    add_format_option(sub)

    sub = action("init", "memory_maintenance.init", "Create the Markdown file of the memories, to edit and commit")
    sub.add_argument("--force", action="store_true", help="replace an existing file; the old one is kept as .bak")

    sub = action(
        "why", "memory_entries.explain", "Explain where a memory comes from, or why a prompt includes or omits it"
    )
    sub.add_argument("memory", metavar="ID", help="id of the memory, or of a passage of past work (ep-…)")
    sub.add_argument("--task", metavar="ID", help="say whether the prompt of this task includes it, and why")
    sub.add_argument("--prompt", metavar="TEXT", help="say whether a session is told it when you type this, and why")
    sub.add_argument(
        "--explain", action="store_true", help="with --task or --prompt: show its rank and how its score is computed"
    )
    _add_project(sub)
    add_format_option(sub)

    sub = action("history", "memory_entries.history", "Show the history of a memory")
    sub.add_argument("memory", metavar="ID", help="id of the memory")
    sub.add_argument("--confidence", action="store_true", help="show the confidence over time")
    _add_project(sub)
    add_format_option(sub)

    sub = action("undo", "memory_entries.undo", "Undo the latest change of a memory, or a change of several memories")
    sub.add_argument("memory", metavar="ID", help="id of a memory, or of a change of several memories (chg-…)")
    sub.add_argument(
        "--to", type=parse_non_negative, metavar="EVENT", help="undo everything after this event of its history"
    )
    sub.add_argument(
        "--only", type=parse_non_negative, metavar="EVENT", help="undo only this event; fails if others came after it"
    )
    _add_project(sub)

    sub = action("verify", "memory_maintenance.verify", "Check the stored memories for damage")
    _add_project(sub)
    add_format_option(sub)
    sub = action("stats", "memory_maintenance.stats", "Show statistics about the memories")
    _add_project(sub)
    add_format_option(sub)


def _add_upkeep(action: Adder) -> None:
    sub = action(
        "files",
        "memory_maintenance.files",
        "Show memories whose file went back to an older version, and decide on them",
    )
    sub.add_argument(
        "choice",
        nargs="?",
        choices=("show", "restore", "accept"),
        default="show",
        help="restore writes the files again, accept takes them as they are (default: show)",
    )
    add_format_option(sub)

    sub = action("clear", "memory_maintenance.clear", "Delete all memories; one undo restores them")
    sub.add_argument("--yes", action="store_true", help="required, because this deletes all memories")
    _add_project(sub)
    sub.set_defaults(dry_run=False)

    sub = action("cleanup", "memory_maintenance.cleanup", "Delete memories that are old, unused and of low confidence")
    sub.add_argument(
        "--min-confidence", type=parse_share, metavar="X", help="delete those with a lower confidence or success rate"
    )
    sub.add_argument(
        "--older-than",
        type=parse_non_negative,
        nargs="?",
        const=DEFAULT_CLEANUP_DAYS,
        metavar="DAYS",
        help=f"delete those not changed or used for this long (without a number: {DEFAULT_CLEANUP_DAYS} days)",
    )
    sub.add_argument("--unused", action="store_true", help="delete those that were never used")
    _add_caution(sub)
    _add_project(sub)
    sub = action("consolidate", "memory_maintenance.consolidate", "Merge near-duplicate memories")
    _add_caution(sub)
    _add_project(sub)
    action("embed", "memory_maintenance.embed", "Compute embeddings for semantic search (extra: semantic)")


class _LazyChoices:
    """Choices that are loaded when they are listed: most actions never do."""

    def __init__(self, load: Callable[[], Iterable[str]]) -> None:
        self._load = load

    def __iter__(self) -> Iterator[str]:
        return iter(self._load())


def _import_formats() -> Iterable[str]:
    from ralph.formats.registry import import_formats

    return import_formats()


def _export_formats() -> Iterable[str]:
    from ralph.formats.registry import export_formats

    return export_formats()


def _episode_kinds() -> Iterable[str]:
    from ralph.core.records import EpisodeKind

    return EpisodeKind


def _add_transfer(action: Adder) -> None:
    sub = action("import", "transfer.import_memories", "Import memories from files, directories or other programs")
    sub.add_argument("path", nargs="*", metavar="PATH", help="files or directories (default: -, standard input)")
    sub.add_argument("--stage", action="store_true", help="stage them for review instead of activating them")
    sub.add_argument("--force", action="store_true", help="import even if a checksum does not match")
    sub.add_argument(
        "--from", dest="form", choices=_LazyChoices(_import_formats), help="format, if it cannot be detected"
    )
    sub.add_argument("--dry-run", action="store_true", help="show what would be imported, and change nothing")
    _add_project(sub)
    add_format_option(sub)

    sub = action("export", "memory_views.export", "Export memories in an exchange format")
    sub.add_argument("--to", metavar="FILE", help="output file (default: standard output)")
    sub.add_argument(
        "--format",
        choices=_LazyChoices(_export_formats),
        default="bundle",
        help="bundle includes the history (default: bundle)",
    )
    sub.add_argument("--force", action="store_true", help="overwrite existing files")
    _add_filters(sub)
    _add_state(sub)

    sub = action("merge", "transfer.merge", "Import all memories of another project")
    sub.add_argument("path", metavar="PATH", help="its directory or database, or anything import can read")
    add_format_option(sub)

    sub = action(
        "share", "memory_entries.share", "Share memories with all projects in the database, or update shared ones"
    )
    sub.add_argument("memory", nargs="+", metavar="ID", help="ids of the memories")
    _add_project(sub)
    sub = action(
        "unshare",
        "memory_entries.unshare",
        "Stop sharing memories; projects that used them keep their copies",
    )
    sub.add_argument("memory", nargs="+", metavar="ID", help="ids of the memories")
    _add_project(sub)

    sub = action("watch", "memory_views.watch", "Show changes of memories as they happen")
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


def run(args: argparse.Namespace) -> int:
    """Run the action, then print problems with the memory files."""
    module, _, function = args.do.partition(".")
    handler = getattr(load_command(module), function)
    with open_project(args) as opened:
        other = getattr(args, "project", None)
        project = opened if other is None else opened.open_other(other)
        with project.synced():
            code = handler(project, args) or 0
        print_file_problems(project, in_full=args.action in _WRITE_ACTIONS)
        if project.files.is_unwritten and args.action in _WRITE_ACTIONS:
            print("The change is stored and will be written to the files by the next command.", file=sys.stderr)
            return 1
    return code


def parse_words(text: str) -> tuple[str, ...]:
    """Parse a comma-separated list of words, in lower case."""
    # Secrets are redacted before lowercasing: a lowercased key would not be recognized.
    return tuple(dict.fromkeys(sanitize(word).lower() for word in text.split(",") if word.strip()))


def parse_paths(text: str) -> tuple[str, ...]:
    """Parse a comma-separated list of paths."""
    return tuple(dict.fromkeys(path.strip() for path in text.split(",") if path.strip()))


def parse_share(text: str) -> float:
    """Parse a number from 0 to 1."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"must be a number from 0 to 1, not {text!r}")
    return value


def parse_non_negative(text: str) -> int:
    """Parse an integer of 0 or more."""
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise argparse.ArgumentTypeError(f"must be an integer from 0 to 999999999, not {text!r}")
    return int(text)


def parse_date(text: str) -> str:
    """Parse a date, or a date and time. Without a time zone it is UTC."""
    from ralph.memory.validation import parse_date

    try:
        return parse_date(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
