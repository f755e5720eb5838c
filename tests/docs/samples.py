"""What pages begin with: a small project, a session, and files of other tools."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from ralph.core.records import MemoryState, replace
from ralph.formats.learnings_json import write_learnings_json
from ralph.formats.memories_json import write_memories_json
from ralph.formats.staging_json import write_staging_json
from tests.formats.claude_mem_db import ClaudeMem
from tests.formats.progress_db import open_progress_db
from tests.make import a_memory

PRICING = '''def total(lines):
    """Return the total of an order in cents: pairs of unit price and quantity."""
    return sum(price * quantity for price, quantity in lines)
'''
TEST = """import unittest

import pricing


class Prices(unittest.TestCase):
    def test_prices(self):
        self.{test}
"""
MAKEFILE = "test:\n\t@python3 -m unittest -q\n"
AT = "2026-05-01T00:00:00.000Z"


def a_shop(directory: Path, test: str = "assertEqual(pricing.discounted(150, 15), 128)") -> None:
    """Make a git repository with a little code, and a test, by default for what it lacks."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in (("pricing.py", PRICING), ("test_pricing.py", TEST.format(test=test)), ("Makefile", MAKEFILE)):
        (directory / name).write_text(content, encoding="utf-8")
    who = "-c user.name=A -c user.email=a@example.com"
    git = f"git init --quiet && git add . && git {who} commit --quiet --date 2024-06-01T12:00 -m 'Add orders'"
    subprocess.run(git, shell=True, cwd=directory, check=True)


def turns(directory: Path) -> list[dict[str, object]]:
    """Return a session as Claude Code writes it down."""
    common = {"sessionId": "0193f2aa", "cwd": str(directory), "isSidechain": False}
    asked = {"role": "user", "content": "Which rate limit window do we use?"}
    answered = {
        "role": "assistant",
        "content": [{"type": "text", "text": "An hour, as Acme Corp asked: the rate limit window."}],
    }
    return [
        {"type": "user", "uuid": "u1", "parentUuid": None, "timestamp": AT, "message": asked, **common},
        {"type": "assistant", "uuid": "u2", "parentUuid": "u1", "timestamp": AT, "message": answered, **common},
    ]


def put_foreign_files(directory: Path, home: Path) -> None:
    """Put data of other tools where they keep it."""
    memory = ClaudeMem(home / ".claude-mem" / "claude-mem.db")
    memory.session("s1", directory.name)
    memory.observe("s1", directory.name, title="Token lifetime", narrative="Tokens live for 15 minutes, no longer.")
    memory.observe("s1", "elsewhere", title="Of another project", narrative="Not for us.")
    memory.close()
    issues = [
        {"id": "bd-a1", "title": "Reset the batches", "status": "open", "priority": 1, "issue_type": "epic"},
        {
            "id": "bd-a1.1",
            "title": "Add the fields",
            "status": "open",
            "priority": 2,
            "issue_type": "task",
            "dependencies": [{"issue_id": "bd-a1.1", "depends_on_id": "bd-a1", "type": "parent-child"}],
        },
        {"_type": "memory", "key": "auth-jwt", "value": "Tokens are checked in middleware.py."},
    ]
    learning = replace(
        a_memory("Run one test at a time", kind="strategy", task_type="test-fix"),
        id="learning-1",
        structured_content=json.dumps({"description": "Run one test at a time"}),
    )
    other = replace(
        learning, id="learning-2", structured_content=json.dumps({"description": "Read the log before the code"})
    )
    state = {
        "loopId": "loop-1",
        "objective": "Fix tests",
        "iterations": [{"number": n, "status": "completed", "learnings": ["Run one test at a time"]} for n in (1, 2)],
    }
    migration = replace(
        a_memory("Back up before migrations", "They cannot be undone.", kind="constraint"), id="mem-1770000000-c0de"
    )
    for name, content in {
        ".beads/issues.jsonl": "".join(json.dumps(one) + "\n" for one in issues),
        ".ralph/agent/tasks.jsonl": json.dumps(
            {"id": "task-1", "title": "Write the manual", "status": "open", "priority": 1, "blocked_by": []}
        )
        + "\n",
        ".aiwg/knowledge/ralph-learnings.json": write_learnings_json([learning], AT),
        ".aiwg/knowledge/staging.json": write_staging_json([replace(other, state=MemoryState.STAGED)], AT),
        ".aiwg/ralph-external/state.json": json.dumps(state),
        ".ralph/features/parser/spec.md": "# Parser\n\nTabs are eight columns.\n",
        "memories.json": write_memories_json([migration], "shop", AT),
        "CLAUDE.md": "# Guide\n\n## Style\n\nUse the workspace name in imports, never relative paths.\n",
        "progress.txt": "# Progress Log\n\n## Codebase Patterns\n- Handlers in internal/api go through Manager.\n",
        "guardrails.md": "# Guardrails\n\n### Sign: Imports\n- **Trigger**: An import\n- **Instruction**: Check it.\n",
        "TODO.md": "- [ ] Draw the icons\n- [x] Choose a name\n",
    }.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    open_progress_db(directory / ".ralph" / "progress.db").close()
