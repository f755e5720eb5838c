"""Migration to schema 11: classifies past failures, and retires what was wrongly learned from them.

Each retired memory says why in its history, and all of them can be brought back with one `ralph memory undo`.
"""

from __future__ import annotations

from ralph.core.records import AttemptOutcome, FailureCause, Memory, MemoryState, now
from ralph.memory.lifecycle.error_category import classify_error, error_line, normalized_error
from ralph.memory.lifecycle.evidence import MIN_TASKS, evidence_confidence
from ralph.memory.lifecycle.failure_cause import failure_cause
from ralph.memory.lifecycle.learnings import LEARNING_KINDS, number_field, parse_content, text_list
from ralph.store.database import ProjectScope, checksum, matches_checksum
from ralph.store.memories import ChangeInfo, MemoryStore, change_id
from ralph.store.memory_queries import row_to_memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ralph.store.database import Database, Row

MIN_STRATEGY_WORDS = 3
"""Number of words below which the text of a strategy is no approach."""
MIN_WITNESSES = 3
"""Number of files below which a convention was concluded too early."""
_TRIVIAL = ("Modules are ", "Python packages have an __init__.py")
_CHOSEN_MODULES = ("(.mjs)", "(.cjs)")
_SOURCE_IN = "Source is in "


def classify_past_failures(database: Database) -> None:
    """Set the cause of every unsuccessful attempt; damaged rows stay as they are."""
    rows = database.query(
        """
        SELECT a.*, COALESCE(f.category, '') AS category_of_report FROM attempts AS a
        LEFT JOIN failures AS f ON f.project_id = a.project_id AND f.run_id = a.run_id AND f.iteration = a.iteration
        WHERE a.outcome IS NOT NULL AND a.outcome <> 'done'
        """
    )
    for row in rows:
        category = row.pop("category_of_report")
        if not matches_checksum(row):
            continue
        outcome = AttemptOutcome(row["outcome"])
        row["cause"] = failure_cause(outcome, category, row["reason"], excused=bool(row["excused"]))
        database.execute(
            """
            UPDATE attempts SET cause = :cause, checksum = :checksum
            WHERE project_id = :project_id AND run_id = :run_id AND iteration = :iteration
            """,
            cause=row["cause"],
            checksum=checksum(row),
            project_id=row["project_id"],
            run_id=row["run_id"],
            iteration=row["iteration"],
        )


def retire_wrong_learnings(database: Database) -> None:
    """Retire what Ralph concluded from failures of others, from single attempts, and what any reader sees at once."""
    for project in database.query("SELECT id FROM projects ORDER BY id"):
        _retire_of_project(ProjectScope(database, project["id"]))


def _retire_of_project(scope: ProjectScope) -> None:
    rows = scope.query(
        """
        SELECT * FROM memory WHERE project_id = :project_id AND source = 'automatic' AND content <> ''
            AND state IN ('active', 'staged') ORDER BY seq
        """
    )
    runs = {row["id"] for row in scope.query("SELECT id FROM runs WHERE project_id = :project_id")}
    memories = [row_to_memory(row) for row in rows if row["kind"] in LEARNING_KINDS and matches_checksum(row)]
    own = [memory for memory in memories if runs.intersection(memory.origin_loops)]
    store, id = MemoryStore(scope), change_id()
    for memory in own:
        content = parse_content(memory.structured_content) or {}
        if why := _why_wrong(scope, memory, content):
            change = ChangeInfo(who="ralph", why=f"Retired by the update to schema 11: {why}", id=id)
            store.update(memory.id, "pruned", change, state=MemoryState.PRUNED, state_reason=why, updated_at=now())
        elif (bound := _bound(memory, content)) is not None and bound < memory.confidence:
            change = ChangeInfo(who="ralph", why="Confidence is a bound on the evidence since schema 11", id=id)
            store.update(memory.id, "edited", change, confidence=bound, updated_at=now())


def _why_wrong(scope: ProjectScope, memory: Memory, content: Mapping[str, object]) -> str:
    """Return why a learning should not have been made; empty if it is sound."""
    if memory.kind == "estimate":
        return "estimates are computed from attempts"
    if memory.kind == "antipattern":
        return _why_no_antipattern(scope, memory)
    if memory.kind == "strategy":
        if len(memory.title.split()) < MIN_STRATEGY_WORDS:
            return "it names no approach"
        return "it rests on a single attempt" if (number_field(content, "iterations") or 0) < MIN_TASKS else ""
    return _why_no_convention(memory, content)


def _why_no_antipattern(scope: ProjectScope, memory: Memory) -> str:
    """Return why an antipattern is wrong: no failure of the project is what it says."""
    failures = _failures(scope, memory.origin_loops)
    if any(row["cause"] == FailureCause.PROJECT and _is_about(memory, row) for row in failures):
        return ""
    others = sorted({str(row["cause"]) for row in failures if row["cause"] not in (None, FailureCause.PROJECT)})
    return f"no failure of the project is behind it, but of: {', '.join(others)}" if others else "no failure fits it"


def _failures(scope: ProjectScope, runs: Sequence[str]) -> list[Row]:
    values = {f"run_{number}": run for number, run in enumerate(runs)}
    return scope.query(
        f"""
        SELECT a.cause, a.reason, COALESCE(f.trace, '') AS trace, COALESCE(f.why, '') AS why
        FROM attempts AS a LEFT JOIN failures AS f
            ON f.project_id = a.project_id AND f.run_id = a.run_id AND f.iteration = a.iteration
        WHERE a.project_id = :project_id AND a.cause IS NOT NULL
            AND a.run_id IN ({", ".join(f":{name}" for name in values)})
        """,
        **values,
    )


def _is_about(memory: Memory, failure: Row) -> bool:
    error = failure["trace"] or failure["why"] or failure["reason"]
    category, advice = classify_error(error)
    if category in memory.tags:
        return True
    line = error_line(error)
    return not advice and f"avoid: {normalized_error(line)}" == normalized_error(memory.title)


def _why_no_convention(memory: Memory, content: Mapping[str, object]) -> str:
    pattern = memory.title
    place = pattern.removeprefix(_SOURCE_IN).rstrip("/")
    if pattern.startswith(_TRIVIAL) and not pattern.endswith(_CHOSEN_MODULES):
        return "any reader sees it at once"
    if pattern.startswith(_SOURCE_IN) and ("/" not in place or place.startswith("src/main/")):
        return "any reader sees it at once"
    if len(text_list(content, "examples")) < MIN_WITNESSES:
        return "fewer than three files show it"
    return ""


def _bound(memory: Memory, content: Mapping[str, object]) -> float | None:
    """Return the confidence that the evidence supports, for a memory that outcomes have not changed."""
    if memory.uses:
        return None
    return evidence_confidence(memory.kind, {"uses": content.get("iterations"), **content})
