"""A session may add to the memory files; what it changes or removes of a person's memories is held."""

from __future__ import annotations

import sys

import pytest

from ralph.formats.sync.three_way import FileChoice
from tests.loop.trial import SAYS_DONE, Trial

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sessions are known by /proc")

REMOVE = """python3 - <<'END'
import re
with open(".agent/memories.md", "r+") as file:
    text = re.sub(r"### [^#]*Count money in cents[^#]*", "", file.read())
    file.seek(0)
    file.write(text)
    file.truncate()
END"""
CONFLICT = (
    "sed -i 's/^> Count money in cents.$/<<<<<<< a\\n> Count money in floats.\\n=======\\n> Count money.\\n>>>>>>> b/'"
    " .agent/memories.md"
)
WAYS = {
    "edits an entry": "sed -i 's/in cents/in floats/' .agent/memories.md",
    "removes an entry": REMOVE,
    "edits a file": "sed -i 's/in cents/in floats/' .ralph/knowledge/*.md",
    "removes a file": "rm .ralph/knowledge/money.md",
    "makes a conflict": CONFLICT,
    "edits and looks": f"sed -i 's/in cents/in floats/' .agent/memories.md; {sys.executable} -m ralph memory list",
}


@pytest.fixture
def said(trial: Trial) -> set[str]:
    """Give what a person has said, by command and in files."""
    with trial.project.synced():
        trial.project.memory.add("Count money in cents.")
        trial.project.memory.add("Count money in cents.", type="knowledge", title="Money", tags=["money"])
        trial.project.memory.add("Ports start at 5433.", type="knowledge", title="Ports", tags=["ports"])
        trial.project.memory.add("Never touch the vault.")
    return contents(trial)


def contents(trial: Trial) -> set[str]:
    with trial.project.synced():
        return {f"{memory.kind}: {memory.content}" for memory in trial.project.store.memories.all()}


@pytest.mark.parametrize("way", WAYS)
def test_a_session_changes_no_memory_of_a_person_in_the_files(trial: Trial, said: set[str], way: str) -> None:
    trial.project.tasks.add("Do it")
    trial.script(f"{WAYS[way]}\n{SAYS_DONE}")

    trial.ralph("run", "--max-iterations", "1", "--", "sh", "agent.sh")

    assert said <= contents(trial)
    assert said <= contents(trial)  # and not at the next sync either
    # What a shared store has is never removed by the files of one working copy.
    is_ignored = trial.project.store.is_shared and way.startswith("removes")
    assert len(trial.project.files.held()) == (0 if is_ignored else 1)


def test_a_person_accepts_what_a_session_has_changed(trial: Trial, said: set[str]) -> None:
    trial.project.tasks.add("Do it")
    trial.script(f"{WAYS['edits an entry']}\n{SAYS_DONE}")
    trial.ralph("run", "--max-iterations", "1", "--", "sh", "agent.sh")

    trial.project.files.resolve_held(FileChoice.ACCEPT)

    assert "pattern: Count money in floats." in contents(trial)
    assert trial.project.files.held() == []


def test_what_a_session_adds_to_a_file_it_may_change_later(trial: Trial, said: set[str]) -> None:
    entry = "\\n### mem-1700000000-beef\\n> Tabs, %s spaces.\\n<!-- tags: style | created: 2026-01-01 -->\\n"
    trial.project.tasks.add("Add")
    trial.project.tasks.add("Change")
    trial.script(
        f"if grep -q Tabs .agent/memories.md; then sed -i 's/Tabs, no/Tabs, not/' .agent/memories.md"
        f"; else printf '{entry}' no >> .agent/memories.md; fi\n{SAYS_DONE}"
    )

    trial.ralph("run", "--max-iterations", "2", "--", "sh", "agent.sh")

    assert any("Tabs, not spaces." in one for one in contents(trial))
    assert trial.project.files.held() == []
