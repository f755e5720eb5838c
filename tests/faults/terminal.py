"""Text that would drive a terminal, by every way in: none of it comes out of a command as it went in.

Each payload stands between two marks of its own, so that it is known again wherever it is printed. An agent says it,
on stdout, on stderr and in its sigils; a person has it in titles, in settings, in file names and in arguments. Then
all commands that print such texts are run in a terminal.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from ralph.core.config_file import config_template
from ralph.core.text import clean
from ralph.project import Project
from tests.cli.terminal import at_terminal
from tests.faults.trial import Shown, Trial
from tests.make import set_up_project

IN_ONE_SESSION = 35
DANGEROUS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f\ud800-\udfff]"
)
_MARKED = re.compile(r"A(\d+)A((?:(?!A\d+A)[^\n]){0,80}?)Z\1Z")
_SEEN = re.compile(r"A(\d+)A")
PLAIN = {"NO_COLOR": "1", "COLUMNS": "200"}

_OSC = (
    *(
        "0",
        "1",
        "2",
        "4;1",
        "7",
        "8;",
        "9",
        "10",
        "11",
        "12",
        "50",
        "52;c",
        "104",
        "110",
        "133;A",
        "633;P",
        "777",
        "1337",
    ),
)
_CSI_PRIVATE = (
    *("?1049h", "?1049l", "?25l", "?25h", "?2004h", "?1000h", "?1006h", "?5h", "?47h", "?1;2c", ">c", ">0q", "=c"),
    *("!p", "6n", "?6n", "5n", "18t", "20t", "21t", "8;1;1t", "2J", "3J", "1;1H", "10;20r", "1;31m", "38;2;1;2;3m"),
)


def payloads() -> list[str]:
    """Return every sequence that a terminal would act on, or that hides or turns round what stands beside it."""
    found = [chr(code) for code in range(0x20) if chr(code) not in "\n\t"]
    found += [chr(code) for code in range(0x7F, 0xA0)]
    found += [f"\x1b[7;3{chr(final)}" for final in range(0x40, 0x7F)]
    found += [f"\x1b[{rest}" for rest in _CSI_PRIVATE]
    found += [f"\x9b{rest}" for rest in _CSI_PRIVATE]
    found += [f"\x1b]{number};x{end}" for number in _OSC for end in ("\x07", "\x1b\\", "\x9c", "")]
    found += [f"\x9d{number};x{end}" for number in _OSC for end in ("\x07", "\x9c")]
    found += [f"\x1b{kind}q{end}" for kind in "PX^_" for end in ("\x1b\\", "\x07", "")]
    found += [f"{kind}q\x9c" for kind in "\x90\x98\x9e\x9f"]
    found += [f"\x1b{chr(final)}" for final in range(0x30, 0x7F) if chr(final) not in "[]PX^_"]
    found += [f"\x1b{rest}" for rest in ("(0", ")B", "#8", "%G", " F", "*0", "+A", "$(B", "/A", "-A")]
    found += [chr(code) for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x61C)]
    found += [chr(code) for code in (*range(0x200B, 0x200E), *range(0x2060, 0x2065), 0xFEFF, 0xAD, 0x180E)]
    found += ["\u2028", "\u2029"]
    found += [chr(0xE0000 + code) for code in (0, 1, *range(0x20, 0x30), 0x7F)]
    found += [chr(code) for code in (*range(0x1BCA0, 0x1BCA4), *range(0x1D173, 0x1D17B), *range(0xFFF9, 0xFFFC))]
    found += ["\x1b\x1b[31m", "\x1b[3\x001m", "\x1b\u200b[31m", "\x1b[\x1b[31m1m", "\x1b]0;\x1b]0;x\x07y\x07", "\x1b["]
    found += ["\b\b\b\b", "\r\x1b[2K", "\x1b[1A\x1b[2K", "\x1b]", "\x1bP", "a\u202eb\u202cc", "\x0e\x0f", "\x18\x1a"]
    return list(dict.fromkeys(found))


def marked(number: int, payload: str) -> str:
    """Return a payload between two marks that no other has."""
    return f"A{number}A{payload}Z{number}Z"


def raw_in(shown: str, *, is_live: bool = False) -> list[str]:
    """Return what must not have been printed; a live view moves the cursor by itself, between marks nothing may."""
    found = _MARKED.findall(shown)
    wrong = [f"payload {number}: {between!r}" for number, between in found if DANGEROUS.search(between)]
    if not is_live and (one := DANGEROUS.search(shown)):
        wrong.append(f"{one[0]!r} in {shown[max(0, one.start() - 60) : one.end() + 20]!r}")
    return wrong


class _Place:
    """A project into which payloads come by every way."""

    def __init__(self, folder: Path, numbered: Sequence[tuple[int, str]]) -> None:
        self.root = folder / "project"
        self.root.mkdir(parents=True)
        self._folder = folder
        self._numbered = numbered
        set_up_project(self.root)
        self.tasks: list[str] = []
        self.memory = ""

    def fill(self) -> None:
        """Fill the project: tasks with such titles, and settings and files such names."""
        texts = [marked(number, payload) for number, payload in self._numbered]
        chunks = [texts[at : at + IN_ONE_SESSION] for at in range(0, len(texts), IN_ONE_SESSION)]
        with Project.open(self.root) as project:
            for number, chunk in enumerate(chunks):
                task = project.tasks.add(f"Task {number} " + " ".join(chunk), body="\n".join(chunk))
                self.tasks.append(task.id)
                (self._folder / task.id).write_bytes(_answer(task.id, chunk).encode("utf-8", "surrogatepass"))
        keys = "\n".join(f"{json.dumps(text, ensure_ascii=False)} = 1" for text in texts[::20] if "\x7f" not in text)
        (self.root / ".ralph.toml").write_text(f"{config_template()}\n[prompt.more]\n[extra]\n{keys}\n")
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c"]
        subprocess.run([*git, "init", "-q"], cwd=self.root, check=True)
        for text in texts[::10]:
            try:
                (self.root / text.replace("/", "").replace("\0", "")).write_text("x")
            except (OSError, UnicodeEncodeError):
                pass  # no name for a file

    def agent(self) -> list[str]:
        """Return the command of an agent that says all of that, and changes files of such names."""
        (self.root / "agent.sh").write_text(
            f'cat "{self._folder}/$RALPH_TASK_ID"; head -c 2000 "{self._folder}/$RALPH_TASK_ID" >&2\n'
            f'for file in A*; do echo "$RALPH_TASK_ID" >> "$file"; done\n'
        )
        gate = f'cat "{self._folder}/$RALPH_TASK_ID"; exit 1'
        return ["run", "--max-iterations", str(len(self.tasks)), "--gate", gate, "--", "sh", "agent.sh"]

    def looks(self) -> Iterable[tuple[str, ...]]:
        """Return the commands that print what came in."""
        with Project.open(self.root) as project:
            self.memory = project.store.memories.all()[0].id
        task = self.tasks[0]
        yield from [("status",), ("doctor",), ("task", "list"), ("task", "tree"), ("journal", "list"), ("stats",)]
        yield from [("memory", "list"), ("memory", "search", "Known"), ("memory", "prime")]
        yield from [("failures", "list"), ("failures", "stats"), ("failures", "stats", "--by", "fingerprint")]
        for id in self.tasks:
            yield from [("task", "show", id), ("task", "log", id), ("failures", "show", id), ("prompt", id)]
        yield from [("memory", what, self.memory) for what in ("show", "history", "why")]
        yield from [("memory", "stats"), ("learn", "list"), ("journal", "search", "Notes"), ("journal", "show", "1")]
        yield from [("memory", "export"), ("task", "show", task, "--format", "json")]
        yield from [("memory", "list", "--format", "json"), ("journal", "list", "--format", "json")]
        yield from [("failures", "list", "--format", "json"), ("watch",)]

    def mistakes(self) -> Iterable[tuple[str, ...]]:
        """Return commands that a person got wrong, with such texts in their arguments."""
        texts = [marked(number, payload) for number, payload in self._numbered if "\0" not in payload]
        for at, text in enumerate(texts):
            yield (
                ("memory", "show", text),
                ("run", "--agent", text),
                ("journal", "show", text),
                (text,),
                ("task", "add", "x", "--priority", text),
                ("memory", "import", text),
                ("-C", text, "status"),
                ("memory", "list", "--type", text),
            )[at % 8]


def _answer(task_id: str, chunk: Sequence[str]) -> str:
    """Return what an agent says, a line for each payload in each of the ways it can say something."""
    whole = "\n".join(chunk)
    kept = "\n".join(
        f'<knowledge tags="a,b" title="Known {text}">\nKnown {text}\n</knowledge>\n<learning category="pitfall">{text}'
        f"\n</learning>\nMEMORY:pattern:Known {text}"
        for text in chunk[:20]
    )
    return (
        f"{whole}\n<journal>Notes\n{whole}\n</journal>\n{kept}\n"
        f"<failure-report>\nwhat_tried: {chunk[0]}\nwhy_failed: {chunk[-1]}\n"
        f"error_category: {chunk[0]}\nrelevant_files: {chunk[-1]}\nstack_trace: {chunk[0]}\n</failure-report>\n"
        f"<retry-suggestion>{chunk[0]}\n</retry-suggestion>\n<task-done>{task_id}</task-done>\n{chunk[-1]}\n"
    )


def run(folder: Path, size: int, seed: int) -> Shown:
    """Print so many payloads by all commands; count those that came out as they went in."""
    chosen = payloads()
    random.Random(seed).shuffle(chosen)
    numbered = list(enumerate(chosen[:size], start=1))
    wrong = [f"clean leaves {payload!r}" for _, payload in numbered if DANGEROUS.search(clean(payload))]
    place = _Place(folder, numbered)
    place.fill()
    printed = commands = 0

    def look(words: Sequence[str], *, is_live: bool = False) -> None:
        nonlocal printed, commands
        _, shown = at_terminal(place.root, *words, environment=PLAIN)
        printed += len(set(_SEEN.findall(shown)))
        commands += 1
        wrong.extend(f"ralph {' '.join(words)[:80]!r}: {one}" for one in raw_in(shown, is_live=is_live))

    look(place.agent(), is_live=True)
    looks, mistakes = list(place.looks()), list(place.mistakes())
    for words in looks if size > IN_ONE_SESSION else looks[seed % 4 :: 4]:
        look(words)
    for words in mistakes[:: max(1, len(mistakes) // 48)] if size > IN_ONE_SESSION else mistakes[:2]:
        look(words)
    for sentence in wrong[:20]:
        print(f"  {sentence}", flush=True)
    stored = _stored(place.root)
    wrong += [f"stored: {text[:80]!r}" for text in stored if DANGEROUS.search(text)]
    return Shown(
        load=f"{len(numbered)} escapes and hidden characters, {commands} commands in a terminal",
        tried=printed,
        lost=len(wrong),
        says=f"{len(stored):,} stored texts clean as well",
    )


def _stored(root: Path) -> list[str]:
    """Return all texts that the database holds, in a dump of its tables."""
    import sqlite3

    database = sqlite3.connect(root / ".ralph" / "ralph.db")
    try:
        tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        found = []
        for table in tables:
            if table.partition("_")[0] in ("attempts", "tasks", "memories", "journal", "failure", "reports", "memory"):
                rows = database.execute(f'SELECT * FROM "{table}"')
                found += [value for row in rows for value in row if isinstance(value, str)]
        return found
    finally:
        database.close()


TRIALS = (
    Trial(name="terminal", test="terminal escapes", allowed="0 printed or stored", size=len(payloads()), run=run),
)
