"""The inner loops of a vector operation: slots of a chunk, beats of a slot, words of a beat."""

from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.hdl import Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import ceil_log2

from tq_hw.hdl.parts.queues import Queue
from tq_hw.hdl.signatures import OperationLayout
from tq_hw.hdl.vector.beats import Beats
from tq_hw.hdl.vector.pointers import SlotPointers
from tq_hw.hdl.vector.steps import CountedStep, Restart, RunLayout, StepLayout
from tq_hw.isa.config import Config
from tq_hw.isa.layout import Unit
from tq_hw.isa.uop import Destination, Source

__all__ = ["BeatCounter", "SlotWalker"]

#: Steps that wait for what they read.
_WAITING_STEPS = 8


class SlotWalker(wiring.Component):
    """Turn runs into steps, one a cycle, without a bubble between runs.

    Members
    -------
    i : In(stream of RunLayout); operation : In(OperationLayout) of the run at `i`, kept until `operation_taken`
    o : Out(stream of StepLayout)
    operation_taken : Out(1), strobe
    moved : Out(1), strobe: a step was made
    """

    i: stream.Interface
    operation: Any
    o: stream.Interface
    operation_taken: Signal
    moved: Signal

    def __init__(self, config: Config) -> None:
        self._config = config
        super().__init__({
            "i": In(stream.Signature(RunLayout(config))), "operation": In(OperationLayout(Unit.VECTOR)),
            "o": Out(stream.Signature(StepLayout(config))), "operation_taken": Out(1), "moved": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        """Count, then add up the addresses one cycle later; after the counter nothing waits but the queue."""
        m = Module()
        m.submodules.counter = counter = BeatCounter(self._config)
        m.submodules.pointers = pointers = SlotPointers(self._config)
        m.submodules.steps = steps = Queue(StepLayout(self._config), _WAITING_STEPS, registered=True)
        connect(m, flipped(self.i), counter.i)
        connect(m, steps.o, flipped(self.o))
        # Three steps may be on their way to the queue that its level does not tell.
        m.d.sync += counter.o.ready.eq(steps.level <= _WAITING_STEPS - 3)
        m.d.comb += [
            pointers.i.valid.eq(counter.o.valid & counter.o.ready), pointers.i.payload.eq(counter.o.payload),
            steps.i.valid.eq(pointers.o.valid), steps.i.payload.eq(pointers.o.payload),
        ]
        m.d.comb += [counter.operation.eq(self.operation), pointers.operation.eq(self.operation),
                     self.operation_taken.eq(pointers.operation_taken), self.moved.eq(pointers.i.valid)]
        return m


class BeatCounter(wiring.Component):
    """Count the words of a beat, the beats of a slot, the slots of a run; say all of a step but its pointers.

    Every loop's end is a register, made when its counter moves.

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
        """Take runs, count them down."""
        m = Module()
        config, beats = self._config, self._beats
        run: Any = Signal(RunLayout(config), reset_less=True)
        active = Signal()

        # What is kept of the operation.
        use_acc = Signal()
        a_type, b_type, out_type = Signal(2), Signal(2), Signal(2)
        lanes = Signal(range(config.block + 1))

        # Counters and whether they are at their end. `n` numbers the beats of the run.
        most_steps = max(beats.max_steps, config.activation_steps)
        step, step_end, step_last = Signal(range(most_steps)), Signal(range(most_steps)), Signal()
        beat, beat_end = Signal(range(max(beats.positions, 2))), Signal(range(max(beats.positions, 2)))
        beat_last = Signal()
        slots_left, chunk_end = Signal(16), Signal()
        position = Signal(range(beats.positions))
        n = Signal(ceil_log2(config.vector_words))
        entry, table_word = Signal(range(config.word_bytes // 4)), Signal(9)
        # started: not the first step; silent: a `once` run walks the slots behind its beat; single: it need not.
        started, silent, single, walked, long = Signal(), Signal(), Signal(), Signal(), Signal()

        slot_last = step_last & beat_last
        advance = Signal()
        m.d.comb += [self.o.valid.eq(active), advance.eq(active & self.o.ready)]
        with m.If(advance):
            next_step = Mux(step_last, 0, step + 1)
            m.d.sync += [started.eq(1), step.eq(next_step), step_last.eq(next_step == step_end)]
            with m.If(step_last):
                next_beat = Mux(beat_last, 0, beat + 1)
                m.d.sync += [silent.eq(run.uop.once), beat.eq(next_beat), beat_last.eq(next_beat == beat_end),
                             n.eq(n + 1), position.eq(Mux(beat_last, self._first_position(use_acc, run.sub),
                                                          position + 1))]
            with m.If(slot_last):
                m.d.sync += [slots_left.eq(slots_left - 1), chunk_end.eq(slots_left == 2), entry.eq(entry + 1),
                             table_word.eq(table_word + 1)]

        # Take the next run in the cycle of the last step.
        ends = step_last & (single | (beat_last & chunk_end))
        m.d.comb += self.i.ready.eq(~active | (advance & ends))
        with m.If(self.i.ready):
            m.d.sync += active.eq(self.i.valid)
        with m.If(self.i.valid & self.i.ready):
            new, op = self.i.payload, self.operation
            with m.If(new.op_first):
                m.d.sync += [
                    use_acc.eq(op.use_acc & ~new.table), a_type.eq(op.a_type), b_type.eq(op.b_type),
                    out_type.eq(op.out_type), table_word.eq(op.table_first), entry.eq(0),
                    lanes.eq(Mux((op.valid_lanes == 0) | (op.valid_lanes > config.block), config.block,
                                 op.valid_lanes)),
                ]
            new_acc = Mux(new.op_first, op.use_acc, use_acc) & ~new.table
            types = [Mux(new.op_first, op[f"{name}_type"], kept)
                     for name, kept in (("a", a_type), ("b", b_type), ("out", out_type))]
            new_step_end, new_beat_end = Signal.like(step_end), Signal.like(beat_end)
            m.d.comb += [
                new_step_end.eq(self._step_end(new, *types)),
                new_beat_end.eq(Mux(new.table, 0, Mux(new_acc, config.beats_per_acc_word - 1,
                                                      config.beats_per_word - 1))),
            ]
            was_walked = walked & ~new.save_chunk
            # A program of `once` alone: its last run walks the chunk, so that the next chunk starts after it.
            walks = new.chunk_last & ~was_walked
            m.d.sync += [
                run.eq(new), started.eq(0), silent.eq(0), step.eq(0), step_end.eq(new_step_end),
                step_last.eq(new_step_end == 0), beat.eq(0), beat_end.eq(new_beat_end),
                beat_last.eq(new_beat_end == 0), position.eq(self._first_position(new_acc, new.sub)),
                slots_left.eq(new.slots), chunk_end.eq(new.slots == 1), n.eq(0), single.eq(new.uop.once & ~walks),
                walked.eq(was_walked | ~new.uop.once),
                long.eq(~new.uop.once & (new.slots > Mux(
                    new_acc, config.vector_register_words // config.beats_per_acc_word,
                    config.vector_register_words // config.beats_per_word))),
            ]

        uop, counted = run.uop, self.o.payload
        o = counted.step
        table, once = run.table, uop.once
        to_lanes = step_last & ~table
        # A `once` run that is not the chunk's first leaves the pointers where they are, mostly at the chunk's end.
        at_chunk = once & (run.restart == Restart.CHUNK)
        last_fire = step_last & (once | (beat_last & chunk_end))
        m.d.comb += [
            counted.emits.eq(~silent), counted.moves.eq(slot_last & ~single),
            counted.next_word.eq(table & (entry == config.word_bytes // 4 - 1)),
            counted.start.eq(Mux(started | at_chunk, Restart.CONTINUE, run.restart)), counted.at_chunk.eq(at_chunk),
            counted.save_tile.eq(run.save_tile & ~started), counted.save_chunk.eq(run.save_chunk & ~started),
            counted.acc_first.eq(run.tile_first & ~started), counted.operation_first.eq(run.op_first & ~started),
            counted.streams.eq(table | (uop.a_source == Source.STREAM) | (uop.b_source == Source.STREAM)),
            counted.chunk_first.eq(run.save_chunk), counted.registers.long.eq(long),
            counted.registers.a.eq(uop.a_register), counted.registers.b.eq(uop.b_register),
            counted.registers.d.eq(uop.d_register), counted.registers.a_uses.eq(uop.a_source == Source.REGISTER),
            counted.registers.b_uses.eq(uop.b_source == Source.REGISTER),
            o.fire.eq(step_last), o.number.eq(run.number), o.table.eq(table), o.element.eq(entry),
            o.writes.eq(to_lanes & (uop.destination == Destination.REGISTER)),
            o.outputs.eq(to_lanes & (uop.destination == Destination.OUTPUT)),
            o.reduces.eq(to_lanes & (uop.destination == Destination.REDUCE)),
            o.acc_read.eq(use_acc & (uop.a_source == Source.ACC_OR_BIAS) & (beat == 0) & (step == 0)),
            o.use_acc.eq(use_acc), o.release.eq(use_acc & run.tile_last & last_fire), o.beat.eq(beat),
            o.a_word.eq(self._register_word(uop.a_register, Mux(uop.a_hold, 0, n))),
            o.b_word.eq(self._register_word(uop.b_register, Mux(uop.b_hold, 0, n))),
            o.d_word.eq(Mux(table, table_word,
                            self._register_word(uop.d_register, Mux(uop.destination == Destination.REDUCE, 0, n)))),
            o.out_type.eq(out_type), o.position.eq(position),
            o.slot_first.eq(beat == 0), o.slot_last.eq(beat_last | once), o.run_first.eq(~started),
            o.run_last.eq(last_fire), o.last_word.eq(chunk_end), o.lanes.eq(lanes), o.op_first.eq(run.op_first),
            o.op_last.eq(run.op_last), o.param_first.eq(run.param_first), o.param_last.eq(run.param_last),
        ]
        if config.activation_lanes:
            activates = uop.destination == Destination.ACTIVATION
            m.d.comb += [o.activates.eq(to_lanes & activates), o.behind_activation.eq(
                (uop.destination == Destination.OUTPUT) | (run.op_last & ~activates))]
        self._words(m, run, {"a": a_type, "b": b_type}, position, step, beat)
        m.d.comb += o.out_address.eq(run.out + beats.look_up(out_type, position, beats.first_word))
        with m.If(table):
            m.d.comb += [o.a.read.eq(entry == 0), o.a.address.eq(run.a)]
        return m

    def _register_word(self, register: Value, n: Value) -> Value:
        """Return the word of the register file."""
        bits = ceil_log2(self._config.vector_register_words)
        return (Cat(Const(0, bits), register) + n)[:bits + 3]

    def _first_position(self, use_acc: Value, sub: Value) -> Value:
        return Mux(use_acc, sub * self._config.beats_per_acc_word, 0)

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

    def _words(self, m: Module, run: Any, types: dict[str, Value], position: Value, step: Value, beat: Value) -> None:
        """Say which words of the slot the step reads."""
        beats = self._beats
        # Steps after the last word take its elements again.
        taken = step if len(step) == len(self.o.payload.step.a.step) else Mux(
            step < beats.max_steps, step, beats.max_steps - 1)
        for name, code in types.items():
            operand = self.o.payload.step[name]
            first = beats.look_up(code, position, beats.first_word)
            words = beats.look_up(code, position, beats.words)
            shares = beats.look_up(code, position, lambda c, p: int(beats.shares_word(c, p)))
            m.d.comb += [
                operand.address.eq(run[name] + (first + step)), operand.type.eq(code),
                operand.position.eq(position), operand.step.eq(taken),
                operand.read.eq((run.uop[f"{name}_source"] == Source.STREAM) & (step < words)
                                & ~(shares & (step == 0) & (beat != 0))),
            ]
