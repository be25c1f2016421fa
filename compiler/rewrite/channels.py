"""Moves that pick channels, such as channel shuffles and cuts between words, as weights of convolutions.

A chain of RESHAPE, TRANSPOSE, SLICE and SPLIT that gives each pixel some of its channels in another order is a
convolution with weights of 0 and 1. A convolution after such a chain can read the chain's input directly: its weights
move to the original channels, with 0 elsewhere. No byte is moved, and the integers are the same.

Whether this is faster depends on the array, so `picks` returns the patterns for one array.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tq_hw.compiler.rewrite.rewrite import ADDED_WEIGHTS, Pattern, Rewrite, Subject, changed, pattern
from tq_hw.model.errors import TqError
from tq_hw.model.graph import Operator, Quantization, Tensor
from tq_hw.sim.golden.arith import IntArray
from tq_hw.sim.golden.kernels import KERNELS
from tq_hw.sim.golden.registry import Array

__all__ = ["picks"]

_MOVES = ("RESHAPE", "TRANSPOSE", "SLICE", "STRIDED_SLICE", "SPLIT", "SPLIT_V")
#: Most moves in a chain, and most elements of a tensor, that are considered.
_MOST_MOVES, _MOST_ELEMENTS = 8, 1 << 22
#: Cycles of a moved byte.
_BYTE_CYCLES = 2


@dataclass(frozen=True)
class _Pick:
    """For each channel of a tensor, the source tensor's channel that it is."""

    source: Tensor
    channels: IntArray

    @property
    def is_part(self) -> bool:
        """Whether the channels are consecutive, as after a cut."""
        return bool((np.diff(self.channels) == 1).all())

    def is_in_place(self, word_bytes: int) -> bool:
        """Whether the channels are whole words of the source, in order."""
        first, count = int(self.channels[0]), len(self.channels)
        return self.is_part and first % word_bytes == 0 and (
            count % word_bytes == 0 or first + count == self.source.shape[-1])


def _data(op: Operator) -> int:
    """Position of a move's data input."""
    return 1 if op.op == "SPLIT" else 0


def _moved(graph: Subject, op: Operator, values: Array) -> dict[int, Array]:
    """Return the results of a move of `values`, by output tensor."""
    inputs = [values if at == _data(op) else None if index < 0 else graph.tensors[index].data
              for at, index in enumerate(op.inputs)]
    return dict(zip(op.outputs, KERNELS[op.op](op, graph.subgraph, inputs), strict=True))


def _find(graph: Subject, index: int) -> _Pick | None:
    """Return the earliest tensor whose channels moves pick for this tensor, and which; None if there is none."""
    target, chain, best = graph.tensors[index], list[tuple[Operator, int]](), None
    if target.dtype != "int8" or len(target.shape) != 4 or np.prod(target.shape) > _MOST_ELEMENTS:
        return None
    current = index
    while len(chain) < _MOST_MOVES:
        op = graph.maker(current)
        if op is None or op.op not in _MOVES or any(
                graph.tensors[each].data is None for at, each in enumerate(op.inputs) if at != _data(op) and each >= 0):
            break
        chain.insert(0, (op, current))
        current = op.inputs[_data(op)]
        source = graph.tensors[current]
        if source.shape[:-1] == target.shape[:-1] and source.quantization == target.quantization:
            best = _channels(graph, source, chain) or best
    return best


def _channels(graph: Subject, source: Tensor, chain: Sequence[tuple[Operator, int]]) -> _Pick | None:
    """Return the channels that a chain of moves, each with its continuing tensor, picks alike for all pixels."""
    count = source.shape[-1]
    values: Array = np.arange(int(np.prod(source.shape)), dtype=np.int32).reshape(source.shape)
    try:
        for op, into in chain:
            values = _moved(graph, op, values)[into]
    except TqError:
        return None
    first = np.arange(values[..., 0].size, dtype=np.int32).reshape(values.shape[:-1]) * count
    channels = values - first[..., None]
    row = channels.reshape(-1, channels.shape[-1])[0]
    if (channels != row).any() or row.min() < 0 or row.max() >= count:
        return None
    return _Pick(source, row.astype(np.int64))


def _readers(graph: Subject, index: int) -> list[Operator]:
    return [op for op in graph.subgraph.operators if index in op.inputs]


def _is_plain(graph: Subject, op: Operator) -> bool:
    """Whether an operator is an int8 convolution over all input channels, with constant weights and bias."""
    if op.op != "CONV_2D" or len(op.inputs) != 3 or min(op.inputs) < 0:
        return False
    source, weights, bias = (graph.tensors[index] for index in op.inputs)
    return (source.dtype == "int8" and source.data is None and weights.data is not None and bias.data is not None
            and weights.shape[3] == source.shape[3])


@dataclass(frozen=True)
class _Array:
    """The machine's array: input and output channels that it computes at a time, and bytes of a word."""

    rows: int
    cols: int
    word_bytes: int

    def steps(self, inputs: int, outputs: int) -> int:
        """Cycles per pixel of a convolution with a kernel of one pixel."""
        return -(-inputs // self.rows) * -(-outputs // self.cols)

    def fits(self, graph: Subject, op: Operator) -> _Pick | None:
        """Return the channels that a convolution can read in the source; None if there are none or it is slower."""
        found = _find(graph, op.inputs[0]) if _is_plain(graph, op) else None
        if found is None or found.is_in_place(self.word_bytes):
            return None
        outputs, height, width, inputs = graph.input(op, 1).shape
        more = self.steps(found.source.shape[3], outputs) - self.steps(inputs, outputs)
        return found if height * width * more <= _BYTE_CYCLES * inputs else None

    def replaces(self, graph: Subject, op: Operator) -> dict[int, _Pick] | None:
        """Return the pick of each output of a move that must exist in memory; None if not all are picks."""
        found: dict[int, _Pick] = {}
        for index in op.outputs:
            readers = _readers(graph, index)
            if not graph.is_output(index) and all(each.op in _MOVES for each in readers):
                continue
            pick = _find(graph, index)
            if (pick is None or pick.is_part or any(self.fits(graph, each) for each in readers)
                    or self.steps(pick.source.shape[3], len(pick.channels)) > _BYTE_CYCLES * len(pick.channels)):
                return None
            found[index] = pick
        return found


def _spread(weights: Array, pick: _Pick) -> Array:
    """Return a kernel [.., channels] spread over the source's channels."""
    chosen = np.eye(pick.source.shape[3], dtype=np.int64)[pick.channels]
    return (weights.astype(np.int64) @ chosen).astype(np.int8)


def _pick_channels(graph: Subject, op: Operator, index: int, pick: _Pick) -> Operator:
    """Return the convolution that picks the channels of a tensor from the source."""
    weights = graph.add_constant(_spread(np.eye(len(pick.channels), dtype=np.int8)[:, None, None], pick),
                                 Quantization((1.0,), (0,)))
    bias = graph.add_constant(np.zeros(len(pick.channels), np.int32), Quantization((pick.source.scale,), (0,)))
    return Operator(op.index, "CONV_2D", (pick.source.index, weights, bias), (index,), {
        ADDED_WEIGHTS: len(pick.channels) * pick.source.shape[3],
        "padding": "VALID", "stride_w": 1, "stride_h": 1, "dilation_w_factor": 1, "dilation_h_factor": 1,
        "fused_activation_function": "NONE"})


def picks(rows: int, cols: int, word_bytes: int) -> tuple[Pattern, ...]:
    """Return the patterns for an array of `rows` input and `cols` output channels, and words of `word_bytes`."""
    array = _Array(rows, cols, word_bytes)

    @pattern("CONV_2D")
    def convolution_of_picked(graph: Subject, op: Operator) -> Rewrite | None:
        """Let a convolution read the channels in the source."""
        found = array.fits(graph, op)
        if found is None or len(set(found.channels.tolist())) < len(found.channels):
            return None
        weights = graph.input(op, 1)
        assert weights.data is not None
        spread = graph.add_constant(_spread(weights.data, found), weights.quantization)
        size = graph.tensors[spread].shape
        added = int(np.prod(size[:3])) * (size[3] - weights.shape[3])
        before = op.options.get(ADDED_WEIGHTS, 0)
        assert isinstance(before, int)
        return Rewrite([op], [changed(op, inputs=(found.source.index, spread, op.inputs[2]),
                                      options={ADDED_WEIGHTS: before + added})])

    @pattern(*_MOVES)
    def picked_channels(graph: Subject, op: Operator) -> Rewrite | None:
        """Replace a move of channels by a convolution with weights of 0 and 1."""
        found = array.replaces(graph, op)
        if not found:
            return None
        made = [_pick_channels(graph, op, *each) for each in found.items()]
        if any(index not in found and graph.is_used(index) for index in op.outputs):
            rest = [graph.add_tensor(graph.tensors[index]) if index in found else index for index in op.outputs]
            made.insert(0, changed(op, outputs=rest))
        return Rewrite([op], made)

    return (unused_cut, convolution_of_picked, picked_channels)


@pattern(*_MOVES)
def unused_cut(graph: Subject, op: Operator) -> Rewrite | None:
    """Remove a move whose result is not read."""
    return None if any(graph.is_used(index) for index in op.outputs) else Rewrite([op], [])
