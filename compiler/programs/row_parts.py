"""The parts of SOFTMAX, LOG_SOFTMAX and L2_NORMALIZATION in gemmlowp's fixed point.

Each program has three parts: the term that an element adds to its row's sum, the scalars computed from the sum, and
their application to an element. Elements are in the registers from `row` on, scalars in those from `first` on. With
`once` a scalar is word 0 of its register, equal in all lanes; otherwise each lane and beat has its own.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tq_hw.compiler.programs.row_words import HIGH_B, POWER, TO_INT8, b_reg, high, once, reg, to
from tq_hw.compiler.programs.words import SAR, SHL, SHL_SATURATE, Uop, immediate, immediate_a, shifted
from tq_hw.isa.uop import Alu, Destination, Multiply, Rounding, ShiftSource, Source
from tq_hw.sim.golden.fixedpoint import RECIPROCAL_SLOPE, RECIPROCAL_START

__all__ = ["PROGRAMS", "RowParts"]

_INT32_MAX = (1 << 31) - 1


@dataclass(frozen=True)
class RowParts:
    """The parts of a program.

    Members
    -------
    less : subtracted from each element first: the maximum of its row (None), or a constant
    term : the term that such a difference adds to the sum; without a destination
    scalars, step, finish : computed from the sum in register `first`; `step` is repeated `repeats` times
    apply : applied to each difference; the last micro-operation writes the output
    kept : additions to the sum, and `apply`, if stream A has the differences; else None
    """

    less: int | None
    term: Uop
    scalars: list[Uop]
    step: list[Uop]
    repeats: int
    finish: list[Uop]
    apply: list[Uop]
    kept: tuple[list[Uop], list[Uop]] | None = None


def _reciprocal_start(half: int, x: int) -> list[Uop]:
    """`half` = (1 + y) / 2 in Q0.31; x = 48/17 - 32/17 * half in Q2.29."""
    return [once(x, **reg(half), **high(RECIPROCAL_SLOPE)),
            once(x, **reg(x), **immediate(RECIPROCAL_START), alu=Alu.ADD)]


def _half_plus_one(value: int) -> list[Uop]:
    """(value + 1) / 2 in Q0.31, where 1 is _INT32_MAX: ties of an odd sum round up, below -1 down."""
    return [once(value, **reg(value), **immediate(1), **SAR),
            once(value, **reg(value), **immediate(1 << 30), alu=Alu.ADD)]


def _reciprocal_step(half: int, x: int, t: int) -> list[Uop]:
    """One Newton-Raphson step in Q2: x += x * (1 - half * x)."""
    return [once(t, **reg(half), **b_reg(x), **HIGH_B),
            once(t, **immediate_a(1 << 29), **b_reg(t), alu=Alu.SUB),
            once(t, **reg(x), **b_reg(t), **HIGH_B),
            once(t, **reg(t), **immediate(2), **SHL_SATURATE),
            once(x, **reg(x), **b_reg(t), alu=Alu.ADD)]


def softmax(row: int, first: int, numbers: Mapping[str, int]) -> RowParts:
    """Exponentials from table 1, times one_over_one_plus_x of their sum.

    Numbers: `output_bits`, 8 or 16; `high`, which byte of 16 bits is the output; `terms`, whether table 2 has the terms
    of the sum.
    """
    total, headroom, x, t = range(first, first + 4)
    scalars = [
        # A sum of 0 or less makes the kernels abort, so there are z >= 1 leading zeros, and sum << z is even. Half of
        # 1 + ((sum << z) - 2^31), in Q0.31, is therefore sum << (z - 1).
        once(headroom, **reg(total), alu=Alu.CLZ, zero_point=-1),
        once(total, **reg(total), **b_reg(headroom), **SHL), *_reciprocal_start(total, x)]
    finish = [
        once(x, **reg(x), **immediate(1), **SHL_SATURATE),
        # Right shift of the product: (12 - z) + 31 - output_bits; headroom is z - 1.
        once(headroom, **immediate_a(42 - numbers["output_bits"]), **b_reg(headroom), alu=Alu.SUB)]
    apply = [to(row, **reg(x), b_source=Source.REGISTER, b_register=row, b_table=1, **HIGH_B)]
    last = {**reg(row, False), **b_reg(headroom), "shift_source": ShiftSource.SHIFT_B, "rounding": Rounding.HALF_AWAY}
    if numbers["output_bits"] == 8:
        apply.append({**last, "zero_point": -128, **TO_INT8})
    else:
        apply += [to(row, **last, zero_point=-(1 << 15)),
                  to(row, **reg(row, False), **immediate((1 << 15) - 1), alu=Alu.MIN),
                  {**reg(row, False), **shifted(-8 * numbers["high"], Rounding.FLOOR),
                   "destination": Destination.OUTPUT}]
    element = {"a_source": Source.STREAM}
    adds = [to(t, **element, **POWER), to(total, **reg(t, False), **b_reg(total, False), alu=Alu.ADD)]
    if numbers.get("terms"):
        adds = [to(total, **element, a_table=2, **b_reg(total, False), alu=Alu.ADD)]
    kept = adds, [to(row, **element, a_table=1, **b_reg(x), **HIGH_B), *apply[1:]]
    return RowParts(None, {**reg(row, False), **POWER}, scalars, _reciprocal_step(total, x, t), 3, finish, apply, kept)


def log_softmax(row: int, first: int, numbers: Mapping[str, int]) -> RowParts:
    """The difference less the logarithm of the sum, `log_x_for_x_greater_than_or_equal_to_1`.

    Table 1 has the exponentials of the differences, table 2 the differences in Q5.26.
    """
    s, power, r, q, den, x = range(first, first + 6)
    quarter, sqrt_half, sqrt_sqrt_half = 1 << 23, 1518500250, 1805811301
    scalars = [
        once(power, **reg(s), alu=Alu.CLZ),
        once(r, **reg(power), **immediate(-1), alu=Alu.ADD),
        once(r, **reg(s), **b_reg(r), **SHL_SATURATE), once(r, **reg(r), **high(sqrt_half)),
        once(r, **reg(r), **immediate(1), **SHL_SATURATE),
        once(power, **immediate_a(12), **b_reg(power), alu=Alu.SUB, **shifted(25)),
        once(power, **reg(power), **immediate(quarter), alu=Alu.ADD),
        once(q, **reg(s), **high(sqrt_half)),
        once(q, **reg(q), alu=Alu.CLZ, zero_point=-1),
        once(den, **reg(s), **b_reg(q), **SHL_SATURATE),
        once(q, **immediate_a(12), **b_reg(q), alu=Alu.SUB, **shifted(25)),
        once(q, **reg(q), **immediate(-quarter), alu=Alu.ADD),
        once(power, **reg(power), **b_reg(q), alu=Alu.MAX),
        once(r, **reg(r), **b_reg(den), alu=Alu.MIN),
        once(q, **reg(r), **immediate(sqrt_sqrt_half), alu=Alu.SUB, **shifted(1)),
        # numerator = q * r + q * q^2 * c, in s from here on
        once(den, **reg(q), **b_reg(q), **HIGH_B),
        once(x, **reg(q), **b_reg(den), **HIGH_B),
        once(x, **reg(x), **high(117049297)),
        once(s, **reg(q), **b_reg(r), **HIGH_B),
        once(s, **reg(s), **b_reg(x), alu=Alu.ADD),
        # denominator = p * (c + q + q^2 * c) + q * c; p = (r + sqrt(sqrt(1/2))) / 2 rounds up: the constant is odd
        once(den, **reg(den), **high(127690142)),
        once(den, **reg(den), **b_reg(q), alu=Alu.ADD),
        once(den, **reg(den), **immediate(1057819769), alu=Alu.ADD),
        once(r, **reg(r), **immediate(1), **SAR),
        once(r, **reg(r), **immediate((sqrt_sqrt_half + 1) // 2), alu=Alu.ADD),
        once(den, **reg(den), **b_reg(r), **HIGH_B),
        once(q, **reg(q), **high(638450708)),
        once(den, **reg(den), **b_reg(q), alu=Alu.ADD),
        *_half_plus_one(den), *_reciprocal_start(den, x)]
    finish = [
        once(x, **reg(x), **immediate(1), **SHL_SATURATE),
        once(s, **reg(s), **shifted(-6)),
        once(s, **reg(s), **b_reg(x), **HIGH_B),
        once(power, **reg(power), **high(1488522236)),
        once(s, **reg(s), **b_reg(power), alu=Alu.ADD),
        once(s, **reg(s), **immediate(1), **SHL_SATURATE),
        once(s, **immediate_a(0), **b_reg(s), alu=Alu.SUB)]
    apply = [{**reg(s), "b_source": Source.REGISTER, "b_register": row, "b_table": 2, "alu": Alu.ADD, **shifted(-22),
              "zero_point": 127, **TO_INT8}]
    return RowParts(None, {**reg(row, False), **POWER}, scalars, _reciprocal_step(den, x, r), 3, finish, apply)


def l2_normalization(row: int, first: int, numbers: Mapping[str, int]) -> RowParts:
    """`x / sqrt(sum(x^2))`: GetInvSqrtQuantizedMultiplierExp, then a shift per row. Numbers: zero_point."""
    acc, shift, half, root, cube, t = range(first, first + 6)
    scalars = [
        once(half, **reg(acc), **immediate(2), alu=Alu.MAX),
        # shift: pairs of bits to [2^27, 2^29), -1..13
        once(shift, **reg(half), alu=Alu.CLZ, zero_point=-1),
        once(shift, **reg(shift), **immediate(1), **SAR, zero_point=-1),
        once(t, **reg(shift), **immediate(0), alu=Alu.MAX, **shifted(1)),
        once(half, **reg(half), **b_reg(t), **SHL),
        once(t, **immediate_a(0), **b_reg(shift), alu=Alu.SUB),
        once(t, **reg(t), **immediate(0), alu=Alu.MAX, **shifted(1)),
        once(half, **reg(half), **b_reg(t), **SAR),
        # Half of it without its last bit, rounded.
        once(half, **reg(half), **immediate(-2), alu=Alu.AND, **shifted(-2)),
        once(root, **immediate_a(1 << 28))]
    step = [
        once(cube, **reg(root), **b_reg(root), **HIGH_B),
        once(cube, **reg(cube), **b_reg(root), **HIGH_B),
        once(cube, **reg(cube), **immediate(6), **SHL_SATURATE),
        once(cube, **reg(half), **b_reg(cube), **HIGH_B),
        once(root, **reg(root), **high((1 << 28) + (1 << 27))),
        once(root, **reg(root), **b_reg(cube), alu=Alu.SUB),
        once(root, **reg(root), **immediate(3), **SHL_SATURATE)]
    finish = [
        once(root, **reg(root), **high(1518500250)),
        # The right shift of 1/sqrt is 11 - pairs; a negative one is a left shift of the multiplier.
        once(shift, **reg(shift), **immediate(-11), alu=Alu.ADD),
        once(t, **reg(shift), **immediate(0), alu=Alu.MAX),
        once(root, **reg(root), **b_reg(t), **SHL),
        # For a sum of 0 or 1 the multiplier is the largest int32.
        once(acc, **reg(acc), **immediate(1), alu=Alu.LESS_EQUAL),
        once(acc, **immediate_a(0), **b_reg(acc), alu=Alu.SUB),
        once(acc, **reg(acc), **immediate(_INT32_MAX), alu=Alu.AND),
        once(root, **reg(root), **b_reg(acc), alu=Alu.MAX),
        # exponent = 7 - max(right shift, 0)
        once(shift, **reg(shift), **immediate(0), alu=Alu.MIN, zero_point=7),
        once(t, **reg(shift), **immediate(0), alu=Alu.MAX),
        once(shift, **immediate_a(0), **b_reg(shift), alu=Alu.SUB),
        once(shift, **reg(shift), **immediate(0), alu=Alu.MAX)]
    apply: list[Uop] = [
        to(row, **reg(row, False), **b_reg(t), **SHL),
        to(row, **reg(row, False), **b_reg(root), **HIGH_B),
        {**reg(row, False), **b_reg(shift), "shift_source": ShiftSource.SHIFT_B, "rounding": Rounding.HALF_AWAY,
         **TO_INT8}]
    term = {**reg(row, False), **b_reg(row, False), "multiply": Multiply.LOW_B}
    return RowParts(numbers["zero_point"], term, scalars, step, 5, finish, apply)


#: By name: the function of (row, first, numbers) that returns the parts, and the number of scalars.
PROGRAMS: dict[str, tuple[Callable[[int, int, Mapping[str, int]], RowParts], int]] = {
    "softmax": (softmax, 4), "log_softmax": (log_softmax, 6), "l2_normalization": (l2_normalization, 6)}
