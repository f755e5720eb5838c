from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("page", ["cli", "http", "configuration"])
def test_the_generated_page_is_current(page: str) -> None:
    generate = runpy.run_path(str(ROOT / "docs" / "generate.py"))

    assert generate[f"{page}_reference"]() == (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")


def test_the_table_of_file_formats_is_current() -> None:
    generate = runpy.run_path(str(ROOT / "docs" / "generate.py"))
    page = (ROOT / "docs" / "memory.md").read_text(encoding="utf-8")

    assert generate["with_format_table"](page) == page


def test_the_map_for_agents_stays_short() -> None:
    assert len((ROOT / "AGENTS.md").read_text(encoding="utf-8").splitlines()) <= 60


@pytest.mark.parametrize("page", ["reliability.md", "security.md"])
def test_every_test_that_a_page_names_is_there(page: str) -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)`", (ROOT / "docs" / page).read_text(encoding="utf-8"))

    assert len(named) > 10
    assert [name for name in named if not (ROOT / name).is_file()] == []
