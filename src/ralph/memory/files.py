"""The memory files of a working copy, kept in step with the store."""

from __future__ import annotations

import os

from ralph.core.actor import PERSON
from ralph.core.errors import NotTrustedError, RalphError, StoreNotWritableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from ralph.core.actor import Actor
    from ralph.core.config import Config
    from ralph.formats.sync import SyncResult
    from ralph.formats.sync.three_way import FileChoice
    from ralph.store import Store

NOT_WRITTEN = "A memory file could not be written. Nothing is lost: it will be written as soon as that is possible."


class MemoryFiles:
    """Syncs `.agent/memories.md` and `.ralph/knowledge/` of one working copy with its store."""

    def __init__(self, store: Store, root: Path | str, config: Config, actor: Actor = PERSON) -> None:
        self._store = store
        self._root = root
        self._config = config
        self._actor = actor
        self.is_paused = False
        """Whether syncing is left to somebody else, such as a background thread."""
        self.is_unattended = False
        """Whether nobody here syncs them, so that `problems` are not known."""
        self.problems: list[str] = []
        """What is wrong with the files, one sentence each."""
        self._held_problem = ""
        """The problem that files went back to an older version, as it was last found."""
        self.is_unwritten = False
        """Whether a file could not be written; the next sync tries again."""
        self._checked: tuple[object, list[str]] | None = None
        """Problems found by `check`, with the version of the files and memories they were found in."""

    def sync(self, *, only_edits: bool = False) -> None:
        """Import changes people made to the files, and memories shared by other projects; then update the files.

        With `only_edits`, files that nobody has changed are left as they are.
        """
        if self.is_paused:
            return
        try:
            self._sync(only_edits)
        except StoreNotWritableError as error:  # reading still works, and the files are written later
            self._add_problems(str(error))

    def _sync(self, only_edits: bool) -> None:
        if self._config.memories.shared:
            from ralph.store.shared import SharedMemories

            if SharedMemories(self._store.scope).unseen_range():
                from ralph.memory.sharing import import_shared

                import_shared(self._store)
        if self._config.memories.files:
            from ralph.formats.sync import sync

            self._record(sync(self._store, self._root, only_edits=only_edits, is_by_agent=self._is_by_agent))

    def _is_by_agent(self) -> bool:
        from ralph.core.ancestry import is_session_in

        return self._actor.is_loop_session or is_session_in(os.fspath(self._root))

    def _record(self, outcome: SyncResult) -> None:
        self.problems = [problem for problem in self.problems if problem != self._held_problem]
        self._held_problem = outcome.problems[-1] if outcome.held_count else ""
        self._add_problems(*outcome.problems)
        self.is_unwritten = outcome.has_unwritten

    def held(self) -> list[tuple[str, str]]:
        """Return path and memory id of the entries whose file went back to an older version."""
        if not self._config.memories.files:
            return []
        from ralph.formats.sync import held_memory_ids

        return held_memory_ids(self._store, self._root)

    def resolve_held(self, choice: FileChoice) -> SyncResult:
        """Write the held entries to the files again, or accept what the files say."""
        self._actor.require("memory.files")
        from ralph.formats.sync import sync

        outcome = sync(self._store, self._root, choice)
        self.problems.clear()
        self._record(outcome)
        return outcome

    def _add_problems(self, *problems: str) -> None:
        self.problems = list(dict.fromkeys((*self.problems, *problems)))

    def check(self) -> None:
        """Update `problems` to what is wrong with the files now, whoever synced them last."""
        if self.is_paused or not self._config.memories.files:
            return
        from pathlib import Path

        from ralph.formats.sync import files_fingerprint, has_unwritten_files, held_problems, problems

        self.sync()
        version = self._store.memories.history.last_event_seq(), files_fingerprint(self._store, self._root)
        if self._checked is None or self._checked[0] != version:
            root = Path(self._root)
            found = [*problems.check_memories_file(root), *problems.check_knowledge_files(root)]
            lines = [f"{one.message}: {one.fix}." for one in found]
            self._checked = version, [*lines, *held_problems(len(self.held()))]
        self.is_unwritten = has_unwritten_files(self._store, self._root)
        self.problems = [*self._checked[1], *[NOT_WRITTEN] * (self.is_unwritten and not self._checked[1])]

    def create(self, *, force: bool = False) -> str:
        """Create the markdown file from its template and what is known; return its path."""
        from pathlib import Path

        from ralph.core.files import write_atomically
        from ralph.core.memory_files import memories_path
        from ralph.core.trust_record import are_files_trusted
        from ralph.formats.memories_md import MEMORIES_TEMPLATE
        from ralph.formats.sync import untrusted_problem
        from ralph.formats.sync.disk import UnusableFileError, check_inside_project, read_bytes
        from ralph.formats.sync.location import working_copy_id
        from ralph.store.sync_state import SyncState

        if force:
            self._actor.require("memory.init")
        if are_files_trusted(self._root) is False:
            raise NotTrustedError(untrusted_problem(self._root))
        name = memories_path(self._root)
        path = Path(self._root) / name
        exists = os.path.lexists(path)
        if exists and not force:
            raise RalphError(f"{name} already exists. To replace it: ralph memory init --force", code="file-exists")
        self.sync()
        try:
            check_inside_project(Path(self._root), f"{name}.bak")
            check_inside_project(Path(self._root), name)
            if exists:
                write_atomically(path.with_name(path.name + ".bak"), read_bytes(Path(self._root), name))
            # Otherwise sync would treat the entries that the template lacks as deleted.
            SyncState(self._store.scope, working_copy_id(self._store, self._root)).delete_file(name)
            write_atomically(path, MEMORIES_TEMPLATE.encode())
        except UnusableFileError as error:
            raise RalphError(str(error), code="file-unusable") from error
        except OSError as error:
            raise RalphError(f"{name} cannot be written: {error.strerror}.", code="file-unusable") from error
        self.sync()
        return name
