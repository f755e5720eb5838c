"""The labeled sets of what is kept and of what is one fact, and the figures that have to hold."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from bench.learning.__main__ import HALVES, PAIRS, RELATIONS, compared, judged, told_apart
from bench.learning.fit import SENTENCES, load
from bench.learning.play import Played, grade, stories

from ralph.core.memory_types import MEMORY_TYPES
from ralph.memory.capture.worth_keeping import PLACE_TYPES
from ralph.memory.recall.embeddings import is_installed

UNSEEN = HALVES[1:]
"""Rows that did not tune the rules when they were written."""


def test_every_sentence_has_a_source_a_place_and_a_known_type() -> None:
    rows = [json.loads(line) for line in SENTENCES.read_text(encoding="utf-8").splitlines()]

    assert len(rows) >= 300
    assert len({row["text"] for row in rows}) == len(rows)
    assert all(row["source"] and row["place"] in PLACE_TYPES for row in rows)
    assert {row["type"] for row in rows} <= {None, *MEMORY_TYPES}


@pytest.mark.parametrize("half", UNSEEN)
def test_what_is_worth_keeping_is_kept_and_little_else(half: str) -> None:
    score = judged(load(half))[0]

    assert score.precision >= 0.85
    assert score.recall >= 0.65


@pytest.mark.parametrize("place", ["explorer", "planner", "critic", "completion"])
def test_handovers_and_notes_yield_most_of_it(place: str) -> None:
    assert judged([row for row in load("test") if row["place"] == place])[0].recall >= 0.65


@pytest.mark.parametrize("half", UNSEEN)
def test_pairs_are_told_apart_by_words(half: str) -> None:
    assert len(PAIRS.read_text(encoding="utf-8").splitlines()) >= 100
    assert compared(half, by_meaning=False).f1 >= 0.7


@pytest.mark.skipif(not is_installed(), reason="the semantic extra is not installed")
@pytest.mark.parametrize("half", UNSEEN)
def test_pairs_are_told_apart_by_meaning(half: str) -> None:
    assert compared(half, by_meaning=True).f1 >= 0.85


@pytest.mark.parametrize("label", RELATIONS)
def test_another_value_an_exception_and_another_subject_are_told_apart(label: str) -> None:
    right, total = told_apart("test", label)

    assert right >= 0.8 * total


@pytest.mark.slow
@pytest.mark.parametrize("path", stories(), ids=lambda path: path.stem)
def test_whole_runs_leave_good_memories_once(path: Path, tmp_path: Path) -> None:
    story = tomllib.loads(path.read_text(encoding="utf-8"))
    assert len(story["task"]) >= 6

    found = grade(story, Played(path, tmp_path))

    assert found.good >= 0.9 * found.total
    assert len(found.noise) <= 0.05 * found.total
    assert len(found.duplicates) <= 0.05 * found.total
    assert found.found >= 0.7 * found.expected
