"""What a page says is so: a server that is gone, a stream that is silent, a run that was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from playwright.sync_api import expect

from ralph.project import Project
from tests.browser.conftest import Open, Watched
from tests.web.asking import ServedApart

GONE = ("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_EMPTY_RESPONSE", "ERR_CONNECTION_RESET")


def test_a_server_that_is_gone_is_said_until_it_is_back(
    worked_on: ServedApart, open_page: Open, watched: Watched
) -> None:
    watched.expected += GONE
    overview, failures = open_page(worked_on, "/"), open_page(worked_on, "/failures")
    pages = (overview, failures)
    for page in pages:
        expect(page.locator("#away")).to_be_hidden()

    worked_on.process.kill()
    worked_on.process.wait()
    for page in pages:
        expect(page.get_by_role("alert").filter(has_text="ralph serve")).to_be_visible()
    overview.get_by_role("button", name="Try again").click()
    expect(overview.locator("#away")).to_be_visible()

    with Project.open(worked_on.root) as project:
        project.tasks.add("Added while nobody served")
        count = sum(project.tasks.counts().values())
    with ServedApart(worked_on.root, "--port", str(worked_on.port)):
        overview.get_by_role("button", name="Try again").click()
        for page in pages:
            expect(page.locator("#away")).to_be_hidden()
        expect(overview.locator("[data-live=tasks]")).to_contain_text(f"{count} total")


def test_a_stream_without_a_word_is_no_stream(worked_on: ServedApart, open_page: Open, watched: Watched) -> None:
    watched.expected += GONE
    page = open_page(worked_on, "/projects")
    page.clock.install()
    page.reload()
    page.wait_for_timeout(300)

    worked_on.process.send_signal(signal.SIGSTOP)
    try:
        page.clock.fast_forward(60_000)
        expect(page.locator("#away")).to_be_visible()
    finally:
        worked_on.process.send_signal(signal.SIGCONT)
    page.clock.fast_forward(5_000)
    expect(page.locator("#away")).to_be_hidden()


def test_a_killed_run_does_not_stand_as_running(worked_on: ServedApart, open_page: Open) -> None:
    (worked_on.root / "agent.sh").write_text("echo working\nsleep 60\n")
    words = [sys.executable, "-m", "ralph", "-C", str(worked_on.root), "run", "--max-iterations", "1", "--"]
    pages = [open_page(worked_on, path) for path in ("/", "/runs", "/tasks?show=list", "/live")]
    with subprocess.Popen([*words, "sh", "agent.sh"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        for page in pages:
            expect(page.locator("main [data-status=running]:visible").first).to_be_visible()
        os.kill(run.pid, signal.SIGKILL)

    for page in pages:
        expect(page.locator("main [data-status=running]:visible")).to_have_count(0)
    expect(pages[1].locator("#runs tbody tr").first).to_contain_text("abandoned")
    with Project.open(worked_on.root) as project:
        latest = project.store.runs.latest(1)[0]
    page = open_page(worked_on, f"/runs/{latest.id}")
    expect(page.locator(".title-line")).to_contain_text("abandoned")
    assert page.locator("main [data-status=running]").count() == 0


def test_what_an_agent_states_in_tags_is_shown_in_words(worked_on: ServedApart, open_page: Open) -> None:
    lines = ["<journal>Used a Vec<String>", "and more</journal>", "<task-done>t-1</task-done>", "<b>kept</b>"]
    (worked_on.root / "agent.sh").write_text("".join(f"echo '{line}'\nsleep 0.1\n" for line in lines))
    page = open_page(worked_on, "/live")
    words = [sys.executable, "-m", "ralph", "-C", str(worked_on.root), "run", "--max-iterations", "1", "--"]

    subprocess.run([*words, "sh", "agent.sh"], capture_output=True, check=False)

    output = page.locator("#output")
    expect(output).to_contain_text("Stopped")
    expect(output).to_contain_text("journal: Used a Vec<String>")
    expect(output).to_contain_text("task done: t-1")
    expect(output).to_contain_text("<b>kept</b>")
    expect(output).not_to_contain_text("task-done")
    expect(output).not_to_contain_text("</journal>")
