"""Binary elementwise operators: ADD, SUB, MUL, SQUARED_DIFFERENCE, MAXIMUM, MINIMUM, comparisons, PRELU.

With a constant of one value, or the same tensor twice, the operator is a table.
"""

from collections.abc import Callable

import numpy as np

from tq_hw.compiler.ir.layers import Elementwise
from tq_hw.compiler.ir.staged import Flat
from tq_hw.compiler.ir.value import TYPE_CODES, IntArray, Value
from tq_hw.compiler.lower.double_words import lower_double_words
from tq_hw.compiler.lower.integers import SQUARE, lower_integer_unary, lower_integers
from tq_hw.compiler.lower.legalize import Legalizer, lowers
from tq_hw.compiler.lower.sixteen_binary import lower_binary_wide
from tq_hw.compiler.lower.sixteen_elements import lower_unary_wide
from tq_hw.compiler.lower.sixteen_lookup import look_up_wide
from tq_hw.compiler.lower.spread import spread, spread_pixels
from tq_hw.compiler.programs.divide import divide_program, reciprocal_table
from tq_hw.compiler.programs.pairs import plain_uops
from tq_hw.compiler.programs.words import OUT, STREAM_A, STREAMS, Uop, reg_a, rescaled, shifted, to
from tq_hw.isa.uop import Alu, Destination, Multiply, Source
from tq_hw.model.graph import Operator
from tq_hw.sim.golden import activation, elementwise, product
from tq_hw.sim.golden.arith import INT8_CODES, multiply_by_quantized_multiplier
from tq_hw.sim.golden.kernels import KERNELS
from tq_hw.sim.golden.pointwise import INTEGER, POINTWISE, results
from tq_hw.sim.golden.registry import int_option, require_dtype

__all__ = ["table_pass"]

_SIGNED = INT8_CODES.astype(np.int64)
#: Micro-operations, tables 1 and 2, and whether the operands are swapped.
Program = tuple[list[dict[str, int]], tuple[IntArray | None, IntArray | None], bool]
_INT32 = TYPE_CODES["int32"]


def _add(state: Legalizer, op: Operator) -> Program:
    p = elementwise.add_params(op, state.subgraph)
    tables = (
        multiply_by_quantized_multiplier((_SIGNED - p.zero_point_1) << p.left_shift, p.multiplier_1, p.shift_1),
        multiply_by_quantized_multiplier((_SIGNED - p.zero_point_2) << p.left_shift, p.multiplier_2, p.shift_2))
    uop = {**STREAMS, "a_table": 1, "b_table": 2, "alu": Alu.ADD if op.op == "ADD" else Alu.SUB,
           "zero_point": p.output_zero_point, "clamp": 1, "act_min": p.act_min, "act_max": p.act_max, **OUT}
    return rescaled(uop, p.output_multiplier, p.output_shift, 0), tables, False


def _mul(state: Legalizer, op: Operator) -> Program:
    p = elementwise.mul_params(op, state.subgraph)
    product = {**STREAMS, "a_table": 1, "b_table": 2, "multiply": Multiply.LOW_B, "d_register": 0}
    out = {**reg_a(0), "zero_point": p.output_zero_point, "clamp": 1, "act_min": p.act_min, "act_max": p.act_max,
           **OUT}
    tables = _SIGNED - p.zero_point_1, _SIGNED - p.zero_point_2
    return [product, *rescaled(out, p.multiplier, p.shift, 0)], tables, False


def _squared_difference(state: Legalizer, op: Operator) -> Program:
    p = elementwise.square_params(op, state.subgraph)
    tables = (
        multiply_by_quantized_multiplier((_SIGNED - p.zero_point_1) << p.left_shift, p.multiplier_1, p.shift_1),
        multiply_by_quantized_multiplier((_SIGNED - p.zero_point_2) << p.left_shift, p.multiplier_2, p.shift_2))
    out = {**reg_a(0), "zero_point": p.output_zero_point, "clamp": 1, "act_min": -128, "act_max": 127, **OUT}
    return [to(0, STREAMS, alu=Alu.SUB, a_table=1, b_table=2), to(0, SQUARE),
            *rescaled(out, p.output_multiplier, p.output_shift, 0)], tables, False


def _extreme(state: Legalizer, op: Operator) -> Program:
    require_dtype(op, state.subgraph, "int8")
    return [{**STREAMS, "alu": Alu.MAX if op.op == "MAXIMUM" else Alu.MIN, **OUT}], (None, None), False


def _div(state: Legalizer, op: Operator) -> Program:
    uops = divide_program(product.div_params(op, state.subgraph))
    return uops, (None, reciprocal_table()), False


def _logical(state: Legalizer, op: Operator) -> Program:
    return [{**STREAMS, "alu": Alu.MIN if op.op == "LOGICAL_AND" else Alu.MAX, **OUT}], (None, None), False


def _compare(state: Legalizer, op: Operator) -> Program:
    if state.tensor(op, 0).dtype == "bool":
        return [{**STREAMS, "alu": Alu[op.op], **OUT}], (None, None), False
    p = elementwise.compare_params(op, state.subgraph)
    tables = (
        multiply_by_quantized_multiplier((_SIGNED - p.zero_point_1) << p.left_shift, p.multiplier_1, p.shift_1),
        multiply_by_quantized_multiplier((_SIGNED - p.zero_point_2) << p.left_shift, p.multiplier_2, p.shift_2))
    swapped = op.op.startswith("GREATER")
    alu = Alu[op.op.replace("GREATER", "LESS")]
    if swapped:
        tables = tables[1], tables[0]
    return [{**STREAMS, "a_table": 1, "b_table": 2, "alu": alu, **OUT}], tables, swapped


def _prelu(state: Legalizer, op: Operator) -> Program:
    p = activation.prelu_params(op, state.subgraph)
    centred = _SIGNED - p.input_zero_point
    # The table has the results of the positive side; -1 marks the negative side, which uses the product.
    positive = np.where(centred >= 0, multiply_by_quantized_multiplier(centred, p.multiplier, p.shift), -1)
    register = {"destination": Destination.REGISTER, "d_register": 0}
    uops = [
        {"a_source": Source.STREAM, "b_source": Source.IMMEDIATE, "immediate": p.input_zero_point, "alu": Alu.SUB,
         **register},
        {"a_source": Source.REGISTER, "b_source": Source.STREAM, "b_table": 2, "multiply": Multiply.LOW_B, **register},
        *rescaled({**reg_a(0), **register}, p.alpha_multiplier, p.alpha_shift, 0),
        {"a_source": Source.STREAM, "a_table": 1, "b_source": Source.REGISTER, "alu": Alu.SELECT_NEGATIVE,
         "zero_point": p.output_zero_point, "clamp": 1, "act_min": -128, "act_max": 127, **OUT}]
    return uops, (positive, _SIGNED - p.alpha_zero_point), False


_PROGRAMS: dict[str, Callable[[Legalizer, Operator], Program]] = {
    "ADD": _add, "SUB": _add, "MUL": _mul, "SQUARED_DIFFERENCE": _squared_difference, "MAXIMUM": _extreme,
    "MINIMUM": _extreme, "PRELU": _prelu, "DIV": _div, "LOGICAL_AND": _logical, "LOGICAL_OR": _logical,
    **dict.fromkeys(("LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL", "EQUAL", "NOT_EQUAL"), _compare)}


def _divisors(zero_point: int) -> np.ndarray:
    """Return all codes, that of 0 replaced: engines refuse a divisor of 0, so its table entry is not used."""
    beside = INT8_CODES + 1 if zero_point < 127 else INT8_CODES - 1
    return np.where(zero_point == INT8_CODES, beside, INT8_CODES).astype(np.int8)


def _as_table(state: Legalizer, op: Operator) -> bool:
    """Lower to one table if the result depends only on one run-time byte."""
    tensors = (state.tensor(op, 0), state.tensor(op, 1))
    output = state.subgraph.tensors[op.outputs[0]]
    codes = _divisors(tensors[1].zero_point) if op.op == "DIV" and tensors[1].dtype == "int8" else INT8_CODES
    if tensors[0].index == tensors[1].index:
        arrays: list[np.ndarray | None] = [INT8_CODES, codes]
        source = 0
    else:
        single = [t.data is not None and t.data.size > 0 and bool((t.data == t.data.flat[0]).all()) for t in tensors]
        if not any(single):
            return False
        source = 1 if single[0] else 0
        constant = np.asarray(tensors[1 - source].data).reshape(-1)[:1]
        arrays = [constant, codes] if source else [INT8_CODES, constant]
    if tensors[source].shape != output.shape:
        return False
    table_pass(state, op, state.input(op, source), KERNELS[op.op](op, state.subgraph, arrays)[0])
    return True


@lowers(*_PROGRAMS)
def lower_binary(state: Legalizer, op: Operator) -> None:
    """One program over two streams, or a table; int32 uses neither tables nor scales."""
    if state.tensor(op, 0).dtype == "int32":
        lower_integers(state, op)
        return
    if state.tensor(op, 0).dtype == "int64":
        lower_double_words(state, op)
        return
    if state.tensor(op, 0).dtype == "int16":
        lower_binary_wide(state, op, (spread(state, op, 0), spread(state, op, 1)))
        return
    if _as_table(state, op):
        return
    (first, *rest), tables, swapped = _PROGRAMS[op.op](state, op)
    inputs = (spread_pixels(state, op, 0), spread_pixels(state, op, 1))
    state.layers.append(Elementwise(op.index, op.op, inputs[::-1] if swapped else inputs, state.output(op), first,
                                    tables, tuple(rest), plain_uops(op, state.subgraph)))


def table_pass(state: Legalizer, op: Operator, source: Value, table: IntArray, into: Value | None = None) -> None:
    """Add a layer that looks every byte of `source` up in `table` (256 entries by unsigned code).

    It writes the operator's output, or the value `into`.
    """
    uop = {"a_source": Source.STREAM, "a_table": 1, "alu": Alu.PASS, "destination": Destination.OUTPUT}
    state.layers.append(Elementwise(op.index, op.op, (source,), into or state.output(op), uop,
                                    (table.astype(np.int64), None)))


@lowers("TABLE")
def lower_table(state: Legalizer, op: Operator) -> None:
    """A table that patterns made of several operators, of bytes or int16; its results may be int32 or float32."""
    table, output = state.constant(op, 1), state.subgraph.tensors[op.outputs[0]]
    dtype = output.dtype
    if dtype == "float32":
        table, dtype = table.view(np.int32), "int32"
    if state.tensor(op, 0).dtype == "int16":
        look_up_wide(state, op, state.input(op, 0), table, dtype)
        return
    if dtype in ("int16", "int32"):
        uop: Uop = {"a_source": Source.STREAM, "a_table": 1, **OUT}
        state.layers.append(Flat(op.index, op.op, (state.input(op, 0),), state.output(op),
                                 int(np.prod(output.shape, dtype=np.int64)), (0,), TYPE_CODES[dtype], (uop,),
                                 tables=(table.astype(np.int64), None)))
        return
    table_pass(state, op, state.input(op, 0), table)


@lowers("PAIR")
def lower_pair(state: Legalizer, op: Operator) -> None:
    """A pair that a pattern made of float32 operators on two tensors."""
    kind, multiplier = op.options["kind"], int_option(op, "multiplier")
    joined: Uop = {**STREAMS, "a_table": 1, "b_table": 2, **(
        {"multiply": Multiply.LOW_B} if kind == "MUL" else {"alu": Alu[str(kind)]})}
    out: Uop = {"zero_point": int_option(op, "zero_point"), "clamp": 1, "act_min": int_option(op, "act_min"),
                "act_max": int_option(op, "act_max"), **OUT}
    if kind == "MUL":
        uops = [to(0, joined), *rescaled({**reg_a(0), **out}, multiplier, int_option(op, "shift"), 0)]
    else:
        uops = [{**joined, **shifted(int_option(op, "shift")), **out}]
    tables = (state.constant(op, 2).astype(np.int64), state.constant(op, 3).astype(np.int64))
    inputs = (spread_pixels(state, op, 0), spread_pixels(state, op, 1))
    state.layers.append(Elementwise(op.index, op.op, inputs, state.output(op), uops[0], tables, tuple(uops[1:])))


@lowers("SCALE")
def lower_scale(state: Legalizer, op: Operator) -> None:
    """int32 to int8 by a multiplier that a pattern chose."""
    output = state.subgraph.tensors[op.outputs[0]]
    uop: Uop = {**STREAM_A, "zero_point": int_option(op, "zero_point"), "clamp": 1, "act_min": -128, "act_max": 127,
                **OUT}
    uops = rescaled(uop, int_option(op, "multiplier"), int_option(op, "shift"), 0)
    state.layers.append(Flat(op.index, op.op, (state.input(op, 0),), state.output(op),
                             int(np.prod(output.shape, dtype=np.int64)), (_INT32,), 0, tuple(uops)))


@lowers("LOGICAL_NOT", "LOGISTIC", "TANH", "RELU", "RELU6", "RELU_N1_TO_1", "LEAKY_RELU", "HARD_SWISH", *POINTWISE)
def lower_unary(state: Legalizer, op: Operator) -> None:
    """Any function of one int8 as a table; a program for int16, and for int32 operators."""
    if state.tensor(op, 0).dtype == "int32" and op.op in INTEGER:
        lower_integer_unary(state, op)
        return
    if state.tensor(op, 0).dtype == "int16" and op.op in POINTWISE:
        table = np.roll(results(op, state.subgraph), 1 << 15)
        look_up_wide(state, op, state.input(op, 0), table, "int16")
        return
    if state.tensor(op, 0).dtype == "int16":
        lower_unary_wide(state, op)
        return
    table = KERNELS[op.op](op, state.subgraph, [INT8_CODES])[0]
    table_pass(state, op, state.input(op, 0), table)
