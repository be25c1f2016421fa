"""Operators that the rules put in the place of one that no engine but LiteRT has."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from tq_hw.model.graph import Operator, OptionValue, Tensor

__all__ = ["Add", "constant", "gathered", "like"]

#: Adds a tensor and returns its index.
Add = Callable[[Tensor], int]


def constant(add: Add, data: Sequence[int] | np.ndarray) -> int:
    """Add a constant of int32 and return its index."""
    array = np.array(data, np.int32)
    return add(Tensor(0, "places", "int32", array.shape, data=array))


def like(add: Add, source: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Add a computed tensor of another shape and return it."""
    made = replace(source, shape=shape, shape_signature=(), data=None)
    return replace(made, index=add(made))


def gathered(add: Add, op: Operator, source: Tensor, axis: int, places: np.ndarray) -> tuple[Operator, Tensor]:
    """Return the GATHER of places along an axis, [..., *places, ...], and its output."""
    made = like(add, source, (*source.shape[:axis], *places.shape, *source.shape[axis + 1:]))
    options: dict[str, OptionValue] = {"axis": axis, "batch_dims": 0}
    return Operator(op.index, "GATHER", (source.index, constant(add, places)), (made.index,), options), made
