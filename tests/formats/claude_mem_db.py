"""Databases in the shape of claude-mem: the current one, and an older one with other ids and a single text."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

AT = 1_772_092_911_902
"""Time of the first record, in milliseconds: 2026-02-26T08:01:51.902Z."""
_OLD = """
CREATE TABLE sdk_sessions (id INTEGER PRIMARY KEY AUTOINCREMENT, claude_session_id TEXT UNIQUE NOT NULL,
    sdk_session_id TEXT UNIQUE, project TEXT NOT NULL, user_prompt TEXT, started_at TEXT NOT NULL,
    started_at_epoch INTEGER NOT NULL, status TEXT NOT NULL DEFAULT 'active');
CREATE TABLE observations (id INTEGER PRIMARY KEY AUTOINCREMENT, sdk_session_id TEXT NOT NULL, project TEXT NOT NULL,
    text TEXT NOT NULL, type TEXT NOT NULL, created_at TEXT NOT NULL, created_at_epoch INTEGER NOT NULL);
CREATE TABLE session_summaries (id INTEGER PRIMARY KEY AUTOINCREMENT, sdk_session_id TEXT UNIQUE NOT NULL,
    project TEXT NOT NULL, request TEXT, investigated TEXT, learned TEXT, completed TEXT, next_steps TEXT,
    created_at TEXT NOT NULL, created_at_epoch INTEGER NOT NULL);
"""
_CURRENT = """
CREATE TABLE sdk_sessions (id INTEGER PRIMARY KEY AUTOINCREMENT, content_session_id TEXT UNIQUE NOT NULL,
    memory_session_id TEXT UNIQUE, project TEXT NOT NULL, platform_source TEXT NOT NULL DEFAULT 'claude',
    user_prompt TEXT, started_at TEXT NOT NULL, started_at_epoch INTEGER NOT NULL, custom_title TEXT,
    status TEXT NOT NULL DEFAULT 'active');
CREATE TABLE observations (id INTEGER PRIMARY KEY AUTOINCREMENT, memory_session_id TEXT NOT NULL,
    project TEXT NOT NULL, text TEXT, type TEXT NOT NULL, title TEXT, subtitle TEXT, facts TEXT, narrative TEXT,
    concepts TEXT, files_read TEXT, files_modified TEXT, prompt_number INTEGER, content_hash TEXT,
    merged_into_project TEXT, created_at TEXT NOT NULL, created_at_epoch INTEGER NOT NULL);
CREATE VIRTUAL TABLE observations_fts USING fts5(title, narrative, content='observations', content_rowid='id');
CREATE TABLE session_summaries (id INTEGER PRIMARY KEY AUTOINCREMENT, memory_session_id TEXT NOT NULL,
    project TEXT NOT NULL, request TEXT, investigated TEXT, learned TEXT, completed TEXT, next_steps TEXT,
    files_read TEXT, files_edited TEXT, notes TEXT, merged_into_project TEXT, created_at TEXT NOT NULL,
    created_at_epoch INTEGER NOT NULL);
CREATE TABLE user_prompts (id INTEGER PRIMARY KEY AUTOINCREMENT, content_session_id TEXT NOT NULL,
    prompt_number INTEGER NOT NULL, prompt_text TEXT NOT NULL, created_at TEXT NOT NULL,
    created_at_epoch INTEGER NOT NULL);
"""


class ClaudeMem:
    """A database of claude-mem that is open, as its worker keeps it."""

    def __init__(self, path: Path, *, is_old: bool = False) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._content_id = "claude_session_id" if is_old else "content_session_id"
        self._memory_id = "sdk_session_id" if is_old else "memory_session_id"
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.executescript(_OLD if is_old else _CURRENT)

    def close(self) -> None:
        self._connection.close()

    def session(self, id: str, project: str, **fields: object) -> None:
        """Add a session; claude-mem's own id of it is another one."""
        ids = {self._content_id: id, self._memory_id: f"memory-{id}"}
        self._insert("sdk_sessions", project=project, started_at="", started_at_epoch=AT, **ids, **fields)

    def observe(self, session: str, project: str, **fields: object) -> None:
        self._record("observations", session, project, **{"type": "decision", **fields})

    def summarize(self, session: str, project: str, **fields: object) -> None:
        self._record("session_summaries", session, project, **fields)

    def ask(self, session: str, text: str) -> None:
        self._insert(
            "user_prompts",
            **{self._content_id: session},
            prompt_number=1,
            prompt_text=text,
            created_at="",
            created_at_epoch=AT,
        )

    def _record(self, table: str, session: str, project: str, **fields: object) -> None:
        ids = {self._memory_id: f"memory-{session}" if session else ""}
        self._insert(table, **{"created_at": "", "created_at_epoch": AT + 1000, **ids, **fields}, project=project)

    def _insert(self, table: str, **fields: object) -> None:
        values = [json.dumps(value) if isinstance(value, list) else value for value in fields.values()]
        marks = ", ".join("?" * len(fields))
        self._connection.execute(f"INSERT INTO {table} ({', '.join(fields)}) VALUES ({marks})", values)
