"""Databases for tests: filled, looked at, damaged, and as older versions made them."""

from __future__ import annotations

import json
from pathlib import Path

import apsw

from ralph.core.records import AttemptOutcome, TaskStatus, now
from ralph.core.tokenize import tokenize
from ralph.store import Store, create_store, open_store
from ralph.store.database import checksum
from ralph.store.index import attempt_words, failure_words, memory_words
from ralph.store.maintenance.migrate import migration_scripts
from ralph.store.memories import ChangeInfo
from ralph.store.memory_queries import MemoryFilter
from ralph.store.sqlite.driver import APPLICATION_ID, SqliteDatabase
from ralph.store.tasks import TaskDraft
from tests.make import a_memory, a_report, begin, finish

LEARNED = ChangeInfo(who="test", why="it was learned")


def a_database(folder: Path) -> Path:
    """Make a database with rows in every table that has checksums; give its path."""
    path = folder / "ralph.db"
    store = create_store(str(path), "tests")
    fill(store)
    store.close()
    return path


def fill(store: Store) -> None:
    store.features.add("Search", "It finds things.")
    store.tasks.add_all([TaskDraft(title=f"Task {n}", body="What has to be done. " * 8) for n in range(30)])
    run = store.runs.start("test")
    for n in range(8):
        task, attempt = begin(store, run.id)
        notes = f"Looked at part {n}." if n % 2 else ""
        finish(store, task, attempt, AttemptOutcome.FAILED, TaskStatus.BLOCKED, report=a_report(attempt), notes=notes)
    learn(store, *(f"Fact {n}" for n in range(20)))


def learn(store: Store, *titles: str) -> None:
    for title in titles:
        store.memories.add(a_memory(title, f"All about {title}."), LEARNED)


def titles(path: Path) -> list[str]:
    store = open_store(str(path))
    found = [memory.title for memory in store.memories.all()]
    store.close()
    return found


def damage(path: Path, old: bytes, new: bytes) -> None:
    """Change bytes of a row where they are."""
    content = path.read_bytes()
    assert len(old) == len(new)
    assert old in content
    path.write_bytes(content.replace(old, new))


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and not file.name.endswith(("-shm", "-wal", ".lock"))
    }


# --- looked up -----------------------------------------------------------------------------


def found_by(store: Store, text: str, limit: int = 10, wanted: MemoryFilter | None = None) -> list[str]:
    """Give the titles of the memories that hold words of a text, best first."""
    return [row["title"] for row in store.memories.index.search_words(asked(text), limit, wanted).rows]


def notes_found_by(store: Store, text: str, limit: int = 10, not_run: str = "") -> list[str]:
    """Give the notes of the journal entries that hold words of a text, best first."""
    return [row["notes"] for row in store.attempts.search(asked(text), limit, not_run).rows]


def failures_found_by(store: Store, text: str, limit: int = 10) -> list[str]:
    """Give why it failed of the failure reports that hold words of a text, best first."""
    return [row["why"] for row in store.failures.search(asked(text), limit).rows]


def asked(text: str) -> dict[str, float]:
    return dict.fromkeys(tokenize(text), 1.0)


# --- as older versions made them -------------------------------------------------------------

OLD_MEMORY: dict[str, object] = {
    "project_id": "p-1", "kind": "knowledge", "content": "", "tags": '["old"]', "files": '["src/old.py"]',
    "feature": None, "task_type": None, "hat": None, "source": "explicit", "trust": "project", "state": "active",
    "confidence": 0.6, "wins": 0, "losses": 0, "uses": 0, "superseded_by": None, "origin_task": None,
    "origin_run": None, "origin_attempt": None, "origin_session": None, "origin_loops": "[]", "used_at": None,
    "verified_at": None,
}  # fmt: skip
OLD_TASK: dict[str, object] = {
    "project_id": "p-1", "id": "t-000001", "title": "Mend the exporter", "body": "", "status": "done", "priority": 0,
    "parent_id": None, "feature_id": None, "reason": "", "claimed_by": None, "claim_token": 0, "lease_until": None,
    "reset_after": 0,
}  # fmt: skip
OLD_ATTEMPT: dict[str, object] = {
    "project_id": "p-1", "run_id": "run-00000001", "task_id": "t-000001", "feature_id": None, "hat": "", "agent": "a",
    "model": None, "model_reason": "", "outcome": "failed", "reason": "", "error_type": None, "seconds": 1.0,
    "cost_usd": 0.0, "tokens_in": None, "tokens_out": None, "files": "[]", "difficulty": None, "shown": "[]",
    "with_memory": 1, "worker": None,
}  # fmt: skip
OLD_FAILURE: dict[str, object] = {
    "project_id": "p-1", "run_id": "run-00000001", "iteration": 1, "task_id": "t-000001", "attempt_number": 1,
    "tried": "Ran it.", "why": "The semicolon was missing.", "category": "build_error", "files": "[]", "trace": "",
    "retry_suggestion": "", "fingerprint": "", "made_by": "ralph",
}  # fmt: skip


def an_old_database(path: Path, version: int, memories: int) -> None:
    """Make a database as an older version had it: a task, two attempts of which one left notes, a report, memories."""
    connection = apsw.Connection(str(path))
    for script in migration_scripts(0, "sqlite", version):
        for _ in connection.execute(script):
            pass
    connection.pragma("application_id", APPLICATION_ID)
    connection.pragma("user_version", version)
    at = now()
    times = {"created_at": at, "updated_at": at}
    with connection:
        connection.execute("INSERT INTO projects (id, name, created_at) VALUES ('p-1', 'old', ?)", (at,))
        connection.execute(
            "INSERT INTO runs (seq, project_id, id, agent, started_at, ending, iterations)"
            " VALUES (1, 'p-1', 'run-00000001', 'a', ?, '', 2)",
            (at,),
        )
        _insert(connection, "tasks", OLD_TASK | times)
        for n, notes in ((1, "The zebra is in the export."), (2, "")):
            lasted = {"started_at": at, "ended_at": at}
            _insert(connection, "attempts", OLD_ATTEMPT | lasted | {"iteration": n, "number": n, "notes": notes})
        _insert(connection, "failures", OLD_FAILURE | {"created_at": at})
        for n in range(memories):
            row = OLD_MEMORY | times | {"id": f"mem-{n}-0000", "title": f"Title {n}", "title_key": f"title {n}"}
            row["body"] = f"Body {n}: the encoder of part {n % 50} wants utf_8."
            if version > 1:
                row |= {"state_reason": "", "success_rate": None, "support": 1, "validated_at": None}
                row["fingerprint"] = f"{n}"
            _insert(connection, "memory", row)
        if version >= 3:
            _index(connection, version)
    connection.close()


def _index(connection: apsw.Connection, version: int) -> None:
    """Index all as the third version did, or later ones."""
    tables = {
        "memory": (memory_words, "SELECT * FROM memory"),
        "attempt": (attempt_words, "SELECT a.*, t.title FROM attempts AS a, tasks AS t WHERE notes <> ''"),
        "failure": (failure_words, "SELECT * FROM failures"),
    }
    for index, (words_of, sql) in tables.items():
        for row in SqliteDatabase(connection, "it").query(sql):
            values = {"seq": row["seq"], "version": 1, **words_of(row)}
            if version > 3:
                values["project_id"] = row["project_id"]
            marks = ", ".join(f":{name}" for name in values)
            connection.execute(f"INSERT INTO {index}_words ({', '.join(values)}) VALUES ({marks})", values)
            for path in json.loads(row["files"]) if index == "memory" else ():
                connection.execute("INSERT INTO memory_files VALUES (?, ?, ?)", (row["project_id"], path, row["seq"]))


def _insert(connection: apsw.Connection, table: str, row: dict[str, object]) -> None:
    row["checksum"] = checksum(row)
    marks = ", ".join(f":{name}" for name in row)
    connection.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", row)
