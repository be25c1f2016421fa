"""SOFTMAX, LOG_SOFTMAX and BATCH_MATMUL of packed numbers, as attention in float32 has them."""

import math
from dataclasses import replace

import numpy as np

from tq_hw.compiler.rewrite.packed_elements import logarithm
from tq_hw.compiler.rewrite.packing import Packed, Packing, Rows, plain
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.graph import Operator, Tensor
from tq_hw.sim.golden.registry import bool_option, float_option

__all__ = ["ROWS"]

#: Products of a BATCH_MATMUL, each of which lies in memory.
_MOST_PRODUCTS = 1 << 22


def _below_largest(packing: Packing, op: Operator) -> Packed:
    """What elements are less than the largest of their row."""
    tensor = packing.graph.input(op)
    part, axis = packing.packed(tensor.index), np.array([len(tensor.shape) - 1], np.int32)
    largest = packing.extreme(op, part, axis, tensor, _row(tensor), "REDUCE_MAX", keep_dims=True)
    return replace(packing.binary(plain(op), "SUB", part, largest, tensor), high=0.0)


def _row(tensor: Tensor) -> Tensor:
    return Tensor(0, tensor.name, "float32", (*tensor.shape[:-1], 1))


def _powers(packing: Packing, op: Operator, less: Packed) -> tuple[Packed, Packed]:
    """Return exponentials, and their sums along rows, in order; the largest element adds 1."""
    tensor = packing.graph.input(op)
    powers, axis = packing.power(op, less, tensor), np.array([len(tensor.shape) - 1], np.int32)
    total = packing.summed(op, powers, tensor.shape[-1], axis, _row(tensor), keep_dims=True)
    return powers, replace(total, low=1.0)


def _softmax(packing: Packing, op: Operator) -> Packed:
    """What is taken off the largest of a row, exponentials of that, their sum in order, quotients."""
    beta, less = np.float32(float_option(op, "beta")), _below_largest(packing, op)
    if beta <= 0:
        raise UnsupportedError(f"operator {op.index} (SOFTMAX) has beta {beta}, which must be positive")
    if beta != 1:
        less = packing.binary(plain(op), "MUL", less, packing.number(float(beta)), packing.graph.input(op))
        less = replace(less, high=0.0)
    powers, total = _powers(packing, op, less)
    return packing.binary(plain(op), "DIV", powers, total, packing.graph.output(op))


def _log_softmax(packing: Packing, op: Operator) -> Packed:
    """The same but for the quotients: less the logarithm of the sum."""
    less = _below_largest(packing, op)
    _, total = _powers(packing, op, less)
    logs = logarithm(packing, op, total, _row(packing.graph.input(op)))
    return packing.binary(plain(op), "SUB", less, logs, packing.graph.output(op))


def _product(packing: Packing, op: Operator) -> Packed:
    """All products at once, and sums of those of a row and a column, in order."""
    graph, output = packing.graph, packing.graph.output(op)
    sides = []
    for position, name in enumerate(("adj_x", "adj_y")):
        tensor = graph.input(op, position)
        rank = len(tensor.shape)
        # The depth comes first: it is the first matrix's columns and the second one's rows.
        depth = rank - 1 - (position + bool_option(op, name)) % 2
        order = [depth, *(axis for axis in range(rank) if axis != depth)]
        turned = [tensor.shape[axis] for axis in order]
        ones = [1] * (len(output.shape) - rank)
        shape = [turned[0], *ones, *turned[1:-1], *([turned[-1], 1] if position == 0 else [1, turned[-1]])]
        part = packing.packed(tensor.index)
        for kind, argument, size in (("TRANSPOSE", order, turned), ("RESHAPE", shape, shape)):
            constant = graph.add_constant(np.array(argument, np.int32))
            part = packing.add(op, kind, (part.index, constant), Tensor(0, tensor.name, "int32", tuple(size)),
                               (part.low, part.high))
        sides.append(part)
    count = turned[0]
    if count * math.prod(output.shape) > _MOST_PRODUCTS:
        raise UnsupportedError(f"operator {op.index} (BATCH_MATMUL) has {count * math.prod(output.shape)} products, of "
                               f"float32 at most {_MOST_PRODUCTS} are computed")
    like = Tensor(0, output.name, "float32", (count, *output.shape))
    return packing.summed(op, packing.binary(op, "MUL", sides[0], sides[1], like), count, np.array([0], np.int32),
                          output, keep_dims=False)


ROWS: dict[str, Rows] = {"SOFTMAX": _softmax, "LOG_SOFTMAX": _log_softmax, "BATCH_MATMUL": _product}
