"""The destination of a command's values: by index, a register or a word of the engine's table."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from amaranth import Cat, Signal, Value

__all__ = ["IndexRange", "Target"]


class IndexRange:
    """Whether the index of the next value, and the index after it, lie in a range.

    Both flags are registers. The write strobe is late in its cycle and has a long path, so it only selects one.
    """

    def __init__(self, name: str, first: int, end: int) -> None:
        self._first, self._end = first, end
        self.holds = Signal(name=name)
        self._follows = Signal(name=f"{name}_follows")

    def begin(self, index: Value) -> list[Any]:
        """Compute the flags of `index` and of the one after it."""
        return [self.holds.eq(self._has(index, 0)), self._follows.eq(self._has(index, 1))]

    def step(self, index: Value) -> list[Any]:
        """Advance by one from `index`."""
        return [self.holds.eq(self._follows), self._follows.eq(self._has(index, 2))]

    def _has(self, index: Value, further: int) -> Value:
        return (index >= max(0, self._first - further)) & (index < max(0, self._end - further))


@dataclass(frozen=True)
class Target:
    """The destination of the next value."""

    index: Signal
    #: The registers, and the engine's table where there is one.
    ranges: Sequence[IndexRange]
    #: The index is that of a word of the engine's table.
    in_table: Value
    #: Nothing is in flight and the engine was idle in the cycle before.
    quiet: Signal
    #: The value may be written now.
    may_write: Signal
    #: Strobe: it is, to a register.
    writes: Signal

    @property
    def exists(self) -> Value:
        """Whether the index is that of anything."""
        return Cat(each.holds for each in self.ranges).any()

    def begin(self, first: Value) -> list[Any]:
        """Set the index."""
        return [self.index.eq(first), *(assign for each in self.ranges for assign in each.begin(first))]

    def step(self) -> list[Any]:
        """Go on by one value."""
        return [self.index.eq(self.index + 1), *(assign for each in self.ranges for assign in each.step(self.index))]
