"""Our own memory, by the commands that a person types after `git clone`, and the prompt that an agent gets."""

from __future__ import annotations

from bench.decisions.data import Scene
from bench.decisions.scratch import Scratch
from ralph.core.text import extract_title
from ralph.loop.prompt import shown_memory_text
from ralph.project import Project

IMPORTS = (("import", "git", "--yes"), ("import", "sessions", "--yes"))
"""Commands that fill the memory from what is there, in their order."""
SETTINGS = """\
[memories]
budget = {budget}
meaning = {meaning}
[episodes]
budget = {budget}
"""


class Ralph:
    """A new project, filled from its repository and its transcripts."""

    def __init__(self, scene: Scene, *, by_meaning: bool = False) -> None:
        self._scratch = Scratch()
        self._by_meaning = by_meaning
        self._opened: tuple[int, Project] | None = None
        try:
            self._fill(scene)
        except BaseException:
            self.close()
            raise

    def _fill(self, scene: Scene) -> None:
        self._scratch.write_commits(scene.changes)
        self._scratch.write_sessions(scene.chats)
        self._scratch.ralph("init")
        self._configure(0)
        for command in IMPORTS:
            if scene.changes or "git" not in command:
                self._scratch.ralph(*command)

    def recall(self, ask: str, budget_tokens: int) -> str:
        """Return what the memory adds to the prompt of a task that says no more than this."""
        with self._scratch.entered():
            project = self._project(budget_tokens)
            task = project.tasks.add(extract_title(ask), ask)
            return shown_memory_text(project.prompts.preview(task.id))

    def close(self) -> None:
        """Leave nothing behind."""
        self._close_project()
        self._scratch.close()

    def _project(self, budget_tokens: int) -> Project:
        if self._opened and self._opened[0] == budget_tokens:
            return self._opened[1]
        self._close_project()
        self._configure(budget_tokens)
        project = Project.open(self._scratch.root)
        if self._by_meaning:
            project.memory.maintenance.embed()
        self._opened = budget_tokens, project
        return project

    def _close_project(self) -> None:
        if self._opened:
            self._opened[1].close()
            self._opened = None

    def _configure(self, budget_tokens: int) -> None:
        settings = SETTINGS.format(budget=budget_tokens or 1_000, meaning=str(self._by_meaning).lower())
        (self._scratch.root / ".ralph.toml").write_text(settings, encoding="utf-8")
