"""Sigils and every reader of foreign text, given millions of inputs that nobody thought of.

`python -m tests.faults.fuzzing` gives all readers so many inputs as RUNS says; with a name, that one alone. What was
found goes into tests/faults/test_fuzzing.py as a test of its own, once it is mended.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ralph.core.records import record
from tests.faults.fuzz_child import SIGILS
from tests.faults.fuzz_targets import TARGETS
from tests.faults.trial import Shown, Trial

ROOT = Path(__file__).parents[2]
WORKERS = 2
GUIDED_PART = 0.1
"""So many inputs more come from atheris, which looks for new ways through the code, and takes longer."""
LARGE = 25
"""Large inputs of each reader that are timed, in a trial of full size."""
FULL = 1_000_000
EACH = 100_000
"""Inputs for each reader: a million for each would take most of an hour. `make fuzz RUNS=1000000` does that."""
NO_ATHERIS = "atheris is not installed here (it has no wheel for this Python or system): no guided inputs"


@record
class Job:
    """One reader's share of the work."""

    target: str
    runs: int
    seed: int
    large: int = 0
    guided: bool = False


@record
class Found:
    """What came of it."""

    job: Job
    tried: int
    timed: int = 0
    done: int = 0
    """Answers that said that the task is done, and may."""
    finds: tuple[str, ...] = ()


def has_atheris() -> bool:
    """Say whether there can be guided inputs."""
    return importlib.util.find_spec("atheris") is not None


def work(job: Job, folder: Path) -> Found:
    """Do a job in a process of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    words = [job.target, "--runs", str(job.runs), "--seed", str(job.seed), "--folder", str(folder)]
    words += ["--large", str(job.large)] if job.large else []
    words += ["--guided"] if job.guided else []
    ran = subprocess.run(
        [sys.executable, "-m", "tests.faults.fuzz_child", *words],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(folder)},  # atheris ends its process without any farewell
        capture_output=True,
        text=True,
        errors="replace",
    )
    if job.guided:
        return _guided(job, ran, folder)
    if ran.returncode:
        return Found(job=job, tried=0, finds=(f"{job.target}: it ended with {ran.returncode}: {ran.stderr[-800:]}",))
    told: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    finds = tuple(f"{job.target}: {one['error']}\n    {one['input']}" for one in told["finds"])
    return Found(job=job, tried=told["tried"], timed=told["timed"], done=told["done"], finds=finds)


def _guided(job: Job, ran: subprocess.CompletedProcess[str], folder: Path) -> Found:
    done = re.search(r"Done (\d+) runs", ran.stderr)
    left = sorted(folder.glob("find-*"))
    if ran.returncode == 0 and done and not left:
        return Found(job=job, tried=int(done[1]))
    shown = "".join(f"\n    {ascii(one.read_bytes())[:1_000]}" for one in left)
    return Found(
        job=job, tried=0, finds=(f"{job.target}, guided, ended with {ran.returncode}: {ran.stderr[-1500:]}{shown}",)
    )


def work_all(jobs: Sequence[Job], folder: Path) -> list[Found]:
    """Do all jobs, a few at a time, the longest first."""
    numbered = sorted(enumerate(jobs), key=lambda one: -one[1].runs)
    with ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(lambda one: work(one[1], folder / str(one[0])), numbered))


def jobs_for_sigils(size: int, seed: int) -> list[Job]:
    """Give the jobs that make so many answers."""
    parts, large, has_guided = (4, LARGE, has_atheris()) if _is_long(size) else (1, 0, False)
    jobs = [
        Job(target=SIGILS, runs=size // parts, seed=seed * 100 + part, large=0 if part else large)
        for part in range(parts)
    ]
    guided = Job(target=SIGILS, runs=round(size * GUIDED_PART), seed=seed, guided=True)
    return [*jobs, guided] if has_guided else jobs


def jobs_for_readers(size: int, seed: int) -> list[Job]:
    """Give the jobs that make so many inputs for all readers together."""
    each = -(-size // len(TARGETS))
    jobs = [Job(target=one.name, runs=each, seed=seed, large=LARGE if _is_long(size) else 0) for one in TARGETS]
    guided = [
        Job(target=one.target, runs=max(1, round(one.runs * GUIDED_PART)), seed=seed, guided=True)
        for one in jobs
        if has_atheris() and _is_long(size)
    ]
    return jobs + guided


def _is_long(size: int) -> bool:
    """Say whether there is time for what takes some by itself."""
    return size >= FULL // 100


def _shown(found: list[Found], what: str, more: str = "") -> Shown:
    finds = [line for one in found for line in one.finds]
    for line in finds:
        print(line, file=sys.stderr, flush=True)
    plain = sum(one.tried for one in found if not one.job.guided)
    guided = sum(one.tried for one in found if one.job.guided)
    timed = sum(one.timed for one in found)
    by_atheris = f"{guided:,} more by atheris" if guided else NO_ATHERIS
    return Shown(
        load=f"{plain:,} {what}",
        tried=plain + guided + timed,
        lost=len(finds),
        says=f"{by_atheris}; {timed:,} of 128 KB timed{more}",
    )


def run_sigils(folder: Path, size: int, seed: int) -> Shown:
    """Give the reader of sigils so many answers: nothing raises, and no task is done that was not said to be."""
    found = work_all(jobs_for_sigils(size, seed), folder)
    done = sum(one.done for one in found)
    return _shown(found, "answers", f"; {done:,} said done, and may")


def run_readers(folder: Path, size: int, seed: int) -> Shown:
    """Give all readers together so many inputs: nothing raises but what says in a sentence what is wrong."""
    found = work_all(jobs_for_readers(size, seed), folder)
    each = min(one.tried for one in found if not one.job.guided)
    return _shown(found, "inputs", f"; {len(TARGETS)} readers, each at least {each:,}")


TRIALS = (
    Trial(name="sigils", test="sigils", allowed="0 crashes, 0 false dones", size=FULL, run=run_sigils),
    Trial(name="readers", test="parsers", allowed="0 crashes", size=EACH * len(TARGETS), run=run_readers),
)


def main() -> int:
    """Fuzz one reader, or all."""
    names = [SIGILS, *(one.name for one in TARGETS)]
    parser = argparse.ArgumentParser(prog="make fuzz", description="Give readers inputs that nobody thought of.")
    parser.add_argument("target", nargs="*", metavar="TARGET", help=f"one of {', '.join(names)}")
    parser.add_argument("--runs", type=int, default=20_000, help="inputs for each")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if unknown := [name for name in given.target if name not in names]:
        parser.error(f"there is no {unknown[0]!r}; there are {', '.join(names)}")
    if not has_atheris():
        print(f"{NO_ATHERIS}.")
    jobs = [
        Job(target=name, runs=given.runs, seed=given.seed, large=0 if is_guided else LARGE, guided=is_guided)
        for name in given.target or names
        for is_guided in ((False, True) if has_atheris() else (False,))
    ]
    with tempfile.TemporaryDirectory(prefix="ralph-fuzz-") as folder:
        found = work_all(jobs, Path(folder))
    for one in found:
        print(
            f"{one.job.target:28} {'guided' if one.job.guided else '':8}{one.tried:>10,} inputs, {len(one.finds)} finds"
        )
        for line in one.finds:
            print(f"  {line}")
    return 1 if any(one.finds for one in found) else 0


if __name__ == "__main__":
    sys.exit(main())
