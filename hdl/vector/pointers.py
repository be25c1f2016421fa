"""The slot pointers of a vector operation: the current slot of each stream, and where a run starts."""

from typing import Any

from amaranth import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.signatures import OperationLayout
from tq_hw.hdl.vector.steps import CountedStep, Restart, SlotFields, StepLayout
from tq_hw.hdl.vector.waits import WaitMarks
from tq_hw.isa.config import Config
from tq_hw.isa.layout import Unit, VectorKind

__all__ = ["SlotPointers"]

_STREAMS = ("a", "b", "out")


class SlotPointers(wiring.Component):
    """Add the slot pointers to a step's addresses, and add the waits of its run.

    The pointers (one per stream, without base) advance from slot to slot. A run restarts them at the chunk's first
    slot, which is stored; so is the tile's first slot while other output blocks follow.

    Timing: one cycle, one step a cycle.

    Members
    -------
    i : In(stream of CountedStep, always ready); operation : In(OperationLayout) of the step at `i`
    operation_taken : Out(1), strobe: its fields are copied
    o : Out(stream of StepLayout, always ready)
    """

    i: stream.Interface
    operation: Any
    operation_taken: Signal
    o: stream.Interface

    def __init__(self, config: Config) -> None:
        self._config = config
        super().__init__({
            "i": In(stream.Signature(CountedStep(config), always_ready=True)),
            "operation": In(OperationLayout(Unit.VECTOR)), "operation_taken": Out(1),
            "o": Out(stream.Signature(StepLayout(config), always_ready=True)),
        })

    def elaborate(self, platform: object) -> Module:
        """One register for the step; then the pointers."""
        m = Module()
        # cols_left: columns left in the row after this one; row_last: none is.
        pointers = data.StructLayout({
            **dict.fromkeys(_STREAMS, 16), **{f"{name}_row": 16 for name in _STREAMS}, "cols_left": 16, "row_last": 1,
            "acc": range(self._config.acc_words)})
        at: Any = Signal(pointers, reset_less=True)
        chunk: Any = Signal(pointers, reset_less=True)
        tile: Any = Signal(pointers, reset_less=True)
        op: Any = Signal(SlotFields, reset_less=True)
        cols_less_1, one_col = Signal(16, reset_less=True), Signal(reset_less=True)

        counted: Any = Signal(CountedStep(self._config), reset_less=True)
        valid = Signal()
        m.d.sync += [valid.eq(self.i.valid), counted.eq(self.i.payload)]
        m.d.comb += self.operation_taken.eq(self.i.valid & self.i.payload.operation_first)
        with m.If(self.operation_taken):
            m.d.sync += [op[name].eq(self.operation[name]) for name, _ in SlotFields]
            m.d.sync += [cols_less_1.eq(self.operation.cols - 1), one_col.eq(self.operation.cols == 1)]

        # The step's position.
        now: Any = Signal(pointers)
        with m.Switch(counted.start):
            with m.Case(Restart.CONTINUE):
                m.d.comb += now.eq(at)
            with m.Case(Restart.CHUNK):
                m.d.comb += now.eq(chunk)
            with m.Case(Restart.TILE):
                m.d.comb += now.eq(tile)
            with m.Default():
                m.d.comb += [now.cols_left.eq(cols_less_1), now.row_last.eq(one_col)]
        with m.If(counted.acc_first):
            m.d.comb += now.acc.eq(0)

        # The next slot's position.
        after: Any = Signal(pointers)
        m.d.comb += [after.eq(now), after.acc.eq(now.acc + 1)]
        with m.If(op.kind == VectorKind.LOAD_TABLE):
            m.d.comb += after.a.eq(now.a + counted.next_word)
        with m.Else():
            for name in _STREAMS:
                row = now[f"{name}_row"] + op[f"{name}_row_step"]
                m.d.comb += after[name].eq(Mux(now.row_last, row, now[name] + op[f"{name}_col_step"]))
                with m.If(now.row_last):
                    m.d.comb += after[f"{name}_row"].eq(row)
            m.d.comb += [after.cols_left.eq(Mux(now.row_last, cols_less_1, now.cols_left - 1)),
                         after.row_last.eq(Mux(now.row_last, one_col, now.cols_left == 1))]

        with m.If(valid):
            m.d.sync += at.eq(Mux(counted.moves, after, now))
        with m.If(valid & counted.save_chunk):
            m.d.sync += chunk.eq(now)
        with m.If(valid & counted.save_tile):
            m.d.sync += tile.eq(now)

        m.submodules.waits = waits = WaitMarks(self._config)
        m.d.comb += [waits.valid.eq(valid & counted.emits), waits.counted.eq(counted)]

        used: Any = Signal(pointers)
        o = self.o.payload
        m.d.comb += [
            used.eq(Mux(counted.at_chunk, chunk, now)), self.o.valid.eq(valid & counted.emits), o.eq(counted.step),
            o.a.address.eq(counted.step.a.address + used.a), o.b.address.eq(counted.step.b.address + used.b),
            o.out_address.eq(counted.step.out_address + used.out), o.acc_word.eq(used.acc),
            o.waits.eq(waits.waits),
        ]
        return m
