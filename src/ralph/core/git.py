"""Running git without the programs that a repository configures.

Git runs programs that the repository's own configuration names: hooks, filters, merge drivers and more. An agent can
write that configuration, and what git starts is not supervised. So these settings are overridden, except for those that
were there when a person started a run (`trust_git_programs`). The person's global configuration stays in force.
"""

from __future__ import annotations

import os
import subprocess
import threading
from functools import lru_cache

from ralph.core.environment import allowed_environment
from ralph.core.errors import GitError
from ralph.core.files import is_inside
from ralph.core.git_index import find_top, git_directory
from ralph.core.records import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import IO

GIT_TIMEOUT_SECONDS = 30.0
"""Default timeout, in seconds."""
CHUNK_BYTES = 64 * 1024
"""Maximum size of a chunk of streamed output, in bytes."""
MAX_GIT_ERROR_LENGTH = 500
"""Maximum length of a quoted git error, in bytes."""
_NO_PROGRAMS = (
    *("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"),
    # A directory that looks like a bare repository may be in any worktree.
    *("-c", "safe.bareRepository=explicit"),
)
_PROTOCOLS = "http:https:ssh"
"""Ways to fetch objects that a partial clone lacks. Of a remote's programs and proxies git takes the first that is set,
so they cannot be overridden; these protocols start none of them on this machine."""
_TEXT_MERGE = "git merge-file --marker-size=%L %A %O %B"
_NEUTRAL_VALUES = {
    "filter": {"clean": "", "smudge": "", "process": "", "required": "false"},
    "merge": {"driver": _TEXT_MERGE},
    "diff": {"command": "true", "external": "true", "textconv": "cat"},
    "core": {
        **{"sshcommand": "ssh", "askpass": "", "gitproxy": "none", "editor": ":", "pager": "cat"},
        **{"alternaterefscommand": "true"},
    },
    "credential": {"helper": ""},
    "gpg": {"program": "false", "defaultkeycommand": "false"},
    "hook": {"command": "true"},
    "remote": {"uploadpack": "git-upload-pack", "receivepack": "git-receive-pack", "vcs": ""},
    "sequence": {"editor": ":"},
    "trailer": {"command": "true", "cmd": "true"},
    "submodule": {"update": "checkout"},
    "gc": {"recentobjectshook": ""},
    "lfs": {"path": "", "args": "", "clean": "", "smudge": "", "standalonetransferagent": ""},
}
"""Values that run no program of the repository, by the first and the last part of a setting's name."""
_MARKS = (
    *(f"[{section}".encode() for section in (*_NEUTRAL_VALUES, "include") if section not in ("core", "remote")),
    *(name.encode() for section in ("core", "remote") for name in _NEUTRAL_VALUES[section]),
)
"""Texts without which a configuration names no program: git has no escapes in the names of sections and settings."""
REDIRECTING_VARIABLES = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_PREFIX",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
)
"""Variables set while git runs a hook; they would redirect git to another repository."""

process_start_lock = threading.Lock()
"""Held while a process is started, so that it is not taken for an agent's orphan before it is registered."""
running_git_pids: set[int] = set()
"""Ids of running git processes in all threads."""
stray_enders: list[Callable[[], None]] = []
"""The last one ends what programs of git have left in process groups of their own."""


_trusted: dict[str, frozenset[tuple[str, str]]] = {}
"""Programs that were configured when a run started, by the common git directory."""
_trusted_user: tuple[dict[str, bytes], frozenset[tuple[str, str]]] | None = None
"""Files of the person's own configuration when a run started, and its programs; None in a process without a run."""
_overrides: dict[tuple[str, bytes], tuple[tuple[str, str], ...]] = {}
"""Overriding settings by git directory and content of its configuration."""


@record
class GitResult:
    """Result of a git command."""

    exit_code: int
    """Exit code; -1 if git could not be started or timed out."""
    stdout: str = ""
    stderr: str = ""

    @property
    def ok(self) -> bool:
        """Whether the command succeeded."""
        return self.exit_code == 0


def run_git(
    directory: Path | str,
    *arguments: str,
    timeout_seconds: float = GIT_TIMEOUT_SECONDS,
    environment: Mapping[str, str] | None = None,
    errors: str = "replace",
    stdin: bytes | None = None,
    locks: Sequence[int] = (),
) -> GitResult:
    """Run git in a directory and return its result; `environment` is added to the variables it inherits.

    `locks` are descriptors of locked files: if this process is killed, they stay locked until git has ended.

    `errors` says what becomes of output that is not UTF-8; "surrogateescape" keeps its bytes.

    Ctrl+C does not reach it, so that a change it has begun is completed. Nothing it started survives the timeout.

    """
    variables = {**_inherited_variables(), **(environment or {})}
    _add_settings(variables, _overriding_settings(directory))
    return _run(directory, (*_NO_PROGRAMS, *arguments), timeout_seconds, variables, errors, stdin, locks)


def _inherited_variables() -> dict[str, str]:
    inherited = allowed_environment(variable_names=("GIT_CONFIG_*",)).items()
    kept = {name: value for name, value in inherited if name not in REDIRECTING_VARIABLES}
    # Replacements show other contents than those that are merged.
    fixed = {"GIT_TERMINAL_PROMPT": "0", "GIT_NO_REPLACE_OBJECTS": "1", "GIT_ALLOW_PROTOCOL": _PROTOCOLS, "LC_ALL": "C"}
    return {**kept, **fixed}


def _run(
    directory: Path | str,
    arguments: Sequence[str],
    timeout_seconds: float,
    variables: dict[str, str],
    errors: str = "replace",
    stdin: bytes | None = None,
    locks: Sequence[int] = (),
) -> GitResult:
    try:
        process = _start(directory, arguments, variables, subprocess.PIPE, has_input=stdin is not None, locks=locks)
    except OSError as error:
        return GitResult(exit_code=-1, stderr=f"git cannot be started: {error.strerror}")
    try:
        with process:
            try:
                out, error_output = process.communicate(stdin, timeout=timeout_seconds)
            except subprocess.TimeoutExpired:
                _kill(process)
                return GitResult(exit_code=-1, stderr=f"git took longer than {timeout_seconds:g} s")
            except BaseException:
                _kill(process)
                raise
    finally:
        running_git_pids.discard(process.pid)
    _kill(process)  # what a filter may have left running
    end_strays()
    return GitResult(
        exit_code=process.returncode,
        stdout=out.decode("utf-8", errors),
        stderr=error_output.decode("utf-8", "replace"),
    )


def _start(
    directory: Path | str,
    arguments: Sequence[str],
    variables: dict[str, str],
    stderr: int | IO[bytes],
    *,
    has_input: bool = False,
    locks: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    with process_start_lock:
        process = subprocess.Popen(
            [_git_program(os.fspath(directory), os.environ.get("PATH", os.defpath)), *arguments],
            cwd=directory,
            stdin=subprocess.PIPE if has_input else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            process_group=0,
            env=variables,
            pass_fds=locks,
        )
        running_git_pids.add(process.pid)
    return process


def stream_git(
    directory: Path | str, *arguments: str, environment: Mapping[str, str] | None = None
) -> Generator[bytes, None, None]:
    """Yield the output of a read-only git command in chunks; closing the generator kills git.

    Raise `GitError` if git fails.

    """
    from tempfile import TemporaryFile

    variables = {**_inherited_variables(), **(environment or {})}
    _add_settings(variables, _overriding_settings(directory))
    with TemporaryFile() as error_output:  # a pipe that nobody reads would block git
        try:
            process = _start(directory, (*_NO_PROGRAMS, "--no-optional-locks", *arguments), variables, error_output)
        except OSError as error:
            raise GitError(f"git cannot be started: {error.strerror}. Install git, then try again.") from None
        try:
            with process:
                try:
                    yield from iter(lambda: process.stdout.read1(CHUNK_BYTES), b"")  # type: ignore[union-attr]
                except BaseException:
                    _kill(process)
                    raise
        finally:
            running_git_pids.discard(process.pid)
        if process.returncode:
            error_output.seek(0)
            message = error_output.read(MAX_GIT_ERROR_LENGTH).decode("utf-8", "replace").strip()
            reason = message or f"it exited with {process.returncode}"
            raise GitError(f"git cannot read the repository: {reason}. Check it with: git fsck")


@lru_cache(256)
def _git_program(directory: str, path_variable: str) -> str:
    """Return the path of git; one inside the repository, such as in an activated environment, does not count."""
    found = find_git_directories(directory)
    tops = [os.path.dirname(one) for one in found] if found else []  # noqa: PTH120
    for folder in path_variable.split(os.pathsep):
        path = os.path.join(folder, "git")  # noqa: PTH118
        if os.path.isabs(folder) and os.access(path, os.X_OK) and not any(is_inside(folder, top) for top in tops):  # noqa: PTH117
            return path
    return "git"


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill git and the programs it started."""
    if not hasattr(os, "killpg"):  # Windows
        if process.poll() is None:
            process.kill()
        return
    import signal

    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def query_git(directory: Path | str, *arguments: str) -> str | None:
    """Return the output of a read-only git command, or None if it fails."""
    result = run_git(directory, "--no-optional-locks", *arguments)
    return result.stdout if result.ok else None


# --- programs of the repository ----------------------------------------------------------


def find_git_directories(directory: Path | str) -> tuple[str, str] | None:
    """Return the git directory and the common git directory of a working tree, or None; without running git."""
    top = find_top(os.path.abspath(directory))  # noqa: PTH100
    own = git_directory(top) if top else ""
    if not own:
        return None
    # Only worktrees have such a file, but git reads it anywhere.
    common = os.fsdecode(_read(f"{own}/commondir")).strip()
    return own, os.path.realpath(os.path.join(own, common))  # noqa: PTH118


def trust_git_programs(directory: Path | str) -> dict[str, str]:
    """Let git run the programs that the repository configures now, and return these settings.

    To be called when a person starts a run, before an agent works in the repository. What is added to the person's own
    configuration from then on does not count either: a session may have written it.
    """
    global _trusted_user
    found = find_git_directories(directory)
    if not found:
        return {}
    files = _read_user_config()
    names_any = may_name_programs(b"\0".join((_read_config(*found), *files.values())))
    programs, of_user = _configured_programs(directory) if names_any else ({}, {})
    _trusted[found[1]] = frozenset(programs.items())
    _trusted_user = files, frozenset(of_user.items())
    _overrides.clear()
    return programs


def end_strays() -> None:
    """End what programs that git may run have left behind: a session may have changed one that a person trusts."""
    may_run_any = any(_trusted.values()) or bool(_trusted_user and _trusted_user[1])
    if may_run_any and stray_enders:
        stray_enders[-1]()


def _overriding_settings(directory: Path | str) -> tuple[tuple[str, str], ...]:
    """Return settings that keep git from running programs which the repository configures."""
    found = find_git_directories(directory)
    if not found:
        return ()
    own, common = found
    content, of_user = _read_config(own, common), _changed_user_config()
    if not may_name_programs(content + of_user):
        return ()
    key = own, content + b"\0" + of_user
    known = _overrides.get(key)
    if known is None:
        programs, of_user_programs = _configured_programs(directory)
        trusted = _trusted.get(common, frozenset())
        trusted_user = _trusted_user[1] if of_user and _trusted_user else frozenset(of_user_programs.items())
        fallbacks = dict(trusted_user)
        known = tuple(
            (name, fallbacks.get(name, _neutral_value(name) or ""))
            for settings, accepted in ((of_user_programs, trusted_user), (programs, trusted))
            for name, value in settings.items()
            if (name, value) not in accepted and (settings is programs or name not in programs)
        )
        if b"[include" not in key[1].lower():  # another file may change
            _overrides[key] = known
    return known


def _read_config(own: str, common: str) -> bytes:
    """Return the configuration of a repository, given its git directory and the common one."""
    return b"\0".join(
        _read(path) for path in (f"{common}/config", f"{common}/config.worktree", f"{own}/config.worktree")
    )


def _read_user_config() -> dict[str, bytes]:
    return {path: _read(path) for path in user_config_paths()}


def _changed_user_config() -> bytes:
    """Return the person's own configuration if it was changed during a run, or else nothing."""
    if _trusted_user is None:
        return b""
    files = _read_user_config()
    is_changed = files.keys() == _trusted_user[0].keys() and files != _trusted_user[0]
    return b"\0".join(files.values()) if is_changed else b""


def find_submodules(git_directory: Path | str) -> Iterator[str]:
    """Yield the git directories of submodules."""
    for folder, folders, files in os.walk(f"{git_directory}/modules"):
        if "HEAD" in files:
            yield folder
            folders[:] = [name for name in folders if name == "modules"]


def may_name_programs(config: bytes) -> bool:
    """Return whether a configuration may name programs that git runs; without parsing it."""
    lowered = config.lower()
    return any(mark in lowered for mark in _MARKS)


def user_config_paths() -> list[str]:
    """Return the files of the person's own configuration, whether or not they exist."""
    if named := os.environ.get("GIT_CONFIG_GLOBAL"):
        return [named]
    home = os.path.expanduser("~")  # noqa: PTH111
    return [f"{home}/.gitconfig", f"{os.environ.get('XDG_CONFIG_HOME') or f'{home}/.config'}/git/config"]


def _configured_programs(directory: Path | str) -> tuple[dict[str, str], dict[str, str]]:
    """Return settings of the repository that name programs, and what the person's own configuration says instead."""
    listing = ("config", "--list", "--show-scope", "-z")
    ran = _run(directory, listing, GIT_TIMEOUT_SECONDS, _inherited_variables())
    fields = ran.stdout.split("\0")
    local: dict[str, str] = {}
    others: dict[str, str] = {}
    for scope, setting in zip(fields[::2], fields[1::2], strict=False):
        name, _, value = setting.partition("\n")
        if _neutral_value(name) is not None:
            (local if scope in ("local", "worktree") else others)[name] = value
    return local, others


def _neutral_value(name: str) -> str | None:
    section, _, rest = name.partition(".")
    return _NEUTRAL_VALUES.get(section, {}).get(rest.rpartition(".")[2])


def _add_settings(variables: dict[str, str], settings: Sequence[tuple[str, str]]) -> None:
    """Add settings to the environment of git: unlike an option, it takes names with any characters."""
    if not settings:
        return
    given = variables.get("GIT_CONFIG_COUNT", "")
    count = int(given) if given.isdecimal() else 0
    for number, (name, value) in enumerate(settings, count):
        variables[f"GIT_CONFIG_KEY_{number}"] = name
        variables[f"GIT_CONFIG_VALUE_{number}"] = value
    variables["GIT_CONFIG_COUNT"] = str(count + len(settings))


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return b""
