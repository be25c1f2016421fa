"""Words or bytes that nested loops address: views of an array, without an index for each."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tq_hw.compiler.verify.numbers import Bytes, Index

__all__ = ["ADDRESSES", "Area", "Form", "form_of"]

#: Word addresses are modulo this.
ADDRESSES = 1 << 16


class Form(NamedTuple):
    """Loops, the outermost first, and common properties of the addresses that they visit.

    Members
    -------
    counts, steps : of each loop
    low, high : range [low, high) of addresses, relative to the base
    apart : whether all addresses are certain to be distinct
    dense : whether they are all addresses between `low` and `high`
    ahead : whether they are consecutive, in order, from `low` on
    """

    counts: tuple[int, ...]
    steps: tuple[int, ...]
    low: int
    high: int
    apart: bool
    dense: bool
    ahead: bool


class Area:
    """Addresses `base` + sum of index * step over the loops of a form.

    Members
    -------
    low, high : range [low, high) of addresses
    """

    __slots__ = ("base", "form", "high", "low")

    def __init__(self, base: int, form: Form) -> None:
        self.base, self.form = base, form
        self.low, self.high = base + form.low, base + form.high

    @classmethod
    def of(cls, base: int, counts: tuple[int, ...], steps: tuple[int, ...]) -> "Area":
        """Return the area of some loops."""
        return cls(base, form_of(counts, steps))

    @property
    def counts(self) -> tuple[int, ...]:
        """Counts of all loops."""
        return self.form.counts

    def view(self, array: Bytes) -> Bytes:
        """Return a view [*counts] of an array that has all addresses; [addresses] if they are consecutive."""
        form = self.form
        if form.ahead:
            return array[self.low:self.high]
        size = array.itemsize
        return np.ndarray(form.counts, array.dtype, array, self.base * size, _scaled(form.steps, size))

    def set(self, array: Bytes, value: int) -> None:
        """Write one value to all addresses of an array."""
        if self.form.dense:
            array[self.low:self.high] = value
        else:
            self.view(array)[...] = value

    def places(self) -> Index:
        """Return all addresses, [*counts]."""
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
    """Return the form of some loops, the outermost first."""
    ends = [(count - 1) * step for count, step in zip(counts, steps, strict=True)]
    low, high = sum(min(end, 0) for end in ends), sum(max(end, 0) for end in ends) + 1
    loops = [(step, count) for step, count in zip(steps, counts, strict=True) if count > 1]
    # In order of steps: a step that is at least the span so far repeats no address; one that is at most the span leaves
    # no gap.
    reach = 1
    apart = dense = True
    for step, count in sorted((abs(step), count) for step, count in loops):
        apart, dense = apart and step >= reach, dense and step <= reach
        reach += (count - 1) * step
    walked = [step for step, _ in loops]
    upward = min(walked, default=1) > 0 and walked == sorted(walked, reverse=True)
    return Form(counts, steps, low, high, apart, dense, apart and dense and upward)
