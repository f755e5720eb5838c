"""`make bench-recall`: how much of what helps each ranker finds, on the same memories and queries."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

# Before numpy is imported: one thread, or a busy machine decides what a vector costs.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from rich.console import Console
from rich.live import Live

from bench.recall import table
from bench.recall.drawing import draw
from bench.recall.rankers import NAMES, Missing, Ranker, find
from bench.recall.replay import replay
from bench.recall.sets import Added, Asked, BadData, Sets, Store, first, made_sets, read_sets
from ralph.core.config import STORE_VARIABLE

MADE_UP = (
    "The data is made up: it shows that the measuring works and proves nothing about real use.\n"
    "For real data, let BENCH_DATA name a folder of *.jsonl.gz sets."
)


def main(words: list[str] | None = None) -> int:
    """Measure the rankers on the sets, print the results and return the exit code."""
    asked = _arguments().parse_args(words)
    try:
        with _kept_in(asked.store):
            return _run(asked)
    except BadData as error:
        print(error, file=sys.stderr)
        return 2


def _run(asked: argparse.Namespace) -> int:
    out = table.console()
    folder = os.environ.get("BENCH_DATA", "")
    sets = _chosen(read_sets(Path(folder)) if folder else made_sets(), asked.sets)
    rankers, skipped = _available(asked.rankers)
    if not folder:
        out.print(MADE_UP)
    for reason in dict.fromkeys(skipped.values()):
        names = ", ".join(name for name, told in skipped.items() if told == reason)
        out.print(f"Skipped {names}: {reason}.", markup=False)
    if not rankers:
        print("No ranker is left to measure.", file=sys.stderr)
        return 2

    results: dict[str, table.Results] = {}
    for name, stores in sets.items():
        if asked.limit:
            stores = first(stores, asked.limit)
        results[name] = _measure(out, _title(name, stores), stores, rankers, asked.budget)
    if len(results) > 1:
        out.print()
        out.print(table.summary(results))
    out.print()
    out.print(table.LEGEND, style="dim")
    if asked.json:
        _write_json(asked.json, results, skipped, asked.budget, made_up=not folder)
    if asked.plot:
        note = "made-up data" if not folder else f"the first {asked.limit} queries of each set" if asked.limit else ""
        asked.plot.write_text(draw(results, note), encoding="utf-8")
    return 0


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.recall", description=__doc__)
    parser.add_argument("--sets", type=_names, metavar="A,B", help="only these sets")
    parser.add_argument("--rankers", type=_names, metavar="A,B", help=f"only these, of: {', '.join(NAMES)}")
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="sqlite", help="database of our own rankers")
    parser.add_argument("--budget", type=_count, default=2_000, metavar="TOKENS", help="room in a prompt (2000)")
    parser.add_argument("--limit", type=_count, metavar="N", help="only the first N queries of each set")
    parser.add_argument("--json", type=_file, metavar="FILE", help="write the numbers here")
    parser.add_argument("--plot", type=_file, metavar="FILE.svg", help="draw recall@5 here")
    return parser


@contextmanager
def _kept_in(store: str) -> Iterator[None]:
    """Let our own rankers use a temporary database of this kind."""
    before = os.environ.pop(STORE_VARIABLE, None)  # a store that somebody uses is none to measure in
    server = None
    try:
        if store == "postgres":
            try:
                from tests.postgres import Server
            except ImportError as error:
                raise BadData(f"PostgreSQL is measured with what the tests need: {error}.") from None
            server = Server()
            server.run("CREATE DATABASE bench")
            os.environ[STORE_VARIABLE] = server.url("bench")
        yield
    finally:
        os.environ.pop(STORE_VARIABLE, None)
        if before is not None:
            os.environ[STORE_VARIABLE] = before
        if server:
            server.remove()


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def _file(text: str) -> Path:
    if not Path(text).parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {Path(text).parent}")
    return Path(text)


def _chosen(sets: Sets, names: list[str] | None) -> Sets:
    for name in names or ():
        if name not in sets:
            raise BadData(f"There is no set {name}: there are {', '.join(sets)}.")
    return {name: stores for name, stores in sets.items() if not names or name in names}


def _available(names: list[str] | None) -> tuple[dict[str, Callable[[], Ranker]], dict[str, str]]:
    """Return what makes each ranker that can run here, ours first, and why the others cannot."""
    for name in names or ():
        if name not in NAMES:
            raise BadData(f"There is no ranker {name}: there are {', '.join(NAMES)}.")
    rankers, skipped = {}, {}
    for name in NAMES:
        if names and name not in names:
            continue
        try:
            rankers[name] = find(name)
        except Missing as missing:
            skipped[name] = str(missing)
    return rankers, skipped


def _title(name: str, stores: list[Store]) -> str:
    memories = sum(len(event.memories) for store in stores for event in store if isinstance(event, Added))
    queries = sum(isinstance(event, Asked) for store in stores for event in store)
    return (
        f"{name}: {queries:,} queries, {memories:,} memories in {len(stores):,} store{'s' if len(stores) > 1 else ''}"
    )


def _measure(
    out: Console, title: str, stores: list[Store], rankers: dict[str, Callable[[], Ranker]], budget_tokens: int
) -> table.Results:
    """Measure each ranker in turn. A terminal sees the table grow; a file gets it whole, and stderr each row."""
    out.print()
    results: table.Results = {}
    live = Live(console=out, auto_refresh=False) if out.is_terminal else None
    with live or nullcontext():
        for name, make in rankers.items():
            start = time.monotonic()
            if live:
                live.update(table.set_table(title, results, budget_tokens, doing=name), refresh=True)
            results[name] = replay(make, stores, budget_tokens)
            if not live:
                took = time.monotonic() - start
                print(f"{table.row(name, results[name], budget_tokens)}  ({took:.0f} s)", file=sys.stderr, flush=True)
        done = table.set_table(title, results, budget_tokens)
        if live:
            live.update(done, refresh=True)
    if not live:
        out.print(done)
    return results


def _write_json(
    file: Path, results: dict[str, table.Results], skipped: dict[str, str], budget_tokens: int, *, made_up: bool
) -> None:
    numbers = {name: {ranker: one.as_json() for ranker, one in of_set.items()} for name, of_set in results.items()}
    report = {"made_up": made_up, "budget_tokens": budget_tokens, "sets": numbers, "skipped": skipped}
    file.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
