"""Compressed weights: rows of `cols` bytes, one per scratchpad word, in the code that the load unit decodes.

A run of coded bytes is a sequence of blocks. A block starts with two bytes: its field width w (low four bits, 8 to 15
mean 8; the other bits are ignored) and its number of rows minus one. Each byte of a row is a field of w bits, zigzag
coded: 0, -1, 1, -2, ... are 0, 1, 2, 3, ... In a field of 1 to 7 bits, all ones is an escape: the byte itself is stored
separately.

Fields are stored as bit planes. A plane has `plane_bytes` bytes, with one bit of each field of a row, byte 0 in bit 0.
The plane of the lowest bits comes first. A block starts with the planes of its first row. Then, for each row, come its
escaped bytes in order and the planes of the next row, if there is one: planes first if both together are at most
`view_bytes`, else escaped bytes first. The decoder sees `view_bytes` at a time, so it knows a cycle ahead where a row
ends.

Every byte string is valid: zeros follow its end, and bytes that the rows do not need are ignored.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tq_hw.isa.sizes import ceil_div, ceil_log2

__all__ = ["BLOCK_CYCLES", "HEADER_BYTES", "MOST_ROWS", "WIDEST", "Coded", "decode_rows", "encode_rows", "plane_bytes",
           "view_bytes"]

Bytes = npt.NDArray[np.uint8]

#: Bytes of a block's header; most rows of a block; bits of a field that has a code for every byte.
HEADER_BYTES = 2
MOST_ROWS = 256
WIDEST = 8
#: Cycles of a block before its first row.
BLOCK_CYCLES = 2


def plane_bytes(cols: int) -> int:
    """Return the bytes of a plane: one bit of each field of a row."""
    return ceil_div(cols, 8)


def view_bytes(cols: int) -> int:
    """Return the bytes that the decoder sees at a time: eight planes, rounded up to a power of two."""
    return 8 << ceil_log2(plane_bytes(cols))


def decode_rows(data: bytes, rows: int, cols: int) -> Bytes:
    """Return the [rows, cols] bytes that a run of coded bytes stands for; every byte string is valid."""
    plane, view = plane_bytes(cols), view_bytes(cols)
    found = np.zeros((rows, cols), np.uint8)
    reader = _Reader(data)
    at = done = 0
    while done < rows:
        if at >= len(data):
            break  # zeros are blocks of a row of zeros
        width = min(reader.byte(at) & 15, WIDEST)
        count = reader.byte(at + 1) + 1
        at += HEADER_BYTES
        planes, escapes = np.empty(count, np.int64), np.empty(count, np.int64)
        size, flags = width * plane, 0
        for row in range(count):
            if row == 0:
                planes[0], at = at, at + size
                flags = reader.escaped(int(planes[0]), width, cols)
            last = row == count - 1
            if last or size + flags > view:
                escapes[row], at = at, at + flags
            if not last:
                planes[row + 1], at = at, at + size
                if size + flags <= view:
                    escapes[row], at = at, at + flags
                flags = reader.escaped(int(planes[row + 1]), width, cols)
        found[done:done + count] = _block(reader.array(at), planes, escapes, width, cols)[:rows - done]
        done += count
    return found


class _Reader:
    """Bytes, and zeros after them."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def byte(self, at: int) -> int:
        return self._data[at] if at < len(self._data) else 0

    def escaped(self, at: int, width: int, cols: int) -> int:
        """Count the fields of a row, whose planes begin at a byte, that are all ones."""
        if not 1 <= width < WIDEST:
            return 0
        plane, ones = plane_bytes(cols), (1 << cols) - 1
        for first in range(at, at + width * plane, plane):
            ones &= int.from_bytes(self._data[first:first + plane], "little")
        return ones.bit_count()

    def array(self, size: int) -> Bytes:
        """Return the first bytes."""
        return np.frombuffer(self._data[:size].ljust(size, b"\0"), np.uint8)


def _block(data: Bytes, planes: npt.NDArray[np.int64], escapes: npt.NDArray[np.int64], width: int, cols: int) -> Bytes:
    """Return the rows of a block whose planes and escapes begin at these bytes."""
    plane = plane_bytes(cols)
    places = planes[:, None, None] + np.arange(width * plane).reshape(width, plane)
    bits = np.unpackbits(data[places], axis=2, bitorder="little")[:, :, :cols].astype(np.int64)
    fields = (bits << np.arange(width)[:, None]).sum(1)
    found: Bytes = ((fields >> 1) ^ -(fields & 1)).astype(np.uint8)
    if 1 <= width < WIDEST:
        escaped = fields == (1 << width) - 1
        number = np.cumsum(escaped, axis=1) - 1
        found[escaped] = data[(escapes[:, None] + number)[escaped]]
    return found


class Coded(NamedTuple):
    """Coded rows, and the fewest cycles that the decoder takes for them."""

    data: bytes
    cycles: int


@lru_cache(maxsize=1 << 12)
def encode_rows(data: bytes, cols: int) -> Coded:
    """Return the shortest code of rows of `cols` bytes."""
    rows = np.frombuffer(data, np.uint8).reshape(-1, cols)
    signed = rows.view(np.int8).astype(np.int64)
    fields = np.where(signed < 0, -2 * signed - 1, 2 * signed)
    plane = plane_bytes(cols)
    costs = np.empty((len(rows), WIDEST + 1), np.int64)
    costs[:, 0] = np.where(fields.any(axis=1), 1 << 16, 0)
    for width in range(1, WIDEST):
        costs[:, width] = plane * width + (fields >= (1 << width) - 1).sum(1)
    costs[:, WIDEST] = plane * WIDEST
    coded, cycles, first = bytearray(), 0, 0
    widths = _widths(costs)
    while first < len(rows):
        end = first + 1
        while end < min(len(rows), first + MOST_ROWS) and widths[end] == widths[first]:
            end += 1
        block = _encode_block(rows[first:end], fields[first:end], widths[first])
        coded += block.data
        cycles += block.cycles
        first = end
    return Coded(bytes(coded), cycles)


def _widths(costs: npt.NDArray[np.int64]) -> list[int]:
    """Return the width of each row so that all bytes are the fewest, where a change of width costs a header."""
    came: list[tuple[list[int], int, int]] = []
    total = [0] * costs.shape[1]
    # Lists, because numpy takes longer for nine numbers.
    for cost in costs.tolist():
        best = min(total)
        most = best + HEADER_BYTES
        came.append((total, most, total.index(best)))
        total = [(most if one > most else one) + own for one, own in zip(total, cost, strict=True)]
    width, found = total.index(min(total)), []
    for before, most, best in reversed(came):
        found.append(width)
        if before[width] > most:
            width = best
    return found[::-1]


def _encode_block(rows: Bytes, fields: npt.NDArray[np.int64], width: int) -> Coded:
    count, cols = rows.shape
    view, size = view_bytes(cols), width * plane_bytes(cols)
    escaped = fields >= (1 << width) - 1 if 1 <= width < WIDEST else np.zeros(fields.shape, bool)
    fields = np.where(escaped, (1 << width) - 1, fields)
    bits = np.zeros((count, width, 8 * plane_bytes(cols)), np.uint8)
    bits[:, :, :cols] = fields[:, None, :] >> np.arange(width)[:, None] & 1
    planes, own = np.packbits(bits, axis=2, bitorder="little").tobytes(), rows[escaped].tobytes()
    coded, cycles = bytearray((width, count - 1)), BLOCK_CYCLES + count
    if not own:
        return Coded(bytes(coded + planes), cycles)
    coded += planes[:size]
    at, end = 0, size
    for flags in escaped.sum(1).tolist():
        after, escapes = planes[end:end + size], own[at:at + flags]
        fits = len(after) + flags <= view
        coded += after + escapes if fits else escapes + after
        cycles += not fits
        at, end = at + flags, end + size
    return Coded(bytes(coded), cycles)
