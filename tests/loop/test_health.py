"""While a run is at work its database file is looked at, and every day has a backup."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest

from ralph.agents import SessionOptions
from ralph.core.records import timestamp
from ralph.integrations.doctor import diagnose
from ralph.loop import health
from ralph.loop.health import DatabaseMonitor, is_backup_due
from ralph.loop.options import RunEnding
from ralph.store.maintenance.backup import DAILY_REASON, backup_paths, make_backup
from tests.loop.trial import DONE, Trial
from tests.make import ScriptedAgent
from tests.store.make import damage, learn

pytestmark = pytest.mark.sqlite

HOUR, DAY = 3_600.0, 86_400.0


def at(seconds_ago: float) -> str:
    return timestamp(time.time() - seconds_ago)


@pytest.mark.parametrize(
    ("made", "since", "due"),
    [
        ([], 60, False),
        ([], 2 * HOUR, True),
        ([2 * HOUR, 9 * DAY], 9 * DAY, False),
        ([25 * HOUR], 9 * DAY, True),
        ([-30 * DAY, 25 * HOUR], 9 * DAY, True),  # the clock was ahead
    ],
)
def test_a_backup_is_due_when_the_newest_is_a_day_old(made: list[float], since: float, due: bool) -> None:
    assert is_backup_due(list(map(at, made)), at(since), time.time()) is due


def age(trial: Trial, days: float) -> None:
    """Let the project be so old."""
    trial.project.store.database.execute("UPDATE projects SET created_at = :at", at=at(days * DAY))


def rename_older(root: Path, days: float) -> None:
    """Let all backups be so much older, by their names."""
    moment = re.sub(r"[-:]", "", at(days * DAY)[:19]).replace("T", "-")
    for path in map(Path, backup_paths(str(root / ".ralph/ralph.db"))):
        new = path.with_name(re.sub(r"\d{8}-\d{6}", moment, path.name))
        path.rename(new)
        Path(f"{path}.sha256").rename(f"{new}.sha256")


def daily(trial: Trial) -> list[str]:
    return [path for path in backup_paths(str(trial.root / ".ralph/ralph.db")) if path.endswith(f"-{DAILY_REASON}.db")]


def test_a_run_makes_a_backup_a_day_and_a_young_project_needs_none(trial: Trial) -> None:
    trial.project.tasks.add("First")
    trial.run(ScriptedAgent(DONE))
    young = daily(trial)
    age(trial, 1)
    for _ in range(2):
        trial.project.tasks.add("Next")
        trial.run(ScriptedAgent(DONE))
    second = daily(trial)
    rename_older(trial.root, 2)
    trial.project.tasks.add("Last")

    trial.run(ScriptedAgent(DONE))

    assert (len(young), len(second), len(daily(trial))) == (0, 1, 2)


def test_the_backups_of_every_day_push_out_no_others(trial: Trial) -> None:
    path = str(trial.root / ".ralph/ralph.db")
    made = [make_backup(path, "by hand").path, make_backup(path, "before cleanup").path]

    for _ in range(4):
        made.append(make_backup(path, DAILY_REASON, keep=2).path)

    assert sorted(backup_paths(path)) == sorted([*made[:2], *made[-2:]])


def test_a_run_that_goes_on_for_days_makes_its_backups_meanwhile(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "FIRST_CHECK_SECONDS", 0.01)
    monkeypatch.setattr(health, "CHECK_INTERVAL_SECONDS", 0.05)
    age(trial, 5)
    told: list[str] = []

    with DatabaseMonitor(trial.project.store, told.append, lambda: told.append("stopped")):
        for days in (0, 2):
            rename_older(trial.root, days)
            deadline = time.monotonic() + 20
            while not any(at(HOUR)[:10].replace("-", "") <= Path(one).name[6:14] for one in daily(trial)):
                assert time.monotonic() < deadline
                time.sleep(0.02)

    assert len(daily(trial)) == 2
    assert told == []


def test_a_run_whose_file_is_damaged_says_so_once_and_stops(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "FIRST_CHECK_SECONDS", 0.01)
    monkeypatch.setattr(health, "CHECK_INTERVAL_SECONDS", 0.05)
    learn(trial.project.store, "Fact 1")
    path = trial.root / ".ralph/ralph.db"
    trial.project.store.database.query("PRAGMA wal_checkpoint(TRUNCATE)")
    damage(path, b"All about Fact 1.", b"All about Fact 2.")
    trial.project.tasks.add("One")
    trial.project.tasks.add("Another")

    def work_until_stopped(prompt: str, session: SessionOptions) -> str:
        while not session.should_stop():
            time.sleep(0.02)
        return DONE

    summary = trial.run(ScriptedAgent(work_until_stopped))

    warnings = [str(one.details["message"]) for one in trial.events if one.what == "warning"]
    assert summary.ending is RunEnding.DAMAGED
    assert summary.ending.exit_code == 1
    assert summary.iterations == 1
    assert len(warnings) == 1
    assert warnings[0].startswith(f"The database {path} is damaged: 1 memory does not match its checksum: ")
    assert warnings[0].endswith("Restore a backup with: ralph restore")


def test_a_backup_that_cannot_be_made_is_told_once_and_stops_nothing(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "FIRST_CHECK_SECONDS", 0.01)
    monkeypatch.setattr(health, "CHECK_INTERVAL_SECONDS", 0.02)
    age(trial, 5)
    (trial.root / ".ralph/backups").symlink_to(os.devnull)
    told: list[str] = []
    checks: list[bool] = []

    def is_backup_due(*_: object) -> bool:
        checks.append(True)
        return True

    monkeypatch.setattr(health, "is_backup_due", is_backup_due)

    with DatabaseMonitor(trial.project.store, told.append, lambda: told.append("stopped")):
        while len(checks) < 3:
            time.sleep(0.02)

    assert len(told) == 1
    assert "is a symbolic link" in told[0]


def test_the_doctor_warns_when_much_would_be_lost_with_the_database(trial: Trial) -> None:
    learn(trial.project.store, "Fact 1", "Fact 2")

    def says() -> list[tuple[bool, str, str]]:
        return [(one.is_fine, one.says, one.mend) for one in diagnose(trial.root) if one.about == "backups"]

    young = says()
    trial.project.store.scope.update_where("memory", "created_at = :at", "1 = 1", at=at(9 * DAY))
    old = says()
    make_backup(str(trial.root / ".ralph/ralph.db"), "by hand")
    saved = says()

    assert young == [(True, "none yet; make one with: ralph backup", "")]
    assert old == [
        (
            False,
            "none is intact; 2 memories and 0 attempts are not backed up, the oldest for more than 7 days",
            "ralph backup",
        )
    ]
    assert saved[0][0]


def test_a_file_that_cannot_be_read_for_a_moment_stops_nothing(trial: Trial) -> None:
    path = trial.root / ".ralph/ralph.db"
    aside = path.with_name("aside")
    trial.project.store.database.query("PRAGMA wal_checkpoint(TRUNCATE)")
    path.rename(aside)
    warned: list[str] = []
    stopped: list[bool] = []
    keeping = DatabaseMonitor(trial.project.store, warned.append, lambda: stopped.append(True))

    first = keeping._check()
    aside.rename(path)
    second = keeping._check()

    assert (first, second) == (health.RETRY_CHECK_SECONDS, health.CHECK_INTERVAL_SECONDS)
    assert (warned, stopped) == ([], [])


def test_a_database_that_a_newer_ralph_has_taken_over_is_not_called_damaged(trial: Trial) -> None:
    trial.project.store.database.query("PRAGMA user_version = 99")

    warned: list[str] = []
    stopped: list[bool] = []
    DatabaseMonitor(trial.project.store, warned.append, lambda: stopped.append(True))._check()

    assert stopped == [True]
    assert "written by a newer Ralph" in warned[0]
    assert "damaged" not in warned[0]
    assert "restore" not in warned[0]
