"""Operators that are a function of one int8: an operator is a file `pointwise_*.py` with one function.

Such a function gives the result, before the clamp to int8, of each input code -128..127; the operator's tensors share a
shape. The compiler makes a table of it, so nothing else is needed.
"""

import importlib
import pkgutil
from collections.abc import Callable

import numpy as np

from tq_hw.model.graph import Operator, Subgraph
from tq_hw.sim.golden.arith import IntArray
from tq_hw.sim.golden.registry import Array, Inputs, kernel, narrow, output_tensor, require, require_dtype, value

__all__ = ["POINTWISE", "load_all", "pointwise"]

Function = Callable[[Operator, Subgraph, IntArray], IntArray]
#: Functions by operator.
POINTWISE: dict[str, Function] = {}


def pointwise(name: str) -> Callable[[Function], Function]:
    """Register the decorated function `(op, subgraph, codes) -> results` as the kernel of an operator."""
    def register(function: Function) -> Function:
        @kernel(name)
        def run(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
            source, output = require_dtype(op, subgraph, "int8"), output_tensor(op, subgraph)
            require(output.dtype == "int8" and output.quantization is not None,
                    f"output must be int8 with a scale and a zero point, not {output.dtype}")
            require(output.shape == source.shape, f"output must have shape {source.shape}, not {output.shape}")
            table = narrow(function(op, subgraph, np.arange(-128, 128)), -128, 127)
            return [table[value(inputs, 0).astype(np.int64) + 128]]
        POINTWISE[name] = function
        return function
    return register


def load_all() -> None:
    """Import every `pointwise_*.py` of this folder."""
    package = __name__.rpartition(".")[0]
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        if module.name.startswith("pointwise_"):
            importlib.import_module(f"{package}.{module.name}")
