"""Layered layout of the task graph: each task is placed in a column to the right of its dependencies.

Pure functions that terminate on any input, including dependency cycles. A parent task comes after its parts, because
it is done when they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ralph.core.records import record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

NODE_WIDTH, NODE_HEIGHT = 208, 46
"""Size of a task, in SVG units."""
COLUMN_GAP, ROW_GAP = 60, 14
GROUP_GAP = 34
"""Gap between unconnected groups of tasks, in SVG units."""
MIN_LAYOUT_WIDTH = 4 * NODE_WIDTH + 3 * COLUMN_GAP
"""Width up to which small groups are placed side by side, in SVG units."""
MAX_BENDS = 1_500
"""Maximum number of bends that route links between tasks; further links go straight behind them."""
ORDER_PASSES = 2
"""Number of passes in each direction that move linked tasks next to each other."""
_BEND_HEIGHT = 4

NEEDS_LINK, PART_LINK = "needs", "part"

_NEW, _ON_PATH, _FINISHED = range(3)


@record
class GraphNode:
    """Position of a task: its upper left corner and its column."""

    id: str
    x: float
    y: float
    column: int


@record
class GraphLink:
    """Link from a task to one that comes after it."""

    first: str
    then: str
    kind: str
    """`needs`, or `part` if the first task is part of the other."""
    path: str
    """SVG path."""
    is_back: bool
    """Whether it closes a cycle and therefore leads to the left."""


@record
class GraphLayout:
    """Graph with positions."""

    width: float
    height: float
    nodes: tuple[GraphNode, ...]
    links: tuple[GraphLink, ...]
    implied: int
    """Number of dependencies without a link, because they follow from others."""


def layout_graph(
    ids: Sequence[str], needs: Mapping[str, Iterable[str]], parents: Mapping[str, str | None]
) -> GraphLayout:
    """Lay out tasks with a link for each dependency and part; references to other tasks are ignored.

    A dependency that follows from others has no link: if C needs B and B needs A, that C needs A adds nothing to see.
    """
    numbers = {id: number for number, id in enumerate(dict.fromkeys(ids))}
    names = list(numbers)
    pairs = _pairs(numbers, needs, parents)
    back = _back_links(len(names), pairs)
    count = len(pairs)
    implied = _implied_links(len(names), [pair for pair in pairs if pair not in back])
    pairs = {pair: kind for pair, kind in pairs.items() if kind == PART_LINK or pair not in implied}
    forward = [pair for pair in pairs if pair not in back]
    columns = _columns(len(names), forward)
    groups, alone = _groups(len(names), pairs)
    placed = [_Group(group, columns, [pair for pair in forward if pair[0] in group]) for group in groups]
    spots: dict[int, tuple[float, float, int]] = {}
    routes: dict[tuple[int, int], list[tuple[float, float]]] = {}
    width, height = _pack(placed, spots, routes)
    width, height = _grid(alone, width, height, spots)
    links = tuple(
        GraphLink(
            first=names[first],
            then=names[then],
            kind=kind,
            path=_path(spots[first], spots[then], routes.get((first, then), []), is_back=(first, then) in back),
            is_back=(first, then) in back,
        )
        for (first, then), kind in pairs.items()
    )
    nodes = tuple(GraphNode(id=names[n], x=x, y=y, column=column) for n, (x, y, column) in sorted(spots.items()))
    return GraphLayout(width=width, height=height, nodes=nodes, links=links, implied=count - len(links))


# --- order of the tasks ---------------------------------------------------------------


def _pairs(
    numbers: Mapping[str, int], needs: Mapping[str, Iterable[str]], parents: Mapping[str, str | None]
) -> dict[tuple[int, int], str]:
    """Return the links between tasks by number, with their kind."""
    pairs: dict[tuple[int, int], str] = {}
    for id, number in numbers.items():
        for needed in needs.get(id, ()):
            if needed in numbers and needed != id:
                pairs[numbers[needed], number] = NEEDS_LINK
        parent = parents.get(id)
        if parent in numbers and parent is not None and parent != id:
            pairs.setdefault((number, numbers[parent]), PART_LINK)
    return pairs


def _after(count: int, pairs: Iterable[tuple[int, int]]) -> list[list[int]]:
    after: list[list[int]] = [[] for _ in range(count)]
    for first, then in pairs:
        after[first].append(then)
    return after


def _back_links(count: int, pairs: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
    """Return the links that close cycles."""
    after, state, back = _after(count, pairs), bytearray(count), set()
    for root in range(count):
        if state[root] != _NEW:
            continue
        state[root] = _ON_PATH
        path = [(root, iter(after[root]))]
        while path:
            node, rest = path[-1]
            then = next(rest, None)
            if then is None:
                state[node] = _FINISHED
                path.pop()
            elif state[then] == _ON_PATH:
                back.add((node, then))
            elif state[then] == _NEW:
                state[then] = _ON_PATH
                path.append((then, iter(after[then])))
    return back


def _implied_links(count: int, pairs: Sequence[tuple[int, int]]) -> set[tuple[int, int]]:
    """Return the links of a graph without cycles that a longer way through it implies."""
    after = _after(count, pairs)
    place = {node: at for at, node in enumerate(_in_order(after))}
    implied = set()
    reached = [0] * count  # for each task those after it, as bits
    for node in sorted(place, key=place.__getitem__, reverse=True):
        for then in sorted(after[node], key=place.__getitem__):
            if reached[node] >> then & 1:
                implied.add((node, then))
            reached[node] |= reached[then] | 1 << then
    return implied


def _in_order(after: Sequence[Sequence[int]]) -> list[int]:
    """Return the tasks of a graph without cycles, each before those after it."""
    blockers = [0] * len(after)
    for some in after:
        for then in some:
            blockers[then] += 1
    order = [node for node, count in enumerate(blockers) if not count]
    for node in order:
        for then in after[node]:
            blockers[then] -= 1
            if not blockers[then]:
                order.append(then)
    return order


def _columns(count: int, pairs: Sequence[tuple[int, int]]) -> list[int]:
    """Return the column of each task: after all its dependencies; roots move next to their first dependent."""
    after = _after(count, pairs)
    columns = [0] * count
    for node in _in_order(after):
        for then in after[node]:
            columns[then] = max(columns[then], columns[node] + 1)
    for node in set(range(count)) - {then for _, then in pairs}:
        if after[node]:
            columns[node] = min(columns[then] for then in after[node]) - 1
    return columns


def _groups(count: int, pairs: Iterable[tuple[int, int]]) -> tuple[list[set[int]], list[int]]:
    """Return the connected groups, largest first, and the tasks without links."""
    root = list(range(count))

    def find_root(node: int) -> int:
        while root[node] != node:
            root[node] = root[root[node]]
            node = root[node]
        return node

    for first, then in pairs:
        root[find_root(first)] = find_root(then)
    groups: dict[int, set[int]] = {}
    for node in range(count):
        groups.setdefault(find_root(node), set()).add(node)
    linked = sorted((group for group in groups.values() if len(group) > 1), key=lambda group: -len(group))
    return linked, sorted(node for group in groups.values() if len(group) == 1 for node in group)


# --- order within columns and positions -----------------------------------------------


class _Group:
    """Connected tasks during layout; negative numbers are bends of links that pass through a column."""

    def __init__(self, group: Iterable[int], columns: Sequence[int], pairs: Sequence[tuple[int, int]]) -> None:
        first = min(columns[node] for node in group)
        self.column = {node: columns[node] - first for node in sorted(group)}
        self.rows: list[list[int]] = [[] for _ in range(max(self.column.values()) + 1)]
        for node, column in self.column.items():
            self.rows[column].append(node)
        self.before: dict[int, list[int]] = {}
        self.after: dict[int, list[int]] = {}
        self.bends: dict[tuple[int, int], list[int]] = {}
        self._bend(pairs)
        self._order()
        self.y = self._place()

    def _bend(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Add bends to links that pass through columns; links from the same task share them."""
        shared: dict[tuple[int, int], int] = {}
        for first, then in sorted(pairs, key=lambda pair: self.column[pair[1]] - self.column[pair[0]]):
            passed = range(self.column[first] + 1, self.column[then])
            if len(shared) + len(passed) > MAX_BENDS:
                self._join(first, then)
                continue
            way = [first]
            for column in passed:
                bend = shared.get((first, column))
                if bend is None:
                    bend = shared[first, column] = -1 - len(shared)
                    self.rows[column].append(bend)
                    self._join(way[-1], bend)
                way.append(bend)
            self._join(way[-1], then)
            self.bends[first, then] = way[1:]

    def _join(self, first: int, then: int) -> None:
        self.after.setdefault(first, []).append(then)
        self.before.setdefault(then, []).append(first)

    def _order(self) -> None:
        """Sort each column by the mean position of the neighbors in the adjacent column, to avoid crossings."""
        for _ in range(ORDER_PASSES):
            for rows, neighbors in ((self.rows, self.before), (self.rows[::-1], self.after)):
                position: dict[int, float] = {}
                for row in rows:
                    targets = {node: _mean(node, neighbors, position, at) for at, node in enumerate(row)}
                    row.sort(key=targets.__getitem__)
                    position.update((node, float(at)) for at, node in enumerate(row))

    def _place(self) -> dict[int, float]:
        """Return the vertical center of each node, as level with the tasks before it as space allows."""
        y: dict[int, float] = {}
        for row in self.rows:
            free = 0.0
            for node in row:
                half = _half(node)
                y[node] = max(_mean(node, self.before, y, free + half), free + half)
                free = y[node] + half + ROW_GAP
        return y

    @property
    def size(self) -> tuple[float, float]:
        return (
            len(self.rows) * (NODE_WIDTH + COLUMN_GAP) - COLUMN_GAP,
            max(y + _half(node) for node, y in self.y.items()),
        )


def _half(node: int) -> float:
    return (NODE_HEIGHT if node >= 0 else _BEND_HEIGHT) / 2


def _mean(node: int, neighbors: Mapping[int, list[int]], values: Mapping[int, float], default: float) -> float:
    """Return the mean value of the neighbors of a node, or a default if it has none."""
    linked = [values[other] for other in neighbors.get(node, ()) if other in values]
    return sum(linked) / len(linked) if linked else default


# --- placing the groups ---------------------------------------------------------------


def _pack(
    groups: Sequence[_Group],
    spots: dict[int, tuple[float, float, int]],
    routes: dict[tuple[int, int], list[tuple[float, float]]],
) -> tuple[float, float]:
    """Place groups side by side in rows and return the total width and height."""
    row_width = max([MIN_LAYOUT_WIDTH, *(group.size[0] for group in groups)])
    x = y = row_height = reach = 0.0
    for group in groups:
        width, height = group.size
        if x and x + width > row_width:
            x, y, row_height = 0.0, y + row_height + GROUP_GAP, 0.0
        for node, column in group.column.items():
            spots[node] = x + column * (NODE_WIDTH + COLUMN_GAP), y + group.y[node] - NODE_HEIGHT / 2, column
        for pair, bends in group.bends.items():
            start = group.column[pair[0]] + 1
            routes[pair] = [
                (x + column * (NODE_WIDTH + COLUMN_GAP), y + group.y[bend]) for column, bend in enumerate(bends, start)
            ]
        reach = max(reach, x + width)
        x, row_height = x + width + COLUMN_GAP, max(row_height, height)
    return reach, y + row_height


def _grid(
    alone: Sequence[int], width: float, height: float, spots: dict[int, tuple[float, float, int]]
) -> tuple[float, float]:
    """Place tasks without links in rows below all groups."""
    if not alone:
        return width, height
    pitch = NODE_WIDTH + COLUMN_GAP / 2
    across = max(1, int((max(width, MIN_LAYOUT_WIDTH) + COLUMN_GAP / 2) // pitch))
    top = height + GROUP_GAP if height else 0.0
    for at, node in enumerate(alone):
        spots[node] = at % across * pitch, top + at // across * (NODE_HEIGHT + ROW_GAP), 0
    rows = -(-len(alone) // across)
    reach = min(across, len(alone)) * pitch - COLUMN_GAP / 2
    return max(width, reach), top + rows * (NODE_HEIGHT + ROW_GAP) - ROW_GAP


def _path(
    first: tuple[float, float, int],
    then: tuple[float, float, int],
    bends: Sequence[tuple[float, float]],
    *,
    is_back: bool,
) -> str:
    """Return the SVG path from the right of one task to the left of another, level through columns it passes."""
    x, y = first[0] + NODE_WIDTH, first[1] + NODE_HEIGHT / 2
    end = then[0], then[1] + NODE_HEIGHT / 2
    path = f"M{x:.1f} {y:.1f}"
    if is_back:
        over = min(y, end[1]) - NODE_HEIGHT
        return f"{path}C{x + 60:.1f} {over:.1f} {end[0] - 60:.1f} {over:.1f} {end[0]:.1f} {end[1]:.1f}"
    for bend in bends:
        path += _curve(x, y, *bend) + f"H{bend[0] + NODE_WIDTH:.1f}"
        x, y = bend[0] + NODE_WIDTH, bend[1]
    return path + _curve(x, y, *end)


def _curve(x: float, y: float, to_x: float, to_y: float) -> str:
    if abs(y - to_y) < 0.5:
        return f"L{to_x:.1f} {to_y:.1f}"
    half = (to_x - x) / 2
    return f"C{x + half:.1f} {y:.1f} {to_x - half:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}"
