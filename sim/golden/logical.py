"""LOGICAL_AND, LOGICAL_OR, LOGICAL_NOT and SELECT.

Sources: `logical.cc`, `logical_not` in `elementwise.cc`, `select.cc`. SELECT copies values unchanged, whatever their
scale.
"""

import numpy as np

from tq_hw.model.graph import Operator, Subgraph
from tq_hw.sim.golden.registry import Array, Inputs, kernel, value

__all__ = ["condition_shape"]


@kernel("LOGICAL_AND", "LOGICAL_OR")
def logical(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Logical AND or OR of two tensors."""
    choose = np.logical_and if op.op == "LOGICAL_AND" else np.logical_or
    return [choose(value(inputs, 0), value(inputs, 1))]


@kernel("LOGICAL_NOT")
def logical_not(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Logical negation."""
    return [np.logical_not(value(inputs, 0))]


def condition_shape(op: str, condition: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Shape of a condition that broadcasts as usual; a vector condition of SELECT selects along the first axis."""
    if op == "SELECT" and len(condition) == 1 and rank > 1:
        return (*condition, *(1,) * (rank - 1))
    return condition


@kernel("SELECT", "SELECT_V2")
def select(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Input 1 where input 0 is true, else input 2."""
    condition, x, y = (value(inputs, position) for position in range(3))
    return [np.where(condition.reshape(condition_shape(op.op, condition.shape, x.ndim)), x, y)]
