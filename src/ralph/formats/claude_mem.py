"""Reader of the database of claude-mem, which keeps observations and summaries of sessions in all projects.

Older databases call the ids of sessions otherwise and have the text of an observation in one column. So a column that
is missing counts as empty.
"""

from __future__ import annotations

import json

from ralph.core.records import Speaker, Turn
from ralph.formats.planned import PlannedPassage, PlannedProject, ReadProblem
from ralph.formats.transcripts import READERS
from ralph.formats.transcripts.base import data_path
from ralph.formats.transcripts.cleaning import person_text, short_text, text_of, utc_timestamp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ralph.formats.databases import DatabaseRow, ForeignDatabase
    from ralph.formats.detection import DatabaseSample

DEFAULT_AGENT = "claude"
"""Agent of sessions that name none which is known here."""
_CONTENT_ID = ("content_session_id", "claude_session_id")
"""Columns with the agent's id of a session: the current name, and that of older databases."""
_MEMORY_ID = ("memory_session_id", "sdk_session_id")
"""Columns with claude-mem's own id of a session."""
_SUMMARY_PARTS = {
    "request": "Request",
    "investigated": "Investigated",
    "learned": "Learned",
    "completed": "Completed",
    "next_steps": "Next steps",
    "notes": "Notes",
}


def database_path(home: str, environ: Mapping[str, str]) -> str:
    """Return where claude-mem keeps its database."""
    return data_path(home, environ.get("CLAUDE_MEM_DATA_DIR"), ".claude-mem") + "/claude-mem.db"


def is_claude_mem(sample: DatabaseSample) -> bool:
    """Return whether a database has the tables of the first version."""
    return all(
        sample.columns.get(table, frozenset()) >= {"project", "created_at_epoch"}
        for table in ("observations", "session_summaries")
    ) and "project" in sample.columns.get("sdk_sessions", frozenset())


def read_claude_mem(database: ForeignDatabase, at: str) -> PlannedProject:
    """Return what was observed, summarized and asked in all projects; the lines of the problems are row numbers."""
    return _ClaudeMemReader(database, at).read()


class _ClaudeMemReader:
    def __init__(self, database: ForeignDatabase, at: str) -> None:
        self._database = database
        self._at = at
        self._passages: list[PlannedPassage] = []
        self._problems: list[ReadProblem] = []
        sessions = database.rows("sdk_sessions")
        self._by_memory_id = {id: row for row in sessions if (id := _first(row, _MEMORY_ID))}
        self._by_content_id = {id: row for row in sessions if (id := _first(row, _CONTENT_ID))}

    def read(self) -> PlannedProject:
        self._read_table("user_prompts", Speaker.PERSON, _prompt)
        if "user_prompts" not in self._database.columns:
            self._read_table("sdk_sessions", Speaker.PERSON, _first_prompt)
        self._read_table("observations", Speaker.AGENT, _observation)
        self._read_table("session_summaries", Speaker.AGENT, _summary)
        passages = sorted(self._passages, key=lambda one: one.turn.at)
        return PlannedProject(passages=tuple(passages), problems=tuple(self._problems))

    def _read_table(self, table: str, speaker: Speaker, text_in: Callable[[DatabaseRow], str | None]) -> None:
        for row in self._database.rows(table):
            text = text_in(row)
            if text is None:
                continue
            session = self._session(row)
            id, project = self._session_id(row, session), _project(row) or _project(session)
            if not text or not id or not project:
                lacks = "text" if not text else "session" if not id else "project"
                self._leave_out(table, row, f"it has no {lacks}")
                continue
            turn = Turn(
                key=f"claude-mem {table} {id} {row.get('id', row['row'])}",
                speaker=speaker,
                text=text,
                files=_files(row),
                at=_time(row) or _time(session) or self._at,
            )
            self._passages.append(PlannedPassage(project=project, session=id, agent=_agent(session), turn=turn))

    def _session(self, row: DatabaseRow) -> DatabaseRow:
        """Return the session that a row belongs to; an empty one if it was deleted."""
        found = self._by_memory_id.get(_first(row, _MEMORY_ID)) or self._by_content_id.get(_first(row, _CONTENT_ID))
        return found or {}

    def _session_id(self, row: DatabaseRow, session: DatabaseRow) -> str:
        return _first(session, _CONTENT_ID) or _first(row, (*_CONTENT_ID, *_MEMORY_ID))

    def _leave_out(self, table: str, row: DatabaseRow, why: str) -> None:
        line = row["row"]
        self._problems.append(ReadProblem(line=line, why=f"Skipped row {line} of {table}: {why}."))


# --- texts ---------------------------------------------------------------------------


def _prompt(row: DatabaseRow) -> str | None:
    """Return what a person asked; None if a program wrote it."""
    text = row.get("prompt_text")
    return person_text(text) or (None if text_of(text) else "")


def _first_prompt(row: DatabaseRow) -> str | None:
    """Return how a session started, in databases without prompts; None if nobody said something."""
    return person_text(row.get("user_prompt")) or None


def _observation(row: DatabaseRow) -> str:
    title = text_of(row.get("title"))
    details = [text_of(row.get(name)) for name in ("subtitle", "narrative")]
    facts = [f"- {fact}" for fact in _listed(row.get("facts"))]
    lines = [line for line in (title, *details, *facts) if line] or [text_of(row.get("text"))]
    kind = text_of(row.get("type"))
    return "\n".join([f"{kind}: {lines[0]}" if kind else lines[0], *lines[1:]]) if lines[0] else ""


def _summary(row: DatabaseRow) -> str:
    parts = [(label, text_of(row.get(column))) for column, label in _SUMMARY_PARTS.items()]
    return "\n".join(f"{label}: {text}" for label, text in parts if text)


# --- columns -------------------------------------------------------------------------


def _first(row: DatabaseRow, columns: tuple[str, ...]) -> str:
    return next((text for column in columns if (text := short_text(row.get(column)))), "")


def _project(row: DatabaseRow) -> str:
    """Return the name of the project of a row, which for a merged worktree is that of its main worktree."""
    return _first(row, ("merged_into_project", "project"))


def _agent(session: DatabaseRow) -> str:
    agent = short_text(session.get("platform_source"))
    return agent if agent in READERS else DEFAULT_AGENT


def _time(row: DatabaseRow) -> str:
    return utc_timestamp(row.get("created_at_epoch")) or utc_timestamp(row.get("started_at_epoch"))


def _files(row: DatabaseRow) -> tuple[str, ...]:
    """Return the files of a row, first those that were changed."""
    columns = ("files_modified", "files_edited", "files_read")
    return tuple(dict.fromkeys(path for column in columns for path in _listed(row.get(column))))


def _listed(value: object) -> list[str]:
    """Return the texts of a JSON array; a text that is none is the only one."""
    text = text_of(value)
    try:
        listed = json.loads(text) if text else []
    except (ValueError, RecursionError):
        return [text]
    return [one for item in listed if (one := text_of(item))] if isinstance(listed, list) else [text]
