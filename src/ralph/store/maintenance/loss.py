"""Comparison of a database with the backup that replaces it: which records are lost."""

from __future__ import annotations

import re
import time
from calendar import timegm
from contextlib import closing
from pathlib import Path

import apsw

from ralph.core.records import record
from ralph.store.maintenance.check import HealthReport, is_index_problem, open_read_only

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_COMPARED_RECORDS = (
    ("memory", "memories", "memory", "id", "checksum"),
    ("attempt", "attempts", "attempts", "run_id || '/' || iteration", "checksum"),
    ("task", "tasks", "tasks", "id", "checksum"),
    ("feature", "features", "features", "id", "checksum"),
    ("failure report", "failure reports", "failures", "run_id || '/' || iteration", "checksum"),
    ("session", "sessions", "sessions", "id", "checksum"),
    ("run", "runs", "runs", "id", "COALESCE(ended_at, '') || ending || iterations || options || seconds"),
    ("note on a task", "notes on tasks", "task_log", "task_id || at || message", "who"),
    ("held change", "held changes", "held_changes", "task_id || digest || created_at", "COALESCE(approved_at, '')"),
    ("question", "questions", "questions", "task_id || text || asked_at", "answer || COALESCE(answered_at, '')"),
    ("dependency", "dependencies", "task_needs", "task_id || ' ' || needs_id", "''"),
)
"""Records to compare: singular, plural, table, SQL of the key, and SQL of the value that changes."""
_READABLE = re.compile(" checksum: |to a missing row of |^The definition of ")
"""Problems that do not prevent reading the data."""


@record
class DataLoss:
    """Number of lost records by noun: `memory`, `task` and so on."""

    added: dict[str, int]
    changed: dict[str, int]
    is_exact: bool = True
    """Whether the numbers are complete; False if some data is unreadable."""


def compute_loss(old: Path, fresh: Path, health: HealthReport) -> DataLoss | None:
    """Count the records that the old database has and the fresh one lacks; None if the old one is unreadable."""
    added: dict[str, int] = {}
    changed: dict[str, int] = {}
    is_exact = all(_READABLE.search(problem) or is_index_problem(problem) for problem in health.problems)
    is_readable = False
    try:
        with closing(open_read_only(old)) as before, closing(open_read_only(fresh)) as after:
            for one, _, table, key, value in _COMPARED_RECORDS:
                before_values, could_read_all = _values_by_key(before, table, key, value)
                after_values, _ = _values_by_key(after, table, key, value)
                is_exact &= could_read_all
                is_readable |= could_read_all or bool(before_values)
                added[one] = sum(1 for name in before_values if name not in after_values)
                changed[one] = sum(
                    1 for name in before_values if after_values.get(name, before_values[name]) != before_values[name]
                )
    except (apsw.Error, UnicodeError):
        return None
    if not is_readable:
        return None
    gained = {name: count for name, count in added.items() if count}
    other = {name: count for name, count in changed.items() if count}
    return DataLoss(added=gained, changed=other, is_exact=is_exact)


def loss_message(old: Path, gap: DataLoss | None, made_at: str) -> str:
    """Return a sentence that says which data is lost."""
    since = f"after {made_at} ({_age(made_at)} ago)"
    if gap is None:
        why = "is unreadable" if old.exists() else "is missing"
        return f"Everything added {since} is lost. The database {why}, so nobody knows how much that is."
    names = {one: many for one, many, *_ in _COMPARED_RECORDS}
    added = [_count_phrase(count, name, names[name]) for name, count in gap.added.items()]
    changed = [_count_phrase(count, name, names[name]) for name, count in gap.changed.items()]
    parts = [f"{_join(added)} added"] if added else []
    parts += [f"changes to {_join(changed)}"] if changed else []
    parts += [] if gap.is_exact else ["unreadable data"]
    if parts:
        return f"Lost: {_join(parts)} {since}."
    return f"No readable data is lost; the backup is from {made_at} ({_age(made_at)} ago)."


def _values_by_key(connection: apsw.Connection, table: str, key: str, value: str) -> tuple[dict[bytes, bytes], bool]:
    """Return the value of each row by its key, and whether all rows could be read."""
    values: dict[bytes, bytes] = {}
    # As bytes, so that invalid UTF-8 does not hide the rows after it; from both sides of a damaged page.
    sql = f"SELECT CAST(project_id || ' ' || {key} AS BLOB), CAST({value} AS BLOB) FROM {table} NOT INDEXED"
    for order in ("ASC", "DESC"):
        try:
            for row_key, content in connection.execute(f"{sql} ORDER BY rowid {order}"):
                values.setdefault(row_key, content)
        except apsw.SQLError:  # an older schema has no such table
            return values, True
        except apsw.Error:
            continue
        return values, True
    return values, False


def _count_phrase(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def _join(words: Sequence[str]) -> str:
    return ", ".join(words[:-1]) + (" and " if len(words) > 1 else "") + words[-1]


def _age(made_at: str) -> str:
    seconds = max(0, int(time.time()) - timegm(time.strptime(made_at[:19], "%Y-%m-%dT%H:%M:%S")))
    for name, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= length:
            return f"{seconds // length} {name}" + ("s" if seconds >= 2 * length else "")
    return f"{seconds} second" + ("" if seconds == 1 else "s")
