"""The words of a load operation, from its fields alone: where each goes and which bytes of the runs it holds.

Terms: `at` is the position of a word's lane 0, in bytes from the first beat of its run (negative in front of it, among
the fill bytes); `left` counts the bytes from lane 0 to the end of the run, `lead` the fill bytes still in front of it.
"""

from typing import Any

from amaranth import Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.dma.runs import RunGenerator, first_turn, next_turn
from tq_hw.hdl.parts.queues import Queue
from tq_hw.isa.config import Config

__all__ = ["LoadPlan", "PlanLayout", "WordLayout", "lane_bits", "window_beats"]

#: Bits that hold 0..32, bytes of a word.
_BYTES_BITS = 6
_RUN_BITS = 24
_PAD_BITS = 16
#: Planned words that wait for their beats.
_WAITING_WORDS = 8


def lane_bits(config: Config) -> int:
    """Bits of a byte's place in a beat."""
    return (config.bus_bytes - 1).bit_length()


def window_beats(config: Config) -> int:
    """Beats of the realigning window: a power of two, enough for a word that starts anywhere in a beat."""
    touched = (config.word_bytes + config.bus_bytes - 2) // config.bus_bytes + 1
    return max(2, 1 << (touched - 1).bit_length())


class PlanLayout(data.StructLayout):
    """What the plan needs of an operation; `lane`, `stride2`, `stride3` are memory addresses modulo bus_bytes."""

    def __init__(self, config: Config) -> None:
        lane = lane_bits(config)
        super().__init__({
            "run_bytes": _RUN_BITS, "fill": 8, "flip": 1, "pad_before_bytes": _PAD_BITS, "destination": 16,
            "emit_bytes": _BYTES_BITS, "advance_bytes": _BYTES_BITS,
            "last_emit_bytes": _BYTES_BITS, "last_advance_bytes": _BYTES_BITS,
            **{f"count{level}": 16 for level in range(4)}, **{f"step{level}": 16 for level in range(4)},
            "lane": lane, "stride2_bytes": lane, "stride3_bytes": lane,
        })


class WordLayout(data.StructLayout):
    """One word: lanes fill_end..data_end-1 come from memory, the others are `fill`.

    `place` is lane 0 in the window, `needs` the beats that must be there, `drops` those that are not needed any more;
    `moves` if there are any.
    """

    def __init__(self, config: Config) -> None:
        beats = window_beats(config)
        super().__init__({
            "addr": 16, "fill_end": _BYTES_BITS, "data_end": _BYTES_BITS, "fill": 8, "flip": 1,
            "place": (beats * config.bus_bytes - 1).bit_length(), "needs": beats.bit_length(),
            "drops": _RUN_BITS + 1 - lane_bits(config), "moves": 1, "last": 1,
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
        """Make runs, words, then in two stages beats out of positions."""
        m = Module()
        config = self._config
        lanes = lane_bits(config)
        width = config.word_bytes
        op: Any = Signal(PlanLayout(config), reset_less=True)
        active = Signal()
        m.submodules.runs = runs = RunGenerator(lanes)
        m.d.comb += [
            runs.base.eq(op.lane), runs.stride2.eq(op.stride2_bytes), runs.stride3.eq(op.stride3_bytes),
            runs.count2.eq(op.count2), runs.count3.eq(op.count3),
        ]

        m.submodules.ahead = ahead = Queue(runs.o.payload.shape(), 2)
        wiring.connect(m, runs.o, ahead.i)

        # Stage 1: the next run.
        run_beats_bits = _RUN_BITS + 1 - lanes
        run_valid = Signal()
        run_at = Signal(signed(_PAD_BITS + 1))
        run_beats = Signal(run_beats_bits)
        run_last = Signal()
        run_last2 = Signal()
        take_run = Signal()
        m.d.comb += ahead.o.ready.eq(~run_valid | take_run)
        with m.If(ahead.o.ready):
            run = ahead.o.payload
            m.d.sync += [
                run_valid.eq(ahead.o.valid), run_at.eq(run.addr - op.pad_before_bytes),
                run_beats.eq(Mux(op.run_bytes == 0, 0, (run.addr + op.run_bytes + config.bus_bytes - 1) >> lanes)),
                run_last.eq(run.last), run_last2.eq(run.last2),
            ]

        # Stage 2: the current word.
        valid = Signal()
        at = Signal(signed(_RUN_BITS + 2))
        left = Signal(_RUN_BITS + 1)
        lead = Signal(_PAD_BITS)
        beats = Signal(run_beats_bits)
        last_run = Signal()
        last_run2 = Signal()
        slot = Signal(range(window_beats(config)))
        left0, end0 = Signal(16), Signal()
        left1, last1 = Signal(16), Signal()
        bases = [Signal(16, name=f"base{level}") for level in range(4)]
        steps = [(base + op[f"step{level}"])[:16] for level, base in enumerate(bases)]
        end1 = Signal()
        advance = Signal(_BYTES_BITS)
        spent = Signal()
        beyond = Signal(signed(_RUN_BITS + 2))
        go, moves, begins_run = Signal(), Signal(), Signal()
        ready = Signal()
        m.d.comb += [
            end1.eq(end0 & last1), go.eq(valid & ready), moves.eq(~valid | ready), begins_run.eq(~valid | end1),
            advance.eq(Mux(end0, op.last_advance_bytes, op.advance_bytes)),
            # Nothing of the run is needed by the words that follow.
            spent.eq(end1 | (left <= advance)), beyond.eq(Mux(spent, beats << lanes, at + advance)),
            take_run.eq(run_valid & moves & begins_run),
        ]
        # The wide registers load speculatively; they reload until the next run is there.
        with m.If(moves):
            m.d.sync += [
                valid.eq(run_valid | ~begins_run), at.eq(Mux(begins_run, run_at, beyond)),
                left.eq(Mux(begins_run, op.run_bytes + op.pad_before_bytes, Mux(left <= advance, 0, left - advance))),
                lead.eq(Mux(begins_run, op.pad_before_bytes, Mux(lead <= advance, 0, lead - advance))),
            ]
            with m.If(begins_run):
                m.d.sync += [beats.eq(run_beats), last_run.eq(run_last), last_run2.eq(run_last2)]
        with m.If(go):
            m.d.sync += next_turn(left0, end0, op.count0)
            with m.If(end0):
                m.d.sync += next_turn(left1, last1, op.count1)
            with m.If(end1):
                m.d.sync += slot.eq(slot + beats)
            # The innermost loop that goes on steps; the loops inside it start again from there.
            with m.If(~end0):
                m.d.sync += bases[0].eq(steps[0])
            with m.Elif(~end1):
                m.d.sync += [base.eq(steps[1]) for base in bases[:2]]
            with m.Elif(~last_run2):
                m.d.sync += [base.eq(steps[2]) for base in bases[:3]]
            with m.Else():
                m.d.sync += [base.eq(steps[3]) for base in bases]

        begin = Signal()
        m.d.comb += [self.i.ready.eq(~active), runs.start.eq(begin)]
        m.d.sync += begin.eq(self.i.valid & ~active)
        with m.If(~active):
            first = self.i.payload
            m.d.sync += [active.eq(self.i.valid), op.eq(first), *first_turn(left0, end0, first.count0),
                         *first_turn(left1, last1, first.count1)]
            m.d.sync += [base.eq(first.destination) for base in bases]
        with m.Elif(go & end1 & last_run):
            m.d.sync += active.eq(0)

        # Stage 3: the word with its positions. After stage 2 nothing waits: four words may be on their way to the
        # queue that its level does not tell.
        m.submodules.out = out = Queue(WordLayout(config), _WAITING_WORDS)
        wiring.connect(m, out.o, wiring.flipped(self.o))
        m.d.sync += ready.eq(out.level <= _WAITING_WORDS - 4)
        placed_valid = Signal()
        placed_at = Signal(at.shape())
        placed_beyond = Signal(at.shape())
        placed_slot = Signal(slot.shape())
        placed = Signal(WordLayout(config), reset_less=True)
        word_valid = Signal()
        word = Signal(WordLayout(config), reset_less=True)
        m.d.sync += [
            placed_valid.eq(go), placed_at.eq(at), placed_beyond.eq(beyond), placed_slot.eq(slot),
            placed.addr.eq(bases[0]), placed.fill.eq(op.fill), placed.flip.eq(op.flip),
            placed.fill_end.eq(Mux(lead < width, lead, width)), placed.data_end.eq(Mux(left < width, left, width)),
            placed.last.eq(end1 & last_run),
        ]

        # Stage 4: the word with its beats.
        first_beat = Mux(placed_at < 0, 0, placed_at >> lanes)
        next_beat = Mux(placed_beyond < 0, 0, placed_beyond >> lanes)
        last_beat = (placed_at + placed.data_end - 1) >> lanes
        m.d.sync += [
            word_valid.eq(placed_valid), word.eq(placed),
            word.place.eq((placed_slot << lanes) + placed_at),
            word.needs.eq(Mux(placed.data_end > placed.fill_end, last_beat - first_beat + 1, 0)),
            word.drops.eq(next_beat - first_beat), word.moves.eq(next_beat != first_beat),
        ]
        m.d.comb += [out.i.payload.eq(word), out.i.valid.eq(word_valid)]
        return m
