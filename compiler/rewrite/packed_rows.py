"""SOFTMAX, LOG_SOFTMAX, BATCH_MATMUL and FULLY_CONNECTED of packed numbers, for attention in float32."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tq_hw.compiler.rewrite.bounds import ROUNDED, widened
from tq_hw.compiler.rewrite.packed_elements import fused, logarithm
from tq_hw.compiler.rewrite.packed_masks import masked
from tq_hw.compiler.rewrite.packing import Packed, Packing, Rows, plain
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.graph import Operator, Tensor
from tq_hw.sim.golden.pooling import LEAST_DIVISOR
from tq_hw.sim.golden.registry import bool_option, float_option, str_option

__all__ = ["ROWS"]

#: Most products of a matrix multiplication; all of them are in memory.
_MOST_PRODUCTS = 1 << 22
#: With less, hidden scores would not be 0.
_LEAST_BETA = 2.0**-30


def _below_largest(packing: Packing, op: Operator, part: Packed | None = None) -> Packed:
    """Subtract the largest element of each row; `part` is used in place of the input's numbers."""
    tensor = packing.graph.input(op)
    part, axis = part or packing.packed(tensor.index), np.array([len(tensor.shape) - 1], np.int32)
    largest = packing.extreme(op, part, axis, tensor, _row(tensor), "REDUCE_MAX", keep_dims=True)
    return replace(packing.binary(plain(op), "SUB", part, largest, tensor), high=0.0)


def _row(tensor: Tensor) -> Tensor:
    return Tensor(0, tensor.name, "float32", (*tensor.shape[:-1], 1))


def _powers(packing: Packing, op: Operator, less: Packed) -> tuple[Packed, Packed]:
    """Return exponentials and their sums along rows, in order; a sum is at least 1, from the row's maximum."""
    tensor = packing.graph.input(op)
    powers, axis = packing.power(op, less, tensor), np.array([len(tensor.shape) - 1], np.int32)
    total = packing.summed(op, powers, tensor.shape[-1], axis, _row(tensor), keep_dims=True)
    return powers, replace(total, low=1.0)


def _softmax(packing: Packing, op: Operator) -> Packed:
    """Add the differences to a row's maximum, their exponentials, the sum of these in order, and the quotients."""
    beta = np.float32(float_option(op, "beta"))
    if beta <= 0:
        raise UnsupportedError(f"operator {op.index} (SOFTMAX) has beta {beta}, which must be positive")
    less = _below_largest(packing, op, masked(packing, op) if beta >= _LEAST_BETA else None)
    if beta != 1:
        less = packing.binary(plain(op), "MUL", less, packing.number(float(beta)), packing.graph.input(op))
        less = replace(less, high=0.0)
    powers, total = _powers(packing, op, less)
    return packing.binary(plain(op), "DIV", powers, total, packing.graph.output(op))


def _log_softmax(packing: Packing, op: Operator) -> Packed:
    """Add the same as `_softmax` up to the sum, then subtract the logarithm of the sum."""
    less = _below_largest(packing, op)
    _, total = _powers(packing, op, less)
    logs = logarithm(packing, op, total, _row(packing.graph.input(op)))
    return packing.binary(plain(op), "SUB", less, logs, packing.graph.output(op))


def _normalized(packing: Packing, op: Operator) -> Packed:
    """Divide vectors by their lengths; none of the quotients is above 1 but for rounding."""
    tensor, part = packing.graph.input(op), packing.packed(op.inputs[0])
    if str_option(op, "fused_activation_function") != "NONE":
        raise UnsupportedError(f"operator {op.index} (L2_NORMALIZATION) has a fused activation")
    axis, row = np.array([len(tensor.shape) - 1], np.int32), _row(tensor)
    squares = packing.binary(plain(op), "MUL", part, part, tensor)
    total = packing.summed(op, squares, tensor.shape[-1], axis, row, keep_dims=True)
    total = replace(total, low=max(total.low, 0.0))
    root = packing.add(op, "PACKED_SQRT", (total.index,), row, widened(0.0, math.sqrt(total.high), 2))
    least = packing.number(LEAST_DIVISOR)
    length = packing.add(op, "PACKED_MAX", (root.index, least.index), row, (least.low, max(root.high, least.high)))
    made = packing.binary(plain(op), "DIV", part, length, packing.graph.output(op))
    return replace(made, low=max(made.low, -ROUNDED), high=min(made.high, ROUNDED))


def _moved(packing: Packing, op: Operator, part: Packed, name: str, argument: Sequence[int], like: Tensor) -> Packed:
    constant = packing.graph.add_constant(np.array(argument, np.int32))
    return packing.add(op, name, (part.index, constant), like, (part.low, part.high))


def _multiplied(packing: Packing, op: Operator, sides: Sequence[tuple[Packed, Sequence[int], int]],
                output: Tensor) -> Packed:
    """Add all products, and for each row and column their sum, in order.

    A side is a matrix or a batch of matrices, its shape, and the axis that is summed over.
    """
    found = []
    for position, (part, dims, depth) in enumerate(sides):
        # The depth, columns of the first matrix and rows of the second, becomes the first axis.
        order = [depth, *(axis for axis in range(len(dims)) if axis != depth)]
        turned = [dims[axis] for axis in order]
        ones = [1] * (len(output.shape) - len(dims))
        shape = [turned[0], *ones, *turned[1:-1], *([turned[-1], 1] if position == 0 else [1, turned[-1]])]
        for kind, argument, size in (("TRANSPOSE", order, turned), ("RESHAPE", shape, shape)):
            part = _moved(packing, op, part, kind, argument, Tensor(0, output.name, "int32", tuple(size)))
        found.append(part)
    count = turned[0]
    if count * math.prod(output.shape) > _MOST_PRODUCTS:
        raise UnsupportedError(f"operator {op.index} ({op.op}) has {count * math.prod(output.shape)} products, of "
                               f"float32 at most {_MOST_PRODUCTS} are computed")
    like = Tensor(0, output.name, "float32", (count, *output.shape))
    return packing.summed(op, packing.binary(plain(op), "MUL", found[0], found[1], like), count,
                          np.array([0], np.int32), output, keep_dims=False)


def _product(packing: Packing, op: Operator) -> Packed:
    graph, sides = packing.graph, []
    for position, name in enumerate(("adj_x", "adj_y")):
        tensor = graph.input(op, position)
        depth = len(tensor.shape) - 1 - (position + bool_option(op, name)) % 2
        sides.append((packing.packed(tensor.index), tensor.shape, depth))
    return _multiplied(packing, op, sides, graph.output(op))


def _dense(packing: Packing, op: Operator) -> Packed:
    """Multiply rows by the rows of a computed matrix, as in single-head attention, and add a bias."""
    graph, output = packing.graph, packing.graph.output(op)
    units, depth = graph.input(op, 1).shape
    rows = math.prod(graph.input(op).shape) // depth
    flat = Tensor(0, output.name, "int32", (rows, depth))
    source = _moved(packing, op, packing.packed(op.inputs[0]), "RESHAPE", flat.shape, flat)
    sides = [(source, flat.shape, 1), (packing.packed(op.inputs[1]), (units, depth), 1)]
    made = _multiplied(packing, op, sides, Tensor(0, output.name, "float32", (rows, units)))
    made = _moved(packing, op, made, "RESHAPE", output.shape, output)
    if len(op.inputs) > 2 and op.inputs[2] >= 0:
        made = packing.binary(plain(op), "ADD", made, packing.packed(op.inputs[2]), output)
    return fused(packing, op, made)


ROWS: dict[str, Rows] = {"SOFTMAX": _softmax, "LOG_SOFTMAX": _log_softmax, "L2_NORMALIZATION": _normalized,
                         "BATCH_MATMUL": _product,
                         "FULLY_CONNECTED": _dense}
