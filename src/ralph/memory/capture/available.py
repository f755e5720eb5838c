"""Past work that can be imported and has not been. Before a person has agreed, names of files alone are looked at."""

from __future__ import annotations

import os

from ralph.core.consent import may_read_sessions
from ralph.core.records import record, replace
from ralph.core.trust_record import are_files_trusted
from ralph.formats.transcripts import READERS
from ralph.formats.transcripts.base import FileCount
from ralph.memory.capture.commit_import import GIT_SOURCE
from ralph.memory.capture.git_history import MAX_COUNTED, count_commits
from ralph.memory.capture.session_import import source_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ralph.memory.capture.session_import import ImportContext


@record
class FoundSessions:
    """Sessions of one agent."""

    title: str
    """Name of the agent for people."""
    count: int
    """Number of sessions; negative if it is not known."""
    is_exact: bool = True
    """Whether all of them are of this project."""

    def __str__(self) -> str:
        if self.count < 0:
            return f"{self.title} sessions"
        return f"{'' if self.is_exact else 'up to '}{_count(self.count, f'{self.title} session')}"


@record
class AvailableHistory:
    """Past work that can be imported and has not been."""

    commits: int = 0
    """Number of commits, if none was imported."""
    sessions: tuple[FoundSessions, ...] = ()
    new_commits: int = 0
    """Number of commits since the last import."""

    def __bool__(self) -> bool:
        return bool(self.commits or self.sessions)

    def __str__(self) -> str:
        parts = [str(one) for one in self.sessions]
        parts += [describe_commits(self.commits)] if self.commits else []
        return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))


def describe_commits(count: int) -> str:
    """Return a number of commits in words; it is counted up to a limit."""
    return _count(count, "commit") if count <= MAX_COUNTED else f"more than {MAX_COUNTED:,} commits"


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def find_available(
    context: ImportContext, root: str, home: str, directories: Sequence[str], own_sessions: Collection[str]
) -> AvailableHistory:
    """Return what can be imported for the project in a directory; `own_sessions` are those of the loop."""
    is_trusted = are_files_trusted(root) is not False
    last = context.cursor(GIT_SOURCE).mark.partition(" ")[0]
    commits = count_commits(root, after=last or None) if is_trusted else 0
    known = context.store.episodes.cursors.all()
    allowed = may_read_sessions()
    found = []
    for name in READERS:
        reader = READERS[name]
        if reader.is_in_project and not is_trusted:
            continue
        if allowed or reader.is_in_project:
            transcripts = reader.find(home, os.environ, directories, lambda _: None)
            is_new = (
                not one.is_subagent and one.session not in own_sessions and context.key(source_name(one)) not in known
                for one in transcripts
            )
            counted = FileCount(count=sum(is_new))
        else:
            counted = reader.count(home, os.environ, directories) if allowed is None else FileCount(count=0)
            captured = sum(source.startswith(context.key(f"{name}:")) for source in known)  # by hooks
            counted = replace(counted, count=max(counted.count - captured, 0)) if counted.count > 0 else counted
        if counted.count:
            found.append(FoundSessions(title=reader.title, count=counted.count, is_exact=counted.is_exact))
    return AvailableHistory(commits=0 if last else commits, sessions=tuple(found), new_commits=commits if last else 0)
