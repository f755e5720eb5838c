"""Golden files hold wording that people and agents read. `UPDATE_GOLDEN=1 make test` writes them; read the diff."""

from __future__ import annotations

import os
from pathlib import Path


def assert_golden(name: str, text: str) -> None:
    path = Path(__file__).parent / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
