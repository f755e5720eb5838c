"""A project that text from outside comes into by every way there is, and all that can be seen of it from outside."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from ralph.cli import main
from ralph.core.actor import AGENT
from ralph.integrations.mcp.protocol import handle_message
from ralph.integrations.project_handle import ProjectHandle
from ralph.project import Project
from ralph.store.memory_queries import MemoryFilter
from ralph.web.api import ENDPOINTS
from ralph.web.pages import PAGES
from tests.make import set_up_project
from tests.memory.test_episodes import git, write_session
from tests.web.asking import Served
from tests.web.known import filled, ids_in

FORMATS = ("bundle", "json", "learnings", "staging", "csv", "markdown", "knowledge")
PLACE = "PLACEHOLDER"
"""Stands in the files of all formats where the text belongs."""
OWN_FILES = (
    ".agent/memories.md",
    "agent.sh",
    "gate.sh",
    "answer.",
    "gate.txt",
    "imported",
    ".ralph.toml",
    ".ralph/knowledge",
)
"""What a person wrote, or an agent in this test: it stays as it is."""


class Abused:
    """A project of its own, with a home of its own."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "project"
        self.root.mkdir(parents=True)
        self.state = folder / "state"
        self._state_before = os.environ.get("XDG_STATE_HOME")
        os.environ["XDG_STATE_HOME"] = str(self.state)
        set_up_project(self.root)
        self.project = Project.open(self.root)
        self.printed: list[str] = []
        """All that commands printed."""

    def __enter__(self) -> Abused:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.project.close()
        if self._state_before is not None:
            os.environ["XDG_STATE_HOME"] = self._state_before

    # --- by command ------------------------------------------------------------------------

    def ralph(self, *words: str) -> str:
        """Run a command in this process, and give what it printed."""
        raw = io.BytesIO()
        out = io.TextIOWrapper(raw, "utf-8", "replace", write_through=True)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out), contextlib.suppress(SystemExit):
            main(["-C", str(self.root), *words])
        said = raw.getvalue().decode("utf-8", "replace")
        self.printed.append(said)
        return said

    def apart(self, *words: str, given: str = "", **environment: str) -> str:
        """Run a command in a process of its own, and give what it printed."""
        left_out = ("RALPH_", "CLAUDE")
        usual = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
        ran = subprocess.run(
            [sys.executable, "-m", "ralph", *words],
            cwd=self.root,
            env={**usual, "RALPH_TRUST": "1", **environment},
            input=given.encode("utf-8", "surrogatepass"),
            capture_output=True,
            timeout=120,
        )
        said = (ran.stdout + ran.stderr).decode("utf-8", "replace")
        self.printed.append(said)
        return said

    def run(self, answers: list[str], *, gate: str = "", iterations: int = 0, beside: str = "") -> str:
        """Run the loop with an agent that gives these answers in turn, and writes something beside them."""
        for number, text in enumerate(answers, 1):
            (self.root / f"answer.{number}").write_text(text, "utf-8", "surrogatepass")
        (self.root / "answer.beside").write_text(beside, "utf-8", "surrogatepass")
        (self.root / "agent.sh").write_text(
            "cat > /dev/null\nn=$(cat answer.n 2>/dev/null || echo 0); n=$((n+1)); echo $n > answer.n\n"
            'cat answer.beside >&2\nsed "s/TASK/$RALPH_TASK_ID/g" answer.$n\n'
        )
        (self.root / "answer.n").write_text("0")
        words = ["run", "--max-iterations", str(iterations or len(answers))]
        words += ["--gate", gate] if gate else ["--no-verify"]
        return self.apart(*words, "--", "sh", "agent.sh")

    def hook(self, event: str, **fields: Any) -> str:
        """Call a hook as an agent does."""
        return self.apart("hook", event, given=json.dumps({"session_id": "s-1", "cwd": str(self.root), **fields}))

    def mcp(self, name: str, **arguments: Any) -> str:
        """Call a tool as an agent does, and give what it is answered."""
        opened = ProjectHandle(str(self.root), AGENT)
        try:
            params = {"name": name, "arguments": arguments}
            said = handle_message({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, opened)
        finally:
            opened.close()
        self.printed.append(json.dumps(said, ensure_ascii=False))
        assert isinstance(said, dict)
        return str(said.get("result", said))

    # --- what can be seen ------------------------------------------------------------------

    def kept(self) -> Iterator[tuple[str, str]]:
        """Yield the bytes of all files that are ours, by name: the database, its log, backups, notes, the state."""
        for path in sorted([*self.root.rglob("*"), *self.state.rglob("*")]):
            name = str(path.relative_to(self.root)) if path.is_relative_to(self.root) else f"state/{path.name}"
            if path.is_file() and not path.is_symlink() and not name.startswith(OWN_FILES):
                yield name, path.read_bytes().decode("utf-8", "replace")

    def shown(self) -> Iterator[tuple[str, str]]:
        """Yield all that commands and agents are told, by what was asked."""
        tasks = [task.id for task in self.project.tasks.list()]
        memories = [memory.id for memory in self.project.memory.list(MemoryFilter())][:20]
        for form in FORMATS:
            for state in ("active", "all"):
                if form == "knowledge":
                    self.ralph(
                        "memory", "export", "--format", form, "--to", str(self.root / ".ralph" / "out"), "--force"
                    )
                else:
                    yield f"export {form}", self.ralph("memory", "export", "--format", form, "--state", state)
        yield "tasks as lines", self.ralph("task", "list", "--format", "jsonl")
        for words in (
            *(("journal", "list"), ("journal", "search", "the"), ("failures", "list"), ("memory", "list"), ("status",)),
            *(
                ("memory", "prime"),
                ("memory", "search", "password key token"),
                ("learn", "list"),
                ("stats",),
                ("doctor",),
            ),
            ("task", "tree"),
        ):
            yield " ".join(words), self.ralph(*words)
        for id in tasks:
            yield f"prompt {id}", self.ralph("prompt", id, "--raw")
            yield f"task {id}", self.ralph("task", "show", id) + self.ralph("task", "log", id)
        for id in memories:
            yield f"memory {id}", self.ralph("memory", "show", id) + self.ralph("memory", "history", id)
        yield "prime tool", self.mcp("prime")
        yield "search tool", self.mcp("search_memories", query="password key token")
        yield "history tool", self.mcp("search_history", query="note this for later")
        yield "past work", self.ralph("memory", "search", "--episodes", "--all", "--format", "json")
        yield "start hook", self.hook("session-start", source="startup")
        yield "printed", "\n".join(self.printed)
        self.ralph("backup")

    def served(self) -> Iterator[tuple[str, str]]:
        """Yield what a browser and a program are told, by address."""
        known = ids_in(self.project)
        one = Served(self.root, self.project)
        try:
            for path in [*(call.path for call in ENDPOINTS if call.method == "GET"), *(page.path for page in PAGES)]:
                if address := filled(path, known):
                    yield address, one.ask("GET", address).text
            with one.stream("/api/events?since=0", timeout=1.0) as stream:
                lines = []
                with contextlib.suppress(OSError):
                    while line := stream.readline():
                        lines.append(line.decode())
                yield "events", "".join(lines)
        finally:
            one.close()

    # --- the ways in -----------------------------------------------------------------------

    def bring(self, form: str, text: str) -> None:
        """Import a file of a format in which the text stands, as a person does."""
        name = {"csv": "csv", "markdown": "md", "knowledge": "md", "bundle": "jsonl"}.get(form, "json")
        path = self.root / "imported" / f"{form}.{name}"
        path.parent.mkdir(exist_ok=True)
        path.write_text(in_format(form, text), "utf-8", "surrogatepass")
        self.ralph("memory", "import", str(path), "--force")


def in_format(form: str, text: str) -> str:
    """Give a file of a format from elsewhere in which the text is what a memory says."""
    if form == "json":
        entry = {"id": "mem-1700000000-ab12", "content": text, "type": "pattern", "tags": ["a"]}
        return json.dumps({"version": 1, "project": "p", "memories": [entry]})
    if form == "csv":
        return 'type,content,tags\npattern,"' + text.replace('"', '""') + '",a\n'
    if form == "markdown":
        body = "\n".join(f"> {line}" for line in text.split("\n"))
        return f"# Memories\n\n## Patterns\n\n### mem-1700000000-ab12\n{body}\n<!-- tags: a | created: 2026-01-01 -->\n"
    if form == "knowledge":
        return f"---\ntitle: Known\ntags: [a]\ncreated: 2026-01-01\n---\n\n{text}\n"
    if form == "guardrails":
        return f"# Guardrails\n\n### Sign: Read\n- **Trigger**: Before a change\n- **Instruction**: {text}\n"
    if form == "progress":
        return f"# Progress Log\n\n## Codebase Patterns\n- {text}\n\n---\n"
    if form == "notes":
        return f"# Notes\n\n## How it is built\n\n{text}\n"
    raise ValueError(form)


BROUGHT = ("json", "csv", "markdown", "knowledge", "guardrails", "progress", "notes")
"""Formats that another program or person may have written."""
Way = Callable[[Abused, str], None]
_count = [0]


def _number() -> int:
    _count[0] += 1
    return _count[0]


def _edited_file(abused: Abused, text: str) -> None:
    """Write an entry into the file as a person does."""
    path = abused.root / ".agent" / "memories.md"
    path.parent.mkdir(exist_ok=True)
    before = path.read_text("utf-8") if path.exists() else "# Memories\n"
    body = "\n".join(f"> {line}" for line in text.split("\n"))
    entry = f"\n## Patterns\n\n### mem-17{_number():08d}-ab12\n{body}\n<!-- tags: a | created: 2026-01-01 -->\n"
    path.write_text(before + entry, "utf-8", "surrogatepass")
    abused.ralph("memory", "list")


def _knowledge_file(abused: Abused, text: str) -> None:
    path = abused.root / ".ralph" / "knowledge" / f"known-{_number()}.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"---\ntitle: Known {_number()}\ntags: [a]\n---\n\n{text}\n", "utf-8", "surrogatepass")
    abused.ralph("memory", "list")


def _over_http(abused: Abused, text: str) -> None:
    one = Served(abused.root, abused.project)
    try:
        one.post("/api/projects/-/memories", {"content": text, "title": text, "tags": [text]})
        one.post("/api/tasks", {"title": f"Over HTTP {text}", "body": text})
        abused.printed.append(str(one.ask("POST", "/api/tasks", json.dumps({"title": "", "x": text})).text))
        abused.printed.append(str(one.ask("POST", "/api/tasks", text.encode()).text))
    finally:
        one.close()


def _commit(abused: Abused, text: str) -> None:
    """Import a commit whose message, author and file have the text."""
    if not (abused.root / ".git").exists():
        git(str(abused.root), "init", "-q", "-b", "main")
    message = "".join(letter for letter in f"Change {_number()}\n\n{text}" if letter != "\0")
    name = " ".join("".join(letter for letter in text if letter.isprintable() and letter not in "<>").split())
    given = message.encode("utf-8", "replace")
    options = ["-c", f"user.name={name[:200] or 'A'}", "-c", "user.email=a@example.com", "-c", "gc.auto=0"]
    command = ["git", "-C", str(abused.root), *options, "commit", "-q", "--allow-empty", "-F", "-", "--no-verify"]
    subprocess.run(command, input=given, check=False, capture_output=True)
    abused.ralph("import", "git")
    shutil.rmtree(abused.root / ".git")  # the repository itself is not ours


def _said_in_session(abused: Abused, text: str) -> None:
    """Keep what a person and an agent said in a session, and what failed in it."""
    session = f"past-{_number()}"
    talk = (("user", f"Please note this for later: {text}"), ("assistant", f"What I found was this: {text}"))
    path = write_session(abused.state.parent / "home", str(abused.root), session, *talk)
    abused.hook("stop", session_id=session, transcript_path=str(path))


def _feedback(abused: Abused, text: str) -> None:
    task = abused.project.tasks.add(f"Blocked {_number()}")
    abused.project.tasks.log(task.id, text)
    abused.project.tasks.block(task.id, text)


WAYS: dict[str, Way] = {
    "memory add": lambda abused, text: void(abused.project.memory.add(text)),
    "memory title": lambda abused, text: void(abused.project.memory.add(f"Body {_number()}", title=text, tags=["a"])),
    "memory add by command": lambda abused, text: void(abused.ralph("memory", "add", text)),
    "task title": lambda abused, text: void(abused.project.tasks.add(text)),
    "task body": lambda abused, text: void(abused.project.tasks.add(f"Task {_number()}", text)),
    "feature": lambda abused, text: void(abused.project.features.add(f"Feature {_number()}", text, text)),
    "feedback": _feedback,
    "memories.md": _edited_file,
    "knowledge file": _knowledge_file,
    "HTTP": _over_http,
    "MCP remember": lambda abused, text: void(abused.mcp("remember", content=text)),
    "MCP report_failure": lambda abused, text: void(abused.mcp("report_failure", tried=text, why=text)),
    "MCP add_task": lambda abused, text: void(abused.mcp("add_task", title=f"Asked {_number()}", body=text)),
    "MCP unknown argument": lambda abused, text: void(abused.mcp("remember", **{"content": "x", "other": text})),
    "hook prompt": lambda abused, text: void(abused.hook("user-prompt-submit", prompt=text)),
    "hook answer": lambda abused, text: void(
        abused.hook(
            "stop", last_assistant_message=f"<knowledge tags='a' title='K{_number()}'>{text}</knowledge>\n{text}"
        )
    ),
    "commit": _commit,
    "session": _said_in_session,
    "hook junk": lambda abused, text: void(abused.apart("hook", "stop", given=text)),
    **{
        f"import {form}": lambda abused, text, form=form: abused.bring(form, text)  # type: ignore[misc]
        for form in BROUGHT
    },
}
"""By name: how one text comes in. What comes through an agent at work is `answers`."""


def void(_: object) -> None:
    """Take anything, give nothing."""


def answers(texts: list[str]) -> tuple[list[str], str, str]:
    """Give the answers of two attempts with texts in all their sigils, what a gate prints, and what goes to stderr."""
    one = iter(texts)
    first = (
        f"I looked around.\n{next(one)}\n<journal>Notes: {next(one)}</journal>\n<failure-report>\n"
        f"what_tried: {next(one)}\nwhy_failed: {next(one)}\nerror_category: test_failure\nrelevant_files: a.py\n"
        f"stack_trace: {next(one)}\n</failure-report>\n<retry-suggestion>{next(one)}</retry-suggestion>\n"
        "<task-failed>TASK</task-failed>\n"
    )
    second = (
        f'<knowledge tags="a,b" title="Known thing">{next(one)}</knowledge>\n'
        f'<learning category="pitfall" tags="a">{next(one)}</learning>\nMEMORY:pattern:{next(one)}\n'
        f"<journal>{next(one)}</journal>\n<task-done>TASK</task-done>\n"
    )
    return [first, second], next(one), next(one)


ANSWERED = 12
"""So many texts `answers` takes."""
