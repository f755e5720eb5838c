"""Past work in a browser: searched as one types, and read as transcripts that fold."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

from tests.browser.conftest import Open
from tests.browser.sample import SAID
from tests.web.asking import ServedApart


def test_past_work_is_found_while_typing_and_read_in_its_transcript(
    looked_at: ServedApart, open_page: Open, tmp_path: Path
) -> None:
    page = open_page(looked_at, "/episodes")
    page.locator("[data-kind=session].chip").click()
    page.get_by_role("searchbox").fill("bank bookings MT940 lost")

    first = page.locator("#passages [data-row]").first
    expect(first).to_contain_text(SAID[1][0])
    expect(page).to_have_url(f"{looked_at.url}/episodes?q=bank+bookings+MT940+lost&kind=session")
    first.get_by_role("link").first.click()
    page.locator("#open-transcript").click()

    passages = page.locator("#transcript .passage")
    expect(passages).to_have_count(2)
    expect(passages.first.locator("[data-speaker=agent] .said")).to_have_text(SAID[1][1])
    page.locator("#transcript summary").click()
    expect(passages.first).to_be_hidden()


def test_an_attempt_leads_from_the_journal_to_its_transcript(looked_at: ServedApart, open_page: Open) -> None:
    page = open_page(looked_at, "/journal?outcome=done")
    page.locator("[data-attempt] a.mono").first.click()

    expect(page.locator("#transcript [data-speaker=tool] .said").first).to_contain_text("pytest -x")
    expect(page.locator("#transcript [data-speaker=agent] .said").last).to_contain_text("tests pass")
