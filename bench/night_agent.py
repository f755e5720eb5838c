"""Claude Code as a run sees it, with a model that `bench/night.py` scripts: it asks that what happens, and says so.

What limits, outages, logins and refusals look like in the stream is as Claude Code 2.1.325 prints it.
"""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any, NoReturn

COST_USD = 0.05
"""What a session costs that reaches its model."""


def say(*events: dict[str, Any]) -> None:
    """Print events of the stream."""
    for event in events:
        print(json.dumps(event), flush=True)


def result(text: str, *, is_error: bool = False, cost: float = 0.0, **more: Any) -> dict[str, Any]:
    """Return the last event of a session."""
    event = {"type": "result", "subtype": "success", "is_error": is_error, "result": text, "total_cost_usd": cost}
    return {**event, "terminal_reason": "api_error" if is_error else "completed", **more}


def message(text: str, **more: Any) -> dict[str, Any]:
    """Return an event in which the model says something."""
    return {"type": "assistant", "message": {"id": "m", "content": [{"type": "text", "text": text}], **more}}


def fail(text: str, error: str, **more: Any) -> NoReturn:
    """Say that the service failed, and exit as Claude Code does."""
    say({**message(text, model="<synthetic>"), "error": error}, result(text, is_error=True, **more))
    sys.exit(1)


def main() -> None:
    """Work on one task, as far as the model lets us."""
    if "--version" in sys.argv:
        print("2.1.325 (Claude Code)")
        return
    sys.stdin.read()
    task = os.environ["RALPH_TASK_ID"]
    request = urllib.request.Request(os.environ["NIGHT_MODEL"], data=task.encode(), method="POST")
    with urllib.request.urlopen(request) as response:
        answer = json.load(response)
    kind = answer["kind"]
    say({"type": "system", "subtype": "init", "model": "claude-night", "session_id": "s"})
    if kind == "limit":
        info = {"status": "rejected", "resetsAt": answer["resets_at"], "rateLimitType": "five_hour"}
        say({"type": "rate_limit_event", "rate_limit_info": {**info, "isUsingOverage": False}})
        fail("You've hit your 5-hour limit", "rate_limit", api_error_status=429, api_error="usage_limit_reached")
    if kind == "outage":
        fail("API Error: Repeated 529 Overloaded errors", "server_error", api_error_status=529)
    if kind == "login":
        fail("Not logged in · Please run /login", "authentication_failed")
    if kind == "refusal":
        say(message("I cannot help with that.", stop_reason="refusal"))
        say(result("I cannot help with that.", cost=COST_USD, stop_reason="refusal"))
        return
    if kind == "hang":
        time.sleep(3_600)
    part = Path("parts") / f"{task}.txt"
    part.parent.mkdir(exist_ok=True)
    part.write_text("half")
    time.sleep(answer["seconds"])
    part.write_text(f"{'bad' if kind == 'bad' else 'ok'} {task}\n")
    text = f"Wrote the part.\n<journal>Wrote {part}.</journal>\n<task-done>{task}</task-done>"
    say(message(text), result(text, cost=COST_USD))


if __name__ == "__main__":
    main()
