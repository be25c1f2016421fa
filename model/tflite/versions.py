"""Versions that a `.tflite` gives its operators."""

import struct

from tq_hw.model.tflite.flatbuffer import FlatBuffer
from tq_hw.model.tflite.schema import OPERATORS, operator_code

__all__ = ["with_version"]

_VERSION = 2


def with_version(data: bytes, op: str, version: int) -> bytes:
    """Return a file that is the same but that no operator `op` has a newer version; raise `ModelError` as a reader."""
    changed = bytearray(data)
    root = FlatBuffer(data, op).root(b"TFL3", "model")
    for table in root.tables(1, "operator codes", "operator code") or ():
        code = operator_code(table.integer(0, "deprecated_builtin_code", "int8"), table.integer(3, "builtin_code"))
        at = table.offset(_VERSION)
        if at is not None and OPERATORS[code] == op and table.integer(_VERSION, "version") > version:
            changed[at:at + 4] = struct.pack("<i", version)
    return bytes(changed)
