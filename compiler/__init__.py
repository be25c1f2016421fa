"""The compiler, from a model to a command stream.

    Model --legalize--> layers (ir/) --plan--> buffers, rectangles --emit--> operations --stream--> commands

`compile_model` runs all passes; `estimate_model` only estimates the cycles. `lower.constraints.limits_of(op)` returns
an operator's limits.
"""

from tq_hw.compiler.compile import Compiled, compile_model
from tq_hw.compiler.estimate import Estimate, estimate_model, estimated_as

__all__ = ["Compiled", "Estimate", "compile_model", "estimate_model", "estimated_as"]
