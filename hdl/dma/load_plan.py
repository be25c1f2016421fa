"""The plan of a load operation: from its fields, the address of each word and the bytes of the runs in it.

Terms: `at` is the position of a word's lane 0, in bytes from the first beat of its run (negative within the fill bytes
before it); `left` is the number of bytes from lane 0 to the end of the run, `lead` the number of fill bytes before it.
"""

from typing import Any

from amaranth import Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from tq_hw.hdl.dma.runs import RunGenerator
from tq_hw.hdl.dma.word_walk import WordWalk
from tq_hw.hdl.parts.queues import Queue
from tq_hw.isa.config import Config

__all__ = ["LoadPlan", "PlanLayout", "WordLayout", "lane_bits", "ring_size", "window_beats", "word_beats"]

#: Bits for 0..32, the bytes of a word.
_BYTES_BITS = 6
_RUN_BITS = 24
_PAD_BITS = 16
#: Capacity of the queue of planned words.
_WAITING_WORDS = 8


def lane_bits(config: Config) -> int:
    """Bits of a byte's position in a beat."""
    return ceil_log2(config.bus_bytes)


def window_beats(config: Config) -> int:
    """Beats of the realigning window: a power of two, enough for a word at any position in a beat."""
    return max(2, 1 << ceil_log2(word_beats(config)))


def word_beats(config: Config) -> int:
    """Most beats that a word touches."""
    return (config.word_bytes + config.bus_bytes - 2) // config.bus_bytes + 1


def ring_size(config: Config) -> int:
    """Bytes of a word or of a beat, whichever is more: the bytes of a word differ in their address modulo this."""
    return max(config.word_bytes, config.bus_bytes)


def coded_flag(config: Config) -> dict[str, int]:
    """Return the layout member that marks words of coded runs."""
    return {"coded": 1} if config.compressed_weights else {}


class PlanLayout(data.StructLayout):
    """Fields of an operation that the plan needs; `lane`, `stride2`, `stride3` are memory addresses modulo bus_bytes.

    Words of a coded run are planned without beats, because the decoder takes its beats.
    """

    def __init__(self, config: Config) -> None:
        lane = lane_bits(config)
        super().__init__({
            "run_bytes": _RUN_BITS, "fill": 8, "flip": 1, "pad_before_bytes": _PAD_BITS, "destination": 16,
            "emit_bytes": _BYTES_BITS, "advance_bytes": _BYTES_BITS,
            "last_emit_bytes": _BYTES_BITS, "last_advance_bytes": _BYTES_BITS,
            **{f"count{level}": 16 for level in range(4)}, **{f"step{level}": 16 for level in range(4)},
            "lane": lane, "stride2_bytes": lane, "stride3_bytes": lane, **coded_flag(config),
        })


class WordLayout(data.StructLayout):
    """One word: lanes fill_end..data_end-1 come from memory, the others are `fill`.

    `place` is the position of lane 0 in the window, `needs` the beats that must have arrived, `drops` the beats not
    needed any more; `moves`: `drops` is not 0.
    """

    def __init__(self, config: Config) -> None:
        beats = window_beats(config)
        super().__init__({
            "addr": 16, "fill_end": _BYTES_BITS, "data_end": _BYTES_BITS, "fill": 8, "flip": 1,
            "place": ceil_log2(beats * config.bus_bytes), "needs": beats.bit_length(),
            "drops": _RUN_BITS + 1 - lane_bits(config), "moves": 1, "last": 1, **coded_flag(config),
        })


class LoadPlan(wiring.Component):
    """Plan one word per cycle; about six cycles pass between two operations.

    Members
    -------
    i : In(stream of PlanLayout)
    o : Out(stream of WordLayout)
    """

    i: stream.Interface
    o: stream.Interface

    def __init__(self, config: Config) -> None:
        self._config = config
        super().__init__({
            "i": In(stream.Signature(PlanLayout(config))), "o": Out(stream.Signature(WordLayout(config)))})

    def elaborate(self, platform: object) -> Module:
        """Generate runs, then words; convert positions to beats in two stages."""
        m = Module()
        op: Any = Signal(PlanLayout(self._config), reset_less=True)
        active = Signal()
        begin = Signal()
        walk = WordWalk(op)
        walk.elaborate(m)
        run = _Run(self._config)
        runs = self._runs(m, op, run)
        word = _Word(self._config)
        self._words(m, op, run, walk, word, begin)

        m.d.comb += [self.i.ready.eq(~active), runs.start.eq(begin)]
        m.d.sync += begin.eq(self.i.valid & ~active)
        with m.If(~active):
            m.d.sync += [active.eq(self.i.valid), op.eq(self.i.payload)]
            walk.start(m, self.i.payload.destination)
        with m.Elif(word.go & walk.end1 & word.last_run):
            m.d.sync += active.eq(0)

        self._place(m, op, walk, word)
        return m

    def _runs(self, m: Module, op: Any, run: "_Run") -> RunGenerator:
        """Stage 1: the next run; return the generator."""
        config = self._config
        lanes = lane_bits(config)
        m.submodules.runs = runs = RunGenerator(lanes)
        m.d.comb += [
            runs.base.eq(op.lane), runs.stride2.eq(op.stride2_bytes), runs.stride3.eq(op.stride3_bytes),
            runs.count2.eq(op.count2), runs.count3.eq(op.count3),
        ]
        m.submodules.ahead = ahead = Queue(runs.o.payload.shape(), 2)
        wiring.connect(m, runs.o, ahead.i)
        m.d.comb += ahead.o.ready.eq(~run.valid | run.take)
        with m.If(ahead.o.ready):
            new = ahead.o.payload
            m.d.sync += [
                run.valid.eq(ahead.o.valid), run.at.eq(new.addr - op.pad_before_bytes),
                run.beats.eq(Mux(op.run_bytes == 0, 0, (new.addr + op.run_bytes + config.bus_bytes - 1) >> lanes)),
                run.last.eq(new.last), run.last2.eq(new.last2),
            ]
        return runs

    def _words(self, m: Module, op: Any, run: "_Run", walk: WordWalk, word: "_Word", begin: Signal) -> None:
        """Stage 2: the current word, which advances when stage 3 takes it."""
        beats = Signal(run.beats.shape())
        last_run2 = Signal()
        advance = Signal(_BYTES_BITS)
        spent = Signal()
        moves, begins_run = Signal(), Signal()
        at, left, lead, beyond, end1 = word.at, word.left, word.lead, word.beyond, walk.end1
        m.d.comb += [
            word.go.eq(word.valid & word.ready), moves.eq(~word.valid | word.ready),
            begins_run.eq(~word.valid | end1),
            advance.eq(Mux(walk.end0, op.last_advance_bytes, op.advance_bytes)),
            # No later word needs a byte of the run.
            spent.eq(end1 | (left <= advance)),
            beyond.eq(Mux(spent, beats << lane_bits(self._config), at + advance)),
            run.take.eq(run.valid & moves & begins_run),
        ]
        # The wide registers are loaded speculatively, and reloaded until the next run is available.
        with m.If(moves):
            m.d.sync += [
                word.valid.eq(run.valid | ~begins_run), at.eq(Mux(begins_run, run.at, beyond)),
                left.eq(Mux(begins_run, op.run_bytes + op.pad_before_bytes, Mux(left <= advance, 0, left - advance))),
                lead.eq(Mux(begins_run, op.pad_before_bytes, Mux(lead <= advance, 0, lead - advance))),
            ]
            with m.If(begins_run):
                m.d.sync += [beats.eq(run.beats), word.last_run.eq(run.last), last_run2.eq(run.last2)]
        with m.If(begin | word.go):
            walk.count(m)
        with m.If(word.go):
            with m.If(end1):
                m.d.sync += word.slot.eq(word.slot + beats)
            walk.step(m, last_run2)

    def _place(self, m: Module, op: Any, walk: WordWalk, word: "_Word") -> None:
        """Stages 3 and 4: the word with its positions, then with its beats, then the queue.

        Nothing stalls after stage 2, so up to four words may be in flight that the queue's level does not include.
        """
        config, at, beyond = self._config, word.at, word.beyond
        lanes, width = lane_bits(config), config.word_bytes
        m.submodules.out = out = Queue(WordLayout(config), _WAITING_WORDS)
        wiring.connect(m, out.o, wiring.flipped(self.o))
        m.d.sync += word.ready.eq(out.level <= _WAITING_WORDS - 4)
        placed_valid = Signal()
        placed_at = Signal(at.shape())
        placed_beyond = Signal(at.shape())
        placed_slot = Signal(word.slot.shape())
        placed = Signal(WordLayout(config), reset_less=True)
        m.d.sync += [
            placed_valid.eq(word.go), placed_at.eq(at), placed_beyond.eq(beyond), placed_slot.eq(word.slot),
            placed.addr.eq(walk.addr), placed.fill.eq(op.fill), placed.flip.eq(op.flip),
            placed.fill_end.eq(Mux(word.lead < width, word.lead, width)),
            placed.data_end.eq(Mux(word.left < width, word.left, width)), placed.last.eq(walk.end1 & word.last_run),
        ]

        if config.compressed_weights:
            m.d.sync += placed.coded.eq(op.coded)

        found_valid = Signal(name="word_valid")
        found = Signal(WordLayout(config), name="word", reset_less=True)
        first_beat = Mux(placed_at < 0, 0, placed_at >> lanes)
        next_beat = Mux(placed_beyond < 0, 0, placed_beyond >> lanes)
        last_beat = (placed_at + placed.data_end - 1) >> lanes
        m.d.sync += [
            found_valid.eq(placed_valid), found.eq(placed),
            found.place.eq((placed_slot << lanes) + placed_at),
            found.needs.eq(Mux(placed.data_end > placed.fill_end, last_beat - first_beat + 1, 0)),
            found.drops.eq(next_beat - first_beat), found.moves.eq(next_beat != first_beat),
        ]
        m.d.comb += [out.i.payload.eq(found), out.i.valid.eq(found_valid)]


class _Run:
    """The run whose words come next."""

    def __init__(self, config: Config) -> None:
        self.valid = Signal(name="run_valid")
        #: Position of its first word's lane 0; number of its beats in memory.
        self.at = Signal(signed(_PAD_BITS + 1), name="run_at")
        self.beats = Signal(_RUN_BITS + 1 - lane_bits(config), name="run_beats")
        #: It is the last run of the operation; of the third loop.
        self.last = Signal(name="run_last")
        self.last2 = Signal(name="run_last2")
        #: Strobe: stage 2 takes it.
        self.take = Signal(name="take_run")


class _Word:
    """The word of stage 2, in the terms of the module."""

    def __init__(self, config: Config) -> None:
        self.valid = Signal()
        #: Strobe: the word goes to stage 3; permission for that, if the word is valid.
        self.go, self.ready = Signal(), Signal(name="ready")
        self.at = Signal(signed(_RUN_BITS + 2))
        self.left = Signal(_RUN_BITS + 1)
        self.lead = Signal(_PAD_BITS)
        #: Position of the next word's lane 0, or the end of the run's beats if no later word needs them.
        self.beyond = Signal(signed(_RUN_BITS + 2))
        #: Number of beats of all earlier runs, modulo the window's.
        self.slot = Signal(range(window_beats(config)))
        self.last_run = Signal()
