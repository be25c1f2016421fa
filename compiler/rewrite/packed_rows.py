"""SOFTMAX and BATCH_MATMUL of packed numbers, as attention in float32 has them."""

import math

import numpy as np

from tq_hw.compiler.rewrite.island import Island, label
from tq_hw.compiler.rewrite.packing import Packed, Packing, Rows
from tq_hw.model.errors import TqError, UnsupportedError
from tq_hw.model.graph import Operator, Tensor
from tq_hw.sim.golden.libm import Float32
from tq_hw.sim.golden.packed_float import packed
from tq_hw.sim.golden.registry import bool_option, float_option
from tq_hw.sim.golden.softmax import real_exponentials

__all__ = ["ROWS"]

#: Signed codes by unsigned ones.
_RISING = np.argsort(np.arange(256).astype(np.uint8).view(np.int8), kind="stable")
#: Products of a BATCH_MATMUL, each of which lies in memory.
_MOST_PRODUCTS = 1 << 22


def _softmax(packing: Packing, op: Operator) -> Packed:
    """Exponentials of all pairs of a code and its row's largest, their sum in order, quotients."""
    graph, tensor = packing.graph, packing.graph.input(op)
    island = Island(graph, tensor.shape)
    try:
        values: Float32 = np.broadcast_to(island.values(tensor.index), (256,)).astype(np.float32)
        source = island.sources[0]
    except (TqError, IndexError) as error:
        raise UnsupportedError(f"operator {op.index} (SOFTMAX) is of {label(tensor)}, which is no function of one int8 "
                               "tensor; of such alone exponentials are known") from error
    if source.dtype != "int8" or not np.isfinite(values).all():
        raise UnsupportedError(f"operator {op.index} (SOFTMAX) is of {label(tensor)}, which is no finite function of "
                               "an int8 tensor")
    codes = source.index
    if (np.diff(values[_RISING]) < 0).any():
        # Places among all numbers rise with them.
        order = np.argsort(values, kind="stable")
        places = np.empty(256, np.int8)
        places[order] = np.arange(-128, 128)
        codes = graph.add_tensor(source)
        packing.new.append(Operator(op.index, "TABLE", (source.index, graph.add_constant(places)), (codes,)))
        values = values[order][(np.arange(256) + 128) % 256]
    shape = tensor.shape
    most = graph.add_tensor(source, (*shape[:-1], 1))
    axis = graph.add_constant(np.array([len(shape) - 1], np.int32))
    packing.new.append(Operator(op.index, "REDUCE_MAX", (codes, axis), (most,), {"keep_dims": True}))
    # By the largest code, then by a code, which is none above it.
    powers = real_exponentials(np.minimum(values[None, :], values[:, None]) - values[:, None],
                               float_option(op, "beta"))
    table = graph.add_constant(packed(powers).reshape(-1))
    made = packing.add(op, "TABLE_OF_TWO", (codes, most, table), tensor, (0.0, 1.0))
    row = Tensor(0, tensor.name, "float32", (*shape[:-1], 1))
    # The largest element adds 1, so that a sum of positive numbers has that at least.
    total = packing.add(op, "PACKED_SUM", (made.index, axis), row, (1.0, 1.001 * shape[-1]), {"keep_dims": True})
    return packing.add(op, "PACKED_DIV", (made.index, total.index), graph.output(op), (0.0, 1.0),
                       {"relu": False})


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


ROWS: dict[str, Rows] = {"SOFTMAX": _softmax, "BATCH_MATMUL": _product}
