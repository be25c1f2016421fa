"""Broadcast of operands to the output's shape: at compile time, by the array, or by a move.

The array broadcasts one byte to all channels of a pixel, as a convolution of one channel with weights of 1.
"""

import numpy as np

from tq_hw.compiler.ir.layers import Mac
from tq_hw.compiler.ir.staged import Move
from tq_hw.compiler.ir.strided import blank, copy_between
from tq_hw.compiler.ir.value import Value
from tq_hw.compiler.lower.legalize import Legalizer
from tq_hw.compiler.lower.moves import move_view
from tq_hw.model.graph import Operator, Tensor

__all__ = ["for_each", "spread", "spread_pixels"]

#: Pixels of a line that would not be merged with its neighbours anyway (`specialize/fuse.py`).
_LONG_LINE = 32


def for_each(state: Legalizer, op: Operator, value: Value, rows: int, count: int, dtype: str) -> Value:
    """Return [count, rows] elements: the `rows` elements of a value, `count` times."""
    base, target = blank((rows,), dtype), blank((count, rows), dtype)
    made = Value(f"{value.name} (for each)", value.tensor, (1, 1, 1, value.size_bytes * count))
    state.layers.append(Move(op.index, op.op, (value,), made, (
        copy_between(0, np.broadcast_to(base, target.shape), base, target, target),)))
    return made


def spread(state: Legalizer, op: Operator, position: int) -> Value:
    """Return an operand in the shape of the output."""
    tensor, shape = state.tensor(op, position), state.subgraph.tensors[op.outputs[0]].shape
    value = state.input(op, position)
    if tensor.shape == shape:
        return value
    if tensor.data is not None:
        data = np.ascontiguousarray(np.broadcast_to(tensor.data, shape))
        return Value(tensor.name, tensor.index, state.view(shape, tensor.dtype), value.zero_point, data=data)
    if tensor.dtype == "int8" and tensor.shape == (*shape[:-1], 1):
        return _channels(state, op, value, tensor, shape)
    return move_view(state, op, value, tensor, lambda x: np.broadcast_to(x, (*shape, x.shape[-1])))


def spread_pixels(state: Legalizer, op: Operator, position: int) -> Value:
    """Return an operand of an elementwise layer in the shape of the output, or one pixel that all of an image share."""
    tensor, output = state.tensor(op, position), state.subgraph.tensors[op.outputs[0]].shape
    n, h, w, c = state.view(output, tensor.dtype)
    whole = (1,) * (len(output) - len(tensor.shape)) + tensor.shape
    if (tensor.dtype != "int8" or state.view(whole, tensor.dtype)[1:] != (1, 1, c) or (h, w) == (1, 1)
            or (min(h, w) == 1 and h * w < _LONG_LINE)):
        return spread(state, op, position)
    if tensor.data is not None:
        data = np.ascontiguousarray(np.broadcast_to(tensor.data.reshape(-1, 1, 1, c), (n, 1, 1, c)))
        return Value(tensor.name, tensor.index, data.shape, state.input(op, position).zero_point, data=data)
    value = state.input(op, position)
    return value if value.shape == (n, 1, 1, c) else spread(state, op, position)


def _channels(state: Legalizer, op: Operator, value: Value, tensor: Tensor, shape: tuple[int, ...]) -> Value:
    count = shape[-1]
    output = Value(f"{tensor.name} ({op.op})", tensor.index, state.view(shape, tensor.dtype), value.zero_point)
    nothing = np.zeros(count, np.int64)
    state.layers.append(Mac(
        op.index, op.op, (value,), output, False, np.ones((count, 1, 1, 1), np.int8), nothing, nothing, nothing,
        (1, 1), (1, 1), (0, 0), 0, 0, -128, 127, rounding="shift", useful_weights=0))
    return output
