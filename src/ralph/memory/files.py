"""The memory files of a working copy, kept in step with the store."""

from __future__ import annotations

import os

from ralph.core.errors import NotTrustedError, RalphError, StoreNotWritableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from ralph.core.config import Config
    from ralph.store import Store

NOT_WRITTEN = "A memory file could not be written. Nothing is lost: it will be written as soon as that is possible."


class MemoryFiles:
    """Syncs `.agent/memories.md` and `.ralph/knowledge/` of one working copy with its store."""

    def __init__(self, store: Store, root: Path | str, config: Config) -> None:
        self._store = store
        self._root = root
        self._config = config
        self.is_paused = False
        """Whether syncing is left to somebody else, such as a background thread."""
        self.problems: list[str] = []
        """What is wrong with the files, one sentence each."""
        self.is_unwritten = False
        """Whether a file could not be written; the next sync tries again."""
        self._checked: tuple[object, list[str]] | None = None
        """Problems found by `check`, with the version of the files and memories they were found in."""

    def sync(self) -> None:
        """Import changes people made to the files, and memories shared by other projects; then update the files."""
        if self.is_paused:
            return
        try:
            self._sync()
        except StoreNotWritableError as error:  # reading still works, and the files are written later
            self._add_problem(str(error))

    def _sync(self) -> None:
        if self._config.memories.shared:
            from ralph.store.shared import SharedMemories

            if SharedMemories(self._store.scope).unseen_range():
                from ralph.memory.sharing import import_shared

                import_shared(self._store)
        if self._config.memories.files:
            from ralph.formats.sync import sync

            outcome = sync(self._store, self._root)
            for problem in outcome.problems:
                self._add_problem(problem)
            self.is_unwritten = outcome.has_unwritten

    def _add_problem(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)

    def check(self) -> None:
        """Update `problems` to what is wrong with the files now, whoever synced them last."""
        if self.is_paused or not self._config.memories.files:
            return
        from pathlib import Path

        from ralph.formats.sync import files_fingerprint, has_unwritten_files, problems

        self.sync()
        version = self._store.memories.history.last_event_seq(), files_fingerprint(self._store, self._root)
        if self._checked is None or self._checked[0] != version:
            root = Path(self._root)
            found = [
                *problems.check_memories_file(root, self._synced_ids),
                *problems.check_knowledge_files(root, self._synced_ids),
            ]
            self._checked = version, [f"{one.message}: {one.fix}." for one in found]
        self.is_unwritten = has_unwritten_files(self._store, self._root)
        self.problems = [*self._checked[1], *[NOT_WRITTEN] * (self.is_unwritten and not self._checked[1])]

    def _synced_ids(self, kinds: tuple[str, ...]) -> dict[str, bool]:
        from ralph.formats.sync import synced_memory_ids

        return synced_memory_ids(self._store, kinds)

    def create(self, *, force: bool = False) -> str:
        """Create the markdown file from its template and what is known; return its path."""
        from pathlib import Path

        from ralph.core.files import write_atomically
        from ralph.core.trust_record import are_files_trusted
        from ralph.formats.memories_md import MEMORIES_TEMPLATE
        from ralph.formats.sync import UNTRUSTED_FILES
        from ralph.formats.sync.disk import UnusableFileError, check_inside_project, memories_path, read_bytes
        from ralph.formats.sync.location import working_copy_id
        from ralph.store.sync_state import SyncState

        if are_files_trusted(self._root) is False:
            raise NotTrustedError(UNTRUSTED_FILES)
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
