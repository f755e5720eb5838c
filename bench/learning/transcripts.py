"""What is remembered of whole texts of three projects, added to a store one after the other as the loop does."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ralph.core.records import Memory, now, replace
from ralph.memory.capture.handover import extract_at_completion, extract_at_handover, extract_from_session
from ralph.memory.lifecycle.same_fact import ONE_FACT, relate
from ralph.project import Project
from ralph.store.memories import ChangeInfo
from ralph.workspace import init_project

TRANSCRIPTS = Path(__file__).with_name("transcripts.json")
NEXT_HAT = {"explorer": "planner", "planner": "creator", "critic": "creator"}


class Remembered(NamedTuple):
    """What a project remembers after its transcript."""

    name: str
    total: int
    good: int
    noise: int
    duplicates: int
    expected: int
    found: int


def measure() -> Iterator[Remembered]:
    """Yield what each project remembers, against the sentences marked as worth keeping."""
    for run in json.loads(TRANSCRIPTS.read_text(encoding="utf-8")):
        with tempfile.TemporaryDirectory() as directory:
            init_project(Path(directory))
            with Project.open(directory) as project:
                yield _remembered(run, project)


def _remembered(run: dict[str, Any], project: Project) -> Remembered:
    for number, (place, text) in enumerate(run["said"], 1):
        for memory in _extracted(place, text):
            stated = replace(memory, origin_run="run-1", origin_attempt=number)
            project.store.memories.add(stated, ChangeInfo(who="ralph", why=place))
    texts = [row["body"] for row in project.store.scope.query("SELECT body FROM memory WHERE project_id = :project_id")]
    facts = [next((one for one in run["keep"] if relate(text, one) in ONE_FACT), "") for text in texts]
    found = {fact for fact in facts if fact}
    return Remembered(
        name=run["name"],
        total=len(texts),
        good=len(found),
        noise=facts.count(""),
        duplicates=len(texts) - facts.count("") - len(found),
        expected=len(run["keep"]),
        found=len(found),
    )


def _extracted(place: str, text: str) -> list[Memory]:
    if place in NEXT_HAT:
        return extract_at_handover(place, NEXT_HAT[place], text, now())
    return extract_at_completion(text, [], now()) if place == "completion" else extract_from_session(text, place, now())
