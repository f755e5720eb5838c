"""A large project over HTTP: a few of many are told with true numbers, and what is large comes in pieces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ralph.core.records import AttemptOutcome, MemoryState, TaskStatus, timestamp
from ralph.loop import run_log
from ralph.loop.run_log import LIVE_FOLDER
from ralph.project import Project
from ralph.store.memories import ChangeInfo
from ralph.store.memory_queries import MemoryFilter
from ralph.store.tasks import TaskDraft
from ralph.web.api.projects import SHOWN_TASKS
from ralph.web.endpoints import encode_json
from ralph.web.pages.tasks import TASKS_PER_PAGE
from tests.make import a_memory, begin, finish, remember
from tests.web.asking import Served

ALL = "/api/projects/-/memories"
HALF = "\ud800"
"""Half of a character, which is in no text."""


def fill(project: Project, count: int, state: MemoryState = MemoryState.ACTIVE) -> None:
    memories = []
    for number in range(count):
        at = timestamp(1_750_000_000 + number)
        fields: dict[str, Any] = {"id": f"mem-{number}-0000", "created_at": at, "updated_at": at, "state": state}
        memories.append(a_memory(f"Fact {number}", f"All about {number}.", kind="pattern", **fields))
    project.store.memories.insert_all_unchecked(memories, ChangeInfo(who="t", why="t"))


# --- taking back ------------------------------------------------------------------------------


def test_what_was_just_added_or_changed_is_taken_back_alone(served: Served) -> None:
    _, added = served.post(ALL, {"content": "Use tabs."})
    path = f"/api/memories/{added['memory']['id']}"
    _, edited = served.put(path, {"content": "Use spaces."})
    _, confirmed = served.post(f"{path}/confirm")

    status, problem = served.post(f"{path}/undo", {"only": edited["event"]})
    assert (status, "changed again" in problem["detail"]) == (409, True)
    assert served.get(path)[1]["content"] == "Use spaces."
    for event in (confirmed["event"], edited["event"], added["event"]):
        assert served.post(f"{path}/undo", {"only": event})[0] == 200
    assert served.get(path)[1]["state"] == "pruned"
    assert served.post(f"{path}/undo", {"only": added["event"]})[0] == 409
    assert served.post(f"{path}/undo", {"only": added["event"] + 100})[0] == 404
    assert served.post(f"{path}/undo", {"only": 1, "to": 1})[0] == 422


@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_a_decision_taken_back_twice_leaves_the_learning_waiting(served: Served, decision: str) -> None:
    staged = remember(
        served.project.store, a_memory("Tabs", "Tabs, always.", kind="pattern", state=MemoryState.STAGED)
    ).id
    _, changed = served.put(f"/api/staging/{staged}", {"content": "Spaces, always."})
    _, decided = served.post(f"/api/staging/{staged}/{decision}")

    first = served.post(f"/api/memories/{staged}/undo", {"only": decided["event"]})
    second = served.post(f"/api/memories/{staged}/undo", {"only": decided["event"]})

    assert (first[0], second[0]) == (200, 409)
    assert (first[1]["state"], first[1]["content"]) == ("staged", "Spaces, always.")
    assert decided["event"] > changed["event"]


# --- a few of many ----------------------------------------------------------------------------


def test_the_status_tells_of_a_few_tasks_and_how_many_there_are(served: Served) -> None:
    count = SHOWN_TASKS + 5
    served.project.store.tasks.add_all([TaskDraft(title=f"Task {number}") for number in range(count)])
    served.project.store.tasks.add_all(
        [TaskDraft(title=f"Held {number}", status=TaskStatus.BLOCKED) for number in range(count)]
    )

    _, told = served.get("/api/status")

    assert (len(told["ready"]), told["ready_count"]) == (SHOWN_TASKS, count)
    assert (len(told["waiting"]), told["waiting_count"]) == (SHOWN_TASKS, count)


def test_features_are_listed_with_how_far_they_are(served: Served) -> None:
    served.post("/api/features", {"name": "Login"})
    served.post("/api/features", {"name": "Search"})
    task = served.post("/api/tasks", {"title": "One", "feature": "Login"})[1]
    served.post("/api/tasks", {"title": "Two", "feature": "Login"})
    served.post(f"/api/tasks/{task['id']}/done")

    _, told = served.get("/api/features")

    assert [(one["feature"]["name"], one["counts"]) for one in told["items"]] == [
        ("Login", {"done": 1, "pending": 1}),
        ("Search", {}),
    ]


def test_the_page_of_tasks_lists_the_first_of_each_look_and_counts_all(served: Served) -> None:
    tasks = served.project.store.tasks
    ids = [task.id for task in tasks.add_all([TaskDraft(title=f"Task {number}") for number in range(TASKS_PER_PAGE)])]
    waits = tasks.add(TaskDraft(title="Waits", needs=(ids[0],))).id
    tasks.add_all(
        [TaskDraft(title="Done", status=TaskStatus.DONE), TaskDraft(title="Failed", status=TaskStatus.FAILED)]
    )

    everything = served.ask("GET", "/tasks?show=list").text
    waiting = served.ask("GET", "/tasks?show=list&status=waiting").text
    pending = served.ask("GET", "/tasks?show=list&status=pending").text

    assert everything.count("data-task=") == pending.count("data-task=") == TASKS_PER_PAGE
    assert waiting.count("data-task=") == 1
    assert f'data-task="{waits}"' in waiting
    assert "after Task 0" in waiting
    for status, count in (("ready", 300), ("waiting", 1), ("done", 1), ("failed", 1)):
        assert f'data-filter="{status}"' in everything
        chip = everything.partition(f'data-filter="{status}"')[2].partition("</a>")[0]
        assert f'<span class="n">{count}</span>' in chip


def test_a_task_is_changed_with_what_it_needs_or_not_at_all(served: Served) -> None:
    one, other, task = (served.post("/api/tasks", {"title": title})[1]["id"] for title in ("One", "Other", "Task"))

    status, changed = served.put(f"/api/tasks/{task}", {"title": "New", "needs": [one, other]})
    assert (status, changed["title"], changed["needs"]) == (200, "New", sorted([one, other]))
    assert served.put(f"/api/tasks/{task}", {"needs": [other]})[1]["needs"] == [other]
    refused, _ = served.put(f"/api/tasks/{other}", {"title": "Half", "needs": [task]})

    assert refused == 409
    assert served.get(f"/api/tasks/{other}")[1]["task"]["title"] == "Other"
    assert served.put(f"/api/tasks/{task}", {"needs": ["t-gone"]})[0] == 404
    assert served.put(f"/api/tasks/{task}", {"needs": []})[1]["needs"] == []


def test_staging_shows_the_first_and_counts_all(served: Served) -> None:
    fill(served.project, 103, MemoryState.STAGED)

    page = served.ask("GET", "/staging").text
    _, first = served.get("/api/staging?limit=100")
    _, second = served.get(f"/api/staging?limit=100&cursor={first['next']}")

    assert "103" in page
    assert "mem-99-0000" in page
    assert "mem-100-0000" not in page
    assert [one["memory"]["id"] for one in (*first["items"], *second["items"])] == [
        f"mem-{number}-0000" for number in range(103)
    ]


# --- an export --------------------------------------------------------------------------------


def test_an_export_is_what_the_command_line_writes(served: Served) -> None:
    fill(served.project, 25)

    exported = served.get(f"{ALL}/export")[1]

    (_, pieces), *_ = served.project.transfer.export("json", MemoryFilter()).files
    assert exported["memories"] == json.loads("".join(pieces))["memories"]
    assert served.get(f"{ALL}/export?type=decision")[1]["memories"] == []
    assert served.get(f"{ALL}/export?type=nonsense")[0] == 422


# --- what a hostile agent leaves ----------------------------------------------------------------


def test_an_answer_with_half_a_character_in_it_is_an_answer() -> None:
    said = encode_json({"text": f"a{HALF}b", "list": [HALF], HALF: 1, "fine": "字"})

    assert json.loads(said) == {"text": "a?b", "list": ["?"], "?": 1, "fine": "字"}


def test_a_run_can_be_watched_whatever_an_agent_writes_into_its_file(tmp_path: Path, served: Served) -> None:
    project = served.project
    project.tasks.add("Task")
    run = project.store.runs.start("test")
    begin(project.store, run.id)
    lines = [
        b'{"left_out":"0000000000000000"}',
        b'{"what":"output","at":"x","details":{"text":"\\ud800"}}',
        b'{"what":"output","at":"x","details":{"n":1e999}}',
        b'{"what":"output","at":"x","details":{"text":"fine"}}',
    ]
    folder = Path(project.directory, LIVE_FOLDER)
    folder.mkdir(parents=True)
    (folder / f"{run.id}.jsonl").write_bytes(b"\n".join(lines) + b"\n")

    status, told = served.get(f"/api/runs/{run.id}/live")

    assert status == 200
    assert [one["details"] for one in told["events"]] == [{"text": "fine"}]
    assert served.get(f"/api/runs/{run.id}/live?offset={told['offset']}")[0] == 200
    (folder / f"{run.id}.jsonl").write_bytes(b'{"left_out":"9999999999999999"}\n' + lines[-1] + b"\n")
    _, stuck = served.get(f"/api/runs/{run.id}/live?offset=0")
    assert served.get(f"/api/runs/{run.id}/live?offset={stuck['offset']}")[0] == 200
    assert run_log.read_events(project.directory, run.id)[0] == []


# --- runs -------------------------------------------------------------------------------------


def test_runs_are_listed_with_what_they_came_to_page_by_page(served: Served) -> None:
    store = served.project.store
    ids = []
    for number in range(53):
        served.project.tasks.add(f"Task {number}")
        run = store.runs.start("claude")
        task, attempt = begin(store, run.id)
        spent: dict[str, Any] = {"cost_usd": 1.5, "tokens_in": 1_000, "tokens_out": 234, "seconds": 61.0}
        finish(store, task, attempt, AttemptOutcome.DONE, TaskStatus.DONE, **spent)
        ids.append(run.id)
        if number:
            store.runs.end(run.id, "nothing <left>")

    first = served.ask("GET", "/runs").text
    link = first.partition('rel="next" href="')[2].partition('"')[0]
    second = served.ask("GET", link).text

    assert [first.count("data-run="), second.count("data-run=")] == [50, 3]
    assert f'href="/runs/{ids[-1]}"' in first
    assert f'href="/runs/{ids[0]}"' in second
    for text in ("claude", "$1.50", "1,234", "1 min 1 s", "100%", "nothing &lt;left&gt;"):
        assert text in first
    assert "abandoned</span>" in second
    assert 'rel="next"' not in second
    assert served.ask("GET", "/runs?cursor=!!").status == 422


def test_without_a_run_the_page_says_how_to_start_one(tmp_path: Path, served: Served) -> None:
    page = served.ask("GET", "/runs").text

    assert "No run yet" in page
    assert 'data-place="runs"' in page


def test_three_hundred_tasks_that_each_need_all_before_make_a_page_to_use(served: Served) -> None:
    ids = [f"t-{number:06x}" for number in range(300)]
    lines = [
        json.dumps({"id": id, "title": f"Dense {at}", "needs": ids[:at], "status": "open"}) for at, id in enumerate(ids)
    ]
    served.project.tasks.import_("\n".join(lines), "tasks.jsonl")

    for path in ("/tasks", "/tasks?show=list"):
        answer = served.ask("GET", path)
        assert answer.status == 200
        assert len(answer.body) < 1_000_000
    assert served.ask("GET", "/tasks").text.count('class="link"') == 299
