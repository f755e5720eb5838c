"""`make soak MINUTES=30`: everything at once for a long time, with random kills; nothing may grow, nothing may be lost.

Two of each work on one project: a loop, a server and an MCP server that live from beginning to end and are
measured, and others beside them that are killed again and again. People, hooks and readers come and go.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from ralph.core.records import record
from ralph.project import Project
from ralph.store.maintenance.check import check_database
from tests.faults.trial import Shown, Trial
from tests.integrations.mcp.asking import Served, tool_call
from tests.make import set_up_project
from tests.web.asking import ServedApart

TAG = "RALPH_SOAK"
"""In the environment of all that belongs to one soak, so that whoever is left is found."""
SAMPLE_SECONDS = 1.0
KILL_SECONDS = (1.0, 6.0)
"""Between two kills."""
EARLY, LATE = (0.25, 0.45), (0.8, 1.0)
"""The parts of the time that are compared: caches are warm by then."""
MORE_HANDLES = 3
MORE_THREADS = 3
MORE_MEMORY = 1.15
MORE_MEGABYTES = 8
MOST_MEMORIES = 150
NO_ROUTE = '"code":"not-found"'
"""The code of an answer to a path that does not exist: then the soak would not do what it says."""
CROWD = 32
"""So many ask at once in the beginning, so that every thread of the server has begun before it is measured."""
READ_PATHS = ("/", "/tasks", "/memories?q=parser", "/api/projects/-/memories/search?q=took+one+look", "/journal")
KINDS = "slow quick large small hidden broken empty double early late".split()
THINGS = "parser reader writer cache queue table index token branch merge".split()
AGENT = """
sleep 0.$(( $(date +%N | cut -c1-1) + 1 ))
case $(( $(date +%N | cut -c2) )) in
0|1) printf '<failure-report>\\nwhat_tried: the usual\\nwhy_failed: no luck\\n</failure-report>\\n'
     echo "<task-failed>$RALPH_TASK_ID</task-failed>" ;;
2) sleep 0.1 & setsid sleep 300 & echo "I am not sure." ;;
3) head -c 3000000 /dev/zero | tr '\\0' 'x'; echo; echo "<task-done>$RALPH_TASK_ID</task-done>" ;;
*) echo "<knowledge tags=\\"soak\\" title=\\"Seen by $RALPH_TASK_ID\\">It took one look.</knowledge>"
   echo "<journal>Looked at it.</journal><task-done>$RALPH_TASK_ID</task-done>" ;;
esac
"""


@record
class Sample:
    """What a process held at one moment."""

    at: float
    handles: int
    threads: int
    megabytes: float


class Soak:
    """One project under load, and what was noted of it."""

    def __init__(self, folder: Path, seconds: float, seed: int) -> None:
        self.root = folder / "project"
        self.root.mkdir()
        set_up_project(self.root)
        (self.root / "agent.sh").write_text(AGENT)
        self.seconds = seconds
        self.tag = os.urandom(8).hex()
        self.environment = {TAG: self.tag, "XDG_STATE_HOME": str(folder / "state")}
        self.chance = random.Random(seed)
        self.until = time.monotonic() + seconds
        self.samples: dict[str, list[Sample]] = {}
        self.processes: list[Sample] = []
        self.acknowledged: set[str] = set()
        self.faults: list[str] = []
        self.kills = self.requests = 0
        self._lock = threading.Lock()

    # --- what runs ---------------------------------------------------------------------

    def ralph(self, *words: str) -> list[str]:
        """Give the words that start a command on the project."""
        return [sys.executable, "-m", "ralph", "-C", str(self.root), *words]

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Start a command whose output nobody reads."""
        nowhere = subprocess.DEVNULL
        return subprocess.Popen(
            self.ralph(*words),
            stdin=nowhere,
            stdout=nowhere,
            stderr=nowhere,
            env={**os.environ, **self.environment},
            start_new_session=True,
        )

    def loop(self) -> subprocess.Popen[bytes]:
        """Start a run that waits for tasks."""
        return self.start("run", "--wait", "--format", "json", "--", "sh", "agent.sh")

    def sentence(self, begin: str) -> str:
        """Give something to remember, of words that come up again and again: what is kept of words is not to grow."""
        with self._lock:
            return " ".join([begin, *(f"{self.chance.choice(KINDS)}{self.chance.choice(THINGS)}" for _ in range(9))])

    def is_over(self) -> bool:
        """Say whether the time is up."""
        return time.monotonic() >= self.until

    def pause(self, least: float, most: float) -> None:
        """Wait a while, but not beyond the end."""
        time.sleep(max(0.0, min(self.chance.uniform(least, most), self.until - time.monotonic())))

    def keep(self, id: str) -> None:
        """Note what was acknowledged."""
        with self._lock:
            self.acknowledged.add(id)

    def fault(self, what: str) -> None:
        """Note what must not happen."""
        with self._lock:
            self.faults.append(what)

    # --- who works on it -----------------------------------------------------------------

    def feed(self, server: ServedApart) -> None:
        """Keep a few tasks waiting, and take away those that are over."""
        number = 0
        while not self.is_over():
            status, page = self.ask(server, "GET", "/api/tasks?limit=200")
            tasks = page["items"] if status == 200 else []
            waiting = [task for task in tasks if task["status"] == "pending"]
            for task in tasks:
                if task["status"] in ("blocked", "failed") or (task["status"] == "done" and len(tasks) > 60):
                    self.ask(server, "DELETE", f"/api/tasks/{task['id']}")
            for _ in range(8 - len(waiting)):
                number += 1
                self.ask(server, "POST", "/api/tasks", {"title": f"Look at part {number} of the parser"})
            self.pause(0.5, 1.0)

    def read(self, server: ServedApart) -> None:
        """Look at pages and search, again and again."""
        while not self.is_over():
            self.ask(server, "GET", self.chance.choice(READ_PATHS))
            self.pause(0.05, 0.3)

    def listen(self, server: ServedApart) -> None:
        """Follow events for a while, and hang up."""
        while not self.is_over():
            try:
                with server.stream("/api/events", timeout=3) as stream:
                    for _ in range(self.chance.randint(1, 30)):
                        stream.readline()
            except OSError:
                pass
            self.pause(0.1, 0.5)

    def write(self, server: ServedApart) -> None:
        """Add memories over HTTP, and delete the oldest of all, so that there are not ever more."""
        while not self.is_over():
            body = {"content": self.sentence("The parser wants"), "type": "pattern"}
            status, made = self.ask(server, "POST", "/api/projects/-/memories", body)
            if status == 201:
                self.keep(made["memory"]["id"])
            status, page = self.ask(server, "GET", f"/api/projects/-/memories?limit={MOST_MEMORIES + 5}")
            for one in page["items"][MOST_MEMORIES:] if status == 200 else []:
                self.ask(server, "DELETE", f"/api/memories/{one['id']}")
            self.pause(0.2, 0.6)

    def remember(self, mcp: Served) -> None:
        """Add and search as an agent does over MCP."""
        number = 0
        while not self.is_over():
            number += 1
            said = mcp.ask(tool_call("remember", number, content=self.sentence("Slow are"), type="fix"))
            found = re.search(r"mem-[0-9]+-[0-9a-f]+", json.dumps(said))
            if found:
                self.keep(found[0])
            mcp.ask(tool_call("search_memories", -number, query="slow parts"))
            self.pause(0.3, 0.8)

    def edit(self) -> None:
        """Write into the memories file as a person does, and let hooks come by."""
        number = 0
        path = self.root / ".agent" / "memories.md"
        while not self.is_over():
            number += 1
            if path.exists():
                with path.open("a") as file:
                    file.write(f"\n### mem-{1_700_000_000 + number}-{number % 65536:04x}\n> Noted by hand {number}.\n")
            told = json.dumps({"session_id": f"s{number % 5}", "cwd": str(self.root), "prompt": "How is the parser?"})
            event = self.chance.choice(("session-start", "user-prompt-submit", "stop"))
            subprocess.run(
                self.ralph("hook", event),
                input=told.encode(),
                capture_output=True,
                env={**os.environ, **self.environment},
                check=False,
            )
            self.pause(1.5, 3.0)

    def add_and_be_killed(self) -> None:
        """Add memories by command; every other command is killed somewhere."""
        number = 0
        while not self.is_over():
            number += 1
            words = ("memory", "add", self.sentence("A command saw"), "--format", "quiet")
            command = subprocess.Popen(
                self.ralph(*words),
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, **self.environment},
            )
            if number % 2:
                time.sleep(self.chance.uniform(0.02, 0.2))
                command.kill()
                self.kills += 1
            out, _ = command.communicate()
            if out.endswith(b"\n"):
                self.keep(out.decode().split()[-1])
            elif not number % 2:
                self.fault("a command that nobody killed said nothing")
            self.pause(0.3, 1.0)

    def kill_loops(self) -> None:
        """Run a loop beside the other, and kill it again and again; and a server."""
        while not self.is_over():
            victim = self.loop() if self.chance.random() < 0.7 else self.start("serve", "--port", "0")
            self.pause(*KILL_SECONDS)
            how = self.chance.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT))
            victim.send_signal(how)
            self.kills += 1
            try:
                victim.wait(15)
            except subprocess.TimeoutExpired:
                self.fault(f"{victim.args!r} did not end at {how.name} in 15 s")
                victim.kill()
                victim.wait()

    def ask(self, server: ServedApart, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Ask the server; a fault of it is noted."""
        self.requests += 1
        try:
            said = server.ask(method, path, None if body is None else json.dumps(body))
        except (OSError, http.client.HTTPException) as error:
            self.fault(f"{method} {path}: {error!r}")
            return 0, None
        if said.status >= 500 or (said.status == 404 and NO_ROUTE in said.text):
            self.fault(f"{method} {path}: {said.status} {said.text[:200]}")
        return said.status, said.told

    # --- what is measured ----------------------------------------------------------------

    def measure(self, steady: Mapping[str, psutil.Process]) -> None:
        """Note what the processes that live long hold, again and again."""
        begin = time.monotonic()
        while not self.is_over():
            at = (time.monotonic() - begin) / self.seconds
            for name, process in steady.items():
                try:
                    with process.oneshot():
                        held = process.num_fds(), process.num_threads(), process.memory_info().rss / 1e6
                except psutil.NoSuchProcess:
                    self.fault(f"the {name} that nobody killed has ended")
                    return
                sample = Sample(at=at, handles=held[0], threads=held[1], megabytes=held[2])
                self.samples.setdefault(name, []).append(sample)
            self.processes.append(Sample(at=at, handles=len(self.alive()), threads=0, megabytes=0))
            time.sleep(SAMPLE_SECONDS)

    def alive(self) -> list[psutil.Process]:
        """Give every process of this soak."""
        wanted = f"{TAG}={self.tag}".encode()
        found = []
        for process in psutil.process_iter():
            try:
                if wanted in Path(f"/proc/{process.pid}/environ").read_bytes() and process.status() != "zombie":
                    found.append(process)
            except (OSError, psutil.Error):
                continue
        return found

    def growth(self) -> Iterator[tuple[str, str, float, float, float]]:
        """Give what is compared: who, what, early, late, and how much is allowed."""
        for name, samples in {**self.samples, "all of it": self.processes}.items():
            for what in ("handles", "threads", "megabytes") if name in self.samples else ("handles",):
                early, late = (_typical(samples, part, what) for part in (EARLY, LATE))
                allowed = early + (MORE_HANDLES if what == "handles" else MORE_THREADS)
                if what == "megabytes":
                    allowed = early * MORE_MEMORY + MORE_MEGABYTES
                yield name, what if name in self.samples else "processes", early, late, allowed

    def course(self, name: str, what: str) -> Iterator[float]:
        """Give what was held in each tenth of the time."""
        samples = self.samples.get(name, self.processes)
        for tenth in range(10):
            yield _typical(samples, (tenth / 10, tenth / 10 + 0.1), what if name in self.samples else "handles")


def _typical(samples: Sequence[Sample], part: tuple[float, float], what: str) -> float:
    found = [getattr(one, what) for one in samples if part[0] <= one.at <= part[1]]
    return float(median(found)) if found else 0.0


def run(folder: Path, size: int, seed: int) -> Shown:
    """Let everything work for so many seconds; count what was lost, left, failed or grew."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell puts into the background ignores it
    soak = Soak(folder, size, seed)
    with _at_work(soak) as (server, mcp, loop):
        steady = {
            "loop": psutil.Process(loop.pid),
            "server": psutil.Process(server.process.pid),
            "MCP server": psutil.Process(mcp.process.pid),
        }
        _warm_up(soak, server)
        soak.until = time.monotonic() + size
        _together(
            [
                lambda: soak.measure(steady),
                lambda: soak.feed(server),
                lambda: soak.read(server),
                lambda: soak.read(server),
                lambda: soak.listen(server),
                lambda: soak.write(server),
                lambda: soak.remember(mcp),
                soak.edit,
                soak.add_and_be_killed,
                soak.kill_loops,
            ],
            soak,
        )
    left = _left(soak)
    lost, attempts, problems = _looked_over(soak)
    grown = [one for one in soak.growth() if one[3] > one[4]] if size >= 60 else []
    for name, what, early, late, allowed in soak.growth():
        print(f"{'':12} {name}: {what} {early:.0f} early, {late:.0f} late (allowed {allowed:.0f})", end="; ")
        print("tenth by tenth", *(f"{one:.0f}" for one in soak.course(name, what)))
    for fault in [*soak.faults[:20], *problems, *(f"left alive: {one}" for one in left)]:
        print(f"{'':12} {fault}")
    figures = [
        f"{name} {what} {early:.0f} → {late:.0f}" for name, what, early, late, _ in soak.growth() if what != "threads"
    ]
    return Shown(
        load=f"{size / 60:.0f} min: 2 loops, 2 servers, MCP, hooks, 6 readers and writers, a person",
        tried=soak.kills,
        lost=len(lost) + len(left) + len(grown) + len(soak.faults) + len(problems),
        says=f"{attempts:,} attempts, {len(soak.acknowledged):,} memories acknowledged, "
        f"{soak.requests:,} requests; early → late: " + ", ".join(figures),
    )


@contextmanager
def _at_work(soak: Soak) -> Iterator[tuple[ServedApart, Served, subprocess.Popen[bytes]]]:
    """Give the server, the MCP server and the loop that live long; end them."""
    with (
        ServedApart(soak.root, **soak.environment) as server,
        Served(soak.root, **soak.environment) as mcp,
    ):
        loop = soak.loop()
        try:
            yield server, mcp, loop
            for process in (loop, server.process):
                process.send_signal(signal.SIGINT)
            mcp.process.send_signal(signal.SIGINT)
            loop.send_signal(signal.SIGINT)
            for process in (loop, server.process, mcp.process):
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    soak.fault(f"{process.args!r} did not end when it was asked to")
        finally:
            loop.kill()
            loop.wait()


def _warm_up(soak: Soak, server: ServedApart) -> None:
    with ThreadPoolExecutor(CROWD) as threads:
        for path in READ_PATHS:
            list(threads.map(lambda _, path=path: soak.ask(server, "GET", path), range(CROWD)))


def _together(jobs: Sequence[Callable[[], None]], soak: Soak) -> None:
    def work(job: Callable[[], None]) -> None:
        try:
            job()
        except Exception as error:
            soak.fault(f"one who works on it ended: {error!r}")
            raise

    threads = [threading.Thread(target=work, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _left(soak: Soak) -> list[str]:
    """Give what is still alive when everything was ended, and end it."""
    deadline = time.monotonic() + 10
    while (left := soak.alive()) and time.monotonic() < deadline:
        time.sleep(0.1)
    found = []
    for process in left:
        try:
            found.append(f"{process.pid} {' '.join(process.cmdline())[:100]}")
            process.kill()
        except psutil.Error:
            continue
    return found


def _looked_over(soak: Soak) -> tuple[set[str], int, list[str]]:
    """Give what was acknowledged and is not there, how much was done, and what is wrong."""
    with Project.open(soak.root) as project:
        rows = project.store.scope.query("SELECT id FROM memory WHERE project_id = :project_id")
        there = {row["id"] for row in rows}
        counted = "SELECT SUM(iterations) AS attempts FROM runs WHERE project_id = :project_id"
        attempts = project.store.scope.query(counted)[0]["attempts"]
        running = project.store.attempts.running()
        problems = list(check_database(project.store.database.display_url, deep=True).problems)
    problems += [f"temporary file left: {path.name}" for path in _temporary(soak.root)]
    if len(running) > 2:
        problems.append(f"{len(running)} attempts stand as running")
    return soak.acknowledged - there, attempts, problems


def _temporary(root: Path) -> list[Path]:
    """Give half-written files; a process that was killed may leave a few, but they must not become ever more."""
    found = [path for path in root.rglob(".*.new") if ".git" not in path.parts]
    return found if len(found) > 20 else []


TRIALS = (
    Trial(
        name="soak",
        test="soak with random kills",
        allowed="0 lost, 0 left alive, no growth of handles, processes, memory",
        size=30 * 60,
        run=run,
    ),
)
