"""RESIZE_BILINEAR in the vector unit: columns to int32, then rows; each output line in groups with a constant step.

`a * 1024 + (b - a) * fraction` is exact in 32 bits: the high product of `(b - a) << s` and `fraction << (31 - s)` has
no rounding.
"""

from dataclasses import dataclass

from tq_hw.compiler.emit.emitter import Emitter
from tq_hw.compiler.ir.meaning import Scratch, Streams, Walk
from tq_hw.compiler.ir.staged import Resize
from tq_hw.compiler.ir.taps import Tap, groups
from tq_hw.compiler.plan.layout import View, block_count, signed_step
from tq_hw.compiler.plan.places import LayerPlan
from tq_hw.compiler.programs.words import (
    OUT,
    STREAM_A,
    STREAM_B,
    Uop,
    immediate,
    immediate_a,
    low,
    program_fields,
    reg_a,
    reg_b,
    shifted,
    to,
)
from tq_hw.compiler.stream.stream import Access
from tq_hw.isa.sizes import ceil_div
from tq_hw.isa.uop import Alu
from tq_hw.model.errors import UnsupportedError

__all__ = ["emit_resize"]

_INT32 = 2


def _program(fraction: int, last: bool) -> list[Uop]:
    """Interpolate between the low tap (stream A) and the high one (B), with 10 fraction bits more."""
    output = OUT | ({**shifted(-20), "clamp": 1, "act_min": -128, "act_max": 127} if last else {})
    return [
        to(0, STREAM_A, immediate((1 << 10) - fraction), low()), to(1, immediate_a(fraction), STREAM_B, low()),
        {**reg_a(0), **reg_b(1), "alu": Alu.ADD, **output}]

@dataclass
class _Resizer:
    emitter: Emitter
    layer: Resize
    plan: LayerPlan

    def __post_init__(self) -> None:
        config = self.emitter.config
        self.wide = ceil_div(4 * config.block, config.word_bytes)
        self.chunk = max(1, config.vector_register_words // config.beats_per_word)

    def run(self) -> None:
        """Cut the longer side of the output until a rectangle fits; one channel block at a time.

        If every line has a different fraction, a rectangle takes as many operations as it has rows and columns.
        """
        n, out_h, out_w, c = self.layer.output.shape
        rows, cols = out_h, out_w
        while self._words(rows, cols) > self.plan.out_words:
            if rows == cols == 1:
                raise UnsupportedError(f"operator {self.layer.index} ({self.layer.op}) needs {self._words(1, 1)} "
                                       "scratchpad words; a larger scratchpad_bytes helps")
            rows, cols = (ceil_div(rows, 2), cols) if rows >= cols else (rows, ceil_div(cols, 2))
        for image in range(n):
            for block in range(block_count(c, self.emitter.config)):
                for row in range(0, out_h, rows):
                    for col in range(0, out_w, cols):
                        self._rectangle(image, block, (row, min(row + rows, out_h)), (col, min(col + cols, out_w)))

    @staticmethod
    def _span(taps: tuple[Tap, ...], part: tuple[int, int]) -> tuple[int, int]:
        """Input positions that a part of the outputs reads; taps are ascending."""
        return taps[part[0]][0], taps[part[1] - 1][1] + 1

    def _words(self, rows: int, cols: int) -> int:
        """Most words of a rectangle of this size: input, int32 intermediate, output."""
        def longest(taps: tuple[Tap, ...], size: int) -> int:
            spans = (self._span(taps, (at, min(at + size, len(taps)))) for at in range(0, len(taps), size))
            return max(high - low for low, high in spans)
        in_rows, in_cols = longest(self.layer.rows, rows), longest(self.layer.cols, cols)
        return in_rows * (in_cols | 1) + in_rows * cols * self.wide + rows * (cols | 1)

    def _rectangle(self, image: int, block: int, rows: tuple[int, int], cols: tuple[int, int]) -> None:
        emitter, layer = self.emitter, self.layer
        height = layer.inputs[0].shape[1]
        in_rows, in_cols = self._span(layer.rows, rows), self._span(layer.cols, cols)
        width, out_width = in_cols[1] - in_cols[0], cols[1] - cols[0]
        base = self.plan.out_bases[0]
        first_row = image * height + in_rows[0]
        words = (in_rows[1] - in_rows[0]) * (width | 1)
        source = View(emitter.new_buffer(layer.inputs[0].name), base, words, width | 1, width, first_row, block,
                      in_cols[0])
        span, blocks = (first_row, image * height + in_rows[1]), (block, block + 1)
        emitter.load_rect(layer.inputs[0], source, span, in_cols, blocks)
        between = base + words
        pitch = out_width * self.wide
        read = (source.access(span, blocks),)
        middle = Access("pad", between, between + (in_rows[1] - in_rows[0]) * pitch)
        size = 4 * emitter.config.block
        scratch = Scratch("columns of a resize", (in_rows[1] - in_rows[0]) * out_width * size, _INT32)
        for g in groups(layer.cols[cols[0]:cols[1]]):
            count = in_rows[1] - in_rows[0]
            a, b = (self._pixels(first_row, block, low, step) for low, step in (
                (g.low, g.low_step), (g.high, g.high_step)))
            out = Walk(scratch, scratch.size_bytes, at=g.first * size, row=out_width * size, col=g.step * size)
            self._operate(g.fraction, False, {
                "a_base": source.address(first_row, block, g.low), "a_col_step": signed_step(g.low_step),
                "a_row_step": source.row_pitch, "b_base": source.address(first_row, block, g.high),
                "b_col_step": signed_step(g.high_step), "b_row_step": source.row_pitch, "out_type": _INT32,
                "out_base": between + g.first * self.wide, "out_col_step": g.step * self.wide, "out_row_step": pitch,
                "cols": g.count, "slots": count * g.count}, read, middle, (a, b, out))
        out_row = image * layer.output.shape[1] + rows[0]
        out_words = (rows[1] - rows[0]) * (out_width | 1)
        target = View(emitter.new_buffer(layer.output.name), middle.high, out_words, out_width | 1, out_width,
                      out_row, block, cols[0])
        out_span = (out_row, out_row + rows[1] - rows[0])
        for g in groups(layer.rows[rows[0]:rows[1]]):
            a, b = (Walk(scratch, scratch.size_bytes, at=(low - in_rows[0]) * out_width * size,
                             row=step * out_width * size, col=size) for low, step in (
                                 (g.low, g.low_step), (g.high, g.high_step)))
            _, _, w, c = layer.output.shape
            out = Walk(layer.output, c, ((out_row + g.first) * w + cols[0]) * c, block * emitter.config.block,
                           row=g.step * w * c, col=c)
            self._operate(g.fraction, True, {
                "a_base": between + (g.low - in_rows[0]) * pitch, "a_col_step": self.wide,
                "a_row_step": signed_step(g.low_step * pitch), "a_type": 2,
                "b_base": between + (g.high - in_rows[0]) * pitch, "b_col_step": self.wide,
                "b_row_step": signed_step(g.high_step * pitch), "b_type": 2,
                "out_base": target.address(out_row + g.first, block, cols[0]), "out_col_step": 1,
                "out_row_step": signed_step(g.step * target.row_pitch), "cols": out_width,
                "slots": g.count * out_width}, (middle,), target.access(out_span, blocks), (a, b, out))
        emitter.store_rect(layer.output, target, out_span, cols, blocks)

    def _pixels(self, row: int, block: int, col: int, step: int) -> Walk:
        """All rows of the input from `row` on, every `step`-th column from `col` on."""
        value = self.layer.inputs[0]
        _, _, w, c = value.shape
        return Walk(value, c, (row * w + col) * c, block * self.emitter.config.block, row=w * c, col=step * c)

    def _operate(self, fraction: int, last: bool, fields: dict[str, int], reads: tuple[Access, ...],
                 write: Access, streams: tuple[Walk, Walk, Walk]) -> None:
        code = self.emitter.program(_program(fraction, last))
        a, b, out = streams
        tile = min(fields["slots"], 0xFFFF)
        self.emitter.vector(fields | {
            "out_blocks": 1, "tile_slots": tile, "chunk_slots": min(tile, self.chunk), **program_fields(code)},
            reads, (write,), Streams(code, a, b, out))


def emit_resize(emitter: Emitter, layer: Resize, plan: LayerPlan) -> None:
    """Emit all rectangles of the layer."""
    _Resizer(emitter, layer, plan).run()
