"""Files of other programs may be made by anybody: they reach no other file, and cost no more than their size."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from ralph.core.errors import UsageError
from ralph.formats import foreign_sqlite
from ralph.formats.databases import open_foreign
from ralph.formats.progress_db import read_progress_db
from ralph.formats.sources import find_foreign, find_sources
from ralph.formats.transcripts.base import TranscriptProblem
from ralph.formats.transcripts.opencode import READER

pytestmark = pytest.mark.storeless

TASKS = "id TEXT, parent_id TEXT, title TEXT, status TEXT, priority INTEGER"
SCHEMA = f"""
CREATE TABLE tasks ({TASKS}, description TEXT, feature_id TEXT, created_at TEXT);
CREATE TABLE dependencies (blocker_id TEXT, blocked_id TEXT);
CREATE TABLE features (id TEXT, name TEXT, spec_path TEXT, plan_path TEXT);
INSERT INTO features VALUES ('f', 'Money', 'bank/plan.md', '');
INSERT INTO tasks VALUES ('t', NULL, 'Count', 'pending', 1, '', 'f', '');
"""
MANY = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 2000)"
ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"
BOMBS = {
    "a computed column": (
        f"CREATE TABLE tasks ({TASKS}, bomb TEXT GENERATED ALWAYS AS (hex(zeroblob(400000000))));"
        f"{MANY} INSERT INTO tasks (id, title) SELECT x, 't' FROM n;"
    ),
    "a default": (
        f"CREATE TABLE tasks ({TASKS}); {MANY} INSERT INTO tasks (id, title) SELECT x, 't' FROM n;"
        f"ALTER TABLE tasks ADD COLUMN bomb TEXT DEFAULT '{'x' * 100_000}';"
    ),
    "a view": f"CREATE VIEW tasks AS {ENDLESS} SELECT x AS id, 1 AS parent_id, 't' AS title FROM n;",
}
MESSAGE, PART = "message(id, time_created, data)", "part(id, session_id, message_id, data)"
COMPUTED = "data GENERATED ALWAYS AS (hex(zeroblob(400000000)))"
SESSIONS = {
    "endless sessions": f"""CREATE TABLE {MESSAGE}; CREATE TABLE {PART};
        CREATE VIEW session AS {ENDLESS} SELECT x AS id, '/' AS directory, NULL AS parent_id, 1 AS time_created,
        1 AS time_updated FROM n;""",
    "endless parts": f"""CREATE TABLE session(id, directory, parent_id, time_created, time_updated);
        INSERT INTO session VALUES ('s', '/', NULL, 1, 1); CREATE TABLE {MESSAGE};
        CREATE VIEW part AS {ENDLESS} SELECT x AS id, 's' AS session_id, 'm' AS message_id, '' AS data FROM n;""",
    "computed messages": f"""CREATE TABLE session(id, directory, parent_id, time_created, time_updated);
        INSERT INTO session VALUES ('s', '/', NULL, 1, 1); CREATE TABLE {PART};
        CREATE TABLE message(id, time_created, {COMPUTED}); INSERT INTO message(id) VALUES ('m');""",
}


def database(path: Path, script: str) -> Path:
    connection = sqlite3.connect(path)
    connection.executescript(script)
    connection.close()
    return path


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_database_is_not_read_for_more_than_its_size(tmp_path: Path, bomb: str) -> None:
    path = database(tmp_path / "progress.db", BOMBS[bomb])
    read = 0

    try:
        with open_foreign(path) as opened:
            read = sum(len(str(row)) for row in opened.rows("tasks"))
    except UsageError:
        pass

    assert read < 4 * foreign_sqlite.max_content(path.stat().st_size)


@pytest.mark.parametrize("kind", SESSIONS)
def test_tables_of_opencode_that_are_computed_are_reported(tmp_path: Path, kind: str) -> None:
    path = database(tmp_path / "opencode.db", SESSIONS[kind])
    problems: list[TranscriptProblem] = []

    found = list(READER.open_file(str(path), path.stat(), ["/"], problems.append))

    assert found == []
    assert len(problems) == 1


def test_a_query_that_multiplies_rows_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign_sqlite, "MAX_STEPS", 3 * foreign_sqlite.STEPS)
    rows = "CREATE TABLE session(id, directory, parent_id, time_created, time_updated);"
    rows += f"INSERT INTO session VALUES ('s', '{tmp_path}', NULL, 1, 1); CREATE TABLE {MESSAGE}; CREATE TABLE {PART};"
    rows += f"{MANY} INSERT INTO message SELECT 'm', 1, '{{}}' FROM n;"
    rows += f"{MANY} INSERT INTO part SELECT x, 's', 'm', '{{}}' FROM n;"
    path = database(tmp_path / "opencode.db", rows)
    problems: list[TranscriptProblem] = []
    (transcript,) = READER.open_file(str(path), path.stat(), [str(tmp_path)], problems.append)

    assert list(READER.turns(transcript, problems.append)) == []
    assert [one.reason for one in problems]


@pytest.mark.parametrize("place", ["progress.db", "data/progress.db"])
def test_a_spec_is_read_only_from_the_project_of_the_database(tmp_path: Path, place: str) -> None:
    """The database names files, and is in a directory next to others."""
    (tmp_path / "bank").mkdir()
    (tmp_path / "bank" / "plan.md").write_text("The vault opens at 4417.")
    path = tmp_path / "clone" / place
    path.parent.mkdir(parents=True)
    script = SCHEMA.replace("bank/plan.md", "bank/plan.md" if place == "progress.db" else "../bank/plan.md")
    database(path, script)

    with open_foreign(path) as opened:
        planned = read_progress_db(opened, "2026-01-01T00:00:00Z")

    assert [feature.spec for feature in planned.features] == [""]
    assert len(planned.problems) == 1


@pytest.mark.parametrize(
    ("link", "target"),
    [
        (".agent/memories.md", "../../bank/.agent/memories.md"),
        (".agent", "../bank/.agent"),
        (".beads/issues.jsonl", "../../bank/.beads/issues.jsonl"),
        (".beads", "../bank/.beads"),
        ("notes.md", "../bank/.agent/memories.md"),
    ],
)
def test_a_folder_with_a_link_that_leads_out_is_refused(tmp_path: Path, link: str, target: str) -> None:
    for name in (".agent/memories.md", ".beads/issues.jsonl"):
        (tmp_path / "bank" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "bank" / name).write_text(json.dumps({"id": "b-1", "title": "4417"}))
    clone = tmp_path / "clone"
    (clone / link).parent.mkdir(parents=True)
    (clone / link).symlink_to(target)

    with pytest.raises(UsageError) as refused:
        find_sources(clone)

    assert refused.value.code == "outside-link"
    assert find_foreign(str(clone), "", {}) == []
