"""Integer arithmetic without scales: DIV of int32, FLOOR_DIV, FLOOR_MOD, POW, SIGN, bits.

Sources: `div.cc`, `floor_div.cc`, `floor_mod.cc`, `reference/floor_mod.h`, `pow.cc`, `sign.cc`,
`bitwise_xor.cc`, `right_shift.cc`. int8 and int16 operators use the raw codes, whatever their scales.
"""

import numpy as np

from tq_hw.model.errors import InputError
from tq_hw.model.graph import Operator, Subgraph
from tq_hw.sim.golden.arith import INT32_MAX, INT32_MIN, IntArray
from tq_hw.sim.golden.elementwise import int32_range
from tq_hw.sim.golden.registry import Array, Inputs, kernel, narrow, output_tensor, require, require_dtype, value

__all__ = ["NO_DIVISOR", "divided"]

NO_DIVISOR = "a divisor is 0, which the engines reject"


def _operands(op: Operator, subgraph: Subgraph, inputs: Inputs, *dtypes: str) -> tuple[IntArray, IntArray]:
    """Both inputs as int64; they and the output must have the same type."""
    dtype = require_dtype(op, subgraph, *dtypes).dtype
    require(output_tensor(op, subgraph).dtype == dtype == require_dtype(op, subgraph, *dtypes, position=1).dtype,
            f"both inputs and the output must be {dtype}")
    return value(inputs, 0).astype(np.int64), value(inputs, 1).astype(np.int64)


def _quotients(x: IntArray, y: IntArray) -> IntArray:
    """Quotients rounded down. Raises InputError for a divisor of 0."""
    if not y.all():
        raise InputError(NO_DIVISOR)
    return x // y


def divided(op: Operator, subgraph: Subgraph, inputs: Inputs) -> Array:
    """DIV of int32: rounded toward 0 and clamped by the fused activation."""
    x, y = _operands(op, subgraph, inputs, "int32")
    down = _quotients(x, y)
    result = down + ((down < 0) & (down * y != x))
    if result.size and int(result.max()) > INT32_MAX:
        raise InputError(f"{INT32_MIN} divided by -1 overflows int32: the engines' result is undefined")
    return narrow(result, *int32_range(op, subgraph), "int32")


@kernel("FLOOR_DIV")
def floor_div(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Quotient rounded down; the least number divided by -1 wraps to itself."""
    x, y = _operands(op, subgraph, inputs, "int8", "int16", "int32")
    return [_quotients(x, y).astype(value(inputs, 0).dtype)]


@kernel("FLOOR_MOD")
def floor_mod(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Remainder of the quotient rounded down: it has the divisor's sign, or is 0."""
    x, y = _operands(op, subgraph, inputs, "int8", "int16", "int32")
    down = _quotients(x, y)
    if down.size and int(down.max()) > INT32_MAX:
        raise InputError(f"{INT32_MIN} divided by -1 crashes the engines")
    return [(x - down * y).astype(value(inputs, 0).dtype)]


@kernel("POW")
def power(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Power of int32 with an exponent >= 0.

    Raises InputError if it is outside int32, where the kernel's conversion from double is undefined.
    """
    x, y = _operands(op, subgraph, inputs, "int32")
    if y.size and int(y.min()) < 0:
        raise InputError("an exponent is below 0: the engine refuses to run")
    result = np.ones(np.broadcast_shapes(x.shape, y.shape), np.int64)
    # A value outside int32 stays outside; only 0, 1 and -1 can have more than 31 factors.
    y = np.where(y < 32, y, 30 + y % 2)
    for factors in range(int(y.max(initial=0))):
        result = np.where(factors < y, np.clip(result * x, INT32_MIN - 1, INT32_MAX + 1), result)
    if not np.all((result >= INT32_MIN) & (result <= INT32_MAX)):
        raise InputError("a power overflows int32: the engine's result is undefined")
    return [result.astype(np.int32)]


@kernel("SIGN")
def sign(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """-1, 0 or 1."""
    require_dtype(op, subgraph, "int32")
    return [np.sign(value(inputs, 0))]


@kernel("BITWISE_XOR")
def bitwise_xor(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Bits that are set in exactly one input."""
    _operands(op, subgraph, inputs, "int8", "int16", "int32")
    return [value(inputs, 0) ^ value(inputs, 1)]


@kernel("RIGHT_SHIFT")
def right_shift(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Arithmetic right shift; the count is clamped to 0 and to one less than the type's bits."""
    x, y = _operands(op, subgraph, inputs, "int8", "int16", "int32")
    dtype = value(inputs, 0).dtype
    return [(x >> np.clip(y, 0, 8 * dtype.itemsize - 1)).astype(dtype)]
