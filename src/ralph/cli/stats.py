"""`ralph stats`."""

from __future__ import annotations

import sys

from ralph.cli.charts import bar_chart, column_chart, interval_chart, should_draw
from ralph.cli.output import (
    add_format_option,
    bold,
    format_duration,
    format_time,
    open_project,
    pluralize,
    print_json,
    print_table,
    printable,
    wrap_line,
)
from ralph.cli.plots import check_plot_file, write_plot
from ralph.core.records import outcome_word

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from ralph.loop.stats import Credit, Decision, FailureStats, MemoryStats, ModelStats, RunStats, Stats
    from ralph.memory.lifecycle.estimates import Estimate
    from ralph.memory.lifecycle.lift import Lift, Measure

SUBJECTS = {
    "runs": "results of the latest runs",
    "models": "success rate and cost of each model, and why it was chosen",
    "tasks": "attempts, time and cost of done tasks, by type of task",
    "failures": "what attempts failed because of: project, agent, service, person or Ralph",
    "memory": "number of memories over time, and which of them helped",
    "lift": "effect of memory, measured against attempts without it",
}
NO_ATTEMPTS = "No attempts yet. Start a run with: ralph run"
NO_DONE_TASKS = "No task is done yet. Start a run with: ralph run"
NO_FAILURES = "No attempt has failed yet. Start a run with: ralph run"
NO_PLOT_DATA = "There is no data to plot yet."
NO_MEMORIES = "No memories yet. Start a run with ralph run, or add one with: ralph memory add TEXT"
MAX_MODELS_SHOWN = 3
"""Number of models listed in the overview."""
MAX_TYPES_SHOWN = 2
"""Number of types of tasks listed in the overview."""
AGENT_DEFAULT_MODEL = "(agent default)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = "\n".join(["Subjects:", *(f"  {name:10}{text}" for name, text in SUBJECTS.items())])
    parser.add_argument("subject", nargs="?", choices=tuple(SUBJECTS), help="what to show (default: an overview)")
    parser.add_argument("--chart", action="store_true", help="draw charts even if the output is not a terminal")
    parser.add_argument("--plot", metavar="FILE", help="write a plot to FILE.png or FILE.svg")
    add_format_option(parser)
    parser.set_defaults(act=run)


def run(args: argparse.Namespace) -> int:
    """Print statistics of the project and plot them."""
    if args.plot:
        check_plot_file(args.plot)
    with open_project(args) as project:
        _SUBJECT_ACTIONS.get(args.subject, _overview)(project.stats, args)
    return 0


def _plot(args: argparse.Namespace, **subjects: object) -> None:
    """Write the requested plot. With JSON output, the message goes to standard error."""
    if args.plot:
        message = f"Plot written: {printable(args.plot)}" if write_plot(args.plot, subjects) else NO_PLOT_DATA
        print(message, file=sys.stderr if args.format == "json" else sys.stdout)


def _chart(title: str, lines: Sequence[str]) -> None:
    print()
    print(bold(wrap_line(title)))
    print("\n".join(lines))


# --- runs ------------------------------------------------------------------------------


def _runs(stats: Stats, args: argparse.Namespace) -> None:
    runs = stats.runs()
    if args.format == "json":
        print_json(runs)
    elif not runs:
        print(wrap_line(NO_ATTEMPTS))
    else:
        _print_runs(runs)
        if should_draw(args.chart):
            rows = [(run.id, run.success_rate, _percent(run.success_rate)) for run in reversed(runs)]
            _chart("Success rate, oldest run first", bar_chart(rows, maximum=1.0))
    _plot(args, runs=runs)


def _print_runs(runs: Sequence[RunStats]) -> None:
    columns = {
        "RUN": [run.id for run in runs],
        "STARTED": [format_time(run.started_at) for run in runs],
        "AGENT": [run.agent for run in runs],
        "ITER": [run.iterations for run in runs],
        "DONE": [run.done for run in runs],
        "RATE": [_percent(run.success_rate) for run in runs],
        "TIME": [format_duration(run.seconds) for run in runs],
        "TOKENS": [_tokens(run.tokens) for run in runs],
        "COST": [_money(run.cost_usd) for run in runs],
        "ENDING": [run.ending or "not ended" for run in runs],
    }
    rows = list(zip(*columns.values(), strict=True))
    print_table(tuple(columns), rows, droppable=("STARTED", "AGENT", "TOKENS", "TIME"))


# --- models ----------------------------------------------------------------------------


def _models(stats: Stats, args: argparse.Namespace) -> None:
    models, decisions = stats.models(), stats.decisions()
    if args.format == "json":
        print_json({"models": models, "decisions": decisions})
    elif not models:
        print(wrap_line(NO_ATTEMPTS))
    else:
        _print_models(models)
        if should_draw(args.chart) and any(model.cost_per_done_usd for model in models):
            rows = [
                (_model_name(model.model), model.cost_per_done_usd, _money(model.cost_per_done_usd)) for model in models
            ]
            _chart("Cost per completed task", bar_chart(rows))
        _print_decisions(decisions)
    _plot(args, models=models)


def _print_models(models: Sequence[ModelStats]) -> None:
    rows = [
        (
            _model_name(model.model),
            f"{model.attempts:,}",
            f"{model.done:,}",
            _percent(model.success_rate),
            format_duration(model.mean_seconds),
            _tokens(model.tokens),
            _money(model.cost_usd),
            _money(model.cost_per_done_usd),
        )
        for model in models
    ]
    headings = ("MODEL", "ATTEMPTS", "DONE", "RATE", "MEAN TIME", "TOKENS", "COST", "COST PER TASK")
    print_table(headings, rows, droppable=("MEAN TIME", "TOKENS", "COST", "DONE"))


def _print_decisions(decisions: Sequence[Decision]) -> None:
    print()
    print(bold("Latest decisions"))
    rows = [
        (
            f"{decision.run_id}/{decision.iteration}",
            decision.task_id or "-",
            _model_name(decision.model),
            outcome_word(decision.outcome),
            decision.reason or "-",
        )
        for decision in decisions
    ]
    print_table(("ATTEMPT", "TASK", "MODEL", "OUTCOME", "REASON"), rows, droppable=("TASK", "OUTCOME"))


def _model_name(model: str) -> str:
    return model or AGENT_DEFAULT_MODEL


# --- tasks and failures ----------------------------------------------------------------


def _tasks(stats: Stats, args: argparse.Namespace) -> None:
    estimates = stats.estimates()
    if args.format == "json":
        print_json(estimates)
    elif not estimates:
        print(wrap_line(NO_DONE_TASKS))
    else:
        rows = [
            (
                one.task_type,
                f"{one.tasks:,}",
                f"{one.attempts:g}",
                format_duration(one.seconds),
                _money(one.cost_usd),
            )
            for one in estimates
        ]
        print_table(("TYPE", "DONE", "ATTEMPTS", "TIME", "COST"), rows)
        print(wrap_line("Attempts, time and cost are medians per done task, over all its attempts."))
        if should_draw(args.chart):
            bars = [(one.task_type, one.seconds, format_duration(one.seconds)) for one in estimates]
            _chart("Time per done task", bar_chart(bars))
    _plot(args)


def _failures(stats: Stats, args: argparse.Namespace) -> None:
    failures = stats.failures()
    if args.format == "json":
        print_json(failures)
    elif not failures:
        print(wrap_line(NO_FAILURES))
    else:
        rows = [
            (
                one.cause,
                f"{one.attempts:,}",
                f"{one.tasks:,}",
                format_duration(one.seconds),
                _money(one.cost_usd),
                format_time(one.latest),
            )
            for one in failures
        ]
        print_table(("CAUSE", "ATTEMPTS", "TASKS", "TIME", "COST", "LATEST"), rows, droppable=("LATEST", "COST"))
        print(wrap_line("Only failures of the project can become memories. Each with its reason: ralph failures list"))
        if should_draw(args.chart):
            _chart("Failed attempts", bar_chart([(one.cause, one.attempts, f"{one.attempts:,}") for one in failures]))
    _plot(args)


def _summarize_tasks(estimates: Sequence[Estimate]) -> str:
    more = [f"{len(estimates) - MAX_TYPES_SHOWN} more"] if len(estimates) > MAX_TYPES_SHOWN else []
    return (
        "; ".join([*(f"{one.task_type} {one.text}" for one in estimates[:MAX_TYPES_SHOWN]), *more]) or "none done yet"
    )


def _summarize_failures(failures: Sequence[FailureStats]) -> str:
    return ", ".join(f"{one.cause} {one.attempts:,}" for one in failures) or "none"


# --- memory ----------------------------------------------------------------------------


def _memory(stats: Stats, args: argparse.Namespace) -> None:
    memory = stats.memory()
    if args.format == "json":
        print_json(memory)
    elif not memory.memories:
        print(wrap_line(NO_MEMORIES))
    else:
        _print_kinds(memory)
        if should_draw(args.chart) and len(memory.growth) > 1:
            first, last = memory.growth[0].at, memory.growth[-1].at
            lines = column_chart(
                [point.memories for point in memory.growth], first=_format_time(first), last=_format_time(last)
            )
            _chart("Active memories over time", lines)
        _print_credits("Most helpful", memory.helpful)
        _print_credits("Least helpful", memory.doubtful)
    _plot(args, memory=memory)


def _print_kinds(memory: MemoryStats) -> None:
    rows: list[tuple[object, ...]] = [
        (
            kind.kind,
            f"{kind.memories:,}",
            f"{kind.shown:,}",
            f"{kind.wins:,}",
            f"{kind.losses:,}",
            _percent(kind.success_rate),
            f"{kind.confidence:.2f}",
        )
        for kind in memory.kinds
    ]
    print_table(
        ("KIND", "MEMORIES", "SHOWN", "WINS", "LOSSES", "RATE", "CONFIDENCE"),
        rows,
        droppable=("SHOWN", "LOSSES", "WINS"),
    )


def _print_credits(title: str, credits: Sequence[Credit]) -> None:
    if not credits:
        return
    print()
    print(bold(title))
    rows = [
        (credit.id, credit.kind, credit.wins, credit.losses, f"{credit.confidence:.2f}", credit.title)
        for credit in credits
    ]
    print_table(("ID", "TYPE", "WINS", "LOSSES", "CONFIDENCE", "TITLE"), rows, droppable=("TYPE", "CONFIDENCE"))


def _format_time(at: str) -> str:
    """Format a day, or an hour of a day."""
    day, _, hour = at.partition("T")
    return f"{day} {hour}:00" if hour else day


# --- lift ------------------------------------------------------------------------------


def _lift(stats: Stats, args: argparse.Namespace) -> None:
    lift = stats.lift()
    if args.format == "json":
        print_json(lift)
    else:
        _print_lift(lift)
        if lift.measures and should_draw(args.chart):
            success = lift.measures[0]
            lines = interval_chart(success.low, success.difference, success.high)
            _chart("Success rate: change with memory, in percentage points (95% interval)", lines)
    _plot(args, lift=lift)


def _print_lift(lift: Lift) -> None:
    if lift.measures:
        arms = (lift.with_memory, lift.without)
        rows: list[tuple[object, ...]] = [
            ("attempts", *(f"{arm.attempts:,}" for arm in arms), "", ""),
            ("done tasks", *(f"{arm.done:,}" for arm in arms), "", ""),
            *(_measure_row(measure) for measure in lift.measures),
        ]
        headings = ("MEASURE", "WITH", "WITHOUT", "DIFFERENCE", "95% INTERVAL")
        print_table(headings, rows, droppable=("95% INTERVAL",))
        print()
    print(wrap_line(lift.says))
    if lift.shown_says:
        print(wrap_line(lift.shown_says))


def _measure_row(measure: Measure) -> tuple[object, ...]:
    format_value = _VALUE_FORMATS[measure.unit]
    format_difference = (lambda value: f"{value:.1f}") if measure.unit == "%" else format_value
    suffix = " points" if measure.unit == "%" else f" ({measure.percent:+.0f}%)"
    interval = f"{_signed(measure.low, format_difference)} to {_signed(measure.high, format_difference)}"
    return (
        measure.name,
        format_value(measure.with_memory),
        format_value(measure.without),
        _signed(measure.difference, format_difference) + suffix,
        interval,
    )


def _signed(value: float, format_value: Callable[[float], str]) -> str:
    return ("-" if value < 0 else "+") + format_value(abs(value))


_VALUE_FORMATS: dict[str, Callable[[float], str]] = {
    "%": lambda value: f"{value:.1f}%",
    "attempts": lambda value: f"{value:.2f}",
    "tokens": lambda value: f"{value:,.0f}",
    "usd": lambda value: f"${value:,.3f}",
}


# --- overview ----------------------------------------------------------------------------


def _overview(stats: Stats, args: argparse.Namespace) -> None:
    runs, models, memory, lift = stats.runs(), stats.models(), stats.memory(), stats.lift()
    estimates, failures = stats.estimates(), stats.failures()
    if args.format == "json":
        subjects = {"runs": runs, "models": models, "tasks": estimates, "failures": failures}
        print_json({**subjects, "memory": memory, "lift": lift})
    elif not models and not memory.memories:
        print(wrap_line(NO_ATTEMPTS))
    else:
        for name, text in (
            ("Runs", _summarize_runs(runs, models)),
            ("Models", _summarize_models(models)),
            ("Tasks", _summarize_tasks(estimates)),
            ("Failures", _summarize_failures(failures)),
            ("Memory", _summarize_memory(memory)),
            ("Lift", lift.summary),
        ):
            print(wrap_line(text, f"{name:10}", " " * 10))
        if runs and should_draw(args.chart):
            rows = [(run.id, run.success_rate, _percent(run.success_rate)) for run in reversed(runs)]
            _chart("Success rate, oldest run first", bar_chart(rows, maximum=1.0))
    _plot(args, runs=runs, models=models, memory=memory, lift=lift)


def _summarize_runs(runs: Sequence[RunStats], models: Sequence[ModelStats]) -> str:
    if not runs:
        return "none yet"
    done, failed = sum(model.done for model in models), sum(model.failed for model in models)
    rate = f", {_percent(done / (done + failed))} successful" if done + failed else ""
    latest = runs[0]
    return (
        f"{pluralize(sum(model.attempts for model in models), 'attempt')}{rate}, {_summarize_cost(models)};"
        f" latest run: {latest.done} done in {pluralize(latest.iterations, 'iteration')}"
    )


def _summarize_cost(models: Sequence[ModelStats]) -> str:
    tokens, cost_usd = sum(model.tokens or 0 for model in models), sum(model.cost_usd or 0.0 for model in models)
    if not tokens and not cost_usd:
        return "tokens and cost unknown"
    token_text = f"{_tokens(tokens)} tokens" if tokens else "tokens unknown"
    return f"{token_text}, {_money(cost_usd) if cost_usd else 'cost unknown'}"


def _summarize_models(models: Sequence[ModelStats]) -> str:
    parts = [
        f"{_model_name(model.model)} {_percent(model.success_rate)} of {model.attempts:,}"
        + (f" at {_money(model.cost_per_done_usd)} per completed task" if model.cost_per_done_usd else "")
        for model in models[:MAX_MODELS_SHOWN]
    ]
    more = [f"{len(models) - MAX_MODELS_SHOWN} more"] if len(models) > MAX_MODELS_SHOWN else []
    return "; ".join([*parts, *more]) or "none yet"


def _summarize_memory(memory: MemoryStats) -> str:
    if not memory.memories:
        return "none yet"
    rate = (
        f", {_percent(memory.success_rate)} of them in successful attempts" if memory.success_rate is not None else ""
    )
    return f"{pluralize(memory.memories, 'memory')}, shown {pluralize(memory.shown, 'time')}{rate}"


# --- numbers -----------------------------------------------------------------------------


def _percent(rate: float | None) -> str:
    return "-" if rate is None else f"{100 * rate:.0f}%"


def _money(usd: float | None) -> str:
    if usd is None:
        return "-"
    return f"${usd:,.2f}" if usd >= 0.1 or not usd else f"${usd:.4f}"


def _tokens(count: int | None) -> str:
    """Format a number of tokens: `850`, `12.3k`, `4.1M`."""
    if count is None:
        return "-"
    for size, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            return f"{count / size:.1f}{letter}"
    return str(count)


_SUBJECT_ACTIONS = {
    "runs": _runs,
    "models": _models,
    "tasks": _tasks,
    "failures": _failures,
    "memory": _memory,
    "lift": _lift,
}
