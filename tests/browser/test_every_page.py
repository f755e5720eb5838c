"""Every page there is: at a desk and on a phone, dark and light; new ones join by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from ralph.project import Project
from ralph.web.pages import PAGES
from ralph.workspace import init_project
from tests.browser.conftest import PHONE, Open, Watched
from tests.web.asking import ServedApart
from tests.web.known import filled, ids_in

LARGEST_FIRST_PAGE = 300_000
PATHS = sorted(page.path for page in PAGES)
DESK = (1440, 900)
STANDARDS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice", "experimental")
""""experimental" has the names of links and buttons that do not begin with what is to be seen."""

OPENED = """(id) => {
  const dialog = document.getElementById(id);
  dialog.showModal();
  const field = "input:not([type=hidden]), select, textarea";
  const first = [...dialog.querySelectorAll(field)].find((one) => one.getClientRects().length);
  return [first?.id ?? "", document.activeElement?.id ?? ""];
}"""

FLAWS = """() => {
  const told = (one) => one.outerHTML.slice(0, 160);
  const seen = (one) => one.getClientRects().length && getComputedStyle(one).visibility !== "hidden";
  const flaws = [];
  const headings = [...document.querySelectorAll("h1")].filter(seen);
  if (headings.length !== 1) flaws.push(`${headings.length} main headings`);
  const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
  for (const id of new Set(ids.filter((id, place) => ids.indexOf(id) !== place))) flaws.push(`twice: #${id}`);
  for (const what of ["aria-labelledby", "aria-controls", "aria-describedby", "for"])
    for (const one of document.querySelectorAll(`[${what}]`))
      for (const id of one.getAttribute(what).split(" ").filter(Boolean))
        if (!document.getElementById(id)) flaws.push(`${what} names nothing: ${told(one)}`);
  const wide = document.scrollingElement.scrollWidth;
  if (wide > innerWidth) {
    const isOut = (one) => one.getBoundingClientRect().right > innerWidth;
    const out = [...document.querySelectorAll("body *")].filter(isOut);
    flaws.push(`${wide} px wide in ${innerWidth}: ${out.slice(0, 3).map(told).join(" | ")}`);
  }
  return flaws;
}"""
"""What axe does not look at."""


@pytest.fixture(scope="session")
def known(looked_at: ServedApart) -> dict[str, list[str]]:
    with Project.open(looked_at.root) as project:
        return ids_in(project)


@pytest.fixture
def new(tmp_path: Path) -> Iterator[ServedApart]:
    """Return a server on a project in which nothing has happened."""
    init_project(tmp_path, environment={})
    with ServedApart(tmp_path) as server:
        yield server


def settled(page: Page) -> None:
    """Wait until a page has drawn what it draws; a stream of events keeps the network busy for ever."""
    page.wait_for_load_state("load")
    page.wait_for_timeout(150)


def barriers(page: Page) -> list[str]:
    """Return what axe finds that keeps people from using a page."""
    options = {"runOnly": {"type": "tag", "values": STANDARDS}, "resultTypes": ["violations"]}
    found = Axe().run(page, options=options).response["violations"]
    return [f"{one['id']} ({one['impact']}): {node['html'][:160]}" for one in found for node in one["nodes"]]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_every_page_is_fit_for_everybody(
    looked_at: ServedApart, open_page: Open, known: dict[str, list[str]], size: tuple[int, int], scheme: str
) -> None:
    page = open_page(looked_at, "/", size=size, scheme=scheme)
    flaws = []
    for path in PATHS:
        where = filled(path, known)
        assert where is not None, path
        answer = page.goto(f"{looked_at.url}{where}")
        assert answer is not None
        settled(page)
        flaws += [f"{where}: {flaw}" for flaw in (*page.evaluate(FLAWS), *barriers(page))]
        if answer.status != 200:
            flaws.append(f"{where}: {answer.status}")

    assert flaws == []


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_every_dialog_begins_at_its_first_field(
    looked_at: ServedApart, open_page: Open, known: dict[str, list[str]], size: tuple[int, int]
) -> None:
    page = open_page(looked_at, "/", size=size)
    flaws, seen = [], set()
    for path in PATHS:
        page.goto(f"{looked_at.url}{filled(path, known)}")
        settled(page)
        for id in page.locator("dialog").evaluate_all("all => all.map((one) => one.id)"):
            if id in seen:
                continue
            seen.add(id)
            first, focused = page.evaluate(OPENED, id)
            if first and first != focused:
                flaws.append(f"{path}: #{id} begins at {focused}, not at {first}")
            flaws += [f"{path}: #{id}: {flaw}" for flaw in barriers(page)]
            page.evaluate("(id) => document.getElementById(id).close()", id)

    assert {"add-task", "edit-task", "add-dialog", "keys"} <= seen
    assert flaws == []


def test_values_of_charts_can_be_read_aloud(looked_at: ServedApart, open_page: Open) -> None:
    page = open_page(looked_at, "/")
    expect(page.locator(".chart canvas")).to_have_count(3)

    for label, runs in (("Share of successful attempts, by run", True), ("Number of memories over time", False)):
        table = page.get_by_role("table", name=label)
        expect(table.get_by_role("columnheader").first).to_have_text("Run" if runs else "Time")
        assert table.get_by_role("rowheader").count() > 3
        assert all(text.strip() for text in table.get_by_role("cell").all_text_contents())
    assert page.get_by_role("table", name="Cost in US dollars, by run").get_by_text("$").count() > 3


def test_every_page_of_a_new_project_says_what_to_do_next(new: ServedApart, open_page: Open) -> None:
    page = open_page(new, "/", size=PHONE)
    for path in PATHS:
        if "{" not in path:
            page.goto(f"{new.url}{path}")
            settled(page)
            assert [*page.evaluate(FLAWS), *barriers(page)] == [], path
            assert path in ("/projects", "/api/docs") or page.locator(".empty:visible").count(), path


def test_the_first_page_is_small_and_soon_there(looked_at: ServedApart, open_page: Open) -> None:
    page = open_page(looked_at, "/projects")
    page.context.new_cdp_session(page).send("Network.clearBrowserCache")
    sizes: dict[str, int] = {}
    page.on("requestfinished", lambda request: sizes.update({request.url: request.sizes()["responseBodySize"]}))

    page.goto(f"{looked_at.url}/", wait_until="load")
    settled(page)

    whole = sum(sizes.values())
    assert any(url.endswith("/static/style.css") for url in sizes), sizes
    assert 10_000 < whole < LARGEST_FIRST_PAGE, sizes


def test_a_page_that_is_not_there_is_said_so_in_a_page(
    looked_at: ServedApart, open_page: Open, watched: Watched
) -> None:
    watched.expected.append("404 (Not Found)")
    page = open_page(looked_at, "/tasks/t-000000")

    assert [*page.evaluate(FLAWS), *barriers(page)] == []
    assert page.locator("main").get_by_text("t-000000").is_visible()
    page.get_by_role("link", name="Tasks").first.click()
    expect(page).to_have_url(f"{looked_at.url}/tasks")
