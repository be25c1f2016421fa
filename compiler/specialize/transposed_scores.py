"""Attention with transposed scores, so that a program with a row in each lane needs fewer transposes.

`(Q K^T)^T` is `K Q^T`, and `(P V)^T` is `V^T P^T`. If a program over rows follows a product of matrices and would work
with a row in each lane, the product computes its columns. A second product reads the results as they are, or they are
transposed back. The smaller matrices of the model are transposed instead, mostly by moves that exist anyway.
"""

from dataclasses import dataclass, replace

import numpy as np

from tq_hw.compiler.ir.layers import Elementwise, Graph, Layer, RowProgram
from tq_hw.compiler.ir.staged import Columns, Copy, MatMul, Move, Staged
from tq_hw.compiler.ir.value import Pitch, Value
from tq_hw.compiler.specialize.in_place import in_place
from tq_hw.compiler.specialize.matrices import whole_matrices
from tq_hw.compiler.specialize.moved import joined_moves, transposed
from tq_hw.compiler.specialize.rows import columns_of, lies_across, rows_again, upright_cycles
from tq_hw.compiler.specialize.transpose import move_cycles
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


@dataclass(frozen=True)
class _Across:
    """The layers up to a program over rows, and the same layers with transposed scores.

    Members
    -------
    gone, made : layers before and after
    results : the program's transposed results
    """

    gone: list[Layer]
    made: list[Layer]
    results: Value


def _matrices(root: Value, shape: tuple[int, int, int, int]) -> Value:
    """Return transposed scores of `shape`, [1, columns, matrices, rows], as the matrices of a product."""
    _, pairs, rows, cols = shape
    return Value(root.name, root.tensor, (1, pairs, cols, rows), root.zero_point, alias_of=root,
                 pitch=Pitch(0, rows, pairs * rows))


def _across(users: Users, program: RowProgram, config: Config) -> _Across | None:
    """Return the layers up to a program whose scores can be transposed; None if others are between."""
    before = _between(users, program)
    if before is None:
        return None
    first, elements = before
    _, pairs, rows, cols = first.output.shape
    if (program.output.shape[3] != cols or not all(map(is_whole, (*first.inputs, program.output)))
            or not lies_across(program, config, transposed=True)):
        return None
    shape = (1, cols, pairs, rows)

    def transposed_root(value: Value) -> Value:
        return Value(f"{value.name} (across)", value.tensor, shape, value.zero_point)

    made = transposed_root(first.output)
    left, right = (transposed(value, first) for value in first.inputs)
    layers: list[Layer] = [left, right, replace(
        first, inputs=(right.output, left.output), output=_matrices(made, first.output.shape),
        pairs=tuple((right, left) for left, right in first.pairs), zero_points=first.zero_points[::-1])]
    for layer in elements:
        inputs = tuple(made if value.data is None else _constant(value, layer.output, first.output.shape, shape)
                       for value in layer.inputs)
        made = transposed_root(layer.output)
        layers.append(replace(layer, inputs=inputs, output=made))
    results = transposed_root(program.output)
    return _Across([first, *elements, program], [*layers, columns_of(program, made, results, config)], results)


def _both(users: Users, program: RowProgram, across: _Across) -> tuple[list[Layer], list[Layer]] | None:
    """Return layers and replacements if the product that reads the results reads them transposed; None if none does."""
    first, after = across.gone[0], users.reader(program.output)
    if (not isinstance(after, MatMul) or not _is_plain(after) or after.inputs[0].root is not program.output.root
            or after.inputs[1].root is program.output.root or after.inputs[0].shape != first.output.shape
            or not all(map(is_whole, (*after.inputs, after.output)))):
        return None
    rows, output = first.output.shape[2], after.output
    matrix = transposed(after.inputs[1], after)
    product = Value(f"{output.name} (transposed)", output.tensor, (1, len(after.pairs), output.shape[3], rows),
                    output.zero_point)
    # Successive moves overlap.
    return [*across.gone, after], [*across.made[:2], matrix, *across.made[2:], replace(
        after, inputs=(matrix.output, _matrices(across.results, first.output.shape)), output=product, pairs=tuple(
            (right, left) for left, right in after.pairs), zero_points=after.zero_points[::-1]),
        transposed(product, after, output)]


def _constant(value: Value, output: Value, shape: tuple[int, int, int, int],
              across: tuple[int, int, int, int]) -> Value:
    """Return an elementwise constant operand for transposed elements."""
    assert value.data is not None
    data = np.broadcast_to(value.data.reshape(value.shape), output.shape).reshape(shape)
    values = np.ascontiguousarray(data.transpose(0, 3, 1, 2)).reshape(across)
    return Value(f"{value.name} (across)", value.tensor, across, value.zero_point, data=values)


def transpose_scores(graph: Graph, config: Config) -> Graph:
    """Return the graph with transposed scores where these take fewer cycles, by the estimate."""
    layers = list(graph.layers)
    for output in [layer.output for layer in graph.layers if isinstance(layer, RowProgram)]:
        # What came before may have written the program's input in place: then it is another object.
        program = next((layer for layer in layers if layer.output is output), None)
        if not isinstance(program, RowProgram):
            continue
        apart = _apart(graph, layers, program)
        users = Users(graph, apart)
        across = _across(users, program, config)
        if across is None:
            continue
        again = rows_again(program, across.results, config)
        changes = [_both(users, program, across), (across.gone, [*across.made, again])]
        ways = [layers, *(_replaced(graph, apart, change) for change in changes if change is not None)]
        layers = min(ways, key=lambda way: _moved_cycles(replace(graph, layers=tuple(way)), config))
    return replace(graph, layers=tuple(layers))


def _apart(graph: Graph, layers: list[Layer], program: RowProgram) -> list[Layer]:
    """Return the layers with copies again where operands of the products are written in place.

    A copy that transposes, too, is not slower, but bytes in place cannot be in the scratchpad.
    """
    users = Users(graph, layers)
    before, after = _between(users, program), users.reader(program.output)
    operands = (*before[0].inputs, *(after.inputs[1:] if isinstance(after, MatMul) else ())) if before else ()
    found = {id(maker): maker for maker in map(users.maker, operands) if maker is not None and not isinstance(
        maker, Staged) and maker.output.alias_of is not None and maker.output.pitch is not None}
    made: list[Layer] = []
    for layer in layers:
        if id(layer) not in found:
            made.append(layer)
            continue
        part, root = layer.output, layer.output.root
        (n, h, w, c), place = part.shape, part.place
        dense = replace(part, alias_of=None, pitch=None)
        made += [replace(layer, output=dense), Move(layer.index, layer.op, (dense,), root, (Copy(
            0, 0, place.offset_bytes, ((n * h, w * c, place.row_bytes), (w, c, place.pixel_bytes), (c, 1, 1))),))]
    return made


def _replaced(graph: Graph, layers: list[Layer], change: tuple[list[Layer], list[Layer]]) -> list[Layer]:
    """Return the layers with some of them replaced, and copies merged or removed."""
    gone, made = change
    at = next(number for number, layer in enumerate(layers) if layer is gone[-1])
    before = [layer for layer in layers[:at] if all(layer is not other for other in gone)]
    changed = joined_moves(replace(graph, layers=(*before, *made, *layers[at + 1:])))
    return list(in_place(replace(graph, layers=tuple(changed))).layers)


def _moved_cycles(graph: Graph, config: Config) -> float:
    """Estimate the cycles of all moves, and those of programs because their rows do not lie across."""
    layers = whole_matrices(graph, config).layers
    results = {id(layer.output) for layer in layers if isinstance(layer, Columns)}
    return sum(move_cycles(layer, config, inside=id(layer.inputs[0]) in results) if isinstance(layer, Move) else
               upright_cycles(layer, config) if isinstance(layer, RowProgram) else 0 for layer in layers)
