"""Checks: damage is found wherever it is, and nothing is changed by looking."""

from __future__ import annotations

import os
import random
import re
from pathlib import Path

import apsw
import pytest

from ralph.store.database import CHECKED_TABLES, SCHEMA_VERSION
from ralph.store.maintenance.backup import make_backup
from ralph.store.maintenance.check import check_database, is_index_problem
from tests.store.make import a_database, contents, damage

pytestmark = pytest.mark.sqlite


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Give the path of a closed database with rows in every table that has checksums."""
    return a_database(tmp_path)


def test_a_sound_database_is_said_to_be_sound_and_is_not_changed(path: Path) -> None:
    before = contents(path.parent)

    shallow, deep = check_database(str(path)), check_database(str(path), deep=True)

    assert shallow.problems == deep.problems == ()
    assert contents(path.parent) == before


def test_a_flipped_byte_is_harmless_or_found(path: Path) -> None:
    chance = random.Random(7)
    good = path.read_bytes()
    rows = all_rows(path)
    found = 0
    for _ in range(150):
        content = bytearray(good)
        content[chance.randrange(len(content))] ^= chance.randrange(1, 256)
        path.write_bytes(content)

        if check_database(str(path)).problems:
            found += 1
        else:
            assert all_rows(path) == rows
    assert found > 4


def all_rows(path: Path) -> list[tuple[object, ...]]:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    return [row for table in CHECKED_TABLES for row in connection.execute(f"SELECT * FROM {table}").fetchall()]


def test_any_flipped_byte_of_a_backup_is_found(path: Path) -> None:
    made = Path(make_backup(str(path), "by hand").path)
    chance = random.Random(7)
    good = made.read_bytes()
    for _ in range(40):
        content = bytearray(good)
        content[chance.randrange(len(content))] ^= chance.randrange(1, 256)
        made.write_bytes(content)

        assert check_database(str(made)).problems


def test_any_missing_end_is_found(path: Path) -> None:
    good = path.read_bytes()
    for length in (1, 99, 4096, 4097, len(good) // 2, len(good) - 4096, len(good) - 1):
        path.write_bytes(good[:length])

        assert check_database(str(path)).problems, length


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (b"All about Fact 7.", b"All about Fact 8.", "1 memory does not match its checksum: ID."),
        (b"All about Fact 7.", b"All about \xff\xff\xff\xff 7.", "1 memory does not match its checksum: ID."),
        (b"it was learned", b"it was l\xffarned", "In memory_events, some text is damaged."),
        (b"Task 29", b"Task 28", "In tasks, 1 row does not match its checksum: ID."),
        (
            b"AFTER DELETE ON memory_words",
            b"AFTER INSERT ON memory_words",
            "The definition of memory_words_removed is damaged.",
        ),
    ],
)
def test_a_changed_byte_is_told_by_its_place(path: Path, old: bytes, new: bytes, said: str) -> None:
    damage(path, old, new)

    assert said in [re.sub(r"(?:mem|t)-[\w-]+", "ID", problem) for problem in check_database(str(path)).problems]


def test_what_is_no_database_is_said_to_be_none(tmp_path: Path) -> None:
    noise = tmp_path / "noise.db"
    noise.write_bytes(random.Random(1).randbytes(20_000))
    empty = tmp_path / "empty.db"
    empty.touch()
    pipe = tmp_path / "pipe.db"
    os.mkfifo(pipe)

    assert check_database(str(noise)).problems == ("It cannot be read: file is not a database.",)
    assert check_database(str(empty)).problems == ("It cannot be read: it is empty.",)
    assert check_database(str(tmp_path)).problems == check_database(str(pipe)).problems == ("It is not a file.",)
    assert (
        check_database(str(tmp_path / "none.db")).problems[0].startswith("It cannot be read: No such file or directory")
    )
    assert check_database(str(tmp_path / "\udcff.db")).problems


def test_an_overwritten_header_is_found(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(bytes(100) + content[100:])

    assert check_database(str(path)).problems


def test_another_programs_database_and_a_newer_one_are_not_sound(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.pragma("user_version", SCHEMA_VERSION + 3)
    newer = check_database(str(path))
    connection.pragma("user_version", SCHEMA_VERSION)
    connection.pragma("application_id", 7)
    foreign = check_database(str(path))
    connection.close()

    assert [problem for problem in newer.problems if "newer Ralph" in problem]
    assert foreign.problems == ("It is empty or belongs to another program.",)


def test_a_search_index_that_does_not_match_is_found_by_looking_deep(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(
        "INSERT INTO memory_index (memory_index, rowid, title, body, paths, tags) "
        "SELECT 'delete', seq, title, body, paths, tags FROM memory_words WHERE seq = 3"
    )
    connection.close()

    assert check_database(str(path)).problems == ()
    assert check_database(str(path), deep=True).problems == ("The search index memory_index does not match its table.",)


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("DELETE FROM memory_words WHERE seq IN (3, 4)", "2 memories are not in the search index."),
        ("DELETE FROM failure_words WHERE seq = 1", "1 failure report is not in the search index."),
        (
            "UPDATE memory_words SET body = 'wrong' WHERE seq = 3",
            "1 memory is in the search index with the wrong words.",
        ),
        (
            "UPDATE attempt_words SET paths = 'wrong'",
            "4 journal entries are in the search index with the wrong words.",
        ),
        (
            "INSERT INTO attempt_words SELECT seq, 1, '', '', '', '', project_id FROM attempts WHERE notes = ''",
            "4 journal entries are in the search index with the wrong words.",
        ),
        (
            "INSERT INTO memory_files SELECT project_id, 'src/a.py', seq FROM memory WHERE seq = 3",
            "1 memory is in the search index with the wrong files.",
        ),
        ("DROP TABLE attempt_words", "The search index of journal entries cannot be read."),
        ("UPDATE memory_words SET title = CAST(x'ff' AS TEXT) WHERE seq = 3", "In memory_words, some text is damaged."),
        ("DELETE FROM memory_index_config", "The search index memory_index does not match its table."),
        ("DROP TRIGGER failure_words_changed", "The definition of failure_words_changed is missing."),
    ],
)
def test_an_index_that_is_not_of_the_texts_is_found_by_looking_deep_and_told_from_other_damage(
    path: Path, sql: str, said: str
) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(sql)
    connection.close()

    problems = check_database(str(path), deep=True).problems

    assert said in problems
    assert all(map(is_index_problem, problems))


def test_rows_indexed_by_other_rules_are_told_but_nothing_is_wrong(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE memory_words SET version = version + 1, body = 'other' WHERE seq < 4")
    connection.execute("UPDATE failure_words SET version = 0, body = 'old' WHERE seq = 1")
    connection.close()

    found = check_database(str(path), deep=True)

    assert found.problems == ()
    assert found.outdated_entries == "3 memories and 1 failure report"


def test_a_text_that_cannot_be_read_is_told_by_its_checksum_and_not_as_a_fault_of_the_index(path: Path) -> None:
    damage(path, b"All about Fact 7.", b"All about \xff\xff\xff\xff 7.")

    problems = check_database(str(path), deep=True).problems

    assert [re.sub(r"mem-[\w-]+", "ID", one) for one in problems] == ["1 memory does not match its checksum: ID."]
    assert not any(map(is_index_problem, problems))


def test_a_row_that_names_one_that_is_gone_is_found(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("DELETE FROM runs")
    connection.close()

    assert check_database(str(path)).problems == ("In attempts, 8 rows refer to a missing row of runs.",)


def test_a_missing_trigger_is_found(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("DROP TRIGGER memory_words_added")
    connection.close()

    assert check_database(str(path)).problems == ("The definition of memory_words_added is missing.",)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_database_in_a_place_that_cannot_be_written_to_is_checked(path: Path) -> None:
    path.chmod(0o400)
    path.parent.chmod(0o500)

    assert check_database(str(path), deep=True).problems == ()
