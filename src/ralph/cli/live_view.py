"""Live view of runs in a terminal: lines that stay and, below them, what happens now."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ralph.cli.output import format_duration, pluralize, printable
from ralph.cli.progress import ProgressView, format_event
from ralph.cli.status_line import RunStatusLine, event_age, wrap_words

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Self

    from rich.live import Live
    from rich.text import Text

    from ralph.loop.progress import ProgressEvent

LIVE_LINE_MARGIN = 3
"""Free columns at the end of a live line. Ctrl+C prints `^C` there, and a wrapped line cannot be cleared."""
RESERVED_ROWS = 4
"""Rows of a terminal that are left for what is above the lines of workers, and for the lines below them."""
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FRAMES_PER_SECOND = 8


class LiveProgressView(ProgressView):
    """A view that prints lines and, below them, the current activity of each worker and how far each run is."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._activities: dict[tuple[str, int], _Activity] = {}
        """Current activity by run and worker number; a single worker has number 0."""
        self._statuses: dict[str, RunStatusLine] = {}
        self._idle = _Activity()
        self._footer = ""
        self._drawn: tuple[int, list[int]] = (0, [])
        """Width of the terminal, and of each live line, when they were drawn last."""
        self._console = Console(highlight=False, soft_wrap=True)
        self._live: Live = Live(
            console=self._console,
            get_renderable=self._render,
            refresh_per_second=FRAMES_PER_SECOND,
            transient=True,
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def describe(self, idle: str, footer: str) -> None:
        """Set what is shown while no run is active, and below everything else."""
        self._idle.begin(idle, 0.0)
        self._footer = footer
        if not self._live.is_started:
            self._live.start()

    def _render(self) -> Text:
        from rich.text import Text

        self._erase_reflowed()
        width = self._console.width - LIVE_LINE_MARGIN
        active = [(key, one) for key, one in sorted(self._activities.items()) if one.description]
        states = [(run_id, text) for run_id, one in sorted(self._statuses.items()) if (text := one.render(width))]
        if not active and not states and self._idle.description:
            active = [(("", 0), self._idle)]
        most = max(1, self._console.height - RESERVED_ROWS - len(states))
        lines = [self._line(*key, activity) for key, activity in active[:most]]
        if len(active) > most:
            lines.append(Text(f"  and {pluralize(len(active) - most, 'more worker')}", "dim"))
        lines += [Text(f"{self._name(run_id)}{text}"[:width], "bold") for run_id, text in states]
        if self._footer:
            lines.append(Text(self._footer[:width], "dim"))
        self._drawn = self._console.width, [line.cell_len for line in lines]
        return Text("\n").join(lines)

    def _erase_reflowed(self) -> None:
        """Let rich erase all rows that the live lines fill since the terminal has become narrower."""
        (before, lengths), width = self._drawn, self._console.width
        if lengths and 0 < width < before:
            rows = sum(max(1, -(-length // width)) for length in lengths)
            self._live._live_render._shape = (width, rows)

    def _line(self, run_id: str, number: int, activity: _Activity) -> Text:
        from rich.text import Text

        frame = SPINNER[int(time.monotonic() * FRAMES_PER_SECOND) % len(SPINNER)]
        who = f"{self._name(run_id)}{f'[{number}] ' if number else ''}"
        line = Text.assemble((f"{frame} {who}", "cyan"), activity.description, (f"  {activity.elapsed()}", "dim"))
        if activity.last_output:
            line.append(f"  {activity.last_output}", "dim italic")
        line.truncate(max(20, self._console.width - LIVE_LINE_MARGIN), overflow="ellipsis")
        return line

    def show(self, event: ProgressEvent, run_id: str = "") -> None:
        """Print the lines of the event and update the live lines."""
        if not self._live.is_started:
            self._live.start()
        self._statuses.setdefault(run_id, RunStatusLine()).follow(event)
        self._follow(event, run_id)
        for style, line in format_event(event):
            is_quoted = event.what == "held" and style == "dim"  # a diff is only worth showing as it is
            self.print_lines([(style, line)], run_id, is_wrapped=not is_quoted)

    def print_lines(self, lines: Iterable[tuple[str, str]], run_id: str = "", *, is_wrapped: bool = True) -> None:
        """Print lines above the live ones."""
        from rich.text import Text

        for style, text in lines:
            line = f"{self._name(run_id)}{text}"
            for row in wrap_words(line, self._console.width) if is_wrapped else [line]:
                self._console.print(Text(row, style=style))

    def _follow(self, event: ProgressEvent, run_id: str) -> None:
        details: dict[str, Any] = event.details
        worker = details.get("worker", 0)
        activity, age = self._activities.setdefault((run_id, worker), _Activity()), event_age(event)
        if event.what == "attempt_started":
            model = f" with {printable(str(details['model']))}" if details["model"] else ""
            activity.begin(f"{details['task_id']} attempt {details['attempt']}{model}: working", age)
        elif event.what == "output":
            last = str(details["text"]).strip().rpartition("\n")[2]
            activity.last_output = printable(last)[:200] or activity.last_output
        elif event.what == "gate_started":
            activity.begin(f"checking: {printable(str(details['command']))}", age)
        elif event.what == "review_started":
            activity.begin(f"{details['task_id']}: verifying", age)
        elif event.what == "waiting":
            what = "tasks of another worker" if details["pending"] else "new tasks"
            activity.begin("waiting for a free task" if worker else f"waiting for {what}", age)
        elif event.what == "waiting_for_limit":
            activity.begin(f"waiting for the usage limit of {details['agent']}", age, details["seconds"])
        elif event.what == "paused":
            activity.begin("paused; to continue: ralph resume", age)
        elif event.what == "attempt_ended":
            activity.begin("", age)
        elif event.what == "run_ended":
            self._forget(run_id)

    def _forget(self, run_id: str) -> None:
        self._activities = {key: one for key, one in self._activities.items() if key[0] != run_id}

    def pause(self) -> None:
        """Hide the live lines until the next event, and forget what happened."""
        self._activities.clear()
        self.hide()

    def hide(self) -> None:
        """Hide the live lines until the next event."""
        self._live.stop()
        self._live._live_render._shape = None  # rich would erase as many lines of what is printed meanwhile


class _Activity:
    """The current activity of a worker."""

    def __init__(self) -> None:
        self.description = ""
        self.started = time.monotonic()
        self.last_output = ""
        self.seconds = 0.0

    def begin(self, what: str, age: float, seconds: float = 0.0) -> None:
        """Switch to another activity, which began `age` seconds ago; `seconds` is how long it takes, if known."""
        if what != self.description:
            self.description, self.started, self.last_output = what, time.monotonic() - age, ""
            self.seconds = seconds

    def elapsed(self) -> str:
        """Return how long it has taken, or how long it still takes if that is known."""
        passed = time.monotonic() - self.started
        return f"{format_duration(max(0.0, self.seconds - passed))} left" if self.seconds else format_duration(passed)
