"""Operators on float32 numbers packed into int32: programs of the vector unit over elements of any shape."""

from collections.abc import Sequence

import numpy as np

from tq_hw.compiler.ir.staged import Flat
from tq_hw.compiler.ir.value import TYPE_CODES, IntArray, Value, element_count
from tq_hw.compiler.lower.legalize import Legalizer, lowers, publish
from tq_hw.compiler.lower.reduce import grouped_value
from tq_hw.compiler.lower.spread import spread
from tq_hw.compiler.programs import packed_exp, packed_log, packed_power
from tq_hw.compiler.programs.packed_division import quotient_program, quotient_table, root_program, root_table
from tq_hw.compiler.programs.packed_float import (
    codes_program,
    integer_program,
    product_program,
    reduce_product_program,
    reduce_program,
    round_program,
    sum_program,
    wide_integer_program,
)
from tq_hw.compiler.programs.packed_order import (
    extreme_program,
    float_program,
    key_program,
    number_program,
    sign_program,
)
from tq_hw.compiler.programs.words import Uop
from tq_hw.model.graph import Operator
from tq_hw.sim.golden.reduce import axes
from tq_hw.sim.golden.registry import bool_option, int_option

__all__: list[str] = []

_PACKED = TYPE_CODES["int32"]
_INT16 = TYPE_CODES["int16"]
#: Tables of a program.
_Tables = tuple[IntArray | None, IntArray | None]
_KEYS = {"PACKED_KEY": key_program, "PACKED_OF_KEY": number_program}


def _program(op: Operator) -> tuple[list[Uop], IntArray | None]:
    """Return micro-operations and table of an operator of two inputs."""
    if op.op in ("PACKED_MAX", "PACKED_MIN"):
        return extreme_program(least=op.op == "PACKED_MIN"), None
    if op.op == "PACKED_SIGN":
        return sign_program(), None
    relu = bool_option(op, "relu")
    if op.op == "PACKED_DIV":
        return quotient_program(), quotient_table()
    if op.op == "PACKED_MUL":
        return product_program(relu=relu), None
    return sum_program(difference=op.op == "PACKED_SUB", relu=relu), None


@lowers("PACKED_ADD", "PACKED_SUB", "PACKED_MUL", "PACKED_DIV", "PACKED_MAX", "PACKED_MIN", "PACKED_SIGN")
def lower_packed_binary(state: Legalizer, op: Operator) -> None:
    """Elementwise operations on two tensors."""
    uops, table = _program(op)
    output = state.subgraph.tensors[op.outputs[0]]
    state.layers.append(Flat(op.index, op.op, (spread(state, op, 0), spread(state, op, 1)), state.output(op),
                             element_count(output.shape), (_PACKED, _PACKED), _PACKED, tuple(uops),
                             tables=(table, None)))


@lowers("PACKED_SQRT", "PACKED_RSQRT", *_KEYS)
def lower_packed_unary(state: Legalizer, op: Operator) -> None:
    """Elementwise roots and keys."""
    table: IntArray | None
    if op.op in _KEYS:
        uops, table = _KEYS[op.op](), None
    else:
        uops, table = root_program(reciprocal=op.op == "PACKED_RSQRT"), root_table()
    output = state.subgraph.tensors[op.outputs[0]]
    state.layers.append(Flat(op.index, op.op, (state.input(op, 0),), state.output(op), element_count(output.shape),
                             (_PACKED,), _PACKED, tuple(uops), tables=(table, None)))


@lowers("PACKED_FLOAT")
def lower_packed_float(state: Legalizer, op: Operator) -> None:
    """Unpacking to float32, optionally with the signs of another input."""
    output, types = state.subgraph.tensors[op.outputs[0]], (_PACKED,) * len(op.inputs)
    state.layers.append(Flat(op.index, op.op, tuple(spread(state, op, at) for at in range(len(op.inputs))),
                             state.output(op), element_count(output.shape), types, _PACKED,
                             tuple(float_program(signed=len(types) > 1))))


@lowers("PACKED_INTEGER", "PACKED_ROUND")
def lower_packed_integers(state: Legalizer, op: Operator) -> None:
    """Conversions from int16 or int32, and to int16."""
    if op.op == "PACKED_ROUND":
        uops, types = round_program(), (_PACKED, _INT16)
    elif state.tensor(op, 0).dtype == "int16":
        uops, types = integer_program(), (_INT16, _PACKED)
    else:
        uops, types = wide_integer_program(), (TYPE_CODES["int32"], _PACKED)
    output = state.subgraph.tensors[op.outputs[0]]
    state.layers.append(Flat(op.index, op.op, (state.input(op, 0),), state.output(op), element_count(output.shape),
                             types[:1], types[1], tuple(uops)))


@lowers("PACKED_EXP", "PACKED_LOG", "PACKED_POW")
def lower_packed_steps(state: Legalizer, op: Operator) -> None:
    """A sequence of programs, with intermediate results in memory."""
    steps = _steps(op)
    output, made = state.subgraph.tensors[op.outputs[0]], [state.input(op, 0)]
    count = element_count(output.shape)
    for number, (uops, sources, tables) in enumerate(steps, 1):
        value = state.output(op) if number == len(steps) else Value(
            f"{output.name} (step {number})", op.outputs[0], (1, 1, 1, 4 * count))
        state.layers.append(Flat(op.index, op.op, tuple(made[source] for source in sources), value, count,
                                 (_PACKED,) * len(sources), _PACKED, tuple(uops), tables=tables))
        made.append(value)


def _steps(op: Operator) -> list[tuple[list[Uop], Sequence[int], _Tables]]:
    """Return programs, the sources of their streams (0 is x, n the result of the n-th program), and their tables."""
    if op.op == "PACKED_POW":
        return [(packed_power.error_program(), (0,), packed_power.error_tables()),
                (packed_power.power_program(), (0, 1), packed_power.power_tables())]
    steps, tables = ((packed_exp.STEPS, packed_exp.power_tables()) if op.op == "PACKED_EXP" else
                     (packed_log.STEPS, packed_log.log_tables()))
    return [(uops, sources, tables if any("a_table" in uop for uop in uops) else (None, None))
            for uops, sources in steps]


@lowers("PACKED_SUM", "PACKED_PROD")
def lower_packed_reduction(state: Legalizer, op: Operator) -> None:
    """Sequential additions or multiplications, for adjacent results at the same time."""
    tensor, name = state.tensor(op, 0), state.subgraph.tensors[op.outputs[0]].name
    # A step takes as long for a few elements as for a full register.
    value, (outer, count, inner) = grouped_value(state, op, axes(state.constant(op, 1), len(tensor.shape)), images=1)
    before, body, after = map(tuple, reduce_program() if op.op == "PACKED_SUM" else reduce_product_program())
    raw = Value(name, op.outputs[0], (1, 1, 1, 4 * outer * inner))
    state.layers.append(Flat(op.index, op.op, (value,), raw, inner, (_PACKED,), _PACKED, before, body, after, count,
                             images=outer))
    publish(state, op, raw)


@lowers("PACKED_CODES")
def lower_packed_codes(state: Legalizer, op: Operator) -> None:
    """QUANTIZE of packed numbers."""
    output = state.subgraph.tensors[op.outputs[0]]
    uops = codes_program(int_option(op, "left"), int_option(op, "multiplier"), int_option(op, "shift"),
                         output.zero_point)
    tables = (state.constant(op, 1).astype(np.int64), state.constant(op, 2).astype(np.int64))
    state.layers.append(Flat(op.index, op.op, (state.input(op, 0),), state.output(op), element_count(output.shape),
                             (_PACKED,), TYPE_CODES["int8"], tuple(uops), tables=tables))
