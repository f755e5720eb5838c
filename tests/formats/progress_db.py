"""Databases in the shape of RefoundAI's ralph, in each of its versions."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

_VERSIONS = {
    1: """
    CREATE TABLE tasks (id TEXT PRIMARY KEY, parent_id TEXT, title TEXT NOT NULL, description TEXT,
        status TEXT NOT NULL DEFAULT 'pending', priority INTEGER NOT NULL DEFAULT 0, created_at TEXT NOT NULL,
        updated_at TEXT NOT NULL, claimed_by TEXT);
    CREATE TABLE dependencies (blocker_id TEXT NOT NULL, blocked_id TEXT NOT NULL,
        PRIMARY KEY (blocker_id, blocked_id));
    CREATE TABLE task_logs (id INTEGER PRIMARY KEY, task_id TEXT NOT NULL, message TEXT NOT NULL,
        timestamp TEXT NOT NULL);
    """,
    2: """
    CREATE TABLE features (id TEXT PRIMARY KEY, name TEXT UNIQUE NOT NULL, spec_path TEXT, plan_path TEXT,
        status TEXT NOT NULL DEFAULT 'draft', created_at TEXT NOT NULL, updated_at TEXT NOT NULL);
    ALTER TABLE tasks ADD COLUMN feature_id TEXT;
    ALTER TABLE tasks ADD COLUMN task_type TEXT DEFAULT 'feature';
    ALTER TABLE tasks ADD COLUMN retry_count INTEGER DEFAULT 0;
    ALTER TABLE tasks ADD COLUMN max_retries INTEGER DEFAULT 3;
    ALTER TABLE tasks ADD COLUMN verification_status TEXT;
    """,
    3: """
    CREATE TABLE journal (id INTEGER PRIMARY KEY, run_id TEXT NOT NULL, iteration INTEGER NOT NULL, task_id TEXT,
        feature_id TEXT, outcome TEXT NOT NULL, model TEXT, duration_secs REAL, cost_usd REAL DEFAULT 0,
        files_modified TEXT, notes TEXT, created_at TEXT NOT NULL);
    CREATE VIRTUAL TABLE journal_fts USING fts5(notes, content='journal', content_rowid='id');
    """,
    4: "CREATE INDEX journal_by_task ON journal (task_id);",
    5: "CREATE TABLE model_overrides (scope TEXT PRIMARY KEY, model TEXT NOT NULL);",
}
AT = "2026-02-26T08:01:51.902657+00:00"
TASKS = [
    ("t-000000a1", None, "Build the parser", "The whole of it.", "in_progress", 0),
    ("t-000000a2", "t-000000a1", "Read tabs", "Tabs are eight columns.", "done", 1),
    ("t-000000a3", "t-000000a1", "Read quotes", "", "failed", 2),
    ("t-000000a4", None, "Write the manual", None, "blocked", 3),
    ("t-000000a5", None, "Ask the lawyers", "", "blocked", 0),
]


def open_progress_db(path: Path, version: int = 5) -> sqlite3.Connection:
    """Make a database with tasks, and what its version has besides; give an open connection to it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    for number in range(1, version + 1):
        connection.executescript(_VERSIONS[number])
    connection.execute(f"PRAGMA user_version = {version}")
    for row in TASKS:
        connection.execute(
            "INSERT INTO tasks (id, parent_id, title, description, status, priority, created_at, updated_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (*row, AT, AT),
        )
    connection.execute("INSERT INTO dependencies VALUES ('t-000000a3', 't-000000a4')")
    connection.execute("INSERT INTO dependencies VALUES ('t-000000a2', 't-000000a3')")
    connection.execute(
        "INSERT INTO task_logs (task_id, message, timestamp) VALUES ('t-000000a2', 'Half done.', ?)", (AT,)
    )
    if version >= 2:
        connection.execute(
            "INSERT INTO features VALUES"
            " ('f-0000000f', 'parser', '.ralph/features/parser/spec.md', NULL, 'running', ?, ?)",
            (AT, AT),
        )
        connection.execute("UPDATE tasks SET feature_id = 'f-0000000f', retry_count = 2 WHERE id LIKE '%a3'")
    if version >= 3:
        files = json.dumps(["src/parser.rs"])
        for number, notes in enumerate(("Quotes nest.", "Escapes are not done."), start=1):
            connection.execute(
                "INSERT INTO journal (run_id, iteration, task_id, outcome, model, duration_secs, cost_usd,"
                " files_modified, notes, created_at) VALUES"
                " ('run-0000000b', ?, 't-000000a3', 'failed', 'opus', 61.4, 0.25, ?, ?, ?)",
                (number, files, notes, AT),
            )
    return connection
