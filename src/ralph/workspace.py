"""Where a project is: its directory, and the store its records are in; and how both are set up."""

from __future__ import annotations

import os

from ralph.core.config import (
    STORE_VARIABLE,
    TOML_NAME,
    WORKING_COPY_FILE,
    WORKING_COPY_PATH,
    StoreConfig,
    check_store_url,
    load_config,
)
from ralph.core.errors import ProjectNotFoundError, RalphError, UsageError
from ralph.core.files import is_inside, make_folder_durably, path_exists, state_path, write_atomically
from ralph.store import Store, create_store, open_database, open_store
from ralph.store.url import file_path, get_password, is_postgres, strip_password

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ralph.core.config import Config

FOLDER = ".ralph"
DATABASE = "ralph.db"
BACKUPS = "backups"
_WORKTREES = f"{os.sep}{FOLDER}{os.sep}worktrees{os.sep}"


# Every command does this first, and to load pathlib takes milliseconds that a short one need not spend.


def find_root(start: Path | str) -> str:
    """Give the nearest directory, from here upwards, that is a project.

    In a worktree of a task that is the directory it was made for: what git checked out there only looks like one.
    """
    try:
        start = _absolute(os.fspath(start))
        directory, below = start.partition(_WORKTREES)[0], ""
        while directory != below:
            if is_project(directory):
                return directory
            if _has_backups(directory):
                # One further up is not the one that is meant.
                raise RalphError(_gone(_own_file(directory)))
            directory, below = os.path.dirname(directory), directory  # noqa: PTH120
    except OSError as error:
        raise RalphError(f"The project cannot be looked for: {error.strerror}: {error.filename or start}.") from error
    raise ProjectNotFoundError(str(start))


def _absolute(path: str) -> str:
    if path == ".":
        return os.getcwd()  # noqa: PTH109
    from pathlib import Path

    return str(Path(path).absolute())


def is_project(directory: Path | str) -> bool:
    """Say whether a directory is a project: its database is there, or it says where else it is."""
    if path_exists(_own_file(directory)):
        return True
    # Only a folder of ours is worth reading settings for.
    return os.path.isdir(f"{directory}/{FOLDER}") and bool(load_config(directory).store.url)  # noqa: PTH112


def open_own_store(root: Path | str, config: Config) -> Store:
    """Open the store of the project in a directory, wherever its settings say it is."""
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


def is_agreed(root: Path | str, config: Config) -> bool:
    """Say whether a person agreed, in this very directory, to where its settings say that it is kept.

    Settings come with a clone, from whoever wrote them; what opens a project unasked must not follow them elsewhere.
    """
    if not is_postgres(config.store.url):
        place = os.path.realpath(store_url(root, config) if config.store.url else _own_file(root))
        if place.startswith(os.path.realpath(root).rstrip(os.sep) + os.sep):
            return True
    try:
        with open(state_path(root, "agreed"), encoding="utf-8") as file:  # noqa: PTH123
            return file.read() == _agreement(config.store)
    except (OSError, ValueError):
        return False


def agree(root: Path | str, store: StoreConfig) -> None:
    """Note that a person agreed to where the project in this directory is kept."""
    from pathlib import Path

    path = Path(state_path(root, "agreed"))
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(path, _agreement(store).encode())
    except OSError:
        pass  # Then hooks say that nobody has agreed, and what to do.


def _agreement(store: StoreConfig) -> str:
    return strip_password(store.url) if is_postgres(store.url) else str(file_path(store.url))


def store_url(root: Path | str, config: Config) -> str:
    """Give the URL of the store of the project in a directory, or the path of its file."""
    url = config.store.url
    if not url:
        return own_file(root)
    if is_postgres(url):
        return url
    from pathlib import Path

    return str(Path(root) / file_path(url))


def _has_backups(root: Path | str) -> bool:
    try:
        return any(name.endswith(".db") for name in os.listdir(f"{root}/{FOLDER}/{BACKUPS}"))  # noqa: PTH208
    except OSError:
        return False


def _gone(path: Path | str) -> str:
    return f"{path} is gone, but there are backups of it. Bring the newest back with: ralph restore"


def own_file(root: Path | str) -> str:
    """Give the database file a project has of its own; a link must not take it, or its folder, out of the project.

    A clone brings links along, from whoever made it; where a person wants a project to be kept, its settings say.
    """
    path = _own_file(root)
    if not is_inside(path, root):
        link = f"{FOLDER}/{DATABASE}" if is_inside(f"{root}/{FOLDER}", root) else FOLDER
        raise RalphError(
            f"{link} in {root} is a link that leads out of the project. Remove it; to keep the project elsewhere: "
            "ralph init --store PATH"
        )
    return path


def _own_file(root: Path | str) -> str:
    return os.path.join(root, FOLDER, DATABASE)  # noqa: PTH118


def init_project(
    directory: Path, *, url: str = "", name: str = "", environment: Mapping[str, str] = os.environ
) -> list[str]:
    """Set a directory up as a project and say what was done; what is there already stays as it is.

    With the `url` of a database the project is kept there, under a `name`; one of that name is joined when it was
    asked for by it.
    """
    from pathlib import Path

    from ralph.core.config_file import config_template

    directory = directory.absolute()
    done: list[str] = []
    config = load_config(directory, environment)
    for place in (FOLDER, f"{FOLDER}/knowledge", f"{FOLDER}/.gitignore", ".claude/skills"):
        if not is_inside(directory / place, directory):
            raise RalphError(f"{place} in {directory} is a link that leads out of the project. Remove it.")
    kept = _kept(directory, config.store, url, name, environment)
    if kept.url:
        # Before anything is made: the server may refuse.
        store, joined = _join(directory, kept, is_asked_for=bool(name or config.store.project))
    above = next((one for one in directory.parents if (one / FOLDER / DATABASE).exists()), None)
    if above and not (directory / FOLDER).exists():
        done.append(f"note: {above} is a Ralph project too; this one is separate from it")
    try:
        for folder in (FOLDER, f"{FOLDER}/knowledge", ".claude/skills"):
            if not (directory / folder).is_dir():
                make_folder_durably(directory / folder)
                done.append(f"created {folder}/")
        # The database stays out of git; knowledge is for people to commit.
        for file, text in (
            (f"{FOLDER}/.gitignore", f"{DATABASE}*\n{WORKING_COPY_FILE}\n"),
            (TOML_NAME, config_template()),
        ):
            if not os.path.lexists(directory / file):
                write_atomically(directory / file, text.encode())
                done.append(f"created {file}")
        done += _move_skills(directory / FOLDER / "skills", directory / ".claude" / "skills")
    except OSError as error:
        raise RalphError(f"{directory} cannot be set up: {error.strerror}: {error.filename}.") from error
    if kept.url:
        from ralph.formats.sync.location import working_copy_id

        done += joined + _note_store(directory, config.store, kept, is_given=bool(url))
        working_copy_id(store, directory)
        agree(directory, kept)
        return done
    path = Path(own_file(directory))
    if not path.exists() and _has_backups(directory):
        raise RalphError(_gone(path))
    if not path.exists():
        done.append(f"created {FOLDER}/{DATABASE}")
    create_store(str(path), directory.name or "project").close()
    return done


def _kept(directory: Path, before: StoreConfig, url: str, name: str, environment: Mapping[str, str]) -> StoreConfig:
    """Give where a project is to be kept: where it is asked for, or was before, or where RALPH_STORE says."""
    variable = environment.get(STORE_VARIABLE, "").strip()
    has_file = (directory / FOLDER / DATABASE).exists()
    chosen = url or before.url or (variable if name or not has_file else "")
    if name and not chosen:
        raise UsageError(f"Where is project {name!r} kept? Say it with --store URL, or set {STORE_VARIABLE}.")
    check_store_url(chosen)
    return StoreConfig(
        url=with_known_password(chosen, environment),
        project=name or before.project or directory.name or "project",
        direct_url=before.direct_url,
    )


def with_known_password(url: str, environment: Mapping[str, str] = os.environ) -> str:
    """Give a URL with the password that RALPH_STORE has for it, if it has one."""
    variable = environment.get(STORE_VARIABLE, "").strip()
    return variable if variable and strip_password(variable) == strip_password(url) else url


def _join(directory: Path, kept: StoreConfig, *, is_asked_for: bool) -> tuple[Store, list[str]]:
    """Make the project in a database that several share, or join it when it is asked for by its name.

    Gives its store, closed, and what was done.
    """
    from ralph.store.projects import ProjectStore

    name, where = kept.project, strip_password(kept.url)
    is_known_here = (directory / WORKING_COPY_PATH).exists()
    file = directory / FOLDER / DATABASE
    url = kept.url if is_postgres(kept.url) else str(directory / file_path(kept.url))
    database = open_database(url, direct_url=kept.direct_url, create=True)
    try:
        with database.transaction():
            known = ProjectStore(database).find(name)
            if known and not is_asked_for:
                raise UsageError(
                    f"There is already a project {name!r} in {where}. Join it with: ralph init --project {name}. "
                    "Or give this one a name of its own: ralph init --project NAME"
                )
            if not known and not is_known_here and database.is_server and file.exists():
                raise UsageError(
                    f"{file} holds this project. Take it along: ralph store copy . {where} --as {name}, "
                    f"then ralph init --store {where} --project {name}. Or move that file away to start anew."
                )
            store = Store(database, (known or ProjectStore(database).add(name)).id)
    finally:
        database.close()
    told = f"{'joined' if known else 'created'} project {name!r} in {where}"
    return store, [] if known and is_known_here else [told]


def _note_store(directory: Path, before: StoreConfig, kept: StoreConfig, *, is_given: bool) -> list[str]:
    """Write down where the project is kept, but never a password; say what was done."""
    done = []
    settings: dict[str, str] = {}
    if is_given:
        settings["url"] = strip_password(kept.url)
        if get_password(kept.url):
            done.append(
                f"note: the password was not written down; put it into {STORE_VARIABLE}, PGPASSWORD or ~/.pgpass"
            )
    if before.project != kept.project:
        settings["project"] = kept.project
    path = directory / TOML_NAME
    if settings:
        from ralph.core.config_file import set_toml_values

        try:
            text = set_toml_values(path.read_text(encoding="utf-8"), "store", settings)
            write_atomically(path.resolve(), text.encode())
        except (OSError, ValueError) as error:
            raise RalphError(f"{TOML_NAME} cannot be changed: {error}.") from error
        done.append(f"noted in {TOML_NAME}: store {', '.join(settings)}")
    ignore = directory / FOLDER / ".gitignore"
    if WORKING_COPY_FILE not in (lines := ignore.read_text(encoding="utf-8").splitlines()):
        write_atomically(ignore.resolve(), "\n".join([*lines, WORKING_COPY_FILE, ""]).encode())
    return done


def _move_skills(old: Path, new: Path) -> list[str]:
    """Move skills to where agents look for them; one that is there already is not replaced."""
    if not old.is_dir() or old.is_symlink():
        return []
    done = []
    for skill in sorted(old.iterdir()):
        target = new / skill.name
        if skill.is_symlink():
            done.append(f"left {FOLDER}/skills/{skill.name}: it is a link")
        elif target.exists():
            done.append(f"left {FOLDER}/skills/{skill.name}: .claude/skills/{skill.name} is there already")
        else:
            skill.rename(target)
            done.append(f"moved {FOLDER}/skills/{skill.name} to .claude/skills/{skill.name}")
    if not any(old.iterdir()):
        old.rmdir()
    return done
