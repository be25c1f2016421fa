"""Output shapes of operators that put a tensor's elements among others: MATRIX_DIAG, DILATE, SPARSE_TO_DENSE, ..."""

import math
from collections.abc import Callable

from tq_hw.model.rules.node import Node

__all__ = ["PLACE_SHAPES"]

Shapes = list[tuple[int, ...]] | None


def _reverse_sequence(node: Node) -> Shapes:
    shape, lengths = node.shape(0), node.shape(1)
    along, batch = node.option("seq_dim"), node.option("batch_dim")
    if not (0 <= along < len(shape) and 0 <= batch < len(shape)) or along == batch:
        raise node.error(f"seq_dim is {along} and batch_dim {batch}, expected two axes of {list(shape)}")
    if lengths != (shape[batch],):
        raise node.error(f"lengths have shape {list(lengths)}, expected {[shape[batch]]}")
    data = node.input(1).data
    if data is not None and data.size and int(data.max()) > shape[along]:
        raise node.error(f"lengths are up to {int(data.max())}, expected at most {shape[along]}")
    return [shape]


def _matrix_diag(node: Node) -> Shapes:
    shape = node.shape(0)
    if not shape:
        raise node.error("input is a scalar, expected rank 1 or more")
    return [(*shape, shape[-1])]


def _matrix_set_diag(node: Node) -> Shapes:
    shape, diagonal = node.shape(0), node.shape(1)
    if len(shape) < 2 or diagonal != (*shape[:-2], min(shape[-2:])):
        raise node.error(f"input has shape {list(shape)} and the diagonal {list(diagonal)}, expected matrices, and a "
                         "diagonal of one rank less, as long as the smaller side")
    return [shape]


def _dilate(node: Node) -> Shapes:
    shape, steps = node.shape(0), node.integers(1, "dilations", len(node.shape(0)))
    if not shape:
        raise node.error("input is a scalar, expected rank 1 or more")
    if math.prod(node.shape(2)) != 1:
        raise node.error(f"padding value has shape {list(node.shape(2))}, expected one element")
    if steps is None:
        return None
    if min(steps, default=1) < 1:
        raise node.error(f"dilations is {steps}, expected 1 or more")
    return [tuple(max((size - 1) * step + 1, 0) for size, step in zip(shape, steps, strict=True))]


def _sparse_to_dense(node: Node) -> Shapes:
    indices, values, sizes = node.shape(0), node.shape(2), node.integers(1, "output shape")
    if sizes is None:
        return None
    count = indices[0] if indices else 1
    if len(indices) > 2 or (indices[1] if len(indices) == 2 else 1) != len(sizes) or min(sizes, default=0) < 0:
        raise node.error(f"indices have shape {list(indices)}, output shape is {sizes}: expected a number for each "
                         "size")
    if values not in ((), (count,)) or math.prod(node.shape(3)) != 1:
        raise node.error(f"values have shape {list(values)} and the default {list(node.shape(3))}, expected {[count]} "
                         "or one element, and one element")
    data = node.input(0).data
    if data is not None and data.size:
        rows = data.reshape(count, -1)
        for axis, size in enumerate(sizes):
            if not 0 <= int(rows[:, axis].min()) <= int(rows[:, axis].max()) < size:
                raise node.error(f"indices of axis {axis} run from {rows[:, axis].min()} to {rows[:, axis].max()}, "
                                 f"expected 0 to {size - 1}")
    return [tuple(sizes)]


def _fill(node: Node) -> Shapes:
    dims = node.integers(0, "dims")
    if node.shape(1):
        raise node.error(f"value has shape {list(node.shape(1))}, expected a scalar")
    if dims is not None and min(dims, default=0) < 0:
        raise node.error(f"dims is {dims}, expected sizes of 0 or more")
    return None if dims is None else [tuple(dims)]


#: Rules by operator.
PLACE_SHAPES: dict[str, Callable[[Node], Shapes]] = {
    "REVERSE_SEQUENCE": _reverse_sequence, "MATRIX_DIAG": _matrix_diag, "MATRIX_SET_DIAG": _matrix_set_diag,
    "DILATE": _dilate, "SPARSE_TO_DENSE": _sparse_to_dense, "FILL": _fill,
}
