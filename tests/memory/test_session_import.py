"""Sessions that go on after they were imported: their last exchange is completed, never doubled and never lost."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ralph.core.consent import record_session_consent
from ralph.core.records import EpisodeKind, now
from ralph.memory.capture import session_import
from ralph.memory.capture.history import HistoryImport
from ralph.project import Project
from ralph.store.episodes import EpisodeFilter
from ralph.store.maintenance.check import check_store
from tests.memory.test_episodes import home, write_session

__all__ = ["home"]

QUESTION = ("user", "How many times should the webhook worker deliver before it gives up?")
ANSWER = ("assistant", "Typical values are five or ten deliveries; the worker does ten now.")
LONG = ("assistant", "Delivered. " + "The tests of the worker and of its queue pass as well. " * 4)


@pytest.fixture
def agreed(project: Project) -> Project:
    """Give a project whose past sessions may be read."""
    record_session_consent(True)
    return project


def texts(project: Project, session: str = "s1") -> list[str]:
    return [one.text for one in project.store.episodes.of_source(EpisodeKind.SESSION, session)]


def test_what_a_short_exchange_decides_is_kept_with_the_question(agreed: Project, home: Path) -> None:
    write_session(
        home, agreed.directory, "s1", QUESTION, ANSWER, ("user", "Right, leave it at seven"), ("assistant", "Done.")
    )
    agreed.episodes.import_sessions(["claude"])

    (text,) = texts(agreed)
    assert text.endswith("the worker does ten now.\nPerson: Right, leave it at seven\nAgent: Done.")
    assert [one.episode.text for one in agreed.episodes.search("webhook worker deliver", 5)] == [text]


def test_each_way_to_import_a_session_gives_the_same_passages(agreed: Project, home: Path) -> None:
    talk = [
        *(QUESTION, ANSWER, ("user", "Right, leave it at seven"), ("assistant", "Done.")),
        *(("user", "Now log each delivery"), LONG, ("user", "thanks"), ("assistant", "Welcome."), ("user", "bye")),
        *(("assistant", "Bye."), ("user", "Which queue is it?"), ("assistant", "RabbitMQ"), ("user", "ok")),
        *(("assistant", "Fine."), ("user", "Port?"), ("assistant", "8080.")),
    ]
    write_session(home, agreed.directory, "whole", *talk)
    for n, turn in enumerate(talk):
        path = write_session(home, agreed.directory, "steps", turn, start=n)
        # As Claude Code calls hooks: after a prompt, while it works, and when it has answered.
        agreed.episodes.capture_session("claude", "steps", str(path))
    agreed.episodes.import_sessions(["claude"])

    assert texts(agreed, "steps") == texts(agreed, "whole")
    positions = [one.position for one in agreed.store.episodes.of_source(EpisodeKind.SESSION, "steps")]
    assert positions == list(range(3))
    assert check_store(agreed.store, deep=True).problems == ()


@pytest.mark.parametrize("question", ["On which port does the service listen?", "Port?"])
def test_a_short_answer_that_comes_after_an_import_is_kept(agreed: Project, home: Path, question: str) -> None:
    write_session(home, agreed.directory, "s1", ("user", question))
    agreed.episodes.import_sessions(["claude"])
    write_session(home, agreed.directory, "s1", ("assistant", "8080, that is all."), start=1)
    (summary,) = agreed.episodes.import_sessions(["claude"])

    assert summary.added == 1
    assert texts(agreed) == [f"{question}\nAgent: 8080, that is all."]
    assert len(agreed.episodes.search("8080", 5)) == 1


def fork(home: Path, cwd: str, *turns: tuple[str, str]) -> None:
    """Copy the session s1 as a fork does, and let the copy go on."""
    (path,) = (home / ".claude").rglob("s1.jsonl")
    copy = path.with_name("fork.jsonl")
    copy.write_text(path.read_text())
    write_session(home, cwd, "fork", *turns, start=20)


def test_a_fork_that_decides_otherwise_is_kept_beside_the_original(agreed: Project, home: Path) -> None:
    path = write_session(home, agreed.directory, "s1", QUESTION, ANSWER)
    fork(home, agreed.directory, ("user", "No, make it nine"), ("assistant", "Done."))
    write_session(home, agreed.directory, "s1", ("user", "Leave it at seven"), ("assistant", "Done."), start=2)
    agreed.episodes.import_sessions(["claude"])
    write_session(home, agreed.directory, "s1", ("user", "Why does it retry at all?"), LONG, start=4)
    agreed.episodes.capture_session("claude", "s1", str(path))
    (again,) = agreed.episodes.import_sessions(["claude"], again=True)

    assert again.added == 0
    assert [text.splitlines()[-2] for text in texts(agreed)[:1]] == ["Person: Leave it at seven"]
    assert [text.splitlines()[-2] for text in texts(agreed, "fork")] == ["Person: No, make it nine"]


def test_what_a_fork_decided_stays_when_the_original_goes_on(agreed: Project, home: Path) -> None:
    write_session(home, agreed.directory, "s1", QUESTION, ANSWER)
    agreed.episodes.import_sessions(["claude"])
    fork(home, agreed.directory, ("user", "No, make it nine"), ("assistant", "Done."))
    agreed.episodes.import_sessions(["claude"])
    write_session(home, agreed.directory, "s1", ("user", "Why does it retry at all?"), LONG, start=2)
    agreed.episodes.import_sessions(["claude"])

    assert sum("make it nine" in text for text in [*texts(agreed), *texts(agreed, "fork")]) == 1
    assert sum("webhook worker deliver" in text for text in [*texts(agreed), *texts(agreed, "fork")]) == 1


def test_what_was_forgotten_of_a_fork_stays_away(agreed: Project, home: Path) -> None:
    write_session(home, agreed.directory, "s1", QUESTION, ANSWER, ("user", "Leave it at 7"), ("assistant", "Done."))
    agreed.episodes.import_sessions(["claude"])
    (home / ".claude/projects").rename(home / "away")
    write_session(home, agreed.directory, "fork", QUESTION, ANSWER, ("user", "No, nine"), ("assistant", "Done."))
    (path,) = (home / ".claude").rglob("fork.jsonl")
    path.write_text(path.read_text().replace('"fork-0"', '"s1-0"'))
    agreed.episodes.import_sessions(["claude"])
    assert len(texts(agreed, "fork")) == 1

    agreed.episodes.forget(EpisodeFilter(matching="No, nine"))
    path.write_text('{"type":"summary","summary":"x"}\n' + path.read_text())
    agreed.episodes.import_sessions(["claude"])
    assert texts(agreed, "fork") == []
    agreed.episodes.import_sessions(["claude"], again=True)
    assert len(texts(agreed, "fork")) == 1


def test_a_dry_run_counts_what_would_come_in_once(agreed: Project, home: Path) -> None:
    write_session(home, agreed.directory, "s1", QUESTION, ANSWER, ("user", "And which queue is it?"), LONG)
    fork(home, agreed.directory)

    (dry,) = agreed.episodes.import_sessions(["claude"], dry_run=True)
    (wet,) = agreed.episodes.import_sessions(["claude"])
    (again,) = agreed.episodes.import_sessions(["claude"], dry_run=True, again=True)

    assert (dry.added, dry.known) == (wet.added, wet.known) == (2, 2)
    assert (again.added, again.known) == (0, 4)


# --- more than a hook can read ----------------------------------------------------------


def grow(home: Path, cwd: str, size: int) -> None:
    """Append tool output to the session s1, which nothing is kept of."""
    (path,) = (home / ".claude").rglob("s1.jsonl")
    result = {"type": "tool_result", "tool_use_id": "t", "content": "z" * 2_000, "is_error": False}
    message = {"role": "user", "content": [result]}
    line = {"type": "user", "uuid": "t", "sessionId": "s1", "cwd": cwd, "message": message}
    with path.open("a") as file:
        file.write((json.dumps(line, separators=(",", ":")) + "\n") * (size // 2_000))


def test_a_turn_that_is_too_large_for_a_hook_does_not_end_the_capture(
    agreed: Project, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_import, "MAX_CAPTURED_BYTES", 100_000)
    path = str(write_session(home, agreed.directory, "s1", QUESTION, ANSWER))
    agreed.episodes.capture_session("claude", "s1", path)
    write_session(home, agreed.directory, "s1", ("user", "How long are logs retained? Read all of them."), start=2)
    grow(home, agreed.directory, 300_000)
    write_session(home, agreed.directory, "s1", ("assistant", "DECIDED: logs are retained for 40 days."), start=3)
    agreed.episodes.capture_session("claude", "s1", path)
    assert [text[:8] for text in texts(agreed)] == ["How many", "DECIDED:"]
    assert HistoryImport(agreed.store, agreed.directory).skipped() == 1

    write_session(home, agreed.directory, "s1", ("user", "And the metrics?"), ("assistant", "A whole year."), start=4)
    agreed.episodes.capture_session("claude", "s1", path)
    assert agreed.episodes.capture_session("claude", "s1", path) == 0
    assert [text[:8] for text in texts(agreed)] == ["How many", "DECIDED:", "And the "]

    agreed.episodes.import_sessions(["claude"])
    assert [text[:12] for text in texts(agreed)] == ["How many tim", "How long are", "And the metr"]
    assert "DECIDED: logs" in texts(agreed)[1]
    assert HistoryImport(agreed.store, agreed.directory).skipped() == 0
    assert agreed.episodes.import_sessions(["claude"])[0].unchanged == 1


# --- times ------------------------------------------------------------------------------


def test_passages_before_a_date_are_left_out_whenever_the_file_was_written(agreed: Project, home: Path) -> None:
    path = write_session(home, agreed.directory, "s1", QUESTION, ANSWER, ("user", "And which queue is it?"), LONG)
    path.write_text(path.read_text().replace("2026-11-01T", "2026-03-01T", 2))

    (summary,) = agreed.episodes.import_sessions(["claude"], since="2026-06-01")
    assert (summary.read, summary.added) == (1, 1)
    assert dict(summary.left_out) == {"said before 2026-06-01": 1}
    os.utime(path, (0, 0))
    (summary,) = agreed.episodes.import_sessions(["claude"], since="2026-06-01")
    assert dict(summary.left_out) == {"sessions last used before 2026-06-01": 1}

    assert agreed.episodes.import_sessions(["claude"])[0].added == 1
    assert [text[:5] for text in texts(agreed)] == ["How m", "And w"]


def test_a_clock_that_is_ahead_counts_as_the_time_of_the_import(agreed: Project, home: Path) -> None:
    path = write_session(home, agreed.directory, "s1", QUESTION, ANSWER)
    path.write_text(path.read_text().replace("2026-11-01T", "2099-11-01T"))
    agreed.episodes.import_sessions(["claude"])

    (found,) = agreed.episodes.search("", 5)
    assert found.episode.at <= now()


# --- what is left out -------------------------------------------------------------------


def test_exchanges_and_rests_of_turns_that_are_left_out_are_counted(agreed: Project, home: Path) -> None:
    write_session(home, agreed.directory, "s1", ("user", "Admin port?"), ("assistant", "8443"))
    plan = f"Here is the plan: {'word ' * 20_000} and the decision is seven"
    write_session(home, agreed.directory, "s2", ("user", plan), ("assistant", "Fine, understood the plan."))

    (summary,) = agreed.episodes.import_sessions(["claude"])

    assert dict(summary.left_out) == {
        "exchanges under 20 characters": 1,
        "the rest of turns above 64,000 characters": 1,
    }
