"""`ralph memory` actions on standing rules: pin, unpin, rules, conflicts."""

from __future__ import annotations

from ralph.cli.output import pluralize, print_json, printable, symbol, undo_command, wrap_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from ralph.core.records import StandingRule, StatedRule
    from ralph.project import Project


def pin(project: Project, args: argparse.Namespace) -> None:
    """Pin a memory to every prompt."""
    for result in project.memory.rules.pin(args.memory, args.why):
        print(f"Pinned to every prompt: {result.memory.id}: {printable(result.memory.title)}")
        print(f"To undo: ralph memory unpin {result.memory.id}")


def unpin(project: Project, args: argparse.Namespace) -> None:
    """Unpin a memory."""
    result = project.memory.rules.unpin(args.memory, args.why)
    print(f"No longer pinned: {result.memory.id}: {printable(result.memory.title)}")


def list_rules(project: Project, args: argparse.Namespace) -> None:
    """List the standing rules, in the order in which prompts tell them."""
    rules = project.memory.rules.standing()
    if args.format == "json":
        print_json([rule_fields(rule) for rule in rules])
        return
    if not rules:
        print('No rules for all work are known. To add one: ralph memory add --type convention "Always …"')
    for rule in rules:
        mark = symbol("📌 ", "pinned: ") if rule.stated.is_pinned else ""
        print(wrap_line(f"{mark}{printable(rule.stated.rule.text)}", "", "  "))
        lines = [f"{_origin(rule.stated)}, stated {pluralize(len(rule.sources), 'time')}"]
        lines += [f"was: {printable(past.rule.text)} ({_origin(past)})" for past in rule.superseded]
        lines += [f"contradicts: {printable(one.rule.text)} ({_origin(one)})" for one in rule.conflicts]
        print("\n".join(wrap_line(line, "    ", "      ") for line in lines))


def conflicts(project: Project, args: argparse.Namespace) -> None:
    """List rules that contradict each other, or let one of them hold."""
    if args.keep:
        kept, superseded, change = project.memory.rules.keep(args.keep, args.why)
        print(f"{kept.id} holds. Replaced: {', '.join(one.id for one in superseded)}")
        print(f"To undo: {undo_command(change, args)}")
        return
    found = project.memory.rules.conflicts()
    if args.format == "json":
        print_json([{"earlier": _fields(one.earlier), "later": _fields(one.later)} for one in found])
        return
    if not found:
        print("No rules contradict each other.")
    for one in found:
        print(f"{_origin(one.earlier)}: {printable(one.earlier.rule.text)}")
        print(f"{_origin(one.later)}: {printable(one.later.rule.text)}")
        print(f"    To decide: ralph memory conflicts --keep {one.later.id} (or {one.earlier.id})\n")


def rule_fields(rule: StandingRule) -> dict[str, object]:
    """Return the public fields of a rule."""
    return _fields(rule.stated) | {
        "is_pinned": rule.stated.is_pinned,
        "stated_in": list(rule.sources),
        "superseded": [_fields(one) for one in rule.superseded],
        "conflicts": [_fields(one) for one in rule.conflicts],
    }


def _fields(stated: StatedRule) -> dict[str, object]:
    return {"id": stated.id, "text": stated.rule.text, "at": stated.at}


def _origin(stated: StatedRule) -> str:
    return f"{stated.id} of {stated.at[:10]}"
