"""`ralph setup`."""

from __future__ import annotations

import difflib
import shlex
from pathlib import Path

from ralph.cli.interactive import confirm
from ralph.cli.output import print_table, printable, working_directory, wrap_line
from ralph.core.agents import CONNECTABLE_AGENTS, agent_title
from ralph.core.errors import UsageError
from ralph.core.text import clean
from ralph.integrations.setup import (
    FileChange,
    SetupPlan,
    apply_plan,
    check_inside_project,
    is_connected,
    plan_removal,
    plan_setup,
    plugin_directory,
    setup_options,
)
from ralph.integrations.setup.agents import RECIPES, is_missing
from ralph.workspace import find_worktree

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from ralph.integrations.setup.agents import Recipe, SetupOptions


EPILOG = """\
Examples:
  ralph setup claude --dry-run     show the changes, line by line
  ralph setup claude               add hooks, MCP server and skill to this project
  ralph setup gemini --user        connect Gemini in all your projects
  ralph setup agents-md            any other agent: a section in AGENTS.md, and the MCP server to add
  ralph setup claude --uninstall   restore the files
  claude --plugin-dir "$(ralph setup claude --plugin)"   use the plugin, without changing any files
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "agent",
        nargs="?",
        choices=CONNECTABLE_AGENTS,
        metavar="AGENT",
        help=f"one of {', '.join(CONNECTABLE_AGENTS)}; without one, list them",
    )
    parser.add_argument("--user", action="store_true", help="connect it in all your projects, not only in this one")
    parser.add_argument("--uninstall", action="store_true", help="disconnect the agent and restore its files")
    parser.add_argument("--dry-run", action="store_true", help="show the changes without making them")
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask for confirmation")
    parser.add_argument("--no-hooks", action="store_true", help="do not install hooks")
    parser.add_argument("--no-mcp", action="store_true", help="do not install the MCP server")
    parser.add_argument("--force", action="store_true", help="replace entries named ralph that setup did not write")
    parser.add_argument("--plugin", action="store_true", help="print the directory of the Claude Code plugin and exit")
    parser.epilog = EPILOG
    parser.set_defaults(act=run)


def run(args: argparse.Namespace) -> int:
    """Connect or disconnect an agent after confirmation."""
    if args.plugin:
        if args.agent != "claude":
            raise UsageError("Only Claude Code has a plugin. Use: ralph setup claude --plugin")
        print(plugin_directory())
        return 0
    if args.agent is None:
        return _list_agents(args)
    root = None if args.user else Path(find_worktree(working_directory(args))[1])
    options = setup_options(root, with_hooks=not args.no_hooks, with_server=not args.no_mcp)
    plan = plan_removal(args.agent, options) if args.uninstall else plan_setup(args.agent, options, force=args.force)
    if not plan.changes:
        _print_no_change(plan, args)
        if not args.dry_run:
            apply_plan(plan)
        return 0
    _print_plan(plan, in_full=args.dry_run)
    if args.dry_run:
        print("Nothing was changed.")
        return 0
    if args.yes:
        check_inside_project(plan, options)
    elif not confirm("Apply these changes?", "Use --yes to change these files, or --dry-run to see the changes."):
        return 1
    apply_plan(plan)
    _print_next_steps(plan, options, args)
    return 0


def _list_agents(args: argparse.Namespace) -> int:
    """List the agents that can be connected."""
    if args.uninstall or args.yes:
        raise UsageError("Name the agent. To list them: ralph setup", code="no-agent")
    rows = [(name, agent_title(name), _state(name, args)) for name in CONNECTABLE_AGENTS]
    print_table(("AGENT", "NAME", "STATE"), rows)
    print("\nTo see what one changes: ralph setup AGENT --dry-run. To connect it: ralph setup AGENT")
    return 0


def _state(agent: str, args: argparse.Namespace) -> str:
    root = Path(find_worktree(working_directory(args))[1])
    states = ["connected"] * is_connected(agent, setup_options(root))
    states += ["connected for all your projects"] * is_connected(agent, setup_options(None))
    return ", ".join([*states, *["not in the PATH"] * is_missing(agent)]) or "-"


def _print_plan(plan: SetupPlan, *, in_full: bool) -> None:
    for change in plan.changes:
        verb = "remove" if change.after is None else "create" if change.before is None else "change"
        print(
            wrap_line(
                f"{printable(change.display_path)}: {change.description}{_length(change)}", f"  {verb} ", "         "
            )
        )
        if in_full and not (change.is_prose and None in (change.before, change.after)):
            _print_diff(change)
    for note in plan.notes:
        print(wrap_line(printable(note), "  note: ", "        "))


def _length(change: FileChange) -> str:
    """Return the length of a new prose file, whose lines are not listed."""
    is_new = change.is_prose and change.before is None and change.after is not None
    return f" ({len((change.after or b'').splitlines())} lines)" if is_new else ""


def _print_diff(change: FileChange) -> None:
    before = (change.before or b"").decode("utf-8", "replace").splitlines()
    after = (change.after or b"").decode("utf-8", "replace").splitlines()
    for line in list(difflib.unified_diff(before, after, n=0, lineterm=""))[2:]:
        if not line.startswith("@@"):
            print(f"      {clean(line)}")


def _print_no_change(plan: SetupPlan, args: argparse.Namespace) -> None:
    where = "for all your projects" if args.user else "to this project"
    if args.uninstall:
        print(f"{plan.agent} is not connected {where}; nothing was changed.")
    else:
        print(f"{plan.agent} is already connected {where}; nothing was changed.")
    for note in plan.notes:
        print(wrap_line(printable(note), "  note: ", "        "))


def _print_next_steps(plan: SetupPlan, options: SetupOptions, args: argparse.Namespace) -> None:
    if args.uninstall:
        print(f"{plan.agent} is disconnected. The memories are kept: ralph memory list")
        return
    recipe = RECIPES[plan.agent]
    where = "in any of your projects" if args.user else "in this directory"
    print(
        f"Start {recipe.program} {where}: {_effect(recipe, args)} {_instructions(plan.agent, options, args)}".rstrip()
    )
    if is_missing(plan.agent):
        print(f"Install {recipe.program} first: it is not in the PATH.")
    print(f"To check it: ralph doctor. To undo it: ralph setup {plan.agent}{' --user' * args.user} --uninstall")


def _effect(recipe: Recipe, args: argparse.Namespace) -> str:
    """Describe what the agent can do now."""
    if recipe.has_hooks and not args.no_hooks:
        return "it now recalls memories and stores what it learns."
    if (recipe.has_project_server or args.user) and not args.no_mcp:
        return "it can now search and add memories."
    return "it now knows the memory commands."


def _instructions(agent: str, options: SetupOptions, args: argparse.Namespace) -> str:
    """Return what else there is to do."""
    recipe = RECIPES[agent]
    if args.no_mcp and (args.no_hooks or not recipe.has_hooks):
        return ""
    if recipe.has_user_settings and not recipe.has_project_server and not args.user:
        return f"Its MCP servers are those of all projects; to add ours: ralph setup {agent} --user"
    return recipe.instructions.format(command=shlex.join([*options.program, "mcp"]))
