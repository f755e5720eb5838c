"""Look at everything a project rests on, and say what is wrong and the one thing that mends it.

Changes nothing, and never stops at the first fault: a damaged database must not
hide a broken settings file.
"""

from __future__ import annotations

from ralph.config import load_config
from ralph.errors import RalphError
from ralph.project import DATABASE, FOLDER
from ralph.records import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SAFE_SQLITE = (3, 51, 3)
"""Older ones can damage a write-ahead log when two connections write at once."""


@record
class Finding:
    """What a look at one thing showed."""

    about: str
    is_fine: bool
    says: str
    mend: str = ""
    """What to do, when something is wrong."""


def examine(root: Path) -> list[Finding]:
    """Give what a look at a project shows, the database first."""
    return [*_database(root), *_backups(root), *_settings(root), *_memories_file(root), *_knowledge_files(root)]


def _database(root: Path) -> Iterator[Finding]:
    import apsw

    from ralph.store.health import check

    version = tuple(map(int, apsw.sqlite_lib_version().split(".")))
    yield Finding(
        about="sqlite",
        is_fine=version >= SAFE_SQLITE,
        says=f"version {apsw.sqlite_lib_version()}",
        mend="upgrade the apsw package: this SQLite can damage databases that several processes write to",
    )
    problems = check(str(root / FOLDER / DATABASE), deep=True).problems
    for problem in problems:
        yield Finding(about="database", is_fine=False, says=problem, mend="ralph restore")
    if not problems:
        yield Finding(about="database", is_fine=True, says=_contents(root))


def _contents(root: Path) -> str:
    from ralph.store import open_store

    try:
        store = open_store(str(root / FOLDER / DATABASE))
    except RalphError as error:
        return str(error)
    try:
        states = store.memories.counts("state")
        attempts = store.attempts.totals()["attempts"]
    finally:
        store.close()
    waiting = states.get("staged", 0) + states.get("quarantined", 0)
    review = f", {waiting:,} wait for: ralph learn review" if waiting else ""
    return f"sound; {states.get('active', 0):,} active memories, {attempts:,} attempts{review}"


def _backups(root: Path) -> Iterator[Finding]:
    from ralph.store.backup import backup_paths, backups
    from ralph.store.health import check

    database = str(root / FOLDER / DATABASE)
    for path in backup_paths(database):
        for problem in check(path).problems[:1]:
            mend = f"remove it, it is of no use: {path}"
            yield Finding(about="backups", is_fine=False, says=problem, mend=mend)
    made = backups(database)
    newest = f"{len(made)}, the newest of {made[0].made_at[:16].replace('T', ' ')} UTC" if made else "none yet"
    yield Finding(about="backups", is_fine=True, says=newest if made else f"{newest}; make one with: ralph backup")


def _settings(root: Path) -> Iterator[Finding]:
    try:
        warnings = load_config(root).warnings
    except RalphError as error:
        yield Finding(about="settings", is_fine=False, says=str(error), mend="correct the file")
        return
    for warning in warnings:
        yield Finding(about="settings", is_fine=False, says=warning, mend="correct or remove the key")
    if not warnings:
        yield Finding(about="settings", is_fine=True, says="understood")


def _memories_file(root: Path) -> Iterator[Finding]:
    from ralph.formats.memories_md import read_document
    from ralph.sync.disk import MEMORIES, OLD_MEMORIES, memories_path

    name = memories_path(root)
    if (root / MEMORIES).exists() and (root / OLD_MEMORIES).exists():
        says = f"{OLD_MEMORIES} is not kept in step, because {MEMORIES} is there too"
        yield Finding(
            about="memories", is_fine=False, says=says, mend=f"ralph memory import {OLD_MEMORIES}, then remove it"
        )
    if not (root / name).exists():
        yield Finding(about="memories", is_fine=True, says=f"no {name} yet; the first memory makes it")
        return
    try:
        document = read_document((root / name).read_bytes().decode("utf-8", "replace"))
    except OSError as error:
        mend = "check the permissions of the file and its folder"
        yield Finding(about="memories", is_fine=False, says=f"{name} cannot be read: {error.strerror}", mend=mend)
        return
    if document.has_conflict:
        says = f"{name} has conflict markers of git"
        yield Finding(about="memories", is_fine=False, says=says, mend="resolve them; until then the file is only read")
    for problem in document.problems:
        says = f"{name}, line {problem.line}: {problem.why}"
        yield Finding(about="memories", is_fine=False, says=says, mend="correct the entry; it is left as it is")
    if not document.problems and not document.has_conflict:
        yield Finding(about="memories", is_fine=True, says=f"{len(document.entries):,} entries in {name}")


def _knowledge_files(root: Path) -> Iterator[Finding]:
    from ralph.formats.imported import NotAMemory
    from ralph.formats.knowledge_md import read_note
    from ralph.sync.disk import KNOWLEDGE

    read = 0
    for path in sorted((root / KNOWLEDGE).glob("*.md")):
        try:
            read_note(path.read_bytes().decode("utf-8", "replace"))
            read += 1
        except (NotAMemory, OSError) as error:
            says = f"{KNOWLEDGE}{path.name} is skipped: {error}"
            mend = "give it a front matter with a title and at least one tag"
            yield Finding(about="knowledge", is_fine=False, says=says, mend=mend)
    yield Finding(about="knowledge", is_fine=True, says=f"{read:,} entries in {KNOWLEDGE}")
