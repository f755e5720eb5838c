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
from bench.learning.transcripts import measure
from bench.recall import table as recall_table
from ralph.core.records import Memory
from ralph.memory.capture.worth_keeping import PLACE_TYPES, assess
from ralph.memory.lifecycle.same_fact import ONE_FACT, relate
from ralph.memory.recall.similarity import PairSimilarity

PAIRS = Path(__file__).with_name("pairs.jsonl")
HALVES = ("tune", "test")


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
    asked = parser.parse_args(words)
    out = recall_table.console()
    out.print(_sentences())
    out.print(_pairs())
    out.print(_transcripts())
    if asked.list:
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


def _transcripts() -> Table:
    table = _table("Whole texts", "project", "remembered", "good", "noise", "duplicates", "worth keeping", "found")
    for one in measure():
        table.add_row(one.name, *map(str, (one.total, one.good, one.noise, one.duplicates, one.expected, one.found)))
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
