"""`ralph learn`."""

from __future__ import annotations

import sys

from ralph.cli.output import (
    add_format,
    adder_of,
    open_project,
    plural,
    print_file_problems,
    print_json,
    print_table,
    read_text,
    safe,
)
from ralph.errors import UsageError
from ralph.memory.staging import STATUSES

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from ralph.loop.promotion import Counts
    from ralph.project import Project
    from ralph.records import Memory
    from ralph.store.memories import Kept

KEYS = """\
  y  keep it
  n  reject it; you may say why
  e  keep it in other words
  s  leave it for later
  q  stop here; what is decided stays so"""

EPILOG = """\
What runs teach is extracted when they end, checked against rules, and kept.
With `review = true` under [memories] in .ralph.toml it waits for you:
  ralph learn review
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = EPILOG
    action = adder_of(parser.add_subparsers(dest="action", metavar="ACTION", required=True), run)

    one = action("extract", extract, "Draw learnings from a run, a loop's state file or a role's last words")
    one.add_argument("--run", metavar="ID", help="default: the latest")
    one.add_argument(
        "--state", metavar="FILE", help="the state file of a loop that ran elsewhere; - reads standard input"
    )
    one.add_argument("--from", dest="from_hat", metavar="HAT", help="the role that hands over")
    one.add_argument("--to", dest="to_hat", metavar="HAT", help="the role that takes over")
    one.add_argument("file", nargs="?", metavar="FILE", help="the words of the role; - or nothing reads standard input")
    one.add_argument("--promote", action="store_true", help="also check them, and keep those that pass")
    add_format(one)

    one = action("list", list_learnings, "List what runs taught and is not in use yet, oldest first")
    one.add_argument(
        "--status",
        choices=(*STATUSES, "all"),
        help="default: what waits for a decision, which is staged (pending, validated) or quarantined",
    )
    add_format(one)

    one = action("validate", validate, "Check what is pending against the rules")
    add_format(one)
    action("review", review, "Decide on what is staged, one by one")

    one = action("promote", promote, "Keep what passed the rules")
    one.add_argument("learning", nargs="*", metavar="ID", help="default: all")
    one.add_argument("--validate", action="store_true", help="check what is pending first")
    add_format(one)

    one = action("clear", clear, "Empty the staging area; undo brings it back")
    one.add_argument("--yes", "-y", action="store_true", help="do not ask")


def run(args: argparse.Namespace) -> int:
    """Do what is asked for, then say what is wrong with the files."""
    with open_project(args) as project:
        code = args.do(project, args) or 0
        print_file_problems(project, in_full=args.action != "list")
    return code


# --- extract, validate, promote --------------------------------------------------------------


def extract(project: Project, args: argparse.Namespace) -> None:
    """Draw learnings from what happened, and stage them."""
    if (args.from_hat is None) != (args.to_hat is None):
        raise UsageError("Say both roles: --from HAT --to HAT.")
    if sum(value is not None for value in (args.run, args.state, args.from_hat)) > 1:
        raise UsageError("Say one source: --run, --state, or --from with --to.")
    if args.file is not None and args.from_hat is None:
        raise UsageError(f"Say what {args.file} is: --state {args.file}, or --from HAT --to HAT {args.file}.")
    if args.from_hat is not None:
        text = read_text(args.file or "-")
        _print_handed_over(project.learning.extract_handover(args.from_hat, args.to_hat, text), args)
        return
    if args.state is not None:
        name = "standard input" if args.state == "-" else args.state
        counts = project.learning.extract_state(read_text(args.state), name)
    else:
        name, counts = project.learning.extract(args.run)
    checked = project.learning.validate() if args.promote else None
    promoted, left = project.learning.promote() if args.promote else (None, 0)
    if args.format == "json":
        print_json({"source": name, **_fields(counts, checked, promoted)} | ({"left": left} if args.promote else {}))
        return
    print(f"{safe(name)}: {plural(counts.extracted, 'learning')} extracted, {counts.merged} of them known already.")
    if checked and promoted:
        _print_checked(checked)
        _print_promoted(promoted, left)
    elif counts.extracted > counts.merged:
        print("They are staged. Look at them with: ralph learn list")


def _fields(*counts: Counts | None) -> dict[str, int]:
    """Give the counts of several passes together, those of none left out."""
    from ralph.records import fields_of

    together: dict[str, int] = {}
    for one in filter(None, counts):
        together |= {name: together.get(name, 0) + count for name, count in fields_of(one).items()}
    return together


def _print_handed_over(kept: list[Kept], args: argparse.Namespace) -> None:
    from ralph.cli.memory_text import print_memories
    from ralph.memory.public import public_fields

    new = [one for one in kept if one.what == "added"]
    if args.format == "json":
        print_json([public_fields(one.memory) | {"what": one.what} for one in kept])
        return
    if kept:
        print_memories(one.memory for one in kept)
    print(f"{plural(len(kept), 'memory')} found, {len(kept) - len(new)} of them known already.")


def validate(project: Project, args: argparse.Namespace) -> None:
    """Check what is pending against the rules."""
    counts = project.learning.validate()
    if args.format == "json":
        print_json({name: getattr(counts, name) for name in ("validated", "rejected", "waiting")})
    else:
        _print_checked(counts)


def _print_checked(counts: Counts) -> None:
    print(f"{counts.validated} validated, {counts.rejected} rejected, {counts.waiting} wait for more data.")
    if counts.rejected:
        print("To see why: ralph learn list --status rejected")


def promote(project: Project, args: argparse.Namespace) -> None:
    """Keep what passed the rules."""
    counts, left = project.learning.promote(args.learning, validate_first=args.validate)
    if args.format == "json":
        print_json({"promoted": counts.promoted, "left": left})
    else:
        _print_promoted(counts, left)


def _print_promoted(counts: Counts, left: int) -> None:
    print(f"{plural(counts.promoted, 'learning')} promoted, {left} left in the staging area.")


# --- looking at them -------------------------------------------------------------------------


def list_learnings(project: Project, args: argparse.Namespace) -> None:
    """List learnings by what became of them so far."""
    from ralph.cli.memory_text import in_words
    from ralph.memory.public import public_fields
    from ralph.memory.staging import held_back, status

    found = [(one, status(one)) for one in project.learning.listed(args.status)]
    if args.format == "json":
        print_json([public_fields(one) | {"status": state} for one, state in found])
    elif found:
        rows = [
            (one.id, state, one.kind, f"{one.confidence:.2f}", one.support, held_back(one) or "-", in_words(one))
            for one, state in found
        ]
        print_table(("ID", "STATUS", "TYPE", "SURE", "TIMES", "REASON", "LEARNING"), rows)
    else:
        print("No learning matches." if args.status else "Nothing waits. What runs teach comes here when they end.")


# --- deciding --------------------------------------------------------------------------------


def review(project: Project, args: argparse.Namespace) -> None:
    """Show what is staged one by one, and let a person decide."""
    from ralph.cli.editor import is_attended

    if not is_attended():
        raise UsageError("A review needs a person at a terminal; without one, see: ralph learn promote --validate")
    waiting = project.learning.waiting()
    counts = {"kept": 0, "rejected": 0, "skipped": 0}
    for place, learning in enumerate(waiting, start=1):
        decided = _decide(project, learning, f"{place}/{len(waiting)}")
        if decided == "quit":
            break
        counts[decided] += 1
    if not waiting:
        print("Nothing waits for a decision.")
        return
    left = len(waiting) - counts["kept"] - counts["rejected"]
    print(f"{counts['kept']} kept, {counts['rejected']} rejected, {left} left.")


def _decide(project: Project, learning: Memory, place: str) -> str:
    """Ask what is to become of a learning, and do it."""
    from ralph.cli.memory_text import origin, print_body, print_facts, print_heading

    print()
    print_heading(learning, f"{place}  ")
    facts = {
        "Confidence": f"{learning.confidence:.2f}",
        "From": origin(learning),
        "Learned": f"{learning.support} times" if learning.support > 1 else "",
        "Held back": learning.state_reason,
    }
    print_facts(facts)
    print_body(learning)
    while True:
        answer = _asked("[y]es [n]o [e]dit [s]kip [?] [q]uit: ")
        if answer in ("y", "yes"):
            project.learning.accept(learning.id)
            return "kept"
        if answer in ("n", "no"):
            project.learning.reject(learning.id, _asked("Why? (Enter: no reason) ", ""))
            return "rejected"
        if answer in ("e", "edit"):
            if body := _reworded(learning):
                project.learning.accept(learning.id, body)
                return "kept"
        elif answer in ("s", "skip"):
            return "skipped"
        elif answer in ("q", "quit"):
            return "quit"
        else:
            print(KEYS)


def _reworded(learning: Memory) -> str:
    """Give the words a person wants instead, from their editor or from one line; nothing when there are none."""
    import os

    from ralph.cli.editor import edited

    if os.environ.get("VISUAL") or os.environ.get("EDITOR"):
        return edited(learning.body)
    return _asked("In one line (Enter: leave it): ", "")


def _asked(question: str, at_end: str = "quit") -> str:
    """Give a person's answer; the end of the input has the meaning args."""
    try:
        answer = input(question).strip()
    except EOFError:
        print()
        return at_end
    return answer.lower() if at_end else answer


def clear(project: Project, args: argparse.Namespace) -> int:
    """Empty the staging area."""
    if not args.yes:
        if not sys.stdin.isatty():
            raise UsageError("There is nobody to ask: say --yes to empty the staging area.")
        if _asked("Take everything out of the staging area? [y/N] ", "no") not in ("y", "yes"):
            print("Nothing was changed.")
            return 1
    count, change = project.learning.clear(yes=True)
    if count:
        print(f"{plural(count, 'learning')} taken out of the staging area. To undo: ralph memory undo {change}")
    else:
        print("The staging area is empty already.")
    return 0
