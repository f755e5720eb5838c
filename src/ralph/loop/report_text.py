"""The wording of a report: one document of sections, which is rendered as text, Markdown or HTML."""

from __future__ import annotations

import time
from calendar import timegm

from ralph.core.records import NEEDS_PERSON, FailureCause, record
from ralph.core.text import clean, format_duration, format_usd, one_line, pluralize
from ralph.loop.options import RunEnding, how_to_reject
from ralph.loop.report import ENDED, KILLED, RUNNING, STOPPED
from ralph.loop.steering import PAUSE
from ralph.loop.waits import PAUSED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralph.loop.git.run_commits import RunCommit
    from ralph.loop.report import RunReport, TaskReport, WaitingTask

MAX_ITEMS = 20
"""Maximum number of tasks or memories listed in a section."""
MAX_SHORT_ITEMS = 3
"""The same in the short form."""
MAX_COMMITS_PER_TASK = 3
"""Maximum number of commits listed with a task."""
MAX_COSTLY_TASKS = 10
"""Maximum number of tasks in the table of costs."""
TITLE_WIDTH = 100
"""Maximum length of a title, in characters."""
REASON_WIDTH = 400
"""Maximum length of a reason or question, in characters."""
UNMEASURED = "What memory saved was not measured. To measure it: ralph run --holdout 0.1"
COMMIT_YOURSELF = "What was done is in the working tree. Look at it and commit it: git status"
DAY_LENGTH = len("Tue 17 Nov ")
_CAUSES = {
    FailureCause.PROJECT.value: "the project's code, tests or tools",
    FailureCause.AGENT.value: "the agent",
    FailureCause.SERVICE.value: "the model's service, which counts against no task",
    FailureCause.PERSON.value: "a person's decision that was needed",
    FailureCause.RALPH.value: "Ralph or this machine",
    "unknown": "no known cause",
}


@record
class ReportItem:
    """Entry of a list, with details below it and a command to type."""

    text: str
    details: tuple[str, ...] = ()
    command: str = ""
    task_id: str = ""
    """Task that the text begins with, for a link; empty if there is none."""


@record
class ReportTable:
    """Table; the first column is text, the others are numbers."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@record
class ReportSection:
    """Part of a report. Its texts are plain, on one line each."""

    title: str
    paragraphs: tuple[str, ...] = ()
    items: tuple[ReportItem, ...] = ()
    more: str = ""
    """What the list leaves out, with the command that shows it."""
    tables: tuple[ReportTable, ...] = ()
    command: str = ""


@record
class ReportDocument:
    """Report in words."""

    title: str
    summary: tuple[str, ...]
    sections: tuple[ReportSection, ...]


def report_document(report: RunReport, project: str = "") -> ReportDocument:
    """Return a report in words; `project` is the name of the project."""
    sections = (
        _waiting(report),
        _answered(report),
        _at_work(report),
        _done(report),
        _unfinished(report),
        _cost(report),
        _learned(report),
        _memory(report),
        _waits(report),
        _next(report),
    )
    return ReportDocument(
        title=_line(f"Report of {report.run.id}{f' in {project}' if project else ''}", TITLE_WIDTH),
        summary=summary_lines(report),
        sections=tuple(one for one in sections if one),
    )


def summary_lines(report: RunReport) -> tuple[str, ...]:
    """Return what came of a run and how it ended, in a few sentences."""
    run, cost = report.run, f" for {format_usd(report.cost_usd)}" if report.cost_usd else ""
    began = f"Started {format_moment(run.started_at)} with {run.agent}"
    if report.state == RUNNING:
        waits = f" It waits until {format_moment(run.waits_until)} for the {run.waits_for}." if run.waits_until else ""
        is_paused = run.request == PAUSE and not _open_tasks(report)
        ending = (
            f"{began}; {'paused' if is_paused else 'still running'} after {format_duration(report.seconds)}.{waits}"
        )
        if run.request == PAUSE:
            ending += " To continue: ralph resume" if is_paused else " It pauses after the current attempt."
    elif report.state == KILLED:
        ending = (
            f"{began}, and stopped without a word after {format_duration(report.seconds)}: its process was killed, or"
            " the machine went down. What was settled until then is kept."
        )
    else:
        ended, day = format_moment(run.ended_at or ""), format_moment(run.started_at)[:DAY_LENGTH]
        ending = f"{began}; ended {ended.removeprefix(day)} after {format_duration(report.seconds)}"
        ending += f": {_line(run.ending)}." if run.ending else "."
    if not report.attempts:
        return "No task was worked on.", ending
    at_work = _open_tasks(report)
    counts = [
        (len(report.waiting), f"{len(report.waiting)} {_verb(len(report.waiting), 'need')} your attention"),
        (len(at_work), f"{len(at_work)} at work"),
        (len(report.unfinished) - len(at_work), f"{len(report.unfinished) - len(at_work)} not done yet"),
        (len(report.done_since), f"{len(report.done_since)} done since"),
    ]
    others = [text for count, text in counts if count]
    done = f"{pluralize(len(report.done), 'task')} done"
    effort = f"in {pluralize(report.attempts, 'attempt')}{cost}"
    if not report.done:
        return f"No task done {effort}{'; ' if others else ''}{', '.join(others)}.", ending
    return f"{', '.join([done, *others])}, {effort}.", ending


def short_lines(report: RunReport) -> list[str]:
    """Return what a person should know at the end of a run beyond its summary, in a few lines."""
    change = _changes([one for task in report.done for one in task.commits])
    lines = [f"Changed: {change}."] if change else []
    lines += _not_committed(report)
    waiting: tuple[TaskReport | WaitingTask, ...] = (*report.waiting, *report.others)
    for task in waiting[:MAX_SHORT_ITEMS]:
        lines += [f"Needs attention: {task.id} {_title(task)}: {_question(task, 160)}", f"  {task.command}"]
    if (more := len(report.waiting) + report.other_waiting - MAX_SHORT_ITEMS) > 0:
        lines.append(f"Needs attention: {more} more. See: ralph task list --status blocked")
    if not report.attempts:
        return lines
    if report.learned:
        lines.append(f"Learned: {_learned_counts(report)}.")
    if report.waits:
        lines.append(f"{_waited(report)}.")
    return [*lines, f"Full report: ralph report {report.run.id}"]


# --- sections -------------------------------------------------------------------------------


def _waiting(report: RunReport) -> ReportSection | None:
    if not report.waiting and not report.other_waiting:
        return None
    others = f"{pluralize(report.other_waiting, 'task')} that this run did not work on"
    verb = _verb(report.other_waiting, "need")
    return ReportSection(
        title="Needs attention",
        items=tuple(
            ReportItem(
                text=f"{one.id} {_title(one)}",
                task_id=one.id,
                details=(
                    *_unique(_question(one), one.why and f"Last failure: {_line(one.why)}"),
                    *_checkpoint(one),
                    *((how_to_reject(one.id), "To accept it:") if one.is_held else ()),
                ),
                command=one.command,
            )
            for one in report.waiting[:MAX_ITEMS]
        ),
        more=_more(len(report.waiting), "ralph task list --status blocked"),
        paragraphs=(f"{others} {verb} you, too: ralph task list --status blocked",) if report.other_waiting else (),
    )


def _answered(report: RunReport) -> ReportSection | None:
    """Return what tasks have asked and wait with no longer."""
    items = tuple(
        ReportItem(text=f"{one.id} {_title(one)}", details=(f"Asked: {_line(one.asked)}",), task_id=one.id)
        for one in report.unfinished
        if one.asked
    )
    return ReportSection(title="Ready again", items=items[:MAX_ITEMS]) if items else None


def _done(report: RunReport) -> ReportSection | None:
    if not report.done:
        return None
    change = _changes([one for task in report.done for one in task.commits])
    paragraphs = [f"In all: {change}."] if change else []
    if report.not_committed:
        paragraphs.append(_line(report.not_committed))
    if report.other_commits:
        paragraphs.append(f"{pluralize(report.other_commits, 'other commit')} on the branch meanwhile.")
    return ReportSection(
        title="Done",
        items=tuple(_done_item(one) for one in report.done[:MAX_ITEMS]),
        more=_more(len(report.done), "ralph task list --status done"),
        paragraphs=tuple(paragraphs),
    )


def _done_item(task: TaskReport) -> ReportItem:
    commits = [
        f"{one.short_id} {_line(one.subject, TITLE_WIDTH)} ({_changes([one], is_counted=False)})"
        for one in task.commits
    ]
    more = len(commits) - MAX_COMMITS_PER_TASK
    kept = (*commits[:MAX_COMMITS_PER_TASK], *([f"and {pluralize(more, 'more commit')}"] if more > 0 else []))
    changed = (f"{pluralize(task.files, 'file')} changed, not committed",) if task.files and not commits else ()
    return ReportItem(text=f"{task.id} {_title(task)} ({_effort(task)})", details=(*kept, *changed), task_id=task.id)


def _open_tasks(report: RunReport) -> list[TaskReport]:
    """Return the tasks that a run which goes on is at work on."""
    return [one for one in report.unfinished if one.is_open and report.state == RUNNING]


def _at_work(report: RunReport) -> ReportSection | None:
    items = tuple(
        ReportItem(text=f"{one.id} {_title(one)} (attempt {one.attempts})", task_id=one.id)
        for one in _open_tasks(report)
    )
    return ReportSection(title="At work", items=items[:MAX_ITEMS]) if items else None


def _unfinished(report: RunReport) -> ReportSection | None:
    at_work = _open_tasks(report)
    unfinished = [one for one in report.unfinished if one not in at_work and not one.asked]
    retried = [one for one in report.done if one.failures]
    paragraphs = _failure_counts(report)
    if not unfinished and not retried and not paragraphs:
        return None
    items = (
        *(
            ReportItem(
                text=f"{one.id} {_title(one)} ({_effort(one)})",
                details=(_line(one.why) or "Cut off when the run stopped.", *_checkpoint(one)),
                task_id=one.id,
            )
            for one in unfinished
        ),
        *map(_retried_item, retried),
    )
    is_failure = bool(retried) or any(cause != STOPPED for cause in report.causes)
    return ReportSection(
        title="What failed" if is_failure or not paragraphs else "Not finished",
        items=items[:MAX_ITEMS],
        more=_more(len(items), f"ralph journal list --run {report.run.id}"),
        paragraphs=paragraphs,
    )


def _failure_counts(report: RunReport) -> tuple[str, ...]:
    """Return how many attempts failed and why, and how many a person stopped, which is no failure."""
    failed = {_CAUSES.get(cause, cause): count for cause, count in report.causes.items() if cause != STOPPED}
    stopped = report.causes.get(STOPPED, 0)
    total = f"{sum(failed.values())} of {pluralize(report.attempts, 'attempt')} failed"
    causes = ", ".join(f"{count} because of {cause}" for cause, count in failed.items())
    why = f": {causes}" if len(failed) > 1 else f" because of {next(iter(failed), '')}"
    return (
        *([f"{total}{why}."] if failed else []),
        *([f"A person stopped {pluralize(stopped, 'attempt')}."] if stopped else []),
    )


def _retried_item(task: TaskReport) -> ReportItem:
    """Return what kept a task that is done from being done earlier."""
    count = len(task.failures)
    times = f"Failed {count} times, then done. The last failure" if count > 1 else "Failed once, then done"
    details = (f"{times}: {_line(task.failures[-1])}",)
    return ReportItem(text=f"{task.id} {_title(task)}", details=details, task_id=task.id)


def _cost(report: RunReport) -> ReportSection | None:
    if not report.attempts:
        return None
    if not report.cost_usd:
        tokens = f" It reported {report.tokens:,} tokens." if report.tokens else ""
        return ReportSection(title="Cost", paragraphs=(f"The agent reported no cost.{tokens}",))
    models = tuple(
        (
            _line(f"{one.agent} {one.model or 'default model'}", 50),
            f"{one.attempts:,}",
            f"{one.done:,}",
            f"{one.tokens:,}",
            format_usd(one.cost_usd),
        )
        for one in report.models
    )
    costly = sorted(
        (*report.done, *report.waiting, *report.unfinished, *report.done_since), key=lambda one: -one.cost_usd
    )
    tasks = tuple(
        (_line(f"{one.id} {one.title}", 50), f"{one.attempts}", format_duration(one.seconds), format_usd(one.cost_usd))
        for one in costly[:MAX_COSTLY_TASKS]
    )
    return ReportSection(
        title="Cost",
        paragraphs=(f"{format_usd(report.cost_usd)} in all, {report.tokens:,} tokens.",),
        tables=(
            ReportTable(headings=("Model", "Attempts", "Done", "Tokens", "Cost"), rows=models),
            ReportTable(headings=("Task", "Attempts", "Time", "Cost"), rows=tasks),
        ),
        more=f"and {len(costly) - len(tasks)} more tasks" if len(costly) > len(tasks) else "",
    )


def _learned(report: RunReport) -> ReportSection | None:
    if not report.learned:
        return None
    staged = any(one.is_staged for one in report.learned)
    return ReportSection(
        title="Learned",
        paragraphs=(f"{_learned_counts(report)}.",),
        items=tuple(
            ReportItem(text=_line(f"{one.title} ({one.kind}{', to review' if one.is_staged else ''})", 160))
            for one in report.learned[:MAX_ITEMS]
        ),
        more=_more(len(report.learned), "ralph memory list"),
        command="ralph learn review" if staged else "",
    )


def _memory(report: RunReport) -> ReportSection | None:
    used = report.memory
    if not used.shown and not used.lift:
        return None
    shown = (
        f"{_memories(used.shown)} shown to {pluralize(used.attempts, 'attempt')}, of which {used.done} got"
        f" {'its' if used.attempts == 1 else 'their'} task done; {_memories(used.credited)} credited for that."
    )
    effect = f"Over all runs: {_line(used.lift)}" if used.lift else UNMEASURED
    return ReportSection(title="Memory impact", paragraphs=(shown, effect) if used.shown else (effect,))


def _waits(report: RunReport) -> ReportSection | None:
    if not report.waits:
        return None
    items = tuple(ReportItem(text=f"{_line(why)}: {format_duration(time)}") for why, time in report.waits.items())
    return ReportSection(title="Waiting", paragraphs=(f"{_waited(report)}.",), items=items if len(items) > 1 else ())


def _next(report: RunReport) -> ReportSection:
    waiting = len(report.waiting) + report.other_waiting
    command = report.next_command
    paragraphs: tuple[str, ...] = ()
    if report.run.ending in (RunEnding.AGENT_FAILS, RunEnding.COMMAND_FAILS):
        paragraphs = (f"Find out why the agent fails first: ralph journal list --run {report.run.id}",)
    if report.not_committed and report.state != RUNNING:
        paragraphs += (COMMIT_YOURSELF,)
    if report.state == ENDED and not command:
        done = "All tasks are done." if report.not_committed else "Nothing is left to do."
        if report.open_tasks:
            done = f"{pluralize(report.open_tasks, 'task')} left to do, none of which can start yet."
        text = "Once you have dealt with what needs attention:" if waiting else done
        command = "ralph run" if waiting else ""
    else:
        needs = f", {waiting} {_verb(waiting, 'need')} you" if waiting else ""
        text = {RUNNING: "To follow it:", KILLED: "To continue where it stopped:"}.get(
            report.state, f"{pluralize(report.open_tasks, 'task')} left to do{needs}. To continue:"
        )
    return ReportSection(title="Next", paragraphs=(*paragraphs, text), command=command)


# --- phrases --------------------------------------------------------------------------------


def format_moment(timestamp: str) -> str:
    """Format a timestamp as local day and time, such as "Tue 17 Nov 22:04"."""
    try:
        seconds = timegm(time.strptime(timestamp[:19], "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        return clean(timestamp)
    return time.strftime("%a %d %b %H:%M", time.localtime(seconds))


def _line(text: str, width: int = REASON_WIDTH) -> str:
    return one_line(clean(text), width)


def _title(task: TaskReport | WaitingTask) -> str:
    return _line(task.title, TITLE_WIDTH)


def _effort(task: TaskReport) -> str:
    cost = f", {format_usd(task.cost_usd)}" if task.cost_usd else ""
    return f"{pluralize(task.attempts, 'attempt')}, {format_duration(task.seconds)}{cost}"


def _changes(commits: Sequence[RunCommit], *, is_counted: bool = True) -> str:
    """Return how much some commits changed, or an empty string if there are none."""
    if not commits:
        return ""
    files = len({path for one in commits for path in one.paths})
    added, removed = (sum(getattr(one, name) for one in commits) for name in ("added", "removed"))
    count = f"{pluralize(len(commits), 'commit')}, " if is_counted else ""
    return f"{count}{pluralize(files, 'file')}, +{added:,} −{removed:,} lines"


def _not_committed(report: RunReport) -> list[str]:
    """Return why the work of tasks that are done is not committed, if it is not, and what to do about it."""
    return [_line(report.not_committed), COMMIT_YOURSELF] if report.not_committed else []


def _checkpoint(task: TaskReport) -> tuple[str, ...]:
    what = "The work" if task.is_held else "Unfinished work"
    return (f"{what} is saved: ralph task diff {task.id}",) if task.has_checkpoint else ()


def _question(task: TaskReport | WaitingTask, width: int = REASON_WIDTH) -> str:
    """Return what a task waits with, where it is clear that it needs a person."""
    return _line(task.question.removeprefix(f"{NEEDS_PERSON}: "), width)


def _learned_counts(report: RunReport) -> str:
    staged = sum(one.is_staged for one in report.learned)
    added = len(report.learned) - staged
    parts = [f"{pluralize(added, 'memory')} added"] * bool(added)
    return ", ".join([*parts, *([f"{pluralize(staged, 'learning')} to review"] * bool(staged))])


def _waited(report: RunReport) -> str:
    total, reasons = sum(report.waits.values()), list(report.waits)
    why = ""
    if len(reasons) == 1:
        why = " in pauses" if reasons[0] == PAUSED else f" for the {_line(reasons[0])}"
    share = f", of {format_duration(report.seconds)}" if report.seconds >= total else ""
    return f"Waited {format_duration(total)}{why}{share}"


def _memories(count: int) -> str:
    return f"{pluralize(count, 'memory')} {'was' if count == 1 else 'were'}"


def _verb(count: int, verb: str) -> str:
    return f"{verb}s" if count == 1 else verb


def _more(total: int, command: str) -> str:
    return f"and {total - MAX_ITEMS} more: {command}" if total > MAX_ITEMS else ""


def _unique(*lines: str) -> tuple[str, ...]:
    """Return the lines that are not empty and say something that no earlier one said."""
    kept: list[str] = []
    for line in lines:
        if line and not any(line.partition(": ")[2] in one or line in one for one in kept):
            kept.append(line)
    return tuple(kept)
