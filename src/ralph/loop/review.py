"""What a verification session is asked, and what its answer means. Pure.

Only a clear yes passes: a session that says nothing, crashes or changes what it
should judge has not verified anything.
"""

from __future__ import annotations

from ralph.memory.render import in_line, quoted, well_fenced
from ralph.records import Ending, Review
from ralph.text import cut, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralph.records import Feature, Reply, Sigils, Task

MOST_FILES = 50
LONGEST_SPEC = 8_000
LONGEST_NOTES = 2_000

# The sigil has something to fill in: one that stands in the prompt as it is would be an echo, which says nothing.
INSTRUCTIONS = """\
# How to verify

Another session says that the task below is done. Find out whether that is true. You only look: read the files, run the
tests, try it; change nothing, whatever you find. What you change is taken back and counts as a failed verification.

- Judge by the task's own words: everything it asks for is there and works, and nothing else is broken.
- A matter of taste is no reason to refuse. Something missing, wrong or untested is.
- When it is done, end with this sigil on a line of its own, with the task's id in place of TASK_ID:

  <verify-pass>TASK_ID</verify-pass>

- When it is not, end with this one, and say exactly what is wrong and where, for whoever mends it:

  <verify-fail>what is wrong, and where</verify-fail>
"""


def review_prompt(task: Task, feature: Feature | None, files: Sequence[str], notes: str) -> str:
    """Give the prompt of a session that verifies an attempt."""
    parts = [INSTRUCTIONS, f"## Task\n\n**{task.id}**: {in_line(task.title)}"]
    if task.body:
        parts.append(quoted(task.body))
    if feature and feature.spec:
        parts.append(f"## Feature: {in_line(feature.name)}\n\n{well_fenced(cut(quoted(feature.spec), LONGEST_SPEC))}")
    changed = "\n".join(f"- {quoted(path)}" for path in files[:MOST_FILES])
    more = f"\n- and {len(files) - MOST_FILES} more" if len(files) > MOST_FILES else ""
    parts.append(f"## Changed Files\n\n{changed + more or 'Nobody knows which: look for yourself.'}")
    if notes:
        parts.append(f"## What the Session Said\n\n{well_fenced(cut(quoted(notes), LONGEST_NOTES))}")
    return "\n\n".join(parts) + "\n"


def without_echo(answer: str, prompt: str) -> str:
    """Give an answer without the lines it repeats from its prompt, which names both verdicts.

    Some agents print what they were asked before they answer.
    """
    asked = {line.strip() for line in prompt.splitlines()} - {""}
    return "\n".join(line for line in answer.splitlines() if line.strip() not in asked)


def passes(answer: str, task_id: str) -> bool:
    """Say whether an answer passes this very task, on a line of its own: to speak of passing is not to pass."""
    wanted = ("<verify-pass/>", f"<verify-pass>{task_id}</verify-pass>".lower())
    return any("".join(line.split()).strip("`*_").lower() in wanted for line in answer.splitlines())


def judge_review(reply: Reply, sigils: Sigils, passes: bool, changed: Sequence[str], kept_as: str = "") -> Review:
    """Give what a verification session came to.

    `passes` says that it passed this very task; `changed` are files it had no business with, kept under a name.
    """
    is_judged = reply.ending is Ending.FINISHED and not changed and (passes or sigils.verify_passed is False)
    if reply.ending is not Ending.FINISHED:
        why = f"the verification session did not finish: {reply.detail or reply.ending.value}"
    elif changed:
        kept = f" (git show {kept_as})" if kept_as else ""
        why = f"files were changed during the verification, and taken back{kept}: {one_line(', '.join(changed), 120)}"
    elif sigils.verify_passed is not False and not passes:
        why = "the verification session said neither that the work is right nor what is wrong"
    elif sigils.verify_passed is not False:
        return Review(passed=True, reply=reply)
    else:
        why = sigils.verify_reason or "the verification session gave no reason"
    return Review(passed=False, is_judged=is_judged, reason=why, reply=reply)
