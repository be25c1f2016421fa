"""gemmlowp's 16-bit logistic and tanh as one vector program; a code in stream B selects the function.

This program computes the exponentials. For a cell state with a scale of 2^-13 or more, `lstm_table` looks them up.

All elements are shifted left by `code & 31` to the same number of fraction bits. The other differences come from the
tables, indexed by the code. Micro-operations whose results are needed late fill the waits between the others.
"""

from dataclasses import dataclass

import numpy as np

from tq_hw.compiler.ir.value import IntArray
from tq_hw.compiler.programs.words import (
    OUT,
    SAR,
    SHL,
    STREAM_A,
    STREAM_B,
    STREAMS,
    Uop,
    high16,
    immediate,
    immediate_a,
    low,
    reg_a,
    reg_b,
    rescaled,
    shifted,
    to,
)
from tq_hw.isa.uop import Alu, Multiply, Rounding
from tq_hw.sim.golden.arith import INT32_MIN
from tq_hw.sim.golden.fixedpoint import EXP_EIGHTH, EXP_STEPS, RECIPROCAL_SLOPE, RECIPROCAL_START, THIRD, narrowed

__all__ = ["CLAMP", "ActivationProgram", "clip_uops", "computed_activation", "hidden_uops"]

_INT16_MAX = (1 << 15) - 1
CLAMP: Uop = {"clamp": 1, "act_min": -128, "act_max": 127}

#: Vector registers. Of two names for one register, the second is written after the last read of the first.
_SIGN, _NEGATED, _X, _X2, _X3, _RESULT, _T, _REST = range(8)
_DIRECTION, _NEGATED_HALF, _TO, _LAST = _NEGATED, _X3, _REST, _RESULT
#: Factors of the exponential that are not 0 in 16 bits.
_EXP_STEPS = [(exponent, factor) for exponent, factor in EXP_STEPS if narrowed(factor, 16)]
#: Codes of logistic and tanh, without their shift.
_LOGISTIC, _TANH = 96, 160
#: Range that includes all corrections of the reciprocal's second and third step.
_CORRECTIONS = (-64, 64)
#: Fraction bits of gates; exponentials have those of the cell state doubled.
_GATE_FRACTION = 12


@dataclass(frozen=True)
class ActivationProgram:
    """A program for logistic and tanh of int16.

    Members
    -------
    uops : the program: stream A has the arguments, stream B their codes
    tables : contents of tables 1 and 2
    logistic, tanh, cell : codes of gates, and of the cell state
    """

    uops: tuple[Uop, ...]
    tables: tuple[IntArray, IntArray]
    logistic: int
    tanh: int
    cell: int


def _tables() -> tuple[IntArray, IntArray]:
    """Tables 1 and 2.

    Table 1: at 2^i the factor of step i in Q0.15, at 0 the factor 1, at a code half of the point at which the
    result is mirrored (2^13 or 0).

    Table 2: at a code the quotient's multiplier, at a small number four times that number, which is the correction of
    the second and third step of the reciprocal.
    """
    first, second = np.zeros(256, np.int64), np.zeros(256, np.int64)
    first[0] = 1 << 15
    for index, (_, factor) in enumerate(_EXP_STEPS):
        first[1 << index] = narrowed(factor, 16)
    for number in range(*_CORRECTIONS):
        second[number] = 4 * number
    first[_LOGISTIC:_LOGISTIC + 32] = 1 << 13
    second[_LOGISTIC:_LOGISTIC + 32] = 2
    second[_TANH:_TANH + 32] = 4
    return first, second


def _uops(fraction: int) -> tuple[Uop, ...]:
    """Compute 1 / (1 + e^-a) or tanh(a) of stream A, by the codes in stream B.

    `fraction`: the fraction bits of the exponential's argument.
    """
    quarter = 1 << fraction - 2
    uops = [
        to(_REST, STREAMS, SHL),
        to(_T, STREAM_A, immediate(0), shifted(1), alu=Alu.LESS, zero_point=-1),
        to(_NEGATED, reg_a(_REST), reg_b(_T), low()),
        to(_REST, reg_a(_NEGATED), immediate(quarter - 1), alu=Alu.AND, zero_point=-quarter),
        # Taylor expansion of e^x around -1/8, in Q0.15
        to(_X, reg_a(_REST), immediate(15 - fraction), SHL, zero_point=1 << 12),
        to(_X2, high16(_X, _X)),
        to(_T, high16(_X2, _X2)),
        to(_X3, high16(_X2, _X)),
        to(_REST, reg_a(_REST), reg_b(_NEGATED), alu=Alu.SUB),
        to(_T, reg_a(_T), shifted(-2)),
        to(_REST, reg_a(_REST), immediate(fraction - 2), SAR),
        to(_T, reg_a(_T), reg_b(_X3), alu=Alu.ADD),
        to(_T, high16(_T, constant=narrowed(THIRD, 16))),
        to(_T, reg_a(_T), reg_b(_X2), shifted(-1), alu=Alu.ADD),
        to(_T, reg_a(_T), reg_b(_X), alu=Alu.ADD),
        to(_RESULT, high16(_T, constant=narrowed(EXP_EIGHTH, 16)), zero_point=narrowed(EXP_EIGHTH, 16), clamp=1)]
    # The bits of the argument from 1/4 up, two steps before the product that looks up their factor.
    steps = range(len(_EXP_STEPS))
    places = (_SIGN, _X3, _X2)
    bits = [to(places[index % 3], reg_a(_REST), immediate(1 << index), alu=Alu.AND) for index in steps]
    uops += bits[:2]
    for index in steps:
        uops += bits[index + 2:index + 3]
        uops.append(to(_RESULT, reg_a(_RESULT), reg_b(places[index % 3]), low(),
                       shifted(-15, Rounding.HALF_UP), b_table=1))
    return (*uops, *_reciprocal(), *_mirrored())


def _reciprocal() -> list[Uop]:
    """1 / ((1 + e) / 2) - 1 of e in _RESULT, Q2.13, for a logistic 1 more, to _X; and the operands of `_mirrored`."""
    # The first factor of `1 - half * x` is `-(half << 16) - 1`: this product, rounded down, is the negative of
    # `half * x` rounded to nearest with ties up.
    between = [
        to(_SIGN, STREAM_A, immediate(INT32_MIN), shifted(-30, Rounding.FLOOR), alu=Alu.AND),
        to(_DIRECTION, STREAM_A, immediate(0), alu=Alu.NOT_EQUAL),
        to(_DIRECTION, reg_a(_DIRECTION), reg_b(_SIGN), alu=Alu.ADD),
        to(_TO, immediate_a(1), reg_b(_DIRECTION), shifted(1), alu=Alu.SUB),
        to(_TO, reg_a(_TO), STREAM_B, low(), b_table=1, clamp=1)]
    uops = [
        to(_X2, reg_a(_RESULT), immediate(32767), shifted(-1), alu=Alu.ADD),
        to(_NEGATED_HALF, reg_a(_X2), immediate(-65536), low(), zero_point=-1),
        to(_X, high16(_X2, constant=narrowed(RECIPROCAL_SLOPE, 16)), zero_point=narrowed(RECIPROCAL_START, 16))]
    for step in range(3):
        iteration = [
            to(_T, reg_a(_NEGATED_HALF), reg_b(_X), multiply=Multiply.HIGH_B, zero_point=1 << 13),
            to(_T, high16(_X, _T)),
            *([to(_T, reg_a(_T), immediate(2), SHL, clamp=1)] if step == 0 else []),
            to(_X, reg_a(_LAST if step == 2 else _X), reg_b(_T), alu=Alu.ADD, b_table=2 if step else 0)]
        if step == 2:
            between.append(to(_LAST, reg_a(_X), STREAM_B, b_table=1, alu=Alu.ADD, zero_point=-(1 << 13)))
        for uop in iteration:
            uops += [uop, *between[:1]]
            del between[:1]
    return uops


def _mirrored() -> list[Uop]:
    """Mirror p for arguments up to 0: logistic 1 - p, and 1/2 at 0; tanh -p, and 0 at 0.

    The result is p times the direction (1, 0, -1) plus _TO, which is 0, 2^14 or 2^15 - 1 for a logistic, 0 for tanh.
    """
    return [
        to(_X, reg_a(_X), STREAM_B, low(), b_table=2, clamp=1),
        to(_X, reg_a(_X), reg_b(_DIRECTION), low()),
        {**reg_a(_X), **reg_b(_TO), "alu": Alu.ADD, **OUT}]


def computed_activation(cell_scale_log2: int) -> ActivationProgram:
    """Return the activation for a cell state of scale 2^-14 or 2^-15: its range is not larger than that of gates."""
    fraction = -1 - cell_scale_log2
    shift = fraction - _GATE_FRACTION
    return ActivationProgram(_uops(fraction), _tables(), _LOGISTIC + shift, _TANH + shift + 1, _TANH)


def clip_uops(total: Uop, clip: int | None) -> tuple[Uop, ...]:
    """Output an int16 sum, clipped to magnitude `clip` unless that is None."""
    if clip is None:
        return ({**total, **CLAMP, **OUT},)
    above = () if clip == _INT16_MAX else (to(0, reg_a(0), immediate(clip), alu=Alu.MIN),)
    return (to(0, {**total, **CLAMP}), *above, {**reg_a(0), **immediate(-clip), "alu": Alu.MAX, **OUT})


def hidden_uops(multiplier: int, shift: int, zero_point: int) -> tuple[Uop, ...]:
    """Compute the hidden state: the output gate times the activated cell state, rescaled."""
    return (to(0, STREAMS, low()),
            *rescaled({**reg_a(0), "zero_point": zero_point, **CLAMP, **OUT}, multiplier, shift, 0))
