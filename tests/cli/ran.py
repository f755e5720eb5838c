"""Run a command as a person would, and see what it printed and how it ended."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ralph.cli import main

Ralph = Callable[..., "Ran"]


class Ran:
    """What a command printed and how it ended."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def run(capsys: pytest.CaptureFixture[str], directory: Path, *words: str) -> Ran:
    """Run one command in a directory."""
    capsys.readouterr()
    try:
        code = main(["-C", str(directory), *words])
    except SystemExit as ended:
        code = int(ended.code or 0)
    captured = capsys.readouterr()
    return Ran(code, captured.out, captured.err)
