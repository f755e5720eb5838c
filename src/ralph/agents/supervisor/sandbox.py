"""Confines agents and gates with bubblewrap (`bwrap`).

A confined program sees the system read-only, an empty home directory with the few folders that its tools and its login
need, private temporary directories, and no process but its own. It can write to the project, except to Ralph's data,
git's configuration and git's hooks.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import TYPE_CHECKING

from ralph.core.agents import AGENTS
from ralph.core.config import YAML_NAMES
from ralph.core.errors import AgentUnavailableError
from ralph.core.files import SANDBOX_VARIABLE
from ralph.core.git import find_git_directories, find_submodules, query_git
from ralph.core.records import record
from ralph.core.store_url import file_path, is_postgres
from ralph.core.trust_record import record_paths

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from ralph.core.config import Config

PROGRAM = "bwrap"
CHECK_SECONDS = 20.0
"""Time a trial start may take, in seconds."""
_NAMESPACES = (
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--die-with-parent"),
    *("--cap-drop", "ALL"),  # root could unmount what protects the project
)
_SYSTEM = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
_TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108 -- private ones take their place
_RUNTIME = "/run"
_NAME_SERVICE = ("/run/systemd/resolve", "/run/resolvconf", "/run/nscd", "/run/NetworkManager")
"""What name resolution needs of the runtime directory, whose sockets are hidden."""
_TOOLS = (
    *(".nvm", ".volta", ".asdf", ".pyenv", ".rbenv", ".bun", ".deno", ".sdkman", ".rustup", ".npm-global"),
    *(".cargo/bin", ".cargo/registry", ".cargo/config.toml", "go/bin", "go/pkg", ".local/bin", ".local/lib"),
    *(".local/share/mise", ".local/share/uv", ".local/share/pnpm", ".gitconfig", ".config/git/config"),
)
"""Toolchains in the home directory, which are readable."""
_CACHES = (".cache", ".npm")
"""Caches in the home directory, which are writable."""
_PROTECTED = (".ralph", ".ralph.toml", *YAML_NAMES)
"""What Ralph keeps in a project and reads from it."""
_PROTECTED_IN_GIT = ("hooks", "info", "ralph")
_PROTECTED_IN_WORKTREES = ("commondir", "gitdir", "config.worktree")
_PLACEHOLDERS = {"commondir": ".\n", "config.worktree": "", "objects/info/alternates": ""}
"""Files that lead git elsewhere, with a content that does not: only what exists can be protected by a mount."""
_SWITCHES = {
    "/proc/sys/kernel/unprivileged_userns_clone": (
        "0",
        "this system does not allow unprivileged user namespaces. To allow them:"
        " sysctl kernel.unprivileged_userns_clone=1",
    ),
    "/proc/sys/user/max_user_namespaces": (
        "0",
        "this system does not allow user namespaces. To allow them: sysctl user.max_user_namespaces=10000",
    ),
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": (
        "1",
        "AppArmor restricts user namespaces. Give bwrap an AppArmor profile with `userns`, or run:"
        " sysctl kernel.apparmor_restrict_unprivileged_userns=0",
    ),
}
"""System switches that keep bubblewrap from working, with the value that does and what to do."""


@record
class Sandbox:
    """What a confined program may reach besides the system."""

    root: str
    """Directory of the project, which is readable even if the program works in a worktree."""
    agent: str = ""
    """Agent whose login it needs; empty for gates."""
    has_network: bool = True
    is_read_only: bool = False
    """Whether it may not change the project."""
    database: str = ""
    """File of the database, if it is not where Ralph puts it."""
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()

    def command(self, program: Path, argv: Sequence[str], directory: Path, environment: Mapping[str, str]) -> list[str]:
        """Return the command that runs a program in a directory, confined."""
        mounts = _Mounts(os.path.realpath(environment.get("HOME") or "/nonexistent"))
        mounts.hide(*_TEMPORARY, _RUNTIME, mounts.home)
        mounts.show("--ro-bind-try", _NAME_SERVICE)
        mounts.show("--ro-bind-try", mounts.in_home((*_TOOLS, *self.readable)))
        mounts.show("--ro-bind-try", mounts.filter_programs(_program_paths(program, environment)))
        mounts.show("--bind-try", mounts.in_home((*_CACHES, *self._login_paths(environment), *self.writable)))
        mounts.show("--ro-bind-try", mounts.in_home(self._login_settings()))
        mounts.cover(_state_directories(os.environ, environment))
        mounts.show("--ro-bind-try", record_paths(self.root))
        mounts.show_project(self, os.path.realpath(directory))
        mounts.protect_database(self, os.path.realpath(directory))
        network = () if self.has_network else ("--unshare-net",)
        variables = ("--setenv", "TMPDIR", _TEMPORARY[0], "--setenv", SANDBOX_VARIABLE, "1")
        place = (*variables, "--chdir", os.path.realpath(directory))
        return [PROGRAM, *_NAMESPACES, *network, *_SYSTEM, *mounts.options, *place, "--", str(program), *argv[1:]]

    def _login_paths(self, environment: Mapping[str, str]) -> tuple[str, ...]:
        spec = AGENTS.get(self.agent)
        return () if spec is None else (*spec.login_paths, *filter(None, map(environment.get, spec.login_variables)))

    def _login_settings(self) -> tuple[str, ...]:
        spec = AGENTS.get(self.agent)
        return spec.settings_paths if spec else ()


class _Mounts:
    """Mount options of bubblewrap, in order: a later one covers an earlier one."""

    def __init__(self, home: str) -> None:
        self.home = home
        self.options: list[str] = []
        self._hidden: list[str] = []

    def hide(self, *paths: str) -> None:
        """Hide directories, of which some may be shown again."""
        self._hidden += [path for path in paths if path != "/" and os.path.isdir(path)]  # noqa: PTH112
        self.cover(self._hidden)

    def cover(self, paths: Iterable[str]) -> None:
        """Put empty directories in the place of those that exist."""
        for path in dict.fromkeys(paths):
            if os.path.isdir(path):  # noqa: PTH112
                self.options += ("--tmpfs", path)

    def filter_programs(self, paths: Iterable[str]) -> list[str]:
        """Return the paths that are in a hidden directory, without those that would show all of it.

        What is in another one of them is left out: bubblewrap cannot mount over an absolute symlink in a directory.
        """
        found = {path: os.path.realpath(path) for path in paths}
        shown = [path for path, real in found.items() if self._is_hidden(path) and not self._uncovers(path, real)]
        return [path for path in shown if not any(path != other and is_within(path, other) for other in shown)]

    def _is_hidden(self, path: str) -> bool:
        return any(is_within(path, hidden) for hidden in self._hidden)

    def _uncovers(self, *paths: str) -> bool:
        return any(is_within(hidden, path) for hidden in self._hidden for path in paths)

    def in_home(self, paths: Iterable[str]) -> list[str]:
        """Return paths relative to the home directory, or starting with `~`, as absolute ones."""
        return [os.path.join(self.home, path.removeprefix("~/")) for path in paths]  # noqa: PTH118

    def show(self, option: str, paths: Iterable[str]) -> None:
        """Make paths visible that exist."""
        for path in dict.fromkeys(paths):
            if os.path.exists(path):  # noqa: PTH110
                self.options += (option, os.path.realpath(path), path)

    def show_project(self, sandbox: Sandbox, directory: str) -> None:
        """Make the project visible, and writable as far as it may be changed."""
        option = "--ro-bind" if sandbox.is_read_only else "--bind"
        root = os.path.realpath(sandbox.root)
        if root != directory:
            self.show("--ro-bind", [root])
        self.show(option, [directory])
        git = git_directory(root)
        if git:
            # A mount of its own, because a directory that is none could be moved away with what is protected in it.
            self.show(option, [git])
        if sandbox.is_read_only:
            return
        self.show("--ro-bind", [f"{directory}/{name}" for name in _PROTECTED])
        if git and os.path.isfile(f"{directory}/.git"):  # noqa: PTH113
            self.show("--ro-bind", [f"{directory}/.git"])
        if git:
            self._protect_git(git)
            self._protect_worktrees(f"{git}/worktrees", directory)
            self.show(
                "--ro-bind-try", [f"{one}/{name}" for one in find_submodules(git) for name in ("config", "hooks")]
            )

    def protect_database(self, sandbox: Sandbox, directory: str) -> None:
        """Make the directory of the database read-only, with the files next to it, where it would be writable."""
        folder = os.path.dirname(os.path.realpath(sandbox.database)) if sandbox.database else ""  # noqa: PTH120
        for top in map(os.path.realpath, (directory, *self.in_home((*_CACHES, *sandbox.writable)))):
            if folder and is_within(folder, top) and not sandbox.is_read_only:
                self.show("--bind", _folders_between(top, folder))  # which cannot be moved then
                self.show("--ro-bind", [folder])

    def _protect_git(self, git: str) -> None:
        _place_files(git)
        self.show("--bind", [f"{git}/objects", f"{git}/objects/info"])  # which cannot be moved then
        self.show("--ro-bind", [f"{git}/{name}" for name in ("config", *_PLACEHOLDERS)])
        for path in (f"{git}/{name}" for name in _PROTECTED_IN_GIT):
            self.options += ("--ro-bind", path, path) if os.path.isdir(path) else ("--tmpfs", path)  # noqa: PTH112

    def _protect_worktrees(self, folder: str, directory: str) -> None:
        """Protect what says where worktrees belong; a program in one of them cannot change the others."""
        found = find_git_directories(directory)
        own = os.path.realpath(found[0]) if found else ""
        if os.path.dirname(own) == folder:  # noqa: PTH120
            self.show("--ro-bind", [folder])
            worktrees = [own]
        else:
            self.show("--bind", [folder])
            worktrees = [entry.path for entry in os.scandir(folder)] if os.path.isdir(folder) else []  # noqa: PTH112
        for path in worktrees:
            _place_empty(f"{path}/config.worktree")
        self.show("--bind-try", worktrees)  # others may be removed meanwhile
        self.show("--ro-bind-try", [f"{path}/{name}" for path in worktrees for name in _PROTECTED_IN_WORKTREES])


def _folders_between(top: str, folder: str) -> list[str]:
    """Return the directories below one and above another, from the top."""
    names = os.path.relpath(folder, top).split("/")[:-1]
    return [os.path.join(top, *names[: n + 1]) for n in range(len(names))]  # noqa: PTH118


def _place_files(git: str) -> None:
    """Create the files that a mount protects. They stay: removing them would end the protection in other sandboxes."""
    import tempfile
    from contextlib import suppress

    for name, text in _PLACEHOLDERS.items():
        path = f"{git}/{name}"
        if os.path.lexists(path):
            continue
        os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
        with tempfile.NamedTemporaryFile("w", dir=os.path.dirname(path)) as file, suppress(FileExistsError):  # noqa: PTH120
            file.write(text)
            file.flush()
            os.fchmod(file.fileno(), 0o644)
            os.link(file.name, path)  # git must not see it empty


def _place_empty(path: str) -> None:
    """Create an empty file that a mount protects, unless there is one or its directory was removed meanwhile."""
    from contextlib import suppress

    with suppress(OSError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))


def sandbox_of(config: Config, root: Path | str, *, agent: str = "", is_read_only: bool = False) -> Sandbox | None:
    """Return the configured sandbox, or None if there is none."""
    settings = config.agent
    if not settings.sandbox:
        return None
    return Sandbox(
        root=os.fspath(root),
        agent=agent,
        has_network=settings.sandbox_network,
        is_read_only=is_read_only,
        database=_database(config, os.fspath(root)),
        readable=settings.sandbox_read,
        writable=settings.sandbox_write,
    )


def _database(config: Config, root: str) -> str:
    url = config.store.url
    return os.path.join(os.path.realpath(root), file_path(url)) if url and not is_postgres(url) else ""  # noqa: PTH118


def _is_replaceable(database: str, root: str) -> bool:
    """Return whether a program that can write to a project could put another database into the place of its own."""
    path = os.path.normpath(database) if database else ""
    return bool(path) and is_within(path, root) and (os.path.dirname(path) == root or os.path.realpath(path) != path)  # noqa: PTH120


def prepare_sandbox(config: Config, root: Path | str) -> None:
    """Check the sandbox, and put into the git directory what it protects, before a session can change what it is."""
    check_sandbox(config, root)
    if config.agent.sandbox and (git := git_directory(os.path.realpath(root))):
        try:
            _place_files(git)
        except OSError as error:
            raise _unavailable(f"{git} cannot be protected ({error}). Make it writable") from error


def check_sandbox(config: Config, root: Path | str) -> None:
    """Raise `AgentUnavailableError` if a sandbox is configured that does not work here."""
    if not config.agent.sandbox:
        return
    if AGENTS[config.agent.name].module == "rehearsal":
        problem = "the rehearsal agent is part of Ralph and cannot be confined. Choose another agent"
    elif is_within(os.path.expanduser("~"), root := os.path.realpath(root)):  # noqa: PTH111
        problem = f"{root} contains your home directory. Move the project into a directory of its own"
    elif _is_replaceable(database := _database(config, root), root):
        problem = (
            f"{database} is right in the project, or behind a link. Move it to a directory and set store.url to it"
        )
    else:
        problem = sandbox_problem()
    if problem:
        raise _unavailable(problem)


def _unavailable(problem: str) -> AgentUnavailableError:
    off = 'or run without a sandbox: remove sandbox = "bubblewrap" from .ralph.toml'
    return AgentUnavailableError(f"The sandbox cannot be used: {problem}; {off}.", code="sandbox-unavailable")


def sandbox_problem() -> str:
    """Return why bubblewrap does not work on this machine; empty if it does."""
    import shutil
    import subprocess

    program = shutil.which(PROGRAM)
    if not program:
        return "bubblewrap is not installed. On Debian or Ubuntu: apt install bubblewrap"
    try:
        ended = subprocess.run(
            [program, *_NAMESPACES, *_SYSTEM, "--", "true"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=CHECK_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap cannot be started: {error}"
    return "" if ended.returncode == 0 else _explain(ended.stderr.strip())


def _explain(stderr: str) -> str:
    for path, (value, explanation) in _SWITCHES.items():
        try:
            with open(path, encoding="ascii") as file:  # noqa: PTH123
                is_set = file.read().strip() == value
        except OSError:
            continue
        if is_set:
            return explanation
    last = stderr.rpartition("\n")[2].removeprefix("bwrap: ").rstrip(".")
    return f"bubblewrap does not work here ({last}). In a container, allow user namespaces"


@cache
def git_directory(root: str) -> str:
    """Return the git directory that all worktrees of a project share; empty if it has none.

    It is looked up once, because a session could point the project to another one.
    """
    found = query_git(root, "rev-parse", "--path-format=absolute", "--git-common-dir")
    return os.path.realpath(found.strip()) if found else ""


def is_within(path: str, directory: str) -> bool:
    """Return whether a real path is a directory or inside it."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def _state_directories(*environments: Mapping[str, str]) -> Iterator[str]:
    """Yield the directories of Ralph's tokens and trust records: its own, and that of the program."""
    for environment in environments:
        state = environment.get("XDG_STATE_HOME") or f"{environment.get('HOME', '')}/.local/state"
        yield os.path.realpath(f"{state}/ralph")


def _program_paths(program: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield what programs are loaded from: the directories of the PATH, Python and Ralph, and the program itself."""
    import ralph

    search_path = filter(os.path.isabs, environment.get("PATH", "").split(os.pathsep))
    for folder in (*search_path, str(program.parent), os.path.dirname(os.path.realpath(program))):  # noqa: PTH120
        yield folder
        parent = os.path.dirname(os.path.realpath(folder))  # noqa: PTH120
        # Of a prefix with its libraries, but not of ~/.local, where desktop programs keep their data.
        if os.path.isdir(f"{parent}/lib") and not parent.endswith("/.local"):  # noqa: PTH112
            yield parent
    package = os.path.dirname(os.path.realpath(ralph.__file__))  # noqa: PTH120
    yield from (sys.prefix, sys.base_prefix, os.path.dirname(package))  # noqa: PTH120
    yield from (str(program), os.path.realpath(program))  # its directory may be one that stays hidden
