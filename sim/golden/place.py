"""Operators that insert a tensor's elements among others; values are copied unchanged, whatever their scale.

Sources: `reverse_sequence.cc`, `matrix_diag.cc`, `matrix_set_diag.cc`, `dilate.cc`, `sparse_to_dense.cc`, `fill.cc`.
None of the kernels uses scales or zero points.
"""

import numpy as np

from tq_hw.model.graph import Operator, Subgraph
from tq_hw.sim.golden.rearrange import flat_indices
from tq_hw.sim.golden.registry import Array, Inputs, int_option, kernel, output_tensor, value

__all__ = ["dense_places"]


@kernel("REVERSE_SEQUENCE")
def reverse_sequence(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Reverse the first elements along `seq_dim`; input 1 gives their number for each index of `batch_dim`."""
    x, lengths = value(inputs, 0), value(inputs, 1)
    axes = int_option(op, "batch_dim"), int_option(op, "seq_dim")
    result = x.copy()
    rows, targets = np.moveaxis(x, axes, (0, 1)), np.moveaxis(result, axes, (0, 1))
    for row, target, length in zip(rows, targets, lengths.tolist(), strict=True):
        target[:max(length, 0)] = row[:max(length, 0)][::-1]
    return [result]


@kernel("MATRIX_DIAG")
def matrix_diag(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """A square matrix for each row, with the row on its diagonal and zeros elsewhere."""
    x = value(inputs, 0)
    result = np.zeros((*x.shape, x.shape[-1]), x.dtype)
    np.einsum("...ii->...i", result)[...] = x
    return [result]


@kernel("MATRIX_SET_DIAG")
def matrix_set_diag(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Matrices with their diagonal replaced."""
    result, diagonal = value(inputs, 0).copy(), value(inputs, 1)
    size = diagonal.shape[-1]
    np.einsum("...ii->...i", result[..., :size, :size])[...] = diagonal
    return [result]


@kernel("DILATE")
def dilate(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Elements at distances given by input 1, with the value of input 2 between them."""
    x = value(inputs, 0)
    result = np.full(output_tensor(op, subgraph).shape, value(inputs, 2).reshape(()), x.dtype)
    result[tuple(slice(None, None, int(step)) for step in value(inputs, 1))] = x
    return [result]


def dense_places(indices: Array, shape: tuple[int, ...]) -> Array:
    """Flat index in the dense tensor of each value of a SPARSE_TO_DENSE.

    Raises InputError for an index outside the tensor.
    """
    return flat_indices(indices.reshape(-1, len(shape)), shape)


@kernel("SPARSE_TO_DENSE")
def sparse_to_dense(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Values at their indices, the last one for a repeated index; input 3 elsewhere."""
    values, shape = value(inputs, 2), tuple(int(size) for size in value(inputs, 1))
    result = np.full(shape, value(inputs, 3).reshape(()), values.dtype)
    places = dense_places(value(inputs, 0), shape)
    for place, each in zip(places.tolist(), np.broadcast_to(values, places.shape), strict=True):
        result.flat[place] = each
    return [result]


@kernel("FILL")
def fill(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """A tensor filled with one value."""
    return [np.broadcast_to(value(inputs, 1).reshape(()), [int(size) for size in value(inputs, 0)])]
