"""What people, shells and other programs do to a command line; none of it may end in a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import apsw
import pytest

from ralph.core.records import AttemptOutcome, TaskStatus
from ralph.project import Project
from tests.make import claim_task, damaged_rows, set_up_project

RALPH = f"'{sys.executable}' -m ralph"
DONE = """sh -c 'echo "<task-done>$RALPH_TASK_ID</task-done>"'"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    set_up_project(tmp_path)
    return tmp_path


def shell(here: Path, command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", command.replace("ralph ", f"{RALPH} ", 1)],
        cwd=here,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )


def add(here: Path, title: str = "Täsk") -> str:
    with Project.open(here) as project:
        return project.tasks.add(title).id


@pytest.mark.parametrize(
    "command",
    [
        "ralph status >&-",
        "ralph status 2>&-",
        "ralph task list <&- >&-",
        "ralph task import - <&-",
        "ralph task show $'\\xff'",
        "ralph task list --feature $'\\xff'",
        "ralph run --model $'\\xff' -- true",
        "ralph task add x --priority 99999999999999999999",
        "ralph journal list --last 99999999999999999999",
        "ralph journal search x --last 99999999999999999999",
        "ralph journal show 99999999999999999999",
        "ralph journal show ²",
        "ralph failures show t-000000 --attempt ²",
        "ralph -C " + "a" * 5000 + " status",
        "ralph demo --keep /proc/x",
        "mkdir gone; cd gone; rmdir ../gone; ralph status".replace("ralph ", f"{RALPH} "),
    ],
)
def test_odd_streams_words_numbers_and_paths_are_no_fault_of_ours(here: Path, command: str) -> None:
    done = shell(here, command)

    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr
    assert done.returncode in (0, 1, 2, 3)


def test_a_terminal_that_knows_no_umlauts_gets_question_marks(here: Path) -> None:
    add(here)

    done = shell(here, "ralph task list", PYTHONIOENCODING="ascii")

    assert done.returncode == 0
    assert "T?sk" in done.stdout


def test_a_run_whose_output_nobody_reads_goes_on_to_its_end(here: Path) -> None:
    id = add(here)

    shell(here, "ralph run -- sh -c 'sleep 0.3; echo \"<task-done>$RALPH_TASK_ID</task-done>\"' | head -1")

    with Project.open(here) as project:
        assert project.store.tasks.get(id).status is TaskStatus.DONE
        assert project.store.attempts.running() == []
        assert project.store.runs.latest(1)[0].ended_at


@pytest.mark.sqlite
def test_a_database_that_is_taken_away_ends_the_run_and_nothing_is_claimed_to_be_done(here: Path) -> None:
    add(here)

    done = shell(here, "ralph run -- sh -c 'rm .ralph/ralph.db*; echo \"<task-done>$RALPH_TASK_ID</task-done>\"'")

    assert done.returncode == 1
    assert "was moved or deleted while it was in use" in done.stdout
    assert "0 done" in done.stdout


@pytest.mark.sqlite
def test_a_writer_that_is_stopped_does_not_hold_others_up_for_ever(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    monkeypatch.setattr("ralph.store.sqlite.driver.BUSY_MILLISECONDS", 300)
    with (here / ".ralph/ralph.db.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        began = time.monotonic()

        add(here)

    assert 0.2 < time.monotonic() - began < 30


def test_an_agent_cannot_go_round_the_gates_by_command(here: Path) -> None:
    id = add(here)
    command = f"{RALPH} task done $RALPH_TASK_ID; {RALPH} task reset $RALPH_TASK_ID; true"

    done = shell(here, f'ralph run --max-iterations 1 --gate false -- sh -c "{command}"'.replace("$R", "\\$R"))

    with Project.open(here) as project:
        assert project.store.tasks.get(id).status is TaskStatus.PENDING
        assert project.store.attempts.latest(1)[0].outcome is AttemptOutcome.BLOCKED
    assert done.returncode == 0


def test_secrets_in_errors_commands_and_gates_are_not_stored(here: Path) -> None:
    add(here)
    token = "ghp" + "_" + "a1B2c3" * 6
    key = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEowIBAAKCAQEA75\n" * 300 + "-----END RSA PRIVATE KEY-----\n"
    (here / "key.pem").write_text(key)

    shell(here, f"ralph run --max-iterations 1 -- sh -c 'echo bad token {token} >&2; exit 1'")
    shell(here, f'ralph run --max-iterations 1 --gate "cat key.pem; false {token}" -- {DONE}')

    with Project.open(here) as project:
        store = project.store
        dump = " ".join(
            str(row)
            for table in ("attempts", "failures", "tasks", "task_log")
            for row in store.database.query(f"SELECT * FROM {table}")
        )
    assert "a1B2c3a1B2c3" not in dump
    assert "MIIEowIBAAKCAQEA75" not in dump
    assert "[redacted]" in dump


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_asked_to_end_a_run_settles_its_attempt_first(here: Path, number: signal.Signals) -> None:
    id = add(here)
    run = subprocess.Popen(
        [sys.executable, "-m", "ralph", "run", "--", "sh", "-c", "touch started; sleep 60"],
        cwd=here,
        stdout=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 20
    while not (here / "started").exists() and time.monotonic() < deadline:
        time.sleep(0.02)

    run.send_signal(number)

    assert run.wait(20) == 130
    with Project.open(here) as project:
        assert project.store.tasks.get(id).status is TaskStatus.PENDING
        assert project.store.attempts.latest(1)[0].outcome is AttemptOutcome.INTERRUPTED


def test_ctrl_c_in_a_session_that_ends_by_itself_is_not_forgotten(here: Path) -> None:
    add(here), add(here, "second")
    run = subprocess.Popen(
        [
            *(sys.executable, "-m", "ralph", "run", "--", "sh", "-c"),
            '[ -e started ] && sleep 60; touch started; trap "" TERM; sleep 0.4;'
            ' echo "<task-done>$RALPH_TASK_ID</task-done>"',
        ],
        cwd=here,
        stdout=subprocess.DEVNULL,
    )
    while not (here / "started").exists():
        time.sleep(0.01)
    time.sleep(0.3)

    run.send_signal(signal.SIGINT)

    assert run.wait(20) == 130
    with Project.open(here) as project:
        assert project.store.tasks.progress.counts()[TaskStatus.PENDING] >= 1


def test_a_waiting_run_takes_over_from_a_killed_one_at_once(here: Path) -> None:
    first = add(here)
    with Project.open(here) as project:
        project.tasks.add("second", needs=[first])
    (here / "agent.sh").write_text(
        'if [ -e once ]; then echo "<task-done>$RALPH_TASK_ID</task-done>"; else touch once; sleep 60; fi\n'
    )
    command = [sys.executable, "-m", "ralph", "run", "--", "sh", "agent.sh"]
    one = subprocess.Popen(command, cwd=here, stdout=subprocess.DEVNULL)
    while not (here / "once").exists():
        time.sleep(0.01)
    two = subprocess.Popen(command, cwd=here, stdout=subprocess.DEVNULL)
    time.sleep(1)

    os.kill(one.pid, signal.SIGKILL)
    one.wait()

    assert two.wait(30) == 0
    with Project.open(here) as project:
        assert project.store.tasks.progress.counts() == {TaskStatus.DONE: 2}


@pytest.mark.sqlite
@pytest.mark.parametrize(
    "change",
    [
        "UPDATE tasks SET title = CAST(x'ff' AS TEXT)",
        "UPDATE tasks SET status = 'pending' || x'00'",
        "UPDATE attempts SET files = 'not json'",
        "UPDATE attempts SET shown = NULL",
    ],
)
def test_rows_somebody_damaged_are_said_to_be_damaged(here: Path, change: str) -> None:
    add(here)
    shell(here, f"ralph run --max-iterations 1 -- {DONE}")
    connection = apsw.Connection(str(here / ".ralph/ralph.db"))
    connection.pragma("ignore_check_constraints", True)
    try:
        connection.execute(change)
    except apsw.ConstraintError:
        return  # the database itself refused
    finally:
        connection.close()

    for command in ("ralph task list", "ralph journal list"):
        done = shell(here, command)
        assert "Traceback" not in done.stderr
        assert done.returncode in (0, 1)


@pytest.mark.sqlite
def test_an_empty_or_foreign_database_is_left_alone(here: Path) -> None:
    path = here / ".ralph/ralph.db"
    for file in here.glob(".ralph/ralph.db*"):
        file.unlink()
    path.touch()

    done = shell(here, "ralph status")

    assert done.returncode == 1
    assert "ralph.db is empty. Restore a backup with: ralph restore." in done.stderr
    assert path.stat().st_size == 0


def test_escapes_from_settings_and_arguments_are_not_printed_raw(here: Path) -> None:
    (here / ".ralph.toml").write_text('[execution]\n"\\u001b]0;pwned\\u0007" = 1\n[agent]\nmodel = "\\u001b[31m"\n')

    for command in ("ralph status", "ralph task show $'\\x1b[31mred'", "ralph status $'\\x1b[31mred'"):
        done = shell(here, command)
        assert "\x1b" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    "settings",
    [
        "[execution]\nmax_retries = " + "9" * 5000,
        "[execution]\nlease_seconds = 0",
        "[execution]\nlease_seconds = 1e11",
        '[memories]\ninject = "' + "x" * 100_000 + '"',
    ],
)
def test_settings_out_of_all_bounds_are_one_short_sentence(here: Path, settings: str) -> None:
    (here / ".ralph.toml").write_text(settings)

    done = shell(here, "ralph status")

    assert done.returncode == 2
    assert len(done.stderr) < 400
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("yaml", ['a: !!int ""', 'a: !!float ""', 'a: !!bool "x"', "a: !!timestamp x", "a: [" * 50])
def test_odd_yaml_is_one_sentence(here: Path, yaml: str) -> None:
    (here / "ralph.yml").write_text(yaml)

    done = shell(here, "ralph status")

    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_a_failed_init_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / ".ralph.toml").write_text("[broken")

    assert shell(tmp_path, "ralph init").returncode == 2
    assert [path.name for path in tmp_path.iterdir()] == [".ralph.toml"]


def test_ids_no_sigil_can_name_are_not_taken_over(here: Path) -> None:
    (here / "t.jsonl").write_text('{"id": "a b", "title": "One"}\n{"id": "TASK_ID", "title": "Two"}\n')

    done = shell(here, "ralph task import t.jsonl")

    assert "cannot be used in a sigil" in done.stderr
    with Project.open(here) as project:
        assert all(task.id.startswith("t-") for task in project.store.tasks.all())


def test_whoever_works_on_a_task_that_got_parts_cannot_settle_it(here: Path) -> None:
    from ralph.store.tasks import TaskDraft

    store = Project.open(here).store
    parent = store.tasks.add(TaskDraft(title="P"))
    claimed = claim_task(store, "w1", 600)
    assert claimed is not None
    child = store.tasks.add(TaskDraft(title="C", parent_id=parent.id))
    assert claim_task(store, "w2", 600, task_id=child.id) is not None

    assert not store.tasks.claims.settle(parent.id, claimed.claim_token, TaskStatus.DONE)
    assert not store.tasks.claims.heartbeat(parent.id, claimed.claim_token, 600)
    assert store.tasks.get(parent.id).claimed_by is None
    assert damaged_rows(store) == []
    store.close()
