"""Products of two run-time matrices: the second one becomes the array's weights as it comes from memory.

`sum((a - za) * (b - zb))` is `sum(a * b) + sum(-za * b) + sum(a * -zb) + depth * za * zb`: the first three are array
operations into the same accumulators (a word of -za against the weights, the rows against weights of -zb), the last
is the bias. A zero point of -128 is not an int8 when negated and takes two operations of 64.
"""

from dataclasses import dataclass, replace

import numpy as np

from tq_hw.compiler.emit.emitter import Emitter
from tq_hw.compiler.emit.image import parameter_blocks
from tq_hw.compiler.emit.mac_operations import product_fields, steps_uops
from tq_hw.compiler.ir.meaning import Streams, Sums, Terms, Walk
from tq_hw.compiler.ir.staged import MatMul
from tq_hw.compiler.ir.value import ELEMENT_BYTES, Value
from tq_hw.compiler.plan.layout import View, block_count, signed_step
from tq_hw.compiler.plan.places import LayerPlan
from tq_hw.compiler.programs.words import OUT, program_fields
from tq_hw.compiler.stream.stream import Access
from tq_hw.isa.layout import ArrayMode, Unit
from tq_hw.isa.sizes import ceil_div
from tq_hw.isa.uop import Alu, Destination, ShiftSource, Source
from tq_hw.sim.golden.arith import wrap_int32

__all__ = ["emit_matmul"]

#: Rows at most of matrices whose depth comes in parts.
_PART_ROWS = 64


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
        self.depth, self.cols = self.layer.inputs[0].shape[3], self.layer.inputs[1].shape[3]
        self.in_blocks = block_count(self.depth, config)
        self.block_words = config.slices * config.gemm_rows
        self.negated = [_negated(z) for z in self.layer.zero_points]
        self.out_blocks = block_count(self.cols, config)
        #: Bytes of an output element, and words of an output slot: those of one block may take several.
        self.size = ELEMENT_BYTES[self.layer.out_type]
        self.wide = ceil_div(self.size * config.block, config.word_bytes)
        self.added = len(self.layer.inputs) > 2
        out_words = self.out_blocks * self.wide * (2 if self.added else 1)
        left, constant = self.plan.out_words - 4, 1 if self.negated[1] else 0
        weights = (2 + constant) * self.in_blocks * self.block_words
        self.rows = max(1, min(self.layer.lhs_rows, config.acc_words,
                               (left - weights) // (self.in_blocks + out_words)))
        self.parts = [(0, self.in_blocks)]
        if weights + self.rows * (self.in_blocks + out_words) > left:
            self._cut(left - constant * self.block_words, 2 + constant, out_words)
        most = max(high - low for low, high in self.parts)
        self.weight_words = most * self.block_words
        self.words_base = self.plan.out_bases[0]
        self.const_base = self.words_base + 2
        #: The last block of the depth, whose last rows may be missing, has zero points of its own.
        self.last_const_base = self.const_base + constant * self.weight_words
        self.weight_base = self.last_const_base + (constant * self.block_words if len(self.parts) > 1 else 0)
        self.rows_base = self.weight_base + 2 * self.weight_words
        self.row_words = most * self.rows
        self.out_base = self.rows_base + (2 if len(self.parts) > 1 else 1) * self.row_words
        self.uops = self._uops()
        self.emitter.tables(self.layer.tables)
        self.code = self.emitter.program(self.uops)
        self.weights_loaded = 0

    def _uops(self) -> list[dict[str, int]]:
        """Program that rescales the accumulators."""
        if self.layer.raw:
            return [{"a_source": Source.ACC_OR_BIAS, "b_source": Source.ACC_OR_BIAS, "alu": Alu.ADD, **OUT}]
        if self.layer.steps is not None:
            return steps_uops(self.layer.steps, self.layer.zero_point, -128, 127)
        scaled = {
            "a_source": Source.ACC_OR_BIAS, "b_source": Source.ACC_OR_BIAS, "alu": Alu.ADD,
            **product_fields(self.layer.rounding), "shift_source": ShiftSource.PARAM,
            "zero_point": self.layer.zero_point}
        out = {"clamp": 1, "act_min": -128, "act_max": 127, "destination": Destination.OUTPUT}
        if self.added:
            return [scaled | {"destination": Destination.REGISTER, "clamp": int(self.layer.saturates)},
                    {"a_source": Source.STREAM, "b_source": Source.REGISTER, "alu": Alu.ADD, **out}]
        return [scaled | out]

    def _cut(self, left: int, buffers: int, out_words: int) -> None:
        """Cut the depth into parts of whole blocks, and a last block; rows and weights of a part come twice."""
        weights = buffers * self.block_words
        # Half of the words for rows and their results, at most.
        self.rows = max(1, min(self.layer.lhs_rows, self.config.acc_words, _PART_ROWS,
                               (left - 2 * weights) // (2 * (out_words + 2))))
        size = (left - self.rows * out_words) // (weights + 2 * self.rows)
        whole = self.in_blocks - 1
        self.parts = [(low, min(low + size, whole)) for low in range(0, whole, size)] + [(whole, self.in_blocks)]

    def run(self) -> None:
        """Emit all products."""
        emitter, config = self.emitter, self.config
        za, zb = self.layer.zero_points
        one = np.ones(self.cols, np.int64)
        bias = one * 0 if self.layer.bias is None else self.layer.bias
        self.parameters = parameter_blocks(wrap_int32(bias + self.depth * za * zb), one * self.layer.multiplier,
                                           one * self.layer.shift, config)
        with emitter.scope():
            self.words = Access("pad", self.words_base, self.words_base + 1)
            for value in dict.fromkeys(self.negated[0]):
                self._fill(self.words_base, 1, value, self.words)
            self.const = Access("pad", self.const_base, self.weight_base)
            for value in dict.fromkeys(self.negated[1]):
                self._constant_weights(self.const_base, self.parts[0], value)
                if len(self.parts) > 1:
                    self._constant_weights(self.last_const_base, self.parts[-1], value)
            for number, (left, right) in enumerate(self.layer.pairs):
                for first in range(0, self.layer.lhs_rows, self.rows):
                    self._tile(number, left, right, (first, min(first + self.rows, self.layer.lhs_rows)))

    def _fill(self, base: int, words: int, value: int, access: Access) -> None:
        word = self.config.word_bytes
        self.emitter.load({"run_bytes": 0, "fill": value & 0xFF, "destination": base, "emit_bytes": word,
                           "advance_bytes": 0, "last_emit_bytes": word, "count0": words, "step0": 1, "count1": 1,
                           "count2": 1, "count3": 1}, (), (access,))

    def _pieces(self, part: tuple[int, int]) -> list[tuple[int, int, int]]:
        """(first depth, depth, input blocks) of some blocks: the whole blocks, and what is left over."""
        block, (low, high) = self.config.block, part
        whole = min(high, self.depth // block)
        pieces = [(low * block, block, whole - low)] if whole > low else []
        return pieces + ([(whole * block, self.depth - whole * block, 1)] if high > whole else [])

    def _constant_weights(self, base: int, part: tuple[int, int], value: int) -> None:
        """Weights of `value` for every row that exists, 0 for the others."""
        word = self.config.word_bytes
        self._fill(base, (part[1] - part[0]) * self.block_words, 0, self.const)
        for first, depth, blocks in self._pieces(part):
            self.emitter.load({
                "run_bytes": 0, "fill": value & 0xFF, "emit_bytes": word, "advance_bytes": 0, "last_emit_bytes": word,
                "destination": base + (first // self.config.block - part[0]) * self.block_words, "count0": depth,
                "step0": 1, "count1": blocks, "step1": self.block_words, "count2": 1, "count3": 1}, (), (self.const,))

    def _load_weights(self, matrix: int, o: int, part: tuple[int, int]) -> tuple[int, Access]:
        """Bring `cols` columns of some blocks of the second matrix into a weight buffer."""
        config, value = self.config, self.layer.inputs[1]
        base = self.weight_base + self.weights_loaded % 2 * self.weight_words
        self.weights_loaded += 1
        access = Access("pad", base, base + self.weight_words)
        if self.block_words != config.block or (part[1] == self.in_blocks and self.depth % config.block):
            self._fill(base, (part[1] - part[0]) * self.block_words, 0, access)
        region, offset = self.emitter.memory_of(value)
        start = offset + matrix * self.depth * self.cols
        low, count = o * config.cols, min(config.cols, self.cols - o * config.cols)
        for first, depth, blocks in self._pieces(part):
            self.emitter.load({
                "region": region, "memory_offset_bytes": start + first * self.cols + low, "run_bytes": count,
                "flip": int(value.flip), "destination": base + (first // config.block - part[0]) * self.block_words,
                "emit_bytes": config.cols, "advance_bytes": config.cols, "last_emit_bytes": config.cols,
                "last_advance_bytes": config.cols, "count0": 1, "count1": 1, "count2": depth, "step2": 1,
                "stride2_bytes": self.cols, "count3": blocks, "step3": self.block_words,
                "stride3_bytes": config.block * self.cols},
                (Access(f"region{region}", start, start + self.depth * self.cols),), (access,))
        return base, access

    def _load_rows(self, left: int, span: tuple[int, int], part: tuple[int, int]) -> View:
        """Bring some blocks of rows of the first matrix into a buffer."""
        count, value = span[1] - span[0], self.layer.inputs[0]
        base = self.rows_base + (self.weights_loaded % 2 * self.row_words if len(self.parts) > 1 else 0)
        view = View(self.emitter.new_buffer(value.name), base, (part[1] - part[0]) * count, 0, count, left, part[0],
                    span[0])
        self.emitter.load_rect(value, view, (left, left + 1), span, part)
        return view

    def _tile(self, number: int, left: int, right: int, span: tuple[int, int]) -> None:
        emitter, config, layer = self.emitter, self.config, self.layer
        count = span[1] - span[0]
        single = self._load_rows(left, span, self.parts[0]) if len(self.parts) == 1 else None
        out_base = self.out_base
        out_words = self.out_blocks * count * self.wide
        block_step, buffer = count * self.wide, emitter.new_buffer(layer.output.name)
        add_base = out_base + self.rows * self.out_blocks * self.wide
        added = self._load_added(number, span, add_base) if self.added else ()
        sub = config.sub_blocks
        block_bytes, row = config.block * self.size, self.cols * self.size
        start = (number * layer.lhs_rows + span[0]) * row
        for o in range(ceil_div(self.cols, config.cols)):
            sums = Sums(len(self.parts) * (1 + sum(map(len, self.negated))))
            for part in self.parts:
                source = single or self._load_rows(left, span, part)
                weights, access = self._load_weights(right, o, part)
                read = source.access((left, left + 1), part)
                rows = Walk(layer.inputs[0], self.depth, (left * layer.lhs_rows + span[0]) * self.depth,
                            part[0] * config.block, config.block, col=self.depth)
                matrix = Walk(layer.inputs[1], self.cols, (right * self.depth + part[0] * config.block) * self.cols,
                              o * config.cols, row=self.cols)
                self._accumulate(source.address(left, part[0], span[0]), count, part, weights, (read, access), sums,
                                 (rows, matrix))
            block = o // sub
            result = Walk(layer.output, row, start, block * block_bytes, col=row, type=layer.out_type)
            slots = min(count, max(1, config.vector_register_words // config.beats_per_acc_word))
            size = config.param_words * config.word_bytes
            with emitter.scope():
                params, params_access = emitter.constant(self.parameters[o * size:(o + 1) * size], config.word_bytes)
            emitter.vector({
                "use_acc": 1, "use_params": 1, "blocks_inner": 1, "sub_first": o % sub, "out_type": layer.out_type,
                "out_base": out_base + block * block_step, "out_col_step": self.wide, "cols": count, "out_blocks": 1,
                "a_type": int(self.added), "a_base": add_base + block * block_step, "a_col_step": self.wide,
                "slots": count, "tile_slots": count, "chunk_slots": slots if len(self.uops) > 1 else count,
                "param_base": params,
                **program_fields(self.code)}, (params_access, *added),
                (Access("pad", out_base, out_base + out_words, buffer, (number, number + 1), (block, block + 1)),),
                Streams(self.code, replace(result, of=layer.inputs[2]) if added else None, out=result, sums=sums,
                        parameters=(self.parameters[o * size:(o + 1) * size],)))
        if self.size > 1:
            whole = Access("pad", out_base, out_base + out_words, buffer, (number, number + 1), (0, self.out_blocks))
            self._store_wide(number, span, out_base, whole)
            return
        target = View(buffer, out_base, out_words, 0, count, number, 0, span[0])
        emitter.store_rect(layer.output, target, (number, number + 1), span, (0, self.out_blocks))

    def _wide_parts(self) -> list[tuple[int, int, int]]:
        """(first block, blocks, elements): the whole blocks, and what is left over."""
        whole, left = divmod(self.cols, self.config.block)
        return ([(0, whole, self.config.block)] if whole else []) + ([(whole, 1, left)] if left else [])

    def _wide_loops(self, value: Value, number: int, span: tuple[int, int], part: tuple[int, int, int]) -> tuple[
            dict[str, int], Access]:
        """Memory and loop fields that a load and a store of rows of int16 or int32 share."""
        first, blocks, elements = part
        count = span[1] - span[0]
        region, offset = self.emitter.memory_of(value)
        size, row = self.size, self.size * self.cols
        at = offset + row * (number * self.layer.lhs_rows + span[0])
        words = ceil_div(size * elements, self.config.word_bytes)
        fields = {"region": region, "memory_offset_bytes": at + size * first * self.config.block, "count0": words,
                  "step0": 1, "count1": blocks, "step1": signed_step(count * self.wide), "count2": count,
                  "step2": self.wide, "stride2_bytes": row, "count3": 1}
        return fields, Access(f"region{region}", at, at + row * count)

    def _load_added(self, number: int, span: tuple[int, int], base: int) -> tuple[Access, ...]:
        value, word = self.layer.inputs[2], self.config.word_bytes
        access = Access("pad", base, base + (span[1] - span[0]) * self.out_blocks * self.wide)
        for part in self._wide_parts():
            fields, read = self._wide_loops(value, number, span, part)
            last = 2 * part[2] - (fields["count0"] - 1) * word
            self.emitter.load(fields | {
                "run_bytes": 2 * part[1] * part[2], "emit_bytes": word, "advance_bytes": word, "last_emit_bytes": last,
                "last_advance_bytes": last, "destination": base + part[0] * fields["step1"]}, (read,), (access,))
        return (access,)

    def _store_wide(self, number: int, span: tuple[int, int], base: int, read: Access) -> None:
        word = self.config.word_bytes
        for part in self._wide_parts():
            fields, write = self._wide_loops(self.layer.output, number, span, part)
            self.emitter.stream.add(Unit.STORE, fields | {
                "source": base + part[0] * fields["step1"], "take_bytes": word,
                "last_take_bytes": self.size * part[2] - (fields["count0"] - 1) * word}, (read,), (write,),
                self.emitter.layer_index)

    def _accumulate(self, rows: int, count: int, part: tuple[int, int], weights: int,
                    reads: tuple[Access, ...], sums: Sums, walks: tuple[Walk, Walk]) -> None:
        """Emit the array operations of one part of a tile; the accumulators stay open between them."""
        last = part[1] == self.in_blocks
        const = self.last_const_base if last and len(self.parts) > 1 else self.const_base
        row, column = walks
        # (input word, step per row, step per block, weights, what is read, what that is)
        passes: list[tuple[int, int, int, int, tuple[Access, ...], tuple[Walk | int, Walk | int]]] = [
            (rows, 1, count, weights, reads, walks)]
        passes += [(self.words_base, 0, 0, weights, (self.words, reads[1]), (zero, column)) for zero in self.negated[0]]
        passes += [(rows, 1, count, const, (reads[0], self.const), (row, zero)) for zero in self.negated[1]]
        number = self.parts.index(part) * len(passes)
        depth = min(self.depth, part[1] * self.config.block) - part[0] * self.config.block
        for index, (base, col_step, block_step, weight_base, touched, (x, w)) in enumerate(passes):
            self.emitter.array({
                "mode": ArrayMode.GEMM, "acc_first": int(index == 0 and part[0] == 0),
                "acc_last": int(last and index == len(passes) - 1),
                "blocks_inner": 1, "in_base": base, "in_col_step": col_step, "in_row_step": 0,
                "kernel_block_step": signed_step(block_step), "kernel_blocks": part[1] - part[0], "row_stride": 1,
                "col_stride": 1, "kernel_row_dilation": 1, "kernel_col_dilation": 1, "in_rows": 1, "in_cols": count,
                "out_cols": count, "slots": count, "tile_slots": count, "out_blocks": 1, "kernel_rows": 1,
                "kernel_cols": 1, "weight_base": weight_base, "weight_rows": self.config.gemm_rows,
                "slices": self.config.slices}, touched, Terms(sums, number + index, x, w, depth))


def emit_matmul(emitter: Emitter, layer: MatMul, plan: LayerPlan) -> None:
    """Emit all operations of the layer."""
    _Product(emitter, layer, plan).run()
