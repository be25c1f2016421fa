"""Multiply-accumulate layers: the array's operations, the vector unit's requantization after them."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tq_hw.compiler.emit.emitter import Emitter, Rect
from tq_hw.compiler.emit.image import parameter_blocks
from tq_hw.compiler.emit.mac_constants import MacConstants
from tq_hw.compiler.emit.mac_operations import array_fields, requantize_fields, rounding_uops
from tq_hw.compiler.emit.mac_weights import Kernel, kernel_parts, pack
from tq_hw.compiler.emit.wide import WideProgram
from tq_hw.compiler.emit.windows import Windows
from tq_hw.compiler.ir.layers import Mac
from tq_hw.compiler.ir.meaning import Part, Streams, Tile, tile_pixels
from tq_hw.compiler.ir.window import in_span, window
from tq_hw.compiler.plan.cascade import Cut
from tq_hw.compiler.plan.dilated import ColumnTurn, column_turns
from tq_hw.compiler.plan.layout import View, block_count, even_cuts, even_tiles, row_cuts, row_parts, row_period
from tq_hw.compiler.plan.lead import slices
from tq_hw.compiler.plan.places import LayerPlan
from tq_hw.compiler.programs.words import program_fields
from tq_hw.compiler.stream.stream import Access
from tq_hw.isa.layout import ArrayMode
from tq_hw.isa.sizes import ceil_div

__all__ = ["emit_mac"]

#: Weights of a layer that is one rectangle come in chunks of about this many words: the array starts after the first.
_CHUNK_WORDS = 256
#: Least output pixels of the first rectangle of a layer that reads from memory.
_RAMP_SLOTS = 32
#: Constants are loaded in pieces of about this many words.
_PIECE_WORDS = 64
#: This many tiles of one operation take the compiler as long as an operation more.
_TILES_OF_AN_OPERATION = 8


@dataclass
class _MacEmitter:
    emitter: Emitter
    layer: Mac
    plan: LayerPlan

    def __post_init__(self) -> None:
        config = self.config = self.emitter.config
        self.choice = self.emitter.choice()
        #: Slots of a tile at most, where an operation may have several.
        self.tile_words = min(config.acc_words, self.choice.tile_slots)
        #: Windows that are looked up ahead of their rectangles, and their rows.
        self.ahead: list[tuple[View, tuple[int, int]]] = []
        #: What is cut into rectangles, one after the other.
        self.layers = self.plan.row_phases or (self.layer,)
        self.layer = self.layers[0]
        self.turns: dict[tuple[int, int], list[ColumnTurn]] = {}
        self.packed = pack(self.layer, self.plan, config)
        self.out_blocks = ceil_div(self.layer.output.shape[3], config.cols)
        # Equal multipliers and shifts stand in the micro-operation: only biases are loaded, and the weights after
        # them are read where the multipliers would be.
        uniform = (self.layer.wide is None and config.cols == config.word_bytes
                   and len(set(self.layer.multiplier.tolist())) == 1 and len(set(self.layer.shift.tolist())) == 1)
        param_words = ceil_div(4 * config.cols, config.word_bytes) if uniform else config.param_words
        parameters = parameter_blocks(self.layer.bias, self.layer.multiplier, self.layer.shift, config)
        size = config.param_words * config.word_bytes
        self.parameters = tuple(parameters[block * size:block * size + param_words * config.word_bytes]
                                for block in range(self.out_blocks))
        # Averages have the same constants for all channels: those of the first block serve all.
        self.same = uniform and self.layer.depthwise and not (self.packed.diagonal or self.packed.dilated) and bool(
            (self.layer.weights == self.layer.weights[:, :, :1]).all()) and len(set(self.layer.bias.tolist())) == 1
        if self.layer.input_table is None:
            self.emitter.tables(self.layer.tables)
        self.wide = None
        if self.layer.wide is not None:
            self.wide = WideProgram(self.emitter, self.layer.wide, self.layer.zero_point, self.layer.act_min,
                                    self.layer.act_max)
        else:
            self.uops = rounding_uops(self.layer, uniform)
            self.code = self.emitter.program(self.uops)
        fold = self.packed.fold
        self.windows = Windows(self.emitter, self.layer, self.plan, fold) if fold is not None else None
        if self.windows is not None:
            self.windows.write_table()

    def run(self) -> Iterator[None]:
        """Emit the layer: all weights in the ring if they fit half of it, else by chunks of output blocks.

        Yields after each rectangle that is complete (all output blocks).
        """
        sub = self.config.sub_blocks
        per_block = self.packed.words() + self.config.param_words
        ring = self.emitter.ring_words()
        apart = self.config.cols != self.config.word_bytes
        pieces = (self.packed.words() * sub, self.config.param_words * sub) if apart else (per_block * sub,)
        if not self.emitter.holds(*pieces):
            self._split_kernel(ring)
            return
        chunk = self.out_blocks
        limit = _CHUNK_WORDS if self._single_rect() else ring // 2
        if self.plan.cuts is None and not self.same and self.out_blocks * per_block > min(limit, ring // 2):
            chunk = max(sub, min(limit, ring // 2) // per_block // sub * sub)
        if self.plan.blocks < block_count(self.layer.output.shape[3], self.config):
            chunk = min(chunk, self.plan.blocks * sub)
        for first, last in even_cuts(0, ceil_div(self.out_blocks, sub), ceil_div(chunk, sub)):
            blocks = (first * sub, min(last * sub, self.out_blocks))
            with self.emitter.scope():
                constants = MacConstants(self.emitter, self.packed, self.parameters, blocks, self.same)
                spans = [(layer, span) for layer in self.layers for span in self._spans(layer, blocks, None)]
                rects = [rect for _, span in spans for rect in span]
                for layer, span in spans:
                    self.layer = layer
                    for rect in span:
                        rects.pop(0)
                        self._job(rect, constants, rects)
                    if blocks[1] == self.out_blocks:
                        yield

    def _single_rect(self) -> bool:
        return sum(len(span) for layer in self.layers for span in self._spans(layer, (0, 1), None)) == 1

    def _word_blocks(self, blocks: tuple[int, int]) -> tuple[int, int]:
        return blocks[0] // self.config.sub_blocks, ceil_div(blocks[1], self.config.sub_blocks)

    def _spans(self, layer: Mac, blocks: tuple[int, int], slots_limit: int | None) -> Iterator[list[Rect]]:
        """Cut the output region into rows, and those into columns; depthwise tiles are whole rows."""
        n, h, w, _ = layer.output.shape
        r0, r1, c0, c1 = layer.region or (0, h, 0, w)
        rows, cols = min(self.plan.rows, r1 - r0), min(self.plan.cols, c1 - c0)
        if rows == r1 - r0:
            rows = ceil_div(rows, self.choice.parts or row_parts(rows * cols, self.config))
        if self.packed.mode is ArrayMode.DEPTHWISE or slots_limit is not None:
            cols = min(cols, self.config.acc_words)
        if slots_limit is not None:
            rows = max(1, min(rows, slots_limit // cols))
        ramp = max(ceil_div(_RAMP_SLOTS, cols), rows // 4) if any(self.plan.in_words) and layer is self.layers[0] else 0
        lead = self.plan.lead_rows if slots_limit is None else 0
        for image in range(n):
            cuts: Sequence[Cut] = self.plan.cuts or row_cuts(r0, r1, rows, 0 if image else ramp, dips=self.choice.dips)
            if lead and image == 0:
                cuts = [(0, lead), *even_cuts(lead, r1, rows)]
            for span in cuts:
                if span is not None:
                    yield [Rect(image, span, (col, min(col + cols, c1)), self._word_blocks(blocks))
                           for col in range(c0, c1, cols)]

    def _in_rect(self, rect: Rect) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
        """Input rows (over all images), columns and blocks that a rectangle touches."""
        value = self.layer.inputs[0]
        stride, extent, pad = window(self.layer)
        rows = in_span(*rect.rows, stride[0], extent[0], pad[0], value.shape[1])
        cols = in_span(*rect.cols, stride[1], extent[1], pad[1], value.shape[2])
        first = rect.image * value.shape[1]
        blocks = rect.blocks if self.layer.depthwise else (0, block_count(value.shape[3], self.config))
        return (first + rows[0], first + rows[1]), cols, blocks

    def _source(self, rect: Rect, coming: Sequence[Rect] = ()) -> tuple[View, tuple[Access, ...]]:
        rows, cols, blocks = self._in_rect(rect)
        if self.windows is not None:
            looked_up = self.layer.input_table is not None
            view = self._looked_up(rect, coming) if looked_up else self.windows.load(rect, rows)
            return view, (view.access(rows, (0, 1 << 16)),)
        view = self.emitter.source(self.layer, self.plan, 0, rows, cols, blocks)
        return view, (view.access(rows, blocks),)

    def _looked_up(self, rect: Rect, coming: Sequence[Rect]) -> View:
        """Windows that have gone through the table.

        Those of the next rectangle are looked up before the vector unit has to wait for the array.
        """
        assert self.windows is not None
        for other in (rect, *coming)[len(self.ahead):min(2, self.plan.slots)]:
            rows, _, _ = self._in_rect(other)
            self.ahead.append((self.windows.load(other, rows), rows))
            self.windows.look_up(*self.ahead[-1])
        return self.ahead.pop(0)[0]

    def _job(self, rect: Rect, constants: MacConstants, coming: Sequence[Rect]) -> None:
        """All output blocks that have constants for one rectangle; the first rectangle loads these.

        Constants come in pieces after the rectangle's input, so that the array starts after the first. Of the last
        rectangle, half of the blocks that are left are stored as soon as they are done.
        """
        blocks, sub = constants.blocks, self.config.sub_blocks
        stored = rect.blocks[0]
        begun = self._begin_by_slices(rect, constants) if self._has_slices(rect, constants) else None
        first = blocks[0] if begun is None else constants.loaded
        groups = [(first, blocks[1])] if first < blocks[1] else []
        if constants.loaded < blocks[1]:
            at_once = blocks[1] if self.same else max(sub, _PIECE_WORDS // constants.step // sub * sub)
            groups = [(block, min(block + at_once, blocks[1])) for block in range(first, blocks[1], at_once)]
            if self._single_rect() and self.emitter.comes_back(self.layer.inputs[0]):
                # Constants do not wait for the stores of another layer.
                for _, last in groups:
                    constants.bring(last)
        source, reads, target = begun or (*self._source(rect, coming), self.emitter.target(self.layer, self.plan, rect))
        for group in groups:
            if constants.loaded < group[1]:
                constants.bring(group[1])
            for block in self._operations(rect, group, constants, source, reads, target, bool(coming)):
                done = block // sub
                if not coming and rect.blocks[1] - stored <= 2 * (done - stored):
                    self.emitter.finish(self.layer, target, replace(rect, blocks=(stored, done)))
                    stored = done
        self.emitter.finish(self.layer, target, replace(rect, blocks=(stored, rect.blocks[1])))

    def _has_slices(self, rect: Rect, constants: MacConstants) -> bool:
        """Whether a rectangle is the first one, which waits for memory, and is begun by slices."""
        blocks = constants.blocks
        return (rect.image == 0 and rect.rows == (0, self.plan.lead_rows) and constants.loaded == 0
                and blocks[1] >= self.config.acc_open)

    def _begin_by_slices(self, rect: Rect, constants: MacConstants) -> tuple[View, tuple[Access, ...], View]:
        """Make the first output blocks of a rectangle, one an open buffer, while input and weights come by slices.

        Returns the source and what is read of it, and the target, for the other output blocks.
        """
        layer, blocks = self.layer, (constants.loaded, constants.loaded + self.config.acc_open)
        rows, cols, in_blocks = self._in_rect(rect)
        source = self.emitter.strip(layer, self.plan, 0, rows, cols, in_blocks)
        target = self.emitter.target(layer, self.plan, rect)
        part = replace(rect, blocks=self._word_blocks(blocks))
        tile = self._tile(rect, blocks)
        words = self.packed.words() // in_blocks[1]
        weights = constants.array_fields(blocks)
        for low, high in slices(in_blocks[1]):
            self.emitter.load_rect(layer.inputs[0], source, rows, cols, (low, high))
            reads = constants.bring_words(blocks[1], (low * words, high * words))
            kernel = Kernel((0, 1), (0, 1), (low, high))
            fields = self._array(part, source, blocks, weights, kernel) | {
                "acc_first": int(low == 0), "acc_last": int(high == in_blocks[1])}
            fields["weight_base"] += low * words
            self.emitter.array(fields, (source.access(rows, (low, high)), *reads), self._part(tile, kernel))
        self._requantize(part, target, tile, constants.vector_fields(blocks), constants.reads(blocks),
                         tile_words=self.config.acc_words)
        return source, (source.access(rows, in_blocks),), target

    def _at_once(self, rect: Rect, blocks: tuple[int, int], constants: MacConstants, more: bool) -> int:
        """Output blocks of an operation.

        As few as keep the array busy for a while, so that the next layer can start on the first blocks while the last
        ones are computed; all of them if this layer has more rectangles and sees all channels, as nothing starts then.
        """
        if self.packed.diagonal or not constants.spans:
            return 1
        if more and self.plan.cuts is None and not self.layer.depthwise:
            count, tiles = blocks[1] - blocks[0], ceil_div(rect.slots, self.tile_words)
            self.emitter.stream.work += min(count - 1, count * tiles // _TILES_OF_AN_OPERATION)
            return count
        size = ceil_div(self.choice.operation_cycles, rect.slots * self.packed.steps())
        return max(1, min(size, (blocks[1] - blocks[0]) // 8)) if self.same else size

    def _operations(self, rect: Rect, blocks: tuple[int, int], constants: MacConstants, source: View,
                    reads: tuple[Access, ...], target: View, more: bool) -> Iterator[int]:
        """Operations for some output blocks; yields the first block that is not done after each."""
        size = self._at_once(rect, blocks, constants, more)
        for first in range(*blocks, size):
            group = (first, min(first + size, blocks[1]))
            part = Rect(rect.image, rect.rows, rect.cols, self._word_blocks(group))
            if self.packed.fold is not None:
                self._phases(part, source, group, constants, reads, target)
            elif self.packed.dilated:
                self._dilated(part, source, group, constants, target)
            else:
                fields = self._array(part, source, group, constants.array_fields(group))
                if self.packed.mode is ArrayMode.DEPTHWISE:
                    reads = (source.access(self._in_rect(part)[0], part.blocks),)
                tile = self._tile(part, group)
                self.emitter.array(fields, (*reads, *constants.reads(group)), self._part(tile))
                self._requantize(part, target, tile, constants.vector_fields(group), constants.reads(group))
            yield group[1]

    def _dilated(self, part: Rect, source: View, group: tuple[int, int], constants: MacConstants,
                 target: View) -> None:
        """Output columns in turns: phases of columns, each of which sees one input column in `dilation`, without gaps.

        The phases of a turn are what the array takes for output blocks; kernel rows that share banks are operations of
        their own, which add to one accumulator buffer.
        """
        single = self.packed.singly or self.config.sub_blocks > 1
        for o in range(*group):
            rect = replace(part, blocks=self._word_blocks((o, o + 1)))
            for turn in self._turns(part.cols, single):
                self._turn(rect, source, o, constants, target, turn)

    def _turns(self, cols: tuple[int, int], single: bool) -> list[ColumnTurn]:
        """Turns of columns, which are the same for all rectangles of these columns."""
        if cols not in self.turns:
            self.turns[cols] = list(column_turns(self.layer, cols, single))
        return self.turns[cols]

    def _turn(self, rect: Rect, source: View, o: int, constants: MacConstants, target: View, turn: ColumnTurn) -> None:
        """Operations of one turn for output block `o`."""
        layer, config = self.layer, self.config
        dy, dx = layer.dilation
        fields = {"out_cols": turn.count, "col_first": turn.col_first, "in_cols": turn.in_cols, "in_col_step": dx,
                  "period": row_period(turn.count, 1, layer.kernel[1], turn.col_first, turn.in_cols)}
        if turn.phases > 1:
            fields |= {"out_blocks": turn.phases, "in_block_step": 1, "weight_block_step": 0}
        at_once = max(1, config.acc_words // turn.count)
        step_words = self.packed.words() // self.packed.weights.shape[1]
        for row in range(*rect.rows, at_once if self.packed.singly else rect.rows[1] - rect.rows[0]):
            cut = replace(rect, rows=(row, min(row + at_once, rect.rows[1])) if self.packed.singly else rect.rows)
            rows = cut.rows[1] - cut.rows[0]
            tiles = ceil_div(rows, at_once)
            self.emitter.stream.work += turn.phases * tiles // _TILES_OF_AN_OPERATION
            sizes = {"slots": rows * turn.count, "tile_rows": ceil_div(rows, tiles),
                     "tile_slots": ceil_div(rows, tiles) * turn.count}
            reads = (source.access(self._in_rect(cut)[0], rect.blocks), *constants.reads((o, o + 1)))
            parameters = constants.vector_fields((o, o + 1))
            weights = constants.array_fields((o, o + 1))
            whole = self._array(cut, source, (o, o + 1), weights) | fields | sizes
            taps = range(layer.kernel[0]) if self.packed.singly else (0,)
            tile = self._tile(cut, (o, o + 1), (turn.first, turn.count, dx), turn.phases)
            for tap in taps:
                in_row = cut.rows[0] - layer.pad[0] + tap * dy
                base = source.address(cut.image * layer.inputs[0].shape[1] + in_row, rect.blocks[0], turn.column)
                step = {"in_base": base, "row_first": in_row, "weight_base": weights["weight_base"] + tap * step_words,
                        "acc_first": int(tap == 0), "acc_last": int(tap == taps[-1])}
                kernel = None
                if self.packed.singly:
                    kernel = Kernel((tap, tap + 1), (0, self.packed.weights.shape[2]), (0, 1))
                self.emitter.array(whole | step | ({"kernel_rows": 1} if self.packed.singly else {}), reads,
                                   self._part(tile, kernel))
            self._requantize(cut, target, tile, parameters, constants.reads((o, o + 1)), (turn.first, dx),
                             config.acc_words)

    def _phases(self, part: Rect, source: View, group: tuple[int, int], constants: MacConstants,
                reads: tuple[Access, ...], target: View) -> None:
        """One operation for each of the columns that share a window: every `phases`-th column of the rectangle."""
        fold = self.packed.fold
        assert fold is not None
        words = len(fold.steps) * self.packed.rows
        for phase in range(min(fold.phases, part.cols[1] - part.cols[0])):
            count = ceil_div(part.cols[1] - part.cols[0] - phase, fold.phases)
            slots = (part.rows[1] - part.rows[0]) * count
            cut = {"out_cols": count, "slots": slots, **even_tiles(slots, self.tile_words)}
            weights = constants.array_fields(group)
            weights["weight_base"] += phase * words
            tile = self._tile(part, group, (phase, count, fold.phases))
            self.emitter.array(self._array(part, source, group, weights) | cut,
                               (*reads, *constants.reads(group)), self._part(tile, None, phase))
            self._requantize(part, target, tile, constants.vector_fields(group), constants.reads(group),
                             (phase, fold.phases))

    def _split_kernel(self, ring: int) -> None:
        """Weights of one output block do not fit the ring: bring them in pieces, one tile at a time."""
        limit = ring // 2 - self.config.param_words
        sub = self.config.sub_blocks
        for first in range(0, self.out_blocks, sub):
            blocks = (first, min(first + sub, self.out_blocks))
            for layer in self.layers:
                self.layer = layer
                for rect in itertools.chain.from_iterable(self._spans(layer, blocks, self.config.acc_words)):
                    source, reads = self._source(rect)
                    target = self.emitter.target(self.layer, self.plan, rect)
                    for o in range(*blocks):
                        self._split_job(rect, source, reads, target, o, limit)
                    self.emitter.finish(self.layer, target, rect)

    def _split_job(self, rect: Rect, source: View, reads: tuple[Access, ...], target: View, o: int,
                   limit: int) -> None:
        config = self.config
        with self.emitter.scope():
            params = self.parameters[o].ljust(config.param_words * config.word_bytes, b"\0")
            at_params, access = self.emitter.constant(params, config.word_bytes)
            parts = list(kernel_parts(self.layer, self.packed, limit))
            tile = self._tile(rect, (o, o + 1))
            for index, part in enumerate(parts):
                with self.emitter.scope():
                    row_bytes = config.word_bytes if config.cols == config.word_bytes else config.cols
                    weights, read = self.emitter.constant(self.packed.part((o, o + 1), part), row_bytes)
                    fields = self._array(rect, source, (o, o + 1), {"weight_base": weights}, part)
                    fields |= {"acc_first": int(index == 0), "acc_last": int(index == len(parts) - 1)}
                    self.emitter.array(fields, (*reads, read), self._part(tile, part))
            self._requantize(rect, target, tile, {"param_base": at_params}, (access,), tile_words=config.acc_words)

    def _array(self, rect: Rect, source: View, blocks: tuple[int, int], weights: Mapping[str, int],
               kernel: Kernel | None = None) -> dict[str, int]:
        tile_words = self.tile_words if kernel is None else self.config.acc_words
        fields = array_fields(self.layer, self.packed, self.config, rect, source, blocks, kernel, tile_words)
        return fields | dict(weights)

    def _tile(self, rect: Rect, blocks: tuple[int, int], cols: tuple[int, int, int] | None = None,
              phases: int = 1) -> Tile:
        """Sums of some output blocks of a rectangle, or of its columns `cols`: the first one, how many, the distance.

        With more `phases`, those of the columns right after these, too.
        """
        first, count, step = cols or (0, rect.cols[1] - rect.cols[0], 1)
        return Tile(layer=self.layer, image=rect.image, rows=(rect.rows[0], rect.rows[1] - rect.rows[0]),
                    cols=(rect.cols[0] + first, count), blocks=blocks, col_step=step, phases=phases)

    def _part(self, tile: Tile, kernel: Kernel | None = None, phase: int = 0) -> Part:
        """What an operation adds to sums: all, or what a part of the kernel gives."""
        taps, packed = self.layer.kernel, self.packed
        weights = packed.choose(tile.blocks, kernel)
        if packed.fold is not None:
            return Part(tile, weights[:, phase], (0, taps[0]), (0, taps[1]), (0, 1), packed.fold, phase)
        if packed.mode is ArrayMode.GEMM:
            k = kernel or Kernel((0, taps[0]), (0, taps[1]), (0, weights.shape[3]))
            return Part(tile, weights, k.rows, k.cols, k.blocks, diagonal=packed.diagonal)
        rows, cols = (0, taps[0]), (0, taps[1])
        if kernel is not None:
            groups = 1 if packed.singly else self.config.groups
            rows = (kernel.rows[0] * groups, min(taps[0], kernel.rows[1] * groups))
            cols = (kernel.cols[0] * 3, min(taps[1], kernel.cols[1] * 3))
        return Part(tile, weights, rows, cols, (0, 1))

    def _requantize(self, rect: Rect, target: View, tile: Tile, parameters: Mapping[str, int],
                    reads: tuple[Access, ...], phase: tuple[int, int] = (0, 1), tile_words: int = 0) -> None:
        """Requantize a tile: the rectangle, or those of its columns that are phase[0] after a multiple of phase[1].

        `tile_words` is as in the array's operation, which has whole buffers if it covers a part of the kernel.
        """
        blocks, tile_words = tile.blocks, tile_words or self.tile_words
        if self.wide is not None:
            self._rescale_wide(rect, target, tile, parameters, reads, tile_words)
            return
        fields = requantize_fields(self.layer, self.packed, self.config, rect, target, blocks, phase, tile_words)
        fields |= program_fields(self.code) | dict(parameters)
        if len(self.uops) > 1:
            registers = max(1, self.config.vector_register_words // self.config.beats_per_acc_word)
            fields["chunk_slots"] = min(fields["chunk_slots"], registers)
        if tile.phases > 1:
            fields |= {"out_blocks": tile.phases, "out_block_step": target.col_pitch, "param_block_step": 0}
        row = rect.image * self.layer.output.shape[1]
        written = target.access((row + rect.rows[0], row + rect.rows[1]), self._word_blocks(blocks))
        self.emitter.vector(fields, reads, (written,), Streams(
            self.code, out=tile_pixels(tile, self.config), sums=tile, parameters=self.parameters[blocks[0]:blocks[1]]))

    def _rescale_wide(self, rect: Rect, target: View, tile: Tile, parameters: Mapping[str, int],
                      reads: tuple[Access, ...], tile_words: int) -> None:
        """Requantize one word block after the other, each with the words of its multipliers."""
        assert self.wide is not None
        row, sub, blocks = rect.image * self.layer.output.shape[1], self.config.sub_blocks, tile.blocks
        for block in range(*self._word_blocks(blocks)):
            part = max(blocks[0], block * sub), min(blocks[1], (block + 1) * sub)
            fields = requantize_fields(self.layer, self.packed, self.config, rect, target, part, (0, 1), tile_words)
            skipped = (part[0] - blocks[0]) * parameters.get("param_block_step", 0)
            with self.emitter.scope():
                code, program, access, words = self.wide.fields(block, fields["tile_slots"])
                written = target.access((row + rect.rows[0], row + rect.rows[1]), (block, block + 1))
                fields |= {**parameters, **program, "param_base": parameters["param_base"] + skipped}
                self.emitter.vector(fields, (*reads, access), (written,), Streams(
                    code, words, out=tile_pixels(tile, self.config, part[0] - blocks[0]), sums=tile,
                    block=part[0] - blocks[0], parameters=self.parameters[part[0]:part[1]], body=self.wide.body))


def emit_mac(emitter: Emitter, layer: Mac, plan: LayerPlan) -> Iterator[None]:
    """Emit all operations of one layer; yield after each complete rectangle."""
    yield from _MacEmitter(emitter, layer, plan).run()
