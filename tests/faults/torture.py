"""`make torture`: every fault at full size, and the table of docs/reliability.md.

A row is written as soon as its trial has ended, so that one that is stopped loses no other; `--only` renews single
rows. What was tried at another size than the whole is shown with the size it had.
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import apsw

from ralph.core.records import now, record, record_fields
from tests.faults.trial import Shown, Trial

MODULES = (
    "kill",
    "disk",
    "migration",
    "power",
    "contention",
    "files",
    "corruption",
    "leases",
    "agents",
    "fuzzing",
    "api",
    "secrets",
    "injection",
    "apart",
    "pages",
    "links",
    "bombs",
    "terminal",
    "clones",
    "merges",
    "leftovers",
    "sessions",
    "cheats",
    "growth",
    "soak",
)
"""Each has `TRIALS`."""
BY_NAME_ONLY = ("soak",)
"""It takes as long as all others, and has a target of its own."""
DOCS = Path(__file__).parents[2] / "docs"
BEGIN, END = "<!-- written by make torture -->", "<!-- end of what make torture writes -->"
HEAD = ("test", "load", "faults tried", "allowed", "lost", "time", "figures")


@record
class Row:
    """What is kept of a trial for the table."""

    test: str
    load: str
    tried: int
    allowed: str
    lost: int
    seconds: float
    says: str
    on: str


def trials() -> list[Trial]:
    """Give all trials, in the order of the table."""
    return [trial for name in MODULES for trial in importlib.import_module(f"tests.faults.{name}").TRIALS]


def tried(trial: Trial, size: int, seed: int) -> Row:
    """Run a trial in a folder of its own, and give what it showed."""
    with tempfile.TemporaryDirectory(prefix=f"ralph-{trial.name}-") as folder:
        began = time.monotonic()
        shown: Shown = trial.run(Path(folder), size, seed)
        return Row(
            test=trial.test,
            load=shown.load,
            tried=shown.tried,
            allowed=trial.allowed,
            lost=shown.lost,
            seconds=round(time.monotonic() - began, 1),
            says=shown.says,
            on=now()[:10],
        )


def table(rows: Iterable[Row]) -> str:
    """Give rows as markdown."""
    lines = [HEAD, tuple("---" for _ in HEAD)]
    for row in rows:
        tried, lost = f"{row.tried:,}", f"**{row.lost:,}**"
        lines.append((row.test, row.load, tried, row.allowed, lost, _lasted(row.seconds), row.says))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def write(page: Path, kept: Path, known: dict[str, Row]) -> None:
    """Put the table into the page, and keep what it is made from."""
    ours = {trial.name: known[trial.name] for trial in trials() if trial.name in known}
    rows = list(ours.values())
    fields = {name: record_fields(row) for name, row in ours.items()}
    kept.write_text(json.dumps(fields, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"{page} has no place for the table: it needs the two lines {BEGIN} and {END}.")
    days = sorted({row.on for row in rows})
    where = f"Python {platform.python_version()}, SQLite {apsw.sqlite_lib_version()}, {platform.system()}"
    note = f"Run on {' and '.join(days)}, {where}, 2 cores. `make torture` writes this."
    page.write_text(f"{before}{begin}\n{table(rows)}\n\n{note}\n{end}{after}", encoding="utf-8")


def read(kept: Path) -> dict[str, Row]:
    """Give what is known of earlier trials."""
    if not kept.exists():
        return {}
    return {name: Row(**fields) for name, fields in json.loads(kept.read_text(encoding="utf-8")).items()}


def _lasted(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def main() -> int:
    """Run trials, say how each ended, and fail when one lost something."""
    parser = argparse.ArgumentParser(prog="make torture", description="Produce every fault at full size.")
    parser.add_argument("--only", default="", metavar="NAMES", help="these trials alone, with commas between them")
    parser.add_argument("--part", type=float, default=1.0, help="a part of the size; then nothing is written")
    parser.add_argument("--size", type=int, help="another size; then nothing is written either")
    parser.add_argument("--seed", type=int, default=1, help="another seed tries other moments")
    given = parser.parse_args()
    wanted = set(filter(None, given.only.split(",")))
    if unknown := wanted - {trial.name for trial in trials()}:
        parser.error(f"there is no trial {', '.join(sorted(unknown))}; there are {', '.join(t.name for t in trials())}")
    page, kept = DOCS / "reliability.md", DOCS / "reliability.json"
    lost = 0
    for trial in trials():
        if trial.name not in wanted if wanted else trial.name in BY_NAME_ONLY:
            continue
        print(f"{trial.name:12} {trial.test} …", flush=True)
        size = given.size or max(1, round(trial.size * given.part))
        row = tried(trial, size, given.seed)
        lost += row.lost
        print(
            f"{'':12} {row.load}: {row.tried:,} faults, lost {row.lost:,}, {_lasted(row.seconds)}. {row.says}",
            flush=True,
        )
        if size == trial.size:
            write(page, kept, {**read(kept), trial.name: row})
    print("Nothing was lost." if not lost else f"Lost: {lost:,}. See above.")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
