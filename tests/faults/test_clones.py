"""A clone that nobody trusts reads, runs, calls and tells nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults import clones

pytestmark = pytest.mark.sqlite


@pytest.mark.parametrize(
    ("brings", "way"),
    [
        ("a store beside it", "memory list"),
        ("a store behind a link", "MCP"),
        ("a server", "memory add Learned in the clone."),
        ("a server by its short scheme", "session start"),
        ("a gate", "run --max-iterations 1 -- true"),
        ("a command", "run"),
        ("knowledge", "memory prime"),
        ("knowledge that comes later", "prompt"),
        ("a database", "run --resume"),
        ("a store by its full path", "Python"),
    ],
)
def test_a_clone_reaches_nothing(tmp_path: Path, brings: str, way: str) -> None:
    assert clones.attack(tmp_path / "world", brings, way) == []


def test_there_are_hundreds_of_cases() -> None:
    assert len(clones.cases()) > 400
