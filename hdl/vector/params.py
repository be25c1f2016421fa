"""Parameter blocks: biases, multipliers and shifts of an output block's channels, fetched ahead of use."""

from typing import Any

from amaranth import Cat, Module, Mux, Signal, signed
from amaranth.hdl import Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from tq_hw.hdl.parts.delay import delayed
from tq_hw.hdl.parts.numbers import NUMBER_BITS
from tq_hw.hdl.signatures import ReadSignature, bank_of, granted
from tq_hw.isa.config import BANKS, Config
from tq_hw.isa.latency import READ_LATENCY_CYCLES

__all__ = ["PARAM_BUFFERS", "BlockLayout", "ParameterBlocks"]

#: A requested block: its address, and low bits of its operation's number.
BlockLayout = data.StructLayout({"address": 16, "number": NUMBER_BITS})

#: Blocks stored: the one in use, one whose last beats are in the pipeline, and the next two.
PARAM_BUFFERS = 4
_BUFFER_BITS = 2


class _Piece:
    """At most one element of a word per lane: which lane takes which element for which beat."""

    def __init__(self, config: Config, name: str, size: int, first_channel: int, count: int, first_byte: int) -> None:
        self.name = name
        lanes = config.requantize_lanes
        self.lanes = {(first_channel + i) % lanes: (first_byte + i * size, (first_channel + i) // lanes)
                      for i in range(count)}


def _pieces(config: Config) -> list[list[_Piece]]:
    """Return the pieces of each word of a block, in order."""
    words: list[list[_Piece]] = []
    for name, size in (("bias", 4), ("multiplier", 4), ("shift", 1)):
        for first in range(0, config.cols, config.word_bytes // size):
            end = min(config.cols, first + config.word_bytes // size)
            words.append([_Piece(config, name, size, channel, min(config.requantize_lanes, end - channel),
                                 (channel - first) * size)
                          for channel in range(first, end, config.requantize_lanes)])
    return words


class ParameterBlocks(wiring.Component):
    """Fetch parameter blocks in the order of the requests, and store PARAM_BUFFERS of them.

    One word per cycle if its elements go to different lanes, otherwise one cycle per beat that it serves.

    Members
    -------
    i : In(stream of BlockLayout)
    port : Out(ReadSignature)
    number : Out, of the operation whose word was granted in the cycle before
    ready : Out(1), a block is complete and not taken; take : In(1), strobe while ready
    release : In(1), strobe: the oldest taken block is not read any more
    buffer : In(2), for each of the three: block (counted modulo PARAM_BUFFERS) and beat of the words read
    bias, multiplier, shift : Out(lanes of signed 32, 32, 6), one cycle after their address
    """

    i: stream.Interface
    port: Any
    number: Signal
    ready: Signal
    take: Signal
    release: Signal
    bias_at: Signal
    multiplier_at: Signal
    shift_at: Signal
    bias: Any
    multiplier: Any
    shift: Any

    def __init__(self, config: Config) -> None:
        self._config = config
        lanes = config.requantize_lanes
        self._beat_bits = ceil_log2(config.beats_per_acc_word)
        at = _BUFFER_BITS + self._beat_bits
        super().__init__({
            "i": In(stream.Signature(BlockLayout)), "port": Out(ReadSignature(config)), "number": Out(NUMBER_BITS),
            "ready": Out(1), "take": In(1),
            "release": In(1), "bias_at": In(at), "multiplier_at": In(at), "shift_at": In(at),
            "bias": Out(data.ArrayLayout(signed(32), lanes)), "multiplier": Out(data.ArrayLayout(signed(32), lanes)),
            "shift": Out(data.ArrayLayout(signed(6), lanes)),
        })

    def elaborate(self, platform: object) -> Module:
        """Request the words of a block; write their pieces when they arrive."""
        m = Module()
        pieces = _pieces(self._config)
        most = max(len(word) for word in pieces)

        held = Signal(range(PARAM_BUFFERS + 1))
        complete = Signal(range(PARAM_BUFFERS + 1))
        fetching = Signal()
        address = Signal(16)
        word = Signal(range(len(pieces)))
        piece = Signal(range(most))
        buffer = Signal(_BUFFER_BITS, init=PARAM_BUFFERS - 1)
        # The request, `fetching & (piece == 0)`, and the bank of `address`, in registers.
        asking, bank = Signal(), Signal(BANKS)
        # One address is buffered, so that blocks follow each other without a gap.
        waiting, waiting_valid = Signal(BlockLayout), Signal()
        whose = Signal(NUMBER_BITS)
        m.d.sync += self.number.eq(whose)
        m.d.comb += [
            self.i.ready.eq(~waiting_valid), self.port.en.eq(asking), self.port.addr.eq(address),
            self.port.wants.eq(bank & asking.replicate(BANKS)),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [waiting.eq(self.i.payload), waiting_valid.eq(1)]

        last_piece = Signal()
        with m.Switch(word):
            for number, parts in enumerate(pieces):
                with m.Case(number):
                    m.d.comb += last_piece.eq(piece == len(parts) - 1)
        goes = Signal()
        m.d.comb += goes.eq(fetching & granted(self.port))
        ends = goes & last_piece & (word == len(pieces) - 1)
        with m.If(goes):
            m.d.sync += [piece.eq(piece + 1), asking.eq(0)]
            with m.If(last_piece):
                m.d.sync += [piece.eq(0), asking.eq(word != len(pieces) - 1)]
        start = Signal()
        begins = waiting_valid & (held != PARAM_BUFFERS)
        m.d.comb += start.eq(begins & (ends | ~fetching))
        # The grant is late in its cycle and only enables the registers.
        with m.If(goes & last_piece | ~fetching):
            m.d.sync += [word.eq(word + 1), address.eq(address + 1), bank.eq(bank.rotate_left(1))]
            with m.If(begins & (~fetching | (word == len(pieces) - 1))):
                m.d.sync += [word.eq(0), address.eq(waiting.address), bank.eq(bank_of(1, waiting.address)),
                             whose.eq(waiting.number)]
        # A block's start depends on the late grant, so the block counters are updated in the cycle after.
        started = delayed(m, start, 1, "started", control=True)
        with m.If(started):
            m.d.sync += waiting_valid.eq(0)
        with m.If(start):
            m.d.sync += [fetching.eq(1), buffer.eq(buffer + 1), asking.eq(1)]
        with m.Elif(ends):
            m.d.sync += fetching.eq(0)

        # The word arrives, is registered, and its piece is written: READ_LATENCY_CYCLES + 1 cycles after `goes`.
        at = READ_LATENCY_CYCLES + 1
        arrived = delayed(m, self.port.en & granted(self.port), READ_LATENCY_CYCLES, "arrived", control=True)
        kept = Signal.like(self.port.data, reset_less=True)
        with m.If(arrived):
            m.d.sync += kept.eq(self.port.data)
        written = delayed(m, goes, at, "written", control=True)
        self._memories(m, pieces, kept, written, delayed(m, Cat(word, piece), at, "word_piece"),
                       delayed(m, buffer, at, "buffer"), word.shape().width)

        done = delayed(m, ends, at + 1, "done", control=True)
        m.d.sync += [held.eq(held + started - self.release), complete.eq(complete + done - self.take)]
        m.d.comb += self.ready.eq(complete != 0)
        return m

    def _memories(self, m: Module, pieces: list[list[_Piece]], kept: Value, written: Value, at: Any, buffer: Any,
                  word_bits: int) -> None:
        """Build the memories of each lane: small RAMs for PARAM_BUFFERS blocks."""
        depth = PARAM_BUFFERS << self._beat_bits
        for name, bits in (("bias", 32), ("multiplier", 32), ("shift", 6)):
            for lane in range(self._config.requantize_lanes):
                memory: Any = Memory(shape=signed(bits), depth=depth, init=[], attrs={"ram_style": "distributed"})
                m.submodules[f"{name}{lane}"] = memory
                read, write = memory.read_port(), memory.write_port()
                beat = Signal(self._beat_bits, name=f"{name}_beat{lane}")
                places = [(word | number << word_bits, *piece.lanes[lane]) for word, parts in enumerate(pieces)
                          for number, piece in enumerate(parts) if piece.name == name and lane in piece.lanes]
                # Data that is not written is arbitrary. Mostly a lane's elements have one position in their words.
                first = places[0][1]
                value: Value = kept[8 * first:8 * first + bits]
                with m.Switch(at):
                    for pattern, _, of_beat in places:
                        with m.Case(pattern):
                            m.d.comb += [write.en.eq(written), beat.eq(of_beat)]
                for byte in sorted({byte for _, byte, _ in places} - {first}):
                    there = Cat(at == pattern for pattern, of_place, _ in places if of_place == byte).any()
                    value = Mux(there, kept[8 * byte:8 * byte + bits], value)
                m.d.comb += [
                    write.addr.eq(Cat(beat, buffer)), write.data.eq(value),
                    read.addr.eq(getattr(self, f"{name}_at")), getattr(self, name)[lane].eq(read.data),
                ]
