"""CUMSUM of integers and float32, ADD_N of int32 and float32: sequential sums; integers wrap.

Sources: `cumsum.cc`, with Eigen's scan along one axis, from its end if `reverse`, without the element itself if
`exclusive`; `add_n.h`, with one thread.
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
    require(x.dtype in (np.int32, np.int64, np.float32),
            f"input must be int32, int64 or float32, not {x.dtype.name}")
    axis = normalize_axis(int(value(inputs, 1).reshape(-1)[0]), x.ndim)
    flipped = np.flip(x, axis) if bool_option(op, "reverse") else x
    # A sum starts from 0, so the sum of -0 is 0.
    sums = np.cumsum(flipped, axis=axis, dtype=np.float32 if x.dtype == np.float32 else np.int64) + x.dtype.type(0)
    if bool_option(op, "exclusive"):
        sums = np.roll(sums, 1, axis)
        sums[(*[slice(None)] * axis, slice(0, 1))] = 0
    made = np.ascontiguousarray(np.flip(sums, axis) if bool_option(op, "reverse") else sums)
    # numpy's int64 sums wrap.
    return [wrap_int32(made).astype(np.int32) if x.dtype == np.int32 else made]


@kernel("ADD_N")
def add_n(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Sum of tensors of the same shape, in order."""
    terms = [value(inputs, position) for position in range(len(op.inputs))]
    kind = terms[0].dtype
    require(len(terms) > 1, "the kernel takes two or more inputs")
    require(kind in (np.int32, np.float32), f"inputs must be int32 or float32, not {kind.name}")
    require(all(term.dtype == kind and term.shape == terms[0].shape for term in terms),
            "inputs must share type and shape")
    made = terms[0] if kind == np.float32 else terms[0].astype(np.int64)
    for term in terms[1:]:
        made = made + term
    return [made if kind == np.float32 else wrap_int32(made).astype(np.int32)]
