"""gemmlowp's 16-bit logistic and tanh by a table of exponentials; `activation` chooses this program or that of `lstm`.

A table replaces the part of `lstm` that computes the exponential of an argument modulo 1/4: at 12 fraction bits it has
1,024 exponentials of 16 bits, two an entry. Sums of products are updated instead of multiplied again. The step of the
reciprocal that can only correct by 4 is a comparison. 19 micro-operations wait for another's result, down from 33.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tq_hw.compiler.ir.value import IntArray
from tq_hw.compiler.programs.lstm import ActivationProgram, computed_activation
from tq_hw.compiler.programs.words import (
    OUT,
    SHL,
    SHL_SATURATE,
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

#: Fraction bits of the exponentials' arguments, and the least scale of a cell state that they suffice for.
_FRACTION = 12
_LEAST_SCALE_LOG2 = -1 - _FRACTION
_HALF = 16
_LOW = (1 << _HALF) - 1
#: e^-(2^k) in Q0.15 for k = -2..3.
_FACTORS = {exponent: narrowed(factor, 16) for exponent, factor in EXP_STEPS if narrowed(factor, 16)}
_ONE = 1 << 15
#: Codes without the left shift of the argument: 32 times the slope.
_LOGISTIC, _TANH = 32, 64
#: 48/17 and -32/17 in Q2.13.
_START, _SLOPE = narrowed(RECIPROCAL_START, 16), narrowed(RECIPROCAL_SLOPE, 16)
#: 1 / (3 * 2^17) in Q0.43, cut so that its product with 2^30 ends in exactly one half. The last step of the reciprocal
#: corrects x by 4 where a sum is at least half of 3 * 2^17 from 2^30; no sum that occurs is close to that limit.
_THIRD_BITS = 12
_THIRD = 5461 << _THIRD_BITS


def _tables() -> tuple[IntArray, IntArray]:
    """Negatives of e^-(n / 2^12), n = 1..1024, at index `(n - 1) >> 1`; an odd n is in the low half."""
    negative = -exp_on_negative_values(-np.arange(1, 1025), 15 - _FRACTION, 16)
    entries = (negative[1::2] << _HALF) | (negative[::2] & _LOW)
    return entries[:256], entries[256:]


@dataclass(frozen=True)
class _Step:
    """A micro-operation whose operands are fields or named results of other steps."""

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
    """16 if the argument's bit of weight 2^exponent is set, else 0."""
    at = _FRACTION - 1 + exponent
    return _alu(f"bit {exponent}", "u", Alu.AND, immediate(1 << at), **_floor(4 - at))


def _factor(exponent: int, offset: int = 0) -> _Step:
    """The negated factor of a set bit, or minus one; with an offset, not negated."""
    one, factor = (offset + _ONE, offset + _FACTORS[exponent]) if offset else (-_ONE, -_FACTORS[exponent])
    return _alu(f"factor {exponent}", immediate_a(one << _HALF | factor & _LOW), Alu.PASS, f"bit {exponent}",
                **SHL, **_floor(-_HALF), zero_point=-offset)


def _taken(exponent: int, of: str, positive: bool) -> _Step:
    """Multiply by the factor; the operand's sign alternates, and ties of the positive product round up."""
    return _times(f"exp {exponent}", of, f"factor {exponent}", -15,
                  Rounding.HALF_UP if positive else Rounding.HALF_AWAY)


def _chain() -> Sequence[_Step]:
    """All micro-operations, in an order that loses few cycles and needs 8 registers.

    - `u`: (|argument| - 1) >> 1, at most 2^15 - 1, whose exponential is 0
    - `slope`: the argument's sign or 0, doubled for tanh
    - `middle`: added to the product with `slope`; for a logistic 2^14, less 1 for a negative argument
    - `half`: (1 + e) / 2
    - `sum`: -4 times the product of `half` and x; -2^30 for an exact reciprocal
    """
    return [
        _alu("argument", STREAM_A, Alu.PASS, STREAM_B, **SHL),
        _alu("sign", STREAM_A, Alu.PASS, immediate(31), **SHL_SATURATE, **shifted(-31)),
        _alu("logistic", immediate_a(_LOGISTIC), Alu.AND, STREAM_B, **shifted(9)),
        _times("u", "argument", "sign", -1, Rounding.HALF_UP, zero_point=-1, clamp=1),
        _alu("odd", "argument", Alu.AND, immediate(1), **shifted(4)),
        _bit(-2), _bit(-1), _bit(3),
        _alu("exp", "u", Alu.PASS, "odd", a_table=3, **SHL, **_floor(-_HALF)),
        _factor(-2), _bit(0), _factor(-1), _factor(3, 1 - _ONE), _taken(-2, "exp", True), _bit(2), _factor(0), _bit(1),
        _taken(-1, "exp -2", False),
        _alu("twice factor 3", "factor 3", Alu.PASS, {}, **shifted(1)),
        _factor(2), _factor(1), _taken(0, "exp -1", True),
        # One factor for the bits 4 and 8: if both are set, the product of their factors, 11 * 600, gives 0, too.
        _times("factors", "factor 2", "twice factor 3"),
        _taken(1, "exp 0", False),
        _times("middle less", "sign", "logistic", -15),
        _Step("half", "exp 1", "factors", {"multiply": Multiply.HIGH_B, **_floor(-1), "zero_point": 1 << 14}),
        _times("slope", "sign", STREAM_B, -5, Rounding.HALF_AWAY),
        _times("half 4", "half", immediate(-4)),
        _Step("x", "half", {}, {"multiply": Multiply.HIGH_IMMEDIATE, "immediate": _SLOPE << 16, **shifted(0),
                                "zero_point": _START}),
        _alu("middle", "logistic", Alu.ADD, "middle less"),
        _times("error", "x", "half 4", -17, Rounding.HALF_AWAY, zero_point=1 << 13),
        _alu("half 16", "half 4", Alu.PASS, {}, **shifted(2)),
        _times("m", "x", "error", -15, Rounding.HALF_UP),
        _alu("m 4", "m", Alu.PASS, {}, **shifted(2)),
        _times("sum", "x", "half 4"),
        _times("sum by m", "m", "half 16"),
        _alu("x 1", "x", Alu.ADD, "m 4"),
        _alu("twice x 1 less", "x", Alu.ADD, "m 4", **shifted(1), zero_point=-(1 << 14)),
        _alu("error 1", "sum", Alu.ADD, "sum by m", **shifted(-17), zero_point=1 << 13),
        _alu("sum 1", "sum", Alu.ADD, "sum by m"),
        _alu("slope 8", "slope", Alu.PASS, {}, **shifted(3)),
        _times("m 1", "x 1", "error 1", -15, Rounding.HALF_UP),
        _times("result", "twice x 1 less", "slope"),
        _times("sum by m 1", "m 1", "half 16"),
        _times("result by m 1", "m 1", "slope 8"),
        _alu("result 0", "result", Alu.ADD, "middle"),
        _alu("m 2", "sum 1", Alu.ADD, "sum by m 1", multiply=Multiply.HIGH_IMMEDIATE, immediate=_THIRD, truncate=1,
             **_floor(-_THIRD_BITS), zero_point=(_THIRD >> _THIRD_BITS) + 1 >> 1),
        # Subtract 1 here and add it below, with a clamp each: a tanh of -32768 becomes -32767.
        _alu("result 1", "result 0", Alu.ADD, "result by m 1", zero_point=-1, clamp=1),
        _times("result by m 2", "m 2", "slope 8"),
        _alu("", "result 1", Alu.ADD, "result by m 2", zero_point=1, clamp=1)]


def _allocated(steps: Sequence[_Step]) -> tuple[Uop, ...]:
    """Allocate the first free register to each result."""
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
    """Return the logistic and tanh for an LSTM whose cell state has this scale."""
    if cell_scale_log2 < _LEAST_SCALE_LOG2:
        return computed_activation(cell_scale_log2)
    return ActivationProgram(_allocated(_chain()), _tables(), _LOGISTIC, _TANH + 1,
                      _TANH + cell_scale_log2 - _LEAST_SCALE_LOG2)
