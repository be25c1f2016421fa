"""The middle loops of a vector operation: chunks of a tile, micro-operations, repeats of the program's body."""

from typing import Any, NamedTuple

from amaranth import Cat, Module, Mux, Signal, Value
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

#: Capacity of the queue of runs.
_WAITING_RUNS = 4


class ProgramWalker(wiring.Component):
    """Expand tiles into runs, and read each run's micro-operation.

    A run every second cycle, queued at the output. So the next stage has no bubble if its runs are two beats or
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
        """Keep the loops' state; make runs and queue them."""
        m = Module()
        at = _Position(self._config)
        m.d.comb += self.operation.eq(at.op)
        with m.If(self.operation_taken):
            m.d.sync += at.wanted.eq(0)
        m.d.sync += at.settled.eq(1)
        self._take(m, at)
        ends = self._ends(m, at)
        step = self._make(m, at, ends)
        with m.If(step):
            self._advance(m, at, ends)
        return m

    def _take(self, m: Module, at: "_Position") -> None:
        """Take a tile when none is in progress; with an operation's first tile, also the operation."""
        m.d.comb += self.i.ready.eq(~at.active & ~(at.wanted & self.i.payload.op_first))
        with m.If(self.i.valid & self.i.ready):
            new = self.i.payload
            m.d.sync += [at.tile.eq(new), at.active.eq(1), at.left.eq(new.slots), at.tile_first.eq(1),
                         at.chunk_first.eq(1)]
            m.d.sync += [at.repeat1.eq(0), at.repeat2.eq(0), at.address1.eq(new.a), at.address2.eq(new.a),
                         at.settled.eq(0)]
            with m.If(new.op_first):
                m.d.sync += [at.op.eq(self.tile_operation), at.wanted.eq(1), at.number.eq(self.tile_operation.first),
                             at.op_number.eq(at.op_number + 1)]
            with m.Else():
                m.d.sync += at.number.eq(at.op.first)

    def _ends(self, m: Module, at: "_Position") -> "_Ends":
        """Return which loops end with the run, in registers: valid from the second cycle of a position on."""
        op, number = at.op, at.number
        is_table = op.kind == VectorKind.LOAD_TABLE
        body_end = ~is_table & (number == op.body_last) & (op.body_first <= op.body_last)
        ends = _Ends(is_table=is_table, in_body=(number >= op.body_first) & (number <= op.body_last),
                     end=is_table | (number == op.last), again1=body_end & (at.repeat1 != op.repeat1 - 1),
                     again2=body_end & (at.repeat2 != op.repeat2 - 1),
                     left_last=is_table | (at.left <= op.chunk_slots))
        return _Ends(*(delayed(m, flag, 1, name) for name, flag in ends._asdict().items()))

    def _make(self, m: Module, at: "_Position", ends: "_Ends") -> Signal:
        """Make the run in one cycle, and queue it with its micro-operation in the next; return the strobe."""
        config, op, tile = self._config, at.op, at.tile
        m.submodules.runs = runs = Queue(RunLayout(config), _WAITING_RUNS, registered=True)
        wiring.connect(m, runs.o, wiring.flipped(self.o))
        made: Any = Signal(RunLayout(config), reset_less=True)
        made_valid, room, step = Signal(), Signal(), Signal()
        m.d.comb += [
            step.eq(at.active & at.settled & room), self.number.eq(at.number), self.fetch.eq(step),
            runs.i.valid.eq(made_valid), runs.i.payload.eq(made),
            runs.i.payload.uop.eq(self.uop.as_value() & ~made.table.replicate(UopWord0.size)),
        ]
        first = at.chunk_first & at.tile_first
        m.d.sync += [
            # Up to two runs may be in flight that the queue's level does not include.
            room.eq(runs.level <= _WAITING_RUNS - 2), made_valid.eq(step),
            made.number.eq(at.number), made.table.eq(ends.is_table),
            made.slots.eq(Mux(ends.left_last, at.left, op.chunk_slots)),
            made.a.eq(Mux(ends.in_body & ~ends.is_table, at.address1, tile.a)), made.b.eq(tile.b),
            made.out.eq(tile.out), made.sub.eq(tile.sub),
            made.restart.eq(Mux(~at.chunk_first, Restart.CHUNK,
                                Mux(at.tile_first, tile.restart, Restart.CONTINUE))),
            made.save_tile.eq(first & tile.save), made.save_chunk.eq(at.chunk_first),
            made.tile_first.eq(first), made.tile_last.eq(ends.tile_last),
            made.chunk_last.eq(ends.chunk_last),
            made.op_first.eq(tile.op_first & at.chunk_first & at.tile_first),
            made.op_last.eq(tile.op_last & ends.tile_last),
            made.param_first.eq(tile.param_first & at.chunk_first & at.tile_first),
            made.param_last.eq(tile.param_last & ends.tile_last),
        ]
        self._rules(m, op, made, made_valid, at.op_number, self._filled(m, at, ends))
        return step

    def _filled(self, m: Module, at: "_Position", ends: "_Ends") -> Signal:
        """Return the number of vector registers that the run's chunk fills, registered for the rules."""
        filled = Signal(range(CHUNK_REGISTERS + 1))
        # For both chunk sizes `slots` is stable as long as the loops' ends, which are registered as well.
        last, other = (delayed(m, chunk_registers_of(self._config, at.op.use_acc, slots), 1, name)
                       for name, slots in (("filled_last", at.left), ("filled_other", at.op.chunk_slots)))
        m.d.sync += filled.eq(Mux(ends.left_last, last, other))
        return filled

    def _advance(self, m: Module, at: "_Position", ends: "_Ends") -> None:
        """Advance to the next micro-operation, repeat of the body, or chunk, or end the tile."""
        op, tile = at.op, at.tile
        m.d.sync += [at.chunk_first.eq(ends.chunk_last), at.settled.eq(0)]
        with m.If(ends.again1):
            m.d.sync += [at.number.eq(op.body_first), at.repeat1.eq(at.repeat1 + 1),
                         at.address1.eq(at.address1 + op.a_repeat1_step)]
        with m.Elif(ends.again2):
            m.d.sync += [at.number.eq(op.body_first), at.repeat1.eq(0), at.repeat2.eq(at.repeat2 + 1),
                         at.address1.eq(at.address2 + op.a_repeat2_step),
                         at.address2.eq(at.address2 + op.a_repeat2_step)]
        with m.Elif(ends.end):
            m.d.sync += [at.number.eq(op.first), at.repeat1.eq(0), at.repeat2.eq(0), at.address1.eq(tile.a),
                         at.address2.eq(tile.a), at.left.eq(at.left - op.chunk_slots), at.tile_first.eq(0)]
            with m.If(ends.tile_last):
                m.d.sync += at.active.eq(0)
        with m.Else():
            m.d.sync += at.number.eq(at.number + 1)

    def _rules(self, m: Module, op: Any, made: Any, made_valid: Signal, op_number: Signal, filled: Signal) -> None:
        """Check each micro-operation as its run is made: compare in one cycle, combine in the next."""
        tests = uop_rules(self._config, 0)
        values = {field.name: self.uop[field.name] for field in UOP[0].fields} | {
            "use_acc": op.use_acc, "use_params": op.use_params, "chunk_registers": filled}
        found, looks, whose = Signal(len(tests) + 1), Signal(), Signal(NUMBER_BITS)
        m.d.sync += [
            found.eq(Cat(broken_by_word(tests, values), Mux(op.use_params, self.uop_broken[0], self.uop_broken[1]))),
            looks.eq(made_valid & ~made.table), whose.eq(op_number),
            self.broken.eq(looks & found.any()), self.broken_number.eq(whose),
        ]


class _Position:
    """The position of the walk: the tile and its operation, the chunk, the micro-operation, the repeats of the body."""

    def __init__(self, config: Config) -> None:
        self.op: Any = Signal(OperationLayout(Unit.VECTOR), reset_less=True)
        self.tile: Any = Signal(TileLayout(config), reset_less=True)
        #: A tile is in progress.
        self.active = Signal()
        #: The next stage copies the operation with its first run; until then `op` must not change.
        self.wanted = Signal()
        #: Low bits of the operation's number; -1 before the first.
        self.op_number = Signal(NUMBER_BITS, init=(1 << NUMBER_BITS) - 1)
        #: Number of the micro-operation.
        self.number = Signal(8)
        #: Slots of the tile from this chunk on.
        self.left = Signal(16)
        #: This is the first chunk of the tile; the first micro-operation of the chunk.
        self.tile_first, self.chunk_first = Signal(), Signal(name="chunk_first")
        #: Completed repeats of the body, inner and outer, and the address of stream A at the start of each.
        self.repeat1, self.repeat2 = Signal(16), Signal(16, name="repeat2")
        self.address1, self.address2 = Signal(16), Signal(16, name="address2")
        #: 0 in the first cycle of a position, in which `_ends` is computed; the run is made in the next.
        self.settled = Signal()


class _Ends(NamedTuple):
    """Which loops end at the position, one flag each."""

    #: The operation loads a table: one micro-operation of its own, all slots in one chunk.
    is_table: Value
    in_body: Value
    #: The last micro-operation; the body repeats, by the inner loop, by the outer one.
    end: Value
    again1: Value
    again2: Value
    #: The chunk is the last of its tile.
    left_last: Value

    @property
    def chunk_last(self) -> Value:
        """The run is the last of its chunk."""
        return self.end & ~self.again1 & ~self.again2

    @property
    def tile_last(self) -> Value:
        """The run is the last of its tile."""
        return self.chunk_last & self.left_last
