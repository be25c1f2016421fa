"""Sums, differences and products of two int8 without tables: a table takes 256 cycles to load, longer than a few words.

Operand b of the vector unit cannot be a minuend, so stream B enters as its zero point less the code. Rescaling by the
negated multiplier gives the same bits, because no intermediate result exceeds 32 bits.
"""

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
    rescale,
    rescaled,
    shifted,
    to,
)
from tq_hw.isa.uop import Alu
from tq_hw.model.graph import Operator, Subgraph
from tq_hw.sim.golden.elementwise import AddParams, MulParams, SquareParams, add_params, mul_params, square_params

__all__ = ["plain_uops"]

_A, _B = 0, 1
_HALF = 1 << 30


def _first(register: int, zero_point: int, shift: int) -> Uop:
    """Stream A less its zero point, or the zero point of stream B less stream B."""
    if register == _A:
        return to(_A, STREAM_A, immediate(zero_point), shifted(shift), alu=Alu.SUB)
    return to(_B, immediate_a(zero_point), STREAM_B, shifted(shift), alu=Alu.SUB)


def _scaled(register: int, zero_point: int, left_shift: int, multiplier: int, shift: int) -> tuple[list[Uop], bool]:
    """Micro-operations that rescale a stream into a register, and whether the result is negated."""
    if multiplier == _HALF and left_shift + shift >= 1:
        # Half of a number whose last bit is 0: nothing is rounded.
        return [_first(register, zero_point, left_shift - 1 + shift)], register == _B
    sign = 1 if register == _A else -1
    return [_first(register, zero_point, left_shift),
            *rescaled(to(register, reg_a(register)), sign * multiplier, shift, register)], False


def _both(p: AddParams | SquareParams) -> tuple[list[Uop], bool]:
    """Both streams on their common scale; whether the second one is negated."""
    first, _ = _scaled(_A, p.zero_point_1, p.left_shift, p.multiplier_1, p.shift_1)
    second, negated = _scaled(_B, p.zero_point_2, p.left_shift, p.multiplier_2, p.shift_2)
    # The two streams alternate, because a micro-operation waits for the result of the one just before it.
    return [first[0], second[0], *first[1:], *second[1:]], negated


def _sum_uops(p: AddParams, difference: bool) -> list[Uop]:
    """ADD and SUB: both streams on their common scale, the sum rescaled."""
    uops, negated = _both(p)
    last: Uop = {**reg_a(_A), **reg_b(_B), "alu": Alu.ADD if difference == negated else Alu.SUB,
                 "zero_point": p.output_zero_point, "clamp": 1, "act_min": p.act_min, "act_max": p.act_max, **OUT}
    return [*uops, *rescaled(last, p.output_multiplier, p.output_shift, _A)]


def _square_uops(p: SquareParams) -> list[Uop]:
    """SQUARED_DIFFERENCE: the square of a difference on the common scale, rescaled."""
    uops, negated = _both(p)
    return [*uops, to(_A, reg_a(_A), reg_b(_B), alu=Alu.ADD if negated else Alu.SUB),
            to(_A, reg_a(_A), reg_b(_A), low()),
            *rescaled({**reg_a(_A), "zero_point": p.output_zero_point, "clamp": 1, "act_min": -128, "act_max": 127,
                       **OUT}, p.output_multiplier, p.output_shift, _A)]


def _product_uops(p: MulParams) -> list[Uop]:
    """MUL; none where the product is shifted left: it may wrap, and wraps differently when negated."""
    if p.shift > 0:
        return []
    return [_first(_A, p.zero_point_1, 0), _first(_B, p.zero_point_2, 0), to(_A, reg_a(_A), reg_b(_B), low()),
            {**reg_a(_A), **rescale(-p.multiplier, p.shift), "zero_point": p.output_zero_point, "clamp": 1,
             "act_min": p.act_min, "act_max": p.act_max, **OUT}]


def plain_uops(op: Operator, subgraph: Subgraph) -> tuple[Uop, ...]:
    """Return the micro-operations of an operator on two int8 tensors without tables; empty if there are none."""
    match op.op:
        case "ADD" | "SUB":
            return tuple(_sum_uops(add_params(op, subgraph), op.op == "SUB"))
        case "SQUARED_DIFFERENCE":
            return tuple(_square_uops(square_params(op, subgraph)))
        case "MUL":
            return tuple(_product_uops(mul_params(op, subgraph)))
    return ()
