"""SQRT. Source: LiteRT's `elementwise.cc`; the public sources are older, so it was compared with the engine."""

import numpy as np

from tq_hw.model.graph import Operator, Subgraph
from tq_hw.sim.golden.arith import IntArray
from tq_hw.sim.golden.pointwise import pointwise
from tq_hw.sim.golden.registry import output_tensor, require, require_dtype
from tq_hw.sim.golden.signs import least_number


@pointwise("SQRT", wide=True, negative=False)
def square_root(op: Operator, subgraph: Subgraph, codes: IntArray) -> IntArray:
    """Square root in float32, truncated to an integer. The kernel rejects inputs below 0."""
    source, output = require_dtype(op, subgraph, "int8", "int16"), output_tensor(op, subgraph)
    is_wide = source.dtype == "int16"
    require(is_wide or source.zero_point == -128 or least_number(subgraph, source.index) >= 0,
            "the input must have zero point -128, or come from squares, because the kernel refuses negative values; "
            f"found {source.zero_point}")
    real = np.float32(source.scale) * np.maximum(codes - source.zero_point, 0).astype(np.float32)
    with np.errstate(over="ignore"):
        steps = np.sqrt(real) / np.float32(output.scale)
    require(bool((steps < 1 << 31).all()), "results must be below 2^31 times the output scale; above that, the "
                                           "kernel's result is undefined; use a larger output scale")
    found: IntArray = steps.astype(np.int64) + output.zero_point
    return found
