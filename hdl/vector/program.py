"""The middle loops of a vector operation: chunks of a tile, micro-operations of the program, repeats of its body."""

from typing import Any

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.legality import CHUNK_REGISTERS, broken_by_word, chunk_registers_of, uop_rules
from tq_hw.hdl.parts.delay import delayed
from tq_hw.hdl.parts.numbers import NUMBER_BITS
from tq_hw.hdl.parts.queues import Queue
from tq_hw.hdl.signatures import OperationLayout
from tq_hw.hdl.vector.steps import Restart, RunLayout, TileLayout, UopWord0
from tq_hw.isa.config import Config
from tq_hw.isa.layout import Unit, VectorKind
from tq_hw.isa.uop import UOP

__all__ = ["ProgramWalker"]

#: Runs that wait to be walked.
_WAITING_RUNS = 4


class ProgramWalker(wiring.Component):
    """Turn tiles into runs, and read each run's micro-operation.

    A run every second cycle; some wait at the output. So the next stage has no bubble when its runs are two beats or
    longer.

    Members
    -------
    i : In(stream of TileLayout); tile_operation : In(OperationLayout) of the tile at `i`
    o : Out(stream of RunLayout); operation : Out(OperationLayout) of the run at `o`, until `operation_taken`
    operation_taken : In(1), strobe
    number : Out, micro-operation wanted; fetch : Out(1), read it now
    uop : In(UopWord0), the micro-operation fetched last, one cycle later and until the next fetch; uop_broken : In(2),
        with it, whether its other words break a rule, with parameter blocks and without
    broken : Out(1), strobe: a micro-operation breaks a rule; broken_number : Out, low bits of its operation's number
    """

    i: stream.Interface
    tile_operation: Any
    o: stream.Interface
    operation: Any
    operation_taken: Signal
    number: Signal
    fetch: Signal
    uop: Any
    uop_broken: Signal
    broken: Signal
    broken_number: Signal

    def __init__(self, config: Config) -> None:
        self._config = config
        super().__init__({
            "i": In(stream.Signature(TileLayout(config))), "tile_operation": In(OperationLayout(Unit.VECTOR)),
            "o": Out(stream.Signature(RunLayout(config))), "operation": Out(OperationLayout(Unit.VECTOR)),
            "operation_taken": In(1),
            "number": Out(range(config.uops)), "fetch": Out(1), "uop": In(UopWord0),
            "uop_broken": In(2), "broken": Out(1), "broken_number": Out(NUMBER_BITS),
        })

    def elaborate(self, platform: object) -> Module:
        """Keep the loops' state; one run a cycle into two waiting places."""
        m = Module()
        config = self._config
        op: Any = Signal(OperationLayout(Unit.VECTOR), reset_less=True)
        tile: Any = Signal(TileLayout(config), reset_less=True)
        active = Signal()
        # The next stage copies the operation with its first run; until then it must stay here.
        wanted = Signal()
        # Low bits of the operation's number; -1 before the first.
        op_number = Signal(NUMBER_BITS, init=(1 << NUMBER_BITS) - 1)
        m.d.comb += self.operation.eq(op)
        with m.If(self.operation_taken):
            m.d.sync += wanted.eq(0)

        number = Signal(8)
        left = Signal(16)
        tile_first, chunk_first = Signal(), Signal()
        repeat1, repeat2 = Signal(16), Signal(16)
        address1, address2 = Signal(16), Signal(16)
        # What a run is follows from its number in one cycle, and the run is made in the next one.
        settled = Signal()
        m.d.sync += settled.eq(1)

        m.d.comb += self.i.ready.eq(~active & ~(wanted & self.i.payload.op_first))
        with m.If(self.i.valid & self.i.ready):
            new = self.i.payload
            m.d.sync += [tile.eq(new), active.eq(1), left.eq(new.slots), tile_first.eq(1), chunk_first.eq(1)]
            m.d.sync += [repeat1.eq(0), repeat2.eq(0), address1.eq(new.a), address2.eq(new.a), settled.eq(0)]
            with m.If(new.op_first):
                m.d.sync += [op.eq(self.tile_operation), wanted.eq(1), number.eq(self.tile_operation.first),
                             op_number.eq(op_number + 1)]
            with m.Else():
                m.d.sync += number.eq(op.first)

        is_table = op.kind == VectorKind.LOAD_TABLE
        end = is_table | (number == op.last)
        in_body = (number >= op.body_first) & (number <= op.body_last)
        body_end = ~is_table & (number == op.body_last) & (op.body_first <= op.body_last)
        again1 = body_end & (repeat1 != op.repeat1 - 1)
        again2 = body_end & (repeat2 != op.repeat2 - 1)
        left_last = is_table | (left <= op.chunk_slots)

        is_table, in_body, end, again1, again2, left_last = (
            delayed(m, flag, 1, name) for flag, name in (
                (is_table, "is_table"), (in_body, "in_body"), (end, "end"), (again1, "again1"), (again2, "again2"),
                (left_last, "left_last")))
        chunk_last = end & ~again1 & ~again2
        tile_last = chunk_last & left_last

        # A run is made in one cycle, with its micro-operation from memory in the next one, then queued.
        m.submodules.runs = runs = Queue(RunLayout(config), _WAITING_RUNS, registered=True)
        wiring.connect(m, runs.o, wiring.flipped(self.o))
        made: Any = Signal(RunLayout(config), reset_less=True)
        made_valid, room, step = Signal(), Signal(), Signal()
        m.d.comb += [
            step.eq(active & settled & room), self.number.eq(number), self.fetch.eq(step),
            runs.i.valid.eq(made_valid), runs.i.payload.eq(made),
            runs.i.payload.uop.eq(self.uop.as_value() & ~made.table.replicate(UopWord0.size)),
        ]
        m.d.sync += [
            # Two runs may be on their way to the queue that its level does not tell.
            room.eq(runs.level <= _WAITING_RUNS - 2), made_valid.eq(step),
            made.number.eq(number), made.table.eq(is_table), made.slots.eq(Mux(left_last, left, op.chunk_slots)),
            made.a.eq(Mux(in_body & ~is_table, address1, tile.a)), made.b.eq(tile.b),
            made.out.eq(tile.out), made.sub.eq(tile.sub),
            made.restart.eq(Mux(~chunk_first, Restart.CHUNK, Mux(tile_first, tile.restart, Restart.CONTINUE))),
            made.save_tile.eq(chunk_first & tile_first & tile.save), made.save_chunk.eq(chunk_first),
            made.tile_first.eq(chunk_first & tile_first), made.tile_last.eq(tile_last),
            made.chunk_last.eq(chunk_last),
            made.op_first.eq(tile.op_first & chunk_first & tile_first), made.op_last.eq(tile.op_last & tile_last),
            made.param_first.eq(tile.param_first & chunk_first & tile_first),
            made.param_last.eq(tile.param_last & tile_last),
        ]
        self._rules(m, op, made, made_valid, op_number)
        with m.If(step):
            m.d.sync += [chunk_first.eq(chunk_last), settled.eq(0)]
            with m.If(again1):
                m.d.sync += [number.eq(op.body_first), repeat1.eq(repeat1 + 1),
                             address1.eq(address1 + op.a_repeat1_step)]
            with m.Elif(again2):
                m.d.sync += [number.eq(op.body_first), repeat1.eq(0), repeat2.eq(repeat2 + 1),
                             address1.eq(address2 + op.a_repeat2_step), address2.eq(address2 + op.a_repeat2_step)]
            with m.Elif(end):
                m.d.sync += [number.eq(op.first), repeat1.eq(0), repeat2.eq(0), address1.eq(tile.a),
                             address2.eq(tile.a), left.eq(left - op.chunk_slots), tile_first.eq(0)]
                with m.If(tile_last):
                    m.d.sync += active.eq(0)
            with m.Else():
                m.d.sync += number.eq(number + 1)
        return m

    def _rules(self, m: Module, op: Any, made: Any, made_valid: Signal, op_number: Signal) -> None:
        """Look at each micro-operation as its run is made; compared in one cycle, gathered in the next."""
        filled = Signal(range(CHUNK_REGISTERS + 1))
        tests = uop_rules(self._config, 0)
        values = {field.name: self.uop[field.name] for field in UOP[0].fields} | {
            "use_acc": op.use_acc, "use_params": op.use_params, "chunk_registers": filled}
        found, looks, whose = Signal(len(tests) + 1), Signal(), Signal(NUMBER_BITS)
        m.d.comb += filled.eq(chunk_registers_of(self._config, op.use_acc, made.slots))
        m.d.sync += [
            found.eq(Cat(broken_by_word(tests, values), Mux(op.use_params, self.uop_broken[0], self.uop_broken[1]))),
            looks.eq(made_valid & ~made.table), whose.eq(op_number),
            self.broken.eq(looks & found.any()), self.broken_number.eq(whose),
        ]
