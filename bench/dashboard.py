"""`make bench-dashboard`: what the dashboard promises, at 50,000 memories and 100,000 tasks.

The size of the first page, how soon pages are there in a real browser (Chromium, if there is one), the CPU time of the
overview after an event, and what 50 readers and 5 writers get done. With `BASE=folder`, a checkout of an earlier
version is measured in turn with this one, so that both get the same share of a busy machine; answers per second depend
on the machine, their ratio does not.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from bench.measure import Table, best
from bench.server import READERS, ROOM, SECONDS, TASKS, WRITERS, Asking, first_page, free_port, started_process
from ralph.web.pages import PAGES
from ralph.web.tokens import token_path

MEMORIES, RUNS = 50_000, 200
CROWD_MEMORIES = 10_000
LOAD_SECONDS, OVERVIEW_CPU_SECONDS = 0.5, 0.3
"""Most that the median page may take to load, and most CPU time of the overview after an event."""
CROWD_RATIO = 3.0
"""Times the answers of the earlier version that are wanted."""
REPEATS = 5
NAMES = {
    "tasks": "t-000004",
    "memories": "mem-0-bench",
    "runs": "run-000000",
    "attempts": "1",
    "sessions": "",
    "episodes": "",
}
MAKE = """
import sys
from pathlib import Path
from bench import server
from ralph.project import Project
where, memories, tasks, runs = Path(sys.argv[1]), *map(int, sys.argv[2:])
server._make(where, memories)
if tasks:
    with Project.open(where) as project:
        server._work(project, tasks, runs)
"""


class Version:
    """A checkout whose server is measured with the libraries of this one."""

    def __init__(self, name: str, root: Path) -> None:
        self.name = name
        self._environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(root / "src"), str(root)))}

    def make(self, directory: Path, memories: int, tasks: int = 0, runs: int = 0) -> None:
        """Fill a project by its own operations, because an earlier version cannot open a later database."""
        words = [str(directory), str(memories), str(tasks), str(runs)]
        subprocess.run([sys.executable, "-c", MAKE, *words], env=self._environment, check=True)

    @contextmanager
    def serving(self, directory: Path) -> Iterator[tuple[Asking, psutil.Process]]:
        """Serve a project."""
        port = free_port()
        command = [sys.executable, "-m", "ralph", "-C", str(directory), "serve", "--port", str(port)]
        with started_process(command, b"", port, self._environment) as id:
            yield Asking(port, token_path(str(directory)).read_text().strip()), psutil.Process(id)


def cpu_seconds(process: psutil.Process) -> float:
    """Return the CPU time of a server with the processes it has started."""
    times = [one.cpu_times() for one in (process, *process.children(recursive=True))]
    return float(sum(one.user + one.system for one in times))


# --- a large project --------------------------------------------------------------------------


def measure_pages(table: Table, version: Version, directory: Path) -> None:
    """Print how soon pages are there, and what the overview costs after an event."""
    print(f"{version.name}: pages with {MEMORIES:,} memories and {TASKS:,} tasks")
    version.make(directory, MEMORIES, TASKS, RUNS)
    with version.serving(directory) as (ask, process):
        paths = [path for page in PAGES if (path := _filled(page.path)) and ask(path)[0] == 200]
        answers = {path: best(lambda path=path: ask(path), REPEATS) for path in paths}  # type: ignore[misc]
        _print_times(table, "answers", answers)
        if (loads := load_times(ask, paths)) is not None:
            _print_times(table, "loads in Chromium", loads)
        seconds = min(_overview_after_event(ask, process, number) for number in range(REPEATS))
        table.row("the overview after an event, CPU time", seconds * 1000, seconds, OVERVIEW_CPU_SECONDS)
        size = sum(first_page(Asking(ask.port, ask.token)).values())
        table.missed += size > ROOM
        print(
            f"  the first page: {size / 1000:.0f} kB  (at most {ROOM // 1000}: {'met' if size <= ROOM else 'MISSED'})"
        )


def _filled(path: str) -> str:
    """Return the path of a page with ids in it; nothing if the project has no such thing."""
    words = path.split("/")
    for at, word in enumerate(words):
        if word.startswith("{"):
            words[at] = NAMES.get(words[at - 1], "")
            if not words[at]:
                return ""
    return "/".join(words)


def _print_times(table: Table, what: str, times: Mapping[str, float]) -> None:
    middle, slowest = median(times.values()), max(times, key=lambda path: times[path])
    table.row(f"{what}: the median of {len(times)} pages", middle * 1000, middle, LOAD_SECONDS)
    table.row(f"{what}: the slowest, {slowest}", times[slowest] * 1000, times[slowest])


def _overview_after_event(ask: Asking, process: psutil.Process, number: int) -> float:
    """Return the CPU time of the overview after a task was added."""
    ask = Asking(ask.port, ask.token)  # an idle connection is closed by the server
    status, _ = ask("/api/tasks", {"title": f"One more task, number {number}"})
    assert status == 201
    ask("/api/docs")  # what follows an event is over when another answer is there
    before = cpu_seconds(process)
    assert ask("/")[0] == 200
    return cpu_seconds(process) - before


def load_times(ask: Asking, paths: list[str]) -> dict[str, float] | None:
    """Return the seconds until a browser has loaded each page, the shortest of several; None without a browser."""
    names = (os.environ.get("RALPH_CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome")
    program = next((found for name in names if name and (found := shutil.which(name))), None)
    if program is None:
        print("  loads in a browser: no Chromium was found")
        return None
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(f"http://127.0.0.1:{ask.port}/?token={ask.token}")
        times = {}
        for path in paths:
            taken = []
            for _ in range(REPEATS):
                page.goto(f"http://127.0.0.1:{ask.port}{path}", wait_until="load")
                taken.append(float(page.evaluate("performance.getEntriesByType('navigation')[0].loadEventStart")))
            times[path] = min(taken) / 1000
        browser.close()
    return times


# --- a crowd ----------------------------------------------------------------------------------


def measure_crowd(table: Table, versions: list[Version], folder: Path, seconds: float, rounds: int) -> None:
    """Print what readers and writers get done, of all versions in turn."""
    print(f"{READERS} readers and {WRITERS} writers, {rounds} times {seconds:.0f} s, {CROWD_MEMORIES:,} memories")
    told: dict[str, list[dict[str, float]]] = {version.name: [] for version in versions}
    for version in versions:
        version.make(folder / version.name, CROWD_MEMORIES)
    for _ in range(rounds):
        for version in versions:
            with version.serving(folder / version.name) as (ask, process):
                told[version.name].append(_one_round(ask, process, seconds))
    for name, results in told.items():
        for what in results[0]:
            values = [one[what] for one in results]
            print(f"  {name}: {what:34} {median(values):9.2f}  ({min(values):.2f} to {max(values):.2f})")
        table.missed += any(one["errors"] for one in results)
    if len(versions) > 1:
        new, old = (told[version.name] for version in versions[:2])
        for what in ("answers a second", "writes a second"):
            ratio = median(one[what] for one in new) / median(one[what] for one in old)
            table.missed += ratio < CROWD_RATIO
            print(f"  {what}: {ratio:.2f} x  (at least {CROWD_RATIO:g}: {'met' if ratio >= CROWD_RATIO else 'MISSED'})")


def _one_round(ask: Asking, process: psutil.Process, seconds: float) -> dict[str, float]:
    memory, cpu = process.memory_info().rss, cpu_seconds(process)
    load = [sys.executable, "-m", "bench.server", str(ask.port), ask.token, str(seconds)]
    told: dict[str, Any] = json.loads(subprocess.run(load, capture_output=True, text=True, check=True).stdout)
    cpu = cpu_seconds(process) - cpu
    count = len(told["readers"]) + len(told["writers"])
    return {
        "answers a second": len(told["readers"]) / seconds,
        "writes a second": len(told["writers"]) / seconds,
        "CPU time of the server, share of a core": cpu / seconds,
        "CPU time per answer, ms": cpu / max(1, count) * 1000,
        "memory gained, MB": (process.memory_info().rss - memory) / 1e6,
        "errors": float(len(told["errors"])),
    }


def main() -> int:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m bench.dashboard", description=__doc__)
    parser.add_argument("--base", type=Path, help="checkout of an earlier version to compare with")
    parser.add_argument("--only", choices=("pages", "crowd"))
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    versions = [Version("this version", Path(__file__).parents[1])]
    if options.base:
        versions.append(Version("the base", options.base.resolve()))
    table = Table()
    with tempfile.TemporaryDirectory(prefix="ralph-bench-") as name:
        if options.only != "crowd":
            measure_pages(table, versions[0], Path(name) / "pages")
        if options.only != "pages":
            measure_crowd(table, versions, Path(name), options.seconds, options.rounds)
    return 1 if table.missed else 0


if __name__ == "__main__":
    sys.exit(main())
