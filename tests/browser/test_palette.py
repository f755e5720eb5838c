"""The palette: anything is found and opened from any page, by keyboard alone."""

from __future__ import annotations

import re

from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import PHONE, Open, Watched
from tests.browser.test_every_page import barriers
from tests.web.asking import ServedApart


def opened(page: Page) -> None:
    page.wait_for_load_state()
    page.keyboard.press("Control+k")
    expect(page.get_by_role("combobox", name=re.compile("^Find"))).to_be_focused()


def found(page: Page, kind: str) -> None:
    expect(page.locator(f"#palette-list [data-kind={kind}]").first).to_be_visible()


def test_each_kind_is_found_and_opened_by_keyboard_alone(looked_at: ServedApart, open_page: Open) -> None:
    page = open_page(looked_at, "/")
    for text, kind, path in (
        ("vat", "task", r"/tasks/t-"),
        ("half up even", "memory", r"/memories/mem-"),
        ("lost two bookings", "episode", r"/episodes/ep-"),
        ("run-", "run", r"/runs/run-"),
        ("fail", "page", r"/failures$"),
        ("review stag", "action", r"/staging$"),
    ):
        opened(page)
        page.keyboard.type(text)
        found(page, kind)
        expect(page.locator("#palette-list")).not_to_have_attribute("aria-busy", "true")
        while page.locator("[role=option][aria-selected=true]").get_attribute("data-kind") != kind:
            page.keyboard.press("PageDown")
        page.keyboard.press("Enter")
        expect(page).to_have_url(re.compile(path))


def test_the_palette_is_a_combobox_whose_list_says_what_is_chosen(looked_at: ServedApart, open_page: Open) -> None:
    page = open_page(looked_at, "/runs")
    opened(page)
    field = page.get_by_role("combobox")
    options = page.get_by_role("listbox", name="Results").get_by_role("option")
    found(page, "action")

    expect(field).to_have_attribute("aria-expanded", "true")
    expect(field).to_have_attribute("aria-activedescendant", str(options.first.get_attribute("id")))
    page.keyboard.press("ArrowDown")
    expect(options.nth(1)).to_have_attribute("aria-selected", "true")
    expect(options.first).to_have_attribute("aria-selected", "false")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    expect(options.last).to_have_attribute("aria-selected", "true")
    expect(field).to_be_focused()
    page.keyboard.type("rounding")
    found(page, "memory")
    expect(page.locator("#palette-status")).to_have_text(re.compile(r"^\d+ results$"))
    assert barriers(page) == []
    page.keyboard.press("Escape")
    expect(page.locator("#palette")).to_be_hidden()
    expect(page).to_have_url(f"{looked_at.url}/runs")


def test_what_is_not_there_is_said(looked_at: ServedApart, open_page: Open) -> None:
    page = open_page(looked_at, "/")
    opened(page)
    page.keyboard.type("kubernetes")

    expect(page.locator("#palette-status")).to_have_text("No match")
    expect(page.get_by_role("option")).to_have_count(3)
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{looked_at.url}/memories?q=kubernetes")
    expect(page.locator("#nothing")).to_be_visible()


def test_enter_waits_for_what_was_typed(looked_at: ServedApart, open_page: Open) -> None:
    page = open_page(looked_at, "/")

    def slow(route: Route) -> None:
        page.wait_for_timeout(300)
        route.continue_()

    page.route(re.compile("/api/find.*q=journal"), slow)
    opened(page)
    found(page, "action")
    page.keyboard.type("journal")
    page.keyboard.press("Enter")

    expect(page).to_have_url(f"{looked_at.url}/journal")


def test_actions_open_dialogs_and_press_buttons(looked_at: ServedApart, open_page: Open) -> None:
    page = open_page(looked_at, "/memories")
    for text, shows in (("add a task", "#add-task"), ("add a memory", "#add-dialog"), ("keyboard", "#keys")):
        opened(page)
        page.keyboard.type(text)
        page.keyboard.press("Enter")
        expect(page.locator(shows)).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.locator(shows)).to_be_hidden()
    opened(page)
    page.keyboard.type("dark")
    page.keyboard.press("Enter")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_the_palette_leaves_an_open_dialog_alone_and_closes_by_its_own_key(
    looked_at: ServedApart, open_page: Open
) -> None:
    page = open_page(looked_at, "/memories")
    page.keyboard.press("n")
    page.keyboard.type("Half a thought")
    page.keyboard.press("Control+k")
    expect(page.locator("#palette")).to_be_hidden()
    expect(page.locator("#add-content")).to_have_value("Half a thought")
    page.keyboard.press("Escape")
    opened(page)
    page.keyboard.press("Control+k")

    expect(page.locator("#palette")).to_be_hidden()


def test_a_thumb_finds_too(looked_at: ServedApart, open_page: Open) -> None:
    page = open_page(looked_at, "/", size=PHONE, has_touch=True)
    page.get_by_role("button", name="Find").tap()
    page.get_by_role("combobox").fill("late fees")
    page.locator("[data-kind=task]").first.tap()

    expect(page.get_by_role("heading", level=1)).to_have_text("Charge late fees")


def test_a_server_that_is_gone_is_said_in_the_palette(
    looked_at: ServedApart, open_page: Open, watched: Watched
) -> None:
    watched.expected.append("ERR_FAILED")
    page = open_page(looked_at, "/")
    page.route(re.compile("/api/find"), lambda route: route.abort())
    opened(page)

    expect(page.locator("#palette-status")).to_contain_text("ralph serve")
