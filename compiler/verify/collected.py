"""What the results of a layer have collected so far: rows, parts of a row, taps of windows."""

from dataclasses import dataclass, field

from tq_hw.compiler.ir.meaning import Scratch

__all__ = ["Collected", "Run"]


@dataclass(frozen=True)
class Run:
    """A row of `size` bytes that begins at byte `where` of its tensor, reduced up to its byte `end`."""

    where: int
    end: int
    size: int


@dataclass
class Collected:
    """Elements that registers, or scratch bytes, have collected since the layer's last complete result.

    Members
    -------
    rows : rows of a `Flat` layer
    runs : runs by written register
    taps : taps of a window whose maximum is in scratch bytes, by these
    """

    rows: int = 0
    runs: dict[frozenset[int], Run] = field(default_factory=dict)
    taps: dict[Scratch, frozenset[int]] = field(default_factory=dict)
