"""Where the memory files of a project are, and whether they have changed; `formats/sync/` reads and writes them.

`ralph status` asks this, so nothing that takes long to import is needed.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    FileStats = dict[str, tuple[int, int]]
    """Size in bytes and modification time in nanoseconds of each file, by path."""

MEMORIES_PATH = ".agent/memories.md"
OLD_MEMORIES_PATH = ".ralph/agent/memories.md"
KNOWLEDGE_DIR = ".ralph/knowledge/"


def is_memory_file(path: str) -> bool:
    """Return whether a relative path is that of a memory file, which Ralph writes while sessions run."""
    return path in (MEMORIES_PATH, OLD_MEMORIES_PATH) or path.startswith(KNOWLEDGE_DIR)


def memories_path(root: Path | str) -> str:
    """Return the relative path of the markdown memories, whether or not the file exists."""
    if not os.path.lexists(f"{root}/{MEMORIES_PATH}") and os.path.lexists(f"{root}/{OLD_MEMORIES_PATH}"):
        return OLD_MEMORIES_PATH
    return MEMORIES_PATH


def stat_file(root: str, path: str) -> tuple[int, int] | None:
    """Return the size and modification time of a file, or None if it does not exist."""
    try:
        found = os.stat(os.path.join(root, path))  # noqa: PTH116, PTH118
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def stat_files(root: str, memories: str = "") -> FileStats:
    """Return the memory files; `memories` is the path of the markdown memories, if it is known."""
    found: FileStats = {}
    try:
        with os.scandir(os.path.join(root, KNOWLEDGE_DIR)) as entries:  # noqa: PTH118
            for entry in entries:
                if entry.name.endswith(".md") and not entry.name.startswith("."):
                    stat = entry.stat()
                    found[KNOWLEDGE_DIR + entry.name] = stat.st_size, stat.st_mtime_ns
    except OSError:
        pass  # missing, or unreadable, which the sync reports
    memories = memories or memories_path(root)
    if size := stat_file(root, memories):
        found[memories] = size
    return found


def fingerprint(files: Mapping[str, tuple[int, int]], layout: str = "") -> str:
    """Return a fingerprint of files and of what is stored about their layout; empty if there are none."""
    if not files:
        return ""
    import zlib

    text = "".join(f"{path}:{size}:{date}\n" for path, (size, date) in sorted(files.items())).encode()
    text += layout.encode()
    return f"{len(files)}-{zlib.crc32(text):08x}-{zlib.adler32(text):08x}"
