"""The search indexes: always those of the texts, made anew whatever is wrong with them, all or nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ralph.core.errors import ClaimLostError, StoreError
from ralph.core.records import AttemptOutcome, MemoryState, TaskStatus, replace
from ralph.core.tokenize import TOKENIZER_VERSION, tokenize, tokenize_path
from ralph.store import Store, create_store, open_store
from ralph.store.index import INDEXES, MAX_INDEXED_FILES, compare_index, rebuild_indexes
from ralph.store.maintenance.check import check_database
from ralph.store.memories import ChangeInfo, change_id
from ralph.store.memory_queries import MemoryFilter
from ralph.store.sqlite.driver import open_sqlite
from ralph.store.tasks import TaskDraft
from tests.make import a_memory, a_report, begin, finish, remember
from tests.store.make import a_database, asked, damage, found_by, learn

pytestmark = pytest.mark.sqlite

T = ChangeInfo(who="t", why="t")
FOUND = {
    "memory_words": "SELECT * FROM memory_words ORDER BY seq",
    "attempt_words": "SELECT * FROM attempt_words ORDER BY seq",
    "failure_words": "SELECT * FROM failure_words ORDER BY seq",
    "memory_files": "SELECT * FROM memory_files ORDER BY seq, path",
}


def all_indexed(store: Store) -> dict[str, object]:
    return {name: store.database.query(sql) for name, sql in FOUND.items()}


def by_the_rules(store: Store) -> dict[str, object]:
    """Give what the indexes should hold, worked out from the rows once more."""

    def cut(row: dict[str, str], title: str, body: str, tags: str) -> dict[str, object]:
        files = json.loads(row["files"])[:MAX_INDEXED_FILES]
        paths = [word for path in files for word in tokenize_path(path)]
        parts = {"title": tokenize(title), "body": tokenize(body), "paths": paths, "tags": tokenize(tags)}
        whose = {"project_id": row["project_id"], "seq": row["seq"], "version": TOKENIZER_VERSION}
        return whose | {name: " ".join(found) for name, found in parts.items()}

    query = store.database.query
    memories = query("SELECT * FROM memory ORDER BY seq")
    titles = {task.id: task.title for task in store.tasks.all()}
    return {
        "memory_words": [cut(row, row["title"], row["body"], " ".join(json.loads(row["tags"]))) for row in memories],
        "attempt_words": [
            cut(row, titles[row["task_id"]], row["notes"], "")
            for row in query("SELECT * FROM attempts WHERE notes <> '' ORDER BY seq")
        ],
        "failure_words": [
            cut(row, row["why"], f"{row['tried']}\n{row['retry_suggestion']}\n{row['trace']}", row["category"])
            for row in query("SELECT * FROM failures ORDER BY seq")
        ],
        "memory_files": [
            {"project_id": row["project_id"], "path": path, "seq": row["seq"]}
            for row in memories
            for path in sorted(set(json.loads(row["files"])[:MAX_INDEXED_FILES]))
        ],
    }


def assert_whole(store: Store) -> None:
    """See that every index is that of its texts, down to what SQLite keeps of it."""
    assert all_indexed(store) == by_the_rules(store)
    for index in INDEXES:
        name = f"{index}_index"
        store.database.execute(f"INSERT INTO {name} ({name}, rank) VALUES ('integrity-check', 1)")
        holders: dict[str, set[int]] = {}
        for row in store.database.query(f"SELECT * FROM {index}_words"):
            for word in f"{row['title']} {row['body']} {row['paths']} {row['tags']}".split():
                holders.setdefault(word, set()).add(row["seq"])
        for word, seqs in list(holders.items())[:20]:
            found = store.database.words.search(index, {word: 1.0}, 1_000, "1 = 1", project_id=store.project_id).rows
            assert {row["seq"] for row in found} == seqs, word


# --- kept in step --------------------------------------------------------------------------

TEXTS = st.one_of(
    st.sampled_from(["Use tabs.", "getUserName wants get_user_name", "src/a.py broke", "日本語のテスト", "", "a b c"]),
    st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), max_size=30),
)
FILES = st.lists(
    st.one_of(
        st.sampled_from(["src/a.py", "src/A.py", "Makefile", "a\\b.py"]),
        st.text(st.characters(codec="utf-8"), max_size=8),
    ),
    max_size=3,
)
TAGS = st.lists(st.sampled_from(["x", "Parser tools", "größe"]), max_size=2)
STEPS = st.one_of(
    st.tuples(st.just("add"), TEXTS, TEXTS, FILES, TAGS),
    st.tuples(st.just("edit"), st.integers(0, 9), TEXTS, FILES, TAGS),
    st.tuples(st.just("change"), st.integers(0, 9), st.sampled_from(["title", "content"]), TEXTS),
    st.tuples(st.just("change"), st.integers(0, 9), st.just("tags"), TAGS.map(tuple)),
    st.tuples(st.just("change"), st.integers(0, 9), st.just("files"), FILES.map(tuple)),
    st.tuples(st.just("delete"), st.integers(0, 9)),
    st.tuples(st.just("undo"), st.integers(0, 9)),
    st.tuples(st.just("together"), TEXTS),
    st.tuples(st.just("supersede"), st.integers(0, 9), st.integers(0, 9), TEXTS),
    st.tuples(st.just("bring"), TEXTS, TEXTS),
    st.tuples(st.just("attempt"), TEXTS, TEXTS, FILES),
    st.tuples(st.just("rename task"), st.integers(0, 9), TEXTS),
    st.tuples(st.just("delete task"), st.integers(0, 9)),
    st.tuples(st.just("roll back"), TEXTS),
)


class Steps:
    """All that can happen to a text, by name."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.memories = store.memories

    def do(self, step: tuple[object, ...]) -> None:
        getattr(self, str(step[0]).replace(" ", "_"))(*step[1:])

    def pick(self, number: int) -> str | None:
        ids = [one.id for one in self.memories.find(MemoryFilter(states=tuple(MemoryState)))]
        return ids[number % len(ids)] if ids else None

    def add(self, title: str, body: str, files: list[str], tags: list[str]) -> None:
        remember(self.store, a_memory(title, body, files=tuple(files), tags=tuple(tags)))

    def edit(self, number: int, body: str, files: list[str], tags: list[str]) -> None:
        if id := self.pick(number):
            self.memories.update(id, "edited", T, content=body, files=tuple(files), tags=tuple(tags))

    def change(self, number: int, field: str, value: object) -> None:
        if id := self.pick(number):
            self.memories.update(id, "edited", T, **{field: value})

    def delete(self, number: int) -> None:
        if id := self.pick(number):
            self.memories.update(id, "deleted", T, state=MemoryState.PRUNED)

    def undo(self, number: int) -> None:
        id = self.pick(number)
        if id and len(self.memories.history.of(id)) > 1 and self.memories.history.of(id)[-1].what != "undone":
            self.memories.undo(id, T)

    def together(self, body: str) -> None:
        change = replace(T, id=change_id())
        pairs = [(one, replace(one, content=body)) for one in self.memories.all() if one.content != body]
        if self.memories.update_unmodified(pairs, "edited", change):
            self.memories.undo_change(change.id, T)

    def supersede(self, one: int, other: int, body: str) -> None:
        ids = {id for id in (self.pick(one), self.pick(other)) if id}
        if len(ids) == 2:
            kept, aside = map(self.memories.get, sorted(ids))
            self.memories.consolidate(kept, replace(kept, content=body), [aside], T)

    def bring(self, title: str, body: str) -> None:
        self.memories.import_memories(
            [(a_memory(f"{title} {n}", f"{body} {n}", id="mem-1-aaaa"), ()) for n in range(3)], T
        )

    def attempt(self, notes: str, why: str, files: list[str]) -> None:
        self.store.tasks.add(TaskDraft(title=f"Task about {why}"))
        task, attempt = begin(self.store, self.store.runs.start("t").id)
        report = a_report(attempt, why, tried=notes, files=tuple(files)) if why else None
        finish(
            self.store,
            task,
            attempt,
            AttemptOutcome.FAILED,
            TaskStatus.BLOCKED,
            report=report,
            notes=notes,
            files=tuple(files),
        )

    def rename_task(self, number: int, title: str) -> None:
        if tasks := self.store.tasks.all():
            self.store.tasks.update(tasks[number % len(tasks)].id, title=title)

    def delete_task(self, number: int) -> None:
        if tasks := self.store.tasks.all():
            self.store.tasks.delete(tasks[number % len(tasks)].id)

    def roll_back(self, body: str) -> None:
        with pytest.raises(ClaimLostError), self.store.transaction():
            self.add(body, body, ["src/rolled_back.py"], [])
            raise ClaimLostError("t-000000")


@settings(max_examples=50, deadline=None)
@given(steps=st.lists(STEPS, min_size=8, max_size=24))
def test_whatever_happens_to_the_texts_the_indexes_are_theirs(steps: list[tuple[object, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = create_store(str(Path(folder) / "ralph.db"), "tests")
        world = Steps(store)
        for step in steps:
            world.do(step)

        assert_whole(store)
        kept = all_indexed(store)
        rebuild_indexes(store.database)
        assert all_indexed(store) == kept
        assert_whole(store)
        store.close()


def test_a_memory_that_names_very_many_files_is_found_by_the_first_of_them(tmp_path: Path) -> None:
    store = create_store(str(tmp_path / "ralph.db"), "tests")
    remember(store, a_memory("Many", "Many files.", files=tuple(f"src/f{n}.py" for n in range(200))))

    assert len(store.database.query("SELECT * FROM memory_files")) == MAX_INDEXED_FILES
    assert found_by(store, "f49.py") == ["Many"]
    assert store.memories.index.seqs_naming_files(["src/f50.py"], 5) == []
    assert_whole(store)
    store.close()


# --- made anew -----------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Give the path of a closed database with rows in every index."""
    path = a_database(tmp_path)
    store = open_store(str(path))
    remember(store, a_memory("Parser", "The parser wants tabs.", files=("src/parse.py",), tags=("lexing",)))
    store.close()
    return path


def reindexed(path: Path) -> dict[str, int]:
    database = open_sqlite(str(path))
    counts = rebuild_indexes(database)
    database.close()
    return counts


def indexed_in(path: Path) -> dict[str, object]:
    store = open_store(str(path))
    found = all_indexed(store)
    store.close()
    return found


DAMAGE = {
    "words are gone": "DELETE FROM memory_words; DELETE FROM failure_words",
    "words are of another text": "UPDATE attempt_words SET body = 'other'",
    "words are cut by other rules": "UPDATE memory_words SET body = 'other', version = 7",
    "words are no text": "UPDATE memory_words SET title = CAST(x'ff' AS TEXT) WHERE seq = 3",
    "words of rows that are gone": "INSERT INTO memory_words VALUES (999, 1, 'a', 'b', 'c', 'd', 'p-1')",
    "files are gone": "DELETE FROM memory_files",
    "files are of another text": "UPDATE memory_files SET path = 'other.py'",
    "an index lacks a row": "INSERT INTO memory_index (memory_index, rowid, title, body, paths, tags)"
    " SELECT 'delete', seq, title, body, paths, tags FROM memory_words WHERE seq = 3",
    "an index is empty": "INSERT INTO memory_index (memory_index) VALUES ('delete-all')",
    "the pages of an index are noise": "UPDATE memory_index_data SET block = x'ffffffffffffffff'",
    "the pages of an index are gone": "DELETE FROM memory_index_data",
    "the version of an index is gone": "DELETE FROM attempt_index_config",
    "the settings of an index are gone": "DROP TABLE failure_index_config",
    "the data of an index is gone": "DROP TABLE memory_index_data",
    "a part of an index is gone": "DROP TABLE memory_index_idx",
    "an index is gone": "DROP TABLE memory_index",
    "a trigger is gone": "DROP TRIGGER memory_words_changed",
    "a table of words is gone": "DROP TABLE failure_words",
    "the table of files is gone": "DROP TABLE memory_files",
    "an index of the files is gone": "DROP INDEX memory_files_by_memory",
    "an index is defined otherwise": "PRAGMA writable_schema = ON;"
    "UPDATE sqlite_schema SET sql = replace(sql, 'columnsize', 'columnsixe') WHERE name = 'memory_index';"
    "PRAGMA writable_schema = RESET",
}


@pytest.mark.parametrize("name", DAMAGE)
def test_whatever_is_wrong_with_the_indexes_they_are_made_anew(path: Path, name: str) -> None:
    before = indexed_in(path)
    connection = apsw.Connection(str(path))
    for _ in connection.execute(DAMAGE[name]):
        pass
    connection.close()
    wrong = check_database(str(path), deep=True)

    counts = reindexed(path)

    assert wrong.problems or wrong.outdated_entries
    assert counts == {"memory": 21, "attempt": 4, "failure": 8, "episode": 0}
    assert check_database(str(path), deep=True) == check_database(str(path))
    assert check_database(str(path)).problems == ()
    assert indexed_in(path) == before
    store = open_store(str(path))
    learn(store, "Zebra")
    assert found_by(store, "zebra") == ["Zebra"]
    assert found_by(store, "tabs") == ["Parser"]
    assert_whole(store)
    store.close()


def test_an_index_made_anew_is_put_together_as_eagerly_as_before(path: Path) -> None:
    connection = apsw.Connection(str(path))
    sql = "SELECT * FROM memory_index_config UNION ALL SELECT * FROM failure_index_config"
    before = connection.execute(sql).fetchall()
    connection.close()

    reindexed(path)

    assert apsw.Connection(str(path)).execute(sql).fetchall() == before


def test_damage_elsewhere_is_neither_hidden_nor_in_the_way(path: Path) -> None:
    damage(path, b"All about Fact 7.", b"All about \xff\xff\xff\xff 7.")  # cannot be read any more
    damage(path, b"All about Fact 8.", b"All about Fact 9.")
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE memory SET tags = 'no list' WHERE title = 'Fact 11'")
    connection.execute("UPDATE memory SET files = '{\"a\": [1]}', body = x'00ff' WHERE title = 'Fact 12'")
    connection.execute("DELETE FROM memory_index_data")
    connection.close()

    counts = reindexed(path)

    assert counts["memory"] == 20
    (problem,) = check_database(str(path), deep=True).problems
    assert problem.startswith("4 memories do not match their checksum: ")
    store = open_store(str(path))
    assert found_by(store, "Fact 11", 1) == ["Fact 11"]
    store.close()


def test_making_the_indexes_anew_is_all_or_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE memory_words SET body = 'other' WHERE seq = 3")
    connection.close()
    before = indexed_in(path)
    code = """
import os, sys
from ralph.store import index
from ralph.store.sqlite.driver import open_sqlite
from ralph.store.sqlite.words import SqliteWordIndex
when, path = sys.argv[1:]
if when == "words":
    index.write_index = lambda *given, **more: os._exit(9)
else:
    rebuild = SqliteWordIndex.rebuild
    SqliteWordIndex.rebuild = lambda self: (rebuild(self), os._exit(9))
index.rebuild_indexes(open_sqlite(path))
"""
    for when in ("words", "index"):
        killed = subprocess.run([sys.executable, "-c", code, when, str(path)], check=False)

        assert killed.returncode == 9
        assert indexed_in(path) == before
        assert check_database(str(path)).problems == ()
    assert reindexed(path)["memory"] == 21
    assert check_database(str(path), deep=True).problems == ()


def test_those_who_read_meanwhile_see_the_old_index_until_the_new_one_is_whole(path: Path) -> None:
    reader, writer = open_store(str(path)), open_store(str(path))
    before = found_by(reader, "parser tabs")

    with writer.transaction():
        rebuild_indexes(writer.database)
        during = found_by(reader, "parser tabs")

    assert before == during == found_by(reader, "parser tabs") == ["Parser"]
    learn(reader, "Zebra")
    assert found_by(writer, "zebra") == ["Zebra"]
    reader.close()
    writer.close()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_indexes_that_cannot_be_written_are_left_as_they_are(path: Path) -> None:
    path.chmod(0o400)

    with pytest.raises(StoreError, match="read-only"):
        reindexed(path)


def test_an_index_of_no_rows_is_made_too(tmp_path: Path) -> None:
    create_store(str(tmp_path / "ralph.db"), "tests").close()

    assert reindexed(tmp_path / "ralph.db") == {"memory": 0, "attempt": 0, "failure": 0, "episode": 0}
    assert check_database(str(tmp_path / "ralph.db"), deep=True).problems == ()


# --- compared ----------------------------------------------------------------------------------


def test_a_comparison_counts_each_row_once(path: Path) -> None:
    store = open_store(str(path))
    store.database.execute("DELETE FROM memory_words WHERE seq <= 2")
    store.database.execute("UPDATE memory_words SET version = 0, body = 'old' WHERE seq IN (3, 4, 5)")
    store.database.execute("UPDATE memory_words SET body = 'wrong' WHERE seq IN (6, 7, 8, 9)")
    store.database.execute("DELETE FROM memory_files")

    found = compare_index(store.database, "memory")

    assert (found.missing, found.outdated, found.wrong, found.wrong_files) == (2, 3, 4, 1)
    store.close()


# --- how rare a word is -------------------------------------------------------------------------


def test_how_common_a_word_is_is_estimated_near_the_truth_when_not_all_is_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ralph.store.postings.MAX_POSTINGS", 200)
    store = create_store(str(tmp_path / "ralph.db"), "tests")
    memories = [
        a_memory(
            f"Memory {n}",
            " ".join(
                word for word, every in (("each", 1), ("third", 3), ("tenth", 10), ("seldom", 500)) if n % every == 0
            ),
            id=f"mem-{n}-0000",
        )
        for n in range(1_500)
    ]
    store.memories.insert_all_unchecked(memories, T)

    found = store.memories.index.search_words(asked("memory third tenth seldom"), 10)

    assert found.word_counts["seldom"] == 3
    assert found.word_counts["tenth"] == pytest.approx(150, rel=0.1)
    assert found.word_counts["third"] == pytest.approx(500, rel=0.1)
    assert found.word_counts["memori"] == pytest.approx(1_500, rel=0.1)
    assert found.total == 1_500
    store.close()
