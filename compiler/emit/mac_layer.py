"""Common parts of all multiply-accumulate layers: rectangles, their input, operations and requantization."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tq_hw.compiler.emit.emitter import Emitter, Rect
from tq_hw.compiler.emit.image import parameter_blocks
from tq_hw.compiler.emit.mac_operations import array_fields, requantize_fields, rounding_uops
from tq_hw.compiler.emit.mac_weights import Kernel, pack
from tq_hw.compiler.emit.vector import stream_fields
from tq_hw.compiler.emit.wide import WideProgram
from tq_hw.compiler.emit.windows import Windows
from tq_hw.compiler.ir.layers import Mac
from tq_hw.compiler.ir.meaning import Part, Streams, Tile, pixels, tile_pixels
from tq_hw.compiler.ir.window import in_span, window
from tq_hw.compiler.plan.cascade import Cut
from tq_hw.compiler.plan.dilated import ColumnPhases
from tq_hw.compiler.plan.layout import View, block_count, even_cuts, row_cuts, row_parts
from tq_hw.compiler.plan.places import LayerPlan
from tq_hw.compiler.programs.words import program_fields
from tq_hw.compiler.stream.stream import Access
from tq_hw.isa.layout import ArrayMode
from tq_hw.isa.sizes import ceil_div

__all__ = ["TILES_OF_AN_OPERATION", "MacLayer"]

#: This many tiles of one operation cost the compiler as much time as another operation.
TILES_OF_AN_OPERATION = 8
#: Least output pixels of the first rectangle of a layer that reads from memory.
_RAMP_SLOTS = 32


@dataclass
class MacLayer:
    """One layer during its emission. `layer` is the part of it that is now cut into rectangles; see `layers`."""

    emitter: Emitter
    layer: Mac
    plan: LayerPlan

    def __post_init__(self) -> None:
        config = self.config = self.emitter.config
        self.choice = self.emitter.choice()
        #: Most slots of a tile, if an operation may have several tiles.
        self.tile_words = min(config.acc_words, self.choice.tile_slots)
        #: Windows that are looked up before their rectangles, and their rows.
        self.ahead: list[tuple[View, tuple[int, int]]] = []
        #: The input of a single rectangle, and the accesses that read it.
        self.held: tuple[View, tuple[Access, ...]] | None = None
        #: The layers that are cut into rectangles, in order: row phases, or the layer itself.
        self.layers = self.plan.row_phases or (self.layer,)
        self.layer = self.layers[0]
        #: Rows, columns and blocks of the other operand of the program that goes on with the results, and their view.
        self.operand: tuple[tuple[tuple[int, int], ...], View] | None = None
        self.column_phases: dict[tuple[int, int], list[ColumnPhases]] = {}
        self.packed = pack(self.layer, self.plan, config)
        self.out_blocks = ceil_div(self.layer.output.shape[3], config.cols)
        uniform = self._is_uniform()
        self.parameters = self._parameter_blocks(uniform)
        #: Whether the constants of the first output block serve all blocks.
        self.same = uniform and self._is_average()
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

    def _is_uniform(self) -> bool:
        """Whether all channels have the same multiplier and shift, which are then immediates of the micro-operation.

        Only biases are loaded then. In place of the multipliers the vector unit reads weights, and ignores them.
        """
        layer, config = self.layer, self.config
        return (layer.wide is None and config.cols == config.word_bytes
                and len(set(layer.multiplier.tolist())) == len(set(layer.shift.tolist())) == 1)

    def _is_average(self) -> bool:
        """Whether all channels have the same weights and bias, as in an average."""
        layer, packed = self.layer, self.packed
        return (layer.depthwise and not packed.diagonal and not packed.dilated
                and bool((layer.weights == layer.weights[:, :, :1]).all()) and len(set(layer.bias.tolist())) == 1)

    def _parameter_blocks(self, uniform: bool) -> tuple[bytes, ...]:
        """Parameters of each output block as they are loaded: only biases if `uniform`."""
        layer, config = self.layer, self.config
        words = ceil_div(4 * config.cols, config.word_bytes) if uniform else config.param_words
        whole = parameter_blocks(layer.bias, layer.multiplier, layer.shift, config)
        distance = config.param_words * config.word_bytes
        return tuple(whole[first:first + words * config.word_bytes]
                     for first in range(0, self.out_blocks * distance, distance))

    def word_blocks(self, blocks: tuple[int, int]) -> tuple[int, int]:
        """Word blocks that contain these output blocks."""
        return blocks[0] // self.config.sub_blocks, ceil_div(blocks[1], self.config.sub_blocks)

    def spans(self, layer: Mac, blocks: tuple[int, int], slots_limit: int | None) -> Iterator[list[Rect]]:
        """Cut the output region into rows, and these into columns; depthwise tiles are whole rows."""
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
                    yield [Rect(image, span, (col, min(col + cols, c1)), self.word_blocks(blocks))
                           for col in range(c0, c1, cols)]

    def in_rect(self, rect: Rect) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
        """Input rows (over all images), columns and blocks that a rectangle reads."""
        value = self.layer.inputs[0]
        stride, extent, pad = window(self.layer)
        rows = in_span(*rect.rows, stride[0], extent[0], pad[0], value.shape[1])
        cols = in_span(*rect.cols, stride[1], extent[1], pad[1], value.shape[2])
        first = rect.image * value.shape[1]
        blocks = rect.blocks if self.layer.depthwise else (0, block_count(value.shape[3], self.config))
        return (first + rows[0], first + rows[1]), cols, blocks

    def source(self, rect: Rect, coming: Sequence[Rect] = ()) -> tuple[View, tuple[Access, ...]]:
        """Load a rectangle's input; return its view and the accesses that read it."""
        rows, cols, blocks = self.in_rect(rect)
        if self.windows is not None:
            looked_up = self.layer.input_table is not None
            view = self._looked_up(rect, coming) if looked_up else self.windows.load(rect, rows)
            return view, (view.access(rows, (0, 1 << 16)),)
        view = self.emitter.source(self.layer, self.plan, 0, rows, cols, blocks)
        return view, (view.access(rows, blocks),)

    def _looked_up(self, rect: Rect, coming: Sequence[Rect]) -> View:
        """Return windows after the table look-up.

        The windows of the next rectangle are looked up before the vector unit has to wait for the array.
        """
        assert self.windows is not None
        for other in (rect, *coming)[len(self.ahead):min(2, self.plan.slots)]:
            rows, _, _ = self.in_rect(other)
            self.ahead.append((self.windows.load(other, rows), rows))
            self.windows.look_up(*self.ahead[-1])
        return self.ahead.pop(0)[0]

    def array(self, rect: Rect, source: View, blocks: tuple[int, int], weights: Mapping[str, int],
              kernel: Kernel | None = None) -> dict[str, int]:
        """Fields of the array's operation for a rectangle, or a part of the kernel."""
        tile_words = self.tile_words if kernel is None else self.config.acc_words
        fields = array_fields(self.layer, self.packed, self.config, rect, source, blocks, kernel, tile_words)
        return fields | dict(weights)

    def tile(self, rect: Rect, blocks: tuple[int, int], cols: tuple[int, int, int] | None = None,
             phases: int = 1) -> Tile:
        """Sums of some output blocks of a rectangle, or of its columns `cols`: first column, count, distance.

        With more `phases`, also those of the columns right after these.
        """
        first, count, step = cols or (0, rect.cols[1] - rect.cols[0], 1)
        return Tile(layer=self.layer, image=rect.image, rows=(rect.rows[0], rect.rows[1] - rect.rows[0]),
                    cols=(rect.cols[0] + first, count), blocks=blocks, col_step=step, phases=phases)

    def part(self, tile: Tile, kernel: Kernel | None = None, column: int = 0) -> Part:
        """The part of the sums that an operation adds: all products, or those of a part of the kernel."""
        taps, packed = self.layer.kernel, self.packed
        weights = packed.choose(tile.blocks, kernel)
        if packed.fold is not None:
            return Part(tile, weights[:, column], (0, taps[0]), (0, taps[1]), (0, 1), packed.fold, column)
        if packed.mode is ArrayMode.GEMM:
            k = kernel or Kernel((0, taps[0]), (0, taps[1]), (0, weights.shape[3]))
            return Part(tile, weights, k.rows, k.cols, k.blocks, diagonal=packed.diagonal)
        rows, cols = (0, taps[0]), (0, taps[1])
        if kernel is not None:
            groups = 1 if packed.singly else self.config.groups
            rows = (kernel.rows[0] * groups, min(taps[0], kernel.rows[1] * groups))
            cols = (kernel.cols[0] * 3, min(taps[1], kernel.cols[1] * 3))
        return Part(tile, weights, rows, cols, (0, 1))

    def requantize(self, rect: Rect, target: View, tile: Tile, parameters: Mapping[str, int],
                   reads: tuple[Access, ...], columns: tuple[int, int] = (0, 1), tile_words: int = 0) -> None:
        """Requantize a tile: the rectangle, or those of its columns from columns[0] on, columns[1] apart.

        `tile_words` is that of the array's operation, which uses whole buffers if it covers only a part of the kernel.
        """
        blocks, tile_words = tile.blocks, tile_words or self.tile_words
        if self.wide is not None:
            self._rescale_wide(rect, target, tile, parameters, reads, tile_words)
            return
        fields = requantize_fields(self.layer, self.packed, self.config, rect, target, blocks, columns, tile_words)
        fields |= program_fields(self.code) | dict(parameters)
        if len(self.uops) > 1:
            registers = max(1, self.config.vector_register_words // self.config.beats_per_acc_word)
            fields["chunk_slots"] = min(fields["chunk_slots"], registers)
        if tile.phases > 1:
            fields |= {"out_blocks": tile.phases, "out_block_step": target.col_pitch, "param_block_step": 0}
        row = rect.image * self.layer.output.shape[1]
        written = target.access((row + rect.rows[0], row + rect.rows[1]), self.word_blocks(blocks))
        streams = Streams(self.code, out=tile_pixels(tile, self.config), sums=tile,
                          parameters=self.parameters[blocks[0]:blocks[1]])
        if self.layer.after is not None:
            assert columns == (0, 1) and tile.phases == 1, "it is a product of each pixel's channels"
            more, streams, access = self._operand(rect, streams, self.word_blocks(blocks))
            fields, reads = fields | more, (*reads, access)
        self.emitter.vector(fields, reads, (written,), streams)

    def _operand(self, rect: Rect, streams: Streams, blocks: tuple[int, int]) -> tuple[
            dict[str, int], Streams, Access]:
        """Return the fields of the stream of the other operand, the streams with it, and its access."""
        value, after = self.layer.inputs[1], self.layer.after
        assert after is not None, "only a program that goes on has another operand"
        one = value.shape[1:3] == (1, 1) != self.layer.output.shape[1:3]
        first = rect.image * value.shape[1]
        rows, cols = ((first, first + 1), (0, 1)) if one else ((first + rect.rows[0], first + rect.rows[1]), rect.cols)
        all_blocks = block_count(value.shape[3], self.config)
        # Where channels are cut, a strip has room for those of an operation.
        part = (rows, cols, (0, all_blocks) if self.plan.blocks >= all_blocks else blocks)
        if self.operand is None or self.operand[0] != part:
            self.operand = part, self.emitter.source(self.layer, self.plan, 1, *part)
        view, at, stride = self.operand[1], (rows[0], blocks[0], cols[0]), (0, 0) if one else (1, 1)
        name = "ba"[after.position]
        walk = pixels(value, at, self.config.block, stride)
        return stream_fields(name, view, at, stride), replace(
            streams, a=walk if name == "a" else None, b=walk if name == "b" else None), view.access(rows, blocks)

    def _rescale_wide(self, rect: Rect, target: View, tile: Tile, parameters: Mapping[str, int],
                      reads: tuple[Access, ...], tile_words: int) -> None:
        """Requantize each word block in turn, with the words of its multipliers."""
        assert self.wide is not None
        row, sub, blocks = rect.image * self.layer.output.shape[1], self.config.sub_blocks, tile.blocks
        for block in range(*self.word_blocks(blocks)):
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
