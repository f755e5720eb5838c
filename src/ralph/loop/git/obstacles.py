"""Files that are in the way of others: writing these would overwrite them."""

from __future__ import annotations

import os
from pathlib import PurePosixPath

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path


def find_obstacle(top: Path, written: Iterable[str], removed: Collection[str]) -> str:
    """Return a path that exists where a new file is to be written, or empty; also if git ignores it.

    `removed` are files that are deleted first.
    """
    gone = frozenset(removed)
    for path in written:
        for parent in PurePosixPath(path).parents:
            folder = top / parent
            if (folder.is_symlink() or folder.is_file()) and str(parent) not in gone:
                return str(parent)
        if path not in gone and (found := _find_file(top, path, gone)):
            return found
    return ""


def _find_file(top: Path, path: str, gone: Collection[str]) -> str:
    """Return the path itself if it is a file, or a file in it if it is a directory; empty if there is none."""
    target = top / path
    if target.is_symlink() or not target.is_dir():
        return path if os.path.lexists(target) else ""
    files = (os.path.relpath(f"{folder}/{name}", top) for folder, _, names in os.walk(target) for name in names)
    return next((file for file in files if file not in gone), "")
