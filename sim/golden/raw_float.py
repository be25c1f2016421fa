"""The compiler's own operators on the bits of float32 inputs of a model: FLOAT_ORDER and STEPS."""

import numpy as np

from tq_hw.model.graph import Operator, Subgraph
from tq_hw.sim.golden.arith import INT32_MAX, INT32_MIN, IntArray
from tq_hw.sim.golden.registry import Array, Inputs, bool_option, int_option, kernel, output_tensor, value

__all__ = ["INFINITY", "ordered"]

#: The bits of float32 infinity; those of NaN are larger, apart from the sign.
INFINITY = 0x7F800000


def ordered(bits: IntArray) -> IntArray:
    """Return float32 bits as integers that sort like the numbers, or the inverse; both zeros are 0."""
    return np.where(bits < 0, INT32_MIN - bits, bits)


@kernel("FLOAT_ORDER")
def float_order(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Int32 keys that sort like float32 numbers; NaN is below all of them, or with `high` above."""
    order = ordered(value(inputs, 0).view(np.int32).astype(np.int64))
    if bool_option(op, "high"):
        return [np.where(order < -INFINITY, INT32_MAX, order).astype(np.int32)]
    return [np.where(order > INFINITY, INT32_MIN, order).astype(np.int32)]


@kernel("STEPS")
def steps(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """A step function of int32: `first` plus the changes (input 2) at all keys (input 1) that are reached."""
    places, sums = value(inputs, 1), np.cumsum(value(inputs, 2), dtype=np.int64)
    reached = np.searchsorted(places, value(inputs, 0), side="right")
    found = np.concatenate([[0], sums])[reached] + int_option(op, "first")
    return [found.astype(output_tensor(op, subgraph).dtype)]
