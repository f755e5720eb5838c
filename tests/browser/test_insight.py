"""Attempts, models, the impact of memory and reports, as people look at them."""

from __future__ import annotations

import subprocess
import sys

from playwright.sync_api import expect

from ralph.project import Project
from tests.browser.conftest import PHONE, Open
from tests.browser.test_every_page import DESK, FLAWS, barriers, settled
from tests.web.asking import ServedApart

TITLE = "Round the VAT of credit notes half up"
CODE = """\
def limit(customer: str) -> int:
    # <script>window.ran = 1</script>
    return 7
"""
AGENT = f"""\
mkdir -p billing
cat > billing/limit.py <<'END'
{CODE}END
echo "I limit requests."
while [ -e ../wait ]; do sleep 0.1; done
echo "<task-done>$RALPH_TASK_ID</task-done>"
"""


def start(server: ServedApart, task: str, agent: str = AGENT) -> subprocess.Popen[bytes]:
    """Start a run of one attempt with a scripted agent, in a repository that has what is there."""
    root = server.root
    (root / "agent.sh").write_text(agent)
    tracked = ["billing"] if (root / "billing").exists() else []
    git = ["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    for words in (["init", "-q"], ["add", "agent.sh", *tracked], ["commit", "-qm", "Begin"]):
        subprocess.run([*git, *words], cwd=root, check=True)
    for name, value in (("user.name", "Ada"), ("user.email", "ada@example.org")):
        subprocess.run(["git", "config", name, value], cwd=root, check=True)
    words = ["-C", str(root), "run", "--task", task, "--gate", "echo 41 passed", "--max-iterations", "1"]
    return subprocess.Popen([sys.executable, "-m", "ralph", *words, "--", "sh", "agent.sh"], stdout=subprocess.DEVNULL)


def test_an_attempt_is_followed_and_tells_what_it_was_told_and_did(worked_on: ServedApart, open_page: Open) -> None:
    with Project.open(worked_on.root) as project:
        task = project.tasks.add(TITLE, body="Amounts are rounded in billing/money.py.", priority=99)
        (worked_on.root.parent / "wait").touch()
        with start(worked_on, task.id) as run:
            page = open_page(worked_on, f"/tasks/{task.id}")
            link = page.locator(".attempt-head a.mono").first
            expect(link).to_be_visible(timeout=30_000)
            link.click()
            expect(page.locator("#output")).to_contain_text("I limit requests.", timeout=30_000)
            (worked_on.root.parent / "wait").unlink()
            run.wait(60)
        (attempt,) = project.store.attempts.latest(1)

    expect(page.locator("#attempt")).to_have_attribute("data-running", "false", timeout=30_000)
    expect(page.locator(".title-line .badge")).to_have_text("done")
    changes = page.locator("[data-file='billing/limit.py']")
    expect(changes.locator(".tok-k").first).to_have_text("def")
    expect(changes).to_contain_text("<script>window.ran = 1</script>")
    assert page.evaluate("window.ran") is None
    check = page.locator("[data-check=gate]")
    expect(check).to_contain_text("passed")
    check.locator("summary").click()
    expect(check.locator("pre")).to_contain_text("41 passed")
    section = page.locator("[data-section]").first
    section.locator("summary").click()
    expect(section.locator("pre")).to_be_visible()
    assert page.locator("[data-left-out]").count()
    memories = [id for id in attempt.shown if id.startswith("mem-")]
    assert page.locator("#memories [data-memory]").count() == len(memories) > 0
    for size in (PHONE, DESK):
        page.set_viewport_size({"width": size[0], "height": size[1]})
        page.evaluate("document.querySelectorAll('main details').forEach((one) => (one.open = true))")
        assert [*page.evaluate(FLAWS), *barriers(page)] == []

    page.locator("#memories [data-memory] a").first.click()
    page.locator(f"#shown a[href$='/attempts/{attempt.iteration}']").first.click()
    expect(page.locator("#changes-title")).to_be_visible()


def test_models_are_compared_and_the_next_choice_has_a_reason(looked_at: ServedApart, open_page: Open) -> None:
    page = open_page(looked_at, "/models")

    models = page.locator("#by-model tbody tr")
    assert {"haiku", "sonnet", "opus"} <= {one.get_attribute("data-group") for one in models.all()}
    expect(models.first.locator("[data-label=Success]")).to_contain_text("%")
    assert page.locator("#matrix tbody tr").count() == models.count()
    choice = page.locator("#choices [data-task]").first
    expect(choice.locator("[data-model]")).not_to_be_empty()
    expect(choice.locator(".row-note")).not_to_be_empty()
    page.locator("#decisions a").first.click()
    expect(page.locator("#prompt-title")).to_be_visible()


def test_the_impact_of_memory_has_an_interval_over_time_and_a_replay(looked_at: ServedApart, open_page: Open) -> None:
    page = open_page(looked_at, "/impact")

    expect(page.locator("#chart-lift canvas")).to_be_visible()
    table = page.get_by_role("table", name="Success gained with memory, in percentage points")
    assert table.get_by_role("rowheader").count() > 1
    assert page.locator("#helpful [data-memory]").count()
    option = page.locator("#replay-task option").filter(has_text="Add VAT to a total").first
    page.locator("#replay-task").select_option(value=option.get_attribute("value"))
    page.get_by_role("button", name="Replay").click()
    expect(page.locator("#replay-rows tbody tr").first).to_be_visible()
    assert page.locator("#replay-rows [data-now=shown]").count()
    settled(page)
    assert [*page.evaluate(FLAWS), *barriers(page)] == []


def test_the_report_of_a_run_is_read_and_saved(looked_at: ServedApart, open_page: Open) -> None:
    page = open_page(looked_at, "/report")
    latest = page.locator(".crumbs .mono").text_content()

    page.get_by_label("Run", exact=True).select_option(index=1)
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.locator(".crumbs .mono")).not_to_have_text(latest or "")
    with page.expect_download() as download:
        page.get_by_role("link", name="Save as HTML").click()
    saved = download.value.path().read_text()

    assert saved.startswith("<!doctype html>")
    assert "<script" not in saved
