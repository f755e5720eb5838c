"""Prompt of one attempt, built from its context.

The stable part comes first, so that it can be cached by the model provider. Every
section has a token budget; when the whole is too large, the journal is cut first, then
past work and the knowledge, but never the task, the latest failure or the instructions.
"""

from __future__ import annotations

from ralph.core.memory_types import LEARNING_CATEGORIES, SIGNAL_TYPES
from ralph.core.records import FAILED_OUTCOMES, AttemptOutcome, OmittedItem, Prompt, PromptSection, replace
from ralph.core.skill import PROMPT_SECTION
from ralph.core.text import CHARACTERS_PER_TOKEN, count_tokens, one_line, truncate
from ralph.loop.failure_text import interruption_text, report_text, similar_failure_text
from ralph.loop.stuck import EscalationStep, stuck_warning_lines
from ralph.memory.recall.render import (
    close_fences,
    escape_inline,
    escape_untrusted,
    render_knowledge_section,
)
from ralph.memory.recall.render_rules import StandingSection, render_standing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ralph.core.records import Attempt, PromptContext, Task
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
ATTEMPTS_TOKENS = 1_500
HANDOVER_TOKENS = 1_500
SIMILAR_FAILURES_TOKENS = 400
STATUS_TOKENS = 150
FEATURE_TOKENS = 2_000
"""Token budget of the spec and of the plan, each."""
MIN_REPEATED_CHARACTERS = 20
"""Length from which notes that another section tells are not repeated in the journal, in characters."""
PREREQUISITE_CHARACTERS = 300
"""Maximum length of the notes of a prerequisite, in characters."""

TASK_INSTRUCTIONS = """\
# How to work here

You work on one task of this project, alone, in a fresh session in the project directory. Nobody can answer questions.
Complete the task below, and nothing else.

- Read code before you change it. Follow the conventions you find.
- Check your work the way the project does (its tests, its build) before you claim that it is done.
- When the task is finished, end with this sigil on a line of its own, with the task's id in place of TASK_ID:

  <task-done>TASK_ID</task-done>

- If you cannot finish it, explain why, so that the next attempt can build on that:

  <failure-report>
  what_tried: what you did
  why_failed: what went wrong, as precisely as you know
  error_category: test_failure, build_error, missing_file, logic_error, timeout, or a word of your own
  relevant_files: the files involved, separated by commas
  stack_trace: the first lines of the error
  </failure-report>
  <retry-suggestion>what the next attempt should do differently</retry-suggestion>
  <task-failed>TASK_ID</task-failed>

- If you can, rate how hard it was: <difficulty-estimate>trivial, easy, moderate, hard or blocked</difficulty-estimate>
"""

MEMORY_INSTRUCTIONS = f"""\
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

Also keep CLAUDE.md up to date with what every session in this project should know.
"""

CONFLICT_INSTRUCTIONS = """\
### Merge Conflicts

The work so far on this task was merged with changes that others made meanwhile, and these files conflict. Resolve
the conflicts first: preserve the intent of both sides, and leave no conflict markers.
"""
MAX_LISTED_CONFLICTS = 30
"""Maximum number of conflicting files listed."""

REPRODUCE_ADVICE = (
    "Reproduce the failure with the smallest example you can, and read the real output before you change anything."
)
STUCK_WARNING = """\
### Stuck Loop Warning

This task has failed {failures} times in a row. Repeating the same approach will fail again.

- Do not start from the approaches listed under Previous Attempts. Question the assumptions they share.
{signs}- Consider another approach: another place for the change, another tool, or reverting earlier changes first.
"""

SPLIT_INSTRUCTIONS = """\
- If the task is too large or combines several things, split it into subtasks that can each be finished and verified
  alone. Write one sigil for each, with everything its session needs to know, and end with task-failed. `needs` names
  the subtasks that must come first:

  <subtask title="title of a subtask" needs="title of another">what to do in it</subtask>
"""

FIXED_SECTIONS = {"Instructions": TASK_INSTRUCTIONS, "Memory": MEMORY_INSTRUCTIONS}


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
) -> Prompt:
    """Return the prompt for one attempt, with a record of what it shows and leaves out.

    `memories_tokens` is the project's budget for knowledge, if lower than the default, `episodes_tokens` that for past
    work, and `rules_tokens` that for standing rules; `with_skill` adds how to use the memory from the command line;
    `conflicts` are files with merge conflicts; `models` are those the agent may ask for; `can_split` tells whether a
    stuck task may be split.
    """
    fixed = [_section(name, text) for name, text in FIXED_SECTIONS.items()]
    if with_skill and context.with_memory:
        fixed.append(_section("Skill", PROMPT_SECTION))
    rules = render_standing(context.rules, rules_tokens) if context.rules else StandingSection()
    if rules.text or rules.left_out:
        ids = (*rules.memories, *rules.episodes)
        fixed.append(_section(RULES_SECTION, rules.text, rules_tokens, shown=ids, left_out=rules.left_out))
    task = [
        *([_section("Hat", hat_instructions)] if hat_instructions else []),
        _task(context),
        *_conflicts(conflicts),
        *_feature(context),
    ]
    tail = [
        *_handovers(context),
        *_previous_attempts(context),
        *_similar_failures(context),
        *_stuck_warning(context, stuck_state, can_split),
        _status(context, iteration, choice, stuck_state, models),
    ]
    left = budget_tokens - sum(section.tokens for section in fixed + task + tail)
    cap = min(KNOWLEDGE_TOKENS, memories_tokens or KNOWLEDGE_TOKENS)
    knowledge = _knowledge(_without(context, rules.memories), cap, max(0, min(cap, left)))
    past_work = _past_work(context, episodes_tokens, max(0, min(episodes_tokens, left - knowledge.tokens)))
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
    lines = ["## Task", "", f"**{task.id}**: {escape_inline(task.title)}"]
    if task.body:
        lines += ["", escape_untrusted(task.body)]
    if context.parent:
        lines += ["", f"Part of {context.parent.id}: {escape_inline(context.parent.title)}"]
    if context.prerequisites:
        lines += ["", f"### {PREREQUISITES}", ""]
        lines += [_prerequisite(done, notes) for done, notes in context.prerequisites]
    lines += [f"\nThe TASK_ID for the sigils is {task.id}."]
    return _section("Task", "\n".join(lines) + "\n")


def _prerequisite(done: Task, notes: str) -> str:
    suffix = f": {truncate(one_line(escape_untrusted(notes), 2000), PREREQUISITE_CHARACTERS)}" if notes else ""
    return f"- {done.id} {escape_inline(done.title)}{suffix}"


def _feature(context: PromptContext) -> list[PromptSection]:
    feature = context.feature
    if not feature:
        return []
    limit = FEATURE_TOKENS * CHARACTERS_PER_TOKEN
    parts = [f"## Feature: {escape_inline(feature.name)}"]
    left_out = []
    for name, text in (("Spec", feature.spec), ("Plan", feature.plan)):
        if text:
            parts.append(f"### {name}\n\n{close_fences(truncate(escape_untrusted(text), limit))}")
        if len(text) > limit:
            left_out.append(OmittedItem(what=f"end of the {name.lower()}", why=f"longer than {FEATURE_TOKENS} tokens"))
    text = "\n\n".join(parts) + "\n"
    return [_section("Feature", text, 2 * FEATURE_TOKENS, shown=(feature.id,), left_out=left_out)]


def _subject(context: PromptContext) -> str:
    return f"{context.task.title}\n{context.task.body}"


def _knowledge(context: PromptContext, cap_tokens: int, budget_tokens: int) -> PromptSection:
    text, shown, left_out = render_knowledge_section(context.memories, budget_tokens, _subject(context))
    ids = (memory.id for memory in shown)
    return _section(KNOWLEDGE_SECTION, text, cap_tokens, shown=ids, left_out=(*left_out, *context.left_out))


def _past_work(context: PromptContext, cap_tokens: int, budget_tokens: int) -> list[PromptSection]:
    if not context.episodes:
        return []
    from ralph.memory.recall.past_work import render_past_work

    text, shown, left_out = render_past_work(context.episodes, _subject(context), budget_tokens)
    return [_section(PAST_WORK_SECTION, text, cap_tokens, shown=shown, left_out=left_out)]


def _journal(context: PromptContext, budget_tokens: int, told: Mapping[str, str]) -> PromptSection:
    """Return the journal; notes that another section tells (`told`, by its name) are not repeated."""
    pointers = {entry: _section_that_tells(entry, told) for entry in context.journal}
    entries = [entry for entry in context.journal if entry.run_id == context.run_id or not pointers[entry]]
    entries = [replace(entry, notes=f"see {where}") if (where := pointers[entry]) else entry for entry in entries]
    text, shown = journal_text(entries, budget_tokens, context.run_id)
    names = [_entry_name(entry) for entry in entries]
    left_out = [
        *(
            OmittedItem(what=_entry_name(entry), why=f"told under {where}")
            for entry, where in pointers.items()
            if where and entry.run_id != context.run_id
        ),
        *(OmittedItem(what=name, why=f"exceeds the budget of {budget_tokens} tokens") for name in names[shown:]),
    ]
    return _section("Run Journal", text, JOURNAL_TOKENS, shown=names[:shown], left_out=left_out)


def _entry_name(entry: Attempt) -> str:
    return f"{entry.run_id}/{entry.iteration}"


def _section_that_tells(entry: Attempt, told: Mapping[str, str]) -> str:
    """Return the name of the section that already has the notes of a journal entry; empty if none has."""
    notes = " ".join(escape_untrusted(entry.notes).split())
    if len(notes) < MIN_REPEATED_CHARACTERS:
        return ""
    return next((name for name, text in told.items() if notes in " ".join(text.split())), "")


def journal_text(entries: Sequence[Attempt], budget_tokens: int, run_id: str | None = None) -> tuple[str, int]:
    """Return the journal section and the number of entries it shows: in order, as many as fit.

    With `run_id`, entries of other runs name their run.
    """
    text = "## Run Journal\n"
    shown = 0
    for entry in entries:
        block = f"\n{_journal_entry(entry, run_id)}\n"
        if len(text) + len(block) > budget_tokens * CHARACTERS_PER_TOKEN:
            break
        text += block
        shown += 1
    return (text, shown) if shown else ("", 0)


def _journal_entry(entry: Attempt, run_id: str | None) -> str:
    cost = f" | **Cost**: ${entry.cost_usd:.4f}" if entry.cost_usd else ""
    lines = [
        f"### Iteration {entry.iteration} [{entry.outcome}]",
        f"- **Task**: {entry.task_id or 'none'}",
        f"- **Model**: {escape_inline(entry.model or (f'default of {entry.agent}' if entry.agent else 'unknown'))}",
        f"- **Duration**: {entry.seconds:.1f}s{cost}",
        f"- **Files**: {', '.join(escape_inline(path) for path in entry.files) or 'none'}",
        f"- **Notes**: {escape_untrusted(entry.notes) or 'no notes'}",
    ]
    if run_id is not None and entry.run_id != run_id:
        lines.insert(1, f"- **Run**: {entry.run_id}, {entry.started_at[:10]}")
    return "\n".join(lines)


def _previous_attempts(context: PromptContext) -> list[PromptSection]:
    """Return the failed attempts at this task, newest first."""
    text = "### Previous Attempts\n\nThis task was attempted before. Build on what is listed here; do not repeat it.\n"
    blocks = [(report.attempt_number, report_text(report)) for report in context.reports]
    blocks += [(entry.number or 0, interruption_text(entry)) for entry in context.interruptions]
    return _attempts_section("Previous Attempts", text, blocks, ATTEMPTS_TOKENS)


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


def _conflicts(files: Sequence[str]) -> list[PromptSection]:
    if not files:
        return []
    named = "".join(f"- {escape_untrusted(path)}\n" for path in files[:MAX_LISTED_CONFLICTS])
    return [_section("Merge Conflicts", f"{CONFLICT_INSTRUCTIONS}\n{named}")]


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


def _stuck_warning(context: PromptContext, stuck_state: StuckState, can_split: bool) -> list[PromptSection]:
    if not context.with_memory or stuck_state.step not in (EscalationStep.DECOMPOSE, EscalationStep.PERSON):
        return []
    signs = "".join(f"- {line}\n" for line in stuck_warning_lines(stuck_state) or [REPRODUCE_ADVICE])
    text = STUCK_WARNING.format(failures=stuck_state.failures, signs=signs) + (SPLIT_INSTRUCTIONS if can_split else "")
    return [_section("Stuck Loop Warning", text)]


def _status(
    context: PromptContext, iteration: int, choice: ModelChoice, stuck_state: StuckState, models: Sequence[str]
) -> PromptSection:
    failures = f", {stuck_state.failures} failed in a row" if stuck_state.failures else ""
    model, model_reason = choice.model, choice.reason
    lines = [
        "### Loop Status",
        "",
        f"- Iteration {iteration} of {context.run_id or 'the next run'}",
        f"- Attempt {context.attempt_number} at this task{failures}",
        f"- {_rates(context.recent_outcomes)}",
        *([f"- Tasks like this took {context.estimate}"] if context.estimate else []),
        f"- Model: {one_line(model or 'the agent’s default', 60)} ({one_line(model_reason, 120)})",
    ]
    if model and models:
        names = one_line(", ".join(models), 80)
        lines.append(f"- To ask for another model next time ({names}): <next-model>NAME</next-model>")
    return _section("Loop Status", "\n".join(lines) + "\n", STATUS_TOKENS)


def _rates(outcomes: Sequence[AttemptOutcome]) -> str:
    finished = [outcome for outcome in outcomes if outcome is not AttemptOutcome.INTERRUPTED]
    if not finished:
        return "No attempt has finished yet in this project"
    done = sum(1 for outcome in finished if outcome is AttemptOutcome.DONE)
    failed = sum(1 for outcome in finished if outcome in FAILED_OUTCOMES)
    return (
        f"Last {len(finished)} attempts in this project: {100 * done / len(finished):.0f}% done,"
        f" {100 * failed / len(finished):.0f}% failed"
    )
