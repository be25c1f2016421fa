"""AVERAGE_POOL_2D, MAX_POOL_2D and L2_NORMALIZATION.

Sources: `integer_ops/pooling.h`, `pooling.cc`, for float32 `reference/pooling.h`, `integer_ops/l2normalization.h`,
`reference/l2normalization.h`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tq_hw.model.graph import Operator, Subgraph
from tq_hw.sim.golden.arith import (
    activation_range,
    compute_padding,
    divide_toward_zero,
    multiply_by_quantized_multiplier,
    wrap_int32,
)
from tq_hw.sim.golden.fixedpoint import inv_sqrt
from tq_hw.sim.golden.float32 import RANGES
from tq_hw.sim.golden.libm import Float32
from tq_hw.sim.golden.reduce import sum_in_order
from tq_hw.sim.golden.registry import (
    Array,
    Inputs,
    int_option,
    kernel,
    narrow,
    output_tensor,
    require,
    require_dtype,
    require_same_quantization,
    str_option,
    value,
)

__all__ = ["LEAST_DIVISOR", "PoolParams", "params"]

#: Least length that the float32 kernel of L2_NORMALIZATION divides by, 1e-6f.
LEAST_DIVISOR = float(np.float32(1e-6))


@dataclass(frozen=True)
class PoolParams:
    """Derived integers of a pooling: geometry in elements, clamp limits."""

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
    act_min: int
    act_max: int


def params(op: Operator, subgraph: Subgraph) -> PoolParams:
    """Derive the integers of an AVERAGE_POOL_2D or MAX_POOL_2D; for float32, the clamp limits are unused.

    Raises `UnsupportedError` when input and output have different quantization.
    """
    tensor = require_dtype(op, subgraph, "int8", "int16", "float32")
    if tensor.dtype != "float32":
        require_same_quantization(op, subgraph, tolerance=1e-6)
    output = output_tensor(op, subgraph)
    require(len(tensor.shape) == 4, f"input must have 4 dimensions, found {tensor.shape}")
    filter_height, filter_width = int_option(op, "filter_height"), int_option(op, "filter_width")
    stride_h, stride_w = int_option(op, "stride_h"), int_option(op, "stride_w")
    require(min(filter_height, filter_width, stride_h, stride_w) >= 1,
            "filter and strides must be positive")
    padding = str_option(op, "padding")
    rows = compute_padding(padding, tensor.shape[1], filter_height, stride_h)
    cols = compute_padding(padding, tensor.shape[2], filter_width, stride_w)
    require(min(rows.out_size, cols.out_size) >= 1,
            f"the filter {filter_height}x{filter_width} does not fit the input "
            f"{tensor.shape[1]}x{tensor.shape[2]}")
    act_min, act_max = (-128, 127) if tensor.dtype == "float32" else activation_range(
        str_option(op, "fused_activation_function"), output.scale, output.zero_point, tensor.dtype)
    return PoolParams(rows.before, cols.before, rows.after, cols.after, rows.out_size,
                      cols.out_size, filter_height, filter_width, stride_h, stride_w,
                      act_min, act_max)


def _windows(x: Array, p: PoolParams, fill: float) -> Array:
    """View [batch, out_height, out_width, channel, filter_height, filter_width] of padded `x`."""
    padded = np.pad(x, ((0, 0), (p.pad_top, p.pad_bottom), (p.pad_left, p.pad_right), (0, 0)),
                    constant_values=fill)
    windows = np.lib.stride_tricks.sliding_window_view(
        padded, (p.filter_height, p.filter_width), axis=(1, 2))
    view: Array = windows[:, ::p.stride_h, ::p.stride_w][:, :p.out_height, :p.out_width]
    return view


def _in_order(windows: Array, function: Callable[[Float32, Float32], Float32], first: float) -> Float32:
    """Fold each window's elements in order, row by row."""
    made: Float32 = np.full(windows.shape[:4], first, np.float32)
    for row, col in np.ndindex(*windows.shape[4:]):
        made = function(made, windows[..., row, col])
    return made


def _between(op: Operator, x: Float32) -> Float32:
    low, high = RANGES[str_option(op, "fused_activation_function")]
    return np.clip(x, np.float32(low), np.float32(high))


@kernel("AVERAGE_POOL_2D")
def average_pool(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Mean of the raw values inside the image, rounded half away from zero, without zero points.

    For float32, values are added row by row and the sum is divided.
    """
    p = params(op, subgraph)
    x = value(inputs, 0)
    if x.dtype == np.float32:
        count = _windows(np.ones((1, *x.shape[1:3], 1), np.float32), p, 0).sum(axis=(4, 5))
        return [_between(op, _in_order(_windows(x, p, 0), np.add, 0) / count)]
    acc = _windows(x.astype(np.int64), p, 0).sum(axis=(4, 5))
    inside = np.ones((1, *x.shape[1:3], 1), np.int64)
    count = _windows(inside, p, 0).sum(axis=(4, 5))
    rounded = divide_toward_zero(np.where(acc > 0, acc + count // 2, acc - count // 2), count)
    return [narrow(rounded, p.act_min, p.act_max, x.dtype.name)]


@kernel("MAX_POOL_2D")
def max_pool(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Largest raw value inside the image."""
    p, x = params(op, subgraph), value(inputs, 0)
    if x.dtype == np.float32:
        least = float(np.finfo(np.float32).min)
        return [_between(op, _in_order(_windows(x, p, least), lambda one, other: np.where(one < other, other, one),
                                       least))]
    return [narrow(_windows(x, p, np.iinfo(x.dtype).min).max(axis=(4, 5)), p.act_min, p.act_max, x.dtype.name)]


def _real_l2_normalization(x: Array) -> Array:
    """Vectors of float32 divided by their lengths, at least 1e-6: `reference/l2normalization.h`."""
    lengths = np.sqrt(sum_in_order(x * x, (x.ndim - 1,), keep_dims=True))
    return np.asarray(x / np.maximum(lengths, np.float32(LEAST_DIVISOR)), np.float32)


@kernel("L2_NORMALIZATION")
def l2_normalization(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Each vector of the last axis divided by its length; output scale 1/128, zero point 0. Of float32 in float32."""
    if value(inputs, 0).dtype == np.float32:
        return [_real_l2_normalization(value(inputs, 0))]
    tensor, output = require_dtype(op, subgraph, "int8"), output_tensor(op, subgraph)
    require(output.dtype == "int8" and output.scale == 1.0 / 128 and output.zero_point == 0,
            f"output must be int8 with scale 1/128 and zero point 0, found {output.dtype}, "
            f"{output.scale}, {output.zero_point}")
    activation = str_option(op, "fused_activation_function")
    require(activation == "NONE", f"fused activation must be NONE, not {activation}")
    x = value(inputs, 0).astype(np.int64) - tensor.zero_point
    multiplier, shift = inv_sqrt(wrap_int32((x * x).sum(axis=-1, keepdims=True)))
    return [narrow(multiply_by_quantized_multiplier(x, multiplier, shift + 7), -128, 127)]
