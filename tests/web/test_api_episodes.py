"""Past work over HTTP: searched, counted, explained and read as transcripts."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from ralph.core.records import AttemptOutcome, Episode, EpisodeKind, Speaker
from tests.make import an_episode, begin, finish
from tests.web.asking import Served, refused

ALL = "/api/projects/-/episodes"
ANSWER = "Seven attempts: the eighth trips the rate limit window of the upstream."
AT = "2026-11-03T10:00:00.000Z"


def talk(source: str, kind: EpisodeKind = EpisodeKind.SESSION) -> list[Episode]:
    asked = an_episode("Does the retrier trip the rate limit of the upstream?", source=source, kind=kind, at=AT)
    return [asked, an_episode(ANSWER, source=source, kind=kind, at=AT, position=1, speaker=Speaker.AGENT)]


def found(served: Served, path: str) -> Any:
    status, told = served.get(path)
    assert status == 200, told
    return told["items"]


def an_attempt(served: Served) -> str:
    project = served.project
    project.tasks.add("Raise the cap")
    run_id = project.store.runs.start("test").id
    task, attempt = begin(project.store, run_id)
    finish(project.store, task, attempt, AttemptOutcome.DONE)
    return f"{run_id}/{attempt.iteration}"


def test_passages_are_found_with_score_and_origin(served: Served) -> None:
    commit = an_episode("Cap the retrier at seven", kind=EpisodeKind.COMMIT, source="3f1c09a0")
    other = an_episode("The parser wants tabs", source="s2", at=AT)
    served.project.store.episodes.add([*talk("s1"), commit, other])

    hits = found(served, f"{ALL}?q=eighth+retrier+upstream+window")

    assert hits[0]["episode"]["text"] == ANSWER
    assert hits[0]["attribution"] == "session of 2026-11-03 with Claude Code"
    assert hits[0]["because"][0]["share"] > 0
    assert other.id not in [one["episode"]["id"] for one in hits]
    assert [one["episode"]["id"] for one in found(served, f"{ALL}?q=retrier&kind=commit")] == [commit.id]
    assert len(found(served, f"{ALL}?q=retrier&kind=commit&kind=session")) >= 2
    assert [one["episode"]["source"] for one in found(served, f"{ALL}?source=s2")] == ["s2"]
    assert [one["episode"]["id"] for one in found(served, f"{ALL}?after=2026-11-04")] == [commit.id]
    assert commit.id not in [one["episode"]["id"] for one in found(served, f"{ALL}?before=2026-11-04")]
    assert len(found(served, f"{ALL}?limit=2")) == 2


def test_passages_are_counted_by_kind(served: Served) -> None:
    assert found(served, f"{ALL}/counts") == []
    served.project.store.episodes.add([*talk("s1"), *talk("s2")])

    (count,) = found(served, f"{ALL}/counts")

    assert (count["kind"], count["episodes"], count["sources"], count["newest"]) == ("session", 4, 2, AT)
    assert count["bytes"] > len(ANSWER)


def test_a_passage_is_shown_and_explained_for_a_task(served: Served) -> None:
    asked, answered = talk("s1")
    served.project.store.episodes.add([asked, answered])
    task = served.project.tasks.add("The eighth attempt trips the rate limit window of the upstream").id
    other = served.project.tasks.add("Bake a chocolate cake").id

    assert served.get(f"/api/episodes/{answered.id}")[1]["text"] == ANSWER
    why = served.get(f"/api/episodes/{answered.id}/why?task={task}")[1]
    why_not = served.get(f"/api/episodes/{answered.id}/why?task={other}")[1]

    assert (why["rank"], why["is_shown"], why["reason"]) == (1, True, "")
    assert (why_not["rank"], why_not["is_shown"]) == (None, False)
    assert why_not["reason"]
    assert answered.id in served.get(f"/api/tasks/{task}/prompt")[1]["episodes"]


def test_transcripts_are_told_in_order(served: Served) -> None:
    entry = an_attempt(served)
    run_id, _, iteration = entry.partition("/")
    where = f"/api/runs/{run_id}/attempts/{iteration}/transcript"
    refused(served.get(where), 404, "transcript-not-found")
    served.project.store.episodes.add([*reversed(talk(entry, EpisodeKind.ATTEMPT)), *talk("0193f2aa-1111")])

    for path in (where, "/api/sessions/0193f2aa-1111/transcript", "/api/sessions/0193f2aa/transcript"):
        passages = found(served, path)
        assert [(one["position"], one["speaker"]) for one in passages] == [(0, "person"), (1, "agent")]
        assert passages[1]["text"] == ANSWER


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (f"{ALL}?kind=memory", 422),
        (f"{ALL}?limit=0", 422),
        (f"{ALL}?after=soon", 422),
        (f"{ALL}?source=%00", 422),
        (f"{ALL}?task=t-none", 404),
        ("/api/projects/none/episodes", 404),
        ("/api/episodes/ep-none", 404),
        ("/api/episodes/%00", 404),
        ("/api/episodes/ep-none/why", 422),
        ("/api/episodes/ep-none/why?task=t-none", 404),
        ("/api/sessions/none/transcript", 404),
        ("/api/sessions/%00/transcript", 404),
        ("/api/sessions/s/transcript", 422),
        ("/api/runs/run-none/attempts/1/transcript", 404),
        ("/api/runs/run-none/attempts/one/transcript", 422),
    ],
)
def test_what_makes_no_sense_is_refused(served: Served, path: str, expected: int) -> None:
    served.project.store.episodes.add([*talk("s1"), *talk("s2")])

    status, problem = served.get(path)

    assert (status, problem["status"]) == (expected, expected), problem


def test_past_work_is_only_read_over_http(served: Served) -> None:
    (one, _) = talk("s1")
    served.project.store.episodes.add([one])

    for method in ("POST", "PUT", "DELETE"):
        for path in (ALL, f"/api/episodes/{quote(one.id)}"):
            assert served.ask(method, path, {}).status == 405
