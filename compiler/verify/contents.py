"""The graph's contents: the bytes that every layer reads, tracked layer by layer.

Layers that move bytes keep their numbers; all others give new numbers. Tensors that share bytes are tracked in the
bytes of their root, so overwriting a tensor that is still needed changes what its next reader finds.

The bytes that one layer writes have consecutive numbers. An array of numbers exists only for roots that several layers
write.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tq_hw.compiler.ir.layers import Graph, Layer, Mac, Pad
from tq_hw.compiler.ir.lstm import Lstm
from tq_hw.compiler.ir.staged import Copy, Move
from tq_hw.compiler.ir.value import Pitch, Value
from tq_hw.compiler.verify.found import Found, grid_of
from tq_hw.compiler.verify.numbers import Bytes, Numbers
from tq_hw.model.errors import DataflowError

__all__ = ["Contents", "moves", "size_of", "states"]


def moves(layer: Layer) -> bool:
    """Whether a layer only moves bytes."""
    return isinstance(layer, Move | Pad)


def _read(layer: Layer) -> list[Value]:
    """Return the inputs that a layer reads: a move may still list inputs of removed copies."""
    if isinstance(layer, Move):
        return [layer.inputs[source] for source in sorted({copy.source for copy in layer.copies if copy.source >= 0})]
    return list(layer.inputs)


def states(graph: Graph) -> list[Value]:
    """Return the values that persist from one inference to the next."""
    values = [value.root for layer in graph.layers for value in (*layer.inputs, layer.output)]
    return list({id(value): value for value in values if value.initial is not None}.values())


def size_of(graph: Graph) -> int:
    """Return how many numbers a graph needs: for its inputs and states, and for the outputs of layers."""
    values = {id(v.root): v.root for v in (*graph.inputs, *states(graph))}
    return sum(v.size_bytes for v in values.values()) + sum(
        layer.output.size_bytes + sum(v.size_bytes for v in layer.inputs if isinstance(layer, Lstm))
        for layer in graph.layers)


def _last_uses(graph: Graph) -> dict[int, int]:
    """Return the last layer that reads or writes each root; inputs, outputs and states are needed to the end."""
    last = {id(value.root): number for number, layer in enumerate(graph.layers)
            for value in (*layer.inputs, layer.output)}
    for value in (*graph.inputs, *graph.outputs, *states(graph)):
        last[id(value.root)] = len(graph.layers)
    return last


class Contents:
    """Tracks the contents of a graph; `constant` returns the number of a constant's first dense byte."""

    def __init__(self, graph: Graph, numbers: Numbers, names: Sequence[str],
                 constant: Callable[[Value], int]) -> None:
        self.graph, self.numbers, self.names, self._constant = graph, numbers, names, constant
        #: Numbers of the bytes of roots; only the first number if they are consecutive.
        self._roots: dict[int, Bytes | int] = {}
        #: Roots whose array was given to a reader and must not change any more.
        self._given: set[int] = set()
        #: Roots that are complete from the beginning, or written by one layer.
        self._whole: set[int] = set()
        self._before: list[dict[int, Bytes | int]] = []
        self._made: dict[tuple[int, int], int] = {}
        self._found: dict[tuple[int, int, bool], Found] = {}
        self._first: dict[int, int] = {}
        self._dropped = 0
        self._last = _last_uses(graph)
        for value in (*graph.inputs, *states(graph)):
            self._root(value.root)

    def follow(self, number: int) -> None:
        """Advance to layer `number`."""
        for at in range(len(self._before), min(number + 1, len(self.graph.layers))):
            layer = self.graph.layers[at]
            self._follow(at, layer)
            for value in (*layer.inputs, layer.output):
                if self._last.get(id(value.root), at) <= at:
                    self._roots.pop(id(value.root), None)

    def _root(self, root: Value) -> Bytes | int:
        key = id(root)
        if key not in self._roots:
            self._whole.add(key)
            if root.data is not None:
                self._roots[key] = self._constant(root)
            elif root.initial is not None or any(value.root is root for value in self.graph.inputs):
                self._roots[key] = self._first[key] = self.numbers.allocate(
                    root.size_bytes, root.name, "the caller" if root.initial is None else "inferences before",
                    root.shape)
            else:
                self._whole.discard(key)
                self._roots[key] = np.zeros(root.size_bytes, self.numbers.dtype)
        return self._roots[key]

    def _follow(self, number: int, layer: Layer) -> None:
        read = _read(layer)
        self._before.append({id(value.root): self._root(value.root) for value in read})
        for value in read:
            self._given.add(id(value.root))
            if id(value.root) not in self._whole and not self.find(number, value).grid().all():
                raise DataflowError(f"{self.names[number]} reads bytes of {value.name!r} that no layer writes")
        output = layer.output
        if isinstance(layer, Move):
            self._move(number, layer)
        elif isinstance(layer, Pad):
            self._pad(number, layer)
        else:
            first = self._make(number, output)
            region = layer.region if isinstance(layer, Mac) else None
            if region is None and output.root is output and not output.flip:
                self._roots[id(output)] = first
                self._whole.add(id(output))
            else:
                self._write(output, self.numbers.consecutive(first, output.size_bytes), region)
        if isinstance(layer, Lstm):
            self._keep_states(number, layer, first)

    def _make(self, number: int, value: Value) -> int:
        first = self.numbers.allocate(value.size_bytes, value.name, self.names[number], value.shape)
        self._made[number, id(value)] = first
        return first

    def _own(self, root: Value) -> Bytes:
        """Return a writable array of a root."""
        array = self._root(root)
        if isinstance(array, int):
            array = self._roots[id(root)] = self.numbers.consecutive(array, root.size_bytes)
        elif id(root) in self._given:
            array = self._roots[id(root)] = array.copy()
        self._given.discard(id(root))
        return array

    def _write(self, value: Value, dense: Bytes, region: tuple[int, int, int, int] | None = None) -> None:
        n, h, w, c = value.shape
        grid = grid_of(self._own(value.root), value.place, value.shape)
        if value.flip:
            dense = dense ^ self.numbers.flipped
        r0, r1, c0, c1 = region or (0, h, 0, w)
        for image in range(n):
            grid[image * h + r0:image * h + r1, c0:c1] = dense.reshape(n, h, w, c)[image, r0:r1, c0:c1]

    def _move(self, number: int, layer: Move) -> None:
        output, size = layer.output, self.numbers.flipped
        sources = {id(value): self.find(number, value) for value in _read(layer)}
        array = self._own(output.root)
        for copy in layer.copies:
            counts = [count for count, _, _ in copy.dims]
            target = self._strided(array, output.place.offset_bytes, copy, 2)
            if copy.source < 0:
                target[...] = self.numbers.fill(copy.fill)
                continue
            value = layer.inputs[copy.source]
            found = sources[id(value)]
            source = self._strided(found.array(), found.place.offset_bytes, copy, 1).reshape(counts)
            target[...] = source ^ size if output.flip else source
            assert value.dense and output.dense, "copies are of dense bytes"

    @staticmethod
    def _strided(array: Bytes, offset: int, copy: Copy, which: int) -> Bytes:
        first = offset + (copy.source_offset if which == 1 else copy.target_offset)
        return as_strided(array[first:], [dim[0] for dim in copy.dims], [dim[which] * array.itemsize
                                                                         for dim in copy.dims])

    def _pad(self, number: int, layer: Pad) -> None:
        value, output = layer.inputs[0], layer.output
        n, h, w, c = value.shape
        _, out_h, out_w, _ = output.shape
        dense = np.full((n, out_h, out_w, c), self.numbers.fill(layer.fill), self.numbers.dtype)
        top, left = layer.before
        dense[:, top:top + h, left:left + w] = self.find(number, value).grid().reshape(n, h, w, c)
        self._write(output, dense)

    def _keep_states(self, number: int, layer: Lstm, first: int) -> None:
        """Set the states: the hidden state is that of the last step, the cell state is new."""
        _, hidden, cell = layer.inputs
        rows = np.arange(layer.batch)
        last = ((layer.steps - 1) * layer.batch + rows) if layer.time_major else (rows + 1) * layer.steps - 1
        results = self.numbers.consecutive(first, layer.output.size_bytes).reshape(-1, layer.cells)
        self._write(hidden, results[last].reshape(-1))
        self._write(cell, self.numbers.consecutive(self._make(number, cell), cell.size_bytes))

    def find(self, number: int, value: Value) -> Found:
        """Return the contents of one of layer `number`'s inputs, or of a part of it."""
        key = number, id(value), False
        if key not in self._found:
            if id(value.root) not in self._before[number]:
                raise DataflowError(f"{value.name!r} is not an input of its layer")
            there = self._before[number][id(value.root)]
            if value.flip:
                there = there ^ self.numbers.flipped
            self._found[key] = Found(there, value.root.size_bytes, value.place, value.shape, self.numbers)
        return self._found[key]

    def made(self, number: int, value: Value) -> Found:
        """Return the contents that layer `number` writes: its output, rows of it, or a state."""
        key = number, id(value), True
        if key not in self._found:
            _, _, w, c = value.shape
            whole, place = value, Pitch(0, w * c, c)
            if (number, id(value)) not in self._made:
                if value.alias_of is None or value.pitch is None or (number, id(value.alias_of)) not in self._made:
                    raise DataflowError(f"its layer does not write {value.name!r}")
                whole, row = value.alias_of, value.alias_of.place.row_bytes
                place = Pitch(value.pitch.offset_bytes // row * w * c, value.pitch.row_bytes // row * w * c, c)
            self._found[key] = Found(self._made[number, id(whole)], whole.size_bytes, place, value.shape, self.numbers)
        return self._found[key]

    def first(self, root: Value) -> Bytes:
        """Return the bytes of an input or a state before the first layer."""
        return self.numbers.consecutive(self._first[id(root)], root.size_bytes)

    def left(self, value: Value) -> Bytes:
        """Return the bytes of a value in memory after the last layer."""
        self.follow(len(self.graph.layers))
        # No layer writes a constant that is an output.
        there, first = self._root(value.root), value.place.offset_bytes
        if isinstance(there, int):
            return self.numbers.consecutive(there + first, value.size_bytes)
        return there[first:first + value.size_bytes]

    def drop(self, number: int) -> None:
        """Forget the contents that the layers before `number` read and write."""
        for key in [key for key in self._found if key[0] < number]:
            del self._found[key]
        for layer in range(self._dropped, number):
            self._before[layer] = {}
        self._dropped = max(self._dropped, number)
