"""What all readers of transcripts share: their records, their interface and the search for files."""

# The search for transcripts works with strings, as the agents record them.
# ruff: noqa: PTH118

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence

from ralph.core.records import Turn, record, timestamp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol
else:
    Protocol = object  # importing typing takes milliseconds, and hooks load this module


@record
class Transcript:
    """One session as an agent recorded it."""

    agent: str
    session: str
    """Id of the session; of a subagent, the id of its parent, a slash and its own."""
    path: str
    directory: str
    """Working directory in which the session started."""
    root: str = ""
    """The searched directory which contains it; files of turns are relative to it, or to `directory` if empty."""
    size: int = 0
    """Bytes of the file; of a database, number of records of the session."""
    modified_at: str = ""
    started_at: str = ""
    """Time of the first record; empty if it has none."""
    is_subagent: bool = False
    identity: str = ""
    """What stays the same while it grows; empty if that is the beginning of the file."""


@record
class TranscriptProblem:
    """A part of a transcript, or a whole one, that could not be read and was skipped."""

    path: str
    offset: int
    reason: str


@record
class FileCount:
    """How many transcripts there are, as far as the names of files and folders tell."""

    count: int
    """Number of sessions; negative if they are in a file that would have to be read."""
    is_exact: bool = True
    """Whether all of them are of the directories that were asked for; otherwise there may be fewer."""


Report = Callable[[TranscriptProblem], None]
"""Called with each problem; `list.append` collects them."""


class TranscriptReader(Protocol):
    """Reads the transcripts of one agent. Never raises because of what a file contains, and never writes."""

    name: str
    """Name of the agent, as in `ralph.core.agents`."""
    title: str
    """Name of the agent for people."""
    is_in_project: bool
    """Whether its transcripts are files of the project, so that nobody has to agree that they are read."""

    def count(self, home: str, environ: Mapping[str, str], directories: Sequence[str]) -> FileCount:
        """Return the number of sessions of the directories by the names of files alone: nobody has to agree to it."""

    def find(
        self, home: str, environ: Mapping[str, str], directories: Sequence[str], report: Report
    ) -> Iterator[Transcript]:
        """Yield the transcripts of sessions that started in or below one of the directories, oldest first."""

    def open_file(
        self, path: str, status: os.stat_result, directories: Sequence[str], report: Report
    ) -> Iterator[Transcript]:
        """Yield the sessions in a file that a person has named, those of other directories without a `root`."""

    def directory(self, path: str) -> str:
        """Return the working directory in which a session started, by its transcript; empty if that does not tell."""

    def turns(self, transcript: Transcript, report: Report, offset: int = 0) -> Iterator[Turn]:
        """Yield what was said from an offset on; stop before a record that is not completely written."""


def containing_directory(directory: str, directories: Sequence[str]) -> str:
    """Return the innermost of the directories that is or contains a directory, or an empty string."""
    if not directory:
        return ""
    for place in dict.fromkeys((directory, os.path.realpath(directory) if "\0" not in directory else "")):
        found = [one for one in directories if place == one or place.startswith(one.rstrip("/") + "/")]
        if found:
            return max(found, key=len)
    return ""


def oldest_first(transcripts: list[Transcript]) -> list[Transcript]:
    """Return transcripts, each once, so that one comes before those which copied its history."""
    single = {(one.path, one.session): one for one in transcripts}.values()
    return sorted(single, key=lambda one: (one.started_at or one.modified_at, one.modified_at, one.path))


class DataFolder:
    """The folder of an agent's data, which no symbolic link leads out of."""

    def __init__(self, path: str, report: Report) -> None:
        self.root = os.path.realpath(path) if "\0" not in path else ""
        self.report = report

    def entries(self, *parts: str) -> list[os.DirEntry[str]]:
        """Return the entries of a folder by name; none if it does not exist or is a link to elsewhere."""
        folder = os.path.join(self.root, *parts)
        if not self.root or not self._is_inside(folder):
            return []
        try:
            with os.scandir(folder) as found:
                return sorted(found, key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            self.problem(folder, os_reason(error))
            return []

    def folders(self, *parts: str) -> list[str]:
        """Return the names of the folders in a folder."""
        return [entry.name for entry in self.entries(*parts) if _is_folder(entry) and self._is_own(entry)]

    def files(self, *parts: str, suffix: str) -> Iterator[tuple[str, os.stat_result]]:
        """Yield path and status of the regular files in a folder whose names end with a suffix."""
        for entry in self.entries(*parts):
            if not entry.name.endswith(suffix) or not self._is_own(entry):
                continue
            try:
                status = entry.stat()
            except OSError as error:
                self.problem(entry.path, os_reason(error))
                continue
            if stat.S_ISREG(status.st_mode):
                yield os.path.realpath(entry.path), status

    def problem(self, path: str, reason: str, offset: int = 0) -> None:
        """Report a problem."""
        self.report(TranscriptProblem(path=path, offset=offset, reason=reason))

    def _is_own(self, entry: os.DirEntry[str]) -> bool:
        return not entry.is_symlink() or self._is_inside(entry.path)

    def _is_inside(self, path: str) -> bool:
        real = os.path.realpath(path)
        if real == self.root or real.startswith(self.root.rstrip("/") + "/"):
            return True
        self.problem(path, "is a symbolic link out of the agent's data; its target is not read")
        return False


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def data_path(home: str, value: str | None, default: str) -> str:
    """Return the data folder of an agent: from a variable of the environment, or the default below the home."""
    if not value:
        return os.path.join(home, default)
    return os.path.join(home, value[2:]) if value.startswith("~/") else os.path.join(home, value)


def modified_at(status: os.stat_result) -> str:
    """Return the modification time of a file as a timestamp."""
    return timestamp(status.st_mtime)


def os_reason(error: OSError) -> str:
    """Return why the system could not read a file."""
    return f"cannot be read: {error.strerror or error}"
