"""What is remembered after whole runs: `ralph run` plays stories with a scripted agent, and the memory is graded."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

STORIES = Path(__file__).with_name("stories")
AGENT = Path(__file__).with_name("scripted_agent.py")
IDLE_SECONDS = 2
"""Time without output after which a session is ended, in seconds."""
POLL_SECONDS = 0.05
INTERRUPTED = 130
MAX_RUNS = 5
"""Number of times a story is started: once, and again after each interrupt."""

_SETTINGS = """
[execution]
gates = {gates}
[agent]
name = "{agent}"
command = {command}
idle_seconds = {idle}
outage_seconds = 0.1
[hats]
order = {hats}
"""
_GATE = """\
#!/usr/bin/env python3
import json, pathlib, sys
for rule in json.loads(pathlib.Path("ci/rules.json").read_text()):
    path = pathlib.Path(rule["file"])
    text = path.read_text() if path.exists() else None
    is_broken = text is not None and (rule.get("needs", "") not in text or rule.get("lacks", "\\0") in text)
    if is_broken and rule.get("gate", "") in sys.argv[0]:
        sys.exit(print(rule["prints"]) or 1)
"""


class Remembered(NamedTuple):
    """What a project remembers after a run."""

    name: str
    total: int
    good: int
    noise: tuple[str, ...]
    """Texts of the memories that nothing in the story makes worth keeping."""
    duplicates: tuple[str, ...]
    """Texts of the memories whose fact another memory states, or that another memory contains word for word."""
    expected: int
    missed: tuple[str, ...]
    """Facts worth keeping that no memory states."""
    staged: tuple[str, ...]
    """Texts that wait for a person or for more evidence."""

    @property
    def found(self) -> int:
        """Number of facts worth keeping that a memory states."""
        return self.expected - len(self.missed)


def stories() -> list[Path]:
    """Return the stories."""
    return sorted(STORIES.glob("*.toml"))


def measure(paths: list[Path] | None = None) -> Iterator[Remembered]:
    """Play the stories and yield what is remembered after each."""
    for path in paths or stories():
        with tempfile.TemporaryDirectory() as directory:
            yield grade(tomllib.loads(path.read_text(encoding="utf-8")), Played(path, Path(directory)))


class Played:
    """A story, played in a repository of its own."""

    def __init__(self, path: Path, directory: Path) -> None:
        self._story = tomllib.loads(path.read_text(encoding="utf-8"))
        self.root, self._state = directory / "project", directory / "state"
        self.root.mkdir()
        self._state.mkdir()
        foreign = ("RALPH_", "GIT_", "CLAUDE")
        own = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        self._environment = own | {"XDG_STATE_HOME": str(directory / "home"), "PYTHONDONTWRITEBYTECODE": "1"}
        self._write_repository(path)
        self._run()

    def _write_repository(self, path: Path) -> None:
        story = self._story
        files = {name: text.lstrip("\n") for name, text in story["files"].items()}
        files["ci/rules.json"] = json.dumps(story.get("rule", []), indent=1)
        gates = {gate.split()[0].removeprefix("./") for gate in story["gates"]}
        for name, text in (files | dict.fromkeys(gates, _GATE)).items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text, encoding="utf-8")
        for name in gates:
            (self.root / name).chmod(0o755)
        self.ralph("init")
        settings = self.root / ".ralph.toml"
        kept = ("[store]", "url =", "project =")
        lines = [line for line in settings.read_text().splitlines() if line.startswith(kept)]
        command = [sys.executable, str(AGENT), str(path), str(self._state)]
        own = _SETTINGS.format(
            gates=json.dumps(story["gates"]),
            agent=story["agent"],
            command=json.dumps(command),
            idle=IDLE_SECONDS,
            hats=json.dumps(story["hats"]),
        )
        settings.write_text("\n".join([*lines, own]), encoding="utf-8")
        self._git("init", "-q", "-b", "main")
        self._git("add", "-A")
        self._git("commit", "-qm", "Start")
        ids = [self._add_task(one) for one in story["task"]]
        (self._state / "tasks.json").write_text(json.dumps({id: number for number, id in enumerate(ids)}))

    def _add_task(self, task: dict[str, Any]) -> str:
        allowed = [word for pattern in task.get("allow", ()) for word in ("--allow", pattern)]
        return self.ralph("task", "add", task["title"], "--body", task["body"], *allowed, "--format", "quiet").strip()

    def _run(self) -> None:
        """Run the loop to its end; a person interrupts it where the story says so, and resumes it."""
        words = ["run", "--trust"]
        for _ in range(MAX_RUNS):
            with subprocess.Popen(
                [sys.executable, "-m", "ralph", *words],
                cwd=self.root,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            ) as process:
                status = self._wait(process)
                assert process.stdout
                self.printed = process.stdout.read()
            if status != INTERRUPTED:
                break
            words = ["run", "--resume"]
        problems = self._state / "problems"
        if status or problems.exists():
            found = problems.read_text() if problems.exists() else ""
            raise RuntimeError(f"{self._story['name']} did not go as written ({status}): {found}{self.printed[-4000:]}")

    def _wait(self, process: subprocess.Popen[str]) -> int:
        interrupt = self._state / "interrupt"
        while process.poll() is None:
            if interrupt.exists():
                interrupt.unlink()
                process.send_signal(signal.SIGINT)
            time.sleep(POLL_SECONDS)
        return process.returncode

    def ralph(self, *words: str) -> str:
        """Run a command in the project and return what it prints."""
        ran = subprocess.run(
            [sys.executable, "-m", "ralph", *words],
            cwd=self.root,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if ran.returncode:
            raise RuntimeError(f"ralph {' '.join(words)}: {ran.stdout}{ran.stderr}")
        return ran.stdout

    def _git(self, *words: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        subprocess.run(["git", *who, *words], cwd=self.root, env=self._environment, check=True, capture_output=True)


def grade(story: dict[str, Any], played: Played) -> Remembered:
    """Return how what is remembered compares with what is worth keeping."""
    memories = json.loads(played.ralph("memory", "list", "--format", "json"))
    texts = [_text(one) for one in memories]
    facts = [_fact(text, story) for text in texts]
    seen: set[str] = set()
    duplicates = []
    contents = [_plain(one["content"]) for one in memories]
    for text, fact, content in zip(texts, facts, contents, strict=True):
        if (fact and fact in seen) or sum(content in other for other in contents) > 1:
            duplicates.append(text)
        seen.add(fact)
    staged = [_text(one) for one in json.loads(played.ralph("learn", "list", "--format", "json"))]
    return Remembered(
        name=story["name"],
        total=len(texts),
        good=len(seen - {""}),
        noise=tuple(text for text, fact in zip(texts, facts, strict=True) if not fact),
        duplicates=tuple(duplicates),
        expected=len(story["keep"]),
        missed=tuple(one["said"][0] for one in story["keep"] if not any(_states(text, one) for text in texts)),
        staged=tuple(staged),
    )


def _text(memory: dict[str, Any]) -> str:
    return f"{memory['type']}: {memory['content']}"


def _fact(text: str, story: dict[str, Any]) -> str:
    """Return what a memory states among what is worth keeping; empty for noise.

    What Ralph concludes quotes what was said, so it is looked at first.
    """
    for one in story["conclude"]:
        if text.startswith(f"{one['type']}: ") and all(_plain(part) in _plain(text) for part in one["has"]):
            return " … ".join(one["has"])
    for one in story["keep"]:
        if _states(text, one):
            first: str = one["said"][0]
            return first
    return ""


def _states(text: str, fact: dict[str, Any]) -> bool:
    return any(_plain(said) in _plain(text) for said in fact["said"])


def _plain(text: str) -> str:
    return " ".join("".join(char if char.isalnum() else " " for char in text.lower()).split())
