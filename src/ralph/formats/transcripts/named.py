"""Transcripts in files and folders that a person names, recognized by their names and first lines."""

# ruff: noqa: PTH112, PTH113, PTH118, PTH119

from __future__ import annotations

import os

from ralph.formats.transcripts import READERS
from ralph.formats.transcripts.aider import FILE as AIDER_FILE
from ralph.formats.transcripts.base import TranscriptProblem, oldest_first, os_reason
from ralph.formats.transcripts.lines import open_regular, parse_object
from ralph.formats.transcripts.opencode import DATABASE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ralph.formats.transcripts.base import Report, Transcript

MAX_START_BYTES = 256 * 1024
"""Number of bytes at the start of a file by which it is recognized; the first line of Codex has its instructions."""
MAX_FILES = 100_000
"""Number of files of a folder that are looked at."""
_SKIPPED_FOLDERS = (".git", "node_modules", ".venv", "tool-results")
_PROJECT_FILES = (".git", ".ralph", ".agent", ".beads")
_CODEX_TYPES = ("session_meta", "response_item", "event_msg", "turn_context")


def recognize(path: str, start: str = "") -> str:
    """Return the name of the agent whose transcript a file is; empty if it is none.

    `start` is the beginning of the file, which is read if it is not given.
    """
    name = os.path.basename(path)
    if name == AIDER_FILE:
        return "aider"
    if name == DATABASE or (name.startswith("ses_") and "/storage/session/" in path):
        return "opencode"
    if not name.endswith((".jsonl", ".json")):
        return ""
    return _recognize_text(name, start or _start_of(path))


def _start_of(path: str) -> str:
    try:
        with open_regular(path) as file:
            return file.read(MAX_START_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def _recognize_text(name: str, start: str) -> str:
    if name.endswith(".json"):
        is_gemini = all(f'"{key}"' in start[:2_000] for key in ("sessionId", "startTime", "messages"))
        return "gemini" if is_gemini and start.lstrip().startswith("{") else ""
    for line in start.split("\n"):
        entry = parse_object(line.encode("utf-8", "replace")) or {}
        if "projectHash" in entry and "sessionId" in entry:
            return "gemini"
        if entry.get("type") in _CODEX_TYPES or (name.startswith("rollout-") and "id" in entry):
            return "codex"
        if "sessionId" in entry or ("leafUuid" in entry and entry.get("type") == "summary"):
            return "claude"
    return ""


def find_named(path: str, directories: Sequence[str], report: Report) -> list[Transcript]:
    """Return the sessions in a file or folder, oldest first; those of other directories have no `root`."""
    found: list[Transcript] = []
    for file, agent in _files(os.path.realpath(path), report):
        try:
            status = os.stat(file)  # noqa: PTH116
        except OSError as error:
            report(TranscriptProblem(path=file, offset=0, reason=os_reason(error)))
            continue
        found += READERS[agent].open_file(file, status, directories, report)
    parents, subagents = ([one for one in found if one.is_subagent is kind] for kind in (False, True))
    return [*oldest_first(parents), *oldest_first(subagents)]


def _files(path: str, report: Report) -> Iterator[tuple[str, str]]:
    """Yield the transcripts at a path, with their agents."""
    if not os.path.isdir(path):
        if agent := recognize(path):
            yield path, agent
        return
    count = 0
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED_FOLDERS)
        for name in sorted(names):
            count += 1
            if count > MAX_FILES:
                report(TranscriptProblem(path=path, offset=0, reason=f"only the first {MAX_FILES:,} files are read"))
                return
            file = os.path.join(folder, name)
            if os.path.isfile(file) and not os.path.islink(file) and (agent := recognize(file)):  # noqa: PTH114
                yield file, agent


def holds_transcripts(path: str) -> bool:
    """Return whether a file is a transcript, or a folder holds some. In a project they are not looked for."""
    is_project = any(os.path.exists(os.path.join(path, name)) for name in _PROJECT_FILES)  # noqa: PTH110
    return not is_project and next(_files(os.path.realpath(path), lambda _: None), None) is not None
