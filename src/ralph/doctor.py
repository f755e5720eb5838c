"""Look at everything a project rests on, and say what is wrong and the one thing that mends it.

Looking changes nothing, and never stops at the first fault: a damaged database must
not hide a broken settings file.
"""

from __future__ import annotations

import os

from ralph.config import STORE_VARIABLE, TOML_NAME, load_config
from ralph.errors import ConfigError, RalphError
from ralph.location import open_own_store
from ralph.records import record, replace, timestamp
from ralph.store.url import password_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from ralph.store import Store
    from ralph.store.health import Health

SAFE_SQLITE = (3, 51, 3)
"""Older ones can damage a write-ahead log when two connections write at once."""
REINDEX = "ralph doctor --reindex"
RESTORE = "ralph restore"
MOST_DAYS = 7
"""So long what is stored may be without a backup."""
LEAST_MEGABYTES = 50
HOOKS = "Mend what it says, then try it: echo '{}' | ralph hook session-start. What agents said meanwhile is not lost."


@record
class Finding:
    """What a look at one thing showed."""

    about: str
    is_fine: bool
    says: str
    mend: str = ""
    """What to do, when something is wrong."""
    waits: str = ""
    """What waits for a person, though nothing is wrong."""


def examine(root: Path) -> list[Finding]:
    """Give what a look at a project shows, the database first."""
    store: Store | None = None
    is_shared = _is_on_server(root)
    found = [] if is_shared else list(_file(root))  # before it is opened, which may bring it up to date
    try:
        # Whoever closes a file puts its log into it: a damaged one stays as it is.
        if not any(one.mend == RESTORE for one in found):
            store = open_own_store(root, load_config(root))
        found += _server(store) if is_shared and store else ()
    except RalphError as error:
        found += [_unreachable(error)] if is_shared else ()
    try:
        return [
            *(*_with_room_first(found, root), *_backups(root, store), *_settings(root)),
            *(*_memories_file(root, store), *_knowledge_files(root, store), *_hooks(root, store)),
        ]
    finally:
        if store:
            store.close()


def _is_on_server(root: Path) -> bool:
    from ralph.upkeep import is_on_server

    try:
        return is_on_server(root)
    except RalphError:
        return False


def reindex(root: Path) -> Finding:
    """Make the search indexes anew, and say how that went."""
    from ralph.upkeep import reindex_project

    try:
        done = reindex_project(root)
    except RalphError as error:
        return Finding(about="indexes", is_fine=False, says=f"{error} The search indexes are as they were.")
    return Finding(
        about="indexes",
        is_fine=True,
        says=f"made anew in {done.seconds:,.1f} s: {_count(done.memories, 'memory', 'memories')}, "
        f"{_count(done.journal_entries, 'journal entry', 'journal entries')} and "
        + _count(done.reports, "failure report", "failure reports"),
    )


def _server(store: Store) -> Iterator[Finding]:
    """Look at a server and at what it holds of the project."""
    from ralph.store.health import about, check_store

    server = about(store.database)
    says = f"version {server.version}, tables of version {server.schema}, project {store.project_name!r} at "
    yield Finding(about="postgres", is_fine=True, says=says + store.database.where)
    brings = "recall by meaning would ask the server for the nearest instead of reading all vectors"
    if server.pgvector:
        yield Finding(about="pgvector", is_fine=True, says=f"version {server.pgvector}")
    elif server.can_have_pgvector:
        says = f"not used in this database, which is fine; with it {brings}: {REINDEX}, as a role that may add it"
        yield Finding(about="pgvector", is_fine=True, says=says)
    else:
        yield Finding(about="pgvector", is_fine=True, says=f"not on this server, which is fine; with it {brings}")
    yield from _stored_state(check_store(store, deep=True), lambda: [_contents(store)])


def _unreachable(error: RalphError) -> Finding:
    mend = "when it answers again, or [store] url in .ralph.toml or RALPH_STORE is corrected: ralph doctor"
    return Finding(about="database", is_fine=False, says=str(error), mend=mend)


def _file(root: Path) -> Iterator[Finding]:
    """Look at a database file."""
    import apsw

    from ralph.upkeep import check_project

    is_safe = tuple(map(int, apsw.sqlite_lib_version().split("."))) >= SAFE_SQLITE
    mend = "upgrade the apsw package: this SQLite can damage databases that several processes write to"
    says = f"version {apsw.sqlite_lib_version()}"
    yield Finding(about="sqlite", is_fine=is_safe, says=says, mend="" if is_safe else mend)
    yield from _stored_state(check_project(root, deep=True), lambda: _contents_of_file(root))


def _stored_state(health: Health, contents: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    """Say what is wrong with what is stored, and how much there is."""
    from ralph.store.health import NEWER, is_of_an_index

    for problem in health.problems:
        if is_of_an_index(problem):
            yield Finding(about="indexes", is_fine=False, says=problem, mend=REINDEX)
            continue
        if NEWER in problem:  # nothing is wrong with it: an older one must not take its place
            mend = "upgrade ralph: pip install . in a newer clone"
            yield Finding(about="database", is_fine=False, says=problem, mend=mend)
            continue
        # The others tell of the file itself, where a single memory cannot be put right.
        is_memory = " checksum: " in problem and not problem.startswith("In ")
        mend = f"{RESTORE}, or if it reads right: ralph memory edit ID --content TEXT" if is_memory else RESTORE
        yield Finding(about="database", is_fine=False, says=problem, mend=mend)
    if all(map(is_of_an_index, health.problems)):
        yield from contents()
    if health.outdated:
        says = f"by the rules of another version: {health.outdated}; runs index them anew, bit by bit"
        waits = f"to index all by the present rules: {REINDEX}"
        yield Finding(about="indexes", is_fine=True, says=says, waits=waits)


def _contents_of_file(root: Path) -> Iterator[Finding]:
    try:
        store = open_own_store(root, load_config(root))
    except ConfigError:
        return  # told with the settings
    except RalphError as error:
        yield Finding(about="database", is_fine=False, says=str(error), mend=RESTORE)
        return
    try:
        yield _contents(store)
    finally:
        store.close()


def _contents(store: Store) -> Finding:
    states = store.memories.counts("state")
    attempts = store.attempts.totals()["attempts"]
    waiting = states.get("staged", 0) + states.get("quarantined", 0)
    wait = "learning waits" if waiting == 1 else "learnings wait"
    return Finding(
        about="database",
        is_fine=True,
        says=f"sound; {_count(states.get('active', 0), 'active memory', 'active memories')}, "
        + _count(attempts, "attempt", "attempts"),
        waits=f"{waiting:,} {wait} for you: ralph learn review" if waiting else "",
    )


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _backups(root: Path, store: Store | None) -> Iterator[Finding]:
    from ralph.upkeep import list_backups, verify_backups

    checked = verify_backups(root)
    for one in checked:
        for problem in one.problems[:1]:
            says = f"{one.path.rpartition(os.sep)[2]}: {problem} It is passed over when one is brought back"
            yield Finding(about="backups", is_fine=False, says=says, mend="a new one takes its place: ralph backup")
    made = list_backups(root)
    sound = {one.path for one in checked if not one.problems}
    says = _unsaved(store, next((one.made_at for one in made if one.path in sound), "")) if store else ""
    if says:
        yield Finding(about="backups", is_fine=False, says=says, mend="ralph backup")
        return
    newest = f"{len(made)}, the newest of {made[0].made_at[:16].replace('T', ' ')} UTC" if made else "none yet"
    yield Finding(about="backups", is_fine=True, says=newest if made else f"{newest}; make one with: ralph backup")


def _unsaved(store: Store, made_at: str) -> str:
    """Say how much came after the newest sound backup, when the first of it came long ago; else nothing."""
    import time

    if store.is_shared:
        return ""  # whoever runs the server looks after it
    try:
        first, memories, attempts = store.since(made_at)
    except RalphError:
        return ""  # that the database is damaged is told above
    if not first or first > timestamp(time.time() - MOST_DAYS * 86_400):
        return ""
    came = f"{_count(memories, 'memory', 'memories')} and {_count(attempts, 'attempt', 'attempts')}"
    newest = f"the newest sound one is of {made_at[:10]}" if made_at else "none that is sound"
    return f"{newest}; {came} came since, the first more than {MOST_DAYS} days ago"


def _settings(root: Path) -> Iterator[Finding]:
    try:
        warnings = load_config(root).warnings
    except RalphError as error:
        yield Finding(about="settings", is_fine=False, says=str(error), mend="correct the file")
        return
    for warning in warnings:
        yield Finding(about="settings", is_fine=False, says=warning, mend="correct or remove the key")
    if any(password_in(url) for url in _noted_urls(root)):
        says = f"{TOML_NAME} holds a password, and is a file that people commit"
        mend = f"take it out there, change it on the server, and put it into {STORE_VARIABLE} or ~/.pgpass"
        yield Finding(about="settings", is_fine=False, says=says, mend=mend)
    elif not warnings:
        yield Finding(about="settings", is_fine=True, says="understood")


def _noted_urls(root: Path) -> list[str]:
    """Give the URLs that the settings file itself names."""
    store = load_config(root, environment={}).store
    return [store.url, store.direct_url]


def _with_room_first(found: list[Finding], root: Path) -> list[Finding]:
    """Give what was found; on a disk that takes nothing, nothing else can be told for sure, or mended."""
    trouble = list(_disk(root))
    if not trouble:
        return found
    first = f"{trouble[0].mend} first, then look again: ralph doctor"
    return [*trouble, *(one if one.is_fine else replace(one, mend=first) for one in found)]


def _disk(root: Path) -> Iterator[Finding]:
    """Look whether there is room left to write."""
    from shutil import disk_usage

    from ralph.files import READ_ONLY, trouble_of_disk

    if trouble := trouble_of_disk(root):
        mend = "make it writable" if trouble == READ_ONLY else "make room on it"
        says = f"{trouble}: what is stored can be read, but nothing can be written"
        yield Finding(about="disk", is_fine=False, says=says, mend=mend)
        return
    free = disk_usage(root).free // 1024**2
    if free < LEAST_MEGABYTES:
        yield Finding(
            about="disk",
            is_fine=False,
            says=f"only {free:,} MB are left where the project is: soon nothing can be stored",
            mend="make room on that disk",
        )


def _hooks(root: Path, store: Store | None) -> Iterator[Finding]:
    """Look at the hooks that failed where nobody saw it, and whether they have worked since."""
    from ralph.mishaps import noted, waiting, worked_at

    failed = noted(str(root))
    put_by = waiting(str(root))
    try:
        latest = store.sessions.latest(1) if store else []
    except RalphError:
        latest = []  # that the database is damaged is told above
    waits = f"{_count(put_by, 'answer of an agent waits', 'answers of agents wait')} to be stored" if put_by else ""
    if not failed:
        if latest or waits:
            says = f"no problem; the latest session was one of {latest[0].agent}" if latest else "no problem"
            yield Finding(about="hooks", is_fine=True, says=says, waits=waits)
        return
    last = failed[-1]
    what = f"{last.event} failed at {last.at[:16].replace('T', ' ')} UTC: {last.problem}"
    if worked_at(str(root)) > last.at:
        says = f"they work; {_count(len(failed), 'problem', 'problems')} before, the last: {what}"
        yield Finding(about="hooks", is_fine=True, says=says, waits=waits)
    else:
        more = f" ({len(failed) - 1} more before it)" if len(failed) > 1 else ""
        yield Finding(about="hooks", is_fine=False, says=what + more, mend=HOOKS, waits=waits)


def _memories_file(root: Path, store: Store | None) -> Iterator[Finding]:
    from ralph.formats.memories_md import read_document
    from ralph.sync.disk import memories_path, mirrored
    from ralph.sync.flaws import of_memories

    flaws = list(of_memories(root, lambda kinds: _stored(root, store, kinds)))
    for one in flaws:
        yield Finding(about="memories", is_fine=False, says=one.says, mend=one.mend)
    name = memories_path(root)
    if flaws:
        return
    if not os.path.lexists(root / name):
        yield Finding(about="memories", is_fine=True, says=f"no {name} yet; the first memory makes it")
        return
    count = len(read_document(mirrored(root, name).decode("utf-8", "replace")).entries)
    yield Finding(about="memories", is_fine=True, says=f"{_count(count, 'entry', 'entries')} in {name}")


def _knowledge_files(root: Path, store: Store | None) -> Iterator[Finding]:
    from ralph.sync.disk import KNOWLEDGE
    from ralph.sync.flaws import of_knowledge

    flaws = list(of_knowledge(root, lambda kinds: _stored(root, store, kinds)))
    for one in flaws:
        yield Finding(about="knowledge", is_fine=False, says=one.says, mend=one.mend)
    read = len(list((root / KNOWLEDGE).glob("*.md"))) - sum(bool(one.file) for one in flaws)
    yield Finding(about="knowledge", is_fine=True, says=f"{_count(read, 'entry', 'entries')} in {KNOWLEDGE}")


def _stored(root: Path, store: Store | None, kinds: tuple[str, ...]) -> dict[str, bool]:
    """Give the ids of the memories of some kinds that files held; none when that cannot be known."""
    try:
        from ralph.sync import written_ids

        return {} if store is None or not load_config(root).memories.files else written_ids(store, kinds)
    except RalphError:
        return {}
