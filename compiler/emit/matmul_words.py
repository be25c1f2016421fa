"""Scratchpad words of a product of two run-time matrices, and their loads and stores."""

from dataclasses import dataclass

from tq_hw.compiler.emit.emitter import Emitter
from tq_hw.compiler.emit.matmul_programs import negated, plain_zeros, zeros
from tq_hw.compiler.ir.staged import MatMul
from tq_hw.compiler.ir.value import ELEMENT_BYTES, Value
from tq_hw.compiler.plan.layout import View, block_count, signed_step
from tq_hw.compiler.plan.places import LayerPlan
from tq_hw.compiler.stream.stream import Access
from tq_hw.isa.layout import Unit
from tq_hw.isa.sizes import ceil_div

__all__ = ["MatMulWords"]

#: Most rows of matrices whose depth is loaded in parts.
_PART_ROWS = 64
#: Largest share of the words for a weight buffer of more than one output block.
_WEIGHT_SHARE = 8
#: Least rows of a tile for which rows and results have two buffers.
_TWICE_ROWS = 64


def even_size(count: int, limit: int) -> int:
    """Size of the fewest, nearly equal parts of at most `limit`."""
    return ceil_div(count, ceil_div(count, limit))


@dataclass
class MatMulWords:
    """Words of a layer: zero-point words, weights of a zero point, two weight buffers, rows, results.

    Members
    -------
    rows : rows of the first matrix that are loaded at a time
    parts : input blocks of each part of the depth; more than one part if the whole depth does not fit
    group : output blocks whose weights are loaded together
    buffers : number of buffers for rows and results, if the depth is whole
    """

    emitter: Emitter
    layer: MatMul
    plan: LayerPlan

    def __post_init__(self) -> None:
        """Allocate the words."""
        config = self.config = self.emitter.config
        self.depth, self.cols = self.layer.inputs[0].shape[3], self.layer.inputs[1].shape[3]
        self.in_blocks = block_count(self.depth, config)
        self.block_words = config.slices * config.gemm_rows
        self.negated = [negated(z) for z in self.layer.zero_points]
        self.out_blocks = block_count(self.cols, config)
        #: Bytes of an output element, and words of an output slot: a block may take several.
        self.size = ELEMENT_BYTES[self.layer.out_type]
        self.wide = ceil_div(self.size * config.block, config.word_bytes)
        self.added = len(self.layer.inputs) > 2
        out_words = self.out_blocks * self.wide * (2 if self.added else 1)
        left, constant = self.plan.out_words - 4, 1 if self.negated[1] else 0
        block_weights = self.in_blocks * self.block_words
        self.group = even_size(ceil_div(self.cols, config.cols), max(1, left // (_WEIGHT_SHARE * block_weights)))
        weights = (2 * self.group + constant) * block_weights
        self.zeros = zeros(self.layer, config)
        limit = min(self.layer.lhs_rows, self.zeros.tile * self.zeros.tiles)
        self.parts, self.buffers = [(0, self.in_blocks)], 1
        self.rows = max(1, min(limit, (left - weights) // (self.in_blocks + out_words)))
        twice = (left - weights) // (2 * (self.in_blocks + out_words))
        if twice >= min(limit, _TWICE_ROWS) and len(self.layer.pairs) * self.layer.lhs_rows > limit:
            self.rows, self.buffers = min(limit, twice), 2
        self.rows = even_size(self.layer.lhs_rows, self.rows)
        if weights + self.rows * (self.in_blocks + out_words) > left:
            self._cut(left - constant * self.block_words, 2 + constant, out_words)
        most = max(high - low for low, high in self.parts)
        block_weights = most * self.block_words
        self.weight_words = self.group * block_weights
        self.words_base = self.plan.out_bases[0]
        self.const_base = self.words_base + 2
        #: The last block of the depth, whose last rows may be missing, has separate zero-point weights.
        self.last_const_base = self.const_base + constant * block_weights
        self.weight_base = self.last_const_base + (constant * self.block_words if len(self.parts) > 1 else 0)
        self.rows_base = self.weight_base + 2 * self.weight_words
        self.row_words = most * self.rows
        self.out_words = self.rows * out_words
        self.out_base = self.rows_base + (2 if len(self.parts) > 1 else self.buffers) * self.row_words
        self.words = Access("pad", self.words_base, self.words_base + 1)
        self.const = Access("pad", self.const_base, self.weight_base)
        self.weights_loaded = self.rows_loaded = 0

    def _cut(self, left: int, buffers: int, out_words: int) -> None:
        """Cut the depth into parts of whole blocks, and a last block; rows and weights of a part have two buffers."""
        self.zeros, self.buffers, self.group = plain_zeros(self.config), 1, 1
        weights = buffers * self.block_words
        # At most half of the words are for rows and their results.
        self.rows = max(1, min(self.layer.lhs_rows, self.config.acc_words, _PART_ROWS,
                               (left - 2 * weights) // (2 * (out_words + 2))))
        size = (left - self.rows * out_words) // (weights + 2 * self.rows)
        whole = self.in_blocks - 1
        self.parts = [(low, min(low + size, whole)) for low in range(0, whole, size)] + [(whole, self.in_blocks)]

    def fill(self, base: int, words: int, value: int, access: Access) -> None:
        """Fill words with a byte."""
        word = self.config.word_bytes
        self.emitter.load({"run_bytes": 0, "fill": value & 0xFF, "destination": base, "emit_bytes": word,
                           "advance_bytes": 0, "last_emit_bytes": word, "count0": words, "step0": 1, "count1": 1,
                           "count2": 1, "count3": 1}, (), (access,))

    def _pieces(self, part: tuple[int, int]) -> list[tuple[int, int, int]]:
        """(first depth, depth, input blocks) of some blocks: the whole blocks, and the rest."""
        block, (low, high) = self.config.block, part
        whole = min(high, self.depth // block)
        pieces = [(low * block, block, whole - low)] if whole > low else []
        return pieces + ([(whole * block, self.depth - whole * block, 1)] if high > whole else [])

    def constant_weights(self, base: int, part: tuple[int, int], value: int) -> None:
        """Write weights of `value` for every existing row, 0 for the others."""
        word = self.config.word_bytes
        self.fill(base, (part[1] - part[0]) * self.block_words, 0, self.const)
        for first, depth, blocks in self._pieces(part):
            self.emitter.load({
                "run_bytes": 0, "fill": value & 0xFF, "emit_bytes": word, "advance_bytes": 0, "last_emit_bytes": word,
                "destination": base + (first // self.config.block - part[0]) * self.block_words, "count0": depth,
                "step0": 1, "count1": blocks, "step1": self.block_words, "count2": 1, "count3": 1}, (), (self.const,))

    def load_weights(self, matrix: int, o: int, part: tuple[int, int]) -> tuple[int, Access]:
        """Return the address of `cols` columns of some blocks of the second matrix; a group of them loads at once."""
        number = o % self.group
        if not number:
            self._load_group(matrix, o, part)
        words = (part[1] - part[0]) * self.block_words
        base = self.weight_base + (self.weights_loaded - 1) % 2 * self.weight_words + number * words
        return base, Access("pad", base, base + words)

    def _load_group(self, matrix: int, o: int, part: tuple[int, int]) -> None:
        """Load the columns of some output blocks into a weight buffer; words of rows that do not exist are 0."""
        config, value, words = self.config, self.layer.inputs[1], (part[1] - part[0]) * self.block_words
        base = self.weight_base + self.weights_loaded % 2 * self.weight_words
        low, high = o * config.cols, min((o + self.group) * config.cols, self.cols)
        count = ceil_div(high - low, config.cols)
        access = Access("pad", base, base + count * words)
        gaps = self.block_words != config.block or (part[1] == self.in_blocks and self.depth % config.block)
        # A buffer of a whole matrix is loaded once.
        if gaps and (len(self.parts) > 1 or self.weights_loaded < 2):
            self.fill(base, self.group * words, 0, Access("pad", base, base + self.group * words))
        self.weights_loaded += 1
        region, offset = self.emitter.memory_of(value)
        place = value.place
        start = offset + matrix * place.row_bytes
        for first, depth, blocks in self._pieces(part):
            self.emitter.load({
                "region": region, "memory_offset_bytes": start + first * place.pixel_bytes + low,
                "run_bytes": high - low, "flip": int(value.flip),
                "destination": base + (first // config.block - part[0]) * self.block_words,
                "emit_bytes": config.cols, "advance_bytes": config.cols, "last_emit_bytes": config.cols,
                "last_advance_bytes": config.cols, "count0": count, "step0": words, "count1": 1, "count2": depth,
                "step2": 1, "stride2_bytes": place.pixel_bytes, "count3": blocks, "step3": self.block_words,
                "stride3_bytes": config.block * place.pixel_bytes},
                (Access(f"region{region}", start, start + (self.depth - 1) * place.pixel_bytes + self.cols),),
                (access,))

    def load_rows(self, left: int, span: tuple[int, int], part: tuple[int, int]) -> View:
        """Load some blocks of rows of the first matrix into a buffer."""
        count, value = span[1] - span[0], self.layer.inputs[0]
        turn = self.rows_loaded % (2 if len(self.parts) > 1 else self.buffers)
        self.rows_loaded += 1
        view = View(self.emitter.new_buffer(value.name), self.rows_base + turn * self.row_words,
                    (part[1] - part[0]) * count, 0, count, left, part[0], span[0])
        self.emitter.load_rect(value, view, (left, left + 1), span, part)
        return view

    def _wide_parts(self) -> list[tuple[int, int, int]]:
        """(first block, blocks, elements): the whole blocks, and the rest."""
        whole, left = divmod(self.cols, self.config.block)
        return ([(0, whole, self.config.block)] if whole else []) + ([(whole, 1, left)] if left else [])

    def _wide_loops(self, value: Value, number: int, span: tuple[int, int], part: tuple[int, int, int]) -> tuple[
            dict[str, int], Access]:
        """Memory and loop fields that loads and stores of int16 or int32 rows share."""
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

    def load_added(self, number: int, span: tuple[int, int], base: int) -> tuple[Access, ...]:
        """Load the addend of some rows of product `number`."""
        value, word = self.layer.inputs[2], self.config.word_bytes
        access = Access("pad", base, base + (span[1] - span[0]) * self.out_blocks * self.wide)
        for part in self._wide_parts():
            fields, read = self._wide_loops(value, number, span, part)
            last = 2 * part[2] - (fields["count0"] - 1) * word
            self.emitter.load(fields | {
                "run_bytes": 2 * part[1] * part[2], "emit_bytes": word, "advance_bytes": word, "last_emit_bytes": last,
                "last_advance_bytes": last, "destination": base + part[0] * fields["step1"]}, (read,), (access,))
        return (access,)

    def store_wide(self, number: int, span: tuple[int, int], base: int, read: Access) -> None:
        """Store some rows of product `number` whose elements are int16 or int32."""
        word = self.config.word_bytes
        for part in self._wide_parts():
            fields, write = self._wide_loops(self.layer.output, number, span, part)
            self.emitter.stream.add(Unit.STORE, fields | {
                "source": base + part[0] * fields["step1"], "take_bytes": word,
                "last_take_bytes": self.size * part[2] - (fields["count0"] - 1) * word}, (read,), (write,),
                self.emitter.layer_index)
