"""A person steers from the dashboard: start a run, watch it, answer its question, see its work committed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from ralph.core.records import TaskStatus
from ralph.project import Project
from ralph.trust import accept_review, review_trust
from ralph.workspace import init_project
from tests.browser.conftest import PHONE, Open
from tests.waiting import end_runs, wait_until
from tests.web.asking import ServedApart

SLOW_MILLISECONDS = 60_000
AGENT = """\
cat > prompt.tmp
if grep -q 'In whole cents' prompt.tmp; then
  rm prompt.tmp
  echo 'ROUNDING = "cents"' > prices.py
  echo "rounded to cents"
  echo "<task-done>$RALPH_TASK_ID</task-done>"
else
  rm prompt.tmp
  echo "looking at the prices"
  echo "<question>Round to cents or to euros?</question>"
fi
"""
SETTINGS = """
[agent]
command = ["sh", "../agent.sh"]
[execution]
gates = ["true", "test -f prices.py"]
"""


def git(root: Path, *words: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main")
    return subprocess.run(["git", *who, *words], cwd=root, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Path]:
    """Return a trusted project in git with a scripted agent and one task."""
    yield from make_shop(tmp_path)


def make_shop(tmp_path: Path) -> Iterator[Path]:
    """Yield such a project, and end its runs."""
    root = tmp_path / "shop"
    root.mkdir()
    (tmp_path / "agent.sh").write_text(AGENT)
    init_project(root, environment={})
    (root / ".ralph.toml").write_text(SETTINGS)
    git(root, "init", "-q")
    git(root, "config", "user.name", "a")
    git(root, "config", "user.email", "a@example.com")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "start")
    accept_review(review_trust(root))
    with Project.open(root) as project:
        project.tasks.add("Round prices", "All prices on the invoice.")
    yield root
    with Project.open(root) as project:
        end_runs(project)


@pytest.fixture
def server(shop: Path, request: pytest.FixtureRequest) -> Iterator[ServedApart]:
    """Return a server on the project; a parameter is an option of it."""
    with ServedApart(shop, *getattr(request, "param", ())) as started:
        yield started


def walk_a_day(shop: Path, server: ServedApart, page: Page) -> None:
    """Start a run on the overview, watch it, answer its question, see its work committed, and stop it."""
    with Project.open(shop) as project:
        page.get_by_role("button", name="Start a run").click()
        expect(page.get_by_label("Agent")).to_have_text("command")
        expect(page.locator("#run-gates input:checked")).to_have_count(2)
        page.locator("#run-gates label").filter(has_text="true").get_by_role("checkbox").uncheck()
        page.get_by_label("Attempts, at most").fill("5")
        page.locator("#start-run-submit").click()

        page.wait_for_url("**/live?run=*", timeout=SLOW_MILLISECONDS)
        expect(page.locator("#output")).to_contain_text("looking at the prices", timeout=SLOW_MILLISECONDS)
        wait_until(lambda: project.tasks.list()[0].status is TaskStatus.BLOCKED)
        page.goto(f"{server.url}/")
        question = page.locator("[data-kind=question]")
        expect(question).to_contain_text("Round to cents or to euros?")
        question.get_by_label("Answer to: Round prices").fill("In whole cents.")
        question.get_by_role("button", name="Answer").click()
        expect(question).to_have_count(0)

        wait_until(lambda: project.tasks.list()[0].status is TaskStatus.DONE)
        wait_until(lambda: "prices.py" in git(shop, "show", "--stat", "--format=", "HEAD"))
        page.get_by_role("link", name="Live run").or_(page.get_by_role("link", name="Latest run")).click()
        expect(page.locator("#output")).to_contain_text("committed", timeout=SLOW_MILLISECONDS)
        for name, said in (("Pause", "Pausing"), ("Resume", "Resumed"), ("Stop", "Stopping")):
            page.get_by_role("button", name=name).click()
            expect(page.locator("#toasts")).to_contain_text(said)
        expect(page.locator("#run-state")).to_have_text("ended", timeout=SLOW_MILLISECONDS)
        expect(page.get_by_role("button", name="Start a run")).to_be_visible()

        (run,) = project.store.runs.latest(9)
        assert '"gates": ["test -f prices.py"]' in run.options


def read_the_report(server: ServedApart, page: Page) -> None:
    """Read what the run did, down to the changed lines of its attempt, and come back to its task."""
    page.goto(f"{server.url}/report")
    done = page.get_by_role("region", name="Done")
    expect(done).to_contain_text("Round prices")
    done.get_by_role("link", name="Round prices").click()
    page.locator(".attempt-head a.mono").first.click()
    expect(page.locator("[data-file='prices.py']")).to_contain_text('ROUNDING = "cents"')
    expect(page.locator("#prompt-title")).to_be_visible()


def test_a_run_is_started_watched_answered_committed_and_reported(
    shop: Path, server: ServedApart, open_page: Open
) -> None:
    page = open_page(server, "/")
    walk_a_day(shop, server, page)
    read_the_report(server, page)


def test_what_needs_attention_is_first_and_decided_in_place(shop: Path, server: ServedApart, open_page: Open) -> None:
    with Project.open(shop) as project:
        failed, blocked = (project.tasks.add(title) for title in ("Ship parcels", "Print labels"))
        project.tasks.fail(failed.id, "No courier.")
        project.tasks.block(blocked.id, "Which printer?")
        page = open_page(server, "/", size=PHONE)
        expect(page.locator("#main .card").first.get_by_role("heading")).to_have_text("Needs attention")
        row = page.locator(f"[data-id={failed.id}]")
        row.get_by_text("Retry with a note").click()
        note = row.get_by_label("Note for: Ship parcels")
        note.fill("Use the red")
        project.tasks.update(blocked.id, title="Print small labels")
        expect(page.locator(f"[data-id={blocked.id}]")).to_contain_text("Print small labels")
        expect(note).to_have_value("Use the red")
        note.fill("Use the red courier.")
        row.get_by_role("button", name="Retry", exact=True).or_(row.locator("button[type=submit]")).first.click()
        expect(row).to_have_count(0)
        page.locator(f"[data-id={blocked.id}]").get_by_role("button", name="Retry as it is").click()
        expect(page.get_by_role("heading", name="Needs attention")).to_have_count(0)

        assert {task.status for task in project.tasks.list()} == {TaskStatus.PENDING}
        (question,) = project.tasks.get(failed.id).questions
        assert (question.text, question.answer) == ("No courier.", "Use the red courier.")


@pytest.mark.parametrize("server", [("--read-only",)], indirect=True)
def test_a_read_only_server_offers_nothing_to_change(shop: Path, server: ServedApart, open_page: Open) -> None:
    with Project.open(shop) as project:
        project.tasks.block(project.tasks.list()[0].id, "Which printer?")
    page = open_page(server, "/")

    expect(page.get_by_text("Read-only")).to_be_visible()
    expect(page.get_by_text("Which printer?")).to_be_visible()
    expect(page.get_by_role("button", name="Start a run")).to_have_count(0)
    expect(page.locator("[data-inbox], [data-answer]")).to_have_count(0)
    task = page.locator("[data-kind] a.row-title").first.get_attribute("href")
    for path in ("/tasks", f"{task}", "/memories", "/staging"):
        page.goto(f"{server.url}{path}")
        expect(page.locator("main :is([data-opens], [data-act], [data-move], [data-shift]):visible")).to_have_count(0)


def order_on(page: Page) -> list[str]:
    return [text.strip() for text in page.locator("#task-list .row-title").all_text_contents()]


def test_tasks_are_reordered_by_arrows_keys_and_dragging(shop: Path, server: ServedApart, open_page: Open) -> None:
    with Project.open(shop) as project:
        for title in ("Ship parcels", "Print labels"):
            project.tasks.add(title)
        page = open_page(server, "/tasks?show=list")
        assert order_on(page) == ["Round prices", "Ship parcels", "Print labels"]

        last = page.locator("#task-list [data-row]").filter(has_text="Print labels")
        last.hover()
        last.get_by_role("button", name="Run earlier: Print labels").click()
        expect(page.locator("#task-list .row-title").nth(1)).to_have_text("Print labels")
        expect(page.get_by_role("button", name="Run earlier: Print labels")).to_be_focused()
        page.locator("#toasts").get_by_role("button", name="Undo").click()
        expect(page.locator("#task-list .row-title").nth(1)).to_have_text("Ship parcels")

        page.locator("#task-list [data-row]").nth(2).drag_to(
            page.locator("#task-list [data-row]").nth(0), target_position={"x": 40, "y": 4}
        )
        expect(page.locator("#task-list .row-title").first).to_have_text("Print labels")
        page.keyboard.press("j")
        page.keyboard.press("]")
        expect(page.locator("#task-list .row-title").first).to_have_text("Round prices")

        assert [task.title for task in project.tasks.list(ready=True)] == order_on(page)


def test_a_task_is_split_and_one_part_is_run(shop: Path, server: ServedApart, open_page: Open) -> None:
    with Project.open(shop) as project:
        (task,) = project.tasks.list()
        page = open_page(server, f"/tasks/{task.id}")
        page.get_by_role("button", name="Split").click()
        expect(page.get_by_label("Parts")).to_be_focused()
        page.get_by_label("Parts").fill("Round net prices\n\nRound gross prices\n")
        page.locator("#split-form").get_by_role("button", name="Split").click()
        part = page.get_by_role("link", name="Round net prices")
        expect(part).to_be_visible()

        part.click()
        page.get_by_role("button", name="Run it").click()
        expect(page.get_by_label("Tasks", exact=True)).to_have_value(page.url.rpartition("/")[2])

        assert [one.title for one in project.tasks.list(ready=True)] == ["Round net prices"]


def test_the_palette_starts_a_run(server: ServedApart, open_page: Open) -> None:
    page = open_page(server, "/memories")
    page.keyboard.press("Control+k")
    page.keyboard.type("start a run")
    expect(page.get_by_role("option", name="Start a run")).to_be_visible()
    page.keyboard.press("Enter")

    expect(page.locator("#start-run-submit")).to_be_enabled()
    expect(page.get_by_label("Agent", exact=True)).to_have_text("command")
