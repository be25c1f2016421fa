"""PAIR: entries of two int32 tables are combined (sum, product, maximum or minimum) and scaled; SCALE: int32 scaled.

TABLE_OF_TWO is any function of two bytes. CHANNEL_SCALE is a linear function per channel. All are operators of the
compiler.
"""

import numpy as np

from tq_hw.model.graph import Operator, Subgraph
from tq_hw.sim.golden.arith import IntArray, multiply_by_quantized_multiplier, rounding_divide_by_pot
from tq_hw.sim.golden.registry import Array, Inputs, int_option, kernel, str_option, value

__all__ = ["combine", "scaled_channel", "settle"]


def combine(kind: str, one: IntArray, other: IntArray) -> IntArray:
    """Return the int32 combination of entries of two tables."""
    match kind:
        case "ADD":
            return one + other
        case "MUL":
            return one * other
        case "MAX":
            return np.maximum(one, other)
        case _:
            return np.minimum(one, other)


def settle(made: IntArray, multiplier: int, shift: int) -> IntArray:
    """Scale a combination; a multiplier of 0 selects a right shift that rounds halves away from zero."""
    if multiplier:
        return multiply_by_quantized_multiplier(made, multiplier, shift)
    return rounding_divide_by_pot(made, -shift)


@kernel("PAIR")
def pair(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Inputs are two tensors of bytes and their tables of 256 entries."""
    one, other = (value(inputs, 2 + position).astype(np.int64)[value(inputs, position).view(np.uint8)]
                  for position in range(2))
    scaled = settle(combine(str_option(op, "kind"), one, other), int_option(op, "multiplier"), int_option(op, "shift"))
    return [np.clip(scaled + int_option(op, "zero_point"), int_option(op, "act_min"),
                    int_option(op, "act_max")).astype(np.int8)]


@kernel("TABLE_OF_TWO")
def table_of_two(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Inputs are two tensors of bytes, and 65,536 entries: 256 for the first one's codes, per code of the second."""
    first, second = (value(inputs, position).view(np.uint8).astype(np.int64) for position in range(2))
    return [value(inputs, 2)[first + 256 * second]]


@kernel("SCALE")
def scale(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """int32 to int8 with a multiplier of its own."""
    made = settle(value(inputs, 0).astype(np.int64), int_option(op, "multiplier"), int_option(op, "shift"))
    return [np.clip(made + int_option(op, "zero_point"), -128, 127).astype(np.int8)]


def scaled_channel(sums: IntArray, multiplier: IntArray, shift: IntArray) -> IntArray:
    """`sums * multiplier / 2^(31 + shift)`, rounded once, halves up; `shift` is at least 1."""
    made: IntArray = ((sums * multiplier >> 31) + (np.int64(1) << shift - 1)) >> shift
    return made


@kernel("CHANNEL_SCALE")
def channel_scale(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Inputs are int8, and weight, bias, multiplier and right shift of each channel."""
    weights, bias, multiplier, shift = (value(inputs, position).astype(np.int64) for position in range(1, 5))
    made = scaled_channel(value(inputs, 0) * weights + bias, multiplier, shift) + int_option(op, "zero_point")
    return [np.clip(made, int_option(op, "act_min"), int_option(op, "act_max")).astype(np.int8)]
