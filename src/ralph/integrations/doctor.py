"""Diagnosis of a project: its database, backups, configuration, memory files, hooks and disk.

Checks change nothing and do not stop at the first problem: a damaged database must not hide an invalid
configuration file.
"""

from __future__ import annotations

import os

from ralph.core.config import STORE_VARIABLE, TOML_NAME, load_config
from ralph.core.errors import ConfigError, NotTrustedError, RalphError
from ralph.core.records import record, replace, timestamp
from ralph.core.store_url import get_password
from ralph.core.tracking import report_progress
from ralph.core.trust_record import TRUST_VARIABLE
from ralph.workspace import open_own_store, store_url

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from ralph.store import Store
    from ralph.store.maintenance.check import HealthReport

MIN_SAFE_SQLITE = (3, 51, 3)
"""First SQLite version in which concurrent writers cannot damage the write-ahead log."""
REINDEX_COMMAND = "ralph doctor --reindex"
RESTORE_COMMAND = "ralph restore"
MAX_DAYS_WITHOUT_BACKUP = 7
"""Age of unsaved data at which a backup is recommended, in days."""
MIN_SHOWN_MEGABYTES = 0.1
"""Size of past work below which no figure is shown, in megabytes."""
MIN_FREE_MEGABYTES = 50
"""Free disk space below which a warning is given, in megabytes."""
HOOKS_FIX = "fix the problem, then test it: echo '{}' | ralph hook session-start. No agent messages were lost meanwhile"


@record
class Finding:
    """Result of one check."""

    about: str
    is_fine: bool
    says: str
    mend: str = ""
    """Suggested fix of a problem; if `is_fine`, of what deserves a warning."""
    waits: str = ""
    """Item that needs a person's attention although nothing is wrong."""


def diagnose(root: Path) -> list[Finding]:
    """Return the findings about a project, the database first."""
    if refused := list(_refused_store(root)):
        return [*refused, *_settings(root)]
    store: Store | None = None
    is_shared = _is_on_server(root)
    findings = [] if is_shared else list(_file(root))  # before it is opened, which may migrate it
    try:
        # Closing a database merges its log into it, and a damaged one has to stay as it is.
        if not any(finding.mend == RESTORE_COMMAND for finding in findings):
            store = open_own_store(root, load_config(root))
        findings += _server(store) if is_shared and store else ()
    except RalphError as error:
        findings += [_unreachable(error)] if is_shared else ()
    try:
        return [
            *(*_with_disk_problems(findings, root), *_backups(root, store), *_settings(root), *_sandbox(root)),
            *(*_held_entries(root, store), *_memories_file(root), *_knowledge_files(root), *_guides(root, store)),
            *(*_hooks(root, store), *_worktrees(root, store), *_trust(root, store), *_history(root, store)),
        ]
    finally:
        if store:
            store.close()


def _refused_store(root: Path) -> Iterator[Finding]:
    """Report a database that must not be opened."""
    try:
        store_url(root, load_config(root))
    except NotTrustedError as error:
        yield Finding(about="trust", is_fine=False, says=str(error), mend="ralph trust")
    except RalphError as error:
        if error.code == "database-tracked":
            yield Finding(about="database", is_fine=False, says=str(error), mend="delete it, or stop tracking it")


def _trust(root: Path, store: Store | None) -> Iterator[Finding]:
    """Report what the directory brings that nobody has accepted."""
    from ralph.core.trust_record import untrusted_text
    from ralph.formats.sync import are_files_held
    from ralph.formats.sync.problems import describe_untrusted

    try:
        config = load_config(root)
        is_held = store is not None and config.memories.files and are_files_held(store, root)
    except RalphError:
        return  # reported with the settings or the database
    if config.untrusted:
        says = untrusted_text(root, config.untrusted)
        yield Finding(about="trust", is_fine=False, says=says, mend="review them with: ralph trust")
    if is_held:
        yield Finding(about="trust", is_fine=False, says=describe_untrusted(root), mend="ralph trust")


def _worktrees(root: Path, store: Store | None) -> Iterator[Finding]:
    """Report worktrees that no run goes on with, because their task is done or deleted."""
    from ralph.loop.git.branches import WORKTREES_DIRECTORY, branch_suffix

    folder = root / WORKTREES_DIRECTORY
    names = sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    names = [name for name in names if not name.startswith(".")]
    try:
        tasks = {branch_suffix(task.id): task for task in store.tasks.all()} if store and names else {}
    except RalphError:
        return  # reported with the database
    kept = [name for name in names if store and (name not in tasks or tasks[name].status == "done")]
    if kept:
        says = f"{_count(len(kept), 'worktree is', 'worktrees are')} left of done or deleted tasks: {', '.join(kept)}"
        waits = "take what you need of .ralph/worktrees/TASK, then: git worktree remove --force .ralph/worktrees/TASK"
        yield Finding(about="worktrees", is_fine=True, says=says, waits=waits)


def _history(root: Path, store: Store | None) -> Iterator[Finding]:
    """Report the past work that is kept, and what was never imported."""
    from ralph.memory.capture.available import describe_commits
    from ralph.memory.capture.history import HistoryImport
    from ralph.memory.episodes import TRIMMED

    try:
        counts = store.episodes.counts() if store else []
        history = HistoryImport(store, str(root)) if store else None
        available, skipped = (history.available(), history.skipped()) if history else (None, 0)
    except RalphError:
        return  # reported with the database
    if counts:
        kept = ", ".join(_count(one.sources, one.kind, f"{one.kind}s") for one in counts)
        megabytes = sum(one.bytes for one in counts) / 1_000_000
        size = f"{megabytes:.1f} MB" if megabytes >= MIN_SHOWN_MEGABYTES else f"less than {MIN_SHOWN_MEGABYTES} MB"
        says = f"kept: {kept}; {size}"
        yield Finding(about="history", is_fine=True, says=says)
    if store and (deleted := store.episodes.cursors.get(TRIMMED).position):
        says = f"{_count(deleted, 'passage was', 'passages were')} deleted, because of max_mb under [episodes]"
        yield Finding(about="history", is_fine=True, says=says, waits="to keep more: raise it, then ralph import")
    if skipped:
        says = f"{_count(skipped, 'session', 'sessions')} grew too fast for the hooks, which kept only the end"
        yield Finding(about="history", is_fine=True, says=says, waits="to import the rest: ralph import sessions")
    if available:
        says = f"never imported: {available} of this project"
        yield Finding(about="history", is_fine=True, says=says, waits="to import past work: ralph import")
    if available is not None and available.new_commits:
        says = f"{describe_commits(available.new_commits)} since the last import"
        yield Finding(about="history", is_fine=True, says=says, waits="to import new commits: ralph import git")


def _is_on_server(root: Path) -> bool:
    from ralph.maintenance import is_on_server

    try:
        return is_on_server(root)
    except RalphError:
        return False


def reindex(root: Path) -> Finding:
    """Rebuild the search indexes, and return the result as a finding."""
    from ralph.maintenance import reindex_project

    try:
        done = reindex_project(root)
    except RalphError as error:
        return Finding(about="indexes", is_fine=False, says=f"{error} The search indexes were not changed.")
    return Finding(
        about="indexes",
        is_fine=True,
        says=f"rebuilt in {done.seconds:,.1f} s: {_count(done.memories, 'memory', 'memories')}, "
        f"{_count(done.journal_entries, 'journal entry', 'journal entries')} and "
        + _count(done.reports, "failure report", "failure reports"),
    )


def _server(store: Store) -> Iterator[Finding]:
    """Check a server and the project's data on it."""
    from ralph.store.maintenance.check import check_store, database_info

    server = database_info(store.database)
    says = f"version {server.version}, schema {server.schema}, project {store.project_name!r} at "
    yield Finding(about="postgres", is_fine=True, says=says + store.database.display_url)
    yield from _stored_state(check_store(store, deep=True), lambda: [_contents(store)])


def _unreachable(error: RalphError) -> Finding:
    mend = "start the server, or correct [store] url in .ralph.toml or RALPH_STORE, then run: ralph doctor"
    return Finding(about="database", is_fine=False, says=str(error), mend=mend)


def _file(root: Path) -> Iterator[Finding]:
    """Check a database file."""
    import apsw

    from ralph.maintenance import check_project

    is_safe = tuple(map(int, apsw.sqlite_lib_version().split("."))) >= MIN_SAFE_SQLITE
    mend = "upgrade the apsw package: this SQLite version can damage databases with concurrent writers"
    says = f"version {apsw.sqlite_lib_version()}"
    yield Finding(about="sqlite", is_fine=is_safe, says=says, mend="" if is_safe else mend)
    yield from _stored_state(check_project(root, deep=True), lambda: _contents_of_file(root))


def _stored_state(health: HealthReport, contents: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    """Yield the problems of the stored data, and what it contains."""
    from ralph.core.extras import upgrade_command
    from ralph.store.maintenance.check import NEWER_VERSION, is_index_problem

    for problem in health.problems:
        if is_index_problem(problem):
            yield Finding(about="indexes", is_fine=False, says=problem, mend=REINDEX_COMMAND)
            continue
        if NEWER_VERSION in problem:  # intact, so it must not be replaced with an older backup
            mend = f"upgrade Ralph: {upgrade_command()}"
            yield Finding(about="database", is_fine=False, says=problem, mend=mend)
            continue
        # Other problems are about the file, where editing a single memory does not help.
        is_memory = " checksum: " in problem and not problem.startswith("In ")
        mend = (
            f"{RESTORE_COMMAND}, or rewrite the memory: ralph memory edit ID --content TEXT"
            if is_memory
            else RESTORE_COMMAND
        )
        yield Finding(about="database", is_fine=False, says=problem, mend=mend)
    if all(map(is_index_problem, health.problems)):
        yield from contents()
    if health.outdated_entries:
        says = f"indexed by the rules of another version: {health.outdated_entries}; runs reindex them gradually"
        waits = f"to reindex everything now: {REINDEX_COMMAND}"
        yield Finding(about="indexes", is_fine=True, says=says, waits=waits)


def _contents_of_file(root: Path) -> Iterator[Finding]:
    try:
        store = open_own_store(root, load_config(root))
    except ConfigError:
        return  # reported with the settings
    except RalphError as error:
        yield Finding(about="database", is_fine=False, says=str(error), mend=RESTORE_COMMAND)
        return
    try:
        yield _contents(store)
    finally:
        store.close()


def _contents(store: Store) -> Finding:
    states = store.memories.stats.counts("state")
    attempts = store.stats.totals()["attempts"]
    pending = states.get("staged", 0) + states.get("quarantined", 0)
    verb = "learning needs" if pending == 1 else "learnings need"
    return Finding(
        about="database",
        is_fine=True,
        says=f"intact; {_count(states.get('active', 0), 'active memory', 'active memories')}, "
        + _count(attempts, "attempt", "attempts"),
        waits=f"{pending:,} {verb} review: ralph learn review" if pending else "",
    )


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _backups(root: Path, store: Store | None) -> Iterator[Finding]:
    from ralph.maintenance import list_backups, verify_backups

    checked = verify_backups(root)
    for one in checked:
        for problem in one.problems[:1]:
            says = f"{one.path.rpartition(os.sep)[2]}: {problem} It is skipped by: {RESTORE_COMMAND}"
            yield Finding(about="backups", is_fine=False, says=says, mend="make a new one: ralph backup")
    backups = list_backups(root)
    intact = {one.path for one in checked if not one.problems}
    says = _unsaved(store, next((one.made_at for one in backups if one.path in intact), "")) if store else ""
    if says:
        yield Finding(about="backups", is_fine=False, says=says, mend="ralph backup")
        return
    newest = (
        f"{len(backups)}, the newest from {backups[0].made_at[:16].replace('T', ' ')} UTC" if backups else "none yet"
    )
    yield Finding(about="backups", is_fine=True, says=newest if backups else f"{newest}; make one with: ralph backup")


def _unsaved(store: Store, made_at: str) -> str:
    """Return a message if data older than `MAX_DAYS_WITHOUT_BACKUP` is not in any intact backup, or an empty one."""
    import time

    if store.is_shared:
        return ""  # backups of a server are up to its administrator
    try:
        first, memories, attempts = _count_since(store, made_at)
    except RalphError:
        return ""  # reported with the database
    if not first or first > timestamp(time.time() - MAX_DAYS_WITHOUT_BACKUP * 86_400):
        return ""
    missing = f"{_count(memories, 'memory', 'memories')} and {_count(attempts, 'attempt', 'attempts')}"
    newest = f"the newest intact one is from {made_at[:10]}" if made_at else "none is intact"
    return f"{newest}; {missing} are not backed up, the oldest for more than {MAX_DAYS_WITHOUT_BACKUP} days"


def _count_since(store: Store, moment: str) -> tuple[str, int, int]:
    """Return the time of the first record after `moment`, and the number of memories and attempts after it."""
    firsts, counts = [], []
    for table, at in (("memory", "created_at"), ("attempts", "started_at")):
        sql = f"SELECT MIN({at}) AS first, COUNT(*) AS n FROM {table} WHERE project_id = :project_id"
        row = store.scope.query(f"{sql} AND {at} > :moment", moment=moment)[0]
        firsts.append(row["first"])
        counts.append(int(row["n"]))
    return min(filter(None, firsts), default=""), counts[0], counts[1]


def _settings(root: Path) -> Iterator[Finding]:
    try:
        # What is not trusted is a finding of its own.
        warnings = load_config(root, {**os.environ, TRUST_VARIABLE: "1"}).warnings
    except RalphError as error:
        yield Finding(about="settings", is_fine=False, says=str(error), mend="correct the file")
        return
    for warning in warnings:
        yield Finding(about="settings", is_fine=False, says=warning, mend="correct or remove the key")
    if any(get_password(url) for url in _configured_urls(root)):
        says = f"{TOML_NAME} contains a password, and is usually committed"
        mend = f"remove it there, change it on the server, and set it in {STORE_VARIABLE} or ~/.pgpass"
        yield Finding(about="settings", is_fine=False, says=says, mend=mend)
    elif not warnings:
        yield Finding(about="settings", is_fine=True, says="valid")


def _sandbox(root: Path) -> Iterator[Finding]:
    """Check whether the sandbox of agents works here."""
    from ralph.agents.supervisor.sandbox import check_sandbox, sandbox_problem

    try:
        config = load_config(root)
    except RalphError:
        return  # reported by the check of the settings
    if not config.agent.sandbox:
        problem = sandbox_problem()
        says = f"off; {problem}" if problem else 'off; to confine agents: sandbox = "bubblewrap" under [agent]'
        yield Finding(about="sandbox", is_fine=True, says=says)
        return
    try:
        check_sandbox(config, root)
    except RalphError as error:
        mend = "install or allow bubblewrap; until then ralph run refuses to start"
        yield Finding(about="sandbox", is_fine=False, says=str(error).removesuffix("."), mend=mend)
    else:
        network = "with" if config.agent.sandbox_network else "without"
        yield Finding(about="sandbox", is_fine=True, says=f"bubblewrap works; agents run {network} network")


def _configured_urls(root: Path) -> list[str]:
    """Return the URLs in the configuration file itself."""
    store = load_config(root, environment={}).store
    return [store.url, store.direct_url]


def _with_disk_problems(findings: list[Finding], root: Path) -> list[Finding]:
    """Add disk problems in front: while the disk is not writable, no other problem can be judged or fixed."""
    disk_problems = list(_disk(root))
    if not disk_problems:
        return findings
    first = f"{disk_problems[0].mend} first, then run again: ralph doctor"
    return [*disk_problems, *(one if one.is_fine else replace(one, mend=first) for one in findings)]


def _disk(root: Path) -> Iterator[Finding]:
    """Check whether the disk is writable and has free space."""
    from shutil import disk_usage

    from ralph.core.files import DISK_READ_ONLY, disk_problem

    if problem := disk_problem(root):
        mend = "make it writable" if problem == DISK_READ_ONLY else "free some space"
        says = f"{problem}: stored data can be read, but nothing can be written"
        yield Finding(about="disk", is_fine=False, says=says, mend=mend)
        return
    free = disk_usage(root).free // 1024**2
    if free < MIN_FREE_MEGABYTES:
        yield Finding(
            about="disk",
            is_fine=False,
            says=f"only {free:,} MB free on the project's disk",
            mend="free some space",
        )


def _hooks(root: Path, store: Store | None) -> Iterator[Finding]:
    """Check for hooks that failed in the background, and whether they have worked since."""
    from ralph.integrations.hook_errors import count_queued, last_hook_success, list_hook_errors

    failed = list_hook_errors(str(root))
    queued = count_queued(str(root))
    try:
        latest = store.sessions.latest(1) if store else []
    except RalphError:
        latest = []  # reported with the database
    waits = f"{_count(queued, 'agent message is', 'agent messages are')} waiting to be stored" if queued else ""
    if not failed:
        if latest or waits:
            says = f"no problems; the latest session was of {latest[0].agent}" if latest else "no problems"
            yield Finding(about="hooks", is_fine=True, says=says, waits=waits)
        return
    last = failed[-1]
    what = f"{last.event} failed at {last.at[:16].replace('T', ' ')} UTC: {last.problem}"
    if last_hook_success(str(root)) > last.at:
        says = f"working; {_count(len(failed), 'problem', 'problems')} earlier, the last: {what}"
        yield Finding(about="hooks", is_fine=True, says=says, waits=waits)
    else:
        more = f" ({len(failed) - 1} more before)" if len(failed) > 1 else ""
        yield Finding(about="hooks", is_fine=False, says=what + more, mend=HOOKS_FIX, waits=waits)


def _memories_file(root: Path) -> Iterator[Finding]:
    from ralph.core.memory_files import memories_path
    from ralph.formats.memories_document import parse_document
    from ralph.formats.sync.disk import read_text_bytes
    from ralph.formats.sync.problems import check_memories_file

    problems = list(check_memories_file(root))
    for one in problems:
        yield Finding(about="memories", is_fine=False, says=one.message, mend=one.fix)
    name = memories_path(root)
    if problems:
        return
    if not os.path.lexists(root / name):
        what = "patterns, decisions, fixes and context"
        yield Finding(about="memories", is_fine=True, says=f"no {name} yet; {what} are kept there")
        return
    count = len(parse_document(read_text_bytes(root, name).decode("utf-8", "replace")).entries)
    yield Finding(about="memories", is_fine=True, says=f"{_count(count, 'entry', 'entries')} in {name}")


def _knowledge_files(root: Path) -> Iterator[Finding]:
    from ralph.core.memory_files import KNOWLEDGE_DIR
    from ralph.formats.sync.problems import check_knowledge_files

    problems = list(check_knowledge_files(root))
    for one in problems:
        yield Finding(about="knowledge", is_fine=False, says=one.message, mend=one.fix)
    read = len(list((root / KNOWLEDGE_DIR).glob("*.md"))) - sum(bool(one.file) for one in problems)
    yield Finding(about="knowledge", is_fine=True, says=f"{_count(read, 'entry', 'entries')} in {KNOWLEDGE_DIR}")


def _guides(root: Path, store: Store | None) -> Iterator[Finding]:
    """Report lines of guides and skills that their memories no longer say."""
    from ralph.project import Project

    try:
        outdated = Project(root, store, load_config(root)).guides.outdated() if store else []
    except RalphError:
        return  # reported by the checks of the database and the settings
    for path, command in dict.fromkeys((one.path, one.command) for one in outdated):
        lines = ", ".join(
            f"{one.memory_id} {one.why}" for one in outdated if (one.path, one.command) == (path, command)
        )
        yield Finding(about="guide", is_fine=False, says=f"{path} has outdated lines: {lines}", mend=command)


def _held_entries(root: Path, store: Store | None) -> Iterator[Finding]:
    """Sync the files, and report entries whose file went back to an older version."""
    from ralph.memory.files import MemoryFiles

    if store is None:
        return
    report_progress("Comparing the memory files")
    try:
        files = MemoryFiles(store, root, load_config(root))
        files.sync()
        held = files.held()
    except RalphError:
        return  # reported by the checks of the database and the settings
    if held:
        names = " and ".join(dict.fromkeys("knowledge" if "/knowledge/" in path else path for path, _ in held))
        what, kept = _count(len(held), "memory is", "memories are"), "it" if len(held) == 1 else "them"
        missing = sum(_is_missing(root, path, id) for path, id in held)
        effects = [f"delete {_count(missing, 'memory', 'memories')}"] if missing else []
        if older := len(held) - missing:
            effects.append(f"revert {_count(older, 'memory', 'memories')}")
        says = f"{what} missing from {names} or older there; Ralph kept {kept}"
        mend = f"ralph memory files restore writes the files again; accept: {' and '.join(effects)}"
        yield Finding(about="files", is_fine=False, says=says, mend=f"{mend} (ralph memory files accept)")


def _is_missing(root: Path, path: str, id: str) -> bool:
    """Return whether a file lacks the entry of a memory."""
    from ralph.core.files import read_bytes_or_none

    content = read_bytes_or_none(root / path)
    return content is None or ("/knowledge/" not in path and f"### {id}".encode() not in content)
