"""From a graph to a command stream: legalize, plan, lower, emit.

    Model --legalize--> layers (ir.py) --plan--> buffers, rectangles --emit--> operations --stream--> commands

`compile_model` is the whole way; `constraints.limits_of(op)` says what an operator may not ask.
"""

from tq_hw.compiler.compile import Compiled, compile_model

__all__ = ["Compiled", "compile_model"]
