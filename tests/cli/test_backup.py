"""`ralph backup` and `ralph restore` as a person uses them."""

from __future__ import annotations

import io
import json
import os
import pty
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from ralph.cli import main
from ralph.loop.workers import RunLock
from ralph.project import Project
from ralph.workspace import init_project
from tests.make import set_up_project

Ralph = Callable[..., tuple[int, str, str]]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """Give a project with one task."""
    set_up_project(tmp_path)
    add(tmp_path, "Kept")
    return tmp_path


@pytest.fixture
def ralph(here: Path, capsys: pytest.CaptureFixture[str]) -> Ralph:
    """Run one command in the project; give its exit code and what it printed."""

    def run(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        try:
            code = main(["-C", str(here), *words])
        except SystemExit as ended:
            code = int(ended.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def add(root: Path, title: str) -> None:
    with Project.open(root) as project:
        project.tasks.add(title)


def tasks(root: Path) -> list[str]:
    with Project.open(root) as project:
        return [task.title for task in project.tasks.list()]


def made(root: Path) -> list[Path]:
    return sorted((root / ".ralph" / "backups").glob("*.db"))


def database(root: Path) -> Path:
    return root / ".ralph" / "ralph.db"


# --- backup ------------------------------------------------------------------------------


def test_a_backup_is_made_and_said_to_be_where_it_is(ralph: Ralph, here: Path) -> None:
    code, out, err = ralph("backup")

    assert (code, err) == (0, "")
    assert len(made(here)) == 1
    assert out.splitlines()[0] == f"Backup created and verified: {made(here)[0]}"
    assert out.splitlines()[1].endswith("KB: 0 memories, 0 attempts, 1 task")


def test_backups_are_listed_newest_first(ralph: Ralph, here: Path) -> None:
    assert ralph("backup", "--list")[1] == "No backups yet. Create one with: ralph backup\n"
    ralph("backup")
    add(here, "Second")
    told = json.loads(ralph("backup", "--format", "json")[1])

    code, out, _ = ralph("backup", "--list")

    assert code == 0
    assert out.splitlines()[1].split()[0::9] == [Path(told["path"]).name]
    listed = json.loads(ralph("backup", "--list", "--format", "json")[1])
    assert listed[0] == told
    assert [one["tasks"] for one in listed] == [2, 1]


def test_older_backups_than_wanted_go(ralph: Ralph, here: Path) -> None:
    for _ in range(4):
        ralph("backup", "--keep", "2")

    assert len(made(here)) == 2
    assert ralph("backup", "--keep", "0")[0] == 2


def test_checking_backups_fails_when_one_is_damaged(ralph: Ralph, here: Path) -> None:
    assert ralph("backup", "--verify")[0] == 0
    ralph("backup")
    ralph("backup")
    sound = ralph("backup", "--verify")
    bad, good = made(here)
    bad.write_bytes(b"damaged")

    code, out, _ = ralph("backup", "--verify")

    assert sound[0] == 0
    assert sound[1].count("ok") == 2
    assert code == 1
    assert "damaged" in next(line for line in out.splitlines() if line.startswith(bad.name))
    assert ralph("backup", "--verify", good.name)[0] == 0
    assert ralph("backup", "--verify", bad.stem)[0] == 1
    assert ralph("backup", "--verify", "none")[0] == 1
    assert "1 backup cannot be read" in ralph("backup", "--list")[1]
    states = json.loads(ralph("backup", "--verify", "--format", "json")[1])
    assert sorted(bool(one["problems"]) for one in states) == [False, True]


@pytest.mark.sqlite
def test_a_damaged_database_is_not_backed_up_and_the_way_out_is_said(ralph: Ralph, here: Path) -> None:
    database(here).write_bytes(b"damaged" * 1000)

    code, _, err = ralph("backup")

    assert code == 1
    assert "ralph restore" in err
    assert made(here) == []


def test_a_project_with_a_damaged_row_is_not_backed_up_and_good_backups_stay(ralph: Ralph, here: Path) -> None:
    ralph("backup")
    spoil(here, "UPDATE tasks SET title = 'Changed'")

    code, _, err = ralph("backup", "--keep", "1")

    assert code == 1
    assert "is damaged: In tasks, 1 row does not match its checksum: " in err
    assert "ralph restore" in err
    assert len(made(here)) == 1


@pytest.mark.sqlite
def test_a_file_that_the_settings_name_is_backed_up_and_restored_where_it_is(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.setenv("RALPH_STORE", f"sqlite://{elsewhere / 'all.db'}")
    init_project(tmp_path)
    add(tmp_path, "Kept")

    main(["-C", str(tmp_path), "backup"])
    add(tmp_path, "Since then")
    main(["-C", str(tmp_path), "restore", "--yes"])

    assert len(list((elsewhere / "backups").glob("*.db"))) == 1
    assert made(tmp_path) == []
    assert tasks(tmp_path) == ["Kept"]
    assert main(["-C", str(tmp_path), "doctor"]) == 0


def spoil(root: Path, sql: str) -> None:
    with Project.open(root) as project:
        project.store.database.execute(sql)


# --- restore -----------------------------------------------------------------------------


def test_a_damaged_row_is_brought_back_and_intact_memories_are_taken_over(ralph: Ralph, here: Path) -> None:
    ralph("backup")
    spoil(here, "UPDATE tasks SET title = 'Changed'")
    ralph("memory", "add", "Learned since then", "-t", "fix")

    code, out, err = ralph("restore", "--yes")

    assert (code, err) == (0, "")
    assert "Problem in the database: In tasks, 1 row does not match its checksum: " in out
    assert "Intact memories recovered from the damaged database: 1." in out
    assert next((here / ".ralph" / "damaged").glob("*/ralph.db")).parent.name in out
    assert tasks(here) == ["Kept"]
    assert "Learned since then" in ralph("memory", "search", "learned")[1]
    assert ralph("doctor")[0] == 0


@pytest.mark.postgres
def test_what_a_restore_on_a_server_replaces_is_a_backup_itself(ralph: Ralph, here: Path) -> None:
    ralph("backup")
    add(here, "Since then")

    code, out, _ = ralph("restore", "--yes")
    kept = next(path for path in made(here) if path.name.endswith("before-restore.db"))

    assert code == 0
    assert f"is kept in {kept}." in out
    assert tasks(here) == ["Kept"]
    assert ralph("restore", kept.name, "--yes")[0] == 0
    assert tasks(here) == ["Kept", "Since then"]
    assert sorted(path.suffix for path in (here / ".ralph/backups").iterdir() if path.suffix != ".sha256") == [
        "", ".db", ".db", ".db"
    ]  # fmt: skip


@pytest.mark.postgres
def test_a_restore_on_a_server_leaves_the_other_projects_alone(
    ralph: Ralph, here: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    init_project(other)
    add(other, "Theirs")
    ralph("backup")
    add(other, "Theirs since then")

    assert ralph("restore", "--yes")[0] == 0

    assert tasks(here) == ["Kept"]
    assert tasks(other) == ["Theirs", "Theirs since then"]
    assert [one["tasks"] for one in json.loads(ralph("backup", "--list", "--format", "json")[1])] == [1, 1]


@pytest.mark.postgres
def test_a_backup_of_a_file_is_brought_back_on_a_server(
    ralph: Ralph, here: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tmp_path_factory.mktemp("before")
    with monkeypatch.context() as patch:
        patch.delenv("RALPH_STORE")
        init_project(before)
        add(before, "From a file")
        main(["-C", str(before), "backup"])

    assert ralph("restore", str(made(before)[0]), "--yes")[0] == 0

    assert tasks(here) == ["From a file"]
    assert ralph("doctor")[0] == 0


# --- asked and refused -------------------------------------------------------------------


@pytest.mark.sqlite
def test_a_damaged_database_is_brought_back_and_kept(ralph: Ralph, here: Path) -> None:
    ralph("backup")
    database(here).write_bytes(b"damaged" * 1000)

    code, out, _ = ralph("restore", "--yes")

    assert code == 0
    assert "Problem in the database: " in out
    assert f"Restored {made(here)[0]}." in out
    kept = next((here / ".ralph" / "damaged").glob("*/ralph.db"))
    assert f"is kept in {kept.parent}." in out
    assert kept.read_bytes() == b"damaged" * 1000
    assert tasks(here) == ["Kept"]


@pytest.mark.sqlite
def test_a_database_that_is_gone_is_brought_back_from_a_folder_below(here: Path, tmp_path: Path) -> None:
    main(["-C", str(here), "backup"])
    database(here).unlink()
    below = here / "src" / "deep"
    below.mkdir(parents=True)

    assert main(["-C", str(below), "restore", "--yes"]) == 0
    assert tasks(here) == ["Kept"]


@pytest.mark.sqlite
def test_the_nearest_project_is_the_one_that_is_restored(here: Path) -> None:
    main(["-C", str(here), "backup"])
    inner = here / "inner"
    inner.mkdir()
    init_project(inner)
    add(inner, "Inner")
    main(["-C", str(inner), "backup"])
    database(inner).unlink()
    before = database(here).read_bytes()

    main(["-C", str(inner), "restore", "--yes"])

    assert tasks(inner) == ["Inner"]
    assert database(here).read_bytes() == before


def test_a_dry_run_tells_what_is_lost_and_changes_nothing(ralph: Ralph, here: Path) -> None:
    ralph("backup")
    add(here, "Since then")

    code, out, _ = ralph("restore", "--dry-run", "--yes")

    assert code == 0
    assert "Lost: 1 task added after" in out
    assert out.endswith("Nothing was changed.\n")
    assert tasks(here) == ["Kept", "Since then"]
    assert not (here / ".ralph" / "damaged").exists()


def test_without_a_terminal_nothing_is_restored_unasked(
    ralph: Ralph, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ralph("backup")
    monkeypatch.setattr(sys, "stdin", io.StringIO())

    code, _, err = ralph("restore")

    assert code == 2
    assert "--yes" in err
    assert not (here / ".ralph" / "damaged").exists()


def test_a_backup_that_is_not_there_or_damaged_is_refused(ralph: Ralph, here: Path) -> None:
    assert ralph("restore", "--yes")[0] == 1
    ralph("backup")
    made(here)[0].write_bytes(b"damaged")

    code, _, err = ralph("restore", made(here)[0].name, "--yes")

    assert code == 1
    assert "nothing was changed" in err
    assert ralph("restore", "none", "--yes")[0] == 1
    assert tasks(here) == ["Kept"]


@pytest.mark.parametrize(("answer", "code", "left"), [("y", 0, ["Kept"]), ("", 1, ["Kept", "Since then"])])
def test_a_person_is_asked(here: Path, answer: str, code: int, left: list[str]) -> None:
    main(["-C", str(here), "backup"])
    add(here, "Since then")
    pid, fd = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-m", "ralph", "-C", str(here), "restore"])
    seen = read_until(fd, "[y/N]")
    os.write(fd, answer.encode() + b"\n")
    read_until(fd, "is kept in" if answer else "Nothing was changed")
    _, status = os.waitpid(pid, 0)
    os.close(fd)

    assert os.waitstatus_to_exitcode(status) == code
    assert "Lost: 1 task added" in seen
    assert tasks(here) == left


def read_until(fd: int, text: str) -> str:
    seen = ""
    deadline = time.monotonic() + 20
    while text not in seen and time.monotonic() < deadline:
        seen += os.read(fd, 4096).decode("utf-8", "replace")
    assert text in seen
    return seen


@pytest.mark.sqlite
def test_nothing_is_restored_under_a_run_at_work(here: Path, ralph: Ralph) -> None:
    ralph("memory", "add", "Docker first")
    ralph("backup")
    before = (here / ".ralph/ralph.db").read_bytes()

    with RunLock(here):
        code, _, err = ralph("restore", "--yes")

    assert code == 1
    assert err == "Error: A run is active in this project, and its changes would be lost. Stop it first.\n"
    assert (here / ".ralph/ralph.db").read_bytes() == before
    assert ralph("restore", "--yes")[0] == 0


@pytest.mark.sqlite
def test_a_database_of_a_newer_ralph_is_replaced_only_by_a_backup_that_is_named(here: Path, ralph: Ralph) -> None:
    ralph("memory", "add", "Docker first")
    name = Path(json.loads(ralph("backup", "--format", "json")[1])["path"]).name
    with closing(apsw.Connection(str(here / ".ralph/ralph.db"))) as newer:
        newer.pragma("user_version", 99)

    code, _, err = ralph("restore", "--yes")

    assert code == 1
    assert "is not damaged, but was written by a newer Ralph: upgrade ralph." in err
    assert ralph("restore", name, "--yes")[0] == 0


@pytest.mark.sqlite
def test_without_a_backup_the_way_to_begin_anew_is_named_and_works(here: Path, ralph: Ralph) -> None:
    ralph("memory", "add", "Docker first", "-t", "fix")
    path = here / ".ralph/ralph.db"
    path.write_bytes(path.read_bytes()[:5000])
    assert ralph("backup")[0] == 1

    _, _, err = ralph("restore", "--yes")
    path.rename(here / "moved.db")

    assert "To start over, move" in err
    assert ralph("init")[0] == 0
    assert "Docker first" in ralph("memory", "list")[1]
