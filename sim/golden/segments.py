"""Sums, maxima and minima of rows by segment.

Sources: `unsorted_segment.cc`, which ignores rows of negative segments, and `segment_sum.cc`. Both start from the
neutral element and add row by row, in float32 or in wrapping int32.
"""

from collections.abc import Callable

import numpy as np

from tq_hw.model.errors import InputError
from tq_hw.model.graph import Operator, Subgraph
from tq_hw.sim.golden.registry import Array, Inputs, kernel, require, value

__all__ = ["NOTHING"]


def _end(dtype: np.dtype, side: str) -> float:
    found: float = getattr(np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype), side)
    return found


#: Value of a segment without rows, by operator: a function of the type.
NOTHING: dict[str, Callable[[np.dtype], float]] = {
    "SEGMENT_SUM": lambda dtype: 0, "UNSORTED_SEGMENT_SUM": lambda dtype: 0,
    "UNSORTED_SEGMENT_MAX": lambda dtype: _end(dtype, "min"), "UNSORTED_SEGMENT_MIN": lambda dtype: _end(dtype, "max")}
_FUNCTIONS = {"SUM": np.add, "MAX": np.maximum, "MIN": np.minimum}


@kernel(*NOTHING)
def segments(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Reduce the rows of input 0 whose segments are in input 1."""
    rows, places = value(inputs, 0), value(inputs, 1)
    require(rows.dtype in (np.float32, np.int32), f"input must be int32 or float32, not {rows.dtype.name}")
    count = int(value(inputs, 2).reshape(-1)[0]) if len(inputs) > 2 else int(places.max(initial=-1)) + 1
    if places.max(initial=-1) >= count:
        raise InputError(f"segments must be less than {count}, found {places.max()}")
    result = np.full((count, *rows.shape[places.ndim:]), NOTHING[op.op](rows.dtype), rows.dtype)
    function = _FUNCTIONS[op.op.rpartition("_")[2]]
    with np.errstate(over="ignore"):
        for place, row in zip(places.reshape(-1).tolist(), rows.reshape(-1, *result.shape[1:]), strict=True):
            if place >= 0:
                result[place] = function(result[place], row)
    return [result]
