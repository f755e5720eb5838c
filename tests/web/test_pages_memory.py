"""The pages of the memory half, over HTTP: overview, memories, one memory, staging, projects."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

import pytest

from ralph.core.paging import Page as Paging
from ralph.core.records import AttemptOutcome, MemoryState, TaskStatus, now, replace
from ralph.loop.options import RunOptions, dump_options
from ralph.loop.workers import worker_name
from ralph.memory.lifecycle.lift import Arm, Lift, LiftVerdict, Measure
from ralph.project import Project
from ralph.web import rendering
from ralph.web.markdown import MAX_DIFF_WORDS, render_inline_markdown, render_markdown, word_diff
from ralph.web.pages.lift import _bar
from ralph.web.rendering import STATIC, ago, figure, level, number, percent, points, seconds, usd, when
from tests.make import a_memory, a_report, begin, finish, remember
from tests.web.asking import Served

EVIL = "\"'><img src=x onerror=alert(1)><script>alert(2)</script> {{ 7*7 }} ${1} </script>"
PAGES = ("/", "/memories", "/memories?q=parser", "/staging", "/staging?show=rejected", "/projects")


class Page(HTMLParser):
    """What a page is made of, as a browser reads it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._inside: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside.append(tag)

    def handle_data(self, data: str) -> None:
        if not self._inside or self._inside[-1] != "script":
            self.text += data

    def handle_endtag(self, tag: str) -> None:
        while self._inside and self._inside.pop() != tag:
            pass

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [given for name, given in self.tags if name == tag]


def page_of(served: Served, path: str, status: int = 200) -> Page:
    said = served.ask("GET", path)
    assert (said.status, said.kind) == (status, "text/html"), Page(said.text).text
    return Page(said.text)


def rows(page: Page) -> list[str]:
    return [given["data-id"] or "" for given in page.all("li") if "memory-row" in (given.get("class") or "")]


def a_worked_project(project: Project, text: str) -> str:
    """Fill a project with one of everything, each field holding a text; return the id of a memory that was used."""
    project.features.add(text[:60])
    project.tasks.add(text, text)
    project.tasks.add(f"Blocked {text}")
    project.tasks.block(project.tasks.list()[1].id, text)
    memory = project.memory.add(text, title=text, tags=(text[:40], "tests"), files=(text[:50],)).memory
    project.memory.edit(memory.id, content=f"Changed {text}", why=text)
    run = project.store.runs.start(text)
    task, attempt = begin(project.store, run.id)
    report = a_report(attempt, text, tried=text, category=text[:20], trace=text)
    finish(
        project.store,
        task,
        attempt,
        AttemptOutcome.FAILED,
        report=report,
        shown=(memory.id,),
        model=text,
        model_reason=text,
        notes=text,
        reason=text,
    )
    for state in (MemoryState.STAGED, MemoryState.QUARANTINED, MemoryState.REJECTED):
        learned = a_memory(
            f"{state} {text}", f"Learned {state} {text}", kind="pattern", state=state, tags=(text[:40],), hat=text[:30]
        )
        remember(project.store, replace(learned, state_reason=text, origin_session=text, origin_loops=(text,)))
    return memory.id


# --- all of them ------------------------------------------------------------------------


@pytest.mark.parametrize("path", PAGES)
def test_a_page_of_an_empty_project_says_what_to_do(served: Served, path: str) -> None:
    page = page_of(served, path)

    assert len(page.all("h1")) == 1
    assert any(given.get("aria-current") == "page" for given in page.all("a"))
    assert "None" not in page.text


def test_html_in_any_field_is_shown_as_text(served: Served) -> None:
    id = a_worked_project(served.project, EVIL)
    task = served.project.tasks.list()[0].id

    for path in (*PAGES, f"/memories/{id}", f"/memories/{id}?task={task}", f"/memories?q={quote(EVIL)}"):
        page = page_of(served, path)

        assert not page.all("img"), path
        assert all(given.get("src") or given.get("type") == "application/json" for given in page.all("script")), path
        if path not in ("/projects", "/memories?q=parser"):
            assert "<img src=x onerror=alert(1)>" in page.text, path
        assert "49" not in re.findall(r"{{[^}]*}}|\b49\b", page.text), path


@pytest.mark.parametrize("path", PAGES)
def test_nothing_in_a_page_needs_what_its_policy_forbids(served: Served, path: str) -> None:
    id = a_worked_project(served.project, "The parser wants tabs")

    for page in (page_of(served, path), page_of(served, f"/memories/{id}")):
        for tag, given in page.tags:
            assert tag != "style"
            assert "style" not in given
            assert not any(name.startswith("on") for name in given)
            assert not (given.get("href") or "").startswith(("http:", "https:", "javascript:", "//"))


def test_every_field_of_a_form_has_a_label(served: Served) -> None:
    id = a_worked_project(served.project, "The parser wants tabs")

    for path in (*PAGES, f"/memories/{id}"):
        page = page_of(served, path)
        labelled = {given.get("for") for given in page.all("label")}
        for tag in ("input", "textarea", "select"):
            for given in page.all(tag):
                if given.get("type") not in ("checkbox", "hidden"):
                    assert given.get("id") in labelled, (path, given)


def test_every_file_a_page_or_a_script_asks_for_is_there(served: Served) -> None:
    id = a_worked_project(served.project, "The parser wants tabs")
    wanted = {"/static/vendor/uplot/uPlot.iife.min.js", "/static/vendor/uplot/uPlot.min.css"}
    for path in (*PAGES, f"/memories/{id}"):
        page = page_of(served, path)
        wanted |= {given["src"] or "" for given in page.all("script") if given.get("src")}
        wanted |= {given["href"] or "" for given in page.all("link")}
    for script in STATIC.glob("*.js"):
        wanted |= {f"/static/{name}" for name in re.findall(r'from "(?:\./|/static/)([\w.]+)"', script.read_text())}

    for path in sorted(wanted):
        assert served.ask("GET", path).status == 200, path


def test_the_first_page_is_light(served: Served) -> None:
    page = served.ask("GET", "/")
    files = ("style.css", "theme.js", "ui.js", "overview.js", "charts.js", "icon.svg")
    chart = ("vendor/uplot/uPlot.iife.min.js", "vendor/uplot/uPlot.min.css")

    total = len(page.body) + sum((STATIC / name).stat().st_size for name in (*files, *chart))

    assert total < 150_000


# --- overview -----------------------------------------------------------------------------


def test_the_overview_says_where_the_project_stands(served: Served) -> None:
    a_worked_project(served.project, "Mend the parser")

    page = page_of(served, "/")

    assert "2 learnings to review" in page.text
    assert "Blocked" in page.text
    assert "Mend the parser" in page.text
    assert "failed 1 time in a row" in page.text
    assert "Being retried" in page.text
    assert "Next:" in page.text
    assert "0 of 1 attempts succeeded" in page.text
    assert {given["href"] for given in page.all("a")} >= {"/live", "/staging", "/tasks?status=blocked"}


def test_the_overview_links_to_what_runs_now(served: Served) -> None:
    served.project.tasks.add("Mend the parser")
    run = served.project.store.runs.start("test")
    begin(served.project.store, run.id, worker_name())

    page = page_of(served, "/")

    assert "Running now" in page.text
    assert "attempt 1" in page.text


@pytest.mark.parametrize(
    ("settings", "command"),
    [
        ("", "ralph run --agent claude"),
        ('[agent]\nname = "codex"\n', "ralph run"),
        ('[agent]\ncommand = ["x"]\n', "ralph run"),
    ],
)
def test_the_command_that_is_told_can_be_typed(served: Served, settings: str, command: str) -> None:
    (served.root / ".ralph.toml").write_text(settings)

    page = page_of(served, "/")
    told = {given["data-copy"] for given in page.all("span") if given.get("data-copy")}

    assert command in told
    assert f"{command} --holdout 0.1" in page.text
    assert [given["href"] for given in page.all("a") if "primary" in (given.get("class") or "")] == ["/tasks#add"]


@pytest.mark.parametrize(
    ("agent", "command"),
    [("codex", "ralph run --agent codex --holdout 0.1"), ("command", "ralph run --holdout 0.1 -- …")],
)
def test_the_command_that_is_told_names_the_agent_of_the_latest_run(served: Served, agent: str, command: str) -> None:
    served.project.store.runs.start(agent)

    assert command in page_of(served, "/").text
    assert command in page_of(served, "/impact").text


def a_lift(low: float, difference: float, high: float) -> Lift:
    arm = Arm(attempts=30, tasks=20, done=10)
    success = Measure(
        name="success", unit="%", with_memory=80, without=50, difference=difference, low=low, high=high, percent=60
    )
    return Lift(
        is_enough=True,
        verdict=LiftVerdict.HELPS,
        says="It helps.",
        with_memory=arm,
        without=arm,
        measures=(success,),
        shown=30,
        shown_says="",
    )


@pytest.mark.parametrize(("low", "high"), [(10.0, 30.0), (-30.0, -10.0), (-10.0, 10.0), (0.0, 0.0), (-100.0, 100.0)])
def test_the_interval_of_the_lift_is_drawn_on_a_scale_that_has_its_zero(low: float, high: float) -> None:
    bar = _bar(a_lift(low, (low + high) / 2, high))

    assert bar
    assert 0 < bar.zero < 100
    assert 0 < bar.low <= bar.middle <= bar.low + bar.width + 0.02 < 100
    assert (bar.low > bar.zero) == (low > 0)
    assert (bar.low + bar.width < bar.zero - 0.02) == (high < 0)


def test_without_enough_data_the_lift_says_so_and_draws_nothing(served: Served) -> None:
    page = page_of(served, "/")

    assert "not enough data" in page.text
    assert not [given for given in page.all("svg") if given.get("class") == "lift-bar"]


# --- memories -------------------------------------------------------------------------------


def test_a_search_works_without_scripts_and_says_why(served: Served) -> None:
    wanted = served.project.memory.add("The parser wants tabs", tags=["parser"]).memory
    served.project.memory.add("Deploy on Mondays")

    page = page_of(served, "/memories?q=parser")

    assert rows(page)[0] == wanted.id
    assert "Why this score" in page.text
    assert "contains query words" in page.text
    assert [given["value"] for given in page.all("input") if given.get("name") == "q"] == ["parser"]


def test_filters_are_those_of_the_api_and_stay_chosen(served: Served) -> None:
    fix = served.project.memory.add("Mend it so", type="fix", tags=["a"]).memory
    served.project.memory.add("Do it so", type="pattern", tags=["b"])
    gone = served.project.memory.add("Forget it", type="fix").memory
    served.project.memory.delete(gone.id)

    assert rows(page_of(served, "/memories?type=fix")) == [fix.id]
    assert rows(page_of(served, "/memories?tag=a&tag=b&type=fix")) == [fix.id]
    assert rows(page_of(served, "/memories?state=pruned")) == [gone.id]
    assert rows(page_of(served, "/memories?stale=true")) == []
    page = page_of(served, "/memories?type=fix&source=explicit")
    chosen = {(given["name"], given["value"]) for given in page.all("input") if "checked" in given}
    assert chosen == {("type", "fix"), ("source", "explicit"), ("state", "active")}


@pytest.mark.parametrize("query", ["type=nonsense", "state=nonsense", "cursor=nonsense", "stale=maybe", "x=1"])
def test_a_wrong_filter_is_a_page_with_a_sentence(served: Served, query: str) -> None:
    page = page_of(served, f"/memories?{query}", 422)

    assert query.partition("=")[0] in page.text


def test_more_memories_come_page_by_page(served: Served) -> None:
    for place in range(53):
        remember(served.project.store, a_memory(f"Memory {place}", f"Says {place}", id=f"mem-1-{place:04x}"))

    first = page_of(served, "/memories?type=knowledge")
    more = next(given["href"] for given in first.all("a") if given.get("id") == "more-button")
    second = page_of(served, more or "")

    assert len(rows(first)) == 50
    assert len(rows(second)) == 3
    assert not set(rows(first)) & set(rows(second))


def test_memories_of_another_project_are_a_choice_away(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RALPH_STORE_PROJECT", served.project.store.project_name)
    other = served.project.store.projects.add("elsewhere")
    apart = served.project.open_other("elsewhere")
    memory = apart.memory.add("Known elsewhere").memory

    page = page_of(served, f"/memories?project={other.id}")

    assert rows(page) == [memory.id]
    assert "elsewhere" in page.text
    assert page_of(served, f"/memories/{memory.id}", 404)
    assert "Known elsewhere" in page_of(served, f"/memories/{memory.id}?project=elsewhere").text
    assert "elsewhere" in page_of(served, "/projects").text


# --- one memory ---------------------------------------------------------------------------------


def test_a_memory_shows_its_history_and_what_it_did(served: Served) -> None:
    id = a_worked_project(served.project, "The parser wants tabs")

    page = page_of(served, f"/memories/{id}")

    assert "Changed The parser wants tabs" in page.text
    assert [given["data-status"] for given in page.all("li") if given.get("data-event")] == ["edited", "added"]
    assert {given.get("data-act") for given in page.all("button")} >= {"edit", "confirm", "delete", "undo", "back"}
    assert "failed" in page.text
    assert any((given.get("href") or "").startswith("/runs/run-") for given in page.all("a"))


def test_figures_of_a_learning_are_shown_as_people_write_them(served: Served) -> None:
    figures = {"avg_seconds": 296.20799999999997, "iterations": 3, "steps": ["read", "fix"], "by_model": {"opus": 0.5}}
    learned = a_memory("Took long", kind="estimate", state=MemoryState.STAGED, structured_content=json.dumps(figures))
    id = remember(served.project.store, learned).id

    for path in (f"/memories/{id}", "/staging"):
        page = page_of(served, path)
        assert "296.21" in page.text
        assert "296.2079" not in page.text
        assert "avg seconds" in page.text
        assert '"steps"' not in page.text


@contextmanager
def a_worker() -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Start a process, and give it with the name that it would have as a worker."""
    with subprocess.Popen(["sleep", "60"]) as process:
        start = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19]
        yield process, f"{worker_name().split('/')[0]}/{process.pid}/{start}"


def test_a_run_that_was_killed_is_abandoned_and_its_task_ready(served: Served) -> None:
    project = served.project
    project.tasks.add("Mend the parser")
    with a_worker() as (process, name):
        run = project.store.runs.start("test", dump_options(RunOptions(), name))
        begin(project.store, run.id, name)
        assert "abandoned" not in page_of(served, "/runs").text
        process.kill()

    deadline = time.monotonic() + 20
    while project.tasks.counts().get(TaskStatus.IN_PROGRESS) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert "abandoned" in page_of(served, "/runs").text
    assert "abandoned" in page_of(served, f"/runs/{run.id}").text
    overview = page_of(served, "/")
    assert "Running now" not in overview.text
    assert "its process is gone" in overview.text
    assert project.journal.attempts(Paging(limit=1))[0].outcome is AttemptOutcome.INTERRUPTED


def test_a_run_that_waits_between_attempts_is_not_abandoned(served: Served) -> None:
    with a_worker() as (process, name):
        run = served.project.store.runs.start("test", dump_options(RunOptions(), name))
        shown = [page_of(served, path).text for path in ("/runs", f"/runs/{run.id}")]
        process.kill()

    assert all("running" in text and "abandoned" not in text for text in shown)


def test_a_memory_out_of_use_offers_to_bring_it_back(served: Served) -> None:
    memory = served.project.memory.add("Forget it").memory
    served.project.memory.delete(memory.id, why="It was wrong")

    page = page_of(served, f"/memories/{memory.id}")

    assert "Restore" in page.text
    assert "It was wrong" in page.text
    assert not {given.get("data-act") for given in page.all("button")} & {"edit", "delete"}


def test_a_memory_says_why_it_is_shown_for_a_task(served: Served) -> None:
    memory = served.project.memory.add("The parser wants tabs").memory
    task = served.project.tasks.add("Mend the parser")

    page = page_of(served, f"/memories/{memory.id}?task={task.id}")

    assert "contains query words" in page.text
    assert "in the next prompt" in page.text


@pytest.mark.parametrize("path", ["/memories/nothing", "/memories/%3Cb%3E", "/memories/%00", "/nowhere"])
def test_what_is_not_there_is_a_page_that_says_so(served: Served, path: str) -> None:
    page = page_of(served, path, 404)

    assert len(page.all("h1")) == 1
    assert not page.all("b")


@pytest.mark.parametrize("query", ["project=nowhere", "task=t-000000"])
def test_a_project_or_task_that_is_not_there_is_said(served: Served, query: str) -> None:
    memory = served.project.memory.add("The parser wants tabs").memory

    assert "not found" in page_of(served, f"/memories/{memory.id}?{query}", 404).text


def test_any_words_can_be_searched_for(served: Served) -> None:
    served.project.memory.add("The parser wants tabs")

    for said in ("%00", "%22", "'", "%25_%5C", "x" * 10_000, "%F0%9F%A6%8A", "%FF", "((", "*"):
        page_of(served, f"/memories?q={said}")


# --- staging -----------------------------------------------------------------------------------------


def test_staging_shows_what_waits_with_its_origin_and_what_holds_it_back(served: Served) -> None:
    task = served.project.tasks.add("Mend the parser")
    learned = a_memory("Use tabs", "Tabs it is.", kind="pattern", state=MemoryState.QUARANTINED, support=3)
    remember(
        served.project.store, replace(learned, origin_task=task.id, origin_run="run-1", state_reason="by an agent")
    )

    page = page_of(served, "/staging")

    assert "Mend the parser" in page.text
    assert "by an agent" in page.text
    assert "3 times" in page.text
    assert {given.get("data-decide") for given in page.all("button")} >= {"keep", "reject", "edit", "skip"}


def test_what_was_rejected_can_be_put_back(served: Served) -> None:
    learned = remember(
        served.project.store, a_memory("Use tabs", "Tabs it is.", kind="pattern", state=MemoryState.STAGED)
    )
    served.project.learnings.reject(learned.id, "We use spaces")

    page = page_of(served, "/staging?show=rejected")

    assert "We use spaces" in page.text
    assert {given.get("data-decide") for given in page.all("button")} >= {"restore"}
    assert "Nothing to review" in page_of(served, "/staging").text
    assert "show" in page_of(served, "/staging?show=nonsense", 422).text


# --- texts ------------------------------------------------------------------------------------


def test_code_stress_and_links_are_shown_as_such_and_all_else_as_text() -> None:
    said = render_markdown(
        "Use `a < b`, **not** <b>that</b>; see [[Tabs & spaces]].", {"Tabs & spaces": "mem-1"}, "?project=x"
    )

    assert said == (
        "Use <code>a &lt; b</code>, <strong>not</strong> &lt;b&gt;that&lt;/b&gt;; "
        'see <a href="/memories/mem-1?project=x">Tabs &amp; spaces</a>.'
    )


def test_a_link_to_what_is_not_known_leads_to_a_search() -> None:
    assert render_markdown('[["><img>]]', None, "?project=x") == (
        '<a href="/memories?q=%22%3E%3Cimg%3E&amp;project=x">&#34;&gt;&lt;img&gt;</a>'
    )
    assert render_inline_markdown("See [[Tabs]] and `x`") == "See Tabs and <code>x</code>"


@pytest.mark.parametrize(
    "text", ["", "`", "``", "**", "****", "[[", "[[]]", "[[[[a]]", "`a\nb`", "<`b`>", "a * b ** c"]
)
def test_what_is_half_marked_is_text(text: str) -> None:
    assert "<script" not in render_markdown(f"{text}<script>")
    assert re.sub(r"<[^>]*>", "", render_markdown(text)).replace("&lt;", "<").replace("&gt;", ">").strip("<>`") in text


def test_a_change_marks_the_words_that_changed() -> None:
    pieces = word_diff("The parser wants tabs, always.", "The parser wants spaces, always.")

    assert pieces == [
        ("same", "The parser wants "),
        ("gone", "tabs"),
        ("new", "spaces"),
        ("same", ", always."),
    ]
    assert word_diff("", "New") == [("new", "New")]
    assert word_diff("Old", "") == [("gone", "Old")]
    assert word_diff("One thing", "Wholly else, my dear") == [("gone", "One thing"), ("new", "Wholly else, my dear")]
    assert [how for how, _ in word_diff("a " * MAX_DIFF_WORDS, "b " * MAX_DIFF_WORDS)] == ["gone", "new"]


def test_a_memory_shows_its_marks_and_what_an_edit_changed(served: Served) -> None:
    other = served.project.memory.add("All about tabs", type="knowledge", title="Tabs").memory
    said = "Use `make`, see [[Tabs]] and [[Nowhere]]."
    memory = served.project.memory.add(said, type="knowledge", title="How to begin").memory
    served.project.memory.edit(memory.id, content="Use `make db`, see [[Tabs]] and [[Nowhere]].")

    page = page_of(served, f"/memories/{memory.id}")
    links = {given.get("href") for given in page.all("a")}

    assert {f"/memories/{other.id}", "/memories?q=Nowhere"} <= links
    assert len(page.all("ins")) == 1
    assert not page.all("del")
    assert page.all("code")
    assert [given["data-to"] for given in page.all("button") if given.get("data-act") == "redo"] == []


def test_what_was_taken_back_can_be_done_again(served: Served) -> None:
    memory = served.project.memory.add("The parser wants tabs").memory
    served.project.memory.edit(memory.id, content="The parser wants spaces")
    edited = served.project.memory.history(memory.id)[-1].seq
    served.project.memory.undo(memory.id)

    page = page_of(served, f"/memories/{memory.id}")

    assert [given["data-to"] for given in page.all("button") if given.get("data-act") == "redo"] == [str(edited)]
    assert "undo" not in {given.get("data-act") for given in page.all("button")}
    assert f"#{edited}" in page.text


def test_a_memory_offers_to_be_shared_or_unshared(served: Served) -> None:
    memory = served.project.memory.add("The parser wants tabs").memory

    def offered() -> set[str | None]:
        page = page_of(served, f"/memories/{memory.id}")
        return {given.get("data-act") for given in page.all("button")} & {"share", "unshare"}

    assert offered() == {"share"}
    served.project.memory.sharing.share(memory.id)
    assert offered() == {"unshare"}
    served.project.memory.sharing.unshare(memory.id)
    assert offered() == {"share"}


def test_what_was_deleted_is_called_so(served: Served) -> None:
    memory = served.project.memory.add("Forget it").memory
    served.project.memory.delete(memory.id)

    for path in (f"/memories/{memory.id}", "/memories?state=pruned"):
        page = page_of(served, path)
        assert "pruned" not in page.text
        assert "deleted" in page.text


# --- how values are shown ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("moment", "said"),
    [
        ("2026-01-10T12:00:00.000Z", "just now"),
        ("2026-01-10T11:58:00.000Z", "2 min ago"),
        ("2026-01-10T09:00:00.000Z", "3 h ago"),
        ("2026-01-01T12:00:00.000Z", "9 d ago"),
        ("2025-11-01T12:00:00.000Z", "2 mo ago"),
        ("2020-01-10T12:00:00.000Z", "6 y ago"),
        ("2026-01-10T13:00:00.000Z", "in 1 h"),
        ("0001-01-01", "0001-01-01"),
        ("nonsense", "nonsense"),
    ],
)
def test_a_moment_is_said_as_people_say_it(moment: str, said: str) -> None:
    assert ago(moment, "2026-01-10T12:00:00.000Z") == said


def test_a_moment_that_is_none_is_text() -> None:
    assert "<b>" not in when("<b>")
    assert "just now" in when(now())


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (number(1234567), "1,234,567"),
        (number(None), "–"),
        (figure(296.20799999999997), "296.21"),
        (figure(1200), "1,200"),
        (figure(0.5), "0.5"),
        (figure(True), "yes"),
        (figure(None), "–"),
        (usd(0.0123), "$0.0123"),
        (usd(1234.5), "$1,234.50"),
        (usd(0), "$0.00"),
        (percent(0.256), "26%"),
        (percent(None), "–"),
        (points(-0.05), "−5.0"),
        (seconds(3.21), "3.2 s"),
        (seconds(75), "1 min 15 s"),
        (seconds(7_384), "2 h 3 min"),
        (level(0.9), "high"),
        (level(0.5), "middle"),
        (level(0.1), "low"),
    ],
)
def test_a_value_is_shown_in_a_few_characters(said: str, shown: str) -> None:
    assert said == shown


def test_every_template_can_be_read() -> None:
    for template in rendering.TEMPLATES.glob("*.html"):
        assert rendering.environment.get_template(template.name)


def test_no_template_takes_data_for_html() -> None:
    for template in rendering.TEMPLATES.glob("*.html"):
        assert not re.search(r"\|\s*safe\b|autoescape", template.read_text()), template.name


def test_no_script_takes_data_for_html() -> None:
    for script in STATIC.glob("*.js"):
        assert not re.search(
            r"\.(innerHTML|outerHTML)\s*=|insertAdjacentHTML|document\.write|\beval\(", script.read_text()
        )
