"""Keep a working tree as it is while somebody looks at it who should change nothing.

Git holds the state of before, also of files it does not follow yet; what it is told
to ignore is not kept. What was taken back stays under refs/ralph/taken-back, and commits in
the reflog. Without git nothing can be taken back.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ralph.files import content_of
from ralph.git import ask_git, run_git
from ralph.records import record

if TYPE_CHECKING:
    from typing import Self

SNAPSHOT_SECONDS = 120.0
AT_ONCE = 200
SOME_LEFT_OUT = 1
"""How git ends that could not read a file, or found a repository without a commit."""
_OURS = (".ralph", ".agent")
_US = ("-c", "user.name=Ralph", "-c", "user.email=ralph@localhost")
KEPT = "refs/ralph/taken-back"


@record
class _State:
    """What git says of a repository at one moment."""

    tree: str
    """Of everything there is; empty when git could not say."""
    branch: str
    """Empty when none is checked out."""
    commit: str
    """Empty when there is none yet."""


class Frozen:
    """A working tree whose changes inside the block are taken back at its end."""

    def __init__(self, directory: Path, *, takes_back: bool = True) -> None:
        """Without `takes_back` nothing is: somebody else works there too."""
        top = ask_git(directory, "rev-parse", "--show-toplevel")
        prefix = (ask_git(directory, "rev-parse", "--show-prefix") or "").strip("\n")
        self._top = Path(top.strip("\n")) if top and takes_back else None
        self._files = (".", *(f":(exclude,top,literal){prefix}{name}" for name in _OURS))
        self._before = _State(tree="", branch="", commit="")
        self._index: bytes | None = None
        self._rules: dict[Path, bytes | None] = {}
        """What decides which files git looks at."""
        self.taken_back: tuple[str, ...] = ()
        """The files that were changed all the same, and HEAD if that was moved."""
        self.kept_as = ""
        """Where git has what was taken back: it may have been a person who wrote it."""

    def __enter__(self) -> Self:
        if self._top:
            self._index = content_of(_index_of(self._top))
            self._before = self._state(self._top)
            self._rules = {path: content_of(path) for path in _rules_of(self._top)}
        return self

    def __exit__(self, *_: object) -> None:
        if not self._top or not self._before.tree:
            return
        meddled = self._put_back_rules()
        after = self._state(self._top)
        if not after.tree:
            self.taken_back = ("what git cannot tell any more",)
            return
        if after.tree != self._before.tree:
            self.kept_as = self._keep(self._top, after.tree)
            self.taken_back = self._restore(self._top, after.tree)
        if (after.branch, after.commit) != (self._before.branch, self._before.commit):
            self._go_back(self._top)
            self.taken_back += ("HEAD",)
        index = _index_of(self._top)
        if self._index is not None and content_of(index) != self._index:
            index.write_bytes(self._index)
        self.taken_back += meddled

    def _put_back_rules(self) -> tuple[str, ...]:
        """Put back what decides which files git looks at, or a change could hide; give what was changed of it."""
        changed = [path for path, before in self._rules.items() if content_of(path) != before]
        for path in changed:
            before = self._rules[path]
            try:
                path.unlink(missing_ok=True) if before is None else path.write_bytes(before)
            except OSError:
                continue  # then git can tell nothing, which is told
        return tuple(f".git/{path.name}" for path in changed)

    def _state(self, top: Path) -> _State:
        branch = ask_git(top, "symbolic-ref", "-q", "HEAD") or ""
        commit = ask_git(top, "rev-parse", "-q", "--verify", "HEAD") or ""
        return _State(tree=self._tree(top), branch=branch.strip(), commit=commit.strip())

    def _tree(self, top: Path) -> str:
        """Give the id of a tree of everything there is, made beside the index that people use."""
        with tempfile.TemporaryDirectory(prefix="ralph-") as folder:
            copy = {"GIT_INDEX_FILE": f"{folder}/index"}
            if self._index is not None:  # that of before: a later one may say that files need no looking at
                Path(copy["GIT_INDEX_FILE"]).write_bytes(self._index)
            add = ("add", "-A", "--ignore-errors", "--", *self._files)
            added = run_git(top, *add, seconds=SNAPSHOT_SECONDS, environment=copy)
            written = run_git(top, "write-tree", environment=copy)
        return written.out.strip() if added.code in (0, SOME_LEFT_OUT) and written.ok else ""

    def _keep(self, top: Path, after: str) -> str:
        """Keep a tree under a name of its own; give the name."""
        made = run_git(top, *_US, "commit-tree", after, "-m", "Taken back after a verification")
        name = f"{KEPT}/{made.out.strip()[:12]}"
        return name if made.ok and run_git(top, "update-ref", name, made.out.strip()).ok else ""

    def _restore(self, top: Path, after: str) -> tuple[str, ...]:
        told = ask_git(top, "diff", "--name-status", "--no-renames", "-z", self._before.tree, after) or ""
        fields = told.split("\0")
        changes = list(zip(fields[::2], fields[1::2], strict=False))
        for status, path in changes:
            if status == "A":
                _remove(top / path)
        changed = [path for status, path in changes if status != "A"]
        with tempfile.TemporaryDirectory(prefix="ralph-") as folder:
            copy = {"GIT_INDEX_FILE": f"{folder}/index"}
            run_git(top, "read-tree", self._before.tree, environment=copy)
            for start in range(0, len(changed), AT_ONCE):
                run_git(top, "checkout-index", "-f", "--", *changed[start : start + AT_ONCE], environment=copy)
        return tuple(path for _, path in changes)

    def _go_back(self, top: Path) -> None:
        """Let HEAD be where it was; the files are there already."""
        before, why = self._before, ("-m", "ralph: taken back after a verification")
        if before.branch:
            run_git(top, "symbolic-ref", *why, "HEAD", before.branch)
        if before.commit:
            run_git(top, "update-ref", *why, *([] if before.branch else ["--no-deref"]), "HEAD", before.commit)
        elif before.branch:
            run_git(top, "update-ref", "-d", before.branch)


def _index_of(top: Path) -> Path:
    return top / (ask_git(top, "rev-parse", "--git-path", "index") or "").strip("\n")


def _rules_of(top: Path) -> list[Path]:
    # The settings of a repository with several trees are everybody's.
    own = ("config",) if (top / ".git").is_dir() else ()
    asked = (*own, "info/exclude", "info/attributes")
    return [top / (ask_git(top, "rev-parse", "--git-path", name) or "").strip("\n") for name in asked]


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():  # a repository inside of this one
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
