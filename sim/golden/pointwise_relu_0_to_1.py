"""RELU_0_TO_1. Source: `activations.cc QuantizedReluX`."""

import numpy as np

from tq_hw.model.graph import Operator, Subgraph
from tq_hw.sim.golden.arith import IntArray, multiply_by_quantized_multiplier, quantize_limit, quantize_multiplier
from tq_hw.sim.golden.pointwise import pointwise
from tq_hw.sim.golden.profiles import factor
from tq_hw.sim.golden.registry import output_tensor, require_dtype


@pointwise("RELU_0_TO_1")
def relu_0_to_1(op: Operator, subgraph: Subgraph, codes: IntArray) -> IntArray:
    """Rescale, then clamp to the codes of 0 and 1."""
    source, output = require_dtype(op, subgraph, "int8"), output_tensor(op, subgraph)
    one = quantize_limit("RELU_0_TO_1", 1.0, output.scale, output.zero_point)
    scaled = multiply_by_quantized_multiplier(
        codes - source.zero_point, *quantize_multiplier(factor(subgraph, [source.scale], output.scale)))
    return np.clip(scaled + output.zero_point, max(output.zero_point, -128), min(one, 127))
