"""What the command line can do with memories and learnings can be done over HTTP too."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import pytest

from ralph.core.records import MemorySource, MemoryState, replace, timestamp
from ralph.formats.bundle import verify_bundle
from ralph.formats.registry import import_formats
from ralph.store.memory_queries import MemoryFilter
from tests.make import a_memory, remember
from tests.web.asking import Served, refused

ALL = "/api/projects/-/memories"
STAGING = "/api/staging"


def add(served: Served, content: str, **fields: Any) -> str:
    status, told = served.post(ALL, {"content": content, **fields})
    assert status == 201, told
    return str(told["memory"]["id"])


def asked(served: Served, path: str, **query: Any) -> Any:
    status, told = served.get(f"{path}?{urlencode(query, doseq=True)}")
    assert status == 200, told
    return told


def ids(told: Any) -> list[str]:
    return [one.get("memory", one)["id"] for one in told["items"]]


def loop_state() -> str:
    iterations = [
        {
            "iteration": n,
            "status": "completed",
            "validationResults": [
                {"checkName": "test", "passed": n == 5, "message": "TypeError: undefined is not a function"}
            ],
            "agentOutput": f"Attempt {n}: looked at the parser and changed it.",
            "filesModified": ["src/parser.ts", "src/index.ts"],
            "duration": 60_000,
        }
        for n in range(1, 6)
    ]
    return json.dumps({"loopId": "loop-7", "objective": "Fix the tests", "iterations": iterations})


# --- memories ---------------------------------------------------------------------------


def test_all_memories_are_cleared_only_with_yes_and_brought_back_at_once(served: Served) -> None:
    for number in range(3):
        add(served, f"Fact number {number} stands alone.")

    refused(served.post(f"{ALL}/clear"), 409, "confirmation-required")
    status, told = served.post(f"{ALL}/clear", {"yes": True})

    assert (status, len(told["removed"]), told["present"]) == (200, 3, 3)
    assert ids(asked(served, ALL)) == []
    assert served.post(f"/api/changes/{told['change_id']}/undo")[1]["count"] == 3
    assert len(ids(asked(served, ALL))) == 3


def test_what_memories_add_up_to_is_told(served: Served) -> None:
    first = add(served, "Start docker first.", type="fix", confidence=0.4)
    add(served, "Tabs, always.", type="pattern", confidence=0.8)
    served.project.store.memories.credit_outcome([first], timestamp(1_750_000_000), won=True)

    told = asked(served, f"{ALL}/stats")

    assert (told["total"], told["uses"], told["by_type"]) == (2, 1, {"fix": 1, "pattern": 1})
    assert told["by_state"] == {"active": 2}
    assert told["most_used"]["id"] == first


def test_damage_is_found(served: Served) -> None:
    id = add(served, "Start docker first.")
    assert asked(served, f"{ALL}/verify") == {"problems": []}

    served.project.store.scope.execute(
        "UPDATE memory SET body = 'Something else.' WHERE project_id = :project_id AND id = :id", id=id
    )

    problems = asked(served, f"{ALL}/verify")["problems"]
    assert any(id in one for one in problems)


def test_memories_are_listed_by_task_type_and_success_rate(served: Served) -> None:
    store = served.project.store
    good = remember(store, a_memory("Good", "Write the test first.", task_type="testing", success_rate=0.9)).id
    bad = remember(store, a_memory("Bad", "Delete the lock file.", task_type="testing", success_rate=0.1)).id
    add(served, "Of no type.")

    assert sorted(ids(asked(served, ALL, task_type="testing"))) == sorted([good, bad])
    assert ids(asked(served, ALL, min_success_rate=0.5)) == [good]
    assert ids(asked(served, f"{ALL}/search", q="lock test", task_type="testing", min_success_rate=0.5)) == [good]
    assert ids(asked(served, ALL, task_type="\0")) == ids(asked(served, ALL))
    refused(served.get(f"{ALL}?min_success_rate=2"), 422, "min_success_rate")


def test_shared_memories_are_listed_with_where_they_come_from(served: Served) -> None:
    id = add(served, "Start docker first.", type="fix")
    assert asked(served, f"{ALL}/shared")["items"] == []
    served.post(f"/api/memories/{id}/share")

    (one,) = asked(served, f"{ALL}/shared", type="fix")["items"]

    assert one["memory"]["content"] == "Start docker first."
    assert one["shared_from"] == served.project.store.project_name
    assert asked(served, f"{ALL}/shared", type="pattern")["items"] == []


def test_only_recent_memories_are_primed_with(served: Served) -> None:
    at = timestamp(1_700_000_000)
    remember(served.project.store, a_memory("Old", "What is old.", created_at=at, updated_at=at))
    new = add(served, "What is new.")

    assert ids(asked(served, f"{ALL}/prime", recent=7)) == [new]
    assert len(ids(asked(served, f"{ALL}/prime"))) == 2
    assert ids(asked(served, f"{ALL}/prime", recent=999_999_999))


def test_a_prompt_can_be_asked_for_without_memory_and_for_a_model(served: Served) -> None:
    id = add(served, "Docker must run before the parser tests.")
    task = served.project.tasks.add("Mend the docker parser tests").id

    usual, without = (
        asked(served, f"/api/tasks/{task}/prompt", model="opus", with_memory=one) for one in ("true", "false")
    )

    assert id in usual["shown"]
    assert without["shown"] == []
    refused(served.get(f"/api/tasks/{task}/prompt?with_memory=perhaps"), 422, "with_memory")


# --- export -----------------------------------------------------------------------------


def exported(served: Served, form: str, **asked: Any) -> tuple[str, str]:
    said = served.ask("GET", f"{ALL}/export?{urlencode({'format': form, **asked}, doseq=True)}")
    assert said.status == 200, said.text
    return said.kind, said.text


def by_command(served: Served, form: str, wanted: MemoryFilter) -> str:
    """Return what the command line would write, but for the moment it is written at."""
    files = served.project.transfer.export(form, wanted).files
    return "".join(piece for _, pieces in files for piece in pieces)


def test_every_form_of_an_export_is_that_of_the_command_line(served: Served) -> None:
    add(served, "Start docker first. 🐳", type="fix", tags=["docker"])
    add(served, "Tabs, always.", type="pattern")

    for form in ("csv", "markdown", "learnings"):
        kind, text = exported(served, form)
        assert (kind, text) == ("text/plain", by_command(served, form, MemoryFilter())), form
    assert exported(served, "json")[0] == "application/json"
    assert exported(served, "csv", type="fix")[1].count("\n") == 2
    refused(served.get(f"{ALL}/export?format=poem"), 422, "format")


def test_what_is_staged_is_exported_in_the_form_for_it(served: Served) -> None:
    staged = a_memory(
        "Tests first", "Tests first.", kind="strategy", state=MemoryState.STAGED, source=MemorySource.AUTOMATIC
    )
    remember(
        served.project.store, replace(staged, structured_content='{"strategy": "tests first"}', task_type="testing")
    )

    _, text = exported(served, "staging")

    assert len(json.loads(text)["staged"]) == 1
    assert json.loads(exported(served, "staging", state="active")[1])["staged"] == []


def test_a_bundle_has_the_whole_history(served: Served) -> None:
    at = timestamp(1_750_000_000)
    for number in range(5):
        memory = a_memory(f"Entry {number}", f"What number {number} says.", kind="fix", created_at=at, updated_at=at)
        id = remember(served.project.store, memory).id
        served.project.memory.edit(id, tags=[f"t{number}"])

    kind, text = exported(served, "bundle")

    assert kind == "text/plain"
    assert verify_bundle(text.splitlines(keepends=True)) == ""
    *lines, last = text.splitlines()[1:]
    assert lines == by_command(served, "bundle", MemoryFilter()).splitlines()[1:-1]
    assert json.loads(last)["count"] == 5
    a_bundle = served.post(f"{ALL}/import", {"text": text})
    assert (a_bundle[0], a_bundle[1]["format"], a_bundle[1]["new"]) == (200, "bundle", 0)


def test_knowledge_is_exported_as_the_files_it_makes(served: Served) -> None:
    add(served, "The build needs docker.", type="knowledge", title="Build", tags=["build"])
    add(served, "Tabs, always.", type="pattern")

    (file,) = asked(served, f"{ALL}/export/knowledge")["items"]

    assert file["name"] == "build.md"
    assert "The build needs docker." in file["text"]


# --- import -----------------------------------------------------------------------------


def test_what_a_file_is_can_be_said_when_it_cannot_be_told(served: Served) -> None:
    text = "Remember this one line of notes."

    refused(served.post(f"{ALL}/import", {"text": text, "format": "poem"}), 422, "format")
    for form in (*import_formats(), "unknown"):
        assert served.post(f"{ALL}/import", {"text": text, "format": form})[0] in (200, 422)


def test_a_bundle_that_was_changed_comes_in_only_by_force(served: Served) -> None:
    add(served, "Start docker first.")
    exported = served.project.transfer.export("bundle", MemoryFilter())
    bundle = "".join(piece for _, pieces in exported.files for piece in pieces)
    changed = bundle.replace("Start docker first.", "Start podman first.")

    refused(served.post(f"{ALL}/import", {"text": changed}), 422, "invalid-value")
    status, told = served.post(f"{ALL}/import", {"text": changed, "force": True})

    assert (status, told["format"]) == (200, "bundle")
    assert told["new"] + told["merged"] + told["known"] == 1


# --- learnings --------------------------------------------------------------------------


def test_the_state_of_a_loop_elsewhere_is_learned_from(served: Served) -> None:
    status, told = served.post(f"{STAGING}/extract", {"state": loop_state(), "name": "loop.json"})

    assert (status, told["source"]) == (200, "loop.json")
    assert told["extracted"] > 0
    assert (told["checked"], told["promoted"], told["kept"]) == (None, None, [])
    assert len(ids(asked(served, STAGING))) == told["extracted"]
    refused(served.post(f"{STAGING}/extract", {"state": "no state"}), 422, "unreadable-state")


def test_what_is_extracted_can_be_kept_at_once(served: Served) -> None:
    _, told = served.post(f"{STAGING}/extract", {"state": loop_state(), "promote": True})

    assert told["promoted"]["promoted"] == told["checked"]["validated"] > 0
    # Estimates are listed only where they are asked for.
    assert len(ids(asked(served, ALL)) + ids(asked(served, ALL, type="estimate"))) == told["promoted"]["promoted"]


def test_what_a_role_hands_over_is_kept(served: Served) -> None:
    said = "The entry point is in `src/app/main.py`, which calls the router in `src/app/routes.py` for every request."
    handover = {"from_hat": "explorer", "to_hat": "planner", "text": said}

    status, told = served.post(f"{STAGING}/extract", handover)
    _, again = served.post(f"{STAGING}/extract", handover)

    assert (status, told["source"], told["extracted"], told["merged"]) == (200, "explorer to planner", 1, 0)
    assert ids(asked(served, ALL)) == [told["kept"][0]["memory"]["id"]]
    assert (again["extracted"], again["merged"]) == (1, 1)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"from_hat": "explorer"}, "both from_hat and to_hat"),
        ({"from_hat": "explorer", "to_hat": "planner"}, "and text"),
        ({"text": "Some words."}, "and text"),
        ({"run": "run-1", "state": "{}"}, "one source"),
        ({"from_hat": "a", "to_hat": "b", "text": "x"}, "unknown-handover"),
    ],
)
def test_what_to_extract_from_must_be_clear(served_once: Served, body: dict[str, str], words: str) -> None:
    refused(served_once.post(f"{STAGING}/extract", body), 422, words)


def test_the_staging_area_is_emptied_only_with_yes_and_brought_back(served: Served) -> None:
    staged = a_memory("Tabs", "Tabs, always.", kind="pattern", state=MemoryState.STAGED, source=MemorySource.AUTOMATIC)
    id = remember(served.project.store, staged).id

    refused(served.post(f"{STAGING}/clear"), 409, "confirmation-required")
    status, told = served.post(f"{STAGING}/clear", {"yes": True})

    assert (status, told["count"]) == (200, 1)
    assert ids(asked(served, STAGING)) == []
    assert served.post(f"/api/changes/{told['change_id']}/undo")[0] == 200
    assert ids(asked(served, STAGING)) == [id]
    served.post(f"{STAGING}/clear", {"yes": True})
    assert served.post(f"{STAGING}/clear", {"yes": True}) == (200, {"count": 0, "change_id": ""})


# --- sentences --------------------------------------------------------------------------


def test_problems_name_no_options_of_the_command_line(served: Served) -> None:
    gone = add(served, "Start docker first.")
    served.delete(f"/api/memories/{gone}")
    for number in range(25):
        add(served, f"Fact number {number} stands alone.", confidence=0.1)

    refused(served.post(f"{ALL}/cleanup", {"min_confidence": 0.5}), 409, "confirmation-required")
    refused(served.delete(f"/api/memories/{gone}"), 404, "memory-not-found")
    refused(served.put(f"/api/memories/{gone}", {"content": " \n"}), 422, "empty-content")
