"""Programs that rescale the sums of two byte planes to int16.

The accumulators have the sums of the low plane, stream A those of the high plane. A 48-bit sum is s = 256 H + L with L
in 0..255, and the result is `(s * m + 2^(n-1)) >> n`, m of 15 bits. With t = n - 8 and

    H * m + (L * m >> 8) = 2^15 * P + q, q in 0..2^15-1

this is `(2^15 * P + q + 2^(t-1)) >> t`: P shifted left by 15 - t plus q shifted right by t, rounded half up; or, for t
of more than 15, P shifted right and rounded half up, to which q adds 0. The result, wrapped at 32 bits, is the
kernel's, because each step is exact or wraps.
"""

import numpy as np

from tq_hw.compiler.ir.value import IntArray
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
    rescaled_by_channel,
    shifted,
    to,
)
from tq_hw.isa.uop import Alu, Multiply, Rounding, ShiftSource, Source

__all__ = ["clamped", "combine_high", "combine_middle", "high_sums", "packed_multipliers", "reduced", "rescale_double",
           "rescale_narrow", "rescale_split", "rescale_wide", "wide_parameters"]

_INT16 = (-(1 << 15), (1 << 15) - 1)
_SUM: Uop = {"a_source": Source.ACC_OR_BIAS, "b_source": Source.ACC_OR_BIAS, "alu": Alu.ADD}
_FLOOR = Rounding.FLOOR


def high_sums(*, shifts: bool = False, most: int | None = None) -> list[Uop]:
    """Output the sums of the high plane; with `shifts` 256 times them, within +-256 `most`, plus the whole bias."""
    if shifts:
        total: Uop = {**reg_a(0), "b_source": Source.ACC_OR_BIAS, "alu": Alu.ADD, **OUT}
        acc: Uop = {"a_source": Source.ACC_OR_BIAS}
        if most is None:
            return [to(0, acc, shifted(8)), total]
        return [to(0, acc, immediate(-most), alu=Alu.MAX), to(0, reg_a(0), immediate(most), shifted(8), alu=Alu.MIN),
                total]
    return [_SUM | OUT]


def clamped(uops: list[Uop], act_min: int, act_max: int) -> list[Uop]:
    """Return micro-operations whose last one's result is clamped to an activation and written."""
    *before, last = uops
    if (act_min, act_max) == _INT16:
        return [*before, last | {"clamp": 1} | OUT]
    return [*before, to(0, last), to(0, reg_a(0), immediate(act_min), alu=Alu.MAX),
            {**reg_a(0), **immediate(act_max), "alu": Alu.MIN, **OUT}]


def rescale_narrow(act_min: int, act_max: int, *, once: bool, left: bool) -> list[Uop]:
    """Rescale the int32 sum by the channel's parameters: rounded `once`, half up, or as MultiplyByQuantizedMultiplier.

    `left`: whether a channel has a left shift. Once: `(s * m + 2^(n-1)) >> n` is the high product of s and m * 2^16,
    truncated, then shifted right by n - 15 and rounded half up.
    """
    rounding: Uop = {"truncate": 1, "rounding": Rounding.HALF_UP} if once else {"rounding": Rounding.HALF_AWAY}
    return [to(0, _SUM), to(1, STREAM_A, shifted(8)),
            *clamped(rescaled_by_channel({**reg_a(1), **reg_b(0), "alu": Alu.ADD, **rounding}, 1, left=left),
                     act_min, act_max)]


def rescale_double(right: int, act_min: int, act_max: int) -> list[Uop]:
    """Multiply the int32 sum by multipliers of two words, rounded half up.

    The upper word is both the multiplier and the bias of the parameter block, the lower word stream B. Stream A has 256
    times the sums of the high plane. The carry out of the low 31 bits is computed without their last two.
    """
    return [
        to(0, {"a_source": Source.ACC_OR_BIAS}),
        to(0, STREAM_A, reg_b(0), alu=Alu.ADD),
        to(1, reg_a(0), STREAM_B, {"multiply": Multiply.HIGH_B, "truncate": 1}),
        to(2, reg_a(0), {"multiply": Multiply.HIGH_PARAM, "truncate": 1}),
        to(0, reg_a(0), {"b_source": Source.ACC_OR_BIAS}, low()),
        to(0, reg_a(0), immediate((1 << 31) - 1), shifted(-2, _FLOOR), alu=Alu.AND),
        to(0, reg_a(0), reg_b(1), shifted(-29, _FLOOR), alu=Alu.ADD),
        *clamped([{**reg_a(2), **reg_b(0), "alu": Alu.ADD, **shifted(-right, Rounding.HALF_UP)}], act_min, act_max)]


def rescale_wide(act_min: int, act_max: int, *, left: bool) -> list[Uop]:
    """Compute `multiply_wide` of the sum; stream B has `packed_multipliers`, the parameters are `wide_parameters`.

    `left`: whether a channel's shift in `wide_parameters` is positive.
    """
    upper = to(3, reg_a(3), reg_b(0), alu=Alu.ADD)
    right: Uop = {"shift_source": ShiftSource.PARAM, "rounding": Rounding.HALF_UP}
    return [
        to(0, _SUM),
        to(1, reg_a(0), shifted(-8, _FLOOR)),
        to(1, STREAM_A, reg_b(1), alu=Alu.ADD),
        to(0, reg_a(0), immediate(255), alu=Alu.AND),
        to(2, immediate_a(0), STREAM_B, shifted(-16, _FLOOR), alu=Alu.ADD),
        to(3, reg_a(1), {"multiply": Multiply.HIGH_PARAM, "truncate": 1}),
        to(1, reg_a(1), reg_b(2), low()),
        to(1, reg_a(1), immediate((1 << 15) - 1), alu=Alu.AND),
        to(0, reg_a(0), reg_b(2), low(), shifted(-8, _FLOOR)),
        to(1, reg_a(1), reg_b(0), alu=Alu.ADD),
        to(0, reg_a(1), shifted(-15, _FLOOR)),
        *([upper | {"multiply": Multiply.SHL, "shift_source": ShiftSource.PARAM}, to(3, reg_a(3), right)] if left
          else [upper | right]),
        to(1, reg_a(1), immediate((1 << 15) - 1), alu=Alu.AND),
        to(1, reg_a(1), STREAM_B, shift_source=ShiftSource.SHIFT_B, rounding=Rounding.HALF_UP),
        *clamped([{**reg_a(3), **reg_b(1), "alu": Alu.ADD}], act_min, act_max)]


def combine_middle() -> list[Uop]:
    """Add the carry out of the low eight bits of stream A to stream B."""
    return [to(0, STREAM_A, shifted(-8, _FLOOR)), {**reg_a(0), **STREAM_B, "alu": Alu.ADD, **OUT}]


def combine_high() -> list[Uop]:
    """Add 256 times stream A to stream B."""
    return [to(0, STREAM_A, shifted(8)), {**reg_a(0), **STREAM_B, "alu": Alu.ADD, **OUT}]


def rescale_split(multiplier: int, shift: int) -> list[Uop]:
    """Compute `multiply_wide` of 256 times stream A plus the low eight bits of stream B, with one multiplier."""
    m, t = int(reduced(np.array(multiplier))), 7 - shift
    below = (1 << 15) - 1
    return [
        to(0, immediate_a(255), STREAM_B, alu=Alu.AND),
        to(0, reg_a(0), immediate(m), low(), shifted(-8, _FLOOR)),
        to(3, STREAM_A, {"multiply": Multiply.HIGH_IMMEDIATE, "immediate": m << 16, "truncate": 1}),
        to(1, STREAM_A, immediate(m), low()),
        to(1, reg_a(1), immediate(below), alu=Alu.AND),
        to(1, reg_a(1), reg_b(0), alu=Alu.ADD),
        to(0, reg_a(1), shifted(-15, _FLOOR)),
        to(3, reg_a(3), reg_b(0), shifted(15 - t, Rounding.HALF_UP), alu=Alu.ADD),
        to(1, reg_a(1), immediate(below), alu=Alu.AND),
        to(1, reg_a(1), shifted(-min(t, 31), Rounding.HALF_UP)),
        {**reg_a(3), **reg_b(1), "alu": Alu.ADD, "clamp": 1, **OUT}]


def reduced(multiplier: IntArray) -> IntArray:
    """Return the 15-bit multipliers that `multiply_wide` uses."""
    made: IntArray = np.where(multiplier < 0x7FFF0000, (multiplier + (1 << 15)) >> 16, 0x7FFF)
    return made


def wide_parameters(multiplier: IntArray, shift: IntArray) -> tuple[IntArray, IntArray]:
    """Multipliers and shifts of the parameter blocks: m << 16, and 15 - t."""
    return reduced(multiplier) << 16, 8 + shift


def packed_multipliers(multiplier: IntArray, shift: IntArray) -> IntArray:
    """Each channel's m in the upper half, t in the low five bits; t is at most 31, where q >> t is 0 anyway."""
    packed: IntArray = reduced(multiplier) << 16 | np.minimum(7 - shift, 31)
    return packed
