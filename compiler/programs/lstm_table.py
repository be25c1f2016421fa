"""gemmlowp's 16-bit logistic and tanh by a table of exponentials; `activation` chooses between this and another.

What the program of `lstm_programs` computes of the last quarter of an argument, a table has here: with 12 fraction
bits 1,024 exponentials of 16 bits, two in an entry. Sums of products are updated instead of multiplied again, and the
step of the reciprocal that can only correct by 4 is a comparison: 19 micro-operations wait for each other, not 33.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tq_hw.compiler.ir.value import IntArray
from tq_hw.compiler.programs.lstm import ActivationProgram, computed_activation
from tq_hw.compiler.programs.words import (
    OUT,
    STREAM_A,
    STREAM_B,
    Uop,
    immediate,
    immediate_a,
    low,
    reg_a,
    reg_b,
    shifted,
    to,
)
from tq_hw.isa.uop import VECTOR_REGISTERS, Alu, Multiply, Rounding
from tq_hw.sim.golden.fixedpoint import (
    EXP_STEPS,
    RECIPROCAL_SLOPE,
    RECIPROCAL_START,
    exp_on_negative_values,
    narrowed,
)

__all__ = ["activation"]

#: Fraction bits that the exponentials' arguments are brought to, and the least scale of cells of which that is true.
_FRACTION = 12
_LEAST_SCALE_LOG2 = -1 - _FRACTION
_HALF = 16
_LOW = (1 << _HALF) - 1
#: e^-(2^k) in Q0.15 for k = -2..3.
_FACTORS = {exponent: narrowed(factor, 16) for exponent, factor in EXP_STEPS if narrowed(factor, 16)}
_ONE = 1 << 15
#: Codes without the left shift of an argument; 32 times the slope.
_LOGISTIC, _TANH = 32, 64
#: 48/17 and -32/17 in Q2.13.
_START, _SLOPE = narrowed(RECIPROCAL_START, 16), narrowed(RECIPROCAL_SLOPE, 16)
#: 1 / (3 * 2^17) in Q0.43, so that of 2^30 a half is left over. From half of 3 * 2^17 on, a sum's distance from 2^30
#: has x corrected by 4 in the last step of the reciprocal; none that occurs is near.
_THIRD_BITS = 12
_THIRD = 5461 << _THIRD_BITS


def _tables() -> tuple[IntArray, IntArray]:
    """At `(n - 1) >> 1` the negatives of e^-(n / 2^12) for n = 1..1024, of an odd n in the low half."""
    negative = -exp_on_negative_values(-np.arange(1, 1025), 15 - _FRACTION, 16)
    entries = (negative[1::2] << _HALF) | (negative[::2] & _LOW)
    return entries[:256], entries[256:]


@dataclass(frozen=True)
class _Step:
    """A micro-operation whose operands are fields, or the results of others."""

    result: str
    a: str | Uop
    b: str | Uop = field(default_factory=dict)
    fields: Uop = field(default_factory=dict)


def _alu(result: str, a: str | Uop, alu: Alu, b: str | Uop, **fields: int) -> _Step:
    return _Step(result, a, b, {"alu": alu, **fields})


def _times(result: str, a: str, b: str | Uop, shift: int = 0, rounding: Rounding = Rounding.FLOOR,
           **fields: int) -> _Step:
    return _Step(result, a, b, {**low(), **(shifted(shift, rounding) if shift else {}), **fields})


def _floor(shift: int) -> Uop:
    return shifted(shift, Rounding.FLOOR)


def _bit(exponent: int) -> _Step:
    """16 if 2^exponent is in the argument, else 0."""
    at = _FRACTION - 1 + exponent
    return _alu(f"bit {exponent}", "u", Alu.AND, immediate(1 << at), **_floor(4 - at))


def _factor(exponent: int, offset: int = 0) -> _Step:
    """Minus the factor of a bit, or minus one; with an offset plus."""
    one, factor = (offset + _ONE, offset + _FACTORS[exponent]) if offset else (-_ONE, -_FACTORS[exponent])
    return _alu(f"factor {exponent}", immediate_a(one << _HALF | factor & _LOW), Alu.SHL, f"bit {exponent}",
                **_floor(-_HALF), zero_point=-offset)


def _taken(exponent: int, of: str, positive: bool) -> _Step:
    """Product with the factor, whose halves round up, as its sign is the other's."""
    return _times(f"exp {exponent}", of, f"factor {exponent}", -15,
                  Rounding.HALF_UP if positive else Rounding.HALF_AWAY)


def _chain() -> Sequence[_Step]:
    """All micro-operations, in an order in which few cycles are lost and 8 registers suffice.

    `u` is (|argument| - 1) >> 1, at most 2^15 - 1: its exponential is 0. `slope` is the argument's sign or 0,
    for tanh twice that. What is added to the product with it is `middle`: for a logistic 2^14, less 1 for a negative
    argument. `half` is (1 + e) / 2, `sum` -4 times its product with x, -2^30 for an exact reciprocal.
    """
    return [
        _alu("argument", STREAM_A, Alu.SHL, STREAM_B),
        _alu("sign", STREAM_A, Alu.SHL_SATURATE, immediate(31), **shifted(-31)),
        _alu("odd", "argument", Alu.AND, immediate(1), **shifted(4)),
        _alu("logistic", immediate_a(_LOGISTIC), Alu.AND, STREAM_B, **shifted(9)),
        _times("u", "argument", "sign", -1, Rounding.HALF_UP, zero_point=-1, clamp=1),
        _times("middle less", "sign", "logistic", -15),
        _bit(0), _bit(-2),
        _alu("exp", "u", Alu.SHL, "odd", a_table=3, **_floor(-_HALF)),
        _factor(-2), _bit(-1), _taken(-2, "exp", True), _factor(-1), _factor(0), _bit(1), _taken(-1, "exp -2", False),
        _bit(2), _bit(3), _taken(0, "exp -1", True), _factor(3, 1 - _ONE), _factor(2), _factor(1),
        # Both large factors in one: the product of four, 11 * 600, gives 0 as well.
        _times("factors", "factor 2", "factor 3", 1),
        _taken(1, "exp 0", False),
        _Step("half", "exp 1", "factors", {"multiply": Multiply.HIGH_B, **_floor(-1), "zero_point": 1 << 14}),
        _alu("middle", "logistic", Alu.ADD, "middle less"),
        _times("half 4", "half", immediate(-4)),
        _Step("x", "half", {}, {"multiply": Multiply.HIGH_IMMEDIATE, "immediate": _SLOPE << 16, **shifted(0),
                                "zero_point": _START}),
        _times("error", "x", "half 4", -17, Rounding.HALF_AWAY, zero_point=1 << 13),
        _times("slope", "sign", STREAM_B, -5, Rounding.HALF_AWAY),
        _times("m", "x", "error", -15, Rounding.HALF_UP),
        _times("sum", "x", "half 4"),
        _alu("m 4", "m", Alu.PASS, {}, **shifted(2)),
        _times("sum by m", "m", "half 4", 2),
        _alu("x 1 less", "x", Alu.ADD, "m 4", zero_point=-(1 << 13)),
        _alu("x 1", "x", Alu.ADD, "m 4"),
        _alu("error 1", "sum", Alu.ADD, "sum by m", **shifted(-17), zero_point=1 << 13),
        _alu("sum 1", "sum", Alu.ADD, "sum by m"),
        _times("m 1", "x 1", "error 1", -15, Rounding.HALF_UP),
        _times("result", "x 1 less", "slope", 1),
        _times("sum by m 1", "m 1", "half 4", 2),
        _alu("result 0", "result", Alu.ADD, "middle"),
        _alu("m 2", "sum 1", Alu.ADD, "sum by m 1", multiply=Multiply.HIGH_IMMEDIATE, immediate=_THIRD, truncate=1,
             **_floor(-_THIRD_BITS), zero_point=(_THIRD >> _THIRD_BITS) + 1 >> 1),
        _times("result by m 1", "m 1", "slope", 3),
        _times("result by m 2", "m 2", "slope", 3),
        # One less here and one more there: a tanh of -32768 becomes -32767.
        _alu("result 1", "result 0", Alu.ADD, "result by m 1", zero_point=-1, clamp=1),
        _alu("", "result 1", Alu.ADD, "result by m 2", zero_point=1, clamp=1)]


def _allocated(steps: Sequence[_Step]) -> tuple[Uop, ...]:
    """Give each result the first register that is free."""
    last = {name: number for number, step in enumerate(steps) for name in (step.a, step.b) if isinstance(name, str)}
    places: dict[str, int] = {}
    uops = []
    for number, step in enumerate(steps):
        a = reg_a(places[step.a]) if isinstance(step.a, str) else step.a
        b = reg_b(places[step.b]) if isinstance(step.b, str) else step.b
        places = {name: place for name, place in places.items() if last[name] > number}
        if step.result:
            places[step.result] = min(set(range(VECTOR_REGISTERS)) - set(places.values()))
            uops.append(to(places[step.result], a, b, step.fields))
        else:
            uops.append({**a, **b, **step.fields, **OUT})
    return tuple(uops)


def activation(cell_scale_log2: int) -> ActivationProgram:
    """Return the logistic and tanh of an LSTM whose cells have this scale."""
    if cell_scale_log2 < _LEAST_SCALE_LOG2:
        return computed_activation(cell_scale_log2)
    return ActivationProgram(_allocated(_chain()), _tables(), _LOGISTIC, _TANH + 1,
                      _TANH + cell_scale_log2 - _LEAST_SCALE_LOG2)
