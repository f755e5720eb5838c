"""Instructions for agents about using the memory, for prompts of the loop and as a skill file.

`src/ralph/plugin` contains the same skill as a file; a test compares them.

"""

from __future__ import annotations

from ralph.core.memory_types import describe_types

SKILL_NAME = "ralph-memory"
"""Name of the skill and of its folder."""
SKILL_DESCRIPTION = (
    "Project memory maintained by Ralph, with decisions, conventions, pitfalls and fixes from earlier sessions. "
    "Use it before exploring an unfamiliar part of the code, before changing something that looks odd, "
    "when you hit an error that others may have seen, and when you have learned something the next session will need."
)

MEMORY_COMMANDS = """\
  ralph memory search "words"              search for what is known before you explore
  ralph memory show ID                     show one memory in full
  ralph memory search "words" --episodes   search what earlier sessions and commits said
  ralph memory add "a fact" --type fix --tags docker,database
"""

MEMORY_RULES = f"""\
The types are:

{describe_types()}

Add one precise fact at a time, with its reason, and search first to avoid duplicates. Never put keys or passwords into
a memory.
"""

PROMPT_SECTION = f"""\
## Project Memories by Command

You can search the memories of this project and add to them while you work:

{MEMORY_COMMANDS}
{MEMORY_RULES}"""
"""Section of a loop prompt."""

GUIDE_SECTION = f"""\
## Project memory

What sessions learn about this project is stored in a memory that all of them share. Run `ralph prime` when you start,
and search before you explore, before you undo something that looks odd, and when something fails:

{MEMORY_COMMANDS}
{MEMORY_RULES}"""
"""Section of AGENTS.md, for agents that have neither hooks nor skills."""

SKILL_FILE = f"""\
---
name: {SKILL_NAME}
description: {SKILL_DESCRIPTION}
---

# Project memory

What sessions learn about this project is stored in a memory that all of them share. You see the most relevant memories
when a session starts; search for the rest.

## Search first
- before you explore an unfamiliar part of the project;
- before you undo or simplify something that looks odd: there may be a reason for it;
- when a command, a test or a build fails for a reason that is not obvious.

Search with a few specific words: names of files, functions or tools, or the error message. If you have the tools of
the MCP server `ralph`, use `search_memories`, then `show_memory` for a memory in full; `search_history` finds what
earlier sessions, attempts and commits said, word for word. Otherwise use the commands:

{MEMORY_COMMANDS}
A memory was true when it was written. If it contradicts the code, trust the code.

## Remember what will help
When you find out something that took effort and will still be true tomorrow, save it: with the tool `remember`, with
the command above, or with a separate line in your answer:

MEMORY:pitfall:The test database is shared; run those tests one at a time

{MEMORY_RULES}
Do not save what the code or its documentation already says, what concerns only the current task, or anything personal
about people.

## When something failed
If you give up on an approach to a task, report why with the tool `report_failure`, so that the next attempt does not
start with the same one. `ralph task list` shows the open tasks.
"""
"""Content of SKILL.md."""
