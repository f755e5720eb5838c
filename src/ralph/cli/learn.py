"""`ralph learn`."""

from __future__ import annotations

import os

from ralph.cli.interactive import ask, confirm, edit_text, is_interactive
from ralph.cli.memory_text import describe_origin, print_body, print_facts, print_heading, print_memories, summary_line
from ralph.cli.output import (
    action_adder,
    add_format_option,
    open_project,
    pluralize,
    positive_amount,
    print_file_problems,
    print_json,
    print_table,
    printable,
    read_input_text,
    undo_command,
)
from ralph.core.agents import RUNNABLE_AGENTS
from ralph.core.errors import UsageError
from ralph.core.guides import TARGETS
from ralph.core.records import record_fields
from ralph.core.text import clean, count_tokens, format_usd, one_line
from ralph.formats.public_memory import public_fields
from ralph.memory.lifecycle.staging import STATUSES, pending_reason, staging_status

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from ralph.core.records import Memory
    from ralph.loop.reflect import ReflectionResult
    from ralph.memory.capture.promotion import LearningCounts
    from ralph.memory.capture.reflection import Proposal
    from ralph.project import Project
    from ralph.store.memories import AddResult

REVIEW_KEYS = """\
  y  keep it
  n  reject it, optionally with a reason
  e  edit it, then keep it
  s  skip it for now
  q  quit; decisions so far are saved"""

EPILOG = """\
Learnings are extracted when a run ends, validated, and promoted to memories.
With `review = true` under [memories] in .ralph.toml they wait for a review:
  ralph learn review
What is confirmed can become part of a guide or a skill, which prompts then
no longer repeat:
  ralph learn compile --to AGENTS.md
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = EPILOG
    action = action_adder(parser, run)

    sub = action("extract", extract, "Extract learnings from a run, a loop state file or the output of a role")
    sub.add_argument("--run", metavar="ID", help="run to extract from (default: the latest)")
    sub.add_argument("--state", metavar="FILE", help="state file of a loop that ran elsewhere; - reads standard input")
    sub.add_argument("--from", dest="from_hat", metavar="HAT", help="role that hands over")
    sub.add_argument("--to", dest="to_hat", metavar="HAT", help="role that takes over")
    sub.add_argument("file", nargs="?", metavar="FILE", help="output of the role (default: -, standard input)")
    sub.add_argument("--promote", action="store_true", help="also validate them and promote those that pass")
    add_format_option(sub)

    sub = action("list", list_learnings, "List learnings that are not active yet, oldest first")
    sub.add_argument(
        "--status",
        choices=(*STATUSES, "all"),
        help="only with this status (default: pending, validated and quarantined)",
    )
    add_format_option(sub)

    sub = action("validate", validate, "Validate pending learnings against the rules")
    add_format_option(sub)
    action("review", review, "Accept or reject staged learnings, one by one")

    sub = action("promote", promote, "Promote validated learnings to memories")
    sub.add_argument("learning", nargs="*", metavar="ID", help="learnings to promote (default: all)")
    sub.add_argument("--validate", action="store_true", help="validate pending learnings first")
    add_format_option(sub)

    sub = action("reflect", reflect, "Let your agent look back at the day and propose what to remember")
    sub.add_argument(
        "--since", default="", metavar="DATE", help="past work since a date, 2026-01-31 (default: one day)"
    )
    sub.add_argument(
        "--agent", default="", choices=RUNNABLE_AGENTS, metavar="NAME", help="agent (default: as configured)"
    )
    sub.add_argument("--model", default="", metavar="MODEL", help="model (default: reflect under [learning])")
    sub.add_argument(
        "--max-cost", type=positive_amount, metavar="USD", help="what it may cost (default: the rest of reflect_cents)"
    )
    sub.add_argument("--dry-run", action="store_true", help="show what the agent would be asked, at no cost")
    add_format_option(sub)

    sub = action("proposals", proposals, "List what reflections proposed to merge, correct or remove; apply it")
    sub.add_argument("number", nargs="*", type=int, metavar="N", help="numbers of the proposals (default: all)")
    decision = sub.add_mutually_exclusive_group()
    decision.add_argument("--apply", action="store_true", help="apply them as one change, which can be undone")
    decision.add_argument("--discard", action="store_true", help="discard them")
    add_format_option(sub)

    sub = action("compile", compile_, "Write confirmed memories into a section of a guide, or into a skill")
    sub.add_argument("--to", choices=TARGETS, help="file to write (default: the guide that exists, or AGENTS.md)")
    sub.add_argument("--topic", default="", metavar="WORDS", help="memories about this (default: rules for all work)")
    sub.add_argument("--dry-run", action="store_true", help="only show the changes")
    sub.add_argument("--yes", "-y", action="store_true", help="do not ask for confirmation")

    sub = action("clear", clear, "Clear the staging area; undo restores it")
    sub.add_argument("--yes", "-y", action="store_true", help="do not ask for confirmation")


def run(args: argparse.Namespace) -> int:
    """Run the action, then print problems with the memory files."""
    with open_project(args) as project:
        with project.synced():
            code = args.do(project, args) or 0
        print_file_problems(project, in_full=args.action != "list")
    return code


# --- extract, validate, promote --------------------------------------------------------------


def extract(project: Project, args: argparse.Namespace) -> None:
    """Extract learnings and stage them."""
    if (args.from_hat is None) != (args.to_hat is None):
        raise UsageError("--from and --to must be used together: --from HAT --to HAT.")
    if sum(value is not None for value in (args.run, args.state, args.from_hat)) > 1:
        raise UsageError("Use only one source: --run, --state, or --from with --to.")
    if args.file is not None and args.from_hat is None:
        raise UsageError(
            f"Cannot tell what {args.file} is. Use --state {args.file}, or --from HAT --to HAT {args.file}."
        )
    if args.from_hat is not None:
        text = read_input_text(args.file or "-")
        _print_handed_over(project.learnings.extract_handover(args.from_hat, args.to_hat, text), args)
        return
    if args.state is not None:
        name = "standard input" if args.state == "-" else args.state
        counts = project.learnings.extract_state(read_input_text(args.state), name)
    else:
        name, counts = project.learnings.extract(args.run)
    checked = project.learnings.validate() if args.promote else None
    promoted, left = project.learnings.promote() if args.promote else (None, 0)
    if args.format == "json":
        print_json({"source": name, **_fields(counts, checked, promoted)} | ({"left": left} if args.promote else {}))
        return
    print(f"{printable(name)}: extracted {pluralize(counts.extracted, 'learning')} ({counts.merged} already known).")
    if checked and promoted:
        _print_checked(checked)
        _print_promoted(promoted, left)
    elif counts.extracted > counts.merged:
        print("They are staged. To list them: ralph learn list")


def _fields(*counts: LearningCounts | None) -> dict[str, int]:
    """Return the sums of several counts, ignoring None."""
    totals: dict[str, int] = {}
    for fields in map(record_fields, filter(None, counts)):
        totals |= {name: totals.get(name, 0) + count for name, count in fields.items()}
    return totals


def _print_handed_over(results: list[AddResult], args: argparse.Namespace) -> None:
    new = [result for result in results if result.what == "added"]
    if args.format == "json":
        print_json([public_fields(result.memory) | {"what": result.what} for result in results])
        return
    if results:
        print_memories(result.memory for result in results)
    print(f"Found {pluralize(len(results), 'memory')} ({len(results) - len(new)} already known).")


def validate(project: Project, args: argparse.Namespace) -> None:
    """Validate pending learnings against the rules."""
    counts = project.learnings.validate()
    if args.format == "json":
        print_json({name: getattr(counts, name) for name in ("validated", "rejected", "waiting")})
    else:
        _print_checked(counts)


def _print_checked(counts: LearningCounts) -> None:
    print(f"{counts.validated} validated, {counts.rejected} rejected, {counts.waiting} waiting for more data.")
    if counts.rejected:
        print("To see why: ralph learn list --status rejected")


def promote(project: Project, args: argparse.Namespace) -> None:
    """Promote validated learnings to memories."""
    counts, left = project.learnings.promote(args.learning, validate_first=args.validate)
    if args.format == "json":
        print_json({"promoted": counts.promoted, "left": left})
    else:
        _print_promoted(counts, left)


def _print_promoted(counts: LearningCounts, left: int) -> None:
    print(f"{pluralize(counts.promoted, 'learning')} promoted, {left} left in the staging area.")


# --- list ------------------------------------------------------------------------------------


def list_learnings(project: Project, args: argparse.Namespace) -> None:
    """List learnings with their status."""
    found = [(learning, staging_status(learning)) for learning in project.learnings.list(args.status)]
    if args.format == "json":
        print_json([public_fields(learning) | {"status": learning_status} for learning, learning_status in found])
    elif found:
        rows = [
            (
                learning.id,
                learning_status,
                learning.kind,
                f"{learning.confidence:.2f}",
                learning.support,
                summary_line(learning),
            )
            for learning, learning_status in found
        ]
        reasons = [pending_reason(learning) for learning, _ in found]
        notes = [[f"reason: {reason}"] if reason else [] for reason in reasons]
        print_table(("ID", "STATUS", "TYPE", "CONF", "TIMES", "LEARNING"), rows, notes, droppable=("TIMES",))
    else:
        print(
            "No learning matches." if args.status else "No learnings are waiting. They are extracted when a run ends."
        )


# --- reflect ---------------------------------------------------------------------------------


def reflect(project: Project, args: argparse.Namespace) -> int:
    """Let an agent reflect on past work; print what it proposes and what that cost."""
    from ralph.cli.import_ import date_option
    from ralph.loop.reflect import ReflectionOptions

    configured = "" if args.agent else project.config.learning.reflect
    result = project.runs.reflect(
        ReflectionOptions(
            since=date_option(args.since, "--since"),
            agent=args.agent,
            model=args.model or configured,
            max_cost_usd=args.max_cost,
            dry_run=args.dry_run,
        )
    )
    if args.format == "json":
        print_json(_reflection_fields(result) if result else None)
    elif result is None:
        print("There is no past work to reflect on since then: no session, commit, failure, or notes of an attempt.")
    elif args.dry_run:
        print(clean(result.prompt), end="")
        print()
        print(f"{pluralize(count_tokens(result.prompt), 'token')}; spent today: {format_usd(result.spent_usd)}.")
    else:
        _print_reflection(result)
    return 1 if result and result.problem else 0


def _reflection_fields(result: ReflectionResult) -> dict[str, object]:
    fields = record_fields(result)
    fields["added"] = [public_fields(one) for one in result.added]
    fields["proposals"] = [_proposal_fields(one) for one in result.proposals]
    return fields


def _print_reflection(result: ReflectionResult) -> None:
    shown = ", ".join(
        pluralize(count, noun)
        for count, noun in ((result.passages, "passage"), (result.failures, "failure"), (result.memories, "memory"))
    )
    cost = "unknown" if result.cost_usd is None else format_usd(result.cost_usd)
    print(f"{result.agent} reflected on {shown}. Cost: {cost}; today: {format_usd(result.spent_usd)}.")
    if result.is_over_budget:
        print(f"That is more than {format_usd(result.limit_usd or 0.0)} per day: no more reflections today.")
    if result.problem:
        print(f"Nothing of the answer counts: {printable(result.problem)}.")
        return
    for memory in result.added:
        print()
        print_heading(memory)
        print(f"  {printable(memory.state_reason)}")
    if result.proposals:
        print()
        _print_proposals(result.proposals)
    for reason in result.refused:
        print(f"Refused: {printable(one_line(reason, 200))}")
    if result.added:
        print(f"\n{pluralize(len(result.added), 'learning')} to review with: ralph learn review")
    if result.proposals:
        print("To see all that is proposed: ralph learn proposals. To apply it: ralph learn proposals --apply")
    if not (result.added or result.proposals):
        print("It proposes nothing.")


def proposals(project: Project, args: argparse.Namespace) -> None:
    """List, apply or discard what reflections proposed."""
    if args.number and not (args.apply or args.discard):
        raise UsageError("Say what to do with them: --apply or --discard.")
    if args.discard:
        _discard(project, args)
        return
    if args.apply:
        _apply(project, args)
        return
    waiting = project.learnings.proposals()
    if args.format == "json":
        print_json([_proposal_fields(one) for one in waiting])
    elif waiting:
        _print_proposals(waiting)
        print("To apply all or some of them: ralph learn proposals [N …] --apply")
    else:
        print("No proposals are waiting. To get some: ralph learn reflect")


def _discard(project: Project, args: argparse.Namespace) -> None:
    count = project.learnings.discard_proposals(args.number)
    if args.format == "json":
        print_json({"discarded": count})
    else:
        print(f"Discarded {pluralize(count, 'proposal')}.")


def _apply(project: Project, args: argparse.Namespace) -> None:
    result = project.learnings.apply_proposals(args.number)
    if args.format == "json":
        applied, skipped = (list(map(_proposal_fields, some)) for some in (result.applied, result.skipped))
        print_json({"applied": applied, "skipped": skipped, "change_id": result.change_id})
        return
    print(f"Applied {pluralize(len(result.applied), 'proposal')}.")
    if result.skipped:
        ids = ", ".join(one.ids[0] for one in result.skipped)
        print(f"Left out, because the memories have changed since: {printable(ids)}")
    if result.change_id:
        print(f"To undo: {undo_command(result.change_id, args)}")


def _proposal_fields(proposal: Proposal) -> dict[str, object]:
    return {
        "action": proposal.action,
        "ids": list(proposal.ids),
        "content": proposal.content,
        "reason": proposal.reason,
        "evidence": [{"id": id, "quote": quote} for id, quote in proposal.quotes],
    }


def _print_proposals(proposed: Sequence[Proposal]) -> None:
    for number, one in enumerate(proposed, start=1):
        others = f" with {', '.join(one.ids[1:])}" if one.ids[1:] else ""
        print(f"{number}. {printable(f'{one.action} {one.ids[0]}{others}')}")
        for line in (one.content, one.reason, one.evidence):
            if line:
                print(f"   {printable(line)}")


# --- review ----------------------------------------------------------------------------------


def review(project: Project, args: argparse.Namespace) -> None:
    """Let a person accept or reject staged learnings one by one."""
    if not is_interactive():
        raise UsageError(
            "A review needs a terminal. Without one, use: ralph learn promote --validate", code="no-terminal"
        )
    waiting = project.learnings.list()
    counts = {"kept": 0, "rejected": 0, "skipped": 0}
    for position, learning in enumerate(waiting, start=1):
        decision = _decide(project, learning, f"{position}/{len(waiting)}")
        if decision == "quit":
            break
        counts[decision] += 1
    if not waiting:
        print("No learnings are waiting for a decision.")
        return
    left = len(waiting) - counts["kept"] - counts["rejected"]
    print(f"{counts['kept']} kept, {counts['rejected']} rejected, {left} left.")


def _decide(project: Project, learning: Memory, position: str) -> str:
    """Ask for a decision on a learning and apply it."""
    print()
    print_heading(learning, f"{position}  ")
    facts = {
        "Confidence": f"{learning.confidence:.2f}",
        "From": describe_origin(learning),
        "Learned": f"{learning.support} times" if learning.support > 1 else "",
        "On hold": learning.state_reason,
    }
    print_facts(facts)
    print_body(learning)
    while True:
        answer = ask("[y]es [n]o [e]dit [s]kip [?] [q]uit: ", "quit").lower()
        if answer in ("y", "yes"):
            project.learnings.accept(learning.id)
            return "kept"
        if answer in ("n", "no"):
            project.learnings.reject(learning.id, ask("Reason (Enter for none): "))
            return "rejected"
        if answer in ("e", "edit"):
            if body := _ask_wording(learning):
                project.learnings.accept(learning.id, body)
                return "kept"
        elif answer in ("s", "skip"):
            return "skipped"
        elif answer in ("q", "quit"):
            return "quit"
        else:
            print(REVIEW_KEYS)


def _ask_wording(learning: Memory) -> str:
    """Ask for a new wording, in an editor or on one line. Empty if the person gives none."""
    if os.environ.get("VISUAL") or os.environ.get("EDITOR"):
        return edit_text(learning.content)
    return ask("New text on one line (Enter to cancel): ")


def compile_(project: Project, args: argparse.Namespace) -> int:
    """Compile memories into a guide or a skill."""
    from ralph.cli.learn_compile import compile_memories

    return compile_memories(project, args)


def clear(project: Project, args: argparse.Namespace) -> int:
    """Clear the staging area."""
    question = "Remove all learnings from the staging area?"
    if not args.yes and not confirm(question, "Use --yes to clear the staging area."):
        return 1
    count, change = project.learnings.clear(yes=True)
    if count:
        print(f"{pluralize(count, 'learning')} removed from the staging area. To undo: ralph memory undo {change}")
    else:
        print("The staging area is already empty.")
    return 0
