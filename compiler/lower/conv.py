"""Convolutions as multiply-accumulate layers, and the constants of averages.

The array multiplies raw int8, so `zero_point * sum(w)` is subtracted from the bias here. Padding has the value of the
zero point, so this correction is also right at the border. An average is a depthwise convolution with weights of one.
"""

from dataclasses import dataclass

import numpy as np

from tq_hw.compiler.ir.layers import Mac
from tq_hw.compiler.ir.staged import Copy, Move
from tq_hw.compiler.ir.strided import blank, copy_between
from tq_hw.compiler.ir.value import IntArray, Value
from tq_hw.compiler.lower.legalize import Legalizer, lowers, publish, reshaped
from tq_hw.compiler.lower.sixteen import plane_mac
from tq_hw.compiler.lower.wide_pixels import WidePixels, find_wide_pixels, tiled
from tq_hw.compiler.rewrite.rewrite import ADDED_WEIGHTS
from tq_hw.isa.sizes import ceil_div
from tq_hw.model.graph import Operator
from tq_hw.sim.golden import conv
from tq_hw.sim.golden.arith import wrap_int32
from tq_hw.sim.golden.registry import int_option

__all__ = ["bias_of", "divide_params", "folded_bias"]

def folded_bias(bias: IntArray | None, sums: IntArray, zero_point: int) -> IntArray:
    """Bias less `zero_point * sums`, int32."""
    base = np.zeros(sums.shape, np.int64) if bias is None else bias.astype(np.int64).reshape(-1)
    return wrap_int32(base - zero_point * sums)


def bias_of(state: Legalizer, op: Operator, position: int) -> IntArray | None:
    """Constant bias of an operator, None if it has none."""
    return state.constant(op, position) if len(op.inputs) > position and op.inputs[position] >= 0 else None


@lowers("CONV_2D", "DEPTHWISE_CONV_2D")
def lower_conv(state: Legalizer, op: Operator) -> None:
    """Windows over an image; groups that `rewrite.groups` left together become dense weights with zeros.

    With one channel a group, a CONV_2D is a depthwise convolution.
    """
    p = conv.params(op, state.subgraph)
    weights = state.constant(op, 1)
    source, (rows_before, cols_before) = state.through_pad(state.input(op, 0))
    depthwise, kernel = op.op == "DEPTHWISE_CONV_2D", weights.shape[1:3]
    in_channels = state.tensor(op, 0).shape[3]
    if not depthwise and 1 < in_channels == p.groups == weights.shape[0]:
        depthwise, weights = True, np.ascontiguousarray(weights.transpose(3, 1, 2, 0))
    if depthwise and p.depth_multiplier == 1 and in_channels > 1:
        packed = weights[0]
        sums = packed.sum(axis=(0, 1), dtype=np.int64)
    else:
        if depthwise:
            packed = _dense_depthwise(weights[0], in_channels, p.depth_multiplier)
        else:
            packed = _dense_groups(weights, in_channels, p.groups)
        depthwise = False
        sums = packed.sum(axis=(1, 2, 3), dtype=np.int64)
    # Weights of zero that a rewrite added are not weights of the model.
    useful = weights.size - (int_option(op, ADDED_WEIGHTS) if ADDED_WEIGHTS in op.options else 0)
    if p.dtype == "int16":
        output = state.subgraph.tensors[op.outputs[0]].shape
        wide = None if depthwise or _spread(p, kernel)[1] > 1 else find_wide_pixels(
            state.tensor(op, 0).shape, output, packed.shape, p.stride_w, p.pad_left)
        if wide is not None:
            _lower_wide_pixels(state, op, source, packed, p, wide, useful)
            return
        plane_mac(state, op, source, state.output(op), packed, bias_of(state, op, 2), p, depthwise=depthwise,
                  stride=(p.stride_h, p.stride_w), dilation=_spread(p, kernel), pad=(p.pad_top, p.pad_left),
                  useful_weights=useful)
        return
    state.layers.append(Mac(
        op.index, op.op, (source,), state.output(op), depthwise=depthwise, weights=packed,
        bias=folded_bias(bias_of(state, op, 2), sums, p.input_zero_point), multiplier=p.multiplier, shift=p.shift,
        stride=(p.stride_h, p.stride_w),
        dilation=_spread(p, kernel),
        pad=(p.pad_top + rows_before, p.pad_left + cols_before), pad_value=p.input_zero_point,
        zero_point=p.output_zero_point, act_min=p.act_min, act_max=p.act_max, useful_weights=useful))


def _lower_wide_pixels(state: Legalizer, op: Operator, source: Value, weights: IntArray, p: conv.ConvParams,
                       wide: WidePixels, useful: int) -> None:
    """Add the layer with wide pixels; its output is another view of the operator's."""
    output, bias = state.subgraph.tensors[op.outputs[0]], bias_of(state, op, 2)
    n, h, w, size = source.shape
    rows, cols, channels = output.shape[1:]
    raw = Value(output.name, output.index, (n, rows, cols // wide.outputs, 2 * channels * wide.outputs))
    plane_mac(state, op, reshaped(source, (n, h, w // wide.inputs, size * wide.inputs)), raw, wide.weights(weights),
              None if bias is None else np.tile(bias.reshape(-1), wide.outputs), tiled(p, channels, wide.outputs),
              stride=(p.stride_h, 1), dilation=(_spread(p, weights.shape[1:3])[0], 1), pad=(p.pad_top, wide.pad),
              useful_weights=wide.outputs * useful)
    publish(state, op, raw)


def _spread(p: conv.ConvParams, kernel: tuple[int, ...]) -> tuple[int, int]:
    """Dilation along axes with more than one tap."""
    return p.dilation_h if kernel[0] > 1 else 1, p.dilation_w if kernel[1] > 1 else 1


def _dense_depthwise(weights: IntArray, in_channels: int, multiplier: int) -> IntArray:
    rows, cols, out_channels = weights.shape
    dense = np.zeros((out_channels, rows, cols, in_channels), np.int8)
    for channel in range(out_channels):
        dense[channel, :, :, channel // multiplier] = weights[:, :, channel]
    return dense


def _dense_groups(weights: IntArray, in_channels: int, groups: int) -> IntArray:
    if groups == 1:
        return weights
    out_channels, rows, cols, per_group = weights.shape
    dense = np.zeros((out_channels, rows, cols, in_channels), np.int8)
    for channel in range(out_channels):
        group = channel // (out_channels // groups)
        dense[channel, :, :, group * per_group:(group + 1) * per_group] = weights[channel]
    return dense


def divide_params(count: int) -> tuple[str, int, int]:
    """Rounding mode, multiplier and shift that divide an average's sum by `count`, rounding ties away from zero.

    A power of two is a rounding shift. Otherwise the product with `m = ceil(2^(31+n) / count)` in [2^30, 2^31) is
    truncated, and the shift rounds half up. A sum of `count` int8 values is at most 2^7 count, so its product with m
    exceeds the exact quotient by less than 2^7 count^2 / 2^(31+n) < 1 / (2 count). Exact ties of either sign therefore
    round away from zero, and no other quotient is rounded differently.
    """
    if count & (count - 1) == 0:
        return "shift", 0, -(count.bit_length() - 1)
    n = count.bit_length() - 1
    return "divide", ceil_div(1 << 31 + n, count), -n


@dataclass(frozen=True)
class _Residue:
    """Output positions `first + stride * t`, t < size, with kernel taps in input order and the padding before."""

    first: int
    size: int
    taps: tuple[int, ...]
    pad: int


def _residues(out_size: int, kernel: int, stride: int, pad: int) -> list[_Residue]:
    residues = []
    for first in range(min(stride, out_size)):
        tap = (first + pad) % stride
        taps = tuple(range(tap, kernel, stride))[::-1]
        size = ceil_div(out_size - first, stride)
        residues.append(_Residue(first, size, taps, max(len(taps), 1) - 1 - (first + pad - tap) // stride))
    return residues


def _add_residue(state: Legalizer, op: Operator, p: conv.ConvParams, part: Value, taps: IntArray,
               bias: IntArray | None, pad: tuple[int, int]) -> None:
    source = state.input(op, 2)
    if p.dtype == "int16":
        plane_mac(state, op, source, part, taps, bias, p, pad=pad)
        return
    sums = taps.sum(axis=(1, 2, 3), dtype=np.int64)
    state.layers.append(Mac(
        op.index, op.op, (source,), part, depthwise=False, weights=taps,
        bias=folded_bias(bias, sums, p.input_zero_point), multiplier=p.multiplier, shift=p.shift,
        stride=(1, 1), dilation=(1, 1), pad=pad, pad_value=p.input_zero_point,
        zero_point=p.output_zero_point, act_min=p.act_min, act_max=p.act_max))


@lowers("TRANSPOSE_CONV")
def lower_transpose_conv(state: Legalizer, op: Operator) -> None:
    """One convolution for each residue of the output positions; each computes its part of the output."""
    p = conv.params(op, state.subgraph)
    weights, bias = state.constant(op, 1), bias_of(state, op, 3)
    tensor = state.subgraph.tensors[op.outputs[0]]
    n, out_h, out_w, out_c = tensor.shape
    rows = _residues(out_h, p.filter_height, p.stride_h, p.pad_top)
    cols = _residues(out_w, p.filter_width, p.stride_w, p.pad_left)
    target = blank(tensor.shape, tensor.dtype)
    parts: list[Value] = []
    copies: list[Copy] = []
    single = len(rows) == len(cols) == 1
    for row in rows:
        for col in cols:
            # A residue without taps is only the bias: one tap of weight 0.
            taps = (weights[:, row.taps][:, :, col.taps] if row.taps and col.taps
                    else np.zeros((out_c, 1, 1, weights.shape[3]), np.int8))
            pad = (row.pad, col.pad) if row.taps and col.taps else (0, 0)
            shape = (n, row.size, col.size, out_c)
            part = state.output(op) if single else Value(
                f"{tensor.name} ({row.first}, {col.first})", tensor.index, state.view(shape, tensor.dtype),
                p.output_zero_point)
            _add_residue(state, op, p, part, np.ascontiguousarray(taps), bias, pad)
            base = blank(shape, tensor.dtype)
            copies.append(copy_between(len(parts), base, base,
                                       target[:, row.first::p.stride_h, col.first::p.stride_w], target))
            parts.append(part)
    if not single:
        state.layers.append(Move(op.index, op.op, tuple(parts), state.output(op), tuple(copies)))


@lowers("CHANNEL_SCALE")
def lower_channel_scale(state: Legalizer, op: Operator) -> None:
    """Float32 operators with constants per channel, after `channel_scales.py`: single pixels, rounded once."""
    value = state.input(op, 0)
    weights, bias, multiplier, shift = (state.constant(op, position).astype(np.int64) for position in range(1, 5))
    state.layers.append(Mac(
        op.index, op.op, (value,), state.output(op), depthwise=True,
        weights=weights.astype(np.int8).reshape(1, 1, -1), bias=bias, multiplier=multiplier, shift=-shift,
        stride=(1, 1), dilation=(1, 1), pad=(0, 0), pad_value=0, zero_point=int_option(op, "zero_point"),
        act_min=int_option(op, "act_min"), act_max=int_option(op, "act_max"), rounding="divide", useful_weights=0))
