"""Tasks in the browser, and a run while it works."""

from __future__ import annotations

import re
import subprocess
import sys

from playwright.sync_api import Route, expect

from ralph.project import Project
from tests.browser.conftest import PHONE, Open
from tests.web.asking import ServedApart

AGENT = """\
echo "reading the \\033[31mcode\\033[0m"
for number in 1 2 3 4; do echo "line $number of the agent"; sleep 0.4; done
printf '<script>window.ran = 1</script>\\n'
echo "<task-done>$RALPH_TASK_ID</task-done>"
"""


def test_a_task_is_added_done_and_reset(worked_on: ServedApart, open_page: Open) -> None:
    page = open_page(worked_on, "/tasks")
    page.keyboard.press("n")
    page.get_by_label("Title").fill("Print labels")
    page.get_by_label(re.compile("Description")).fill("A label for each parcel.")
    page.get_by_label("Priority").fill("99")
    page.locator("#add-task-form").get_by_role("button", name="Add", exact=True).click()
    row = page.locator("#task-list [data-task]").filter(has_text="Print labels")
    expect(row).to_be_visible()
    expect(page.locator("#graph .node").filter(has_text="Print labels")).to_be_visible()

    row.get_by_role("link").first.click()
    expect(page.locator("#task-body")).to_have_text("A label for each parcel.")
    page.get_by_role("button", name="Done").click()
    expect(page.locator("#task-status")).to_have_text("done")
    page.get_by_role("button", name="Reset").click()
    expect(page.locator("#task-status")).to_have_text("ready")
    page.get_by_role("button", name="Block").click()
    page.get_by_label("Reason").fill("Which printer?")
    page.locator("#reason-button").click()
    expect(page.locator("#task-status")).to_have_text("blocked")
    expect(page.get_by_text("Which printer?").first).to_be_visible()
    page.locator("#toasts [data-undo]").last.click()
    expect(page.locator("#task-status")).to_have_text("ready")

    page.keyboard.press("e")
    page.locator("#edit-title-field").fill("Print small labels")
    page.locator("#edit-form").get_by_role("button", name="Save").click()
    expect(page.locator("#task-title")).to_have_text("Print small labels")
    page.get_by_role("button", name="Delete the task").click()
    page.locator("#delete-form").get_by_role("button", name="Delete", exact=True).click()
    expect(page).to_have_url(f"{worked_on.url}/tasks")
    expect(page.locator("#task-list")).not_to_contain_text("Print small labels")


def test_a_task_tells_its_prompt_its_memories_and_its_log(worked_on: ServedApart, open_page: Open) -> None:
    with Project.open(worked_on.root) as project:
        task = next(one for one in project.tasks.list() if one.title == "Limit requests per customer")
    page = open_page(worked_on, f"/tasks/{task.id}")

    page.locator("#show-prompt").click()
    expect(page.locator("[data-section]").first).to_be_visible()
    page.get_by_role("link", name="Memories considered").click()
    expect(page.locator("#ranking tbody tr").first).to_be_visible()
    line = page.get_by_label("New log line")
    line.fill("Asked the customer.")
    # Not page.keyboard: a browser takes the focus away when it gets to the fragment of an address, which may be later.
    line.press("Enter")

    expect(page.locator("#log")).to_contain_text("Asked the customer.")


def test_a_log_line_entered_before_the_page_has_loaded_is_kept(worked_on: ServedApart, open_page: Open) -> None:
    with Project.open(worked_on.root) as project:
        task = next(one for one in project.tasks.list() if one.title == "Limit requests per customer")
    page = open_page(worked_on, f"/tasks/{task.id}")
    held: list[Route] = []
    page.route("**/static/task.js", lambda route: held.append(route))
    page.reload(wait_until="commit")

    page.get_by_label("New log line").fill("Asked the customer.")
    page.keyboard.press("Enter")
    expect(page.locator("#log-form[data-held]")).to_be_visible()
    held[0].continue_()

    expect(page.locator("#log")).to_contain_text("Asked the customer.")


def test_a_button_clicked_before_the_page_has_loaded_does_what_it_says(worked_on: ServedApart, open_page: Open) -> None:
    with Project.open(worked_on.root) as project:
        task = project.tasks.add("Print receipts")
    page = open_page(worked_on, f"/tasks/{task.id}")
    held: list[Route] = []
    page.route("**/static/task.js", lambda route: held.append(route))
    page.reload(wait_until="commit")

    page.get_by_role("button", name="Done").click()
    expect(page.locator("#task-status")).to_have_text("ready")
    held[0].continue_()

    expect(page.locator("#task-status")).to_have_text("done")


def test_a_question_is_answered_on_the_page_of_its_task(worked_on: ServedApart, open_page: Open) -> None:
    with Project.open(worked_on.root) as project:
        task = project.tasks.add("Print invoices")
        page = open_page(worked_on, f"/tasks/{task.id}")
        expect(page.locator("#answer")).to_be_hidden()
        project.tasks.block(task.id, "Which printer?")

        expect(page.locator("#answer")).to_be_visible()
        page.get_by_label("What should the next session know").fill("The one\n  on floor 2 <b>.")
        project.tasks.update(task.id, body="On paper.")
        expect(page.locator("#task-body")).to_have_text("On paper.")
        page.locator("#answer-form").get_by_role("button", name="Answer").click()

        expect(page.locator("#task-status")).to_have_text("ready")
        expect(page.locator("#questions")).to_contain_text("Which printer?")
        expect(page.locator("#questions")).to_contain_text("on floor 2 <b>.")
        expect(page.locator("#answer")).to_be_hidden()
        (question,) = project.tasks.get(task.id).questions
    assert (question.answer, question.answered_by) == ("The one\n  on floor 2 <b>.", "person")


def test_the_graph_can_be_zoomed_and_shows_what_a_task_waits_for(looked_at: ServedApart, open_page: Open) -> None:
    page = open_page(looked_at, "/tasks")
    graph = page.locator("#graph")
    before = graph.get_attribute("viewBox")

    page.get_by_role("button", name="Zoom in").click()
    expect(graph).not_to_have_attribute("viewBox", before or "")
    page.get_by_role("button", name="Fit").click()
    waiting = page.locator("#graph .node[data-status=waiting]").first
    waiting.focus()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")

    expect(page.locator("#graph .node.is-lit").nth(1)).to_be_attached()


def test_tasks_are_narrowed_by_status_on_a_phone(looked_at: ServedApart, open_page: Open) -> None:
    page = open_page(looked_at, "/tasks", size=PHONE)

    page.locator("[data-filter=blocked]").click()

    expect(page).to_have_url(re.compile("status=blocked"))
    expect(page.locator("#task-list [data-task]")).to_have_count(1)


def test_failures_lead_to_the_task_they_happened_in(looked_at: ServedApart, open_page: Open) -> None:
    page = open_page(looked_at, "/failures")
    bar = page.locator("#categories li").first
    category = bar.get_attribute("data-category") or ""

    bar.get_by_role("link").click()
    expect(page).to_have_url(re.compile(f"category={category}"))
    page.locator("[data-fingerprint] summary").first.click()
    page.locator("[data-fingerprint] a[href^='/tasks/']").first.click()

    expect(page.locator("#attempts article").first).to_be_visible()


def test_the_journal_is_searched_narrowed_and_paged(looked_at: ServedApart, open_page: Open) -> None:
    page = open_page(looked_at, "/journal")
    first = page.locator("#journal [data-row]").first.inner_text()
    older = page.get_by_role("link", name="Older")
    if older.count():
        older.click()
        expect(page.locator("#journal [data-row]").first).not_to_have_text(first)

    page.goto(f"{looked_at.url}/journal")
    page.get_by_label("Outcome").select_option("done")
    expect(page).to_have_url(re.compile("outcome=done"))
    page.get_by_role("searchbox").fill("rounding")
    page.keyboard.press("Enter")

    expect(page).to_have_url(re.compile("q=rounding"))
    expect(page.locator("#journal [data-row]").first).to_be_visible()


def test_a_run_is_watched_while_it_works(worked_on: ServedApart, open_page: Open) -> None:
    (worked_on.root / "agent.sh").write_text(AGENT)
    live = open_page(worked_on, "/live")
    overview = open_page(worked_on, "/")
    expect(live.locator("#idle")).to_be_visible()

    with subprocess.Popen(
        [
            sys.executable,
            "-m",
            "ralph",
            "-C",
            str(worked_on.root),
            "run",
            "--max-iterations",
            "2",
            "--",
            "sh",
            "agent.sh",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        expect(live.locator("#run-state")).to_have_text("running")
        expect(live.locator("#now .now-title").first).to_be_visible()
        expect(live.locator("#now [data-attempt]").first).to_be_visible()
        expect(live.locator("#output")).to_contain_text("line 1 of the agent")
        expect(live.locator("#run-state")).to_have_text("running")
        expect(overview.get_by_text("running").first).to_be_visible()
        expect(live.locator("#output")).to_contain_text("line 4 of the agent")
        run.wait(30)
        assert run.stderr
        assert run.returncode == 0, run.stderr.read()

    expect(live.locator("#run-state")).to_have_text("ended")
    expect(live.locator("#output")).to_contain_text("Stopped:")
    expect(live.locator("#attempt-list [data-attempt]")).to_have_count(2)
    expect(live.locator("#output")).to_contain_text("reading the code")
    expect(live.locator("#output")).to_contain_text("<script>window.ran = 1</script>")
    assert live.evaluate("window.ran") is None
    lines = live.locator("#output div").all_inner_texts()
    assert lines.count("line 2 of the agent") == 2


TALKATIVE = """\
for number in $(seq 1 120); do echo "line $number of the agent"; done
sleep 3
echo "<task-done>$RALPH_TASK_ID</task-done>"
"""

IN_VIEW = """() => {
  const [box, last] = [document.getElementById("output"), document.getElementById("output").lastElementChild];
  const place = last.getBoundingClientRect();
  return place.bottom <= Math.min(innerHeight, box.getBoundingClientRect().bottom) && place.top >= 0;
}"""


def test_the_newest_lines_are_in_view_while_they_are_followed(worked_on: ServedApart, open_page: Open) -> None:
    (worked_on.root / "agent.sh").write_text(TALKATIVE)
    page = open_page(worked_on, "/live", size=(1280, 800))
    expect(page.locator("#follow")).to_be_hidden()

    words = [sys.executable, "-m", "ralph", "-C", str(worked_on.root), "run", "--max-iterations", "1", "--"]
    with subprocess.Popen([*words, "sh", "agent.sh"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        expect(page.locator("#output")).to_contain_text("line 120 of the agent")
        expect(page.locator("#follow")).to_be_visible()
        page.wait_for_timeout(100)
        assert page.evaluate(IN_VIEW)
        assert page.evaluate("scrollY") == 0
        run.wait(30)

    expect(page.locator("#output")).to_contain_text("Stopped:")
    expect(page.locator("#follow")).to_be_hidden()
    page.wait_for_timeout(100)
    assert page.evaluate(IN_VIEW)
