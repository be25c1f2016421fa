"""Strided copies from numpy: views of dense bytes give the offsets and strides of moves.

A tensor is represented by an array of bytes with an additional axis (the bytes of an element), whose memory is never
accessed. Every numpy view of it (slices, permutations, splits of an axis, repeats) is a copy with constant strides.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from tq_hw.compiler.ir.staged import Copy

__all__ = ["Dim", "blank", "copy_between", "fill_view", "merged"]

ByteView = npt.NDArray[Any]
Dim = tuple[int, int, int]


def blank(shape: Sequence[int], dtype: str) -> ByteView:
    """Return the bytes of a dense tensor as an array, a base of views without memory and contents."""
    dims = (*shape, np.dtype(dtype).itemsize)
    steps = [math.prod(dims[axis + 1:]) for axis in range(len(dims))]
    return as_strided(np.empty(1, np.int8), dims, steps)


def _offset(view: ByteView, base: ByteView) -> int:
    return int(view.__array_interface__["data"][0] - base.__array_interface__["data"][0])


def copy_between(source: int, source_view: ByteView, source_base: ByteView, target_view: ByteView,
                 target_base: ByteView) -> Copy:
    """Return the copy from a view of one blank array to a view of another, of equal shapes."""
    assert source_view.shape == target_view.shape, (source_view.shape, target_view.shape)
    dims = tuple(zip(source_view.shape, source_view.strides, target_view.strides, strict=True))
    return Copy(source, _offset(source_view, source_base), _offset(target_view, target_base), dims)


def merged(dims: Iterable[Dim]) -> list[Dim]:
    """Return loops (count, source stride, target stride) without those of count 1, merged where two have one stride.

    The outermost loop of the target is first.
    """
    left = sorted((d for d in dims if d[0] > 1), key=lambda d: (-abs(d[2]), -abs(d[1])))
    joined = True
    while joined:
        joined = False
        for outer, inner in itertools.permutations(left, 2):
            if outer[1] == inner[1] * inner[0] and outer[2] == inner[2] * inner[0]:
                left[left.index(inner)] = (outer[0] * inner[0], inner[1], inner[2])
                left.remove(outer)
                joined = True
                break
    return left


def fill_view(value: int, target_view: ByteView, target_base: ByteView) -> Copy:
    """Return the copy that sets every byte of a view."""
    dims = tuple((count, 0, stride) for count, stride in zip(target_view.shape, target_view.strides, strict=True))
    return Copy(-1, 0, _offset(target_view, target_base), dims, value & 0xFF)


