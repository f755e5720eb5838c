"""Whatever people and workers do in whatever order, nothing is dropped and both sides come to agree."""

from __future__ import annotations

import random
import re
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ralph.core.errors import ConflictError
from ralph.core.records import MemoryState
from ralph.formats.memories_document import SECTION_HEADINGS, parse_document
from ralph.formats.sync import sync
from ralph.formats.sync.three_way import FileChoice
from ralph.project import Project
from ralph.store.memories import ChangeInfo
from ralph.store.memory_queries import MemoryFilter
from tests.make import damaged_rows, set_up_project

T = ChangeInfo(who="t", why="t")
OPERATIONS = (
    "sync", "add", "add knowledge", "change", "delete", "undo", "kind",
    "type entry", "edit entry", "remove entry", "foreign text", "lose file",
    "edit note", "new note", "rename note", "remove note", "spoil note", "lose folder",
)  # fmt: skip


class World:
    """A project, and a person at its files; every text is told apart by its number."""

    def __init__(self, root: Path, seed: int) -> None:
        set_up_project(root)
        self.project = Project.open(root)
        self.store = self.project.store
        self.root = root
        self.chance = random.Random(seed)
        self.count = 0
        self.foreign: list[str] = []
        self.lost_foreign = False

    def text(self) -> str:
        self.count += 1
        return f"Thought {self.count}."

    @property
    def file(self) -> Path:
        return self.root / ".agent" / "memories.md"

    def notes(self) -> list[Path]:
        return sorted((self.root / ".ralph" / "knowledge").glob("*.md"))

    def pick(self) -> str | None:
        ids = [memory.id for memory in self.store.memories.find(MemoryFilter(states=tuple(MemoryState)))]
        return self.chance.choice(ids) if ids else None

    def do(self, operation: str) -> None:
        getattr(self, operation.replace(" ", "_"))()

    # --- workers -------------------------------------------------------------------

    def sync(self) -> None:
        written = set(re.findall(r"Thought \d+\.", self.everything_in_files()))
        sync(self.store, self.root)
        missing = written - set(re.findall(r"Thought \d+\.", self.everything_stored()))
        assert not missing, f"written by a person and lost: {missing}"

    def add(self) -> None:
        self.project.memory.add(self.text(), type=self.chance.choice(list(SECTION_HEADINGS)))

    def add_knowledge(self) -> None:
        self.project.memory.add(self.text(), type="knowledge", title=f"Title {self.count}", tags=("x",))

    def change(self) -> None:
        if id := self.pick():
            self.store.memories.update(id, "edited", T, content=self.text())

    def delete(self) -> None:
        if id := self.pick():
            self.store.memories.update(id, "deleted", T, state=MemoryState.PRUNED)

    def kind(self) -> None:
        if id := self.pick():
            self.store.memories.update(id, "edited", T, kind=self.chance.choice(["pattern", "fix", "pitfall"]))

    def undo(self) -> None:
        if id := self.pick():
            with suppress(ConflictError):  # it is as it was first learned
                self.store.memories.undo(id, T)

    # --- a person at memories.md -----------------------------------------------------

    def lines(self) -> list[str]:
        return self.file.read_text().split("\n") if self.file.exists() else ["# Memories", ""]

    def save(self, lines: list[str]) -> None:
        self.file.parent.mkdir(exist_ok=True)
        self.file.write_text("\n".join(lines))

    def type_entry(self) -> None:
        lines = self.lines()
        at = self.chance.randrange(1, len(lines) + 1)
        while at < len(lines) and lines[at].startswith((">", "<!--")):
            at += 1
        self.save(
            [
                *lines[:at],
                "",
                f"### mem-{self.count + 1}-{self.chance.randrange(4096):04x}",
                f"> {self.text()}",
                "",
                *lines[at:],
            ]
        )

    def edit_entry(self) -> None:
        lines = self.lines()
        quotes = [n for n, line in enumerate(lines) if line.startswith("> Thought")]
        if quotes:
            lines[self.chance.choice(quotes)] = f"> {self.text()}"
            self.save(lines)

    def remove_entry(self) -> None:
        lines = self.lines()
        heads = [n for n, line in enumerate(lines) if line.startswith("### mem-")]
        if len(heads) > 1:
            start = self.chance.choice(heads)
            end = start + 1
            while end < len(lines) and lines[end].startswith((">", "<!--")):
                end += 1
            self.save(lines[:start] + lines[end:])

    def foreign_line(self) -> str:
        self.count += 1
        return f"A note of somebody, number {self.count}, \t with  odd   spaces "

    def foreign_at(self, lines: list[str]) -> int:
        return self.chance.choice([n for n, line in enumerate(lines) if line.startswith("#")] or [0])

    def foreign_text(self) -> None:
        lines = self.lines()
        line = self.foreign_line()
        at = self.foreign_at(lines)
        self.save([*lines[:at], line, *lines[at:]])
        self.foreign.append(line)

    def lose_file(self) -> None:
        self.file.unlink(missing_ok=True)
        self.foreign.clear()

    # --- a person at the knowledge files ---------------------------------------------

    def new_note(self) -> None:
        (self.root / ".ralph" / "knowledge").mkdir(exist_ok=True)
        path = self.root / ".ralph" / "knowledge" / f"typed-{self.count}.md"
        path.write_text(f"---\ntitle: Typed {self.count}\ntags: [y]\nowner: me\n---\n\n{self.text()}\n")

    def edit_note(self) -> None:
        if notes := self.notes():
            path = self.chance.choice(notes)
            path.write_text(re.sub(r"Thought \d+\.", self.text(), path.read_text(), count=1))

    def rename_note(self) -> None:
        if notes := self.notes():
            self.chance.choice(notes).rename(self.root / ".ralph" / "knowledge" / f"renamed-{self.count}.md")
            self.count += 1

    def remove_note(self) -> None:
        if notes := self.notes():
            self.chance.choice(notes).unlink()

    def spoil_note(self) -> None:
        if notes := self.notes():
            path = self.chance.choice(notes)
            path.write_text(path.read_text().replace("---", "--", 1))

    def lose_folder(self) -> None:
        for path in self.notes():
            path.unlink()
        folder = self.root / ".ralph" / "knowledge"
        if folder.exists():
            folder.rmdir()

    # --- what must hold --------------------------------------------------------------

    def everything_in_files(self) -> str:
        paths = [*self.notes(), *([self.file] if self.file.exists() else [])]
        return "\n".join(path.read_text() for path in paths)

    def everything_stored(self) -> str:
        memories = list(self.store.memories.find(MemoryFilter(states=tuple(MemoryState))))
        events = self.store.memories.history.since(0, 100_000)
        spoiled = [path.read_text() for path in self.notes() if not path.read_text().startswith("---\n")]
        return "\n".join([*(memory.content for memory in memories), *(str(event) for event in events), *spoiled])

    def check(self) -> None:
        self.sync()
        again = sync(self.store, self.root)
        self.project.files.check()
        assert (again.imported_count, again.written) == (0, 0)
        if self.project.files.held():
            self.project.files.resolve_held(self.chance.choice(list(FileChoice)))
            again = sync(self.store, self.root)
            assert not again.held_count
        assert (again.imported_count, again.written) == (0, 0)
        active = {one.id: (one.kind, one.content) for one in self.store.memories.all() if one.kind in SECTION_HEADINGS}
        text = self.file.read_text() if self.file.exists() else ""
        assert {entry.id: (entry.kind, entry.body) for entry in parse_document(text).entries} == active
        said = self.everything_in_files()
        if any(not path.read_text().startswith("---\n") for path in self.notes()):
            return  # a file nobody can read is left alone, whatever it says
        for memory in self.store.memories.find(MemoryFilter(kinds=("knowledge",))):
            assert memory.content in said
        assert [line for line in text.split("\n") if line.startswith("A note of somebody")] == [
            line for line in text.split("\n") if line in self.foreign
        ]
        assert set(self.foreign) <= set(text.split("\n"))
        assert damaged_rows(self.store) == []


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from(OPERATIONS), max_size=25), st.integers(0, 2**32))
def test_nothing_is_dropped_and_both_sides_agree_in_the_end(operations: list[str], seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder), seed)
        try:
            for operation in operations:
                world.do(operation)

            world.check()
        finally:
            world.project.close()
