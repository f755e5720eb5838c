"""What is wrong with the memory files as they are now, whoever brought them in step last. Looking changes nothing."""

from __future__ import annotations

import os

from ralph.records import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    Stored = Callable[[tuple[str, ...]], Mapping[str, bool]]
    """Gives the ids of the memories of some kinds that were in the files, and whether they are held since."""


@record
class Flaw:
    """Something that is wrong with a file, and what mends it."""

    says: str
    mend: str
    file: str = ""
    """The file that cannot be read because of it."""


def of_memories(root: Path, stored: Stored) -> Iterator[Flaw]:
    """Give what is wrong with the markdown file of memories."""
    from ralph.formats.memories_md import SECTIONS, header_id, read_document
    from ralph.sync.agree import is_too_much
    from ralph.sync.disk import MEMORIES, OLD_MEMORIES, FileUnusableError, memories_path, mirrored

    name = memories_path(root)
    if (root / MEMORIES).exists() and (root / OLD_MEMORIES).exists():
        says = f"{OLD_MEMORIES} is not kept in step, because {MEMORIES} is there too"
        yield Flaw(says=says, mend=f"ralph memory import {OLD_MEMORIES}, then remove it")
    folder = (root / name).parent
    if os.path.lexists(folder) and not (folder.is_dir() and os.access(folder, os.W_OK)):
        says = f"{name} cannot be written: {folder.name} is no folder that can be written to"
        yield Flaw(says=says, mend="make it one")
        return
    if not os.path.lexists(root / name):
        return
    try:
        text = mirrored(root, name).decode("utf-8", "replace")
    except FileUnusableError as error:
        mend = "put a text file that can be read in its place, or remove it: then it is made anew"
        yield Flaw(says=str(error), mend=mend)
        return
    document = read_document(text)
    there = {*document.unread_ids, *(entry.id for entry in document.entries)}
    known = stored(tuple(SECTIONS))
    gone = [id for id in known if header_id(id) not in there]
    if text.strip() and (is_too_much(len(gone), len(known)) or any(known[id] for id in gone)):
        says = f"{len(gone):,} memories are not in {name}, too many to be believed deleted"
        mend = "write them back with ralph memory init --force, or delete them with ralph memory delete ID"
        yield Flaw(says=says, mend=mend)
    if document.has_conflict:
        mend = "resolve them; until then the file is only read"
        yield Flaw(says=f"{name} has conflict markers of git", mend=mend)
    for problem in document.problems:
        mend = "correct the entry; it is left as it is"
        yield Flaw(says=f"{name}, line {problem.line}: {problem.why}", mend=mend)


def of_knowledge(root: Path, stored: Stored) -> Iterator[Flaw]:
    """Give what is wrong with the knowledge files."""
    from ralph.formats.imported import InvalidEntryError
    from ralph.formats.knowledge_md import read_note
    from ralph.sync.agree import is_too_much
    from ralph.sync.disk import KNOWLEDGE, FileUnusableError, mirrored

    paths = sorted((root / KNOWLEDGE).glob("*.md"))
    known = stored(("knowledge",))
    gone = max(len(known) - len(paths), sum(known.values()))
    if (root / KNOWLEDGE).is_dir() and (is_too_much(gone, len(known)) or any(known.values())):
        says = f"{gone:,} entries have no file in {KNOWLEDGE}, too many to be believed deleted"
        mend = "remove the folder to have them written back, or delete them with ralph memory delete ID"
        yield Flaw(says=says, mend=mend)
    for path in paths:
        try:
            read_note(mirrored(root, KNOWLEDGE + path.name).decode("utf-8", "replace"))
        except FileUnusableError as error:
            yield Flaw(says=str(error), mend="put a text file in its place", file=path.name)
        except InvalidEntryError as error:
            says = f"{KNOWLEDGE}{path.name} is skipped: {error}"
            mend = "give it a front matter with a title and at least one tag"
            yield Flaw(says=says, mend=mend, file=path.name)
