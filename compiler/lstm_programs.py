"""gemmlowp's 16-bit logistic and tanh as programs of the vector unit, element by element."""

from tq_hw.compiler.programs import OUT, STREAM_A, Uop, high16, immediate, low, reg_a, reg_b, shifted, to
from tq_hw.isa.uop import Alu, Multiply, Rounding, Source
from tq_hw.sim.golden.arith import rounding_divide_by_pot

__all__ = ["FACTOR_TABLE", "logistic", "tanh"]

_A, _NEGATED, _X, _X2, _X3, _RESULT, _T, _REST = range(8)
#: e^-(2^k) in Q0.31 for k = -2..4.
_EXP_STEPS = ((-2, 1672461947), (-1, 1302514674), (0, 790015084), (1, 290630308), (2, 39332535), (3, 720401), (4, 242))


def _narrow(value: int) -> int:
    """Q0.31 constant in 16 bits."""
    return int(rounding_divide_by_pot(value, 16))


#: Table 1: multiplier of step i at 2i + bit, for `result << 1`: 1, or the factor in 16 bits.
FACTOR_TABLE = [entry for _, factor in _EXP_STEPS for entry in (1 << 30, _narrow(factor) << 15)] + [0] * 242


def _a_immediate(value: int) -> Uop:
    return {"a_source": Source.IMMEDIATE, "immediate": value}


def _exponential(integer_bits: int) -> list[Uop]:
    """e^-|a| of the stream in register _RESULT, in Q0.15; what it gives at a = 0 is of no use."""
    fraction = 15 - integer_bits
    quarter = 1 << fraction - 2
    uops = [
        to(_A, STREAM_A),
        to(_NEGATED, _a_immediate(0), reg_b(_A), alu=Alu.SUB),
        to(_NEGATED, reg_a(_NEGATED), reg_b(_A), alu=Alu.MIN),
        to(_REST, reg_a(_NEGATED), immediate(quarter - 1), alu=Alu.AND, zero_point=-quarter),
        # Taylor expansion around -1/8
        to(_X, reg_a(_REST), immediate(integer_bits), alu=Alu.SHL, zero_point=1 << 12),
        to(_X2, high16(_X, _X)),
        to(_X3, high16(_X2, _X)),
        to(_T, high16(_X2, _X2)),
        to(_T, reg_a(_T), shifted(-2)),
        to(_T, reg_a(_T), reg_b(_X3), alu=Alu.ADD),
        to(_T, high16(_T, constant=_narrow(715827883))),
        to(_T, reg_a(_T), reg_b(_X2), shifted(-1), alu=Alu.ADD),
        to(_T, reg_a(_T), reg_b(_X), alu=Alu.ADD),
        to(_RESULT, high16(_T, constant=_narrow(1895147668)), zero_point=_narrow(1895147668), clamp=1),
        to(_REST, reg_a(_REST), reg_b(_NEGATED), alu=Alu.SUB)]
    for index, (exponent, _) in enumerate(_EXP_STEPS):
        if integer_bits > exponent:
            uops += [
                to(_T, reg_a(_REST), immediate(fraction + exponent), alu=Alu.SAR),
                to(_T, reg_a(_T), immediate(1), alu=Alu.AND, zero_point=2 * index),
                to(_RESULT, reg_a(_RESULT), reg_b(_T), shifted(1), b_table=1, multiply=Multiply.HIGH_B)]
    if integer_bits > 5:
        uops += [to(_T, _a_immediate(-(32 << fraction)), reg_b(_NEGATED), alu=Alu.LESS_EQUAL),
                 to(_RESULT, reg_a(_RESULT), reg_b(_T), low())]
    return uops


def _reciprocal() -> list[Uop]:
    """1 / ((1 + e) / 2) of e in _RESULT in Q2.13, in register _X; _X2 has the half."""
    uops = [
        to(_X2, reg_a(_RESULT), immediate(32767), shifted(-1), alu=Alu.ADD),
        to(_X, high16(_X2, constant=_narrow(-1010580540)), zero_point=_narrow(1515870810))]
    for _ in range(3):
        uops += [
            to(_T, high16(_X2, _X)),
            to(_T, _a_immediate(1 << 13), reg_b(_T), alu=Alu.SUB),
            to(_T, high16(_X, _T)),
            to(_T, reg_a(_T), immediate(2), alu=Alu.SHL, clamp=1),
            to(_X, reg_a(_X), reg_b(_T), alu=Alu.ADD)]
    return uops


def _signs() -> list[Uop]:
    """-1, 0 or 1 in _X2, and -1 for negative values, else 0, in _X3."""
    return [to(_X3, reg_a(_A), shifted(-31, Rounding.FLOOR)),
            to(_X2, _a_immediate(0), reg_b(_A), alu=Alu.LESS),
            to(_X2, reg_a(_X2), reg_b(_X3), alu=Alu.ADD)]


def logistic(integer_bits: int) -> tuple[Uop, ...]:
    """1 / (1 + e^-a): p for positive a, 1 - p for negative, 1/2 at 0."""
    return (
        *_exponential(integer_bits), *_reciprocal(),
        to(_X, reg_a(_X), immediate(1), alu=Alu.SHL, clamp=1),
        *_signs(),
        # 2^15 - 1 - p is 2^14 - (p - 2^14) - 1.
        to(_X, reg_a(_X), immediate(-(1 << 14)), alu=Alu.ADD),
        to(_X, reg_a(_X), reg_b(_X2), low(), zero_point=1 << 14),
        {**reg_a(_X), **reg_b(_X3), "alu": Alu.ADD, **OUT})


def tanh(integer_bits: int) -> tuple[Uop, ...]:
    """(1 - e^-2a) / (1 + e^-2a), with the sign of a; the doubling moves the binary point."""
    return (
        *_exponential(integer_bits + 1), *_reciprocal(),
        to(_X, reg_a(_X), immediate(1 << 13), alu=Alu.SUB),
        to(_X, reg_a(_X), immediate(2), alu=Alu.SHL, clamp=1),
        *_signs(),
        {**reg_a(_X), **reg_b(_X2), **low(), **OUT})
