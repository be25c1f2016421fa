"""ABS. Source: `elementwise.cc AbsEvalQuantized`."""

import numpy as np

from tq_hw.model.graph import Operator, Subgraph
from tq_hw.sim.golden.arith import IntArray, multiply_by_quantized_multiplier, quantize_multiplier
from tq_hw.sim.golden.pointwise import pointwise
from tq_hw.sim.golden.profiles import factor
from tq_hw.sim.golden.registry import output_tensor, require_dtype


@pointwise("ABS", wide=True, integer=np.abs)
def absolute(op: Operator, subgraph: Subgraph, codes: IntArray) -> IntArray:
    """Distance from the zero point, rescaled where the scales differ."""
    source, output = require_dtype(op, subgraph, "int8", "int16"), output_tensor(op, subgraph)
    distance = np.abs(codes - source.zero_point)
    if source.scale != output.scale:
        real = factor(subgraph, [source.scale], output.scale)
        distance = multiply_by_quantized_multiplier(distance, *quantize_multiplier(real))
    return distance + output.zero_point
