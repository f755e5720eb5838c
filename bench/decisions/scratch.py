"""A fresh project with a past: a real repository, and transcripts of Claude Code in a home of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from bench.decisions.data import Change, Chat

CLAUDE_VERSION = "2.1.325"
BETWEEN_TURNS = timedelta(seconds=40)
AUTHOR = "Developer <developer@example.com>"
OTHER_HOMES = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "OPENCODE_DB", "RALPH_STORE")
"""Variables that would lead out of the home of the project, with those that begin with XDG_."""


class CommandFailed(Exception):
    """A command of Ralph failed; the message says which, and what it said."""


class Scratch:
    """A directory that serves as home, with one project in it."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="ralph-bench-")
        self.home = Path(self._folder.name).resolve()
        self.root = self.home / "project"
        self.root.mkdir()
        self._git("init", "--quiet", "--initial-branch=main")

    def write_commits(self, changes: Iterable[Change]) -> None:
        """Commit what was changed, at the time it was."""
        ordered = sorted(changes, key=lambda change: change.at)
        if ordered:
            self._git("fast-import", "--quiet", stdin=b"".join(map(_fast_import, ordered)))
            self._git("checkout", "--quiet", "--force", "main")

    def write_sessions(self, chats: Iterable[Chat]) -> None:
        """Write each chat as a transcript, where Claude Code keeps those of the project."""
        folder = self.home / ".claude" / "projects" / re.sub(r"[^A-Za-z0-9]", "-", str(self.root))
        folder.mkdir(parents=True)
        for chat in chats:
            session = str(uuid.uuid5(uuid.NAMESPACE_URL, chat.id))
            lines = (json.dumps(line) + "\n" for line in _transcript(chat, session, str(self.root)))
            (folder / f"{session}.jsonl").write_text("".join(lines), encoding="utf-8")

    def ralph(self, *words: str, accepted: tuple[int, ...] = (0,)) -> str:
        """Run a command as a person would, and return what it prints."""
        done = subprocess.run(
            [sys.executable, "-m", "ralph", *words],
            cwd=self.root,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode not in accepted:
            said = (done.stderr or done.stdout).strip().splitlines()
            raise CommandFailed(f"ralph {' '.join(words)} failed: {said[-1] if said else done.returncode}")
        return done.stdout

    def environment(self) -> dict[str, str]:
        """Return variables with which nothing outside this home is read."""
        kept = {k: v for k, v in os.environ.items() if k not in OTHER_HOMES and not k.startswith(("XDG_", "GIT_"))}
        return {**kept, "HOME": str(self.home), "RALPH_TRUST": "1"}

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Let this process see the variables of this home."""
        before = dict(os.environ)
        _set_environment(self.environment())
        try:
            yield
        finally:
            _set_environment(before)

    def close(self) -> None:
        """Remove everything."""
        self._folder.cleanup()

    def _git(self, *words: str, stdin: bytes = b"") -> None:
        subprocess.run(["git", *words], cwd=self.root, env=self.environment(), input=stdin, check=True)


def _set_environment(variables: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(variables)


def _fast_import(change: Change) -> bytes:
    message = f"{change.subject}\n\n{change.body}".strip().encode()
    at = int(datetime.fromisoformat(change.at).timestamp())
    head = f"commit refs/heads/main\nauthor {AUTHOR} {at} +0000\ncommitter {AUTHOR} {at} +0000\n"
    files = "".join(
        f"M 100644 inline {_quoted(file)}\ndata {len(change.id)}\n{change.id}\n" for file in dict.fromkeys(change.files)
    )
    return b"%sdata %d\n%s\n%s\n" % (head.encode(), len(message), message, files.encode())


def _quoted(path: str) -> str:
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _transcript(chat: Chat, session: str, directory: str) -> Iterator[dict[str, Any]]:
    at = datetime.fromisoformat(chat.at)
    parent = None
    for place, turn in enumerate(chat.turns):
        id = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{chat.id}/{place}"))
        written = (at + place * BETWEEN_TURNS).isoformat(timespec="milliseconds")
        yield {
            "parentUuid": parent,
            "isSidechain": False,
            "userType": "external",
            "cwd": directory,
            "sessionId": session,
            "version": CLAUDE_VERSION,
            "gitBranch": "main",
            "type": turn.role,
            "message": _message(turn.role, turn.text, id),
            **({"promptSource": "typed"} if turn.role == "user" else {}),
            "uuid": id,
            "timestamp": written.replace("+00:00", "Z"),
        }
        parent = id


def _message(role: str, text: str, id: str) -> dict[str, Any]:
    if role == "user":
        return {"role": role, "content": text}
    return {
        "id": f"msg_{id.replace('-', '')}",
        "type": "message",
        "role": role,
        "model": "claude-opus-4",
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
    }
