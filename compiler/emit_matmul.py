"""Products of two run-time matrices: the second one becomes the array's weights as it comes from memory.

`sum((a - za) * (b - zb))` is `sum(a * b) + sum(-za * b) + sum(a * -zb) + depth * za * zb`: the first three are array
operations into the same accumulators (a word of -za against the weights, the rows against weights of -zb), the last
is the bias. A zero point of -128 is not an int8 when negated and takes two operations of 64.
"""

from dataclasses import dataclass

import numpy as np

from tq_hw.compiler.emit import Emitter
from tq_hw.compiler.image import parameter_blocks
from tq_hw.compiler.ir import MatMul
from tq_hw.compiler.layout import View, block_count, signed_step
from tq_hw.compiler.plan import LayerPlan
from tq_hw.compiler.stream import Access
from tq_hw.isa.layout import ArrayMode
from tq_hw.isa.uop import Alu, Destination, Multiply, Rounding, ShiftSource, Source
from tq_hw.sim.golden.arith import wrap_int32

__all__ = ["emit_matmul"]


def _negated(zero_point: int) -> list[int]:
    """int8 values that add up to `-zero_point`."""
    return [] if zero_point == 0 else [-zero_point] if zero_point > -128 else [64, 64]


@dataclass
class _Product:
    emitter: Emitter
    layer: MatMul
    plan: LayerPlan

    def __post_init__(self) -> None:
        """Divide the words: zero-point words, weights of a zero point, two weight buffers, rows, results."""
        config = self.config = self.emitter.config
        self.depth, self.cols = self.layer.inputs[0].shape[3], self.layer.output.shape[3]
        self.in_blocks = block_count(self.depth, config)
        self.weight_words = self.in_blocks * config.slices * config.gemm_rows
        self.negated = [_negated(z) for z in self.layer.zero_points]
        base = self.plan.out_bases[0]
        self.words_base = base
        self.const_base = base + 2
        self.weight_base = self.const_base + (self.weight_words if self.negated[1] else 0)
        self.rows_base = self.weight_base + 2 * self.weight_words
        left = base + self.plan.out_words - self.rows_base
        out_blocks = block_count(self.cols, config)
        self.rows = max(1, min(self.layer.output.shape[2], config.acc_words, (left - 2) // (
            self.in_blocks + out_blocks)))
        self.uop = self.emitter.program([{
            "a_source": Source.ACC_OR_BIAS, "b_source": Source.ACC_OR_BIAS, "alu": Alu.ADD,
            "multiply": Multiply.HIGH_PARAM, "rounding": Rounding.HALF_AWAY, "shift_source": ShiftSource.PARAM,
            "zero_point": self.layer.zero_point, "clamp": 1, "act_min": -128, "act_max": 127,
            "destination": Destination.OUTPUT}])
        self.turn = 0

    def run(self) -> None:
        """Emit all products."""
        emitter, config = self.emitter, self.config
        za, zb = self.layer.zero_points
        one = np.ones(config.cols, np.int64)
        data = parameter_blocks(one * wrap_int32(self.depth * za * zb), one * self.layer.multiplier,
                                one * self.layer.shift, config)
        with emitter.scope():
            self.params, self.params_access = emitter.constant(data, config.word_bytes)
            self.words = Access("pad", self.words_base, self.words_base + 1)
            for value in dict.fromkeys(self.negated[0]):
                self._fill(self.words_base, 1, value, self.words)
            self.const = Access("pad", self.const_base, self.const_base + self.weight_words)
            for value in dict.fromkeys(self.negated[1]):
                self._constant_weights(value)
            for number, (left, right) in enumerate(self.layer.pairs):
                for first in range(0, self.layer.output.shape[2], self.rows):
                    self._tile(number, left, right, (first, min(first + self.rows, self.layer.output.shape[2])))

    def _fill(self, base: int, words: int, value: int, access: Access) -> None:
        word = self.config.word_bytes
        self.emitter.load({"run_bytes": 0, "fill": value & 0xFF, "destination": base, "emit_bytes": word,
                           "advance_bytes": 0, "last_emit_bytes": word, "count0": words, "step0": 1, "count1": 1,
                           "count2": 1, "count3": 1}, (), (access,))

    def _pieces(self) -> list[tuple[int, int, int]]:
        """(first depth, depth, input blocks): the whole blocks, and what is left over."""
        block = self.config.block
        whole = self.depth // block
        pieces = [(0, block, whole)] if whole else []
        return pieces + ([(whole * block, self.depth - whole * block, 1)] if self.depth % block else [])

    def _constant_weights(self, value: int) -> None:
        """Weights of `value` for every row that exists, 0 for the others."""
        word, per_block = self.config.word_bytes, self.config.slices * self.config.gemm_rows
        self._fill(self.const_base, self.weight_words, 0, self.const)
        for first, depth, blocks in self._pieces():
            self.emitter.load({
                "run_bytes": 0, "fill": value & 0xFF, "emit_bytes": word, "advance_bytes": 0, "last_emit_bytes": word,
                "destination": self.const_base + first // self.config.block * per_block, "count0": depth, "step0": 1,
                "count1": blocks, "step1": per_block, "count2": 1, "count3": 1}, (), (self.const,))

    def _load_weights(self, matrix: int, o: int) -> tuple[int, Access]:
        """Bring `cols` columns of the second matrix into a weight buffer."""
        config, value = self.config, self.layer.inputs[1]
        base = self.weight_base + self.turn % 2 * self.weight_words
        self.turn += 1
        access = Access("pad", base, base + self.weight_words)
        if self.depth % config.block or config.slices * config.gemm_rows != config.block:
            self._fill(base, self.weight_words, 0, access)
        region, offset = self.emitter.memory_of(value)
        start = offset + matrix * self.depth * self.cols
        low, count = o * config.cols, min(config.cols, self.cols - o * config.cols)
        per_block = config.slices * config.gemm_rows
        for first, depth, blocks in self._pieces():
            self.emitter.load({
                "region": region, "memory_offset_bytes": start + first * self.cols + low, "run_bytes": count,
                "flip": int(value.flip), "destination": base + first // config.block * per_block,
                "emit_bytes": config.cols, "advance_bytes": config.cols, "last_emit_bytes": config.cols,
                "last_advance_bytes": config.cols, "count0": 1, "count1": 1, "count2": depth, "step2": 1,
                "stride2_bytes": self.cols, "count3": blocks, "step3": per_block,
                "stride3_bytes": config.block * self.cols},
                (Access(f"region{region}", start, start + self.depth * self.cols),), (access,))
        return base, access

    def _tile(self, number: int, left: int, right: int, span: tuple[int, int]) -> None:
        emitter, config, layer = self.emitter, self.config, self.layer
        count = span[1] - span[0]
        out_blocks = block_count(self.cols, config)
        source = View(emitter.new_buffer(), self.rows_base, self.in_blocks * count, 0, count, left, 0, span[0])
        emitter.load_rect(layer.inputs[0], source, (left, left + 1), span, (0, self.in_blocks))
        read = source.access((left, left + 1), (0, self.in_blocks))
        out_base = self.rows_base + self.rows * self.in_blocks
        target = View(emitter.new_buffer(), out_base, out_blocks * count, 0, count, number, 0, span[0])
        for o in range(-(-self.cols // config.cols)):
            weights, access = self._load_weights(right, o)
            self._accumulate(source.address(left, 0, span[0]), count, weights, (read, access))
            block = o // config.sub_blocks
            emitter.vector({
                "use_acc": 1, "use_params": 1, "blocks_inner": 1, "sub_first": o % config.sub_blocks,
                "out_base": target.address(number, block, span[0]), "out_col_step": 1, "cols": count, "out_blocks": 1,
                "slots": count, "tile_slots": count, "chunk_slots": count, "param_base": self.params,
                "first": self.uop, "body_first": self.uop + 1, "body_last": self.uop, "last": self.uop, "repeat1": 1,
                "repeat2": 1}, (self.params_access,), (target.access((number, number + 1), (block, block + 1)),))
        emitter.store_rect(layer.output, target, (number, number + 1), span, (0, out_blocks))

    def _accumulate(self, rows: int, count: int, weights: int, reads: tuple[Access, ...]) -> None:
        """Emit the array operations of one tile; the accumulators stay open between them."""
        # (input word, step per row, step per block, weights, what is read)
        passes = [(rows, 1, count, weights, reads)]
        passes += [(self.words_base, 0, 0, weights, (self.words, reads[1]))] * len(self.negated[0])
        passes += [(rows, 1, count, self.const_base, (reads[0], self.const))] * len(self.negated[1])
        for index, (base, col_step, block_step, weight_base, touched) in enumerate(passes):
            self.emitter.array({
                "mode": ArrayMode.GEMM, "acc_first": int(index == 0), "acc_last": int(index == len(passes) - 1),
                "blocks_inner": 1, "in_base": base, "in_col_step": col_step, "in_row_step": 0,
                "kernel_block_step": signed_step(block_step), "kernel_blocks": self.in_blocks, "row_stride": 1,
                "col_stride": 1, "kernel_row_dilation": 1, "kernel_col_dilation": 1, "in_rows": 1, "in_cols": count,
                "out_cols": count, "slots": count, "tile_slots": count, "out_blocks": 1, "kernel_rows": 1,
                "kernel_cols": 1, "weight_base": weight_base, "weight_rows": self.config.gemm_rows,
                "slices": self.config.slices}, touched)


def emit_matmul(emitter: Emitter, layer: MatMul, plan: LayerPlan) -> None:
    """Emit all operations of the layer."""
    _Product(emitter, layer, plan).run()
