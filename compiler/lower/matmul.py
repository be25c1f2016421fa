"""BATCH_MATMUL and FULLY_CONNECTED: multiply-accumulate layers for constant weights, else products of activations."""

from dataclasses import replace

import numpy as np

from tq_hw.compiler.ir.layers import Mac
from tq_hw.compiler.ir.staged import MatMul
from tq_hw.compiler.ir.value import IntArray, Value
from tq_hw.compiler.lower.constraints import KERNEL_LIMIT
from tq_hw.compiler.lower.conv import bias_of, folded_bias
from tq_hw.compiler.lower.doubles import Scaling, double_scaling, reachable
from tq_hw.compiler.lower.elementwise import table_pass
from tq_hw.compiler.lower.legalize import Legalizer, lowers, publish, reshaped
from tq_hw.compiler.lower.moves import move_view
from tq_hw.compiler.lower.sixteen import plane_mac
from tq_hw.compiler.lower.sixteen_products import matmul_wide
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.graph import Operator
from tq_hw.sim.golden import fully_connected
from tq_hw.sim.golden.arith import INT8_CODES
from tq_hw.sim.golden.registry import bool_option

__all__: list[str] = []


def _operand(state: Legalizer, op: Operator, position: int, transposed: bool) -> tuple[Value, tuple[int, ...]]:
    """Return an operand as stacked matrices [1, count, rows, cols], and its shape."""
    tensor, value = state.tensor(op, position), state.input(op, position)
    # Constants of int8 beside int16 are words in memory.
    if position and tensor.dtype == "int8" and state.tensor(op, 0).dtype == "int16":
        tensor = replace(tensor, dtype="int16", data=state.constant(op, position).astype(np.int16))
        value = Value(f"{tensor.name} (words)", tensor.index, state.view(tensor.shape, tensor.dtype),
                      value.zero_point, data=tensor.data)
    shape = tensor.shape
    if transposed:
        shape = (*shape[:-2], shape[-1], shape[-2])
        if tensor.data is not None:
            value = Value(f"{tensor.name} (transposed)", tensor.index, state.view(shape, tensor.dtype),
                          value.zero_point, data=np.ascontiguousarray(np.swapaxes(tensor.data, -1, -2)))
        else:
            value = move_view(state, op, value, tensor, lambda x: np.swapaxes(x, -2, -3))
    row_bytes = shape[-1] * (2 if tensor.dtype == "int16" else 1)
    return reshaped(value, (1, int(np.prod(shape[:-2], dtype=np.int64)), shape[-2], row_bytes)), shape


def _pairs(lhs: tuple[int, ...], rhs: tuple[int, ...], batch: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Return the matrices of both operands for each matrix of the output."""
    places = [np.broadcast_to(np.arange(int(np.prod(shape[:-2], dtype=np.int64))).reshape(shape[:-2]), batch)
              for shape in (lhs, rhs)]
    return tuple(zip(places[0].reshape(-1).tolist(), places[1].reshape(-1).tolist(), strict=True))


@lowers("BATCH_MATMUL")
def lower_batch_matmul(state: Legalizer, op: Operator) -> None:
    """Products of matrices over the last two axes; leading axes broadcast."""
    p = fully_connected.params(op, state.subgraph)
    output = state.subgraph.tensors[op.outputs[0]]
    multiplier, shift = int(p.multiplier[0]), int(p.shift[0])
    rows, cols = output.shape[-2:]
    lhs, lhs_shape = _operand(state, op, 0, bool_option(op, "adj_x"))
    rhs_tensor = state.tensor(op, 1)
    batch = output.shape[:-2]
    if p.dtype == "int16":
        if rhs_tensor.dtype == "int8" and int(np.prod(rhs_tensor.shape[:-2])) == 1:
            matrix = state.constant(op, 1).reshape(rhs_tensor.shape[-2:])
            _sixteen(state, op, lhs, matrix if bool_option(op, "adj_y") else np.ascontiguousarray(matrix.T),
                     replace(p, multiplier=np.full(cols, multiplier), shift=np.full(cols, shift)))
            return
        rhs, rhs_shape = _operand(state, op, 1, bool_option(op, "adj_y"))
        matmul_wide(state, op, (lhs, rhs), _pairs(lhs_shape, rhs_shape, batch), p)
        return
    is_one = rhs_tensor.data is not None and int(np.prod(rhs_tensor.shape[:-2])) == 1
    if is_one and p.weight_zero_point == 0 and state.has_room((1, 1, p.depth), cols):
        matrix = state.constant(op, 1).reshape(rhs_tensor.shape[-2:])
        weights = (matrix if bool_option(op, "adj_y") else matrix.T).reshape(cols, 1, 1, p.depth)
        count = lhs.shape[1]
        raw = Value(output.name, output.index, (1, count, rows, cols), output.zero_point)
        bias = folded_bias(None, weights.sum(axis=(1, 2, 3), dtype=np.int64), p.input_zero_point)
        state.layers.append(Mac(
            op.index, op.op, (lhs,), raw, depthwise=False, weights=np.ascontiguousarray(weights), bias=bias,
            multiplier=np.full(cols, multiplier), shift=np.full(cols, shift), stride=(1, 1), dilation=(1, 1),
            pad=(0, 0), pad_value=p.input_zero_point, zero_point=p.output_zero_point, act_min=-128, act_max=127))
    else:
        rhs, rhs_shape = _operand(state, op, 1, bool_option(op, "adj_y"))
        pairs = _pairs(lhs_shape, rhs_shape, batch)
        raw = Value(output.name, output.index, (1, len(pairs), rows, cols), output.zero_point)
        state.layers.append(MatMul(op.index, op.op, (lhs, rhs), raw, pairs,
                                   (p.input_zero_point, p.weight_zero_point), multiplier, shift, p.output_zero_point))
    publish(state, op, raw)


@lowers("FULLY_CONNECTED")
def lower_fully_connected(state: Legalizer, op: Operator) -> None:
    """A 1x1 convolution over rows, or one window as large as the flattened image.

    Weights with a zero point, which PyTorch's exports have in products other than Linear, are treated as computed ones.
    So are those of rows that have no room in the scratchpad: a product loads its rows in parts.
    """
    p = fully_connected.params(op, state.subgraph)
    if fully_connected.is_of_words(op, state.subgraph):
        _of_words(state, op, p)
        return
    if state.tensor(op, 1).data is None or p.weight_zero_point:
        _computed_weights(state, op, p)
        return
    weights = state.constant(op, 1)
    source = state.input(op, 0)
    if p.dtype == "int16":
        _sixteen(state, op, source, weights, p)
        return
    tensor = state.subgraph.tensors[op.outputs[0]]
    image = source.root if source.alias_of is not None and not source.flip else source
    n, h, w, c = image.shape
    units = weights.shape[0]
    if (n, h * w * c) == (1, p.depth) and max(h, w) <= KERNEL_LIMIT and state.has_room((h, w, c), units):
        source, packed = image, weights.reshape(-1, h, w, c)
        pixels = (1, 1, 1)
    elif not state.has_room((1, 1, p.depth), units):
        _from_memory(state, op, weights, p)
        return
    else:
        rows = source.size_bytes // p.depth
        packed = weights.reshape(-1, 1, 1, p.depth)
        if source.shape[3] != p.depth:
            source = Value(source.name, source.tensor, (1, rows, 1, p.depth), source.zero_point, source.flip,
                           source.root)
        pixels = source.shape[:3]
    output = Value(tensor.name, tensor.index, (*pixels, units), tensor.zero_point)
    bias = folded_bias(bias_of(state, op, 2), packed.sum(axis=(1, 2, 3), dtype=np.int64), p.input_zero_point)
    scaling = Scaling("tflite", p.multiplier, p.shift)
    if p.real is not None:
        scaling = double_scaling(p, *reachable(packed, bias))
    state.layers.append(Mac(
        op.index, op.op, (source,), output, depthwise=False, weights=packed, bias=bias, multiplier=scaling.multiplier,
        shift=scaling.shift, stride=(1, 1), dilation=(1, 1), pad=(0, 0), pad_value=p.input_zero_point,
        zero_point=p.output_zero_point, act_min=p.act_min, act_max=p.act_max, rounding=scaling.rounding,
        steps=scaling.steps, wide=scaling.wide))
    publish(state, op, output)


def _sixteen(state: Legalizer, op: Operator, source: Value, weights: IntArray,
             p: fully_connected.MatMulParams) -> None:
    """A 1x1 convolution of both byte planes over rows."""
    tensor, rows = state.subgraph.tensors[op.outputs[0]], source.size_bytes // (2 * p.depth)
    raw = Value(tensor.name, tensor.index, (1, rows, 1, 2 * weights.shape[0]))
    plane_mac(state, op, reshaped(source, (1, rows, 1, 2 * p.depth)), raw, weights.reshape(-1, 1, 1, p.depth),
              bias_of(state, op, 2), p)
    publish(state, op, raw)


def _of_words(state: Legalizer, op: Operator, p: fully_connected.MatMulParams) -> None:
    """Product of int16 rows and transposed weights of int16."""
    source = state.input(op, 0)
    rows = reshaped(source, (1, 1, source.size_bytes // (2 * p.depth), 2 * p.depth))
    weights, _ = _operand(state, op, 1, True)
    matmul_wide(state, op, (rows, weights), ((0, 0),), p)


def _from_memory(state: Legalizer, op: Operator, weights: IntArray, p: fully_connected.MatMulParams) -> None:
    """Product of rows and constant weights, both loaded in parts."""
    bias = bias_of(state, op, 2)
    bias = np.zeros(weights.shape[0], np.int64) if bias is None else bias
    scaling = Scaling("tflite", p.multiplier, p.shift)
    if p.real is not None:
        folded = folded_bias(bias, weights.sum(axis=1, dtype=np.int64), p.input_zero_point)
        scaling = double_scaling(replace(p, act_min=-128, act_max=127), *reachable(weights, folded))
        if scaling.wide is not None:
            raise UnsupportedError(
                f"rows of {p.depth} channels have no room in the scratchpad, and factors of two words, which give "
                "LiteRT's result, are not taken for rows in parts; a larger scratchpad_bytes helps",
                ", and so does --profile canon")
    _product(state, op, p, scaling, bias)


def _computed_weights(state: Legalizer, op: Operator, p: fully_connected.MatMulParams) -> None:
    """Product of rows and weights that are computed, or have a zero point."""
    bias = bias_of(state, op, 2)
    scaling = Scaling("tflite", p.multiplier[:1], p.shift[:1])
    if p.real is not None:
        # The range of sums for any bytes less their zero points, with the least and the largest bias.
        sides = [[-128 - point, 127 - point] for point in (p.input_zero_point, p.weight_zero_point)]
        products = [p.depth * one * other for one in sides[0] for other in sides[1]]
        biases = np.zeros(1, np.int64) if bias is None else bias.astype(np.int64)
        unclamped = replace(p, multiplier=p.multiplier[:1], shift=p.shift[:1], real=p.real[:1], act_min=-128,
                            act_max=127)
        scaling = double_scaling(unclamped, np.array([min(products) + biases.min()]),
                                 np.array([max(products) + biases.max()]))
    _product(state, op, p, scaling, bias)


def _product(state: Legalizer, op: Operator, p: fully_connected.MatMulParams, scaling: Scaling,
             bias: IntArray | None) -> None:
    """Product of the rows and the transposed weights; the fused activation is a table after it."""
    output, source = state.subgraph.tensors[op.outputs[0]], state.input(op, 0)
    units, rows = state.tensor(op, 1).shape[0], source.size_bytes // p.depth
    weights, _ = _operand(state, op, 1, True)
    raw = Value(output.name, output.index, (1, 1, rows, units), output.zero_point)
    multiplier, shift = (each if each.size > 1 else int(each[0]) for each in (scaling.multiplier, scaling.shift))
    state.layers.append(MatMul(
        op.index, op.op, (reshaped(source, (1, 1, rows, p.depth)), weights), raw, ((0, 0),),
        (p.input_zero_point, p.weight_zero_point), multiplier, shift, p.output_zero_point,
        None if bias is None else bias.reshape(-1), rounding=scaling.rounding, steps=scaling.steps))
    publish(state, op, raw)
    if (p.act_min, p.act_max) != (-128, 127):
        table_pass(state, op, state.values[op.outputs[0]], np.clip(INT8_CODES.astype(np.int64), p.act_min, p.act_max))
