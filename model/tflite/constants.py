"""Constant contents of tensors: from a buffer's bytes to an array, packed nibbles and sparse ones too.

int4: two elements a byte, the first in the low nibble, over the whole tensor without padding of rows.

Sparse (`SparsityParameters`): the array is a tree of the dimensions in traversal order, blocks last. A dense level
has all indices, a compressed one (CSR) those that its segments and indices list; the buffer holds the leaves in
order. Facts from `schema.fbs`, the kernels hold the same (tests/model/tflite/test_packed.py).
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tq_hw.model.errors import UnsupportedError
from tq_hw.model.rules.sizes import NUMPY_TYPES, item_bytes
from tq_hw.model.tflite.flatbuffer import Table

__all__ = ["pack_nibbles", "read_constant"]

_SEGMENT_TYPES = ("", "int32", "uint16", "uint8")
_FORMATS = ("DENSE", "SPARSE_CSR")
#: A small file may not grow without bound: elements that any tensor may have, and elements for each that is stored.
_SMALL_ELEMENTS, _MOST_RATIO = 1 << 20, 256
_Indices = npt.NDArray[np.int64]


def pack_nibbles(data: npt.NDArray[np.int8]) -> npt.NDArray[np.uint8]:
    """Return the bytes of int4 elements (int8 -8..7), the first in the low nibble; the last nibble may be unused."""
    flat = np.append(data.ravel(), np.zeros(data.size % 2, np.int8)).astype(np.uint8) & 15
    return (flat[::2] | flat[1::2] << np.uint8(4)).astype(np.uint8)


def _unpack_nibbles(packed: np.ndarray, count: int) -> npt.NDArray[np.int8]:
    """Return `count` int4 elements as int8, sign-extended."""
    pairs = np.stack([packed << np.uint8(4), packed & np.uint8(0xF0)], axis=-1)
    unpacked: npt.NDArray[np.int8] = (pairs.view(np.int8) >> 4).ravel()[:count]
    unpacked.flags.writeable = False
    return unpacked


def read_constant(table: Table, dtype: str, shape: tuple[int, ...],
                  buffers: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """Return the contents of the tensor that `table` describes, of `shape`, or None when it has none.

    Elements of int4 are int8 from -8 to 7. Raises `ModelError` for contents that do not fit, `UnsupportedError` for
    those of types that no array can have.
    """
    index = table.integer(2, "buffer", "uint32")
    sparsity = table.table(6, "sparsity")
    if index >= len(buffers):
        # Buffer 0 means "no contents" even where a writer has left the list out.
        if index == 0:
            return None
        raise table.error(f"refers to buffer {index}; the file has {len(buffers)} buffers")
    contents = buffers[index]
    count = math.prod(shape)
    if contents is None or index == 0 or (len(contents) == 0 and count > 0):
        return None
    if dtype not in NUMPY_TYPES and dtype != "int4":
        raise UnsupportedError(f"{table.file.name}: {table.place}: constants of type {dtype} are "
                               "not supported; convert the model with int8 weights")
    if sparsity is not None:
        return _densify(_Tree(table, sparsity, shape), dtype, contents)
    need_bytes = -(-count // 2) if dtype == "int4" else count * item_bytes(dtype)
    # A buffer may have more: the int64 biases of another subgraph, where a converter left these behind as float32.
    if len(contents) < need_bytes:
        raise table.error(f"{list(shape)} of {dtype} needs {need_bytes} bytes, buffer {index} has "
                          f"{len(contents)} bytes")
    if dtype == "int4":
        return _unpack_nibbles(contents[:need_bytes], count).reshape(shape)
    contents = contents[:need_bytes]
    if dtype == "bool" and count and contents.max() > 1:
        raise table.error(f"a bool in buffer {index} is neither 0 nor 1")
    return contents.view(np.dtype(dtype).newbyteorder("<")).reshape(shape)


class _Tree:
    """The levels of a sparse tensor, verified.

    Members
    -------
    order : for each level the dimension that it walks over; numbers from the rank on are blocks
    sizes : full size of each level
    block_map : for each block the dimension that it cuts
    """

    def __init__(self, table: Table, sparsity: Table, shape: tuple[int, ...]):
        self.table, self.sparsity, self.shape = table, sparsity, shape
        self.order = sparsity.integers(0, "traversal_order")
        self.block_map = sparsity.integers(1, "block_map")
        self.levels = sparsity.tables(2, "dim_metadata") or ()
        rank, blocks = len(shape), len(self.block_map)
        if sorted(self.order) != list(range(rank + blocks)):
            raise sparsity.error(f"is {list(self.order)}, expected each of 0 to {rank + blocks - 1} once",
                                 "traversal_order")
        if len(self.levels) != rank + blocks:
            raise sparsity.error(f"has {len(self.levels)} levels, expected {rank + blocks}", "dim_metadata")
        if any(not 0 <= axis < rank for axis in self.block_map) or len(set(self.block_map)) < blocks:
            raise sparsity.error(f"is {list(self.block_map)}, expected different dimensions, 0 to {rank - 1}",
                                 "block_map")
        self.sizes = self._sizes()

    def _sizes(self) -> list[int]:
        """Return the size of each level: that of its dimension, which blocks divide."""
        rank = len(self.shape)
        outer = dict(enumerate(self.shape))
        for number, axis in enumerate(self.block_map):
            level = self.order.index(rank + number)
            size = self.levels[level].integer(1, "dense_size")
            if self.levels[level].integer(0, "format", "int8") != 0 or size < 1 or self.shape[axis] % size:
                raise self.levels[level].error(f"is not a dense block that divides dimension {axis} of size "
                                               f"{self.shape[axis]}")
            outer[rank + number], outer[axis] = size, self.shape[axis] // size
        return [outer[dimension] for dimension in self.order]

    def leaves(self) -> list[_Indices]:
        """Return, for each level, the index of each leaf."""
        count = 1
        found: list[_Indices] = []
        for table, size in zip(self.levels, self.sizes, strict=True):
            format_code = table.integer(0, "format", "int8")
            if not 0 <= format_code < len(_FORMATS):
                raise table.error(f"format {format_code} is unknown; the schema has DENSE (0) and SPARSE_CSR (1)")
            if _FORMATS[format_code] == "DENSE":
                if (stored := table.integer(1, "dense_size")) != size:
                    raise table.error(f"is {stored}, expected {size}", "dense_size")
                if count * size > len(table.file.data):  # more than segments, or the buffer, can go on with
                    raise table.error(f"expands to {count * size} elements, more than the file has")
                parents, own = np.repeat(np.arange(count), size), np.tile(np.arange(size), count)
            else:
                parents, own = self._compressed(table, count, size)
            found = [*(level[parents] for level in found), own]
            count = len(own)
        return found

    def _compressed(self, table: Table, parent_count: int, size: int) -> tuple[_Indices, _Indices]:
        """Return parent and index of each node of a compressed level."""
        segments = self._vector(table, 2, "array_segments")
        indices = self._vector(table, 4, "array_indices")
        lengths = np.diff(segments)
        if (len(segments) != parent_count + 1 or segments[0] != 0 or (lengths < 0).any()
                or segments[-1] != len(indices)):
            raise table.error(f"do not rise from 0 to the number of indices, {len(indices)}, in {parent_count} steps",
                              "array_segments")
        if len(indices) and not (indices.min() >= 0 and indices.max() < size):
            raise table.error(f"are not all in 0 to {size - 1}", "array_indices")
        return np.repeat(np.arange(parent_count), lengths), indices

    @staticmethod
    def _vector(table: Table, slot: int, field: str) -> _Indices:
        code = table.integer(slot, f"{field}_type", "uint8")
        vector = table.table(slot + 1, field)
        if not 0 < code < len(_SEGMENT_TYPES) or vector is None:
            raise table.error("is missing, a compressed level needs it", field)
        view = vector.vector(0, "values", _SEGMENT_TYPES[code])
        return np.zeros(0, np.int64) if view is None else view.astype(np.int64)


def _densify(tree: _Tree, dtype: str, contents: np.ndarray) -> np.ndarray:
    """Return the whole array: zeros where the tree has no leaf."""
    table = tree.table
    if dtype != "int8":
        raise UnsupportedError(f"{table.file.name}: {table.place}: sparse contents of type {dtype} are not supported; "
                               "convert the model with int8 weights, or without sparsity")
    leaves = tree.leaves()
    count = len(leaves[-1]) if leaves else 1
    if len(contents) != count:
        raise table.error(f"{count} elements of {dtype} are listed, the buffer has {len(contents)} bytes", "sparsity")
    size = math.prod(tree.shape)
    if size > max(_SMALL_ELEMENTS, _MOST_RATIO * count):
        raise UnsupportedError(f"{table.file.name}: {table.place}: {count} of {size} elements are nonzero: contents "
                               f"this sparse are not supported; expected at most {_MOST_RATIO} elements per nonzero "
                               "one")
    rank = len(tree.shape)
    at = dict(zip(tree.order, leaves, strict=True))
    for number, axis in enumerate(tree.block_map):
        at[axis] = at[axis] * tree.sizes[tree.order.index(rank + number)] + at[rank + number]
    dense = np.zeros(tree.shape, np.int8)
    dense[tuple(at[axis] for axis in range(rank))] = contents.view(np.int8)
    dense.flags.writeable = False
    return dense
