"""Play the first minute with Ralph in a terminal: `make capture`.

Writes docs/images/first-minute.cast, which asciinema plays, and first-minute.svg, which any browser does. Everything
that is shown below a prompt is what the program printed, in the time it took; only long waits are shortened. A script
stands in for the agent, and works on real files: the gate decides what is done. No network is used.
"""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

import pyte

IMAGES = Path(__file__).parent / "images"
COLUMNS, ROWS = 96, 28
TYPING_SECONDS = 0.02
"""Time that a key takes in the capture, in seconds."""
MAX_PAUSE_SECONDS = 0.5
"""Longest time in which nothing happens, in seconds."""
MIN_FRAME_SECONDS = 0.15
"""Shortest time for which a frame of the image is shown, in seconds."""
LAST_FRAME_SECONDS = 7.0
SILENT_SECONDS = 60.0
"""Time after which a silent program is given up, in seconds."""
CELL_WIDTH, CELL_HEIGHT, MARGIN, FONT_SIZE = 8.4, 18, 14, 14
BACKGROUND, FOREGROUND = "#0d1117", "#e6edf3"
COLORS = {
    "red": "#ff7b72",
    "green": "#56d364",
    "brown": "#e3b341",
    "blue": "#79c0ff",
    "magenta": "#d2a8ff",
    "cyan": "#56d4dd",
}

AGENT = """\
prompt=$(cat)
say() { sleep 0.3; echo "$1"; }
say "I read totals.py and its test."
case "$RALPH_TASK_ID $prompt" in
  "t-cents "*"Previous Attempts"*)
    say "The failure report says that the test wants 2.68, so I round half up with decimal."
    printf 'from decimal import ROUND_HALF_UP, Decimal\\n\\n\\ndef total(prices):\\n' > totals.py
    printf '    exact = sum(Decimal(str(price)) for price in prices)\\n' >> totals.py
    printf '    return float(exact.quantize(Decimal("0.01"), ROUND_HALF_UP))\\n' >> totals.py
    say "MEMORY:fix:Round money half up with decimal; round() rounds half to even."
    say "<task-done>$RALPH_TASK_ID</task-done>";;
  "t-cents "*)
    say "I use round()."
    printf 'def total(prices):\\n    return round(sum(prices), 2)\\n' > totals.py
    say "<task-done>$RALPH_TASK_ID</task-done>";;
  *"half up with decimal"*)
    say "A memory says how money is rounded here: half up. total() does that, so I use it."
    printf '\\n\\ndef tax(amount):\\n    return total([amount * 0.19])\\n' >> totals.py
    say "<task-done>$RALPH_TASK_ID</task-done>";;
esac
"""
FILES = {
    ".gitignore": "__pycache__/\n",
    "totals.py": "def total(prices):\n    return sum(prices)\n",
    "test_totals.py": (
        "import unittest\n\nimport totals\n\n\nclass Totals(unittest.TestCase):\n"
        "    def test_total(self):\n"
        '        self.assertEqual(totals.total([2.0, 0.675]), 2.68, "totals on invoices round half up")\n\n'
        '    def test_tax(self):\n        if hasattr(totals, "tax"):\n'
        "            self.assertEqual(totals.tax(10.5), 2.0)\n"
    ),
}
STORY = (
    ("ralph init", 0.7),
    ('ralph task add "Round totals to cents" --id t-cents', 0.5),
    ('ralph task add "Add a function for the tax, with rounded money" --needs t-cents', 0.5),
    ('# A script stands in for the agent here. With yours: ralph run --agent claude --gate "…"', 0.5),
    ('ralph run --gate "python3 -m unittest -q" -- sh ../agent.sh', 3.0),
    ("git log --oneline", 0.0),
)
"""What is typed, and how long its output is left to be read, in seconds: most of it is for what was learned."""


class Recording:
    """Output of a terminal with the time of each part, as asciinema stores it."""

    def __init__(self) -> None:
        self.events: list[tuple[float, str]] = []
        self._now = 0.0

    def write(self, text: str, seconds: float) -> None:
        """Add output that appears so many seconds after what is there."""
        self._now += min(seconds, MAX_PAUSE_SECONDS)
        self.events.append((self._now, text))

    def leave(self, seconds: float) -> None:
        """Leave time to read."""
        self._now += seconds

    def type(self, line: str) -> None:
        """Add a line that a person types after the prompt."""
        self.write("\x1b[1;32m$\x1b[0m ", 0.0)
        for part in [line] if line.startswith("#") else line:
            self.write(part, TYPING_SECONDS)
        self.write("\r\n", 5 * TYPING_SECONDS)

    def play(self, command: str, directory: Path, environment: dict[str, str]) -> None:
        """Run a command in a terminal, and add what it prints."""
        pid, terminal = pty.fork()
        if pid == 0:
            termios.tcsetwinsize(0, (ROWS, COLUMNS))
            os.chdir(directory)
            os.execvpe("sh", ["sh", "-c", command], environment)  # noqa: S606
        last = time.monotonic()
        while text := _read(terminal):
            self.write(text, time.monotonic() - last)
            last = time.monotonic()
        _, status = os.waitpid(pid, 0)
        os.close(terminal)
        if os.waitstatus_to_exitcode(status):
            sys.exit(f"{command} failed: {''.join(text for _, text in self.events)}")

    def cast(self) -> str:
        """Return the recording as an asciicast, version 2."""
        head = {"version": 2, "width": COLUMNS, "height": ROWS, "title": "The first minute with Ralph"}
        lines = [head, *([round(at, 3), "o", text] for at, text in self.events)]
        return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def _read(terminal: int) -> str:
    """Return what is shown next; nothing when the program has ended."""
    if not select.select([terminal], [], [], SILENT_SECONDS)[0]:
        return ""
    try:
        return os.read(terminal, 65536).decode(errors="replace")
    except OSError:
        return ""


def record(directory: Path) -> Recording:
    """Play the story in a new repository."""
    (directory / "agent.sh").write_text(AGENT)
    shop = directory / "shop"
    shop.mkdir()
    for name, text in FILES.items():
        (shop / name).write_text(text)
    scripts = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    environment = {"HOME": str(directory), "PATH": scripts, "TERM": "xterm-256color", "LANG": "C.UTF-8"}
    environment["GIT_PAGER"] = "cat"
    (directory / ".gitconfig").write_text("[user]\nname = You\nemail = you@localhost\n")
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "Add totals"]):
        subprocess.run(["git", *words], cwd=shop, env=environment, check=True)
    recording = Recording()
    for line, seconds in STORY:
        recording.type(line)
        if not line.startswith("#"):
            # Nobody is there to answer: what a command would ask about, it leaves out.
            recording.play(f"{line} < /dev/null", shop, environment)
        recording.leave(seconds)
    return recording


# --- the image --------------------------------------------------------------------------------

Row = tuple[tuple[int, str, str, bool], ...]
"""Parts of a row that look alike: column, text, color and whether it is bold."""


def frames(recording: Recording) -> Iterator[tuple[float, tuple[Row, ...]]]:
    """Yield each picture of the terminal with its time, without those that are too short to be seen."""
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.Stream(screen)
    last: tuple[Row, ...] = ()
    events = recording.events
    for index, (at, text) in enumerate(events):
        stream.feed(text)
        following = events[index + 1][0] if index + 1 < len(events) else at + LAST_FRAME_SECONDS
        if int(following / MIN_FRAME_SECONDS) == int(at / MIN_FRAME_SECONDS):
            continue
        picture = tuple(_row(screen, number) for number in range(ROWS))
        if picture != last:
            last = picture
            yield at, picture


def _row(screen: pyte.Screen, number: int) -> Row:
    parts: list[tuple[int, str, str, bool]] = []
    for column in range(COLUMNS):
        cell = screen.buffer[number][column]
        color = COLORS.get(cell.fg, "")
        if parts and (parts[-1][2:] == (color, cell.bold) or cell.data == " "):
            parts[-1] = (parts[-1][0], parts[-1][1] + cell.data, *parts[-1][2:])
        elif cell.data != " ":
            parts.append((column, cell.data, color, cell.bold))
    return tuple((column, text.rstrip(), color, bold) for column, text, color, bold in parts)


def draw(pictures: Sequence[tuple[float, tuple[Row, ...]]]) -> str:
    """Return an image in which one picture follows the other; rows that look alike are drawn once."""
    duration = pictures[-1][0] + LAST_FRAME_SECONDS
    width, height = round(COLUMNS * CELL_WIDTH) + 2 * MARGIN, ROWS * CELL_HEIGHT + 2 * MARGIN
    rows: dict[Row, int] = {}
    film, steps = [], []
    for index, (at, picture) in enumerate(pictures):
        shown = [(number, row) for number, row in enumerate(picture) if row]
        uses = (f'<use href="#r{rows.setdefault(row, len(rows))}" y="{n * CELL_HEIGHT}"/>' for n, row in shown)
        film.append(f'<svg y="{index * height}">{"".join(uses)}</svg>')
        share = 0.0 if index == 0 else 100 * at / duration
        steps.append(f"{share:.3f}%{{transform:translateY(-{index * height}px)}}")
    last = f"translateY(-{(len(pictures) - 1) * height}px)"
    style = (
        f"text{{font:{FONT_SIZE}px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;"
        f"fill:{FOREGROUND};white-space:pre}}"
        f"@keyframes play{{{''.join(steps)}100%{{transform:{last}}}}}"
        f".film{{animation:play {duration:.1f}s step-end infinite}}"
        f"@media (prefers-reduced-motion:reduce){{.film{{animation:none;transform:{last}}}}}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        ' role="img" aria-labelledby="title"><title id="title">The first minute with Ralph in a terminal</title>'
        f"<style>{style}</style><defs>{''.join(_draw_row(row, number) for row, number in rows.items())}</defs>"
        f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>'
        f'<svg x="{MARGIN}" y="{MARGIN}" width="{width - MARGIN}" height="{height - MARGIN}">'
        f'<g class="film">{"".join(film)}</g></svg></svg>\n'
    )


def _draw_row(row: Row, number: int) -> str:
    spans = []
    for column, text, color, bold in row:
        look = (f' fill="{color}"' if color else "") + (' font-weight="bold"' if bold else "")
        spans.append(f'<tspan x="{column * CELL_WIDTH:.1f}"{look}>{escape(text)}</tspan>')
    return f'<text id="r{number}" y="{FONT_SIZE}">{"".join(spans)}</text>'


def main() -> None:
    """Record the story, and write it in both formats."""
    with tempfile.TemporaryDirectory(prefix="ralph-") as directory:
        recording = record(Path(directory))
    pictures = list(frames(recording))
    for name, text in (("first-minute.cast", recording.cast()), ("first-minute.svg", draw(pictures))):
        (IMAGES / name).write_text(text, encoding="utf-8")
        print(f"{IMAGES.name}/{name}: {len(text.encode()) // 1024} kB, {len(pictures)} pictures")


if __name__ == "__main__":
    main()
