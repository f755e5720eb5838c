"""What agents are told about using the memory: in prompts of the loop, and as a skill of their own.

One wording for all: `src/ralph/plugin` holds the same skill as a file, and a test compares them.
"""

from __future__ import annotations

NAME = "ralph-memory"
"""Also the name of the folder that holds it."""
DESCRIPTION = (
    "The memory of this project, kept by Ralph, with decisions, conventions, traps and fixes that earlier sessions "
    "found out. Use it before exploring an unfamiliar part of the code, before changing something that looks odd, "
    "when an error comes up that others may have met, and when you have learned something the next session will need."
)

COMMANDS = """\
  ralph memory search "words"            find what is known about something before you explore it
  ralph memory show ID                   read one entry whole
  ralph memory add "what is so" --type fix --tags docker,database
"""

RULES = """\
Types: pattern (how it is done here), decision (what was chosen, and why), fix (what mends a recurring problem), context
(what a newcomer has to know). One fact each, exact and with its reason; look whether it is known before you add it.
Never put keys or passwords into a memory.
"""

SKILL = f"""\
## Project Memories by Command

What is remembered of this project can also be asked for and added to while you work:

{COMMANDS}
{RULES}"""
"""The section of a prompt of the loop."""

FILE = f"""\
---
name: {NAME}
description: {DESCRIPTION}
---

# Project memory

What sessions learn about this project is kept in a store that all of them share. You are shown the best of it when a
session begins; the rest is there to be asked for.

## Search first
- before you explore a part of the project you do not know;
- before you undo or simplify something that looks strange: somebody may have had a reason;
- when a command, a test or a build fails in a way that is not plain at once.

Ask in a few telling words: names of files, functions, tools, or the error itself. Tools of the MCP server `ralph`, if
you have them: `search_memories`, then `show_memory` for an entry you want whole. Otherwise the commands:

{COMMANDS}
A memory tells what was so when it was written. Where the code says otherwise, believe the code.

## Remember what will help
When you have found out something that will be true tomorrow and took effort to find, keep it: with the tool `remember`,
with the command above, or by a line of its own in your answer:

MEMORY:pitfall:The test database is shared; run those tests one at a time

The word in the middle is one of architecture, dependency, decision, constraint, pattern, convention, pitfall, fix.

{RULES}
Also not worth keeping: what the code or its documentation says plainly, what only concerns the task at hand, and
anything personal about people.

## When something failed
If you give up on a way of doing a task, say why with the tool `report_failure`, so that the next attempt does not begin
with the same one. `ralph task list` shows what is to be done.
"""
"""The whole SKILL.md."""
