"""Bounds-checked views of a FlatBuffer.

The `flatbuffers` Python package has no verifier: its accessors follow any offset, so that a damaged
file ends in `struct.error`, in an endless loop, or in the wrong bytes read without a word. Here every
offset is verified before it is used, and what is wrong is a `ModelError` that names file, place and
rule. A FlatBuffer may name one object from many places, so a small file can unfold into a huge tree;
`FlatBuffer.spend` therefore bounds the number of tables and vector elements read, in proportion to
the file. The views never recurse: depth is that of the schema which the caller follows.
"""

import struct
from collections.abc import Sequence

import numpy as np

from tq_hw.model.errors import ModelError
from tq_hw.model.tflite.mistaken import guess_format

__all__ = ["FlatBuffer", "Table"]

_FORMATS = {
    "bool": struct.Struct("<B"), "int8": struct.Struct("<b"), "uint8": struct.Struct("<B"),
    "uint16": struct.Struct("<H"), "int32": struct.Struct("<i"), "uint32": struct.Struct("<I"),
    "int64": struct.Struct("<q"), "uint64": struct.Struct("<Q"), "float32": struct.Struct("<f"),
}

# An honest file without shared objects spends less than its length. The constant is room for small
# files with shared names and shapes, and still ends within a second.
_WORK_PER_BYTE = 2
_WORK_MIN = 16384


class FlatBuffer:
    """One FlatBuffer in memory.

    Parameters
    ----------
    data : whole contents of the file
    name : what messages call the file
    """

    def __init__(self, data: bytes, name: str):
        self.data = data
        self.name = name
        self._work_left = _WORK_MIN + _WORK_PER_BYTE * len(data)

    def error(self, place: str, rule: str) -> ModelError:
        """Return the error for a broken rule at a place; the caller raises it."""
        return ModelError(f"{self.name}: {place}: {rule}")

    def spend(self, count: int, place: str) -> None:
        """Account for `count` tables or elements; raise `ModelError` when the file unfolds too far."""
        self._work_left -= count
        if self._work_left < 0:
            raise self.error(place, "the same parts are referenced too often; the file is corrupt")

    def check(self, offset: int, size_bytes: int, place: str) -> None:
        """Raise `ModelError` unless `size_bytes` bytes at `offset` are inside the file."""
        if offset < 0 or offset + size_bytes > len(self.data):
            raise self.error(place, f"{size_bytes} bytes at offset {offset} are out of range: the "
                                    f"file has {len(self.data)} bytes; it is truncated or corrupt")

    def scalar(self, kind: str, offset: int, place: str) -> int | float:
        """Read one scalar of `kind` at `offset`."""
        form = _FORMATS[kind]
        self.check(offset, form.size, place)
        value: int | float = form.unpack_from(self.data, offset)[0]
        return value

    def offset(self, at: int, place: str) -> int:
        """Follow the forward offset that is stored at `at`."""
        distance = int(self.scalar("uint32", at, place))
        self.check(at + distance, 4, place)
        return at + distance

    def root(self, identifier: bytes, place: str) -> "Table":
        """Return the root table; raise `ModelError` unless the file has this 4-byte identifier."""
        if not self.data:
            raise ModelError(f"{self.name}: the file is empty")
        if len(self.data) < 8:
            raise ModelError(f"{self.name}: the file has {len(self.data)} bytes, too short for a "
                             f"FlatBuffer header of 8 bytes; it is truncated")
        if self.data[4:8] != identifier:
            raise ModelError(f"{self.name}: not a TFLite model: the file identifier (bytes 4 to 7) "
                             f"is {self.data[4:8]!r}, expected {identifier!r}"
                             + guess_format(self.data))
        return Table(self, self.offset(0, "root offset"), place)


class Table:
    """One table: fields by slot number, each verified when it is read.

    Parameters
    ----------
    file : the FlatBuffer
    position : offset of the table in bytes
    place : what messages call the table
    """

    __slots__ = ("_position", "_slot_count", "_vtable", "file", "place")

    def __init__(self, file: FlatBuffer, position: int, place: str):
        self.file = file
        self.place = place
        self._position = position
        file.spend(1, place)
        self._vtable = position - int(file.scalar("int32", position, place))
        size_bytes = int(file.scalar("uint16", self._vtable, f"{place}, vtable offset"))
        if size_bytes < 4 or size_bytes % 2:
            raise self.error(f"a vtable of {size_bytes} bytes at offset {self._vtable} is corrupt")
        file.check(self._vtable, size_bytes, f"{place}, vtable")
        self._slot_count = size_bytes // 2 - 2

    def error(self, rule: str, field: str = "") -> ModelError:
        """Return the error for a rule that this table, or one field of it, breaks."""
        return self.file.error(f"{self.place}, {field}" if field else self.place, rule)

    def has(self, slot: int) -> bool:
        """Tell whether the field is stored."""
        return self.offset(slot) is not None

    def offset(self, slot: int) -> int | None:
        """Return where in the file the field is stored, None when it is not."""
        if slot >= self._slot_count:
            return None
        at = self._vtable + 4 + 2 * slot
        distance = int.from_bytes(self.file.data[at:at + 2], "little")
        return self._position + distance if distance else None

    def _target(self, slot: int, field: str) -> int | None:
        at = self.offset(slot)
        return None if at is None else self.file.offset(at, f"{self.place}, {field}")

    def integer(self, slot: int, field: str, kind: str = "int32", default: int = 0) -> int:
        """Read an integer of `kind`, or the schema's default when it is not stored."""
        at = self.offset(slot)
        return default if at is None else int(self.file.scalar(kind, at, f"{self.place}, {field}"))

    def float32(self, slot: int, field: str, default: float = 0.0) -> float:
        """Read a float32, or the schema's default when it is not stored."""
        at = self.offset(slot)
        if at is None:
            return default
        return float(self.file.scalar("float32", at, f"{self.place}, {field}"))

    def boolean(self, slot: int, field: str, default: bool = False) -> bool:
        """Read a bool, or the schema's default when it is not stored."""
        return bool(self.integer(slot, field, "bool", int(default)))

    def vector(self, slot: int, field: str, kind: str) -> np.ndarray | None:
        """Return a vector of scalars as a read-only view of the file, or None when it is not stored.

        A view costs nothing whatever its length; call `integers` to get elements.
        """
        at = self._target(slot, field)
        if at is None:
            return None
        place = f"{self.place}, {field}"
        count = int(self.file.scalar("uint32", at, place))
        dtype = np.dtype(kind).newbyteorder("<")
        self.file.check(at + 4, count * dtype.itemsize, place)
        return np.frombuffer(self.file.data, dtype, count, at + 4)

    def integers(self, slot: int, field: str, kind: str = "int32") -> tuple[int, ...]:
        """Read a vector of integers; () when it is not stored."""
        view = self.vector(slot, field, kind)
        if view is None:
            return ()
        self.file.spend(len(view), f"{self.place}, {field}")
        return tuple(view.tolist())

    def floats(self, slot: int, field: str) -> tuple[float, ...]:
        """Read a vector of float32; () when it is not stored."""
        view = self.vector(slot, field, "float32")
        if view is None:
            return ()
        self.file.spend(len(view), f"{self.place}, {field}")
        return tuple(view.tolist())

    def string(self, slot: int, field: str) -> str:
        """Read a string; "" when it is not stored. Bytes that are not UTF-8 are escaped."""
        view = self.vector(slot, field, "uint8")
        if view is None:
            return ""
        self.file.spend(len(view), f"{self.place}, {field}")
        return view.tobytes().decode("utf-8", "backslashreplace")

    def table(self, slot: int, field: str) -> "Table | None":
        """Return a table, also one that a union points to, or None when it is not stored."""
        at = self._target(slot, field)
        return None if at is None else Table(self.file, at, f"{self.place}, {field}")

    def tables(self, slot: int, field: str, element: str = "") -> Sequence["Table"] | None:
        """Return a vector of tables, or None when it is not stored.

        `element` names one element in messages, followed by its index.
        """
        at = self._target(slot, field)
        if at is None:
            return None
        place = f"{self.place}, {field}"
        count = int(self.file.scalar("uint32", at, place))
        self.file.check(at + 4, 4 * count, place)
        self.file.spend(count, place)
        names = (f"{element or place} {index}" for index in range(count))
        return [Table(self.file, self.file.offset(at + 4 + 4 * index, name), name)
                for index, name in enumerate(names)]
