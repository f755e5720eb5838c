"""Pictures of the main pages: taken every time, written to docs/images with UPDATE_SCREENSHOTS=1."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from ralph.project import Project
from tests.browser.conftest import PHONE, WIDE, Open
from tests.browser.test_insight import TITLE, start
from tests.web.asking import ServedApart

FOLDER = Path(__file__).parents[2] / "docs" / "images"
PICTURES = {
    "overview": ("/", WIDE, "light", ".chart canvas"),
    "overview-dark": ("/", WIDE, "dark", ".chart canvas"),
    "memories": ("/memories?q=money", WIDE, "light", "#results [data-row]"),
    "staging": ("/staging", WIDE, "light", ".is-current"),
    "tasks": ("/tasks", WIDE, "dark", "#graph .node"),
    "report": ("/report", WIDE, "light", "section.report"),
    "impact": ("/impact", WIDE, "dark", "#chart-lift canvas"),
    "failures": ("/failures", WIDE, "light", "#categories li"),
    "past-work": ("/episodes?q=round+line+cent", WIDE, "light", "#passages [data-row]"),
    "phone": ("/", PHONE, "dark", ".chart canvas"),
}


AGENT = """\
echo "I look at how amounts are rounded in billing/money.py."
sleep 0.4
echo "Read billing/money.py (84 lines)"
echo "Read tests/test_money.py (131 lines)"
sleep 0.4
echo "The memory says: use ROUND_HALF_UP, the default of decimal rounds 2.675 down."
echo "Edit billing/money.py: quantize(CENT, rounding=ROUND_HALF_UP)"
sleep 0.3
echo "$ pytest -x tests/test_money.py"
echo "  41 passed, 3 failed in 0.42 s"
sleep 20
"""


MONEY = """\
from decimal import Decimal

CENT = Decimal("0.01")


def vat(net: Decimal, rate: Decimal) -> Decimal:
    return (net * rate).quantize(CENT)
"""
ROUNDING_AGENT = """\
cat > billing/money.py <<'END'
from decimal import ROUND_HALF_UP, Decimal

CENT = Decimal("0.01")


def vat(net: Decimal, rate: Decimal) -> Decimal:
    \"\"\"Return the VAT of a net amount, rounded half up as the tax office does.\"\"\"
    return (net * rate).quantize(CENT, rounding=ROUND_HALF_UP)
END
sleep 1.2
echo "The memory says that the tax office adds up rounded lines, so I round half up."
echo "$ pytest -x tests/test_money.py"
echo "  44 passed in 0.41 s"
echo "<task-done>$RALPH_TASK_ID</task-done>"
"""


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_can_be_taken(looked_at: ServedApart, open_page: Open, tmp_path: Path, name: str) -> None:
    path, size, scheme, shows = PICTURES[name]
    page = open_page(looked_at, path, size=size, scheme=scheme)
    expect(page.locator(shows).first).to_be_visible()
    page.wait_for_timeout(100)

    assert _taken(page, tmp_path, name) > 10_000


def test_a_picture_of_a_memory_can_be_taken(looked_at: ServedApart, open_page: Open, tmp_path: Path) -> None:
    memories = looked_at.get("/api/projects/-/memories?limit=50")[1]["items"]
    used = max(memories, key=lambda one: int(one["use_count"]))
    page = open_page(looked_at, f"/memories/{used['id']}", scheme="dark")
    expect(page.locator(".chart canvas").first).to_be_visible()

    assert _taken(page, tmp_path, "memory") > 10_000


def test_a_picture_of_a_run_at_work_can_be_taken(worked_on: ServedApart, open_page: Open, tmp_path: Path) -> None:
    (worked_on.root / "agent.sh").write_text(AGENT)
    page = open_page(worked_on, "/live", scheme="dark")
    words = ["-C", str(worked_on.root), "run", "--max-iterations", "1", "--", "sh", "agent.sh"]

    with subprocess.Popen([sys.executable, "-m", "ralph", *words], stdout=subprocess.DEVNULL) as run:
        expect(page.locator("#output")).to_contain_text("3 failed")
        size = _taken(page, tmp_path, "live")
        run.terminate()

    assert size > 10_000


def test_a_picture_of_an_attempt_can_be_taken(worked_on: ServedApart, open_page: Open, tmp_path: Path) -> None:
    (worked_on.root / "billing").mkdir()
    (worked_on.root / "billing" / "money.py").write_text(MONEY)
    with Project.open(worked_on.root) as project:
        task = project.tasks.add(TITLE, body="Amounts are rounded in billing/money.py.", priority=99)
        with start(worked_on, task.id, ROUNDING_AGENT) as run:
            run.wait(60)
        (attempt,) = project.store.attempts.latest(1)

    page = open_page(worked_on, f"/runs/{attempt.run_id}/attempts/{attempt.iteration}")
    expect(page.locator("[data-file='billing/money.py'] .tok-k").first).to_be_visible()

    assert _taken(page, tmp_path, "attempt") > 10_000


def _taken(page: Page, elsewhere: Path, name: str) -> int:
    """Take a picture, for the docs if that is wanted; return its size."""
    is_wanted = os.environ.get("UPDATE_SCREENSHOTS") == "1"
    picture: Any = page.screenshot(path=(FOLDER if is_wanted else elsewhere) / f"dashboard-{name}.png")
    return len(picture)
