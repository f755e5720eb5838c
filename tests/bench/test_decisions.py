from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from bench.decisions.__main__ import main
from bench.decisions.data import Change, Chat, Policy, Question, Rule, Turn, read_decisions, read_rules
from bench.decisions.grading import grade
from bench.decisions.plain import PlainFullText
from bench.decisions.scratch import CommandFailed, Scratch

from ralph.memory.capture.git_history import read_commits

pytestmark = pytest.mark.storeless

AT = "2026-01-05T09:00:00Z"
CHATS = [
    {"id": "c1", "of": "all", "at": AT, "turns": [{"role": "user", "text": "Nice weather."}]},
    {
        **{"id": "c2", "of": "conversation", "at": AT},
        "turns": [{"role": "user", "text": "How often to retry?"}, {"role": "assistant", "text": "Exactly 7 times."}],
    },
]
COMMITS = [{"id": "k1", "of": "all", "at": AT, "subject": "Add retries", "body": "", "files": ["retry.py"]}]
TASKS = [
    {
        **{"id": "t1", "source": "conversation", "report": "How many times should it retry?", "marker": "exactly 7"},
        **{"policy": "retry exactly 7 times", "superseded": ["c1"]},
    }
]
DIALOGUES = [
    {
        **{"id": "d1", "asks": ["sort function"], "now": AT},
        "sessions": [{"id": "s0", "at": AT, "text": "Ana: End variable names with '_n'.\n\nBen: Sure.\n\nAna: Bye."}],
        "rules": [{"current": "always end variable names with '_n'", "superseded": []}],
    }
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BENCH_DATA", str(tmp_path))
    write(tmp_path / "decisions" / "chats.jsonl.gz", CHATS)
    write(tmp_path / "decisions" / "commits.jsonl.gz", COMMITS)
    write(tmp_path / "decisions" / "tasks.jsonl.gz", TASKS)
    write(tmp_path / "rules" / "dialogues.jsonl.gz", DIALOGUES)
    return tmp_path


def write(file: Path, rows: list[dict[str, Any]]) -> None:
    file.parent.mkdir(exist_ok=True)
    with gzip.open(file, "wt", encoding="utf-8") as lines:
        lines.writelines(json.dumps(row) + "\n" for row in rows)


def about(expected: Policy | list[Rule]) -> Question:
    return Question("t1", "How?", "conversation", expected)


# --- data --------------------------------------------------------------------------------


def test_each_source_gets_what_belongs_to_all_and_its_own(folder: Path) -> None:
    (scene,) = read_decisions(folder / "decisions")

    assert [chat.id for chat in scene.chats] == ["c1", "c2"]
    assert scene.passages[-2:] == ["user: How often to retry?\nassistant: Exactly 7 times.", "Add retries\n\nretry.py"]
    assert scene.questions[0].expected == Policy("retry exactly 7 times", "exactly 7", ["Nice weather."])


def test_a_mentor_is_the_user_and_the_other_one_the_agent(folder: Path) -> None:
    (scene,) = read_rules(folder / "rules")

    assert [turn.role for turn in scene.chats[0].turns] == ["user", "assistant", "user"]
    assert scene.chats[0].turns[0].text == "End variable names with '_n'."
    assert scene.questions[0].ask == "Write a sort function"


# --- grading -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found", "coverage"),
    [("It attempted this exactly 7 times.", 1.0, 1.0), ("Seven attempts.", 0.0, 1 / 3), ("", 0.0, 0.0)],
)
def test_a_policy_is_found_by_its_marker(text: str, found: float, coverage: float) -> None:
    grades = grade(about(Policy("attempt it 7 times", "exactly 7", [])), text)

    assert grades["found"] == found
    assert grades["coverage"] == pytest.approx(coverage)
    assert grades["stale"] is None
    assert grades["tokens"] == len(text) / 4


def test_without_a_marker_most_of_its_words_are_enough() -> None:
    policy = Policy("union list values, base order first", "", [])

    assert grade(about(policy), "Lists are a union, in base order.")["found"] == 1.0
    assert grade(about(policy), "Lists are replaced.")["found"] == 0.0


def test_what_was_superseded_is_stale_unless_it_is_said_to_be_past() -> None:
    old = "We agreed to retry at most three times and then to give up, for all of the clients that we have."
    policy = Policy("retry exactly 7 times", "exactly 7", [old])

    assert grade(about(policy), f"Exactly 7. {old}")["stale"] == 1.0
    assert grade(about(policy), f"Exactly 7. Superseded: {old}")["stale"] == 0.0
    assert grade(about(policy), "Exactly 7.")["stale"] == 0.0


def test_what_the_new_decision_repeats_of_the_old_one_is_not_stale() -> None:
    kept = "tags are merged in the order of their sources, whatever their case"
    dropped = "and an entry with a dash removes the tag from all of them"
    policy = Policy("union in order", "union", [f"{kept}, {dropped}"], f"{kept}, but only lower ones lose a tag")

    assert grade(about(policy), f"A union: {kept}, but only lower ones lose a tag")["stale"] == 0.0
    assert grade(about(policy), f"A union: {kept}, {dropped}")["stale"] == 1.0


def test_rules_count_if_their_names_and_words_stand_together() -> None:
    rules = [
        Rule("always end variable names with '_m'", ["always end variable names with '_n'"]),
        Rule("always use annotations for functions", []),
    ]
    text = "Please end variable names with '_n'." + " " * 600 + "From now on end variable names with '_m'."

    grades = grade(about(rules), text)

    assert (grades["current"], grades["changed"], grades["stale"]) == (0.5, 1.0, 1.0)


# --- what is measured --------------------------------------------------------------------


def test_plain_full_text_fills_the_budget_with_the_best_passages() -> None:
    memory = PlainFullText(["retry seven times", "the weather", "retry " + "x" * 500])

    assert memory.recall("How often to retry?", 20) == "retry seven times\n\n"
    assert memory.recall("nothing alike", 20) == ""


def test_commits_become_a_repository_and_chats_transcripts() -> None:
    scratch = Scratch()
    change = Change("k2", AT, "Retry", "Exactly 7.", ['a "b".py', "c/d.py"])
    earlier = Change("k1", "2025-01-05T09:00:00Z", "Start", "", ["c"])
    try:
        scratch.write_commits([change, earlier])
        scratch.write_sessions([Chat("c1", AT, [Turn("user", "Why?"), Turn("assistant", "So.")])])
        newest, oldest = read_commits(scratch.root)
        (file,) = (scratch.home / ".claude" / "projects").glob("*/*.jsonl")
        prompt, reply = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    finally:
        scratch.close()

    assert (newest.text, newest.at, set(newest.files)) == (
        *("Retry\n\nExactly 7.", "2026-01-05T09:00:00.000Z"),
        {'a "b".py', "c", "c/d.py"},
    )
    assert oldest.text == "Start"
    assert (prompt["message"]["content"], reply["message"]["content"][0]["text"]) == ("Why?", "So.")
    assert prompt["cwd"] == str(scratch.root)
    assert prompt["uuid"] == reply["parentUuid"]
    assert not scratch.home.exists()


def test_a_command_that_fails_says_which() -> None:
    scratch = Scratch()
    try:
        with pytest.raises(CommandFailed, match="ralph nothing"):
            scratch.ralph("nothing")
    finally:
        scratch.close()


def test_what_is_measured_is_printed_and_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--memories", "plain full text", "--budgets", "50", "--prompts", str(folder / "out")]) == 0

    printed = capsys.readouterr().out
    assert "decisions, 50 tokens" in printed
    assert "rules, 50 tokens" in printed
    (line,) = (folder / "out" / "decisions-plain-full-text-50.jsonl").read_text().splitlines()
    assert "Exactly 7" in json.loads(line)["memory"]


@pytest.mark.parametrize("break_it", ["no folder", "no set", "bad row"])
def test_data_that_cannot_be_used_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch, break_it: str) -> None:
    if break_it == "no folder":
        monkeypatch.delenv("BENCH_DATA")
    elif break_it == "no set":
        monkeypatch.setenv("BENCH_DATA", str(folder / "decisions"))
    else:
        write(folder / "decisions" / "tasks.jsonl.gz", [{"id": "t1"}])

    assert main(["--memories", "plain full text"]) == 2
