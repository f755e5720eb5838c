"""Text that wants to be more than text, in every field that others can fill: it is shown, and nothing of it runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from ralph.core.records import AttemptOutcome, EpisodeKind, Memory, MemoryState, TaskStatus, now
from ralph.project import Project
from ralph.store.memories import ChangeInfo
from ralph.web.pages import PAGES
from ralph.workspace import init_project
from tests.browser.conftest import PHONE, Open
from tests.make import a_report, an_episode, begin, finish
from tests.web.asking import ServedApart
from tests.web.known import filled, ids_in

MARK = "hostile-text"
PIECES = (
    "<script>window.ran = 1</script>",
    '"><img src=x onerror="window.ran = 2">',
    "'><svg/onload=window.ran=3>",
    "</script><script>window.ran = 4</script>",
    "</textarea></title></style><iframe srcdoc='<script>parent.ran = 5</script>'></iframe>",
    "[a link](javascript:window.ran=6) [[javascript:window.ran=7]] javascript:window.ran=8",
    "{{ 7 * 7 }}{% raw %}${window.ran = 9}",
    "\u202egnp.exe\u2066\u200b\ufeff \x1b[31mred\x1b]0;title\x07 \x00 \x9b31m",
    "<!--",
    "-->",
    "]]>",
    "&lt;b&gt;&#x27;",
    "\\u003cscript\\u003e",
)
ALL = f"{MARK} {' '.join(PIECES)}"


def fill(project: Project) -> None:
    """Put hostile text wherever text can be put, by the ways it comes in."""
    feature = project.features.add(f"feature {ALL}"[:180], ALL, ALL)
    first = project.tasks.add(ALL, ALL, feature=feature.id)
    second = project.tasks.add(f"second {ALL}", ALL, needs=[first.id], parent=None)
    project.tasks.add(f"part {ALL}", ALL, parent=second.id)
    project.tasks.log(first.id, ALL)
    blocked = project.tasks.add(f"blocked {ALL}", ALL)
    project.tasks.block(blocked.id, ALL)
    added = project.memory.add(ALL, title=ALL, type="knowledge", tags=list(PIECES), files=list(PIECES))
    project.memory.edit(added.memory.id, content=f"{ALL} edited", why=ALL)
    project.memory.add(f"other {ALL} [[{added.memory.title}]]", title=f"other {ALL}")
    staged = Memory(
        id="",
        kind="pitfall",
        title=ALL,
        content=ALL,
        state=MemoryState.STAGED,
        state_reason=ALL,
        created_at=now(),
        updated_at=now(),
    )
    project.store.memories.insert_unchecked(staged, ChangeInfo(who=ALL, why=ALL))
    project.store.episodes.add(
        [
            an_episode(f"{kind} {ALL}\nAgent: {ALL}", kind=kind, source=f"{kind}-{MARK}", agent=ALL, files=PIECES)
            for kind in (EpisodeKind.SESSION, EpisodeKind.COMMIT)
        ]
    )
    run = project.store.runs.start(f"agent {ALL}", "{}")
    for outcome, status in ((AttemptOutcome.RETRIED, TaskStatus.PENDING), (AttemptOutcome.DONE, TaskStatus.DONE)):
        task, attempt = begin(project.store, run.id)
        report = (
            a_report(attempt, ALL, tried=ALL, trace=ALL, category=PIECES[0])
            if outcome is AttemptOutcome.RETRIED
            else None
        )
        finish(
            project.store,
            task,
            attempt,
            outcome,
            status,
            report=report,
            notes=ALL,
            reason=ALL,
            model=ALL,
            model_reason=ALL,
            files=PIECES,
            shown=(added.memory.id,),
        )
    project.store.runs.end(run.id, ALL, 1.0)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("hostile") / "<img src=x onerror=window.ran=10>"
    directory.mkdir()
    init_project(directory, environment={})
    with Project.open(directory) as project:
        fill(project)
    return directory


@pytest.fixture
def served(hostile: Path) -> Iterator[ServedApart]:
    with ServedApart(hostile) as server:
        yield server


def test_nothing_runs_and_all_is_shown(served: ServedApart, open_page: Open) -> None:
    with Project.open(served.root) as project:
        known = ids_in(project)
    page = open_page(served, "/", size=PHONE)
    for path in sorted(one.path for one in PAGES):
        where = filled(path, known)
        if where is None:
            continue
        page.goto(f"{served.url}{where}")
        page.wait_for_timeout(150)
        assert harmless(page), where
        assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth"), where
        if where not in ("/api/docs", "/projects"):
            assert MARK in page.inner_text("body"), where


def harmless(page: Page) -> bool:
    """Return whether nothing ran, and nothing is there that could."""
    links = page.evaluate("[...document.querySelectorAll('a')].map((one) => one.protocol ?? ':')")
    return (
        page.evaluate("window.ran ?? null") is None
        and set(links) <= {"http:", ":", ""}
        and page.locator("iframe, img, main script:not([type='application/json'])").count() == 0
    )


def test_nothing_runs_where_a_script_shows_it(served: ServedApart, open_page: Open) -> None:
    page = open_page(served, "/memories")

    page.keyboard.press("n")
    page.locator("#add-content").fill(f"fresh {ALL}")
    page.locator("#add-form").get_by_role("button", name="Add", exact=True).click()
    expect(page.locator("#toasts")).to_contain_text("Added")
    page.get_by_role("searchbox").fill(MARK)
    expect(page.locator("#result-title")).to_have_text("Best matches")
    expect(page.locator("#results")).to_contain_text(PIECES[0])
    assert harmless(page)
    page.goto(f"{served.url}/staging")
    page.keyboard.press("y")
    expect(page.locator("#toasts")).to_contain_text("Kept")
    assert harmless(page)
    page.goto(f"{served.url}/tasks")
    page.keyboard.press("n")
    page.locator("#new-title").fill(f"fresh {ALL}"[:400])
    page.locator("#add-task-form").get_by_role("button", name="Add", exact=True).click()
    expect(page.locator("#toasts")).to_contain_text("Added")

    assert harmless(page)
