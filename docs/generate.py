"""Write docs/cli.md from the command line itself: `make docs`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from ralph.cli import COMMANDS, EPILOG, build_parser

HERE = Path(__file__).parent


def cli_reference() -> str:
    """Give the reference of all commands as markdown."""
    parts = [
        "# Command line\n\nMade by `make docs` from the program; do not edit.\n",
        f"```\n{EPILOG.strip()}\n```\n",
        "`-C DIR` before the command works in another directory.\n",
    ]
    for name, text in COMMANDS.items():
        parser = _subcommands(build_parser(name))[name]
        parts.append(f"## ralph {name}\n\n{text}.\n")
        if parser.epilog:
            parts.append(f"```\n{parser.epilog.strip()}\n```\n")
        parts += list(_command(f"ralph {name}", parser))
    return "\n".join(parts)


def _command(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    actions = _subcommands(parser)
    if actions:
        for action, one in actions.items():
            yield f"### {name} {action}\n\n{one.description}\n"
            yield from _command(f"{name} {action}", one)
        return
    rows = [
        f"| `{_form(action)}` | {action.help or ''} |"
        for action in parser._actions
        if action.help != argparse.SUPPRESS and action.dest != "help"
    ]
    if rows:
        yield "\n".join(["| argument | meaning |", "|---|---|", *rows]) + "\n"


def _form(action: argparse.Action) -> str:
    value = str(action.metavar or "/".join(map(str, action.choices or [])) or action.dest.upper())
    if not action.option_strings:
        return f"[{value}]" if action.nargs in ("?", "*") else value
    return ", ".join(action.option_strings) + ("" if action.nargs == 0 else f" {value}")


def _subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


if __name__ == "__main__":
    (HERE / "cli.md").write_text(cli_reference(), encoding="utf-8")
