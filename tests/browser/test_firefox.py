"""The main stories in Firefox: a day without the command line, and finding and changing things."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ralph.core.records import TaskStatus
from ralph.project import Project
from tests.browser.firefox import Firefox, find_firefox
from tests.browser.test_steering import git, make_shop
from tests.waiting import wait_until
from tests.web.asking import ServedApart

ENTER = "\ue007"


@pytest.fixture(scope="module")
def firefox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Firefox]:
    """Return a browser for all tests here."""
    program = find_firefox()
    if program is None:
        pytest.skip("no Firefox could be had: make test-browser says how")
    one = Firefox(program, tmp_path_factory.mktemp("firefox"))
    yield one
    one.close()


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Path]:
    """Return a trusted project in git with a scripted agent and one task."""
    yield from make_shop(tmp_path)


def test_a_run_is_started_answered_committed_and_reported(shop: Path, firefox: Firefox) -> None:
    with ServedApart(shop) as server, Project.open(shop) as project:
        firefox.open(f"{server.url}/?token={server.token}")
        firefox.click("button", "Start a run")
        firefox.see("#run-agent", "command")
        firefox.fill("#run-iterations", "5")
        firefox.click("#start-run-submit:enabled")
        firefox.see("#output", "looking at the prices")
        firefox.open(server.url)
        firefox.see("[data-kind=question]", "Round to cents or to euros?")
        firefox.fill("[data-kind=question] textarea", "In whole cents.")
        firefox.click("[data-kind=question] button", "Answer")

        wait_until(lambda: project.tasks.list()[0].status is TaskStatus.DONE)
        wait_until(lambda: "prices.py" in git(shop, "show", "--stat", "--format=", "HEAD"))
        firefox.open(f"{server.url}/live")
        firefox.see("#output", "committed")
        firefox.click("button", "Stop")
        firefox.see("#run-state", "ended")
        firefox.open(f"{server.url}/report")
        firefox.click("section[aria-label=Done] a", "Round prices")
        firefox.click(".attempt-head a.mono")
        firefox.see("[data-file='prices.py']", 'ROUNDING = "cents"')


def test_things_are_found_looked_at_and_changed(worked_on: ServedApart, firefox: Firefox) -> None:
    firefox.open(f"{worked_on.url}/?token={worked_on.token}")
    firefox.see(".chart canvas")
    firefox.press("k", with_control=True)
    firefox.see("#palette[open] input")
    firefox.press("round amounts half")
    firefox.see("[role=option]", "Round amounts half up")
    firefox.press(ENTER)
    firefox.see("#task-title", "Round amounts half up")

    firefox.open(f"{worked_on.url}/memories?q=money")
    firefox.see("#results mark")
    firefox.open(f"{worked_on.url}/tasks")
    firefox.see("#graph .node")
    first = "return document.querySelector('#task-list .row-title').textContent"
    before = firefox.run(first)
    firefox.click("[data-shift=down]")
    wait_until(lambda: firefox.run(first) != before)
    firefox.open(f"{worked_on.url}/impact")
    firefox.see("#chart-lift canvas")
