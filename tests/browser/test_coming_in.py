"""Coming in by the link, finding one's way by keys, and the theme."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import MILLISECONDS, PHONE, Open, Watched
from tests.web.asking import ServedApart


@pytest.fixture
def stranger(browser: Browser, looked_at: ServedApart, watched: Watched) -> Page:
    """Return a page of a browser that nobody has let in."""
    watched.hosts += [looked_at.url, looked_at.link.partition("/?")[0]]
    page = browser.new_page()
    page.set_default_timeout(MILLISECONDS)
    page.on("console", watched.console)
    page.on("request", watched.request)
    return page


def test_the_link_leads_in_and_the_token_is_seen_nowhere(looked_at: ServedApart, stranger: Page) -> None:
    home = looked_at.link.partition("/?")[0]
    stranger.goto(looked_at.link.replace("/?", "/tasks?"))

    expect(stranger.get_by_role("heading", level=1, name="Tasks")).to_be_visible()
    assert stranger.url == f"{home}/tasks"
    assert looked_at.token not in stranger.content()
    assert stranger.evaluate("document.cookie") == ""
    stranger.goto(f"{home}/memories")
    expect(stranger.get_by_role("heading", level=1, name="Memories")).to_be_visible()
    stranger.context.close()


def test_who_has_only_the_address_is_told_how_to_come_in(
    looked_at: ServedApart, stranger: Page, watched: Watched
) -> None:
    watched.expected.append("401 (Unauthorized)")
    stranger.goto(f"{looked_at.url}/")
    expect(stranger.get_by_text("ralph serve")).to_be_visible()

    stranger.get_by_label("paste the token").fill("wrong")
    stranger.get_by_role("button", name="Sign in").click()
    expect(stranger.get_by_text("Invalid token")).to_be_visible()
    stranger.get_by_label("paste the token").fill(looked_at.token)
    stranger.get_by_role("button", name="Sign in").click()

    expect(stranger.get_by_role("navigation", name="Pages", exact=True)).to_be_visible()
    assert stranger.url == f"{looked_at.url}/"
    stranger.context.close()


def test_keys_lead_to_every_page(looked_at: ServedApart, open_page: Open) -> None:
    page = open_page(looked_at, "/")
    keys = {"l": "/live", "t": "/tasks", "m": "/memories", "s": "/staging", "f": "/failures", "j": "/journal", "o": "/"}

    for key, path in keys.items():
        page.keyboard.press("g")
        page.keyboard.press(key)
        page.wait_for_url(f"{looked_at.url}{path}", wait_until="load")


def test_keys_are_told_and_closed_again(looked_at: ServedApart, open_page: Open) -> None:
    page = open_page(looked_at, "/")
    dialog = page.get_by_role("dialog", name="Keyboard shortcuts")

    page.keyboard.press("?")
    expect(dialog).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.keyboard.press("Escape")

    expect(dialog).to_be_hidden()
    assert page.url == f"{looked_at.url}/"


def test_lists_are_walked_by_keys(looked_at: ServedApart, open_page: Open) -> None:
    page = open_page(looked_at, "/memories")
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.press("Escape")
    for key in "jjk":
        page.keyboard.press(key)
    second = page.locator("[data-row].is-chosen")
    expect(second).to_have_count(1)
    assert second.get_attribute("data-id") == page.locator("[data-row]").nth(0).get_attribute("data-id")

    page.keyboard.press("j")
    page.keyboard.press("Enter")

    expect(page).to_have_url(re.compile(r"/memories/mem-"))


def test_everything_can_be_reached_by_tab(looked_at: ServedApart, open_page: Open) -> None:
    page = open_page(looked_at, "/memories")
    reached = set()
    for _ in range(30):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.textContent.trim() || document.activeElement.id"))
        assert page.evaluate(
            "(one => getComputedStyle(one).outlineStyle !== 'none' || getComputedStyle(one).boxShadow !== 'none'"
            " || one.closest('.search, label')?.matches(':focus-within'))(document.activeElement)"
        ), page.evaluate("document.activeElement.outerHTML")

    assert any("Skip to content" in one for one in reached)
    assert any("Staging" in one for one in reached)
    assert any("search" in one for one in reached)


def test_the_theme_that_was_chosen_stays(looked_at: ServedApart, open_page: Open) -> None:
    page = open_page(looked_at, "/", scheme="light")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)

    page.get_by_role("button", name="Switch between dark and light").click()
    dark = page.evaluate(ground)
    page.goto(f"{looked_at.url}/tasks")

    assert dark != light
    assert page.evaluate(ground) == dark


def test_a_phone_has_the_pages_at_its_bottom(looked_at: ServedApart, open_page: Open) -> None:
    page = open_page(looked_at, "/", size=PHONE, has_touch=True)
    pages = page.get_by_role("navigation", name="Pages (mobile)")

    pages.get_by_role("link", name="Memories").tap()
    page.wait_for_url(f"{looked_at.url}/memories")
    pages.get_by_text("More").tap()
    pages.get_by_role("link", name="Failures").tap()

    page.wait_for_url(f"{looked_at.url}/failures")


def test_what_the_api_can_do_is_found_by_words(looked_at: ServedApart, open_page: Open) -> None:
    page = open_page(looked_at, "/api/docs")
    every = page.locator("details.operation:visible").count()

    page.keyboard.press("/")
    page.keyboard.type("delete memories")
    shown = page.locator("details.operation:visible")
    expect(shown.first).to_contain_text("DELETE")
    assert 0 < shown.count() < every / 4
    shown.first.locator("summary").click()

    expect(shown.first).to_contain_text("DeletedMemory")
    assert looked_at.token not in page.content()
