"""What the keys of `ralph watch` do: they call the services that `ralph pause`, `stop` and `task answer` call."""

from __future__ import annotations

import time

from ralph.cli.interactive import ask
from ralph.cli.output import pluralize, printable
from ralph.cli.steer import describe_request
from ralph.core.errors import RalphError
from ralph.loop.attention import AttentionKind, find_waiting_tasks
from ralph.loop.steering import GO_ON, PAUSE, STOP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from ralph.cli.keys import Keys
    from ralph.cli.progress import ProgressView
    from ralph.loop.attention import AttentionItem
    from ralph.loop.progress import ProgressEvent
    from ralph.loop.run_watch import RunWatcher
    from ralph.project import Project

QUESTION_SECONDS = 10.0
"""Seconds after which a question without an answer is dropped."""
MAX_CHOICES = 9
"""Maximum number of runs or tasks to choose from by a digit."""
LOG_LINES = 20
"""Number of latest lines of an agent's output shown when the log is turned on."""
_ANSWERABLE = (AttentionKind.QUESTION, AttentionKind.BLOCKED, AttentionKind.FAILED)
_STEERED = ("run_started", "attempt_started", "paused", "note")
"""Events after which a run may be paused, or no longer."""


def keys_help(*, is_paused: bool = False) -> str:
    """Return what the keys do."""
    return f"p {'continue' if is_paused else 'pause'}  s stop  a answer  l log  m memories  q quit"


class WatchKeys:
    """Handles keys, and remembers what they show of each attempt: its output and its memories."""

    def __init__(self, project: Project, watcher: RunWatcher, view: ProgressView, keys: Keys) -> None:
        self._project = project
        self._watcher = watcher
        self._view = view
        self._keys = keys
        self._attempts: dict[tuple[str, int], _ShownAttempt] = {}
        self._is_log_shown = False
        self._paused: set[str] = set()
        """Runs that a person asked to pause."""
        self._question: _Question | None = None
        """What the next key answers; events are shown meanwhile."""

    @property
    def help(self) -> str:
        """What the keys do now."""
        return self._question.text if self._question else keys_help(is_paused=bool(self._paused))

    def follow(self, event: ProgressEvent, run_id: str) -> None:
        """Remember what an event says about the attempt it belongs to; show its output if the log is on."""
        details: dict[str, Any] = event.details
        key = (run_id, int(details.get("worker", 0)))
        if event.what in _STEERED:
            self._read_request(run_id)
        if event.what == "attempt_started":
            self._attempts[key] = _ShownAttempt(f"{details['task_id']} attempt {details['attempt']}")
        elif event.what == "run_ended":
            self._attempts = {key: one for key, one in self._attempts.items() if key[0] != run_id}
            self._paused.discard(run_id)
        elif attempt := self._attempts.get(key):
            if event.what == "recalled":
                attempt.memories = [(str(one["id"]), str(one["title"])) for one in details["memories"]]
            elif event.what == "output":
                lines = attempt.add_output(str(details["text"]))
                if self._is_log_shown:
                    self._view.print_lines(_output_lines(lines), run_id)

    def press(self, key: str) -> bool:
        """Do what a key stands for, or answer the open question with it; return whether to go on watching."""
        if question := self._take_question():
            self._do(lambda: question.answer(key))
            return True
        action = {
            "p": self._pause_or_resume,
            "s": self._stop,
            "a": self._answer,
            "l": self._toggle_log,
            "m": self._show_memories,
        }.get(key.lower())
        if action:
            self._do(action)
        return key.lower() != "q"

    def drop_old_question(self) -> None:
        """Take a question back that has waited for long: a key pressed later is not meant for it."""
        if self._question and time.monotonic() > self._question.deadline:
            self._take_question()
            self._say("No answer; nothing was changed.")

    def _take_question(self) -> _Question | None:
        question, self._question = self._question, None
        return question

    def _do(self, action: Callable[[], None]) -> None:
        try:
            action()
        except RalphError as error:
            self._say(str(error), "red")
        self._project.store.database.release_connection()

    def _ask(self, text: str, answer: Callable[[str], None]) -> None:
        """Ask for a key; `answer` is called with it, unless none is pressed for long."""
        self._question = _Question(text, answer)
        self._say(text, "yellow")

    def _say(self, line: str, style: str = "cyan") -> None:
        self._view.print_lines([(style, printable(line))])

    # --- steering ----------------------------------------------------------------------

    def _read_request(self, run_id: str) -> None:
        """Note whether a run is asked to pause, here or elsewhere."""
        try:
            is_paused = self._project.store.runs.get(run_id).request == PAUSE
        except RalphError:
            return  # the database is out of reach for a moment
        (self._paused.add if is_paused else self._paused.discard)(run_id)
        self._project.store.database.release_connection()

    def _pause_or_resume(self) -> None:
        self._choose_run("pause or continue", self._toggle_pause)

    def _toggle_pause(self, run_id: str) -> None:
        """Pause or continue a run, which itself says so."""
        is_paused = self._project.store.runs.get(run_id).request == PAUSE
        self._project.runs.steer(GO_ON if is_paused else PAUSE, run_id)
        self._read_request(run_id)

    def _stop(self) -> None:
        self._choose_run("stop", self._ask_to_stop)

    def _ask_to_stop(self, run_id: str) -> None:
        def answer(key: str) -> None:
            if key.lower() == "y":
                self._project.runs.steer(STOP, run_id)
                self._say(describe_request(STOP, run_id))
            else:
                self._say(f"{run_id} goes on.")

        self._ask(f"Stop {run_id} now? Its session ends; nothing is lost. y / n", answer)

    def _choose_run(self, action: str, act: Callable[[str], None]) -> None:
        self._choose(f"No run to {action}.", action, [(id, id) for id in self._watcher.followed], act)

    def _choose(self, none: str, action: str, choices: Sequence[tuple[str, str]], act: Callable[[str], None]) -> None:
        """Act on the only choice, or on the one a person picks by its digit."""
        if not choices:
            self._say(none)
        elif len(choices) == 1:
            act(choices[0][0])
        else:
            shown = choices[:MAX_CHOICES]
            self._view.print_lines(("cyan", f"{number} {text}") for number, (_, text) in enumerate(shown, 1))

            def answer(key: str) -> None:
                if key.isdecimal() and 1 <= int(key) <= len(shown):
                    act(shown[int(key) - 1][0])

            self._ask(f"Press the number of the one to {action}, or another key for none.", answer)

    # --- answering ---------------------------------------------------------------------

    def _answer(self) -> None:
        waiting = {
            one.id: one for one in find_waiting_tasks(self._project.store, MAX_CHOICES) if one.kind in _ANSWERABLE
        }
        choices = [(id, f"{id} {printable(one.title)}: {printable(one.text)}") for id, one in waiting.items()]
        self._choose(
            "No task waits for an answer.", "answer", choices, lambda chosen: self._read_answer(waiting[chosen])
        )

    def _read_answer(self, task: AttentionItem) -> None:
        self._say(f"{task.id} {task.title}", "bold")
        self._say(task.text or "It needs a person, without a reason.", "yellow")
        self._view.hide()
        with self._keys.suspended():
            try:
                text = ask("Answer (empty to cancel): ")
            except KeyboardInterrupt:
                print()
                text = ""
        if text:
            self._project.questions.answer(task.id, text)
            self._say(f"Answered: {task.id}. It is ready, and its next session is shown the answer.")
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
            lines = [
                (
                    "cyan",
                    f"{attempt.name}: {count} in its prompt."
                    if attempt.memories
                    else f"{attempt.name}: no memories in its prompt.",
                )
            ]
            lines += [("", f"   {id} {printable(title)}") for id, title in attempt.memories]
            self._view.print_lines(lines, run_id)


class _Question:
    """A question that the next key answers."""

    def __init__(self, text: str, answer: Callable[[str], None]) -> None:
        self.text = printable(text)
        self.answer = answer
        self.deadline = time.monotonic() + QUESTION_SECONDS


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
