"""Cycle detection in the task graph.

A task with subtasks is done when they all are, and its dependencies hold all of them back. So every task has two
nodes, its start and its end, and either may wait for others. With one node per task, a subtask that depends on a
task after its parent would not be found.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_NEW, _ON_PATH, _FINISHED = range(3)


def find_cycle(parents: Mapping[str, str | None], needs: Mapping[str, Iterable[str]]) -> list[str] | None:
    """Return a cycle of tasks, each waiting for the next and the last equal to the first, or None.

    Unknown ids in `parents` and `needs` are ignored.
    """
    ids = list(dict.fromkeys((*parents, *needs)))
    waits = _waits(ids, parents, needs)
    start = _find_cyclic_node(waits)
    if start is None:
        return None
    path: list[str] = []
    for node in _shortest_cycle(waits, start):
        id = ids[node % len(ids)]
        if not path or path[-1] != id:
            path.append(id)
    if len(path) > 1 and path[-1] == path[0]:
        path.pop()
    return [*path, path[0]]


def _waits(ids: list[str], parents: Mapping[str, str | None], needs: Mapping[str, Iterable[str]]) -> list[list[int]]:
    """Return the nodes each node waits for. Node i is the start of task i, node len(ids) + i its end."""
    numbers = {id: number for number, id in enumerate(ids)}
    end = len(ids)
    waits: list[list[int]] = [[] for _ in range(end)] + [[number] for number in range(end)]
    for number, id in enumerate(ids):
        waits[number] += [end + numbers[needed] for needed in needs.get(id, ()) if needed in numbers]
        parent = parents.get(id)
        if parent is not None and parent in numbers:
            waits[number].append(numbers[parent])
            waits[end + numbers[parent]].append(end + number)
    return waits


def _find_cyclic_node(waits: list[list[int]]) -> int | None:
    """Return the first node that waits for itself, by iterative depth-first search."""
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
    """Return a short cycle through a node that waits for itself."""
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
    return _shorten(cycle[:1] + cycle[:0:-1], len(waits) // 2)


def _shorten(cycle: list[int], end: int) -> list[int]:
    """Return the shortest part that is itself a cycle: from the start of a task to its end."""
    positions = {node: position for position, node in enumerate(cycle)}
    best = cycle
    for node, position in positions.items():
        end_position = positions.get(node + end, -1) if node < end else -1
        if position <= end_position < position + len(best) - 1:
            best = cycle[position : end_position + 1]
    return best
