"""Prompt and verdict of a verification session. Pure.

Only an explicit pass counts: a session that says nothing, crashes or changes the
files under review has not verified anything. One that says nothing or crashes is
not the fault of the work either: it is asked once more, and then a person decides.
"""

from __future__ import annotations

from ralph.core.records import Review, SessionEnding, replace
from ralph.core.text import one_line, truncate
from ralph.loop.authored_text import authored_line, authored_text, render_feature, render_parents
from ralph.loop.question_text import answers_text
from ralph.memory.recall.render import close_fences, escape_untrusted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralph.core.records import AgentReply, Feature, Question, Sigils, Task

MAX_LISTED_FILES = 50
"""Maximum number of changed files listed in the prompt."""
MAX_NOTES_LENGTH = 2_000
"""Maximum length of the session's notes in the prompt, in characters."""

# The sigil has a placeholder to fill in, because a sigil repeated word for word from the prompt is ignored.
REVIEW_INSTRUCTIONS = """\
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


def build_review_prompt(
    task: Task,
    feature: Feature | None,
    files: Sequence[str],
    notes: str,
    parents: Sequence[Task] = (),
    questions: Sequence[Question] = (),
) -> str:
    """Return the prompt of a session that verifies an attempt; `parents` are the tasks it is part of, nearest first."""
    subject = f"{task.title}\n{task.body}"
    parts = [REVIEW_INSTRUCTIONS, f"## Task\n\n**{task.id}**: {authored_line(task.title, task.written_by)}"]
    if task.body:
        parts.append(authored_text("description", task.body, task.written_by))
    parts += render_parents(parents, subject)
    if questions:
        parts.append(answers_text(questions).rstrip())
    if feature and feature.spec:
        parts.append(render_feature(replace(feature, plan=""), subject).text)
    changed = "\n".join(f"- {escape_untrusted(path)}" for path in files[:MAX_LISTED_FILES])
    more = f"\n- and {len(files) - MAX_LISTED_FILES} more" if len(files) > MAX_LISTED_FILES else ""
    parts.append(f"## Changed Files\n\n{changed + more or 'Unknown: find out what changed.'}")
    if notes:
        parts.append(f"## What the Session Said\n\n{close_fences(truncate(escape_untrusted(notes), MAX_NOTES_LENGTH))}")
    return "\n\n".join(parts) + "\n"


def is_passing_answer(answer: str, task_id: str) -> bool:
    """Return whether an answer passes this task with a sigil on a line of its own; mentioning it does not count."""
    accepted = ("<verify-pass/>", f"<verify-pass>{task_id}</verify-pass>".lower())
    return any("".join(line.split()).strip("`*_").lower() in accepted for line in answer.splitlines())


def judge_review(
    reply: AgentReply, sigils: Sigils, is_passing: bool, changed: Sequence[str], saved_ref: str = ""
) -> Review:
    """Return the verdict of a verification session.

    `passes` tells whether it passed this task; `changed` are files it modified, saved under the ref `kept_as`.
    """
    is_judged = reply.ending is SessionEnding.FINISHED and not changed and (is_passing or sigils.verify_passed is False)
    if reply.ending is not SessionEnding.FINISHED:
        reason = f"the verification session did not finish: {reply.detail or reply.ending.value}"
    elif changed:
        saved = f" (git show {saved_ref})" if saved_ref else ""
        reason = f"files were changed during the verification and reverted{saved}: {one_line(', '.join(changed), 120)}"
    elif sigils.verify_passed is not False and not is_passing:
        reason = "the verification session neither passed nor failed the work"
    elif sigils.verify_passed is not False:
        return Review(passed=True, reply=reply)
    else:
        reason = sigils.verify_reason or "the verification session gave no reason"
    is_silent = not is_judged and not changed and reply.ending is not SessionEnding.STOPPED
    return Review(passed=False, has_verdict=is_judged, is_silent=is_silent, reason=reason, reply=reply)
