"""Past work on the command line: searched, explained, and read as transcripts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ralph.core.config import TOML_NAME
from ralph.core.records import AttemptOutcome, Episode, EpisodeKind, Speaker, now, replace
from ralph.project import Project
from tests.cli.ran import Ralph, run
from tests.golden import assert_golden
from tests.make import an_episode, begin, finish, set_up_project

QUESTION = "The upstream API blocks the retrier with 429. Is its window too short?"
ANSWER = "Seven attempts: the eighth trips the rate limit window of the upstream. Leave it at seven."
COMMIT = "Cap the retrier at seven attempts\n\nThe upstream counts a window of a minute."
AT = "2026-11-03T10:00:00.000Z"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    set_up_project(tmp_path)
    return tmp_path


@pytest.fixture
def ralph(here: Path, capsys: pytest.CaptureFixture[str]) -> Ralph:
    return lambda *words: run(capsys, here, *words)


def add(here: Path, *episodes: Episode) -> list[str]:
    with Project.open(here) as project:
        project.store.episodes.add(episodes)
    return [one.id for one in episodes]


def talk(source: str = "0193f2aa-1111", kind: EpisodeKind = EpisodeKind.SESSION) -> list[Episode]:
    return [
        an_episode(f"{QUESTION}\nAgent: I will look.", source=source, kind=kind, at=AT),
        an_episode(ANSWER, source=source, kind=kind, at=AT, position=1, speaker=Speaker.AGENT, files=("src/retry.py",)),
    ]


def a_commit() -> Episode:
    return an_episode(COMMIT, kind=EpisodeKind.COMMIT, source="3f1c09a" + "0" * 33, agent="A", at=AT)


def others() -> list[Episode]:
    return [an_episode(f"Talk number {n} about the parser and its tabs", source=f"other-{n}", at=AT) for n in range(20)]


def a_task(here: Path, title: str) -> str:
    with Project.open(here) as project:
        return project.tasks.add(title).id


# --- search ---------------------------------------------------------------------------


def test_passages_are_listed_with_date_origin_and_the_sentence_that_matches(here: Path, ralph: Ralph) -> None:
    asked, answered, commit, *_ = add(here, *talk(), a_commit(), *others())

    found = ralph("memory", "search", "--episodes", "eighth", "retrier", "window", "upstream")

    assert found.code == 0
    lines = found.out.splitlines()
    assert {asked, answered, commit} <= set(found.out.split())
    assert any("session of 2026-11-03 with Claude Code" in line for line in lines)
    assert any("commit 3f1c09a of 2026-11-03" in line for line in lines)
    assert any("the eighth trips the rate limit window" in line for line in lines)
    assert "parser" not in found.out


def test_passages_are_narrowed_by_kind_and_time(here: Path, ralph: Ralph) -> None:
    *_, commit = add(here, *talk(), a_commit())

    by_kind = ralph("memory", "search", "--episodes", "retrier", "--kind", "commit", "--format", "json").json
    before = ralph("memory", "search", "--episodes", "retrier", "--before", "2026-11-01", "--format", "json").json

    assert [one["id"] for one in by_kind] == [commit]
    assert before == []


def test_scores_of_passages_are_explained(here: Path, ralph: Ralph) -> None:
    add(here, *talk(), a_commit(), *others())

    out = ralph("memory", "search", "--episodes", "retrier", "window", "--explain").out
    told = ralph("memory", "search", "--episodes", "retrier", "window", "--format", "json").json

    assert "words 1.00" in out
    assert "contains query words" in out
    assert told[0]["rank"] == 1
    assert told[0]["because"]["words"] > 0
    assert told[0]["from"].startswith(("session of 2026-11-03", "commit 3f1c09a"))
    assert told[0]["shown"] is None


def test_passages_are_printed_quoted_as_markdown(here: Path, ralph: Ralph) -> None:
    add(here, *talk())

    out = ralph("memory", "search", "--episodes", "retrier", "--format", "markdown").out

    assert "### Session of 2026-11-03 with Claude Code" in out
    assert f"> Person: {QUESTION}" in out


def test_without_words_the_newest_passages_are_listed(here: Path, ralph: Ralph) -> None:
    add(here, *others())

    out = ralph("memory", "search", "--episodes").out

    assert out.count("ep-") == 10
    assert "newest 10" in out
    assert ralph("memory", "search", "--episodes", "--all").out.count("ep-") == 20


def test_it_is_said_when_nothing_matches_or_nothing_is_there(here: Path, ralph: Ralph) -> None:
    assert "ralph import" in ralph("memory", "search", "--episodes", "retrier").out
    add(here, *others())
    nothing = ralph("memory", "search", "--episodes", "kangaroo")
    assert (nothing.code, "ep-" in nothing.out, "ralph import" in nothing.out) == (0, False, False)


@pytest.mark.parametrize(
    "words",
    [("--kind", "commit"), ("--episodes", "--type", "fix"), ("--episodes", "--source", "explicit")],
    ids=["kind alone", "type", "source"],
)
def test_options_of_memories_and_passages_are_not_mixed(ralph: Ralph, words: tuple[str, ...]) -> None:
    refused = ralph("memory", "search", "retrier", *words)

    assert (refused.code, refused.error) == (2, "invalid-usage")


def test_hostile_passages_cannot_steer_the_terminal(here: Path, ralph: Ralph) -> None:
    (id,) = add(here, an_episode("retrier \x1b]0;owned\x07 \x1b[2J window\rnothing", agent="x\x1b[31m", source="h"))

    outputs = [
        ralph("memory", "search", "--episodes", "retrier").out,
        ralph("memory", "show", id).out,
        ralph("memory", "why", id).out,
        ralph("journal", "show", "session/h", "--transcript").out,
    ]

    assert not any(c in out for out in outputs for c in "\x1b\x07\r")


# --- show and why -----------------------------------------------------------------------


def test_a_passage_is_shown_in_full_with_where_it_is_from(here: Path, ralph: Ralph) -> None:
    _, answered = add(here, *talk())

    shown = ralph("memory", "show", answered).out

    assert "session of 2026-11-03 with Claude Code" in shown
    assert "0193f2aa-1111" in shown
    assert "src/retry.py" in shown
    assert f"Agent:\n    {ANSWER}" in shown
    assert ralph("memory", "show", answered, "--format", "json").json["text"] == ANSWER
    assert ralph("memory", "show", "ep-0000").error == "episode-not-found"


def test_a_quoted_passage_is_explained_by_its_rank(here: Path, ralph: Ralph) -> None:
    _, answered, *_ = add(here, *talk(), *others())
    task = a_task(here, "The eighth attempt of the retrier trips the rate limit window of the upstream")

    told = ralph("memory", "why", answered, "--task", task, "--format", "json").json
    out = ralph("memory", "why", answered, "--task", task, "--explain").out
    prompt = ralph("prompt", task, "--format", "json").json

    assert (told["rank"], told["is_shown"], told["reason"]) == (1, True, "")
    assert told["because"]["words"] > 0
    assert f"rank 1 of {told['ranked']}" in out
    assert answered in prompt["episodes"]


def test_the_reason_why_a_passage_is_not_quoted_is_said(here: Path, ralph: Ralph) -> None:
    asked, answered, *rest = add(here, *talk(), *others())
    task = a_task(here, "The eighth attempt of the retrier trips the rate limit window of the upstream")

    def reason(id: str, task: str = task) -> str:
        told = ralph("memory", "why", id, "--task", task, "--format", "json").json
        assert told["is_shown"] is False
        return str(told["reason"])

    assert "no distinctive word" in reason(rest[0])
    one_word = a_task(here, "Bake a retrier cake")
    assert "only retrier in common" in reason(asked, one_word)
    (here / TOML_NAME).write_text("[episodes]\nbudget = 100\n")
    assert "no room" in reason(asked)
    left_out = ralph("prompt", task).out.split("tokens ─")[1]
    assert f"{asked}, session of 2026-11-03 with Claude Code: no room" in left_out
    (here / TOML_NAME).write_text("[episodes]\nbudget = 0\n")
    assert "episodes.budget = 0" in reason(answered)


def test_a_search_for_a_task_says_what_its_prompt_quotes(here: Path, ralph: Ralph) -> None:
    asked, answered, *_ = add(here, *talk(), *others())
    task = a_task(here, "The eighth attempt of the retrier trips the rate limit window of the upstream")

    found = ralph("memory", "search", "--episodes", "--task", task, "--format", "json").json

    assert {one["id"]: one["shown"] for one in found} == {asked: True, answered: True}


def test_attempts_that_were_shown_a_passage_are_listed(here: Path, ralph: Ralph) -> None:
    (id,) = add(here, a_commit())
    assert "No prompt of a task has included it yet" in ralph("memory", "why", id).out
    with Project.open(here) as project:
        task_id = project.tasks.add("Raise the cap").id
        run_id = project.store.runs.start("test").id
        task, attempt = begin(project.store, run_id)
        finish(project.store, task, attempt, AttemptOutcome.DONE, shown=(id,))

    assert task_id in ralph("memory", "why", id).out
    assert ralph("memory", "show", id, "--format", "json").json["shown_to"][0]["task_id"] == task_id


# --- transcripts ------------------------------------------------------------------------


def test_a_session_is_read_in_order_with_its_speakers(here: Path, ralph: Ralph) -> None:
    add(here, *reversed(talk()))

    for name in ("session/0193f2aa-1111", "session/0193f2aa", "0193f2aa-1111"):
        out = ralph("journal", "show", name, "--transcript").out
        said = [line.strip() for line in out.splitlines() if line.strip()]
        assert said[0] == "Session of 2026-11-03 with Claude Code, 2 passages"
        assert said[2:6] == ["Person:", QUESTION, "Agent:", "I will look."]
        assert said[-2:] == ["Agent:", ANSWER]
    told = ralph("journal", "show", "session/0193f2aa", "--transcript", "--format", "json").json
    assert [one["position"] for one in told] == [0, 1]


def test_an_attempt_is_read_by_its_entry(here: Path, ralph: Ralph) -> None:
    with Project.open(here) as project:
        project.tasks.add("Raise the cap")
        run_id = project.store.runs.start("test").id
        task, attempt = begin(project.store, run_id)
        finish(project.store, task, attempt, AttemptOutcome.DONE)
    entry = f"{run_id}/{attempt.iteration}"

    missing = ralph("journal", "show", entry, "--transcript")
    assert (missing.code, missing.error) == (1, "transcript-not-found")
    add(here, *talk(entry, EpisodeKind.ATTEMPT))

    assert ANSWER in ralph("journal", "show", entry, "--transcript").out
    assert ANSWER in ralph("journal", "show", str(attempt.iteration), "--transcript").out


def test_names_without_a_transcript_are_refused(here: Path, ralph: Ralph) -> None:
    add(here, *talk("aaaa-1"), *talk("aaaa-2"))

    assert ralph("journal", "show", "session/aaaa", "--transcript").error == "ambiguous-session"
    assert ralph("journal", "show", "session/bbbb", "--transcript").error == "transcript-not-found"
    assert ralph("journal", "show", "session/", "--transcript").error == "transcript-not-found"
    assert ralph("journal", "show", "run-none/1", "--transcript").code == 1
    assert ralph("journal", "show", "a/b", "--transcript").error == "invalid-entry"


# --- wording ----------------------------------------------------------------------------


@pytest.mark.sqlite
def test_wording(here: Path, ralph: Ralph) -> None:
    recent = [replace(one, at=now()) for one in (*talk(), a_commit())]
    said = [ralph("memory", "search", "--episodes", "retrier").out]
    asked, answered, commit, *_ = add(here, *recent, *others())
    ralph("task", "add", "The eighth attempt of the retrier trips the window of the upstream", "--id", "t-retry")
    for words in (
        ("memory", "search", "--episodes", "eighth", "retrier", "window"),
        ("memory", "search", "--episodes", "eighth", "retrier", "window", "--explain", "--task", "t-retry"),
        ("memory", "search", "--episodes", "kangaroo"),
        ("memory", "show", answered),
        ("memory", "show", commit),
        ("memory", "why", asked),
        ("memory", "why", answered, "--task", "t-retry"),
        ("journal", "show", "session/0193f2aa", "--transcript"),
        ("journal", "show", "session/0193f2aa-2", "--transcript"),
    ):
        ran = ralph(*words)
        said.append(f"$ ralph {' '.join(words)}\n{ran.out}{ran.err}")

    told = re.sub(r"\d{4}-\d\d-\d\d(?: \d\d:\d\d)?", "DATE", "\n".join(said))
    assert_golden("cli_episodes.txt", re.sub(r"█+ *", "███  ", re.sub(r"\b\d\.\d\d\b", "0.00", told)))
