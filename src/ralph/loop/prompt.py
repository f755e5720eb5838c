"""Prompt of one attempt, built from its context.

The stable part comes first, so that it can be cached by the model provider. Every
section has a token budget; when the whole is too large, the journal is cut first, then
past work and the knowledge, but never the task, the latest failure or the instructions.
"""

from __future__ import annotations

from ralph.core.records import FAILED_OUTCOMES, AttemptOutcome, OmittedItem, Prompt, PromptSection, replace
from ralph.core.skill import PROMPT_SECTION
from ralph.core.text import CHARACTERS_PER_TOKEN, count_tokens, one_line, truncate
from ralph.loop.authored_text import SPEC_TOKENS, authored_line, authored_text, render_feature, render_parents
from ralph.loop.failure_text import similar_failure_text
from ralph.loop.instructions import (
    CONFLICT_INSTRUCTIONS,
    LEAVE_CONFLICTS,
    OTHER_APPROACH,
    REPRODUCE_ADVICE,
    RESOLVE_CONFLICTS,
    SPLIT_INSTRUCTIONS,
    STUCK_WARNING,
    SessionRole,
    memory_instructions,
    task_instructions,
)
from ralph.loop.journal_section import entry_name, journal_text, untold_entries
from ralph.loop.previous_attempts import ATTEMPTS_TOKENS, render_attempts, render_unfinished
from ralph.loop.question_text import ANSWERS_SECTION, answers_text
from ralph.loop.stuck import EscalationStep, stuck_warning_lines
from ralph.memory.recall.render import (
    close_fences,
    escape_untrusted,
    render_knowledge_section,
)
from ralph.memory.recall.render_rules import StandingSection, render_standing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ralph.core.records import PromptContext, Task
    from ralph.loop.strategy import ModelChoice
    from ralph.loop.stuck import StuckState

RULES_SECTION = "Standing Rules"
"""Name of the section that shows rules for all work."""
KNOWLEDGE_SECTION = "Project Knowledge"
"""Name of the section that shows memories."""
PAST_WORK_SECTION = "From Past Work"
"""Name of the section that shows episodes."""
PREREQUISITES = "Completed Prerequisites"
"""Heading of what the tasks that came first left behind."""
KNOWLEDGE_TOKENS = 2_000
JOURNAL_TOKENS = 3_000
HANDOVER_TOKENS = 1_500
SIMILAR_FAILURES_TOKENS = 400
STATUS_TOKENS = 150
PREREQUISITE_CHARACTERS = 300
"""Maximum length of the notes of a prerequisite, in characters."""
MAX_LISTED_CONFLICTS = 30
"""Maximum number of conflicting files listed."""
DEFAULT_ROLE = SessionRole()


def build_prompt(
    context: PromptContext,
    *,
    iteration: int,
    choice: ModelChoice,
    stuck_state: StuckState,
    budget_tokens: int,
    memories_tokens: int = 0,
    episodes_tokens: int = 0,
    rules_tokens: int = 0,
    with_skill: bool = False,
    hat_instructions: str = "",
    conflicts: Sequence[str] = (),
    models: Sequence[str] = (),
    can_split: bool = True,
    role: SessionRole = DEFAULT_ROLE,
) -> Prompt:
    """Return the prompt for one attempt, with a record of what it shows and leaves out.

    `memories_tokens` is the project's budget for knowledge, if lower than the default, `episodes_tokens` that for past
    work, and `rules_tokens` that for standing rules; `with_skill` adds how to use the memory from the command line;
    `conflicts` are files with merge conflicts; `models` are those the agent may ask for; `can_split` tells whether a
    stuck task may be split, `role` what the session is to do for its task.
    """
    fixed = [_section("Instructions", task_instructions(role)), _section("Memory", memory_instructions(role))]
    if with_skill and context.with_memory:
        fixed.append(_section("Skill", PROMPT_SECTION))
    rules = render_standing(context.rules, rules_tokens) if context.rules else StandingSection()
    if rules.text or rules.left_out:
        ids = (*rules.memories, *rules.episodes)
        fixed.append(_section(RULES_SECTION, rules.text, rules_tokens, shown=ids, left_out=rules.left_out))
    task = [
        *([_section("Hat", hat_instructions)] if hat_instructions else []),
        _task(context),
        *([_section(ANSWERS_SECTION, answers_text(context.questions))] if context.questions else []),
        *_conflicts(conflicts, role),
        *_feature(context),
    ]
    tail = [
        *_handovers(context),
        *_previous_attempts(context),
        *_unfinished(context, role.changes_files),
        *_similar_failures(context),
        *_stuck_warning(context, stuck_state, can_split, role),
        _status(context, iteration, choice, stuck_state, models),
    ]
    left = budget_tokens - sum(section.tokens for section in fixed + task + tail)
    cap = min(KNOWLEDGE_TOKENS, memories_tokens or KNOWLEDGE_TOKENS)
    knowledge = _knowledge(_without(context, rules.memories), cap, max(0, min(cap, left)))
    room = max(0, min(episodes_tokens, left - knowledge.tokens))
    past_work = _past_work(context, episodes_tokens, room, rules.text + knowledge.text)
    left -= knowledge.tokens + sum(section.tokens for section in past_work)
    told = {section.name: section.text for section in (*tail, knowledge, *past_work)}
    told[PREREQUISITES] = " ".join(notes for _, notes in context.prerequisites)
    journal = _journal(context, max(0, min(JOURNAL_TOKENS, left)), told)
    sections = (*fixed, *task, knowledge, *past_work, journal, *tail)
    text = "\n".join(section.text for section in sections if section.text)
    quoted = (*rules.episodes, *(id for section in past_work for id in section.shown))
    return Prompt(
        text=text,
        tokens=count_tokens(text),
        sections=sections,
        shown=(*rules.memories, *knowledge.shown),
        episodes=tuple(dict.fromkeys(quoted)),
    )


def shown_memory_text(prompt: Prompt) -> str:
    """Return the memory text of a prompt; an agent that repeats it has learned nothing new."""
    names = (RULES_SECTION, KNOWLEDGE_SECTION, PAST_WORK_SECTION)
    return "".join(section.text for section in prompt.sections if section.name in names)


def _without(context: PromptContext, ids: Sequence[str]) -> PromptContext:
    """Return a context without memories that another section tells: they are neither shown again nor omitted."""
    if not ids:
        return context
    return replace(
        context,
        memories=tuple(one for one in context.memories if one.memory.id not in ids),
        left_out=tuple(one for one in context.left_out if one.id not in ids),
    )


def _section(
    name: str,
    text: str,
    cap_tokens: int | None = None,
    *,
    shown: Iterable[str] = (),
    left_out: Iterable[OmittedItem] = (),
) -> PromptSection:
    return PromptSection(
        name=name,
        text=text,
        tokens=count_tokens(text),
        cap_tokens=cap_tokens,
        shown=tuple(shown),
        left_out=tuple(left_out),
    )


def _task(context: PromptContext) -> PromptSection:
    task = context.task
    lines = ["## Task", "", f"**{task.id}**: {authored_line(task.title, task.written_by)}"]
    if task.body:
        lines += ["", authored_text("description", task.body, task.written_by)]
    for parent in render_parents(context.parents, _subject(context)):
        lines += ["", parent]
    if context.prerequisites:
        lines += ["", f"### {PREREQUISITES}", ""]
        lines += [_prerequisite(done, notes) for done, notes in context.prerequisites]
    lines += [f"\nThe TASK_ID for the sigils is {task.id}."]
    return _section("Task", "\n".join(lines) + "\n")


def _prerequisite(done: Task, notes: str) -> str:
    suffix = f": {truncate(one_line(escape_untrusted(notes), 2000), PREREQUISITE_CHARACTERS)}" if notes else ""
    return f"- {done.id} {authored_line(done.title, done.written_by)}{suffix}"


def _feature(context: PromptContext) -> list[PromptSection]:
    feature = context.feature
    if not feature:
        return []
    shown = render_feature(feature, _subject(context))
    return [_section("Feature", f"{shown.text}\n", 2 * SPEC_TOKENS, shown=(feature.id,), left_out=shown.left_out)]


def _subject(context: PromptContext) -> str:
    return f"{context.task.title}\n{context.task.body}"


def _knowledge(context: PromptContext, cap_tokens: int, budget_tokens: int) -> PromptSection:
    text, shown, left_out = render_knowledge_section(context.memories, budget_tokens, _subject(context))
    ids = (memory.id for memory in shown)
    return _section(KNOWLEDGE_SECTION, text, cap_tokens, shown=ids, left_out=(*left_out, *context.left_out))


def _past_work(context: PromptContext, cap_tokens: int, budget_tokens: int, told: str) -> list[PromptSection]:
    if not context.episodes:
        return []
    from ralph.memory.recall.past_work import render_past_work

    text, shown, left_out = render_past_work(context.episodes, _subject(context), budget_tokens, told)
    return [_section(PAST_WORK_SECTION, text, cap_tokens, shown=shown, left_out=left_out)]


def _journal(context: PromptContext, budget_tokens: int, told: Mapping[str, str]) -> PromptSection:
    """Return the journal; what another section tells (`told`, by its name) is not repeated."""
    handed_over = {entry_name(one): "Handed Over" for one in context.handovers}
    entries, left_out = untold_entries(context.journal, told, handed_over)
    text, shown = journal_text(entries, budget_tokens, context.run_id, _subject(context))
    why = f"exceeds the budget of {budget_tokens} tokens"
    left_out += [OmittedItem(what=entry_name(one), why=why) for one in entries if one not in shown]
    return _section("Run Journal", text, JOURNAL_TOKENS, shown=map(entry_name, shown), left_out=left_out)


def _previous_attempts(context: PromptContext) -> list[PromptSection]:
    told = render_attempts(context)
    if told is None:
        return []
    return [_section("Previous Attempts", told.text, ATTEMPTS_TOKENS, shown=told.shown, left_out=told.left_out)]


def _unfinished(context: PromptContext, changes_files: bool) -> list[PromptSection]:
    text = render_unfinished(context, changes_files=changes_files)
    return [_section("Unfinished Work", text)] if text else []


def _attempts_section(name: str, text: str, blocks: Sequence[tuple[int, str]], cap_tokens: int) -> list[PromptSection]:
    """Return a section with as many attempts as fit, newest first; the newest is cut rather than left out."""
    limit = cap_tokens * CHARACTERS_PER_TOKEN
    shown: list[str] = []
    left_out: list[OmittedItem] = []
    for number, block in sorted(blocks, key=lambda block: -block[0]):
        block = "\n" + block
        if not shown:
            block = close_fences(truncate(block, limit - len(text), suffix=" [cut]\n"))
        if len(text) + len(block) > limit:
            left_out.append(OmittedItem(what=f"attempt {number}", why=f"exceeds the budget of {cap_tokens} tokens"))
        else:
            text += block
            shown.append(f"attempt {number}")
    return [_section(name, text, cap_tokens, shown=shown, left_out=left_out)] if shown else []


def _similar_failures(context: PromptContext) -> list[PromptSection]:
    """Return failures of similar tasks."""
    told = {item.memory.origin_task for item in context.memories}
    reports = [report for report in context.similar_reports if report.task_id not in told]
    if not reports:
        return []
    limit = SIMILAR_FAILURES_TOKENS * CHARACTERS_PER_TOKEN
    text = "### Failures of Other Tasks\n\nSimilar failures occurred in other tasks of this project.\n"
    shown = []
    for report in reports:
        name = f"{report.task_id}, attempt {report.attempt_number}"
        block = "\n" + similar_failure_text(report)
        if len(text) + len(block) <= limit:
            text += block
            shown.append(name)
    return [_section("Failures of Other Tasks", text, SIMILAR_FAILURES_TOKENS, shown=shown)]


def _conflicts(files: Sequence[str], role: SessionRole) -> list[PromptSection]:
    if not files:
        return []
    text = CONFLICT_INSTRUCTIONS.format(advice=RESOLVE_CONFLICTS if role.changes_files else LEAVE_CONFLICTS)
    named = "".join(f"- {escape_untrusted(path)}\n" for path in files[:MAX_LISTED_CONFLICTS])
    return [_section("Merge Conflicts", f"{text}\n{named}")]


def _handovers(context: PromptContext) -> list[PromptSection]:
    """Return the hand-over notes of earlier hats, newest first."""
    text = "### Handed Over\n\nOther sessions did their part of this task before you, in other roles.\n"
    blocks = [
        (
            entry.number or 0,
            f"#### From the {entry.hat}, attempt {entry.number}\n"
            f"{escape_untrusted(entry.notes) or 'It left no notes.'}\n",
        )
        for entry in context.handovers
    ]
    return _attempts_section("Handed Over", text, blocks, HANDOVER_TOKENS)


def _is_warned(context: PromptContext, stuck_state: StuckState) -> bool:
    return context.with_memory and stuck_state.step in (EscalationStep.DECOMPOSE, EscalationStep.PERSON)


def _stuck_warning(
    context: PromptContext, stuck_state: StuckState, can_split: bool, role: SessionRole
) -> list[PromptSection]:
    if not _is_warned(context, stuck_state):
        return []
    signs = "".join(f"- {line}\n" for line in stuck_warning_lines(stuck_state) or [REPRODUCE_ADVICE])
    text = STUCK_WARNING.format(failures=stuck_state.failures, signs=signs)
    text += OTHER_APPROACH if role.changes_files else ""
    text += SPLIT_INSTRUCTIONS if can_split and not role.plans else ""  # a planner is told so by its hat
    return [_section("Stuck Loop Warning", text)]


def _status(
    context: PromptContext, iteration: int, choice: ModelChoice, stuck_state: StuckState, models: Sequence[str]
) -> PromptSection:
    is_told = not stuck_state.failures or _is_warned(context, stuck_state)
    failures = "" if is_told else f", {stuck_state.failures} failed in a row"
    model, model_reason = choice.model, choice.reason
    lines = [
        "### Loop Status",
        "",
        f"- Iteration {iteration} of this run",
        f"- Attempt {context.attempt_number} at this task{_since_reset(context)}{failures}",
        f"- {_rates(context.recent_outcomes)}",
        *([f"- Tasks like this took {context.estimate}"] if context.estimate else []),
        f"- Model: {one_line(model or 'the agent’s default', 60)} ({one_line(model_reason, 120)})",
    ]
    if model and models:
        names = one_line(", ".join(models), 80)
        lines.append(f"- To ask for another model next time ({names}): <next-model>NAME</next-model>")
    return _section("Loop Status", "\n".join(lines) + "\n", STATUS_TOKENS)


def _since_reset(context: PromptContext) -> str:
    """Return that a person has given a task a fresh start, or an empty string."""
    before = context.task.reset_after
    return f", number {context.attempt_number - before} since a person reset it" if before else ""


def _rates(outcomes: Sequence[AttemptOutcome]) -> str:
    finished = [outcome for outcome in outcomes if outcome is not AttemptOutcome.INTERRUPTED]
    if not finished:
        return "No attempt has finished yet in this project"
    done = sum(1 for outcome in finished if outcome is AttemptOutcome.DONE)
    failed = sum(1 for outcome in finished if outcome in FAILED_OUTCOMES)
    last = "Last attempt" if len(finished) == 1 else f"Last {len(finished)} attempts"
    return f"{last} in this project: {100 * done / len(finished):.0f}% done, {100 * failed / len(finished):.0f}% failed"
