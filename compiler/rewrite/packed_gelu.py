"""GELU of packed numbers: sums, products and quotients in Eigen's order, which `sim/golden/gelu_float.py` reproduces.

A power of two is looked up by its exponent and applied as two factors; only the last product can be subnormal, so it is
rounded once. Packed numbers have only positive divisors, so the tail of erfc is computed for the magnitude and the sign
restored afterwards: float32 sums, products and quotients have the same fraction for either sign.
"""

from dataclasses import replace

import numpy as np

from tq_hw.compiler.rewrite.float_operations import FloatOperations
from tq_hw.compiler.rewrite.packed_elements import extreme
from tq_hw.compiler.rewrite.packing import Packed, Packing, Rows, plain
from tq_hw.model.graph import Operator
from tq_hw.sim.golden.arith import UINT8_CODES
from tq_hw.sim.golden.gelu_float import (
    CUBIC,
    ERFC_FAR,
    ERFC_NEAR,
    EXP_EVEN,
    EXP_ODD,
    LEAST_EXP,
    LN2_HIGH,
    LN2_LOW,
    LOG2_E,
    MOST_ERFC,
    MOST_TANH,
    ROOT_HALF,
    ROOT_TWO_BY_PI,
    SPLIT,
    TANH,
)
from tq_hw.sim.golden.registry import bool_option

__all__ = ["GELUS"]

#: The zero point of the codes of exponents, which are -228 to 27.
_ZERO_POINT = 100
#: The least exponent of the first factor: its product keeps all bits.
_LEAST_EXPONENT = -100
#: A lower bound of GELU, and a bound of its result relative to its argument after rounding.
_LEAST, _MORE = -0.1701, 1 + 2.0**-20
#: Bound of the remainder after subtracting a multiple of ln 2: slightly more than half of ln 2.
_REST = 0.36


def _power(floats: FloatOperations, x: Packed) -> Packed:
    """Compute e^x for x from -121 to -1."""
    about = floats.add(floats.scaled(float(LOG2_E), x), floats.number(0.5))
    codes = floats.codes(about, _ZERO_POINT)
    nearest = UINT8_CODES.view(np.int8).astype(np.int32) - _ZERO_POINT
    # The floor is the nearest integer, less 1 where that is larger than the number.
    whole = floats.table(codes, nearest.astype(np.float32))
    above = floats.sub(whole, about)
    whole = floats.chosen("GREATER", above, 0, floats.sub(whole, floats.number(1)), whole)
    rest = floats.add(floats.sub(x, floats.scaled(float(LN2_HIGH), whole)), floats.scaled(float(LN2_LOW), whole))
    rest = replace(rest, low=-_REST, high=_REST)
    square = floats.mul(rest, rest)
    made = floats.add(floats.mul(rest, floats.polynomial(square, EXP_ODD)), floats.polynomial(square, EXP_EVEN))
    made = floats.add(floats.mul(square, made), floats.add(rest, floats.number(1)))
    made = floats.chosen("GREATER", above, 0, floats.scaled(0.5, made), made)
    first = np.maximum(nearest, _LEAST_EXPONENT)
    for exponents in (first, nearest - first):
        made = floats.mul(made, floats.table(codes, np.ldexp(np.float32(1), exponents).astype(np.float32)))
    made = replace(made, low=0.0, high=min(made.high, 1.0))
    if x.low < float(LEAST_EXP):
        made = floats.chosen("LESS", x, float(LEAST_EXP), floats.number(0), made)
    return made


def _tail(floats: FloatOperations, magnitude: Packed) -> Packed:
    """Compute erfc for magnitudes from 1 to 11."""
    square = floats.mul(magnitude, magnitude)
    wide = floats.scaled(float(SPLIT), magnitude)
    high = replace(floats.add(floats.sub(magnitude, wide), wide), low=0.0, high=2 * magnitude.high)
    low = floats.sub(magnitude, high)
    both = floats.mul(high, low)
    lost = floats.add(floats.add(floats.sub(floats.mul(high, high), square), both), both)
    lost = floats.add(lost, floats.mul(low, low))
    power = _power(floats, floats.sub(floats.number(0), square))
    power = floats.sub(power, floats.mul(power, lost))
    inverse = floats.div(floats.number(1), square)
    top, bottom = (floats.polynomial(inverse, factors) for factors in ERFC_FAR)
    return floats.mul(power, floats.div(top, floats.mul(magnitude, bottom)))


def _erfc(floats: FloatOperations, x: Packed) -> Packed:
    inner = floats.between(x, -1, 1)
    near = floats.add(floats.mul(inner, floats.polynomial(floats.mul(inner, inner), ERFC_NEAR)), floats.number(1))
    if x.low >= -1 and x.high <= 1:
        return near
    magnitude = extreme(floats.packing, floats.op, x, floats.sub(floats.number(0), x), least=False)
    tail = _tail(floats, floats.between(magnitude, 1, float(MOST_ERFC)))
    tail = floats.chosen("LESS", x, 0, floats.sub(floats.number(2), tail), tail)
    return floats.chosen("GREATER", magnitude, 1, tail, near)


def _tanh(floats: FloatOperations, number: Packed) -> Packed:
    x = floats.between(number, -float(MOST_TANH), float(MOST_TANH))
    square = floats.mul(x, x)
    top, bottom = (floats.polynomial(square, factors) for factors in TANH)
    return floats.div(floats.add(floats.mul(floats.mul(square, x), top), x), bottom)


def _gelu(packing: Packing, op: Operator) -> Packed:
    part, floats = packing.packed(op.inputs[0]), FloatOperations(packing, plain(op), packing.graph.output(op))
    if bool_option(op, "approximate"):
        cube = floats.mul(floats.mul(part, part), part)
        bent = floats.scaled(float(ROOT_TWO_BY_PI), floats.add(part, floats.scaled(float(CUBIC), cube)))
        factor = floats.add(floats.number(1), _tanh(floats, bent))
    else:
        factor = _erfc(floats, floats.scaled(float(ROOT_HALF), part))
    made = floats.mul(floats.scaled(0.5, part), factor)
    high = max(part.high * _MORE, 0.0)
    return replace(made, low=max(made.low, min(_LEAST, 0.0)), high=min(made.high, high))


GELUS: dict[str, Rows] = {"GELU": _gelu}
