"""Sets are connected, convex and maximal, and steps run every node once, after the nodes it needs."""

import itertools
import random

import pytest

from tq_hw.compiler.partition.clusters import clusters, schedule


def graph(count, edges):
    after = [set() for _ in range(count)]
    for one, other in edges:
        after[one].add(other)
    return after


def reach(after, start):
    seen, todo = set(), [start]
    while todo:
        for node in after[todo.pop()] - seen:
            seen.add(node)
            todo.append(node)
    return seen


def is_convex(after, nodes):
    inside = set(nodes)
    leaving = {node for each in inside for node in after[each]} - inside
    return not any(reach(after, node) & inside for node in leaving)


def is_connected(after, nodes):
    inside, todo = set(nodes), [nodes[0]]
    seen = set(todo)
    while todo:
        node = todo.pop()
        more = {each for each in inside - seen if each in after[node] or node in after[each]}
        seen |= more
        todo.extend(more)
    return seen == inside


@pytest.mark.parametrize("edges, taken, expected", [
    ([(0, 1), (1, 2)], "111", [[0, 1, 2]]),
    ([(0, 1), (1, 2)], "101", [[0], [2]]),
    # A path through a node of the host: only without it are 0 and 2 one set.
    ([(0, 1), (1, 2), (0, 2)], "101", [[0], [2]]),
    ([(0, 2), (1, 2)], "111", [[0, 1, 2]]),
    ([(0, 1), (0, 2), (1, 3), (2, 3)], "1101", [[0, 1], [3]]),
    ([], "11", [[0], [1]]),
])
def test_small_graphs(edges, taken, expected):
    assert clusters(graph(len(taken), edges), [mark == "1" for mark in taken]) == expected


@pytest.mark.parametrize("seed", range(40))
def test_random_graphs(seed):
    rng = random.Random(seed)
    count = rng.randint(1, 14)
    after = graph(count, [pair for pair in itertools.combinations(range(count), 2) if rng.random() < 0.25])
    taken = [rng.random() < 0.7 for _ in range(count)]
    sets = clusters(after, taken)
    assert sorted(itertools.chain(*sets)) == [node for node in range(count) if taken[node]]
    for nodes in sets:
        assert is_connected(after, nodes)
        assert is_convex(after, nodes)
    steps = schedule(after, sets)
    assert sorted(itertools.chain(*steps)) == list(range(count))
    assert all(nodes in steps for nodes in sets)
    place = {node: number for number, nodes in enumerate(steps) for node in nodes}
    assert all(place[node] <= place[each] for node in range(count) for each in after[node])
    where = {node: number for number, nodes in enumerate(sets) for node in nodes}
    apart = {(where[node], where[each]) for node in where for each in after[node] if each in where}
    # Maximal in the graph of the sets.
    for one, other in apart - {(number, number) for number in range(len(sets))}:
        assert not is_convex(after, sets[one] + sets[other])
