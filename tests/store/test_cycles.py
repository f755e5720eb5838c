from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.store.cycles import find_cycle


def alone(ids: str) -> dict[str, str | None]:
    return dict.fromkeys(ids)


# --- what is fine --------------------------------------------------------------------


def test_tasks_that_need_nothing_are_fine() -> None:
    assert find_cycle({}, {}) is None
    assert find_cycle(alone("ab"), {}) is None


def test_two_ways_to_the_same_task_are_no_cycle() -> None:
    assert find_cycle(alone("abcd"), {"a": ["b", "c"], "b": ["d"], "c": ["d", "d"]}) is None


def test_children_may_need_each_other_and_what_their_parent_needs() -> None:
    parents = {"p": None, "a": "p", "b": "p", "x": None}

    assert find_cycle(parents, {"a": ["b", "x"], "p": ["x"]}) is None


def test_ids_nobody_knows_are_ignored() -> None:
    assert find_cycle({"a": "gone"}, {"a": ["gone", "b"], "b": []}) is None


# --- what is not ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parents", "needs", "path"),
    [
        ({}, {"a": ["a"]}, ["a", "a"]),
        ({}, {"a": ["b"], "b": ["a"]}, ["a", "b", "a"]),
        ({}, {"a": ["b"], "b": ["c"], "c": ["b"]}, ["b", "c", "b"]),
        ({}, {"a": ["b"], "b": ["c"], "c": ["a"]}, ["a", "b", "c", "a"]),
        ({"a": "a"}, {}, ["a", "a"]),
        ({"a": "b", "b": "a"}, {}, ["a", "b", "a"]),
        ({"p": None, "a": "p"}, {"a": ["p"]}, ["a", "p", "a"]),
        ({"p": None, "a": "p"}, {"p": ["a"]}, ["p", "a", "p"]),
        ({"p": None, "a": "p", "b": "a"}, {"p": ["b"]}, ["p", "b", "a", "p"]),
        ({"p": None, "a": "p", "b": "a"}, {"b": ["p"]}, ["b", "p", "a", "b"]),
        ({"p": None, "a": "p", "x": None}, {"p": ["x"], "x": ["a"]}, ["p", "x", "a", "p"]),
        ({"p": None, "a": "p", "q": None, "b": "q"}, {"p": ["q"], "b": ["a"]}, ["p", "q", "b", "a", "p"]),
        ({"p": None, "a": "p", "q": None, "b": "q"}, {"a": ["q"], "b": ["p"]}, ["a", "q", "b", "p", "a"]),
    ],
    ids=[
        "itself",
        "each other",
        "only those in the cycle are named",
        "three",
        "its own parent",
        "parents of each other",
        "its parent",
        "its child",
        "its grandchild",
        "its grandparent",
        "what its child holds back",
        "a child holds back what its parent needs",
        "children need each other's parents",
    ],
)
def test_tasks_that_wait_for_each_other_are_named_in_order(
    parents: dict[str, str | None], needs: dict[str, list[str]], path: list[str]
) -> None:
    found = find_cycle(parents, needs)

    assert found is not None
    assert set(found) == set(path)
    assert found[0] == found[-1]
    start = path.index(found[0])
    assert found == [*path[start:-1], *path[: start + 1]]


def test_the_path_starts_where_the_first_task_waits() -> None:
    assert find_cycle(alone("ab"), {"a": ["b"], "b": ["a"]}) == ["a", "b", "a"]


@pytest.mark.parametrize("kind", ["needs", "parents"])
def test_a_hundred_thousand_tasks_in_a_row_are_checked_quickly(kind: str) -> None:
    ids = [f"t-{number:06x}" for number in range(100_000)]
    chain = dict(pairwise(ids))
    parents: dict[str, str | None] = {**dict.fromkeys(ids), **(chain if kind == "parents" else {})}
    needs = {one: [other] for one, other in chain.items()} if kind == "needs" else {}
    started = time.process_time()

    assert find_cycle(parents, needs) is None
    path = find_cycle(parents, {**needs, ids[-1]: [ids[0]]})

    assert path is not None
    assert len(path) == len(ids) + 1
    assert time.process_time() - started < 20  # about one second here


# --- against a simulation --------------------------------------------------------------


def can_all_be_finished(parents: dict[str, str | None], needs: dict[str, list[str]]) -> bool:
    """Finish tasks without children one after the other, as workers would, until nothing moves."""
    children = {one: [child for child, parent in parents.items() if parent == one] for one in parents}
    finished: set[str] = set()

    def is_held_back(one: str) -> bool:
        line: list[str] = []
        at: str | None = one
        while at is not None and at not in line:
            line.append(at)
            at = parents[at]
        return any(need not in finished for ancestor in line for need in needs.get(ancestor, []) if need in parents)

    moved = True
    while moved:
        moved = False
        for one in parents:
            is_ready = all(child in finished for child in children[one]) if children[one] else not is_held_back(one)
            if one not in finished and is_ready:
                finished.add(one)
                moved = True
    return len(finished) == len(parents)


names = st.sampled_from("abcdefg")
forests = st.fixed_dictionaries({name: st.none() | names for name in "abcdefg"})
trees = st.tuples(*(st.none() | st.sampled_from("abcdefg"[:place] or "a") for place in range(1, 7))).map(
    lambda chosen: {"a": None, **dict(zip("bcdefg", chosen, strict=True))}
)
wants = st.dictionaries(names, st.lists(st.sampled_from("abcdefgz"), max_size=2), max_size=5)


@given(forests | trees, wants)
def test_a_cycle_is_found_exactly_when_workers_would_get_stuck(
    parents: dict[str, str | None], needs: dict[str, list[str]]
) -> None:
    path = find_cycle(parents, needs)

    assert (path is None) == can_all_be_finished(parents, needs)


@given(forests | trees, wants)
def test_each_task_on_the_path_is_linked_to_the_next_and_named_once(
    parents: dict[str, str | None], needs: dict[str, list[str]]
) -> None:
    path = find_cycle(parents, needs)

    if path is not None:
        assert path[0] == path[-1]
        assert len(set(path)) == len(path) - 1
        for one, other in pairwise(path):
            assert other in needs.get(one, []) or parents[one] == other or parents[other] == one
