"""`ralph doctor`: what it finds, and what it says to do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ralph.core.records import Memory, MemoryState, now
from ralph.integrations.doctor import diagnose
from ralph.project import Project
from ralph.store.database import SCHEMA_VERSION
from ralph.store.memories import ChangeInfo
from tests.cli.ran import Ralph, run
from tests.make import set_up_project


@pytest.fixture
def here(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a project of a person who has connected nothing."""
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    set_up_project(tmp_path)
    return tmp_path


@pytest.fixture
def ralph(here: Path, capsys: pytest.CaptureFixture[str]) -> Ralph:
    return lambda *words: run(capsys, here, *words)


def stage(here: Path, body: str) -> None:
    with Project.open(here) as project:
        at = now()
        memory = Memory(
            id="", kind="pitfall", title=body, content=body, state=MemoryState.STAGED, created_at=at, updated_at=at
        )
        project.store.memories.insert_unchecked(memory, ChangeInfo(who="ralph", why="extracted"))


def test_a_sound_project_is_well(here: Path, ralph: Ralph) -> None:
    ralph("memory", "add", "Docker first", "-t", "fix")

    ran = ralph("doctor")

    assert ran.code == 0, ran.out
    assert "intact; 1 active memory, 0 attempts\n" in ran.out
    assert "1 entry in .agent/memories.md\n" in ran.out
    assert ran.out.endswith("\nNo problems found.\n")


def test_what_waits_for_a_person_is_said_last(here: Path, ralph: Ralph) -> None:
    stage(here, "One")
    one = ralph("doctor").out.splitlines()[-1]
    stage(here, "Two")

    two = ralph("doctor").out.splitlines()[-1]

    assert one == "No problems found; 1 learning needs review: ralph learn review"
    assert two == "No problems found; 2 learnings need review: ralph learn review"


@pytest.mark.sqlite
def test_settings_that_cannot_be_read_are_wrong_once_and_nothing_is_fine_because_of_them(
    here: Path, ralph: Ralph
) -> None:
    (here / ".ralph.toml").write_text("[execution]\nverify = true\n\n[execution]\n")

    ran = ralph("doctor", "--format", "json")

    assert ran.code == 1
    told = [(one["about"], one["is_fine"]) for one in ran.json if "twice" in one["says"]]
    assert told == [("settings", False)]


def test_a_damaged_memory_is_named_and_can_be_mended(here: Path, ralph: Ralph) -> None:
    id = ralph("memory", "add", "Docker first", "--format", "quiet").out.strip()
    spoil(here, "UPDATE memory SET body = 'Podman first'")

    wrong = ralph("doctor")
    ralph("memory", "edit", id, "--content", "Podman first")

    assert wrong.code == 1
    assert f"1 memory does not match its checksum: {id}." in wrong.out
    assert "ralph memory edit ID --content TEXT" in wrong.out
    assert "checksum" not in ralph("doctor").out
    assert ralph("doctor", "--reindex").code == 0


def test_what_a_reading_command_points_to_is_found(
    here: Path, ralph: Ralph, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "memories.md"
    elsewhere.write_text("# Memories\n")
    (here / ".agent").mkdir(exist_ok=True)
    (here / ".agent/memories.md").unlink(missing_ok=True)
    (here / ".agent/memories.md").symlink_to(elsewhere)

    listed, ran = ralph("memory", "list"), ralph("doctor")

    assert listed.err == "Warning: 1 problem found in the memory files. See: ralph doctor\n"
    assert ran.code == 1
    assert ".agent/memories.md is a symlink that points outside the project" in ran.out


@pytest.mark.sqlite  # where only one working copy speaks for the files
def test_entries_that_are_gone_all_at_once_are_found(here: Path, ralph: Ralph) -> None:
    for n in range(20):
        ralph("memory", "add", f"Fact {n} about parsers", "-t", "fix")
    file = here / ".agent/memories.md"
    text = file.read_text()
    file.write_text(text[: text.index("### mem-", text.index("### mem-") + 1)])

    started = ralph("run", "--", "true")  # says it although no task is ready
    listed, ran = ralph("memory", "list"), ralph("doctor")

    assert "ralph memory files restore" in started.out
    assert "ralph doctor" in listed.err
    assert "19 memories are missing from .agent/memories.md or older there; Ralph kept them" in ran.out
    assert "accept: delete 19 memories" in ran.out
    assert ralph("memory", "files", "accept").out.startswith("Deleted 19 memories, reverted 0. To undo: ralph memory")


# --- search indexes ------------------------------------------------------------------------


def spoil(here: Path, sql: str) -> None:
    with Project.open(here) as project:
        for statement in sql.split(";"):
            project.store.database.execute(statement)


def test_reindexing_says_how_much_is_indexed_and_how_long_it_took(here: Path, ralph: Ralph) -> None:
    for n in range(3):
        ralph("memory", "add", f"Fact {n} about parsers", "-t", "fix")

    ran = ralph("doctor", "--reindex")

    assert ran.code == 0
    first = ran.out.splitlines()[0]
    assert re.fullmatch(
        r"ok +indexes +rebuilt in \d+\.\d s: 3 memories, 0 journal entries and 0 failure reports", first
    )
    assert ran.out.endswith("\nNo problems found.\n")
    assert ralph("doctor", "--reindex", "--format", "json").json[0]["about"] == "indexes"
    assert "rebuilt in" not in ralph("doctor").out


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("DELETE FROM memory_words", "1 memory is not in the search index."),
        ("UPDATE memory_words SET body = 'x'", "1 memory is in the search index with the wrong words."),
        ("DELETE FROM memory_files", "1 memory is in the search index with the wrong files."),
        pytest.param(
            "DELETE FROM memory_index_data",
            "The search index memory_index does not match its table.",
            marks=pytest.mark.sqlite,
        ),
        pytest.param(
            "DELETE FROM memory_index_config",
            "The search index memory_index does not match its table.",
            marks=pytest.mark.sqlite,
        ),
        pytest.param(
            "DROP TRIGGER memory_words_added",
            "The definition of memory_words_added is missing.",
            marks=pytest.mark.sqlite,
        ),
    ],
)
def test_a_fault_of_an_index_names_the_one_command_that_mends_it(here: Path, ralph: Ralph, sql: str, said: str) -> None:
    ralph("memory", "add", "The parser is slow", "-t", "fix", "--files", "src/parse.py")
    spoil(here, sql)

    ran = ralph("doctor", "--format", "json")

    wrong = [one for one in ran.json if not one["is_fine"]]
    assert ran.code == 1
    assert said in [one["says"] for one in wrong]
    assert {one["mend"] for one in wrong} == {"ralph doctor --reindex"}
    assert ralph("doctor", "--reindex").out.endswith("\nNo problems found.\n")
    assert "The parser is slow" in ralph("memory", "search", "parser").out


def test_rows_indexed_by_other_rules_wait_for_a_person_but_nothing_is_wrong(here: Path, ralph: Ralph) -> None:
    ralph("memory", "add", "Docker first", "-t", "fix")
    spoil(here, "UPDATE memory_words SET version = version + 1")

    ran = ralph("doctor")

    assert ran.code == 0
    assert "by the rules of another version: 1 memory; runs reindex them gradually\n" in ran.out
    assert ran.out.endswith("\nNo problems found; to reindex everything now: ralph doctor --reindex\n")
    assert ralph("doctor", "--reindex").out.endswith("\nNo problems found.\n")


def test_damage_elsewhere_is_still_reported_after_reindexing(here: Path, ralph: Ralph) -> None:
    id = ralph("memory", "add", "Docker first", "--format", "quiet").out.strip()
    spoil(here, "UPDATE memory SET body = 'Podman first'; DELETE FROM memory_words")

    ran = ralph("doctor", "--reindex")

    assert ran.code == 1
    assert f"1 memory does not match its checksum: {id}." in ran.out
    assert "rebuilt in" in ran.out


@pytest.mark.sqlite
def test_a_database_that_cannot_be_reindexed_is_said_to_be_so_and_the_rest_is_looked_at(
    here: Path, ralph: Ralph
) -> None:
    (here / ".ralph/ralph.db").write_bytes(b"noise" * 2_000)

    ran = ralph("doctor", "--reindex")

    assert ran.code == 1
    assert "The search indexes were not changed." in " ".join(ran.out.split())
    assert "-> ralph restore" in ran.out
    assert "settings   valid" in ran.out


@pytest.mark.sqlite
def test_who_meets_a_damaged_index_is_told_what_mends_it(here: Path, ralph: Ralph) -> None:
    ralph("memory", "add", "Docker first", "-t", "fix")
    for sql in ("DELETE FROM memory_index_data", "DELETE FROM memory_index_config"):
        spoil(here, sql)

        for words in (("memory", "search", "docker"), ("memory", "add", "Podman second", "-t", "fix")):
            ran = ralph(*words)

            assert ran.code != 0
            assert "ralph doctor --reindex" in ran.err
        assert ralph("doctor", "--reindex").code == 0
        assert "Docker first" in ralph("memory", "search", "docker").out


# --- on a server ---------------------------------------------------------------------------


@pytest.mark.postgres
def test_the_server_is_looked_at_and_what_it_lacks_is_no_fault(here: Path, ralph: Ralph) -> None:
    found = {one.about: one for one in diagnose(here)}

    assert found["postgres"].says.startswith("version 18.")
    assert f"schema {SCHEMA_VERSION}, project" in found["postgres"].says
    assert all(one.is_fine for one in found.values())
    assert found["database"].says == "intact; 0 active memories, 0 attempts"


@pytest.mark.postgres
def test_a_server_that_cannot_be_reached_is_a_finding_and_the_rest_is_looked_at(
    here: Path, ralph: Ralph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RALPH_STORE", "postgresql://someone:secret@127.0.0.1:1/none")

    ran, reindexed = ralph("doctor"), ralph("doctor", "--reindex")

    said = " ".join(ran.out.split())
    assert ran.code == 1
    assert "FAIL database The database postgresql://someone@127.0.0.1:1/none cannot be reached: " in said
    assert "-> start the server" in said
    assert "settings valid" in said
    assert "backups none yet" in said
    assert "knowledge 0 entries" in said
    assert "secret" not in ran.out + reindexed.out
    assert "The search indexes were not changed." in " ".join(reindexed.out.split())


@pytest.mark.postgres
def test_each_project_on_a_server_is_looked_at_and_reindexed_by_itself(
    here: Path, ralph: Ralph, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path_factory.mktemp("other")
    set_up_project(other)
    run(capsys, other, "memory", "add", "Podman second", "-t", "fix")
    ralph("memory", "add", "Docker first", "-t", "fix")
    spoil(here, "UPDATE memory_words SET body = 'x'; UPDATE memory SET confidence = 0.9")

    mine = ralph("doctor", "--reindex")
    theirs = run(capsys, other, "doctor")

    assert "rebuilt in" in mine.out
    assert "1 memory, 0 journal entries" in mine.out
    assert "in the search index" not in mine.out
    assert mine.out.count("does not match its checksum") == 1
    assert theirs.out.count("does not match its checksum") == 1
    assert "1 memory is in the search index with the wrong words." in theirs.out


def test_verifying_the_memories_finds_what_the_doctor_finds(here: Path, ralph: Ralph) -> None:
    id = ralph("memory", "add", "Docker first", "--format", "quiet").out.strip()
    sound = ralph("memory", "verify")
    spoil(here, "UPDATE memory SET body = 'Podman first'; DELETE FROM memory_words")

    ran = ralph("memory", "verify")

    assert sound.code == 0
    assert ran.code == 1
    assert f"1 memory does not match its checksum: {id}." in ran.out + ran.err
    assert "1 memory is not in the search index." in ran.out + ran.err
