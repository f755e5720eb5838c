"""Tens of thousands of requests to one `ralph serve`: once it is warm, its memory does not grow with them.

One request of eight writes: it adds a memory or deletes one. Their history stays, so the database grows with it; the
server must not.
"""

from __future__ import annotations

import http.client
import json
import math
import random
import re
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from bench.recall_speed import fill

from ralph.core.records import record
from ralph.memory.recall import embeddings
from ralph.memory.recall.vector_search import embed_missing
from ralph.project import Project
from tests.faults.trial import Shown, Trial
from tests.make import set_up_project
from tests.web.asking import ServedApart

CLIENTS = 8
MEMORIES = 200
SAMPLES = 60
"""How often the memory is looked at, evenly over the requests."""
MIN_SIZE = 5_000
"""The server is warm after half of so many requests; with fewer, growth says nothing."""
MAX_GROWTH = 100.0
"""What may be added by a request, in bytes: 1 MB in 10,000."""
PATHS = (
    *("/", "/tasks", "/memories?q=parser", "/memories", "/journal", "/runs", "/live", "/failures", "/staging"),
    *("/api/status", "/api/tasks", "/api/projects/-/memories?limit=100", "/api/stats/runs", "/static/ui.js"),
    *("/api/projects/-/memories/search?q=tabs+and+spaces", "/api/projects/-/memories/search?q=slow"),
)
WORDS = "slow quick large small hidden broken parser reader writer cache queue table index token".split()
WRITE_SHARE = 1 / 8
KEPT = 5
"""Number of memories that a client adds before it deletes one for each that it adds."""


@record
class Slope:
    """How fast something grows, in units per step, and how sure that is."""

    value: float
    error: float
    """Half of the interval that holds the true value with a probability of 95 %."""


def slope(points: Sequence[tuple[float, float]]) -> Slope:
    """Fit a line by least squares."""
    x, y = (fmean(point[axis] for point in points) for axis in (0, 1))
    spread = sum((one - x) ** 2 for one, _ in points)
    value = sum((one - x) * (other - y) for one, other in points) / spread
    residual = sum((other - y - value * (one - x)) ** 2 for one, other in points)
    return Slope(value=value, error=1.96 * math.sqrt(residual / (len(points) - 2) / spread))


class Crowd:
    """Clients that ask one thing after the other, each on a connection of its own, until so many were answered."""

    def __init__(self, server: ServedApart, size: int, seed: int) -> None:
        self._server = server
        self._size = size
        self._seed = seed
        self._lock = threading.Lock()
        self.answered = self.written = 0
        self.faults: list[str] = []
        self.samples: list[tuple[float, float]] = []
        """How many requests were answered, and how many bytes the server held then."""

    def run(self) -> None:
        """Ask until all is answered."""
        clients = [threading.Thread(target=self._client, args=(number,)) for number in range(CLIENTS)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()

    def _client(self, number: int) -> None:
        chance = random.Random(self._seed * CLIENTS + number)
        connection = http.client.HTTPConnection("127.0.0.1", self._server.port, timeout=60)
        added: list[str] = []
        while self.answered < self._size:
            if chance.random() < WRITE_SHARE:
                self._write(connection, chance, added)
            else:
                self._ask(connection, "GET", chance.choice(PATHS))
        connection.close()

    def _write(self, connection: http.client.HTTPConnection, chance: random.Random, added: list[str]) -> None:
        """Add a memory, or delete the oldest one if there are enough."""
        if len(added) > KEPT:
            self._ask(connection, "DELETE", f"/api/memories/{added.pop(0)}")
            return
        body = json.dumps({"content": " ".join(chance.choices(WORDS, k=9)), "type": "pattern"})
        answer = json.loads(self._ask(connection, "POST", "/api/projects/-/memories", body))
        if answer["what"] == "added":
            added.append(answer["memory"]["id"])

    def _ask(self, connection: http.client.HTTPConnection, method: str, path: str, body: str | None = None) -> bytes:
        headers = {"Authorization": f"Bearer {self._server.token}", "Content-Type": "application/json"}
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        text = answer.read()
        with self._lock:
            self.answered += 1
            self.written += method != "GET"
            if answer.status >= 400:
                self.faults.append(f"{method} {path}: {answer.status} {text[:200]!r}")
            if self.answered % max(1, self._size // SAMPLES) == 0:
                self.samples.append((float(self.answered), self._held()))
        return text

    def _held(self) -> float:
        """Return the bytes of memory that belong to the server alone; pages of files can be given back."""
        rollup = Path(f"/proc/{self._server.process.pid}/smaps_rollup").read_text()
        found = re.search(r"^Anonymous:\s+(\d+) kB", rollup, re.MULTILINE)
        assert found
        return float(found[1]) * 1024


def run(folder: Path, size: int, seed: int) -> Shown:
    """Answer so many requests; count those that failed, and growth in the second half."""
    root = folder / "project"
    root.mkdir()
    set_up_project(root)
    with Project.open(root) as project:
        fill(project, 0, MEMORIES)
        project.files.sync()
        if embeddings.is_installed():
            embed_missing(project.store)
    began = time.monotonic()
    with ServedApart(root, XDG_STATE_HOME=str(folder / "state")) as server:
        crowd = Crowd(server, size, seed)
        crowd.run()
    half = [sample for sample in crowd.samples if sample[0] > size / 2]
    grows = slope(half)
    has_grown = size >= MIN_SIZE and grows.value - grows.error > MAX_GROWTH
    for fault in crowd.faults[:20]:
        print(f"{'':12} {fault}")
    course = [f"{held / 1e6:.0f}" for _, held in crowd.samples[:: max(1, len(crowd.samples) // 12)]]
    return Shown(
        load=f"{crowd.answered:,} requests to one server, {crowd.written:,} of them writes, {MEMORIES} memories",
        tried=crowd.answered,
        lost=len(crowd.faults) + has_grown,
        says=f"{' '.join(course)} MB; second half {grows.value:+.0f} ± {grows.error:.0f} bytes a request; "
        f"{crowd.answered / (time.monotonic() - began):.0f} requests a second",
    )


TRIALS = (
    Trial(
        name="growth",
        test="memory of a server",
        allowed="0 failed, no growth over 1 MB in 10,000 requests",
        size=30_000,
        run=run,
    ),
)
