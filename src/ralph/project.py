"""One opened project: its settings, its store, and a service for each noun."""

from __future__ import annotations

import os
from functools import cached_property

from ralph.core.actor import PERSON
from ralph.core.config import load_config, read_working_copy
from ralph.core.errors import NotFoundError
from ralph.core.records import replace
from ralph.workspace import actor_at, find_worktree, open_own_store, open_project_store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

    from ralph.core.actor import Actor
    from ralph.core.config import Config
    from ralph.loop.attention import Attention
    from ralph.loop.backlog import BacklogService
    from ralph.loop.features import FeatureService
    from ralph.loop.journal import JournalService
    from ralph.loop.outside import OutsideWorkService
    from ralph.loop.overview import Overview, OverviewService
    from ralph.loop.prompts import PromptService
    from ralph.loop.questions import QuestionService
    from ralph.loop.runs import RunService
    from ralph.loop.stats import Stats
    from ralph.loop.tasks import TaskService
    from ralph.memory.episodes import EpisodeService
    from ralph.memory.files import MemoryFiles
    from ralph.memory.guide_service import GuideService
    from ralph.memory.import_export import ImportExport
    from ralph.memory.learning_service import LearningService
    from ralph.memory.service import MemoryService
    from ralph.memory.sessions import SessionService
    from ralph.projects import ProjectService
    from ralph.store import Store
    from ralph.store.episodes import EpisodeFilter


class Project:
    """A project directory, opened on behalf of an actor."""

    def __init__(
        self,
        root: Path | str,
        store: Store,
        config: Config,
        actor: Actor = PERSON,
        *,
        worktree: str = "",
        is_remote: bool = False,
    ) -> None:
        """`is_remote`: the project belongs to another directory of the same database."""
        self.directory = os.fspath(root)
        self.worktree = worktree or self.directory
        """Directory of the files that memories name: the project's own, or that in the linked worktree in use."""
        self.store = store
        self.config = config
        self.actor = actor
        self._is_remote = is_remote

    @classmethod
    def open(cls, start: Path | str, *, actor: Actor = PERSON) -> Self:
        """Open the project that a directory belongs to.

        In a session of the loop, it is opened for the agent of that session, whoever is given.

        Raises `NotTrustedError` if it keeps its data elsewhere and no person has agreed to that. Other settings that
        nobody has accepted do not count; `config.untrusted` names them.
        """
        root, worktree = find_worktree(start)
        config = load_config(root)
        return cls(root, open_own_store(root, config), config, actor_at(root, config, actor), worktree=worktree)

    def open_other(self, name_or_id: str) -> Project:
        """Open another project of the same database; the files of this directory stay those of this project."""
        other = self.store.projects.find(name_or_id)
        if other and other.id == self.store.project_id:
            return self
        self.actor.require("project.use-other")
        if other is None:
            raise NotFoundError("Project", name_or_id)
        store = self.store.for_project(other.id)
        # Its backups go into a folder of their own, so that restoring this project never picks one of them.
        store.data_dir = f"{self.store.data_dir}/others/{other.id}" if self.store.data_dir else ""
        config = replace(self.config, memories=replace(self.config.memories, files=False))
        return Project(self.directory, store, config, self.actor, worktree=self.worktree, is_remote=True)

    @property
    def root(self) -> Path:
        """The project's directory."""
        from pathlib import Path  # slow to import, and short commands do not need it

        return Path(self.directory)

    def close(self) -> None:
        """Close the database."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.close()

    def synced(self) -> SyncBracket:
        """Return a context that syncs the memory files before the block, and after it if it succeeds."""
        return SyncBracket(self)

    # --- services --------------------------------------------------------------------

    @cached_property
    def files(self) -> MemoryFiles:
        """The memory files of this directory."""
        from ralph.memory.files import MemoryFiles

        return MemoryFiles(self.store, self.directory, self.config, self.actor)

    @cached_property
    def memory(self) -> MemoryService:
        """Memories: add, edit, delete, undo, search, recall."""
        from ralph.memory.service import MemoryService

        return MemoryService(self.store, self.worktree, self.config, self.actor, is_remote=self._is_remote)

    @cached_property
    def transfer(self) -> ImportExport:
        """Import and export of memories, learnings and tasks; import of what other programs recorded."""
        from ralph.memory.import_export import ImportExport

        return ImportExport(
            self.store,
            self.memory,
            self.learnings,
            self.actor,
            import_tasks=self.tasks.import_planned,
            import_passages=self.episodes.import_planned,
            open_project=open_project_store,
        )

    @cached_property
    def learnings(self) -> LearningService:
        """Learnings in the staging area."""
        from ralph.memory.learning_service import LearningService

        return LearningService(self.store, self.memory, self.actor)

    @cached_property
    def guides(self) -> GuideService:
        """Guides and skills compiled from memories."""
        from ralph.memory.guide_service import GuideService

        return GuideService(self.store, self.memory, self.worktree, self.actor, has_files=not self._is_remote)

    @cached_property
    def sessions(self) -> SessionService:
        """Agent sessions outside the loop."""
        from ralph.memory.sessions import SessionService

        return SessionService(self.store, self.memory, self.config, self.worktree)

    @cached_property
    def episodes(self) -> EpisodeService:
        """Passages of past sessions, attempts and commits."""
        from ralph.memory.episodes import EpisodeService

        return EpisodeService(self.store, self.directory, self.config, self.actor, erase_logs=self._erase_logs)

    def _erase_logs(self, filter: EpisodeFilter, dry_run: bool) -> tuple[int, str]:
        from ralph.loop.run_log import erase_logs

        return erase_logs(self.directory, self.store, filter, dry_run=dry_run)

    @cached_property
    def tasks(self) -> TaskService:
        """Tasks: add, list, update, settle."""
        from ralph.loop.tasks import TaskService

        return TaskService(self.store, self.config, self.actor)

    @cached_property
    def backlog(self) -> BacklogService:
        """Order and parts of the tasks that are still to be done."""
        from ralph.loop.backlog import BacklogService

        return BacklogService(self.store, self.actor)

    @cached_property
    def outside_work(self) -> OutsideWorkService:
        """Tasks that agents outside the loop claim and finish."""
        from ralph.loop.outside import OutsideWorkService

        return OutsideWorkService(self.store, self.config, self.worktree, self.actor, self.memory)

    @cached_property
    def questions(self) -> QuestionService:
        """Questions of agents to a person, and the answers."""
        from ralph.loop.questions import QuestionService

        return QuestionService(self.store, self.actor)

    @cached_property
    def features(self) -> FeatureService:
        """Features: groups of tasks with a spec and a plan."""
        from ralph.loop.features import FeatureService

        return FeatureService(self.store, self.actor)

    @cached_property
    def runs(self) -> RunService:
        """Runs of the loop."""
        from ralph.loop.runs import RunService

        return RunService(self.store, self.config, self.directory, self.actor, self.worktree)

    @cached_property
    def prompts(self) -> PromptService:
        """Previews of prompts, and why a memory is or is not in them."""
        from ralph.loop.prompts import PromptService

        return PromptService(self.store, self.config, self.memory, self.runs.takes_model, self.root)

    @cached_property
    def journal(self) -> JournalService:
        """Attempts, failures and sessions."""
        from ralph.loop.journal import JournalService

        return JournalService(self.store, self.sessions, self.directory)

    @cached_property
    def stats(self) -> Stats:
        """Statistics over runs, models and the memory."""
        from ralph.loop.stats import Stats

        return Stats(self.store)

    @cached_property
    def _overview(self) -> OverviewService:
        from ralph.loop.overview import OverviewService

        return OverviewService(self.store, self.config, self.directory, self.tasks, self.runs.takes_model)

    def overview(self, most: int | None = None) -> Overview:
        """Return where the project stands, with up to `most` tasks in each list."""
        files: MemoryFiles | None = self.__dict__.get("files")  # without them, nothing is synced
        is_known = files is not None and not files.is_unattended
        problems = tuple(files.problems) if files and is_known else self._recorded_file_problems()
        return self._overview(most, problems=problems)

    def attention(self, most: int) -> Attention:
        """Return what needs a person, with up to `most` items of each sort."""
        from ralph.loop.attention import find_attention

        return find_attention(self.store, self.memory.rules, self.learnings, most)

    def _recorded_file_problems(self) -> tuple[str, ...]:
        """Return what the last sync found wrong with the memory files, or that they have changed since."""
        if not self.config.memories.files:
            return ()
        from ralph.core.memory_files import fingerprint, stat_files

        place = read_working_copy(self.directory)[0] if self.store.has_multiple_checkouts else ""
        mark, layout, count = self.store.last_file_sync(place)
        if fingerprint(stat_files(self.directory), layout) != mark:
            return ("The memory files have changed and are not synced yet; to sync them: ralph memory files",)
        what = "1 memory is" if count == 1 else f"{count:,} memories are"
        return (f"{what} missing from the memory files or older there; see: ralph memory files",) if count else ()

    @property
    def projects(self) -> ProjectService:
        """All projects of the same database."""
        from ralph.projects import ProjectService

        return ProjectService(self.root, self.config, self.store.database, self.actor)


class SyncBracket:
    """Syncs the memory files before a block, and after it if it succeeds."""

    def __init__(self, project: Project) -> None:
        self._project = project

    def __enter__(self) -> Project:
        self._project.files.sync(only_edits=True)
        return self._project

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._project.files.sync()


class SyncedProject(Project):
    """A project whose `with` block syncs the memory files, as the Python API opens it."""

    def __enter__(self) -> Self:
        try:
            self.files.sync(only_edits=True)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self.files.sync()
        finally:
            self.close()
