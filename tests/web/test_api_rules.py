"""Standing rules over HTTP and on the pages: pin, unpin, list, and decide on contradictions."""

from __future__ import annotations

from typing import Any

from tests.make import a_memory, remember
from tests.web.asking import Served, refused

ALL = "/api/projects/-/memories"


def add(served: Served, content: str, **fields: Any) -> dict[str, Any]:
    status, told = served.post(ALL, {"content": content, **fields})
    assert status == 201, told
    added: dict[str, Any] = told
    return added


def rules(served: Served) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = served.get("/api/projects/-/rules")[1]["items"]
    return found


def test_a_pinned_memory_is_a_rule_and_primes_sessions(served: Served) -> None:
    id = add(served, "The release is on Friday")["memory"]["id"]

    status, told = served.post(f"/api/memories/{id}/pin", {"why": "everybody asks"})

    assert status == 200
    assert told["items"][0]["pinned_at"]
    assert [(one["id"], one["is_pinned"]) for one in rules(served)] == [(id, True)]
    assert "## Standing Rules" in served.get(f"{ALL}/prime")[1]["text"]
    page = served.get(f"/memories/{id}")[1]
    assert 'data-act="unpin"' in page
    assert served.post(f"/api/memories/{id}/unpin", {})[1]["pinned_at"] is None
    assert rules(served) == []
    refused(served.post("/api/memories/mem-1-abcd/pin", {}), 404, "memory-not-found")


def test_a_later_rule_says_whose_place_it_takes(served: Served) -> None:
    earlier = add(served, "Always start function names with 'a_'", type="convention")["memory"]["id"]
    later = add(served, "From now on, start function names with 'b_'", type="convention")

    assert later["superseded"] == [earlier]
    assert 'id="supersedes"' in served.get(f"/memories/{later['memory']['id']}")[1]
    assert served.get(f"/api/memories/{earlier}")[1]["superseded_by"] == later["memory"]["id"]


def test_contradictions_are_listed_and_decided(served: Served) -> None:
    kept = add(served, "Always use tabs in all files", type="convention")["memory"]["id"]
    other = a_memory("No tabs", "Never use tabs in all files", id="mem-1-0001", kind="convention", confidence=0.6)
    remember(served.project.store, other)

    (conflict,) = served.get("/api/projects/-/conflicts")[1]["items"]
    assert {conflict["earlier"]["id"], conflict["later"]["id"]} == {kept, other.id}
    assert f'data-keep="{kept}"' in served.get("/staging")[1]

    status, told = served.post(f"/api/memories/{kept}/keep", {})

    assert (status, [one["id"] for one in told["superseded"]]) == (200, [other.id])
    assert served.get("/api/projects/-/conflicts")[1]["items"] == []
    refused(served.post(f"/api/memories/{kept}/keep", {}), 404, "conflict-not-found")
