"""Programs over a row of channels: SOFTMAX, LOG_SOFTMAX and L2_NORMALIZATION in gemmlowp's fixed point.

The row lies in vector register 0 and those behind it; scalars, equal in all lanes, lie in word 0 of a register each
and take one beat (`once`). Newton-Raphson steps are the repeated body.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tq_hw.isa.uop import Alu, Destination, Multiply, Reduce, Rounding, ShiftSource, Source

__all__ = ["PROGRAMS", "RowCode"]

Uop = dict[str, int]
_INT32_MIN, _INT32_MAX = -1 << 31, (1 << 31) - 1


@dataclass(frozen=True)
class RowCode:
    """One program.

    Members
    -------
    body : (first, count) of the micro-operations repeated `repeats` times
    """

    uops: list[Uop]
    body: tuple[int, int]
    repeats: int


def _reg(number: int, hold: bool = True) -> Uop:
    return {"a_source": Source.REGISTER, "a_register": number, "a_hold": int(hold)}


def _b(number: int, hold: bool = True) -> Uop:
    return {"b_source": Source.REGISTER, "b_register": number, "b_hold": int(hold)}


def _imm(value: int) -> Uop:
    return {"b_source": Source.IMMEDIATE, "immediate": value}


def _a_imm(value: int) -> Uop:
    return {"a_source": Source.IMMEDIATE, "immediate": value}


def _once(target: int, **fields: int) -> Uop:
    return {"once": 1, "destination": Destination.REGISTER, "d_register": target, **fields}


def _to(target: int, **fields: int) -> Uop:
    return {"destination": Destination.REGISTER, "d_register": target, **fields}


def _high(value: int) -> Uop:
    return {"multiply": Multiply.HIGH_IMMEDIATE, "immediate": value}


def _shift(by: int, rounding: Rounding = Rounding.HALF_AWAY) -> Uop:
    return {"shift_source": ShiftSource.IMMEDIATE, "shift": by, "rounding": rounding}


_TO_INT8 = {"clamp": 1, "act_min": -128, "act_max": 127, "destination": Destination.OUTPUT}
_HIGH_B = {"multiply": Multiply.HIGH_B}


def _half_plus_one(x: int) -> list[Uop]:
    """RoundingHalfSum(x, 2^31 - 1) is x / 2 + 2^30, rounded down."""
    return [_once(x, **_reg(x), **_imm(1), alu=Alu.SAR), _once(x, **_reg(x), **_imm(1 << 30), alu=Alu.ADD)]


def _reciprocal_start(half: int, x: int) -> list[Uop]:
    """48/17 - 32/17 * half."""
    return [_once(x, **_reg(half), **_high(-1010580540)), _once(x, **_reg(x), **_imm(1515870810), alu=Alu.ADD)]


def _reciprocal_step(half: int, x: int, t: int) -> list[Uop]:
    """One Newton-Raphson step in Q2: x += x * (1 - half * x)."""
    return [_once(t, **_reg(half), **_b(x), **_HIGH_B),
            _once(t, **_a_imm(1 << 29), **_b(t), alu=Alu.SUB),
            _once(t, **_reg(x), **_b(t), **_HIGH_B),
            _once(t, **_reg(t), **_imm(2), alu=Alu.SHL_SATURATE),
            _once(x, **_reg(x), **_b(t), alu=Alu.ADD)]


def _exponentials(row: int, total: int) -> list[Uop]:
    """Row of differences from the maximum (table index), and the sum of their exponentials in Q12.19."""
    return [
        _to(row, a_source=Source.STREAM),
        {**_reg(row, False), "destination": Destination.REDUCE, "reduce": Reduce.MAX, "d_register": total},
        _to(row, **_reg(total), **_b(row, False), alu=Alu.SUB),
        {**_reg(row, False), "a_table": 1, **_shift(-12), "destination": Destination.REDUCE, "reduce": Reduce.SUM,
         "d_register": total}]


def softmax(registers: int, numbers: Mapping[str, int]) -> RowCode:
    """Exponentials by table, one_over_one_plus_x of their sum, product.

    Numbers: output_bits, 8 or 16; of 16 bits, `high` says which byte is the output.
    """
    row, total, headroom, x, t = 0, registers, registers + 1, registers + 2, registers + 3
    before = [
        *_exponentials(row, total),
        _once(headroom, **_reg(total), alu=Alu.CLZ),
        _once(total, **_reg(total), **_b(headroom), alu=Alu.SHL),
        _once(total, **_reg(total), **_imm(_INT32_MIN), alu=Alu.ADD),
        *_half_plus_one(total), *_reciprocal_start(total, x)]
    step = _reciprocal_step(total, x, t)
    after: list[Uop] = [
        _once(x, **_reg(x), **_imm(1), alu=Alu.SHL_SATURATE),
        # Right shift of the product: (12 - headroom) + 31 - output_bits.
        _once(headroom, **_a_imm(43 - numbers["output_bits"]), **_b(headroom), alu=Alu.SUB),
        _to(row, **_reg(row, False), a_table=1),
        _to(row, **_reg(row, False), **_b(x), **_HIGH_B)]
    last = {**_reg(row, False), **_b(headroom), "shift_source": ShiftSource.SHIFT_B, "rounding": Rounding.HALF_AWAY}
    if numbers["output_bits"] == 8:
        after.append({**last, "zero_point": -128, **_TO_INT8})
    else:
        after += [_to(row, **last, zero_point=-(1 << 15)),
                  _to(row, **_reg(row, False), **_imm((1 << 15) - 1), alu=Alu.MIN),
                  {**_reg(row, False), **_shift(-8 * numbers["high"], Rounding.FLOOR),
                   "destination": Destination.OUTPUT}]
    return RowCode([*before, *step, *after], (len(before), len(step)), 3)


def log_softmax(registers: int, numbers: Mapping[str, int]) -> RowCode:
    """Difference less the logarithm of the sum, `log_x_for_x_greater_than_or_equal_to_1`.

    The differences go to the output and come back as stream B, so that rows may be long. Tables 1 and 2 have their
    exponentials and themselves in Q5.26, by the low byte of the difference.
    """
    s, power, r, q, den, x = range(6)
    quarter, sqrt_half, sqrt_sqrt_half = 1 << 23, 1518500250, 1805811301
    before = [
        {"a_source": Source.STREAM, "destination": Destination.REDUCE, "reduce": Reduce.MAX, "d_register": s},
        {"a_source": Source.STREAM, **_b(s), "alu": Alu.SUB, "destination": Destination.OUTPUT},
        {**_a_imm(0), "b_source": Source.STREAM, "b_table": 1, "alu": Alu.ADD, **_shift(-12),
         "destination": Destination.REDUCE, "reduce": Reduce.SUM, "d_register": s},
        _once(power, **_reg(s), alu=Alu.CLZ),
        _once(r, **_reg(power), **_imm(-1), alu=Alu.ADD),
        _once(r, **_reg(s), **_b(r), alu=Alu.SHL_SATURATE, **_high(sqrt_half)),
        _once(r, **_reg(r), **_imm(1), alu=Alu.SHL_SATURATE),
        _once(power, **_a_imm(12), **_b(power), alu=Alu.SUB, **_shift(25)),
        _once(power, **_reg(power), **_imm(quarter), alu=Alu.ADD),
        _once(q, **_reg(s), **_high(sqrt_half)),
        _once(q, **_reg(q), alu=Alu.CLZ, zero_point=-1),
        _once(den, **_reg(s), **_b(q), alu=Alu.SHL_SATURATE),
        _once(q, **_a_imm(12), **_b(q), alu=Alu.SUB, **_shift(25)),
        _once(q, **_reg(q), **_imm(-quarter), alu=Alu.ADD),
        _once(power, **_reg(power), **_b(q), alu=Alu.MAX),
        _once(r, **_reg(r), **_b(den), alu=Alu.MIN),
        _once(q, **_reg(r), **_imm(sqrt_sqrt_half), alu=Alu.SUB, **_shift(1)),
        # numerator = q * r + q * q^2 * c, in s from here on
        _once(den, **_reg(q), **_b(q), **_HIGH_B),
        _once(x, **_reg(q), **_b(den), **_HIGH_B),
        _once(x, **_reg(x), **_high(117049297)),
        _once(s, **_reg(q), **_b(r), **_HIGH_B),
        _once(s, **_reg(s), **_b(x), alu=Alu.ADD),
        # denominator = p * (c + q + q^2 * c) + q * c; p = (r + sqrt(sqrt(1/2))) / 2 rounds up: the constant is odd
        _once(den, **_reg(den), **_high(127690142)),
        _once(den, **_reg(den), **_b(q), alu=Alu.ADD),
        _once(den, **_reg(den), **_imm(1057819769), alu=Alu.ADD),
        _once(r, **_reg(r), **_imm(1), alu=Alu.SAR),
        _once(r, **_reg(r), **_imm((sqrt_sqrt_half + 1) // 2), alu=Alu.ADD),
        _once(den, **_reg(den), **_b(r), **_HIGH_B),
        _once(q, **_reg(q), **_high(638450708)),
        _once(den, **_reg(den), **_b(q), alu=Alu.ADD),
        *_half_plus_one(den), *_reciprocal_start(den, x)]
    step = _reciprocal_step(den, x, r)
    after: list[Uop] = [
        _once(x, **_reg(x), **_imm(1), alu=Alu.SHL_SATURATE),
        _once(s, **_reg(s), **_shift(-6)),
        _once(s, **_reg(s), **_b(x), **_HIGH_B),
        _once(power, **_reg(power), **_high(1488522236)),
        _once(s, **_reg(s), **_b(power), alu=Alu.ADD),
        _once(s, **_reg(s), **_imm(1), alu=Alu.SHL_SATURATE),
        _once(s, **_a_imm(0), **_b(s), alu=Alu.SUB),
        {**_reg(s), "b_source": Source.STREAM, "b_table": 2, "alu": Alu.ADD, **_shift(-22), "zero_point": 127,
         **_TO_INT8}]
    return RowCode([*before, *step, *after], (len(before), len(step)), 3)


def l2_normalization(registers: int, numbers: Mapping[str, int]) -> RowCode:
    """`x / sqrt(sum(x^2))`: GetInvSqrtQuantizedMultiplierExp, then a shift per row. Numbers: zero_point."""
    row = 0
    acc, shift, half, root, cube, t = range(registers, registers + 6)
    before = [
        _to(row, a_source=Source.STREAM, **_imm(numbers["zero_point"]), alu=Alu.SUB),
        {**_reg(row, False), **_b(row, False), "multiply": Multiply.LOW_B, "destination": Destination.REDUCE,
         "reduce": Reduce.SUM, "d_register": acc},
        _once(half, **_reg(acc), **_imm(2), alu=Alu.MAX),
        # shift: pairs of bits to [2^27, 2^29), -1..13
        _once(shift, **_reg(half), alu=Alu.CLZ, zero_point=-1),
        _once(shift, **_reg(shift), **_imm(1), alu=Alu.SAR, zero_point=-1),
        _once(t, **_reg(shift), **_imm(0), alu=Alu.MAX, **_shift(1)),
        _once(half, **_reg(half), **_b(t), alu=Alu.SHL),
        _once(t, **_a_imm(0), **_b(shift), alu=Alu.SUB),
        _once(t, **_reg(t), **_imm(0), alu=Alu.MAX, **_shift(1)),
        _once(half, **_reg(half), **_b(t), alu=Alu.SAR),
        _once(half, **_reg(half), **_imm(1), alu=Alu.SAR, **_shift(-1)),
        _once(root, **_a_imm(1 << 28))]
    step = [
        _once(cube, **_reg(root), **_b(root), **_HIGH_B),
        _once(cube, **_reg(cube), **_b(root), **_HIGH_B),
        _once(cube, **_reg(cube), **_imm(6), alu=Alu.SHL_SATURATE),
        _once(cube, **_reg(half), **_b(cube), **_HIGH_B),
        _once(root, **_reg(root), **_high((1 << 28) + (1 << 27))),
        _once(root, **_reg(root), **_b(cube), alu=Alu.SUB),
        _once(root, **_reg(root), **_imm(3), alu=Alu.SHL_SATURATE)]
    after: list[Uop] = [
        _once(root, **_reg(root), **_high(1518500250)),
        # The right shift of 1/sqrt is 11 - pairs; a negative one is a left shift of the multiplier.
        _once(shift, **_reg(shift), **_imm(-11), alu=Alu.ADD),
        _once(t, **_reg(shift), **_imm(0), alu=Alu.MAX),
        _once(root, **_reg(root), **_b(t), alu=Alu.SHL),
        # A sum of 0 or 1 has the largest multiplier.
        _once(acc, **_reg(acc), **_imm(1), alu=Alu.LESS_EQUAL),
        _once(acc, **_a_imm(0), **_b(acc), alu=Alu.SUB),
        _once(acc, **_reg(acc), **_imm(_INT32_MAX), alu=Alu.AND),
        _once(root, **_reg(root), **_b(acc), alu=Alu.MAX),
        # exponent = 7 - max(right shift, 0)
        _once(shift, **_reg(shift), **_imm(0), alu=Alu.MIN, zero_point=7),
        _once(t, **_reg(shift), **_imm(0), alu=Alu.MAX),
        _once(shift, **_a_imm(0), **_b(shift), alu=Alu.SUB),
        _once(shift, **_reg(shift), **_imm(0), alu=Alu.MAX),
        _to(row, **_reg(row, False), **_b(t), alu=Alu.SHL),
        _to(row, **_reg(row, False), **_b(root), **_HIGH_B),
        {**_reg(row, False), **_b(shift), "shift_source": ShiftSource.SHIFT_B, "rounding": Rounding.HALF_AWAY,
         **_TO_INT8}]
    return RowCode([*before, *step, *after], (len(before), len(step)), 5)


#: Programs by name: the code for a row of so many registers, registers per row register, scalars.
PROGRAMS: dict[str, tuple[Callable[[int, Mapping[str, int]], RowCode], int, int]] = {
    "softmax": (softmax, 1, 4), "log_softmax": (log_softmax, 0, 6), "l2_normalization": (l2_normalization, 1, 6)}
