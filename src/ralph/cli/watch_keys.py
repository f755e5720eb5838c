"""What the keys of `ralph watch` do: they call the services that `ralph pause`, `stop` and `task answer` call."""

from __future__ import annotations

from ralph.cli.interactive import ask
from ralph.cli.output import pluralize, printable
from ralph.cli.steer import describe_request
from ralph.core.errors import RalphError
from ralph.loop.attention import AttentionKind, find_waiting_tasks
from ralph.loop.steering import GO_ON, PAUSE, STOP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ralph.cli.keys import Keys
    from ralph.cli.progress import ProgressView
    from ralph.loop.progress import ProgressEvent
    from ralph.loop.run_watch import RunWatcher
    from ralph.project import Project

HELP = "p pause  s stop  a answer  l log  m memories  q quit"
MAX_CHOICES = 9
"""Maximum number of runs or tasks to choose from by a digit."""
LOG_LINES = 20
"""Number of latest lines of an agent's output shown when the log is turned on."""
_ANSWERABLE = (AttentionKind.QUESTION, AttentionKind.BLOCKED, AttentionKind.FAILED)


class WatchKeys:
    """Handles keys, and remembers what they show of each attempt: its output and its memories."""

    def __init__(self, project: Project, watcher: RunWatcher, view: ProgressView, keys: Keys) -> None:
        self._project = project
        self._watcher = watcher
        self._view = view
        self._keys = keys
        self._attempts: dict[tuple[str, int], _ShownAttempt] = {}
        self._is_log_shown = False

    def follow(self, event: ProgressEvent, run_id: str) -> None:
        """Remember what an event says about the attempt it belongs to; show its output if the log is on."""
        details: dict[str, Any] = event.details
        key = (run_id, int(details.get("worker", 0)))
        if event.what == "attempt_started":
            self._attempts[key] = _ShownAttempt(f"{details['task_id']} attempt {details['attempt']}")
        elif event.what == "run_ended":
            self._attempts = {key: one for key, one in self._attempts.items() if key[0] != run_id}
        elif attempt := self._attempts.get(key):
            if event.what == "recalled":
                attempt.memories = [(str(one["id"]), str(one["title"])) for one in details["memories"]]
            elif event.what == "output":
                lines = attempt.add_output(str(details["text"]))
                if self._is_log_shown:
                    self._view.print_lines(_output_lines(lines), run_id)

    def press(self, key: str) -> bool:
        """Do what a key stands for; return whether to go on watching."""
        action = {
            "p": self._pause_or_resume,
            "s": self._stop,
            "a": self._answer,
            "l": self._toggle_log,
            "m": self._show_memories,
        }.get(key.lower())
        if action:
            try:
                action()
            except RalphError as error:
                self._say(str(error), "red")
            self._project.store.database.release_connection()
        return key.lower() != "q"

    def _say(self, line: str, style: str = "cyan") -> None:
        self._view.print_lines([(style, printable(line))])

    # --- steering ----------------------------------------------------------------------

    def _pause_or_resume(self) -> None:
        if run_id := self._choose_run("pause or resume"):
            is_paused = self._project.store.runs.get(run_id).request == PAUSE
            self._steer(GO_ON if is_paused else PAUSE, run_id)

    def _stop(self) -> None:
        if run_id := self._choose_run("stop"):
            self._say(f"Stop {run_id}? Its session ends now; nothing is lost. Press y to stop it.", "yellow")
            if self._keys.read(None).lower() == "y":
                self._steer(STOP, run_id)
            else:
                self._say(f"{run_id} goes on.")

    def _steer(self, request: str, run_id: str) -> None:
        self._project.runs.steer(request, run_id)
        self._say(describe_request(request, run_id))

    def _choose_run(self, action: str) -> str:
        return self._choose(f"No run to {action}.", action, [(id, id) for id in self._watcher.followed])

    def _choose(self, none: str, action: str, choices: Sequence[tuple[str, str]]) -> str:
        """Return the only choice, or the one a person picks by its digit; empty if there is none."""
        if len(choices) < 2:
            if not choices:
                self._say(none)
            return choices[0][0] if choices else ""
        shown = choices[:MAX_CHOICES]
        self._view.print_lines(("cyan", f"{number} {text}") for number, (_, text) in enumerate(shown, 1))
        self._say(f"Press the number of the one to {action}, or another key for none.")
        pressed = self._keys.read(None)
        is_chosen = pressed.isdecimal() and 1 <= int(pressed) <= len(shown)
        return shown[int(pressed) - 1][0] if is_chosen else ""

    # --- answering ---------------------------------------------------------------------

    def _answer(self) -> None:
        waiting = {
            one.id: one for one in find_waiting_tasks(self._project.store, MAX_CHOICES) if one.kind in _ANSWERABLE
        }
        choices = [(id, f"{id} {printable(one.title)}: {printable(one.text)}") for id, one in waiting.items()]
        if not (id := self._choose("No task waits for an answer.", "answer", choices)):
            return
        self._say(f"{id} {waiting[id].title}", "bold")
        self._say(waiting[id].text or "It needs a person, without a reason.", "yellow")
        self._view.hide()
        with self._keys.suspended():
            try:
                text = ask("Answer (Enter alone: none): ")
            except KeyboardInterrupt:
                print()
                text = ""
        if text:
            self._project.questions.answer(id, text)
            self._say(f"Answered: {id}. It is ready, and its next session is shown the answer.")
        else:
            self._say("Nothing was answered.")

    # --- looking -----------------------------------------------------------------------

    def _toggle_log(self) -> None:
        self._is_log_shown = not self._is_log_shown
        if not self._is_log_shown:
            self._say("Log off.")
            return
        self._say("Log on: what the agents write. Press l to turn it off.")
        for (run_id, _), attempt in self._attempts.items():
            self._view.print_lines(_output_lines(attempt.output[-LOG_LINES:]), run_id)

    def _show_memories(self) -> None:
        if not self._attempts:
            self._say("No attempt is running.")
        for (run_id, _), attempt in self._attempts.items():
            count = pluralize(len(attempt.memories), "memory")
            lines = [("cyan", f"{attempt.name} is shown {count}{':' if attempt.memories else '.'}")]
            lines += [("", f"   {id} {printable(title)}") for id, title in attempt.memories]
            self._view.print_lines(lines, run_id)


class _ShownAttempt:
    """What is known of an attempt from its events."""

    def __init__(self, name: str) -> None:
        self.name = printable(name)
        self.memories: list[tuple[str, str]] = []
        self.output: list[str] = []
        """Latest whole lines of the agent's output."""
        self._rest = ""

    def add_output(self, text: str) -> list[str]:
        """Add output of the agent; return the lines that it completes."""
        *lines, self._rest = (self._rest + text).split("\n")
        self.output = [*self.output, *lines][-LOG_LINES:]
        return lines


def _output_lines(lines: Sequence[str]) -> list[tuple[str, str]]:
    return [("dim", f"   > {printable(line)}") for line in lines if line.strip()]
