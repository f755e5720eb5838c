"""Finding the executable file of a program, and explaining why one cannot be started."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from ralph.core.errors import AgentUnavailableError
from ralph.core.text import clean, one_line

if TYPE_CHECKING:
    from pathlib import Path


def find_program(name: str, directory: Path, search_path: str) -> Path:
    """Return the executable file for a program name, or raise `AgentUnavailableError`.

    A name with a slash is relative to the directory; any other is looked up in the search path.

    """
    if "/" in name:
        candidates = [directory / name]
    else:
        candidates = [directory / candidate / name for candidate in search_path.split(os.pathsep)]
    # Unlike its method, this is False in a directory of the PATH that cannot be searched.
    files = [candidate for candidate in candidates if os.path.isfile(candidate)]  # noqa: PTH113
    for file in files:
        if os.access(file, os.X_OK):
            return file.absolute()
    if files:
        raise AgentUnavailableError(
            f"{files[0]} is not executable. Run: chmod +x {files[0]}", code="program-not-executable"
        )
    if "/" not in name and (directory / name).is_file():
        raise AgentUnavailableError(
            f"{name} is in {directory}, but not in the PATH. To run that file, write: ./{name}",
            code="program-not-in-path",
        )
    if "/" not in name:
        raise AgentUnavailableError(
            f"{name} was not found in the PATH. Install it or give its full path.", code="program-not-found"
        )
    if candidates[0].is_dir():
        raise AgentUnavailableError(
            f"{candidates[0]} is a directory. Give the path of a program.", code="program-not-executable"
        )
    raise AgentUnavailableError(f"Program not found: {candidates[0]}. Check the path.", code="program-not-found")


def start_error_message(program: Path, error: int) -> str:
    """Return why the system could not start a program, given its error number."""
    if error == errno.ENOENT:
        with program.open("rb") as file:
            first_line = one_line(clean(file.readline(200).decode("utf-8", "replace")))
        missing = first_line[2:].strip() if first_line.startswith("#!") else "its loader"
        return f"{program} cannot be started: {missing} was not found. Install it or fix the program."
    if error == errno.ENOEXEC:
        return f"{program} cannot run on this machine. A script must start with a line like #!/bin/sh"
    return f"{program} cannot be started: {os.strerror(error)}."
