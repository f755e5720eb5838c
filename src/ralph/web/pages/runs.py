"""Pages of runs: the list, and the details of one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote

from markupsafe import Markup, escape

from ralph.core.paging import Page
from ralph.core.records import now, record
from ralph.loop.report_text import report_document
from ralph.loop.run_log import is_run_active
from ralph.memory.lifecycle.confidence import days_between
from ralph.project import Project
from ralph.web.endpoints import QueryParams
from ralph.web.pages.page import PageView, page_url, run_command
from ralph.web.paging import Cursor, Name, decode_cursor, encode_cursor

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ralph.core.records import Run
    from ralph.loop.report import RunReport
    from ralph.loop.stats import RunStats

RUNS_PER_PAGE = 50
"""Number of runs on a page."""
REPORTED_RUNS = 30
"""Number of latest runs that the report page offers."""
MAX_RUN_ATTEMPTS = 500
"""Maximum number of attempts shown with a run."""
MAX_LEARNED = 1_000
"""Maximum number of learned memories shown with a run."""


START_PATH = "/#start-run"
"""Where a run is started."""
_PAGES_OF_COMMANDS = (
    (r"ralph task answer (\S+).*", "Answer", "/tasks/{}#answer"),
    (r"ralph task approve (\S+)", "Review the change", "/tasks/{}#held"),
    (r"ralph task (?:reset|show|update) (\S+).*", "Open the task", "/tasks/{}"),
    (r"ralph task diff (\S+)", "See its attempts", "/tasks/{}#attempts"),
    (r"ralph task list --status (\w+)", "Show them", "/tasks?status={}"),
    (r"ralph journal list --run (\S+)", "Journal of the run", "/journal?run={}"),
    (r"ralph learn review", "Review learnings", "/staging"),
    (r"ralph memory list", "All memories", "/memories"),
    (r"ralph (?:watch|resume).*", "Live", "/live"),
    (r"ralph run(?! --holdout).*", "Start a run", START_PATH),
)
"""Pages on which one does what a command of a report does."""


class ReportPageQuery(QueryParams):
    """Run to report on."""

    run: Name = ""


class RunsPageQuery(QueryParams):
    """Page of the list of runs."""

    cursor: Cursor = ""


def show_runs(project: Project, query: RunsPageQuery) -> PageView:
    """Show the results of runs, newest first."""
    runs = project.runs.list(Page(limit=RUNS_PER_PAGE, after=decode_cursor(query.cursor, Name)))
    return PageView(
        template="runs.html",
        values={
            "runs": runs,
            "running": {one.id for one in active_runs(project, [one.id for one in runs if one.ended_at is None])},
            "is_first": not query.cursor,
            "next": page_url("/runs", cursor=encode_cursor(runs.next)) if runs.next else "",
            "run_command": run_command(project),
        },
    )


def active_runs(project: Project, ids: Iterable[str]) -> list[Run]:
    """Return those of some runs that somebody works on."""
    running = project.store.attempts.running()
    found = (project.store.runs.get(id) for id in ids)
    return [run for run in found if is_run_active(run, [one for one in running if one.run_id == run.id])]


def show_run(project: Project, id: str) -> PageView:
    """Show a run with its attempts, models and learned memories."""
    view = project.runs.get(id)
    attempts = project.journal.attempts(Page(limit=MAX_RUN_ATTEMPTS), run=id)
    return PageView(
        template="run.html",
        values={
            "run": view.run,
            "stats": view.stats,
            "is_active": bool(active_runs(project, [id])),
            "attempts": attempts,
            "has_more": attempts.next is not None,
            "titles": project.store.tasks.titles([one.task_id for one in attempts]),
            "models": view.models,
            "learned": project.runs.memories(id, MAX_LEARNED),
            "elapsed": days_between(view.run.started_at, view.run.ended_at or now()) * 86_400,
        },
    )


def show_run_report(project: Project, id: str) -> PageView:
    """Show the report of a run: what was done, what failed and why, and what waits for a person."""
    return _report_view(project, id, [])


def show_latest_report(project: Project, query: ReportPageQuery) -> PageView:
    """Show the report of the latest run, or of another one: what was done, failed, learned, and waits for a person."""
    runs = project.runs.list(Page(limit=REPORTED_RUNS))
    if not runs:
        return PageView(template="run_report.html", values={"report": None, "run_command": run_command(project)})
    return _report_view(project, query.run or runs[0].id, runs)


def _report_view(project: Project, id: str, runs: Sequence[RunStats]) -> PageView:
    report = project.runs.report(id)
    document = report_document(report, project.store.project_name)
    links = _links(project, report)
    return PageView(
        template="run_report.html",
        values={
            "report": report,
            "document": document,
            "runs": runs,
            "line": report_line,
            "linked": lambda text: _linked(text, links),
        },
    )


def _links(project: Project, report: RunReport) -> dict[str, str]:
    """Return the pages of the tasks and commits of a report; a commit leads to the changes of its attempt."""
    worked_on = (*report.done, *report.waiting, *report.unfinished, *report.done_since)
    ids = (*(one.id for one in worked_on), *(one.id for one in report.others))
    links = {id: f"/tasks/{quote(id, safe='')}" for id in ids}
    attempts = project.journal.attempts(Page(limit=MAX_RUN_ATTEMPTS), run=report.run.id)
    by_commit = {id: one for one in attempts for id in one.commits}
    for commit in (commit for task in report.done for commit in task.commits):
        if one := by_commit.get(commit.id):
            links[commit.short_id] = f"/runs/{quote(one.run_id, safe='')}/attempts/{one.iteration}#changes"
    return links


def _linked(text: str, links: Mapping[str, str]) -> Markup:
    """Return a text, escaped, in which tasks and commits are links."""
    return Markup("").join(
        Markup('<a class="mono" href="{}">{}</a>').format(links[word], word) if word in links else escape(word)
        for word in re.split(r"([\w-]+)", text)
    )


@record
class ReportLine:
    """Line of a report, whose command is replaced by the page that does the same."""

    text: str
    label: str = ""
    href: str = ""
    """Page; empty if there is none for the command, which the text then has."""


def report_line(text: str, *, can_steer: bool) -> ReportLine:
    """Return a line of a report with the page that does what the command at its end does."""
    before, _, command = text.rpartition("ralph ")
    for pattern, label, href in _PAGES_OF_COMMANDS:
        if (match := re.fullmatch(pattern, f"ralph {command}")) and (can_steer or href != START_PATH):
            said = before.rstrip().removesuffix(":")
            return ReportLine(
                text=f"{said}." if said else "", label=label, href=href.format(*map(quote, match.groups()))
            )
    return ReportLine(text=text)
