"""Pooling by extremes in the vector unit.

The maximum of a window is collected in a register, one tap after the other. Windows of few taps take passes over all
pixels instead, one less than taps: each takes the maximum of the next tap and of the result so far, which is in the
output. A pass takes a beat for a word; in a register, the maximum also takes one to begin and one to be written.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from tq_hw.compiler.emit.emitter import Emitter, Rect
from tq_hw.compiler.emit.vector import rectangles, stream_fields, walk_fields
from tq_hw.compiler.ir.layers import MaxPool
from tq_hw.compiler.ir.meaning import Scratch, Streams, pixels
from tq_hw.compiler.ir.window import in_span, window_regions
from tq_hw.compiler.plan.layout import View, signed_step
from tq_hw.compiler.plan.places import LayerPlan
from tq_hw.compiler.programs import words
from tq_hw.compiler.programs.words import Uop, reg_a, reg_b, to
from tq_hw.compiler.stream.stream import Access
from tq_hw.isa.uop import Alu

__all__ = ["emit_max_pool"]

#: Most taps of a window that is done in passes.
_PASS_TAPS = 4
#: A range of outputs whose windows have the same taps: first output, last + 1, first tap, last + 1.
_Region = tuple[int, int, int, int]


class _Pool:
    """A layer during its emission: its programs, and the outputs whose windows have the same taps inside the image."""

    def __init__(self, emitter: Emitter, layer: MaxPool) -> None:
        self.emitter, self.layer = emitter, layer
        self.chunk = max(1, emitter.config.vector_register_words // emitter.config.beats_per_word)
        sizes = zip(layer.output.shape[1:3], layer.inputs[0].shape[1:3], layer.kernel, layer.stride, layer.pad,
                    strict=True)
        rows, cols = (window_regions(*size) for size in sizes)
        self.regions = [*product(rows, cols)]
        self.taps = [*product(range(*rows[0][2:]), range(*cols[0][2:]))]
        self.in_passes = len(self.regions) == 1 and 1 < len(self.taps) <= _PASS_TAPS
        #: Maxima of 2, 3, ... taps.
        self.maxima = [Scratch(f"maxima of {count} taps", layer.output.size_bytes, 0)
                       for count in range(2, len(self.taps) if self.in_passes else 2)]
        clamp: Uop = {"clamp": 1, "act_min": layer.act_min, "act_max": layer.act_max}
        limited: Uop = {**words.STREAMS, **clamp, "alu": Alu.MAX, **words.OUT}
        table = layer.output_table
        last = reg_a(0) | ({"alu": Alu.PASS, **clamp, **words.OUT} if table is None else
                           words.LOOK_UP | reg_a(0) | words.look_up_byte(table))
        emitter.tables(layer.tables)
        emitter.reserve_program(3)
        if self.in_passes:
            self.code = emitter.program([limited])
            self.end = self.code if table is None else emitter.program([to(0, words.STREAMS, alu=Alu.MAX), last])
        else:
            self.code = emitter.program([words.set_to(0, -128), to(0, words.STREAM_A, reg_b(0), alu=Alu.MAX), last])

    def rectangle(self, rect: Rect, source: View, target: View, reads: Access) -> None:
        """Emit the operations of a rectangle, whose windows' words are `reads`."""
        for (r0, r1, ky0, ky1), (c0, c1, kx0, kx1) in self.regions:
            rows, cols = (max(r0, rect.rows[0]), min(r1, rect.rows[1])), (max(c0, rect.cols[0]), min(c1, rect.cols[1]))
            if rows[0] < rows[1] and cols[0] < cols[1]:
                part = replace(rect, rows=rows, cols=cols)
                if self.in_passes:
                    self._passes(part, source, target, reads)
                else:
                    self._window(part, source, target, reads, ((ky0, ky1), (kx0, kx1)))

    def _at(self, part: Rect, tap: tuple[int, int]) -> tuple[int, int, int]:
        """Row, block and column of a tap of the first window."""
        layer = self.layer
        return (part.image * layer.inputs[0].shape[1] + part.rows[0] * layer.stride[0] - layer.pad[0] + tap[0],
                part.blocks[0], part.cols[0] * layer.stride[1] - layer.pad[1] + tap[1])

    def _window(self, part: Rect, source: View, target: View, reads: Access,
                taps: tuple[tuple[int, int], tuple[int, int]]) -> None:
        """Emit one operation whose repeated micro-operation reads the taps."""
        value, block = self.layer.inputs[0], self.emitter.config.block
        (ky0, ky1), (kx0, kx1) = taps
        fields, at, written = self._fields(part, target)
        first = self._at(part, (ky0, kx0))
        fields |= words.program_fields(self.code, (1, 1)) | stream_fields("a", source, first, self.layer.stride)
        fields |= {"chunk_slots": self.chunk, "repeat1": kx1 - kx0, "repeat2": ky1 - ky0, "a_repeat1_step": 1,
                   "a_repeat2_step": signed_step(source.row_pitch)}
        _, _, w, channels = value.shape
        walk = replace(pixels(value, first, block, self.layer.stride), repeat1=channels, repeat2=w * channels)
        self.emitter.vector(fields, (reads,), (written,), Streams(
            self.code, walk, out=pixels(self.layer.output, at, block), body=(1, 1)))

    def _passes(self, part: Rect, source: View, target: View, reads: Access) -> None:
        """Emit an operation for each tap after the first one."""
        value, block, stride = self.layer.inputs[0], self.emitter.config.block, self.layer.stride
        first, *others = (self._at(part, tap) for tap in self.taps)
        fields, at, written = self._fields(part, target)
        out = pixels(self.layer.output, at, block)
        made = [*(replace(out, of=maxima) for maxima in self.maxima), out]
        for number, place in enumerate(others):
            code = self.code if number + 1 < len(others) else self.end
            other = pixels(value, first, block, stride) if number == 0 else made[number - 1]
            view = stream_fields("b", source, first, stride) if number == 0 else stream_fields("b", target, at)
            chunk = fields["tile_slots"] if len(code.uops) == 1 else min(fields["tile_slots"], self.chunk)
            self.emitter.vector(
                {**fields, **words.program_fields(code), **stream_fields("a", source, place, stride), **view,
                 "chunk_slots": chunk},
                (reads, written) if number else (reads,), (written,),
                Streams(code, pixels(value, place, block, stride), other, made[number]))

    def _fields(self, part: Rect, target: View) -> tuple[dict[str, int], tuple[int, int, int], Access]:
        """Fields of the results, their first row, block and column, and the words written."""
        row = part.image * self.layer.output.shape[1] + part.rows[0]
        at = row, part.blocks[0], part.cols[0]
        return (walk_fields(part) | stream_fields("out", target, at), at,
                target.access((row, row + part.rows[1] - part.rows[0]), part.blocks))


def emit_max_pool(emitter: Emitter, layer: MaxPool, plan: LayerPlan) -> Iterator[None]:
    """Emit a pooling layer; yields after each rectangle."""
    pool = _Pool(emitter, layer)
    _, h, w, _ = layer.inputs[0].shape
    for rect in rectangles(layer, plan, emitter):
        rows = in_span(*rect.rows, layer.stride[0], layer.kernel[0], layer.pad[0], h)
        cols = in_span(*rect.cols, layer.stride[1], layer.kernel[1], layer.pad[1], w)
        rows = (rect.image * h + rows[0], rect.image * h + rows[1])
        view = emitter.source(layer, plan, 0, rows, cols, rect.blocks)
        target = emitter.target(layer, plan, rect)
        pool.rectangle(rect, view, target, view.access(rows, rect.blocks))
        emitter.finish(layer, target, rect)
        yield
