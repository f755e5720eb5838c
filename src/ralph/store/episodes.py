"""Store for episodes: passages of past sessions, attempts and commits."""

from __future__ import annotations

import time

from ralph.core.errors import NotFoundError
from ralph.core.hashing import sha256_hex
from ralph.core.records import EPISODE_PREFIX, Episode, EpisodeKind, Speaker, now, record, replace, timestamp
from ralph.store.import_cursors import ImportCursors, whole_session
from ralph.store.memory_queries import like_pattern, one_of
from ralph.store.rows import from_json, to_columns, to_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ralph.store.database import ProjectScope, Row, WordMatches

PAGE = 500
"""Number of episodes written or deleted per statement."""
KEPT_SHARE = 0.9
"""Share of the size limit that is left when episodes are deleted for it, so that this is rarely needed."""
CLOCK_SECONDS = 86_400
"""How far the clock of another machine may be ahead, in seconds."""
_COLUMNS = {"text": "body"}
"""Columns of fields that are called otherwise."""
_CONVERT = {"kind": EpisodeKind, "speaker": Speaker, "files": from_json, "links": from_json}

_REPLACED_COLUMNS = ("source", "position", "body", "bytes", "files", "links", "rules", "seq")
_UNUSED = {"uses": 0, "wins": 0, "losses": 0}


PASSAGES_WITH_RULES = """
    SELECT id, source, position, at, rules FROM episodes WHERE project_id = :project_id AND rules <> ''
    ORDER BY at DESC, seq DESC LIMIT :limit
"""


@record
class EpisodeFilter:
    """Which episodes to find; empty fields match all."""

    kinds: tuple[str, ...] = ()
    source: str = ""
    """Session id, `run/iteration` or commit id, or the beginning of one."""
    within: str = ""
    """Session with its subagents, `run/iteration`, run with its attempts, or commit: a whole id."""
    before: str = ""
    """Timestamp before which it was said."""
    after: str = ""
    matching: str = ""
    """Text that it, or the author of a commit, contains, ignoring case."""

    def condition(self, ilike: str) -> tuple[str, dict[str, Any]]:
        """Return the SQL condition on table `r`, and its values; `ilike` is the operator that ignores case."""
        conditions = ["r.project_id = :project_id"]
        values: dict[str, Any] = {}
        if self.kinds:
            one_kind, values = one_of("r.kind", self.kinds)
            conditions.append(one_kind)
        for name, sql in _CONDITIONS.items():
            if value := getattr(self, name):
                conditions.append(sql.format(ilike=ilike))
                values[name] = like_pattern(value) if name == "matching" else value
        return " AND ".join(conditions), values


_CONDITIONS = {
    "source": "substr(r.source, 1, length(:source)) = :source",
    "within": "(r.source = :within OR substr(r.source, 1, length(:within) + 1) = :within || '/')",
    "before": "r.at < :before",
    "after": "r.at >= :after",
    "matching": "(r.body {ilike} :matching ESCAPE '\\'"
    " OR (r.kind = 'commit' AND r.agent {ilike} :matching ESCAPE '\\'))",
}


@record
class EpisodeCount:
    """Number of episodes of a kind, of their sources, and the size of their texts in bytes."""

    kind: str
    episodes: int
    sources: int
    bytes: int
    newest: str


class _Comparison:
    """Episodes by how they differ from what is stored."""

    def __init__(self) -> None:
        self.new: list[Episode] = []
        self.changed: list[tuple[Episode, Row]] = []
        """Episodes with another text, and the rows that have the earlier one."""
        self.moved: list[tuple[Episode, Row]] = []
        """Episodes with the same text and another source."""
        self.diverging: list[Episode] = []
        """Episodes that a session has instead of those of another one."""


class EpisodeStore:
    """Episodes of a project."""

    def __init__(self, scope: ProjectScope) -> None:
        self._scope = scope
        self.cursors = ImportCursors(scope)

    # --- adding ----------------------------------------------------------------------

    def add(self, episodes: Sequence[Episode]) -> int:
        """Add episodes, and replace those that are stored with another text; return the number of both.

        All of them are written in one transaction.
        """
        added = 0
        with self._scope.transaction():
            for start in range(0, len(episodes), PAGE):
                found = self._compare(episodes[start : start + PAGE])
                self._replace(found.changed + found.moved)
                added += self._insert(found.new) + len(found.changed)
                if found.diverging:
                    forgotten = self.cursors.forgotten([one.id for one in found.diverging])
                    added += self.add([one for one in found.diverging if one.id not in forgotten])
        return added

    def new_ids(self, episodes: Sequence[Episode]) -> set[str]:
        """Return the ids of those episodes that `add` would add or replace."""
        found = self._compare(episodes)
        more = self.new_ids(found.diverging) if found.diverging else set()
        return {one.id for one in found.new} | {one.id for one, _ in found.changed} | more

    def _compare(self, episodes: Sequence[Episode]) -> _Comparison:
        """Compare episodes with what is stored under their ids.

        A source that is read again may end an exchange elsewhere than before, so its text replaces the stored one. What
        another session says instead, as a fork of the first one does, gets an id of its own.
        """
        batch = {one.id: one for one in episodes}
        stored = {row["id"]: row for row in self._rows_in(list(batch))}
        found = _Comparison()
        for id, episode in batch.items():
            row = stored.get(id)
            if row is None:
                found.new.append(episode)
            elif row["body"] == episode.text:
                if episode.kind is EpisodeKind.COMMIT and row["source"] != episode.source:
                    found.moved.append((episode, row))  # A rebase gave the commit another id.
            elif row["source"] == episode.source or episode.text.startswith(row["body"]):
                found.changed.append((episode, row))
            elif not row["body"].startswith(episode.text):
                found.diverging.append(_diverging(episode))
        return found

    def _replace(self, changes: Sequence[tuple[Episode, Row]]) -> None:
        from ralph.store.index import write_index

        rows = []
        for episode, row in changes:
            position = row["position"] if row["source"] == episode.source else episode.position
            columns = to_columns(episode, _COLUMNS)
            fields = {name: columns[name] for name in ("source", "body", "files", "links", "rules")}
            rows.append({**row, **fields, "position": position, "bytes": _size(episode)})
        for row in rows:
            self._scope.update_where(
                "episodes",
                "source = :source, position = :position, body = :body, bytes = :bytes, files = :files, links = :links,"
                " rules = :rules",
                "seq = :seq",
                **{name: row[name] for name in _REPLACED_COLUMNS},
            )
        said = [row for row, (_, before) in zip(rows, changes, strict=True) if row["body"] != before["body"]]
        for row in said:
            self._scope.execute(
                "DELETE FROM episode_vectors WHERE project_id = :project_id AND seq = :seq", seq=row["seq"]
            )
        write_index(self._scope.database, "episode", said)

    def _insert(self, episodes: Sequence[Episode]) -> int:
        from ralph.store.index import write_index

        if not episodes:
            return 0
        latest = timestamp(time.time() + CLOCK_SECONDS)
        rows = [_to_row(one, latest) for one in episodes]
        self._scope.insert_many("episodes", rows)
        seqs = self._seqs([one.id for one in episodes])
        write_index(self._scope.database, "episode", [{**row, "seq": seqs[row["id"]]} for row in rows], is_new=True)
        return len(episodes)

    # --- reading ---------------------------------------------------------------------

    def get(self, id: str) -> Episode:
        """Return an episode by its id."""
        found = self.find_all([id])
        if not found:
            raise NotFoundError("Episode", id)
        return found[0]

    def find_all(self, ids: Sequence[str]) -> list[Episode]:
        """Return the episodes with these ids, in their order, without those that are gone."""
        by_id = {row["id"]: row_to_episode(row) for row in self._rows_in(ids)}
        return [by_id[id] for id in ids if id in by_id]

    def of_source(self, kind: EpisodeKind, source: str, limit: int = -1) -> list[Episode]:
        """Return the passages of one session, attempt or commit in order; of more than `limit`, the last ones."""
        rows = self._scope.query(
            f"""
            SELECT * FROM episodes WHERE project_id = :project_id AND kind = :kind AND source = :source
            ORDER BY position DESC, seq DESC {"LIMIT :limit" if limit >= 0 else ""}
            """,
            kind=kind.value,
            source=source,
            **({"limit": limit} if limit >= 0 else {}),
        )
        return [row_to_episode(row) for row in reversed(rows)]

    def sources(self, filter: EpisodeFilter, limit: int) -> list[str]:
        """Return sources of the episodes that match a filter."""
        condition, values = filter.condition(self._scope.database.ilike)
        rows = self._scope.query(
            f"SELECT DISTINCT r.source FROM episodes AS r WHERE {condition} ORDER BY r.source LIMIT :limit",
            limit=limit,
            **values,
        )
        return [row["source"] for row in rows]

    def next_position(self, kind: EpisodeKind, source: str) -> int:
        """Return the position after the last passage of a source."""
        rows = self._scope.query(
            """
            SELECT MAX(position) AS last FROM episodes
            WHERE project_id = :project_id AND kind = :kind AND source = :source
            """,
            kind=kind.value,
            source=source,
        )
        last = rows[0]["last"]
        return 0 if last is None else int(last) + 1

    def last_session(self, branch: str, *, exclude: str = "") -> str:
        """Return the id of the session with the newest passage on a branch; empty if there is none."""
        rows = self._scope.query(
            """
            SELECT source FROM episodes
            WHERE project_id = :project_id AND kind = 'session' AND branch = :branch AND source <> :exclude
            ORDER BY at DESC, seq DESC LIMIT 1
            """,
            branch=branch,
            exclude=exclude,
        )
        return str(rows[0]["source"]) if rows else ""

    def newest(self, filter: EpisodeFilter, limit: int) -> list[Episode]:
        """Return the newest episodes that match a filter."""
        condition, values = filter.condition(self._scope.database.ilike)
        rows = self._scope.query(
            f"SELECT * FROM episodes AS r WHERE {condition} ORDER BY r.at DESC, r.seq DESC LIMIT :limit",
            limit=limit,
            **values,
        )
        return [row_to_episode(row) for row in rows]

    def search(self, words: Mapping[str, float], limit: int, filter: EpisodeFilter | None = None) -> WordMatches:
        """Return rows of episodes that contain the words, ordered by total word weight."""
        condition, values = (filter or EpisodeFilter()).condition(self._scope.database.ilike)
        return self._scope.database.words.search(
            "episode", words, limit, condition, project_id=self._scope.project_id, **values
        )

    def with_rules(self, limit: int) -> list[Row]:
        """Return the newest passages in which a person states rules: id, source, position, time and rules."""
        return self._scope.query(PASSAGES_WITH_RULES, limit=limit)

    def last_seqs(self, sources: Sequence[str]) -> list[int]:
        """Return the sequence numbers of the last passages of sessions."""
        seqs = []
        for source in sources:
            rows = self._scope.query(
                """
                SELECT seq FROM episodes WHERE project_id = :project_id AND kind = 'session' AND source = :source
                ORDER BY position DESC, seq DESC LIMIT 1
                """,
                source=source,
            )
            seqs += [row["seq"] for row in rows]
        return seqs

    def rows_with_words(self, seqs: Sequence[int], filter: EpisodeFilter | None = None) -> list[Row]:
        """Return rows of episodes by sequence number, with the words they are indexed under."""
        condition, values = (filter or EpisodeFilter()).condition(self._scope.database.ilike)
        return self._scope.database.words.rows("episode", seqs, condition, project_id=self._scope.project_id, **values)

    def is_empty(self) -> bool:
        """Return whether there is no episode."""
        return not self._scope.query("SELECT 1 AS one FROM episodes WHERE project_id = :project_id LIMIT 1")

    def counts(self) -> list[EpisodeCount]:
        """Return the number and size of episodes by kind."""
        rows = self._scope.query(
            """
            SELECT kind, COUNT(*) AS episodes, COUNT(DISTINCT source) AS sources, SUM(bytes) AS bytes, MAX(at) AS newest
            FROM episodes WHERE project_id = :project_id GROUP BY kind ORDER BY kind
            """
        )
        return [EpisodeCount(**{**row, "bytes": int(row["bytes"])}) for row in rows]

    def _seqs(self, ids: Sequence[str]) -> dict[str, int]:
        return {row["id"]: row["seq"] for row in self._rows_in(ids, "id, seq")}

    def _rows_in(self, ids: Sequence[str], columns: str = "*") -> list[Row]:
        rows: list[Row] = []
        for start in range(0, len(ids), PAGE):
            condition, values = one_of("id", ids[start : start + PAGE])
            rows += self._scope.query(
                f"SELECT {columns} FROM episodes WHERE project_id = :project_id AND {condition} ORDER BY seq", **values
            )
        return rows

    # --- credit ----------------------------------------------------------------------

    def credit_outcome(self, ids: Sequence[str], *, won: bool) -> None:
        """Credit the outcome of an attempt to the episodes shown to it."""
        if not ids:
            return
        condition, values = one_of("id", ids)
        outcome = "wins = wins + 1" if won else "losses = losses + 1"
        self._scope.update_where("episodes", f"uses = uses + 1, {outcome}", condition, **values)

    # --- deleting --------------------------------------------------------------------

    def count(self, filter: EpisodeFilter) -> int:
        """Return the number of episodes that match a filter."""
        condition, values = filter.condition(self._scope.database.ilike)
        return int(self._scope.query(f"SELECT COUNT(*) AS n FROM episodes AS r WHERE {condition}", **values)[0]["n"])

    def forget(self, filter: EpisodeFilter) -> int:
        """Delete the episodes that match a filter, with their words and vectors, and return their number.

        Their ids are kept, so that no import brings them back; they tell nothing of the texts.
        """
        condition, values = filter.condition(self._scope.database.ilike)
        with self._scope.transaction():
            rows = self._scope.query(
                f"SELECT r.seq, r.id, r.kind, r.source FROM episodes AS r WHERE {condition}", **values
            )
            self._delete([row["seq"] for row in rows])
            sources = {row["source"] for row in rows if row["kind"] == EpisodeKind.SESSION}
            gone = [whole_session(one) for one in sources if not self.of_source(EpisodeKind.SESSION, one, 1)]
            self.cursors.forget([*(row["id"] for row in rows), *gone])
        return len(rows)

    def unforget(self, episodes: Sequence[Episode]) -> None:
        """Allow that episodes and their sessions are imported again."""
        ids = (id for one in episodes for id in (one.id, _diverging(one).id))
        self.cursors.unforget([*ids, *{whole_session(one.source) for one in episodes}])

    def delete_from(self, kind: EpisodeKind, source: str, position: int) -> None:
        """Delete the passages of a source from a position on."""
        rows = self._scope.query(
            """
            SELECT seq FROM episodes
            WHERE project_id = :project_id AND kind = :kind AND source = :source AND position >= :position
            """,
            kind=kind.value,
            source=source,
            position=position,
        )
        self._delete([row["seq"] for row in rows])

    def trim(self, max_bytes: int) -> int:
        """Delete the least useful episodes until their texts fit into `max_bytes`, and return their number.

        Those that were never shown go first, then those that did not help; of each, the oldest.
        """
        total = self._scope.query("SELECT SUM(bytes) AS n FROM episodes WHERE project_id = :project_id")[0]["n"]
        excess = int(total or 0) - int(max_bytes * KEPT_SHARE)
        if int(total or 0) <= max_bytes:
            return 0
        seqs: list[int] = []
        with self._scope.transaction():
            for row in self._scope.query(
                """
                SELECT seq, bytes FROM episodes WHERE project_id = :project_id
                ORDER BY CASE WHEN uses = 0 THEN 0 WHEN wins < losses THEN 1 ELSE 2 END, at, seq
                """
            ):
                if excess <= 0:
                    break
                excess -= row["bytes"]
                seqs.append(row["seq"])
            self._delete(seqs)
        return len(seqs)

    def _delete(self, seqs: Sequence[int]) -> None:
        for start in range(0, len(seqs), PAGE):
            condition, values = one_of("seq", seqs[start : start + PAGE])
            for table in ("episode_vectors", "episode_words", "episodes"):
                self._scope.execute(f"DELETE FROM {table} WHERE project_id = :project_id AND {condition}", **values)


def row_to_episode(row: Row) -> Episode:
    """Return the episode in a row."""
    return to_record(Episode, row, _CONVERT, _COLUMNS)


def _to_row(episode: Episode, latest: str) -> Row:
    """Return the row of an episode; a time after the latest one is of a wrong clock, and now counts instead."""
    at = episode.at if episode.at <= latest else now()
    return {**to_columns(episode, _COLUMNS), "at": at, "bytes": _size(episode), **_UNUSED}


def _diverging(episode: Episode) -> Episode:
    """Return an episode with the id that it has beside another one with the same beginning."""
    return replace(episode, id=EPISODE_PREFIX + sha256_hex(f"{episode.id}\n{episode.source}".encode())[:16])


def _size(episode: Episode) -> int:
    return len(episode.text.encode("utf-8", "replace"))
