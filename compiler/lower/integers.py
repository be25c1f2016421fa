"""Arithmetic of int32, and of codes without scales: elementwise programs of the vector unit."""

import numpy as np

from tq_hw.compiler.ir.staged import Flat
from tq_hw.compiler.ir.value import TYPE_CODES, element_count
from tq_hw.compiler.lower.legalize import Legalizer, lowers
from tq_hw.compiler.lower.spread import spread
from tq_hw.compiler.programs.integers import integer_divide, integer_power, right_shift, xor
from tq_hw.compiler.programs.words import OUT, STREAM_A, STREAMS, Uop, immediate, low, reg_a, reg_b, to
from tq_hw.isa.uop import Alu, Source
from tq_hw.model.graph import Operator
from tq_hw.sim.golden.arith import INT32_MAX, INT32_MIN
from tq_hw.sim.golden.elementwise import int32_range

__all__ = ["SQUARE", "lower_integer_unary", "lower_integers"]

#: Register 0 times itself.
SQUARE: Uop = {**reg_a(0), **reg_b(0), **low()}
_NEGATIVE: Uop = {"a_source": Source.IMMEDIATE, "immediate": 0, "alu": Alu.SUB}
#: ALU functions whose name differs from the model's operator.
_ALU_NAMES = {"MAXIMUM": "MAX", "MINIMUM": "MIN"}


def _program(op: Operator) -> list[Uop]:
    """Return the program of two streams, before a fused activation; its last micro-operation has no destination."""
    if op.op == "DIV":
        *uops, last = integer_divide(op.op)
        del last["destination"]
        return [*uops, last]
    if op.op == "MUL":
        return [STREAMS | low()]
    if op.op == "SQUARED_DIFFERENCE":
        return [to(0, STREAMS, alu=Alu.SUB), SQUARE]
    return [{**STREAMS, "alu": Alu[_ALU_NAMES.get(op.op, op.op.replace("GREATER", "LESS"))]}]


def lower_integers(state: Legalizer, op: Operator) -> None:
    """Sums, products, quotients, extremes and comparisons of int32."""
    uops = _program(op)
    least, most = INT32_MIN, INT32_MAX
    if op.op in ("ADD", "SUB", "MUL", "DIV"):
        least, most = int32_range(op, state.subgraph)
    for limit, alu, bound in ((least, Alu.MAX, INT32_MIN), (most, Alu.MIN, INT32_MAX)):
        if limit != bound:
            uops = [*uops[:-1], to(0, uops[-1]), {**reg_a(0), **immediate(limit), "alu": alu}]
    _two_streams(state, op, [*uops[:-1], uops[-1] | OUT])


def _two_streams(state: Legalizer, op: Operator, uops: list[Uop]) -> None:
    inputs = (spread(state, op, 0), spread(state, op, 1))
    output, types = state.subgraph.tensors[op.outputs[0]], [TYPE_CODES[state.tensor(op, at).dtype] for at in range(2)]
    state.layers.append(Flat(
        op.index, op.op, inputs[::-1] if op.op.startswith("GREATER") else inputs, state.output(op),
        element_count(output.shape), tuple(types), TYPE_CODES[output.dtype], tuple(uops)))


@lowers("FLOOR_DIV", "FLOOR_MOD")
def lower_floor(state: Legalizer, op: Operator) -> None:
    """Quotient and remainder of integers of any type; results wrap in that type."""
    _two_streams(state, op, integer_divide(op.op))


@lowers("BITWISE_XOR")
def lower_xor(state: Legalizer, op: Operator) -> None:
    """Exclusive or, for all types: bits above those of the type are dropped."""
    _two_streams(state, op, xor())


@lowers("RIGHT_SHIFT")
def lower_right_shift(state: Legalizer, op: Operator) -> None:
    """Shifts by a computed or constant count."""
    _two_streams(state, op, right_shift(8 * np.dtype(state.tensor(op, 0).dtype).itemsize))


def _one_stream(state: Legalizer, op: Operator, uops: list[Uop]) -> None:
    source, output = spread(state, op, 0), state.output(op)
    state.layers.append(Flat(op.index, op.op, (source,), output, output.size_bytes // 4,
                             (TYPE_CODES["int32"],), TYPE_CODES["int32"], tuple(uops)))


def lower_integer_unary(state: Legalizer, op: Operator) -> None:
    """ABS and NEG of int32."""
    if op.op == "NEG":
        _one_stream(state, op, [to(0, STREAM_A), {**_NEGATIVE, **reg_b(0), **OUT}])
        return
    _one_stream(state, op, [to(0, STREAM_A), to(1, _NEGATIVE, reg_b(0)),
                            {**reg_a(0), **reg_b(1), "alu": Alu.MAX, **OUT}])


@lowers("SIGN")
def lower_sign(state: Legalizer, op: Operator) -> None:
    """SIGN: a clamp to -1..1."""
    _one_stream(state, op, [to(0, STREAM_A, immediate(-1), alu=Alu.MAX),
                            {**reg_a(0), **immediate(1), "alu": Alu.MIN, **OUT}])


@lowers("POW")
def lower_power(state: Legalizer, op: Operator) -> None:
    """Squares and products, for one constant exponent."""
    _one_stream(state, op, integer_power(int(state.constant(op, 1).flat[0])))
