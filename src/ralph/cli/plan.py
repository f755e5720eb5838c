"""`ralph plan`."""

from __future__ import annotations

from itertools import count

from ralph.cli.interactive import ask, edit_text, is_interactive
from ralph.cli.output import add_format_option, open_project, pluralize, print_json, printable, read_input_text
from ralph.core.errors import UsageError
from ralph.core.records import record_fields, replace
from ralph.core.text import clean, count_tokens, format_usd

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Collection

    from ralph.loop.plan import FeaturePlan
    from ralph.loop.planning import PlanResult
    from ralph.project import Project

EPILOG = """\
Any program can plan, as in ralph run: ralph plan SPEC.md -- sh agent.sh
"""
KEYS = "a adds the feature with its tasks, e opens the plan in your editor, r adds nothing"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("spec", nargs="?", metavar="SPEC", help="file with the spec; - reads standard input")
    parser.add_argument("--from", dest="text", metavar="TEXT", default="", help="plan this text instead of a file")
    parser.add_argument("--name", default="", help="name of the feature (default: as the agent proposes)")
    parser.add_argument("--agent", metavar="NAME", default="", help="agent (default: as configured)")
    parser.add_argument("--model", default="", help="model (default: as configured)")
    parser.add_argument("--max-cost", type=float, metavar="USD", default=0.0, help="end the session at this cost")
    parser.add_argument("--yes", action="store_true", help="accept the plan without asking")
    parser.add_argument("--dry-run", action="store_true", help="show the prompt; start no session")
    add_format_option(parser)
    parser.epilog = EPILOG
    parser.set_defaults(act=run)


def run(args: argparse.Namespace) -> int:
    """Let an agent plan, show what it proposes, and add it if a person agrees."""
    from ralph.loop.planning import PlanOptions

    if bool(args.spec) == bool(args.text):
        raise UsageError("Name a file with the spec, or say --from TEXT.", code="no-spec")
    spec = read_input_text(args.spec) if args.spec else args.text
    if not (args.yes or args.dry_run or args.format == "json" or is_interactive()):
        raise UsageError(
            "Not a terminal: accept the plan with --yes, or only see it with --format json.", code="no-terminal"
        )
    with open_project(args) as project:
        taken = {one.feature.name for one in project.features.counts()}
        if args.name in taken:
            raise UsageError(f"There is a feature {args.name} already. Choose another --name.", code="name-taken")
        result = project.runs.plan(
            PlanOptions(
                spec=spec,
                agent=args.agent,
                program=args.program,
                model=args.model,
                max_cost_usd=args.max_cost,
                dry_run=args.dry_run,
            )
        )
        if result.plan:
            result = replace(result, plan=replace(result.plan, name=args.name or _free_name(result.plan.name, taken)))
        return _finish(project, args, result)


def _free_name(name: str, taken: Collection[str]) -> str:
    """Return a name that no feature has, close to the one an agent proposes: its answer has been paid for."""
    return next(free for n in count(1) if (free := name if n == 1 else f"{name} {n}") not in taken)


def _finish(project: Project, args: argparse.Namespace, result: PlanResult) -> int:
    is_json = args.format == "json"
    if args.dry_run and not is_json:
        print(clean(result.prompt), end="")
        print(f"\n{pluralize(count_tokens(result.prompt), 'token')}.")
        return 0
    if not is_json:
        _print_result(result)
    plan = result.plan
    if plan and not args.yes:
        plan = None if is_json else _ask_about(plan)
    added = project.features.add_planned(plan, result.spec, is_read=not args.yes) if plan else None
    if is_json:
        print_json({**record_fields(result), "feature": added})
    elif added:
        print(f"Feature added: {added.feature.id}, with {pluralize(len(added.tasks), 'task')}. Work on it: ralph run")
    elif not result.problem:
        print("Nothing was added.")
    return 1 if result.problem else 0


def _print_result(result: PlanResult) -> None:
    cost = "unknown" if result.cost_usd is None else format_usd(result.cost_usd)
    if result.plan is None:
        print(f"Nothing was added: {printable(result.problem.rstrip('.'))}. Cost: {cost}.")
        return
    print(f"{result.agent} proposes {pluralize(len(result.plan.tasks), 'task')}. Cost: {cost}.\n")
    _print_plan(result.plan)


def _print_plan(plan: FeaturePlan) -> None:
    """Print all that would be added, so that a person accepts nothing unseen."""
    print(printable(plan.name))
    for depth, one in plan.tree():
        indent = "  " * (depth + 1)
        others = [key for key in one.needs if len(one.needs) > 1]
        marks = [f"needs {', '.join(others)}"] if others else []
        marks += [f"priority {one.priority}"] if one.priority else []
        note = f" ({printable('; '.join(marks))})" if marks else ""
        print(f"{indent}- {printable(one.key)}: {printable(one.title)}{note}")
        for line in one.body.splitlines():
            print(f"{indent}    {printable(line)}".rstrip())
    if plan.gates:
        print("\nSuggested gates, which are not in force. Put those you want into .ralph.toml, [execution] gates:")
        for gate in plan.gates:
            print(f"  {printable(gate)}")
    print()


def _ask_about(plan: FeaturePlan) -> FeaturePlan | None:
    """Return the plan that a person accepts, as it is or edited; None if they refuse."""
    from ralph.formats.json_answer import AnswerError
    from ralph.loop.plan import read_plan

    while True:
        answer = ask("[a]ccept [e]dit [r]efuse: ", "refuse").lower()
        if answer in ("a", "accept", "y", "yes"):
            return plan
        if answer in ("r", "refuse", "n", "no", "q"):
            return None
        if answer in ("e", "edit"):
            try:
                plan = read_plan(edit_text(plan.to_json()))
            except AnswerError as error:
                print(f"The edited plan does not count: {printable(str(error))}.")
                continue
            _print_plan(plan)
        else:
            print(KEYS)
