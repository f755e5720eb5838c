"""The agent of a story, run as a program: `python scripted_agent.py STORY STATE`.

It plays the next session of the task that it is started for: changes files, talks, and ends as the story says. In a
story of Claude Code it prints that program's events. `STATE` is a directory outside of the project, with the tasks by
id and how far each is.
"""

from __future__ import annotations

import json
import os
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

FOREVER_SECONDS = 600
CRASH_STATUS = 1


def main() -> int:
    """Play a session and return the exit status."""
    story_path, state_path, *options = sys.argv[1:]
    if "--version" in options:
        print("2.1.325 (Claude Code)")
        return 0
    story = tomllib.loads(Path(story_path).read_text(encoding="utf-8"))
    sys.stdin.read()
    state = Path(state_path)
    session = next_session(story, state)
    for name, content in session.get("writes", {}).items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content.lstrip("\n"), encoding="utf-8")
    says = session["says"].strip().replace("TASK", os.environ["RALPH_TASK_ID"])
    return (print_events if story["agent"] == "claude" else print_text)(says, session.get("ends", ""), state)


def next_session(story: dict[str, Any], state: Path) -> dict[str, Any]:
    """Return the next session of the task, and count it."""
    number = json.loads((state / "tasks.json").read_text())[os.environ["RALPH_TASK_ID"]]
    played = state / f"played.{number}"
    index = len(played.read_text()) if played.exists() else 0
    sessions = story["task"][number]["session"]
    hat = os.environ.get("RALPH_HAT", "")
    if index >= len(sessions) or sessions[index].get("hat", hat) != hat:
        title = story["task"][number]["title"]
        with (state / "problems").open("a") as problems:
            problems.write(f"{title}: session {index + 1}, of the {hat}, is not in the story\n")
        return {"says": "This session is not in the story."}
    with played.open("a") as file:
        file.write(".")
    session: dict[str, Any] = sessions[index]
    return session


def print_text(says: str, ends: str, state: Path) -> int:
    """Print what a plain program would print, and end as the story says."""
    print(says, flush=True)
    if ends == "crash":
        print(says.splitlines()[-1], file=sys.stderr)
        return CRASH_STATUS
    wait_if_asked(ends, state)
    return 0


def print_events(says: str, ends: str, state: Path) -> int:
    """Print what Claude Code would print, and end as the story says."""
    emit(type="system", subtype="init")
    model, stop_reason = ("<synthetic>", "stop_sequence") if ends == "outage" else ("claude-1", None)
    message = {
        "id": "msg_1",
        "model": model,
        "content": [{"type": "text", "text": says}],
        "stop_reason": "refusal" if ends == "refused" else stop_reason,
        "usage": {"input_tokens": 1000, "output_tokens": 100},
    }
    emit(type="assistant", message=message, parent_tool_use_id=None, is_api_error_message=ends == "outage")
    wait_if_asked(ends, state)
    emit(
        type="result",
        subtype="error_max_turns" if ends == "limit" else "success",
        is_error=bool(ends),
        terminal_reason={"outage": "api_error", "limit": "max_turns"}.get(ends, "completed"),
        stop_reason="refusal" if ends == "refused" else "end_turn",
        result=says,
        num_turns=2,
        total_cost_usd=0.01,
        usage={"input_tokens": 1000, "output_tokens": 100},
    )
    return 0


def emit(**event: object) -> None:
    """Print an event."""
    print(json.dumps({"session_id": "story", **event}), flush=True)


def wait_if_asked(ends: str, state: Path) -> None:
    """Wait until the session is ended from outside: because it says nothing any more, or by a person."""
    if ends == "interrupted":
        (state / "interrupt").touch()
    if ends in ("silent", "interrupted"):
        time.sleep(FOREVER_SECONDS)


if __name__ == "__main__":
    raise SystemExit(main())
