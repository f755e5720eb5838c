"""A program in the place of Claude Code: it answers as its playbook says, in the same format.

The playbook is `playbook.json` beside this file: for a text that a prompt has, what to write to which file and what to
answer, one after the other for each attempt.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def main() -> None:
    """Answer one prompt."""
    if "--version" in sys.argv:
        print("2.1.325 (Claude Code)")
        return
    prompt = sys.stdin.read()
    task = os.environ.get("RALPH_TASK_ID", "")
    attempt = int(os.environ.get("RALPH_ATTEMPT", "1"))
    playbook = json.loads((HERE / "playbook.json").read_text(encoding="utf-8"))
    ideas: list[dict[str, Any]] = next(
        (ideas for about, ideas in playbook.items() if re.search(about, prompt)), [{"answer": "Done."}]
    )
    idea = ideas[min(attempt, len(ideas)) - 1]
    for name, content in idea.get("files", {}).items():
        Path(name).write_text(content, encoding="utf-8")
    answer = idea["answer"] if idea.get("whole") else f"{idea['answer']}\n<task-done>{task}</task-done>"
    usage = {"input_tokens": 1200, "output_tokens": 300, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    content = {"id": "msg_1", "model": "claude-sonnet", "content": [{"type": "text", "text": answer}], "usage": usage}
    session = {"session_id": "907fb029-ec7e-4fd5-a11a-24bf48b1d8d0"}
    for event in (
        {"type": "system", "subtype": "init", "tools": ["Bash"], "permissionMode": "default"},
        {"type": "assistant", "message": content, "parent_tool_use_id": None},
        {
            "type": "result",
            "subtype": "success",
            "is_error": False,
            "terminal_reason": "completed",
            "stop_reason": "end_turn",
            "num_turns": 2,
            "total_cost_usd": 0.03,
            "usage": usage,
            "result": answer,
        },
    ):
        print(json.dumps(event | session), flush=True)


if __name__ == "__main__":
    main()
