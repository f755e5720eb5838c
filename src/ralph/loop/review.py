"""Prompt and verdict of a verification session. Pure.

Only an explicit pass counts: a session that says nothing, crashes or changes the
files under review has not verified anything.
"""

from __future__ import annotations

from ralph.core.records import Ending, Review
from ralph.core.text import cut, one_line
from ralph.memory.recall.render import in_line, quoted, well_fenced

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralph.core.records import Feature, Reply, Sigils, Task

MOST_FILES = 50
"""Maximum number of changed files listed in the prompt."""
LONGEST_SPEC = 8_000
"""Maximum length of the feature's spec in the prompt, in characters."""
LONGEST_NOTES = 2_000
"""Maximum length of the session's notes in the prompt, in characters."""

# The sigil has a placeholder to fill in, because a sigil repeated word for word from the prompt is ignored.
INSTRUCTIONS = """\
# How to verify

Another session claims that the task below is done. Check whether that is true. This session is read-only: read the
files, run the tests, try it out, but do not change anything. Changes are reverted and count as a failed verification.

- Judge by the task description: everything it asks for is there and works, and nothing else is broken.
- Do not fail it for matters of taste. Fail it if something is missing, wrong or untested.
- If it is done, end with this sigil on a line of its own, with the task's id in place of TASK_ID:

  <verify-pass>TASK_ID</verify-pass>

- If it is not, end with this one, and say exactly what is wrong and where, so that it can be fixed:

  <verify-fail>what is wrong, and where</verify-fail>
"""


def review_prompt(task: Task, feature: Feature | None, files: Sequence[str], notes: str) -> str:
    """Return the prompt of a session that verifies an attempt."""
    parts = [INSTRUCTIONS, f"## Task\n\n**{task.id}**: {in_line(task.title)}"]
    if task.body:
        parts.append(quoted(task.body))
    if feature and feature.spec:
        parts.append(f"## Feature: {in_line(feature.name)}\n\n{well_fenced(cut(quoted(feature.spec), LONGEST_SPEC))}")
    changed = "\n".join(f"- {quoted(path)}" for path in files[:MOST_FILES])
    more = f"\n- and {len(files) - MOST_FILES} more" if len(files) > MOST_FILES else ""
    parts.append(f"## Changed Files\n\n{changed + more or 'Unknown: find out what changed.'}")
    if notes:
        parts.append(f"## What the Session Said\n\n{well_fenced(cut(quoted(notes), LONGEST_NOTES))}")
    return "\n\n".join(parts) + "\n"


def without_echo(answer: str, prompt: str) -> str:
    """Remove the lines an answer repeats from its prompt, which names both verdicts.

    Some agents print the prompt before they answer.
    """
    prompt_lines = {line.strip() for line in prompt.splitlines()} - {""}
    return "\n".join(line for line in answer.splitlines() if line.strip() not in prompt_lines)


def passes(answer: str, task_id: str) -> bool:
    """Return whether an answer passes this task with a sigil on a line of its own; mentioning it does not count."""
    accepted = ("<verify-pass/>", f"<verify-pass>{task_id}</verify-pass>".lower())
    return any("".join(line.split()).strip("`*_").lower() in accepted for line in answer.splitlines())


def judge_review(reply: Reply, sigils: Sigils, passes: bool, changed: Sequence[str], kept_as: str = "") -> Review:
    """Return the verdict of a verification session.

    `passes` tells whether it passed this task; `changed` are files it modified, saved under the ref `kept_as`.
    """
    is_judged = reply.ending is Ending.FINISHED and not changed and (passes or sigils.verify_passed is False)
    if reply.ending is not Ending.FINISHED:
        reason = f"the verification session did not finish: {reply.detail or reply.ending.value}"
    elif changed:
        saved = f" (git show {kept_as})" if kept_as else ""
        reason = f"files were changed during the verification and reverted{saved}: {one_line(', '.join(changed), 120)}"
    elif sigils.verify_passed is not False and not passes:
        reason = "the verification session neither passed nor failed the work"
    elif sigils.verify_passed is not False:
        return Review(passed=True, reply=reply)
    else:
        reason = sigils.verify_reason or "the verification session gave no reason"
    return Review(passed=False, is_judged=is_judged, reason=reason, reply=reply)
