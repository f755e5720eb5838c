"""Tasks, features, runs, attempts, the journal, failures and figures over HTTP."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from ralph.core.errors import UsageError
from ralph.core.paging import Page
from ralph.core.records import AgentSession, Attempt, AttemptOutcome, TaskStatus, now, timestamp
from ralph.loop.options import RunOptions, dump_options
from ralph.loop.progress import progress_event
from ralph.loop.run_recorder import RunRecorder
from ralph.loop.workers import _start_time, worker_name
from ralph.project import Project
from ralph.workspace import init_project
from tests.make import a_report, begin, finish
from tests.web.asking import Served

HTML = "<script>alert('x')</script> & \"quotes\""


def test_a_task_is_added_seen_changed_and_deleted(served: Served) -> None:
    status, task = served.post("/api/tasks", {"title": HTML, "body": "All of it.", "priority": 7})

    assert (status, task["title"], task["priority"], task["status"]) == (201, HTML, 7, "pending")
    path = f"/api/tasks/{task['id']}"
    assert served.get(path)[1]["task"] == task
    assert served.put(path, {"title": "Shorter", "priority": -1})[1]["title"] == "Shorter"
    status, seen = served.get(path)
    assert (status, seen["task"]["title"], seen["task"]["body"], seen["task"]["priority"]) == (
        200,
        "Shorter",
        "All of it.",
        -1,
    )
    assert seen["metrics"]["total_attempts"] == 0
    assert served.delete(path) == (200, {"deleted": [task["id"]]})
    assert served.get(path)[0] == 404
    assert served.delete(path)[0] == 404


def test_tasks_have_parents_features_and_needs(served: Served) -> None:
    assert served.post("/api/features", {"name": "Login", "spec": "Let people in."})[0] == 201
    whole = served.post("/api/tasks", {"title": "Whole", "feature": "Login"})[1]
    first = served.post("/api/tasks", {"title": "First", "parent": whole["id"]})[1]
    then = served.post("/api/tasks", {"title": "Then", "parent": whole["id"], "needs": [first["id"]]})[1]

    assert first["feature_id"] == whole["feature_id"]
    seen = served.get(f"/api/tasks/{first['id']}")[1]
    assert [one["id"] for one in seen["needed_by"]] == [then["id"]]
    graph = served.get("/api/tasks/graph")[1]
    assert {one["id"] for one in graph["tasks"]} == {whole["id"], first["id"], then["id"]}
    assert {"first": first["id"], "then": then["id"], "kind": "needs"} in graph["links"]
    assert {"first": first["id"], "then": whole["id"], "kind": "part"} in graph["links"]
    assert graph["is_whole"]
    assert [one["id"] for one in served.get("/api/tasks?ready=true")[1]["items"]] == [first["id"]]
    status, changed = served.put(f"/api/tasks/{then['id']}/needs", {"remove": [first["id"]]})
    assert (status, changed["needs"]) == (200, [])
    status, problem = served.put(f"/api/tasks/{first['id']}/needs", {"add": [first["id"]]})
    assert (status, problem["detail"]) == (409, f"A task cannot wait for itself: {first['id']}")
    taken_out = served.put(f"/api/tasks/{first['id']}", {"parent": "", "feature": ""})[1]
    assert (taken_out["parent_id"], taken_out["feature_id"]) == (None, None)


def test_a_graph_that_is_too_large_leaves_out_the_oldest_of_the_done_ones(served: Served) -> None:
    tasks = [served.project.tasks.add(f"Task {number}") for number in range(4)]
    for task in tasks[:2]:
        served.project.tasks.done(task.id)

    graph = served.get("/api/tasks/graph?limit=3")[1]

    assert [one["title"] for one in graph["tasks"]] == ["Task 2", "Task 3", "Task 1"]
    assert not graph["is_whole"]


def test_features_are_listed_seen_by_name_and_deleted_while_their_tasks_stay(served: Served) -> None:
    feature = served.post("/api/features", {"name": HTML, "plan": "Slowly."})[1]
    task = served.post("/api/tasks", {"title": "One", "feature": HTML})[1]

    assert served.get("/api/features")[1]["items"][0]["counts"] == {"pending": 1}
    assert served.get(f"/api/features/{feature['id']}")[1]["tasks"][0]["id"] == task["id"]
    assert served.get(f"/api/features/{quote('<script>alert(1)', safe='')}")[0] == 404
    assert served.get(f"/api/features/{feature['id']}")[1]["feature"]["plan"] == "Slowly."
    assert served.post("/api/features", {"name": HTML})[0] == 422
    assert served.put(f"/api/features/{feature['id']}", {"plan": "Fast."})[1]["plan"] == "Fast."
    assert served.delete(f"/api/features/{feature['id']}")[1]["name"] == HTML
    assert served.get(f"/api/tasks/{task['id']}")[1]["feature"] is None


def test_a_question_is_answered_once(served: Served) -> None:
    task = served.project.tasks.add("One")
    path = f"/api/tasks/{task.id}"
    assert served.post(f"{path}/answer", {"answer": "Cents."})[1]["code"] == "nothing-to-answer"
    served.post(f"{path}/block", {"reason": "Cents or euros?"})

    assert served.post(f"{path}/answer", {"answer": ""})[0] == 422
    assert served.post(f"{path}/answer", {"answer": HTML})[1]["status"] == "pending"
    assert served.post(f"{path}/answer", {"answer": "No."})[0] == 409

    (question,) = served.get(path)[1]["questions"]
    assert (question["text"], question["answer"], question["answered_by"]) == ("Cents or euros?", HTML, "person")


def test_a_person_decides_about_a_task_and_the_log_says_so(served: Served) -> None:
    path = f"/api/tasks/{served.project.tasks.add('One').id}"

    assert served.post(f"{path}/block", {"reason": HTML})[1]["reason"] == HTML
    assert served.post(f"{path}/reset")[1]["status"] == "pending"
    assert served.post(f"{path}/fail")[1]["status"] == "failed"
    assert served.post(f"{path}/fail")[0] == 409
    assert served.post(f"{path}/done")[1]["status"] == "done"
    status, log = served.post(f"{path}/log", {"message": "Looked at."})

    assert status == 201
    assert [one["message"] for one in log["items"]] == [
        f"Set to blocked by hand: {HTML}",
        "Set to pending by hand.",
        "Set to failed by hand.",
        "Set to done by hand.",
        "Looked at.",
    ]
    assert {one["who"] for one in log["items"]} == {"person"}
    assert served.get(f"{path}/log")[1] == log


def test_an_agent_starts_no_server(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RALPH_SESSION", "s-1")

    with pytest.raises(UsageError, check=lambda error: error.code == "person-required"):
        Served(Path(project.directory), project)


def test_the_prompt_of_the_next_attempt_can_be_seen(served: Served) -> None:
    task = served.project.tasks.add("Fix the parser", "It wants tabs.")

    status, prompt = served.get(f"/api/tasks/{task.id}/prompt")

    assert status == 200
    assert "It wants tabs." in prompt["text"]
    assert sum(section["tokens"] for section in prompt["sections"]) > 0
    assert served.get("/api/tasks/t-none/prompt")[0] == 404


@pytest.mark.parametrize("narrowed", ["", "&status=pending", "&ready=true"])
def test_tasks_come_in_pages_each_once_most_urgent_first(served: Served, narrowed: str) -> None:
    for number in range(7):
        served.project.tasks.add(f"Task {number}", priority=number % 3)

    titles = [one["title"] for one in _all_pages(served, f"/api/tasks?limit=2{narrowed}")]

    assert titles == [f"Task {number}" for number in (2, 5, 1, 4, 0, 3, 6)]


def test_a_task_added_between_two_pages_moves_nothing(served: Served) -> None:
    for number in range(4):
        served.project.tasks.add(f"Task {number}")
    first = served.get("/api/tasks?limit=2")[1]

    served.project.tasks.add("Urgent", priority=9)

    second = served.get(f"/api/tasks?limit=2&cursor={first['next']}")[1]
    assert [one["title"] for one in second["items"]] == ["Task 2", "Task 3"]


# --- what happened ------------------------------------------------------------------------------


def test_runs_attempts_and_failures_are_listed_newest_first_in_pages(served: Served) -> None:
    attempts = _worked(served.project, 5)
    run = attempts[0].run_id

    listed = _all_pages(served, "/api/attempts?limit=2")
    assert [one["iteration"] for one in listed] == [5, 4, 3, 2, 1]
    assert [one["iteration"] for one in _all_pages(served, f"/api/attempts?limit=2&run={run}")] == [5, 4, 3, 2, 1]
    of_task = _all_pages(served, f"/api/attempts?limit=1&task={attempts[0].task_id}")
    assert {one["task_id"] for one in of_task} == {attempts[0].task_id}
    assert len(_all_pages(served, "/api/attempts?limit=2&outcome=failed")) == 5
    assert served.get("/api/attempts?outcome=done")[1] == {"items": [], "next": None}
    assert [one["iteration"] for one in _all_pages(served, "/api/failures?limit=2")] == [5, 4, 3, 2, 1]
    assert len(_all_pages(served, "/api/failures?limit=1&category=odd")) == 2
    assert len(_all_pages(served, "/api/failures?limit=2&fingerprint=same")) == 3
    assert served.get(f"/api/runs/{run}/attempts/3")[1]["iteration"] == 3
    status, seen = served.get(f"/api/runs/{run}")
    assert (status, seen["run"]["id"], seen["stats"]["failed"], seen["running"]) == (200, run, 5, [])


def test_runs_come_in_pages(served: Served) -> None:
    runs = [_worked(served.project, 1)[0].run_id for _ in range(5)]

    assert [one["id"] for one in _all_pages(served, "/api/runs?limit=2")] == runs[::-1]
    assert [one["id"] for one in served.get("/api/stats/runs?limit=1")[1]["items"]] == runs[-1:]


def test_failures_are_counted_by_category_and_by_what_is_the_same(served: Served) -> None:
    attempts = _worked(served.project, 5)

    counts = served.get("/api/failures/counts")[1]

    assert [(one["category"], one["failures"]) for one in counts["categories"]] == [("even", 3), ("odd", 2)]
    groups = counts["fingerprints"]
    assert [(one["fingerprint"], one["failures"]) for one in groups] == [("same", 3), ("other", 2)]
    assert groups[0]["tasks"] == len({one.task_id for one in attempts[::2]})
    assert groups[0]["example"]["iteration"] == 5
    assert groups[0]["first"] <= groups[0]["latest"] == groups[0]["example"]["created_at"]


def test_the_journal_holds_attempts_and_sessions_in_order_of_time(served: Served) -> None:
    attempts = _worked(served.project, 3)
    _sessions(served.project, 3)

    entries = _all_pages(served, "/api/journal?limit=2")

    assert [one["at"] for one in entries] == sorted((one["at"] for one in entries), reverse=True)
    assert [one["attempt"]["iteration"] for one in entries if one["attempt"]] == [3, 2, 1]
    assert [one["session"]["id"] for one in entries if one["session"]] == ["s-2", "s-1", "s-0"]
    narrowed = _all_pages(served, f"/api/journal?limit=2&run={attempts[0].run_id}")
    assert [one["attempt"]["iteration"] for one in narrowed] == [3, 2, 1]


def test_the_journal_is_searched_by_any_text(served: Served) -> None:
    _worked(served.project, 2, notes="The parser wants tabs.")
    _sessions(served.project, 1)

    found = served.get("/api/journal/search?q=parser%20tabs")[1]["items"]

    assert [one["attempt"]["iteration"] for one in found if one["attempt"]]
    assert served.get("/api/journal/search?q=question")[1]["items"][0]["session"]["id"] == "s-0"
    for text in ("", "\0", "'\"", "x" * 10_000, "AND OR NOT (", "%", "日本"):
        assert served.get(f"/api/journal/search?q={quote(text, safe='')}")[0] == 200, text
    assert served.get("/api/journal/search")[0] == 422


def test_sessions_come_in_pages_and_one_is_seen_by_its_beginning(served: Served) -> None:
    _sessions(served.project, 5)

    assert [one["id"] for one in _all_pages(served, "/api/sessions?limit=2")] == ["s-4", "s-3", "s-2", "s-1", "s-0"]
    assert served.get("/api/sessions/s-3")[1]["title"] == "Question 3"
    assert served.get("/api/sessions/s-")[0] == 422
    assert served.get("/api/sessions/none")[0] == 404


def test_the_status_figures_and_lift_are_given(served: Served) -> None:
    _worked(served.project, 3)

    status = served.get("/api/status")[1]
    assert (status["attempts"], status["failed"], status["trouble"][0]["task"]["title"]) == (3, 3, "Task 0")
    assert served.get("/api/stats/models")[1]["items"][0]["attempts"] == 3
    assert len(served.get("/api/stats/decisions?limit=2")[1]["items"]) == 2
    assert served.get("/api/stats/memory")[1]["memories"] == 0
    assert served.get("/api/lift")[1]["verdict"] == "not enough data"


def test_projects_are_listed_and_seen_by_name_id_or_as_this_one(served: Served) -> None:
    served.project.tasks.add("One")
    listed = served.get("/api/projects")[1]["items"]
    (own,) = [one for one in listed if one["is_here"]]

    assert own["tasks"] == 1
    assert [served.get(f"/api/projects/{name}")[1] for name in ("-", own["id"], own["name"])] == [own] * 3
    assert served.get("/api/projects/none")[0] == 404


def test_another_project_of_the_database_is_listed_but_its_tasks_are_not_found(
    tmp_path: Path, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RALPH_STORE", store_url)
    for name in ("own", "other"):
        (tmp_path / name).mkdir()
        init_project(tmp_path / name)
    with Project.open(tmp_path / "other") as other:
        theirs = other.tasks.add("Theirs")
    with Project.open(tmp_path / "own") as own:
        served = Served(tmp_path / "own", own)
        try:
            assert served.get("/api/projects/other")[1]["tasks"] == 1
            assert served.get(f"/api/tasks/{theirs.id}")[0] == 404
            assert served.delete(f"/api/tasks/{theirs.id}")[0] == 404
            with served.stream("/api/events?since=0-0") as stream:
                assert stream.readline() == b"retry: 2000\n"
                assert stream.readline() == b"id: 0-0\n"
                own.tasks.add("Ours")
                lines = [stream.readline() for _ in range(4)]
            assert b'"title":"Ours"' in lines[3]
        finally:
            served.close()


# --- live ---------------------------------------------------------------------------------------


def test_what_a_run_tells_is_read_on_from_where_one_was(served: Served) -> None:
    run = served.project.store.runs.start("test")
    with RunRecorder(served.root, lambda _: None) as tell:
        tell(progress_event("run_started", run_id=run.id))
        first = served.get(f"/api/runs/{run.id}/live")[1]
        tell(progress_event("note", message=HTML))
        second = served.get(f"/api/runs/{run.id}/live?offset={first['offset']}")[1]
    nothing = served.get(f"/api/runs/{run.id}/live?offset={second['offset']}")[1]

    assert [one["what"] for one in first["events"]] == ["run_started"]
    assert [one["details"]["message"] for one in second["events"]] == [HTML]
    assert nothing == {"events": [], "offset": second["offset"], "is_over": False}
    served.project.store.runs.end(run.id, "all done")
    assert served.get(f"/api/runs/{run.id}/live?offset={second['offset']}")[1]["is_over"]


def test_a_run_is_not_over_before_its_last_word_was_read(served: Served) -> None:
    runs = served.project.store.runs
    with subprocess.Popen([sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"]) as worker:
        try:
            name = f"{worker_name().rpartition('/')[0].rpartition('/')[0]}/{worker.pid}/{_start_time(worker.pid)}"
            run = runs.start("test", dump_options(RunOptions(), name))
            with RunRecorder(served.root, lambda _: None) as tell:
                tell(progress_event("run_started", run_id=run.id))
                runs.end(run.id, "all done")
                before = served.get(f"/api/runs/{run.id}/live")[1]
                waiting = served.get(f"/api/runs/{run.id}/live?offset={before['offset']}")[1]
                tell(progress_event("run_ended", run_id=run.id, ending="all done"))
            after = served.get(f"/api/runs/{run.id}/live?offset={before['offset']}")[1]
        finally:
            worker.kill()

    assert (before["is_over"], waiting["is_over"]) == (False, False)
    assert ([one["what"] for one in after["events"]], after["is_over"]) == (["run_ended"], True)


# --- what makes no sense ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/api/tasks?limit=0", 422),
        ("/api/tasks?limit=201", 422),
        ("/api/tasks?limit=many", 422),
        ("/api/tasks?cursor=garbage", 422),
        ("/api/tasks?cursor=%F0%9F%98%80", 422),
        ("/api/tasks?cursor=WzEsIngiXQ", 422),
        ("/api/tasks?cursor=WzEsOTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5XQ", 422),
        ("/api/attempts?cursor=bnVsbA", 422),
        ("/api/runs?cursor=InJ1bi1ub25lIg", 422),
        ("/api/runs?cursor=InJ1blx1MDAwMCI", 422),
        ("/api/journal?cursor=WzEsICJcdTAwMDAiLCAxXQ", 422),
        ("/api/tasks?status=odd", 422),
        ("/api/tasks?unknown=1", 422),
        ("/api/tasks?limit=1&limit=2", 422),
        ("/api/tasks?feature=none", 404),
        ("/api/tasks?feature=%00", 422),
        ("/api/attempts?task=t-none", 404),
        ("/api/attempts?task=%00", 422),
        ("/api/attempts?run=run-none", 404),
        ("/api/attempts?outcome=odd", 422),
        ("/api/failures?task=t-none", 404),
        ("/api/failures?category=%00", 422),
        ("/api/runs/run-none", 404),
        ("/api/runs/%00", 404),
        ("/api/runs/run-none/live", 404),
        ("/api/runs/run-none/live?offset=-1", 422),
        ("/api/runs/run-none/live?offset=1e99", 422),
        ("/api/runs/run-none/attempts/1", 404),
        ("/api/runs/run-none/attempts/one", 422),
        ("/api/runs/run-none/attempts/99999999999999999999", 422),
        ("/api/runs/%00/attempts/1", 404),
        ("/api/tasks/%00", 404),
        ("/api/tasks/%00/log", 404),
        ("/api/tasks/%FF%FE", 404),
        ("/api/features/%00", 404),
        ("/api/sessions/%00", 404),
        ("/api/projects/%00", 404),
        ("/api/tasks/..%2f..%2fetc", 404),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_sentence(served: Served, path: str, expected: int) -> None:
    status, problem = served.get(path)

    assert (status, problem["status"]) == (expected, expected), problem
    assert problem["detail"].endswith((".", "list")) or ": " in problem["detail"]


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ({}, 422),
        ({"title": ""}, 422),
        ({"title": " \t"}, 422),
        ({"title": "\0"}, 422),
        ({"title": 1}, 422),
        ({"title": "One", "priority": "high"}, 422),
        ({"title": "One", "priority": 2**70}, 422),
        ({"title": "One", "priority": 1.5}, 422),
        ({"title": "One", "needs": "t-1"}, 422),
        ({"title": "One", "needs": ["t-none"]}, 404),
        ({"title": "One", "needs": ["\0"]}, 422),
        ({"title": "One", "parent": "t-none"}, 404),
        ({"title": "One", "parent": "\0"}, 422),
        ({"title": "One", "feature": "none"}, 404),
        ({"title": "One", "feature": "\0"}, 422),
        ({"title": "One", "status": "done"}, 422),
        (["One"], 422),
        (None, 422),
    ],
)
def test_a_task_that_makes_no_sense_is_refused(served: Served, sent: Any, expected: int) -> None:
    status, problem = served.post("/api/tasks", sent)

    assert (status, problem["status"]) == (expected, expected), problem
    assert served.get("/api/tasks")[1]["items"] == []


def test_a_change_that_changes_nothing_is_refused(served: Served) -> None:
    path = f"/api/tasks/{served.project.tasks.add('One').id}"

    assert served.put(path, {})[0] == 422
    assert served.put(path, {"title": ""})[0] == 422
    assert served.put(path, {"parent": "t-none"})[0] == 404
    assert served.put("/api/tasks/t-none", {"title": "x"})[0] == 404
    assert served.put("/api/tasks/t-none/needs", {"add": ["t-none"]})[0] == 404
    assert served.put(f"{path}/needs", {"add": ["t-none"]})[0] == 404
    assert served.post("/api/tasks/t-none/log", {"message": "x"})[0] == 404
    assert served.post(f"{path}/log", {"message": " "})[0] == 422


def test_text_comes_back_without_secrets_and_control_sequences(served: Served) -> None:
    secret = "ghp_" + "a1B2" * 9
    task = served.post("/api/tasks", {"title": f"Use {secret}", "body": "\x1b[31mred\x1b[0m"})[1]

    assert secret not in task["title"]
    assert "\x1b" not in task["body"]


# --- making it ----------------------------------------------------------------------------------


def _all_pages(served: Served, path: str) -> list[Any]:
    """Return what all pages hold, together."""
    found: list[Any] = []
    cursor = ""
    while True:
        status, page = served.get(path + cursor)
        assert status == 200, page
        found += page["items"]
        if page["next"] is None:
            return found
        assert page["items"]
        cursor = f"&cursor={quote(page['next'])}"


def _worked(project: Project, attempts: int, notes: str = "") -> list[Attempt]:
    """Let so many attempts at a few tasks fail, in turn in one of two ways."""
    store = project.store
    if not project.tasks.list():
        for number in range(2):
            project.tasks.add(f"Task {number}")
    run = store.runs.start("test")
    made = []
    for number in range(attempts):
        task, attempt = begin(store, run.id)
        is_odd = number % 2
        report = a_report(
            attempt, category="odd" if is_odd else "even", fingerprint="other" if is_odd else "same", why=HTML
        )
        finish(store, task, attempt, AttemptOutcome.FAILED, TaskStatus.PENDING, report=report, notes=notes)
        made.append(attempt)
    store.runs.end(run.id, "enough")
    return made


def _sessions(project: Project, count: int) -> None:
    import time

    for number in range(count):
        at = timestamp(time.time() - 1_000 + number)
        project.store.sessions.save(
            AgentSession(
                id=f"s-{number}", agent="claude", title=f"Question {number}", prompts=1, started_at=at, last_at=at
            )
        )


def test_a_page_of_the_journal_takes_the_newest_of_both_kinds(project: Project) -> None:
    journal = project.journal
    assert journal.list(Page(limit=5)) == []

    later = timestamp(4_000_000_000)
    project.store.sessions.save(AgentSession(id="s-late", agent="claude", prompts=1, started_at=now(), last_at=later))
    attempts = _worked(project, 2)

    entries = journal.list(Page(limit=2))
    assert entries[0].session
    assert entries[0].session.id == "s-late"
    rest = journal.list(Page(limit=2, after=entries.next))
    assert rest[0].attempt
    assert (rest[0].attempt.iteration, rest.next) == (attempts[0].iteration, None)
