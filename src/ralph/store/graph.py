"""Find tasks that would wait for each other for ever.

A task with children is finished when they all are, and what it needs holds back all
of them. So every task has a start and an end, and either may wait for others: a
cycle of needs alone would miss a child that needs what comes after its parent.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_NEW, _ON_PATH, _FINISHED = range(3)


def find_cycle(parents: Mapping[str, str | None], needs: Mapping[str, Iterable[str]]) -> list[str] | None:
    """Give tasks that wait for each other, each for the next and the last being the first; None when all can be done.

    Parents and needs that name no task we know are ignored.
    """
    ids = list(dict.fromkeys((*parents, *needs)))
    waits = _waits(ids, parents, needs)
    start = _on_a_cycle(waits)
    if start is None:
        return None
    path: list[str] = []
    for node in _shortest_cycle(waits, start):
        id_here = ids[node % len(ids)]
        if not path or path[-1] != id_here:
            path.append(id_here)
    if len(path) > 1 and path[-1] == path[0]:
        path.pop()
    return [*path, path[0]]


def _waits(ids: list[str], parents: Mapping[str, str | None], needs: Mapping[str, Iterable[str]]) -> list[list[int]]:
    """Give what each start and each end waits for; the end of task i is the node behind all starts, len(ids) + i."""
    numbers = {id_here: number for number, id_here in enumerate(ids)}
    end = len(ids)
    waits: list[list[int]] = [[] for _ in range(end)] + [[number] for number in range(end)]
    for number, id_here in enumerate(ids):
        waits[number] += [end + numbers[needed] for needed in needs.get(id_here, ()) if needed in numbers]
        parent = parents.get(id_here)
        if parent is not None and parent in numbers:
            waits[number].append(numbers[parent])
            waits[end + numbers[parent]].append(end + number)
    return waits


def _on_a_cycle(waits: list[list[int]]) -> int | None:
    """Give the first node found to wait for itself, going depth first; the path is ours, not the call stack."""
    state = bytearray(len(waits))
    for root in range(len(waits)):
        if state[root] != _NEW:
            continue
        state[root] = _ON_PATH
        path = [(root, iter(waits[root]))]
        while path:
            node, rest = path[-1]
            for other in rest:
                if state[other] == _ON_PATH:
                    return other
                if state[other] == _NEW:
                    state[other] = _ON_PATH
                    path.append((other, iter(waits[other])))
                    break
            else:
                state[node] = _FINISHED
                path.pop()
    return None


def _shortest_cycle(waits: list[list[int]], start: int) -> list[int]:
    """Give the nodes of a short way from a node that waits for itself back to it."""
    came_from: dict[int, int] = {}
    queue = [start]
    for node in queue:
        for other in waits[node]:
            if other not in came_from:
                came_from[other] = node
                queue.append(other)
        if start in came_from:
            break
    cycle = [start]
    while (node := came_from[cycle[-1]]) != start:
        cycle.append(node)
    return _tightened(cycle[:1] + cycle[:0:-1], len(waits) // 2)


def _tightened(cycle: list[int], end: int) -> list[int]:
    """Give the shortest part that is a cycle by itself: from a task's start to its end, which waits for the start."""
    at = {node: place for place, node in enumerate(cycle)}
    best = cycle
    for node, place in at.items():
        close = at.get(node + end, -1) if node < end else -1
        if place <= close < place + len(best) - 1:
            best = cycle[place : close + 1]
    return best
