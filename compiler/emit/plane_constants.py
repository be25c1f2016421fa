"""Constants of a layer on byte planes: weights, parameters of both programs, a stream of multipliers."""

from dataclasses import dataclass

import numpy as np

from tq_hw.compiler.emit.emitter import Emitter
from tq_hw.compiler.emit.image import parameter_blocks
from tq_hw.compiler.emit.mac_weights import Packed
from tq_hw.compiler.ir.sixteen import PlaneMac
from tq_hw.compiler.plan.layout import block_count
from tq_hw.compiler.programs.sixteen import packed_multipliers, wide_parameters
from tq_hw.compiler.stream.stream import Access
from tq_hw.isa.sizes import ceil_div

__all__ = ["Placed", "PlaneConstants"]


@dataclass(frozen=True)
class Placed:
    """Addresses of the constants of some output blocks, and the accesses that read them.

    Members
    -------
    weights : first word, None if they are loaded in parts
    parameters : first word of each program's parameters
    multipliers : first word of the second program's multipliers
    """

    weights: int | None
    parameters: tuple[int, int]
    multipliers: int
    reads: tuple[Access, ...]


class PlaneConstants:
    """All constants of a layer, by output block or by words of channels.

    Members
    -------
    has_stream : whether the second program has a stream of multipliers, or of their lower words
    parameters : bytes of each output block, for each program
    """

    def __init__(self, emitter: Emitter, layer: PlaneMac, packed: Packed) -> None:
        config = emitter.config
        self._emitter, self._packed = emitter, packed
        count = layer.high.output.shape[3]
        scales = layer.multiplier, layer.shift
        self.has_stream, is_wide = layer.rounding in ("wide", "double"), layer.rounding == "wide"
        zeros = np.zeros(count, np.int64)
        made = [parameter_blocks(layer.high.bias, zeros, zeros, config),
                parameter_blocks(layer.low.bias, *(wide_parameters(*scales) if is_wide else scales), config)]
        size = config.param_words * config.word_bytes
        self.parameters = [tuple(each[at:at + size] for at in range(0, len(each), size)) for each in made]
        padded = np.zeros(block_count(count, config) * config.block, "<i4")
        if self.has_stream:
            padded[:count] = packed_multipliers(*scales) if layer.low_words is None else layer.low_words
        self._multipliers = padded.reshape(-1, config.block)
        self._slot_words = ceil_div(4 * config.block, config.word_bytes)

    def pieces(self, blocks: int) -> tuple[int, ...]:
        """Words of each piece of the constants of `blocks` words of channels."""
        config = self._emitter.config
        sub = config.sub_blocks * blocks
        return (self._packed.words() * sub, config.param_words * sub, config.param_words * sub,
                self._slot_words * blocks)

    def multiplier_bytes(self, low: int, high: int) -> bytes:
        """Multipliers of words of channels, as int32."""
        size = self._slot_words * self._emitter.config.word_bytes
        return b"".join(row.tobytes().ljust(size, b"\0") for row in self._multipliers[low:high])

    def place(self, blocks: tuple[int, int], *, splits: bool) -> Placed:
        """Load the constants of some words of channels; with `splits` without weights."""
        config, emitter = self._emitter.config, self._emitter
        first, last = (min(block * config.sub_blocks, len(self.parameters[0])) for block in blocks)
        weights, reads, bases = None, [], []
        if not splits:
            weights, access = emitter.constant(self._packed.part((first, last), None), config.cols)
            reads.append(access)
        for each in self.parameters:
            base, access = emitter.constant(b"".join(each[first:last]), config.word_bytes)
            bases.append(base)
            reads.append(access)
        base = 0
        if self.has_stream:
            base, access = emitter.constant(self.multiplier_bytes(*blocks), config.word_bytes)
            reads.append(access)
        return Placed(weights, (bases[0], bases[1]), base, tuple(reads))
