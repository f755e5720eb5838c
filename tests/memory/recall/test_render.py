"""Memories as they are shown in a prompt."""

from __future__ import annotations

import pytest

from ralph.core.records import RecalledMemory
from ralph.memory.recall.prime import render_primer
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


def test_a_title_of_its_own_precedes_a_list() -> None:
    memory = a_memory("API validation (2026-03-04)", "- All endpoints are live.\n- Headers count.", kind="context")
    sentence = a_memory("Use tabs", "Use tabs. The parser counts them.", kind="context")

    text, _, _ = render_knowledge_section([RecalledMemory(memory=one, score=1.0) for one in (memory, sentence)], 2_000)
    primer = render_primer([memory, sentence])

    assert "- **API validation (2026-03-04)**:\n  - All endpoints are live.\n  - Headers count. _(" in text
    assert "- Use tabs. The parser counts them. _(" in text
    assert "> **API validation (2026-03-04)**\n> - All endpoints are live.\n" in primer
    assert "\n> Use tabs. The parser counts them.\n" in primer
