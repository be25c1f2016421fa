"""Constants in the accelerator's formats, in one image: weights by array row, parameter blocks, tables."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tq_hw.compiler.ir.value import IntArray
from tq_hw.isa.config import Config
from tq_hw.isa.program import ALIGN_BYTES
from tq_hw.isa.sizes import ceil_div

__all__ = ["Image", "depthwise_weights", "folded_weights", "gemm_weights", "padded_elements", "parameter_blocks",
           "table_words"]

Int8Array = npt.NDArray[np.int8]


@dataclass
class Image:
    """The bytes of region 0, extended piece by piece; equal pieces are stored once."""

    data: bytearray = field(default_factory=bytearray)
    _known: dict[bytes, int] = field(default_factory=dict)

    @property
    def end(self) -> int:
        """Offset of the next piece."""
        return len(self.data) + -len(self.data) % ALIGN_BYTES

    def add(self, piece: bytes) -> int:
        """Append a piece at a multiple of 16; return its offset."""
        if piece not in self._known:
            self.data.extend(bytes(-len(self.data) % ALIGN_BYTES))
            self._known[piece] = len(self.data)
            self.data.extend(piece)
        return self._known[piece]


def _pad_axis(array: Int8Array, axis: int, size: int) -> Int8Array:
    widths = [(0, 0)] * array.ndim
    widths[axis] = (0, size - array.shape[axis])
    return np.pad(array, widths)


def gemm_weights(weights: Int8Array, config: Config) -> Int8Array:
    """[out block, kernel row, kernel col, in block, slice, row, col] of [out, kernel row, kernel col, in]."""
    out, rows, cols, channels = weights.shape
    out_blocks, in_blocks = ceil_div(out, config.cols), ceil_div(channels, config.block)
    padded = _pad_axis(_pad_axis(weights, 0, out_blocks * config.cols), 3, in_blocks * config.block)
    split = padded.reshape(out_blocks, config.cols, rows, cols, in_blocks, config.block)
    split = _pad_axis(split, 5, config.slices * config.gemm_rows)
    split = split.reshape(out_blocks, config.cols, rows, cols, in_blocks, config.slices, config.gemm_rows)
    return np.moveaxis(split, 1, 6)


def depthwise_weights(weights: Int8Array, groups: int, config: Config) -> Int8Array:
    """[out block, row step, col step, row, col] of [kernel row, kernel col, channel]; row = 3 * group + tap."""
    rows, cols, channels = weights.shape
    row_steps, col_steps = ceil_div(rows, groups), ceil_div(cols, 3)
    blocks = ceil_div(channels, config.cols)
    padded = _pad_axis(_pad_axis(_pad_axis(weights, 0, row_steps * groups), 1, col_steps * 3), 2, blocks * config.cols)
    split = padded.reshape(row_steps, groups, col_steps, 3, blocks, config.cols)
    return split.transpose(4, 0, 2, 1, 3, 5).reshape(blocks, row_steps, col_steps, groups * 3, config.cols)


def folded_weights(weights: Int8Array, steps: "list[list[tuple[int, int, int, int]]]", config: Config) -> Int8Array:
    """[out block, step, row, col] of [out, kernel row, kernel col, in] for a folding plan.

    A step is a list of (kernel row, first byte of its window row, first array row, bytes).
    """
    out, rows, cols, channels = weights.shape
    blocks = ceil_div(out, config.cols)
    flat = _pad_axis(weights, 0, blocks * config.cols).reshape(blocks, config.cols, rows, cols * channels)
    packed = np.zeros((blocks, len(steps), config.rows, config.cols), np.int8)
    for index, step in enumerate(steps):
        for kernel_row, first_byte, first_row, count in step:
            packed[:, index, first_row:first_row + count] = np.moveaxis(
                flat[:, :, kernel_row, first_byte:first_byte + count], 1, 2)
    return packed


def parameter_blocks(bias: IntArray, multiplier: IntArray, shift: IntArray, config: Config) -> bytes:
    """Parameter blocks of all output blocks, each `param_words` words."""
    channels = len(bias)
    blocks = ceil_div(channels, config.cols)

    def rows(values: IntArray, kind: str) -> list[bytes]:
        padded = np.zeros(blocks * config.cols, kind)
        padded[:channels] = values
        size = config.cols * padded.itemsize
        words = ceil_div(size, config.word_bytes) * config.word_bytes
        return [row.tobytes().ljust(words, b"\0") for row in padded.reshape(blocks, config.cols)]

    return b"".join(b"".join(block) for block in
                    zip(rows(bias, "<i4"), rows(multiplier, "<i4"), rows(shift, "i1"), strict=True))


def table_words(table: IntArray, config: Config) -> bytes:
    """256 int32 entries, padded to whole words."""
    data = np.asarray(table).astype("<i4").tobytes()
    return data.ljust(ceil_div(len(data), config.word_bytes) * config.word_bytes, b"\0")


def padded_elements(first: int, slots: int, config: Config) -> bytes:
    """Numbers from slot `first` on as int32 in slots of `block` elements, each padded to whole words."""
    rows = np.arange(first * config.block, (first + slots) * config.block, dtype="<i4").reshape(slots, config.block)
    size = ceil_div(4 * config.block, config.word_bytes) * config.word_bytes
    return b"".join(row.tobytes().ljust(size, b"\0") for row in rows)
