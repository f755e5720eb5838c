"""`kill -9` while a database of an older version is brought up to date: it is wholly old or wholly new.

A backup of the old one is made first, and whoever opens it next brings it up to date.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
from contextlib import closing
from functools import partial
from pathlib import Path

import apsw

from ralph.store import open_store
from ralph.store.database import SCHEMA_VERSION
from ralph.store.maintenance import backup
from ralph.store.maintenance.check import check_database
from tests.faults.traced import NAMES, Child, can_trace
from tests.faults.trial import Shown, Trial
from tests.make import damaged_rows
from tests.store.make import an_old_database, found_by

MEMORIES = 12
CALLS = (("pwrite64",), ("fdatasync",), ("fsync",), ("write",), ("ftruncate",), NAMES)
LONGEST_SECONDS = 0.3


def run(folder: Path, size: int, seed: int) -> Shown:
    """End so many migrations, at each system call that writes in turn, or at any moment."""
    chance = random.Random(seed)
    places = [(version, calls) for calls in CALLS for version in range(1, SCHEMA_VERSION)]
    chance.shuffle(places)
    lost: list[str] = []
    killed = new = place = tries = 0
    number = 1
    while killed < size and tries < 3 * size + 20:
        tries += 1
        version, calls = places[place % len(places)]
        path = _old(folder, version)
        child = Child(partial(_migrate, path))
        if can_trace():
            child.trace(calls, f"signal=KILL:when={number}")
            child.start()
        else:
            child.start()
            child.await_lines(1)
            child.kill()
        status, lines = child.ended()
        is_killed = os.WIFSIGNALED(status)
        killed += is_killed
        new += is_killed and _look(path, version, bool(lines), lost)
        number, place = (number + chance.randint(1, 1 + number // 2), place) if is_killed else (1, place + 1)
    for problem in lost[:10]:
        print(f"lost: {problem}", file=sys.stderr)
    return Shown(
        load=f"{killed:,} migrations from {SCHEMA_VERSION - 1} older versions",
        tried=killed,
        lost=len(lost),
        says=f"{killed - new:,} were as before, {new:,} up to date",
    )


def _old(folder: Path, version: int) -> Path:
    """Give a database of an older version, alone in its folder."""
    made = folder / f"version-{version}.db"
    if not made.exists():
        an_old_database(made, version, MEMORIES)
    home = folder / "home"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    return Path(shutil.copy(made, home / "ralph.db"))


def _migrate(path: Path, tells: int) -> None:
    """Bring a database up to date by opening it, and tell when that is done."""
    store = open_store(str(path))
    os.write(tells, b"done\n")
    store.close()


def _look(path: Path, version: int, is_told: bool, lost: list[str]) -> bool:
    """Note what is not as it should be after a kill, and say whether the database is new."""
    with closing(apsw.Connection(str(path))) as connection:
        found = connection.pragma("user_version")
    if found not in (version, SCHEMA_VERSION) or (is_told and found == version):
        lost.append(f"version {version} became {found}")
    lost += check_database(str(path), deep=True).problems
    before = backup.readable_backups(str(path))
    if found == SCHEMA_VERSION and [one.schema for one in before] != [version]:
        lost.append(f"version {version} has no backup")
    lost += [problem for one in before for problem in check_database(one.path).problems]
    with closing(open_store(str(path))) as store:
        if (
            store.memories.stats.count() != MEMORIES
            or damaged_rows(store)
            or found_by(store, "Title 7", 1) != ["Title 7"]
        ):
            lost.append(f"version {version} was not brought up to date")
    lost += check_database(str(path), deep=True).problems
    made = backup.readable_backups(str(path))
    if not made or any((one.schema, one.memories) != (version, MEMORIES) for one in made):
        lost.append(f"version {version} has another backup")
    return bool(found == SCHEMA_VERSION)


TRIALS = (Trial(name="migration", test="migration interrupted", allowed="0 half made, 0 lost", size=100, run=run),)
