"""Elementwise operators of 16x8 models on two tensors, in the vector unit."""

from tq_hw.compiler.ir.staged import Flat
from tq_hw.compiler.ir.value import TYPE_CODES, Value, element_count
from tq_hw.compiler.lower.legalize import Legalizer
from tq_hw.compiler.programs.divide import divide_wide_program
from tq_hw.compiler.programs.sixteen import clamped
from tq_hw.compiler.programs.words import (
    OUT,
    STREAM_A,
    STREAM_B,
    STREAMS,
    Uop,
    immediate,
    immediate_a,
    low,
    reg_a,
    reg_b,
    rescaled,
    shifted,
    to,
)
from tq_hw.isa.uop import Alu
from tq_hw.model.graph import Operator, Subgraph
from tq_hw.sim.golden import activation, elementwise, product

__all__ = ["lower_binary_wide"]

_INT16 = TYPE_CODES["int16"]
_ZERO: Uop = immediate_a(0)


def _common(p: elementwise.AddParams | elementwise.SquareParams | elementwise.CompareParams) -> tuple[Uop, ...]:
    """Both streams on a common scale, in registers 0 and 1."""
    return (to(0, STREAM_A, shifted(p.left_shift)), *rescaled(to(0, reg_a(0)), p.multiplier_1, p.shift_1, 0),
            to(1, _ZERO, STREAM_B, shifted(p.left_shift), alu=Alu.ADD),
            *rescaled(to(1, reg_a(1)), p.multiplier_2, p.shift_2, 1))


def _prelu(op: Operator, subgraph: Subgraph) -> tuple[Uop, ...]:
    """The sum of the positive and the negative side, one of which is 0; stream B has int8 slopes."""
    p = activation.prelu_params(op, subgraph)
    slope = to(1, _ZERO, STREAM_B, alu=Alu.ADD), to(1, reg_a(1), immediate(p.alpha_zero_point), alu=Alu.SUB)
    return (*slope, to(0, STREAM_A, immediate(0), alu=Alu.MIN), to(0, reg_a(0), reg_b(1), low()),
            *rescaled(to(0, reg_a(0)), p.alpha_multiplier, p.alpha_shift, 0),
            to(1, STREAM_A, immediate(0), alu=Alu.MAX),
            *rescaled(to(1, reg_a(1)), p.multiplier, p.shift, 1),
            {**reg_a(0), **reg_b(1), "alu": Alu.ADD, "clamp": 1, **OUT})


def _binary(op: Operator, subgraph: Subgraph) -> tuple[Uop, ...]:
    """Program of two streams."""
    if op.op in ("MAXIMUM", "MINIMUM"):
        return ({**STREAMS, "alu": Alu[op.op[:3]], **OUT},)
    if op.op == "MUL":
        m = elementwise.mul_params(op, subgraph)
        return (to(0, STREAMS, low()),
                *clamped(rescaled(reg_a(0), m.multiplier, m.shift, 0), m.act_min, m.act_max))
    if op.op == "DIV":
        return tuple(divide_wide_program(product.div_params(op, subgraph)))
    if op.op == "PRELU":
        return _prelu(op, subgraph)
    if op.op in ("EQUAL", "NOT_EQUAL"):
        return (*_common(elementwise.compare_params(op, subgraph)),
                {**reg_a(0), **reg_b(1), "alu": Alu[op.op], **OUT})
    if op.op.startswith(("LESS", "GREATER")):
        return ({**STREAMS, "alu": Alu[op.op.replace("GREATER", "LESS")], **OUT},)
    if op.op == "SQUARED_DIFFERENCE":
        s = elementwise.square_params(op, subgraph)
        return (*_common(s), to(0, reg_a(0), reg_b(1), alu=Alu.SUB), to(0, reg_a(0), reg_b(0), low()),
                *rescaled({**reg_a(0), "clamp": 1, **OUT}, s.output_multiplier, s.output_shift, 0))
    p = elementwise.add_params(op, subgraph)
    last = rescaled({**reg_a(0), **reg_b(1), "alu": Alu[op.op]}, p.output_multiplier, p.output_shift, 0)
    return (*_common(p), *clamped(last, p.act_min, p.act_max))


def lower_binary_wide(state: Legalizer, op: Operator, inputs: tuple[Value, Value]) -> None:
    """An elementwise operator on two tensors of the output's shape."""
    output = state.subgraph.tensors[op.outputs[0]]
    dtypes = _INT16, TYPE_CODES[state.tensor(op, 1).dtype]
    state.layers.append(Flat(op.index, op.op, inputs[::-1] if op.op.startswith("GREATER") else inputs,
                             state.output(op), element_count(output.shape), dtypes, TYPE_CODES[output.dtype],
                             _binary(op, state.subgraph)))
