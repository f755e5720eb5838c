"""Memories over HTTP: the same rules as by command, and an answer to whatever is sent."""

from __future__ import annotations

import threading
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from ralph.core.records import AttemptOutcome, TaskStatus, timestamp
from ralph.store import Store
from ralph.store.projects import ProjectEntry
from tests.make import a_memory, begin, finish, remember
from tests.web.asking import Served, refused

ALL = "/api/projects/-/memories"
NASTY = '<script>alert(1)</script> "><img src=x onerror=alert(1)> {{ 7 * 7 }} javascript:alert(1)'


def add(served: Served, content: str, **fields: Any) -> dict[str, Any]:
    status, told = served.post(ALL, {"content": content, **fields})
    assert status == 201, told
    memory: dict[str, Any] = told["memory"]
    return memory


def listed(served: Served, path: str = ALL, **asked: Any) -> list[dict[str, Any]]:
    status, told = served.get(f"{path}?{urlencode(asked, doseq=True)}")
    assert status == 200, told
    items: list[dict[str, Any]] = told["items"]
    return items


def contents(memories: list[dict[str, Any]]) -> list[str]:
    return [one["content"] for one in memories]


def fill(store: Store, count: int) -> None:
    """Keep so many memories, a minute apart."""
    for number in range(count):
        at = timestamp(1_750_000_000 + number * 60)
        remember(
            store,
            a_memory(f"Entry {number}", f"What number {number} says.", kind="fix", created_at=at, updated_at=at),
        )


# --- one memory -----------------------------------------------------------------------


def test_what_is_added_is_there_changed_deleted_and_brought_back(served: Served) -> None:
    memory = add(served, "Start docker first.", type="fix", tags=["Docker"], file_refs=["compose.yml"])
    path = f"/api/memories/{memory['id']}"

    assert served.get(path) == (200, memory)
    assert (memory["type"], memory["tags"], memory["file_refs"]) == ("fix", ["docker"], ["compose.yml"])
    status, edited = served.put(path, {"content": "Start docker before the tests.", "why": "clearer"})
    assert (status, edited["content"]) == (200, "Start docker before the tests.")
    status, deleted = served.delete(f"{path}?why=wrong")
    assert (status, deleted["memory"]["state"]) == (200, "pruned")
    assert deleted["change_id"].startswith("chg-")
    assert listed(served) == []
    status, undone = served.post(f"{path}/undo")
    assert (status, undone["state"]) == (200, "active")
    assert contents(listed(served)) == ["Start docker before the tests."]


def test_what_says_the_same_is_kept_once(served: Served) -> None:
    first = add(served, "Start docker first.")
    status, again = served.post(ALL, {"content": "Start docker first."})

    assert (status, again["what"]) == (201, "learned again")
    assert again["memory"]["id"] == first["id"]
    assert again["memory"]["support"] == 2


def test_the_history_says_who_changed_what_and_why(served: Served) -> None:
    id = add(served, "Start docker first.")["id"]
    served.put(f"/api/memories/{id}", {"tags": ["a", "b"], "content": "Start it.", "why": "clearer"})

    _, told = served.get(f"/api/memories/{id}/history")

    added, edited = told["items"]
    assert (added["what"], added["changed"]) == ("added", {})
    assert (edited["what"], edited["who"], edited["why"]) == ("edited", "person", "clearer")
    assert edited["changed"]["tags"] == {"was": [], "became": ["a", "b"]}
    assert edited["changed"]["content"] == {"was": "Start docker first.", "became": "Start it."}


def test_a_memory_goes_back_to_any_event_of_its_history(served: Served) -> None:
    id = add(served, "One.")["id"]
    for content in ("Two.", "Three."):
        served.put(f"/api/memories/{id}", {"content": content})
    first = served.get(f"/api/memories/{id}/history")[1]["items"][0]["seq"]

    status, told = served.post(f"/api/memories/{id}/undo", {"to": first})

    assert (status, told["content"]) == (200, "One.")
    refused(served.post(f"/api/memories/{id}/undo", {"to": 10**9}), 404, "event-not-found")
    refused(served.post(f"/api/memories/{id}/undo", {"to": -1}), 422, "to")


def test_deleting_twice_says_how_to_bring_it_back(served: Served) -> None:
    id = add(served, "Start docker first.")["id"]

    assert served.delete(f"/api/memories/{id}")[0] == 200
    refused(served.delete(f"/api/memories/{id}"), 404, "memory-not-found")


def test_undo_of_nothing_is_refused_with_a_sentence(served: Served) -> None:
    id = add(served, "Start docker first.")["id"]
    served.post(f"/api/memories/{id}/undo")

    status, told = served.post(f"/api/memories/{id}/undo")

    assert 400 <= status < 500
    assert told["code"] == "nothing-to-undo"


def test_what_was_done_together_is_taken_back_together(served: Served) -> None:
    fill(served.project.store, 3)
    status, told = served.post(f"{ALL}/cleanup", {"unused": True, "yes": True})
    assert (status, len(told["removed"]), told["present"]) == (200, 3, 3)

    status, undone = served.post(f"/api/changes/{told['change_id']}/undo")

    assert (status, undone["count"], len(undone["items"])) == (200, 3, 3)
    assert len(listed(served)) == 3
    refused(served.post(f"/api/changes/{told['change_id']}/undo"), 404, "change-not-found")
    refused(served.post("/api/changes/chg-none/undo"), 404, "change-not-found")


def test_the_id_of_a_memory_is_none_of_a_change_and_the_other_way_round(served: Served) -> None:
    id = add(served, "Start docker first.")["id"]
    _, told = served.delete(f"/api/memories/{id}")

    refused(served.post(f"/api/changes/{id}/undo"), 404)
    refused(served.post(f"/api/memories/{told['change_id']}/undo"), 404)
    assert served.get(f"/api/memories/{id}")[1]["state"] == "pruned"


def test_two_who_edit_at_once_both_get_an_answer_and_a_place_in_the_history(served: Served) -> None:
    id = add(served, "Start docker first.")["id"]
    answers: list[int] = []

    def edit(fields: dict[str, Any]) -> None:
        answers.append(served.put(f"/api/memories/{id}", fields)[0])

    changes = [{"tags": ["one"]}, {"confidence": 0.9}, {"content": "Other words."}, {"type": "fix"}]
    threads = [threading.Thread(target=edit, args=(fields,)) for fields in changes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    _, memory = served.get(f"/api/memories/{id}")
    assert answers == [200] * 4
    assert (memory["tags"], memory["confidence"], memory["type"]) == (["one"], 0.9, "fix")
    assert memory["content"] == "Other words."
    assert len(served.get(f"/api/memories/{id}/history")[1]["items"]) == 5


def test_a_memory_is_confirmed_shared_and_shared_no_longer(served: Served) -> None:
    id = add(served, "Start docker first.")["id"]

    status, confirmed = served.post(f"/api/memories/{id}/confirm", {"why": "looked"})
    assert status == 200
    assert confirmed["verified_at"]
    status, shared = served.post(f"/api/memories/{id}/share")
    assert (status, shared["what"]) == (200, "added")
    assert served.post(f"/api/memories/{id}/share")[1]["what"] == "known"
    assert served.post(f"/api/memories/{id}/unshare")[0] == 200
    status, told = served.post(f"/api/memories/{id}/unshare")
    assert (status, "is not shared" in told["detail"]) == (400, True)


# --- content is data ------------------------------------------------------------------


def test_markup_comes_back_as_it_is_in_every_field(served: Served) -> None:
    memory = add(served, NASTY, title=NASTY, tags=[NASTY[:40]], file_refs=["<b>.py"])

    assert memory["content"] == NASTY
    assert memory["title"] == NASTY
    assert memory["file_refs"] == ["<b>.py"]
    said = served.ask("GET", f"/api/memories/{memory['id']}")
    assert said.kind == "application/json"
    assert said.headers["x-content-type-options"] == "nosniff"


def test_secrets_are_not_kept(served: Served) -> None:
    key = "AKIA" + "Z7QLXP4MWEKRT2VB"

    memory = add(served, f"The key is {key} there.", title=f"Key {key}")
    served.put(f"/api/memories/{memory['id']}", {"content": f"Now {key}.", "why": f"because of {key}"})

    for path in ("", "/history", "/confidence"):
        assert key not in served.ask("GET", f"/api/memories/{memory['id']}{path}").text


def test_control_characters_are_not_kept(served: Served) -> None:
    memory = add(served, "a\0b\x1b[31mred\u202e", title="t\0", tags=["x\0y"])

    assert memory["content"] == "abred"
    assert memory["tags"] == ["xy"]


# --- listing --------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["active", "all"])
def test_pages_give_each_memory_once_newest_first(served: Served, state: str) -> None:
    fill(served.project.store, 23)
    served.delete(f"/api/memories/{listed(served)[0]['id']}")
    found: list[dict[str, Any]] = []
    cursor: str | None = ""

    while cursor is not None:
        _, told = served.get(f"{ALL}?limit=5&state={state}&cursor={cursor}")
        found += told["items"]
        cursor = told["next"]

    numbers = [int(one["title"].split()[-1]) for one in found]
    assert numbers == sorted(range(23 if state == "all" else 22), reverse=True)


def test_what_comes_in_meanwhile_moves_no_page(served: Served) -> None:
    fill(served.project.store, 6)
    _, first = served.get(f"{ALL}?limit=3")
    add(served, "Something new.")
    served.delete(f"/api/memories/{first['items'][-1]['id']}")

    _, second = served.get(f"{ALL}?limit=3&cursor={first['next']}")

    assert [one["title"] for one in second["items"]] == ["Entry 2", "Entry 1", "Entry 0"]
    assert second["next"] is None


def test_filters_hold_together(served: Served) -> None:
    add(served, "Sure and a fix.", type="fix", confidence=0.9, tags=["docker"])
    add(served, "Unsure and a fix.", type="fix", confidence=0.2)
    add(served, "Sure and a decision.", type="decision", confidence=0.9)

    assert contents(listed(served, type="fix", min_confidence=0.5)) == ["Sure and a fix."]
    assert len(listed(served, type=["fix", "decision"])) == 3
    assert contents(listed(served, tag="DOCKER")) == ["Sure and a fix."]
    assert len(listed(served, source="explicit")) == 3
    assert listed(served, source="automatic") == []
    assert listed(served, stale="true") == []
    assert listed(served, after="2999-01-01") == []
    assert len(listed(served, after="2020-01-01", before="2999-12-31T23:59:59+14:00")) == 3


WRONG_VALUES = [
    ("min_confidence=abc", "min_confidence"),
    ("min_confidence=1.1", "min_confidence"),
    ("min_confidence=nan", "min_confidence"),
    ("limit=0", "limit"),
    ("limit=201", "limit"),
    ("limit=1.5", "limit"),
    ("after=yesterday", "after"),
    ("before=2025-02-31", "before"),
    ("after=0001-01-01T00:00:00%2B14:00", "after"),
    ("after=%00", "after"),
    ("state=asleep", "state"),
    ("source=dreams", "source"),
    ("type=nonsense", "type"),
    ("type=", "type"),
    ("type=%00", "type"),
    ("stale=perhaps", "stale"),
    ("cursor=garbage", "cursor"),
    ("cursor=%00", "cursor"),
    ("cursor=WzEsMl0", "cursor"),
    ("cursor=WyJhXHUwMDAwIiwiYiJd", "cursor"),
    ("limit=1&limit=2", "limit"),
    ("nothing=1", "nothing"),
]


def test_a_wrong_value_is_named(served: Served) -> None:
    for asked, field in WRONG_VALUES:
        refused(served.get(f"{ALL}?{asked}"), 422, field)


def test_facets_count_what_there_is_and_follow_changes(served: Served) -> None:
    add(served, "One.", type="fix", tags=["a", "b"])
    id = add(served, "Two.", type="fix", tags=["a"])["id"]

    _, told = served.get(f"{ALL}/facets")

    assert told["type"] == [{"name": "fix", "count": 2}]
    assert told["tag"] == [{"name": "a", "count": 2}, {"name": "b", "count": 1}]
    assert told["source"] == [{"name": "explicit", "count": 2}]
    assert told["stale"] == 0
    served.delete(f"/api/memories/{id}")
    _, told = served.get(f"{ALL}/facets")
    assert told["tag"] == [{"name": "a", "count": 1}, {"name": "b", "count": 1}]
    assert {"name": "pruned", "count": 1} in told["state"]


def test_facets_follow_the_query_and_the_other_filters(served: Served) -> None:
    add(served, "The parser wants tabs.", type="fix", tags=["parser"])
    add(served, "A parser error names its line.", type="pattern", tags=["parser", "errors"])
    add(served, "Deploy on Fridays.", type="fix", tags=["deploy"])

    def counted(**query: str) -> dict[str, Any]:
        status, told = served.get(f"{ALL}/facets?{urlencode(query)}")
        assert status == 200, told
        return {
            name: {one["name"]: one["count"] for one in found} if isinstance(found, list) else found
            for name, found in told.items()
        }

    found = counted(q="parsers")
    assert found["type"] == {"fix": 1, "pattern": 1}
    assert found["tag"] == {"parser": 2, "errors": 1}
    assert (found["total"], found["is_partial"]) == (2, False)
    found = counted(q="parsers", type="fix")
    assert found["type"] == {"fix": 1, "pattern": 1}
    assert found["tag"] == {"parser": 1}
    assert found["total"] == 1
    found = counted(type="fix")
    assert found["type"] == {"fix": 2, "pattern": 1}
    assert found["tag"] == {"deploy": 1, "parser": 1}
    assert found["total"] == 2
    assert counted(q="kubernetes")["total"] == 0


# --- searching ------------------------------------------------------------------------


def test_search_gives_the_best_first_and_what_the_score_is_made_of(served: Served) -> None:
    add(served, "The parser wants tabs.")
    add(served, "ECONNREFUSED means: start docker.")

    found = listed(served, f"{ALL}/search", q="docker refused ECONNREFUSED")

    assert found[0]["memory"]["content"].startswith("ECONNREFUSED")
    assert found[0]["score"] > 0
    assert {"name", "share"} == set(found[0]["because"][0])


ANY_TEXT = ("", "\0", "a\0docker", '"', "'", "docker OR", "NEAR(", "*", "%", "\\", "x" * 10_000, "🐳 docker", "\u202e")


def test_any_text_can_be_searched_for(served: Served) -> None:
    add(served, "Start docker first.")

    for text in ANY_TEXT:
        status, told = served.get(f"{ALL}/search?q={quote(text)}")
        assert status == 200, (text, told)


def test_search_knows_the_dates_of_the_document(served: Served) -> None:
    add(served, "Start docker first.")

    assert len(listed(served, f"{ALL}/search", q="docker", after_date="2020-01-01", before_date="2999-01-01")) == 1
    assert listed(served, f"{ALL}/search", q="docker", after_date="2999-01-01") == []
    refused(served.get(f"{ALL}/search?q=a&after_date=soon"), 422, "after_date")
    refused(served.get(f"{ALL}/search?q=a&after=2020-01-01&after_date=2020-01-01"), 422, "after_date")


def test_search_by_another_formula_or_for_a_task(served: Served) -> None:
    add(served, "Start docker first.", tags=["docker"])
    task = served.project.tasks.add("Mend the docker setup")

    assert len(listed(served, f"{ALL}/search", q="docker", ranker="tags")) == 1
    assert len(listed(served, f"{ALL}/search", task=task.id)) == 1
    refused(served.get(f"{ALL}/search?q=a&ranker=luck"), 422, "ranker")
    refused(served.get(f"{ALL}/search?task=t-none"), 404, "task-not-found")
    refused(served.get(f"{ALL}/search?task=%00"), 422, "task")


def test_what_an_agent_should_know_comes_within_a_budget(served: Served) -> None:
    fill(served.project.store, 30)
    task = served.project.tasks.add("Something about number 7")

    _, told = served.get(f"{ALL}/prime?budget=200")

    assert 0 < told["tokens"] <= 200
    assert told["items"][0]["content"] in told["text"]
    assert served.get(f"{ALL}/prime?task={task.id}")[0] == 200
    refused(served.get(f"{ALL}/prime?budget=-1"), 422, "budget")


# --- bad bodies and ids ---------------------------------------------------------------


IMPOSSIBLE: list[tuple[Any, str]] = [
    ({}, "content"),
    ({"content": ""}, "content"),
    ({"content": " \n "}, "content"),
    ({"content": 1}, "content"),
    ({"content": None}, "content"),
    ({"content": "x" * 100_001}, "content"),
    ({"content": "a", "type": "nonsense"}, "type"),
    ({"content": "a", "type": "two words"}, "type"),
    ({"content": "a", "title": "x" * 201}, "title"),
    ({"content": "a", "tags": "docker"}, "tags"),
    ({"content": "a", "tags": ["x" * 101]}, "tags"),
    ({"content": "a", "tags": ["x"] * 51}, "tags"),
    ({"content": "a", "file_refs": [1]}, "file_refs"),
    ({"content": "a", "confidence": 1.5}, "confidence"),
    ({"content": "a", "confidence": "high"}, "confidence"),
    ({"content": "a", "id": "mem-1"}, "id"),
    ([], "object"),
]


def test_a_memory_that_cannot_be_is_refused_by_the_name_of_its_field(served: Served) -> None:
    for body, field in IMPOSSIBLE:
        refused(served.post(ALL, body), 422, field)
    assert listed(served) == []


def test_an_edit_that_cannot_be_changes_nothing(served: Served) -> None:
    memory = add(served, "Start docker first.")
    impossible: tuple[dict[str, Any], ...] = (
        {},
        {"why": "because"},
        {"content": ""},
        {"content": "  "},
        {"confidence": -1},
        {"type": ""},
        {"x": 1},
    )

    for body in impossible:
        refused(served.put(f"/api/memories/{memory['id']}", body), 422)
    assert served.get(f"/api/memories/{memory['id']}")[1] == memory


def test_an_unknown_id_is_not_found_whatever_is_asked_of_it(served: Served) -> None:
    task = served.project.tasks.add("Something").id
    for id in ("mem-none", "%00", "%F0%9F%90%B3", "'--", "%25", "x" * 2_000):
        not_found(served, f"/api/memories/{id}", task)


def not_found(served: Served, path: str, task: str) -> None:
    answers = [
        *(served.get(f"{path}{rest}") for rest in ("", "/history", "/confidence", "/shown", f"/why?task={task}")),
        *(served.post(f"{path}{rest}", {}) for rest in ("/undo", "/confirm")),
        served.post(f"{path}/share"),
        served.put(path, {"content": "x"}),
        served.delete(path),
    ]

    for answer in answers:
        refused(answer, 404)
    assert served.post(f"{path}/unshare")[0] in (400, 404)


# --- another project ------------------------------------------------------------------


def a_neighbour(served: Served, monkeypatch: pytest.MonkeyPatch) -> ProjectEntry:
    """Add a project to the database, and say which one is served."""
    monkeypatch.setenv("RALPH_STORE_PROJECT", served.project.store.project_name)
    return served.project.store.projects.add("elsewhere")


def test_the_memories_of_another_project_are_found_only_there(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    own = add(served, "Ours.")
    other = a_neighbour(served, monkeypatch)

    status, told = served.post("/api/projects/elsewhere/memories", {"content": "Theirs."})
    theirs = told["memory"]["id"]

    assert status == 201
    assert contents(listed(served, f"/api/projects/{other.id}/memories")) == ["Theirs."]
    assert contents(listed(served)) == ["Ours."]
    refused(served.get(f"/api/memories/{theirs}"), 404)
    refused(served.put(f"/api/memories/{theirs}", {"content": "x"}), 404)
    refused(served.delete(f"/api/memories/{theirs}"), 404)
    refused(served.get(f"/api/memories/{own['id']}?project=elsewhere"), 404)
    assert served.get(f"/api/memories/{theirs}?project=elsewhere")[0] == 200
    refused(served.get("/api/projects/nowhere/memories"), 404, "project-not-found")
    refused(served.get("/api/projects/%00/memories"), 404)
    refused(served.get(f"/api/memories/{theirs}?project=%00"), 422, "project")


# --- figures and reasons --------------------------------------------------------------


def show_to_an_attempt(served: Served, id: str, outcome: AttemptOutcome) -> str:
    """Let an attempt at a new task be shown a memory, and end; return the task."""
    store = served.project.store
    task_id = served.project.tasks.add("Mend the docker setup").id
    task, attempt = begin(store, store.runs.start("test").id)
    finish(store, task, attempt, outcome, TaskStatus.DONE, shown=(id,))
    return task_id


def test_confidence_over_time_tells_events_and_uses_up_to_now(served: Served) -> None:
    id = add(served, "Start docker first.")["id"]
    served.put(f"/api/memories/{id}", {"confidence": 0.7})
    show_to_an_attempt(served, id, AttemptOutcome.DONE)

    status, told = served.get(f"/api/memories/{id}/confidence")

    points = [(one["what"], round(one["confidence"], 2)) for one in told["points"]]
    assert status == 200
    assert points == [("added", 0.6), ("edited", 0.7), ("helped", 0.72), ("now", 0.72)]
    assert served.get(f"/api/memories/{id}")[1]["confidence_now"] == told["points"][-1]["confidence"]


def test_the_attempts_a_memory_was_shown_to_are_told(served: Served) -> None:
    id = add(served, "Start docker first.")["id"]
    task_id = show_to_an_attempt(served, id, AttemptOutcome.DONE)

    _, told = served.get(f"/api/memories/{id}/shown?limit=1")

    assert [(one["task_id"], one["outcome"], one["iteration"]) for one in told["items"]] == [(task_id, "done", 1)]
    refused(served.get(f"/api/memories/{id}/shown?limit=0"), 422, "limit")


def test_why_a_task_is_shown_a_memory_and_not_another_one(served: Served) -> None:
    shown = add(served, "The docker setup of the tests needs port 5432.", type="fix")["id"]
    other = add(served, "Commas go inside.", type="decision")["id"]
    task = served.project.tasks.add("Mend the docker setup of the tests").id

    _, why = served.get(f"/api/memories/{shown}/why?task={task}")
    _, why_not = served.get(f"/api/memories/{other}/why?task={task}")
    _, ranking = served.get(f"/api/tasks/{task}/ranking")

    assert (why["is_shown"], why["rank"], why["reason"]) == (True, 1, "")
    assert why["because"][0]["share"] > 0
    assert not why_not["is_shown"]
    assert why_not["reason"]
    best = ranking["items"][0]
    assert (best["memory"]["id"], best["rank"], best["is_shown"]) == (shown, 1, True)
    refused(served.get(f"/api/memories/{shown}/why"), 422, "task")
    refused(served.get(f"/api/memories/{shown}/why?task=t-none"), 404, "task-not-found")
    refused(served.get(f"/api/memories/{shown}/why?task=%00"), 422, "task")
    refused(served.get("/api/tasks/t-none/ranking"), 404, "task-not-found")
    refused(served.get("/api/tasks/%00/ranking"), 404)


# --- upkeep, in and out ---------------------------------------------------------------


def test_a_cleanup_says_what_would_go_and_asks_before_it_takes_much(served: Served) -> None:
    fill(served.project.store, 8)

    _, would = served.post(f"{ALL}/cleanup", {"unused": True, "dry_run": True})
    refused(served.post(f"{ALL}/cleanup", {"unused": True}), 409, "confirmation-required")
    assert len(listed(served)) == 8
    _, did = served.post(f"{ALL}/cleanup", {"unused": True, "yes": True})

    assert (len(would["removed"]), would["change_id"]) == (8, "")
    assert would["removed"] == did["removed"]
    assert would["removed"][0]["why"] == "never used"
    assert listed(served) == []
    assert served.post(f"{ALL}/cleanup")[1]["removed"] == []
    refused(served.post(f"{ALL}/cleanup", {"older_than_days": -1}), 422, "older_than_days")
    refused(served.post(f"{ALL}/cleanup", {"yes": "yes"}), 422, "yes")


def test_what_says_nearly_the_same_is_put_together(served: Served) -> None:
    words = "Always run the database migrations before the integration tests start on the build server"
    add(served, f"{words}.")
    add(served, f"{words} now.")

    status, told = served.post(f"{ALL}/consolidate", {"dry_run": True})

    assert status == 200
    assert (told["present"], told["change_id"]) == (2, "")


def test_what_was_exported_can_be_imported_once(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    add(served, f"Start docker first. {NASTY}", tags=["docker"])
    said = served.ask("GET", f"{ALL}/export")
    a_neighbour(served, monkeypatch)
    other = "/api/projects/elsewhere/memories"

    status, brought = served.post(f"{other}/import", {"text": said.text, "name": "ours.json"})

    assert said.json["version"] == 1
    assert (status, brought["format"], brought["new"], brought["problems"]) == (200, "json", 1, [])
    assert contents(listed(served, other)) == contents(listed(served))
    assert served.post(f"{other}/import", {"text": said.text})[1]["new"] == 0
    refused(served.post(f"{other}/import", {"text": "\0\1\2\3" * 50}), 422, "text")
    refused(served.post(f"{other}/import", {"text": ""}), 422, "text")
    refused(served.post(f"{other}/import", {}), 422, "text")


def test_an_import_can_be_held_back_and_taken_back(served: Served) -> None:
    entry = "### mem-1700000000-0001\n> Start docker first.\n<!-- tags: a | created: 2024-01-01 -->\n"
    text = f"# Memories\n\n## Fixes\n\n{entry}"

    _, brought = served.post(f"{ALL}/import", {"text": text, "name": "memories.md", "stage": True})

    assert brought["new"] == 1
    assert listed(served) == []
    assert len(listed(served, state="staged")) == 1
    assert served.post(f"/api/changes/{brought['change_id']}/undo")[1]["count"] == 1
