"""Byte tables share the entries of one table of the vector unit, whose load takes 256 cycles for any contents.

An entry has 32 bits. Up to four successive layers use one byte each: the bytes above it are not written, and those
below are shifted out. Each half of the table serves such layers until another layer needs the whole half.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from tq_hw.compiler.ir.layers import ByteTable, Elementwise, Layer, Mac, MaxPool
from tq_hw.compiler.ir.value import IntArray
from tq_hw.compiler.programs.words import LOOK_UP, look_up_byte

__all__ = ["TABLE_BYTES", "pack_tables", "packed", "table_alone"]

#: Tables that share the entries of one.
TABLE_BYTES = 4
_HALVES = 2


def table_alone(layer: Layer) -> IntArray | None:
    """Return the byte table of a layer that is only a table; else None."""
    return layer.tables[0] if isinstance(layer, Elementwise) and layer.uop == LOOK_UP and not layer.rest else None


def _byte_table(layer: Layer) -> IntArray | None:
    """Return the byte table of a layer that has no other one; else None."""
    if isinstance(layer, Mac | MaxPool):
        return None if layer.output_table is None else layer.output_table.entries
    return table_alone(layer)


def _with(layer: Layer, table: ByteTable) -> Layer:
    """Return a layer with another place of its byte table."""
    if isinstance(layer, Mac | MaxPool):
        return replace(layer, output_table=table)
    assert isinstance(layer, Elementwise), "no other layer has a byte table"
    return replace(layer, uop=layer.uop | look_up_byte(table), tables=table.tables)


def _groups(layers: Sequence[Layer]) -> Iterator[tuple[int, list[int]]]:
    """Yield a half of the table and the numbers of the layers that share it."""
    halves: list[list[int]] = [[], []]
    for number, layer in enumerate(layers):
        used = [table is not None for table in getattr(layer, "tables", (None, None))]
        if _byte_table(layer) is not None:
            half = next((half for half in range(_HALVES) if 0 < len(halves[half]) < TABLE_BYTES), None)
            if half is None:
                # The half that was used least recently.
                half = min(range(_HALVES), key=lambda half: halves[half][-1:] or [-1])
                yield half, halves[half]
                halves[half] = []
            halves[half].append(number)
            continue
        for half in range(_HALVES):
            if used[half]:
                yield half, halves[half]
                halves[half] = []
    yield from enumerate(halves)


def packed(tables: Sequence[IntArray]) -> IntArray:
    """Return the common entries of byte tables."""
    entries = sum((table.astype(np.int64) & 255) << 8 * place for place, table in enumerate(tables))
    return np.asarray(entries).astype(np.uint32).view(np.int32).astype(np.int64)


def pack_tables(layers: Sequence[Layer]) -> list[Layer]:
    """Return the layers, with shared tables for those with a byte table."""
    done = list(layers)
    for half, numbers in _groups(layers):
        tables = {number: table for number in numbers if (table := _byte_table(layers[number])) is not None}
        # Layers with the same table use the same byte.
        places = {table.tobytes(): table for table in tables.values()}
        entries, order = packed(list(places.values())), list(places)
        for number, table in tables.items():
            done[number] = _with(layers[number], ByteTable(entries, half, order.index(table.tobytes())))
    return done
