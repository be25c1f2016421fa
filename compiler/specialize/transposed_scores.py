"""Attention with transposed scores, so that a program with a row in each lane needs no transposes.

`(Q K^T)^T` is `K Q^T`, and `(P V)^T` is `V^T P^T`. If a program over rows between two matrix products would work with a
row in each lane, the first product computes its columns and the second product reads them. The smaller matrices of the
model are transposed instead, mostly by moves that exist anyway.
"""

from dataclasses import replace

import numpy as np

from tq_hw.compiler.ir.layers import Elementwise, Graph, Layer, RowProgram
from tq_hw.compiler.ir.staged import MatMul, Move
from tq_hw.compiler.ir.value import Pitch, Value
from tq_hw.compiler.specialize.moved import joined_moves, transposed
from tq_hw.compiler.specialize.rows import columns_of, lies_across
from tq_hw.compiler.specialize.values import Users, is_whole
from tq_hw.isa.config import Config

__all__ = ["transpose_scores"]


def _is_plain(layer: Layer | None) -> bool:
    return (isinstance(layer, MatMul) and len(layer.inputs) == 2 and layer.bias is None and not layer.wide
            and not layer.raw)


def _between(users: Users, program: RowProgram) -> tuple[MatMul, list[Elementwise]] | None:
    """Return the product whose results a program reads, and the elementwise layers between them; else None."""
    found: list[Elementwise] = []
    source = program.inputs[0]
    while True:
        layer = users.maker(source)
        if isinstance(layer, MatMul) and _is_plain(layer):
            return layer, found
        if not isinstance(layer, Elementwise):
            return None
        made = [value for value in layer.inputs if value.data is None]
        if len(made) != 1 or made[0].size_bytes != layer.output.size_bytes:
            return None
        found.insert(0, layer)
        source = made[0]


def _scores(users: Users, program: RowProgram, config: Config) -> tuple[list[Layer], list[Layer]] | None:
    """Return the layers up to the second product, and their transposed replacements; None if others are between."""
    before, after = _between(users, program), users.reader(program.output)
    if before is None or not isinstance(after, MatMul) or not _is_plain(after):
        return None
    first, elements = before
    _, pairs, rows, cols = first.output.shape
    if (program.output.shape[3] != cols or after.inputs[0].root is not program.output.root
            or after.inputs[1].root is program.output.root or after.inputs[0].shape != first.output.shape
            or not all(map(is_whole, (*first.inputs, *after.inputs, after.output)))
            or not lies_across(program, config, transposed=True)):
        return None
    across = (1, cols, pairs, rows)
    place = Pitch(0, rows, pairs * rows)

    def transposed_root(value: Value) -> Value:
        return Value(f"{value.name} (across)", value.tensor, across, value.zero_point)

    def matrices(root: Value) -> Value:
        return Value(root.name, root.tensor, (1, pairs, cols, rows), root.zero_point, alias_of=root, pitch=place)

    made = transposed_root(first.output)
    # Successive moves overlap.
    left, right, matrix = *(transposed(value, first) for value in first.inputs), transposed(after.inputs[1], after)
    layers: list[Layer] = [left, right, matrix]
    layers.append(replace(first, inputs=(right.output, left.output), output=matrices(made), pairs=tuple(
        (right, left) for left, right in first.pairs), zero_points=first.zero_points[::-1]))
    for layer in elements:
        inputs = tuple(made if value.data is None else _constant(value, layer.output, first.output.shape, across)
                       for value in layer.inputs)
        made = transposed_root(layer.output)
        layers.append(replace(layer, inputs=inputs, output=made))
    results = transposed_root(program.output)
    layers.append(columns_of(program, made, results, config))
    output = after.output
    product = Value(f"{output.name} (transposed)", output.tensor, (1, len(after.pairs), output.shape[3], rows),
                    output.zero_point)
    layers += [replace(after, inputs=(matrix.output, matrices(results)), output=product, pairs=tuple(
        (right, left) for left, right in after.pairs), zero_points=after.zero_points[::-1]),
               transposed(product, after, output)]
    return [first, *elements, program, after], layers


def _constant(value: Value, output: Value, shape: tuple[int, int, int, int],
              across: tuple[int, int, int, int]) -> Value:
    """Return an elementwise constant operand for transposed elements."""
    assert value.data is not None
    data = np.broadcast_to(value.data.reshape(value.shape), output.shape).reshape(shape)
    values = np.ascontiguousarray(data.transpose(0, 3, 1, 2)).reshape(across)
    return Value(f"{value.name} (across)", value.tensor, across, value.zero_point, data=values)


def transpose_scores(graph: Graph, config: Config) -> Graph:
    """Return the graph with transposed scores where these take fewer cycles."""
    layers = list(graph.layers)
    for program in [layer for layer in graph.layers if isinstance(layer, RowProgram)]:
        found = _scores(Users(graph, layers), program, config)
        if found is None:
            continue
        gone, made = found
        at = next(number for number, layer in enumerate(layers) if layer is gone[-1])
        before = [layer for layer in layers[:at] if all(layer is not other for other in gone)]
        changed = [*before, *made, *layers[at + 1:]]
        changed = joined_moves(replace(graph, layers=tuple(changed)))
        if _moved_bytes(changed) <= _moved_bytes(layers) + program.output.size_bytes:
            layers = changed
    return replace(graph, layers=tuple(layers))


def _moved_bytes(layers: list[Layer]) -> int:
    return sum(layer.output.size_bytes for layer in layers if isinstance(layer, Move))
