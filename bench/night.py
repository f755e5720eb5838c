"""`make bench-night`: what a night with every disturbance gets done, beside one without any.

A run works on 40 tasks with a program that speaks like Claude Code and asks a scripted model what happens to it: usage
limits with a time of reset, outages, a login that expires, refusals, hangs. The run is also killed, and the whole
machine "rebooted". The person only logs in and continues. Waits are seconds instead of hours.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from ralph.core.records import Attempt, AttemptOutcome, TaskStatus, record
from ralph.project import Project

TASKS = int(os.environ.get("RALPH_BENCH_TASKS", "40"))
MIN_SHARE = 0.98
"""Share of what an undisturbed run gets done."""
COST_USD = 0.05
"""What a session costs that reaches its model; as in `night_agent.py`."""
RESET_SECONDS = 3
IDLE_SECONDS = 4.0
"""Time after which a session without output is ended, in seconds."""
SESSION_SECONDS = 0.1
LONG_SESSION_SECONDS = 20.0
"""Length of a session in which the run is killed, in seconds."""
OUTAGE_SESSIONS = 2
MAX_STARTS = 30
NIGHT_SECONDS = 540.0
GATE = f"{sys.executable} check.py"
CHECK = """\
import pathlib, sys
parts = sorted(pathlib.Path("parts").glob("*.txt"))
bad = [part.name for part in parts if part.read_text() != f"ok {part.stem}\\n"]
sys.exit(f"bad parts: {', '.join(bad)}" if bad else 0)
"""
SETTINGS = """\
[agent]
name = "claude"
command = [{python}, {agent}]
environment = ["NIGHT_*"]
idle_seconds = {idle}
outage_seconds = 0.3
[execution]
gates = [{gate}]
[memories]
meaning = false
"""
DISTURBANCES = ("limit", "outage", "refusal", "kill", "hang", "login", "limit", "reboot", "outage", "kill")
"""What happens during the night, spread over its sessions."""


class Model:
    """Scripted model: what happens to each session, over all restarts of the run."""

    def __init__(self, disturbances: dict[int, str], clumsy: set[str]) -> None:
        """`disturbances` are by number of the session; the first work on `clumsy` tasks is bad in any night."""
        self._disturbances, self._clumsy = disturbances, set(clumsy)
        self._lock = threading.Lock()
        self._sessions = 0
        self._limited_until = 0
        self._outages = 0
        self.happened: list[str] = []
        self.spent_usd = 0.0
        self.is_logged_in = True
        self.wants = threading.Event()
        """Set when the run is to be killed."""
        self.wanted = ""
        model = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                task = self.rfile.read(int(self.headers["Content-Length"])).decode()
                body = json.dumps(model.answer(task)).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()

    def answer(self, task: str) -> dict[str, object]:
        """Return what happens to a session that works on a task."""
        with self._lock:
            kind = self._kind(task)
            self.happened.append(kind)
            if kind in ("kill", "reboot"):
                self.wanted = kind
                self.wants.set()
                return {"kind": "work", "seconds": LONG_SESSION_SECONDS}
            if kind in ("work", "bad", "refusal"):
                self.spent_usd += COST_USD
            return {"kind": kind, "resets_at": self._limited_until, "seconds": SESSION_SECONDS}

    def _kind(self, task: str) -> str:
        if not self.is_logged_in:
            return "login"
        if time.time() < self._limited_until:
            return "limit"
        if self._outages:
            self._outages -= 1
            return "outage"
        self._sessions += 1
        kind = self._disturbances.pop(self._sessions, "")
        if kind == "limit":
            self._limited_until = int(time.time()) + RESET_SECONDS
        elif kind == "outage":
            self._outages = OUTAGE_SESSIONS - 1
        elif kind == "login":
            self.is_logged_in = False
        if kind:
            return kind
        if task in self._clumsy:
            self._clumsy.remove(task)
            return "bad"
        return "work"


@record
class Night:
    """What came of a night."""

    done: int
    starts: int
    """How often the run was started or continued."""
    used_up: int
    """Attempts that failed and count against their task."""
    spent_usd: float
    recorded_usd: float
    limit_usd: float
    commits: int
    failing_commits: int
    """Commits on whose fresh checkout the gate fails, or that are not of exactly one task that is done."""
    seconds: float
    happened: dict[str, int]
    detail: str = ""
    """Which attempts were used up."""


def play_night(tasks: int, disturbances: tuple[str, ...]) -> Night:
    """Let a run work on tasks in a new project, and return what came of it."""
    with tempfile.TemporaryDirectory(prefix="ralph-night-", ignore_cleanup_errors=True) as folder:
        root = Path(folder) / "project"
        ids = _make_project(root, tasks)
        clumsy = set(ids[3::10])
        step = max(1, (tasks + len(disturbances)) // (len(disturbances) + 1))
        model = Model({(n + 1) * step: kind for n, kind in enumerate(disturbances)}, clumsy)
        limit = round(COST_USD * (tasks + len(clumsy) + len(disturbances)), 2)
        began = time.monotonic()
        try:
            starts = _run_until_morning(root, model, limit)
        finally:
            model.close()
        return _look(root, model, limit, starts, time.monotonic() - began)


def _make_project(root: Path, tasks: int) -> list[str]:
    root.mkdir()
    _ralph(root, "init")
    agent = Path(__file__).with_name("night_agent.py")
    (root / "check.py").write_text(CHECK)
    (root / ".ralph.toml").write_text(
        SETTINGS.format(
            python=json.dumps(sys.executable), agent=json.dumps(str(agent)), gate=json.dumps(GATE), idle=IDLE_SECONDS
        )
    )
    _git(root, "init", "--quiet")
    _git(root, "config", "user.name", "A")
    _git(root, "config", "user.email", "a@b.example")
    _git(root, "add", "-A")
    _git(root, "commit", "--quiet", "-m", "Begin")
    with Project.open(root) as project:
        return [project.tasks.add(f"Write part {number}").id for number in range(1, tasks + 1)]


def _run_until_morning(root: Path, model: Model, limit: float) -> int:
    """Start the run, and continue it as a person would; return how often."""
    limits = ("--max-cost", f"{limit:.2f}", "--max-minutes", str(NIGHT_SECONDS / 60))
    deadline = time.monotonic() + NIGHT_SECONDS
    for start in range(1, MAX_STARTS + 1):
        words = ("run", *(("--resume",) if start > 1 else ()), *limits)
        with open(root.parent / "log", "ab") as log:  # noqa: PTH123
            run = subprocess.Popen(
                [sys.executable, "-m", "ralph", *words],
                cwd=root,
                env=_environment(root, NIGHT_MODEL=model.url),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        while run.poll() is None and not model.wants.wait(0.05):
            if time.monotonic() > deadline:
                run.kill()
        if model.wants.is_set():
            model.wants.clear()
            time.sleep(0.5)  # in the middle of the session
            _kill(root, run, everything=model.wanted == "reboot")
            continue
        if not model.is_logged_in:
            model.is_logged_in = True
            continue
        if run.returncode == 0 or time.monotonic() > deadline or not _has_open_tasks(root):
            return start
    return MAX_STARTS


def _kill(root: Path, run: subprocess.Popen[bytes], *, everything: bool) -> None:
    """Kill the run alone, or all processes of the night at once."""
    if everything:
        mark = f"RALPH_NIGHT={root}".encode()
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (process / "environ").read_bytes().split(b"\0"):
                    os.kill(int(process.name), signal.SIGKILL)
            except OSError:
                continue
    run.kill()
    run.wait()


def _has_open_tasks(root: Path) -> bool:
    with Project.open(root) as project:
        return any(task.status in (TaskStatus.PENDING, TaskStatus.IN_PROGRESS) for task in project.tasks.tree())


def _look(root: Path, model: Model, limit: float, starts: int, seconds: float) -> Night:
    with Project.open(root) as project:
        done = {task.id for task in project.tasks.tree() if task.status is TaskStatus.DONE}
        attempts = [one for task in project.tasks.tree() for one in project.store.attempts.latest(100, task=task.id)]
    failed = [one for one in attempts if _is_used_up(one)]
    commits = _task_commits(root)
    failing = sum(not _passes(root, commit) for commit in commits)
    owners = [task for tasks in commits.values() for task in tasks]
    wrong = sum(len(tasks) != 1 for tasks in commits.values()) + len(set(owners) ^ done)
    return Night(
        done=len(done),
        starts=starts,
        used_up=len(failed),
        spent_usd=model.spent_usd,
        recorded_usd=sum(one.cost_usd or 0.0 for one in attempts),
        limit_usd=limit,
        commits=len(commits),
        failing_commits=failing + wrong,
        seconds=seconds,
        happened={kind: model.happened.count(kind) for kind in dict.fromkeys(model.happened)},
        detail="; ".join(sorted({f"{one.outcome}: {one.reason}" for one in failed})),
    )


def _is_used_up(attempt: Attempt) -> bool:
    is_failed = attempt.outcome not in (None, AttemptOutcome.DONE, AttemptOutcome.INTERRUPTED)
    return is_failed and not attempt.excused


def _task_commits(root: Path) -> dict[str, list[str]]:
    """Return the tasks that the trailers of each commit name."""
    listed = _git(root, "log", "--format=%H%x00%(trailers:key=Ralph-Task,valueonly,separator=%x20)", "--reverse")
    commits = dict(line.split("\0") for line in listed.splitlines())
    return {commit: tasks.split() for commit, tasks in commits.items() if tasks}


def _passes(root: Path, commit: str) -> bool:
    """Return whether the gate passes on a fresh checkout of a commit."""
    with tempfile.TemporaryDirectory(prefix="ralph-night-") as folder:
        archive = subprocess.run(["git", "archive", commit], cwd=root, check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x"], cwd=folder, input=archive, check=True)
        return subprocess.run(GATE.split(), cwd=folder, check=False, capture_output=True).returncode == 0


def _environment(root: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "RALPH_NIGHT": str(root), **more}


def _ralph(root: Path, *words: str) -> None:
    subprocess.run([sys.executable, "-m", "ralph", *words], cwd=root, check=True, capture_output=True)


def _git(root: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=root, check=True, capture_output=True, text=True).stdout


def report(calm: Night, night: Night) -> list[str]:
    """Return what is missed, after printing both nights beside each other."""
    rows = (
        ("tasks done", calm.done, night.done),
        ("attempts used up", calm.used_up, night.used_up),
        ("spent, by the model", f"${calm.spent_usd:.2f}", f"${night.spent_usd:.2f}"),
        ("spent, as recorded", f"${calm.recorded_usd:.2f}", f"${night.recorded_usd:.2f}"),
        ("limit", f"${calm.limit_usd:.2f}", f"${night.limit_usd:.2f}"),
        ("commits of tasks", calm.commits, night.commits),
        ("commits that fail, or are of no one task", calm.failing_commits, night.failing_commits),
        ("starts of the run", calm.starts, night.starts),
        ("seconds", round(calm.seconds), round(night.seconds)),
    )
    print(f"  {'':42}{'undisturbed':>12}{'disturbed':>12}")
    for what, first, second in rows:
        print(f"  {what:42}{first:>12}{second:>12}")
    print(f"  sessions: {', '.join(f'{count} {kind}' for kind, count in night.happened.items())}", flush=True)
    bars = {
        f"fewer than {MIN_SHARE:.0%} of the tasks are done": night.done >= MIN_SHARE * calm.done,
        f"a disturbance used up attempts ({night.detail})": night.used_up <= calm.used_up,
        "more was spent than the limit": max(night.spent_usd, night.recorded_usd) <= night.limit_usd,
        "a task has no commit of its own whose gate passes": not night.failing_commits and night.commits == night.done,
        "not everything happened": set(DISTURBANCES) <= set(night.happened),
    }
    return [what for what, is_met in bars.items() if not is_met]


def main() -> int:
    """Play both nights, and exit with 1 when something is missed."""
    print(f"A night of {TASKS} tasks")
    missed = report(play_night(TASKS, ()), play_night(TASKS, DISTURBANCES))
    for what in missed:
        print(f"MISSED: {what}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
