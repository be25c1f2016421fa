"""RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR, NHWC.

Sources: `reference/resize_bilinear.h ResizeBilinearInteger` and, for float32, `ResizeBilinear`,
`reference/resize_nearest_neighbor.h`.
"""

from typing import NamedTuple

import numpy as np

from tq_hw.model.errors import ModelError
from tq_hw.model.graph import Operator, Subgraph
from tq_hw.sim.golden.arith import IntArray, divide_toward_zero, round_half_away
from tq_hw.sim.golden.libm import Float32
from tq_hw.sim.golden.registry import (
    Array,
    Inputs,
    bool_option,
    kernel,
    require,
    require_dtype,
    value,
)

__all__ = ["FloatTaps", "Taps", "bilinear_taps", "float_taps", "interpolated", "nearest_indices"]


class Taps(NamedTuple):
    """Interpolation of one axis, one entry per output position.

    `out = in[low] * (1024 - fraction) + in[high] * fraction`; the fraction is signed, 10 bits, and
    negative only where low and high are both 0.
    """

    low: IntArray
    high: IntArray
    fraction: IntArray


def bilinear_taps(in_size: int, out_size: int, align_corners: bool,
                  half_pixel_centers: bool) -> Taps:
    """Taps of one axis of RESIZE_BILINEAR."""
    require(not (align_corners and half_pixel_centers),
            "align_corners and half_pixel_centers are mutually exclusive")
    scale = ((in_size << 10) + out_size // 2) // out_size
    if align_corners and out_size > 1:
        scale = (((in_size - 1) << 10) + (out_size - 1) // 2) // (out_size - 1)
    position = np.arange(out_size, dtype=np.int64) * scale
    if half_pixel_centers:
        position += scale // 2 - (1 << 9)
    low = np.maximum(divide_toward_zero(position, 1 << 10), 0)
    high = np.minimum(divide_toward_zero(position + (1 << 10) - 1, 1 << 10), in_size - 1)
    # At extreme ratios, the rounded scale can step past the end; the reference kernel then reads outside the tensor.
    require(int(low.max()) < in_size,
            f"resizing {in_size} to {out_size} reads past the input in the reference kernel; "
            "use a smaller ratio")
    return Taps(low, high, position - (low << 10))


class FloatTaps(NamedTuple):
    """Interpolation of one float32 axis, one entry per output position.

    `out = in[low] * (1 - fraction) + in[high] * fraction`; the fraction is negative only where low and high are both 0.
    """

    low: IntArray
    high: IntArray
    fraction: Float32


def float_taps(in_size: int, out_size: int, align_corners: bool, half_pixel_centers: bool) -> FloatTaps:
    """Taps of one axis of RESIZE_BILINEAR of float32; every step is in float32."""
    require(not (align_corners and half_pixel_centers),
            "align_corners and half_pixel_centers are mutually exclusive")
    scale = np.float32(in_size) / np.float32(out_size)
    if align_corners and out_size > 1:
        scale = np.float32(in_size - 1) / np.float32(out_size - 1)
    place, half = np.arange(out_size).astype(np.float32), np.float32(0.5)
    position = (place + half) * scale - half if half_pixel_centers else place * scale
    low = np.maximum(np.floor(position).astype(np.int64), 0)
    high = np.minimum(np.ceil(position).astype(np.int64), in_size - 1)
    require(int(low.max()) < in_size, f"resizing {in_size} to {out_size} reads past the input in the reference kernel; "
                                      "use a smaller ratio")
    return FloatTaps(low, high, position - low.astype(np.float32))


def interpolated(x: Float32, rows: FloatTaps, cols: FloatTaps) -> Float32:
    """Interpolate float32 NHWC: four products of three factors, added in order."""
    one, upper, right = np.float32(1), rows.fraction[:, None, None], cols.fraction[:, None]

    def term(row: IntArray, row_weight: Float32, col: IntArray, col_weight: Float32) -> Float32:
        found: Float32 = x[:, row][:, :, col] * row_weight * col_weight
        return found
    made: Float32 = (term(rows.low, one - upper, cols.low, one - right) + term(rows.high, upper, cols.low, one - right)
                     + term(rows.low, one - upper, cols.high, right) + term(rows.high, upper, cols.high, right))
    return made


def nearest_indices(in_size: int, out_size: int, align_corners: bool,
                    half_pixel_centers: bool) -> IntArray:
    """Input index of each output position of RESIZE_NEAREST_NEIGHBOR; float32 throughout."""
    scale = np.float32(in_size) / np.float32(out_size)
    if align_corners and out_size > 1:
        scale = np.float32(in_size - 1) / np.float32(out_size - 1)
    offset = np.float32(0.5 if half_pixel_centers else 0.0)
    position = (np.arange(out_size).astype(np.float32) + offset) * scale
    rounded = round_half_away(position) if align_corners else np.floor(position)
    return np.clip(rounded.astype(np.int64), 0, in_size - 1)


def _sizes(op: Operator, inputs: Inputs) -> tuple[Array, list[int], bool, bool]:
    x = value(inputs, 0)
    require(x.ndim == 4, f"input must have 4 dimensions, found {x.ndim}")
    sizes = [int(size) for size in value(inputs, 1).reshape(-1)]
    if len(sizes) != 2 or min(sizes) < 1:
        raise ModelError(f"output size must be two positive numbers, found {sizes}")
    return x, sizes, bool_option(op, "align_corners"), bool_option(op, "half_pixel_centers")


@kernel("RESIZE_BILINEAR")
def resize_bilinear(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Bilinear interpolation with 10-bit fractions, finally rounded half away from zero; for float32 in float32."""
    require_dtype(op, subgraph, "int8", "int16", "float32")
    x, sizes, align_corners, half_pixel_centers = _sizes(op, inputs)
    if x.dtype == np.float32:
        return [interpolated(x, *(float_taps(x.shape[1 + axis], sizes[axis], align_corners, half_pixel_centers)
                                  for axis in range(2)))]
    rows = bilinear_taps(x.shape[1], sizes[0], align_corners, half_pixel_centers)
    cols = bilinear_taps(x.shape[2], sizes[1], align_corners, half_pixel_centers)
    wide = x.astype(np.int64)
    row_fraction = rows.fraction[:, None, None]
    mixed = wide[:, rows.low] * (1024 - row_fraction) + wide[:, rows.high] * row_fraction
    col_fraction = cols.fraction[:, None]
    total = (mixed[:, :, cols.low] * (1024 - col_fraction)
             + mixed[:, :, cols.high] * col_fraction)
    half = 1 << 19
    result = divide_toward_zero(np.where(total > 0, total + half, total - half), 1 << 20)
    return [result.astype(x.dtype)]


@kernel("RESIZE_NEAREST_NEIGHBOR")
def resize_nearest(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Copy of the nearest pixel."""
    x, sizes, align_corners, half_pixel_centers = _sizes(op, inputs)
    rows = nearest_indices(x.shape[1], sizes[0], align_corners, half_pixel_centers)
    cols = nearest_indices(x.shape[2], sizes[1], align_corners, half_pixel_centers)
    picked: Array = x[:, rows][:, :, cols]
    return [picked]
