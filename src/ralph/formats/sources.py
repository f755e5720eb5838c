"""Files that can be imported from a path: a file, a directory or a project."""

from __future__ import annotations

import os
from pathlib import Path

from ralph.core.errors import UsageError
from ralph.core.files import is_inside
from ralph.core.records import record
from ralph.formats.registry import FORMATS, import_extensions, project_paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAX_IMPORT_BYTES = 64 * 1024 * 1024
"""Maximum size of a file in bytes, except for bundles, which are read line by line."""
MAX_LINE_CHARS = 16 * 1024 * 1024
"""Maximum length of a line in characters, for files that are read line by line."""
BACKUP_EXTENSION = ".bak"


@record
class SourceFile:
    """A file to import; it is not read before its turn."""

    name: str
    path: Path

    def text(self) -> str:
        """Return the whole text, with invalid UTF-8 replaced."""
        try:
            with self.path.open("rb") as file:
                content = b"" if os.fstat(file.fileno()).st_size > MAX_IMPORT_BYTES else file.read(MAX_IMPORT_BYTES + 1)
                if file.read(1):
                    raise UsageError(
                        f"{self.name} is larger than {MAX_IMPORT_BYTES // 2**20} MB. Split it into smaller files."
                    )
            return content.decode("utf-8", "replace")
        except OSError as error:
            raise UsageError(f"Cannot read {self.path}: {error.strerror}.") from error

    def backup(self) -> SourceFile | None:
        """Return the backup next to the file, or None if there is none."""
        name = self.path.name + BACKUP_EXTENSION
        path = self.path.with_name(name)
        return SourceFile(name=name, path=path) if path.is_file() and is_inside(path, path.parent) else None

    def start(self) -> str:
        """Return the first characters."""
        try:
            with self.path.open("rb") as file:
                return file.read(1000).decode("utf-8", "replace")
        except OSError as error:
            raise UsageError(f"Cannot read {self.path}: {error.strerror}.") from error

    def lines(self) -> Iterator[str]:
        """Yield the lines, without loading the whole file."""
        with self.path.open(encoding="utf-8", errors="replace", newline="\n") as file:
            while line := file.readline(MAX_LINE_CHARS):
                if len(line) == MAX_LINE_CHARS and not line.endswith("\n"):
                    raise UsageError(f"{self.name} has a line with more than {MAX_LINE_CHARS:,} characters.")
                yield line


def find_sources(path: Path) -> list[SourceFile]:
    """Return the files to import, in order; raise `UsageError` if there are none.

    A directory may come from somebody else, so symlinks that lead out of it are refused.
    """
    if not path.is_dir():
        return [SourceFile(name=path.name, path=path)]
    existing = [path / name for name in project_paths() if (path / name).exists()]
    found = [file for source in existing or [path] for file in (_list_files(source) if source.is_dir() else [source])]
    files = [file for file in found if file.is_file()]
    if not files:
        raise UsageError(f"No files to import in {path}. Supported are {', '.join(import_extensions())}.")
    for file in files:
        if not is_inside(file, path):
            raise UsageError(
                f"{file} is a symlink that points outside {path}. Remove it, or import what it points to by its name.",
                code="outside-link",
            )
    return [SourceFile(name=str(file.relative_to(path)), path=file) for file in files]


def find_foreign(root: str, home: str, environ: Mapping[str, str]) -> list[str]:
    """Return the files in which other programs keep what they know of a project, without reading them.

    They are in the project, or in the home directory unless it is empty.
    """
    from ralph.formats.claude_mem import database_path

    formats = [format for format in FORMATS.values() if format.content == "project"]
    paths = [f"{root}/{path}" for format in formats for path in format.project_paths]
    paths = [path for path in paths if is_inside(path, root)]
    paths += [database_path(home, environ)] if home else []
    return [path for path in paths if os.path.isfile(path)]  # noqa: PTH113


def _list_files(folder: Path) -> list[Path]:
    extensions = (*import_extensions(), BACKUP_EXTENSION)
    files = sorted(file for file in folder.iterdir() if file.is_file() and file.suffix in extensions)
    # A backup is imported only if its file is missing.
    return [file for file in files if file.suffix != BACKUP_EXTENSION or file.with_suffix("") not in files]
