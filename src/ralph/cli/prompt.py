"""`ralph prompt`."""

from __future__ import annotations

import sys

from ralph.cli.output import open_project, print_json, print_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from ralph.records import Section


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("id", help="the task")
    parser.add_argument("--model", help="as for ralph run")
    parser.add_argument("--no-memory", action="store_true", help="as a session without memory would get it")
    parser.add_argument("--raw", action="store_true", help="the prompt alone, without the table")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.set_defaults(act=run)


def run(args: argparse.Namespace) -> None:
    """Print the prompt of the next attempt, and what was shown and left out."""
    with open_project(args) as project:
        if project.task(args.id).task.status == "done":
            print(f"{args.id} is done; this is what it would be told if it were reset.", file=sys.stderr)
        prompt = project.prompt(args.id, model=args.model, with_memory=not args.no_memory)
    if args.format == "json":
        print_json(prompt)
        return
    print(prompt.text, end="")
    if args.raw:
        return
    print(f"\n{'─' * 24} {prompt.tokens} tokens {'─' * 24}\n")
    rows = [row for section in prompt.sections for row in _rows(section)]
    print_table(("SECTION", "TOKENS", "CAP", "SHOWN", "LEFT OUT, AND WHY"), rows)


def _rows(section: Section) -> list[tuple[object, ...]]:
    """Give a row for the section and one for each further thing it leaves out."""
    left = [f"{one.what}: {one.why}" for one in section.left_out] or ["-"]
    first = (section.name, section.tokens, section.cap_tokens or "-", len(section.shown) or "-", left[0])
    return [first, *(("", "", "", "", line) for line in left[1:])]
