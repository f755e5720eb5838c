"""Every page there is: at a desk and on a phone, dark and light; new ones join by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from ralph.project import Project
from ralph.web.pages import PAGES
from ralph.workspace import init_project
from tests.browser.conftest import PHONE, WIDE, Open, Watched
from tests.web.asking import ServedApart
from tests.web.known import filled, ids_in

LARGEST_FIRST_PAGE = 300_000
PATHS = sorted(page.path for page in PAGES)

FLAWS = """() => {
  const told = (one) => one.outerHTML.slice(0, 160);
  const seen = (one) => one.getClientRects().length && getComputedStyle(one).visibility !== "hidden";
  const said = (one, what) => (one.getAttribute(what) || "").trim();
  const named = (one) => said(one, "aria-label") || said(one, "title") || said(one, "aria-labelledby");
  const flaws = [];
  const headings = [...document.querySelectorAll("h1")].filter(seen);
  if (headings.length !== 1) flaws.push(`${headings.length} main headings`);
  for (const one of document.querySelectorAll("input:not([type=hidden]), select, textarea"))
    if (!one.labels?.length && !named(one)) flaws.push(`no label: ${told(one)}`);
  for (const one of document.querySelectorAll("button, a[href], summary, [role=button]"))
    if (!named(one) && !one.textContent.trim() && !one.querySelector("[aria-label]"))
      flaws.push(`no name: ${told(one)}`);
  for (const one of document.querySelectorAll("img:not([alt])")) flaws.push(`no alt: ${told(one)}`);
  const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
  for (const id of new Set(ids.filter((id, place) => ids.indexOf(id) !== place))) flaws.push(`twice: #${id}`);
  for (const what of ["aria-labelledby", "aria-controls", "aria-describedby", "for"])
    for (const one of document.querySelectorAll(`[${what}]`))
      for (const id of said(one, what).split(" ").filter(Boolean))
        if (!document.getElementById(id)) flaws.push(`${what} names nothing: ${told(one)}`);
  if (!document.documentElement.lang) flaws.push("no language");
  if (!document.title) flaws.push("no title");
  const wide = document.scrollingElement.scrollWidth;
  if (wide > innerWidth) {
    const isOut = (one) => one.getBoundingClientRect().right > innerWidth;
    const out = [...document.querySelectorAll("body *")].filter(isOut);
    flaws.push(`${wide} px wide in ${innerWidth}: ${out.slice(0, 3).map(told).join(" | ")}`);
  }
  return flaws;
}"""


PALE = """() => {
  const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 });
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  const over = (colours) => {
    pen.clearRect(0, 0, 1, 1);
    for (const colour of ["#fff", ...colours]) { pen.fillStyle = colour; pen.fillRect(0, 0, 1, 1); }
    return [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = (colour) => {
    const linear = (part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    const [red, green, blue] = colour.map((part) => linear(part / 255));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const behind = (one) => {
    const found = [];
    for (; one; one = one.parentElement) found.unshift(getComputedStyle(one).backgroundColor);
    return found;
  };
  const pale = new Map();
  const all = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (all.nextNode()) {
    const one = all.currentNode.parentElement;
    if (!all.currentNode.data.trim() || !one.checkVisibility({ visibilityProperty: true })) continue;
    if (one.closest("svg, :disabled, [aria-hidden=true], .visually-hidden, .skip, script, style, option")) continue;
    const look = getComputedStyle(one);
    const ground = behind(one);
    const [first, second] = [light(over([...ground, look.color])), light(over(ground))];
    const ratio = (Math.max(first, second) + 0.05) / (Math.min(first, second) + 0.05);
    const size = parseFloat(look.fontSize);
    const enough = size >= 24 || (size >= 18.6 && look.fontWeight >= 700) ? 3 : 4.5;
    if (ratio < enough) pale.set(`${look.color} on ${ground}`, `${ratio.toFixed(2)}: ${one.outerHTML.slice(0, 120)}`);
  }
  return [...pale.values()];
}"""


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


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["desk", "phone"])
def test_every_page_is_fit_to_be_seen(
    looked_at: ServedApart, open_page: Open, known: dict[str, list[str]], size: tuple[int, int]
) -> None:
    page = open_page(looked_at, "/", size=size)
    flaws = []
    for path in PATHS:
        where = filled(path, known)
        if where is None:
            continue
        answer = page.goto(f"{looked_at.url}{where}")
        assert answer is not None
        settled(page)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            flaws += [f"{where}, {scheme}: {flaw}" for flaw in page.evaluate(FLAWS)]
            flaws += [f"{where}, {scheme}, pale: {flaw}" for flaw in page.evaluate(PALE)]
        if answer.status != 200:
            flaws.append(f"{where}: {answer.status}")

    assert flaws == []


def test_every_page_of_a_new_project_says_what_to_do_next(new: ServedApart, open_page: Open) -> None:
    page = open_page(new, "/", size=PHONE)
    for path in PATHS:
        if "{" not in path:
            page.goto(f"{new.url}{path}")
            settled(page)
            assert page.evaluate(FLAWS) == [], path
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

    assert page.evaluate(FLAWS) == []
    assert page.locator("main").get_by_text("t-000000").is_visible()
    page.get_by_role("link", name="Tasks").first.click()
    expect(page).to_have_url(f"{looked_at.url}/tasks")
