"""Page of an attempt: prompt, transcript, changes, checks and the memories it was shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ralph.core.records import EPISODE_PREFIX, AttemptOutcome, EpisodeKind, record
from ralph.core.text import clean
from ralph.loop.attempt_details import read_details
from ralph.loop.run_log import read_events
from ralph.project import Project
from ralph.store.memory_queries import row_to_memory
from ralph.web.pages.episodes import transcript_of
from ralph.web.pages.page import PageView
from ralph.web.pages.runs import active_runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ralph.core.records import Attempt, Memory, Prompt, PromptSection
    from ralph.loop.git.diffs import AttemptDiff
    from ralph.web.diffs import DiffFile

MAX_OUTPUT_CHARACTERS = 40_000
"""Maximum length of the live output shown, in characters; of more, the end."""
MAX_EARLIER_ATTEMPTS = 50
"""Maximum number of attempts at the task among which the one it goes on with is looked for."""
MAX_MEMORIES = 100
"""Maximum number of memories listed."""


@record
class OmittedGroup:
    """Candidates that were left out of a prompt for the same reason."""

    why: str
    items: tuple[tuple[str, str], ...]
    """Path of the page of each, empty if it has none, with its title."""


@record
class ReceiptSection:
    """Section of a prompt, with what it shows and what it leaves out and why."""

    section: PromptSection
    shown: tuple[tuple[str, str], ...]
    """Path of the page of each memory and passage, with its title."""
    left_out: tuple[OmittedGroup, ...]

    @property
    def left_out_count(self) -> int:
        """Return the number of candidates left out."""
        return sum(len(one.items) for one in self.left_out)


@record
class ShownMemory:
    """Memory in the prompt of an attempt."""

    id: str
    memory: Memory | None
    """None if it was deleted since."""


def show_attempt(project: Project, run: str, iteration: str) -> PageView:
    """Show an attempt with its prompt, transcript, changes, checks, cost and memories."""
    attempt = project.journal.get(f"{run}/{iteration}")
    diff = project.journal.diff(f"{run}/{iteration}") if attempt.commits or attempt.checkpoint else None
    details = read_details(project.directory, attempt.run_id, attempt.iteration)
    memories = _memories(project, [id for id in attempt.shown if not id.startswith(EPISODE_PREFIX)][:MAX_MEMORIES])
    prompt = details.prompt if details else None
    is_active = attempt.outcome is None and bool(active_runs(project, [attempt.run_id]))
    return PageView(
        template="attempt.html",
        values={
            "attempt": attempt,
            "credit": _credit(attempt),
            "memories": memories,
            "passages": [id for id in attempt.shown if id.startswith(EPISODE_PREFIX)][:MAX_MEMORIES],
            "receipt": _receipt(prompt, {one.id: one.memory.title for one in memories if one.memory}) if prompt else (),
            "prompt": prompt,
            "checks": details.checks if details else (),
            "diff": diff,
            "files": _files(diff) if diff else (),
            "continued": _continued(project, attempt, diff.before) if diff else None,
            "titles": project.store.tasks.titles([attempt.task_id]),
            "transcript": transcript_of(project, EpisodeKind.ATTEMPT, f"{attempt.run_id}/{attempt.iteration}"),
            "is_active": is_active,
            "output": _output(project, attempt) if attempt.outcome is None else "",
        },
    )


def _credit(attempt: Attempt) -> str:
    """Return what the outcome counted as for the memories that were shown; empty if it counted as nothing."""
    if attempt.outcome in (None, AttemptOutcome.INTERRUPTED) or attempt.excused or attempt.handed_to:
        return ""
    return "success" if attempt.outcome is AttemptOutcome.DONE else "failure"


def _memories(project: Project, ids: Iterable[str]) -> list[ShownMemory]:
    wanted = list(ids)
    found = {row["id"]: row_to_memory(row) for row in project.store.memories.rows_in("id", wanted)}
    return [ShownMemory(id=id, memory=found.get(id)) for id in wanted]


def _receipt(prompt: Prompt, titles: Mapping[str, str]) -> tuple[ReceiptSection, ...]:
    """Return the sections of a prompt with links, and what was left out grouped by the reason."""
    return tuple(
        ReceiptSection(
            section=section,
            shown=tuple((_path(id), titles.get(id, id)) for id in section.shown),
            left_out=_omitted_groups(section),
        )
        for section in prompt.sections
    )


def _omitted_groups(section: PromptSection) -> tuple[OmittedGroup, ...]:
    groups: dict[str, list[tuple[str, str]]] = {}
    for one in section.left_out:
        groups.setdefault(one.why, []).append((_path(one.id) if one.id else "", one.what))
    ordered = sorted(groups.items(), key=lambda group: -len(group[1]))
    return tuple(OmittedGroup(why=why, items=tuple(items)) for why, items in ordered)


def _path(id: str) -> str:
    """Return the path of the page of a passage, an attempt of a run or task, or a memory."""
    from urllib.parse import quote

    owner, _, number = id.rpartition("/")
    if id.startswith(EPISODE_PREFIX):
        return f"/episodes/{quote(id, safe='')}"
    if owner.startswith("run-"):
        return f"/runs/{quote(owner, safe='')}/attempts/{quote(number, safe='')}"
    if owner.startswith("t-"):
        return f"/tasks/{quote(owner, safe='')}#attempt-{quote(number, safe='')}"
    return "" if owner else f"/memories/{quote(id, safe='')}"


def _files(diff: AttemptDiff) -> tuple[DiffFile, ...]:
    from ralph.web.diffs import parse_diff

    return parse_diff(diff.text)


def _continued(project: Project, attempt: Attempt, before: str) -> int | None:
    """Return the number of the earlier attempt at the task whose unfinished work a diff starts from."""
    if not attempt.task_id or not before:
        return None
    earlier = project.store.attempts.latest(MAX_EARLIER_ATTEMPTS, task=attempt.task_id)
    return next((one.number for one in earlier if one.checkpoint == before and one != attempt), None)


def _output(project: Project, attempt: Attempt) -> str:
    """Return what the agent has said so far, from the live log of its run."""
    pieces: list[str] = []
    worker: object = None
    is_own = False
    for event in read_events(project.directory, attempt.run_id)[0]:
        if event.what == "attempt_started" and event.details.get("iteration") == attempt.iteration:
            worker, is_own, pieces = event.details.get("worker"), True, []
        elif is_own and event.what == "output" and event.details.get("worker") == worker:
            pieces.append(str(event.details.get("text", "")))
    return clean("".join(pieces)[-MAX_OUTPUT_CHARACTERS:])
