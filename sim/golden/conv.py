"""CONV_2D, DEPTHWISE_CONV_2D and TRANSPOSE_CONV.

Sources: `integer_ops/conv.h ConvPerChannel`, `integer_ops/depthwise_conv.h
DepthwiseConvPerChannel`, `integer_ops/transpose_conv.h TransposeConv`. Activations are NHWC.
"""

from dataclasses import dataclass

import numpy as np

from tq_hw.model.errors import ModelError
from tq_hw.model.graph import Operator, Subgraph
from tq_hw.sim.golden.arith import IntArray, activation_range, compute_padding
from tq_hw.sim.golden.mac import (
    MacParams,
    activation_type,
    bias_values,
    channel_multipliers,
    is_wide,
    requantize,
    weight_tensor,
)
from tq_hw.sim.golden.registry import (
    Array,
    Inputs,
    int_option,
    kernel,
    output_tensor,
    require,
    require_dtype,
    str_option,
    value,
)

__all__ = ["ConvParams", "accumulate", "conv_2d", "params"]


@dataclass(frozen=True, eq=False)
class ConvParams(MacParams):
    """Derived integers of a convolution.

    Members
    -------
    pad_top, pad_left, pad_bottom, pad_right : padded taps, which contribute real 0
    out_height, out_width : output size
    filter_height, filter_width, stride_h, stride_w, dilation_h, dilation_w : geometry
    groups : input channels / filter channels of CONV_2D; 1 for the other two
    depth_multiplier : output channels per input channel of DEPTHWISE_CONV_2D; 1 for the others
    """

    pad_top: int
    pad_left: int
    pad_bottom: int
    pad_right: int
    out_height: int
    out_width: int
    filter_height: int
    filter_width: int
    stride_h: int
    stride_w: int
    dilation_h: int
    dilation_w: int
    groups: int = 1
    depth_multiplier: int = 1


def params(op: Operator, subgraph: Subgraph) -> ConvParams:
    """Derive the integers of a CONV_2D, DEPTHWISE_CONV_2D or TRANSPOSE_CONV.

    Raises `UnsupportedError` for dtypes other than int8 and int16, weights with a zero point, or a geometry
    that does not fit, `ModelError` for missing tensors.
    """
    if op.op == "TRANSPOSE_CONV":
        return _transpose_params(op, subgraph)
    depthwise = op.op == "DEPTHWISE_CONV_2D"
    dtype = activation_type(op, subgraph)
    tensor, output = require_dtype(op, subgraph, dtype), output_tensor(op, subgraph)
    filter_shape = require_dtype(op, subgraph, "int8", position=1).shape
    require(len(tensor.shape) == 4 and len(filter_shape) == 4,
            f"input and weights must have 4 dimensions, found {tensor.shape} and {filter_shape}")
    channels, out_channels = tensor.shape[3], filter_shape[3 if depthwise else 0]
    weights = weight_tensor(op, subgraph, 1, 3 if depthwise else 0, out_channels)
    groups = depth_multiplier = 1
    if depthwise:
        require(filter_shape[0] == 1 and out_channels % channels == 0,
                f"weights must be [1, h, w, multiple of {channels}], found {filter_shape}")
        depth_multiplier = out_channels // channels
    else:
        require(channels % filter_shape[3] == 0,
                f"input channels {channels} must be a multiple of filter channels "
                f"{filter_shape[3]}")
        groups = channels // filter_shape[3]
        require(out_channels % groups == 0,
                f"output channels {out_channels} must be a multiple of the {groups} groups")
    stride_h, stride_w = int_option(op, "stride_h"), int_option(op, "stride_w")
    dilation_h = int_option(op, "dilation_h_factor")
    dilation_w = int_option(op, "dilation_w_factor")
    require(min(stride_h, stride_w, dilation_h, dilation_w) >= 1,
            "strides and dilations must be positive")
    padding = str_option(op, "padding")
    rows = compute_padding(padding, tensor.shape[1], filter_shape[1], stride_h, dilation_h)
    cols = compute_padding(padding, tensor.shape[2], filter_shape[2], stride_w, dilation_w)
    require(min(rows.out_size, cols.out_size) >= 1,
            f"the filter {filter_shape[1]}x{filter_shape[2]} does not fit the input "
            f"{tensor.shape[1]}x{tensor.shape[2]}")
    multiplier, shift = channel_multipliers(tensor.scale, weights, output.scale, out_channels)
    act_min, act_max = activation_range(str_option(op, "fused_activation_function"),
                                        output.scale, output.zero_point, dtype)
    return ConvParams(multiplier, shift, tensor.zero_point, output.zero_point, act_min, act_max,
                      rows.before, cols.before, rows.after, cols.after,
                      rows.out_size, cols.out_size, filter_shape[1], filter_shape[2],
                      stride_h, stride_w, dilation_h, dilation_w, groups, depth_multiplier,
                      dtype=dtype, wide=is_wide(op, subgraph))


def _transpose_params(op: Operator, subgraph: Subgraph) -> ConvParams:
    dtype = activation_type(op, subgraph, 2)
    tensor, output = require_dtype(op, subgraph, dtype, position=2), output_tensor(op, subgraph)
    filter_shape = require_dtype(op, subgraph, "int8", position=1).shape
    require(len(tensor.shape) == 4 and len(filter_shape) == 4 and len(output.shape) == 4,
            f"input, weights and output must have 4 dimensions, found {tensor.shape}, "
            f"{filter_shape} and {output.shape}")
    require(filter_shape[3] == tensor.shape[3],
            f"weights {filter_shape} must have the {tensor.shape[3]} input channels")
    weights = weight_tensor(op, subgraph, 1, 0, filter_shape[0])
    stride_h, stride_w = int_option(op, "stride_h"), int_option(op, "stride_w")
    require(min(stride_h, stride_w) >= 1, "strides must be positive")
    padding = str_option(op, "padding")
    # The padding is that of the forward convolution from the output to the input.
    rows = compute_padding(padding, output.shape[1], filter_shape[1], stride_h)
    cols = compute_padding(padding, output.shape[2], filter_shape[2], stride_w)
    multiplier, shift = channel_multipliers(tensor.scale, weights, output.scale, filter_shape[0])
    act_min, act_max = activation_range(str_option(op, "fused_activation_function"),
                                        output.scale, output.zero_point, dtype)
    return ConvParams(multiplier, shift, tensor.zero_point, output.zero_point, act_min, act_max,
                      rows.before, cols.before, rows.after, cols.after,
                      output.shape[1], output.shape[2], filter_shape[1], filter_shape[2],
                      stride_h, stride_w, 1, 1, dtype=dtype, wide=is_wide(op, subgraph))


def _padded(x: Array, p: ConvParams) -> IntArray:
    """Input less its zero point, surrounded by zeros."""
    centred = x.astype(np.int64) - p.input_zero_point
    return np.pad(centred, ((0, 0), (p.pad_top, p.pad_bottom), (p.pad_left, p.pad_right), (0, 0)))


def _tap(x: Array, p: ConvParams, row: int, col: int) -> Array:
    """Input elements under filter tap `(row, col)`, one per output position."""
    top, left = row * p.dilation_h, col * p.dilation_w
    window: Array = x[:, top:top + (p.out_height - 1) * p.stride_h + 1:p.stride_h,
                      left:left + (p.out_width - 1) * p.stride_w + 1:p.stride_w]
    return window


def _accumulate_conv(x: Array, weights: Array, p: ConvParams) -> IntArray:
    # Doubles are exact for these sums: a product is below 2^15 (255 * 127), or 2^22 with int16, and it takes 2^31
    # such products to exceed 2^53. A BLAS product is much faster than numpy's integer product.
    padded = _padded(x, p).astype(np.float64)
    kernels = weights.astype(np.float64)
    per_group, filter_channels = weights.shape[0] // p.groups, weights.shape[3]
    shape = (x.shape[0], p.out_height, p.out_width, weights.shape[0])
    acc = np.zeros(shape, np.float64)
    for row in range(p.filter_height):
        for col in range(p.filter_width):
            window = _tap(padded, p, row, col)
            for group in range(p.groups):
                channels = slice(group * filter_channels, (group + 1) * filter_channels)
                outputs = slice(group * per_group, (group + 1) * per_group)
                acc[..., outputs] += window[..., channels] @ kernels[outputs, row, col].T
    return acc.astype(np.int64)


def _accumulate_depthwise(x: Array, weights: Array, p: ConvParams) -> IntArray:
    # A filter of less than 2^16 taps cannot overflow int32; a larger one wraps, as in the source.
    kind = np.int64 if p.wide else np.int32
    padded = _padded(x, p).astype(kind)
    kernels = weights[0].astype(kind)
    shape = (x.shape[0], p.out_height, p.out_width, weights.shape[3])
    acc = np.zeros(shape, kind)
    for row in range(p.filter_height):
        for col in range(p.filter_width):
            window = np.repeat(_tap(padded, p, row, col), p.depth_multiplier, axis=3)
            acc += window * kernels[row, col]
    return acc.astype(np.int64)


def _accumulate_transpose(x: Array, weights: Array, p: ConvParams) -> IntArray:
    centred = (x.astype(np.int64) - p.input_zero_point).astype(np.float64)
    batch, height, width, _ = x.shape
    rows = max((height - 1) * p.stride_h + p.filter_height, p.pad_top + p.out_height)
    cols = max((width - 1) * p.stride_w + p.filter_width, p.pad_left + p.out_width)
    # Doubles are exact for the same reason as in CONV_2D.
    acc = np.zeros((batch, rows, cols, weights.shape[0]), np.float64)
    for row in range(p.filter_height):
        for col in range(p.filter_width):
            acc[:, row:row + (height - 1) * p.stride_h + 1:p.stride_h,
                col:col + (width - 1) * p.stride_w + 1:p.stride_w] += (
                    centred @ weights[:, row, col].astype(np.float64).T)
    cropped: IntArray = acc[:, p.pad_top:p.pad_top + p.out_height,
                            p.pad_left:p.pad_left + p.out_width].astype(np.int64)
    return cropped


def accumulate(op: Operator, subgraph: Subgraph, inputs: Inputs, p: ConvParams) -> IntArray:
    """Accumulators including the bias, of the output's shape."""
    bias_position = 2
    if op.op == "TRANSPOSE_CONV":
        bias_position = 3
        size = [int(extent) for extent in value(inputs, 0)]
        declared = output_tensor(op, subgraph).shape
        if tuple(size) != declared:
            raise ModelError(f"output_shape is {size}, the output tensor has {list(declared)}")
        acc = _accumulate_transpose(value(inputs, 2), value(inputs, 1), p)
    elif op.op == "DEPTHWISE_CONV_2D":
        acc = _accumulate_depthwise(value(inputs, 0), value(inputs, 1), p)
    else:
        acc = _accumulate_conv(value(inputs, 0), value(inputs, 1), p)
    return p.summed(acc + bias_values(op, subgraph, inputs, bias_position))


@kernel("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV")
def conv_2d(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Convolution of int8 or int16 with bias, requantization per channel and fused activation."""
    p = params(op, subgraph)
    return [requantize(accumulate(op, subgraph, inputs, p), p)]
