"""Runs are started, paused and stopped over HTTP, with configured agents and gates only, on this machine only."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ralph.core.records import Run, TaskStatus
from ralph.loop.options import RunEnding
from ralph.project import Project
from ralph.trust import accept_review, review_trust, revoke_trust
from ralph.web.tokens import derive_secret
from tests.waiting import end_runs, wait_until
from tests.web.asking import JSON, Served, ServedApart, refused

WAITS = """
cat > /dev/null
echo x >> started
while [ ! -e go ]; do sleep 0.05; done
echo "<task-done>$RALPH_TASK_ID</task-done>"
"""
SETTINGS = """
[agent]
command = ["sh", "agent.sh"]
[execution]
gates = ["true", "test ! -e broken"]
commit = "never"
"""


def configure(root: Path, settings: str = SETTINGS, *, is_trusted: bool = True) -> None:
    kept = [line for line in (root / ".ralph.toml").read_text().splitlines() if line.startswith(("url =", "project ="))]
    (root / ".ralph.toml").write_text("\n".join(["[store]", *kept, settings]))
    (root / "agent.sh").write_text(WAITS)
    if is_trusted:
        accept_review(review_trust(root))


@pytest.fixture
def ready(served: Served) -> Iterator[Served]:
    """Return a server on a trusted project with an agent, gates and two tasks."""
    configure(served.root)
    for title in ("One", "Two"):
        served.project.tasks.add(title)
    yield served
    (served.root / "go").touch()
    end_runs(served.project)


def started(served: Served, **body: Any) -> Run:
    status, told = served.post("/api/runs", body)
    assert status == 201, told
    return served.project.store.runs.get(told["id"])


def runs(served: Served) -> list[Run]:
    return served.project.store.runs.latest(9)


# --- what is possible -------------------------------------------------------------------


def test_a_run_is_started_paused_resumed_and_stopped(ready: Served) -> None:
    run = started(ready, gates=["true"], iterations=5, wait=True)
    wait_until((ready.root / "started").exists)

    assert ready.get("/api/runs/choices")[1]["code"] == "run-active"
    refused(ready.post("/api/runs"), 409, "run-active")
    assert ready.post(f"/api/runs/{run.id}/pause")[1]["request"] == "pause"
    (ready.root / "go").touch()
    wait_until(lambda: [one.status for one in ready.project.tasks.list()].count(TaskStatus.DONE) == 1)
    assert ready.post(f"/api/runs/{run.id}/resume")[1]["request"] == ""
    wait_until(lambda: all(one.status is TaskStatus.DONE for one in ready.project.tasks.list()))
    assert ready.post(f"/api/runs/{run.id}/stop")[0] == 200
    wait_until(lambda: runs(ready)[0].ended_at)

    (ended,) = runs(ready)
    assert (ended.id, ended.ending) == (run.id, RunEnding.STOPPED)
    options = json.loads(ended.options)
    assert {name: options[name] for name in ("gates", "iterations", "stays")} == {
        "gates": ["true"],
        "iterations": 5,
        "stays": True,
    }
    assert "agent" not in options
    assert ready.post(f"/api/runs/{run.id}/stop")[1]["code"] == "no-active-run"


def test_two_servers_start_one_run(ready: Served) -> None:
    script = "import sys; from ralph.project import Project; Project.open(sys.argv[1]).runs.launch(RunOptions())"
    words = [sys.executable, "-c", f"from ralph.loop.options import RunOptions; {script}", str(ready.root)]

    servers = [subprocess.Popen(words, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    answers = [server.communicate()[1] for server in servers]

    assert sorted(server.returncode for server in servers) == [0, 1, 1]
    assert sum("A run is active" in answer for answer in answers) == 2
    assert len(runs(ready)) == 1


def test_a_run_outlives_the_server_that_started_it(project: Project) -> None:
    root = Path(project.directory)
    configure(root)
    project.tasks.add("One")
    with ServedApart(root) as server:
        status, told = server.post("/api/runs", {})
        assert status == 201, told
        wait_until((root / "started").exists)
        server.end()

    (root / "go").touch()
    wait_until(lambda: project.store.runs.get(told["id"]).ended_at)
    assert project.store.runs.get(told["id"]).ending == RunEnding.COMPLETE


def test_one_task_is_worked_on_without_gates(ready: Served) -> None:
    (ready.root / "go").touch()
    (ready.root / "broken").touch()
    task = ready.project.tasks.list()[1]

    run = started(ready, task=task.id, gates=[])
    wait_until(lambda: runs(ready)[0].ended_at)

    assert ready.project.tasks.get(task.id).task.status is TaskStatus.DONE
    assert runs(ready)[0].ending == RunEnding.TASK_DONE
    assert runs(ready)[0].id == run.id


def test_what_can_be_chosen_is_what_the_settings_offer(ready: Served) -> None:
    configure(ready.root, '[agent]\nname = "claude"\nfallback = ["codex"]\n[models]\nstrategy = "escalate"\n')

    status, told = ready.get("/api/runs/choices")

    assert (status, told["problem"], told["agents"]) == (200, "", ["claude", "codex"])
    assert told["models"] == ["haiku", "sonnet", "opus"]
    assert (told["gates"], told["ready_count"], len(told["tasks"])) == ([], 2, 2)


def test_an_agent_that_cannot_be_started_is_reported(ready: Served) -> None:
    configure(ready.root, '[agent]\ncommand = ["no-such-program-anywhere"]\n')

    refused(ready.post("/api/runs"), 409, "run-not-started", "no-such-program-anywhere")
    assert runs(ready) == []


# --- what is refused --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"agent": "codex"}, "unknown-agent"),
        ({"agent": "sh"}, "unknown-agent"),
        ({"agent": "command --gate=true"}, "unknown-agent"),
        ({"model": "opus"}, "unknown-model"),
        ({"model": "--no-verify"}, "unknown-model"),
        ({"strategy": "escalate"}, "unknown-choice"),
        ({"gates": ["touch injected"]}, "unknown-gate"),
        ({"gates": ["true", "true; touch injected"]}, "unknown-gate"),
        ({"gates": [""]}, "unknown-gate"),
        ({"gates": [], "review": True}, "conflicting-options"),
        ({"task": "--wait"}, "task-not-found"),
        ({"task": "t-none"}, "task-not-found"),
        ({"parallel": 65}, "invalid-value"),
        ({"parallel": "2 -- sh -c 'touch injected'"}, "invalid-value"),
        ({"iterations": -1}, "invalid-value"),
        ({"minutes": "5 --no-verify"}, "invalid-value"),
        ({"program": ["sh", "-c", "touch injected"]}, "invalid-value"),
        ({"command": "touch injected"}, "invalid-value"),
        ({"resume": ""}, "invalid-value"),
    ],
)
def test_only_what_the_settings_offer_is_started(ready: Served, body: dict[str, Any], code: str) -> None:
    response = ready.post("/api/runs", body)

    assert response[1].get("code") == code, response
    assert runs(ready) == []
    assert not (ready.root / "injected").exists()


@pytest.mark.parametrize("how", ["revoked", "changed", "removed-gates"])
def test_nothing_is_started_in_a_directory_that_is_not_trusted(ready: Served, how: str) -> None:
    # RALPH_TRUST is set in all tests: it does not count here.
    if how == "revoked":
        revoke_trust(ready.root)
    elif how == "changed":
        configure(ready.root, SETTINGS.replace("agent.sh", "other.sh"), is_trusted=False)
    else:
        configure(ready.root, '[agent]\ncommand = ["sh", "agent.sh"]\n', is_trusted=False)

    refused(ready.post("/api/runs"), 403, "not-trusted")
    assert ready.get("/api/runs/choices")[1]["code"] == "not-trusted"
    assert runs(ready) == []


def test_nothing_is_started_without_a_configured_agent(ready: Served) -> None:
    configure(ready.root, "")

    refused(ready.post("/api/runs"), 409, "no-agent-configured")


@pytest.mark.parametrize("path", ["/api/runs", "/api/runs/{id}/pause", "/api/runs/{id}/resume", "/api/runs/{id}/stop"])
@pytest.mark.parametrize(
    "header", ["Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-IP"]
)
def test_nothing_is_steered_through_a_proxy(served_once: Served, path: str, header: str) -> None:
    refused(served_once.post(path, {}, {header: "203.0.113.7"}), 403, "not-local")


def test_nothing_is_steered_on_a_server_for_other_machines(project: Project) -> None:
    configure(Path(project.directory))
    served = Served(Path(project.directory), project, hosts=["ralph.example.org"])
    try:
        for path in ("/api/runs", "/api/runs/r-1/pause", "/api/runs/r-1/resume", "/api/runs/r-1/stop"):
            refused(served.post(path, {}), 403, "not-local")
            refused(served.post(path, {}, {"Host": "ralph.example.org"}), 403, "not-local")
        assert "start-run" not in served.get("/")[1]
        assert served.post("/api/tasks", {"title": "Other changes are possible"})[0] == 201
    finally:
        served.close()


def test_a_run_is_not_started_without_the_token_or_from_another_page(ready: Served) -> None:
    cookie = {"Authorization": None, "Cookie": f"ralph-{ready.port}={derive_secret(ready.token, 'cookie')}"}

    assert ready.post("/api/runs", {}, {"Authorization": None})[0] == 401
    assert ready.post("/api/runs", {}, cookie)[0] == 403
    assert ready.post("/api/runs", {}, {**cookie, "Origin": "http://evil.example"})[0] == 403
    assert ready.post("/api/runs", {}, {"Host": "evil.example"})[0] == 403
    assert ready.ask("POST", "/api/runs", "{}", {"Content-Type": "text/plain"}).status == 415
    assert ready.get("/api/runs?agent=command")[0] == 422
    assert runs(ready) == []


def test_a_read_only_server_changes_nothing(project: Project) -> None:
    root = Path(project.directory)
    configure(root)
    task = project.tasks.add("One")
    served = Served(root, project, is_read_only=True)
    try:
        for method, path, body in (
            ("POST", "/api/runs", {}),
            ("POST", f"/api/tasks/{task.id}/done", {}),
            ("PUT", f"/api/tasks/{task.id}", {"title": "Other"}),
            ("DELETE", f"/api/tasks/{task.id}", None),
            ("POST", "/api/projects/-/memories", {"content": "Tabs, always."}),
            ("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
        ):
            said = served.ask(method, path, None if body is None else json.dumps(body), {"Content-Type": JSON})
            assert (said.status, said.json["code"]) == (403, "read-only"), path
        (root / ".agent").mkdir(exist_ok=True)
        (root / ".agent/memories.md").write_text("## Fixes\n\n### Start docker first\n> Start docker first.\n")
        status, page = served.get("/")
        warnings = served.get("/api/status")[1]["warnings"]
    finally:
        served.close()

    assert status == 200
    assert len(warnings) == 1  # the file is not synced
    assert "start-run" not in page
    assert project.tasks.get(task.id).task == task
    assert project.store.memories.all() == []
    assert project.store.runs.latest(1) == []
