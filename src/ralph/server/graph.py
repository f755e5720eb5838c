"""Where the tasks of a graph are drawn: in columns, each right of all that comes before it.

Pure and quick: it knows ids and what comes before what, gives places and lines, and ends on any input, also on tasks
that wait for each other. A whole stands behind its parts, for it is done when they are.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import TYPE_CHECKING

from ralph.records import record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

WIDTH, HEIGHT = 208, 46
"""Of a task."""
COLUMN_GAP, ROW_GAP = 60, 14
GROUP_GAP = 34
"""Between tasks that have nothing to do with each other."""
LEAST_WIDTH = 4 * WIDTH + 3 * COLUMN_GAP
"""Small groups stand side by side up to this width."""
MOST_BENDS = 1_500
"""So many places lines may be led through between tasks; with more, they go straight behind them."""
MOST_IMPLIED = 5_000
SWEEPS = 4
MOST_SWEPT = 4_000
"""With more lines than this their order is not worth the time: nobody could follow them."""
_BEND_HEIGHT = 4

NEEDS, PART = "needs", "part"

_NEW, _ON_PATH, _FINISHED = range(3)


@record
class Node:
    """A task's place: its upper left corner and its column."""

    id: str
    x: float
    y: float
    column: int


@record
class Link:
    """A line from what comes first to what comes after it."""

    first: str
    then: str
    kind: str
    """`needs`, or `part` when the first is a part of the other."""
    path: str
    """As SVG draws it."""
    is_back: bool
    """It closes a circle: the only kind that leads to the left."""


@record
class Drawing:
    """A graph with places for everything."""

    width: float
    height: float
    nodes: tuple[Node, ...]
    links: tuple[Link, ...]


def draw(ids: Sequence[str], needs: Mapping[str, Iterable[str]], parents: Mapping[str, str | None]) -> Drawing:
    """Give a place to each task and a line to each need and part; what names no task here is ignored."""
    numbers = {id: number for number, id in enumerate(dict.fromkeys(ids))}
    names = list(numbers)
    pairs = _pairs(numbers, needs, parents)
    implied = _implied(numbers, needs, parents, pairs)
    back = _back(len(names), [*pairs, *implied])
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
        Link(
            first=names[first],
            then=names[then],
            kind=kind,
            path=_path(spots[first], spots[then], routes.get((first, then), []), is_back=(first, then) in back),
            is_back=(first, then) in back,
        )
        for (first, then), kind in pairs.items()
    )
    nodes = tuple(Node(id=names[n], x=x, y=y, column=column) for n, (x, y, column) in sorted(spots.items()))
    return Drawing(width=width, height=height, nodes=nodes, links=links)


# --- what comes before what -----------------------------------------------------------


def _pairs(
    numbers: Mapping[str, int], needs: Mapping[str, Iterable[str]], parents: Mapping[str, str | None]
) -> dict[tuple[int, int], str]:
    """Give what comes before what as numbers, each pair once."""
    pairs: dict[tuple[int, int], str] = {}
    for id, number in numbers.items():
        for needed in needs.get(id, ()):
            if needed in numbers and needed != id:
                pairs[numbers[needed], number] = NEEDS
        parent = parents.get(id)
        if parent in numbers and parent is not None and parent != id:
            pairs.setdefault((number, numbers[parent]), PART)
    return pairs


def _implied(
    numbers: Mapping[str, int],
    needs: Mapping[str, Iterable[str]],
    parents: Mapping[str, str | None],
    pairs: Mapping[tuple[int, int], str],
) -> list[tuple[int, int]]:
    """Give what comes before the parts of a task because it comes before the task; no line is drawn for it."""
    found: list[tuple[int, int]] = []
    for id, number in numbers.items():
        parent = parents.get(id)
        for needed in needs.get(parent, ()) if parent in numbers and parent is not None else ():
            pair = numbers.get(needed, number), number
            if pair[0] != number and pair not in pairs:
                found.append(pair)
        if len(found) > MOST_IMPLIED:
            break
    return found


def _after(count: int, pairs: Iterable[tuple[int, int]]) -> list[list[int]]:
    after: list[list[int]] = [[] for _ in range(count)]
    for first, then in pairs:
        after[first].append(then)
    return after


def _back(count: int, pairs: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
    """Give the pairs without which nothing comes before itself."""
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
    """Give each its column: behind the last of all that comes before it, and what begins close to what it is for."""
    after = _after(count, [*drawn, *implied])
    waits = [0] * count
    for some in after:
        for then in some:
            waits[then] += 1
    begins = [node for node in range(count) if not waits[node]]
    columns, ready = [0] * count, list(begins)
    while ready:
        node = ready.pop()
        for then in after[node]:
            columns[then] = max(columns[then], columns[node] + 1)
            waits[then] -= 1
            if not waits[then]:
                ready.append(then)
    for node in begins:
        if after[node]:
            columns[node] = min(columns[then] for then in after[node]) - 1
    return columns


def _groups(count: int, pairs: Iterable[tuple[int, int]]) -> tuple[list[set[int]], list[int]]:
    """Give those that are linked to each other, the largest group first, and those that are linked to nothing."""
    head = list(range(count))

    def head_of(node: int) -> int:
        while head[node] != node:
            head[node] = head[head[node]]
            node = head[node]
        return node

    for first, then in pairs:
        head[head_of(first)] = head_of(then)
    groups: dict[int, set[int]] = {}
    for node in range(count):
        groups.setdefault(head_of(node), set()).add(node)
    linked = sorted((group for group in groups.values() if len(group) > 1), key=lambda group: -len(group))
    return linked, sorted(node for group in groups.values() if len(group) == 1 for node in group)


# --- the order within columns, and the places -----------------------------------------


class _Group:
    """Linked tasks on their way to places; what is numbered below 0 is a bend of a line that passes a column."""

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
        """Lead lines that pass columns through bends; lines from the same task share theirs."""
        shared: dict[tuple[int, int], int] = {}
        for first, then in sorted(pairs, key=lambda pair: self.column[pair[1]] - self.column[pair[0]]):
            passed = range(self.column[first] + 1, self.column[then])
            if len(shared) + len(passed) > MOST_BENDS:
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
        """Let as few lines cross as a few sweeps can bring about."""
        if sum(map(len, self.after.values())) > MOST_SWEPT:
            return
        best, fewest = [list(row) for row in self.rows], self._crossings()
        for sweep in range(SWEEPS):
            if not fewest:
                break
            is_forth = sweep % 2 == 0
            beside = self.before if is_forth else self.after
            place: dict[int, float] = {}
            for row in self.rows if is_forth else reversed(self.rows):
                self._sort(row, beside, place)
            crossings = self._crossings()
            if crossings < fewest:
                best, fewest = [list(row) for row in self.rows], crossings
        self.rows = best

    def _sort(self, row: list[int], beside: Mapping[int, list[int]], place: dict[int, float]) -> None:
        """Sort a column by the mean place of what each is linked to in the one beside it."""
        wanted: dict[int, float] = {}
        for at, node in enumerate(row):
            near = [place[other] for other in beside.get(node, ()) if other in place]
            wanted[node] = sum(near) / len(near) if near else float(at)
        row.sort(key=wanted.__getitem__)
        place.update((node, float(at)) for at, node in enumerate(row))

    def _crossings(self) -> int:
        count = 0
        place = {node: at for row in self.rows for at, node in enumerate(row)}
        for row in self.rows:
            seen: list[int] = []
            for node in row:
                ends = sorted(place[then] for then in self.after.get(node, ()))
                count += sum(len(seen) - bisect_right(seen, end) for end in ends)
                for end in ends:
                    insort(seen, end)
        return count

    # --- places ---

    def settle(self) -> None:
        """Put each as level with what it is linked to as its column has room for."""
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
        offsets, wanted = _offsets(row), []
        for node, offset in zip(row, offsets, strict=True):
            near = [self.y[other] for side in sides for other in side.get(node, ())]
            wanted.append((sum(near) / len(near) if near else self.y[node]) - offset)
        for node, offset, base in zip(row, offsets, _rising(wanted), strict=True):
            self.y[node] = base + offset

    @property
    def size(self) -> tuple[float, float]:
        return (
            len(self.rows) * (WIDTH + COLUMN_GAP) - COLUMN_GAP,
            max(y + _half(node) for node, y in self.y.items()),
        )


def _half(node: int) -> float:
    return (HEIGHT if node >= 0 else _BEND_HEIGHT) / 2


def _offsets(row: Sequence[int]) -> list[float]:
    """Give the middles of those in a column when they stand as close as they may."""
    found: list[float] = []
    y = 0.0
    for node in row:
        y += _half(node)
        found.append(y)
        y += _half(node) + ROW_GAP
    return found


def _rising(wanted: Sequence[float]) -> list[float]:
    """Give numbers that never fall and are as near to the wanted ones as that allows (least squares)."""
    blocks: list[tuple[float, int]] = []
    for value in wanted:
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


# --- all groups on one sheet ----------------------------------------------------------


def _pack(
    groups: Sequence[_Group],
    spots: dict[int, tuple[float, float, int]],
    routes: dict[tuple[int, int], list[tuple[float, float]]],
) -> tuple[float, float]:
    """Put groups side by side in rows; give the width and height that takes."""
    widest = max([LEAST_WIDTH, *(group.size[0] for group in groups)])
    x = y = tallest = reach = 0.0
    for group in groups:
        width, height = group.size
        if x and x + width > widest:
            x, y, tallest = 0.0, y + tallest + GROUP_GAP, 0.0
        for node, column in group.column.items():
            spots[node] = x + column * (WIDTH + COLUMN_GAP), y + group.y[node] - HEIGHT / 2, column
        for pair, bends in group.bends.items():
            start = group.column[pair[0]] + 1
            routes[pair] = [
                (x + column * (WIDTH + COLUMN_GAP), y + group.y[bend]) for column, bend in enumerate(bends, start)
            ]
        reach = max(reach, x + width)
        x, tallest = x + width + COLUMN_GAP, max(tallest, height)
    return reach, y + tallest


def _grid(
    alone: Sequence[int], width: float, height: float, spots: dict[int, tuple[float, float, int]]
) -> tuple[float, float]:
    """Put those that are linked to nothing below all others, row by row."""
    if not alone:
        return width, height
    pitch = WIDTH + COLUMN_GAP / 2
    across = max(1, int((max(width, LEAST_WIDTH) + COLUMN_GAP / 2) // pitch))
    top = height + GROUP_GAP if height else 0.0
    for at, node in enumerate(alone):
        spots[node] = at % across * pitch, top + at // across * (HEIGHT + ROW_GAP), 0
    rows = -(-len(alone) // across)
    reach = min(across, len(alone)) * pitch - COLUMN_GAP / 2
    return max(width, reach), top + rows * (HEIGHT + ROW_GAP) - ROW_GAP


def _path(
    first: tuple[float, float, int],
    then: tuple[float, float, int],
    bends: Sequence[tuple[float, float]],
    *,
    is_back: bool,
) -> str:
    """Give the line from the right of one task to the left of another, level through every column it passes."""
    x, y = first[0] + WIDTH, first[1] + HEIGHT / 2
    end = then[0], then[1] + HEIGHT / 2
    path = f"M{x:.1f} {y:.1f}"
    if is_back:
        over = min(y, end[1]) - HEIGHT
        return f"{path}C{x + 60:.1f} {over:.1f} {end[0] - 60:.1f} {over:.1f} {end[0]:.1f} {end[1]:.1f}"
    for bend in bends:
        path += _curve(x, y, *bend) + f"H{bend[0] + WIDTH:.1f}"
        x, y = bend[0] + WIDTH, bend[1]
    return path + _curve(x, y, *end)


def _curve(x: float, y: float, to_x: float, to_y: float) -> str:
    if abs(y - to_y) < 0.5:
        return f"L{to_x:.1f} {to_y:.1f}"
    half = (to_x - x) / 2
    return f"C{x + half:.1f} {y:.1f} {to_x - half:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}"
