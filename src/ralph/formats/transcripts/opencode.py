"""Reader of the sessions of opencode: in its database since 1.2, before in JSON files.

A session is a transcript of its own. Dropped: reasoning, results of tools that succeeded, synthetic texts, summaries of
compactions, and the prompts that a subagent gets. The offset counts parts of messages. A fork has new ids but keeps
the times of its messages, so keys are made of these.
"""

# ruff: noqa: PTH110, PTH118, PTH119, PTH120

from __future__ import annotations

import os
import time

from ralph.core.records import Speaker, Turn
from ralph.formats.transcripts.base import (
    DataFolder,
    FileCount,
    Report,
    Transcript,
    TranscriptProblem,
    containing_directory,
    data_path,
    oldest_first,
    os_reason,
)
from ralph.formats.transcripts.cleaning import (
    failed_command,
    patched_files,
    person_text,
    relative_files,
    short_text,
    stable_key,
    text_of,
    utc_timestamp,
)
from ralph.formats.transcripts.edits import PendingEdits
from ralph.formats.transcripts.lines import MAX_LINE_BYTES, open_regular, parse_object

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    import apsw

    from ralph.formats.transcripts.lines import Entry

    Part = tuple[int, Entry, Entry]
    """Number of a part from 1 on, its message, and the part."""

DATABASE = "opencode.db"
BUSY_MILLISECONDS = 2_000
UNFINISHED_SECONDS = 3_600.0
"""Age up to which the last message of a session may still be written, in seconds."""
_SHELL_TOOL = "bash"
_TABLES: dict[str, Collection[str]] = {
    "session": ("id", "directory", "parent_id", "time_created", "time_updated"),
    "message": ("id", "time_created", "data"),
    "part": ("id", "session_id", "message_id", "data"),
}
"""Tables and their columns that are read."""
_SESSIONS = """
SELECT id, directory, parent_id, time_created, time_updated,
       (SELECT count(*) FROM part WHERE part.session_id = session.id) FROM session WHERE ?1 IN ('', id)
"""
_PARTS = """
SELECT message.time_created, message.data, CASE WHEN length(part.data) <= ?1 THEN part.data END
FROM part JOIN message ON message.id = part.message_id
WHERE part.session_id = ?2 ORDER BY message.time_created, message.id, part.id LIMIT -1 OFFSET ?3
"""


class OpencodeReader:
    """Reads the sessions of opencode."""

    name = "opencode"
    title = "opencode"
    is_in_project = False

    def count(self, home: str, environ: Mapping[str, str], directories: Sequence[str]) -> FileCount:
        """Return the number of all sessions in files; those in the database cannot be counted without reading it."""
        folder, database = _places(home, environ, lambda _: None)
        if os.path.isfile(database):  # noqa: PTH113
            return FileCount(count=-1, is_exact=False)
        projects = folder.folders("storage", "session")
        found = sum(1 for one in projects for _ in folder.files("storage", "session", one, suffix=".json"))
        return FileCount(count=found, is_exact=False)

    def find(
        self, home: str, environ: Mapping[str, str], directories: Sequence[str], report: Report
    ) -> Iterator[Transcript]:
        """Yield the sessions of the directories."""
        folder, database = _places(home, environ, report)
        heads = (*_in_files(folder), *_in_database(database, report))  # what is in both is newer in the database
        found = {one.session: one for one in self._transcripts(heads, directories) if one.root}
        yield from oldest_first(list(found.values()))

    def open_file(
        self, path: str, status: os.stat_result, directories: Sequence[str], report: Report
    ) -> Iterator[Transcript]:
        """Yield the sessions in a database, or the one in a JSON file."""
        if not path.endswith(".json"):
            yield from oldest_first(list(self._transcripts(_in_database(path, report), directories)))
        elif (head := _load(path, report)) is not None:
            yield from self._transcripts([(path, head)], directories)

    def find_session(
        self, home: str, environ: Mapping[str, str], session: str, directories: Sequence[str]
    ) -> Transcript | None:
        """Return a session in the database by its id, if it is of the directories: hooks name no file."""
        heads = _in_database(_places(home, environ, lambda _: None)[1], lambda _: None, session)
        return next((one for one in self._transcripts(heads, directories) if one.root), None)

    def directory(self, path: str) -> str:
        """Return nothing: a database holds sessions of all directories."""
        return ""

    def turns(self, transcript: Transcript, report: Report, offset: int = 0) -> Iterator[Turn]:
        """Yield what was said from a number of parts on."""
        is_file = transcript.path.endswith(".json")
        parts = _parts_in_files if is_file else _parts_in_database
        return _OpencodeTurns(transcript).read(_finished(parts(transcript, report, offset)))

    def _transcripts(self, heads: Iterable[tuple[str, Entry]], directories: Sequence[str]) -> Iterator[Transcript]:
        for path, head in heads:
            session, directory = short_text(head.get("id")), short_text(head.get("directory"), 4_096)
            if not session or not directory:
                continue
            times = head.get("time")
            times = times if isinstance(times, dict) else {}
            yield Transcript(
                agent=self.name,
                session=session,
                path=path,
                directory=directory,
                root=containing_directory(directory, directories),
                size=head.get("parts", 0),
                modified_at=utc_timestamp(times.get("updated")),
                started_at=utc_timestamp(times.get("created")),
                is_subagent=bool(head.get("parentID")),
                identity=session if "parts" in head else "",
            )


READER = OpencodeReader()


def _places(home: str, environ: Mapping[str, str], report: Report) -> tuple[DataFolder, str]:
    """Return the folder of the data and the path of the database."""
    share = data_path(home, environ.get("XDG_DATA_HOME"), os.path.join(".local", "share"))
    folder = DataFolder(os.path.join(share, "opencode"), report)
    return folder, data_path(folder.root, environ.get("OPENCODE_DB"), DATABASE)


# --- the database ----------------------------------------------------------------------


def _connect(path: str) -> apsw.Connection:
    """Open the database for reading. Without a log nobody has it open, and SQLite need not create one."""
    from urllib.parse import quote

    import apsw

    from ralph.formats.foreign_sqlite import lacks_tables, limit_connection

    options = "" if os.path.exists(f"{path}-wal") else "?immutable=1"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(f"file:{quote(path)}{options}", flags=flags)
    connection.set_busy_timeout(BUSY_MILLISECONDS)
    limit_connection(connection, os.stat(path).st_size)  # noqa: PTH116
    if lacks_tables(connection, _TABLES):
        connection.close(True)
        raise apsw.SQLError("its tables are missing or computed")
    return connection


def _rows(path: str, report: Report, statement: str, values: Sequence[object]) -> Iterator[tuple[object, ...]]:
    """Yield the rows of a query; report what prevents it."""
    import apsw

    connection = None
    try:
        connection = _connect(path)
        yield from connection.execute(statement, values)
    except (apsw.Error, UnicodeError, OSError) as error:
        reason = f"cannot be read as the database of opencode: {error}"
        report(TranscriptProblem(path=path, offset=0, reason=reason))
    finally:
        if connection is not None:
            connection.close(True)


def _in_database(path: str, report: Report, session: str = "") -> Iterator[tuple[str, Entry]]:
    """Yield the sessions in the database, or one of them, as the JSON files have them."""
    if not os.path.isfile(path):  # noqa: PTH113
        return
    if os.path.islink(path) and os.path.dirname(os.path.realpath(path)) != os.path.dirname(path):  # noqa: PTH114
        report(TranscriptProblem(path=path, offset=0, reason="is a symbolic link; its target is not read"))
        return
    for id, directory, parent, created, updated, parts in _rows(path, report, _SESSIONS, (session,)):
        times = {"created": created, "updated": updated}
        yield path, {"id": id, "directory": directory, "parentID": parent, "time": times, "parts": parts}


def _parts_in_database(transcript: Transcript, report: Report, offset: int) -> Iterator[Part]:
    values = (MAX_LINE_BYTES, transcript.session, max(0, offset))
    rows = _rows(transcript.path, report, _PARTS, values)
    for number, (created, message, part) in enumerate(rows, start=max(0, offset) + 1):
        head, body = (parse_object(str(one).encode("utf-8", "replace")) if one else None for one in (message, part))
        if head is None or body is None:
            reason = f"the part is not valid JSON or longer than {MAX_LINE_BYTES // 1024**2} MB"
            report(TranscriptProblem(path=transcript.path, offset=number - 1, reason=reason))
            continue
        yield number, {**head, "created": created}, body


# --- JSON files, before 1.2 --------------------------------------------------------------


def _in_files(folder: DataFolder) -> Iterator[tuple[str, Entry]]:
    for project in folder.folders("storage", "session"):
        for path, _ in folder.files("storage", "session", project, suffix=".json"):
            if (head := _load(path, folder.report)) is not None:
                yield path, head


def _parts_in_files(transcript: Transcript, report: Report, offset: int) -> Iterator[Part]:
    storage = os.path.dirname(os.path.dirname(os.path.dirname(transcript.path)))
    folder, number = DataFolder(storage, report), 0
    for path, _ in folder.files("message", transcript.session, suffix=".json"):
        id = os.path.basename(path).removesuffix(".json")
        parts = [one for one, _ in folder.files("part", id, suffix=".json")]
        number += len(parts)
        if number <= offset or (head := _load(path, report)) is None:
            continue
        times = head.get("time")
        created = times.get("created") if isinstance(times, dict) else None
        for place, part in enumerate(parts, start=number - len(parts) + 1):
            if place > offset and (body := _load(part, report)) is not None:
                yield place, {**head, "created": created}, body


def _load(path: str, report: Report) -> Entry | None:
    """Return the object in a JSON file; report what prevents it."""
    try:
        with open_regular(path) as file:
            content = file.read(MAX_LINE_BYTES + 1)
    except OSError as error:
        report(TranscriptProblem(path=path, offset=0, reason=os_reason(error)))
        return None
    found = parse_object(content) if len(content) <= MAX_LINE_BYTES else None
    if found is None:
        reason = f"the file is not valid JSON or larger than {MAX_LINE_BYTES // 1024**2} MB"
        report(TranscriptProblem(path=path, offset=0, reason=reason))
    return found


# --- turns -------------------------------------------------------------------------------


def _finished(parts: Iterable[Part]) -> Iterator[Part]:
    """Yield the parts without those of a last message that may still be written."""
    held: list[Part] = []
    for part in parts:
        if held and held[0][1].get("created") != part[1].get("created"):
            yield from held
            held.clear()
        if _is_finished(part[1]):
            yield part
        else:
            held.append(part)


def _is_finished(message: Entry) -> bool:
    times, created = message.get("time"), message.get("created")
    is_open = message.get("role") == "assistant" and isinstance(times, dict) and not times.get("completed")
    is_old = not isinstance(created, int) or time.time() - created / 1000 > UNFINISHED_SECONDS
    return not is_open or is_old


class _OpencodeTurns:
    """Makes turns of the parts of messages."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._edits = PendingEdits()

    def read(self, parts: Iterator[Part]) -> Iterator[Turn]:
        """Yield the turns."""
        for part in parts:
            _, message, body = part
            if body.get("type") == "tool":
                yield from self._tool(part)
            elif body.get("type") == "text" and not (body.get("synthetic") or body.get("ignored")):
                if message.get("role") == "user" and not self._transcript.is_subagent:
                    yield from self._prompt(part)
                elif message.get("role") == "assistant" and not _is_summary(message):
                    yield from self._reply(part)
        yield from self._edits.alone()

    def _prompt(self, part: Part) -> Iterator[Turn]:
        if text := person_text(_unquoted(text_of(part[2].get("text")))):
            yield from self._edits.alone()
            yield self._turn(part, Speaker.PERSON, text)

    def _reply(self, part: Part) -> Iterator[Turn]:
        if text := text_of(part[2].get("text")):
            yield self._turn(part, Speaker.AGENT, text, self._edits.take())

    def _tool(self, part: Part) -> Iterator[Turn]:
        state = part[2].get("state")
        if not isinstance(state, dict):
            return
        if error := _failure(part[2].get("tool"), state):
            yield self._turn(part, Speaker.TOOL, error, self._edits.take())
        elif state.get("status") == "completed" and (paths := _edited(part[2].get("tool"), state.get("input"))):
            directory = self._transcript.directory
            files = relative_files(paths, directory, self._transcript.root or directory)
            self._edits.add(str(part[0]), files, lambda: self._turn(part, Speaker.AGENT, ""))

    def _turn(self, part: Part, speaker: Speaker, text: str, files: tuple[str, ...] = ()) -> Turn:
        number, message, body = part
        created = message.get("created")
        return Turn(
            key=stable_key(self._transcript.agent, created, body.get("callID"), text),
            speaker=speaker,
            text=text,
            files=files,
            at=utc_timestamp(created),
            offset=number,
        )


def _is_summary(message: Entry) -> bool:
    return bool(message.get("summary")) or message.get("mode") == "compaction" or message.get("agent") == "compaction"


def _unquoted(text: str) -> str:
    """Return a prompt without the quotes that `opencode run` puts around it."""
    inner = text[1:-1]
    is_quoted = len(text) > 1 and text[0] == text[-1] == '"' and '"' not in inner.replace('\\"', "")
    return inner.replace('\\"', '"') if is_quoted else text


def _edited(tool: object, arguments: object) -> list[object]:
    """Return the paths that a tool call edited."""
    if not isinstance(arguments, dict):
        return []
    if tool in ("write", "edit", "multiedit"):
        return [arguments.get("filePath")]
    return list(patched_files(arguments.get("patchText"))) if tool in ("patch", "apply_patch") else []


def _failure(tool: object, state: Entry) -> str:
    """Return the command of a tool call that failed, with its error; empty if it did not fail."""
    arguments, metadata = state.get("input"), state.get("metadata")
    command = arguments.get("command") if isinstance(arguments, dict) else None
    code = metadata.get("exit") if isinstance(metadata, dict) else None
    if tool != _SHELL_TOOL or not isinstance(command, str):
        return ""
    if state.get("status") == "error":
        return failed_command(command, text_of(state.get("error")))
    if not isinstance(code, int) or not code:
        return ""
    return failed_command(command, f"Exit code {code}\n{text_of(state.get('output'))}")
