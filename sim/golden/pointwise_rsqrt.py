"""RSQRT. Sources: `elementwise.cc RsqrtEvalQuantizedInt8`, TFLite Micro's `elementwise.cc`."""

import math

import numpy as np

from tq_hw.model.graph import Operator, Subgraph
from tq_hw.sim.golden.arith import IntArray, multiply_by_quantized_multiplier, quantize_multiplier
from tq_hw.sim.golden.fixedpoint import inv_sqrt
from tq_hw.sim.golden.libm import Float32
from tq_hw.sim.golden.lut import float_results
from tq_hw.sim.golden.pointwise import pointwise
from tq_hw.sim.golden.registry import output_tensor, require, require_dtype
from tq_hw.sim.golden.signs import least_number

#: Additional fraction bits of the integer root.
_SHIFT = 20


def _between_samples(x: Float32, scale: float) -> Float32:
    """Return LiteRT's function for int16: inputs of 0 or less give the largest output."""
    result: Float32 = np.where(x <= 0, np.float32((1 << 15) - 1) * np.float32(scale),
                               np.float32(1) / np.sqrt(np.where(x <= 0, np.float32(1), x)))
    return result


@pointwise("RSQRT", wide=True, negative=False)
def rsqrt(op: Operator, subgraph: Subgraph, codes: IntArray) -> IntArray:
    """Reciprocal square root in fixed point; 0 gives the largest output. The kernel rejects inputs below 0."""
    source, output = require_dtype(op, subgraph, "int8", "int16"), output_tensor(op, subgraph)
    is_wide = source.dtype == "int16"
    require(is_wide or source.zero_point == -128 or least_number(subgraph, source.index) >= 0,
            "the input must have zero point -128, or come from squares, because the kernel refuses negative values; "
            f"found {source.zero_point}")
    if is_wide and subgraph.profile != "tflm":
        return float_results(op, subgraph, codes, lambda x: _between_samples(x, output.scale))
    if subgraph.profile == "tflm":
        real = 1.0 / (math.sqrt(source.scale) * output.scale)
    else:
        with np.errstate(all="ignore"):
            product = np.sqrt(np.float32(source.scale)) * np.float32(output.scale)
            real = float(1.0 / product.astype(np.float64))
    multiplier, shift = quantize_multiplier(real)
    # The kernel rejects inputs below 0.
    x = np.maximum(codes - source.zero_point, 0)
    root_multiplier, root_shift = inv_sqrt(np.maximum(x, 1))
    root = multiply_by_quantized_multiplier(np.ones_like(x), root_multiplier, root_shift + _SHIFT)
    scaled = multiply_by_quantized_multiplier(root, multiplier, shift - _SHIFT)
    return np.where(x == 0, (1 << 15) - 1 if is_wide else 127, scaled + output.zero_point)
