"""Read-only checks of the synced files."""

from __future__ import annotations

import os

from ralph.core.memory_files import KNOWLEDGE_DIR, MEMORIES_PATH, OLD_MEMORIES_PATH, memories_path
from ralph.core.records import record
from ralph.core.tracking import track
from ralph.core.trust_record import are_files_trusted
from ralph.formats.imported import InvalidEntryError
from ralph.formats.knowledge_md import parse_note
from ralph.formats.memories_document import parse_document
from ralph.formats.sync.disk import UnusableFileError, read_text_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@record
class FileProblem:
    """A problem with a synced file, and how to fix it."""

    message: str
    fix: str
    file: str = ""
    """Name of the file, if the problem keeps it from being read."""


def count_file_memories(root: Path | str) -> int:
    """Return the number of entries in the memory files of a directory."""
    try:
        text = read_text_bytes(root, memories_path(root)).decode("utf-8", "replace")
    except UnusableFileError:
        text = ""
    try:
        names = os.listdir(f"{os.fspath(root)}/{KNOWLEDGE_DIR}")  # noqa: PTH208
    except OSError:
        names = []
    notes = [name for name in names if name.endswith(".md") and not name.startswith(".")]
    return len(parse_document(text).entries) + len(notes)


def describe_untrusted(root: Path | str) -> str:
    """Return what the files of a directory that nobody trusts have."""
    if are_files_trusted(root) is None:
        return "changes of the memory files of this directory are not used until you trust it"
    count = count_file_memories(root)
    if not count:
        return "the memory files of this directory are neither read nor written until you trust it"
    what = "1 memory in the files of this directory is" if count == 1 else f"{count:,} memories in the files of this"
    return f"{what}{'' if count == 1 else ' directory are'} not used until you trust it"


def check_memories_file(root: Path) -> Iterator[FileProblem]:
    """Yield the problems of the markdown memories file."""
    name = memories_path(root)
    if (root / MEMORIES_PATH).exists() and (root / OLD_MEMORIES_PATH).exists():
        message = f"{OLD_MEMORIES_PATH} is not synced, because {MEMORIES_PATH} exists too"
        yield FileProblem(message=message, fix=f"run ralph memory import {OLD_MEMORIES_PATH}, then delete the file")
    folder = (root / name).parent
    if os.path.lexists(folder) and not (folder.is_dir() and os.access(folder, os.W_OK)):
        message = f"cannot write {name}: {folder.name} is not a writable directory"
        yield FileProblem(message=message, fix="replace it with a directory, or make it writable")
        return
    if not os.path.lexists(root / name):
        return
    try:
        text = read_text_bytes(root, name).decode("utf-8", "replace")
    except UnusableFileError as error:
        fix = "replace it with a readable text file, or delete it to have it created again"
        yield FileProblem(message=str(error).removesuffix("."), fix=fix)
        return
    document = parse_document(text)
    if document.has_conflict:
        fix = "resolve them; until then the file is not written"
        yield FileProblem(message=f"{name} has git conflict markers", fix=fix)
    for problem in document.problems:
        fix = "fix the entry; Ralph does not change it"
        yield FileProblem(message=f"{name}, line {problem.line}: {problem.why}", fix=fix)


def check_knowledge_files(root: Path) -> Iterator[FileProblem]:
    """Yield the problems of the knowledge files."""
    paths = sorted((root / KNOWLEDGE_DIR).glob("*.md"))
    for path in track("Checking knowledge files", paths, len(paths)):
        try:
            parse_note(read_text_bytes(root, KNOWLEDGE_DIR + path.name).decode("utf-8", "replace"))
        except UnusableFileError as error:
            yield FileProblem(message=str(error).removesuffix("."), fix="replace it with a text file", file=path.name)
        except InvalidEntryError as error:
            message = f"skipped {KNOWLEDGE_DIR}{path.name}: {error}"
            fix = "add front matter with a title and at least one tag"
            yield FileProblem(message=message, fix=fix, file=path.name)
