"""Links between commits that are read newest first: a revert or a fix is read before what it refers to.

Such a commit waits until the one it refers to has been read. What a fix repairs is often not said: a fix of a few files
is linked to the newest commit of the three days before that changed the same few files and shares a word of its
subject. If none does, the last one that changed these files counts if both changed the same lines. Diffs of all commits
would take ten times as long as the rest, so only those of such pairs are read.
"""

from __future__ import annotations

from ralph.core.records import replace
from ralph.memory.capture.commit_messages import MIN_ABBREVIATION, find_references, is_fix, subject_keys, telling_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ralph.core.records import Episode
    from ralph.memory.capture.commit_messages import Commit

    SameLines = Callable[[Sequence[tuple[str, str]]], set[str]]
    """Return the first ids of those pairs of commits that changed the same lines."""

MAX_UNSURE = 100
"""Number of fixes whose lines are compared at once."""
MAX_WAITING = 1_000
"""Maximum number of commits that wait for what they refer to."""
MAX_FIX_FILES = 3
"""Number of files above which the same files say little about the same fault."""
FIX_SECONDS = 3 * 24 * 3600
"""How long after a commit a change of its files counts as its fix, in seconds."""
_FULL_ID_LENGTH = 40
_IGNORED_NAMES = ("change", "news", "history", "release", "version", "readme", "todo")
"""Beginnings of names, in lower case, of files that commits of all kinds change."""
_IGNORED_SUFFIXES = (".lock", "lock.json", "lock.yaml", ".sum")


class _Waiting:
    """A commit that waits for those it refers to."""

    __slots__ = ("commit", "episode", "files", "keys", "last_change", "links")

    def __init__(self, commit: Commit, episode: Episode) -> None:
        self.commit = commit
        self.episode = episode
        self.links = {one.key: one.link for one in find_references(commit.subject, commit.body)}
        self.files = _telling_files(commit) if not self.links and is_fix(commit.subject) else frozenset()
        self.last_change = ""
        """Id of the last commit before that changed the same files."""
        self.keys = {f"file:{min(self.files)}"} if self.files else {_short(key) for key in self.links}

    @property
    def is_resolved(self) -> bool:
        """Whether nothing is left to wait for."""
        return not self.files and all(len(key) >= _FULL_ID_LENGTH and key.isalnum() for key in self.links)

    @property
    def linked(self) -> Episode:
        """The episode with the links that are known; an abbreviated id of a commit that was not read is kept."""
        links = tuple(f"{link}:{key}" for key, link in self.links.items() if ":" not in key)
        return replace(self.episode, links=links) if links else self.episode

    def meet(self, commit: Commit) -> None:
        """Replace a reference to this commit, if there is one, with its full id."""
        subjects = set(subject_keys(commit.subject))
        self.links = {
            commit.id if key in subjects or commit.id.startswith(key) else key: link for key, link in self.links.items()
        }

    def is_fix_of(self, commit: Commit) -> bool:
        """Return whether the commit changed the same files shortly before, and is about the same."""
        if commit.authored < self.commit.authored - FIX_SECONDS or not self.files <= _telling_files(commit):
            return False
        self.last_change = self.last_change or commit.id
        return not telling_words(self.commit.subject).isdisjoint(telling_words(commit.subject))


class CommitLinks:
    """Episodes of commits, each held back until what it links to has been read."""

    def __init__(self, same_lines: SameLines) -> None:
        self._same_lines = same_lines
        self._unsure: list[_Waiting] = []
        """Those whose lines are to be compared."""
        self._waiting: dict[str, _Waiting] = {}
        self._fixes: dict[str, _Waiting] = {}
        """Those that wait for a commit with the same files."""
        self._by_key: dict[str, list[_Waiting]] = {}

    @property
    def are_open(self) -> bool:
        """Whether messages refer to commits that were not read yet."""
        return len(self._waiting) > len(self._fixes)

    def add(self, commit: Commit, episode: Episode) -> Iterator[Episode]:
        """Take a commit, and yield an episode if one need not wait any longer."""
        waiting = _Waiting(commit, episode)
        if waiting.is_resolved:
            yield waiting.linked
            return
        if len(self._waiting) >= MAX_WAITING:
            yield from self._release(next(iter(self._waiting.values())))
        self._waiting[commit.id] = waiting
        if waiting.files:
            self._fixes[commit.id] = waiting
        for key in waiting.keys:
            self._by_key.setdefault(key, []).append(waiting)

    def meet(self, commit: Commit, *, is_kept: bool = True) -> Iterator[Episode]:
        """Yield the episodes that waited for this commit, or for a later one that did not come.

        What is not kept can be reverted, but no fix without a word about it is taken for its fix.

        """
        if not self._waiting:
            return
        while self._fixes:
            oldest = next(iter(self._fixes.values()))
            if commit.committed >= oldest.commit.authored - FIX_SECONDS:
                break
            yield from self._release(oldest)
        for key in (commit.id[:MIN_ABBREVIATION], *subject_keys(commit.subject)):
            for waiting in tuple(self._by_key.get(key, ())):
                waiting.meet(commit)
                if waiting.is_resolved:
                    yield from self._release(waiting)
        if self._fixes and is_kept:
            yield from self._meet_files(commit)

    def _meet_files(self, commit: Commit) -> Iterator[Episode]:
        for file in _telling_files(commit):
            for waiting in tuple(self._by_key.get(f"file:{file}", ())):
                if waiting.is_fix_of(commit):
                    waiting.links[commit.id] = "fixes"
                    yield from self._release(waiting)

    def flush(self) -> Iterator[Episode]:
        """Yield all that still wait."""
        for waiting in tuple(self._waiting.values()):
            yield from self._release(waiting)
        yield from self._compare_lines()

    def _release(self, waiting: _Waiting) -> Iterator[Episode]:
        """Forget that a commit waited, and yield its episode with its links once its lines are compared."""
        del self._waiting[waiting.commit.id]
        self._fixes.pop(waiting.commit.id, None)
        for key in waiting.keys:
            self._by_key[key].remove(waiting)
            if not self._by_key[key]:
                del self._by_key[key]
        if waiting.links or not waiting.last_change:
            yield waiting.linked
            return
        self._unsure.append(waiting)
        if len(self._unsure) >= MAX_UNSURE:
            yield from self._compare_lines()

    def _compare_lines(self) -> Iterator[Episode]:
        unsure, self._unsure = self._unsure, []
        fixes = self._same_lines([(one.commit.id, one.last_change) for one in unsure]) if unsure else set()
        for waiting in unsure:
            if waiting.commit.id in fixes:
                waiting.links[waiting.last_change] = "fixes"
            yield waiting.linked


def _short(key: str) -> str:
    return key if ":" in key else key[:MIN_ABBREVIATION]


def _telling_files(commit: Commit) -> frozenset[str]:
    """Return the few files that a commit changed; none if they are many."""
    if len(commit.files) > 2 * MAX_FIX_FILES:
        return frozenset()
    files = frozenset(file for file in commit.files if not _is_ignored(file.rpartition("/")[2].lower()))
    return files if len(files) <= MAX_FIX_FILES else frozenset()


def _is_ignored(name: str) -> bool:
    return name.startswith(_IGNORED_NAMES) or name.endswith(_IGNORED_SUFFIXES)
