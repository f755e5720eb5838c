"""Ask a real server thousands of things that nobody thought of: `make test-api`, and CASES=10000 for long.

Schemathesis makes cases up from the description of the API, one by one and in chains (make, see, change, delete, see),
over HTTP on a project full of history. The same seed asks the same things, but for what depends on ids.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ralph.web.api import ENDPOINTS
from ralph.web.events import EVENTS_PATH
from tests.browser.sample import make
from tests.web.asking import ServedApart
from tests.web.known import VARIABLE, ids_in

CASES = 2_500
SEED = 20_260
CHECKS = "not_a_server_error,response_schema_conformance,content_type_conformance,status_code_conformance"
PHASES = "coverage,fuzzing,stateful"
CHAINS = 60
"""So many chains at least; what is asked in them counts as well."""
EDGES = 36
"""So many cases schemathesis makes for a call in any event: the edges of what it takes."""


def main() -> int:
    """Fuzz, say how much was asked, and give the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=CASES, help=f"ask at least so much (default: {CASES})")
    parser.add_argument("--seed", type=int, default=SEED)
    given = parser.parse_args()
    began, asked, seed = time.monotonic(), 0, given.seed
    while asked < given.cases:
        count, code, printed = fuzz(seed, given.cases - asked)
        asked += count
        if code or not count:
            print(printed)
            print(f"Asked {asked:,} things; seed {seed} found something.")
            return code or 1
        seed += 1
    print(
        f"Asked {asked:,} things of {len(ENDPOINTS)} calls in {time.monotonic() - began:.0f} s; all was answered well."
    )
    return 0


def fuzz(seed: int, cases: int) -> tuple[int, int, str]:
    """Ask one server about so much; return how much it was, the exit code, and what was found."""
    with tempfile.TemporaryDirectory(prefix="ralph-fuzz-") as folder:
        os.environ["XDG_STATE_HOME"] = f"{folder}/state"
        with make(Path(folder) / "project") as project:
            known = ids_in(project)
        Path(folder, "ids.json").write_text(json.dumps(known))
        Path(folder, "settings.toml").write_text(
            f"[phases.stateful.generation]\nmax-examples = {max(CHAINS, cases // 50)}\n"
        )
        with ServedApart(Path(folder) / "project") as server:
            ran = _schemathesis(server, folder, seed, max(4, cases // len(ENDPOINTS) - EDGES))
            is_alive = server.process.poll() is None and server.ask("GET", "/api/openapi.json").status == 200
            _, printed = server.end()
    code = ran.returncode or (0 if is_alive and "Traceback" not in printed else 1)
    return _count(ran.stdout), code, f"{ran.stdout}\n{ran.stderr}\n{printed}"


def _count(printed: str) -> int:
    found = re.search(r"([\d,]+) generated", printed)
    return int(found[1].replace(",", "")) if found else 0


def _schemathesis(server: ServedApart, folder: str, seed: int, examples: int) -> subprocess.CompletedProcess[str]:
    # One worker: with several, Python 3.11 trips over its own parser now and then (SystemError, AST constructor).
    left_out = ["--exclude-path", EVENTS_PATH]
    return subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "--config-file", "settings.toml"),
            *("run", f"{server.url}/api/openapi.json", *left_out, "--checks", CHECKS, "--phases", PHASES),
            *("--header", f"Authorization: Bearer {server.token}", "--seed", str(seed), "--workers", "1"),
            *("--max-examples", str(examples)),
            *("--generation-database", "none", "--continue-on-failure", "--no-color", "--request-timeout", "20"),
        ],
        capture_output=True,
        text=True,
        cwd=folder,
        env={
            **os.environ,
            VARIABLE: f"{folder}/ids.json",
            "SCHEMATHESIS_HOOKS": "tests.web.fuzz_hooks",
            "PYTHONPATH": str(Path.cwd()),
        },
    )


if __name__ == "__main__":
    sys.exit(main())
