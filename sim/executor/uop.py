"""One micro-operation on arrays of beats, with the arithmetic of isa/uop.py."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_hw.isa.uop import Activation, Alu, Multiply, Reduce, Rounding, ShiftSource
from tq_hw.sim.executor.machine import Ints
from tq_hw.sim.executor.unknown import Flags
from tq_hw.sim.golden.fixedpoint import exp_on_negative_values, high_mul, one_over_one_plus_x

__all__ = ["activate", "entry_of", "evaluate", "look_up", "reduce_all", "result_unknown", "shift_of"]

Long = npt.NDArray[np.int64]


def _wrap(x: npt.NDArray[Any]) -> Long:
    return x.astype(np.int64).astype(np.int32).astype(np.int64)


def look_up(table: Ints, which: int, operand: Ints) -> Ints:
    """Look an operand up in table `which`; 0 returns it unchanged."""
    return operand if which == 0 else np.asarray(table[entry_of(which, operand)])


def entry_of(which: int, operand: Ints) -> Ints:
    """Return the table entry that an operand selects in table `which`, 1 to 3."""
    return np.asarray(operand & 511 if which == 3 else (operand & 255) + 256 * (which - 1))


def evaluate(uop: Mapping[str, int], a: Ints, b: Ints, multiplier: Ints | int, shift: Ints | int,
             int16_output: bool) -> Ints:
    """Run stages 2 to 5 on operands after their table lookup.

    `multiplier` and `shift` (-31..31) are the values of the micro-operation's sources, immediate or parameter. Lanes
    are the last axis.
    """
    wide_b = b.astype(np.int64)
    alu, multiply, source = Alu(uop["alu"]), Multiply(uop["multiply"]), ShiftSource(uop["shift_source"])
    x = _alu(alu, a.astype(np.int64), wide_b)
    amount: Long = np.asarray(0, np.int64)
    if source in (ShiftSource.IMMEDIATE, ShiftSource.PARAM):
        amount = np.asarray(shift, np.int64)
    if multiply is Multiply.LOW_B:
        x = _wrap(x * wide_b)
    elif multiply is Multiply.SHL:
        x = _wrap(x << np.maximum(amount, 0))
        amount = np.zeros_like(amount)
    elif multiply is Multiply.SHL_B:
        x = _wrap(x << (wide_b & 31))
    elif multiply is Multiply.SHL_B_SATURATE:
        x = np.clip(x << (wide_b & 31), -1 << 31, (1 << 31) - 1)
    elif multiply is not Multiply.NONE:
        m = wide_b if multiply is Multiply.HIGH_B else np.asarray(multiplier, np.int64)
        x = _high_product(x, m, bool(uop["truncate"]))
    right = wide_b & 31 if source is ShiftSource.SHIFT_B else np.maximum(-amount, 0)
    if right.any():
        x = _shift_right(x, right, Rounding(uop["rounding"]))
    if uop["zero_point"]:
        x = _wrap(x + uop["zero_point"])
    if uop["clamp"]:
        low, high = (-1 << 15, (1 << 15) - 1) if int16_output else (uop["act_min"], uop["act_max"])
        x = np.minimum(np.maximum(x, low), high)
    return x.astype(np.int32)


def _high_product(x: Long, m: Long, truncate: bool) -> Long:
    product = x * m
    if truncate:
        return _wrap(product >> 31)
    return np.asarray(np.minimum(product + (1 << 30) >> 31, (1 << 31) - 1))


def _shift_right(x: Long, by: Long, rounding: Rounding) -> Long:
    if rounding is Rounding.FLOOR:
        return x >> by
    half = (1 << by) >> 1
    if rounding is Rounding.HALF_UP:
        return x + half >> by
    # Round half away from zero: a negative value gets just less than half added.
    return x + half - ((x < 0) & (by > 0)) >> by


def _alu(alu: Alu, a: Long, b: Long) -> Long:
    match alu:
        case Alu.PASS:
            x = a
        case Alu.ADD:
            x = a + b
        case Alu.SUB:
            x = a - b
        case Alu.MAX:
            x = np.maximum(a, b)
        case Alu.MIN:
            x = np.minimum(a, b)
        case Alu.CLZ:
            # frexp's exponent is the number of significant bits.
            x = 32 - np.frexp((a + b & 0xFFFFFFFF).astype(np.float64))[1].astype(np.int64)
        case Alu.LESS:
            x = (a < b).astype(np.int64)
        case Alu.LESS_EQUAL:
            x = (a <= b).astype(np.int64)
        case Alu.EQUAL:
            x = (a == b).astype(np.int64)
        case Alu.NOT_EQUAL:
            x = (a != b).astype(np.int64)
        case Alu.AND:
            x = a & b
        case Alu.SELECT_NEGATIVE:
            x = np.where(a >= 0, a, b)
        case Alu.PAIR_DIFFERENCE:
            x = a[..., np.arange(a.shape[-1]) ^ 1] - a
    return _wrap(x)


def shift_of(parameter: Ints) -> Ints:
    """Return the shift that a parameter encodes: its low six bits as a signed number; -32 encodes 0."""
    low = (parameter + 32 & 63) - 32
    return np.asarray(np.where(low == -32, 0, low), np.int32)


def result_unknown(uop: Mapping[str, int], a: Flags, b: Flags, multiplier: Flags, shift: Flags) -> Flags:
    """Return the unknown flags of `evaluate`'s results, given those of operands and parameters."""
    unknown = a
    if uop["alu"] == Alu.PAIR_DIFFERENCE:
        unknown = a | a[..., np.arange(a.shape[-1]) ^ 1]
    takes_b = (uop["alu"] not in (Alu.PASS, Alu.PAIR_DIFFERENCE)
               or uop["multiply"] in (Multiply.HIGH_B, Multiply.LOW_B, Multiply.SHL_B, Multiply.SHL_B_SATURATE)
               or uop["shift_source"] == ShiftSource.SHIFT_B)
    if takes_b:
        unknown = unknown | b
    if uop["multiply"] == Multiply.HIGH_PARAM:
        unknown = unknown | multiplier
    return unknown | shift if uop["shift_source"] == ShiftSource.PARAM else unknown


def activate(function: Activation, x: Ints) -> Ints:
    """Return isa/uop.py's logistic or tanh of any int32."""
    # gemmlowp's 16-bit form with 12 fraction bits ends at 8; the part beyond is a product with e^-8, which is 11 in
    # Q0.15.
    magnitude = np.minimum(np.abs(x.astype(np.int64)), 1 << 16)
    below = np.where(magnitude > 1 << 15, magnitude - (1 << 15), magnitude)
    e = exp_on_negative_values(-below, 3, 16)
    p = one_over_one_plus_x(np.where(magnitude > 1 << 15, high_mul(e, 11, 16), e), 16)
    if function is Activation.LOGISTIC:
        y = np.where(x == 0, 1 << 14, np.where(x < 0, (1 << 15) - 1 - p, p))
    else:
        # p is even, or saturated at 2^15.
        y = np.sign(x) * np.minimum(2 * (p + (p & 1)) - (1 << 15), (1 << 15) - 1)
    return y.astype(np.int32)


def reduce_all(operation: Reduce, x: Ints, last_word_lanes: npt.NDArray[np.bool_]) -> Ints:
    """Reduce x[chunk, word, lane of the word] to one value per chunk.

    `last_word_lanes[lane]` says which lanes of the last word take part.
    """
    neutral = {Reduce.SUM: 0, Reduce.MAX: -1 << 31, Reduce.MIN: (1 << 31) - 1}[operation]
    wide = x.astype(np.int64)
    wide[:, -1] = np.where(last_word_lanes, wide[:, -1], neutral)
    flat = wide.reshape(len(wide), -1)
    if operation is Reduce.SUM:
        return np.asarray(_wrap(flat.sum(axis=1)).astype(np.int32))
    return np.asarray((flat.max(axis=1) if operation is Reduce.MAX else flat.min(axis=1)).astype(np.int32))
