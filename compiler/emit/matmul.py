"""Products of two run-time matrices: the second matrix is loaded from memory as the array's weights.

The terms of the zero points are subtracted by the array, or by sums in registers (`matmul_programs.py`). In the array,
one operation multiplies a word of -za by the weights, and another the rows by weights of -zb; the product of the two
zero points is in the bias. A zero point of -128 has no int8 negative and takes two operations with 64.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tq_hw.compiler.emit.emitter import Emitter
from tq_hw.compiler.emit.image import parameter_blocks
from tq_hw.compiler.emit.matmul_words import MatMulWords
from tq_hw.compiler.ir.meaning import Code, Streams, Sums, Terms, Walk
from tq_hw.compiler.ir.staged import MatMul
from tq_hw.compiler.ir.value import Value
from tq_hw.compiler.plan.layout import View, even_cuts, signed_step
from tq_hw.compiler.plan.places import LayerPlan
from tq_hw.compiler.programs.words import program_fields
from tq_hw.compiler.stream.stream import Access
from tq_hw.isa.layout import ArrayMode
from tq_hw.isa.sizes import ceil_div
from tq_hw.sim.golden.arith import wrap_int32

__all__ = ["Product", "emit_matmul"]

_Parameters = tuple[dict[str, int], tuple[Access, ...], tuple[bytes, ...]]


@dataclass(frozen=True)
class _Rows:
    """Input words of an operation of the array: rows, or one word for all rows.

    Members
    -------
    base, col_step, block_step : first word; words from one row to the next, from one block to the next
    """

    base: int
    col_step: int
    block_step: int
    access: Access
    what: Walk | int


@dataclass(frozen=True)
class _Weights:
    """A matrix of weights, or one byte for all weights."""

    base: int
    access: Access
    what: Walk | int


@dataclass
class Product(MatMulWords):
    """Emits the operations of a layer; the bytes of its results are those of `results`, in the same order."""

    results: Value

    def run(self) -> None:
        """Emit all products."""
        emitter, config, layer = self.emitter, self.config, self.layer
        za, zb = layer.zero_points
        one = np.ones(self.cols, np.int64)
        bias = one * 0 if layer.bias is None else layer.bias
        self.parameters = parameter_blocks(wrap_int32(bias + self.depth * za * zb), one * layer.multiplier,
                                           one * layer.shift, config)
        emitter.tables(layer.tables)
        programs = self.zeros.programs(layer, ceil_div(self.rows, self.zeros.tile))
        emitter.reserve_program(sum(map(len, programs)))
        self.programs = [emitter.program(uops) for uops in programs]
        with emitter.scope():
            for value in dict.fromkeys(self.negated[0]):
                self.fill(self.words_base, 1, value, self.words)
            for value in dict.fromkeys(self.negated[1]):
                self.constant_weights(self.const_base, self.parts[0], value)
                if len(self.parts) > 1:
                    self.constant_weights(self.last_const_base, self.parts[-1], value)
            tiles = [(number, pair, (first, min(first + self.rows, layer.lhs_rows)))
                     for number, pair in enumerate(layer.pairs) for first in range(0, layer.lhs_rows, self.rows)]
            self._tiles(tiles)

    @property
    def is_whole(self) -> bool:
        """Whether the whole depth of a tile's rows is in the scratchpad at once."""
        return len(self.parts) == 1

    def weight_rows(self, part: tuple[int, int]) -> int:
        """Return the rows of weights of each block of a part of the depth; a buffer has words of 0 for others."""
        return self.config.gemm_rows

    def target(self, number: int, span: tuple[int, int], turn: int) -> View:
        """Return the words of some rows of product `number`, in one of the buffers."""
        count, base = span[1] - span[0], self.out_base + turn * self.out_words
        return View(self.emitter.new_buffer(self.layer.output.name), base, self.out_blocks * count * self.wide, 0,
                    count * self.wide, number, 0, span[0])

    def store(self, number: int, span: tuple[int, int], target: View) -> None:
        """Store some rows of product `number`."""
        rows, blocks = (number, number + 1), (0, self.out_blocks)
        if self.size > 1:
            self.store_wide(number, span, target.base, target.access(rows, blocks))
        else:
            self.emitter.store_rect(self.layer.output, target, rows, span, blocks)

    def _tiles(self, tiles: Sequence[tuple[int, tuple[int, int], tuple[int, int]]]) -> None:
        """Emit tiles in order; the rows of the next tile load while the first blocks of a tile are computed."""
        whole, view = self.is_whole, None
        for at, (number, (left, right), span) in enumerate(tiles):
            if whole and view is None:
                view = self.load_rows(left, span, self.parts[0])
            tile = _Tile(self, number, left, right, span, view, at % self.buffers)
            tile.begin()
            view = None
            for o in range(ceil_div(self.cols, self.config.cols)):
                tile.block(o)
                if not o and self.buffers > 1 and at + 1 < len(tiles):
                    _, (following, _), rows = tiles[at + 1]
                    view = self.load_rows(following, rows, self.parts[0])
            self.store(number, span, tile.target)


@dataclass
class _Tile:
    """Some rows of a product; `view` is their view if their whole depth is loaded."""

    product: Product
    number: int
    left: int
    right: int
    span: tuple[int, int]
    view: View | None
    turn: int

    def __post_init__(self) -> None:
        product, layer = self.product, self.product.layer
        self.emitter, self.config, self.layer = product.emitter, product.config, layer
        self.count = count = self.span[1] - self.span[0]
        self.target = product.target(self.number, self.span, self.turn)
        self.add_base = self.target.base + product.rows * product.out_blocks * product.wide
        self.row_bytes = product.cols * product.size
        self.start = (self.number * layer.lhs_rows + self.span[0]) * self.row_bytes
        #: Rows that share accumulators, and vector registers.
        self.tiles = even_cuts(0, count, product.zeros.tile)

    def begin(self) -> None:
        """Load the addend of the results, and emit the sums of rows."""
        self.added = self.product.load_added(self.number, self.span, self.add_base) if self.product.added else ()
        product = self.product
        for tile, code in zip(self.tiles, product.zeros.split(product.programs)[0], strict=False):
            sums = Sums(len(product.parts) * len(product.negated[1]))
            for number, (part, value) in enumerate(itertools.product(product.parts, product.negated[1])):
                self._array(tile, part, self._row_words(tile, self._whole, part), self._constant(part, value), sums,
                            number)
            self._registers(code, tile[1] - tile[0], sums, ({}, (), ()))

    def block(self, o: int) -> None:
        """Emit the results of the columns of output block `o`."""
        product = self.product
        _, columns, results = product.zeros.split(product.programs)
        whole = {part: self._weights(o, part) for part in product.parts} if self.view is not None else {}
        if columns is not None:
            self._column_sums(columns, whole, o)
        for number, tile in enumerate(self.tiles):
            sums = self._sums(o, tile, whole)
            self._results(o, results[number % len(results)], tile, sums, self._parameters(o))

    def _parameters(self, o: int) -> _Parameters:
        """Load biases, multipliers and shifts of a block, unless they are in the program."""
        if not self.product.zeros.has_parameters(self.layer):
            return {}, (), ()
        size = self.config.param_words * self.config.word_bytes
        part = self.product.parameters[o * size:(o + 1) * size]
        with self.emitter.scope():
            base, access = self.emitter.constant(part, self.config.word_bytes)
        return {"use_params": 1, "param_base": base}, (access,), (part,)

    @property
    def _whole(self) -> View:
        """Return the view of rows whose depth is one part."""
        assert self.view is not None
        return self.view

    def _weights(self, o: int, part: tuple[int, int]) -> _Weights:
        base, access = self.product.load_weights(self.right, o, part)
        cols, first = self.product.cols, self.right * self.product.depth + part[0] * self.config.block
        return _Weights(base, access, Walk(self.layer.inputs[1], cols, first * cols, o * self.config.cols, row=cols))

    def _row_words(self, tile: tuple[int, int], view: View, part: tuple[int, int]) -> _Rows:
        """Return the rows of the tile for a part of their depth that is in a view."""
        depth, row = self.product.depth, self.span[0] + tile[0]
        walk = Walk(self.layer.inputs[0], depth, (self.left * self.layer.lhs_rows + row) * depth,
                    part[0] * self.config.block, self.config.block, col=depth)
        return _Rows(view.address(self.left, part[0], row), 1, view.block_pitch,
                     view.access((self.left, self.left + 1), part), walk)

    def _constant(self, part: tuple[int, int], value: int) -> _Weights:
        """Return weights of one value for a part of the depth."""
        product = self.product
        last = part[1] == product.in_blocks and len(product.parts) > 1
        return _Weights(product.last_const_base if last else product.const_base, product.const, value)

    def _sums(self, o: int, tile: tuple[int, int], whole: Mapping[tuple[int, int], _Weights]) -> Sums:
        """Emit array operations that add up to the sums of a block; the accumulators stay open between them."""
        product, zeros = self.product, self.product.zeros
        words, values = ([] if there else points for there, points in zip(
            (zeros.columns, zeros.rows), product.negated, strict=True))
        sums = Sums(len(product.parts) * (1 + len(words) + len(values)))
        number = 0
        for part in product.parts:
            view = self.view or product.load_rows(self.left, self.span, part)
            rows = self._row_words(tile, view, part)
            weights = whole.get(part) or self._weights(o, part)
            passes = [(rows, weights)]
            passes += [(_Rows(product.words_base, 0, 0, product.words, value), weights) for value in words]
            passes += [(rows, self._constant(part, value)) for value in values]
            for x, w in passes:
                self._array(tile, part, x, w, sums, number)
                number += 1
        return sums

    def _column_sums(self, code: Code, weights: Mapping[tuple[int, int], _Weights], o: int) -> None:
        """Emit the sums of a block's columns times the negated zero point of the rows, kept in a register."""
        product = self.product
        count = max(high - low for low, high in self.tiles) if product.zeros.spread else 1
        sums = Sums(len(product.parts) * len(product.negated[0]))
        for number, (part, value) in enumerate(itertools.product(product.parts, product.negated[0])):
            self._array((0, count), part, _Rows(product.words_base, 0, 0, product.words, value), weights[part], sums,
                        number)
        self._registers(code, count, sums, self._parameters(o))

    def _registers(self, code: Code, count: int, sums: Sums, params: _Parameters) -> None:
        fields, reads, parameters = params
        self.emitter.vector({"use_acc": 1, "blocks_inner": 1, "cols": count, "out_blocks": 1, "slots": count,
                             "tile_slots": count, "chunk_slots": count, **fields, **program_fields(code)},
                            reads, (), Streams(code, sums=sums, parameters=parameters))

    def _results(self, o: int, code: Code, tile: tuple[int, int], sums: Sums, params: _Parameters) -> None:
        """Emit the operation that rescales sums to results."""
        fields, reads, parameters = params
        config, product, layer, sub = self.config, self.product, self.layer, self.config.sub_blocks
        count, block, wide = tile[1] - tile[0], o // sub, product.wide
        at, step = self.target.address(self.number, block, self.span[0]) + tile[0] * wide, wide
        result = Walk(product.results, self.row_bytes, self.start + tile[0] * self.row_bytes,
                      block * config.block * product.size, col=self.row_bytes, type=layer.out_type)
        slots = min(count, max(1, config.vector_register_words // config.beats_per_acc_word))
        self.emitter.vector({
            "use_acc": 1, "blocks_inner": 1, "sub_first": o % sub, "out_type": layer.out_type,
            "out_base": at, "out_col_step": step, "cols": count, "out_blocks": 1,
            "a_type": int(product.added), "a_base": self.add_base + at - self.target.base, "a_col_step": step,
            "slots": count, "tile_slots": count, "chunk_slots": slots if len(code.uops) > 1 else count,
            **fields, **program_fields(code)}, (*reads, *self.added),
            (self.target.access((self.number, self.number + 1), (block, block + 1)),),
            Streams(code, replace(result, of=layer.inputs[2]) if product.added else None, out=result, sums=sums,
                    parameters=parameters))

    def _array(self, tile: tuple[int, int], part: tuple[int, int], rows: _Rows, weights: _Weights, sums: Sums,
               number: int) -> None:
        """Emit array operation `number` of those that accumulate `sums`."""
        count, config = tile[1] - tile[0], self.config
        depth = min(self.product.depth, part[1] * config.block) - part[0] * config.block
        self.emitter.array({
            "mode": ArrayMode.GEMM, "acc_first": int(number == 0), "acc_last": int(number == sums.parts - 1),
            "blocks_inner": 1, "in_base": rows.base, "in_col_step": rows.col_step, "in_row_step": 0,
            "kernel_block_step": signed_step(rows.block_step), "kernel_blocks": part[1] - part[0], "row_stride": 1,
            "col_stride": 1, "kernel_row_dilation": 1, "kernel_col_dilation": 1, "in_rows": 1, "in_cols": count,
            "out_cols": count, "slots": count, "tile_slots": count, "out_blocks": 1, "kernel_rows": 1,
            "kernel_cols": 1, "weight_base": weights.base, "weight_rows": self.product.weight_rows(part),
            "slices": config.slices}, (rows.access, weights.access),
            Terms(sums, number, rows.what, weights.what, depth))


def emit_matmul(emitter: Emitter, layer: MatMul, plan: LayerPlan, results: Value) -> None:
    """Emit all operations of the layer; the bytes of its output are those of `results`, in the same order."""
    Product(emitter, layer, plan, results).run()
