"""Operators that are a function of one int8 or int16 code: one file `pointwise_*.py` with one function per operator.

The function maps all input codes -128..127 to results before the clamp; the operator's tensors have the same shape. The
compiler turns it into a table, so nothing else is needed. With `wide`, this also applies to all codes of int16.
"""

import importlib
import pkgutil
from collections.abc import Callable

import numpy as np

from tq_hw.model.errors import InputError
from tq_hw.model.graph import Operator, Subgraph
from tq_hw.sim.golden.arith import IntArray, dtype_range, wrap_int32
from tq_hw.sim.golden.registry import Array, Inputs, kernel, narrow, output_tensor, require, require_dtype, value

__all__ = ["INTEGER", "POINTWISE", "WIDE", "integers", "load_all", "pointwise", "results"]

Function = Callable[[Operator, Subgraph, IntArray], IntArray]
#: Functions by operator.
POINTWISE: dict[str, Function] = {}


#: Operators that the engines have for int16, and those of them that reject an input below its zero point.
WIDE: set[str] = set()
_NOT_NEGATIVE: set[str] = set()
#: Operators that the engines also have for int32, without scales.
INTEGER: dict[str, Callable[[IntArray], IntArray]] = {}


def pointwise(name: str, *, wide: bool = False, negative: bool = True,
              integer: Callable[[IntArray], IntArray] | None = None) -> Callable[[Function], Function]:
    """Register the decorated function `(op, subgraph, codes) -> results` as the kernel of an operator.

    `integer` is the function for int32; the low 32 bits of its results are kept.
    """
    if integer is not None:
        INTEGER[name] = integer

    def register(function: Function) -> Function:
        @kernel(name)
        def run(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
            if value(inputs, 0).dtype == np.int32 and name in INTEGER:
                return [integers(op, subgraph, value(inputs, 0))]
            x, table = value(inputs, 0), results(op, subgraph)
            if name in _NOT_NEGATIVE and x.dtype == np.int16 and x.size and int(x.min()) < 0:
                raise InputError("an input is below 0, which the engines reject")
            return [table[x.astype(np.int64) + len(table) // 2]]
        POINTWISE[name] = function
        if wide:
            WIDE.add(name)
        if not negative:
            _NOT_NEGATIVE.add(name)
        return function
    return register


def integers(op: Operator, subgraph: Subgraph, x: Array) -> Array:
    """Results for int32; the output must be int32, too."""
    output = output_tensor(op, subgraph)
    require(output.dtype == "int32" and output.shape == x.shape,
            f"output must be int32 of shape {x.shape}, not {output.dtype} of shape {output.shape}")
    return wrap_int32(INTEGER[op.op](x.astype(np.int64))).astype(np.int32)


def results(op: Operator, subgraph: Subgraph) -> Array:
    """Results of all codes, from the least on.

    Raises `UnsupportedError` for types that the engines do not have. For a code that they reject, the result is
    arbitrary.
    """
    others = [dtype for dtype, ops in (("int16", WIDE), ("int32", INTEGER)) if op.op in ops]
    source, output = require_dtype(op, subgraph, "int8", *others), output_tensor(op, subgraph)
    require(output.dtype == source.dtype and output.quantization is not None,
            f"output must be {source.dtype} with a scale and a zero point, not {output.dtype}")
    require(output.shape == source.shape, f"output must have shape {source.shape}, not {output.shape}")
    low, high = dtype_range(source.dtype)
    points = [source.zero_point, output.zero_point]
    require(low == -128 or not any(points), f"activations of int16 must have zero point 0, found {points}")
    return narrow(POINTWISE[op.op](op, subgraph, np.arange(low, high + 1)), low, high, source.dtype)


def load_all() -> None:
    """Import every `pointwise_*.py` of this folder."""
    package = __name__.rpartition(".")[0]
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        if module.name.startswith("pointwise_"):
            importlib.import_module(f"{package}.{module.name}")
