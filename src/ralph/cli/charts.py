"""Charts drawn with block characters."""

from __future__ import annotations

import sys

from ralph.cli.output import color_by_status, is_plain, terminal_width, truncate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

DEFAULT_CHART_WIDTH = 80
"""Width of a chart if the output is not a terminal, in characters."""
MAX_CHART_WIDTH = 120
"""Maximum width of a chart, in characters."""
MAX_LABEL_LENGTH = 24
"""Maximum length of a label, in characters."""
MIN_BAR_LENGTH = 10
"""Minimum length of the longest bar, in characters."""
_CHART_COLOR = "in_progress"
_HORIZONTAL_BLOCKS = " ▏▎▍▌▋▊▉█"
_VERTICAL_BLOCKS = " ▁▂▃▄▅▆▇█"
_STEPS = 8
"""Number of steps in which a character cell can be filled."""


def should_draw(asked: bool) -> bool:
    """Return whether to draw charts: always in a terminal, elsewhere on request, and never in plain output."""
    return not is_plain() and (asked or sys.stdout.isatty())


def chart_width() -> int:
    """Return the width of a chart, in characters."""
    return min(terminal_width(), MAX_CHART_WIDTH) if sys.stdout.isatty() else DEFAULT_CHART_WIDTH


def bar_chart(rows: Sequence[tuple[str, float | None, str]], maximum: float = 0.0) -> list[str]:
    """Return a horizontal bar chart of rows of label, value and note. A value of `most` fills the width.

    A row without a value has no bar.
    """
    label_width = max(min(len(label), MAX_LABEL_LENGTH) for label, _, _ in rows)
    note_width = max(len(note) for _, _, note in rows)
    room = max(MIN_BAR_LENGTH, chart_width() - label_width - note_width - 2)
    whole = maximum or max((value or 0.0 for _, value, _ in rows), default=0.0) or 1.0
    lines = []
    for label, value, note in rows:
        bar = color_by_status(_CHART_COLOR, _bar(value or 0.0, whole, room).ljust(room))
        lines.append(f"{truncate(label, label_width):{label_width}} {bar} {note:>{note_width}}")
    return lines


def _bar(value: float, whole: float, room: int) -> str:
    full, rest = divmod(round(max(0.0, min(1.0, value / whole)) * room * _STEPS), _STEPS)
    return _HORIZONTAL_BLOCKS[-1] * full + (_HORIZONTAL_BLOCKS[rest] if rest else "")


def column_chart(values: Sequence[float], *, height: int = 4, first: str = "", last: str = "") -> list[str]:
    """Return a column chart of values, with the labels `first` and `last` below its ends."""
    most = max(values) or 1.0
    scale = f"{most:,.0f}"
    room = chart_width() - len(scale) - 1
    shown = _resample(values, room)
    lines = []
    for line in range(height, 0, -1):
        filled = [round(value / most * height * _STEPS) - (line - 1) * _STEPS for value in shown]
        blocks = "".join(_VERTICAL_BLOCKS[max(0, min(_STEPS, part))] for part in filled)
        label = scale if line == height else "0".rjust(len(scale)) if line == 1 else " " * len(scale)
        lines.append(f"{label} {color_by_status(_CHART_COLOR, blocks)}".rstrip())
    below = " " * (len(scale) + 1) + first + last.rjust(len(shown) - len(first))
    return [*lines, below.rstrip()]


def _resample(values: Sequence[float], room: int) -> list[float]:
    """Stretch values to fill `room` columns, or sample them evenly, including the last one, if there are too many."""
    if len(values) <= room:
        return [value for value in values for _ in range(room // len(values))]
    return [values[(column + 1) * len(values) // room - 1] for column in range(room)]


def interval_chart(low: float, middle: float, high: float, unit: str = "") -> list[str]:
    """Return a line that shows an interval and the position of zero."""
    reach = max(abs(low), abs(high)) * 1.1 or 1.0
    left, right = f"{-reach:+.0f}{unit}", f"{reach:+.0f}{unit}"
    room = chart_width() - len(left) - len(right) - 2

    def position(value: float) -> int:
        return round((value + reach) / (2 * reach) * (room - 1))

    line = ["─"] * room
    line[position(low) : position(high) + 1] = "━" * (position(high) + 1 - position(low))
    line[position(0.0)] = "┼"
    line[position(low)], line[position(high)], line[position(middle)] = "┣", "┫", "●"
    return [f"{left} {''.join(line)} {right}", " " * (len(left) + 1 + position(0.0)) + "0"]
