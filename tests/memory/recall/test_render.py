"""Memories as they are shown in a prompt."""

from __future__ import annotations

import pytest

from ralph.core.records import RecalledMemory
from ralph.memory.recall.render import render_knowledge_section
from tests.make import a_memory


@pytest.mark.parametrize(
    ("title", "entry"),
    [
        ("make failed: Start docker first.", "- **make failed**: Start docker first."),
        ("make failed: Start dock…", "- **make failed**: Start docker first."),
        ("port 5432: connection refused", "- **port 5432: connection refused**: Start docker first."),
    ],
)
def test_what_the_title_of_a_fix_says_is_not_repeated(title: str, entry: str) -> None:
    body = "**Problem:** exited with 1 (make)\n\n**Fix:** Start docker first."

    text, _, _ = render_knowledge_section([RecalledMemory(memory=a_memory(title, body, kind="fix"), score=1.0)], 500)

    assert entry in text
