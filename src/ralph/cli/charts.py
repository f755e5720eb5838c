"""Small charts of block characters, as wide as the terminal and plain out of it."""

from __future__ import annotations

import sys

from ralph.cli.output import colour, cut_to, terminal_width

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

PLAIN_WIDTH = 80
"""How wide a chart is out of a terminal."""
WIDEST = 120
LONGEST_LABEL = 24
LEAST_BAR = 10
_COLOUR = "in_progress"
_PARTS_ACROSS = " ▏▎▍▌▋▊▉█"
_PARTS_UP = " ▁▂▃▄▅▆▇█"
_PARTS = 8
"""In how many parts a character can be filled."""


def is_wanted(asked: bool) -> bool:
    """Say whether to draw: into a terminal always, elsewhere when asked to."""
    return asked or sys.stdout.isatty()


def width() -> int:
    """Give how wide a chart may be."""
    return min(terminal_width(), WIDEST) if sys.stdout.isatty() else PLAIN_WIDTH


def bars(rows: Sequence[tuple[str, float | None, str]], most: float = 0.0) -> list[str]:
    """Give one line for each label, value and what is written after its bar; `most` is as long as a bar can be.

    Without a value there is no bar.
    """
    names = max(min(len(name), LONGEST_LABEL) for name, _, _ in rows)
    notes = max(len(note) for _, _, note in rows)
    room = max(LEAST_BAR, width() - names - notes - 2)
    whole = most or max((value or 0.0 for _, value, _ in rows), default=0.0) or 1.0
    lines = []
    for name, value, note in rows:
        bar = colour(_COLOUR, _bar(value or 0.0, whole, room).ljust(room))
        lines.append(f"{cut_to(name, names):{names}} {bar} {note:>{notes}}")
    return lines


def _bar(value: float, whole: float, room: int) -> str:
    full, rest = divmod(round(max(0.0, min(1.0, value / whole)) * room * _PARTS), _PARTS)
    return _PARTS_ACROSS[-1] * full + (_PARTS_ACROSS[rest] if rest else "")


def columns(values: Sequence[float], *, height: int = 4, first: str = "", last: str = "") -> list[str]:
    """Give values as columns side by side, the highest as high as the chart, with what is below its two ends."""
    most = max(values) or 1.0
    scale = f"{most:,.0f}"
    room = width() - len(scale) - 1
    shown = _spread(values, room)
    lines = []
    for line in range(height, 0, -1):
        filled = [round(value / most * height * _PARTS) - (line - 1) * _PARTS for value in shown]
        blocks = "".join(_PARTS_UP[max(0, min(_PARTS, part))] for part in filled)
        label = scale if line == height else "0".rjust(len(scale)) if line == 1 else " " * len(scale)
        lines.append(f"{label} {colour(_COLOUR, blocks)}".rstrip())
    below = " " * (len(scale) + 1) + first + last.rjust(len(shown) - len(first))
    return [*lines, below.rstrip()]


def _spread(values: Sequence[float], room: int) -> list[float]:
    """Give values for so many columns, each as wide as every other; of too many, some evenly apart and the last."""
    if len(values) <= room:
        return [value for value in values for _ in range(room // len(values))]
    return [values[(place + 1) * len(values) // room - 1] for place in range(room)]


def interval(low: float, middle: float, high: float, unit: str = "") -> list[str]:
    """Give a line with an interval on it, and where on it zero is."""
    reach = max(abs(low), abs(high)) * 1.1 or 1.0
    left, right = f"{-reach:+.0f}{unit}", f"{reach:+.0f}{unit}"
    room = width() - len(left) - len(right) - 2

    def place(value: float) -> int:
        return round((value + reach) / (2 * reach) * (room - 1))

    line = ["─"] * room
    line[place(low) : place(high) + 1] = "━" * (place(high) + 1 - place(low))
    line[place(0.0)] = "┼"
    line[place(low)], line[place(high)], line[place(middle)] = "┣", "┫", "●"
    return [f"{left} {''.join(line)} {right}", " " * (len(left) + 1 + place(0.0)) + "0"]
