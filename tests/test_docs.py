from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_command_reference_is_current() -> None:
    generate = runpy.run_path(str(ROOT / "docs" / "generate.py"))

    assert generate["cli_reference"]() == (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")


def test_the_reference_of_the_http_api_is_current() -> None:
    generate = runpy.run_path(str(ROOT / "docs" / "generate.py"))

    assert generate["http_reference"]() == (ROOT / "docs" / "http.md").read_text(encoding="utf-8")


def test_the_map_for_agents_stays_short() -> None:
    assert len((ROOT / "AGENTS.md").read_text(encoding="utf-8").splitlines()) <= 60
