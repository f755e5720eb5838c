"""Show what was measured: for each source of decisions, and all of them, the memories one below the other."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import chain
from statistics import fmean

from rich.console import Console
from rich.table import Table

from bench.decisions.data import Question
from bench.decisions.grading import Grades
from bench.recall.measures import RESAMPLES, SEED

Graded = Sequence[tuple[Question, Grades]]
ALL = "all"


def print_table(out: Console, title: str, graded: Mapping[str, Graded], measures: Sequence[str]) -> None:
    """Print the means of each measure, with where the mean would lie 95 times of 100."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for heading in ("source", "questions", "memory"):
        table.add_column(heading, no_wrap=True, justify="right" if heading == "questions" else "left")
    for measure in measures:
        table.add_column(measure, justify="right", no_wrap=True)
        table.add_column("95 %", justify="center", no_wrap=True)
    table.add_column("tokens", justify="right", no_wrap=True)
    sources = list(dict.fromkeys(question.source for told in graded.values() for question, _ in told))
    for source in (*sources, *((ALL,) if len(sources) > 1 else ())):
        for memory, told in graded.items():
            chosen = [one for one in told if source in (one[0].source, ALL)]
            cells = [cell for measure in measures for cell in _cells(chosen, measure)]
            table.add_row(source, f"{len(chosen)}", memory, *cells, _cells(chosen, "tokens", ",.0f")[0])
    out.print()
    out.print(table)


def _cells(graded: Graded, measure: str, form: str = ".3f") -> tuple[str, str]:
    """Return the mean of a measure and its interval, where it applies."""
    values: dict[str, list[float]] = {}
    for question, grades in graded:
        if (value := grades[measure]) is not None:
            values.setdefault(question.id, []).append(value)
    if not values:
        return "-", ""
    low, high = _interval(list(values.values()))
    return f"{fmean(chain.from_iterable(values.values())):{form}}", f"{low:.2f}–{high:.2f}"


def _interval(groups: list[list[float]]) -> tuple[float, float]:
    """Return where the mean would lie 95 times of 100; questions about the same dialogue are drawn together."""
    chance = random.Random(SEED)
    drawn = (chance.choices(groups, k=len(groups)) for _ in range(RESAMPLES))
    means = sorted(fmean(chain.from_iterable(one)) for one in drawn)
    return means[int(0.025 * RESAMPLES)], means[int(0.975 * RESAMPLES) - 1]
