"""Permutations of axes in the scratchpad: words of channels become words of pixels.

    pixel words --array--> words of 4 pixels x 4 channels --int32 registers--> words of one channel

The array folds the words of four pixels, three in one step and one in another, with weights of 1. Four of the resulting
words are one beat of int32 with sixteen pixels as lanes and four channels as bytes. They are read into a register, and
four programs extract one byte each.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from tq_hw.compiler.emit.emitter import Emitter, Rect
from tq_hw.compiler.emit.transpose_digits import DigitTransposer
from tq_hw.compiler.ir.layers import GROUP
from tq_hw.compiler.ir.meaning import Code
from tq_hw.compiler.ir.staged import Transpose
from tq_hw.compiler.ir.value import Value
from tq_hw.compiler.plan.layout import View, block_count, even_tiles, row_cuts, signed_step
from tq_hw.compiler.plan.places import LayerPlan
from tq_hw.compiler.plan.transposes import THROUGH_CYCLES, byte_cycles
from tq_hw.compiler.programs.words import program_fields
from tq_hw.compiler.stream.stream import Access
from tq_hw.isa.config import Config
from tq_hw.isa.layout import ArrayMode
from tq_hw.isa.sizes import ceil_div
from tq_hw.isa.uop import Alu, Destination, Rounding, ShiftSource, Source

__all__ = ["emit_transpose", "transposed_through"]

_INT32 = 2
#: Estimated cycles until the first piece is in the accumulators, and least cycles of a piece.
_START_CYCLES, _PIECE_CYCLES = 150, 110
#: Greatest share of the estimated cycles of a move of bytes: smaller differences may be errors of the estimates.
_LESS = 0.95


def _weights(config_rows: int) -> bytes:
    """Weights with the rows of pixels 0 to 2 in one step and those of the last pixel in the other."""
    weights = np.zeros((2, config_rows, config_rows), np.int8)
    for row in range(config_rows):
        weights[row // (config_rows - GROUP), row, row] = 1
    return weights.tobytes()


def _steps(view: View, height: int) -> tuple[int, int, int]:
    """Words from one image, row and column to the next."""
    return height * view.row_pitch, view.row_pitch, view.col_pitch


@dataclass(frozen=True)
class _Piece:
    """Four channels from `channel` on of some pixels: outer index, span of the inner axis, target blocks."""

    channel: int
    outer: int
    span: tuple[int, int]
    blocks: tuple[int, int]

    @property
    def count(self) -> int:
        """Pixels along the inner axis."""
        return self.span[1] - self.span[0]

    @property
    def height(self) -> int:
        """Blocks."""
        return self.blocks[1] - self.blocks[0]


@dataclass
class _Transposer:
    emitter: Emitter
    layer: Transpose
    plan: LayerPlan
    source: View
    target: View
    waiting: list[Callable[[], None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        config = self.config = self.emitter.config
        source, target, axes = self.layer.inputs[0], self.layer.output, self.layer.axes
        places = [axes.index(axis) for axis in range(4)]
        from_steps, to_steps = _steps(self.source, source.shape[1]), _steps(self.target, target.shape[1])
        self.channels, self.channel_step = source.shape[3], to_steps[places[3]]
        #: Step of the source axis whose pixels share a word of the target, and the number of such words.
        self.far_step, self.blocks = from_steps[axes[3]], target.shape[3] // config.block
        inner, outer = sorted({0, 1, 2} - {axes[3]}, key=lambda axis: (-source.shape[axis], axis))
        #: (count, step in the source, step in the target)
        self.inner, self.outer = ((source.shape[axis], from_steps[axis], to_steps[places[axis]])
                                  for axis in (inner, outer))
        # A piece fits the accumulator buffers and the registers: the array computes it while the vector unit works on
        # the piece before.
        words = min(GROUP * config.acc_words, GROUP * 8 * config.vector_register_words // config.beats_per_word,
                    self.plan.out_words)
        self.at_once = max(1, min(self.blocks, words // config.block))
        self.between = self.plan.out_bases[0]
        self.middle = Access("pad", self.between, self.between + words, self.emitter.new_buffer(self.layer.output.name),
                             (0, 1), (0, 1))
        self.width = max(1, min(self.inner[0], words // (GROUP * self.at_once)))

    @property
    def cycles(self) -> float:
        """Estimated cycles: weights, tables, three cycles a word, and the waits of each piece."""
        groups = range(min(GROUP, self.channels // GROUP))
        pieces = [piece for group in groups for piece in self._pieces(group)]
        return _START_CYCLES + sum(max(_PIECE_CYCLES, 3 * GROUP * piece.height * piece.count) for piece in pieces)

    def run(self) -> None:
        """Emit all pieces, one group of channels after another, because each group has its own folding table."""
        config = self.config
        self.emitter.reserve_program(2 + GROUP)
        register = {"destination": Destination.REGISTER, "d_register": 0}
        output = {"alu": Alu.PASS, "destination": Destination.OUTPUT}
        sums = self.emitter.program([{"a_source": Source.ACC_OR_BIAS, **output}])
        wide = self.emitter.program([{"a_source": Source.STREAM, "alu": Alu.PASS, **register}])
        byte = [self.emitter.program([{"a_source": Source.REGISTER, "shift_source": ShiftSource.IMMEDIATE,
                                       "shift": -8 * number, "rounding": Rounding.FLOOR, **output}])
                for number in range(GROUP)]
        with self.emitter.scope():
            weights = self.emitter.constant(_weights(config.block), config.cols)
            for group in range(min(GROUP, self.channels // GROUP)):
                self._write_table(group)
                for piece in self._pieces(group):
                    self._make(piece, weights, sums)
                    self._read(piece, wide)
                    self.waiting = [partial(self._take, piece, number, byte[number]) for number in range(GROUP)]
            self._let_go(GROUP)

    def _write_table(self, group: int) -> None:
        """Write the folding table: the channels of the group in four rows for each pixel, pixel after pixel."""
        def feed(pixel: int, end: int) -> dict[str, int]:
            return {"address": signed_step(pixel * self.far_step), "kernel_row": 0,
                    "rotate": (pixel - group) * GROUP % self.config.block, "lane_end": end}
        last = GROUP - 1
        self.emitter.stream.fold(0, tuple(feed(pixel, (pixel + 1) * GROUP) for pixel in range(last)))
        self.emitter.stream.fold(1, (feed(last, self.config.block), *({"lane_end": self.config.block},) * 2))

    def _pieces(self, group: int) -> Iterator[_Piece]:
        for channel in range(group * GROUP, self.channels, self.config.block):
            for outer in range(self.outer[0]):
                ramp = ceil_div(self.width, 2) if channel == outer == 0 else 0
                for span in row_cuts(0, self.inner[0], self.width, ramp):
                    for block in range(0, self.blocks, self.at_once):
                        yield _Piece(channel, outer, span, (block, min(block + self.at_once, self.blocks)))

    def _make(self, piece: _Piece, weights: tuple[int, Access], program: Code) -> None:
        """Emit words of four pixels x four channels, in up to two operations.

        Each is followed by half of the remaining work of the piece before. Meanwhile the array adds to buffers that
        would delay the second operation.
        """
        quads, count = GROUP * piece.height, piece.count
        half = ceil_div(count, 2) if quads * count > 2 * self.config.acc_words else count
        value, source = self.layer.inputs[0], self.source
        rows = (0, value.shape[0] * value.shape[1])
        read = source.access(rows, (0, block_count(self.channels, self.config)))
        first = (source.base + piece.channel // self.config.block * source.block_pitch + piece.outer * self.outer[1]
                 + piece.blocks[0] * self.config.block * self.far_step)
        for at in range(0, count, half):
            cols = min(half, count - at)
            tiles = even_tiles(quads * cols, self.config.acc_words)
            self.emitter.array({
                "mode": ArrayMode.FOLDED, "acc_first": 1, "acc_last": 1, "blocks_inner": 1,
                "in_base": first + (piece.span[0] + at) * self.inner[1] & 0xFFFF,
                "in_col_step": signed_step(self.inner[1]), "in_row_step": signed_step(GROUP * self.far_step),
                "row_stride": 1, "col_stride": 1, "kernel_row_dilation": 1, "kernel_col_dilation": 1, "in_rows": quads,
                "in_cols": cols, "out_cols": cols, "slots": quads * cols, **tiles, "out_blocks": 1, "kernel_blocks": 2,
                "kernel_rows": 1, "kernel_cols": 1, "weight_base": weights[0], "weight_rows": self.config.block,
                "slices": 1}, (read, weights[1]))
            self.emitter.vector({
                "use_acc": 1, "blocks_inner": 1, "out_base": self.between + at * quads, "out_col_step": quads,
                "out_row_step": 1, "cols": cols, "out_blocks": 1, "slots": quads * cols, **tiles,
                "chunk_slots": tiles["tile_slots"], **program_fields(program)}, (), (self.middle,))
            self._let_go(GROUP // 2)
        self._let_go(GROUP)

    def _let_go(self, count: int) -> None:
        """Emit the oldest pending operations."""
        for emit in self.waiting[:count]:
            emit()
        del self.waiting[:count]

    @staticmethod
    def _beats(piece: _Piece) -> dict[str, int]:
        slots = piece.height * piece.count
        return {"cols": piece.count, "out_blocks": 1, "slots": slots, "tile_slots": slots, "chunk_slots": slots}

    def _read(self, piece: _Piece, program: Code) -> None:
        self.emitter.vector({**self._beats(piece), "a_type": _INT32, "a_base": self.between,
                             "a_col_step": GROUP * piece.height, "a_row_step": GROUP, **program_fields(program)},
                            (self.middle,), ())

    def _take(self, piece: _Piece, number: int, program: Code) -> None:
        """Emit one channel of a piece."""
        value, target = self.layer.output, self.target
        base = (target.base + piece.blocks[0] * target.block_pitch + (piece.channel + number) * self.channel_step
                + piece.outer * self.outer[2] + piece.span[0] * self.inner[2])
        self.emitter.vector({
            **self._beats(piece), "out_base": base & 0xFFFF, "out_col_step": signed_step(self.inner[2]),
            "out_row_step": signed_step(target.block_pitch), **program_fields(program)}, (),
            (target.access((0, value.shape[0] * value.shape[1]), (0, block_count(value.shape[3], self.config))),))


def emit_transpose(emitter: Emitter, layer: Transpose, plan: LayerPlan) -> None:
    """Emit a transpose between two resident values, in the way that takes fewer cycles."""
    source, target = emitter.resident(layer.inputs[0]), emitter.resident(layer.output)
    assert source is not None and target is not None
    digits = DigitTransposer(emitter, layer, source, target, plan.out_bases[0], plan.out_words)
    array = None if layer.words else _Transposer(emitter, layer, plan, source, target)
    (digits if array is None or (digits.fits and digits.cycles < array.cycles) else array).run()
    images, height, width, channels = layer.output.shape
    for image in range(images):
        emitter.finish(layer, target, Rect(image, (0, height), (0, width), (0, block_count(channels, emitter.config))))


def transposed_through(emitter: Emitter, layer: Transpose, plan: LayerPlan) -> bool:
    """Emit a transpose of few words between values in memory, through the scratchpad, if that takes fewer cycles."""
    config, at = emitter.config, plan.out_bases[0]
    views = []
    for value in (layer.inputs[0], layer.output):
        n, h, w, c = value.shape
        words = n * h * w * block_count(c, config)
        views.append(View(emitter.new_buffer(value.name), at, words, w * block_count(c, config), w))
        at += words
    source, target = views
    digits = DigitTransposer(emitter, layer, source, target, at, plan.out_bases[0] + plan.out_words - at)
    moved = sum(max(view.words, layer.output.size_bytes // config.bus_bytes) for view in views)
    if not digits.fits or digits.cycles + moved + THROUGH_CYCLES > _LESS * byte_cycles(layer):
        return False
    emitter.load_rect(layer.inputs[0], source, *_whole(layer.inputs[0], config))
    digits.run()
    emitter.store_rect(layer.output, target, *_whole(layer.output, config))
    return True


def _whole(value: Value, config: Config) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
    """Return the rows, columns and blocks of a value."""
    n, h, w, c = value.shape
    return (0, n * h), (0, w), (0, block_count(c, config))
