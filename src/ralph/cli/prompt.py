"""`ralph prompt`."""

from __future__ import annotations

import re
import sys
from contextlib import suppress

from ralph.cli.output import open_project, print_json, print_table, symbol
from ralph.core.errors import UsageError
from ralph.core.text import one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from ralph.core.records import OmittedItem, Prompt, PromptSection
    from ralph.project import Project

MAX_NAMED, MAX_NAME_LENGTH = 3, 40
"""Number of omitted items named for each reason, and the length of their names."""
_GENERAL_REASON = re.compile(r": | of mem-| \(|,")
"""What separates a reason from what is particular to one item."""
_PREDICATE = re.compile(r"^(is|has|was) ")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("id", metavar="TASK", nargs="?", help="id of the task (default: the next one)")
    parser.add_argument("--model", help="model, as in ralph run")
    parser.add_argument("--no-memory", action="store_true", help="show the prompt without memory")
    parser.add_argument("--raw", action="store_true", help="print only the prompt, without the table")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="output format (default: text)")
    parser.set_defaults(act=run)


def run(args: argparse.Namespace) -> None:
    """Print the prompt of the next attempt, and a table of what it includes and omits."""
    with open_project(args) as project, project.synced():
        args.id = args.id or _next_task(project)
        if project.tasks.get(args.id).task.status == "done":
            print(f"{args.id} is done. This is the prompt it would get after a reset.", file=sys.stderr)
        prompt = _preview(project, args)
    if args.format == "json":
        print_json(prompt)
        return
    print(prompt.text, end="")
    if args.raw:
        return
    line = symbol("─" * 24)
    print(f"\n{f'{line} {prompt.tokens} tokens {line}'.strip()}\n")
    rows = [row for section in prompt.sections for row in _rows(section)]
    print_table(("SECTION", "TOKENS", "CAP", "SHOWN", "OMITTED, AND WHY"), rows)


def _next_task(project: Project) -> str:
    ready = project.tasks.list(ready=True)
    if not ready:
        raise UsageError("No task is ready. Name one, from: ralph task list", code="no-ready-task")
    return ready[0].id


class _UndoError(Exception):
    """Raised to undo a transaction."""


def _preview(project: Project, args: argparse.Namespace) -> Prompt:
    """Return the prompt after the check for staleness that a run makes before its first one, which is then undone."""
    with suppress(_UndoError), project.store.transaction():
        project.memory.maintenance.update_staleness()
        prompt = project.prompts.preview(args.id, model=args.model, with_memory=not args.no_memory)
        raise _UndoError
    return prompt


def _rows(section: PromptSection) -> list[tuple[object, ...]]:
    """Return the table rows of a section: one, plus one per additional group of omitted items."""
    omitted = _groups(section.left_out) or ["-"]
    first = (section.name, section.tokens, section.cap_tokens or "-", len(section.shown) or "-", omitted[0])
    return [first, *(("", "", "", "", line) for line in omitted[1:])]


def _groups(left_out: Sequence[OmittedItem]) -> list[str]:
    """Return a line for each reason, with the first items that it applies to."""
    groups: dict[str, list[OmittedItem]] = {}
    for item in left_out:
        groups.setdefault(_GENERAL_REASON.split(item.why)[0], []).append(item)
    lines = []
    for reason, items in groups.items():
        if len(items) == 1:
            lines.append(f"{items[0].what}: {items[0].why}")
            continue
        names = ", ".join(one_line(item.what, MAX_NAME_LENGTH) for item in items[:MAX_NAMED])
        more = f" and {len(items) - MAX_NAMED} more" if len(items) > MAX_NAMED else ""
        lines.append(f"{len(items)} {_PREDICATE.sub(_as_attribute, reason)}: {names}{more}")
    return lines


def _as_attribute(predicate: re.Match[str]) -> str:
    """Return how a reason begins that is said of several items: "4 hardly relevant", "2 with no match"."""
    return "with " if predicate[1] == "has" else ""
