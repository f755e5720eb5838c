"""`ralph setup`."""

from __future__ import annotations

import sys

from ralph.cli.output import directory_of, safe, wrapped
from ralph.config import CONNECTABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from ralph.setup import Change, Plan

EPILOG = """\
Examples:
  ralph setup claude --dry-run     see what it would change, line by line
  ralph setup claude               hooks, MCP server and skill for this project
  ralph setup gemini --user        for all your projects
  ralph setup claude --uninstall   everything as it was before
  claude --plugin-dir "$(ralph setup claude --plugin)"   as a plugin, without changing any file
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("agent", choices=CONNECTABLE, metavar="AGENT", help=f"one of {', '.join(CONNECTABLE)}")
    parser.add_argument("--user", action="store_true", help="for all your projects, not only this one")
    parser.add_argument("--uninstall", action="store_true", help="put the files back as they were")
    parser.add_argument("--dry-run", action="store_true", help="show what would be changed, and change nothing")
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask")
    parser.add_argument("--no-hooks", action="store_true", help="leave out the hooks")
    parser.add_argument("--no-mcp", action="store_true", help="leave out the MCP server")
    parser.add_argument("--force", action="store_true", help="replace what others have put in our place")
    parser.add_argument("--plugin", action="store_true", help="print the folder of the Claude Code plugin, and end")
    parser.epilog = EPILOG
    parser.set_defaults(act=run)


def run(args: argparse.Namespace) -> int:
    """Connect or disconnect an agent, after asking."""
    from pathlib import Path

    from ralph.errors import UsageError
    from ralph.location import find_root
    from ralph.setup import carry_out, plan_removal, plan_setup, plugin_folder, refuse_to_leave, wish_for
    from ralph.who import refuse_agents

    if args.plugin:
        if args.agent != "claude":
            raise UsageError("Only Claude Code has a plugin: ralph setup claude --plugin")
        print(plugin_folder())
        return 0
    refuse_agents("What an agent is connected to")
    root = None if args.user else Path(find_root(directory_of(args)))
    wish = wish_for(root, with_hooks=not args.no_hooks, with_server=not args.no_mcp)
    plan = plan_removal(args.agent, wish) if args.uninstall else plan_setup(args.agent, wish, force=args.force)
    if not plan.changes:
        _tell_nothing(plan, args)
        if not args.dry_run:
            carry_out(plan)
        return 0
    _show(plan, in_full=args.dry_run)
    if args.dry_run:
        print("Nothing was changed.")
        return 0
    if args.yes:
        refuse_to_leave(plan, wish)
    elif not _agreed():
        print("Nothing was changed.")
        return 1
    carry_out(plan)
    _tell_next(plan, args)
    return 0


def _agreed() -> bool:
    from ralph.errors import UsageError

    if not sys.stdin.isatty():
        raise UsageError("There is nobody to ask. Say --yes to change these files, or --dry-run to see how.")
    try:
        return input("Do this? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        print()
        return False


def _show(plan: Plan, *, in_full: bool) -> None:
    for change in plan.changes:
        verb = "remove" if change.after is None else "create" if change.before is None else "change"
        print(wrapped(f"{safe(change.name)}: {change.says}{_length(change)}", f"  {verb} ", "         "))
        if in_full and not (change.is_prose and None in (change.before, change.after)):
            _show_lines(change)
    for note in plan.notes:
        print(wrapped(safe(note), "  note: ", "        "))


def _length(change: Change) -> str:
    """Give how long a text is that is new; of all else each line can be shown."""
    is_new = change.is_prose and change.before is None and change.after is not None
    return f" ({len((change.after or b'').splitlines())} lines)" if is_new else ""


def _show_lines(change: Change) -> None:
    import difflib

    from ralph.text import clean

    before = (change.before or b"").decode("utf-8", "replace").splitlines()
    after = (change.after or b"").decode("utf-8", "replace").splitlines()
    for line in list(difflib.unified_diff(before, after, n=0, lineterm=""))[2:]:
        if not line.startswith("@@"):
            print(f"      {clean(line)}")


def _tell_nothing(plan: Plan, args: argparse.Namespace) -> None:
    where = "for all your projects" if args.user else "here"
    if args.uninstall:
        print(f"{plan.agent} is not connected {where}; nothing was changed.")
    else:
        print(f"{plan.agent} is connected {where} already; nothing was changed.")
    for note in plan.notes:
        print(wrapped(safe(note), "  note: ", "        "))


def _tell_next(plan: Plan, args: argparse.Namespace) -> None:
    from ralph.setup.agents import PROGRAMS, THEN

    if args.uninstall:
        print(f"{plan.agent} is disconnected. What is remembered stays: ralph memory list")
        return
    where = "in any project of yours" if args.user else "in this directory"
    then = THEN.get(plan.agent, "") if not (args.no_hooks and args.no_mcp) else ""
    print(f"Start {PROGRAMS[plan.agent]} {where}: {_effect(args)} {then}".rstrip())
    print(f"Check with: ralph doctor. Undo with: ralph setup {plan.agent}{' --user' * args.user} --uninstall")


def _effect(args: argparse.Namespace) -> str:
    """Say what an agent has of what was connected."""
    if not args.no_hooks:
        return "it is told what is remembered, and what it learns is kept."
    if not args.no_mcp:
        return "it can search what is remembered, and add to it."
    return "it has the skill, which tells it the commands of the memory."
