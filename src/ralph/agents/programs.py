"""Installed agent programs: locating them, checking their version and turning their events into a reply."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from ralph.agents import Limits
from ralph.agents.streams import text_at
from ralph.agents.supervisor.executables import find_program
from ralph.agents.supervisor.process import run_program
from ralph.core.errors import AgentUnavailableError
from ralph.core.records import SessionEnding, record
from ralph.core.text import one_line, sanitize

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


VERSION_TIMEOUT_SECONDS = 60.0
"""Timeout of `--version`, in seconds; the slowest agent takes two on an idle machine."""
MAX_ACTIVITY_CHARACTERS = 120
"""Maximum length of an activity line, in characters."""
_MAX_NOTE_INPUT = 2000

_DESCRIPTIVE_PARAMETERS = (
    *("command", "file_path", "filePath", "notebook_path", "pattern", "query", "url", "dir_path", "path"),
    *("description", "skill"),
)
"""Tool parameters that describe a call, most descriptive first."""
_TIMEOUT = re.compile(r"time[d-]? ?out", re.IGNORECASE)


@record
class AgentProgram:
    """An installed agent: how to start it and how to install it."""

    title: str
    """Display name."""
    package: str
    """Name of the npm package; empty for a program only its user knows."""
    default_name: str
    """Default name of the executable in the PATH."""
    command: tuple[str, ...]
    """Program, and arguments for all its sessions."""
    installer: str = ""
    """Command that installs it, where that is not npm."""

    @property
    def install_command(self) -> str:
        """Command that installs it; empty if it is not known."""
        return self.installer or (f"npm install -g {self.package}" if self.package else "")

    def path(self, directory: Path) -> str:
        """Return the executable file; raise `AgentUnavailableError` if there is none."""
        try:
            return str(find_program(self.command[0], directory, os.environ.get("PATH", os.defpath)))
        except AgentUnavailableError as error:
            if self.install_command and self.command[0] == self.default_name:
                message = f"{error} To install {self.title}, run: {self.install_command}"
                raise AgentUnavailableError(message, code="agent-not-installed") from None
            raise

    def version(self, directory: Path, environment: Mapping[str, str]) -> tuple[int, ...]:
        """Return the version it reports; raise `AgentUnavailableError` if it is missing or does not run."""
        argv = [self.path(directory), *self.command[1:], "--version"]
        limits = Limits(seconds=VERSION_TIMEOUT_SECONDS, idle_seconds=VERSION_TIMEOUT_SECONDS)
        try:
            ended = run_program(argv, directory=directory, limits=limits, environment=environment)
        except AgentUnavailableError as error:
            # npm leaves a text file in its place if the download failed.
            problem, _, _ = str(error).partition(". ")
            message = f"{strip_period(problem)}. {self._reinstall_hint}"
            raise AgentUnavailableError(message, code="agent-does-not-run") from None
        version = re.search(r"\b(\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?", ended.text)
        if ended.ending is not SessionEnding.FINISHED or not version:
            is_terminated_by_us = ended.ending not in (SessionEnding.FINISHED, SessionEnding.CRASHED)
            message = "" if is_terminated_by_us else first_line(ended.stderr)
            problem = message or ended.detail or first_line(ended.text) or "it does not report its version"
            message = f"{argv[0]} does not run: {strip_period(problem)}. {self._reinstall_hint}"
            raise AgentUnavailableError(message, code="agent-does-not-run")
        return tuple(int(part or 0) for part in version.groups())

    @property
    def _reinstall_hint(self) -> str:
        return f"Reinstall {self.title} with: {self.install_command}"


# --- replies -----------------------------------------------------------------------------


def activity_line(text: str) -> str:
    """Return an activity as one line for live display; empty if there is nothing to show."""
    line = one_line(sanitize(text[:_MAX_NOTE_INPUT]), MAX_ACTIVITY_CHARACTERS)
    return f"> {line}\n" if line else ""


def describe_tool_call(parameters: object) -> str:
    """Return the most descriptive parameter of a tool call."""
    return next(filter(None, (text_at(parameters, key) for key in _DESCRIPTIVE_PARAMETERS)), "")


def model_error_phrase(words: str) -> str:
    """Return the phrase for a model error, which mentions a timeout if the message does."""
    return "could not use its model, which timed out" if _TIMEOUT.search(words) else "could not use its model"


def first_line(text: str) -> str:
    """Return the first line of a program's output, cleaned for use in a message."""
    lines = sanitize(text[:4000]).splitlines()
    return one_line(lines[0]) if lines else ""


def strip_period(sentence: str) -> str:
    """Return a sentence without its final period."""
    return sentence.rstrip(". ")
