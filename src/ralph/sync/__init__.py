"""Keep `.agent/memories.md` and `.ralph/knowledge/*.md` in step with the store, both ways.

The store is the truth, but people and git edit the files: whatever they change is
taken in, whatever is learned is written out, and text that is not ours is left
alone. When neither side has changed this costs a few file dates and two queries.
"""

from __future__ import annotations

from ralph.records import record
from ralph.store.memories import Change, change_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from ralph.store import Store


PASSES = 3


@record
class Outcome:
    """What a sync did."""

    taken: int = 0
    """Memories added, changed or deleted because of the files."""
    written: int = 0
    """Entries added, changed or removed in the files."""
    problems: tuple[str, ...] = ()
    is_unwritten: bool = False
    """Whether a file could not be written; the next sync tries again."""


def mark(store: Store, root: Path | str) -> str:
    """Give a mark of the files of a working copy, which changes when one of them does."""
    from ralph.sync.disk import Disk
    from ralph.sync.place import place_of

    return Disk(store, root, place_of(store, root)).files_mark()


def is_unwritten(store: Store, root: Path | str) -> bool:
    """Say whether a file could not be written when they were last brought in step."""
    from ralph.store.synced import Synced
    from ralph.sync.disk import UNWRITTEN
    from ralph.sync.place import place_of

    return Synced(store.scope, place_of(store, root)).mark()[1] == UNWRITTEN


def written_ids(store: Store, kinds: tuple[str, ...]) -> dict[str, bool]:
    """Give the ids of the memories in use, of some kinds, that were in the files of this working copy.

    With each stands whether it is gone from them together with too many others to be believed.
    """
    from ralph.store.synced import Synced

    # What others learned is written into the files of this working copy with its next memory command.
    if store.has_copies:
        return {}
    written = Synced(store.scope).held()
    return {row["id"]: written[row["id"]] for row in store.memories.texts(kinds) if row["id"] in written}


def sync(store: Store, root: Path | str) -> Outcome:
    """Bring the files of a working copy and the store in step; problems are told, never raised."""
    from ralph.sync.disk import Disk
    from ralph.sync.place import place_of

    disk = Disk(store, root, place_of(store, root))
    if not disk.is_stale():
        return Outcome()
    from ralph.sync.knowledge_folder import KnowledgeFolder
    from ralph.sync.memories_file import MemoriesFile

    change = Change(who="file", why="", id=change_id())
    done: list[KnowledgeFolder | MemoriesFile] = []
    # Inside the transaction nobody else writes, to the store or, through us, to the files.
    with store.transaction():
        for _ in range(PASSES):
            before = store.memories.last_event()
            parts = [part(store, disk, change) for part in (MemoriesFile, KnowledgeFolder)]
            for part in parts:
                part.sync()
            done += parts
            if store.memories.last_event() == before:
                break  # what one file says may move a memory into the other one
        disk.settle()
    return Outcome(
        taken=sum(part.taken for part in done),
        written=sum(part.written for part in done),
        problems=tuple(dict.fromkeys(problem for part in done for problem in part.problems)),
        is_unwritten=disk.is_unwritten,
    )
