"""Run a command as a person would, and see what it printed and how it ended."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ralph.cli import main, print_error
from ralph.core.errors import RalphError

Ralph = Callable[..., "Ran"]


class Ran:
    """What a command printed and how it ended."""

    def __init__(self, code: int, out: str, err: str, error: str | None = None) -> None:
        self.code, self.out, self.err = code, out, err
        self.error = error
        """Code of the error the command ended with (`task-not-found`), if any."""

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def run(capsys: pytest.CaptureFixture[str], directory: Path, *words: str) -> Ran:
    """Run one command in a directory."""
    capsys.readouterr()
    codes: list[str] = []

    def report(error: RalphError) -> None:
        codes.append(error.code)
        print_error(error)

    try:
        code = main(["-C", str(directory), *words], report=report)
    except SystemExit as ended:
        code = int(ended.code or 0)
    captured = capsys.readouterr()
    return Ran(code, captured.out, captured.err, codes[0] if codes else None)
