"""The first difference between two runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_hw.model.errors import MismatchError

__all__ = ["Divergence", "divergences", "require_equal"]

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Divergence:
    """The first element of one output in which two runs differ, and the number of its elements that differ.

    `index` is None when dtype or shape differ; the values are then their descriptions.
    """

    output: int
    index: tuple[int, ...] | None
    found: object
    expected: object
    count: int
    total: int

    def __str__(self) -> str:
        """Describe the place, with both values."""
        if self.index is None:
            return f"output {self.output} is {self.found}, expected {self.expected}"
        return (f"output {self.output}, element {list(self.index)} is {self.found}, expected {self.expected} "
                f"({self.count} of {self.total} differ)")


def divergences(found: Sequence[Array], expected: Sequence[Array]) -> list[Divergence]:
    """Return the first divergence of each output that differs; floats are compared bit by bit, NaNs as equal."""
    if len(found) != len(expected):
        raise ValueError(f"{len(found)} outputs are compared with {len(expected)}")
    return [divergence for position, (one, other) in enumerate(zip(found, expected, strict=True))
            if (divergence := _divergence(position, one, other)) is not None]


def _divergence(position: int, found: Array, expected: Array) -> Divergence | None:
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return Divergence(position, None, f"{found.dtype.name}{list(found.shape)}",
                          f"{expected.dtype.name}{list(expected.shape)}", found.size, expected.size)
    differs = found != expected
    if found.dtype.kind == "f":
        differs |= np.signbit(found) != np.signbit(expected)
        differs &= ~(np.isnan(found) & np.isnan(expected))
    if not differs.any():
        return None
    index = tuple(int(i) for i in np.argwhere(differs)[0])
    return Divergence(position, index, found[index].item(), expected[index].item(), int(np.count_nonzero(differs)),
                      found.size)


def require_equal(found: Sequence[Array], expected: Sequence[Array], what: str) -> None:
    """Raise MismatchError that starts with `what` and names the first divergence of each output."""
    different = divergences(found, expected)
    if different:
        raise MismatchError(f"{what}: " + "; ".join(map(str, different)))
