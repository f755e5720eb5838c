"""Reader of `.ralph/progress.db`, the database of RefoundAI's ralph, in versions 1 to 5.

Tasks and features are taken over. The journal becomes the log of the tasks. It does not become attempts: those have
prompts, memories and metrics that nobody recorded, and would distort what is measured here.
"""

from __future__ import annotations

import json

from ralph.core.records import TaskLogEntry, TaskStatus
from ralph.core.text import one_line, sanitize, truncate
from ralph.formats.imported import InvalidEntryError, parse_timestamp
from ralph.formats.planned import (
    MAX_TASK_CHARS,
    PlannedFeature,
    PlannedProject,
    PlannedTask,
    ReadProblem,
    quote_excerpt,
)
from ralph.formats.task_links import without_cycles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ralph.formats.databases import DatabaseRow, ForeignDatabase
    from ralph.formats.detection import DatabaseSample

NEWEST_VERSION = 5
"""Newest version of the database whose tables are known."""
FOLDER = ".ralph"
"""Folder of a project with its database."""
LOG_AUTHOR = "import"
MAX_SPEC_BYTES = 1024 * 1024
"""Maximum size of a spec or plan, in bytes."""
MAX_NOTES = 3
"""Number of journal entries that are added to the description of an unfinished task."""
MAX_NOTE_CHARS = 1_000
MAX_PRIORITY = 1_000_000
_STATUSES = {
    "pending": TaskStatus.PENDING,
    # The worker that claimed it is not part of this project.
    "in_progress": TaskStatus.PENDING,
    "done": TaskStatus.DONE,
    "failed": TaskStatus.FAILED,
    "blocked": TaskStatus.BLOCKED,
}


def is_progress_db(sample: DatabaseSample) -> bool:
    """Return whether a database has the tables of the first version."""
    task_columns = {"id", "parent_id", "title", "status", "priority"}
    return sample.columns.get("tasks", frozenset()) >= task_columns and sample.columns.get(
        "dependencies", frozenset()
    ) >= {"blocker_id", "blocked_id"}


def read_progress_db(database: ForeignDatabase, at: str) -> PlannedProject:
    """Return the tasks, features and problems of a database; the lines of the problems are row numbers."""
    return _ProgressReader(database, at).read()


class _ProgressReader:
    def __init__(self, database: ForeignDatabase, at: str) -> None:
        self._database = database
        self._at = at
        self._problems: list[ReadProblem] = []
        self._features = {
            row["id"]: row for row in database.rows("features") if isinstance(row["id"], str) and _text(row.get("name"))
        }

    def read(self) -> PlannedProject:
        rows = [row for row in self._database.rows("tasks") if self._is_task(row)]
        keys = {row["id"] for row in rows}
        needs = self._dependencies(keys)
        journal = self._by_task("journal", keys)
        logs = self._by_task("task_logs", keys)
        planned = [self._task(row, needs[row["id"]], journal[row["id"]], logs[row["id"]]) for row in rows]
        tasks, cycles = without_cycles(planned)
        features = tuple(self._feature(row) for row in self._features.values())
        for row in self._database.rows("model_overrides"):
            self._leave_out("model_overrides", row, "models are chosen by the strategy here")
        if self._database.version > NEWEST_VERSION:
            why = f"The database has version {self._database.version}; what came after {NEWEST_VERSION} was not read."
            self._problems.append(ReadProblem(line=1, why=why))
        return PlannedProject(tasks=tasks, features=features, problems=(*self._problems, *cycles))

    # --- tasks -------------------------------------------------------------------

    def _is_task(self, row: DatabaseRow) -> bool:
        if not isinstance(row["id"], str) or not _text(row["title"]):
            self._leave_out("tasks", row, "it has no id or title")
            return False
        if len(_text(row["title"])) + len(_text(row.get("description"))) > MAX_TASK_CHARS:
            self._leave_out("tasks", row, f"it is longer than {MAX_TASK_CHARS:,} characters")
            return False
        return True

    def _task(
        self, row: DatabaseRow, needs: list[str], journal: list[DatabaseRow], logs: list[DatabaseRow]
    ) -> PlannedTask:
        word = row["status"]
        status = _STATUSES.get(word, TaskStatus.BLOCKED)
        if word not in _STATUSES:
            self._note("tasks", row, f"unknown status {quote_excerpt(str(word))}; added as blocked")
        if status is TaskStatus.BLOCKED and needs:
            status = TaskStatus.PENDING  # it can start when its dependencies are done
        feature = self._features.get(str(row.get("feature_id")))
        entries = [*self._facts(row), *map(self._journal_entry, journal), *map(self._log_entry, logs)]
        return PlannedTask(
            key=row["id"],
            title=" ".join(sanitize(row["title"]).split()),
            body=sanitize(_body(row, status, journal)),
            status=status,
            reason=_reason(status, str(word), journal),
            priority=self._priority(row),
            parent_key=row["parent_id"] if isinstance(row["parent_id"], str) and row["parent_id"] else None,
            dependency_keys=tuple(dict.fromkeys(needs)),
            feature=_text(feature["name"]) if feature else None,
            log=tuple(sorted(entries, key=lambda entry: entry.at)),
            line=row["row"],
        )

    def _priority(self, row: DatabaseRow) -> int:
        """Return a priority with the highest number first; there, the lowest is first and 0 the default."""
        value = row["priority"] or 0
        if isinstance(value, int) and abs(value) <= MAX_PRIORITY:
            return -value
        self._note("tasks", row, f"invalid priority {quote_excerpt(str(value))}; used 0 instead")
        return 0

    def _dependencies(self, keys: set[str]) -> dict[str, list[str]]:
        needs: dict[str, list[str]] = {key: [] for key in keys}
        for row in self._database.rows("dependencies"):
            if row["blocked_id"] in needs and isinstance(row["blocker_id"], str):
                needs[row["blocked_id"]].append(row["blocker_id"])
            else:
                self._leave_out("dependencies", row, "its task does not exist")
        return needs

    def _by_task(self, table: str, keys: set[str]) -> dict[str, list[DatabaseRow]]:
        rows: dict[str, list[DatabaseRow]] = {key: [] for key in keys}
        for row in self._database.rows(table):
            if row.get("task_id") in rows:
                rows[row["task_id"]].append(row)
            else:
                self._leave_out(table, row, "it belongs to no task")
        return rows

    # --- the log of a task -------------------------------------------------------

    def _facts(self, row: DatabaseRow) -> Iterator[TaskLogEntry]:
        retries = f"retried {row['retry_count']} of {row.get('max_retries')} times" if row.get("retry_count") else ""
        verified = f"verification {row['verification_status']}" if row.get("verification_status") else ""
        claimed = f"claimed by {row['claimed_by']}" if row.get("claimed_by") else ""
        facts = "; ".join(filter(None, (f"status {row['status']}", retries, verified, claimed)))
        yield self._entry(f"Imported from {self._database.path.name}: {facts}.", row.get("created_at"))

    def _log_entry(self, row: DatabaseRow) -> TaskLogEntry:
        return self._entry(_text(row.get("message")), row.get("timestamp"))

    def _journal_entry(self, row: DatabaseRow) -> TaskLogEntry:
        cost = f"${row['cost_usd']:.2f}" if isinstance(row.get("cost_usd"), int | float) else ""
        seconds = f"{row['duration_secs']:.0f} s" if isinstance(row.get("duration_secs"), int | float) else ""
        facts = ", ".join(filter(None, (_text(row.get("model")), seconds, cost)))
        head = f"{row.get('run_id')}, iteration {row.get('iteration')}: {row.get('outcome')}"
        files = ", ".join(_files(row.get("files_modified")))
        parts = [f"{head} ({facts})." if facts else f"{head}.", _text(row.get("notes")), files and f"Files: {files}"]
        return self._entry("\n".join(filter(None, parts)), row.get("created_at"))

    def _entry(self, message: str, time: object) -> TaskLogEntry:
        try:
            at = parse_timestamp(time)
        except InvalidEntryError:
            at = ""
        return TaskLogEntry(message=sanitize(message), who=LOG_AUTHOR, at=at or self._at)

    # --- features ----------------------------------------------------------------

    def _feature(self, row: DatabaseRow) -> PlannedFeature:
        return PlannedFeature(
            name=one_line(sanitize(row["name"])),
            spec=self._read_document(row, "spec_path"),
            plan=self._read_document(row, "plan_path"),
        )

    def _read_document(self, row: DatabaseRow, column: str) -> str:
        """Return the text of a spec or plan, which must be a file of the same project."""
        name = _text(row.get(column))
        if not name:
            return ""
        folder = self._database.path.absolute().parent
        root = folder.parent
        try:
            path = (root / name).resolve()
            if folder.name != FOLDER:
                raise PermissionError(0, f"its project is known only if the database is in {FOLDER}")
            if not path.is_relative_to(root.resolve()):
                raise PermissionError(0, "it is outside the project")
            if not path.is_file():
                raise FileNotFoundError(0, "it is not a file")
            if path.stat().st_size > MAX_SPEC_BYTES:
                raise PermissionError(0, f"it is larger than {MAX_SPEC_BYTES // 2**20} MB")
            return sanitize(_read(path))
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            self._leave_out("features", row, f"{quote_excerpt(name)} cannot be read: {why}")
            return ""

    # --- problems ----------------------------------------------------------------

    def _leave_out(self, table: str, row: DatabaseRow, why: str) -> None:
        line = row["row"]
        self._problems.append(ReadProblem(line=line, why=f"Skipped row {line} of {table}: {why}."))

    def _note(self, table: str, row: DatabaseRow, why: str) -> None:
        line = row["row"]
        self._problems.append(ReadProblem(line=line, why=f"Row {line} of {table}: {why}.", was_read=True))


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def _read(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "replace")


def _files(value: object) -> list[str]:
    try:
        listed = json.loads(value) if isinstance(value, str) and value else []
    except ValueError:
        return []
    return [str(name) for name in listed] if isinstance(listed, list) else []


def _body(row: DatabaseRow, status: TaskStatus, journal: list[DatabaseRow]) -> str:
    """Return the description; of an unfinished task also what the latest attempts noted, for the next one."""
    body = _text(row.get("description"))
    noted = [entry for entry in journal if _text(entry.get("notes"))]
    if status is TaskStatus.DONE or not noted:
        return body
    notes = [
        f"- {_text(entry.get('created_at'))[:10]}, {entry.get('outcome')}: "
        + truncate(_text(entry["notes"]), MAX_NOTE_CHARS).replace("\n", "\n  ")
        for entry in noted[-MAX_NOTES:]
    ]
    return f"{body}\n\n## Notes of earlier attempts\n\n" + "\n".join(notes)


def _reason(status: TaskStatus, word: str, journal: list[DatabaseRow]) -> str:
    """Return why a task failed or is blocked."""
    if status not in (TaskStatus.FAILED, TaskStatus.BLOCKED):
        return ""
    noted = one_line(sanitize(_text(journal[-1].get("notes")))) if journal else ""
    return noted or f"{one_line(sanitize(word), 40)} in progress.db"
