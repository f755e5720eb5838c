"""Find what can be imported at a path: a file, or the files of a folder or a project."""

from __future__ import annotations

import os
from pathlib import Path

from ralph.errors import UsageError
from ralph.records import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

LARGEST = 64 * 1024 * 1024
"""What is larger is brought as a bundle, which is read line by line."""
LONGEST_LINE = 16 * 1024 * 1024
ENDINGS = (".md", ".json", ".jsonl", ".txt", ".csv", ".bak")
OF_A_PROJECT = (
    ".agent/memories.md",
    ".ralph/agent/memories.md",
    ".ralph/knowledge",
    ".aiwg/knowledge/ralph-learnings.json",
    ".aiwg/knowledge/staging.json",
    "progress.txt",
    "GUARDRAILS.md",
    ".ralph/guardrails.md",
)


@record
class SourceFile:
    """A file somebody wants imported; read when it is its turn."""

    name: str
    path: Path

    def text(self) -> str:
        """Give all of it; what is no UTF-8 is replaced."""
        try:
            with self.path.open("rb") as file:
                content = b"" if os.fstat(file.fileno()).st_size > LARGEST else file.read(LARGEST + 1)
                if file.read(1):
                    raise UsageError(f"{self.name} is larger than {LARGEST // 1024 // 1024} MB. Split it into several.")
            return content.decode("utf-8", "replace")
        except OSError as error:
            raise UsageError(f"{self.path} cannot be read: {error.strerror}.") from error

    def start(self) -> str:
        """Give its first characters."""
        try:
            with self.path.open("rb") as file:
                return file.read(1000).decode("utf-8", "replace")
        except OSError as error:
            raise UsageError(f"{self.path} cannot be read: {error.strerror}.") from error

    def lines(self) -> Iterator[str]:
        """Give its lines one by one, so that it may be of any size."""
        with self.path.open(encoding="utf-8", errors="replace", newline="\n") as file:
            while line := file.readline(LONGEST_LINE):
                if len(line) == LONGEST_LINE and not line.endswith("\n"):
                    raise UsageError(f"{self.name} has a line of more than {LONGEST_LINE:,} characters.")
                yield line


def sources(path: Path) -> list[SourceFile]:
    """Give the files to import, in order; raises when there are none."""
    if not path.is_dir():
        return [SourceFile(name=path.name, path=path)]
    found = [path / name for name in OF_A_PROJECT if (path / name).exists()]
    files = [one for place in found or [path] for one in (_files_in(place) if place.is_dir() else [place])]
    if not files:
        raise UsageError(f"{path} holds no file that could be imported ({', '.join(ENDINGS)}).")
    return [SourceFile(name=str(one.relative_to(path)), path=one) for one in files]


def _files_in(folder: Path) -> list[Path]:
    files = sorted(one for one in folder.iterdir() if one.is_file() and one.suffix in ENDINGS)
    # A backup stands in for its file; it is not imported next to it.
    return [one for one in files if one.suffix != ".bak" or one.with_suffix("") not in files]
