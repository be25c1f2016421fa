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
_PASS_TAPS = 5
#: A range of outputs whose windows have the same taps: first output, last + 1, first tap, last + 1.
_Range = tuple[int, int, int, int]


class _Region:
    """Outputs whose windows have the same taps inside the image."""

    def __init__(self, rows: _Range, cols: _Range, size_bytes: int) -> None:
        self.rows, self.cols = rows, cols
        self.taps = [*product(range(*rows[2:]), range(*cols[2:]))]
        self.in_passes = 1 < len(self.taps) <= _PASS_TAPS
        #: Maxima of 2, 3, ... taps.
        self.maxima = [Scratch(f"maxima of {count} taps", size_bytes, 0)
                       for count in range(2, len(self.taps) if self.in_passes else 2)]

    def part(self, rect: Rect) -> Rect | None:
        """Return the outputs in a rectangle, None if there are none."""
        rows, cols = ((max(low, first), min(high, last)) for (low, high, *_), (first, last) in (
            (self.rows, rect.rows), (self.cols, rect.cols)))
        return replace(rect, rows=rows, cols=cols) if rows[0] < rows[1] and cols[0] < cols[1] else None


class _Pool:
    """A layer during its emission: its programs and regions."""

    def __init__(self, emitter: Emitter, layer: MaxPool) -> None:
        self.emitter, self.layer = emitter, layer
        self.chunk = max(1, emitter.config.vector_register_words // emitter.config.beats_per_word)
        sizes = zip(layer.output.shape[1:3], layer.inputs[0].shape[1:3], layer.kernel, layer.stride, layer.pad,
                    strict=True)
        rows, cols = (window_regions(*size) for size in sizes)
        self.regions = [_Region(*ranges, layer.output.size_bytes) for ranges in product(rows, cols)]
        clamp: Uop = {"clamp": 1, "act_min": layer.act_min, "act_max": layer.act_max}
        table = layer.output_table
        last = reg_a(0) | ({"alu": Alu.PASS, **clamp, **words.OUT} if table is None else
                           words.LOOK_UP | reg_a(0) | words.look_up_byte(table))
        passing: list[Uop] = [{**words.STREAMS, **clamp, "alu": Alu.MAX, **words.OUT}]
        ending = passing if table is None else [to(0, words.STREAMS, alu=Alu.MAX), last]
        collecting = [words.set_to(0, -128), to(0, words.STREAM_A, reg_b(0), alu=Alu.MAX), last]
        emitter.tables(layer.tables)
        kinds = {region.in_passes for region in self.regions}
        emitter.reserve_program(len(kinds) * len(collecting))
        if True in kinds:
            self.code, self.end = emitter.program(passing), emitter.program(ending)
        if False in kinds:
            self.collecting = emitter.program(collecting)

    def rectangle(self, rect: Rect, source: View, target: View, reads: Access) -> None:
        """Emit the operations of a rectangle, whose windows' words are `reads`."""
        for region in self.regions:
            part = region.part(rect)
            if part is not None:
                (self._passes if region.in_passes else self._window)(part, region, source, target, reads)

    def _at(self, part: Rect, tap: tuple[int, int]) -> tuple[int, int, int]:
        """Row, block and column of a tap of the first window."""
        layer = self.layer
        return (part.image * layer.inputs[0].shape[1] + part.rows[0] * layer.stride[0] - layer.pad[0] + tap[0],
                part.blocks[0], part.cols[0] * layer.stride[1] - layer.pad[1] + tap[1])

    def _window(self, part: Rect, region: _Region, source: View, target: View, reads: Access) -> None:
        """Emit one operation whose repeated micro-operation reads the taps."""
        value, block = self.layer.inputs[0], self.emitter.config.block
        (ky0, ky1), (kx0, kx1) = region.rows[2:], region.cols[2:]
        fields, at, written = self._fields(part, target)
        first = self._at(part, (ky0, kx0))
        fields |= words.program_fields(self.collecting, (1, 1)) | stream_fields("a", source, first, self.layer.stride)
        fields |= {"chunk_slots": self.chunk, "repeat1": kx1 - kx0, "repeat2": ky1 - ky0, "a_repeat1_step": 1,
                   "a_repeat2_step": signed_step(source.row_pitch)}
        _, _, w, channels = value.shape
        walk = replace(pixels(value, first, block, self.layer.stride), repeat1=channels, repeat2=w * channels)
        self.emitter.vector(fields, (reads,), (written,), Streams(
            self.collecting, walk, out=pixels(self.layer.output, at, block), body=(1, 1)))

    def _passes(self, part: Rect, region: _Region, source: View, target: View, reads: Access) -> None:
        """Emit an operation for each tap after the first one."""
        value, block, stride = self.layer.inputs[0], self.emitter.config.block, self.layer.stride
        first, *others = (self._at(part, tap) for tap in region.taps)
        fields, at, written = self._fields(part, target)
        out = pixels(self.layer.output, at, block)
        made = [*(replace(out, of=maxima) for maxima in region.maxima), out]
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
