"""Statistics as PNG or SVG files, by matplotlib: an extra, loaded only when a plot is asked for."""

from __future__ import annotations

from ralph.cli.output import cut_to, safe
from ralph.errors import UsageError
from ralph.text import one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from matplotlib.axes import Axes

    from ralph.memory.lift import Lift
    from ralph.stats import MemoryStats, ModelStats, RunStats

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
    "text.parse_math": False,  # a $ is money
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": "#e6e8eb",
    "svg.hashsalt": "ralph",
    "svg.fonttype": "path",
}
ONE = (8.0, 4.5)
FOUR = (14.0, 9.0)
DOTS_PER_INCH = 150
MOST_MODELS = 8
MOST_KINDS = 10
LONGEST_NAME = 24


def check(name: str) -> None:
    """Refuse a plot that could not be written, before anything is read for it."""
    if not name.lower().endswith(FORMATS):
        raise UsageError(f"{one_line(name)} is no file for a plot: its name has to end in .png or .svg.")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        from ralph.extras import how_to_install

        raise UsageError(f"Plots need a package that is not there: {how_to_install('plot')}") from None


def write(name: str, subjects: Mapping[str, Any]) -> bool:
    """Write the plot of one subject, or of all, into a file; say whether there was anything to draw."""
    missing = {subject: _missing(subject, found) for subject, found in subjects.items()}
    if all(missing.values()):
        return False
    import io
    from pathlib import Path

    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    from ralph.files import write_whole

    path = Path(name)
    content = io.BytesIO()
    with matplotlib.rc_context(_STYLE):
        layout = ConstrainedLayoutEngine(w_pad=0.15, h_pad=0.15, wspace=0.06, hspace=0.08)
        figure = Figure(figsize=ONE if len(subjects) == 1 else FOUR, layout=layout, facecolor="white")
        rows = 1 if len(subjects) == 1 else 2
        for place, (subject, found) in enumerate(subjects.items(), start=1):
            axes = figure.add_subplot(rows, rows, place)
            if missing[subject]:
                _nothing(axes, _TITLES[subject], missing[subject])
            else:
                _DRAW[subject](axes, found)
        kind = path.suffix.lower().removeprefix(".")
        # Without a date the same numbers make the same file.
        metadata = {"Date": None} if kind == "svg" else {"Software": None}
        figure.savefig(content, format=kind, dpi=DOTS_PER_INCH, metadata=metadata)
    try:
        write_whole(path, content.getvalue())
    except OSError as error:
        raise UsageError(f"{one_line(name)} cannot be written: {error.strerror}.") from error
    return True


_TITLES = {
    "runs": "Success over runs",
    "models": "Cost by model",
    "memory": "Memories in use, and their confidence",
    "lift": "What memory brings, with 95 % intervals",
}


def _missing(subject: str, found: Any) -> str:
    """Say why there is nothing to draw of a subject; nothing when there is something."""
    if subject == "runs":
        return "" if any(run.success_rate is not None for run in found) else "No attempt has ended yet."
    if subject == "models":
        return "" if any(one.cost_usd for one in found) else "No agent has told a cost yet."
    if subject == "memory":
        return "" if found.memories else "Nothing is remembered yet."
    return "" if found.measures else str(found.in_short)


def _nothing(axes: Axes, title: str, text: str) -> None:
    import textwrap

    axes.set_title(title)
    axes.set_axis_off()
    axes.text(0.5, 0.5, textwrap.fill(text, 48), ha="center", va="center", color="#6b7280", transform=axes.transAxes)


def _runs(axes: Axes, runs: Sequence[RunStats]) -> None:
    axes.set_title(_TITLES["runs"])
    shown = [run for run in reversed(runs) if run.success_rate is not None]
    places = range(len(shown))
    rates = [100 * (run.success_rate or 0.0) for run in shown]
    axes.bar(places, rates, color=BLUE, width=0.7)
    for place, (rate, run) in enumerate(zip(rates, shown, strict=True)):
        note = f"{run.done}/{run.done + run.failed}"
        axes.annotate(note, (place, rate), xytext=(0, 4), textcoords="offset points", ha="center", fontsize=8)
    axes.set_ylim(0, 110)
    axes.set_yticks(range(0, 101, 20))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0f} %")
    axes.set_xlim(-0.6, max(len(shown) - 0.4, 3.6))
    axes.set_xticks(list(places), [run.id.removeprefix("run-") for run in shown], rotation=45, ha="right", fontsize=8)
    axes.grid(axis="y")


def _models(axes: Axes, models: Sequence[ModelStats]) -> None:
    axes.set_title(_TITLES["models"])
    shown = list(reversed(models[:MOST_MODELS]))
    costs = [one.cost_usd or 0.0 for one in shown]
    axes.barh(range(len(shown)), costs, color=ORANGE, height=0.6)
    for place, (cost, one) in enumerate(zip(costs, shown, strict=True)):
        each = "" if one.cost_per_done_usd is None else f", ${one.cost_per_done_usd:,.3f} a done task"
        note = f"${cost:,.2f}{each}" if cost else "not told"
        axes.annotate(note, (cost, place), xytext=(6, 0), textcoords="offset points", va="center", fontsize=9)
    axes.set_yticks(range(len(shown)), [_model_label(one) for one in shown])
    axes.set_ylim(-0.6, max(len(shown) - 0.4, 2.4))
    axes.set_xlim(0, max(costs) * 1.6)
    axes.xaxis.set_major_formatter(lambda value, _: f"${value:,.2f}" if max(costs) > 1 else f"${value:.3g}")
    axes.grid(axis="x")


def _model_label(one: ModelStats) -> str:
    name = cut_to(safe(one.model or "agent's own"), LONGEST_NAME)
    ended = one.done + one.failed
    return f"{name}\n{100 * (one.success_rate or 0.0):.0f} % of {ended:,} done" if ended else name


def _memory(axes: Axes, memory: MemoryStats) -> None:
    if len(memory.growth) > 1:
        _growth(axes, memory)
    else:
        _kinds(axes, memory)


def _growth(axes: Axes, memory: MemoryStats) -> None:
    axes.set_title(_TITLES["memory"])
    places = range(len(memory.growth))
    counts = [one.memories for one in memory.growth]
    axes.fill_between(places, counts, color=GREEN, alpha=0.25)
    axes.plot(places, counts, color=GREEN, linewidth=2, marker="o" if len(counts) < 30 else "", markersize=4)
    axes.set_ylim(0, max(counts) * 1.15)
    axes.set_ylabel("memories", color=GREEN)
    every = max(1, len(counts) // 8)
    axes.set_xticks(list(places)[::every], [_when(one.at) for one in memory.growth[::every]], rotation=45, ha="right")
    axes.tick_params(axis="x", labelsize=8)
    axes.grid(axis="y")
    other = axes.twinx()
    other.plot(places, [one.confidence for one in memory.growth], color=BLUE, linewidth=2, linestyle=(0, (4, 2)))
    other.set_ylim(0, 1)
    other.set_ylabel("confidence on average", color=BLUE)
    other.spines["right"].set_visible(False)


def _kinds(axes: Axes, memory: MemoryStats) -> None:
    """Draw what a young memory has of each kind: all was learned at once, so there is no growth to show."""
    from matplotlib.ticker import MaxNLocator

    axes.set_title("Memories in use, by kind")
    shown = list(reversed(memory.kinds[:MOST_KINDS]))
    counts = [one.memories for one in shown]
    axes.barh(range(len(shown)), counts, color=GREEN, height=0.6)
    for place, one in enumerate(shown):
        note = f"{one.memories:,}, confidence {one.confidence:.2f}"
        axes.annotate(note, (one.memories, place), xytext=(6, 0), textcoords="offset points", va="center", fontsize=9)
    axes.set_yticks(range(len(shown)), [cut_to(safe(one.kind), LONGEST_NAME) for one in shown])
    axes.set_ylim(-0.6, max(len(shown) - 0.4, 2.4))
    axes.set_xlim(0, max(counts) * 1.5)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(axis="x")


def _when(at: str) -> str:
    day, _, hour = at.partition("T")
    return f"{day[5:]} {hour}:00" if hour else day


def _lift(axes: Axes, lift: Lift) -> None:
    import textwrap

    axes.set_title(_TITLES["lift"])
    names = []
    for place, one in enumerate(reversed(lift.measures)):
        # Success in points, what a done task takes in % of what it takes without: all on one scale.
        scale = 1.0 if one.unit == "%" else 100 / one.without
        middle, low, high = (value * scale for value in (one.difference, one.low, one.high))
        is_good = (middle > 0) is (one.unit == "%")
        shade = (GREEN if is_good else ORANGE) if one.is_certain else "#8b939e"
        axes.plot([low, high], [place, place], color=shade, linewidth=3, solid_capstyle="round")
        axes.plot([middle], [place], marker="o", markersize=9, color=shade)
        axes.annotate(
            f"{middle:+.0f}", (middle, place), xytext=(0, 9), textcoords="offset points", ha="center", fontsize=9
        )
        names.append("success (points)" if one.unit == "%" else f"{one.name} (%)")
    axes.axvline(0, color=INK, linewidth=1)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(-0.6, len(names) - 0.3)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:+.0f}" if value else "0")
    axes.set_xlabel(textwrap.fill(lift.in_short, 88), fontsize=8, color="#6b7280")
    axes.grid(axis="x")


_DRAW: dict[str, Callable[[Axes, Any], None]] = {"runs": _runs, "models": _models, "memory": _memory, "lift": _lift}
