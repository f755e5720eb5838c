"""`ralph memory pin`, `unpin`, `rules` and `conflicts`."""

from __future__ import annotations

from pathlib import Path

import pytest

from ralph.workspace import init_project
from tests.cli.ran import Ralph, run


@pytest.fixture
def ralph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Ralph:
    init_project(tmp_path)
    return lambda *words: run(capsys, tmp_path, "memory", *words)


def add(ralph: Ralph, text: str, kind: str = "convention") -> str:
    return str(ralph("add", text, "--type", kind, "--format", "quiet").out.strip())


def test_pin_and_unpin(ralph: Ralph) -> None:
    id = add(ralph, "The release is on Friday", "context")

    assert ralph("pin", id).code == 0
    assert [one["id"] for one in ralph("rules", "--format", "json").json] == [id]
    assert "The release is on Friday" in ralph("rules").out
    assert "## Standing Rules" in ralph("prime").out
    assert "## Standing Rules" not in ralph("prime", "--type", "context").out
    assert "Pinned" in ralph("show", id).out
    assert ralph("unpin", id).code == 0
    assert ralph("rules", "--format", "json").json == []
    assert ralph("pin", "mem-1-abcd").error == "memory-not-found"


def test_a_later_rule_takes_the_place_of_an_earlier_one(ralph: Ralph) -> None:
    earlier = add(ralph, "Always start function names with 'a_'")
    told = ralph("add", "From now on, start function names with 'b_'", "--type", "convention").out

    assert earlier in told
    assert ralph("show", earlier, "--format", "json").json["state"] == "superseded"
    assert ralph("conflicts", "--format", "json").json == []

    ralph("undo", earlier)
    (conflict,) = ralph("conflicts", "--format", "json").json
    assert conflict["earlier"]["id"] == earlier
    assert earlier in ralph("conflicts").out

    assert ralph("conflicts", "--keep", earlier).code == 0
    assert ralph("conflicts", "--format", "json").json == []
    assert ralph("show", earlier, "--format", "json").json["supersedes"] == [conflict["later"]["id"]]
    assert ralph("conflicts", "--keep", earlier).error == "conflict-not-found"


def test_why_says_first_that_a_memory_is_pinned(
    tmp_path: Path, ralph: Ralph, capsys: pytest.CaptureFixture[str]
) -> None:
    id = add(ralph, "The release is on Friday", "context")
    task = run(capsys, tmp_path, "task", "add", "Mend the parser", "--format", "quiet").out.strip()
    before = ralph("why", id, "--task", task).out.splitlines()
    ralph("pin", id)

    after = ralph("why", id, "--task", task)

    assert before[1].startswith(f"  Not in the next prompt of {task}: ")
    assert after.out.splitlines()[1] == "  In every prompt, because it is pinned."
    assert "Score" not in after.out
    assert ralph("why", id, "--task", task, "--explain").out.startswith(after.out)


def test_history_and_list_say_pinned_in_words(ralph: Ralph) -> None:
    pinned, other = add(ralph, "The release is on Friday", "context"), add(ralph, "Tests need docker", "context")
    ralph("pin", pinned)

    why, listed = ralph("why", pinned).out, ralph("list").out.splitlines()

    assert "pinned: none" in why
    assert "pinned_at" not in why
    assert [("(pinned)" in line, pinned in line) for line in listed[1:]].count((True, True)) == 1
    assert not [line for line in listed if other in line and "(pinned)" in line]
