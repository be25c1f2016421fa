"""The instruction-level executor: runs a command stream in numpy, as docs/reference/semantics.md specifies."""

from tq_hw.sim.executor.core import ExecutionResult, Executor, execute
from tq_hw.sim.faults import SimulationError

__all__ = ["ExecutionResult", "Executor", "SimulationError", "execute"]
