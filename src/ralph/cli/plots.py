"""Plots of the statistics as PNG or SVG files, drawn with matplotlib (an optional dependency)."""

from __future__ import annotations

from ralph.cli.output import printable, truncate
from ralph.core.errors import UsageError
from ralph.core.text import one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from matplotlib.axes import Axes

    from ralph.loop.stats import MemoryStats, ModelStats, RunStats
    from ralph.memory.lifecycle.lift import Lift

FORMATS = (".png", ".svg")
BLUE, ORANGE, GREEN, GREY, INK = "#3a6ea5", "#dd8452", "#4c9f70", "#b8bec6", "#2b2f36"
_STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 12,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "text.color": INK,
    "text.parse_math": False,  # $ is a currency sign here
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": "#e6e8eb",
    "svg.hashsalt": "ralph",
    "svg.fonttype": "path",
}
SINGLE_FIGURE_INCHES = (8.0, 4.5)
"""Size of a figure with one plot, in inches."""
GRID_FIGURE_INCHES = (14.0, 9.0)
"""Size of a figure with four plots, in inches."""
PLOT_DPI = 150
MAX_MODELS_PLOTTED = 8
MAX_KINDS_PLOTTED = 10
MAX_NAME_LENGTH = 24


def check_plot_file(name: str) -> None:
    """Raise UsageError if a plot cannot be written to this file."""
    if not name.lower().endswith(FORMATS):
        raise UsageError(f"Cannot plot to {one_line(name)}: the name must end in .png or .svg.")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        from ralph.core.extras import install_hint

        raise UsageError(f"Plots need an optional package: {install_hint('plot')}") from None


def write_plot(name: str, subjects: Mapping[str, Any]) -> bool:
    """Plot one subject, or all four, into a file. Return False if there is no data to plot."""
    empty = {subject: _why_empty(subject, data) for subject, data in subjects.items()}
    if all(empty.values()):
        return False
    import io
    from pathlib import Path

    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    from ralph.core.files import write_atomically

    path = Path(name)
    content = io.BytesIO()
    with matplotlib.rc_context(_STYLE):
        layout = ConstrainedLayoutEngine(w_pad=0.15, h_pad=0.15, wspace=0.06, hspace=0.08)
        figure = Figure(
            figsize=SINGLE_FIGURE_INCHES if len(subjects) == 1 else GRID_FIGURE_INCHES, layout=layout, facecolor="white"
        )
        rows = 1 if len(subjects) == 1 else 2
        for position, (subject, data) in enumerate(subjects.items(), start=1):
            axes = figure.add_subplot(rows, rows, position)
            if empty[subject]:
                _draw_placeholder(axes, _TITLES[subject], empty[subject])
            else:
                _DRAWERS[subject](axes, data)
        kind = path.suffix.lower().removeprefix(".")
        # Without a date, the same numbers produce the same file.
        metadata = {"Date": None} if kind == "svg" else {"Software": None}
        figure.savefig(content, format=kind, dpi=PLOT_DPI, metadata=metadata)
    try:
        write_atomically(path, content.getvalue())
    except OSError as error:
        raise UsageError(f"Cannot write {one_line(name)}: {error.strerror}.") from error
    return True


_TITLES = {
    "runs": "Success rate by run",
    "models": "Cost by model",
    "memory": "Active memories and their confidence",
    "lift": "Memory impact, with 95% intervals",
}


def _why_empty(subject: str, data: Any) -> str:
    """Return why a subject cannot be plotted, or an empty string if it can."""
    if subject == "runs":
        return "" if any(run.success_rate is not None for run in data) else "No attempt has ended yet."
    if subject == "models":
        return "" if any(model.cost_usd for model in data) else "No agent has reported a cost yet."
    if subject == "memory":
        return "" if data.memories else "There are no memories yet."
    return "" if data.measures else str(data.summary)


def _draw_placeholder(axes: Axes, title: str, text: str) -> None:
    import textwrap

    axes.set_title(title)
    axes.set_axis_off()
    axes.text(0.5, 0.5, textwrap.fill(text, 48), ha="center", va="center", color="#6b7280", transform=axes.transAxes)


def _runs(axes: Axes, runs: Sequence[RunStats]) -> None:
    axes.set_title(_TITLES["runs"])
    shown = [run for run in reversed(runs) if run.success_rate is not None]
    positions = range(len(shown))
    rates = [100 * (run.success_rate or 0.0) for run in shown]
    axes.bar(positions, rates, color=BLUE, width=0.7)
    for position, (rate, run) in enumerate(zip(rates, shown, strict=True)):
        note = f"{run.done}/{run.done + run.failed}"
        axes.annotate(note, (position, rate), xytext=(0, 4), textcoords="offset points", ha="center", fontsize=8)
    axes.set_ylim(0, 110)
    axes.set_yticks(range(0, 101, 20))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0f}%")
    axes.set_xlim(-0.6, max(len(shown) - 0.4, 3.6))
    axes.set_xticks(
        list(positions), [run.id.removeprefix("run-") for run in shown], rotation=45, ha="right", fontsize=8
    )
    axes.grid(axis="y")


def _models(axes: Axes, models: Sequence[ModelStats]) -> None:
    axes.set_title(_TITLES["models"])
    shown = list(reversed(models[:MAX_MODELS_PLOTTED]))
    costs = [model.cost_usd or 0.0 for model in shown]
    axes.barh(range(len(shown)), costs, color=ORANGE, height=0.6)
    for position, (cost, model) in enumerate(zip(costs, shown, strict=True)):
        per_task = "" if model.cost_per_done_usd is None else f", ${model.cost_per_done_usd:,.3f} per completed task"
        note = f"${cost:,.2f}{per_task}" if cost else "unknown"
        axes.annotate(note, (cost, position), xytext=(6, 0), textcoords="offset points", va="center", fontsize=9)
    axes.set_yticks(range(len(shown)), [_model_label(model) for model in shown])
    axes.set_ylim(-0.6, max(len(shown) - 0.4, 2.4))
    axes.set_xlim(0, max(costs) * 1.6)
    axes.xaxis.set_major_formatter(lambda value, _: f"${value:,.2f}" if max(costs) > 1 else f"${value:.3g}")
    axes.grid(axis="x")


def _model_label(model: ModelStats) -> str:
    name = truncate(printable(model.model or "agent default"), MAX_NAME_LENGTH)
    ended = model.done + model.failed
    return f"{name}\n{100 * (model.success_rate or 0.0):.0f}% of {ended:,} done" if ended else name


def _memory(axes: Axes, memory: MemoryStats) -> None:
    if len(memory.growth) > 1:
        _growth(axes, memory)
    else:
        _kinds(axes, memory)


def _growth(axes: Axes, memory: MemoryStats) -> None:
    axes.set_title(_TITLES["memory"])
    positions = range(len(memory.growth))
    counts = [point.memories for point in memory.growth]
    axes.fill_between(positions, counts, color=GREEN, alpha=0.25)
    axes.plot(positions, counts, color=GREEN, linewidth=2, marker="o" if len(counts) < 30 else "", markersize=4)
    axes.set_ylim(0, max(counts) * 1.15)
    axes.set_ylabel("memories", color=GREEN)
    step = max(1, len(counts) // 8)
    axes.set_xticks(
        list(positions)[::step], [_format_time(point.at) for point in memory.growth[::step]], rotation=45, ha="right"
    )
    axes.tick_params(axis="x", labelsize=8)
    axes.grid(axis="y")
    right_axes = axes.twinx()
    right_axes.plot(
        positions, [point.confidence for point in memory.growth], color=BLUE, linewidth=2, linestyle=(0, (4, 2))
    )
    right_axes.set_ylim(0, 1)
    right_axes.set_ylabel("average confidence", color=BLUE)
    right_axes.spines["right"].set_visible(False)


def _kinds(axes: Axes, memory: MemoryStats) -> None:
    """Plot memories by type. Used while all of them are from the same time, so that there is no growth to show."""
    from matplotlib.ticker import MaxNLocator

    axes.set_title("Active memories by type")
    shown = list(reversed(memory.kinds[:MAX_KINDS_PLOTTED]))
    counts = [kind.memories for kind in shown]
    axes.barh(range(len(shown)), counts, color=GREEN, height=0.6)
    for position, kind in enumerate(shown):
        note = f"{kind.memories:,}, confidence {kind.confidence:.2f}"
        axes.annotate(
            note, (kind.memories, position), xytext=(6, 0), textcoords="offset points", va="center", fontsize=9
        )
    axes.set_yticks(range(len(shown)), [truncate(printable(kind.kind), MAX_NAME_LENGTH) for kind in shown])
    axes.set_ylim(-0.6, max(len(shown) - 0.4, 2.4))
    axes.set_xlim(0, max(counts) * 1.5)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(axis="x")


def _format_time(at: str) -> str:
    day, _, hour = at.partition("T")
    return f"{day[5:]} {hour}:00" if hour else day


def _lift(axes: Axes, lift: Lift) -> None:
    import textwrap

    axes.set_title(_TITLES["lift"])
    names = []
    for position, measure in enumerate(reversed(lift.measures)):
        # One scale for all: success in percentage points, the others in percent of the value without memory.
        scale = 1.0 if measure.unit == "%" else 100 / measure.without
        middle, low, high = (value * scale for value in (measure.difference, measure.low, measure.high))
        is_improvement = (middle > 0) is (measure.unit == "%")
        color = (GREEN if is_improvement else ORANGE) if measure.is_certain else "#8b939e"
        axes.plot([low, high], [position, position], color=color, linewidth=3, solid_capstyle="round")
        axes.plot([middle], [position], marker="o", markersize=9, color=color)
        axes.annotate(
            f"{middle:+.0f}", (middle, position), xytext=(0, 9), textcoords="offset points", ha="center", fontsize=9
        )
        names.append("success (points)" if measure.unit == "%" else f"{measure.name} (%)")
    axes.axvline(0, color=INK, linewidth=1)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(-0.6, len(names) - 0.3)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:+.0f}" if value else "0")
    axes.set_xlabel(textwrap.fill(lift.summary, 88), fontsize=8, color="#6b7280")
    axes.grid(axis="x")


_DRAWERS: dict[str, Callable[[Axes, Any], None]] = {"runs": _runs, "models": _models, "memory": _memory, "lift": _lift}
