"""Connected convex sets of a graph and an order of them, independent of models.

Nodes are 0 to n-1, each of two kinds: taken (by the accelerator) or not. A set is convex if no path leaves it and
returns: it can run as one step. The sets of taken nodes are connected and maximal: the union of two sets with an edge
between them is not convex.
"""

from collections.abc import Sequence

__all__ = ["clusters", "schedule"]

Edges = Sequence[set[int]]


def clusters(after: Edges, taken: Sequence[bool]) -> list[list[int]]:
    """Return the sets of taken nodes, each in ascending order.

    `after` has the readers of each node's result; nodes are in an order in which they can run.
    """
    owner = list(range(len(after)))
    following = [set(nodes) for nodes in after]
    merged = True
    while merged:
        merged = False
        # Sets grow from the first nodes: a node next to an early set joins it before it is next to two sets.
        for first in range(len(after)):
            for second in sorted(after[first]):
                one, other = owner[first], owner[second]
                if one == other or not (taken[first] and taken[second]) or _around(following, one, other):
                    continue
                following[one] = (following[one] | following[other]) - {one, other}
                following[other] = set()
                for nodes in following:
                    if other in nodes:
                        nodes.discard(other)
                        nodes.add(one)
                following[one].discard(one)
                owner = [one if of == other else of for of in owner]
                merged = True
    found: dict[int, list[int]] = {}
    for node, of in enumerate(owner):
        if taken[node]:
            found.setdefault(of, []).append(node)
    return list(found.values())


def _around(following: Edges, one: int, other: int) -> bool:
    """Whether a path leads from `one` to `other` through a third."""
    open_nodes = [node for node in following[one] if node != other]
    seen = set(open_nodes)
    while open_nodes:
        node = open_nodes.pop()
        if node == other:
            return True
        more = following[node] - seen
        seen |= more
        open_nodes.extend(more)
    return False


def schedule(after: Edges, sets: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return steps that run all nodes: each of `sets`, and between them all other nodes that can run at that point."""
    step_of = {node: number for number, nodes in enumerate(sets) for node in nodes}
    missing = [0] * len(after)
    for nodes in after:
        for node in nodes:
            missing[node] += 1
    done: set[int] = set()
    steps: list[list[int]] = []

    def finish(nodes: Sequence[int]) -> None:
        done.update(nodes)
        for node in nodes:
            for each in after[node]:
                missing[each] -= 1

    while len(done) < len(after):
        rest: list[int] = []
        for node in range(len(after)):
            if node not in done and node not in step_of and not missing[node]:
                finish([node])
                rest.append(node)
        if rest:
            steps.append(rest)
        for members in sets:
            inner = {node: sum(node in after[each] for each in members) for node in members}
            if members[0] not in done and all(missing[node] == count for node, count in inner.items()):
                finish(members)
                steps.append(list(members))
    return steps
