"""Fixed texts of a prompt: how to work, how to end a session, what to store. They follow from the role of a session.

A session is told only what its role may do: an explorer is not asked to finish the task, nor to keep files up to date.
"""

from __future__ import annotations

from ralph.core.memory_types import LEARNING_CATEGORIES, SIGNAL_TYPES
from ralph.core.records import record


@record
class SessionRole:
    """What a session is to do for its task."""

    is_part: bool = False
    """Whether other hats do other parts of the task."""
    changes_files: bool = True
    ends_task: bool = True
    """Whether it says when the task is done; others hand over."""
    plans: bool = False
    """Whether splitting the task is its job."""


_START = """\
# How to work here

You work on one task of this project, alone, in a fresh session in the project directory. Nobody can answer while
you work. {what}, and nothing else.
What people wrote about it stands between tags, such as `<description>`.

"""
_WORK = """\
- Read code before you change it. Follow the conventions you find.
- Check your work the way the project does (its tests, its build) before you {end}.
"""
_DONE = """\
- When the task is finished, end with this sigil on a line of its own, with the task's id in place of TASK_ID:

  <task-done>TASK_ID</task-done>

"""
_FAILURE = """\
- If you cannot {finish}, explain why, so that the next attempt can build on that:

  <failure-report>
  what_tried: what you did
  why_failed: what went wrong, as precisely as you know
  error_category: test_failure, build_error, missing_file, logic_error, timeout, or a word of your own
  relevant_files: the files involved, separated by commas
  stack_trace: the first lines of the error
  </failure-report>
  <retry-suggestion>what the next attempt should do differently</retry-suggestion>
  <task-failed>TASK_ID</task-failed>

- If only a person can decide what to do, ask instead and stop: <question>what to decide, and between what</question>
- If you can, rate how hard it was: <difficulty-estimate>trivial, easy, moderate, hard or blocked</difficulty-estimate>
"""
_MEMORY = f"""\
## Memory

What you write in these sigils is stored and shown to later sessions when it is relevant to them. Use them sparingly
and be precise: one fact that saves an hour is worth more than ten obvious ones.

### End-of-Task Journal
End every session with a few sentences on what you decided and why, and what the next session should know:

<journal>
Decisions, discoveries, and what is left to do.
</journal>

### Knowledge
When you learn something lasting about this project (how it is built, a convention, a pitfall and its workaround),
record it. At least one lowercase tag; at most 500 words:

<knowledge tags="tag1,tag2" title="Short, specific title">
What is the case, where, and what to do about it.
</knowledge>

### Learnings
For a lesson about how to work here, with one of the categories
{", ".join(LEARNING_CATEGORIES)}:

<learning category="pitfall" tags="tag1,path/to/file.py">One to three sentences.</learning>

A single line works as well; the word after MEMORY is one of
{", ".join(SIGNAL_TYPES)}:

MEMORY:pattern:How something specific is done here
"""

_GUIDE = """
If this project has a CLAUDE.md, keep it up to date with what every session should know.
"""


def task_instructions(role: SessionRole) -> str:
    """Return how to work and how to end the session."""
    what = "Do your part of the task below, which Your Hat describes" if role.is_part else "Complete the task below"
    work = _WORK.format(end="claim that it is done" if role.ends_task else "hand it over")
    return (
        _START.format(what=what)
        + (work if role.changes_files else "")
        + (_DONE if role.ends_task else "")
        + _FAILURE.format(finish="do your part" if role.is_part else "finish it")
    )


def memory_instructions(role: SessionRole) -> str:
    """Return what to store for later sessions, and how."""
    return _MEMORY + (_GUIDE if role.changes_files else "")


TASK_INSTRUCTIONS = task_instructions(SessionRole())
MEMORY_INSTRUCTIONS = memory_instructions(SessionRole())

CONFLICT_INSTRUCTIONS = """\
### Merge Conflicts

The work so far on this task was merged with changes that others made meanwhile, and these files conflict. {advice}
"""
RESOLVE_CONFLICTS = "Resolve\nthe conflicts first: preserve the intent of both sides, and leave no conflict markers."
LEAVE_CONFLICTS = "Whoever\nchanges files next resolves them; take both sides into account."
REPRODUCE_ADVICE = (
    "Reproduce the failure with the smallest example you can, and read the real output before anything else."
)
STUCK_WARNING = """\
### Stuck Loop Warning

This task has failed {failures} times in a row. Repeating the same approach will fail again.

- Do not start from the approaches listed under Previous Attempts. Question the assumptions they share.
{signs}"""
OTHER_APPROACH = """\
- Consider another approach: another place for the change, another tool, or reverting earlier changes first.
"""

SPLIT_INSTRUCTIONS = """\
- If the task is too large or combines several things, split it into subtasks that can each be finished and verified
  alone. Write one sigil for each, with everything its session needs to know, and end with task-failed. `needs` names
  the subtasks that must come first:

  <subtask title="title of a subtask" needs="title of another">what to do in it</subtask>
"""
