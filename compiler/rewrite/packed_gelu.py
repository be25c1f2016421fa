"""GELU of packed numbers: sums, products and quotients in Eigen's order, which `sim/golden/gelu_float.py` reproduces.

A power of two is looked up by its exponent and applied as two factors; only the last product can be subnormal, so it is
rounded once. Packed numbers have only positive divisors, so the tail of erfc is computed for the magnitude and the sign
restored afterwards: float32 sums, products and quotients have the same fraction for either sign.
"""

from dataclasses import replace

import numpy as np

from tq_hw.compiler.rewrite.packed_elements import extreme
from tq_hw.compiler.rewrite.packed_steps import Steps
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


def _power(steps: Steps, x: Packed) -> Packed:
    """Compute e^x for x from -121 to -1."""
    about = steps.add(steps.scaled(float(LOG2_E), x), steps.number(0.5))
    codes = steps.codes(about, _ZERO_POINT)
    nearest = UINT8_CODES.view(np.int8).astype(np.int32) - _ZERO_POINT
    # The floor is the nearest integer, less 1 where that is larger than the number.
    whole = steps.table(codes, nearest.astype(np.float32))
    above = steps.sub(whole, about)
    whole = steps.chosen("GREATER", above, 0, steps.sub(whole, steps.number(1)), whole)
    rest = steps.add(steps.sub(x, steps.scaled(float(LN2_HIGH), whole)), steps.scaled(float(LN2_LOW), whole))
    rest = replace(rest, low=-_REST, high=_REST)
    square = steps.mul(rest, rest)
    made = steps.add(steps.mul(rest, steps.polynomial(square, EXP_ODD)), steps.polynomial(square, EXP_EVEN))
    made = steps.add(steps.mul(square, made), steps.add(rest, steps.number(1)))
    made = steps.chosen("GREATER", above, 0, steps.scaled(0.5, made), made)
    first = np.maximum(nearest, _LEAST_EXPONENT)
    for exponents in (first, nearest - first):
        made = steps.mul(made, steps.table(codes, np.ldexp(np.float32(1), exponents).astype(np.float32)))
    made = replace(made, low=0.0, high=min(made.high, 1.0))
    if x.low < float(LEAST_EXP):
        made = steps.chosen("LESS", x, float(LEAST_EXP), steps.number(0), made)
    return made


def _tail(steps: Steps, magnitude: Packed) -> Packed:
    """Compute erfc for magnitudes from 1 to 11."""
    square = steps.mul(magnitude, magnitude)
    wide = steps.scaled(float(SPLIT), magnitude)
    high = replace(steps.add(steps.sub(magnitude, wide), wide), low=0.0, high=2 * magnitude.high)
    low = steps.sub(magnitude, high)
    both = steps.mul(high, low)
    lost = steps.add(steps.add(steps.sub(steps.mul(high, high), square), both), both)
    lost = steps.add(lost, steps.mul(low, low))
    power = _power(steps, steps.sub(steps.number(0), square))
    power = steps.sub(power, steps.mul(power, lost))
    inverse = steps.div(steps.number(1), square)
    top, bottom = (steps.polynomial(inverse, factors) for factors in ERFC_FAR)
    return steps.mul(power, steps.div(top, steps.mul(magnitude, bottom)))


def _erfc(steps: Steps, x: Packed) -> Packed:
    inner = steps.between(x, -1, 1)
    near = steps.add(steps.mul(inner, steps.polynomial(steps.mul(inner, inner), ERFC_NEAR)), steps.number(1))
    if x.low >= -1 and x.high <= 1:
        return near
    magnitude = extreme(steps.packing, steps.op, x, steps.sub(steps.number(0), x), least=False)
    tail = _tail(steps, steps.between(magnitude, 1, float(MOST_ERFC)))
    tail = steps.chosen("LESS", x, 0, steps.sub(steps.number(2), tail), tail)
    return steps.chosen("GREATER", magnitude, 1, tail, near)


def _tanh(steps: Steps, number: Packed) -> Packed:
    x = steps.between(number, -float(MOST_TANH), float(MOST_TANH))
    square = steps.mul(x, x)
    top, bottom = (steps.polynomial(square, factors) for factors in TANH)
    return steps.div(steps.add(steps.mul(steps.mul(square, x), top), x), bottom)


def _gelu(packing: Packing, op: Operator) -> Packed:
    part, steps = packing.packed(op.inputs[0]), Steps(packing, plain(op), packing.graph.output(op))
    if bool_option(op, "approximate"):
        cube = steps.mul(steps.mul(part, part), part)
        bent = steps.scaled(float(ROOT_TWO_BY_PI), steps.add(part, steps.scaled(float(CUBIC), cube)))
        factor = steps.add(steps.number(1), _tanh(steps, bent))
    else:
        factor = _erfc(steps, steps.scaled(float(ROOT_HALF), part))
    made = steps.mul(steps.scaled(0.5, part), factor)
    high = max(part.high * _MORE, 0.0)
    return replace(made, low=max(made.low, min(_LEAST, 0.0)), high=min(made.high, high))


GELUS: dict[str, Rows] = {"GELU": _gelu}
