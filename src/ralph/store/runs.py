"""Store for runs."""

from __future__ import annotations

import json

from ralph.core.errors import NotFoundError
from ralph.core.records import ResourceUsage, Run, new_run_id, now
from ralph.store.memory_queries import one_of
from ralph.store.rows import to_columns, to_record
from ralph.store.run_events import RunEventFeed
from ralph.store.stats import OUTSIDE_AGENT, USAGE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from ralph.store.database import ProjectScope, Row


class RunStore:
    """Runs of a project."""

    def __init__(self, scope: ProjectScope) -> None:
        self._scope = scope
        self._events = RunEventFeed(scope)

    def start(self, agent: str, options: str = "") -> Run:
        """Create a run. `options` are its options as JSON."""
        run = Run(id=new_run_id(), agent=agent, started_at=now(), options=options)
        with self._scope.transaction():
            self._scope.insert("runs", **to_columns(run))
            self._events.publish_run("run_started", run.id)
        return run

    def resume(self, id: str, options: str) -> Run:
        """Reopen a run that has ended. Its iterations continue to be numbered."""
        with self._scope.transaction():
            self.get(id)
            self._scope.execute(
                """
                UPDATE runs SET ended_at = NULL, ending = '', options = :options, request = ''
                WHERE project_id = :project_id AND id = :id
                """,
                id=id,
                options=options,
            )
            self._events.publish_run("run_started", id)
        return self.get(id)

    def end(self, id: str, ending: str, seconds: float | None = None) -> None:
        """Record why a run stopped and its total working time in seconds."""
        with self._scope.transaction():
            self._scope.execute(
                """
                UPDATE runs SET ended_at = :at, ending = :ending, seconds = COALESCE(:seconds, seconds),
                    request = '', waits_until = '', waits_for = ''
                WHERE project_id = :project_id AND id = :id
                """,
                id=id,
                at=now(),
                ending=ending,
                seconds=seconds,
            )
            self._events.publish_run("run_ended", id)
            self._events.trim()
        from ralph.store.index import reindex_outdated

        reindex_outdated(self._scope)
        self._scope.database.words.optimize()

    def set_wait(self, id: str, until: str, reason: str) -> None:
        """Record until when a run waits and for what; empty strings once it goes on."""
        self._change("waits_until = :until, waits_for = :reason", id=id, until=until, reason=reason)

    def add_waits(self, id: str, seconds: Mapping[str, float]) -> None:
        """Add to the time a run has spent waiting, in seconds by reason."""
        with self._scope.transaction():
            waited = read_waits(self.get(id).waited)
            for reason, more in seconds.items():
                waited[reason] = round(waited.get(reason, 0.0) + more, 1)
            self._change("waited = :waited", id=id, waited=json.dumps(waited))

    def record_alive(self, id: str, seconds: float, workers: Collection[str]) -> None:
        """Record how long a run and the open attempts of its workers have taken, in case the run is killed."""
        from ralph.memory.lifecycle.confidence import days_between  # `ralph status` reads runs, too

        condition, names = one_of("worker", tuple(workers))
        with self._scope.transaction():
            self._scope.execute(
                "UPDATE runs SET seconds = :seconds WHERE project_id = :project_id AND id = :id AND ended_at IS NULL",
                id=id,
                seconds=seconds,
            )
            rows = self._scope.query(
                f"""
                SELECT iteration, started_at FROM attempts
                WHERE project_id = :project_id AND run_id = :run AND outcome IS NULL AND {condition}
                """,
                run=id,
                **names,
            )
            for row in rows if workers else ():
                self._scope.update_where(
                    "attempts",
                    "seconds = :seconds",
                    "run_id = :run AND iteration = :iteration AND outcome IS NULL",
                    run=id,
                    iteration=row["iteration"],
                    seconds=round(max(0.0, days_between(row["started_at"], now()) * 86_400), 1),
                )

    def set_request(self, id: str, request: str) -> None:
        """Record what a person asks of a run: "pause", "stop", or an empty string to go on."""
        self._change("request = :request", id=id, request=request)

    def set_options(self, id: str, options: str) -> None:
        """Replace the options of a run and what is stored with them, as JSON; nobody follows these."""
        self._scope.execute(
            "UPDATE runs SET options = :options WHERE project_id = :project_id AND id = :id", id=id, options=options
        )

    def _change(self, columns: str, *, id: str, **values: str) -> None:
        with self._scope.transaction():
            self._scope.execute(
                f"UPDATE runs SET {columns} WHERE project_id = :project_id AND id = :id", id=id, **values
            )
            self._events.publish_run("run_changed", id)

    def get(self, id: str) -> Run:
        """Return a run, or raise `NotFoundError`."""
        rows = self._scope.query("SELECT * FROM runs WHERE project_id = :project_id AND id = :id", id=id)
        if not rows:
            raise NotFoundError("Run", id)
        return _run(rows[0])

    def count_known(self, ids: Sequence[str]) -> int:
        """Return how many of these are runs of this project."""
        condition, values = one_of("id", ids)
        rows = self._scope.query(
            f"SELECT COUNT(*) AS n FROM runs WHERE project_id = :project_id AND {condition}", **values
        )
        return int(rows[0]["n"])

    def latest(self, limit: int, before: str = "") -> list[Run]:
        """Return the latest runs, newest first, or those before a run. Finished runs without iterations are skipped."""
        paging = "AND seq < (SELECT seq FROM runs WHERE project_id = :project_id AND id = :before)" if before else ""
        rows = self._scope.query(
            f"""
            SELECT * FROM runs WHERE project_id = :project_id AND (iterations > 0 OR ended_at IS NULL)
                AND agent <> :outside {paging}
            ORDER BY seq DESC LIMIT :limit
            """,
            limit=limit,
            outside=OUTSIDE_AGENT,
            **({"before": before} if before else {}),
        )
        return [_run(row) for row in rows]

    def changed_between(self, since: int, until: int) -> list[Run]:
        """Return the runs changed by the events after `since`, up to and including `until`."""
        rows = self._scope.query(
            """
            SELECT * FROM runs WHERE project_id = :project_id AND id IN (
                SELECT run_id FROM run_events WHERE project_id = :project_id AND seq > :since AND seq <= :until
            )
            """,
            since=since,
            until=until,
        )
        return [_run(row) for row in rows]

    def usage(self, run: str) -> ResourceUsage:
        """Return the resources used by the attempts of a run."""
        rows = self._scope.query(
            f"""
            SELECT COUNT(*) AS iterations, {USAGE}
            FROM attempts WHERE project_id = :project_id AND run_id = :run
            """,
            run=run,
        )
        return to_record(ResourceUsage, rows[0], {})


def read_waits(waited: str) -> dict[str, float]:
    """Return the seconds a run has spent waiting, by reason."""
    try:
        stored = json.loads(waited or "{}")
    except ValueError:
        return {}
    pairs = stored.items() if isinstance(stored, dict) else ()
    return {str(reason): float(seconds) for reason, seconds in pairs if isinstance(seconds, int | float)}


def _run(row: Row) -> Run:
    return to_record(Run, row, {})
