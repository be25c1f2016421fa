"""CUMSUM of int32 and float32.

Source: `cumsum.cc`, by Eigen's scan: one sum after the other, along one axis, from its end if `reverse`, without the
element itself if `exclusive`; int32 wraps.
"""

import numpy as np

from tq_hw.model.graph import Operator, Subgraph
from tq_hw.sim.golden.arith import wrap_int32
from tq_hw.sim.golden.registry import Array, Inputs, bool_option, kernel, normalize_axis, require, value

__all__: list[str] = []


@kernel("CUMSUM")
def cumsum(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Sums along an axis."""
    x = value(inputs, 0)
    require(x.dtype in (np.int32, np.float32), f"input must be int32 or float32, not {x.dtype.name}")
    axis = normalize_axis(int(value(inputs, 1).reshape(-1)[0]), x.ndim)
    flipped = np.flip(x, axis) if bool_option(op, "reverse") else x
    sums = np.cumsum(flipped, axis=axis, dtype=np.float32 if x.dtype == np.float32 else np.int64)
    if bool_option(op, "exclusive"):
        sums = np.roll(sums, 1, axis)
        sums[(*[slice(None)] * axis, slice(0, 1))] = 0
    made = np.ascontiguousarray(np.flip(sums, axis) if bool_option(op, "reverse") else sums)
    return [made if x.dtype == np.float32 else wrap_int32(made.astype(np.int64)).astype(np.int32)]
