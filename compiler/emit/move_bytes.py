"""Copies that transpose bytes: consecutive bytes of the source are apart in the target, and vice versa.

The load unit reads words of consecutive bytes of the source. A convolution on the array with weights 0 and 1 turns a
few words into the same number of words, each with a few bytes in the target's order. The store unit takes these bytes
from each word. Short copies do not use the array; the store unit then takes single bytes.
"""

import itertools
from dataclasses import dataclass

import numpy as np

from tq_hw.compiler.emit.emitter import Emitter
from tq_hw.compiler.emit.image import gemm_weights
from tq_hw.compiler.ir.meaning import Code
from tq_hw.compiler.ir.staged import Copy
from tq_hw.compiler.ir.value import Value
from tq_hw.compiler.plan.layout import signed_step
from tq_hw.compiler.plan.transposes import ARRAY_BYTES
from tq_hw.compiler.programs.words import program_fields
from tq_hw.compiler.stream.stream import Access
from tq_hw.isa.config import Config
from tq_hw.isa.layout import ArrayMode, Unit
from tq_hw.isa.sizes import ceil_div
from tq_hw.isa.uop import Alu, Destination, Source

__all__ = ["ByteTranspose", "byte_transpose", "emit_byte_transpose"]

#: Least bytes of a run in the target, and bytes of the copy.
_LEAST_RUN, _LEAST_BYTES = 16, 128
#: Source words of a tile.
_TILE_WORDS = 256

Dim = tuple[int, int, int]


@dataclass(frozen=True)
class ByteTranspose:
    """A copy as a loop `near` in the source, a loop `far` in the source but near in the target, and outer loops.

    Members
    -------
    near, far, outer : (count, source stride, target stride)
    """

    near: Dim
    far: Dim
    outer: tuple[Dim, ...]


def byte_transpose(dims: list[Dim]) -> ByteTranspose | None:
    """Return a copy as a transpose of bytes, or None if copying run by run is better."""
    if any(d[1] == 1 == d[2] for d in dims):
        return None
    near = max((d for d in dims if d[1] == 1), default=None)
    far = max((d for d in dims if d[2] == 1), default=None)
    if near is None or far is None or far[0] < _LEAST_RUN or near[0] * far[0] < _LEAST_BYTES or far[1] < 0:
        return None
    return ByteTranspose(near, far, tuple(d for d in dims if d is not near and d is not far))


def _weights(take: int, config: Config) -> bytes:
    """Weights with which word kx of `take` gives bytes kx, kx + take, ... of the output words."""
    apart = config.block // take
    weights = np.zeros((ceil_div(config.block, apart) * config.block, 1, take, config.block), np.int8)
    for channel, kx in itertools.product(range(config.block), range(take)):
        weights[channel // apart * config.block + channel % apart * take + kx, 0, kx, channel] = 1
    return gemm_weights(weights, config).tobytes()


@dataclass
class _Transposer:
    emitter: Emitter
    source: Value
    target: Value
    transpose: ByteTranspose
    base: int
    words: int
    take: int
    number: int = 0

    def __post_init__(self) -> None:
        config = self.config = self.emitter.config
        #: Channels of one output word.
        self.apart = config.block // self.take
        self.parts = ceil_div(config.block, self.apart)
        #: Words for each source word of a tile, in both buffers of source and result.
        per_word = 2 if self.take == 1 else 4
        room = min(_TILE_WORDS + self.take, self.words // per_word) - self.take
        far = ceil_div(self.transpose.far[0], self.take) * self.take
        self.columns = max(self.take, min(far, room) // self.take * self.take)
        self.blocks = max(1, min(ceil_div(self.transpose.near[0], config.block), room // (self.columns + self.take)))
        #: Words between neighbouring columns of the source, and of one buffer.
        self.apart_words = self.columns // self.take | 1
        self.source_words = self.blocks * self.take * self.apart_words
        self.pitch = self.source_words * per_word // 2

    def run(self, copy: Copy, weights: tuple[int, Access] | None, code: Code | None) -> None:
        """Emit all tiles."""
        block = self.config.block
        near, far = self.transpose.near, self.transpose.far
        for index in itertools.product(*(range(d[0]) for d in self.transpose.outer)):
            source = copy.source_offset + sum(i * d[1] for i, d in zip(index, self.transpose.outer, strict=True))
            target = copy.target_offset + sum(i * d[2] for i, d in zip(index, self.transpose.outer, strict=True))
            for first in range(0, near[0], self.blocks * block):
                channels = min(self.blocks * block, near[0] - first)
                for left in range(0, far[0], self.columns):
                    columns = min(self.columns, far[0] - left)
                    self._tile(source + first + left * far[1], target + first * near[2] + left, channels, columns,
                               weights, code)

    def _tile(self, source: int, target: int, channels: int, columns: int, weights: tuple[int, Access] | None,
              code: Code | None) -> None:
        base = self.base + self.number % 2 * self.pitch
        self.number += 1
        blocks = ceil_div(channels, self.config.block)
        read = self._load(source, channels, columns, base)
        if weights is None or code is None:
            self._store(target, channels, columns, base, self.apart_words, read)
            return
        slots = ceil_div(columns, self.take)
        out = base + self.source_words
        words = blocks * self.parts * slots
        written = Access("pad", out, out + words, self.emitter.new_buffer(self.target.name), (0, 1), (0, 1))
        self._array(base, blocks, columns, out, slots, weights, code, read, written)
        self._store(target, channels, columns, out, slots, written)

    def _load(self, offset: int, channels: int, columns: int, base: int) -> Access:
        """Load columns: the first of each group of `take`, then the second of each group, ...

        The array then reads consecutive words, which alternate between banks.
        """
        config, far = self.config, self.transpose.far
        blocks = ceil_div(channels, config.block)
        region, start = self.emitter.memory_of(self.source)
        last = channels - (blocks - 1) * config.block
        whole, rest = divmod(columns, self.take)
        buffer = self.emitter.new_buffer(self.source.name)
        access = Access("pad", base, base + self.source_words, buffer, (0, 1), (0, 1))
        for first, groups, count in ((0, whole, self.take), (whole, 1, rest)):
            if not groups or not count:
                continue
            low = start + offset + first * self.take * far[1]
            fields = {"region": region, "memory_offset_bytes": low, "destination": base + first,
                      "flip": int(self.source.flip), "emit_bytes": config.block, "advance_bytes": config.block,
                      "last_emit_bytes": last, "last_advance_bytes": last, "count0": blocks,
                      "step0": self.take * self.apart_words}
            if far[1] == channels:
                fields |= {"run_bytes": count * channels, "count1": count, "step1": self.apart_words, "count2": groups,
                           "step2": 1, "stride2_bytes": count * channels, "count3": 1}
            else:
                fields |= {"run_bytes": channels, "count1": 1, "count2": count, "step2": self.apart_words,
                           "stride2_bytes": far[1], "count3": groups, "step3": 1, "stride3_bytes": count * far[1]}
            end = low + (groups * count - 1) * far[1] + channels
            self.emitter.load(fields, (Access(f"region{region}", low, end),), (access,))
        return access

    def _array(self, base: int, blocks: int, columns: int, out: int, slots: int, weights: tuple[int, Access],
              code: Code, read: Access, written: Access) -> None:
        """Compute `slots` words of each part of each source block; blocks are rows."""
        config = self.config
        tile = min(blocks * slots, config.acc_words)
        out_blocks = self.parts * config.sub_blocks
        self.emitter.array({
            "mode": ArrayMode.GEMM, "acc_first": 1, "acc_last": 1, "blocks_inner": 1, "in_base": base,
            "in_col_step": 1, "in_row_step": self.take * self.apart_words, "kernel_col_step": self.apart_words,
            "kernel_blocks": 1, "row_stride": 1,
            "col_stride": self.take, "kernel_row_dilation": 1, "kernel_col_dilation": 1, "in_rows": blocks,
            "in_cols": columns, "out_cols": slots, "slots": blocks * slots, "tile_slots": tile,
            "out_blocks": out_blocks, "kernel_rows": 1, "kernel_cols": self.take, "weight_base": weights[0],
            "weight_block_step": self.take * config.slices * config.gemm_rows, "weight_rows": config.gemm_rows,
            "slices": config.slices}, (read, weights[1]))
        self.emitter.vector({
            "use_acc": 1, "blocks_inner": 1, "out_base": out, "out_block_step": slots, "out_col_step": 1,
            "out_row_step": self.parts * slots, "cols": slots, "out_blocks": out_blocks, "slots": blocks * slots,
            "tile_slots": tile, "chunk_slots": tile,
            **program_fields(code)}, (), (written,))

    def _store(self, offset: int, channels: int, columns: int, base: int, pitch: int, read: Access) -> None:
        """Store the bytes of every `apart`-th channel by one operation; a channel's words are `pitch` words apart."""
        near = self.transpose.near
        region, start = self.emitter.memory_of(self.target)
        words = ceil_div(columns, self.take)
        for lane in range(min(self.apart, channels)):
            count = ceil_div(channels - lane, self.apart)
            first, end = start + offset + lane * near[2], (count - 1) * self.apart * near[2]
            low = min(first, first + end)
            self.emitter.stream.add(Unit.STORE, {
                "region": region, "memory_offset_bytes": first, "flip": int(self.target.flip), "source": base,
                "lane": lane * self.take, "take_bytes": self.take, "last_take_bytes": columns - (words - 1) * self.take,
                "count0": words,
                "step0": 1, "count1": 1, "count2": count, "step2": signed_step(pitch),
                "stride2_bytes": self.apart * near[2], "count3": 1}, (read,),
                (Access(f"region{region}", low, low + abs(end) + columns),), self.emitter.layer_index)


def emit_byte_transpose(emitter: Emitter, source: Value, target: Value, copy: Copy, found: ByteTranspose, base: int,
                words: int) -> None:
    """Emit a copy through `words` scratchpad words from `base` on."""
    config = emitter.config
    take = 4 if config.block >= 16 else 2
    few = found.near[0] * found.far[0] < ARRAY_BYTES or config.block % take or config.block < 2 * take
    weights = b"" if few else _weights(take, config)
    if not weights or not emitter.holds(len(weights) // config.cols):
        _Transposer(emitter, source, target, found, base, words, 1).run(copy, None, None)
        return
    code = emitter.program([{"a_source": Source.ACC_OR_BIAS, "alu": Alu.PASS, "destination": Destination.OUTPUT}])
    with emitter.scope():
        placed = emitter.constant(weights, config.cols)
        _Transposer(emitter, source, target, found, base, words, take).run(copy, placed, code)
