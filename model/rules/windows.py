"""STABLEHLO_REDUCE_WINDOW of float32 as operators that the engines also have: GATHER, then a maximum, minimum or sum.

PyTorch's exports have it for MaxPool1d, MaxPool3d, AvgPool3d and dilated pools. For each dimension that windows reach
over, a GATHER puts the elements of a window next to each other, on a dimension of their own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tq_hw.model.graph import Operator, Subgraph, Tensor
from tq_hw.model.rules.new_operators import Add, constant, gathered, like

__all__ = ["REDUCE_WINDOW", "of_windows"]

REDUCE_WINDOW = "STABLEHLO_REDUCE_WINDOW"
#: The reduction by what the subgraph computes of two numbers, and the number that it starts from.
_REDUCTIONS = {f"{prefix}{name}": found for prefix in ("", "STABLEHLO_") for name, found in {
    "MAXIMUM": ("REDUCE_MAX", -np.inf), "MINIMUM": ("REDUCE_MIN", np.inf), "ADD": ("SUM", 0.0)}.items()}
#: Operators that move numbers and add none.
_MOVES = ("RESHAPE", "TRANSPOSE", "SQUEEZE", "EXPAND_DIMS")


@dataclass(frozen=True)
class _Windows:
    """Windows along one dimension."""

    size: int
    length: int
    stride: int
    apart: int
    dilation: int
    before: int
    after: int

    def places(self) -> np.ndarray:
        """Return the elements of each window, [window, element]; -1 where it reaches over none."""
        spread = (self.size - 1) * self.dilation + 1
        reach = (self.length - 1) * self.apart + 1
        count = max((spread + self.before + self.after - reach) // self.stride + 1, 0)
        at = np.arange(count)[:, None] * self.stride + np.arange(self.length) * self.apart - self.before
        is_inside = (at >= 0) & (at < spread) & (at % self.dilation == 0)
        return np.where(is_inside, at // self.dilation, -1)


def of_windows(op: Operator, body: Subgraph, operators: Sequence[Operator], tensors: Sequence[Tensor],
               add: Add) -> list[Operator] | None:
    """Return the operators that compute the windows of `op`, None if there are none that do.

    `operators` come before `op`. `add` adds a tensor and returns its index. The last operator gives a new tensor.
    """
    source, start, target = tensors[op.inputs[0]], tensors[op.inputs[1]], tensors[op.outputs[0]]
    reduction, first = _REDUCTIONS.get(body.operators[0].op if len(body.operators) == 1 else "", ("", np.nan))
    windows = _windows(op, source)
    if (source.dtype != "float32" or start.data is None or start.data.size != 1 or start.data.flat[0] != first
            or windows is None or (reduction != "SUM" and not _is_dequantized(source.index, operators))):
        return None
    places = {axis: each.places() for axis, each in enumerate(windows) if each != replace(
        each, length=1, stride=1, dilation=1, before=0, after=0)}
    if not places or [places[axis].shape[0] if axis in places else size
                      for axis, size in enumerate(source.shape)] != list(target.shape):
        return None
    return _sums(op, places, source, target, add) if reduction == "SUM" else _extremes(
        op, reduction, places, source, add)


def _windows(op: Operator, source: Tensor) -> list[_Windows] | None:
    """Return the windows along each dimension, None if an option lacks some."""
    options = [op.options.get(name) for name in ("window_dimensions", "window_strides", "window_dilations",
                                                 "base_dilations", "padding")]
    numbers = [[int(each) for each in option] if isinstance(option, tuple) else [] for option in options]
    rank = len(source.shape)
    if [len(each) for each in numbers] != [rank] * 4 + [2 * rank] or min(map(min, numbers[:4]), default=0) < 1:
        return None
    around = numbers[4]
    return [_Windows(*each) for each in zip(source.shape, *numbers[:4], around[::2], around[1::2], strict=True)]


def _is_dequantized(index: int, operators: Sequence[Operator]) -> bool:
    """Whether numbers come from codes: then none is infinite, NaN or -0, for which the kernels' extremes differ."""
    makers = {made: op for op in operators for made in op.outputs}
    while (maker := makers.get(index)) is not None and maker.op in _MOVES:
        index = maker.inputs[0]
    return maker is not None and maker.op == "DEQUANTIZE"


def _extremes(op: Operator, reduction: str, places: dict[int, np.ndarray], source: Tensor,
              add: Add) -> list[Operator] | None:
    """Reduce one dimension after the other; a number that is read twice changes no extreme."""
    new: list[Operator] = []
    for axis, each in places.items():
        inside = each.max(axis=1, keepdims=True)
        if inside.size == 0 or inside.min() < 0:
            return None
        gather, wide = gathered(add, op, source, axis, np.where(each < 0, inside, each))
        source = like(add, source, (*wide.shape[:axis + 1], *wide.shape[axis + 2:]))
        new += [gather, Operator(op.index, reduction, (wide.index, constant(add, np.array([axis + 1]))),
                                 (source.index,), {"keep_dims": False})]
    return new


def _sums(op: Operator, places: dict[int, np.ndarray], source: Tensor, target: Tensor,
          add: Add) -> list[Operator]:
    """Sum the elements of all dimensions at once, in the order of memory; those outside are an added 0."""
    new: list[Operator] = []
    zeros = np.array([[0, int(axis in places and places[axis].min() < 0)] for axis in range(len(source.shape))])
    ends = source.shape
    if zeros.any():
        padded = like(add, source, tuple(size + int(more) for size, more in zip(ends, zeros[:, 1], strict=True)))
        new.append(Operator(op.index, "PAD", (source.index, constant(add, zeros)), (padded.index,)))
        source = padded
    along = list[int]()
    for axis, each in places.items():
        now = axis + len(along)
        gather, source = gathered(add, op, source, now, np.where(each < 0, ends[axis], each))
        new.append(gather)
        along.append(now + 1)
    total = like(add, source, target.shape)
    new.append(Operator(op.index, "SUM", (source.index, constant(add, np.array(along))), (total.index,),
                        {"keep_dims": False}))
    return new
