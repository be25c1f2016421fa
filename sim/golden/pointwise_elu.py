"""ELU. Sources: `activations.cc EluPrepare`, TFLite Micro's `elu.cc`."""

import numpy as np

from tq_hw.model.graph import Operator, Subgraph
from tq_hw.sim.golden.arith import IntArray
from tq_hw.sim.golden.libm import Float32, expf, expm1f
from tq_hw.sim.golden.lut import float_results
from tq_hw.sim.golden.pointwise import pointwise


@pointwise("ELU")
def elu(op: Operator, subgraph: Subgraph, codes: IntArray) -> IntArray:
    """The value x if it is not negative, else e^x - 1."""
    def transform(x: Float32) -> Float32:
        below = np.minimum(x, np.float32(0))
        # TFLite Micro subtracts 1 after rounding the exponential.
        power = expf(below) - np.float32(1) if subgraph.profile == "tflm" else expm1f(below)
        return np.where(x < 0, power, x)
    return float_results(op, subgraph, codes, transform)
