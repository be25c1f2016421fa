"""Strided copies found by numpy: views of dense bytes, as offsets and strides of moves.

A tensor is seen as an array of bytes with one axis more than it has (the bytes of an element), whose memory is never
touched. Whatever numpy can write as a view of it (slices, permutations, splits of an axis, repeats) is a copy of
constant strides.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from tq_hw.compiler.ir.layers import Copy, Move, Value
from tq_hw.compiler.legalize import Legalizer
from tq_hw.model.graph import Operator, Tensor

__all__ = ["affine_segments", "blank", "copy_between", "fill_view", "merged", "move_view"]

ByteView = npt.NDArray[Any]
Dim = tuple[int, int, int]
#: Longest period that index lists are searched for.
_PERIODS = 8


def blank(shape: Sequence[int], dtype: str) -> ByteView:
    """Return the bytes of a dense tensor as an array to make views of; it takes no memory and has no contents."""
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
    """Loops (count, source stride, target stride) without those of one turn, joined where two walk on in one stride.

    The outermost one in the target is the first.
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


def move_view(state: Legalizer, op: Operator, source: Value, tensor: Tensor,
              view: Callable[[ByteView], ByteView]) -> Value:
    """Add a move that writes `view` of a tensor's bytes densely; return the new value, seen like the output."""
    base = blank(tensor.shape, tensor.dtype)
    picked = view(base)
    target = blank(picked.shape[:-1], tensor.dtype)
    value = Value(f"{tensor.name} ({op.op})", tensor.index, state.view(picked.shape[:-1], tensor.dtype),
                  source.zero_point)
    state.layers.append(Move(op.index, op.op, (source,), value, (copy_between(0, picked, base, target, target),)))
    return value


def affine_segments(indices: Sequence[int]) -> list[tuple[slice, slice]]:
    """Cut an index list into pieces (output slice, input slice) of constant steps, few of them.

    An input slice of step 0 is written as a slice of one index.
    """
    values = [int(index) for index in indices]
    best: list[tuple[slice, slice]] = []
    for period in range(1, min(_PERIODS, max(1, len(values))) + 1):
        found = []
        for phase in range(min(period, len(values))):
            found += _runs(values, phase, period)
        if not best or len(found) < len(best):
            best = found
    return best


def _runs(values: list[int], first: int, period: int) -> list[tuple[slice, slice]]:
    places = list(range(first, len(values), period))
    out = []
    at = 0
    while at < len(places):
        end = at + 1
        step = values[places[end]] - values[places[at]] if end < len(places) else 1
        while end < len(places) and values[places[end]] - values[places[end - 1]] == step:
            end += 1
        target = slice(places[at], places[end - 1] + 1, period)
        low = values[places[at]]
        if step == 0 or end == at + 1:
            source = slice(low, low + 1)
        elif step > 0:
            source = slice(low, values[places[end - 1]] + 1, step)
        else:
            last = values[places[end - 1]]
            source = slice(low, last - 1 if last > 0 else None, step)
        out.append((target, source))
        at = end
    return out
