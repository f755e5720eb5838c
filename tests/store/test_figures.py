"""Figures that take long: computed once for each version of the data, whoever asks."""

from __future__ import annotations

import threading

import pytest

from ralph.project import Project
from ralph.store import FigureCache
from ralph.web.workers import SharedFigures


def test_a_figure_is_computed_once_for_a_version() -> None:
    cache, asked = FigureCache(), []

    def compute() -> int:
        asked.append(1)
        return len(asked)

    assert [cache.get("a", 1, compute), cache.get("a", 1, compute), cache.get("b", 1, compute)] == [1, 1, 2]
    assert [cache.get("a", 2, compute), cache.get("b", 1, compute)] == [3, 2]


def test_threads_that_ask_at_once_wait_for_one_of_them() -> None:
    cache, asked, found = FigureCache(), [], []
    is_computing, may_end = threading.Event(), threading.Event()

    def compute() -> str:
        asked.append(threading.current_thread().name)
        is_computing.set()
        may_end.wait(10)
        return "figure"

    threads = [threading.Thread(target=lambda: found.append(cache.get("a", 1, compute))) for _ in range(8)]
    for one in threads:
        one.start()
    assert is_computing.wait(10)
    may_end.set()
    for one in threads:
        one.join(10)

    assert found == ["figure"] * 8
    assert len(asked) == 1


def test_a_figure_that_failed_is_computed_again() -> None:
    cache = FigureCache()

    with pytest.raises(ZeroDivisionError):
        cache.get("a", 1, lambda: 1 // 0)

    assert cache.get("a", 1, lambda: 7) == 7


def test_another_database_or_setting_has_figures_of_its_own() -> None:
    shared = SharedFigures()

    assert shared.of((1.0, 2.0)) is shared.of((1.0, 2.0))
    assert shared.of((1.0, 3.0)) is not shared.of((1.0, 2.0))


def test_an_overview_is_of_the_present_after_each_change(project: Project) -> None:
    def seen() -> tuple[int, int, int]:
        overview = project.overview(5)
        return sum(overview.counts.values()), overview.ready_count, project.stats.memory_growth().memories

    assert seen() == (0, 0, 0)
    task = project.tasks.add("One")
    assert seen() == (1, 1, 0)
    memory = project.memory.add("The parser wants tabs.").memory
    assert seen() == (1, 1, 1)
    project.tasks.block(task.id, "later")
    project.memory.delete(memory.id)
    assert seen() == (1, 0, 0)
