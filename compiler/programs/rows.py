"""Programs over rows of channels: SOFTMAX, LOG_SOFTMAX and L2_NORMALIZATION in gemmlowp's fixed point.

Each is told in parts: what an element adds to the sum of its row, what is computed of the sum, and what the result
does to an element. Three layers put the parts together: `RowProgram` has a row in registers, `LongRows` brings it in
pieces, `Columns` has a row in each lane.

A part names registers: elements lie in `row` and those after it, scalars in `first` and those after it. With `once`
a scalar is word 0 of its register, equal in all lanes; without, each lane and beat has its own.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tq_hw.isa.uop import Alu, Destination, Multiply, Reduce, Rounding, ShiftSource, Source
from tq_hw.sim.golden.fixedpoint import RECIPROCAL_SLOPE, RECIPROCAL_START

__all__ = ["FIRST", "MAXIMUM", "PROGRAMS", "ROW", "RowCode", "RowParts", "TERM", "difference", "each_lane", "maximum",
           "parts_of", "scalars_of", "short_row", "start", "summand"]

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


@dataclass(frozen=True)
class RowParts:
    """The parts of a program.

    Members
    -------
    less : what is taken off each element first: the maximum of its row (None), or a constant
    term : what an element, less that, adds to the sum; without a destination
    scalars, step, finish : what is computed of the sum, in register `first`; `step` is repeated `repeats` times
    apply : what is done to an element, less the same; the last one writes the output
    """

    less: int | None
    term: Uop
    scalars: list[Uop]
    step: list[Uop]
    repeats: int
    finish: list[Uop]
    apply: list[Uop]


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


_HIGH_B: Uop = {"multiply": Multiply.HIGH_B}
_TO_INT8: Uop = {"clamp": 1, "act_min": -128, "act_max": 127, "destination": Destination.OUTPUT}
#: A difference's exponential in Q12.19, by table 1.
_POWER: Uop = {"a_table": 1, **_shift(-12)}


def _reciprocal_start(half: int, x: int) -> list[Uop]:
    """`half` = (1 + y) / 2 in Q0.31; x = 48/17 - 32/17 * half in Q2.29."""
    return [_once(x, **_reg(half), **_high(RECIPROCAL_SLOPE)),
            _once(x, **_reg(x), **_imm(RECIPROCAL_START), alu=Alu.ADD)]


def _half_plus_one(value: int) -> list[Uop]:
    """(value + 1) / 2 in Q0.31, where 1 is INT32_MAX: ties of an odd sum round up, or down below -1."""
    return [_once(value, **_reg(value), **_imm(1), alu=Alu.SAR),
            _once(value, **_reg(value), **_imm(1 << 30), alu=Alu.ADD)]


def _reciprocal_step(half: int, x: int, t: int) -> list[Uop]:
    """One Newton-Raphson step in Q2: x += x * (1 - half * x)."""
    return [_once(t, **_reg(half), **_b(x), **_HIGH_B),
            _once(t, **_a_imm(1 << 29), **_b(t), alu=Alu.SUB),
            _once(t, **_reg(x), **_b(t), **_HIGH_B),
            _once(t, **_reg(t), **_imm(2), alu=Alu.SHL_SATURATE),
            _once(x, **_reg(x), **_b(t), alu=Alu.ADD)]


def softmax(row: int, first: int, numbers: Mapping[str, int]) -> RowParts:
    """Exponentials by table 1, one_over_one_plus_x of their sum, product.

    Numbers: output_bits, 8 or 16; of 16 bits, `high` says which byte is the output.
    """
    total, headroom, x, t = range(first, first + 4)
    scalars = [
        _once(headroom, **_reg(total), alu=Alu.CLZ),
        _once(total, **_reg(total), **_b(headroom), alu=Alu.SHL),
        _once(total, **_reg(total), **_imm(_INT32_MIN), alu=Alu.ADD),
        *_half_plus_one(total), *_reciprocal_start(total, x)]
    finish = [
        _once(x, **_reg(x), **_imm(1), alu=Alu.SHL_SATURATE),
        # Right shift of the product: (12 - headroom) + 31 - output_bits.
        _once(headroom, **_a_imm(43 - numbers["output_bits"]), **_b(headroom), alu=Alu.SUB)]
    apply = [_to(row, **_reg(x), b_source=Source.REGISTER, b_register=row, b_table=1, **_HIGH_B)]
    last = {**_reg(row, False), **_b(headroom), "shift_source": ShiftSource.SHIFT_B, "rounding": Rounding.HALF_AWAY}
    if numbers["output_bits"] == 8:
        apply.append({**last, "zero_point": -128, **_TO_INT8})
    else:
        apply += [_to(row, **last, zero_point=-(1 << 15)),
                  _to(row, **_reg(row, False), **_imm((1 << 15) - 1), alu=Alu.MIN),
                  {**_reg(row, False), **_shift(-8 * numbers["high"], Rounding.FLOOR),
                   "destination": Destination.OUTPUT}]
    return RowParts(None, {**_reg(row, False), **_POWER}, scalars, _reciprocal_step(total, x, t), 3, finish, apply)


def log_softmax(row: int, first: int, numbers: Mapping[str, int]) -> RowParts:
    """Difference less the logarithm of the sum, `log_x_for_x_greater_than_or_equal_to_1`.

    Tables 1 and 2 have the differences' exponentials and themselves in Q5.26.
    """
    s, power, r, q, den, x = range(first, first + 6)
    quarter, sqrt_half, sqrt_sqrt_half = 1 << 23, 1518500250, 1805811301
    scalars = [
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
    finish = [
        _once(x, **_reg(x), **_imm(1), alu=Alu.SHL_SATURATE),
        _once(s, **_reg(s), **_shift(-6)),
        _once(s, **_reg(s), **_b(x), **_HIGH_B),
        _once(power, **_reg(power), **_high(1488522236)),
        _once(s, **_reg(s), **_b(power), alu=Alu.ADD),
        _once(s, **_reg(s), **_imm(1), alu=Alu.SHL_SATURATE),
        _once(s, **_a_imm(0), **_b(s), alu=Alu.SUB)]
    apply = [{**_reg(s), "b_source": Source.REGISTER, "b_register": row, "b_table": 2, "alu": Alu.ADD, **_shift(-22),
              "zero_point": 127, **_TO_INT8}]
    return RowParts(None, {**_reg(row, False), **_POWER}, scalars, _reciprocal_step(den, x, r), 3, finish, apply)


def l2_normalization(row: int, first: int, numbers: Mapping[str, int]) -> RowParts:
    """`x / sqrt(sum(x^2))`: GetInvSqrtQuantizedMultiplierExp, then a shift per row. Numbers: zero_point."""
    acc, shift, half, root, cube, t = range(first, first + 6)
    scalars = [
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
    finish = [
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
        _once(shift, **_reg(shift), **_imm(0), alu=Alu.MAX)]
    apply: list[Uop] = [
        _to(row, **_reg(row, False), **_b(t), alu=Alu.SHL),
        _to(row, **_reg(row, False), **_b(root), **_HIGH_B),
        {**_reg(row, False), **_b(shift), "shift_source": ShiftSource.SHIFT_B, "rounding": Rounding.HALF_AWAY,
         **_TO_INT8}]
    term = {**_reg(row, False), **_b(row, False), "multiply": Multiply.LOW_B}
    return RowParts(numbers["zero_point"], term, scalars, step, 5, finish, apply)


#: Parts by name, from (row, first, numbers); how many scalars there are.
PROGRAMS: dict[str, tuple[Callable[[int, int, Mapping[str, int]], RowParts], int]] = {
    "softmax": (softmax, 4), "log_softmax": (log_softmax, 6), "l2_normalization": (l2_normalization, 6)}


#: Registers of rows that come in pieces, or lie one in each lane; TERM is free while the sum is made.
FIRST, TERM, MAXIMUM, ROW = 0, 5, 6, 7


def parts_of(name: str, numbers: Mapping[str, int]) -> RowParts:
    """Return the parts of a program over registers FIRST.. and ROW."""
    return PROGRAMS[name][0](ROW, FIRST, numbers)


def _less(parts: RowParts, maximum: int) -> Uop:
    """Operand b and alu that take the maximum (in a register) or the constant off operand a."""
    return {**(_b(maximum) if parts.less is None else _imm(parts.less)), "alu": Alu.SUB}


def start() -> list[Uop]:
    """The least maximum, and a sum of 0."""
    return [_once(MAXIMUM, **_a_imm(-128)), _once(FIRST, **_a_imm(0))]


def maximum(reduced: bool) -> list[Uop]:
    """Take an element (`reduced`: a piece of a row) of stream A into the maximum."""
    if reduced:
        return [{"a_source": Source.STREAM, "destination": Destination.REDUCE, "reduce": Reduce.MAX,
                 "d_register": TERM},
                _once(MAXIMUM, **_reg(MAXIMUM), **_b(TERM), alu=Alu.MAX)]
    return [_once(MAXIMUM, a_source=Source.STREAM, **_b(MAXIMUM), alu=Alu.MAX)]


def difference(parts: RowParts) -> list[Uop]:
    """Bring an element of stream A, less the maximum, into ROW."""
    return [_to(ROW, a_source=Source.STREAM, **_less(parts, MAXIMUM))]


def summand(parts: RowParts, reduced: bool) -> list[Uop]:
    """Add the element in ROW (`reduced`: all of a piece) to the sum."""
    to = {"destination": Destination.REDUCE, "reduce": Reduce.SUM} if reduced else {"destination": Destination.REGISTER}
    return [{**parts.term, **to, "d_register": TERM}, _once(FIRST, **_reg(FIRST), **_b(TERM), alu=Alu.ADD)]


def scalars_of(parts: RowParts) -> RowCode:
    """Return the program from the sum to what `apply` needs."""
    return RowCode([*parts.scalars, *parts.step, *parts.finish], (len(parts.scalars), len(parts.step)), parts.repeats)


def each_lane(uops: list[Uop]) -> list[Uop]:
    """Return the same with scalars that each lane and beat has its own of."""
    return [{name: value for name, value in uop.items() if name not in ("once", "a_hold", "b_hold")} for uop in uops]


def short_row(name: str, registers: int, numbers: Mapping[str, int]) -> RowCode:
    """Return the program for a row that lies in registers 0..registers - 1."""
    row, first = 0, registers
    parts = PROGRAMS[name][0](row, first, numbers)
    before: list[Uop] = [_to(row, a_source=Source.STREAM, **({} if parts.less is None else _less(parts, first)))]
    if parts.less is None:
        before += [{**_reg(row, False), "destination": Destination.REDUCE, "reduce": Reduce.MAX, "d_register": first},
                   _to(row, **_reg(row, False), **_less(parts, first))]
    before.append({**parts.term, "destination": Destination.REDUCE, "reduce": Reduce.SUM, "d_register": first})
    code = scalars_of(parts)
    return RowCode([*before, *code.uops, *parts.apply], (len(before) + code.body[0], code.body[1]), code.repeats)
