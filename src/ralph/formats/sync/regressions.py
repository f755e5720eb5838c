"""Recognizes files that are older than what Ralph wrote to them: after `git reset`, or saved by a stale editor.

Content that Ralph has had before is no edit, and an entry is not deleted by somebody who has never seen it.
"""

from __future__ import annotations

import json
import re

from ralph.core.errors import RalphError
from ralph.core.git import query_git
from ralph.core.records import MemoryState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from pathlib import Path
    from typing import Any

    from ralph.core.records import Memory, MemoryEvent
    from ralph.store.memories import MemoryStore

FILE = "file"
"""Author of a change that was made in a file, in the history of a memory."""
PAGE = 500
"""Number of events read at once."""
_FILE_FIELDS = frozenset({"kind", "title", "body", "tags", "feature", "state"})
"""Fields whose change is visible in a file."""
_OWN_ID = re.compile(r"mem-\d+-[0-9a-f]{4}")
"""Id that Ralph gave; those of entries in other forms are not in the file."""
_REVERT_MARK = "This reverts commit"
"""What git writes into the message of a revert."""
_EVERYWHERE = ("--all", "--reflog")
"""Options of `git log` that include other branches, stashes and commits that a reset dropped."""


def is_known_version(memories: MemoryStore, id: str, text: str, comparable: Callable[[Memory], str]) -> bool:
    """Return whether a memory has or had this text, in the form that `comparable` gives it.

    Both sides of a merge conflict are in the history, but neither is older than the other.
    """
    try:
        return any(
            comparable(memory) == text for event, memory in memories.history.versions(id) if event.what != "conflict"
        )
    except RalphError:
        return False  # a damaged event, which `ralph doctor` reports


def was_removed_by_file(memories: MemoryStore, id: str) -> bool:
    """Return whether a memory is inactive because its entry was removed from a file."""
    states = [event for event in memories.history.of(id) if "state" in _changes(event)]
    return bool(states) and states[-1].who == FILE


def unseen_by_file(memories: MemoryStore, missing: Iterable[str], present: Collection[str]) -> set[str]:
    """Return the missing memories that are newer than everything present, so that the file may be older than they are.

    Somebody who removed an entry from the current file leaves entries that were written in a later one.
    """
    unseen = {id: _introduction(memories, id) for id in missing}
    position = min((event.seq for event in unseen.values()), default=0)
    while unseen and (events := memories.history.since(position, PAGE)):
        position = events[-1].seq
        visible = [event for event in events if event.memory_id in present and _is_visible(event)]
        unseen = {id: event for id, event in unseen.items() if not any(_is_later(one, event) for one in visible)}
    return set(unseen)


def _introduction(memories: MemoryStore, id: str) -> MemoryEvent:
    """Return the event that brought a memory into the files."""
    events = memories.history.of(id)
    return next((one for one in reversed(events) if one.was is None or _is_activation(one)), events[0])


def _is_activation(event: MemoryEvent) -> bool:
    became = _changes(event)
    return "kind" in became or became.get("state") == MemoryState.ACTIVE


def _is_visible(event: MemoryEvent) -> bool:
    return event.was is None or not _FILE_FIELDS.isdisjoint(_changes(event))


def _is_later(event: MemoryEvent, other: MemoryEvent) -> bool:
    """Return whether an event reached the files in a later write than another one."""
    return event.seq > other.seq and (event.change_id or event.at) != (other.change_id or other.at)


def _changes(event: MemoryEvent) -> dict[str, Any]:
    try:
        return dict(json.loads(event.became or "{}"))
    except ValueError:
        return {}  # a damaged event, which `ralph doctor` reports


class GitProvenance:
    """What git knows about the synced files of a working copy. Asked only when something vanished from them."""

    def __init__(self, root: Path | str) -> None:
        self._root = root

    def entries_unknown_to_file(self, path: str, first_lines: Mapping[str, str]) -> set[str]:
        """Return the entries that the commit a file is from has never had, or that a revert took out of it.

        `first_lines` maps the entries to the beginning of their text, by which those that have no id are found.
        """
        commit = self._commit_with_content(path) if first_lines else None
        if commit is None:
            return set()
        return {id for id, text in first_lines.items() if self._is_entry_accidental(commit, path, id, text)}

    def _is_entry_accidental(self, commit: str, path: str, id: str, text: str) -> bool:
        is_accidental = self._is_accidental(commit, path, "--pickaxe-regex", f"-S### {id}([^[:alnum:]_-]|$)")
        if not is_accidental or _OWN_ID.fullmatch(id):
            return is_accidental
        return self._is_accidental(commit, path, f"-S{text}")

    def is_file_taken_by_git(self, path: str, others: Collection[str]) -> bool:
        """Return whether git removed a file: by a switch, reset, stash, revert, or a clean that spared no other."""
        log = self._log("HEAD", "--", path)
        if log is None or self._query("check-ignore", "-q", "--", path) is not None:
            return False
        if log:
            return _REVERT_MARK in log and self._query("cat-file", "-e", f"HEAD:./{path}") is None
        if self._log(*_EVERYWHERE, "--", path):
            return True
        untracked = (self._query("ls-files", "--others", "--exclude-standard", "-z", "--", *others) or "").split("\0")
        return not any(untracked)

    def _commit_with_content(self, path: str) -> str | None:
        """Return a commit that has the file as it is now, preferably the current one."""
        blob = (self._query("hash-object", "--no-filters", "--", path) or "").strip()
        if not blob:
            return None
        if (self._query("rev-parse", "-q", "--verify", f"HEAD:./{path}") or "").strip() == blob:
            return "HEAD"
        found = self._query("log", "-1", "--format=%H", *_EVERYWHERE, f"--find-object={blob}", "--", path)
        return (found or "").strip() or None

    def _is_accidental(self, commit: str, path: str, *search: str) -> bool:
        log = self._log(commit, *search, "--", path)
        return log is not None and (not log or _REVERT_MARK in log)

    def _log(self, *arguments: str) -> str | None:
        """Return the message of the latest matching commit, or an empty string; None without git or commits."""
        found = self._query("log", "-1", "--format=%H %B", *arguments)
        return None if found is None else found.strip()

    def _query(self, *arguments: str) -> str | None:
        return query_git(self._root, *arguments)
