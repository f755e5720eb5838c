"""A program that a session leaves in git's settings never runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults import leftovers

pytestmark = pytest.mark.sqlite


@pytest.mark.parametrize(
    ("what", "kind"),
    [
        ("a clean filter", "serial"),
        ("a filter process", "parallel"),
        ("a filter in an included file", "serial"),
        ("a filter of the worktree", "parallel"),
        ("a filter of the user", "serial"),
        ("hooks", "parallel"),
        ("a file system monitor", "reviewed"),
        ("a merge driver", "parallel"),
        ("another common directory", "serial"),
        ("a nested repository", "serial"),
        ("a nested repository", "parallel"),
        ("a nested repository", "reviewed"),
        ("a git in the path", "serial"),
    ],
)
def test_a_planted_program_does_not_run(tmp_path: Path, what: str, kind: str) -> None:
    assert leftovers.plant(tmp_path / "case", what, kind) == []
