"""What went wrong in hooks, and what waits to be stored: found again, whatever happened to it meanwhile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from ralph.core.records import now
from ralph.integrations import hook_errors
from ralph.integrations.hook_errors import QueuedStatement

pytestmark = pytest.mark.storeless


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "project").mkdir()
    return str(tmp_path / "project")


def own_folder(root: str) -> Path:
    """Return where the mishaps of a project are, of which there is one."""
    (found,) = (Path(os.environ["XDG_STATE_HOME"]) / "ralph" / "hooks").glob(f"*{Path(root).name}-*")
    return found


def put_by(root: str, body: str) -> bool:
    return hook_errors.queue_statements(
        root, "claude", "s-1", [QueuedStatement(kind="fix", title="", body=body, tags=("db",))]
    )


def taken(root: str) -> list[str]:
    return [said.body for entry in hook_errors.claim_queued(root) for said in entry.statements]


def test_nothing_is_wrong_and_nothing_waits_where_nothing_happened(root: str, tmp_path: Path) -> None:
    hook_errors.record_hook_success(root)

    assert hook_errors.list_hook_errors(root) == []
    assert hook_errors.last_hook_success(root) == ""
    assert hook_errors.count_queued(root) == 0
    assert not hook_errors.has_queued(root)
    assert taken(root) == []
    assert [path.name for path in tmp_path.iterdir()] == ["project"]


def test_problems_are_given_oldest_first(root: str) -> None:
    for number in range(3):
        hook_errors.record_hook_error(root, "stop", "claude", f"Problem {number}")

    noted = hook_errors.list_hook_errors(root)

    assert [one.problem for one in noted] == ["Problem 0", "Problem 1", "Problem 2"]
    assert (noted[0].event, noted[0].agent) == ("stop", "claude")


def test_that_a_hook_works_again_is_noted_after_one_has_failed(root: str) -> None:
    hook_errors.record_hook_error(root, "stop", "claude", "Problem")
    before = hook_errors.last_hook_success(root)
    hook_errors.record_hook_success(root)

    assert before == ""
    assert hook_errors.list_hook_errors(root)[-1].at <= hook_errors.last_hook_success(root) <= now()


def test_the_list_of_problems_does_not_grow_without_end(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook_errors, "MAX_ERRORS_BYTES", 8_000)
    for number in range(60):
        hook_errors.record_hook_error(root, "stop", "claude", f"Problem {number} {'x' * 300}")

    noted = hook_errors.list_hook_errors(root)

    assert noted[-1].problem.startswith("Problem 59 ")
    assert sum(path.stat().st_size for path in own_folder(root).iterdir()) < 2 * hook_errors.MAX_ERRORS_BYTES


def test_what_waits_is_taken_once_as_it_was_stated(root: str) -> None:
    said = QueuedStatement(
        kind="knowledge", title="Ports", body="The database has a port of its own.", tags=("db", "net")
    )
    assert hook_errors.queue_statements(root, "codex", "s-7", [said])
    assert put_by(root, "two")

    assert hook_errors.count_queued(root) == 2
    waiting = list(hook_errors.claim_queued(root))
    assert (waiting[0].agent, waiting[0].session, waiting[0].statements) == ("codex", "s-7", (said,))
    assert [one.body for one in waiting[1].statements] == ["two"]
    assert taken(root) == []
    assert not hook_errors.has_queued(root)


def test_what_could_not_be_stored_waits_again_beside_what_came_meanwhile(root: str) -> None:
    put_by(root, "one")
    for _ in hook_errors.claim_queued(root):
        put_by(root, "two")
        break

    assert hook_errors.count_queued(root) == 2
    assert sorted(taken(root)) == ["one", "two"]


def test_what_waits_is_never_dropped_and_who_finds_it_full_is_told(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook_errors, "MAX_QUEUE_BYTES", 1_000)
    bodies = [f"{number} {'x' * 300}" for number in range(20)]

    told = [put_by(root, body) for body in bodies]

    assert told[0]
    assert not told[-1]
    assert taken(root) == [body for body, is_put_by in zip(bodies, told, strict=True) if is_put_by]
    assert put_by(root, "after that")


def test_what_was_taken_by_one_that_died_is_found_again(root: str) -> None:
    put_by(root, "one")
    taking = (
        f"from ralph.integrations import hook_errors; import os; next(hook_errors.claim_queued({root!r})); os._exit(9)"
    )
    died = subprocess.run([sys.executable, "-c", taking], check=False)

    assert died.returncode == 9
    assert hook_errors.has_queued(root)
    assert hook_errors.count_queued(root) == 1
    assert taken(root) == ["one"]


def test_what_somebody_else_stores_is_left_to_them(root: str) -> None:
    put_by(root, "one")

    for _ in hook_errors.claim_queued(root):
        assert taken(root) == []
        assert hook_errors.count_queued(root) == 1

    assert hook_errors.count_queued(root) == 0


def test_lines_that_cannot_be_read_take_no_other_with_them(root: str) -> None:
    put_by(root, "two")
    path = own_folder(root) / hook_errors.QUEUE_FILE
    line = {"at": now(), "agent": "claude", "session": "s", "said": [{"kind": "fix", "title": "", "body": "one"}]}
    noise = b'{"at": "2026-01-01", "agent": "cla\n[1]\n{"at": 5}\n' + b"[" * 100_000 + b"\n\xff\xfe\n"
    path.write_bytes(noise + json.dumps(line).encode() + b"\n" + noise)

    assert taken(root) == ["one", "two"]
    assert not hook_errors.has_queued(root)


NO_MOMENTS = ("", "noise", "\ud800", "2026-1-1T0:0:0.0Z", "2026-13-01T00:00:00.000Z", "9999-12-31T00:00:00.000Z")


@pytest.mark.parametrize("at", NO_MOMENTS)
def test_what_waits_since_no_moment_there_is_counts_from_now(root: str, at: str) -> None:
    put_by(root, "one")
    line = {"at": at, "agent": "claude", "session": "s-1", "said": []}
    next(own_folder(root).iterdir()).write_text(json.dumps(line))

    before = now()
    (entry,) = hook_errors.claim_queued(root)

    assert before <= entry.at <= now()


def test_what_waits_can_be_stored_whatever_is_in_its_line(root: str) -> None:
    right = {"kind": "fix", "title": "T", "body": "B", "tags": ["db"]}
    wrong = {"kind": "f\0ix\n\ud800", "title": "\udfffT", "body": "B\ud800 \x1b[31mred", "tags": [5, "a\ud800", None]}
    said = [right, wrong, [right], None, {**right, "body": 5}, {**right, "tags": "db"}, {**right, "kind": ""}]
    put_by(root, "one")
    line = {"at": now(), "agent": "a\ud800", "session": "s\n\0" + "x" * 9_000, "said": said}
    next(own_folder(root).iterdir()).write_text(json.dumps(line))

    waiting = list(hook_errors.claim_queued(root))

    assert waiting[0].agent == "a"
    assert len(waiting[0].session) <= 200
    assert [(one.kind, one.title, one.body, one.tags) for one in waiting[0].statements] == [
        ("fix", "T", "B", ("db",)),
        ("fix", "T", "B red", ("a",)),
        ("fix", "T", "B", ()),
        ("context", "T", "B", ("db",)),
    ]


def test_each_project_has_a_place_of_its_own_however_it_is_come_to(root: str, tmp_path: Path) -> None:
    places = [f"{root}/a-b/c", f"{root}/a/b-c", f"{root}/{'字' * 70}/{'字' * 70}"]
    for place in places:
        Path(place).mkdir(parents=True)
        put_by(place, place)
        hook_errors.record_hook_error(place, "stop", "claude", place)
    (tmp_path / "link").symlink_to(places[0])

    assert hook_errors.count_queued(str(tmp_path / "link")) == 1
    for place in places:
        assert [noted.problem for noted in hook_errors.list_hook_errors(place)] == [place]
        assert taken(place) == [place]


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o077])
def test_what_is_written_is_for_nobody_else(root: str, tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        put_by(root, "one")
        hook_errors.record_hook_error(root, "stop", "claude", "Problem")
    finally:
        os.umask(before)

    assert hook_errors.count_queued(root) == len(hook_errors.list_hook_errors(root)) == 1
    folder = own_folder(root)
    for path in (folder.parent, folder, *folder.iterdir()):
        assert path.stat().st_mode & 0o077 == 0, path
    assert not (tmp_path / "temporary").exists()


def test_where_a_persons_state_cannot_be_kept_it_is_with_the_temporary_files(root: str, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")

    hook_errors.record_hook_error(root, "stop", "claude", "Problem")

    assert put_by(root, "one")
    assert [one.problem for one in hook_errors.list_hook_errors(root)] == ["Problem"]
    assert list((tmp_path / "temporary").glob(f"ralph-hooks-{os.getuid()}/*/{hook_errors.QUEUE_FILE}.*"))
    assert taken(root) == ["one"]


def test_nobody_can_write_anywhere_and_still_nothing_is_raised(
    root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A file where the folder should be keeps everybody out, the superuser too.
    (tmp_path / "file").write_text("")

    for place in (str(tmp_path / "file"), "no/whole/path"):
        monkeypatch.setenv("XDG_STATE_HOME", place)
        monkeypatch.setenv("TMPDIR", place)
        hook_errors.record_hook_error(root, "stop", "claude", "Problem")
        hook_errors.record_hook_success(root)

        assert not put_by(root, "one")
        assert hook_errors.list_hook_errors(root) == []
        assert hook_errors.last_hook_success(root) == ""


def open_to_all(folder: Path) -> None:
    folder.chmod(0o777)


def open_above(folder: Path) -> None:
    folder.parent.chmod(0o777)


def a_link(folder: Path) -> None:
    moved = folder.rename(folder.parent.parent / "elsewhere")
    folder.symlink_to(moved)


def a_link_above(folder: Path) -> None:
    moved = folder.parent.rename(folder.parent.parent / "elsewhere")
    folder.parent.symlink_to(moved)


@pytest.mark.parametrize("foreign", [open_to_all, open_above, a_link, a_link_above])
def test_a_folder_that_somebody_else_may_have_a_hand_in_is_neither_read_nor_written(
    root: str, tmp_path: Path, foreign: Callable[[Path], None]
) -> None:
    put_by(root, "planted")
    hook_errors.record_hook_error(root, "stop", "claude", "Planted")
    hook_errors.record_hook_success(root)
    foreign(own_folder(root))

    assert hook_errors.list_hook_errors(root) == []
    assert hook_errors.last_hook_success(root) == ""
    assert hook_errors.count_queued(root) == 0
    hook_errors.record_hook_error(root, "stop", "claude", "Problem")
    assert put_by(root, "one")
    assert taken(root) == ["one"]
    lists = (tmp_path / "state").rglob(f"{hook_errors.ERRORS_FILE}*")
    assert [path.read_text().count('"problem"') for path in lists] == [1]


def test_a_link_in_place_of_the_list_leads_nowhere(root: str, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious")
    put_by(root, "one")
    (own_folder(root) / hook_errors.ERRORS_FILE).symlink_to(precious)

    hook_errors.record_hook_error(root, "stop", "claude", "Problem")

    assert precious.read_text() == "precious"
    assert [one.problem for one in hook_errors.list_hook_errors(root)] == ["Problem"]


def test_who_puts_by_while_others_take_loses_nothing(root: str) -> None:
    found: list[str] = []

    def put_by_many(n: int) -> None:
        for m in range(50):
            put_by(root, f"{n}-{m}")

    writers = [Thread(target=put_by_many, args=(n,)) for n in range(3)]

    for one in writers:
        one.start()
    while any(one.is_alive() for one in writers):
        found += taken(root)
    found += taken(root)

    assert sorted(found) == sorted(f"{n}-{m}" for n in range(3) for m in range(50))
