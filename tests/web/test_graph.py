"""Where tasks are drawn: columns in the order of work, nothing on top of anything else, and always an end."""

from __future__ import annotations

import re
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from ralph.web.graph import (
    COLUMN_GAP,
    NEEDS_LINK,
    NODE_HEIGHT,
    NODE_WIDTH,
    PART_LINK,
    ROW_GAP,
    GraphLayout,
    layout_graph,
)

_NUMBER = re.compile(r"-?\d+\.\d")


def _places(drawing: GraphLayout) -> dict[str, tuple[float, float]]:
    return {node.id: (node.x, node.y) for node in drawing.nodes}


def _no_overlap(drawing: GraphLayout) -> bool:
    """Return whether no two tasks touch each other, with the gap between them."""
    rows = sorted((node.x, node.y) for node in drawing.nodes)
    for x in {x for x, _ in rows}:
        column = sorted(y for other, y in rows if other == x)
        if any(below - above < NODE_HEIGHT + ROW_GAP - 0.01 for above, below in pairwise(column)):
            return False
    nodes = drawing.nodes
    return not any(
        abs(one.x - other.x) < NODE_WIDTH and abs(one.y - other.y) < NODE_HEIGHT
        for at, one in enumerate(nodes)
        for other in nodes[at + 1 :]
    )


def _forward(drawing: GraphLayout) -> bool:
    places = _places(drawing)
    return all(
        places[link.first][0] + NODE_WIDTH + COLUMN_GAP <= places[link.then][0] + 0.01
        for link in drawing.links
        if not link.is_back
    )


def _sheet(count: int, every: int = 3) -> tuple[list[str], dict[str, list[str]], dict[str, str | None]]:
    """Return tasks as people have them: short chains, some forks, some parts, some alone."""
    ids = [f"t-{number:06x}" for number in range(count)]
    needs = {id: [ids[at - 1 - at * 7 % 5]] for at, id in enumerate(ids) if at > 6 and at % every}
    parents = {id: ids[at + 3] if at % 11 == 0 and at + 3 < count else None for at, id in enumerate(ids)}
    return ids, needs, parents


def test_what_is_needed_stands_left_of_what_waits_for_it() -> None:
    drawing = layout_graph(["c", "b", "a"], {"c": ["b"], "b": ["a"]}, {})

    places = _places(drawing)
    assert places["a"][0] < places["b"][0] < places["c"][0]
    assert [(link.first, link.then, link.kind) for link in drawing.links] == [
        ("b", "c", NEEDS_LINK),
        ("a", "b", NEEDS_LINK),
    ]
    assert drawing.width == 3 * NODE_WIDTH + 2 * COLUMN_GAP


def test_a_parent_stands_right_of_its_parts() -> None:
    drawing = layout_graph(["whole", "one", "two"], {}, {"one": "whole", "two": "whole"})

    columns = {node.id: node.column for node in drawing.nodes}
    assert columns == {"one": 0, "two": 0, "whole": 1}
    assert {link.kind for link in drawing.links} == {PART_LINK}


def test_what_begins_stands_close_to_what_it_is_for() -> None:
    drawing = layout_graph(list("abcdx"), {"b": ["a"], "c": ["b"], "d": ["c", "x"]}, {})

    columns = {node.id: node.column for node in drawing.nodes}
    assert columns["x"] == columns["c"]


def test_a_line_passes_between_the_tasks_of_the_columns_it_passes() -> None:
    drawing = layout_graph(list("abcxy"), {"b": ["a"], "y": ["x"], "c": ["a", "y"]}, {})

    places = _places(drawing)
    passing = next(link for link in drawing.links if (link.first, link.then) == ("a", "c"))
    level = re.search(r"(-?[\d.]+)H", passing.path)
    assert level
    for id in ("b", "y"):
        assert not places[id][1] <= float(level[1]) <= places[id][1] + NODE_HEIGHT


def test_what_follows_from_other_dependencies_is_counted_and_not_drawn() -> None:
    drawing = layout_graph(list("abcd"), {"b": ["a"], "c": ["a", "b"], "d": ["a", "b", "c"]}, {"a": "d"})

    assert {(link.first, link.then, link.kind) for link in drawing.links} == {
        ("a", "b", NEEDS_LINK),
        ("b", "c", NEEDS_LINK),
        ("c", "d", NEEDS_LINK),
    }
    assert drawing.implied == 3
    assert [node.column for node in drawing.nodes] == [0, 1, 2, 3]


def test_a_part_is_drawn_even_where_its_order_follows() -> None:
    drawing = layout_graph(list("abc"), {"b": ["a"], "c": ["b"]}, {"a": "c"})

    assert ("a", "c", PART_LINK) in {(link.first, link.then, link.kind) for link in drawing.links}
    assert drawing.implied == 0


def test_lines_that_need_not_cross_do_not() -> None:
    drawing = layout_graph(
        ["a", "b", "c", "x", "y", "z"], {"x": ["c"], "y": ["b"], "z": ["a"], "b": []}, {"a": "y", "b": "x"}
    )

    places = _places(drawing)
    lines = [link for link in drawing.links if places[link.first][0] == 0]
    ends = sorted((places[link.first][1], places[link.then][1]) for link in lines)
    assert [end for _, end in ends] == sorted(end for _, end in ends)


def test_tasks_linked_to_nothing_stand_in_rows_below() -> None:
    ids = [str(number) for number in range(12)]

    drawing = layout_graph([*ids, "a", "b"], {"b": ["a"]}, {})

    places = _places(drawing)
    assert min(places[id][1] for id in ids) > places["a"][1] + NODE_HEIGHT
    assert len({places[id][1] for id in ids}) == 3
    assert _no_overlap(drawing)


def test_nothing_takes_no_room() -> None:
    assert layout_graph([], {}, {}) == GraphLayout(width=0, height=0, nodes=(), links=(), implied=0)


def test_tasks_that_wait_for_each_other_are_drawn_all_the_same() -> None:
    drawing = layout_graph(list("abc"), {"a": ["c"], "b": ["a"], "c": ["b"]}, {"a": "a", "b": "c", "c": "b"})

    assert len(drawing.nodes) == 3
    assert any(link.is_back for link in drawing.links)
    assert _forward(drawing)


def test_names_of_tasks_that_are_not_there_are_ignored() -> None:
    drawing = layout_graph(["a", "a", "b"], {"a": ["gone", "a"], "nobody": ["a"]}, {"b": "gone", "gone": "a"})

    assert [node.id for node in drawing.nodes] == ["a", "b"]
    assert not drawing.links


def test_all_lies_on_the_sheet() -> None:
    drawing = layout_graph(*_sheet(150))

    for node in drawing.nodes:
        assert -0.01 <= node.x <= drawing.width - NODE_WIDTH + 0.01
        assert -0.01 <= node.y <= drawing.height - NODE_HEIGHT + 0.01
    for link in drawing.links:
        assert all(float(number) >= -0.1 for number in _NUMBER.findall(link.path))


def test_five_hundred_tasks_are_placed() -> None:
    drawing = layout_graph(*_sheet(500))

    assert len(drawing.nodes) == 500
    assert _no_overlap(drawing)
    assert _forward(drawing)


def test_a_dense_graph_is_placed() -> None:
    ids = [str(number) for number in range(300)]

    drawing = layout_graph(ids, {id: ids[:at] for at, id in enumerate(ids)}, {})

    assert _forward(drawing)
    assert len(drawing.links) == 299
    assert drawing.implied == 299 * 300 // 2 - 299


@settings(max_examples=60, deadline=None)
@given(
    count=st.integers(0, 25),
    needs=st.lists(st.tuples(st.integers(0, 24), st.integers(0, 24)), max_size=60),
    parents=st.lists(st.tuples(st.integers(0, 24), st.integers(0, 24)), max_size=20),
)
def test_any_graph_is_drawn_without_overlaps_and_forward(
    count: int, needs: list[tuple[int, int]], parents: list[tuple[int, int]]
) -> None:
    ids = [str(number) for number in range(count)]
    waits: dict[str, list[str]] = {}
    for one, other in needs:
        waits.setdefault(str(one), []).append(str(other))

    drawing = layout_graph(ids, waits, {str(one): str(other) for one, other in parents})

    assert [node.id for node in drawing.nodes] == ids
    assert _no_overlap(drawing)
    assert _forward(drawing)
