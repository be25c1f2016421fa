"""STABLEHLO_PAD as operators that the engines also have: PADV2, and a GATHER where it also pads between elements.

PyTorch's exports have it for assignments to every n-th element.
"""

from collections.abc import Sequence

import numpy as np

from tq_hw.model.graph import Operator, Tensor
from tq_hw.model.rules.new_operators import Add, constant, gathered, like

__all__ = ["STABLE_PAD", "of_pad"]

STABLE_PAD = "STABLEHLO_PAD"


def of_pad(op: Operator, tensors: Sequence[Tensor], add: Add) -> list[Operator] | None:
    """Return the operators that compute `op`, None if it crops, or codes of several scales meet.

    The last operator gives a new tensor.
    """
    source, value, target = (tensors[index] for index in (*op.inputs, op.outputs[0]))
    before, after, between = ([int(each) for each in option] if isinstance(option, tuple) else []
                              for option in (op.options.get(name) for name in (
                                  "edge_padding_low", "edge_padding_high", "interior_padding")))
    rank = len(source.shape)
    if (not rank or [len(each) for each in (before, after, between)] != [rank] * 3
            or min(*before, *after, *between, *(size - 1 for size in source.shape)) < 0
            or any((each.dtype, each.quantization) != (source.dtype, source.quantization) for each in (value, target))
            or target.shape != tuple((size - 1) * (more + 1) + 1 + low + high for size, low, high, more in zip(
                source.shape, before, after, between, strict=True))):
        return None
    new = list[Operator]()
    for axis in (axis for axis in range(rank) if between[axis]):
        size = source.shape[axis]
        places = np.full(target.shape[axis], size)
        places[before[axis]:len(places) - after[axis]:between[axis] + 1] = np.arange(size)
        pad, source = _padded(op, source, value, [[0, int(each == axis)] for each in range(rank)], add)
        gather, source = gathered(add, op, source, axis, places)
        new += [pad, gather]
        before[axis] = after[axis] = 0
    if any(before) or any(after) or not new:
        new.append(_padded(op, source, value, list(zip(before, after, strict=True)), add)[0])
    return new


def _padded(op: Operator, source: Tensor, value: Tensor, around: Sequence[Sequence[int]],
            add: Add) -> tuple[Operator, Tensor]:
    made = like(add, source, tuple(size + low + high for size, (low, high) in zip(source.shape, around, strict=True)))
    return Operator(op.index, "PADV2", (source.index, constant(add, np.array(around)), value.index),
                    (made.index,)), made
