"""Elements wider than a byte: QUANTIZE and CAST between integer types, and look-up by run-time indices.

A look-up is a product of one-hot rows with the table; an index outside the table gives zeros.
"""

import numpy as np

from tq_hw.compiler.ir.layers import Pad
from tq_hw.compiler.ir.staged import Flat
from tq_hw.compiler.ir.value import TYPE_CODES, Value, element_count, output_code
from tq_hw.compiler.lower.elementwise import table_pass
from tq_hw.compiler.lower.halves import half, joined
from tq_hw.compiler.lower.legalize import Legalizer, lowers
from tq_hw.compiler.lower.movement import lower_pad_move
from tq_hw.compiler.lower.raw_float import is_true, whole_numbers
from tq_hw.compiler.programs.words import (
    OUT,
    SAR,
    STREAM_A,
    STREAM_B,
    Uop,
    immediate,
    immediate_a,
    reg_a,
    reg_b,
    rescaled,
    to,
)
from tq_hw.isa.uop import Alu
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.graph import Operator
from tq_hw.sim.golden import quantize
from tq_hw.sim.golden.arith import multiply_by_quantized_multiplier

__all__ = ["quantize_wide"]

_CODES = np.arange(256)
#: Signed value of each table index (the low 8 bits of an operand).
_SIGNED = np.where(_CODES < 128, _CODES, _CODES - 256).astype(np.int64)


def quantize_wide(state: Legalizer, op: Operator) -> None:
    """QUANTIZE from or to int16 or int32."""
    source, target = state.tensor(op, 0), state.subgraph.tensors[op.outputs[0]]
    p = quantize.quantize_params(op, state.subgraph)
    centre = to(0, STREAM_A, immediate(p.input_zero_point), alu=Alu.SUB)
    scaled: Uop = {**reg_a(0), "zero_point": p.output_zero_point}
    uops: tuple[Uop, ...]
    if target.dtype == "uint8":
        uops = (centre, *rescaled(to(0, scaled), p.multiplier, p.shift, 0), to(0, reg_a(0), immediate(0), alu=Alu.MAX),
                {**reg_a(0), **immediate(255), "alu": Alu.MIN, **OUT})
    else:
        clamp: Uop = {} if target.dtype == "int32" else {"clamp": 1, "act_min": -128, "act_max": 127}
        uops = (centre, *rescaled({**scaled, **clamp, **OUT}, p.multiplier, p.shift, 0))
    state.layers.append(Flat(op.index, op.op, (state.input(op, 0),), state.output(op), element_count(target.shape),
                             (TYPE_CODES[source.dtype],), output_code(target.dtype), uops))


@lowers("CAST")
def lower_cast(state: Legalizer, op: Operator) -> None:
    """Integers to integers of another width, to bool by comparison with 0; the host converts an output to float.

    A float32 input of the model is first converted to int32.
    """
    source, target = state.tensor(op, 0), state.subgraph.tensors[op.outputs[0]]
    if target.dtype == "float32" and source.dtype in TYPE_CODES:
        state.edges[target.index] = source.index
        state.plain_edges.add(target.index)
        state.input(op, 0)
        return
    if source.dtype == "float32" and source.index in state.values and target.dtype == "bool":
        is_true(state, op)
        return
    is_raw = source.dtype == "float32" and source.index in state.values and target.dtype in TYPE_CODES
    if not is_raw and not {source.dtype, target.dtype} <= {*TYPE_CODES, "int64"}:
        raise UnsupportedError(f"CAST from {source.dtype} to {target.dtype} is not supported; known are "
                               f"{', '.join(TYPE_CODES)}, int64, and float32 as an output of the model")
    count = element_count(target.shape)
    value, dtype = (whole_numbers(state, op), "int32") if is_raw else (state.input(op, 0), source.dtype)
    if (source.dtype, target.dtype) == ("int64", "bool"):
        low, high = (half(state, op, value, count, part) for part in range(2))
        state.layers.append(Flat(op.index, op.op, (low, high), state.output(op), count, (TYPE_CODES["int32"],) * 2, 0, (
            to(0, STREAM_A, immediate(0), alu=Alu.NOT_EQUAL),
            to(1, immediate_a(0), STREAM_B, alu=Alu.NOT_EQUAL),
            {**reg_a(0), **reg_b(1), "alu": Alu.MAX, **OUT})))
        return
    if source.dtype == "int64":
        value, dtype = half(state, op, value, count, 0), "int32"
    if target.dtype == "int64":
        _to_int64(state, op, value, dtype, count)
        return
    compare: Uop = {**immediate(0), "alu": Alu.NOT_EQUAL} if target.dtype == "bool" else {}
    state.layers.append(Flat(op.index, op.op, (value,), state.output(op), count, (TYPE_CODES[dtype],),
                             output_code(target.dtype), ({**STREAM_A, **compare, **OUT},)))


def _to_int64(state: Legalizer, op: Operator, value: Value, dtype: str, count: int) -> None:
    """Write the number as int32, followed by its sign extension."""
    name, words, parts = state.subgraph.tensors[op.outputs[0]].name, (1, 1, 1, 4 * count), []
    signed: Uop = {**immediate(31), **SAR}
    for part, change in (("low", {}), ("high", signed)):
        parts.append(Value(f"{name} ({part})", op.outputs[0], words))
        state.layers.append(Flat(op.index, op.op, (value,), parts[-1], count, (TYPE_CODES[dtype],),
                                 TYPE_CODES["int32"], ({**STREAM_A, **change, **OUT},)))
    joined(state, op, parts, count)


@lowers("QUANTIZE")
def lower_quantize(state: Legalizer, op: Operator) -> None:
    """A table over the 256 codes; uint8 <-> int8 with the same scale is a view; the host quantizes float32."""
    source, target = state.tensor(op, 0), state.subgraph.tensors[op.outputs[0]]
    if source.dtype == "float32":
        if source.index in state.values:
            raise UnsupportedError(f"float32 input {source.name!r} (tensor {source.index}) is quantized to "
                                   f"{target.dtype}, and others read it as it is; quantize it to int8, or give it "
                                   "twice")
        first = state.subgraph.tensors[state.edges.setdefault(source.index, target.index)]
        if first is target:
            state.output(op)
        elif (first.dtype, first.quantization) == (target.dtype, target.quantization):
            state.values[target.index] = state.values[first.index]
        else:
            raise UnsupportedError(f"float32 input {source.name!r} (tensor {source.index}) is quantized in two ways; "
                                   "quantize it once, then requantize its int8 tensor")
        return
    if {"int16", "int32"} & {source.dtype, target.dtype}:
        quantize_wide(state, op)
        return
    p = quantize.quantize_params(op, state.subgraph)
    codes = _CODES.astype(np.int64) if source.dtype == "uint8" else _SIGNED
    table = np.clip(multiply_by_quantized_multiplier(codes - p.input_zero_point, p.multiplier, p.shift)
                    + p.output_zero_point, p.act_min, p.act_max)
    value = state.input(op, 0)
    if (source.dtype, target.dtype) == ("uint8", "int8") and np.array_equal(table, _CODES - 128):
        state.values[target.index] = state.new_value(target, alias_of=value, flip=True)
        return
    table_pass(state, op, value, table)


@lowers("DEQUANTIZE")
def lower_dequantize(state: Legalizer, op: Operator) -> None:
    """The host dequantizes an output of the model."""
    target = state.subgraph.tensors[op.outputs[0]]
    state.edges[target.index] = state.tensor(op, 0).index
    state.input(op, 0)


@lowers("RESHAPE", "SQUEEZE", "EXPAND_DIMS")
def lower_reshape(state: Legalizer, op: Operator) -> None:
    """Another view of the same bytes; the same value if the view does not change."""
    source = state.input(op, 0)
    value = state.new_value(state.subgraph.tensors[op.outputs[0]], alias_of=source, flip=source.flip)
    state.values[op.outputs[0]] = source if value.shape == source.shape else value


@lowers("PAD")
def lower_pad(state: Legalizer, op: Operator) -> None:
    """Rows and columns around the image, usually absorbed by the convolution after it; other axes by a move."""
    paddings = state.constant(op, 1).astype(int)
    tensor = state.tensor(op, 0)
    if len(tensor.shape) != 4 or paddings[0].any() or paddings[3].any() or tensor.dtype != "int8":
        lower_pad_move(state, op)
        return
    # The padded value may belong to a tensor with another zero point.
    source, output = state.input(op, 0), state.output(op)
    state.layers.append(Pad(op.index, op.op, (source,), output, (int(paddings[1][0]), int(paddings[2][0])),
                            output.zero_point))
