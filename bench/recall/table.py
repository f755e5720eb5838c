"""Show what was measured: a table for each set, and all sets side by side."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.recall.measures import may_be_noise
from bench.recall.rankers import OURS
from bench.recall.replay import Measured

Results = dict[str, Measured]
WIDTH, NEEDED = 120, 102
"""Of a file, which has no width of its own, and of a terminal."""
BEST, CLOSE = "*", "~"
LEGEND = (
    f"{BEST} best of the column   {CLOSE} behind the best recall@5 by no more than chance could make\n"
    "95 %: where recall@5 would lie with other queries of the same sort (bootstrap)"
)


class Column(NamedTuple):
    """One measure: its name, its heading over two lines, its value, how it is written, whether more is better."""

    name: str
    heading: str
    value: Callable[[Measured], float]
    form: str = ".3f"
    more_is_better: bool = True


def columns(budget_tokens: int) -> list[Column]:
    """Return the measures in the order shown."""
    return [
        Column("recall@5", "recall\n@5", lambda one: one.recall_5),
        Column("recall@10", "recall\n@10", lambda one: one.recall_10),
        Column("nDCG@10", "nDCG\n@10", lambda one: one.ndcg_10),
        Column("MRR", "MRR\n", lambda one: one.mrr),
        Column("within", f"recall in\n{budget_tokens:,} tok", lambda one: one.recall_budget),
        Column("p50 ms", "query ms\np50", lambda one: one.query_ms_p50, ".1f", False),
        Column("mean ms", "query ms\nmean", lambda one: one.query_ms_mean, ".1f", False),
        Column("add s", "add all\nseconds", lambda one: one.add_seconds, ".2f", False),
    ]


def console() -> Console:
    """Return where to print. A terminal too narrow for a growing table is written to as a file is."""
    out = Console(highlight=False)
    return (
        out if out.is_terminal and out.width >= NEEDED else Console(highlight=False, width=WIDTH, force_terminal=False)
    )


def set_table(title: str, results: Results, budget_tokens: int, doing: str = "") -> Table:
    """Return the table of one set; `doing` names the ranker being measured, until then noise is not marked."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    if doing:
        table.caption, table.caption_justify = f"measuring {doing} ...", "left"
    table.add_column("ranker", no_wrap=True)
    shown = columns(budget_tokens)
    for n, column in enumerate(shown):
        table.add_column(column.heading, justify="right", no_wrap=True)
        if n == 0:
            table.add_column("95 %\n", justify="center", no_wrap=True)
    for name, one in results.items():
        cells = [_cell(column, one, results, not doing and n == 0) for n, column in enumerate(shown)]
        table.add_row(_name(name), cells[0], _span(one), *cells[1:])
    return table


def summary(results: dict[str, Results]) -> Table:
    """Return recall@5 of every ranker on every set."""
    table = Table(title="recall@5", title_justify="left", title_style="bold", box=None, pad_edge=False)
    table.add_column("ranker", no_wrap=True)
    for name in results:
        table.add_column(name, justify="right", no_wrap=True)
        table.add_column("95 %", justify="center", no_wrap=True)
    column = columns(0)[0]
    for ranker in next(iter(results.values())):
        cells: list[Text | str] = []
        for of_set in results.values():
            cells += [_cell(column, of_set[ranker], of_set, True), _span(of_set[ranker])]
        table.add_row(_name(ranker), *cells)
    return table


def row(name: str, one: Measured, budget_tokens: int) -> str:
    """Return one row as plain text, for where a table cannot grow."""
    values = (f"{column.name} {column.value(one):{column.form}}" for column in columns(budget_tokens))
    return f"  {name:18} {'  '.join(values)}"


def _name(name: str) -> Text:
    return Text(name, style="bold" if name in OURS else "")


def _span(one: Measured) -> str:
    return f"{one.recall_5_low:.3f}–{one.recall_5_high:.3f}"


def _cell(column: Column, one: Measured, results: Results, compare: bool) -> Text:
    pick = max if column.more_is_better else min
    best = pick(results.values(), key=column.value)
    written = f"{column.value(one):{column.form}}"
    if written == f"{column.value(best):{column.form}}":
        return Text(written + BEST, style="bold green")
    close = compare and may_be_noise(best.each_recall_5, one.each_recall_5)
    return Text(written + (CLOSE if close else " "))
