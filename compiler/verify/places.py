"""Checks that removed copies were only copies: the inputs of all layers have the same contents as before."""

from collections.abc import Iterable

import numpy as np

from tq_hw.compiler.ir.layers import Graph, Layer
from tq_hw.compiler.ir.value import Value
from tq_hw.compiler.verify.contents import Contents, moves, size_of, states
from tq_hw.compiler.verify.numbers import Bytes, Numbers
from tq_hw.model.errors import DataflowError

__all__ = ["check_places"]


def check_places(before: Graph, after: Graph) -> None:
    """Check that a graph without some copies, with tensors inside others instead, computes the same.

    Raises DataflowError if a layer, the model's outputs or its state would get other bytes.
    """
    if after is before:
        return
    offsets, size = _constants((before, after))
    one, other = (_follow(graph, offsets, size) for graph in (before, after))
    pairs = list(zip(_computing(before), _computing(after), strict=True))
    for (first, was), (second, layer) in pairs:
        one.follow(first)
        other.follow(second)
        for value, now in zip(was.inputs, layer.inputs, strict=True):
            found, wanted = other.find(second, now), one.find(first, value)
            if not found.equals(wanted):
                _refuse(f"operator {layer.index} ({layer.op}) finds in {now.name!r}", found.grid(), wanted.grid(),
                        other.numbers)
        one.drop(first)
        other.drop(second)
    for value, now in zip((*before.outputs, *states(before)), (*after.outputs, *states(after)), strict=True):
        if not np.array_equal(one.left(value), other.left(now)):
            _refuse(f"in the end {now.name!r} is", other.left(now), one.left(value), other.numbers)


def _constants(graphs: Iterable[Graph]) -> tuple[dict[int, int], int]:
    """Return the offset of each constant in an image of all constants, and the image's size."""
    offsets: dict[int, int] = {}
    size = 0
    for graph in graphs:
        for value in (*graph.outputs, *(value for layer in graph.layers for value in layer.inputs)):
            if value.root.data is not None and id(value.root.data) not in offsets:
                offsets[id(value.root.data)] = size
                size += value.root.size_bytes
    return offsets, size


def _follow(graph: Graph, offsets: dict[int, int], size: int) -> Contents:
    numbers = Numbers(bytes(size), size_of(graph))

    def constant(value: Value) -> int:
        return numbers.constant(offsets[id(value.data)])

    return Contents(graph, numbers, [f"operator {layer.index} ({layer.op})" for layer in graph.layers], constant)


def _computing(graph: Graph) -> list[tuple[int, Layer]]:
    """Return the layers that are not copies, with their numbers."""
    return [(number, layer) for number, layer in enumerate(graph.layers) if not moves(layer)]


def _refuse(what: str, found: Bytes, wanted: Bytes, numbers: Numbers) -> None:
    at = int(np.flatnonzero((found != wanted).reshape(-1))[0])
    raise DataflowError(f"{what}, byte {at}, {numbers.describe(int(found.reshape(-1)[at]))}; with copies it is "
                        f"{numbers.describe(int(wanted.reshape(-1)[at]))}")
