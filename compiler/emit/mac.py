"""Multiply-accumulate layers: operations of the array, followed by requantization in the vector unit."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tq_hw.compiler.emit.emitter import Emitter, Rect
from tq_hw.compiler.emit.mac_constants import MacConstants
from tq_hw.compiler.emit.mac_dilated import emit_dilated
from tq_hw.compiler.emit.mac_layer import TILES_OF_AN_OPERATION, MacLayer
from tq_hw.compiler.emit.mac_split import emit_split
from tq_hw.compiler.emit.mac_weights import Kernel
from tq_hw.compiler.ir.layers import Mac
from tq_hw.compiler.plan.layout import View, block_count, even_cuts, even_tiles
from tq_hw.compiler.plan.lead import slices
from tq_hw.compiler.plan.places import LayerPlan
from tq_hw.compiler.stream.stream import Access
from tq_hw.isa.layout import ArrayMode
from tq_hw.isa.sizes import ceil_div

__all__ = ["emit_mac"]

#: Weights of a layer of one rectangle are loaded in chunks of about this many words: the array starts after the first.
_CHUNK_WORDS = 256
#: Constants are loaded in pieces of about this many words.
_PIECE_WORDS = 64
#: With compressed weights both are longer: words load faster, and the commands of each piece cost bytes, too.
_CODED_CHUNK_WORDS, _CODED_PIECE_WORDS = 1200, 600


class _MacEmitter(MacLayer):
    """A layer whose kernel is one operation of the array, or one per folded column or column phase.

    The loops are, from the outermost:

    - chunks: output blocks whose constants are in the ring together
    - rectangles
    - groups: output blocks whose constants are loaded together
    - operations
    """

    def run(self) -> Iterator[None]:
        """Emit the layer; if one output block's constants do not fit the ring, `emit_split` cuts the kernel.

        Yields after each complete rectangle (all output blocks).
        """
        sub, ring = self.config.sub_blocks, self.emitter.ring_words()
        if not self._holds_a_word_block():
            emit_split(self, ring)
            return
        for first, last in even_cuts(0, ceil_div(self.out_blocks, sub), ceil_div(self._chunk_blocks(ring), sub)):
            blocks = (first * sub, min(last * sub, self.out_blocks))
            with self.emitter.scope():
                constants = MacConstants(self.emitter, self.packed, self.parameters, blocks, self.same, self._again())
                spans = [(layer, span) for layer in self.layers for span in self.spans(layer, blocks, None)]
                rects = [rect for _, span in spans for rect in span]
                for layer, span in spans:
                    self.layer = layer
                    for rect in span:
                        rects.pop(0)
                        self._job(rect, constants, rects)
                    if blocks[1] == self.out_blocks:
                        yield

    def _again(self) -> bool:
        """Whether another layer has the same weights, and the ring has room for them separate from parameters."""
        words = self.out_blocks * self.packed.words(), self.out_blocks * self.config.param_words
        return (not self.same and self.plan.cuts is None and not self.plan.lead_rows and self.packed.fold is None
                and not self.config.compressed_weights
                and len(self.parameters[0]) == self.config.param_words * self.config.word_bytes
                and self.emitter.weights_again(self.layer)
                and 2 * sum(words) <= self.emitter.ring_words())

    def _holds_a_word_block(self) -> bool:
        """Whether the ring has room for the constants of the output blocks that share a word."""
        weights, parameters = (words * min(self.config.sub_blocks, self.out_blocks) for words in (
            self.packed.words(), self.config.param_words))
        apart = self.config.cols != self.config.word_bytes
        return self.emitter.holds(*((weights, parameters) if apart else (weights + parameters,)))

    def _chunk_blocks(self, ring: int) -> int:
        """Output blocks whose constants are in the ring together: all of them if half of the ring has room for them.

        For a single rectangle fewer are loaded at a time, so that the array starts as soon as the first are loaded.
        """
        sub, chunk = self.config.sub_blocks, self.out_blocks
        per_block = self.packed.words() + self.config.param_words
        at_once = _CODED_CHUNK_WORDS if self.config.compressed_weights else _CHUNK_WORDS
        room = min(at_once, ring // 2) if self._single_rect() else ring // 2
        in_a_cascade = self.plan.cuts is not None
        if not in_a_cascade and not self.same and self.out_blocks * per_block > room:
            chunk = max(sub, room // per_block // sub * sub)
        if self.plan.blocks < block_count(self.layer.output.shape[3], self.config):
            chunk = min(chunk, self.plan.blocks * sub)
        return chunk

    def _single_rect(self) -> bool:
        return sum(len(span) for layer in self.layers for span in self.spans(layer, (0, 1), None)) == 1

    def _job(self, rect: Rect, constants: MacConstants, coming: Sequence[Rect]) -> None:
        """Compute the output blocks of a chunk for one rectangle; the first rectangle loads their constants.

        Constants are loaded in pieces after the rectangle's input, so that the array starts after the first piece. The
        last rectangle is stored in parts: whenever half of the remaining blocks are done, these are stored.
        """
        blocks, sub = constants.blocks, self.config.sub_blocks
        stored = rect.blocks[0]
        begun = self._begin_by_slices(rect, constants) if self._has_slices(rect, constants) else None
        groups = self._groups(constants, blocks[0] if begun is None else constants.loaded)
        if constants.loaded < blocks[1] and self._single_rect() and self.emitter.comes_back(self.layer.inputs[0]):
            # Load constants first: they need not wait for the stores of another layer.
            for _, last in groups:
                constants.bring(last)
        source, reads, target = begun or (
            *self._source_once(rect, coming), self.emitter.target(self.layer, self.plan, rect))
        for group in groups:
            if constants.loaded < group[1]:
                constants.bring(group[1])
            for block in self._operations(rect, group, constants, source, reads, target, bool(coming)):
                done = block // sub
                if not coming and rect.blocks[1] - stored <= 2 * (done - stored):
                    self.emitter.finish(self.layer, target, replace(rect, blocks=(stored, done)))
                    stored = done
        self.emitter.finish(self.layer, target, replace(rect, blocks=(stored, rect.blocks[1])))

    def _groups(self, constants: MacConstants, first: int) -> list[tuple[int, int]]:
        """Groups of output blocks from `first` on; a single group if all constants are already loaded."""
        last, sub = constants.blocks[1], self.config.sub_blocks
        if constants.loaded == last:
            return [(first, last)] if first < last else []
        words = _CODED_PIECE_WORDS if self.config.compressed_weights else _PIECE_WORDS
        size = last if self.same else max(sub, words // constants.step // sub * sub)
        return [(block, min(block + size, last)) for block in range(first, last, size)]

    def _source_once(self, rect: Rect, coming: Sequence[Rect]) -> tuple[View, tuple[Access, ...]]:
        """Load a rectangle's input; that of a single rectangle with all channels is kept for all chunks."""
        if self.held is None or self.windows is not None or self.layer.depthwise or not self._single_rect():
            self.held = self.source(rect, coming)
        return self.held

    def _has_slices(self, rect: Rect, constants: MacConstants) -> bool:
        """Whether a rectangle is the first one of the model, which waits for memory, and begins with slices."""
        blocks = constants.blocks
        return (rect.image == 0 and rect.rows == (0, self.plan.lead_rows) and constants.loaded == 0
                and blocks[1] >= self.config.acc_open)

    def _begin_by_slices(self, rect: Rect, constants: MacConstants) -> tuple[View, tuple[Access, ...], View]:
        """Compute the first output blocks of a rectangle, one for each open buffer, while slices are loaded.

        Returns the source, the accesses that read it, and the target, for the other output blocks.
        """
        layer, blocks = self.layer, (constants.loaded, constants.loaded + self.config.acc_open)
        rows, cols, in_blocks = self.in_rect(rect)
        source = self.emitter.strip(layer, self.plan, 0, rows, cols, in_blocks)
        target = self.emitter.target(layer, self.plan, rect)
        part = replace(rect, blocks=self.word_blocks(blocks))
        tile = self.tile(rect, blocks)
        words = self.packed.words() // in_blocks[1]
        weights = constants.array_fields(blocks)
        for low, high in slices(in_blocks[1]):
            self.emitter.load_rect(layer.inputs[0], source, rows, cols, (low, high))
            reads = constants.bring_words(blocks[1], (low * words, high * words))
            kernel = Kernel((0, 1), (0, 1), (low, high))
            fields = self.array(part, source, blocks, weights, kernel) | {
                "acc_first": int(low == 0), "acc_last": int(high == in_blocks[1])}
            fields["weight_base"] += low * words
            self.emitter.array(fields, (source.access(rows, (low, high)), *reads), self.part(tile, kernel))
        self.requantize(part, target, tile, constants.vector_fields(blocks), constants.reads(blocks),
                         tile_words=self.config.acc_words)
        return source, (source.access(rows, in_blocks),), target

    def _at_once(self, rect: Rect, blocks: tuple[int, int], constants: MacConstants, more: bool) -> int:
        """Output blocks of an operation.

        The fewest that keep the array busy for a while, so that the next layer can start on the first blocks while the
        last ones are computed. All of them if this layer has more rectangles and reads all channels: no layer could
        start then.
        """
        if self.packed.diagonal or not constants.spans:
            return 1
        if more and self.plan.cuts is None and not self.layer.depthwise:
            count, tiles = blocks[1] - blocks[0], ceil_div(rect.slots, self.tile_words)
            self.emitter.stream.work += min(count - 1, count * tiles // TILES_OF_AN_OPERATION)
            return count
        size = ceil_div(self.choice.operation_cycles, rect.slots * self.packed.steps())
        return max(1, min(size, (blocks[1] - blocks[0]) // 8)) if self.same else size

    def _operations(self, rect: Rect, blocks: tuple[int, int], constants: MacConstants, source: View,
                    reads: tuple[Access, ...], target: View, more: bool) -> Iterator[int]:
        """Emit operations for some output blocks; after each, yield the first block that is not done."""
        size = self._at_once(rect, blocks, constants, more)
        for first in range(*blocks, size):
            group = (first, min(first + size, blocks[1]))
            part = Rect(rect.image, rect.rows, rect.cols, self.word_blocks(group))
            if self.packed.fold is not None:
                self._shared_windows(part, source, group, constants, reads, target)
            elif self.packed.dilated:
                emit_dilated(self, part, source, group, constants, target)
            else:
                fields = self.array(part, source, group, constants.array_fields(group))
                if self.packed.mode is ArrayMode.DEPTHWISE:
                    reads = (source.access(self.in_rect(part)[0], part.blocks),)
                tile = self.tile(part, group)
                self.emitter.array(fields, (*reads, *constants.reads(group)), self.part(tile))
                self.requantize(part, target, tile, constants.vector_fields(group), constants.reads(group))
            yield group[1]

    def _shared_windows(self, part: Rect, source: View, group: tuple[int, int], constants: MacConstants,
                reads: tuple[Access, ...], target: View) -> None:
        """Emit one operation for each column of a shared window: every `columns`-th column of the rectangle."""
        fold = self.packed.fold
        assert fold is not None
        words = len(fold.steps) * self.packed.rows
        for column in range(min(fold.columns, part.cols[1] - part.cols[0])):
            count = ceil_div(part.cols[1] - part.cols[0] - column, fold.columns)
            slots = (part.rows[1] - part.rows[0]) * count
            cut = {"out_cols": count, "slots": slots, **even_tiles(slots, self.tile_words)}
            weights = constants.array_fields(group)
            weights["weight_base"] += column * words
            tile = self.tile(part, group, (column, count, fold.columns))
            self.emitter.array(self.array(part, source, group, weights) | cut,
                               (*reads, *constants.reads(group)), self.part(tile, None, column))
            self.requantize(part, target, tile, constants.vector_fields(group), constants.reads(group),
                             (column, fold.columns))


def emit_mac(emitter: Emitter, layer: Mac, plan: LayerPlan) -> Iterator[None]:
    """Emit all operations of one layer; yield after each complete rectangle."""
    yield from _MacEmitter(emitter, layer, plan).run()
