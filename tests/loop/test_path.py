"""The path of a run, from the command to the context of a prompt, as a reader follows it."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import Any

import pytest

import ralph
import ralph.loop.prepare
from ralph.__main__ import main
from ralph.core.records import PromptContext
from ralph.memory.recall.gather import gather_context
from ralph.project import Project
from tests.loop.trial import SAYS_DONE

MAX_FRAMES = 12
SOURCES = str(Path(ralph.__file__).parent)


def test_a_run_reaches_the_gathering_of_context_in_few_frames_of_different_names(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.tasks.add("Accept tabs in the parser")
    path: list[str] = []

    def record_path(*arguments: Any, **options: Any) -> PromptContext:
        path.append(gather_context.__name__)
        for frame, _ in traceback.walk_stack(sys._getframe(1)):
            if frame.f_code.co_filename.startswith(SOURCES):
                path.append(frame.f_code.co_name)
        return gather_context(*arguments, **options)

    monkeypatch.setattr(ralph.loop.prepare, "gather_context", record_path)
    monkeypatch.setattr(sys, "argv", ["ralph", "-C", str(project.root), "run", "--", "sh", "-c", SAYS_DONE])

    assert main() == 0

    assert path[-1] == "main"
    assert len(path) + len(["<module>"]) <= MAX_FRAMES, path
    assert len(set(path)) == len(path), path
