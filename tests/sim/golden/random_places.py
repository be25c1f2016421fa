"""Generated models of one operator that places elements among others."""

from typing import Any

import numpy as np
from random_draws import Generator, Rng, pick, shape

from tq_hw.model.samples.build import ModelBuilder

_DTYPES = ("int8", "uint8", "int16", "int32", "int64")


def _like(dtype: str) -> dict[str, Any]:
    return {"scale": 0.1, "zero_point": 128 if dtype == "uint8" else 0} if dtype in _DTYPES[:3] else {}


def _element(rng: Rng, b: ModelBuilder, dtype: str) -> int:
    """A scalar, constant or computed."""
    if rng.random() < 0.5:
        return b.input((), dtype, **_like(dtype))
    return b.constant(np.array(rng.integers(0, 100), dtype), **_like(dtype))


def reverse_sequence(rng: Rng, op: str) -> bytes:
    b, dtype, dims = ModelBuilder(op), pick(rng, *_DTYPES[1:]), shape(rng, int(rng.integers(2, 5)))
    along, batch = (int(axis) for axis in rng.choice(len(dims), 2, replace=False))
    lengths = rng.integers(0, dims[along] + 1, dims[batch]).astype(pick(rng, "int32", "int64"))
    return b.build(b.add(op, [b.input(dims, dtype, **_like(dtype)), b.constant(lengths)], seq_dim=along,
                         batch_dim=batch))


def diagonal(rng: Rng, op: str) -> bytes:
    b, dtype, dims = ModelBuilder(op), pick(rng, *_DTYPES), shape(rng, int(rng.integers(2, 5)))
    x = b.input(dims, dtype, **_like(dtype))
    if op == "MATRIX_DIAG":
        return b.build(b.add(op, [x]))
    return b.build(b.add(op, [x, b.input((*dims[:-2], min(dims[-2:])), dtype, **_like(dtype))]))


def dilate(rng: Rng, op: str) -> bytes:
    b, dtype, dims = ModelBuilder(op), pick(rng, *_DTYPES, "bool"), shape(rng)
    steps = b.constant(rng.integers(1, 4, len(dims)).astype(np.int32))
    return b.build(b.add(op, [b.input(dims, dtype, **_like(dtype)), steps, _element(rng, b, dtype)]))


def sparse_to_dense(rng: Rng, op: str) -> bytes:
    """Indices in any order, some of them repeated."""
    b, dtype, dims = ModelBuilder(op), pick(rng, "int8", "uint8", "int32", "int64"), shape(rng)
    count = int(rng.integers(1, 9))
    indices = np.stack([rng.integers(0, size, count) for size in dims], axis=-1)
    if len(dims) == 1 and rng.random() < 0.5:
        indices = np.sort(indices[:, 0])
    kind = pick(rng, "int32", "int64")
    values = b.input((count,) if rng.random() < 0.7 else (), dtype, **_like(dtype))
    return b.build(b.add(op, [b.constant(indices.astype(kind)), b.constant(np.array(dims, kind)), values,
                              _element(rng, b, dtype)], options={"validate_indices": False}))


def fill(rng: Rng, op: str) -> bytes:
    b, dtype = ModelBuilder(op), pick(rng, *((*_DTYPES, "bool") if op == "FILL" else ("int8", "int32")))
    return b.build(b.add("FILL", [b.constant(list(shape(rng))), b.input((), dtype, **_like(dtype))]))


#: Generators by operator.
PLACES: dict[str, Generator] = {
    "REVERSE_SEQUENCE": reverse_sequence, "MATRIX_DIAG": diagonal, "MATRIX_SET_DIAG": diagonal, "DILATE": dilate,
    "SPARSE_TO_DENSE": sparse_to_dense, "FILL": fill}
