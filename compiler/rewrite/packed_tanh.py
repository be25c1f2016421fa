"""TANH, ELU and SIGN of packed numbers, in the steps of glibc's `expm1f` and `tanhf` (`sim/golden/libm.py`).

expm1f has special cases for some multiples of ln 2. Here one expression covers them all, with constants that are looked
up by the multiple. From 22 ln 2 on expm1f rounds differently, but the results of TANH and ELU no longer change there.
"""

from dataclasses import replace

import numpy as np

from tq_hw.compiler.rewrite.float_operations import FloatOperations
from tq_hw.compiler.rewrite.packed_elements import extreme
from tq_hw.compiler.rewrite.packing import Packed, Packing, Rows, plain
from tq_hw.model.graph import Operator
from tq_hw.sim.golden.arith import UINT8_CODES
from tq_hw.sim.golden.libm import EXPM1, INV_LN2, LN2_HI, LN2_LO, Float32

__all__ = ["TANHS"]

#: TANH is 1 from here on, and ELU of a negative number is -1.
_MOST_TANH, _MOST_ELU = 9.5, 20.0
#: Multiples of ln 2 by unsigned code; numbers between -20 and 19 are reduced by some of them.
_MULTIPLES = np.clip(UINT8_CODES.view(np.int8).astype(np.int32), -29, 28)
#: Bounds of the remainder, a little more than ln 2 / 2, and of its rounding error.
_REST, _LOST = 0.36, 2.0**-20
#: Exceeds e^x - 1 for x up to 19.
_MOST_POWER = 2.0**28


def _less_one(floats: FloatOperations, magnitude: Packed, sign: Packed) -> Packed:
    """Compute e^x - 1 for x from -20 to 19, given as magnitude and sign (1 or -1)."""
    one, half, k = floats.number(1), floats.number(0.5), _MULTIPLES
    about = floats.sub(floats.add(floats.scaled(float(INV_LN2), magnitude), half), half)
    codes = floats.codes(floats.mul(about, sign), 0)

    def by_multiple(values: Float32) -> Packed:
        return floats.table(codes, values.astype(np.float32))

    low = by_multiple(k.astype(np.float32) * LN2_LO)
    high = floats.sub(floats.mul(magnitude, sign), by_multiple(k.astype(np.float32) * LN2_HI))
    rest = replace(floats.sub(high, low), low=-_REST, high=_REST)
    lost = replace(floats.sub(floats.sub(high, rest), low), low=-_LOST, high=_LOST)
    halved = floats.scaled(0.5, rest)
    square = replace(floats.mul(rest, halved), low=0.0)
    near = floats.add(one, floats.mul(square, floats.polynomial(square, EXPM1[::-1])))
    slope = floats.sub(floats.number(3), floats.mul(near, halved))
    ratio = floats.div(floats.sub(near, slope), floats.sub(floats.number(6), floats.mul(rest, slope)))
    error = floats.sub(floats.mul(rest, floats.sub(floats.mul(square, ratio), lost)), lost)
    made = floats.sub(rest, floats.sub(error, square))
    powers = np.ldexp(np.float32(1), k)
    before = np.where(k > 0, 1 - 1 / powers, np.where(k < -1, 1, 0))
    made = floats.mul(floats.add(by_multiple(before), made), by_multiple(powers))
    made = floats.sub(made, by_multiple(np.where(k < -1, 1, np.where(k == -1, 0.5, 0))))
    return replace(made, low=-1.0, high=_MOST_POWER)


def _tanh(packing: Packing, op: Operator) -> Packed:
    """Compute 1 - 2 / (e^2x + 1) from 1 on and (1 - e^-2x) / (1 + e^-2x) below, both from e^y - 1."""
    part, floats = packing.packed(op.inputs[0]), FloatOperations(packing, plain(op), packing.graph.output(op))
    zero, one, two = floats.number(0), floats.number(1), floats.number(2)
    magnitude = extreme(packing, floats.op, part, floats.sub(zero, part), least=False)
    magnitude = floats.between(replace(magnitude, low=max(magnitude.low, 0.0)), 0, _MOST_TANH)
    sign = floats.chosen("GREATER_EQUAL", magnitude, 1, one, floats.number(-1))
    power = _less_one(floats, floats.add(magnitude, magnitude), sign)
    top = floats.chosen("GREATER_EQUAL", magnitude, 1, two, floats.sub(zero, power))
    ratio = floats.mul(sign, floats.div(top, floats.add(power, two)))
    made = floats.sub(floats.chosen("GREATER_EQUAL", magnitude, 1, one, zero), ratio)
    made = floats.mul(made, floats.chosen("LESS", part, 0, floats.number(-1), one))
    return replace(made, low=-1.0 if part.low < 0 else 0.0, high=1.0 if part.high > 0 else 0.0)


def _elu(packing: Packing, op: Operator) -> Packed:
    part, floats = packing.packed(op.inputs[0]), FloatOperations(packing, plain(op), packing.graph.output(op))
    zero = floats.number(0)
    magnitude = floats.sub(zero, floats.between(part, -_MOST_ELU, 0))
    power = replace(_less_one(floats, replace(magnitude, low=0.0), floats.number(-1)), high=0.0)
    return floats.chosen("LESS", part, 0, power, part)


def _sign(packing: Packing, op: Operator) -> Packed:
    part, floats = packing.packed(op.inputs[0]), FloatOperations(packing, plain(op), packing.graph.output(op))
    below = floats.chosen("LESS", part, 0, floats.number(-1), floats.number(0))
    made = floats.chosen("GREATER", part, 0, floats.number(1), below)
    return replace(made, low=-1.0 if part.low < 0 else 0.0, high=1.0 if part.high > 0 else 0.0)


TANHS: dict[str, Rows] = {"TANH": _tanh, "ELU": _elu, "SIGN": _sign}
