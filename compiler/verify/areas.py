"""Words, or bytes, that nested loops walk over: seen in an array without an index for each of them."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tq_hw.compiler.verify.numbers import Bytes, Index

__all__ = ["ADDRESSES", "Area", "Form", "form_of"]

#: Addresses of words are modulo this.
ADDRESSES = 1 << 16


class Form(NamedTuple):
    """Loops, the outermost one first, and what the places that they walk over have in common.

    Members
    -------
    counts, steps : of each loop
    low, high : first place and the one after the last one, from the base
    apart : whether all places are certainly different ones
    dense : whether they are all between `low` and `high`
    ahead : whether they follow each other, in their order, from `low` on
    """

    counts: tuple[int, ...]
    steps: tuple[int, ...]
    low: int
    high: int
    apart: bool
    dense: bool
    ahead: bool


class Area:
    """Places `base` + sum of index * step of all loops of a form.

    Members
    -------
    low, high : first place and the one after the last one
    """

    __slots__ = ("base", "form", "high", "low")

    def __init__(self, base: int, form: Form) -> None:
        self.base, self.form = base, form
        self.low, self.high = base + form.low, base + form.high

    @classmethod
    def of(cls, base: int, counts: tuple[int, ...], steps: tuple[int, ...]) -> "Area":
        """Area of some loops."""
        return cls(base, form_of(counts, steps))

    @property
    def counts(self) -> tuple[int, ...]:
        """Counts of all loops."""
        return self.form.counts

    def view(self, array: Bytes) -> Bytes:
        """Return a view [*counts] of an array [place], in which all places lie; [places] if they follow each other."""
        form = self.form
        if form.ahead:
            return array[self.low:self.high]
        size = array.itemsize
        return np.ndarray(form.counts, array.dtype, array, self.base * size, _scaled(form.steps, size))

    def set(self, array: Bytes, value: int) -> None:
        """Write one value to all places of an array, in which they lie."""
        if self.form.dense:
            array[self.low:self.high] = value
        else:
            self.view(array)[...] = value

    def places(self) -> Index:
        """Return all places, [*counts]."""
        form = self.form
        found: Index = np.full(form.counts, self.base)
        for axis, (count, step) in enumerate(zip(form.counts, form.steps, strict=True)):
            found += (np.arange(count) * step).reshape(-1, *[1] * (len(form.counts) - axis - 1))
        return found


@lru_cache(maxsize=8192)
def _scaled(steps: tuple[int, ...], size: int) -> tuple[int, ...]:
    return tuple(step * size for step in steps)


@lru_cache(maxsize=8192)
def form_of(counts: tuple[int, ...], steps: tuple[int, ...]) -> Form:
    """Return the form of some loops, the outermost one first."""
    ends = [(count - 1) * step for count, step in zip(counts, steps, strict=True)]
    low, high = sum(min(end, 0) for end in ends), sum(max(end, 0) for end in ends) + 1
    loops = [(step, count) for step, count in zip(steps, counts, strict=True) if count > 1]
    # From the shortest step on: one that is not below the places walked over so far meets none of them again; one that
    # is not above leaves no gap.
    reach = 1
    apart = dense = True
    for step, count in sorted((abs(step), count) for step, count in loops):
        apart, dense = apart and step >= reach, dense and step <= reach
        reach += (count - 1) * step
    walked = [step for step, _ in loops]
    upward = min(walked, default=1) > 0 and walked == sorted(walked, reverse=True)
    return Form(counts, steps, low, high, apart, dense, apart and dense and upward)
