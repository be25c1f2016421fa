"""Removal of copies: parts of a concatenation are written in place, and slices are read in place.

A copy is removed by placing the smaller tensor inside the larger one's bytes, with an offset and the strides of its
rows and pixels. The channels of a pixel stay contiguous. Layers that process rows of pixels accept any such place;
others need one without gaps.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_hw.compiler.ir.layers import Elementwise, Graph, Layer, Mac, MaxPool, RowProgram
from tq_hw.compiler.ir.staged import Copy, Move, Resize
from tq_hw.compiler.ir.value import Pitch, Value

__all__ = ["in_place", "part_of", "replaced"]

Offsets = npt.NDArray[np.int64]
#: Larger tensors are copied: the search for a place takes about forty bytes of memory for each of their bytes.
_LIMIT_BYTES = 1 << 21


def in_place(graph: Graph) -> Graph:
    """Return the graph without the copies that a place can replace."""
    for number in range(len(graph.layers) - 1, -1, -1):
        layer = graph.layers[number]
        if isinstance(layer, Move) and layer.output.size_bytes <= _LIMIT_BYTES:
            graph = _without(graph, layer)
    return graph


def _without(graph: Graph, move: Move) -> Graph:
    """Remove the removable copies of one move."""
    places: dict[Value, Value] = {}
    if len(move.copies) == 1 and (view := _slice(graph, move)) is not None:
        return replaced(graph, {move.output: view}, {move: None})
    written = np.zeros(move.output.size_bytes, np.int64)
    for copy in move.copies:
        np.add.at(written, _offsets(copy)[1], 1)
    rest = []
    for copy in move.copies:
        part = _part(graph, move, copy) if written.max() == 1 else None
        if part is None or part[0] in places:
            rest.append(copy)
        else:
            places[part[0]] = part[1]
    if not places:
        return graph
    kept = replace(move, copies=tuple(rest)) if rest else None
    return replaced(graph, places, {move: kept})


def _offsets(copy: Copy) -> tuple[Offsets, Offsets]:
    """Return the source and target offset of every byte of a copy."""
    source, target = np.array([copy.source_offset]), np.array([copy.target_offset])
    for count, source_step, target_step in copy.dims:
        passes = np.arange(count)
        source = (source[:, None] + passes * source_step).reshape(-1)
        target = (target[:, None] + passes * target_step).reshape(-1)
    return source, target


def _place(value: Value, offsets: Offsets) -> Pitch | None:
    """Return offset and strides that put byte i of a dense tensor at `offsets[i]`, or None if there are none."""
    n, h, w, c = value.shape
    grid = offsets.reshape(n * h, w, c)
    row = int(grid[1, 0, 0] - grid[0, 0, 0]) if n * h > 1 else 0
    pixel = int(grid[0, 1, 0] - grid[0, 0, 0]) if w > 1 else c
    row = row if n * h > 1 else w * pixel
    even = (grid[0, 0, 0] + row * np.arange(n * h)[:, None, None] + pixel * np.arange(w)[:, None] + np.arange(c))
    if row < 0 or pixel < 0 or not np.array_equal(grid, even):
        return None
    return Pitch(int(grid[0, 0, 0]), row, pixel)


def _takes_pitch(layer: Layer) -> bool:
    return isinstance(layer, Mac | Elementwise | MaxPool | RowProgram | Resize)


def _fits(graph: Graph, value: Value, place: Pitch, without: Move | None) -> bool:
    """Whether all layers except `without` that use `value` (or a view of it) accept it at `place`."""
    _, _, w, c = value.shape
    if place.pixel_bytes == c and place.row_bytes == w * c:
        return True
    for layer in graph.layers:
        near = [v for v in (*layer.inputs, layer.output) if v.root is value]
        if layer is not without and near and not (_takes_pitch(layer) and all(v is value for v in near)):
            return False
    return True


def _fixed(graph: Graph, value: Value) -> bool:
    """Whether the bytes of `value` cannot be placed elsewhere."""
    return (value.alias_of is not None or value.flip or value.data is not None or value.initial is not None
            or any(port.root is value for port in (*graph.inputs, *graph.outputs)))


def _part(graph: Graph, move: Move, copy: Copy) -> tuple[Value, Value] | None:
    """Return the tensor that a copy puts into the output, and the same tensor at its place in the output."""
    if copy.source < 0 or move.output.root.initial is not None or not move.output.dense:
        return None
    part = move.inputs[copy.source].root
    if math.prod(count for count, _, _ in copy.dims) != part.size_bytes or _fixed(graph, part):
        return None
    made = [layer for layer in graph.layers if layer.output is part]
    uses = sum(other.source >= 0 and move.inputs[other.source].root is part for other in move.copies)
    source, target = _offsets(copy)
    seen = move.inputs[copy.source]
    if len(made) != 1 or made[0] is move or not seen.dense or seen.flip:
        return None
    offsets = np.full(part.size_bytes, -1)
    offsets[source] = target
    place = _place(part, offsets) if offsets.min() >= 0 else None
    if place is None or not _fits(graph, part, place, move if uses == 1 else None):
        return None
    return part, replace(part, alias_of=move.output, pitch=place)


def _slice(graph: Graph, move: Move) -> Value | None:
    """Return the output of a move of one copy as a part of its input, if it can be there."""
    if _fixed(graph, move.output):
        return None
    part = part_of(move)
    return part if part is not None and part.pitch and _fits(graph, move.output, part.pitch, move) else None


def part_of(move: Move) -> Value | None:
    """Return the output of a move of one copy as a part of its input; None if it is none."""
    copy, output = move.copies[0], move.output
    if copy.source < 0 or move.inputs[copy.source].root.initial is not None:
        return None
    source_value = move.inputs[copy.source]
    source, target = _offsets(copy)
    if len(source) != output.size_bytes or not source_value.dense:
        return None
    offsets = np.full(output.size_bytes, -1)
    offsets[target] = source
    place = _place(output, offsets) if offsets.min() >= 0 else None
    return None if place is None else replace(output, alias_of=source_value, pitch=place, flip=source_value.flip)


def replaced(graph: Graph, places: Mapping[Value, Value], layers: Mapping[Move, Move | None]) -> Graph:
    """Replace values and their views throughout the graph."""
    known: dict[Value, Value] = dict(places)

    def new(value: Value) -> Value:
        if value not in known:
            alias = value.alias_of
            # A value that was copied plainly may now be a view with bit 7 inverted, and vice versa.
            root = value.root
            flip = value.flip ^ root.flip ^ known[root].flip if root in known else value.flip
            known[value] = value if alias is None or new(alias) is alias else replace(
                value, alias_of=new(alias), flip=flip)
        return known[value]

    def rebuilt(layer: Layer) -> Layer:
        inputs, output = tuple(new(v) for v in layer.inputs), new(layer.output)
        same = output is layer.output and all(a is b for a, b in zip(inputs, layer.inputs, strict=True))
        return layer if same else replace(layer, inputs=inputs, output=output)

    chosen: Sequence[Any] = [layers.get(layer, layer) if isinstance(layer, Move) else layer for layer in graph.layers]
    return replace(graph, layers=tuple(rebuilt(layer) for layer in chosen if layer is not None),
                   inputs=tuple(new(v) for v in graph.inputs), outputs=tuple(new(v) for v in graph.outputs))
