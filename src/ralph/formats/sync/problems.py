"""Read-only checks of the synced files."""

from __future__ import annotations

import os

from ralph.core.records import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    Stored = Callable[[tuple[str, ...]], Mapping[str, bool]]
    """Function that returns the ids of memories of these kinds that were in the files, and whether each is held."""


@record
class Flaw:
    """A problem with a synced file, and how to fix it."""

    says: str
    mend: str
    file: str = ""
    """Name of the file, if the problem keeps it from being read."""


def of_memories(root: Path, stored: Stored) -> Iterator[Flaw]:
    """Yield the problems of the markdown memories file."""
    from ralph.formats.memories_md import SECTIONS, header_id, read_document
    from ralph.formats.sync.disk import MEMORIES, OLD_MEMORIES, FileUnusableError, memories_path, mirrored
    from ralph.formats.sync.three_way import is_too_much

    name = memories_path(root)
    if (root / MEMORIES).exists() and (root / OLD_MEMORIES).exists():
        says = f"{OLD_MEMORIES} is not synced, because {MEMORIES} exists too"
        yield Flaw(says=says, mend=f"run ralph memory import {OLD_MEMORIES}, then delete the file")
    folder = (root / name).parent
    if os.path.lexists(folder) and not (folder.is_dir() and os.access(folder, os.W_OK)):
        says = f"cannot write {name}: {folder.name} is not a writable directory"
        yield Flaw(says=says, mend="replace it with a directory, or make it writable")
        return
    if not os.path.lexists(root / name):
        return
    try:
        text = mirrored(root, name).decode("utf-8", "replace")
    except FileUnusableError as error:
        mend = "replace it with a readable text file, or delete it to have it created again"
        yield Flaw(says=str(error).removesuffix("."), mend=mend)
        return
    document = read_document(text)
    present_ids = {*document.unread_ids, *(entry.id for entry in document.entries)}
    known = stored(tuple(SECTIONS))
    gone = [id for id in known if header_id(id) not in present_ids]
    if text.strip() and (is_too_much(len(gone), len(known)) or any(known[id] for id in gone)):
        says = f"{len(gone):,} memories are missing from {name}, too many for a deliberate deletion"
        mend = "restore them with ralph memory init --force, or delete them with ralph memory delete ID"
        yield Flaw(says=says, mend=mend)
    if document.has_conflict:
        mend = "resolve them; until then the file is not written"
        yield Flaw(says=f"{name} has git conflict markers", mend=mend)
    for problem in document.problems:
        mend = "fix the entry; Ralph does not change it"
        yield Flaw(says=f"{name}, line {problem.line}: {problem.why}", mend=mend)


def of_knowledge(root: Path, stored: Stored) -> Iterator[Flaw]:
    """Yield the problems of the knowledge files."""
    from ralph.formats.imported import InvalidEntryError
    from ralph.formats.knowledge_md import read_note
    from ralph.formats.sync.disk import KNOWLEDGE, FileUnusableError, mirrored
    from ralph.formats.sync.three_way import is_too_much

    paths = sorted((root / KNOWLEDGE).glob("*.md"))
    known = stored(("knowledge",))
    gone = max(len(known) - len(paths), sum(known.values()))
    if (root / KNOWLEDGE).is_dir() and (is_too_much(gone, len(known)) or any(known.values())):
        says = f"{gone:,} entries have no file in {KNOWLEDGE}, too many for a deliberate deletion"
        mend = "delete the directory to restore them, or delete them with ralph memory delete ID"
        yield Flaw(says=says, mend=mend)
    for path in paths:
        try:
            read_note(mirrored(root, KNOWLEDGE + path.name).decode("utf-8", "replace"))
        except FileUnusableError as error:
            yield Flaw(says=str(error).removesuffix("."), mend="replace it with a text file", file=path.name)
        except InvalidEntryError as error:
            says = f"skipped {KNOWLEDGE}{path.name}: {error}"
            mend = "add front matter with a title and at least one tag"
            yield Flaw(says=says, mend=mend, file=path.name)
