"""The built-in memory types.

Help texts, the lists that agents read, the sections of files and prompts, and the checks of input are derived from
this table. A project can also use types of its own, which agents introduce as learning categories.
"""

from __future__ import annotations

from ralph.core.records.base import record


@record
class MemoryType:
    """A type of memory, and where it is used."""

    name: str
    description: str
    """One line for agents and help texts."""
    heading: str = ""
    """Heading of its group in prompts. If empty, it is only a category of learnings, which are one group."""
    file_section: int = 0
    """Position of its section in `.agent/memories.md`, from 1; 0 if it has none."""
    is_signal: bool = False
    """Whether agents may state it in a `MEMORY:type:content` line."""
    is_category: bool = False
    """Whether it is a category of the `<learning>` sigil."""
    is_warning: bool = False
    """Whether it says what to avoid."""
    learnings_section: tuple[int, str] | None = None
    """Position and heading of its section in the knowledge base of a run, for a type with structured content."""


_TYPES = (
    MemoryType(name="architecture", description="how the parts fit together", heading="Architecture", is_signal=True),
    MemoryType(
        name="dependency", description="a library or service the project needs", heading="Dependencies", is_signal=True
    ),
    MemoryType(
        name="decision", description="what was chosen and why", heading="Decisions", is_signal=True, file_section=2
    ),
    MemoryType(
        name="constraint", description="a limit that every change must respect", heading="Constraints", is_signal=True
    ),
    MemoryType(
        name="pattern", description="how things are done here", heading="Patterns", is_signal=True, file_section=1
    ),
    MemoryType(
        name="convention",
        description="a rule for names, layout or style",
        heading="Conventions",
        is_signal=True,
        learnings_section=(4, "Project Conventions"),
    ),
    MemoryType(
        name="pitfall",
        description="an easy mistake and how to avoid it",
        heading="Pitfalls",
        is_signal=True,
        is_category=True,
        is_warning=True,
    ),
    MemoryType(
        name="fix", description="the solution to a recurring problem", heading="Fixes", is_signal=True, file_section=3
    ),
    MemoryType(
        name="context", description="what a newcomer has to know", heading="Context", is_signal=True, file_section=4
    ),
    MemoryType(
        name="strategy",
        description="an approach that worked",
        heading="Strategies",
        learnings_section=(1, "Proven Strategies"),
    ),
    MemoryType(
        name="antipattern",
        description="an approach that failed repeatedly",
        heading="Antipatterns",
        is_warning=True,
        learnings_section=(2, "Anti-Patterns to Avoid"),
    ),
    MemoryType(
        name="estimate",
        description="how long a type of task takes",
        heading="Estimates",
        learnings_section=(3, "Time/Iteration Estimates"),
    ),
    MemoryType(name="knowledge", description="an entry with a title and tags", heading="Knowledge"),
    MemoryType(name="success_pattern", description="what made an attempt succeed", is_category=True),
    MemoryType(name="tool_usage", description="how to use a tool here", is_category=True),
    MemoryType(name="code_structure", description="where things are in the code", is_category=True),
    MemoryType(name="testing_strategy", description="how to test a change", is_category=True),
    MemoryType(name="debugging_technique", description="how to find the cause of a problem", is_category=True),
    MemoryType(name="other", description="any other lesson", is_category=True),
)
MEMORY_TYPES = {one.name: one for one in _TYPES}

MEMORY_KINDS = tuple(one.name for one in _TYPES if one.heading)
"""Types that people can choose; those that are only learning categories are accepted, but not listed."""
SIGNAL_TYPES = tuple(one.name for one in _TYPES if one.is_signal)
"""Types that agents may state in a `MEMORY:type:content` line."""
LEARNING_CATEGORIES = tuple(one.name for one in _TYPES if one.is_category)


def describe_types() -> str:
    """Return the types that agents may state, one per line with its description."""
    return "\n".join(f"- {name}: {MEMORY_TYPES[name].description}" for name in SIGNAL_TYPES)
