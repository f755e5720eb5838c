"""`make bench-learning`: which sentences are kept, and which statements count as one fact, against labels.

Half of each set tuned the rules; the other half is the figure. See bench/learning/README.md.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from rich.table import Table

from bench.learning.fit import load
from bench.learning.play import Remembered, measure
from bench.recall import table as recall_table
from ralph.core.records import Memory
from ralph.memory.capture.worth_keeping import PLACE_TYPES, assess
from ralph.memory.lifecycle.same_fact import ONE_FACT, Relation, relate
from ralph.memory.recall.similarity import PairSimilarity

PAIRS = Path(__file__).with_name("pairs.jsonl")
CHANGES = Path(__file__).with_name("changes.jsonl")
RELATIONS = {
    "change": (Relation.CHANGE,),
    "exception": (Relation.DIFFERENT,),
    "different": (Relation.DIFFERENT,),
    "same": ONE_FACT,
}
"""What short statements may be judged as, by how they are labeled: an exception is a memory of its own."""
HALVES = ("tune", "test", "fresh", "last")
"""What tuned the rules; what did not; what was written before looking at them, and improved them; and what was written
after that, and has not been looked at since."""


class Score:
    """Right, wrong and missed answers."""

    def __init__(self) -> None:
        self.right = self.wrong = self.missed = self.total = 0

    def count(self, *, got: bool, wanted: bool) -> None:
        """Count one answer."""
        self.total += 1
        self.right += got and wanted
        self.wrong += got and not wanted
        self.missed += wanted and not got

    @property
    def precision(self) -> float:
        """Share of what was found that is right."""
        return self.right / max(1, self.right + self.wrong)

    @property
    def recall(self) -> float:
        """Share of what is right that was found."""
        return self.right / max(1, self.right + self.missed)

    @property
    def f1(self) -> float:
        """Harmonic mean of both."""
        return 2 * self.right / max(1, 2 * self.right + self.wrong + self.missed)


def main(words: list[str] | None = None) -> int:
    """Measure, print the tables, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.learning", description=__doc__)
    parser.add_argument(
        "--list", action="store_true", help="print what was missed and what was noise, tuning half only"
    )
    parser.add_argument("--no-runs", action="store_true", help="leave out the runs, which take a minute")
    asked = parser.parse_args(words)
    out = recall_table.console()
    out.print(_sentences())
    out.print(_pairs())
    out.print(_changes())
    runs = [] if asked.no_runs else list(measure())
    if runs:
        out.print(_runs(runs))
    if asked.list:
        for run in runs:
            for what in ("noise", "duplicates", "missed", "staged"):
                for text in getattr(run, what):
                    out.print(f"{run.name}, {what}: {' '.join(text.split())}")
        for row in load("tune"):
            found = assess(row["text"], row["place"])
            if found.is_kept != bool(row["type"]):
                out.print(f"{found.score:5.1f} {row['type'] or 'noise':12} {row['text']}  {', '.join(found.cues)}")
    return 0


def _sentences() -> Table:
    table = _table("Sentences worth keeping", "half", "said by", "sentences", "precision", "recall", "type right")
    for half in HALVES:
        rows = load(half)
        for place in ("all", *PLACE_TYPES):
            chosen = [row for row in rows if place in ("all", row["place"])]
            score, share = judged(chosen)
            table.add_row(half, place, str(len(chosen)), *map("{:.2f}".format, (score.precision, score.recall, share)))
    return table


def judged(rows: list[dict[str, Any]]) -> tuple[Score, float]:
    """Return how well sentences are told apart, and the share of the right ones whose type is right."""
    score, typed = Score(), 0
    for row in rows:
        found = assess(row["text"], row["place"])
        score.count(got=found.is_kept, wanted=bool(row["type"]))
        typed += found.is_kept and found.kind == row["type"]
    return score, typed / max(1, score.right)


def _pairs() -> Table:
    table = _table("One memory per fact", "half", "compared by", "pairs", "precision", "recall", "F1")
    for half in HALVES:
        for name, by_meaning in (("words", False), ("words and meaning", True)):
            score = compared(half, by_meaning=by_meaning)
            figures = map("{:.2f}".format, (score.precision, score.recall, score.f1))
            table.add_row(half, name, str(score.total), *figures)
    return table


def compared(half: str, *, by_meaning: bool) -> Score:
    """Return how well the pairs of one half are told apart; without the extra, meaning adds nothing."""
    rows = (json.loads(line) for line in PAIRS.read_text(encoding="utf-8").splitlines())
    similarity = PairSimilarity()
    score = Score()
    for row in rows:
        if row["half"] == half:
            alike = similarity(_memory(row["one"]), _memory(row["other"])) if by_meaning else None
            got = relate(row["other"], row["one"], alike) in ONE_FACT
            score.count(got=got, wanted=row["relation"] in ONE_FACT)
    return score


def _changes() -> Table:
    table = _table("Short statements of the same words", "half", "labeled as", "pairs", "right")
    for half in ("tune", "test"):
        for label in RELATIONS:
            right, total = told_apart(half, label)
            table.add_row(half, label, str(total), f"{right / total:.2f}")
    return table


def told_apart(half: str, label: str) -> tuple[int, int]:
    """Return how many pairs of a label are judged right, and how many there are."""
    rows = [json.loads(line) for line in CHANGES.read_text(encoding="utf-8").splitlines()]
    chosen = [row for row in rows if (row["half"], row["relation"]) == (half, label)]
    return sum(relate(row["other"], row["one"]) in RELATIONS[label] for row in chosen), len(chosen)


def _runs(runs: list[Remembered]) -> Table:
    columns = ("run", "remembered", "good", "noise", "duplicates", "worth keeping", "found", "staged")
    table = _table("Memories after whole runs", *columns)
    counts = [
        (one.total, one.good, len(one.noise), len(one.duplicates), one.expected, one.found, len(one.staged))
        for one in runs
    ]
    for run, figures in zip(runs, counts, strict=True):
        table.add_row(run.name, *map(str, figures))
    total, good, noise, duplicates, expected, found, staged = map(sum, zip(*counts, strict=True))
    shares = (f"{count} ({count / max(1, total):.0%})" for count in (good, noise, duplicates))
    table.add_row("all", str(total), *shares, str(expected), f"{found} ({found / max(1, expected):.0%})", str(staged))
    return table


def _memory(text: str) -> Memory:
    return Memory(id="", kind="pattern", title=text, content=text, created_at="", updated_at="")


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title)
    for name in columns:
        table.add_column(name)
    return table


if __name__ == "__main__":
    raise SystemExit(main())
