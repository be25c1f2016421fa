"""NEG. Source: `neg.cc`, `reference/neg.h`."""

import numpy as np

from tq_hw.model.graph import Operator, Subgraph
from tq_hw.sim.golden.arith import IntArray
from tq_hw.sim.golden.pointwise import pointwise


@pointwise("NEG", wide=True, integer=np.negative)
def negate(op: Operator, subgraph: Subgraph, codes: IntArray) -> IntArray:
    """Negated code, whatever scale and zero point are; the least code stays."""
    half = len(codes) // 2
    return (-codes + half) % len(codes) - half
