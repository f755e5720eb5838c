"""The installed programs that agents are: where one is, whether it runs, and what people watching read of it."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Protocol

from ralph.agents import Limits
from ralph.agents.process import find_program, run_program
from ralph.agents.streams import text_at
from ralph.errors import AgentUnavailableError
from ralph.records import Ending, Reply, record
from ralph.text import accept, one_line

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ralph.agents.process import Ended
    from ralph.agents.streams import Said

VERSION_SECONDS = 60.0
"""The slowest of them takes two seconds to say its version, on a machine that has nothing else to do."""
NOTE_CHARACTERS = 120
_MOST_NOTED = 2000

_TELLING = (
    *("command", "file_path", "filePath", "notebook_path", "pattern", "query", "url", "dir_path", "path"),
    *("description", "skill"),
)
"""What a tool is used on; the first that is there."""
_LATE = re.compile(r"time[d-]? ?out", re.IGNORECASE)


@record
class Program:
    """A program that is an agent: how it is started here, and where it comes from."""

    title: str
    """What people call it."""
    package: str
    """What npm knows it by; empty for one that only its user knows."""
    usual: str
    """How it is called in the PATH."""
    command: tuple[str, ...]
    """How it is started: the program, and arguments for all its sessions."""

    @property
    def install(self) -> str:
        """The command that installs it."""
        return f"npm install -g {self.package}"

    def path(self, directory: Path) -> str:
        """Give the file that is run; raise `AgentUnavailableError`, with what to do, when there is none."""
        try:
            return str(find_program(self.command[0], directory, os.environ.get("PATH", os.defpath)))
        except AgentUnavailableError as error:
            if self.package and self.command[0] == self.usual:
                raise AgentUnavailableError(f"{error} {self.title} comes with {self.install}") from None
            raise

    def version(self, directory: Path, environment: Mapping[str, str]) -> tuple[int, ...]:
        """Give the version it says it has; raise `AgentUnavailableError` when it is not here or only half installed."""
        argv = [self.path(directory), *self.command[1:], "--version"]
        limits = Limits(seconds=VERSION_SECONDS, idle_seconds=VERSION_SECONDS)
        try:
            ended = run_program(argv, directory=directory, limits=limits, environment=environment)
        except AgentUnavailableError as error:
            # npm leaves a text in its place when the real program could not be fetched.
            what, _, _ = str(error).partition(". ")
            raise AgentUnavailableError(f"{bare(what)}: {self._again}") from None
        version = re.search(r"\b(\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?", ended.text)
        if ended.ending is not Ending.FINISHED or not version:
            is_ended_by_us = ended.ending not in (Ending.FINISHED, Ending.CRASHED)
            said = "" if is_ended_by_us else first_line(ended.stderr)
            why = said or ended.detail or first_line(ended.text) or "it does not say its version"
            raise AgentUnavailableError(f"{argv[0]} does not run ({bare(why)}): {self._again}")
        return tuple(int(part or 0) for part in version.groups())

    @property
    def _again(self) -> str:
        return f"install {self.title} again, whole, with {self.install}"


# --- what is read of it ------------------------------------------------------------------


def noted(text: str) -> str:
    """Give what an agent does as one line for people watching; nothing when there is nothing to read."""
    line = one_line(accept(text[:_MOST_NOTED]), NOTE_CHARACTERS)
    return f"> {line}\n" if line else ""


def used_on(parameters: object) -> str:
    """Give what a tool is used on."""
    return next(filter(None, (text_at(parameters, key) for key in _TELLING)), "")


def without_model(words: str) -> str:
    """Say that a model could not be used, and with "timed out" that it was waited for in vain."""
    return "could not use its model, which timed out" if _LATE.search(words) else "could not use its model"


def first_line(text: str) -> str:
    """Give the first line of what a program said, fit for a message."""
    lines = accept(text[:4000]).splitlines()
    return one_line(lines[0]) if lines else ""


def bare(sentence: str) -> str:
    """Give a sentence without its end, for one that goes on."""
    return sentence.rstrip(". ")


class Events(Protocol):
    """What an agent printed, read to its end."""

    said: Said
    session: str
    cost_usd: float
    tokens_in: int | None
    tokens_out: int | None

    @property
    def turns(self) -> int | None:
        """How often the model was asked."""

    def finish(self) -> None:
        """Take what stands in a last line without an end."""

    def verdict(self, name: str, ended: Ended) -> tuple[Ending, str]:
        """Give how the session ended, and a sentence about that."""


def reply_of(events: Events, program: str, ended: Ended) -> Reply:
    """Give what came back from a session whose program has ended."""
    events.finish()
    ending, detail = events.verdict(program.rpartition("/")[2], ended)
    return Reply(
        text=events.said.text(),
        ending=ending,
        detail=detail,
        exit_code=ended.exit_code,
        seconds=ended.seconds,
        cost_usd=events.cost_usd,
        tokens_in=events.tokens_in,
        tokens_out=events.tokens_out,
        turns=events.turns,
        session=events.session,
    )
