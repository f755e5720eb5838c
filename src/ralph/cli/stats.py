"""`ralph stats`."""

from __future__ import annotations

from ralph.cli.output import (
    add_format,
    bold,
    duration,
    moment,
    open_project,
    plural,
    print_json,
    print_table,
    safe,
    wrapped,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from ralph.memory.lift import Lift, Measure
    from ralph.stats import Credit, Decision, MemoryStats, ModelStats, RunStats, Stats

SUBJECTS = {
    "runs": "what came of the latest runs",
    "models": "what each model achieved at what price, and why it was chosen",
    "memory": "what is remembered, how it grew, what helped and what did not",
    "lift": "the difference memory makes, by the attempts it was left out of",
}
NO_ATTEMPTS = "Nothing to count yet: there are no attempts. They come with: ralph run"
NO_MEMORIES = "Nothing is remembered yet. Memories come with: ralph run, or ralph memory add TEXT"
NOTHING_TO_DRAW = "There is nothing to draw yet."
SHOWN_MODELS = 3
OWN_CHOICE = "(agent's own)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = "\n".join(["Of what:", *(f"  {name:8}{text}" for name, text in SUBJECTS.items())])
    parser.add_argument("subject", nargs="?", choices=tuple(SUBJECTS), help="of what (default: all in short)")
    parser.add_argument("--chart", action="store_true", help="draw a chart also when this is no terminal")
    parser.add_argument("--plot", metavar="FILE", help="write a plot, as FILE.png or FILE.svg")
    add_format(parser)
    parser.set_defaults(act=run)


def run(given: argparse.Namespace) -> int:
    """Print the statistics of a project, and plot them."""
    if given.plot:
        from ralph.cli.plots import check

        check(given.plot)
    with open_project(given) as project:
        act = {"runs": _runs, "models": _models, "memory": _memory, "lift": _lift}.get(given.subject, _all)
        act(project.stats, given)
    return 0


def _plot(given: argparse.Namespace, **subjects: object) -> None:
    """Write the plot that was asked for; JSON on standard output stays JSON."""
    if not given.plot:
        return
    import sys

    from ralph.cli.plots import write

    said = f"Plot written: {safe(given.plot)}" if write(given.plot, subjects) else NOTHING_TO_DRAW
    print(said, file=sys.stderr if given.format == "json" else sys.stdout)


def _chart(title: str, lines: Sequence[str]) -> None:
    print()
    print(bold(wrapped(title)))
    print("\n".join(lines))


# --- runs ------------------------------------------------------------------------------


def _runs(stats: Stats, given: argparse.Namespace) -> None:
    from ralph.cli.charts import bars, is_wanted

    runs = stats.runs()
    if given.format == "json":
        print_json(runs)
    elif not runs:
        print(wrapped(NO_ATTEMPTS))
    else:
        _print_runs(runs)
        if is_wanted(given.chart):
            rows = [(run.id, run.success_rate, _percent(run.success_rate)) for run in reversed(runs)]
            _chart("Success, oldest run first", bars(rows, most=1.0))
    _plot(given, runs=runs)


def _print_runs(runs: Sequence[RunStats]) -> None:
    columns = {
        "RUN": [run.id for run in runs],
        "STARTED": [moment(run.started_at) for run in runs],
        "AGENT": [run.agent for run in runs],
        "ITER": [run.iterations for run in runs],
        "DONE": [run.done for run in runs],
        "RATE": [_percent(run.success_rate) for run in runs],
        "TIME": [duration(run.seconds) for run in runs],
        "TOKENS": [_tokens(run.tokens) for run in runs],
        "COST": [_money(run.cost_usd) for run in runs],
        "ENDING": [run.ending or "has not ended" for run in runs],
    }
    rows = list(zip(*columns.values(), strict=True))
    print_table(tuple(columns), rows, spare=("STARTED", "AGENT", "TOKENS", "TIME"))


# --- models ----------------------------------------------------------------------------


def _models(stats: Stats, given: argparse.Namespace) -> None:
    from ralph.cli.charts import bars, is_wanted

    models, decisions = stats.models(), stats.decisions()
    if given.format == "json":
        print_json({"models": models, "decisions": decisions})
    elif not models:
        print(wrapped(NO_ATTEMPTS))
    else:
        _print_models(models)
        if is_wanted(given.chart) and any(one.cost_per_done_usd for one in models):
            rows = [(_name(one.model), one.cost_per_done_usd, _money(one.cost_per_done_usd)) for one in models]
            _chart("Cost of a done task", bars(rows))
        _print_decisions(decisions)
    _plot(given, models=models)


def _print_models(models: Sequence[ModelStats]) -> None:
    rows = [
        (
            _name(one.model),
            f"{one.attempts:,}",
            f"{one.done:,}",
            _percent(one.success_rate),
            duration(one.mean_seconds),
            _tokens(one.tokens),
            _money(one.cost_usd),
            _money(one.cost_per_done_usd),
        )
        for one in models
    ]
    headings = ("MODEL", "ATTEMPTS", "DONE", "RATE", "MEAN TIME", "TOKENS", "COST", "A DONE TASK")
    print_table(headings, rows, spare=("MEAN TIME", "TOKENS", "COST", "DONE"))


def _print_decisions(decisions: Sequence[Decision]) -> None:
    print()
    print(bold("Latest decisions"))
    rows = [
        (
            f"{one.run_id}/{one.iteration}",
            one.task_id or "-",
            _name(one.model),
            one.outcome or "running",
            one.reason or "-",
        )
        for one in decisions
    ]
    print_table(("ATTEMPT", "TASK", "MODEL", "OUTCOME", "REASON"), rows)


def _name(model: str) -> str:
    return model or OWN_CHOICE


# --- memory ----------------------------------------------------------------------------


def _memory(stats: Stats, given: argparse.Namespace) -> None:
    from ralph.cli.charts import columns, is_wanted

    memory = stats.memory()
    if given.format == "json":
        print_json(memory)
    elif not memory.memories:
        print(wrapped(NO_MEMORIES))
    else:
        _print_kinds(memory)
        if is_wanted(given.chart) and len(memory.growth) > 1:
            first, last = memory.growth[0].at, memory.growth[-1].at
            lines = columns([one.memories for one in memory.growth], first=_when(first), last=_when(last))
            _chart("Memories in use, by when they were learned", lines)
        _print_credits("Most helpful", memory.helpful)
        _print_credits("Most doubtful", memory.doubtful)
    _plot(given, memory=memory)


def _print_kinds(memory: MemoryStats) -> None:
    rows: list[tuple[object, ...]] = [
        (
            one.kind,
            f"{one.memories:,}",
            f"{one.shown:,}",
            f"{one.wins:,}",
            f"{one.losses:,}",
            _percent(one.success_rate),
            f"{one.confidence:.2f}",
        )
        for one in memory.kinds
    ]
    print_table(
        ("KIND", "MEMORIES", "SHOWN", "WINS", "LOSSES", "RATE", "CONFIDENCE"), rows, spare=("SHOWN", "LOSSES", "WINS")
    )


def _print_credits(title: str, credits: Sequence[Credit]) -> None:
    if not credits:
        return
    print()
    print(bold(title))
    rows = [(one.id, one.kind, one.wins, one.losses, f"{one.confidence:.2f}", one.title) for one in credits]
    print_table(("ID", "TYPE", "WINS", "LOSSES", "CONFIDENCE", "TITLE"), rows, spare=("TYPE", "CONFIDENCE"))


def _when(at: str) -> str:
    """Give a day, or an hour of it."""
    day, _, hour = at.partition("T")
    return f"{day} {hour}:00" if hour else day


# --- lift ------------------------------------------------------------------------------


def _lift(stats: Stats, given: argparse.Namespace) -> None:
    from ralph.cli.charts import interval, is_wanted

    lift = stats.lift()
    if given.format == "json":
        print_json(lift)
    else:
        _print_lift(lift)
        if lift.measures and is_wanted(given.chart):
            success = lift.measures[0]
            lines = interval(success.low, success.difference, success.high)
            _chart("Success: points gained with memory, 95 % interval", lines)
    _plot(given, lift=lift)


def _print_lift(lift: Lift) -> None:
    if lift.measures:
        arms = (lift.with_memory, lift.without)
        rows: list[tuple[object, ...]] = [
            ("attempts", *(f"{arm.attempts:,}" for arm in arms), "", ""),
            ("done tasks", *(f"{arm.done:,}" for arm in arms), "", ""),
            *(_measure_row(one) for one in lift.measures),
        ]
        print_table(("MEASURE", "WITH", "WITHOUT", "DIFFERENCE", "95 % INTERVAL"), rows)
        print()
    print(wrapped(lift.says))
    if lift.shown_says:
        print(wrapped(lift.shown_says))


def _measure_row(one: Measure) -> tuple[object, ...]:
    amount = _AMOUNT[one.unit]
    apart = (lambda value: f"{value:.1f}") if one.unit == "%" else amount
    share = " points" if one.unit == "%" else f" ({one.percent:+.0f} %)"
    ends = f"{_signed(one.low, apart)} to {_signed(one.high, apart)}"
    return (one.name, amount(one.with_memory), amount(one.without), _signed(one.difference, apart) + share, ends)


def _signed(value: float, amount: Callable[[float], str]) -> str:
    return ("-" if value < 0 else "+") + amount(abs(value))


_AMOUNT: dict[str, Callable[[float], str]] = {
    "%": lambda value: f"{value:.1f} %",
    "attempts": lambda value: f"{value:.2f}",
    "tokens": lambda value: f"{value:,.0f}",
    "usd": lambda value: f"${value:,.3f}",
}


# --- all in short ------------------------------------------------------------------------


def _all(stats: Stats, given: argparse.Namespace) -> None:
    from ralph.cli.charts import bars, is_wanted

    runs, models, memory, lift = stats.runs(), stats.models(), stats.memory(), stats.lift()
    subjects = {"runs": runs, "models": models, "memory": memory, "lift": lift}
    if given.format == "json":
        print_json(subjects)
    elif not models and not memory.memories:
        print(wrapped(NO_ATTEMPTS))
    else:
        for name, text in (
            ("Runs", _runs_in_short(runs, models)),
            ("Models", _models_in_short(models)),
            ("Memory", _memory_in_short(memory)),
            ("Lift", lift.in_short),
        ):
            print(wrapped(text, f"{name:8}", " " * 8))
        if runs and is_wanted(given.chart):
            rows = [(run.id, run.success_rate, _percent(run.success_rate)) for run in reversed(runs)]
            _chart("Success, oldest run first", bars(rows, most=1.0))
    _plot(given, **subjects)


def _runs_in_short(runs: Sequence[RunStats], models: Sequence[ModelStats]) -> str:
    if not runs:
        return "none yet"
    done, failed = sum(one.done for one in models), sum(one.failed for one in models)
    rate = f", {_percent(done / (done + failed))} of them done" if done + failed else ""
    latest = runs[0]
    return (
        f"{plural(sum(one.attempts for one in models), 'attempt')}{rate}, {_price_in_short(models)};"
        f" the latest run got {latest.done} done in {plural(latest.iterations, 'iteration')}"
    )


def _price_in_short(models: Sequence[ModelStats]) -> str:
    tokens, cost_usd = sum(one.tokens or 0 for one in models), sum(one.cost_usd or 0.0 for one in models)
    if not tokens and not cost_usd:
        return "tokens and cost not told"
    said = f"{_tokens(tokens)} tokens" if tokens else "tokens not told"
    return f"{said}, {_money(cost_usd) if cost_usd else 'cost not told'}"


def _models_in_short(models: Sequence[ModelStats]) -> str:
    told = [
        f"{_name(one.model)} {_percent(one.success_rate)} of {one.attempts:,}"
        + (f" at {_money(one.cost_per_done_usd)} a done task" if one.cost_per_done_usd else "")
        for one in models[:SHOWN_MODELS]
    ]
    more = [f"{len(models) - SHOWN_MODELS} more"] if len(models) > SHOWN_MODELS else []
    return "; ".join([*told, *more]) or "none yet"


def _memory_in_short(memory: MemoryStats) -> str:
    if not memory.memories:
        return "nothing yet"
    rate = f", in attempts of which {_percent(memory.success_rate)} got done" if memory.success_rate is not None else ""
    return f"{plural(memory.memories, 'memory')}, shown {plural(memory.shown, 'time')}{rate}"


# --- numbers -----------------------------------------------------------------------------


def _percent(rate: float | None) -> str:
    return "-" if rate is None else f"{100 * rate:.0f} %"


def _money(usd: float | None) -> str:
    if usd is None:
        return "-"
    return f"${usd:,.2f}" if usd >= 0.1 or not usd else f"${usd:.4f}"


def _tokens(count: int | None) -> str:
    """Give a count of tokens for people: 850, 12.3k, 4.1M."""
    if count is None:
        return "-"
    for size, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            return f"{count / size:.1f}{letter}"
    return str(count)
