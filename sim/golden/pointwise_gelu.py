"""GELU. Sources: `activations.cc GeluPrepare`, `reference/gelu.h`."""

import math

import numpy as np

from tq_hw.model.graph import Operator, Subgraph
from tq_hw.sim.golden.arith import IntArray
from tq_hw.sim.golden.libm import Float32, erfcf, tanhf
from tq_hw.sim.golden.lut import float_results
from tq_hw.sim.golden.pointwise import pointwise
from tq_hw.sim.golden.registry import bool_option

_HALF, _ONE = np.float32(0.5), np.float32(1)
_ROOT_HALF, _CUBIC = np.float32(math.sqrt(0.5)), np.float32(0.044715)
_ROOT_TWO_BY_PI = np.float32(math.sqrt(2 / math.pi))


def exact(x: Float32) -> Float32:
    """Exact form: x / 2 * erfc(-x / sqrt(2))."""
    result: Float32 = _HALF * x * erfcf(x * -_ROOT_HALF)
    return result


def approximate(x: Float32) -> Float32:
    """Approximation by the hyperbolic tangent of a cubic polynomial."""
    bent = tanhf(_ROOT_TWO_BY_PI * np.add(x, _CUBIC * x * x * x))
    result: Float32 = _HALF * x * np.add(_ONE, bent)
    return result


@pointwise("GELU", wide=True)
def gelu(op: Operator, subgraph: Subgraph, codes: IntArray) -> IntArray:
    """The value times the probability that a standard normal variable is less than it."""
    return float_results(op, subgraph, codes, approximate if bool_option(op, "approximate") else exact)
