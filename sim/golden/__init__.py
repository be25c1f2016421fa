"""The golden model: every operator in integers, with results equal to LiteRT's reference kernels."""

from tq_hw.sim.golden.explain import accumulators, explain
from tq_hw.sim.golden.run import Result, run
from tq_hw.sim.golden.state import State

__all__ = ["Result", "State", "accumulators", "explain", "run"]
