"""The counters of the vector unit's inner loops: words of a beat, beats of a slot, slots of a run."""

from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.hdl import Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from tq_hw.hdl.parts.numbers import multiple
from tq_hw.hdl.signatures import OperationLayout
from tq_hw.hdl.vector.beats import Beats
from tq_hw.hdl.vector.steps import CountedStep, Restart, RunLayout
from tq_hw.isa.config import Config
from tq_hw.isa.layout import Unit
from tq_hw.isa.uop import Destination, Source

__all__ = ["BeatCounter"]


class BeatCounter(wiring.Component):
    """Count words of a beat, beats of a slot and slots of a run; give all of a step except its pointers.

    The end flag of each loop is a register, computed when its counter advances.

    Members
    -------
    i : In(stream of RunLayout); operation : In(OperationLayout) of the run at `i`
    o : Out(stream of CountedStep), its addresses without the slot pointers
    """

    i: stream.Interface
    operation: Any
    o: stream.Interface

    def __init__(self, config: Config) -> None:
        self._config = config
        self._beats = Beats(config)
        super().__init__({
            "i": In(stream.Signature(RunLayout(config))), "operation": In(OperationLayout(Unit.VECTOR)),
            "o": Out(stream.Signature(CountedStep(config))),
        })

    def elaborate(self, platform: object) -> Module:
        """Take runs, count them down, and describe each step."""
        m = Module()
        at = _Position(self._config, self._beats)
        advance = self._advance(m, at)
        self._take(m, at, advance)
        self._tell_loops(m, at)
        self._tell_lanes(m, at)
        self._tell_words(m, at)
        return m

    def _advance(self, m: Module, at: "_Position") -> Signal:
        """Count a step when it is taken; return the strobe."""
        advance = Signal()
        m.d.comb += [self.o.valid.eq(at.active), advance.eq(at.active & self.o.ready)]
        with m.If(advance):
            next_step = Mux(at.step_last, 0, at.step + 1)
            m.d.sync += [at.started.eq(1), at.step.eq(next_step), at.step_last.eq(next_step == at.step_end)]
            with m.If(at.step_last):
                next_beat = Mux(at.beat_last, 0, at.beat + 1)
                m.d.sync += [at.silent.eq(at.run.uop.once), at.beat.eq(next_beat),
                             at.beat_last.eq(next_beat == at.beat_end), at.n.eq(at.n + 1),
                             at.position.eq(Mux(at.beat_last, self._first_position(at.use_acc, at.run.sub),
                                                at.position + 1))]
            with m.If(at.slot_last):
                m.d.sync += [at.slots_left.eq(at.slots_left - 1), at.chunk_end.eq(at.slots_left == 2),
                             at.entry.eq(at.entry + 1), at.table_word.eq(at.table_word + 1)]
        return advance

    def _take(self, m: Module, at: "_Position", advance: Signal) -> None:
        """Take the next run in the cycle of the last step; keep the operation's fields that steps need."""
        config = self._config
        ends = at.step_last & (at.single | (at.beat_last & at.chunk_end))
        m.d.comb += self.i.ready.eq(~at.active | (advance & ends))
        with m.If(self.i.ready):
            m.d.sync += at.active.eq(self.i.valid)
        with m.If(self.i.valid & self.i.ready):
            new, op = self.i.payload, self.operation
            with m.If(new.op_first):
                m.d.sync += [
                    at.use_acc.eq(op.use_acc & ~new.table), at.a_type.eq(op.a_type), at.b_type.eq(op.b_type),
                    at.out_type.eq(op.out_type), at.table_word.eq(op.table_first), at.entry.eq(0),
                    at.lanes.eq(Mux((op.valid_lanes == 0) | (op.valid_lanes > config.block), config.block,
                                    op.valid_lanes)),
                ]
            new_acc = Mux(new.op_first, op.use_acc, at.use_acc) & ~new.table
            types = [Mux(new.op_first, op[f"{name}_type"], kept)
                     for name, kept in (("a", at.a_type), ("b", at.b_type), ("out", at.out_type))]
            new_step_end, new_beat_end = Signal.like(at.step_end), Signal.like(at.beat_end)
            m.d.comb += [
                new_step_end.eq(self._step_end(new, *types)),
                new_beat_end.eq(Mux(new.table, 0, Mux(new_acc, config.beats_per_acc_word - 1,
                                                      config.beats_per_word - 1))),
            ]
            was_walked = at.walked & ~new.save_chunk
            # A program with only `once`: its last run walks the chunk, so that the next chunk starts after it.
            walks = new.chunk_last & ~was_walked
            m.d.sync += [
                at.run.eq(new), at.started.eq(0), at.silent.eq(0), at.step.eq(0), at.step_end.eq(new_step_end),
                at.step_last.eq(new_step_end == 0), at.beat.eq(0), at.beat_end.eq(new_beat_end),
                at.beat_last.eq(new_beat_end == 0), at.position.eq(self._first_position(new_acc, new.sub)),
                at.slots_left.eq(new.slots), at.chunk_end.eq(new.slots == 1), at.n.eq(0),
                at.single.eq(new.uop.once & ~walks), at.walked.eq(was_walked | ~new.uop.once),
                at.long.eq(~new.uop.once & (new.slots > Mux(
                    new_acc, config.vector_register_words // config.beats_per_acc_word,
                    config.vector_register_words // config.beats_per_word))),
            ]

    def _tell_loops(self, m: Module, at: "_Position") -> None:
        """Give the step's position in its loops, for the pointers and the waits."""
        run, counted = at.run, self.o.payload
        uop, table, once = run.uop, run.table, run.uop.once
        # Any other `once` run leaves the pointers where they are, mostly at the chunk's end.
        at_chunk = once & (run.restart == Restart.CHUNK)
        m.d.comb += [
            counted.emits.eq(~at.silent), counted.moves.eq(at.slot_last & ~at.single),
            counted.next_word.eq(table & (at.entry == self._config.word_bytes // 4 - 1)),
            counted.start.eq(Mux(at.started | at_chunk, Restart.CONTINUE, run.restart)), counted.at_chunk.eq(at_chunk),
            counted.save_tile.eq(run.save_tile & ~at.started), counted.save_chunk.eq(run.save_chunk & ~at.started),
            counted.acc_first.eq(run.tile_first & ~at.started), counted.operation_first.eq(run.op_first & ~at.started),
            counted.streams.eq(table | (uop.a_source == Source.STREAM) | (uop.b_source == Source.STREAM)),
            counted.chunk_first.eq(run.save_chunk), counted.registers.long.eq(at.long),
            counted.registers.a.eq(uop.a_register), counted.registers.b.eq(uop.b_register),
            counted.registers.d.eq(uop.d_register), counted.registers.a_uses.eq(uop.a_source == Source.REGISTER),
            counted.registers.b_uses.eq(uop.b_source == Source.REGISTER),
        ]

    def _tell_lanes(self, m: Module, at: "_Position") -> None:
        """Give what the lanes need of the step: source words, destination, and which loops begin or end with it."""
        run, o = at.run, self.o.payload.step
        uop, table, once = run.uop, run.table, run.uop.once
        to_lanes = at.step_last & ~table
        last_fire = at.step_last & (once | (at.beat_last & at.chunk_end))
        m.d.comb += [
            o.fire.eq(at.step_last), o.number.eq(run.number), o.table.eq(table), o.element.eq(at.entry),
            o.writes.eq(to_lanes & (uop.destination == Destination.REGISTER)),
            o.outputs.eq(to_lanes & (uop.destination == Destination.OUTPUT)),
            o.reduces.eq(to_lanes & (uop.destination == Destination.REDUCE)),
            o.acc_read.eq(at.use_acc & (uop.a_source == Source.ACC_OR_BIAS) & (at.beat == 0) & (at.step == 0)),
            o.use_acc.eq(at.use_acc), o.release.eq(at.use_acc & run.tile_last & last_fire), o.beat.eq(at.beat),
            o.a_word.eq(self._register_word(uop.a_register, Mux(uop.a_hold, 0, at.n))),
            o.b_word.eq(self._register_word(uop.b_register, Mux(uop.b_hold, 0, at.n))),
            o.d_word.eq(Mux(table, at.table_word, self._register_word(
                uop.d_register, Mux(uop.destination == Destination.REDUCE, 0, at.n)))),
            o.out_type.eq(at.out_type), o.position.eq(at.position),
            o.slot_first.eq(at.beat == 0), o.slot_last.eq(at.beat_last | once), o.run_first.eq(~at.started),
            o.run_last.eq(last_fire), o.last_word.eq(at.chunk_end), o.lanes.eq(at.lanes), o.op_first.eq(run.op_first),
            o.op_last.eq(run.op_last), o.param_first.eq(run.param_first), o.param_last.eq(run.param_last),
        ]
        if self._config.activation_lanes:
            activates = uop.destination == Destination.ACTIVATION
            m.d.comb += [o.activates.eq(to_lanes & activates), o.behind_activation.eq(
                (uop.destination == Destination.OUTPUT) | (run.op_last & ~activates))]

    def _register_word(self, register: Value, n: Value) -> Value:
        """Return the word of the register file."""
        bits = ceil_log2(self._config.vector_register_words)
        return (Cat(Const(0, bits), register) + n)[:bits + 3]

    def _first_position(self, use_acc: Value, sub: Value) -> Value:
        return Mux(use_acc, multiple(sub, self._config.beats_per_acc_word), 0)

    def _step_end(self, run: Any, a_type: Value, b_type: Value, out_type: Value) -> Value:
        """Return the steps of a beat, less one: enough for the words it reads and writes, and for an activation."""
        steps = [self._beats.steps(code) - 1 for code in range(4)]

        def needed(used: Value, code: Value) -> Value:
            return Mux(used, Mux(code[1], Mux(code[0], steps[3], steps[2]), Mux(code[0], steps[1], steps[0])), 0)

        def most(x: Value, y: Value) -> Value:
            return Mux(x > y, x, y)

        uop = run.uop
        reads = most(needed(uop.a_source == Source.STREAM, a_type), needed(uop.b_source == Source.STREAM, b_type))
        if self._config.activation_lanes:
            reads = most(reads, Mux(uop.destination == Destination.ACTIVATION, most(
                Const(self._config.activation_steps - 1), needed(Const(1), out_type)), 0))
        return Mux(run.table, 0, most(reads, needed(uop.destination == Destination.OUTPUT, out_type)))

    def _tell_words(self, m: Module, at: "_Position") -> None:
        """Return which word of the slot the step reads, and which word of the output it writes."""
        beats, run, position, step = self._beats, at.run, at.position, at.step
        o = self.o.payload.step
        # Steps after the last word read its elements again.
        taken = step if len(step) == len(o.a.step) else Mux(step < beats.max_steps, step, beats.max_steps - 1)
        for name, code in (("a", at.a_type), ("b", at.b_type)):
            operand = o[name]
            first = beats.look_up(code, position, beats.first_word)
            words = beats.look_up(code, position, beats.words)
            shares = beats.look_up(code, position, lambda c, p: int(beats.shares_word(c, p)))
            m.d.comb += [
                operand.address.eq(run[name] + (first + step)), operand.type.eq(code),
                operand.position.eq(position), operand.step.eq(taken),
                operand.read.eq((run.uop[f"{name}_source"] == Source.STREAM) & (step < words)
                                & ~(shares & (step == 0) & (at.beat != 0))),
            ]
        m.d.comb += o.out_address.eq(run.out + beats.look_up(at.out_type, position, beats.first_word))
        with m.If(run.table):
            m.d.comb += [o.a.read.eq(at.entry == 0), o.a.address.eq(run.a)]


class _Position:
    """The position of the count, with what is kept of the run and its operation.

    Every `_end` is the last value of a counter; every `_last` is a register, set when the counter is there.
    """

    def __init__(self, config: Config, beats: Beats) -> None:
        self.run: Any = Signal(RunLayout(config), reset_less=True)
        self.active = Signal()

        # Of the operation.
        self.use_acc = Signal()
        self.a_type, self.b_type, self.out_type = Signal(2), Signal(2), Signal(2, name="out_type")
        self.lanes = Signal(range(config.block + 1))

        #: Words of a beat.
        steps = range(max(beats.max_steps, config.activation_steps))
        self.step, self.step_end, self.step_last = Signal(steps), Signal(steps), Signal(name="step_last")
        #: Beats of a slot.
        positions = range(max(beats.positions, 2))
        self.beat, self.beat_end = Signal(positions), Signal(positions, name="beat_end")
        self.beat_last = Signal()
        #: Slots of the run; `chunk_end`: this is the last one.
        self.slots_left, self.chunk_end = Signal(16), Signal(name="chunk_end")
        #: The beat's position in its word.
        self.position = Signal(range(beats.positions))
        #: Beats of the run so far.
        self.n = Signal(ceil_log2(config.vector_words))
        #: Load table: the entry within its word, and within the table.
        self.entry, self.table_word = Signal(range(config.word_bytes // 4)), Signal(9, name="table_word")
        # started: not the first step; silent: a `once` run walks the slots after its beat; single: a `once` run that
        # need not; walked: an earlier run of the chunk has walked it; long: the run is longer than a register.
        self.started, self.silent, self.single, self.walked, self.long = (
            Signal(), Signal(), Signal(), Signal(), Signal())

    @property
    def slot_last(self) -> Value:
        """The step is the last of its slot."""
        return self.step_last & self.beat_last
