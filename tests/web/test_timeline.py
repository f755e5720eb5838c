"""The timeline over HTTP: sessions, attempts and commits in the order in which they ended."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pytest

from ralph.core.records import EpisodeKind, Speaker, Turn
from ralph.memory.capture.passages import Origin, to_episodes
from tests.web.asking import Served, refused

ALL = "/api/projects/-/timeline"


def tell(served: Served, kind: EpisodeKind, source: str, at: str, *texts: str, agent: str = "claude") -> None:
    turns = [
        Turn(
            key=f"{source}-{place}",
            speaker=Speaker.AGENT if place % 2 else Speaker.PERSON,
            text=text,
            at=f"{at}T10:{place:02}:00.000Z",
        )
        for place, text in enumerate(texts)
    ]
    origin = Origin(kind=kind, source=source, agent=agent, at=f"{at}T10:00:00.000Z")
    served.project.store.episodes.add(list(to_episodes(turns, origin)))


@pytest.fixture
def told(served: Served) -> Served:
    """Return a server on a project with three pieces of past work."""
    said = ["Why is the VAT wrong?", "The bank rounds each line.", "Then do so, please.", "Done, tests pass."]
    tell(served, EpisodeKind.SESSION, "s-1", "2026-11-01", *said)
    asked = ("Read the statements in MT940, please.", "It reads all of them now.")
    tell(served, EpisodeKind.SESSION, "s-2", "2026-11-02", *asked, agent="codex")
    tell(served, EpisodeKind.COMMIT, "abc1234def", "2026-11-03", "Round each line\n\nAs the bank does.", agent="Ada")
    return served


def listed(served: Served, **query: Any) -> list[str]:
    status, answer = served.get(f"{ALL}?{urlencode(query, doseq=True)}")
    assert status == 200, answer
    return [one["last"]["source"] for one in answer["items"]]


def test_each_source_is_listed_once_last_ended_first(told: Served) -> None:
    assert listed(told) == ["abc1234def", "s-2", "s-1"]
    _, answer = told.get(ALL)
    session = answer["items"][-1]
    assert session["passages"] >= 1
    assert session["first"]["text"].startswith("Why is the VAT wrong?")
    assert session["first"]["at"] <= session["last"]["at"]


def test_filters_narrow(told: Served) -> None:
    assert listed(told, kind="session") == ["s-2", "s-1"]
    assert listed(told, kind=["session", "commit"], agent="claude") == ["s-1"]
    assert listed(told, agent="Ada") == ["abc1234def"]
    assert listed(told, q="the BANK") == ["abc1234def", "s-1"]
    assert listed(told, q="100%") == []
    assert listed(told, after="2026-11-02") == ["abc1234def", "s-2"]
    assert listed(told, before="2026-11-02") == ["s-1"]


def test_pages_follow_each_other(told: Served) -> None:
    found, cursor = [], ""
    while True:
        _, answer = told.get(f"{ALL}?{urlencode({'limit': 1, 'cursor': cursor})}")
        found += [one["last"]["source"] for one in answer["items"]]
        cursor = answer["next"]
        if not cursor:
            break

    assert found == ["abc1234def", "s-2", "s-1"]


def test_the_page_has_them_by_day_and_marks_matches(told: Served) -> None:
    page = told.ask("GET", "/timeline?q=bank").text

    assert page.index("November 3, 2026") < page.index("November 1, 2026")
    assert "November 2, 2026" not in page
    assert "<mark>bank</mark>" in page
    assert 'href="/sessions/s-1#' in page


@pytest.mark.parametrize("asked", ["kind=dream", "after=whenever", "cursor=x"])
def test_wrong_values_are_refused(told: Served, asked: str) -> None:
    refused(told.get(f"{ALL}?{asked}"), 422)
    assert told.ask("GET", f"/timeline?{asked}").status == 422
