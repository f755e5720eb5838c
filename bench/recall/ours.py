"""Our own rankers, through the door any program uses: a project of its own, its memories, its recall."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

from bench.recall.texts import Memory, Query
from ralph.core.records import Memory as Kept
from ralph.core.records import MemorySource
from ralph.memory.lifecycle.task_type import classify_objective
from ralph.memory.recall.candidates import recall_memories
from ralph.memory.recall.query import RecallContext
from ralph.memory.recall.rankers import RANKERS as FORMULAS
from ralph.project import Project
from ralph.store.memories import ChangeInfo
from ralph.store.memory_queries import MemoryFilter
from ralph.workspace import init_project

MOST = 100


class Ralph:
    """The recall every door uses, in a new project with its own database, by words alone."""

    def __init__(self, *, by_meaning: bool = False) -> None:
        self._folder = tempfile.TemporaryDirectory()
        root = Path(self._folder.name)
        init_project(root)
        (root / ".ralph.toml").write_text(
            f'[store]\nproject = "{root.name}"\n[memories]\nfiles = false\nmeaning = {str(by_meaning).lower()}\n'
        )
        self._project = Project.open(root)

    def add(self, memories: list[Memory]) -> None:
        """Keep memories as they are given."""
        self._project.store.memories.insert_all_unchecked(
            [
                Kept(
                    id=memory["id"],
                    kind="fix",
                    title=memory["title"],
                    content=memory["content"],
                    tags=tuple(memory["tags"]),
                    files=tuple(memory["file_refs"]),
                    source=MemorySource.EXPLICIT,
                    confidence=0.8,
                    created_at=memory["created_at"],
                    updated_at=memory["created_at"],
                )
                for memory in memories
            ],
            ChangeInfo(who="bench", why=""),
        )

    def search(self, query: Query, budget_tokens: int) -> list[str]:
        """Return ids, best first."""
        return [one.memory.id for one in self._project.memory.recall(_context(query), MOST)]

    def close(self) -> None:
        """Leave nothing behind."""
        self._project.close()
        self._folder.cleanup()


class RalphWithMeaning(Ralph):
    """The same with the extra installed; what memories mean is worked out when they are added."""

    def __init__(self) -> None:
        from ralph.memory.recall.vector_search import cached_encoder

        if cached_encoder() is None:
            raise ImportError("ralph-memory[semantic] is not installed")
        super().__init__(by_meaning=True)

    def add(self, memories: list[Memory]) -> None:
        """Keep memories, and what they mean."""
        super().add(memories)
        self._project.memory.maintenance.embed()


class RalphShown(Ralph):
    """What the prompt of a task shows: at most eight, after selection."""

    def search(self, query: Query, budget_tokens: int) -> list[str]:
        """Return ids, best first."""
        return [one.memory.id for one in recall_memories(self._project.store, _context(query)).shown]


class RalphWithMeaningShown(RalphWithMeaning):
    """The same with the extra installed."""

    def search(self, query: Query, budget_tokens: int) -> list[str]:
        """Return ids, best first."""
        shown = recall_memories(self._project.store, _context(query), by_meaning=True).shown
        return [one.memory.id for one in shown]


class Profile(Ralph):
    """One of the published formulas, over all memories."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._rank = FORMULAS[name].rank

    def search(self, query: Query, budget_tokens: int) -> list[str]:
        """Return ids, best first."""
        memories = self._project.memory.list(MemoryFilter())
        return [one.memory.id for one in self._rank(memories, _context(query))[:MOST]]


def _context(query: Query) -> RecallContext:
    return RecallContext(
        title=query["title"],
        body=query["description"],
        files=tuple(query["files"]),
        errors=tuple(query["errors"]),
        task_type=classify_objective(f"{query['title']} {query['description']}"),
        at=query["now"],
    )


RANKERS = {
    "ralph": Ralph,
    "ralph+meaning": RalphWithMeaning,
    "ralph as shown": RalphShown,
    "ralph+meaning as shown": RalphWithMeaningShown,
    **{f"ralph:{name}": partial(Profile, name) for name in FORMULAS},
}
