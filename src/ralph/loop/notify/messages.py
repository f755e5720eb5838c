"""What a person is told about the events of a run. Pure."""

from __future__ import annotations

from ralph.core.text import format_usd
from ralph.loop.notify.sending import Notification
from ralph.loop.options import RunEnding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ralph.loop.progress import ProgressEvent

_LOGIN_ENDINGS = (RunEnding.NO_LOGIN, RunEnding.NO_CREDIT, RunEnding.UNKNOWN_MODEL)


class RunMessages:
    """Turns the events of one run into notifications."""

    def __init__(self, project: str) -> None:
        """`project` names the project in titles."""
        self._project = project
        self._run_id = ""
        self._titles: dict[str, str] = {}
        """Titles of tasks by id."""

    def notification_of(self, event: ProgressEvent) -> Notification | None:
        """Return what to tell about an event, or None."""
        details: dict[str, Any] = event.details
        match event.what:
            case "run_started":
                self._run_id = str(details["run_id"])
            case "attempt_started":
                self._titles[details["task_id"]] = details["title"]
            case "attempt_ended" if details["task_status"] == "blocked":
                return self._blocked(details)
            case "waiting_for_limit":
                until = f"{str(details['until'])[:16].replace('T', ' ')} UTC"
                return self._tell(
                    "limit", f"waiting for the usage limit of {details['agent']}", f"It goes on at {until}."
                )
            case "budget_nearly_used":
                return self._tell("budget", "a limit is nearly used up", f"Used: {', '.join(details['used'])}.")
            case "warning" if details.get("needs_login"):
                return self._tell("login", "an agent needs you", str(details["message"]))
            case "run_ended":
                return self._ended(details)
        return None

    def _tell(self, event: str, title: str, body: str, *more: str) -> Notification:
        return Notification(events=(event, *more), title=f"{self._project}: {title}", body=body, run_id=self._run_id)

    def _blocked(self, details: dict[str, Any]) -> Notification:
        id, question = details["task_id"], details.get("question")
        title = self._titles.get(id, "")
        why = question or details["task_reason"] or details["reason"]
        command = f'ralph task answer {id} "…"' if question else f"ralph task show {id}"
        what = "a task asks you" if question else "a task needs you"
        return self._tell(
            "blocked", what, f"{id} {title}\n{why}\n\nTo {'answer' if question else 'see why'}: {command}"
        )

    def _ended(self, details: dict[str, Any]) -> Notification:
        """Return the notification of the end of a run; its text stands for a report that cannot be read."""
        cost = f", {format_usd(details['cost_usd'])}" if details["cost_usd"] else ""
        body = f"{details['run_id']}: {details['done']} done in {details['iterations']} attempts{cost}."
        login = ["login"] if details["ending"] in _LOGIN_ENDINGS else []
        return self._tell("ended", f"{details['done']} done, {details['ending']}", body, *login)
