"""Multiply-accumulate layers on byte planes: each rectangle passes the array twice, then both sums become int16.

The sums of the high plane wait in the scratchpad for those of the low plane. The constants of as many output channels
as fit the ring are loaded once. If those of one block do not fit, its weights are loaded by parts of the kernel for
each tile.
"""

import itertools
from collections.abc import Iterator
from dataclasses import replace

from tq_hw.compiler.emit.emitter import Emitter, Rect
from tq_hw.compiler.emit.mac_operations import array_fields, requantize_fields
from tq_hw.compiler.emit.mac_weights import Kernel, kernel_parts, pack_plainly
from tq_hw.compiler.emit.plane_constants import Placed, PlaneConstants
from tq_hw.compiler.emit.plane_results import store_results
from tq_hw.compiler.ir.layers import Mac
from tq_hw.compiler.ir.meaning import Part, Scratch, Streams, Tile, Walk
from tq_hw.compiler.ir.sixteen import PlaneMac
from tq_hw.compiler.ir.window import in_span, window
from tq_hw.compiler.plan.layout import View, block_count, even_cuts, row_words, signed_step
from tq_hw.compiler.plan.places import LayerPlan
from tq_hw.compiler.programs.sixteen import high_sums, rescale_double, rescale_narrow, rescale_wide, wide_parameters
from tq_hw.compiler.programs.words import program_fields
from tq_hw.compiler.stream.stream import Access
from tq_hw.isa.layout import ArrayMode
from tq_hw.isa.sizes import ceil_div

__all__ = ["emit_plane_mac"]

_INT16, _INT32 = 1, 2


class _PlaneMac:
    def __init__(self, emitter: Emitter, layer: PlaneMac, plan: LayerPlan) -> None:
        self.emitter, self.layer, self.plan = emitter, layer, plan
        config = self.config = emitter.config
        self.packed = pack_plainly(layer.high, config)
        _, self.height, self.width, self.channels = layer.high.output.shape
        self.out_blocks = ceil_div(self.channels, config.cols)
        self.sums_words, self.result_words = (ceil_div(size * config.block, config.word_bytes) for size in (4, 2))
        self.constants = PlaneConstants(emitter, layer, self.packed)
        limits = layer.act_min, layer.act_max
        emitter.reserve_program(32)
        is_double = layer.rounding == "double"
        shift = wide_parameters(layer.multiplier, layer.shift)[1] if layer.rounding == "wide" else layer.shift
        left = int(shift.max()) > 0
        uops = {"wide": lambda: rescale_wide(*limits, left=left),
                "double": lambda: rescale_double(-int(layer.shift[0]), *limits)}
        rescale = uops.get(layer.rounding, lambda: rescale_narrow(*limits, once=layer.rounding == "once", left=left))()
        self.codes = [emitter.program(high_sums(shifts=is_double, most=layer.most_high)), emitter.program(rescale)]
        self.word_blocks = block_count(self.channels, config)
        self.splits = not emitter.holds(*self.constants.pieces(1))
        self.at_once = 1
        while not self.splits and self.at_once < self.word_blocks and self._fits(self.at_once + 1):
            self.at_once += 1
        self.rows, self.cols, self.blocks = self._cut()
        self.rects_done = 0
        self.loaded: tuple[Rect, list[View]] | None = None

    def _fits(self, blocks: int) -> bool:
        """Whether constants leave half of the ring free for the next ones."""
        pieces = self.constants.pieces(blocks)
        return 2 * sum(pieces) <= self.emitter.ring_words() and self.emitter.holds(*pieces)

    def _cut(self) -> tuple[int, int, int]:
        """Rows, columns and words of channels of a rectangle: the largest of which two fit, else one."""
        config, layer = self.config, self.layer
        most = config.acc_words if self.splits or self.packed.mode is ArrayMode.DEPTHWISE else 1 << 16
        rows, cols, blocks = self.height, min(self.width, most), self.at_once
        while True:
            small = rows == cols == blocks == 1
            words = layer.strip_words(config, rows, cols, blocks)
            if (1 if small else 2) * words <= self.plan.out_words and (
                    not self.splits or rows * cols <= config.acc_words):
                return rows, cols, blocks
            if rows > 1:
                rows = ceil_div(rows, 2)
            elif blocks > 1 and words > self.plan.out_words:
                blocks = ceil_div(blocks, 2)
            elif cols > 1:
                cols = ceil_div(cols, 2)
            else:
                blocks = ceil_div(blocks, 2)

    def run(self) -> None:
        """Emit the layer."""
        for low, high in even_cuts(0, self.word_blocks, min(self.at_once, self.blocks)):
            with self.emitter.scope():
                constants = self.constants.place((low, high), splits=self.splits)
                for rect in self._rects(low, high):
                    self._rectangle(rect, constants)

    def _rects(self, low: int, high: int) -> Iterator[Rect]:
        images = range(self.layer.high.output.shape[0])
        for image, rows in itertools.product(images, even_cuts(0, self.height, self.rows)):
            for cols in even_cuts(0, self.width, self.cols):
                yield Rect(image, rows, cols, (low, high))

    def _range(self, rect: Rect) -> tuple[int, int]:
        """Output blocks of a rectangle."""
        sub = self.config.sub_blocks
        return rect.blocks[0] * sub, min(rect.blocks[1] * sub, self.out_blocks)

    def _rectangle(self, rect: Rect, constants: Placed) -> None:
        """Emit both planes of a rectangle, and store its results."""
        words = self.layer.strip_words(self.config, self.rows, self.cols, self.blocks)
        buffers = max(1, min(2, self.plan.out_words // words))
        sources = self._sources(rect, self.plan.out_bases[0] + self.rects_done % buffers * words)
        height, width, depth = (high - low for low, high in (rect.rows, rect.cols, rect.blocks))
        base = sources[0].base + sum(source.words for source in sources)
        views = []
        for name, size in (("sums of the high plane", self.sums_words), (self.layer.output.name, self.result_words)):
            count = height * width * depth * size
            views.append(View(self.emitter.new_buffer(name), base, count, width * depth * size, size,
                              rect.image * self.height + rect.rows[0], rect.blocks[0], rect.cols[0], depth * size))
            base += count
        sums, results = views
        held = Scratch("sums of the high plane", rect.slots * depth * 4 * self.config.block, _INT32)
        blocks = self._range(rect)
        apart = self.splits or self.packed.diagonal
        for group in ([(o, o + 1) for o in range(*blocks)] if apart else [blocks]):
            self._group(rect, group, sources, sums, results, held, constants)
        store_results(self.emitter, self.layer.output, self.channels, rect, results)
        self.rects_done += 1

    def _sources(self, rect: Rect, base: int) -> list[View]:
        """Load a rectangle's input of both planes, unless it is already loaded."""
        mac = self.layer.high
        stride, extent, pad = window(mac)
        _, h, w, c = self.layer.inputs[0].shape
        rows, cols = (in_span(*span, stride[axis], extent[axis], pad[axis], size)
                      for axis, (span, size) in enumerate(((rect.rows, h), (rect.cols, w))))
        blocks = rect.blocks if mac.depthwise else (0, block_count(c, self.config))
        seen = replace(rect, blocks=blocks)
        if self.loaded is not None and self.loaded[0] == seen and not mac.depthwise:
            return self.loaded[1]
        rows = rect.image * h + rows[0], rect.image * h + rows[1]
        views = []
        for value in self.layer.inputs:
            pitch = row_words(cols[1] - cols[0], blocks[1] - blocks[0])
            view = View(self.emitter.new_buffer(value.name), base, (rows[1] - rows[0]) * pitch, pitch,
                        cols[1] - cols[0], rows[0], blocks[0], cols[0])
            self.emitter.load_rect(value, view, rows, cols, blocks)
            views.append(view)
            base += view.words
        self.loaded = seen, views
        return views

    def _group(self, rect: Rect, group: tuple[int, int], sources: list[View], sums: View, results: View, held: Scratch,
               constants: Placed) -> None:
        """Emit some output blocks: sums of the high plane, then sums of the low plane and the results of both."""
        config, block = self.config, self.config.block
        word, depth = group[0] // config.sub_blocks, rect.blocks[1] - rect.blocks[0]
        width, run = rect.cols[1] - rect.cols[0], depth * 4 * block
        kept = Walk(held, run, 0, (word - rect.blocks[0]) * 4 * block, 4 * block, width * run, run, cols=width,
                    type=_INT32)
        pixel = 2 * self.channels
        start = ((rect.image * self.height + rect.rows[0]) * self.width + rect.cols[0]) * pixel
        made = Walk(self.layer.output, pixel, start, word * 2 * block, 2 * block, self.width * pixel, pixel,
                    cols=width, type=_INT16)
        first = group[0] - rect.blocks[0] * config.sub_blocks
        row = rect.image * self.height
        touched = (row + rect.rows[0], row + rect.rows[1]), (word, ceil_div(group[1], config.sub_blocks))
        for number, (mac, walk, target) in enumerate(
                ((self.layer.high, kept, sums), (self.layer.low, made, results))):
            tile = Tile(layer=mac, image=rect.image, rows=(rect.rows[0], rect.rows[1] - rect.rows[0]),
                        cols=(rect.cols[0], width), blocks=group, results=walk)
            self._accumulate(rect, mac, tile, sources[number], constants, first)
            fields = requantize_fields(mac, self.packed, config, rect, target, group, (0, 1), config.acc_words)
            code = self.codes[number]
            fields |= program_fields(code) | {
                "param_base": constants.parameters[number] + first * config.param_words,
                "param_block_step": config.param_words, "out_type": walk.type}
            blocks = self.constants.parameters[number][group[0]:group[1]]
            meaning = Streams(code, out=walk, sums=tile, parameters=blocks)
            reads, registers = constants.reads, self.config.vector_register_words // self.config.beats_per_acc_word
            fields["chunk_slots"] = min(fields["chunk_slots"], max(1, registers))
            if number:
                meaning, reads = self._rescaling(fields, meaning, sums, kept, constants, word - rect.blocks[0], reads,
                                                 sums.access(*touched))
            self.emitter.vector(fields, reads, (target.access(*touched),), meaning)

    def _rescaling(self, fields: dict[str, int], meaning: Streams, sums: View, kept: Walk, constants: Placed,
                   word: int, reads: tuple[Access, ...], read: Access) -> tuple[Streams, tuple[Access, ...]]:
        """Add the streams of the second program: sums of the high plane, multipliers of the channels."""
        config = self.config
        fields |= {"a_type": _INT32, "a_base": sums.base + word * self.sums_words, "a_col_step": sums.col_pitch,
                   "a_row_step": signed_step(sums.row_pitch), "a_block_step": self.sums_words}
        multipliers = None
        if self.constants.has_stream:
            count = ceil_div(fields["sub_first"] + fields["out_blocks"], config.sub_blocks)
            first = sums.block0 + word
            fields |= {"b_type": _INT32, "b_base": constants.multipliers + word * self.sums_words, "b_col_step": 0,
                       "b_row_step": 0, "b_block_step": self.sums_words}
            data = self.constants.multiplier_bytes(first, first + count)
            multipliers = Walk(data, len(data), block=self.sums_words * config.word_bytes, type=_INT32)
        return replace(meaning, a=kept, b=multipliers), (*reads, read)

    def _accumulate(self, rect: Rect, mac: Mac, tile: Tile, source: View, constants: Placed, first: int) -> None:
        """Emit one operation of the array, or one for each part of the kernel."""
        group, config = tile.blocks, self.config
        words = replace(rect, blocks=(group[0] // config.sub_blocks, ceil_div(group[1], config.sub_blocks)))
        read = source.access((source.row0, source.row0 + source.words // source.row_pitch), (0, 1 << 16))
        step = self.packed.words()
        if constants.weights is not None:
            fields = array_fields(mac, self.packed, config, words, source, group, None, config.acc_words) | {
                "weight_base": constants.weights + first * step,
                "weight_block_step": step if group[1] - group[0] > 1 else 0}
            self.emitter.array(fields, (read, *constants.reads), self._part(mac, tile, None))
            return
        parts = list(kernel_parts(mac, self.packed, self.emitter.ring_words() // 2 - sum(self.constants.pieces(1)[1:])))
        for number, part in enumerate(parts):
            with self.emitter.scope():
                weights, access = self.emitter.constant(self.packed.part(group, part), config.cols)
                fields = array_fields(mac, self.packed, config, words, source, group, part, config.acc_words) | {
                    "weight_base": weights, "acc_first": int(number == 0), "acc_last": int(number == len(parts) - 1)}
                self.emitter.array(fields, (read, access), self._part(mac, tile, part))

    def _part(self, mac: Mac, tile: Tile, kernel: Kernel | None) -> Part:
        """The part of a tile's sums that an operation of the array adds."""
        taps, weights, packed = mac.kernel, self.packed.choose(tile.blocks, kernel), self.packed
        if packed.mode is ArrayMode.GEMM:
            k = kernel or Kernel((0, taps[0]), (0, taps[1]), (0, weights.shape[3]))
            return Part(tile, weights, k.rows, k.cols, k.blocks, diagonal=packed.diagonal)
        rows, cols = (0, taps[0]), (0, taps[1])
        if kernel is not None:
            groups = self.config.groups
            rows = (kernel.rows[0] * groups, min(taps[0], kernel.rows[1] * groups))
            cols = (kernel.cols[0] * 3, min(taps[1], kernel.cols[1] * 3))
        return Part(tile, weights, rows, cols, (0, 1))


def emit_plane_mac(emitter: Emitter, layer: PlaneMac, plan: LayerPlan) -> None:
    """Emit all operations of the layer."""
    _PlaneMac(emitter, layer, plan).run()
