"""Pages of past work: search, a passage, and the transcripts of attempts and sessions."""

from __future__ import annotations

from typing import Any

import pytest

from ralph.core.records import AgentSession, AttemptOutcome, Episode, EpisodeKind, Speaker, now
from ralph.web.pages.episodes import MAX_PASSAGES
from tests.make import an_episode, begin, finish
from tests.web.asking import Served
from tests.web.test_pages_work import HTML, see

AT = "2026-11-03T10:00:00.000Z"
ASKED = "Does the retrier trip the rate limit of the upstream?"
ANSWER = "Seven attempts: the eighth trips the rate limit window."


def talk(source: str, kind: EpisodeKind = EpisodeKind.SESSION) -> list[Episode]:
    failed = "Failed command: pytest -x\nE assert 7 == 8"
    return [
        an_episode(f"{ASKED}\nAgent: I run the tests.\n{failed}", source=source, kind=kind, at=AT),
        an_episode(ANSWER, source=source, kind=kind, at=AT, position=1, speaker=Speaker.AGENT),
    ]


def an_attempt(served: Served, **fields: Any) -> str:
    project = served.project
    project.tasks.add("Raise the cap")
    run_id = project.store.runs.start("test").id
    task, attempt = begin(project.store, run_id)
    finish(project.store, task, attempt, AttemptOutcome.DONE, **fields)
    return f"{run_id}/{attempt.iteration}"


def path_of(entry: str) -> str:
    return "/runs/" + entry.replace("/", "/attempts/")


def test_past_work_is_searched_and_counted_by_kind(served: Served) -> None:
    commit = an_episode("Cap the retrier at seven", kind=EpisodeKind.COMMIT, source="3f1c09a0", at=AT)
    served.project.store.episodes.add([*talk("s1"), commit])

    newest, found, commits = (see(served, f"/episodes{query}") for query in ("", "?q=eighth+window", "?kind=commit"))

    assert sorted(newest.all("data-kind")) == ["commit", "commit", "session", "session", "session"]
    assert ANSWER in found.text
    assert "Session of 2026-11-03 with Claude Code" in found.text
    assert commit.id not in found.text
    assert commits.all("data-episode") == [commit.id]
    assert see(served, "/episodes?q=kangaroo").all("data-episode") == []
    assert "kind" in see(served, "/episodes?kind=memory", 422).text


def test_a_passage_leads_to_its_transcript(served: Served) -> None:
    asked, answered = talk("s 1/ä")
    commit = an_episode("Cap the retrier at seven", kind=EpisodeKind.COMMIT, source="3f1c09a0", files=("retry.py",))
    served.project.store.episodes.add([asked, answered, commit])
    entry = an_attempt(served, shown=(asked.id,))

    page = see(served, f"/episodes/{asked.id}")

    assert ASKED in page.text
    assert f"/sessions/s%201%2F%C3%A4#{asked.id}" in page.all("href")
    assert path_of(entry) in page.all("href")
    assert "retry.py" in see(served, f"/episodes/{commit.id}").text
    see(served, "/episodes/ep-none", 404)


def test_the_page_of_an_attempt_has_its_transcript(served: Served) -> None:
    (quoted,) = [an_episode("Cap the retrier at seven", kind=EpisodeKind.COMMIT, source="3f1c09a0")]
    entry = an_attempt(served, shown=("mem-1-0000", quoted.id), notes="Raised.")
    assert "No transcript is kept" in see(served, path_of(entry)).text
    served.project.store.episodes.add([*talk(entry, EpisodeKind.ATTEMPT), quoted])

    page = see(served, path_of(entry))

    assert page.all("data-speaker") == ["person", "agent", "tool", "agent"]
    assert [word for word in ("Person", "Failed command", ANSWER) if word not in page.text] == []
    assert {"/memories/mem-1-0000", f"/episodes/{quoted.id}"} <= set(page.all("href"))
    assert path_of(entry) in see(served, "/journal").all("href")
    assert "1 memory" in see(served, "/journal").text
    assert "1 passage" in see(served, "/journal").text


def test_the_page_of_a_session_has_its_transcript(served: Served) -> None:
    session = AgentSession(id="s1", agent="claude", title="Ask", prompts=1, started_at=now(), last_at=now())
    served.project.store.sessions.save(session)
    empty = see(served, "/sessions/s1")
    assert "ralph import sessions" in empty.all("data-copy")
    served.project.store.episodes.add([*talk("s1"), *talk("imported-1")])

    page, imported = see(served, "/sessions/s1"), see(served, "/sessions/imported")

    assert page.all("data-speaker") == imported.all("data-speaker") == ["person", "agent", "tool", "agent"]
    assert "Session of 2026-11-03 with Claude Code" in imported.text
    see(served, "/sessions/nobody", 404)


def test_only_the_end_of_a_long_transcript_is_on_the_page(served: Served) -> None:
    said = [an_episode(f"Said as number {n}.", source="long", position=n) for n in range(MAX_PASSAGES + 5)]
    served.project.store.episodes.add(said)

    page = see(served, "/sessions/long")

    assert len(page.all("data-speaker")) == MAX_PASSAGES
    assert "Said as number 5." in page.text
    assert "Said as number 4." not in page.text
    assert "ralph journal show session/long --transcript" in page.all("data-copy")


@pytest.mark.parametrize("kind", list(EpisodeKind))
def test_whatever_was_said_is_text(served: Served, kind: EpisodeKind) -> None:
    entry = an_attempt(served)
    source = entry if kind is EpisodeKind.ATTEMPT else HTML
    one = an_episode(HTML, source=source, kind=kind, agent=HTML, files=(HTML,), links=(HTML,), branch=HTML)
    served.project.store.episodes.add([one])
    session = AgentSession(id=HTML, agent=HTML, title=HTML, prompts=1, started_at=now(), last_at=now())
    served.project.store.sessions.save(session)

    for path in ("/episodes", f"/episodes/{one.id}", path_of(entry)):
        page = see(served, path)
        tags = [tag for tag, _ in page.tags]
        assert "img" not in tags, path
        assert not page.all("style"), path
        assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")], path
        assert not [link for link in page.all("href") if not link.startswith(("/", "#"))], path
