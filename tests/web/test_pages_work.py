"""The pages of the work half over HTTP: what they show, and that whatever is in a field is shown as text."""

from __future__ import annotations

import json
import subprocess
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from ralph.core.records import (
    AgentSession,
    Attempt,
    AttemptOutcome,
    HeldChange,
    Prompt,
    PromptSection,
    Task,
    TaskStatus,
    now,
)
from ralph.loop.attempt_details import DetailsFile
from ralph.loop.progress import progress_event
from ralph.loop.run_recorder import RunRecorder
from ralph.store.tasks import TaskDraft
from ralph.web.openapi import openapi_document
from ralph.web.pages.docs import describe_type
from ralph.web.pages.runs import report_line
from ralph.web.pages.tasks import MAX_UNLINKED_DONE_TASKS, truncate_to_columns
from tests.make import a_memory, a_report, begin, finish
from tests.web.asking import Served

HTML = "</textarea><script>alert('x')</script>\"'><img src=x onerror=alert(1)> javascript:alert(1)"


class Page(HTMLParser):
    """A page as a browser reads it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def all(self, name: str) -> list[str]:
        """Return the values of an attribute, wherever it stands."""
        return [attributes[name] for _, attributes in self.tags if name in attributes]

    def links(self, start: str = "/") -> list[str]:
        return [
            attributes["href"]
            for tag, attributes in self.tags
            if tag == "a" and attributes.get("href", "").startswith(start)
        ]


def see(served: Served, path: str, status: int = 200) -> Page:
    said = served.ask("GET", path)
    assert said.status == status, said.text
    assert said.kind == "text/html"
    return Page(said.text)


def attempted(
    served: Served,
    outcome: AttemptOutcome = AttemptOutcome.DONE,
    why: str = "",
    end: str | None = "nothing left",
    **fields: Any,
) -> tuple[Task, Attempt]:
    """Let a run make an attempt at the next task."""
    store = served.project.store
    run = store.runs.start("test")
    task, attempt = begin(store, run.id)
    report = a_report(attempt, why, fingerprint="same", category="test_failure", trace="Trace") if why else None
    status = TaskStatus.DONE if outcome is AttemptOutcome.DONE else TaskStatus.PENDING
    finish(store, task, attempt, outcome, status, report=report, **fields)
    if end:
        store.runs.end(run.id, end)
    return task, attempt


# --- everywhere -----------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/live", "/tasks", "/tasks?show=list", "/failures", "/journal", "/episodes"])
def test_a_page_of_an_empty_project_says_what_to_do(served_once: Served, path: str) -> None:
    page = see(served_once, path)

    assert any(value.startswith("empty") for value in page.all("class"))
    assert [tag for tag, _ in page.tags].count("h1") == 1


def test_whatever_is_in_a_field_is_text_on_every_page(served: Served) -> None:
    project = served.project
    project.features.add(HTML)
    first = project.tasks.add(HTML, HTML, feature=HTML)
    project.tasks.add("Then", needs=[first.id])
    task, attempt = attempted(served, AttemptOutcome.FAILED, HTML, notes=HTML, files=(HTML,), reason=HTML, model=HTML)
    project.tasks.block(first.id, HTML)
    project.tasks.log(first.id, HTML)
    session = AgentSession(id="s-1", agent=HTML, title=HTML, summary=HTML, prompts=1, started_at=now(), last_at=now())
    project.store.sessions.save(session)

    paths = [
        "/live",
        "/tasks",
        f"/tasks/{task.id}",
        f"/tasks/{task.id}?show=prompt",
        f"/tasks/{task.id}?show=ranking",
        "/failures",
        "/journal",
        f"/runs/{attempt.run_id}",
        "/sessions/s-1",
    ]
    for path in paths:
        page = see(served, path)
        assert HTML in page.text or HTML[:40] in page.text, path
        tags = [tag for tag, _ in page.tags]
        assert "img" not in tags, path
        assert all("src" in attributes for tag, attributes in page.tags if tag == "script"), path
        assert not page.all("style"), path
        assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")], path
        assert not [link for link in page.all("href") if not link.startswith(("/", "#"))], path


@pytest.mark.parametrize(
    "path",
    ["/tasks/t-000000", "/runs/run-00000000", "/live?run=run-00000000", "/sessions/nobody", "/tasks?feature=none"],
)
def test_what_is_not_there_is_said_on_a_page(served_once: Served, path: str) -> None:
    page = see(served_once, path, 404)

    assert "not found" in page.text.lower()
    assert "ralph task" not in page.text


@pytest.mark.parametrize(
    "path", ["/tasks?status=lost", "/journal?outcome=lost", "/journal?cursor=!!", "/failures?cursor=abc", "/tasks?x=1"]
)
def test_a_wrong_question_is_refused_with_a_sentence(served_once: Served, path: str) -> None:
    page = see(served_once, path, 422)

    assert "." in page.text


# --- tasks ----------------------------------------------------------------------------


def test_tasks_are_drawn_with_an_arrow_from_what_comes_first(served: Served) -> None:
    first = served.project.tasks.add("Lay the ground")
    then = served.project.tasks.add("Build on it", needs=[first.id])
    part = served.project.tasks.add("One wall", parent=then.id)

    page = see(served, "/tasks")

    nodes = {attributes["data-id"]: attributes for tag, attributes in page.tags if "data-id" in attributes}
    assert {id: one["data-status"] for id, one in nodes.items()} == {
        first.id: "ready",
        then.id: "waiting",
        part.id: "waiting",
    }
    links = {(one["data-first"], one["data-then"], one["data-kind"]) for _, one in page.tags if "data-first" in one}
    assert links == {(first.id, then.id, "needs"), (part.id, then.id, "part")}
    assert nodes[first.id]["href"] == f"/tasks/{first.id}"


def test_tasks_are_narrowed_by_status_and_feature(served: Served) -> None:
    project = served.project
    project.features.add("Door & lock")
    inside = project.tasks.add("Hang the door", feature="Door & lock")
    outside = project.tasks.add("Mow the lawn")
    done = project.tasks.add("Buy a door", feature="Door & lock")
    project.tasks.done(done.id)

    assert set(see(served, "/tasks").all("data-task")) == {inside.id, outside.id, done.id}
    assert see(served, "/tasks?status=done").all("data-task") == [done.id]
    assert see(served, "/tasks?status=ready").all("data-task") == [inside.id, outside.id]
    page = see(served, f"/tasks?feature={quote('Door & lock')}&status=pending")
    assert page.all("data-task") == [inside.id]
    assert set(page.all("data-id")) == {inside.id, done.id}
    assert "/tasks?status=done&feature=Door+%26+lock" in page.links()


def test_many_done_tasks_that_are_linked_to_nothing_are_only_listed(served: Served) -> None:
    for number in range(MAX_UNLINKED_DONE_TASKS + 1):
        served.project.tasks.done(served.project.tasks.add(f"Small {number}").id)
    open_one = served.project.tasks.add("Large")

    page = see(served, "/tasks")

    assert page.all("data-id") == [open_one.id]
    assert page.all("data-task")[0] == open_one.id
    assert len(page.all("data-task")) == MAX_UNLINKED_DONE_TASKS + 2
    assert f"{MAX_UNLINKED_DONE_TASKS + 1} more only in the list" in page.text


def test_a_task_shows_what_was_tried_and_why_it_failed(served: Served) -> None:
    served.project.tasks.add("Parse the file", "All of it.")
    task, attempt = attempted(served, AttemptOutcome.FAILED, "The parser wants tabs.", notes="I tried spaces.")

    page = see(served, f"/tasks/{task.id}")

    for text in ("Parse the file", "All of it.", "The parser wants tabs.", "I tried spaces.", "test failure", "Trace"):
        assert text in page.text
    assert page.all("data-attempt") == [f"{attempt.run_id}/{attempt.iteration}"]
    assert "/failures?fingerprint=same" in page.links()
    assert page.all("data-move") == ["done"]
    assert page.all("data-asks") == ["block", "fail"]


def test_a_task_shows_what_tasks_like_it_took(served: Served) -> None:
    store = served.project.store
    done = TaskStatus.DONE
    for n, (seconds, cost) in enumerate(((300, 0.3), (360, 0.4), (900, 0.9))):
        store.tasks.add(TaskDraft(title=f"Fix the bug {n}"))
        run = store.runs.start("test").id
        finish(store, *begin(store, run), AttemptOutcome.RETRIED, seconds=10.0)
        finish(store, *begin(store, run), AttemptOutcome.DONE, done, seconds=seconds - 10.0, cost_usd=cost)
    task = store.tasks.add(TaskDraft(title="Fix another bug"))

    page = see(served, f"/tasks/{task.id}")
    _, figures = served.get("/api/stats/tasks")

    assert "Tasks like this took 2 attempts, 6 min, $0.40 (median of 3 done)" in page.text
    assert [(one["task_type"], one["tasks"], one["attempts"]) for one in figures["items"]] == [("bug-fix", 3, 2)]
    assert served.get("/api/stats/failures")[1]["items"][0]["attempts"] == 3


def test_a_task_shows_the_prompt_of_its_next_attempt_on_demand(served: Served) -> None:
    served.project.memory.add("The parser wants tabs, not spaces.", type="fix")
    task = served.project.tasks.add("Mend the parser", "It wants tabs.")

    assert not see(served, f"/tasks/{task.id}").all("data-section")
    page = see(served, f"/tasks/{task.id}?show=prompt")
    assert page.all("data-section")
    assert "The parser wants tabs, not spaces." in page.text
    ranked = see(served, f"/tasks/{task.id}?show=ranking")
    assert len(ranked.all("data-memory")) == 1
    assert "included" in ranked.text


def test_every_task_can_be_reached_in_the_list(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ralph.web.pages.tasks.TASKS_PER_PAGE", 10)
    made = {served.project.tasks.add(f"Task {number}").id for number in range(25)}

    assert "Choose a status" in see(served, "/tasks").text
    path, seen = "/tasks?status=ready", set()
    while path:
        page = see(served, path)
        seen |= set(page.all("data-task"))
        path = next((link for link in page.links("/tasks?") if "cursor=" in link), "")

    assert seen == made


def test_failures_that_are_the_same_in_every_word_are_folded(served: Served) -> None:
    served.project.tasks.add("Parse the file")
    for why in ("No tabs.", "It crashed.", "It crashed.", "It crashed."):
        task, _ = attempted(served, AttemptOutcome.FAILED, why)
    served.project.tasks.block(task.id, "failed 4 times")

    page = see(served, f"/tasks/{task.id}")

    assert "same result 2 more times" in page.text
    assert page.text.count("It crashed.") == 1
    assert page.text.count("No tabs.") == 1
    assert len(page.all("data-attempt")) == 4
    assert {f"attempt-{number}" for number in range(1, 5)} <= set(page.all("id"))
    assert "until you reset it" in page.text


def test_tasks_to_choose_from_are_found_by_their_titles(served: Served) -> None:
    first = served.project.tasks.add('Lay "the" ground')
    task = served.project.tasks.add("Build on it", needs=[first.id])

    page = see(served, f"/tasks/{task.id}")

    assert f'Lay "the" ground · {first.id}' in page.all("value")
    assert [json.loads(one) for one in page.all("data-picked")] == [[[first.id, 'Lay "the" ground']]]


def test_a_done_task_can_only_be_reset(served: Served) -> None:
    task = served.project.tasks.add("Rest")
    served.project.tasks.done(task.id)

    page = see(served, f"/tasks/{task.id}")

    assert page.all("data-move") == ["reset"]
    assert not page.all("data-asks")


def test_a_title_is_cut_to_the_room_there_is() -> None:
    assert truncate_to_columns("short", 10) == "short"
    assert truncate_to_columns("a little too long", 10) == "a little…"
    assert truncate_to_columns("日本語のとても長い題名", 10) == "日本語の…"


# --- runs -----------------------------------------------------------------------------


def test_the_latest_run_is_shown_when_none_is_at_work(served: Served) -> None:
    served.project.tasks.add("Do it")
    task, attempt = attempted(served, end="nothing left that is ready")

    page = see(served, "/live")

    assert page.all("data-run") == [attempt.run_id]
    assert page.all("data-at-work") == ["false"]
    assert "No run in progress" in page.text
    assert "nothing left that is ready" in page.text
    assert f"/tasks/{task.id}" in page.links()


def test_a_run_whose_attempt_goes_on_is_at_work(served: Served) -> None:
    served.project.tasks.add("Do it")
    run = served.project.store.runs.start("test")
    begin(served.project.store, run.id)
    with RunRecorder(served.root, lambda _: None) as tell:
        tell(progress_event("run_started", run_id=run.id))

    page = see(served, "/live")

    assert page.all("data-run") == [run.id]
    assert (page.all("data-at-work"), page.all("data-here")) == (["true"], ["true"])
    assert page.all("data-iteration") == ["1"]
    assert see(served, f"/live?run={run.id}").all("data-run") == [run.id]


def test_a_run_shows_figures_models_and_what_was_learned(served: Served) -> None:
    project = served.project
    project.tasks.add("Learn something")
    run = project.store.runs.start("test")
    task, attempt = begin(project.store, run.id)
    memory = a_memory("Tabs", "The parser wants tabs.", id="mem-7-0000", origin_run=run.id)
    fields: dict[str, Any] = {"model": "large", "cost_usd": 1.5, "seconds": 61.0, "notes": "Done with tabs."}
    finish(project.store, task, attempt, AttemptOutcome.DONE, TaskStatus.DONE, memories=(memory,), **fields)
    project.store.runs.end(run.id, "nothing left")

    page = see(served, f"/runs/{run.id}")

    for text in ("large", "$1.50", "1 min 1 s", "Done with tabs.", "nothing left", "100%"):
        assert text in page.text
    assert len(page.all("data-memory")) == 1
    assert page.all("data-attempt") == [f"{run.id}/1"]


# --- failures -------------------------------------------------------------------------


def test_failures_are_counted_and_the_same_ones_put_together(served: Served) -> None:
    for number in range(3):
        served.project.tasks.add(f"Task {number}", priority=-number)
        task, _ = attempted(served, AttemptOutcome.FAILED, f"It broke, {number}.")
        served.project.tasks.block(task.id)

    page = see(served, "/failures")

    assert page.all("data-category") == ["test_failure"]
    assert page.all("data-fingerprint") == ["same"]
    assert len(page.all("data-report")) == 3
    assert "3 tasks" in page.text
    assert "Trace" in page.text
    assert len(see(served, f"/failures?task={task.id}").all("data-report")) == 1
    assert not see(served, "/failures?category=other").all("data-report")
    assert len(see(served, "/failures?fingerprint=same&category=test_failure").all("data-report")) == 3


def test_a_failure_is_told_once_by_its_error(served: Served) -> None:
    output = "python3 -m unittest -q\n======\nFAIL: test_total\nAssertionError: 127 != 128"
    served.project.tasks.add("Parse the file")
    run = served.project.store.runs.start("test").id
    task, attempt = begin(served.project.store, run)
    why = f"the gate `make test` failed: AssertionError: 127 != 128\n{output}"
    report = a_report(attempt, why, fingerprint="one", trace=output.partition("======\n")[2])
    finish(served.project.store, task, attempt, AttemptOutcome.RETRIED, TaskStatus.PENDING, report=report)

    failures = see(served, "/failures")
    page = see(served, f"/tasks/{task.id}")

    assert "AssertionError: 127 != 128" in failures.texts, "the error alone is the headline"
    assert not failures.all("data-fingerprint"), "a failure that occurred once is no group"
    assert see(served, "/failures?fingerprint=one").all("data-fingerprint") == ["one"]
    assert page.text.count("FAIL: test_total") == 1


def test_a_task_that_is_done_has_no_next_attempt(served: Served) -> None:
    served.project.tasks.add("Parse the file")
    task, _ = attempted(served)

    assert "Next attempt" not in see(served, f"/tasks/{task.id}").text
    assert see(served, f"/tasks/{task.id}?show=prompt").all("data-section")


def test_older_failures_are_on_the_next_page(served: Served) -> None:
    served.project.tasks.add("Try and try")
    for number in range(32):
        attempted(served, AttemptOutcome.FAILED, f"It broke, {number}.")

    first = see(served, "/failures")
    link = next(one for one in first.links("/failures?") if "cursor=" in one)
    second = see(served, link)

    assert (len(first.all("data-report")), len(second.all("data-report"))) == (30, 2)
    assert not set(first.all("data-report")) & set(second.all("data-report"))
    assert not [one for one in second.links("/failures?") if "cursor=" in one]


# --- the journal ----------------------------------------------------------------------


def test_the_journal_is_narrowed_searched_and_paged(served: Served) -> None:
    project = served.project
    for number in range(52):
        project.tasks.add(f"Task {number}", priority=-number)
        attempted(served, notes="About zebras." if number == 20 else f"Note {number}.")
    project.tasks.add("The last")
    failed, attempt = attempted(served, AttemptOutcome.FAILED, "No.", notes="It did not work.")
    session = AgentSession(id="s-1", agent="claude", title="Ask me", prompts=1, started_at=now(), last_at=now())
    project.store.sessions.save(session)

    first = see(served, "/journal")
    second = see(served, next(one for one in first.links("/journal?") if "cursor=" in one))

    assert len(first.all("data-attempt")) + len(first.all("data-session")) == 50
    assert len(second.all("data-attempt")) == 4
    assert first.all("data-session") == ["s-1"]
    name = f"{attempt.run_id}/1"
    for query in ("outcome=failed", f"task={failed.id}", f"run={attempt.run_id}", "q=did+not+work&outcome=failed"):
        assert see(served, f"/journal?{query}").all("data-attempt") == [name], query
    assert see(served, "/journal?outcome=session").all("data-session") == ["s-1"]
    assert "About zebras." in see(served, "/journal?q=zebras").text
    assert "Nothing found" in see(served, "/journal?q=giraffes").text
    assert "Ask me" in see(served, "/sessions/s-1").text


# --- the API for people ---------------------------------------------------------------


def test_every_operation_is_described(served_once: Served) -> None:
    page = see(served_once, "/api/docs")

    expected = {
        f"{method.upper()} {path}" for path, methods in openapi_document()["paths"].items() for method in methods
    }
    assert set(page.all("data-operation")) == expected


def test_a_link_in_the_explanation_leads_somewhere(served_once: Served) -> None:
    page = see(served_once, "/api/docs")

    ids = set(page.all("id"))
    assert not [link for link in page.all("href") if link.startswith("#") and link[1:] not in ids]


def test_types_are_told_in_words() -> None:
    assert describe_type({"type": "integer", "minimum": 1, "maximum": 200}) == "integer 1…200"
    assert describe_type({"anyOf": [{"$ref": "#/components/schemas/Task"}, {"type": "null"}]}) == "Task or null"
    assert describe_type({"type": "array", "items": {"type": "string"}}) == "list of string"
    assert describe_type({"enum": ["a", "b"]}) == '"a" | "b"'


def test_a_task_shows_the_change_it_waits_with_and_how_to_approve_it(served: Served) -> None:
    store = served.project.store
    store.tasks.add_all([TaskDraft(title="Held")])
    task, attempt = begin(store, store.runs.start("test").id)
    finish(store, task, attempt, AttemptOutcome.RETRIED, TaskStatus.BLOCKED)
    store.held_changes.add(
        HeldChange(
            task_id=task.id,
            run_id=attempt.run_id,
            iteration=attempt.iteration,
            digest="d",
            reason="why",
            diff=f"+\t{HTML}",
            created_at=now(),
        )
    )

    page = see(served, f"/tasks/{task.id}")

    assert f"ralph task approve {task.id}" in page.all("data-copy")
    assert any(f"+\t{HTML}" in text for text in page.texts)


def git_in(root: Path, *words: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    return subprocess.run(["git", *who, *words], cwd=root, check=True, capture_output=True, text=True).stdout.strip()


def test_the_changes_of_an_attempt_are_shown_as_text(served: Served) -> None:
    root, store = served.project.root, served.project.store
    git = partial(git_in, root)
    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "start")
    start = git("rev-parse", "HEAD")
    (root / "page.html").write_text(f"{HTML}\n")
    git("add", "page.html")
    git("commit", "-qm", "page")
    commit = git("rev-parse", "HEAD")
    store.tasks.add(TaskDraft(title="Write the page"))
    run = store.runs.start("test").id
    task, attempt = begin(store, run)
    finish(store, task, attempt, AttemptOutcome.DONE, TaskStatus.DONE, start_commit=start, commits=(commit,))
    where = f"/runs/{run}/attempts/{attempt.iteration}"

    page = see(served, where)
    found = served.get(f"/api{where}/diff")[1]

    assert f"+{HTML}" in "".join(page.texts)
    assert not any("onerror" in attributes for _, attributes in page.tags)
    assert commit[:12] in page.text
    assert (found["before"], found["after"]) == (start, commit)
    assert f"+{HTML}" in found["text"]
    assert served.get(f"/api/runs/{run}/attempts/99/diff")[0] == 404
    links = see(served, f"/runs/{run}/report").links()
    assert {f"/tasks/{task.id}", f"{where}#changes"} <= set(links), "a report leads to its tasks and commits"
    assert where in see(served, "/").links()


def test_changes_since_an_earlier_attempt_say_so(served: Served) -> None:
    root, store = served.project.root, served.project.store
    git = partial(git_in, root)
    git("init", "-q")
    commits = []
    for number in range(3):
        (root / "page.html").write_text(f"{number}\n")
        git("add", "page.html")
        git("commit", "-qm", f"version {number}")
        commits.append(git("rev-parse", "HEAD"))
    store.tasks.add(TaskDraft(title="Write the page"))
    run = store.runs.start("test").id
    saved: dict[str, Any] = {"start_commit": commits[0], "checkpoint": commits[1]}
    finish(store, *begin(store, run), AttemptOutcome.RETRIED, TaskStatus.PENDING, **saved)
    saved = {"start_commit": commits[1], "commits": (commits[2],)}
    finish(store, *begin(store, run), AttemptOutcome.DONE, TaskStatus.DONE, **saved)

    assert "since attempt" not in see(served, f"/runs/{run}/attempts/1").text
    assert "since attempt 1" in see(served, f"/runs/{run}/attempts/2").text


def test_an_attempt_that_only_told_its_result_says_so(served: Served) -> None:
    served.project.tasks.add("Write the page")
    _, attempt = attempted(served)
    prompt = Prompt(text="Do it.", tokens=2, sections=(PromptSection(name="task", text="Do it.", tokens=2),))
    DetailsFile(served.project.root, attempt, prompt).save()

    page = see(served, f"/runs/{attempt.run_id}/attempts/{attempt.iteration}")

    assert "The agent wrote nothing but its result." in page.text
    assert "episodes.capture" not in page.text


# --- report ---------------------------------------------------------------------------


def test_a_report_is_a_page_and_a_file_to_save(served: Served) -> None:
    served.project.tasks.add("Fix it")
    task, attempt = attempted(served, AttemptOutcome.FAILED, "Tests are red.", reason=HTML)
    served.project.tasks.block(task.id, HTML)
    path = f"/runs/{attempt.run_id}/report"

    page = see(served, path)
    html = served.ask("GET", f"/api{path}?format=html")
    told = served.ask("GET", f"/api{path}")

    assert "ralph task reset" not in page.text, "a page leads to pages"
    assert f"ralph task reset {task.id}" in html.text
    assert HTML[:40] in page.text
    assert "img" not in [tag for tag, _ in page.tags]
    assert f"/api{path}?format=html" in page.links("/api")
    assert path in see(served, f"/runs/{attempt.run_id}").links()
    assert path in see(served, "/").links()
    assert html.kind == "text/html"
    assert html.headers["content-disposition"] == f'attachment; filename="{attempt.run_id}.html"'
    assert "<script" not in html.text
    assert told.json["waiting"][0]["id"] == task.id
    assert served.ask("GET", f"/api{path}?format=markdown").kind == "text/plain"
    assert served.ask("GET", "/api/runs/run-none/report").status == 404


@pytest.mark.parametrize(
    ("text", "label", "href"),
    [
        ("2 tasks need you, too: ralph task list --status blocked", "Show them", "/tasks?status=blocked"),
        ("ralph task answer t-1 'TEXT'", "Answer", "/tasks/t-1#answer"),
        ("Unfinished work is saved: ralph task diff t-1", "See its attempts", "/tasks/t-1#attempts"),
        ("ralph run --resume", "Start a run", "/#start-run"),
        ("To measure it: ralph run --holdout 0.1", "", ""),
        ("Nothing is left to do.", "", ""),
    ],
)
def test_a_report_leads_to_pages_instead_of_commands(text: str, label: str, href: str) -> None:
    line = report_line(text, can_steer=True)

    assert (line.label, line.href) == (label, href)
    assert ("ralph" in line.text) == ("ralph" in text and not href)
    assert report_line("ralph run", can_steer=False).href == ""
