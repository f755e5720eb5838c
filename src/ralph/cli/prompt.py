"""`ralph prompt`."""

from __future__ import annotations

import sys

from ralph.cli.output import open_project, print_json, print_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from ralph.core.records import PromptSection


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("id", metavar="TASK", help="id of the task")
    parser.add_argument("--model", help="model, as in ralph run")
    parser.add_argument("--no-memory", action="store_true", help="show the prompt without memory")
    parser.add_argument("--raw", action="store_true", help="print only the prompt, without the table")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="output format (default: text)")
    parser.set_defaults(act=run)


def run(args: argparse.Namespace) -> None:
    """Print the prompt of the next attempt, and a table of what it includes and omits."""
    with open_project(args) as project:
        if project.tasks.get(args.id).task.status == "done":
            print(f"{args.id} is done. This is the prompt it would get after a reset.", file=sys.stderr)
        prompt = project.prompts.preview(args.id, model=args.model, with_memory=not args.no_memory)
    if args.format == "json":
        print_json(prompt)
        return
    print(prompt.text, end="")
    if args.raw:
        return
    print(f"\n{'─' * 24} {prompt.tokens} tokens {'─' * 24}\n")
    rows = [row for section in prompt.sections for row in _rows(section)]
    print_table(("SECTION", "TOKENS", "CAP", "SHOWN", "OMITTED, AND WHY"), rows)


def _rows(section: PromptSection) -> list[tuple[object, ...]]:
    """Return the table rows of a section: one, plus one per additional omitted item."""
    omitted = [f"{item.what}: {item.why}" for item in section.left_out] or ["-"]
    first = (section.name, section.tokens, section.cap_tokens or "-", len(section.shown) or "-", omitted[0])
    return [first, *(("", "", "", "", line) for line in omitted[1:])]
