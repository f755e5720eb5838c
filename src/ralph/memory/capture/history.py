"""Import of past work: commits of the repository, and sessions that agents recorded outside of it.

Each source has a cursor, so a second import reads only what is new. Episodes have ids that follow from what they quote,
so one that was interrupted can simply be repeated.
"""

from __future__ import annotations

import os

from ralph.core.consent import may_read_sessions
from ralph.core.errors import UsageError
from ralph.core.git_index import current_branch
from ralph.core.records import replace
from ralph.core.trust_record import are_files_trusted
from ralph.core.worktrees import linked_worktrees
from ralph.formats.transcripts import READERS
from ralph.formats.transcripts.base import Transcript, containing_directory, modified_at
from ralph.memory.capture.session_import import TAIL, ImportContext, SessionImport, source_name, transcript_mark

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralph.formats.transcripts.base import TranscriptProblem
    from ralph.memory.capture.available import AvailableHistory
    from ralph.memory.capture.session_import import ImportSummary, Progress
    from ralph.store import Store

    _Found = dict[str, tuple[list[Transcript], list[TranscriptProblem]]]
    """Transcripts by agent, and what could not be read of them."""

OTHER_PROJECTS = "sessions that are not of this project (to import them: --any-project)"


class HistoryImport:
    """Import of the past work of one project. `home` is where agents keep their sessions."""

    def __init__(self, store: Store, root: str, home: str = "", context: ImportContext | None = None) -> None:
        self._store = store
        self._root = root
        self._home = home or os.path.expanduser("~")  # noqa: PTH111
        self._context = context or ImportContext(store)

    def import_commits(self, *, limit: int = 0, progress: Progress | None = None) -> ImportSummary:
        """Import the commits of the current branch, newest first."""
        from ralph.memory.capture.commit_import import CommitImport

        return CommitImport(self._context, self._root, limit).read(progress)

    def import_sessions(self, agents: Sequence[str] = (), progress: Progress | None = None) -> list[ImportSummary]:
        """Import the sessions of this project that agents have recorded, all of them or those of some agents."""
        agents = agents or tuple(READERS)
        if not may_read_sessions() and not all(READERS[name].is_in_project for name in agents):
            raise UsageError(
                "Past sessions are outside the project, so a person has to agree first: ralph import sessions --yes",
                code="consent-required",
            )
        found = {name: self._find(name) for name in agents}
        return self._import(found, progress)

    def import_files(
        self, paths: Sequence[str], *, any_project: bool = False, progress: Progress | None = None
    ) -> list[ImportSummary]:
        """Import the sessions in files and folders that a person has named, which is their consent to read these.

        Those of other projects are left out, unless `any_project` is true.
        """
        from ralph.formats.transcripts.named import find_named

        problems: list[TranscriptProblem] = []
        found: _Found = {}
        for path in paths:
            for one in find_named(path, self._directories(), problems.append):
                root = one.root or (one.directory or self._root if any_project else "")
                found.setdefault(one.agent, ([], problems if not found else []))[0].append(replace(one, root=root))
        return self._import(found, progress)

    def _import(self, found: _Found, progress: Progress | None) -> list[ImportSummary]:
        own_sessions = self.loop_sessions()
        total, done = sum(len(transcripts) for transcripts, _ in found.values()), 0
        summaries = []
        for name, (transcripts, problems) in found.items():
            importer = SessionImport(self._context, READERS[name], problems, own_sessions=own_sessions)
            for transcript in transcripts:
                if transcript.root:
                    importer.read(transcript)
                else:
                    importer.left_out[OTHER_PROJECTS] += 1
                done += 1
                if progress:
                    progress(done, total)
            summaries.append(importer.summary())
        return summaries

    def available(self) -> AvailableHistory:
        """Return what was never imported, and the commits since the last import."""
        from ralph.memory.capture.available import find_available

        return find_available(self._context, self._root, self._home, self._directories(), self.loop_sessions())

    def skipped(self) -> int:
        """Return the number of sessions of which hooks have skipped a part that was too large for them."""
        prefix = self._context.key(TAIL)
        return sum(source.startswith(prefix) for source in self._store.episodes.cursors.all())

    def loop_sessions(self) -> set[str]:
        """Return the ids of the sessions of the loop, whose attempts are kept already."""
        return self._store.attempts.agent_sessions()

    def _find(self, name: str) -> tuple[list[Transcript], list[TranscriptProblem]]:
        problems: list[TranscriptProblem] = []
        if READERS[name].is_in_project and are_files_trusted(self._root) is False:
            return [], []  # they came with a directory that nobody trusts
        return list(READERS[name].find(self._home, os.environ, self._directories(), problems.append)), problems

    def _directories(self) -> list[str]:
        return [os.path.realpath(self._root), *linked_worktrees(self._root, with_gone=True)]

    def capture(self, agent: str, session: str, path: str) -> int:
        """Store what was said in a session since the last time, and return the number of new episodes.

        The transcript has to be of a session in this project. Of one that has grown by very much, only the end is read.
        """
        if agent not in READERS or not session or "\0" in path or may_read_sessions() is False:
            return 0
        transcript = self._named_transcript(agent, session, path) if path else self._stored_session(agent, session)
        if transcript is None:
            return 0
        importer = SessionImport(self._context, READERS[agent], [], branch=current_branch(transcript.root))
        importer.read_end(transcript)
        return importer.added

    def _named_transcript(self, agent: str, session: str, path: str) -> Transcript | None:
        """Return the transcript at a path if it has grown and is of this project."""
        try:
            path = os.path.realpath(path)
            status = os.stat(path)  # noqa: PTH116
        except (OSError, ValueError):  # The path contains a NUL.
            return None
        transcript = Transcript(
            agent=agent,
            session=session,
            path=path,
            directory="",  # What has not grown need not be asked for it.
            size=status.st_size,
            modified_at=modified_at(status),
        )
        if self._context.cursor(source_name(transcript)).mark == transcript_mark(transcript):
            return None
        root = containing_directory(READERS[agent].directory(path), self._directories())
        return replace(transcript, directory=root, root=root) if root else None

    def _stored_session(self, agent: str, session: str) -> Transcript | None:
        """Return a session of an agent that keeps them in a database, so that its hooks name no file."""
        if agent != "opencode":
            return None
        from ralph.formats.transcripts.opencode import READER

        return READER.find_session(self._home, os.environ, session, self._directories())
