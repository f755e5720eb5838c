"""Draw recall@5 as a bar for each ranker and set, as SVG written by hand: nothing to install, nothing to render."""

from __future__ import annotations

from html import escape

from bench.recall.rankers import OURS
from bench.recall.replay import Measured
from bench.recall.table import Results

ROW, BAR = 26, 16
GROUP_GAP = 12
LABELS, BETWEEN, EDGE = 150, 36, 28
PANELS, WIDEST, NARROWEST = 700, 300, 180
"""Room for all sets together, and for each."""
TOP, BOTTOM = 96, 62
ACCENT, PEER, INK, SOFT, GRID = "#2f9e74", "#b4bac2", "#1c2126", "#5f6b76", "#e6e9ec"
FONT = "system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif"


def draw(results: dict[str, Results], note: str) -> str:
    """Return the drawing: one column of bars for each set, one row for each ranker, whiskers for the 95 % interval."""
    names = list(next(iter(results.values())))
    ours = [name for name in names if name in OURS]
    rows = {name: TOP + n * ROW + (GROUP_GAP if ours and name not in OURS else 0) for n, name in enumerate(names)}
    foot = max(rows.values()) + ROW
    panel = max(NARROWEST, min(WIDEST, PANELS // len(results)))
    width = max(620, EDGE + LABELS + len(results) * (panel + BETWEEN) + EDGE - BETWEEN // 2)
    height = foot + BOTTOM
    top = max(one.recall_5_high for of_set in results.values() for one in of_set.values())
    end = min(1.0, max(0.1, -(-top // 0.1) * 0.1))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="{FONT}" font-size="13" fill="{INK}">',
        "<title>recall@5 by ranker and set</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        _text(EDGE, 34, "How much of what helps is among the first five", size=18, weight=600),
        _text(EDGE, 56, "recall@5; the whisker is the 95 % interval", fill=SOFT),
    ]
    for name, y in rows.items():
        parts.append(_text(EDGE + LABELS - 12, y + 17, name, anchor="end", weight=600 if name in OURS else 400))
    for n, (name, of_set) in enumerate(results.items()):
        left = EDGE + LABELS + n * (panel + BETWEEN)
        queries = next(iter(of_set.values())).queries
        parts.append(_text(left, TOP - 14, name, weight=600))
        parts.append(_text(left + panel, TOP - 14, f"{queries:,} queries", anchor="end", fill=SOFT, size=12))
        parts += _grid(left, panel, foot, end)
        for ranker, one in of_set.items():
            parts += _bar(left, rows[ranker], panel / end, one, ranker in OURS)
    if ours:
        parts += _key(EDGE, height - 18)
    parts.append(_text(width - EDGE, height - 18, note, anchor="end", fill=SOFT, size=12))
    return "\n".join([*parts, "</svg>", ""])


def _grid(left: int, panel: int, foot: int, end: float) -> list[str]:
    steps = round(end * 10)
    every = 1 if steps <= 5 else 2
    lines = []
    for step in range(0, steps + 1, every):
        x = left + panel * step / steps
        lines.append(f'<line x1="{x:.1f}" y1="{TOP - 2}" x2="{x:.1f}" y2="{foot}" stroke="{GRID}"/>')
        lines.append(_text(x, foot + 18, f"{step / 10:g}", anchor="middle", fill=SOFT, size=11))
    return lines


def _bar(left: int, y: int, scale: float, one: Measured, is_ours: bool) -> list[str]:
    value, low, high = (left + scale * share for share in (one.recall_5, one.recall_5_low, one.recall_5_high))
    top, middle = y + (ROW - BAR) / 2, y + ROW / 2
    line = f'stroke="{INK}" stroke-width="1.2"'
    bar = f'<rect x="{left}" y="{top}" width="{max(1.0, value - left):.1f}" height="{BAR}" rx="2"'
    whisker = [f'<line x1="{low:.1f}" y1="{middle}" x2="{high:.1f}" y2="{middle}" {line}/>']
    for x in (low, high):
        whisker.append(f'<line x1="{x:.1f}" y1="{middle - 3.5}" x2="{x:.1f}" y2="{middle + 3.5}" {line}/>')
    number = f"{one.recall_5:.2f}".removeprefix("0")
    return [
        f'{bar} fill="{ACCENT if is_ours else PEER}"/>',
        *(whisker if high > low else []),
        _text(high + 7, y + 17.5, number, size=12, weight=600 if is_ours else 400, halo=True),
    ]


def _key(x: int, y: int) -> list[str]:
    return [
        f'<rect x="{x}" y="{y - 10}" width="12" height="12" rx="2" fill="{ACCENT}"/>',
        _text(x + 18, y, "Ralph", size=12),
        f'<rect x="{x + 68}" y="{y - 10}" width="12" height="12" rx="2" fill="{PEER}"/>',
        _text(x + 86, y, "others", size=12),
    ]


def _text(
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "start",
    size: int = 13,
    weight: int = 400,
    fill: str = INK,
    halo: bool = False,
) -> str:
    # A white edge keeps a number readable where it crosses a grid line.
    edge = ' stroke="#ffffff" stroke-width="3" paint-order="stroke"' if halo else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}" '
        f'fill="{fill}"{edge}>{escape(text)}</text>'
    )
