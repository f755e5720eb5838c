"""The timeline in a browser: what happened, by day, narrowed step by step, and read in its transcript."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.conftest import Open
from tests.web.asking import ServedApart


def test_the_timeline_is_narrowed_and_leads_to_transcripts(looked_at: ServedApart, open_page: Open) -> None:
    page = open_page(looked_at, "/timeline")
    rows = page.locator("#days [data-row]")
    expect(rows).to_have_count(60)
    page.get_by_role("link", name="Older").click()
    expect(rows.first).to_be_visible()
    page.get_by_role("link", name="Timeline").first.click()

    page.get_by_role("link", name="sessions", exact=True).click()
    expect(page.locator("#days [data-kind=session]").first).to_be_visible()
    expect(page.locator("#days [data-kind=attempt]")).to_have_count(0)
    page.get_by_role("searchbox").fill("MT940")
    expect(rows).to_have_count(1)
    expect(rows.locator("mark").first).to_have_text("MT940")
    expect(page).to_have_url(re.compile("q=MT940&.*kind=session|kind=session.*q=MT940"))
    rows.get_by_role("link").first.click()

    expect(page.locator("#transcript .passage").first).to_be_visible()


def test_a_day_narrows_the_timeline(looked_at: ServedApart, open_page: Open) -> None:
    page = open_page(looked_at, "/timeline")
    page.get_by_label("Before").fill("2001-01-01")
    page.get_by_label("Before").press("Enter")

    expect(page.locator(".empty")).to_be_visible()
    page.get_by_role("link", name="Show all").click()
    expect(page.locator("#days [data-row]").first).to_be_visible()
