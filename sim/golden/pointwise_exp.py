"""EXP. Source: `exp.cc`."""

from tq_hw.model.graph import Operator, Subgraph
from tq_hw.sim.golden.arith import IntArray
from tq_hw.sim.golden.libm import expf
from tq_hw.sim.golden.lut import float_results
from tq_hw.sim.golden.pointwise import pointwise


@pointwise("EXP", wide=True)
def exponential(op: Operator, subgraph: Subgraph, codes: IntArray) -> IntArray:
    """e^x of the real value."""
    return float_results(op, subgraph, codes, expf)
