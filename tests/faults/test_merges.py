"""Work that git does not see is neither lost nor taken for done."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults import merges

pytestmark = pytest.mark.sqlite


@pytest.mark.parametrize(
    "name",
    [
        "nothing hidden",
        "an ignored folder",
        "info/exclude by the agent",
        "assume-unchanged and ignored",
        "a clean filter",
        "a clean filter of the person",
        "a link into its own worktree",
        "executable bits ignored",
        "a commit of something else",
        "the base branch moved",
        "replaced objects",
    ],
)
def test_hidden_work_is_kept_and_not_done(tmp_path: Path, name: str) -> None:
    assert merges.hide(tmp_path / "case", name) == []
