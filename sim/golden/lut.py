"""Tables of 256 entries that kernels compute with a float32 function: `LUTPopulate` in `internal/common.h`."""

from collections.abc import Callable

import numpy as np

from tq_hw.model.graph import Operator, Subgraph
from tq_hw.sim.golden.arith import IntArray, round_half_away
from tq_hw.sim.golden.libm import Float32
from tq_hw.sim.golden.registry import output_tensor, require, require_dtype
from tq_hw.sim.golden.sampled import interpolated, sampled

__all__ = ["Transform", "float_results", "populate"]

Transform = Callable[[Float32], Float32]


def populate(codes: IntArray, scale: float, zero_point: int, output_scale: float, output_zero_point: int,
             transform: Transform) -> IntArray:
    """Results for the int8 codes before the clamp; every step up to the rounding is in float32.

    Raises `UnsupportedError` if a result is NaN, or 2^31 output scales or more in magnitude: the kernels convert it to
    int32, which C leaves undefined.
    """
    real = np.float32(scale) * (codes - zero_point).astype(np.float32)
    inverse = np.float32(1.0) / np.float32(output_scale)
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = round_half_away(transform(real) * inverse)
    bad = ~(np.abs(rounded) < 1 << 31)
    found = f"{real[bad][0]:g}" if bad.any() else ""
    require(not bad.any(), f"results must be finite and below 2^31 times the output scale {output_scale}, that of "
                           f"{found} is not, and the kernels' result is undefined; use a larger output scale")
    return rounded.astype(np.int64) + output_zero_point


def float_results(op: Operator, subgraph: Subgraph, codes: IntArray, transform: Transform) -> IntArray:
    """`populate` with the scales and zero points of a unary operator; int16 is interpolated between 513 samples."""
    source, output = require_dtype(op, subgraph, "int8", "int16"), output_tensor(op, subgraph)
    if source.dtype == "int16":
        scale = np.float32(source.scale)
        samples = sampled(float(scale * np.float32(codes[0])), float(scale * np.float32(codes[-1])), output.scale,
                          transform, np.float32)
        return interpolated(codes, samples)
    return populate(codes, source.scale, source.zero_point, output.scale, output.zero_point, transform)
