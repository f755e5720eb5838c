"""`make bench-prompts`: whether the memory that helps is shown for a prompt, and whether others are.

BENCH_DATA names a folder with the `memories.md` files of the labeled projects; bench/prompts/README.md names them.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from rich.table import Table

from bench.recall import table as recall_table
from bench.recall.measures import interval
from ralph.memory.recall.candidates import rank_memories
from ralph.memory.recall.query import RecallContext
from ralph.memory.recall.scored import ScoredMemory
from ralph.memory.recall.select import MAX_SHOWN, PROMPT_CUT, SESSION_CUT, Cut, select
from ralph.memory.sessions import MAX_PROMPT_MEMORIES, session_query
from ralph.project import Project
from ralph.workspace import init_project

LABELS = Path(__file__).with_name("labels.jsonl")
HALVES = ("tune", "test")
PLACES: dict[str, tuple[Cut, int]] = {
    "session": (SESSION_CUT, MAX_PROMPT_MEMORIES),
    "task": (PROMPT_CUT, MAX_SHOWN),
}
"""What is measured: how memories are selected for what a person types, and for the prompt of a task."""


BINS = (0.0, 0.01, 0.03, 0.06, 0.1, 0.15, 0.25, 0.4, 0.6, 0.8, 1.0)
"""Bounds of the estimates that are compared with what was right."""


class Ranked(NamedTuple):
    """The candidates for one prompt."""

    label: dict[str, Any]
    right: set[str]
    fine: set[str]
    context: RecallContext
    hits: list[ScoredMemory]


class Shown(NamedTuple):
    """What was shown for one prompt."""

    label: dict[str, Any]
    right: set[str]
    fine: set[str]
    ids: list[str]


def main(words: list[str] | None = None) -> int:
    """Measure, print a table, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.prompts", description=__doc__)
    parser.add_argument("--meaning", action="store_true", help="recall by meaning as well")
    parser.add_argument("--list", action="store_true", help="print what was missed and what was noise")
    asked = parser.parse_args(words)
    folder = os.environ.get("BENCH_DATA", "")
    if not folder or not Path(folder).is_dir():
        print("Let BENCH_DATA name a folder with the memories.md files of the labeled projects.", file=sys.stderr)
        return 2
    labels = [json.loads(line) for line in LABELS.read_text(encoding="utf-8").splitlines()]
    out = recall_table.console()
    ranked = list(_rank(labels, Path(folder), by_meaning=asked.meaning))
    if not ranked:
        print("The folder has the memories of none of the labeled projects.", file=sys.stderr)
        return 2
    results = {place: [_select(one, place) for one in ranked] for place in PLACES}
    out.print(_table(results, "by words and meaning" if asked.meaning else "by words"))
    out.print(_calibration(ranked))
    for one in results["session"] if asked.list else ():
        _print_faults(one)
    return 0


def _rank(labels: list[dict[str, Any]], folder: Path, *, by_meaning: bool) -> Iterator[Ranked]:
    for name in dict.fromkeys(label["project"] for label in labels):
        file = next(folder.glob(f"{name}*.md"), None)
        if file is None:
            print(f"Left out {name}: its memories are not in the folder.", file=sys.stderr)
            continue
        with _project(file, by_meaning=by_meaning) as project:
            ids = partial(_ids, {memory.title: memory.id for memory in project.memory.list()})
            for label in labels:
                if label["project"] == name:
                    context = session_query(label["prompt"])
                    hits = rank_memories(project.store, context, by_meaning=by_meaning)
                    yield Ranked(label, ids(label["right"]), ids(label["fine"]), context, hits)


def _select(ranked: Ranked, place: str) -> Shown:
    cut, limit = PLACES[place]
    choices = select(ranked.hits, ranked.context, limit, cut=cut)
    shown = [one.scored.row["id"] for one in choices if not one.excluded_because]
    return Shown(ranked.label, ranked.right, ranked.fine, shown)


@contextmanager
def _project(file: Path, *, by_meaning: bool) -> Iterator[Project]:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory, file.stem.partition("__")[0].rpartition("+")[2])
        root.mkdir()
        init_project(root)
        (root / ".ralph.toml").write_text(f"[memories]\nfiles = false\nmeaning = {str(by_meaning).lower()}\n")
        with Project.open(root) as project:
            project.transfer.import_text(file.read_text(encoding="utf-8"), "memories.md")
            if by_meaning:
                project.memory.maintenance.embed()
            yield project


def _ids(by_title: dict[str, str], names: list[str]) -> set[str]:
    """Return the ids of labeled memories; entries without an id are labeled by their heading."""
    headings = {name: name.partition(" (")[0] for name in names}
    found = {
        name: next((id for title, id in by_title.items() if title.startswith(heading)), name)
        for name, heading in headings.items()
    }
    return {name if name.startswith("mem-") else found[name] for name in names}


def _table(results: dict[str, list[Shown]], title: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for heading in ("shown for", "half", "right shown", "95 %", "noise per prompt", "95 %", "everyday with any"):
        table.add_column(heading, no_wrap=True, justify="left" if heading in ("shown for", "half") else "right")
    for place, shown in results.items():
        for half in HALVES:
            table.add_row(place, half, *_figures([one for one in shown if one.label["half"] == half]))
    return table


def _calibration(ranked: list[Ranked]) -> Table:
    """Return how many candidates of each estimate are right."""
    table = Table(title="estimates", title_justify="left", title_style="bold", box=None, pad_edge=False)
    for heading in ("estimated", "candidates", "right", "right or fine"):
        table.add_column(heading, no_wrap=True, justify="right")
    graded = [
        (hit.relevance, hit.row["id"] in one.right, hit.row["id"] in one.right | one.fine)
        for one in ranked
        if one.label["kind"] == "realistic"
        for hit in one.hits
    ]
    for low, high in pairwise(BINS):
        inside = [one for one in graded if low <= one[0] < high or one[0] == high == 1]
        if inside:
            mean, right, fine = (fmean(column) for column in zip(*inside, strict=True))
            table.add_row(f"{mean:.3f}", f"{len(inside):,}", f"{right:.3f}", f"{fine:.3f}")
    return table


def _figures(shown: list[Shown]) -> list[str]:
    realistic = [one for one in shown if one.label["kind"] == "realistic"]
    everyday = [one for one in shown if one.label["kind"] == "everyday"]
    right = [float(bool(one.right.intersection(one.ids))) for one in realistic if one.right]
    noise = [float(sum(id not in one.right | one.fine for id in one.ids)) for one in realistic]
    brought = sum(bool(one.ids) for one in everyday)
    return [*_mean(right), *_mean(noise), f"{brought} of {len(everyday)}"]


def _mean(values: list[float]) -> tuple[str, str]:
    low, high = interval(values)
    return f"{fmean(values):.2f}", f"{low:.2f}–{high:.2f}"


def _print_faults(one: Shown) -> None:
    noise = [id for id in one.ids if id not in one.right | one.fine]
    missed = one.right and not one.right.intersection(one.ids)
    if missed or noise:
        print(f"{one.label['id']}: missed {sorted(one.right) if missed else 'nothing'}, noise {noise}")


if __name__ == "__main__":
    sys.exit(main())
