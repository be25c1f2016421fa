"""The inner loops of a vector operation: slots of a chunk, beats of a slot, words of a beat; and their addresses."""

from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.hdl import Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.beats import Beats
from tq_hw.hdl.signatures import OperationLayout
from tq_hw.hdl.vector_steps import Restart, RunLayout, SlotFields, StepLayout
from tq_hw.isa.config import Config
from tq_hw.isa.layout import Unit, VectorKind
from tq_hw.isa.uop import Destination, Source

__all__ = ["SlotWalker"]

_STREAMS = ("a", "b", "out")


class SlotWalker(wiring.Component):
    """Turn runs into steps, one a cycle, without a bubble between runs.

    The slot pointers (one per stream, without base) count on from slot to slot; each run starts them at the chunk's
    first slot, which is kept, as is the tile's while other output blocks follow.

    Members
    -------
    i : In(stream of RunLayout); operation : In(OperationLayout) of the run at `i`
    o : Out(stream of StepLayout)
    """

    i: stream.Interface
    operation: Any
    o: stream.Interface

    def __init__(self, config: Config) -> None:
        self._config = config
        super().__init__({
            "i": In(stream.Signature(RunLayout(config))), "operation": In(OperationLayout(Unit.VECTOR)),
            "o": Out(stream.Signature(StepLayout(config))),
        })

    def elaborate(self, platform: object) -> Module:
        """Count words of a beat, beats of a slot and slots; move the pointers; add up the addresses."""
        m = Module()
        config = self._config
        beats = Beats(config)
        op: Any = Signal(SlotFields)
        run: Any = Signal(RunLayout(config))
        active = Signal()

        # Pointers: the slot's and its row's offset per stream, the column, and the slot of the accumulator buffer.
        pointers = data.StructLayout({
            **dict.fromkeys(_STREAMS, 16), **{f"{name}_row": 16 for name in _STREAMS}, "col": 16,
            "acc": range(config.acc_words)})
        at: Any = Signal(pointers)
        after: Any = Signal(pointers)
        chunk_at, tile_at = Signal(pointers), Signal(pointers)

        # Counters. `n` numbers the beats of the run.
        step = Signal(range(beats.max_steps))
        step_end = Signal(range(beats.max_steps))
        beat = Signal(range(max(beats.positions, 2)))
        position = Signal(range(beats.positions))
        slots_left = Signal(16)
        word_bits = (config.vector_words - 1).bit_length()
        n = Signal(word_bits)
        entry = Signal(range(config.word_bytes // 4))
        table_word = Signal(9)
        started, fired = Signal(), Signal()
        walks = Signal()
        walked = Signal()

        is_table = op.kind == VectorKind.LOAD_TABLE
        beat_end = Mux(is_table, 0, Mux(op.use_acc, config.beats_per_acc_word - 1, config.beats_per_word - 1))
        step_last = step == step_end
        slot_last = step_last & (beat == beat_end)
        chunk_end = slots_left == 1
        silent = run.uop.once & fired
        run_end = Mux(run.uop.once & ~walks, step_last, slot_last & chunk_end)
        advance = Signal()
        m.d.comb += [self.o.valid.eq(active & ~silent), advance.eq(active & (self.o.ready | silent))]

        # The pointers of the next slot.
        row_ends = at.col == op.cols - 1
        m.d.comb += after.eq(at)
        with m.If(is_table):
            m.d.comb += after.a.eq(at.a + (entry == config.word_bytes // 4 - 1))
        with m.Elif(row_ends):
            m.d.comb += after.col.eq(0)
            for name in _STREAMS:
                row = at[f"{name}_row"] + op[f"{name}_row_step"]
                m.d.comb += [after[name].eq(row), after[f"{name}_row"].eq(row)]
        with m.Else():
            m.d.comb += after.col.eq(at.col + 1)
            for name in _STREAMS:
                m.d.comb += after[name].eq(at[name] + op[f"{name}_col_step"])
        m.d.comb += after.acc.eq(at.acc + 1)
        moves = advance & slot_last & ~(run.uop.once & ~walks)
        with m.If(moves):
            m.d.sync += at.eq(after)

        with m.If(advance):
            m.d.sync += [step.eq(step + 1), started.eq(1)]
            with m.If(step_last):
                m.d.sync += [step.eq(0), fired.eq(1), beat.eq(beat + 1), position.eq(position + 1), n.eq(n + 1)]
            with m.If(slot_last):
                m.d.sync += [beat.eq(0), position.eq(self._first_position(op, run)), slots_left.eq(slots_left - 1),
                             entry.eq(entry + 1), table_word.eq(table_word + 1)]

        # Take the next run in the cycle of the last step.
        m.d.comb += self.i.ready.eq(~active | (advance & run_end))
        with m.If(self.i.ready):
            m.d.sync += active.eq(self.i.valid)
        with m.If(self.i.valid & self.i.ready):
            new = self.i.payload
            new_op: Any = Signal(SlotFields, name="new_op")
            with m.If(new.op_first):
                m.d.comb += [new_op[name].eq(self.operation[name]) for name, _ in SlotFields]
                m.d.sync += [op.eq(new_op), table_word.eq(self.operation.table_first), entry.eq(0)]
            with m.Else():
                m.d.comb += new_op.eq(op)
            start: Any = Signal(pointers)
            stays = Mux(moves, after, at)
            with m.Switch(new.restart):
                with m.Case(Restart.CONTINUE):
                    m.d.comb += start.eq(stays)
                with m.Case(Restart.CHUNK):
                    m.d.comb += start.eq(Mux(new.uop.once, stays, chunk_at))
                with m.Case(Restart.TILE):
                    m.d.comb += start.eq(tile_at)
            with m.If(new.tile_first):
                m.d.comb += start.acc.eq(0)
            was_walked = walked & ~new.save_chunk
            m.d.sync += [
                run.eq(new), at.eq(start), started.eq(0), fired.eq(0), step.eq(0),
                step_end.eq(self._step_end(beats, new, new_op)),
                beat.eq(0), position.eq(self._first_position(new_op, new)), slots_left.eq(new.slots), n.eq(0),
                # A program of `once` alone: its last run walks the chunk, so that the next chunk starts behind it.
                walks.eq(new.chunk_last & ~was_walked), walked.eq(was_walked | ~new.uop.once),
            ]
            with m.If(new.save_chunk):
                m.d.sync += chunk_at.eq(start)
            with m.If(new.save_tile):
                m.d.sync += tile_at.eq(start)

        slot: Any = Signal(pointers)
        m.d.comb += slot.eq(Mux(run.uop.once, chunk_at, at))
        m.d.comb += self._addresses(beats, op, run, slot, position, step, beat)
        uop, o = run.uop, self.o.payload
        fire = step_last
        last_fire = fire & (uop.once | (slot_last & chunk_end))
        once = uop.once
        m.d.comb += [
            o.fire.eq(fire), o.number.eq(run.number), o.table.eq(is_table),
            o.a_stream.eq(is_table | (uop.a_source == Source.STREAM)),
            o.b_stream.eq(~is_table & (uop.b_source == Source.STREAM)),
            o.acc_read.eq(op.use_acc & (uop.a_source == Source.ACC_OR_BIAS) & (beat == 0) & (step == 0)),
            o.use_acc.eq(op.use_acc), o.release.eq(op.use_acc & run.tile_last & last_fire),
            o.acc_word.eq(slot.acc),
            o.beat.eq(beat),
            o.a_register.eq(uop.a_register), o.b_register.eq(uop.b_register), o.d_register.eq(uop.d_register),
            o.a_uses.eq(~is_table & (uop.a_source == Source.REGISTER)),
            o.b_uses.eq(~is_table & (uop.b_source == Source.REGISTER)),
            o.a_word.eq(self._register_word(uop.a_register, Mux(uop.a_hold, 0, n))),
            o.b_word.eq(self._register_word(uop.b_register, Mux(uop.b_hold, 0, n))),
            o.d_word.eq(Mux(is_table, table_word,
                            self._register_word(uop.d_register, Mux(uop.destination == Destination.REDUCE, 0, n)))),
            o.long.eq(~once & (run.slots > Mux(
                op.use_acc, config.vector_register_words // config.beats_per_acc_word,
                config.vector_register_words // config.beats_per_word))),
            o.destination.eq(uop.destination), o.out_type.eq(op.out_type),
            o.slot_first.eq(beat == 0), o.slot_last.eq((beat == beat_end) | once),
            o.run_first.eq(~started), o.run_last.eq(last_fire),
            o.last_word.eq(chunk_end),
            o.lanes.eq(Mux((op.valid_lanes == 0) | (op.valid_lanes > config.block), config.block, op.valid_lanes)),
            o.op_first.eq(run.op_first), o.op_last.eq(run.op_last), o.chunk_first.eq(run.save_chunk),
            o.param_first.eq(run.param_first), o.param_last.eq(run.param_last),
        ]
        with m.If(is_table):
            m.d.comb += [o.a.read.eq(entry == 0), o.a.address.eq(at.a + run.a), o.element.eq(entry)]
        return m

    def _register_word(self, register: Value, n: Value) -> Value:
        """Return the word of the register file."""
        bits = (self._config.vector_register_words - 1).bit_length()
        return (Cat(Const(0, bits), register) + n)[:bits + 3]

    def _first_position(self, op: Any, run: Any) -> Value:
        return Mux(op.use_acc, run.sub * self._config.beats_per_acc_word, 0)

    def _step_end(self, beats: Beats, run: Any, op: Any) -> Value:
        """Return the steps of a beat, less one: enough for the words it reads and those it writes."""
        uop = run.uop
        steps = [beats.steps(code) - 1 for code in range(4)]

        def needed(used: Value, code: Value) -> Value:
            return Mux(used, Mux(code[1], Mux(code[0], steps[3], steps[2]), Mux(code[0], steps[1], steps[0])), 0)

        def most(x: Value, y: Value) -> Value:
            return Mux(x > y, x, y)

        reads = most(needed(uop.a_source == Source.STREAM, op.a_type),
                     needed(uop.b_source == Source.STREAM, op.b_type))
        ends = most(reads, needed(uop.destination == Destination.OUTPUT, op.out_type))
        return Mux(op.kind == VectorKind.LOAD_TABLE, 0, ends)

    def _addresses(self, beats: Beats, op: Any, run: Any, at: Any, position: Value, step: Value,
                   beat: Value) -> list[Any]:
        """Return the assignments of the reads and of the output address."""
        out = []
        o = self.o.payload
        for name in ("a", "b"):
            code, operand = op[f"{name}_type"], o[name]
            first = beats.look_up(code, position, beats.first_word)
            words = beats.look_up(code, position, beats.words)
            shares = beats.look_up(code, position, lambda c, p: int(beats.shares_word(c, p)))
            out += [
                operand.address.eq(at[name] + run[name] + (first + step)), operand.type.eq(code),
                operand.position.eq(position), operand.step.eq(step),
                operand.read.eq((run.uop[f"{name}_source"] == Source.STREAM) & (step < words)
                                & ~(shares & (step == 0) & (beat != 0))),
            ]
        out += [o.out_address.eq(at.out + run.out + beats.look_up(op.out_type, position, beats.first_word)),
                o.position.eq(position)]
        return out
