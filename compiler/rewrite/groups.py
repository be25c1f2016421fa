"""Convolutions in groups of channels, such as those of ResNeXt and RegNet, as several smaller ones side by side.

The array multiplies every input channel of a layer by a weight for every output channel. Between the groups, and
between the channels of a DEPTHWISE_CONV_2D with a depth multiplier, these weights are 0. A part with the channels of
few groups has fewer of them. It reads and writes its channels where they lie in the whole tensors, since each part
begins at a whole word; so no byte is moved. Of parts with 1, 2 and 4 times as many groups, the smallest were fastest in
all of 42 layers of 32 to 1,024 channels and of images of 1 to 64 pixels, at `n16`, `n8` and `n9x8`.

Elements of int16 are moved to and from parts, so such a layer stays whole unless that takes more steps of the array.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tq_hw.compiler.rewrite.rewrite import Pattern, Rewrite, Subject, changed, pattern
from tq_hw.model.graph import Operator, Quantization, Tensor
from tq_hw.sim.golden.registry import Array

__all__ = ["parts_of_groups"]

_PADS = ("PAD", "PADV2")
#: Steps of the array in which a channel of a pixel of int16 is moved to or from a part.
_MOVED = 0.75


@dataclass(frozen=True)
class _Groups:
    """A convolution in groups: their number, and input and output channels of each."""

    count: int
    inputs: int
    outputs: int
    #: Axis of the weights with the output channels.
    axis: int

    def parts(self, each: int) -> Iterator[tuple[slice, slice]]:
        """Yield input and output channels of the parts with `each` groups; the last may have fewer."""
        for first in range(0, self.count, each):
            last = min(first + each, self.count)
            yield (slice(first * self.inputs, last * self.inputs), slice(first * self.outputs, last * self.outputs))


def _groups(graph: Subject, op: Operator) -> _Groups | None:
    """Return the groups of a convolution with constant weights; None if there is one, or one channel in each."""
    if len(op.inputs) not in (2, 3) or min(op.inputs[:2]) < 0:
        return None
    source, weights = graph.input(op), graph.input(op, 1)
    constants = [graph.tensors[index] for index in op.inputs[1:] if index >= 0]
    if (source.dtype not in ("int8", "int16") or source.data is not None
            or len(source.shape) != 4 or len(weights.shape) != 4
            or any(each.data is None or each.quantization is None for each in constants)):
        return None
    channels = source.shape[3]
    axis = 3 if op.op == "DEPTHWISE_CONV_2D" else 0
    inputs = 1 if axis else weights.shape[3]
    count = channels // inputs if inputs else 0
    if count < 2:
        return None
    found = _Groups(count, inputs, weights.shape[axis] // count, axis)
    whole = (channels, weights.shape[axis]) == (count * found.inputs, count * found.outputs)
    return found if whole and found.inputs * found.outputs > 1 else None


def _groups_in_part(groups: _Groups, word_bytes: int) -> int:
    """Return the fewest groups whose channels are whole words; word sizes are powers of two."""
    return max(word_bytes // math.gcd(word_bytes, count) for count in (groups.inputs, groups.outputs))


def _sliced(tensor: Tensor, channels: slice, axis: int) -> tuple[Array, Quantization]:
    """Return some channels of a constant, and their scales."""
    assert tensor.data is not None and tensor.quantization is not None
    known = tensor.quantization
    some = known if len(known.scale) == 1 else replace(known, scale=known.scale[channels],
                                                       zero_point=known.zero_point[channels])
    return np.ascontiguousarray(tensor.data[(slice(None),) * axis + (channels,)]), some


def _before_pad(graph: Subject, op: Operator) -> Operator | None:
    """Return the PAD before a convolution, if it adds no channels."""
    pad = graph.maker(op.inputs[0])
    if pad is None or pad.op not in _PADS:
        return None
    sizes = graph.constant(pad, 1)
    return pad if sizes is not None and sizes.shape == (4, 2) and not sizes[3].any() else None


def _pays(graph: Subject, op: Operator, groups: _Groups, each: int, word_bytes: int) -> bool:
    """Whether parts of `each` groups take fewer cycles than the whole: always, unless their elements are moved."""
    if graph.input(op).dtype != "int16":
        return True

    def steps(inputs: int, outputs: int) -> int:
        return 2 * math.prod(graph.input(op, 1).shape[1:3]) * -(-inputs // word_bytes) * -(-outputs // word_bytes)
    whole = groups.count * groups.inputs, groups.count * groups.outputs
    apart = -(-groups.count // each) * steps(each * groups.inputs, each * groups.outputs)
    return steps(*whole) - apart > _MOVED * sum(whole)


class _Parts:
    """The operators that replace a convolution in groups."""

    def __init__(self, graph: Subject, op: Operator, axis: int) -> None:
        self._graph, self._op, self._axis = graph, op, axis
        self._pad = _before_pad(graph, op)
        self.made: list[Operator] = []
        self._outputs: list[int] = []

    def add(self, inputs: slice, outputs: slice) -> None:
        """Add one part."""
        graph, op = self._graph, self._op
        source = self._slice(op if self._pad is None else self._pad, inputs)
        if self._pad is not None:
            source = self._add(changed(self._pad, inputs=(source, *self._pad.inputs[1:])), graph.input(op),
                               inputs)
        constants = [graph.add_constant(*_sliced(graph.tensors[index], outputs, axis)) if index >= 0 else index
                     for index, axis in zip(op.inputs[1:], (self._axis, 0), strict=False)]
        self._outputs.append(self._add(changed(op, inputs=(source, *constants)), graph.output(op), outputs))

    def join(self) -> Rewrite:
        """Return the whole rewrite."""
        op = self._op
        self.made.append(Operator(op.index, "CONCATENATION", tuple(self._outputs), op.outputs,
                                  {"axis": 3, "fused_activation_function": "NONE"}))
        alone = self._pad is not None and self._graph.producer(op) is self._pad
        return Rewrite([self._pad, op] if self._pad is not None and alone else [op], self.made)

    def _slice(self, reader: Operator, channels: slice) -> int:
        """Add the SLICE of an operator's input."""
        source = self._graph.input(reader)
        begin = np.array((0, 0, 0, channels.start), np.int32)
        size = np.array((*source.shape[:3], channels.stop - channels.start), np.int32)
        constants = (self._graph.add_constant(begin), self._graph.add_constant(size))
        return self._add(Operator(self._op.index, "SLICE", (source.index, *constants), ()), source, channels)

    def _add(self, op: Operator, like: Tensor, channels: slice) -> int:
        """Add an operator whose result has some of the channels of a tensor; return the result."""
        made = self._graph.add_tensor(like, (*like.shape[:3], channels.stop - channels.start))
        self.made.append(changed(op, outputs=(made,)))
        return made


def parts_of_groups(word_bytes: int) -> Pattern:
    """Return the pattern for a scratchpad with such words."""

    @pattern("CONV_2D", "DEPTHWISE_CONV_2D")
    def groups_apart(graph: Subject, op: Operator) -> Rewrite | None:
        """Compute a convolution in groups as several with fewer groups."""
        groups = _groups(graph, op)
        each = 0 if groups is None else _groups_in_part(groups, word_bytes)
        if groups is None or each >= groups.count or not _pays(graph, op, groups, each, word_bytes):
            return None
        parts = _Parts(graph, op, groups.axis)
        for inputs, outputs in groups.parts(each):
            parts.add(inputs, outputs)
        return parts.join()

    return groups_apart
