"""Reading of a repository's history as episodes, newest commits first.

`git log` is streamed and stopped when there is enough, so neither time nor memory depend on how long a history is. The
texts are as their authors wrote them: whoever stores them sanitizes them.
"""

from __future__ import annotations

import re
from collections import Counter
from contextlib import closing

from ralph.core.errors import GitError, UsageError
from ralph.core.git import find_git_directories, query_git, run_git, stream_git
from ralph.core.records import Episode, EpisodeKind, Speaker, timestamp
from ralph.core.text import cut_at_space
from ralph.memory.capture.commit_lines import fixes_of_same_lines
from ralph.memory.capture.commit_links import CommitLinks
from ralph.memory.capture.commit_messages import Commit, reason_to_leave_out, without_trailers
from ralph.memory.capture.passages import episode_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence
    from pathlib import Path

DEFAULT_LIMIT = 5_000
"""Default number of commits to read, the newest first."""
MAX_COUNTED = 100_000
"""Number of commits above which `count_commits` stops counting."""
COUNT_TIMEOUT_SECONDS = 5.0
"""Timeout for counting commits, in seconds."""
MAX_TEXT_LENGTH = 4_000
"""Maximum length of the message of a commit, in characters."""
MAX_BODY_LENGTH = 20_000
"""Length up to which a message is searched for references, in characters."""
MAX_FILES = 50
"""Maximum number of changed files kept with a commit."""
MAX_RECORD_BYTES = 256 * 1024
"""Maximum size of a commit as `git log` prints it, in bytes; the rest is dropped."""
LOOK_BACK = 2_000
"""Number of earlier commits in which references of new ones are looked up."""
_MAX_SECONDS = 253_402_300_799
"""Last second of the year 9999; some commits have dates beyond all calendars."""
MAX_MISSING = 10
"""Number of missing commits around which a history is read."""
_CHILD_OF_MISSING = re.compile(r"Failed to traverse parents of commit ([0-9a-f]{40,64})")
_SEPARATOR = b"\0\0"
_FORMAT = "--format=%x00%H %at %ct %P%n%an%n%s%n%b"
"""After each commit git prints a NUL, then the files with a NUL after each: two in a row begin the next commit."""
LOG_COMMAND = (
    *("-c", "log.showSignature=false", "-c", "log.follow=false", "log", "-z", "--no-color", "--no-renames"),
    *("--no-ext-diff", "--encoding=UTF-8", "--ignore-submodules=dirty", _FORMAT),
)
"""Command that lists commits, without their files."""
_LOCAL_ONLY = {"GIT_NO_LAZY_FETCH": "1"}
"""A partial clone must not be completed from the network."""


class LogCounts:
    """What reading a history has met."""

    def __init__(self) -> None:
        self.left_out: Counter[str] = Counter()
        """Number of commits that are not among the episodes, by reason."""
        self.read = 0
        """Number of commits that are no merges."""
        self.is_cut = False
        """Whether the limit was reached."""


def read_commits(
    root: Path | str,
    *,
    head: str = "HEAD",
    after: str | None = None,
    since: str | None = None,
    limit: int = DEFAULT_LIMIT,
    counts: LogCounts | None = None,
) -> Generator[Episode, None, None]:
    """Return up to `limit` commits of the current branch, or up to `head`, as episodes, newest first.

    `after` is the id of the newest commit of the last import: only what is not among its ancestors is read, or
    everything if it is gone, as after a rebase. `since` is a date or timestamp: what was written before it is left out.
    `counts` is filled on the way. Below the top of a repository only what changed there is read.

    A commit that refers to an earlier one comes a little later than its turn: when that one has been read.

    Raise a `UsageError` if the directory is in no repository, and while reading a `GitError` if it is damaged.

    """
    prefix = query_git(root, "rev-parse", "--show-prefix")
    if prefix is None:
        raise UsageError(
            f"{root} is not in a git repository: there is no history to read. Start one with: git init",
            code="no-repository",
        )
    chosen = _Range(root, prefix.strip("\n"), after, head or "HEAD")
    return _read(root, chosen, since or "", limit, counts or LogCounts())


def count_commits(root: Path | str, *, after: str | None = None) -> int:
    """Return how many commits there are to read, 0 if counting takes long; more than `MAX_COUNTED` stands for any."""
    prefix = query_git(root, "rev-parse", "--show-prefix")
    if prefix is None:
        return 0
    options = ("rev-list", "--count", "--no-merges", f"--max-count={MAX_COUNTED + 1}")
    chosen = _Range(root, prefix.strip("\n"), after)
    counted = run_git(root, *options, *chosen.revisions, timeout_seconds=COUNT_TIMEOUT_SECONDS, environment=_LOCAL_ONLY)
    return int(counted.stdout) if counted.ok else 0


def head_commit(root: Path | str) -> str:
    """Return the id of the newest commit of the current branch; empty if there is none."""
    return (query_git(root, "rev-parse", "--verify", "--quiet", "HEAD^{commit}") or "").strip()


class _Range:
    """Which commits to read, and what git can tell about them."""

    def __init__(self, root: Path | str, prefix: str, after: str | None, head: str = "HEAD") -> None:
        self.root = root
        self.after = after if after and _has_commit(root, after) else None
        self.has_commits = _has_commit(root, head)
        start = f"{self.after}..{head}" if self.after else head
        self.revisions = (start, "--", *((".",) if prefix else ()))
        self.options = ("--relative" if prefix else "--no-relative",)


def _has_commit(root: Path | str, revision: str) -> bool:
    is_safe = revision == "HEAD" or (revision.isalnum() and revision.isascii())
    return is_safe and query_git(root, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}") is not None


def shallow_commits(root: Path | str) -> frozenset[str]:
    """Return the commits whose parents are missing; every file seems to be added by them.

    `git fetch --unshallow` gets the rest of the history.
    """
    found = find_git_directories(root)
    try:
        with open(f"{found[1] if found else ''}/shallow", encoding="ascii") as file:  # noqa: PTH123
            return frozenset(file.read().split())
    except (OSError, ValueError):
        return frozenset()


def _partial_clone(root: Path | str) -> str:
    """Return what a partial clone leaves out, as git's setting says; empty if it is a whole one."""
    return query_git(root, "config", "--get-regexp", r"^remote\..*\.partialclonefilter$") or ""


# --- stream ------------------------------------------------------------------------------


def _read(
    root: Path | str, chosen: _Range, since: str, limit: int, counts: LogCounts
) -> Generator[Episode, None, None]:
    if not chosen.has_commits or limit <= 0:
        return
    filters = _partial_clone(root)
    links = CommitLinks(lambda pairs: set() if filters else fixes_of_same_lines(root, pairs, _LOCAL_ONLY))
    shown = () if "tree:" in filters else ("--name-only",)
    log = _Log(root, (*shown, *chosen.options, *chosen.revisions))
    with closing(log.commits()) as commits:
        yield from _linked(commits, since, limit, counts, links)
    if chosen.after and links.are_open and not log.problem:
        yield from _look_back(root, chosen.after, links)
    yield from links.flush()
    if log.problem:
        raise log.problem


def _linked(
    commits: Iterator[Commit], since: str, limit: int, counts: LogCounts, links: CommitLinks
) -> Iterator[Episode]:
    taken = 0
    for commit in commits:
        counts.read += len(commit.parents) <= 1
        reason = reason_to_leave_out(commit)
        yield from links.meet(commit, is_kept=not reason)
        if reason:
            counts.left_out[reason] += 1
            continue
        # Commit dates are those of a rebase, and need not be in order: only reading tells what is older.
        if since and _authored_at(commit) < since:
            counts.left_out[f"written before {since[:10]}"] += 1
        else:
            yield from links.add(commit, _episode(commit))
        taken += 1
        if taken >= limit:
            counts.is_cut = True
            break


class _Log:
    """The commits that `git log` lists, also those around one that is missing."""

    def __init__(self, root: Path | str, options: Sequence[str]) -> None:
        self._root = root
        self._options = options
        self._shallow = shallow_commits(root)
        self.problem: GitError | None = None
        """Why the list is not complete, once it has been read."""

    def commits(self) -> Generator[Commit, None, None]:
        """Yield the commits, each once."""
        seen: set[str] = set()
        broken: set[str] = set()
        while True:
            try:
                for commit in self._stream(broken):
                    if commit.id not in seen:
                        seen.add(commit.id)
                        yield commit
                return
            except GitError as error:
                self.problem = self.problem or error
                child = _CHILD_OF_MISSING.search(str(error))
                if child is None or child[1] in broken or len(broken) >= MAX_MISSING:
                    return
                broken.add(child[1])

    def _stream(self, broken: set[str]) -> Iterator[Commit]:
        """Yield the commits as if the broken ones, whose parents are missing, were the first of the history."""
        if not broken:
            with closing(stream_git(self._root, *LOG_COMMAND, *self._options, environment=_LOCAL_ONLY)) as log:
                yield from _parse(log, self._shallow)
            return
        from tempfile import NamedTemporaryFile

        with NamedTemporaryFile("w", suffix=".shallow") as file:
            file.write("".join(f"{id}\n" for id in sorted(broken | self._shallow)))
            file.flush()
            variables = {**_LOCAL_ONLY, "GIT_SHALLOW_FILE": file.name}
            with closing(stream_git(self._root, *LOG_COMMAND, *self._options, environment=variables)) as log:
                yield from _parse(log, self._shallow | broken)


def _look_back(root: Path | str, after: str, links: CommitLinks) -> Iterator[Episode]:
    """Yield the episodes that refer to commits of earlier imports."""
    options = (f"--max-count={LOOK_BACK}", after, "--")
    with closing(stream_git(root, *LOG_COMMAND, *options, environment=_LOCAL_ONLY)) as log:
        for commit in _parse(log, frozenset()):
            yield from links.meet(commit, is_kept=False)
            if not links.are_open:
                break


def _parse(log: Iterable[bytes], shallow: frozenset[str]) -> Iterator[Commit]:
    for record in _split(log):
        message, *paths = record.split(b"\0", MAX_FILES + 1)
        fields = message.decode("utf-8", "replace").split("\n", 3)
        id, authored, committed, *parents = fields[0].split(" ")
        yield Commit(
            id=id,
            parents=tuple(filter(None, parents)),
            authored=int(authored),
            committed=int(committed),
            author=fields[1],
            subject=fields[2].strip(),
            body=without_trailers(fields[3][:MAX_BODY_LENGTH]),
            files=() if id in shallow else _decode(paths),
        )


def _split(log: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the output for each commit, cut if it is huge."""
    rest = b""
    problem: GitError | None = None
    try:
        for chunk in log:
            *records, rest = (rest + chunk).split(_SEPARATOR)
            yield from (record.lstrip(b"\0") for record in records)
            if len(rest) > MAX_RECORD_BYTES:
                rest = rest[: MAX_RECORD_BYTES - 1].rstrip(b"\0") + rest[-1:]
    except GitError as error:
        problem = error  # The last commit before it is whole.
    if record := rest.strip(b"\0"):
        yield record
    if problem:
        raise problem


def _decode(paths: list[bytes]) -> tuple[str, ...]:
    """Return paths as texts; git prints a newline before the first."""
    text = b"\0".join(paths[:MAX_FILES]).removeprefix(b"\n").decode("utf-8", "replace")
    return tuple(text.split("\0")) if text else ()


def _episode(commit: Commit) -> Episode:
    text = f"{commit.subject}\n\n{commit.body}" if commit.body else commit.subject
    return Episode(
        # The same for each copy of a commit, as a rebase or a cherry-pick makes them.
        id=episode_id(EpisodeKind.COMMIT, commit.authored, commit.subject, commit.body),
        kind=EpisodeKind.COMMIT,
        source=commit.id,
        agent=commit.author,
        speaker=Speaker.PERSON,
        text=text if len(text) <= MAX_TEXT_LENGTH else f"{cut_at_space(text, MAX_TEXT_LENGTH - 6)} [cut]",
        files=commit.files,
        at=_authored_at(commit),
    )


def _authored_at(commit: Commit) -> str:
    return timestamp(min(max(commit.authored, 0), _MAX_SECONDS))
