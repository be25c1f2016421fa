"""From a graph to a command stream: legalize, plan, lower, emit.

    tq_hw.model.Model --legalize--> layers (ir.py) --plan--> buffers and strips --lower--> operations --stream--> commands

`compile_model` is the whole way; `supported.operators()` says what it takes.
"""

from tq_hw.compiler.compile import Compiled, compile_model

__all__ = ["Compiled", "compile_model"]
