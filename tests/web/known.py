"""What can be named in the paths and queries of the API: ids of things that are there in a project."""

from __future__ import annotations

from ralph.core.paging import Page
from ralph.core.records import EpisodeKind
from ralph.project import Project
from ralph.store.memory_queries import MemoryFilter

Known = dict[str, list[str]]

LIMIT = 40
VARIABLE = "RALPH_FUZZ_IDS"
"""Names the file in which the ids are told to another process."""


def ids_in(project: Project) -> Known:
    """Return ids by the word that stands before them in a path, or by the name they have in a query."""
    memories = [memory.id for memory in project.memory.list(MemoryFilter())][:LIMIT]
    waiting = [memory.id for memory in project.learnings.list()]
    tasks = [task.id for task in project.tasks.list()][:LIMIT]
    attempts = project.journal.attempts(Page(limit=LIMIT))
    runs = list(dict.fromkeys(attempt.run_id for attempt in attempts))
    changes = [event.change_id for event, _ in project.memory.events.since(0, LIMIT) if event.change_id]
    episodes = [one.episode for one in project.episodes.search("", LIMIT)]
    sessions = [one.source for one in episodes if one.kind is EpisodeKind.SESSION]
    return {
        "episodes": [one.id for one in episodes],
        "sessions": list(dict.fromkeys(sessions)),
        "projects": ["-"],
        "memories": memories + waiting,
        "staging": waiting,
        "changes": list(dict.fromkeys(changes)),
        "tasks": tasks,
        "features": [view.feature.id for view in project.features.list()],
        "runs": runs,
        "attempts": ["1", "2"],
        "task": tasks,
        "run": runs,
    }


def filled(path: str, known: Known) -> str | None:
    """Return a path with what it names put in; nothing when there is nothing of the kind."""
    words = path.split("/")
    for place, word in enumerate(words):
        if word.startswith("{"):
            found = known.get(words[place - 1])
            if not found:
                return None
            words[place] = found[0]
    return "/".join(words)
