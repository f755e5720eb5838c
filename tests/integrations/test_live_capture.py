"""What a session said is there for the next one: kept by hooks as it goes on, told where it matters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ralph.core.records import EpisodeKind, now
from ralph.integrations.doctor import diagnose
from ralph.memory.capture import session_import
from ralph.project import Project
from ralph.store.episodes import EpisodeFilter
from tests.formats.transcripts.test_opencode import START, Database, by_agent, by_user
from tests.formats.transcripts.test_opencode import said as opencode_said
from tests.integrations.test_hooks import Hooks, hooks, state
from tests.memory.test_episodes import git, write_session

__all__ = ["hooks", "state"]

TALK = (
    ("user", "Move the login from cookies to JWT, please."),
    ("assistant", "Moved to JWT. Still to do: refresh tokens; the clock skew must be 30 s."),
)


def said(hooks: Hooks, tmp_path: Path, session: str, *turns: tuple[str, str], start: int = 0) -> str:
    return str(write_session(tmp_path, str(hooks.directory), session, *turns, start=start))


def ends(hooks: Hooks, session: str, path: str, *events: str) -> None:
    for event in events or ("stop", "session-end"):
        hooks(event, session_id=session, transcript_path=path, last_assistant_message="Noted.")


def opened(hooks: Hooks) -> Project:
    return Project.open(hooks.directory)


def test_the_turns_of_a_session_are_kept_as_it_goes_on_and_once(hooks: Hooks, tmp_path: Path) -> None:
    path = said(hooks, tmp_path, "s1", *TALK)
    ends(hooks, "s1", path, "stop", "stop")
    said(hooks, tmp_path, "s1", ("user", "How long do refresh tokens live?"), ("assistant", "A week."), start=2)
    ends(hooks, "s1", path, "pre-compact", "stop", "session-end")

    with opened(hooks) as project:
        passages = project.episodes.transcript(EpisodeKind.SESSION, "s1")
    assert [one.position for one in passages] == [0, 1]
    assert "the clock skew must be 30 s" in passages[0].text
    assert passages[1].text == "How long do refresh tokens live?\nAgent: A week."


def test_the_next_session_is_told_where_the_last_one_on_the_branch_stopped(hooks: Hooks, tmp_path: Path) -> None:
    ends(hooks, "s1", said_now(hooks, tmp_path, "s1", *TALK))

    told = hooks("session-start", session_id="s2", source="startup").told

    assert "Where the last session on this branch stopped" in told
    assert "> Agent: Moved to JWT. Still to do: refresh tokens; the clock skew must be 30 s." in told
    assert len(told) <= 8_000
    git(str(hooks.directory), "checkout", "-q", "-b", "topic")
    assert "last session" not in hooks("session-start", session_id="s3", source="startup").told


def said_now(hooks: Hooks, tmp_path: Path, session: str, *turns: tuple[str, str]) -> str:
    """Write the transcript of a session of this moment, on the branch main."""
    git(str(hooks.directory), "init", "-q", "-b", "main")
    lines = Path(said(hooks, tmp_path, session, *turns)).read_text().splitlines()
    talk = [{**json.loads(line), "timestamp": now()} for line in lines]
    path = tmp_path / ".claude" / "now.jsonl"
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in talk))
    return str(path)


def test_thanks_at_the_end_do_not_hide_what_is_left_to_do(hooks: Hooks, tmp_path: Path) -> None:
    thanks = (("user", "Thanks, that is all for today."), ("assistant", "You are welcome."))
    ends(hooks, "s1", said_now(hooks, tmp_path, "s1", *TALK, *thanks))

    told = hooks("session-start", session_id="s2", source="startup").told

    assert told.index("Still to do: refresh tokens") < told.index("You are welcome.")
    assert told.count("### Session of") == 1


def test_a_memory_that_a_session_stated_is_not_told_twice_nor_after_it_was_deleted(
    hooks: Hooks, tmp_path: Path
) -> None:
    stated = "Done with the port.\nMEMORY:fix:Port 5433 is taken by the test database."
    path = said_now(hooks, tmp_path, "s1", ("user", "Which port is free?"), ("assistant", stated))
    hooks("stop", session_id="s1", transcript_path=path, last_assistant_message=stated)

    told = hooks("session-start", session_id="s2", source="startup").told
    with opened(hooks) as project:
        project.memory.delete(hooks.memories()[0].id)
    later = hooks("session-start", session_id="s3", source="startup").told

    assert told.count("Port 5433 is taken") == 1
    assert "Done with the port." in later
    assert "Port 5433 is taken" not in later


def test_a_question_about_an_old_session_brings_its_answer_once(hooks: Hooks, tmp_path: Path) -> None:
    ends(hooks, "s1", said(hooks, tmp_path, "s1", *TALK))
    question = "How large may the clock skew of the JWT login be?"

    told = hooks("user-prompt-submit", session_id="s2", prompt=question).told
    again = hooks("user-prompt-submit", session_id="s2", prompt=question).told

    assert "Past work related to this prompt" in told
    assert "### Session of 2026-11-01 with Claude Code" in told
    assert "the clock skew must be 30 s" in told
    assert again == ""
    assert hooks("user-prompt-submit", session_id="s3", prompt="yes, go on").told == ""


def test_a_decision_is_quoted_though_the_session_ended_briefly(hooks: Hooks, tmp_path: Path) -> None:
    talk = (
        ("user", "How many times should the webhook worker deliver before it gives up?"),
        ("assistant", "Typical values are five or ten deliveries; the worker does ten now."),
        *(("user", "Right, leave it at seven"), ("assistant", "Done.")),
    )
    ends(hooks, "s1", said(hooks, tmp_path, "s1", *talk))

    told = hooks("user-prompt-submit", session_id="s2", prompt="How many times does the webhook worker deliver?").told
    with opened(hooks) as project:
        task = project.tasks.add("Check how many times the webhook worker delivers")
        prompt = project.prompts.preview(task.id).text

    assert "Right, leave it at seven" in told
    assert "Right, leave it at seven" in prompt


def test_doctor_says_that_a_hook_has_skipped_a_part_of_a_session(
    hooks: Hooks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_import, "MAX_CAPTURED_BYTES", 300)
    path = said(hooks, tmp_path, "s1", *TALK)
    with opened(hooks) as project:
        project.episodes.capture_session("claude", "s1", path)

    waits = [one.waits for one in diagnose(hooks.directory) if one.about == "history"]

    assert "to import the rest: ralph import sessions" in waits


def test_the_own_words_of_a_session_are_not_told_to_it(hooks: Hooks, tmp_path: Path) -> None:
    ends(hooks, "s1", said(hooks, tmp_path, "s1", *TALK), "stop")

    assert hooks("user-prompt-submit", session_id="s1", prompt="What is the clock skew of the JWT login?").told == ""


def test_a_session_of_opencode_is_kept_although_its_plugin_names_no_transcript(hooks: Hooks, tmp_path: Path) -> None:
    database = Database(tmp_path)
    hooks.environment |= {"HOME": str(tmp_path), "OPENCODE_DB": str(database.path)}
    question, answer = by_user(opencode_said("Which queue do we use for mails?")), by_agent(opencode_said("Rabbit."))
    database.session("ses_1", hooks.directory, question, answer)
    database.session("ses_2", tmp_path / "elsewhere", question, answer)
    for session in ("ses_1", "ses_2"):
        hooks("stop", "--agent", "opencode", session_id=session, last_assistant_message="Rabbit.")
    database.add(
        "ses_1", by_user(opencode_said("Fine, leave it")), by_agent(opencode_said("Done.")), start=START + 9_000
    )
    hooks("stop", "--agent", "opencode", session_id="ses_1", last_assistant_message="Done.")

    with opened(hooks) as project:
        found = project.store.episodes.newest(EpisodeFilter(), 5)
    assert [(one.source, one.text) for one in found] == [
        ("ses_1", "Which queue do we use for mails?\nAgent: Rabbit.\nPerson: Fine, leave it\nAgent: Done.")
    ]


def test_a_remark_of_the_person_becomes_a_memory(hooks: Hooks) -> None:
    hooks("user-prompt-submit", session_id="s1", prompt="Thanks. Remember that the clock skew must be 30 s.")
    hooks("stop", session_id="s1", last_assistant_message="Noted.")

    (memory,) = hooks.memories()
    with opened(hooks) as project:
        (session,) = project.sessions.latest(5)
    assert memory.content == "The clock skew must be 30 s"
    assert session.learned == (memory.id,)


def test_the_transcript_of_another_project_is_not_read(hooks: Hooks, tmp_path: Path) -> None:
    elsewhere = str(write_session(tmp_path, str(tmp_path / "elsewhere"), "s1", *TALK))
    ends(hooks, "s1", elsewhere)
    ends(hooks, "s2", "/etc/passwd")
    ends(hooks, "s3", str(tmp_path / "missing.jsonl"))

    with opened(hooks) as project:
        assert project.store.episodes.is_empty()


def test_nothing_is_kept_when_the_settings_say_so(hooks: Hooks, tmp_path: Path) -> None:
    (hooks.directory / ".ralph.toml").write_text("[episodes]\ncapture = false\n")
    ends(hooks, "s1", said(hooks, tmp_path, "s1", *TALK))

    with opened(hooks) as project:
        assert project.store.episodes.is_empty()


def test_what_is_quoted_to_a_session_is_not_learned_from_it(hooks: Hooks, tmp_path: Path) -> None:
    talk: tuple[Any, ...] = (
        ("user", "How do we keep the login tests from failing at night?"),
        ("assistant", "The login tests need the time zone UTC, because dates are compared as text."),
    )
    ends(hooks, "s1", said(hooks, tmp_path, "s1", *talk))
    told = hooks("user-prompt-submit", session_id="s2", prompt="Why do the login tests fail at night?").told
    assert "time zone UTC" in told

    repeated = "MEMORY:context:The login tests need the time zone UTC, because dates are compared as text."
    hooks("stop", session_id="s2", last_assistant_message=repeated)

    assert hooks.memories() == []


@pytest.mark.sqlite
def test_a_stop_with_nothing_new_loads_no_reader_and_a_prompt_without_a_match_renders_nothing(
    hooks: Hooks, tmp_path: Path
) -> None:
    path = said(hooks, tmp_path, "s1", *TALK)
    stop: dict[str, str] = {"session_id": "s1", "transcript_path": path, "last_assistant_message": "Noted."}
    reader, git_reader = "ralph.formats.transcripts.cleaning", "ralph.memory.capture.git_history"

    first, again = loaded(hooks, "stop", **stop), loaded(hooks, "stop", **stop)
    prompted = loaded(hooks, "user-prompt-submit", session_id="s2", prompt="yes, go on")

    assert reader in first
    assert not first & {git_reader, "subprocess", "typing"}
    assert not again & {reader, "datetime", "ralph.store.attempts"}
    assert not prompted & {"ralph.memory.recall.past_work", "ralph.memory.recall.prime"}


def loaded(hooks: Hooks, event: str, **fields: str) -> set[str]:
    """Call a hook; return the modules that it loads."""
    shown = hooks.raw(
        event,
        given=json.dumps({"cwd": str(hooks.directory), **fields}).encode(),
        inside={"PYTHONPROFILEIMPORTTIME": "1"},
    ).err
    return {line.rpartition("|")[2].strip() for line in shown.splitlines()}
