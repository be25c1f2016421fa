"""TFLite Micro's 16-bit logistic and tanh: a table of the logistic with linear interpolation.

Both functions interpolate at the magnitude of the argument, tanh at twice the magnitude, with 9 fraction bits between
two entries. Table 1 has entries and their distances to the next entry. Table 2 has the constants that depend on the
function and the sign.
"""

import numpy as np

from tq_hw.compiler.ir.lstm import Lstm
from tq_hw.compiler.ir.value import IntArray
from tq_hw.compiler.programs.lstm import ActivationProgram
from tq_hw.compiler.programs.lstm_table import activation
from tq_hw.compiler.programs.words import (
    OUT,
    STREAM_B,
    STREAMS,
    Uop,
    immediate,
    immediate_a,
    low,
    reg_a,
    reg_b,
    rescale,
    shifted,
    to,
)
from tq_hw.isa.uop import Alu, Rounding, ShiftSource
from tq_hw.sim.golden.interpolated import logistic_table

__all__ = ["activation_of", "interpolated_activation", "product_uops"]

#: Bits of the distance to the next entry, below the entry.
_STEP_BITS = 10
#: Fraction bits between two entries, and of the gates' sums.
_FRACTION, _GATE_FRACTION = 9, 12
#: Codes of the functions; their low five bits are a right shift.
_LOGISTIC, _TANH, _CELL = 0, 32, 64
#: Offsets from a code in table 2: the addend and the factor for a negative argument, and the distance to those for
#: other arguments.
_ADDEND, _FACTOR, _POSITIVE = 8, 12, 8
_VALUE, _RESULT, _INDEX, _ADDEND_AT, _FACTOR_AT, _ENTRY = range(6)


def _tables(cell_code: int, left: int) -> tuple[IntArray, IntArray]:
    first, second = logistic_table(), np.zeros(256, np.int64)
    steps = np.append(np.diff(first), 0)
    for code, factor, argument in ((_LOGISTIC, 1, 3), (_TANH, 2, 3), (cell_code, 2, 3 << left)):
        second[code] = argument
        second[code + _FACTOR], second[code + _FACTOR + _POSITIVE] = -factor, factor
        # Half a unit, for the rounding of the last shift, and the constant of 1 - p or 2 p - 1.
        one, half = 1 << 25, 1 << 9
        negative, positive = (one + half - 1, half) if factor == 1 else (one + half - 4, half - one)
        second[code + _ADDEND], second[code + _ADDEND + _POSITIVE] = negative, positive
    return first << _STEP_BITS | steps, second


def _uops() -> tuple[Uop, ...]:
    floor = Rounding.FLOOR
    entry = {**reg_a(_INDEX), "a_table": 1}
    factor = {**reg_b(_FACTOR_AT), "b_table": 2}
    return (
        to(_VALUE, STREAMS, low(), b_table=2),
        to(_VALUE, reg_a(_VALUE), STREAM_B, shift_source=ShiftSource.SHIFT_B, rounding=Rounding.HALF_UP),
        to(_ADDEND_AT, immediate_a(-1), reg_b(_VALUE), shifted(3), alu=Alu.LESS,
           zero_point=_ADDEND),
        to(_ADDEND_AT, reg_a(_ADDEND_AT), STREAM_B, alu=Alu.ADD),
        to(_FACTOR_AT, reg_a(_ADDEND_AT), zero_point=_FACTOR - _ADDEND),
        # The magnitude, or twice the magnitude, up to the last entry.
        to(_RESULT, reg_a(_VALUE), factor, low()),
        to(_RESULT, reg_a(_RESULT), immediate(255 << _FRACTION), alu=Alu.MIN),
        to(_INDEX, reg_a(_RESULT), shifted(-_FRACTION, floor)),
        to(_RESULT, reg_a(_RESULT), immediate((1 << _FRACTION) - 1), alu=Alu.AND),
        to(_ENTRY, entry, immediate((1 << _STEP_BITS) - 1), alu=Alu.AND),
        to(_RESULT, reg_a(_RESULT), reg_b(_ENTRY), low()),
        to(_ENTRY, entry, immediate(-1 << _STEP_BITS), shifted(_FRACTION - _STEP_BITS, floor), alu=Alu.AND),
        to(_RESULT, reg_a(_RESULT), reg_b(_ENTRY), alu=Alu.ADD),
        to(_RESULT, reg_a(_RESULT), factor, low()),
        {**reg_a(_RESULT), **reg_b(_ADDEND_AT), "b_table": 2, "alu": Alu.ADD, **shifted(-10, floor), **OUT})


def interpolated_activation(cell_scale_log2: int) -> ActivationProgram:
    """Return the activation of an LSTM whose cell state has this scale, -15..-9."""
    fraction_bits = -cell_scale_log2
    cell_code = _CELL + max(fraction_bits - _GATE_FRACTION, 0)
    left = max(_GATE_FRACTION - fraction_bits, 0)
    return ActivationProgram(_uops(), _tables(cell_code, left), _LOGISTIC, _TANH, cell_code)


def activation_of(layer: Lstm) -> ActivationProgram:
    """Return the program for logistic and tanh of an LSTM."""
    make = interpolated_activation if layer.interpolated else activation
    return make(layer.cell_scale_log2)


def product_uops(layer: Lstm, shift: int) -> list[Uop]:
    """Multiply both streams and shift right: rounded once, or, if interpolated, rounded twice and saturated."""
    product: Uop = {**STREAMS, **low()}
    if not layer.interpolated:
        return [{**product, **shifted(-shift)}]
    return [to(0, product), {**reg_a(0), **rescale(1 << 30, 1 - shift), "clamp": 1}]
