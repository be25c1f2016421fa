"""LOG. Source: `elementwise.cc LogLUTPrepare`."""

import numpy as np

from tq_hw.model.graph import Operator, Subgraph
from tq_hw.sim.golden.arith import IntArray, dtype_range
from tq_hw.sim.golden.libm import Float32
from tq_hw.sim.golden.libm_double import logf
from tq_hw.sim.golden.lut import float_results
from tq_hw.sim.golden.pointwise import pointwise
from tq_hw.sim.golden.registry import output_tensor


@pointwise("LOG", wide=True)
def logarithm(op: Operator, subgraph: Subgraph, codes: IntArray) -> IntArray:
    """Natural logarithm; inputs of 0 or less give the least output."""
    output = output_tensor(op, subgraph)
    least = np.float32(dtype_range(output.dtype)[0] - output.zero_point) * np.float32(output.scale)

    def transform(x: Float32) -> Float32:
        return np.where(x <= 0, least, logf(np.where(x <= 0, np.float32(1), x)))
    return float_results(op, subgraph, codes, transform)
