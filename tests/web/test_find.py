"""Finding things of every kind by a few letters: `GET /api/find`."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pytest

from ralph.core.records import EpisodeKind, Speaker, Turn
from ralph.memory.capture.passages import Origin, to_episodes
from ralph.web.pages import NAVIGATION
from tests.web.asking import Served, refused


def found(served: Served, q: str, **more: Any) -> list[dict[str, Any]]:
    status, told = served.get(f"/api/find?{urlencode({'q': q, **more})}")
    assert status == 200, told
    items: list[dict[str, Any]] = told["items"]
    return items


def titles(items: list[dict[str, Any]], kind: str) -> list[str]:
    return [one["title"] for one in items if one["kind"] == kind]


def test_without_words_all_pages_and_actions_are_offered(served: Served) -> None:
    items = found(served, " ")

    assert titles(items, "page") == [page.label for page in NAVIGATION]
    assert "Add a task" in titles(items, "action")
    assert {one["kind"] for one in items} == {"page", "action"}


def test_tasks_are_found_by_parts_of_words_in_any_order_and_by_id(served: Served) -> None:
    _, task = served.post("/api/tasks", {"title": "Accept tabs in the Parser 100%"})
    served.post("/api/tasks", {"title": "Refuse spaces"})

    assert titles(found(served, "parse TAB"), "task") == ["Accept tabs in the Parser 100%"]
    assert titles(found(served, "100%"), "task") == ["Accept tabs in the Parser 100%"]
    assert titles(found(served, "100_"), "task") == []
    (item,) = [one for one in found(served, task["id"]) if one["kind"] == "task"]
    assert item["href"] == f"/tasks/{task['id']}"


def test_memories_are_found_by_stems_by_the_beginning_of_a_word_and_by_id(served: Served) -> None:
    _, added = served.post("/api/projects/-/memories", {"content": "Rounding is half up.", "title": "Rounding"})

    for q in ("rounded", "roun", added["memory"]["id"]):
        assert titles(found(served, q), "memory") == ["Rounding"], q
    assert titles(found(served, "kubernetes"), "memory") == []


def test_passages_are_found_with_an_excerpt_around_the_match(served: Served) -> None:
    text = f"{'Something else was said first. ' * 20}The mainframe answers in EBCDIC."
    turns = [Turn(key="one", speaker=Speaker.PERSON, text=text)]
    origin = Origin(kind=EpisodeKind.SESSION, source="s-1", agent="claude", at="2026-11-03T10:00:00.000Z")
    served.project.store.episodes.add(list(to_episodes(turns, origin)))

    (item,) = [one for one in found(served, "mainframe ebcdic") if one["kind"] == "episode"]

    assert "mainframe answers in EBCDIC" in item["detail"]
    assert item["at"] == "2026-11-03T10:00:00.000Z"


def test_nothing_found_still_leads_to_the_searches(served: Served) -> None:
    items = found(served, "kubernetes & co")

    assert {one["kind"] for one in items} == {"search"}
    assert items[0]["href"] == "/memories?q=kubernetes+%26+co"


def test_each_kind_is_limited(served: Served) -> None:
    for number in range(8):
        served.post("/api/tasks", {"title": f"Paint door {number}"})

    assert len(titles(found(served, "paint"), "task")) == 5
    assert len(titles(found(served, "paint", limit=2), "task")) == 2


@pytest.mark.parametrize("asked", ["limit=0", "limit=201", f"q={'x' * 201}", "nothing=1"])
def test_wrong_values_are_refused(served: Served, asked: str) -> None:
    refused(served.get(f"/api/find?{asked}"), 422)


@pytest.mark.parametrize("q", ["%", "_", "'", '"', "\\", "%00", "*", "a" * 200, "😀 né"])
def test_odd_text_is_only_text(served: Served, q: str) -> None:
    assert titles(found(served, q), "task") == []
