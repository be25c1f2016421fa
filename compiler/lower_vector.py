"""Operators that become programs of the vector unit, and those that are only another view of the same bytes."""

import numpy as np

from tq_hw.compiler.ir.layers import Pad
from tq_hw.compiler.legalize import Legalizer, lowers
from tq_hw.compiler.lower_move import lower_pad_move
from tq_hw.compiler.lower_unary import table_pass
from tq_hw.compiler.lower_wide import quantize_wide
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.graph import Operator
from tq_hw.sim.golden import quantize
from tq_hw.sim.golden.arith import multiply_by_quantized_multiplier

__all__: list[str] = []

_CODES = np.arange(256)
#: Signed value of each table index (the low 8 bits of an operand).
_SIGNED = np.where(_CODES < 128, _CODES, _CODES - 256).astype(np.int64)


@lowers("QUANTIZE")
def lower_quantize(state: Legalizer, op: Operator) -> None:
    """A table over the 256 codes; uint8 <-> int8 with the same scale is a view; float32 stays with the host."""
    source, target = state.tensor(op, 0), state.subgraph.tensors[op.outputs[0]]
    if source.dtype == "float32":
        first = state.subgraph.tensors[state.edges.setdefault(source.index, target.index)]
        if first is target:
            state.output(op)
        elif (first.dtype, first.quantization) == (target.dtype, target.quantization):
            state.values[target.index] = state.values[first.index]
        else:
            raise UnsupportedError(f"float32 input {source.name!r} (tensor {source.index}) is quantized in two ways; "
                                   "quantize it once, and its int8 tensor again")
        return
    if "int16" in (source.dtype, target.dtype) or target.dtype == "int32":
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
    """At a model output the host makes the floats."""
    target = state.subgraph.tensors[op.outputs[0]]
    state.edges[target.index] = state.tensor(op, 0).index
    state.input(op, 0)


@lowers("RESHAPE", "SQUEEZE", "EXPAND_DIMS")
def lower_reshape(state: Legalizer, op: Operator) -> None:
    """Another view of the same bytes; the same value where the view does not change."""
    source = state.input(op, 0)
    value = state.new_value(state.subgraph.tensors[op.outputs[0]], alias_of=source, flip=source.flip)
    state.values[op.outputs[0]] = source if value.shape == source.shape else value


@lowers("PAD")
def lower_pad(state: Legalizer, op: Operator) -> None:
    """Rows and columns around the image, usually taken over by the convolution behind it; other axes by a move."""
    paddings = state.constant(op, 1).astype(int)
    tensor = state.tensor(op, 0)
    if len(tensor.shape) != 4 or paddings[0].any() or paddings[3].any() or tensor.dtype != "int8":
        lower_pad_move(state, op)
        return
    source, output = state.input(op, 0), state.output(op)
    state.layers.append(Pad(op.index, op.op, (source,), output, (int(paddings[1][0]), int(paddings[2][0])),
                            source.zero_point))
