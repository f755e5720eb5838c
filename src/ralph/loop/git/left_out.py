"""Work in a worktree that git leaves out of its commits, such as ignored files.

Dependencies, build output and caches can be made again and do not count.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from ralph.core.files import read_bytes_or_none
from ralph.loop.git.commits import REPOSITORY_MODE, is_inside
from ralph.loop.git.worktrees import made_commits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from ralph.loop.git.commits import TaskWorktree
    from ralph.loop.git.repository import Repository, WorktreeStatus

MAX_NAMED_FILES = 5
"""Maximum number of files that are explained one by one."""
MAX_FOUND_FILES = 1_000
"""Number of files after which the search stops."""

OUTPUT_DIRECTORIES = frozenset(
    "node_modules bower_components jspm_packages .pnpm-store .yarn .npm .venv venv env .tox .nox __pycache__ .eggs"
    " __pypackages__ site-packages .pytest_cache .mypy_cache .ruff_cache .hypothesis .ipynb_checkpoints htmlcov"
    " .nyc_output coverage target build dist out obj Debug Release .gradle .kotlin .m2 .bundle vendor Pods DerivedData"
    " .build .dart_tool .pub-cache .stack-work dist-newstyle _build deps .elixir_ls .next .nuxt .svelte-kit .astro"
    " .vite .turbo .nx .parcel-cache .angular .vercel .output .cache .ccache CMakeFiles .terraform .serverless tmp .tmp"
    " temp logs .idea .vscode .vs .git".split()
)
"""Names of directories that hold dependencies, build output or caches."""
MADE_BY_HAND_TOO = frozenset("vendor env tmp .tmp temp".split())
"""Those of them that may hold work, too: what a task leaves there counts if it has changed nothing else."""
_UNREADABLE = "\ufffd"
"""Stands in a path for a byte that is not UTF-8."""
OUTPUT_SUFFIXES = (
    *(".pyc", ".pyo", ".pyd", ".so", ".o", ".obj", ".a", ".lib", ".dll", ".dylib", ".exe", ".pdb", ".class", ".jar"),
    *(".war", ".whl", ".beam", ".hi", ".gcda", ".gcno", ".rlib", ".rmeta", ".wasm", ".map", ".tsbuildinfo", ".log"),
    *(".tmp", ".swp", ".bak", ".orig", ".rej", ".pid", ".lock", ".coverage", ".DS_Store", ".egg-link", "~"),
)
"""Ends of the names of files that programs make."""
_SECRET_NAME = re.compile(
    r"\.env(?:\..+)?|.+\.env|\.netrc|\.pgpass|\.htpasswd|id_(?:rsa|dsa|ecdsa|ed25519)|.+\.(?:pem|key|p12|pfx|jks|keystore)"
    r"|credentials(?:\.json)?|\.git-credentials|\.pypirc|secrets?\.(?:json|ya?ml|toml)|service[-_]account.*\.json",
    re.DOTALL,
)
"""Names of files that usually hold secrets."""
_EXAMPLE_PARTS = frozenset("example sample template dist test tests fixture public pub".split())
"""Parts of such names that stand for files without secrets."""


def find_left_out(
    repository: Repository, worktree: TaskWorktree, state: WorktreeStatus, excluded: Sequence[str]
) -> tuple[str, ...]:
    """Return a sentence for each file of a worktree that is in no commit and nowhere else.

    `state` is the status of the worktree with ignored files, `excluded` are paths that are never committed.
    """
    own = [
        f"{repository.relative_path(path)} is a file of Ralph and will not be merged."
        for path in state.changed
        if is_inside(path, excluded) and _is_work(worktree.root / path, repository.top / path)
    ]
    submodules = [
        f"{repository.relative_path(path)} {why} and will not be merged."
        for path, why in _changed_submodules(repository, worktree.root)
    ]
    hidden = [
        f"{repository.relative_path(path)} is marked as unchanged in git's index and will not be merged."
        for path in _changed_behind_flags(repository, worktree.root)
    ]
    is_empty = not state.changed and not made_commits(worktree.root)
    output = OUTPUT_DIRECTORIES - MADE_BY_HAND_TOO if is_empty else OUTPUT_DIRECTORIES
    ignored = _find_work(worktree.root, repository.top, state.ignored, output)
    return (*own, *submodules, *hidden, *_explain(repository, worktree.root, ignored))


def _index_entries(repository: Repository, top: Path) -> Iterator[tuple[str, list[str], str]]:
    """Yield tag, mode and blob, and path of every file in the index."""
    for entry in repository.run_git_checked(top, "ls-files", "-v", "--stage", "-z").split("\0"):
        fields, _, path = entry.partition("\t")
        tag, *stage = fields.split(" ")
        if path:
            yield tag, stage, path


def _changed_submodules(repository: Repository, top: Path) -> Iterator[tuple[str, str]]:
    """Yield nested repositories with uncommitted changes; git itself would run the programs that they configure."""
    for _, stage, path in _index_entries(repository, top):
        if stage[0] != REPOSITORY_MODE:
            continue
        if (top / path / ".git").exists():
            state = repository.status(top / path, "--untracked-files=normal")
            if state.changed or state.unmerged:
                yield path, "has changes that are not committed in it"
        elif any(names for _, _, names in os.walk(top / path)):
            # Git does not look into the directory of a submodule that is not checked out.
            yield path, "is a submodule that is not checked out; what is in its directory is in no commit"


def _changed_behind_flags(repository: Repository, top: Path) -> Iterator[str]:
    """Yield files whose changes git does not see: marked as assume-unchanged or skip-worktree."""
    for tag, stage, path in _index_entries(repository, top):
        if (tag.islower() or tag == "S") and (_UNREADABLE in path or _differs(top / path, stage[0], stage[1])):
            yield path


def _differs(path: Path, mode: str, blob: str) -> bool:
    """Return whether a file exists and is not what git has; built without git, which trusts its index."""
    try:
        content = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
        is_executable = path.is_symlink() or bool(path.stat().st_mode & 0o100)
    except OSError:
        return False
    digest = hashlib.new("sha1" if len(blob) == hashlib.sha1(usedforsecurity=False).digest_size * 2 else "sha256")
    digest.update(b"blob %d\0" % len(content) + content)
    return digest.hexdigest() != blob or (mode.startswith("100") and is_executable != (mode == "100755"))


def _find_work(top: Path, root: Path, ignored: Collection[str], output: Collection[str]) -> list[str]:
    """Return ignored files that are neither in directories for output nor in the person's own tree."""
    found: list[str] = []
    for path in ignored:
        for file in _files_in(top, path, output):
            if not is_output(file, output) and _is_only_here(top / file, root / file):
                found.append(file)
            if len(found) >= MAX_FOUND_FILES:
                return found
    return found


def _files_in(top: Path, path: str, output: Collection[str]) -> Iterator[str]:
    if not path.endswith("/") or _UNREADABLE in path:
        yield path
        return
    if is_output(path, output):
        return
    for folder, folders, names in os.walk(top / path):
        folders[:] = [name for name in folders if name not in output]
        yield from (os.path.relpath(f"{folder}/{name}", top) for name in names)


def is_output(path: str, output: Collection[str] = OUTPUT_DIRECTORIES) -> bool:
    """Return whether a file is a dependency, build output or a cache, by its path."""
    is_suffix = path.endswith(OUTPUT_SUFFIXES) or path.rstrip("/").endswith(".egg-info")
    return is_suffix or any(name in output for name in path.split("/"))


def is_own_repository(directory: Path) -> bool:
    """Return whether a directory is a nested repository or a linked worktree; a submodule belongs to its repository."""
    link = directory / ".git"
    return link.is_dir() or (link.is_file() and b"/modules/" not in (read_bytes_or_none(link) or b""))


def is_secret_file(path: str) -> bool:
    """Return whether a file is one that usually holds secrets, by its name."""
    name = path.rpartition("/")[2].lower()
    is_example = any(part in _EXAMPLE_PARTS for part in re.split(r"[._-]", name))
    return _SECRET_NAME.fullmatch(name) is not None and not is_example


def _is_work(path: Path, other: Path) -> bool:
    return os.path.lexists(path) and _is_only_here(path, other)


def _is_only_here(path: Path, other: Path) -> bool:
    try:
        size = path.lstat().st_size
        if path.is_symlink() or not path.is_file() or not size:
            return False
        return not other.is_file() or other.stat().st_size != size or read_bytes_or_none(other) != path.read_bytes()
    except OSError:
        return True


def _explain(repository: Repository, top: Path, files: list[str]) -> list[str]:
    """Return sentences that say which rule ignores a file."""
    if not files:
        return []
    named = [path.encode("utf-8", "replace").decode() for path in files[:MAX_NAMED_FILES]]
    paths = [f"./{path}" for path in files[:MAX_NAMED_FILES]]
    ran = repository.try_git(top, "check-ignore", "--verbose", "--non-matching", "--no-index", "--", *paths)
    rules = [re.match(r"(.+?):(\d+):", line) for line in ran.stdout.splitlines()]  # a line for each path
    sources = {path: f" by {rule[1]}:{rule[2]}" for path, rule in zip(named, rules, strict=False) if rule}
    sentences = [
        f"{repository.relative_path(path)} is ignored{sources.get(path, ' by git')} and will not be merged."
        for path in named
    ]
    more = len(files) - len(named)
    return [*sentences, f"{more} more ignored files will not be merged."] if more else sentences
