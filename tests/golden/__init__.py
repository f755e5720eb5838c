"""Golden files hold wording that people and agents read. `UPDATE_GOLDEN=1 make test` writes them; read the diff."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

import pytest

MAX_DIFF_LINES = 60


def assert_golden(name: str, text: str) -> None:
    path = Path(__file__).parent / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    expected = path.read_text(encoding="utf-8")
    if text != expected:
        # Not splitlines(): a missing newline at the end must show up, too.
        diff = difflib.unified_diff(expected.split("\n"), text.split("\n"), f"{name} (golden)", name, lineterm="")
        lines = list(diff)[:MAX_DIFF_LINES]
        pytest.fail("\n".join([*lines, "run with UPDATE_GOLDEN=1 and read the diff"]), pytrace=False)
