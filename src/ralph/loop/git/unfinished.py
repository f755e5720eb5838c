"""What a working tree holds that is not in a commit yet: what is left of an attempt that was cut off."""

from __future__ import annotations

from pathlib import Path

from ralph.core.git import query_git
from ralph.loop.git.commits import OWN_FILES
from ralph.loop.git.owner import OwnerFile


def unfinished_changes(directory: Path, base: str = "") -> tuple[str, ...]:
    """Return a line for each file that differs from a commit, by default the last one: "M src/app.py", "? notes.md".

    Left out are Ralph's own files and, as far as a run has noted them, those that others had changed before.
    """
    diff = query_git(directory, "diff", "--name-status", "--no-renames", "--relative", "-z", base or "HEAD", "--", ".")
    fields = (diff or "").split("\0")
    changed = [f"{status} {path}" for status, path in zip(fields[::2], fields[1::2], strict=False)]
    new = query_git(directory, "ls-files", "--others", "--exclude-standard", "-z", "--", ".") or ""
    found = [*changed, *(f"? {path}" for path in new.split("\0") if path)]
    foreign = _foreign_paths(directory) if found else frozenset()
    return tuple(line for line in found if not line[2:].startswith(OWN_FILES) and line[2:] not in foreign)


def _foreign_paths(directory: Path) -> frozenset[str]:
    """Return the paths, relative to the directory, that others had changed before the work in the tree."""
    git_directory, _, prefix = (
        query_git(directory, "rev-parse", "--absolute-git-dir", "--show-prefix") or ""
    ).partition("\n")
    owner = OwnerFile(Path(git_directory)).read() if git_directory else None
    return frozenset(path.removeprefix(prefix.strip("\n")) for path in owner.foreign) if owner else frozenset()
