"""Four writers and a person at the same files: nothing anybody wrote is lost.

The writers add, change and delete memories through `Project`; the person saves the mirrored files the ways editors do,
half way through for a while, appends to them, puts notes of their own between the entries, and merges branches that
contradict each other. Every text has a word of its own. In the end each of them is in a file, in the store or in the
history, and what is nobody's memory stands where it was put.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ralph.core.errors import RalphError
from ralph.core.records import MemoryState
from ralph.formats.memories_document import SECTION_HEADINGS, parse_document
from ralph.formats.sync import sync
from ralph.project import Project
from ralph.store.memory_queries import MemoryFilter
from tests.faults.trial import Shown, Trial
from tests.make import set_up_project

WRITERS = 4
PERSONS_SHARE = 0.2
MOST_ENTRIES = 60
"""So many memories there are at a time; beyond, writers delete."""
EDITS_A_MERGE = 40
"""Among so many edits of a person is one that is made on a branch."""
WORD = re.compile(r"word-[a-z]\d+-\d+")
HEAD = "### mem-"
PATIENCE_SECONDS = 20.0


def run(folder: Path, size: int, seed: int) -> Shown:
    """Let all of them work on one project until there were so many edits."""
    # What is durable is the matter of other trials; in memory this takes minutes instead of a quarter of an hour.
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else folder
    with tempfile.TemporaryDirectory(dir=place, prefix="ralph-files-") as quick:
        return _run(Path(quick), size, seed)


def _run(folder: Path, size: int, seed: int) -> Shown:
    root = folder / "project"
    root.mkdir()
    set_up_project(root)
    persons = max(1, round(size * PERSONS_SHARE))
    with Project.open(root) as project, project.synced():
        for n in range(6):
            project.memory.add(f"The first one is word-s0-{n}.", type=list(SECTION_HEADINGS)[n % 4])
            project.memory.add(f"Known is word-s1-{n}.", type="knowledge", title=f"Start {n}", tags=["x"])
    person = Person(root, seed)
    shares = [(size - persons) // WRITERS + (n < (size - persons) % WRITERS) for n in range(WRITERS)]
    writers = [_start(root, folder / f"{n}.said", n, share, seed) for n, share in enumerate(shares)]
    try:
        person.work(persons)
        failed = [writer.wait(timeout=900) for writer in writers]
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
    said = [line for n in range(WRITERS) for line in (folder / f"{n}.said").read_text().splitlines()]
    gone = _missing(root, {*said, *person.said}, person) + sum(map(bool, failed))
    return Shown(
        load=f"{WRITERS} writers and a person, {len(said) + person.edits:,} edits",
        tried=len(said) + person.edits,
        lost=gone + len(person.dropped),
        says=f"{person.halves:,} saves in two halves, {person.appended:,} appended,"
        f" {person.merges:,} merges with conflicts, {_conflicts(root):,} contradictions kept",
    )


TRIALS = (Trial(name="files", test="files", allowed="0 lost", size=10_000, run=run),)


def _start(root: Path, said: Path, number: int, share: int, seed: int) -> subprocess.Popen[bytes]:
    said.touch()
    arguments = [str(root), str(said), str(number), str(share), str(seed)]
    return subprocess.Popen([sys.executable, "-m", "tests.faults.files", *arguments], cwd=Path(__file__).parents[2])


def write(root: Path, said: Path, number: int, share: int, seed: int) -> None:
    """Be a writer: note each text once it was acknowledged."""
    chance = random.Random(seed * 10 + number)
    with Project.open(root) as project, said.open("a") as notes:
        done = 0
        while done < share:
            word = f"word-w{number}-{done}"
            try:
                with project.synced():
                    _edit(project, chance, word)
            except RalphError:
                continue  # another one deleted it first
            done += 1
            notes.write(word + "\n")
            notes.flush()


def _edit(project: Project, chance: random.Random, word: str) -> None:
    memory = project.memory
    known = [one.id for one in project.store.memories.find(MemoryFilter())]
    what = chance.random()
    text = f"{chance.choice(('Tests', 'Builds', 'Servers', 'Pages'))} want {word}, said {chance.randrange(10**6)}."
    if known and (what < 0.15 or len(known) > MOST_ENTRIES):
        # The reason is in the history too.
        memory.delete(chance.choice(known), why=f"No more use for {word}.")
    elif known and what < 0.6:
        memory.edit(chance.choice(known), content=text)
    elif what < 0.8:
        memory.add(text, type=chance.choice(list(SECTION_HEADINGS)))
    else:
        memory.add(text, type="knowledge", title=f"About {word}", tags=["x"])


class Person:
    """Somebody with an editor, a shell and git, who looks at nothing but the files."""

    def __init__(self, root: Path, seed: int) -> None:
        self._root = root
        self._chance = random.Random(seed)
        self._count = 0
        self.said: set[str] = set()
        """What was saved, less what was written over by the person before anybody could read it."""
        self.notes: set[str] = set()
        """Lines between the entries, which are nobody's memory."""
        self.dropped: list[str] = []
        """Sides of a merge that were not kept while it was open."""
        self.edits = self.halves = self.appended = self.merges = 0
        self._side = root.parent / "side"
        self._git("init", "--quiet", "--initial-branch=main")
        self._git("config", "user.email", "p@example.com")
        self._git("config", "user.name", "P")
        self._git("config", "merge.conflictStyle", "diff3" if seed % 2 else "merge")
        self._git("commit", "--quiet", "--allow-empty", "-m", "Start")
        self._git("worktree", "add", "--quiet", "-b", "side", str(self._side))

    def work(self, edits: int) -> None:
        """Make so many edits, one after the other."""
        ways: tuple[Callable[[], bool], ...] = (
            self._change, self._change, self._add, self._append, self._append_note, self._put_note, self._remove,
            self._change_knowledge, self._change_knowledge, self._add_knowledge, self._remove_knowledge,
        )  # fmt: skip
        due = min(EDITS_A_MERGE, edits) // 2
        while self.edits < edits:
            is_merge = self.edits >= due
            way = self._merge if is_merge else self._chance.choice(ways)
            done = way()
            due += EDITS_A_MERGE if is_merge and done else 0
            self.edits += done
            time.sleep(self._chance.choice((0.0, 0.001, 0.01, 0.03)))

    @property
    def _file(self) -> Path:
        return self._root / ".agent" / "memories.md"

    def _word(self) -> str:
        self._count += 1
        return f"word-p0-{self._count}"

    # --- ways to save ----------------------------------------------------------------

    def _save(self, path: Path, before: str, after: str) -> bool:
        """Save what was read and changed, unless it has changed on the disk meanwhile: an editor asks then."""
        try:
            if path.read_text() != before:
                return False
        except FileNotFoundError:
            return False
        self._note(before, after)
        self._chance.choice((self._in_place, self._in_two_halves, self._renamed, self._as_vim))(path, after)
        return True

    def _note(self, before: str, after: str) -> None:
        """Note what is said now; what the person said before and takes back unread was theirs to take back."""
        written = set(WORD.findall(after))
        self.said -= {word for word in set(WORD.findall(before)) - written if word.startswith("word-p")}
        self.said |= {word for word in written if word.startswith("word-p")}

    def _in_place(self, path: Path, text: str) -> None:
        with path.open("w") as file:
            file.write(text)

    def _in_two_halves(self, path: Path, text: str) -> None:
        self.halves += 1
        with path.open("w") as file:
            time.sleep(self._chance.choice((0.0, 0.03, 0.1)))
            file.write(text[: len(text) // 2])
            file.flush()
            time.sleep(self._chance.choice((0.0, 0.03, 0.1)))
            file.write(text[len(text) // 2 :])

    def _renamed(self, path: Path, text: str) -> None:
        new = path.with_name(f"{path.name}.tmp")
        new.write_text(text)
        new.replace(path)

    def _as_vim(self, path: Path, text: str) -> None:
        backup = path.with_name(f"{path.name}~")
        path.rename(backup)
        time.sleep(self._chance.choice((0.0, 0.02)))
        path.write_text(text)
        backup.unlink()

    # --- .agent/memories.md ----------------------------------------------------------

    def _lines(self) -> tuple[str, list[str]]:
        try:
            text = self._file.read_text()
        except FileNotFoundError:
            return "", []
        return text, text.split("\n")

    def _change(self) -> bool:
        text, lines = self._lines()
        quotes = [n for n, line in enumerate(lines) if line.startswith(">")]
        if not quotes:
            return False
        lines[self._chance.choice(quotes)] = f"> The person says {self._word()} now."
        return self._save(self._file, text, "\n".join(lines))

    def _add(self) -> bool:
        text, lines = self._lines()
        heads = [n for n, line in enumerate(lines) if line.startswith(HEAD)]
        if not heads:
            return False
        lines[(at := self._chance.choice(heads)) : at] = [*self._entry(), ""]
        return self._save(self._file, text, "\n".join(lines))

    def _entry(self) -> list[str]:
        return [f"{HEAD}{self._count + 1}-{self._chance.randrange(4096):04x}", f"> The person has {self._word()}."]

    def _append(self) -> bool:
        return self._append_lines(["", *self._entry(), ""])

    def _append_note(self) -> bool:
        line = f"# Note {self._word()}  with   odd spaces "
        self.notes.add(line)
        return self._append_lines([line])

    def _append_lines(self, lines: list[str]) -> bool:
        self.appended += 1
        text = "\n".join(lines) + "\n"
        with self._file.open("a") as file:
            time.sleep(self._chance.choice((0.0, 0.0, 0.02)))
            file.write(text)
        self._note("", text)
        return True

    def _put_note(self) -> bool:
        text, lines = self._lines()
        heads = [n for n, line in enumerate(lines) if line.startswith(HEAD)]
        if not heads:
            return False
        line = f"A note of mine: {self._word()}, \t with  odd   spaces "
        at = self._chance.choice(heads)
        if not self._save(self._file, text, "\n".join([*lines[:at], line, *lines[at:]])):
            return False
        self.notes.add(line)
        return True

    def _remove(self) -> bool:
        text, lines = self._lines()
        heads = [n for n, line in enumerate(lines) if line.startswith(HEAD)]
        if len(heads) < MOST_ENTRIES // 4:
            return False
        start = self._chance.choice(heads)
        end = start + 1
        while end < len(lines) and lines[end].startswith((">", "<!--")):
            end += 1
        return self._save(self._file, text, "\n".join(lines[:start] + lines[end:]))

    # --- .ralph/knowledge --------------------------------------------------------------

    def _knowledge(self) -> tuple[Path, str]:
        paths = sorted((self._root / ".ralph" / "knowledge").glob("*.md"))
        path = self._chance.choice(paths) if paths else self._root / "none"
        try:
            return path, path.read_text()
        except FileNotFoundError:
            return path, ""

    def _change_knowledge(self) -> bool:
        path, text = self._knowledge()
        front, mark, _ = text.rpartition("---\n\n")
        return bool(mark) and self._save(path, text, f"{front}{mark}The person knows {self._word()}.\n")

    def _add_knowledge(self) -> bool:
        word = self._word()
        path = self._root / ".ralph" / "knowledge" / f"typed-{self._count}.md"
        text = f"---\ntitle: Typed {self._count}\ntags: [y]\nowner: me\n---\n\nThe person knows {word}.\n"
        new = path.with_suffix(".tmp")
        new.write_text(text)
        new.rename(path)
        self._note("", text)
        return True

    def _remove_knowledge(self) -> bool:
        path, text = self._knowledge()
        if not text or len(list(path.parent.glob("*.md"))) < MOST_ENTRIES // 8:
            return False
        self._note(text, "")
        path.unlink(missing_ok=True)
        return True

    # --- git ---------------------------------------------------------------------------

    def _git(self, *arguments: str, where: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["git", *arguments], cwd=where or self._root, capture_output=True, text=True, check=False)

    def _merge(self) -> bool:
        """Change an entry here and on a branch, merge, let the writers meet the conflict, and resolve it."""
        self._git("add", ".agent")
        self._git("commit", "--quiet", "-m", "All there is")
        self._git("reset", "--quiet", "--hard", "main", where=self._side)
        text, lines = self._lines()
        there = self._side / ".agent" / "memories.md"
        quotes = [line for line in there.read_text().split("\n") if line.startswith("> ") and lines.count(line) == 1]
        if not quotes:
            return False
        line, theirs, ours = self._chance.choice(quotes), f"> Theirs is {self._word()}.", f"> Ours is {self._word()}."
        there.write_text(there.read_text().replace(line, theirs))
        self._git("commit", "--quiet", "-a", "-m", "Theirs", where=self._side)
        if not self._save(self._file, text, text.replace(line, ours)):
            return False
        deadline = time.monotonic() + PATIENCE_SECONDS
        while "<<<<<<< " not in self._lines()[0]:
            # A writer may bring the file up to date between the two: then git wants it committed first.
            self._git("commit", "--quiet", "-a", "-m", "Ours")
            merged = self._git("merge", "side")
            if merged.returncode == 0 or time.monotonic() > deadline:
                return merged.returncode == 0
        self.merges += 1
        self._note("", theirs)
        both = {*WORD.findall(theirs), *WORD.findall(ours)}
        while (left := both - _known(self._root)) and time.monotonic() < deadline:
            with Project.open(self._root) as project:
                project.files.sync()
        self.dropped += sorted(left)
        self._resolve()
        self._git("commit", "--quiet", "-a", "-m", "Merged")
        return True

    def _resolve(self) -> None:
        """Keep one side of every conflict, or both."""
        keeps = self._chance.choice(("ours", "theirs"))
        kept, side = [], ""
        for line in self._lines()[1]:
            mark = line[:8]
            if mark in ("<<<<<<< ", "||||||| ", "=======", ">>>>>>> "):
                side = {"<": "ours", "|": "base", "=": "theirs", ">": ""}[mark[0]]
            elif side in ("", keeps):
                kept.append(line)
        text = "\n".join(kept)
        self._in_place(self._file, text)


def _known(root: Path) -> set[str]:
    """Give every word that is in the store, or was."""
    with Project.open(root) as project:
        memories = project.store.memories
        texts = [f"{one.title} {one.content}" for one in memories.find(MemoryFilter(states=tuple(MemoryState)))]
        seen = 0
        while events := memories.history.since(seen, 5000):
            seen = events[-1].seq
            texts += [f"{one.was} {one.became} {one.why}" for one in events]
    return set(WORD.findall("\n".join(texts)))


def _conflicts(root: Path) -> int:
    """Give how often both sides had changed an entry, and the history keeps the one that lost."""
    with Project.open(root) as project:
        kept = project.store.scope.query(
            "SELECT COUNT(*) AS n FROM memory_events WHERE project_id = :project_id AND what = 'conflict'"
        )
    return int(kept[0]["n"])


def _missing(root: Path, said: set[str], person: Person) -> int:
    """Give how many texts are nowhere, and notes that are not as they were; say which."""
    with Project.open(root) as project:
        for _ in range(3):
            last = sync(project.store, root)
        stored = {
            one.id: (one.kind, one.content) for one in project.store.memories.all() if one.kind in SECTION_HEADINGS
        }
        text = (root / ".agent" / "memories.md").read_text()
        written = {one.id: (one.kind, one.body) for one in parse_document(text).entries}
        project.files.check()
        apart = [] if project.files.problems else [id for id in stored if stored[id] != written.get(id)]
    left = sorted((root / ".agent").glob("*.saved-*")) + sorted((root / ".ralph" / "knowledge").glob("*.saved-*"))
    files = [text, *(path.read_text() for path in (*(root / ".ralph" / "knowledge").glob("*.md"), *left))]
    lost = said - _known(root) - set(WORD.findall("\n".join(files)))
    lines = set("\n".join(files).split("\n"))
    notes = person.notes - lines
    for what, which in (("nowhere", lost), ("notes gone", notes), ("apart", apart)):
        if which:
            print(f"{what}: {sorted(which)}", file=sys.stderr)
    return len(lost) + len(notes) + len(apart) + last.imported_count + last.written


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:6]))
