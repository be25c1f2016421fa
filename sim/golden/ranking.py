"""ONE_HOT and TOPK_V2. Sources: `one_hot.cc`, `topk_v2.cc`."""

import numpy as np

from tq_hw.model.graph import Operator, Subgraph
from tq_hw.sim.golden.registry import Array, Inputs, int_option, kernel, normalize_axis, require_dtype, value

__all__: list[str] = []


@kernel("ONE_HOT")
def one_hot(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """A new axis with the on value at the index, the off value elsewhere, and everywhere for an index out of range."""
    indices, depth = value(inputs, 0), int(value(inputs, 1).reshape(-1)[0])
    on, off = (value(inputs, position).reshape(()) for position in (2, 3))
    axis = normalize_axis(int_option(op, "axis"), indices.ndim + 1)
    # The kernel converts int64 indices to int.
    hot = np.expand_dims(indices.astype(np.int32), axis) == np.arange(depth).reshape(
        [depth if at == axis else 1 for at in range(indices.ndim + 1)])
    return [np.where(hot, on, off)]


@kernel("TOPK_V2")
def top_k(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Largest values of each row in descending order and their positions; equal values keep their order."""
    require_dtype(op, subgraph, "int8", "int16", "float32")
    x, count = value(inputs, 0), int(value(inputs, 1).reshape(-1)[0])
    order = np.argsort(-x.astype(np.float32), axis=-1, kind="stable")[..., :count]
    return [np.take_along_axis(x, order, axis=-1), order.astype(np.int32)]
