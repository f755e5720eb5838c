"""Layered layout of the task graph: each task is placed in a column to the right of its dependencies.

Pure functions that terminate on any input, including dependency cycles. A parent task comes after its parts, because
it is done when they are.
"""

from __future__ import annotations

from bisect import bisect_right, insort
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
MAX_IMPLIED_LINKS = 5_000
"""Number of implied dependencies after which no more are collected."""
MAX_SWEEPS = 4
"""Number of passes that reduce crossings."""
MAX_SWEPT_LINKS = 4_000
"""Number of links above which crossings are not reduced, because nobody could follow them anyway."""
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


def layout_graph(
    ids: Sequence[str], needs: Mapping[str, Iterable[str]], parents: Mapping[str, str | None]
) -> GraphLayout:
    """Lay out tasks with a link for each dependency and part; references to other tasks are ignored."""
    numbers = {id: number for number, id in enumerate(dict.fromkeys(ids))}
    names = list(numbers)
    pairs = _pairs(numbers, needs, parents)
    implied = _implied(numbers, needs, parents, pairs)
    back = _back_links(len(names), [*pairs, *implied])
    forward = [pair for pair in pairs if pair not in back]
    columns = _columns(len(names), forward, [pair for pair in implied if pair not in back])
    spots: dict[int, tuple[float, float, int]] = {}
    routes: dict[tuple[int, int], list[tuple[float, float]]] = {}
    groups, alone = _groups(len(names), pairs)
    within: list[list[tuple[int, int]]] = [[] for _ in groups]
    group_of = {node: at for at, group in enumerate(groups) for node in group}
    for pair in forward:
        within[group_of[pair[0]]].append(pair)
    placed = [_place(group, columns, some) for group, some in zip(groups, within, strict=True)]
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
    return GraphLayout(width=width, height=height, nodes=nodes, links=links)


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


def _implied(
    numbers: Mapping[str, int],
    needs: Mapping[str, Iterable[str]],
    parents: Mapping[str, str | None],
    pairs: Mapping[tuple[int, int], str],
) -> list[tuple[int, int]]:
    """Return dependencies that parts inherit from their parent, for which no link is drawn."""
    found: list[tuple[int, int]] = []
    for id, number in numbers.items():
        parent = parents.get(id)
        for needed in needs.get(parent, ()) if parent in numbers and parent is not None else ():
            pair = numbers.get(needed, number), number
            if pair[0] != number and pair not in pairs:
                found.append(pair)
        if len(found) > MAX_IMPLIED_LINKS:
            break
    return found


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


def _columns(count: int, drawn: Sequence[tuple[int, int]], implied: Sequence[tuple[int, int]]) -> list[int]:
    """Return the column of each task: after all its dependencies; roots move next to their first dependent."""
    after = _after(count, [*drawn, *implied])
    blockers = [0] * count
    for some in after:
        for then in some:
            blockers[then] += 1
    roots = [node for node in range(count) if not blockers[node]]
    columns, ready = [0] * count, list(roots)
    while ready:
        node = ready.pop()
        for then in after[node]:
            columns[then] = max(columns[then], columns[node] + 1)
            blockers[then] -= 1
            if not blockers[then]:
                ready.append(then)
    for node in roots:
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
        self.y: dict[int, float] = {}

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

    # --- order ---

    def order(self) -> None:
        """Reorder the columns to reduce crossings."""
        if sum(map(len, self.after.values())) > MAX_SWEPT_LINKS:
            return
        best, fewest = [list(row) for row in self.rows], self._crossings()
        for sweep in range(MAX_SWEEPS):
            if not fewest:
                break
            is_forward = sweep % 2 == 0
            neighbors = self.before if is_forward else self.after
            position: dict[int, float] = {}
            for row in self.rows if is_forward else reversed(self.rows):
                self._sort(row, neighbors, position)
            crossings = self._crossings()
            if crossings < fewest:
                best, fewest = [list(row) for row in self.rows], crossings
        self.rows = best

    def _sort(self, row: list[int], neighbors: Mapping[int, list[int]], position: dict[int, float]) -> None:
        """Sort a column by the mean position of the neighbors in the adjacent column."""
        targets: dict[int, float] = {}
        for at, node in enumerate(row):
            linked = [position[other] for other in neighbors.get(node, ()) if other in position]
            targets[node] = sum(linked) / len(linked) if linked else float(at)
        row.sort(key=targets.__getitem__)
        position.update((node, float(at)) for at, node in enumerate(row))

    def _crossings(self) -> int:
        count = 0
        position = {node: at for row in self.rows for at, node in enumerate(row)}
        for row in self.rows:
            seen: list[int] = []
            for node in row:
                ends = sorted(position[then] for then in self.after.get(node, ()))
                count += sum(len(seen) - bisect_right(seen, end) for end in ends)
                for end in ends:
                    insort(seen, end)
        return count

    # --- places ---

    def settle(self) -> None:
        """Assign vertical positions as level with linked tasks as space allows."""
        for row in self.rows:
            for node, offset in zip(row, _offsets(row), strict=True):
                self.y[node] = offset
        for sides, rows in (
            ((self.before,), self.rows),
            ((self.after,), self.rows[::-1]),
            ((self.before, self.after), self.rows),
        ):
            for row in rows:
                self._level(row, sides)
        top = min(self.y[node] - _half(node) for node in self.y)
        self.y = {node: y - top for node, y in self.y.items()}

    def _level(self, row: list[int], sides: Sequence[Mapping[int, list[int]]]) -> None:
        offsets, targets = _offsets(row), []
        for node, offset in zip(row, offsets, strict=True):
            linked = [self.y[other] for side in sides for other in side.get(node, ())]
            targets.append((sum(linked) / len(linked) if linked else self.y[node]) - offset)
        for node, offset, base in zip(row, offsets, _non_decreasing(targets), strict=True):
            self.y[node] = base + offset

    @property
    def size(self) -> tuple[float, float]:
        return (
            len(self.rows) * (NODE_WIDTH + COLUMN_GAP) - COLUMN_GAP,
            max(y + _half(node) for node, y in self.y.items()),
        )


def _half(node: int) -> float:
    return (NODE_HEIGHT if node >= 0 else _BEND_HEIGHT) / 2


def _offsets(row: Sequence[int]) -> list[float]:
    """Return the vertical centers of the nodes of a column when packed tightly."""
    found: list[float] = []
    y = 0.0
    for node in row:
        y += _half(node)
        found.append(y)
        y += _half(node) + ROW_GAP
    return found


def _non_decreasing(targets: Sequence[float]) -> list[float]:
    """Return the closest non-decreasing sequence (isotonic regression, least squares)."""
    blocks: list[tuple[float, int]] = []
    for value in targets:
        total, count = value, 1
        while blocks and blocks[-1][0] / blocks[-1][1] > total / count:
            before = blocks.pop()
            total, count = total + before[0], count + before[1]
        blocks.append((total, count))
    return [total / count for total, count in blocks for _ in range(count)]


def _place(group: set[int], columns: Sequence[int], pairs: Sequence[tuple[int, int]]) -> _Group:
    one = _Group(group, columns, pairs)
    one.order()
    one.settle()
    return one


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
