"""Packs results into scratchpad words."""

from typing import Any

from amaranth import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from tq_hw.hdl.parts.choose import choose_later, is_one_of
from tq_hw.hdl.parts.delay import delayed
from tq_hw.hdl.parts.numbers import NUMBER_BITS
from tq_hw.hdl.signatures import WriteSignature
from tq_hw.hdl.vector.beats import Beats, element_bytes
from tq_hw.isa.config import Config

__all__ = ["OutputLayout", "OutputWriter"]


class OutputLayout(data.StructLayout):
    """The destination of a beat's results.

    Members
    -------
    type : element type, 0 to 2; address : of the beat's first word
    position : beat of the slot; first, last : first and last beat written to this slot
    number : low bits of the operation's number
    """

    def __init__(self, config: Config) -> None:
        super().__init__({"type": 2, "address": 16, "position": range(config.beats_per_word), "first": 1, "last": 1,
                          "number": NUMBER_BITS})


class OutputWriter(wiring.Component):
    """Pack beats into words, and write each word once, with a mask of the bytes that its beats cover.

    A beat of several words is written in as many cycles, during which its results must stay on `x`.
    Timing: the first word is at the port two cycles after `valid`; it must be granted at once.

    Members
    -------
    valid : In(1), a beat to write; beat : In(OutputLayout), with it; x : In(lanes int32), one cycle later
    port : Out(WriteSignature); number : Out, of the operation whose word was written in the cycle before
    """

    valid: Signal
    beat: Any
    x: Any
    port: Any
    number: Signal

    def __init__(self, config: Config) -> None:
        self._config = config
        super().__init__({
            "valid": In(1), "beat": In(OutputLayout(config)),
            "x": In(data.ArrayLayout(signed(32), config.requantize_lanes)), "port": Out(WriteSignature(config)),
            "number": Out(NUMBER_BITS),
        })

    def elaborate(self, platform: object) -> Module:
        """Place the step's bytes in the word; write it when no later beat has bytes for it."""
        m = Module()
        config = self._config
        beats = Beats(config)
        held: Any = Signal(OutputLayout(config), reset_less=True)
        beat: Any = Signal(OutputLayout(config), reset_less=True)
        left = Signal(range(beats.max_steps))
        step_held = Signal(range(beats.max_steps))
        step = Signal(range(beats.max_steps))
        active = Signal()
        m.d.comb += [
            beat.eq(Mux(self.valid, self.beat, held)), step.eq(Mux(self.valid, 0, step_held)),
            active.eq(self.valid | (left != 0)),
        ]
        words = beats.look_up(beat.type, beat.position, beats.words)
        shares = beats.look_up(beat.type, beat.position, lambda c, p: int(beats.shares_word(c, p)))
        shared = beats.look_up(beat.type, beat.position, lambda c, p: int(
            p + 1 < beats.positions and beats.shares_word(c, p + 1)))
        m.d.sync += [held.eq(beat), step_held.eq(step + 1), self.number.eq(delayed(m, beat.number, 2, "number"))]
        with m.If(self.valid):
            m.d.sync += left.eq(words - 1)
        with m.Elif(left != 0):
            m.d.sync += left.eq(left - 1)
        last_step = Mux(self.valid, words == 1, left == 1)

        # The destination is known one cycle before the results.
        opens, closes = Signal(), Signal()
        address = Signal(16, reset_less=True)
        where = Cat(beat.type, beat.position, step)
        m.d.sync += [
            opens.eq(active & ((step != 0) | beat.first | ~shares)),
            closes.eq(active & (~last_step | beat.last | ~shared)), address.eq(beat.address + step),
            self.port.en.eq(closes), self.port.addr.eq(address),
        ]
        results = self.x.as_value()
        bytes_of = {number: results[8 * number:8 * number + 8] for number in range(len(results) // 8)}
        for byte in range(config.word_bytes):
            places = self._places(beats, byte)
            lays = Signal(name=f"lays{byte}")
            m.d.sync += lays.eq(active & is_one_of(where, list(places)))
            result = choose_later(m, where, places, bytes_of, f"place{byte}")
            with m.If(opens):
                m.d.sync += self.port.mask[byte].eq(0)
            with m.If(lays):
                m.d.sync += [self.port.mask[byte].eq(1), self.port.data[8 * byte:8 * byte + 8].eq(result)]
        return m

    @staticmethod
    def _places(beats: Beats, byte: int) -> dict[int, int]:
        """Return the byte of the results that goes to a byte of the word, by pattern of type, position and step."""
        position_bits = ceil_log2(beats.positions)
        return {kind | position << 2 | step << 2 + position_bits: 4 * lane + byte - first
                for kind in range(3) for position, step, lane, first in beats.places(kind)
                if first <= byte < first + element_bytes(kind)}
