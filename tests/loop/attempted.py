"""What an agent in a session tries that is for people, by every door: run as a program, it prints what came of it.

python attempted.py PROJECT OTHER_TASK MEMORY SERVER_URL TOKEN OUTPUT
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ralph
from ralph.cli import main
from ralph.core.actor import AGENT
from ralph.core.errors import RalphError
from ralph.formats.sync.three_way import FileChoice
from ralph.integrations.mcp.protocol import handle_message
from ralph.integrations.project_handle import ProjectHandle
from ralph.project import Project


def by_command(task: str, memory: str, root: str) -> dict[str, tuple[str, ...]]:
    """Return the commands, by operation."""
    return {
        "task.done": ("task", "done", task),
        "task.fail": ("task", "fail", task),
        "task.update": ("task", "update", task, "--title", "Easy"),
        "task.needs": ("task", "deps", task, "--remove", "t-none"),
        "task.block": ("task", "block", task),
        "task.reset": ("task", "reset", task),
        "task.delete": ("task", "delete", task),
        "task.approve": ("task", "approve", task, "--yes"),
        "task.answer": ("task", "answer", task, "Yes."),
        "task.allow": ("task", "add", "Easy", "--allow", "tests/**"),
        "feature.update": ("feature", "update", "billing", "--name", "Easy"),
        "feature.delete": ("feature", "delete", "billing"),
        "memory.change-a-persons": ("memory", "edit", memory, "--content", "Run curl | sh."),
        "memory.delete": ("memory", "delete", memory),
        "memory.undo": ("memory", "undo", memory),
        "memory.cleanup": ("memory", "cleanup", "--min-confidence", "1", "--yes"),
        "memory.clear": ("memory", "clear", "--yes"),
        "memory.consolidate": ("memory", "consolidate", "--yes"),
        "memory.share": ("memory", "share", memory),
        "memory.unshare": ("memory", "unshare", memory),
        "memory.pin": ("memory", "pin", memory),
        "memory.unpin": ("memory", "unpin", memory),
        "memory.keep": ("memory", "conflicts", "--keep", memory),
        "memory.init": ("memory", "init", "--force"),
        "memory.merge": ("memory", "merge", f"{root}/folder"),
        "episodes.import": ("import", "sessions", "--yes"),
        "episodes.import of commits": ("import", "git"),
        "episodes.forget": ("forget", "--before", "2100-01-01", "--yes"),
        "learn.import": ("learn", "extract", "--state", f"{root}/folder/state.json"),
        "learn.promote": ("learn", "promote", "--validate"),
        "learn.compile": ("learn", "compile", "--yes"),
        "learn.reflect": ("learn", "reflect"),
        "feature.plan": ("plan", "--from", "Add a page", "--yes"),
        "learn.apply": ("learn", "proposals", "--apply"),
        "learn.clear": ("learn", "clear", "--yes"),
        "run.start": ("run", "--no-verify", "--", "true"),
        "run.start again": ("run", "--resume"),
        "run.steer": ("stop",),
        "notify.test": ("notify", "test"),
        "project.use-other": ("memory", "list", "--project", "another"),
        "project.rename": ("project", "rename", "x", "y"),
        "project.remove": ("project", "remove", "x", "--yes"),
        "backup.create": ("backup", "--keep", "1"),
        "backup.restore": ("restore", "--yes"),
        "store.copy": ("store", "copy", root, f"{root}/folder/copy.db"),
        "init.store": ("init", "--store", f"{root}/folder/elsewhere.db"),
        "trust": ("trust", "--revoke"),
        "setup": ("setup", "claude", "--yes"),
        "serve": ("serve", "--print-token"),
        "serve over MCP": ("mcp", "--http", "--port", "0"),
    }


def by_python(project: Project, task: str, memory: str) -> dict[str, Callable[[], object]]:
    """Return the calls of the Python API, by operation."""
    return {
        "task.done": lambda: project.tasks.done(task),
        "task.done outside": lambda: project.outside_work.finish(task),
        "task.claim": lambda: project.outside_work.claim(task),
        "task.answer": lambda: project.questions.answer(task, "Yes."),
        "task.report-failure": lambda: project.tasks.report_failure(task, "One way.", "It broke."),
        "learn.accept": lambda: project.learnings.accept(memory),
        "learn.reject": lambda: project.learnings.reject(memory),
        "learn.edit": lambda: project.learnings.edit(memory, content="x"),
        "memory.delete": lambda: project.memory.delete(memory),
        "memory.files": lambda: project.files.resolve_held(FileChoice.ACCEPT),
        "run.start": lambda: project.runs.start(),
        "project.remove": lambda: project.projects.remove("x"),
    }


def by_http(task: str, memory: str) -> dict[str, tuple[str, str]]:
    """Return the requests, by operation."""
    return {
        "task.done": ("POST", f"/api/tasks/{task}/done"),
        "task.delete": ("DELETE", f"/api/tasks/{task}"),
        "memory.share": ("POST", f"/api/memories/{memory}/share"),
        "memory.delete": ("DELETE", f"/api/memories/{memory}"),
        "learn.promote": ("POST", "/api/staging/promote"),
        "learn.apply": ("POST", "/api/staging/proposals/apply"),
    }


def outcome(call: Callable[[], object]) -> str:
    """Return the code of the error that a call ends with, or "done"."""
    try:
        call()
    except RalphError as error:
        return error.code
    return "done"


def run_command(directory: str, words: tuple[str, ...]) -> str:
    """Run a command; return the code of its error, or "done"."""
    codes: list[str] = []
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        status = main(["-C", directory, *words], report=lambda error: codes.append(error.code))
    return codes[0] if codes else f"done ({status})"


def ask(server: str, token: str, method: str, path: str, body: object = None) -> Any:
    """Send a request; return the JSON of the answer."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(server + path, json.dumps(body or {}).encode(), headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        return json.load(error)


def use_tool(handle: ProjectHandle, name: str, **arguments: str) -> str:
    """Use a tool of MCP; return "refused" or "done"."""
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": name, "arguments": arguments},
    }
    answer: Any = handle_message(message, handle)
    return "refused" if answer["result"]["isError"] else "done"


def main_attempt(root: str, task: str, memory: str, server: str, token: str) -> dict[str, dict[str, str]]:
    """Try everything; return what came of it by door and operation."""
    found = {"command": {name: run_command(root, words) for name, words in by_command(task, memory, root).items()}}
    with Project.open(root) as project, ralph.open(root, actor=ralph.Actor()) as opened:
        found["python"] = {name: outcome(call) for name, call in by_python(project, task, memory).items()}
        found["ralph.open"] = {name: outcome(call) for name, call in by_python(opened, task, memory).items()}
    handle = ProjectHandle(root, AGENT)
    found["mcp"] = {
        "task.done": use_tool(handle, "finish_task", id=task),
        "task.claim": use_tool(handle, "claim_task", id=task),
        "task.answer": use_tool(handle, "answer_task", id=task, answer="Yes."),
    }
    handle.close()
    found["http"] = {
        name: ask(server, token, method, path).get("code", "done")
        for name, (method, path) in by_http(task, memory).items()
    }
    return found


if __name__ == "__main__":
    *arguments, output = sys.argv[1:]
    result = json.dumps(main_attempt(*arguments))
    Path(f"{output}.new").write_text(result)
    Path(f"{output}.new").rename(output)
