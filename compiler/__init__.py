"""From a graph to a command stream: legalize, plan, lower, emit.

    Model --legalize--> layers (ir.py) --plan--> buffers, rectangles --emit--> operations --stream--> commands

`compile_model` is the whole way, `estimate_model` a short one to its cycles; `constraints.limits_of(op)`
says what an operator may not ask.
"""

from tq_hw.compiler.compile import Compiled, compile_model
from tq_hw.compiler.estimate import Estimate, estimate_model, estimated_as

__all__ = ["Compiled", "Estimate", "compile_model", "estimate_model", "estimated_as"]
