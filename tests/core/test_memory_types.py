"""The registry of memory types, and the places that are derived from it."""

from __future__ import annotations

import pytest

from ralph.cli import build_parser
from ralph.core.memory_types import LEARNING_CATEGORIES, MEMORY_KINDS, MEMORY_TYPES, SIGNAL_TYPES
from ralph.core.skill import MEMORY_RULES
from ralph.formats.memories_document import SECTION_HEADINGS
from ralph.formats.memories_md import MEMORIES_TEMPLATE
from ralph.formats.sigils import parse_sigils
from ralph.integrations.mcp.tools import TOOLS
from ralph.loop.instructions import MEMORY_INSTRUCTIONS
from ralph.memory.lifecycle.learnings import LEARNING_SECTIONS
from ralph.memory.recall.render import kind_heading
from ralph.memory.sessions import SAVE_INSTRUCTIONS


def test_the_types_of_the_mission_are_there() -> None:
    assert set("architecture dependency decision constraint pattern convention pitfall fix".split()) < set(MEMORY_KINDS)
    assert list(SECTION_HEADINGS.values()) == ["Patterns", "Decisions", "Fixes", "Context"]
    assert list(LEARNING_SECTIONS) == ["strategy", "antipattern", "estimate", "convention"]


@pytest.mark.parametrize("name", SIGNAL_TYPES)
def test_agents_read_of_every_type_that_they_may_state(name: str) -> None:
    for text in (MEMORY_RULES, MEMORY_INSTRUCTIONS, SAVE_INSTRUCTIONS):
        assert name in text
    (signal,) = parse_sigils(f"MEMORY:{name}:The port is 5433").signals
    assert signal.kind == name


@pytest.mark.parametrize("name", LEARNING_CATEGORIES)
def test_agents_read_of_every_category(name: str) -> None:
    assert name in MEMORY_INSTRUCTIONS


@pytest.mark.parametrize("name", MEMORY_KINDS)
def test_every_type_is_offered_and_has_a_heading(name: str) -> None:
    assert name in str(TOOLS["remember"].properties["type"])
    assert name in _help_of_type()
    assert kind_heading(name) == MEMORY_TYPES[name].heading


def _help_of_type() -> str:
    memory = build_parser("memory")
    add = next(action for action in memory._subparsers._group_actions)  # type: ignore[union-attr]
    parser = add.choices["memory"]._subparsers._group_actions[0].choices["add"]  # type: ignore[index]
    return next(str(action.help) for action in parser._actions if "--type" in action.option_strings)


def test_the_memories_file_has_the_sections_of_the_registry() -> None:
    assert MEMORIES_TEMPLATE == "# Memories\n\n## Patterns\n\n## Decisions\n\n## Fixes\n\n## Context\n"
