"""The compiler's own operators on float32 that the model's caller gives, as its bits are: FLOAT_ORDER and STEPS."""

import numpy as np

from tq_hw.model.graph import Operator, Subgraph
from tq_hw.sim.golden.arith import INT32_MAX, INT32_MIN, IntArray
from tq_hw.sim.golden.registry import Array, Inputs, bool_option, int_option, kernel, output_tensor, value

__all__ = ["INFINITY", "ordered"]

#: Float32's bits of infinity; those of what is not a number are above, but for the sign.
INFINITY = 0x7F800000


def ordered(bits: IntArray) -> IntArray:
    """Return float32's bits as integers in the order of the numbers, or back; both zeros are 0."""
    return np.where(bits < 0, INT32_MIN - bits, bits)


@kernel("FLOAT_ORDER")
def float_order(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Int32 in the order of float32 numbers; what is not a number is at least, or with `high` at most, all of them."""
    order = ordered(value(inputs, 0).view(np.int32).astype(np.int64))
    if bool_option(op, "high"):
        return [np.where(order < -INFINITY, INT32_MAX, order).astype(np.int32)]
    return [np.where(order > INFINITY, INT32_MIN, order).astype(np.int32)]


@kernel("STEPS")
def steps(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """For each int32 `first`, and what is added at all places that it has reached: input 2 at the places of input 1."""
    places, sums = value(inputs, 1), np.cumsum(value(inputs, 2), dtype=np.int64)
    reached = np.searchsorted(places, value(inputs, 0), side="right")
    found = np.concatenate([[0], sums])[reached] + int_option(op, "first")
    return [found.astype(output_tensor(op, subgraph).dtype)]
