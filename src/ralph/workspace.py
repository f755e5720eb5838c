"""Finding, opening and setting up a project: its directory, and the store of its records."""

from __future__ import annotations

import os

from ralph.core.actor import PERSON, current_actor, session_agent
from ralph.core.config import (
    STORE_VARIABLE,
    TOML_NAME,
    WORKING_COPY_FILE,
    WORKING_COPY_PATH,
    StoreConfig,
    check_store_url,
    load_config,
    variable_name,
)
from ralph.core.errors import NotTrustedError, ProjectNotFoundError, RalphError, UsageError
from ralph.core.files import is_inside, is_own_path, make_folder_durably, path_exists, write_atomically
from ralph.core.git_index import find_top, tracked_files
from ralph.core.records import replace
from ralph.core.store_url import file_path, get_password, is_postgres, strip_password
from ralph.core.text import clean, one_line
from ralph.store import Store, create_store, open_database, open_store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ralph.core.actor import Actor
    from ralph.core.ancestry import LoopSession
    from ralph.core.config import Config

FOLDER = ".ralph"
DATABASE = "ralph.db"
BACKUPS = "backups"
_FOLDERS = (FOLDER, f"{FOLDER}/knowledge", ".claude/skills")
_GITIGNORE = f"{FOLDER}/.gitignore"
_COMMITTED = (TOML_NAME, _GITIGNORE, f"{FOLDER}/knowledge", ".agent/memories.md")
_WORKTREES = f"{os.sep}{FOLDER}{os.sep}worktrees{os.sep}"
_DATABASE_SUFFIXES = ("", "-wal", "-shm", "-journal")
"""Files that SQLite reads when it opens a database, by what is added to its name."""


# Every command opens a project, and importing pathlib takes milliseconds, so these functions use plain paths.


def find_root(start: Path | str) -> str:
    """Return the nearest project directory at or above a directory.

    In the worktree of a task, that is the project the worktree was created for; in a linked worktree without a project
    of its own, that of the main worktree.
    """
    return find_worktree(start)[0]


def find_worktree(start: Path | str) -> tuple[str, str]:
    """Return the project of a directory as `find_root` does, and the directory with its files in the worktree there.

    Both are the same, except in a linked worktree that uses the project of the main worktree.
    """
    try:
        start = _absolute(os.fspath(start))
        found = _search(start.partition(_WORKTREES)[0], follows_links=True)
    except OSError as error:
        raise RalphError(f"Cannot search for a project: {error.strerror}: {error.filename or start}.") from error
    if not found:
        raise ProjectNotFoundError(start, main_worktree(start), _find_cloned(start))
    return found


def _search(path: str, *, follows_links: bool) -> tuple[str, str] | None:
    """Return the nearest project and its directory here; `follows_links` from linked worktrees to the main one."""
    directory, below = path, ""
    while directory != below:
        has_file = path_exists(_database_path(directory))
        if not has_file and follows_links and _may_be_linked(directory):
            found = _search_main_worktree(directory, path)
            if found:
                return found
        if has_file or is_project(directory):
            return directory, directory
        if _has_backups(directory):
            raise _missing_database(_database_path(directory))
        directory, below = os.path.dirname(directory), directory  # noqa: PTH120
    return None


def _may_be_linked(directory: str) -> bool:
    """Return whether a directory may use the project of a main worktree: a working copy that has joined one does not.

    Files in `.ralph` that git tracks are in every worktree.
    """
    is_candidate = os.path.isfile(f"{directory}/.git") or os.path.isdir(f"{directory}/{FOLDER}")  # noqa: PTH112, PTH113
    return is_candidate and not path_exists(f"{directory}/{WORKING_COPY_PATH}")


def _search_main_worktree(directory: str, path: str) -> tuple[str, str] | None:
    """Return the project that a path has in the main worktree, and the directory that corresponds to it here."""
    from ralph.core.worktrees import find_linked_worktree

    linked = find_linked_worktree(directory)
    if not linked or not linked.main:
        return None
    # No link is followed from there, so links that form a circle end.
    found = _search(linked.main + path[len(linked.top) :], follows_links=False)
    if not found:
        return None
    root = found[0]
    is_inside = f"{root}/".startswith(f"{linked.main}/")
    return root, linked.top + root[len(linked.main) :] if is_inside else root


def main_worktree(directory: Path | str) -> str | None:
    """Return the main worktree of the linked worktree that a directory is in; empty if its repository has none.

    None if it is in no linked worktree, or in one of a task.
    """
    path = _absolute(os.fspath(directory))
    top = find_top(path)
    if not top or not os.path.isfile(f"{top}/.git") or _WORKTREES in path:  # noqa: PTH113
        return None
    from ralph.core.worktrees import find_linked_worktree

    linked = find_linked_worktree(top)
    return linked.main if linked else None


def shared_project(directory: Path | str) -> str:
    """Return the project of the main worktree if a linked worktree uses it; empty for any other directory."""
    if main_worktree(directory) is None:
        return ""
    try:
        root, worktree = find_worktree(directory)
    except ProjectNotFoundError:
        return ""
    return root if root != worktree else ""


def _find_cloned(start: str) -> str:
    """Return the nearest directory with files that people commit of a project; empty if there is none."""
    directory, below = start, ""
    while directory != below:
        if any(os.path.lexists(f"{directory}/{name}") for name in _COMMITTED):
            return directory
        directory, below = os.path.dirname(directory), directory  # noqa: PTH120
    return ""


def _absolute(path: str) -> str:
    return os.getcwd() if path == "." else os.path.abspath(path)  # noqa: PTH100, PTH109


def is_project(directory: Path | str) -> bool:
    """Return whether a directory is a project: it has a database, or its settings name one."""
    if path_exists(_database_path(directory)):
        return True
    return os.path.isdir(f"{directory}/{FOLDER}") and bool(load_config(directory).store.url)  # noqa: PTH112


def open_own_store(root: Path | str, config: Config) -> Store:
    """Open the store of the project in a directory."""
    store = config.store
    if not store.url:
        return open_store(own_file(root), store.project, is_own=True, may_only_read=True)
    opened = open_store(store_url(root, config), store.project, direct_url=store.direct_url, may_only_read=True)
    opened.data_dir = os.path.join(root, FOLDER)  # noqa: PTH118
    opened.is_external = not opened.is_shared
    return opened


def open_project_store(path: Path) -> Store | None:
    """Open the store of a project directory; return None for any other path."""
    return open_own_store(path, load_config(path)) if path.is_dir() and is_project(path) else None


def store_url(root: Path | str, config: Config) -> str:
    """Return the URL of the store of the project in a directory, or the path of its file.

    Whoever opens a store asks here, so this is where one that nobody has agreed to is refused.
    """
    url = config.store.url
    if not url:
        return own_file(root)
    if not config.is_store_trusted:
        raise untrusted_store(root, config)
    if is_postgres(url):
        return url
    path = os.path.join(root, file_path(url))  # noqa: PTH118
    refuse_tracked(path)
    return path


def untrusted_store(root: Path | str, config: Config) -> NotTrustedError:
    """Return the error for a store outside the directory that nobody has agreed to."""
    where = one_line(clean(strip_password(config.store.url)))
    return NotTrustedError(
        f"{root} stores its data outside this directory, at {where}, and is not trusted. Nothing was opened."
        " Review it with: ralph trust"
    )


def refuse_tracked(path: str) -> None:
    """Raise `RalphError` if git tracks a database: its content came with the repository."""
    if tracked_files(path, _DATABASE_SUFFIXES):
        from shlex import join

        real = os.path.realpath(path)
        top = find_top(os.path.dirname(real))  # noqa: PTH120
        command = join(["git", "-C", top, "rm", "--cached", f"{os.path.relpath(real, top)}*"])
        raise RalphError(
            f"{path} is not opened because git tracks it, so it may come from somebody else. Delete it, or, if it is"
            f" yours, stop tracking it and let Ralph ignore it again: {command} && ralph init",
            code="database-tracked",
        )


def own_file(root: Path | str) -> str:
    """Return the path of the database inside a project.

    Raises `RalphError` if a symlink leads out of the project, or if git tracks the file.

    Symlinks may come with a clone. A person who wants another location configures it.
    """
    path = _database_path(root)
    if not is_own_path(path, root):
        link = f"{FOLDER}/{DATABASE}" if is_inside(f"{root}/{FOLDER}", root) else FOLDER
        raise _outside_link(link, root, " To store the project elsewhere, run: ralph init --store PATH")
    refuse_tracked(path)
    return path


def _database_path(root: Path | str) -> str:
    return os.path.join(root, FOLDER, DATABASE)  # noqa: PTH118


def _has_backups(root: Path | str) -> bool:
    try:
        return any(name.endswith(".db") for name in os.listdir(f"{root}/{FOLDER}/{BACKUPS}"))  # noqa: PTH208
    except OSError:
        return False


def _missing_database(path: str) -> RalphError:
    return RalphError(
        f"{path} is missing, but it has backups. Restore the newest with: ralph restore", code="database-missing"
    )


def _outside_link(link: str, root: Path | str, hint: str = "") -> RalphError:
    return RalphError(
        f"{link} in {root} is a symlink that points outside the project. Remove it.{hint}", code="outside-link"
    )


# --- who asks ----------------------------------------------------------------------


def actor_at(root: Path | str, config: Config | None, actor: Actor = PERSON) -> Actor:
    """Return on whose behalf this process uses a project: the agent of its session, or else the given actor."""
    return current_actor(actor, os.fspath(root), lambda: _stored_in(root, config))


def agent_at(root: str, sessions: Sequence[LoopSession]) -> Actor | None:
    """Return the agent that a process in these sessions uses a project for; None if it is not bound by them."""
    return session_agent(sessions, root, lambda: _stored_in(root, load_config(root)))


def actor_for_file(path: Path | str) -> Actor:
    """Return on whose behalf this process reads or writes a file."""
    path = os.path.abspath(path)  # noqa: PTH100
    return current_actor(PERSON, os.path.dirname(path), lambda: path)  # noqa: PTH120


def _stored_in(root: Path | str, config: Config | None) -> str:
    """Return the file with the data of a project; empty for a server, which is never a session's own."""
    url = config.store.url if config else ""
    if is_postgres(url):
        return ""
    return os.path.join(root, file_path(url)) if url else _database_path(root)  # noqa: PTH118


# --- setup -------------------------------------------------------------------------


def init_project(
    directory: Path,
    *,
    url: str = "",
    name: str = "",
    environment: Mapping[str, str] = os.environ,
) -> list[str]:
    """Set up a directory as a project, and return what was done; existing files stay as they are.

    With a `url`, the project is stored in that database under `name`. An existing project is only joined by its name.
    """
    from ralph.trust import record_init

    directory = directory.absolute()
    config = load_config(directory, environment)
    for place in (*_FOLDERS, _GITIGNORE):
        if not is_inside(directory / place, directory):
            raise _outside_link(place, directory)
    if not url and not config.is_store_trusted:
        raise untrusted_store(directory, config)
    is_new = not is_project(directory)
    location = _choose_location(directory, config.store, url, name, environment)
    actor = actor_at(directory, replace(config, store=location) if location.url else config)
    if not location.url:
        actor.require("init")
        own_file(directory)  # may refuse
        done = [*_create_files(directory), *_create_database(directory)]
    else:
        actor.require("init.store")
        # The server may refuse, so it is asked before any file is created.
        is_named = bool(name) or _is_project_trusted(directory, config, location, environment)
        store, joined = _join_database(directory, location, is_named=is_named)
        done = _create_files(directory) + joined + save_location(directory, config.store, location, is_new=bool(url))
        from ralph.formats.sync.location import working_copy_id

        working_copy_id(store, directory)
    return done + record_init(directory, environment, is_new=is_new)


def _is_project_trusted(directory: Path, config: Config, location: StoreConfig, environment: Mapping[str, str]) -> bool:
    """Return whether the project of a name in the settings may be joined: the name is a person's word."""
    from ralph.core.trust_record import find_untrusted

    name = config.store.project
    if variable_name("store", "project") in environment:
        return bool(name)
    return bool(name) and not find_untrusted(directory, {"store.project": name}, location.url, environment)


def _choose_location(
    directory: Path, configured: StoreConfig, url: str, name: str, environment: Mapping[str, str]
) -> StoreConfig:
    """Return where to store a project: at the given URL, where it is now, or where RALPH_STORE says."""
    variable = environment.get(STORE_VARIABLE, "").strip()
    has_file = (directory / FOLDER / DATABASE).exists()
    chosen = url or configured.url or (variable if name or not has_file else "")
    if name and not chosen:
        raise UsageError(
            f"Project {name!r} has no database. Give one with --store URL, or set {STORE_VARIABLE}.",
            code="store-required",
        )
    check_store_url(chosen)
    return StoreConfig(
        url=with_known_password(chosen, environment),
        project=name or configured.project or directory.name or "project",
        direct_url=configured.direct_url,
    )


def with_known_password(url: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return a URL with the password from RALPH_STORE, if that is the same database."""
    variable = environment.get(STORE_VARIABLE, "").strip()
    check_store_url(variable, STORE_VARIABLE)
    return variable if variable and strip_password(variable) == strip_password(url) else url


def _create_files(directory: Path) -> list[str]:
    from ralph.core.config_file import config_template

    done = []
    above = next((one for one in directory.parents if (one / FOLDER / DATABASE).exists()), None)
    if above and not (directory / FOLDER).exists():
        done.append(f"note: {above} is a Ralph project too; this one is separate from it")
    # The database stays out of git; people commit the knowledge files.
    files = {_GITIGNORE: f"{DATABASE}*\n{WORKING_COPY_FILE}\n", TOML_NAME: config_template()}
    try:
        for folder in _FOLDERS:
            if not (directory / folder).is_dir():
                make_folder_durably(directory / folder)
                done.append(f"created {folder}/")
        for file, text in files.items():
            if not os.path.lexists(directory / file):
                write_atomically(directory / file, text.encode())
                done.append(f"created {file}")
        return done + _move_skills(directory / FOLDER / "skills", directory / ".claude" / "skills")
    except OSError as error:
        raise RalphError(f"Cannot set up {directory}: {error.strerror}: {error.filename}.") from error


def _create_database(directory: Path) -> list[str]:
    path = own_file(directory)
    is_new = not path_exists(path)
    if is_new and _has_backups(directory):
        raise _missing_database(path)
    create_store(path, directory.name or "project").close()
    return [f"created {FOLDER}/{DATABASE}"] if is_new else []


def _join_database(directory: Path, location: StoreConfig, *, is_named: bool) -> tuple[Store, list[str]]:
    """Create the project in a shared database, or join it; return its store, closed, and what was done."""
    from ralph.store.projects import ProjectStore

    name, where = location.project, strip_password(location.url)
    is_joined = (directory / WORKING_COPY_PATH).exists()
    file = directory / FOLDER / DATABASE
    url = location.url if is_postgres(location.url) else str(directory / file_path(location.url))
    if not is_postgres(url):
        refuse_tracked(url)
    database = open_database(url, direct_url=location.direct_url, create=True)
    try:
        with database.transaction():
            known = ProjectStore(database).find(name)
            if known and not is_named:
                raise UsageError(
                    f"{where} already has a project {name!r}. Join it with: ralph init --project {name}. "
                    "Or choose another name: ralph init --project NAME",
                    code="project-exists",
                )
            if not known and not is_joined and database.is_server and file.exists():
                raise UsageError(
                    f"{file} has the data of this project. Copy it with: ralph store copy . {where} --as {name}, "
                    f"then ralph init --store {where} --project {name}. Or move that file away to start empty.",
                    code="project-has-data",
                )
            store = Store(database, (known or ProjectStore(database).add(name)).id)
    finally:
        database.close()
    return store, [] if known and is_joined else [f"{'joined' if known else 'created'} project {name!r} in {where}"]


def save_location(directory: Path, before: StoreConfig, location: StoreConfig, *, is_new: bool) -> list[str]:
    """Write the location of a project into its settings, without the password; return what was done."""
    done = []
    settings: dict[str, str] = {}
    if is_new:
        settings["url"] = strip_password(location.url)
        if get_password(location.url):
            done.append(f"note: the password was not saved; put it into {STORE_VARIABLE}, PGPASSWORD or ~/.pgpass")
    if before.project != location.project:
        settings["project"] = location.project
    if settings:
        change_settings(directory, "store", settings)
        done.append(f"set in {TOML_NAME}: store {', '.join(settings)}")
    ignore = directory / _GITIGNORE
    if WORKING_COPY_FILE not in (lines := ignore.read_text(encoding="utf-8").splitlines()):
        write_atomically(ignore.resolve(), "\n".join([*lines, WORKING_COPY_FILE, ""]).encode())
    return done


def change_settings(directory: Path, section: str, values: Mapping[str, str]) -> None:
    """Set values in the `.ralph.toml` of a project, and leave the rest as it is."""
    from ralph.core.config_file import set_toml_values

    path = directory / TOML_NAME
    try:
        text = set_toml_values(path.read_text(encoding="utf-8"), section, values)
        write_atomically(path.resolve(), text.encode())
    except (OSError, ValueError) as error:
        raise RalphError(f"Cannot change {TOML_NAME}: {error}.") from error


def _move_skills(old: Path, new: Path) -> list[str]:
    """Move skills to the folder where agents look for them; existing ones are not replaced."""
    if not old.is_dir() or old.is_symlink():
        return []
    done = []
    for skill in sorted(old.iterdir()):
        if skill.is_symlink() or (new / skill.name).exists():
            reason = "it is a symlink" if skill.is_symlink() else f".claude/skills/{skill.name} exists"
            done.append(f"left {FOLDER}/skills/{skill.name}: {reason}")
        else:
            skill.rename(new / skill.name)
            done.append(f"moved {FOLDER}/skills/{skill.name} to .claude/skills/{skill.name}")
    if not any(old.iterdir()):
        old.rmdir()
    return done
