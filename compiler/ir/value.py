"""Activation tensors after legalization, always as NHWC.

A `Value` is in system memory (dense), in the scratchpad (blocked), or both; the plan decides. `alias_of` makes two
values share their dense bytes (RESHAPE, flat copies).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["ELEMENT_BYTES", "IntArray", "Pitch", "TYPE_CODES", "Value", "element_count", "output_code"]

IntArray = npt.NDArray[Any]

#: The vector unit's codes of integer types; an output has the code of `output_code`.
TYPE_CODES = {"int8": 0, "bool": 0, "int16": 1, "int32": 2, "uint8": 3}

#: Bytes of an element by its code in the vector unit's registers.
ELEMENT_BYTES = (1, 2, 4, 1)


@dataclass(frozen=True)
class Pitch:
    """The place of a tensor inside another's dense bytes: offset of its first byte, strides of rows and pixels."""

    offset_bytes: int
    row_bytes: int
    pixel_bytes: int


@dataclass(frozen=True, eq=False)
class Value:
    """One activation tensor of int8 (or uint8 at an edge), as NHWC.

    Members
    -------
    tensor : index in the model's subgraph
    flip : whether the bytes in system memory are the accelerator's with bit 7 inverted (uint8 edges)
    alias_of : the value that owns these dense bytes in system memory, or that they are a part of
    pitch : their place in it, None if they are all of its bytes
    data : dense bytes of a constant, or None
    initial : contents before the first inference, for a value that persists between inferences
    """

    name: str
    tensor: int
    shape: tuple[int, int, int, int]
    zero_point: int = 0
    flip: bool = False
    alias_of: "Value | None" = None
    pitch: Pitch | None = None
    data: "npt.NDArray[Any] | None" = None
    initial: "npt.NDArray[Any] | None" = None

    @property
    def root(self) -> "Value":
        """The value that owns the dense bytes."""
        return self.alias_of.root if self.alias_of is not None else self

    @property
    def place(self) -> Pitch:
        """The place of the value in the bytes of its root."""
        _, _, w, c = self.shape
        own = self.pitch or Pitch(0, w * c, c)
        if self.alias_of is None:
            return own
        if self.pitch is None and not self.alias_of.dense:
            raise AssertionError(f"{self.name} is a view of bytes with gaps")
        return Pitch(self.alias_of.place.offset_bytes + own.offset_bytes, own.row_bytes, own.pixel_bytes)

    @property
    def dense(self) -> bool:
        """Whether its bytes are contiguous."""
        _, _, w, c = self.shape
        if self.pitch is not None and (self.pitch.row_bytes != w * c or self.pitch.pixel_bytes != c):
            return False
        return self.alias_of is None or self.alias_of.dense

    @property
    def size_bytes(self) -> int:
        """Dense size."""
        n, h, w, c = self.shape
        return n * h * w * c


def element_count(shape: tuple[int, ...]) -> int:
    """Return the number of elements of a shape."""
    return int(np.prod(shape, dtype=np.int64))


def output_code(dtype: str) -> int:
    """Return the vector unit's code of an output type: uint8 has that of int8, as for both the low byte is written."""
    return TYPE_CODES["int8" if dtype == "uint8" else dtype]
