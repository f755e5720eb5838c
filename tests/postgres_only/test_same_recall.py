"""The same memories are recalled in the same order from both databases."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.recall_speed import BENCH, Texts, memories

from ralph.project import Project
from ralph.workspace import init_project

pytestmark = pytest.mark.postgres
SHOWN = 10


def filled(directory: Path, count: int, environment: dict[str, str] | None = None) -> Project:
    directory.mkdir()
    if environment is None:
        init_project(directory)
        project = Project.open(directory)
    else:
        from ralph.core.config import load_config
        from ralph.workspace import open_own_store

        init_project(directory, environment=environment)
        config = load_config(directory, environment)
        project = Project(directory, open_own_store(directory, config), config)
    project.store.memories.insert_all_unchecked(list(memories(0, count)), BENCH)
    return project


# Above 2,000 the server counts frequent words by a sample, and below it not.
@pytest.mark.parametrize(("count", "same"), [(600, 1.0), (2_500, 0.95)])
def test_both_databases_recall_the_same(tmp_path: Path, count: int, same: float) -> None:
    texts = Texts(-1)
    asked = [texts.task() for _ in range(15)] + [texts.search() for _ in range(15)]

    with filled(tmp_path / "file", count, {}) as ours, filled(tmp_path / "server", count) as theirs:
        assert not ours.store.is_shared
        assert theirs.store.is_shared
        pairs = [
            [[one.memory.id for one in project.memory.recall(context, SHOWN)] for project in (ours, theirs)]
            for context in asked
        ]

    found = sum(len(one) for one, _ in pairs)
    assert found > 100
    assert sum(len({*one} & {*other}) for one, other in pairs) >= same * found
    if same == 1.0:
        assert all(one == other for one, other in pairs)
