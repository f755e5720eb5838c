"""Memories in the browser: found as one types, added, edited, taken back; and the review by keyboard alone."""

from __future__ import annotations

import re

from playwright.sync_api import Page, Route, expect

from ralph.project import Project
from tests.browser.conftest import PHONE, Open, Watched
from tests.web.asking import ServedApart

SAID = "Always start the ledger with make db before the tests."


def toast(page: Page, text: str) -> None:
    expect(page.locator("#toasts .toast").last).to_contain_text(text)


def undo(page: Page) -> None:
    page.locator("#toasts [data-undo]").last.click()


def test_a_memory_is_added_found_edited_deleted_and_brought_back(worked_on: ServedApart, open_page: Open) -> None:
    page = open_page(worked_on, "/memories")

    page.keyboard.press("n")
    page.locator("#add-content").fill(SAID)
    page.get_by_label("Type", exact=True).select_option("fix")
    page.get_by_label(re.compile("^Tags")).fill("ledger, tests")
    page.locator("#add-form").get_by_role("button", name="Add", exact=True).click()
    toast(page, "Added")

    page.get_by_role("searchbox").press_sequentially("start ledger make")
    expect(page.locator("#results [data-row]").first).to_contain_text(SAID)
    expect(page).to_have_url(re.compile(r"q=start\+ledger\+make"))
    page.locator("#results details.why summary").first.click()
    expect(page.locator("#results .shares").first).to_be_visible()
    page.locator("#results a.row-title").first.click()
    expect(page.locator("#memory-content")).to_have_text(SAID)
    expect(page.locator("#chart-confidence canvas")).to_be_visible()

    page.keyboard.press("e")
    page.locator("#edit-content").fill(f"{SAID} It takes a minute.")
    page.locator("#edit-why").fill("measured")
    page.locator("#edit-form").get_by_role("button", name="Save").click()
    toast(page, "Saved")
    expect(page.locator("#memory-content")).to_have_text(f"{SAID} It takes a minute.")
    expect(page.locator("#history li")).to_have_count(2)
    expect(page.locator("#history li").first).to_contain_text("measured")
    expect(page.locator("#history ins").first).to_contain_text("It takes a minute.")

    page.locator("#history").get_by_role("button", name="Undo").click()
    expect(page.locator("#memory-content")).to_have_text(SAID)
    page.get_by_role("button", name="Delete").click()
    toast(page, "Deleted")
    expect(page.get_by_role("button", name="Restore")).to_be_visible()
    undo(page)
    expect(page.get_by_role("button", name="Delete")).to_be_visible()
    with Project.open(worked_on.root) as project:
        assert project.memory.show(page.url.rpartition("/")[2]).memory.content == SAID


def test_what_was_just_added_can_be_taken_back(worked_on: ServedApart, open_page: Open) -> None:
    page = open_page(worked_on, "/memories")
    before = page.locator("#results [data-row]").count()
    page.get_by_role("button", name="Add", exact=False).first.click()
    page.locator("#add-content").fill(SAID)
    page.locator("#add-form").get_by_role("button", name="Add", exact=True).click()
    expect(page.locator("#results [data-row]")).to_have_count(before + 1)

    undo(page)

    expect(page.locator("#results [data-row]")).to_have_count(before)


def test_what_cannot_be_stored_is_said_beside_the_field_and_nothing_typed_is_lost(
    looked_at: ServedApart, open_page: Open, watched: Watched
) -> None:
    watched.expected.append("422 (Unprocessable")
    page = open_page(looked_at, "/memories")
    page.keyboard.press("n")
    page.locator("#add-content").fill(" \u200b ")
    page.get_by_label(re.compile("^Title")).fill("Kept")
    page.locator("#add-form").get_by_role("button", name="Add", exact=True).click()

    expect(page.locator("#add-form [data-error]")).not_to_be_empty()
    expect(page.get_by_label(re.compile("^Title"))).to_have_value("Kept")


def test_filters_narrow_and_stay_in_the_address(looked_at: ServedApart, open_page: Open) -> None:
    page = open_page(looked_at, "/memories")
    everything = page.locator("#results [data-row]").count()
    box = page.locator("[data-facet=type] input").first
    kind = box.get_attribute("value")
    count = int(page.locator("[data-facet=type] .count").first.inner_text())

    box.check()
    expect(page.locator("#results [data-row]")).to_have_count(count)
    assert count < everything
    page.reload()

    expect(page.locator(f"[data-facet=type] input[value={kind}]")).to_be_checked()
    expect(page.locator("#results [data-row]")).to_have_count(count)
    page.get_by_role("link", name="Clear all filters").click()
    expect(page.locator("#results [data-row]")).to_have_count(everything)


def test_matches_are_marked_and_facets_count_them(looked_at: ServedApart, open_page: Open) -> None:
    page = open_page(looked_at, "/memories")
    whole = page.locator("#type-fix ~ .count").inner_text()

    page.get_by_role("searchbox").fill("rounding vat")
    expect(page.locator("#results mark").first).to_have_text(re.compile("round|vat", re.IGNORECASE))
    found = page.locator("#results [data-row]").count()
    expect(page.locator("#result-count")).to_have_text(f"{found} matches")
    counts = page.locator("[data-facet=type] .count").all_inner_texts()
    assert sum(map(int, counts)) == found
    page.locator("#type-fix").check()
    expect(page.locator("#type-fix")).to_be_focused()
    fixes = int(page.locator("#type-fix ~ .count").inner_text())
    expect(page.locator("#results [data-row]")).to_have_count(fixes)
    page.get_by_role("searchbox").fill("")

    expect(page.locator("#type-fix ~ .count")).to_have_text(whole)


def test_no_match_is_said_and_leads_on(looked_at: ServedApart, open_page: Open) -> None:
    page = open_page(looked_at, "/memories")
    page.get_by_role("searchbox").fill("kubernetes ingress")
    expect(page.get_by_role("heading", name="No match")).to_be_visible()
    expect(page.locator("#results [data-row]")).to_have_count(0)
    expect(page.locator("#nothing").get_by_role("link", name="search past work")).to_be_visible()
    expect(page.locator("[data-facet=type] .count").first).to_have_text("0")

    page.get_by_role("searchbox").fill("rounding")
    page.locator("#type-convention").check()
    expect(page.locator("#nothing")).to_be_visible()
    page.get_by_role("link", name="Search without filters").click()

    expect(page.locator("#results [data-row]").first).to_contain_text("Round half up")


def test_search_works_without_scripts(looked_at: ServedApart, open_page: Open) -> None:
    page = open_page(looked_at, "/memories", java_script_enabled=False)

    page.locator("#search").fill("rounding")
    page.get_by_role("button", name="Search").click()

    expect(page.locator("#results [data-row]").first).to_be_visible()
    assert "q=rounding" in page.url


def test_an_answer_that_comes_late_is_not_shown(looked_at: ServedApart, open_page: Open) -> None:
    page = open_page(looked_at, "/memories")

    def slow(route: Route) -> None:
        page.wait_for_timeout(600)
        route.continue_()

    page.route(re.compile(r"/memories\?q=excel$"), slow)
    page.get_by_role("searchbox").fill("excel")
    page.wait_for_timeout(350)
    page.get_by_role("searchbox").fill("invoice numbers")
    expect(page.locator("#results [data-row]").first).to_contain_text("Invoice numbers")
    page.wait_for_timeout(700)

    expect(page.locator("#results [data-row]").first).to_contain_text("Invoice numbers")


# --- review ---------------------------------------------------------------------------------


def test_staging_is_reviewed_by_keyboard_alone(worked_on: ServedApart, open_page: Open) -> None:
    page = open_page(worked_on, "/staging")
    current = page.locator("[data-review].is-current")
    progress = page.locator("#progress-text")
    titles = page.locator("[data-review] h2").all_inner_texts()
    assert len(titles) == 5

    page.keyboard.press("y")
    expect(progress).to_have_text("1/5")
    expect(current.locator("h2")).to_have_text(titles[1])
    page.keyboard.press("n")
    page.keyboard.type("Too narrow.")
    page.keyboard.press("Enter")
    expect(progress).to_have_text("2/5")
    page.keyboard.press("e")
    page.keyboard.press("Control+a")
    page.keyboard.type("In other words.")
    page.keyboard.press("Control+Enter")
    expect(progress).to_have_text("3/5")
    page.keyboard.press("s")
    expect(current.locator("h2")).to_have_text(titles[4])
    page.keyboard.press("y")
    expect(progress).to_have_text("4/5")
    page.keyboard.press("u")
    expect(progress).to_have_text("3/5")
    expect(current.locator("h2")).to_have_text(titles[4])

    with Project.open(worked_on.root) as project:
        (rejected,) = project.learnings.list("rejected")
        waiting = {memory.title for memory in project.learnings.list()}
    assert rejected.title == titles[1]
    assert "Too narrow." in rejected.state_reason
    assert waiting == {titles[3], titles[4]}


def test_staging_is_reviewed_on_a_phone(worked_on: ServedApart, open_page: Open) -> None:
    page = open_page(worked_on, "/staging", size=PHONE, has_touch=True)

    page.locator(".is-current [data-decide=keep]").tap()
    expect(page.locator("#progress-text")).to_have_text("1/5")
    undo(page)

    expect(page.locator("#progress-text")).to_have_text("0/5")
