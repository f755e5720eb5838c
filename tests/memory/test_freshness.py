"""Memories that name files, compared with the files: real git, real store."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ralph.core.records import Memory, MemoryState, now, timestamp
from ralph.memory.freshness import MAX_READ_BYTES, StalenessCheck, check_staleness, confirm_memories, record_file_marks
from ralph.memory.lifecycle.staleness import ABSENT_MARK, FOLDER_MARK, MATCHED_MARK, UNKNOWN_MARK, parse_marks
from ralph.store import Store
from ralph.store.memories import ChangeInfo
from tests.make import a_memory, damaged_rows, remember

BY = ChangeInfo(who="t", why="t")
DAY = 86_400


@pytest.fixture
def here(tmp_path: Path) -> Path:
    directory = tmp_path / "work"
    directory.mkdir()
    return directory


def git(directory: Path, *words: str, at: float | None = None) -> None:
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    if at is not None:
        environment |= {"GIT_COMMITTER_DATE": f"{int(at)} +0000", "GIT_AUTHOR_DATE": f"{int(at)} +0000"}
    who = ("-c", "user.name=t", "-c", "user.email=t@t")
    subprocess.run(["git", *who, *words], cwd=directory, check=True, capture_output=True, env=environment)


def put(directory: Path, path: str, text: str = "") -> None:
    file = directory / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text or f"The text of {path}\nhas lines\nlike these\n", newline="")


def commit(directory: Path, at: float | None = None) -> None:
    git(directory, "add", "-A")
    git(directory, "commit", "-qm", "x", at=at)


@pytest.fixture(params=["in git", "without git"])
def project(request: pytest.FixtureRequest, here: Path) -> Path:
    """Return a folder with files."""
    for path in ("src/a.py", "src/b.py", "README.md"):
        put(here, path)
    if request.param == "in git":
        git(here, "init", "-q")
        commit(here)
    return here


def learn(store: Store, directory: Path, *files: str, title: str = "Parser", **fields: object) -> str:
    """Keep a memory that names files, as an attempt would; give its id."""
    memory = record_file_marks(a_memory(title, f"About {title}", id="", kind="fix", files=files, **fields), directory)
    return remember(store, memory).id


def an_old_one(store: Store, *files: str, days: float = 10, title: str = "Old") -> str:
    """Keep a memory without marks, written some days ago; give its id."""
    at = timestamp(time.time() - days * DAY)
    return remember(
        store, a_memory(title, f"About {title}", id="", kind="fix", files=files, created_at=at, updated_at=at)
    ).id


def stale(store: Store, id: str) -> str:
    return store.memories.get(id).stale


def today() -> str:
    return now()[:10]


# --- what a check finds ----------------------------------------------------------------------


def test_what_is_as_it_was_has_no_mark(store: Store, project: Path) -> None:
    id = learn(store, project, "src/a.py", "./README.md", "src")

    assert check_staleness(store, project) == StalenessCheck()
    assert stale(store, id) == ""


def test_a_changed_file_marks_its_memories_until_it_is_as_it_was(store: Store, project: Path) -> None:
    id = learn(store, project, "src/a.py")
    other = learn(store, project, "src/b.py", title="Other")
    before = (project / "src/a.py").read_text()
    put(project, "src/a.py", "Something else\n")

    checked = check_staleness(store, project)

    assert [(one.id, one.stale) for one in checked.marked] == [(id, f"src/a.py has changed since {today()}")]
    assert checked.cleared == ()
    assert stale(store, other) == ""
    assert check_staleness(store, project) == StalenessCheck()

    put(project, "src/a.py", before)
    checked = check_staleness(store, project)

    assert [one.id for one in checked.cleared] == [id]
    assert stale(store, id) == ""


def test_a_removed_file_is_gone(store: Store, project: Path) -> None:
    id = learn(store, project, "src/a.py")
    (project / "src/a.py").unlink()

    check_staleness(store, project)

    assert stale(store, id) == "src/a.py is gone"


def test_a_file_that_was_only_touched_or_has_other_line_ends_is_as_it_was(store: Store, project: Path) -> None:
    id = learn(store, project, "src/a.py", "src/b.py")
    os.utime(project / "src/a.py")
    put(project, "src/b.py", (project / "src/b.py").read_text().replace("\n", "\r\n"))

    assert check_staleness(store, project) == StalenessCheck()
    assert stale(store, id) == ""


def test_files_that_never_were_there_and_paths_that_lead_out_are_passed_over(store: Store, project: Path) -> None:
    (project.parent / "secret").write_text("s")
    (project / "out").symlink_to(project.parent / "secret")
    id = learn(store, project, "src/nothing.py", "../secret", "/etc/passwd", "out")

    assert parse_marks(store.memories.get(id).seen) == {"src/nothing.py": ABSENT_MARK}
    (project.parent / "secret").write_text("t")
    assert check_staleness(store, project) == StalenessCheck()

    put(project, "src/nothing.py")
    check_staleness(store, project)
    put(project, "src/nothing.py", "other")
    check_staleness(store, project)

    assert stale(store, id) == f"src/nothing.py has changed since {today()}"


def test_a_link_inside_the_project_is_followed_and_a_pipe_is_not_opened(store: Store, project: Path) -> None:
    (project / "link.py").symlink_to("src/a.py")
    os.mkfifo(project / "pipe")
    id = learn(store, project, "link.py", "pipe")

    put(project, "src/a.py", "other")
    check_staleness(store, project)

    assert stale(store, id) == f"link.py has changed since {today()}"


def test_a_folder_is_there_or_gone(store: Store, project: Path) -> None:
    id = learn(store, project, "src/")
    put(project, "src/c.py")
    assert check_staleness(store, project) == StalenessCheck()
    assert parse_marks(store.memories.get(id).seen) == {"src/": FOLDER_MARK}

    (project / "src").rename(project.parent / "elsewhere")
    check_staleness(store, project)

    assert stale(store, id) == "src/ is gone"


def test_a_pattern_is_looked_at_until_nothing_meets_it(store: Store, project: Path) -> None:
    id = learn(store, project, "src/*.py", "no/*.such")
    assert check_staleness(store, project) == StalenessCheck()
    assert parse_marks(store.memories.get(id).seen) == {"src/*.py": MATCHED_MARK, "no/*.such": ABSENT_MARK}

    (project / "src/a.py").unlink()
    (project / "src/b.py").unlink()
    check_staleness(store, project)

    assert stale(store, id) == "src/*.py matches nothing any more"


def test_a_large_file_is_known_by_its_size(store: Store, project: Path) -> None:
    put(project, "big", "x" * (MAX_READ_BYTES + 1))
    id = learn(store, project, "big")
    put(project, "big", "y" * (MAX_READ_BYTES + 1))
    assert check_staleness(store, project) == StalenessCheck()

    put(project, "big", "y" * (MAX_READ_BYTES + 2))
    check_staleness(store, project)

    assert stale(store, id) == f"big has changed since {today()}"


def test_only_memories_in_use_are_looked_at(store: Store, project: Path) -> None:
    id = learn(store, project, "src/a.py")
    store.memories.update(id, "deleted", BY, state=MemoryState.PRUNED)
    put(project, "src/a.py", "other")

    assert check_staleness(store, project) == StalenessCheck()
    assert stale(store, id) == ""


def test_a_check_of_some_paths_looks_at_the_memories_that_name_them(store: Store, project: Path) -> None:
    one = learn(store, project, "src/a.py")
    other = learn(store, project, "src/b.py", title="Other")
    put(project, "src/a.py", "other")
    put(project, "src/b.py", "other")

    checked = check_staleness(store, project, ["src/a.py", "no such"])

    assert [memory.id for memory in checked.marked] == [one]
    assert stale(store, other) == ""
    assert check_staleness(store, project, []) == StalenessCheck()


# --- what git knows ----------------------------------------------------------------------------


@pytest.fixture
def repository(here: Path) -> Path:
    """Return a repository with a commit of a month ago."""
    for path in ("src/a.py", "src/b.py"):
        put(here, path)
    (here / "src/__init__.py").write_text("")
    git(here, "init", "-q")
    commit(here, time.time() - 30 * DAY)
    return here


def test_a_committed_change_marks_and_a_commit_of_what_was_seen_does_not(store: Store, repository: Path) -> None:
    put(repository, "src/a.py", "as it is now\n")
    id = learn(store, repository, "src/a.py")
    commit(repository)
    assert check_staleness(store, repository) == StalenessCheck()

    put(repository, "src/a.py", "other\n")
    commit(repository)
    check_staleness(store, repository)

    assert stale(store, id) == f"src/a.py has changed since {today()}"


def test_a_memory_without_marks_is_stale_when_a_commit_since_touched_its_file(store: Store, repository: Path) -> None:
    old = an_old_one(store, "src/a.py")
    untouched = an_old_one(store, "src/b.py", title="Untouched")
    put(repository, "src/a.py", "other\n")
    commit(repository, time.time() - 5 * DAY)
    young = an_old_one(store, "src/a.py", days=1, title="Young")

    checked = check_staleness(store, repository)

    assert [one.id for one in checked.marked] == [old]
    assert stale(store, old) == f"src/a.py has changed since {timestamp(time.time() - 10 * DAY)[:10]}"
    assert parse_marks(store.memories.get(old).seen) == {"src/a.py": UNKNOWN_MARK}
    assert len(parse_marks(store.memories.get(young).seen)["src/a.py"]) == 40
    assert check_staleness(store, repository) == StalenessCheck()

    put(repository, "src/b.py", "other\n")
    put(repository, "src/a.py", "again another\n")
    check_staleness(store, repository)

    assert all(stale(store, id) for id in (old, untouched, young))


def test_a_memory_without_marks_whose_file_was_removed_since_is_stale_and_before_it_is_not(
    store: Store, repository: Path
) -> None:
    old = an_old_one(store, "src/a.py")
    (repository / "src/a.py").unlink()
    commit(repository, time.time() - 5 * DAY)
    young = an_old_one(store, "src/a.py", days=1, title="Young")

    check_staleness(store, repository)

    assert stale(store, old) == "src/a.py is gone"
    assert stale(store, young) == ""


def test_a_project_below_the_top_of_a_repository_has_its_own_paths(store: Store, repository: Path) -> None:
    project = repository / "src"
    one = learn(store, project, "a.py")
    old = an_old_one(store, "b.py")
    put(project, "b.py", "other\n")
    git(repository, "mv", "src/a.py", "src/z.py")
    commit(repository)

    check_staleness(store, project)

    assert stale(store, one) == "a.py is gone"
    assert stale(store, old).startswith("b.py has changed since ")


def test_a_working_copy_without_some_of_the_files_has_lost_none(store: Store, repository: Path) -> None:
    id = learn(store, repository, "src/a.py")
    git(repository, "update-index", "--skip-worktree", "src/a.py")
    (repository / "src/a.py").unlink()

    assert check_staleness(store, repository) == StalenessCheck()
    assert stale(store, id) == ""


def test_a_repository_that_changes_line_ends_changes_no_file(store: Store, repository: Path) -> None:
    git(repository, "config", "core.autocrlf", "true")
    id = learn(store, repository, "src/a.py", "src/b.py")
    for path in ("src/a.py", "src/b.py"):
        (repository / path).unlink()
    git(repository, "checkout", "--", ".")

    assert b"\r\n" in (repository / "src/a.py").read_bytes()
    assert check_staleness(store, repository) == StalenessCheck()
    assert stale(store, id) == ""


def test_no_program_of_the_repository_runs(store: Store, repository: Path, tmp_path: Path) -> None:
    learn(store, repository, "src/a.py")
    an_old_one(store, "src/b.py")
    git(repository, "config", "filter.evil.clean", f"touch {tmp_path}/ran; cat")
    git(repository, "config", "core.fsmonitor", f"touch {tmp_path}/ran; false")
    put(repository, ".gitattributes", "*.py filter=evil\n")
    put(repository, "src/a.py", "other\n")

    checked = check_staleness(store, repository)

    assert len(checked.marked) == 1
    assert not (tmp_path / "ran").exists()


# --- what is written -----------------------------------------------------------------------------


def test_marks_are_no_events_and_leave_the_checksums_right(store: Store, project: Path) -> None:
    id = learn(store, project, "src/a.py")
    events = store.memories.history.of(id)
    before = store.memories.get(id)
    put(project, "src/a.py", "other")

    check_staleness(store, project)

    assert store.memories.history.of(id) == events
    assert store.memories.get(id).updated_at == before.updated_at
    assert damaged_rows(store) == []


def test_what_somebody_changed_during_a_check_is_left_alone(store: Store, project: Path) -> None:
    id = learn(store, project, "src/a.py")
    rows = store.memories.index.file_references()
    store.memories.update(id, "edited", BY, seen="{}", updated_at="2030-01-01T00:00:00.000Z")

    store.memories.set_file_state([(rows[0], "x", "x is gone")])

    assert store.memories.get(id).stale == ""


def test_a_text_that_was_rewritten_in_a_file_is_fresh(store: Store, project: Path) -> None:
    id = learn(store, project, "src/a.py")
    put(project, "src/a.py", "other")
    check_staleness(store, project)

    store.memories.update(id, "edited", BY, content="About src/a.py as it is now", updated_at=now())

    assert stale(store, id) == ""
    assert check_staleness(store, project).marked == ()


def test_an_undone_edit_brings_the_doubt_back(store: Store, project: Path) -> None:
    id = learn(store, project, "src/a.py")
    put(project, "src/a.py", "other")
    check_staleness(store, project)
    confirm_memories(store, [id], project, BY, now())

    store.memories.undo(id, BY)

    assert stale(store, id).startswith("src/a.py has changed")
    assert check_staleness(store, project) == StalenessCheck()


def test_what_was_seen_elsewhere_is_not_brought_along(store: Store, project: Path) -> None:
    memory = a_memory(
        "x", "About x", kind="fix", files=("src/q.py",), seen='{"src/q.py":"1"}', stale="src/q.py is gone"
    )

    kept = store.memories.import_memories([(memory, ())], BY)

    assert (kept[0].memory.seen, kept[0].memory.stale) == ("", "")
    assert check_staleness(store, project) == StalenessCheck()


# --- confirming ------------------------------------------------------------------------------------


def test_to_confirm_takes_the_files_as_they_are_and_is_in_the_history(store: Store, project: Path) -> None:
    id = learn(store, project, "src/a.py")
    put(project, "src/a.py", "other")
    check_staleness(store, project)

    confirmed = confirm_memories(
        store, [id, "mem-0-none"], project, ChangeInfo(who="ralph", why="run-1 1"), "2030-01-01T00:00:00.000Z"
    )

    ((memory, event),) = ((one.memory, one.event) for one in confirmed)
    assert (memory.id, memory.stale, memory.verified_at) == (id, "", "2030-01-01T00:00:00.000Z")
    last = store.memories.history.of(id)[-1]
    assert last.seq == event
    assert (last.what, last.who, last.why) == ("confirmed", "ralph", "run-1 1")
    assert check_staleness(store, project) == StalenessCheck()
    assert damaged_rows(store) == []


def test_what_lost_a_file_is_confirmed_by_a_person_alone(store: Store, project: Path) -> None:
    id = learn(store, project, "src/a.py")
    (project / "src/a.py").unlink()
    check_staleness(store, project)

    assert confirm_memories(store, [id], project, BY, now()) == []
    assert stale(store, id) == "src/a.py is gone"

    assert [one.memory.id for one in confirm_memories(store, [id], project, BY, now(), include_missing_files=True)] == [
        id
    ]
    assert check_staleness(store, project) == StalenessCheck()


def test_what_is_out_of_use_is_not_confirmed(store: Store, project: Path) -> None:
    id = learn(store, project, "src/a.py")
    store.memories.update(id, "deleted", BY, state=MemoryState.PRUNED)

    assert confirm_memories(store, [id], project, BY, now()) == []


def test_one_that_is_learned_again_is_fresh(store: Store, project: Path) -> None:
    id = learn(store, project, "src/a.py", origin_run="run-1")
    put(project, "src/a.py", "other")
    check_staleness(store, project)

    again = learn(store, project, "src/a.py", origin_run="run-2")

    assert again == id
    assert stale(store, id) == ""
    assert check_staleness(store, project) == StalenessCheck()


# --- how long it takes -------------------------------------------------------------------------------


def seconds_of(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def test_many_memories_are_checked_without_reading_their_files(store: Store, here: Path) -> None:
    for n in range(600):
        put(here, f"src/m{n // 100}/f{n}.py")
    git(here, "init", "-q")
    commit(here, time.time() - 30 * DAY)
    memories = [_numbered(n) for n in range(2_000)]
    store.memories.insert_all_unchecked(memories, BY)
    check_staleness(store, here)
    os.truncate(here / "src/m0/f1.py", 0)

    whole = seconds_of(lambda: check_staleness(store, here))
    part = seconds_of(lambda: check_staleness(store, here, ["src/m0/f1.py"]))

    assert {memory.stale for memory in store.memories.all()} >= {""}
    assert whole < 2  # far more than it takes, for a busy machine
    assert part < whole


def _numbered(n: int) -> Memory:
    file = f"src/m{n % 600 // 100}/f{n % 600}.py"
    return a_memory(f"Number {n}", f"Says {n}", id=f"mem-1-{n:04x}", kind="fix", files=(file, "README.md"))
