"""The outer loops of a vector operation: output blocks and tiles, and the rules an operation must keep."""

from typing import Any

from amaranth import Cat, Module, Mux, Signal
from amaranth.hdl import Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.parts.delay import delayed
from tq_hw.hdl.signatures import OperationLayout, operation_signature
from tq_hw.hdl.vector.steps import Restart, TileLayout
from tq_hw.isa.config import Config
from tq_hw.isa.control import Status
from tq_hw.isa.layout import Unit, VectorKind

__all__ = ["TABLE_ENTRIES", "TileWalker"]

#: Entries of a lane's table.
TABLE_ENTRIES = 512


class TileWalker(wiring.Component):
    """Take operations and walk their tiles, ahead of everything else.

    Because a tile waits here for the next stage, the parameter blocks of the next tiles, also of the next operation,
    are asked for while a tile is worked on. A tile leaves only when its parameter block was asked for.

    Members
    -------
    i : In(operations); taken when the first tile of the one before has left and all of its tiles are made
    o : Out(stream of TileLayout)
    operation : Out(OperationLayout), the operation of the tile at `o`
    params : Out(stream of 16 bits), addresses of parameter blocks in the order in which tiles need them
    accepted : Out(1), strobe: an operation was taken
    error : Out(4), Status.BAD_OPERATION for good once an operation breaks a rule; no more are taken
    """

    i: stream.Interface
    o: stream.Interface
    operation: Any
    params: stream.Interface
    accepted: Signal
    error: Signal

    def __init__(self, config: Config) -> None:
        self._config = config
        super().__init__({
            "i": In(operation_signature(Unit.VECTOR)), "o": Out(stream.Signature(TileLayout(config))),
            "operation": Out(OperationLayout(Unit.VECTOR)), "params": Out(stream.Signature(16)), "accepted": Out(1),
            "error": Out(4),
        })

    def _broken(self, op: Any) -> Value:
        """Whether an operation breaks a rule: a bit for each."""
        config = self._config
        no_body = op.body_first > op.body_last
        program = (
            *(field == 0 for field in (op.cols, op.out_blocks, op.tile_slots, op.chunk_slots, op.repeat1, op.repeat2)),
            op.out_type == 3, op.first > op.body_first, op.body_first > op.body_last + 1, op.body_last > op.last,
            op.first > op.last, op.last >= config.uops, no_body & ((op.repeat1 != 1) | (op.repeat2 != 1)),
            op.use_acc & (op.tile_slots > config.acc_words), op.use_acc & (op.sub_first >= config.sub_blocks),
            ~op.use_acc & (op.sub_first != 0), ~op.use_acc & op.use_params & (config.block != config.cols),
        )
        table = (op.slots > TABLE_ENTRIES, op.slots + op.table_first > TABLE_ENTRIES)
        is_program = op.kind == VectorKind.PROGRAM
        return Cat(op.slots == 0, op.kind > VectorKind.LOAD_TABLE, *(is_program & wrong for wrong in program),
                   *(~is_program & wrong for wrong in table))

    def elaborate(self, platform: object) -> Module:
        """Keep the loops' state; make a tile every second cycle, for in the other one the counters are compared."""
        m = Module()
        config = self._config
        op: Any = Signal(OperationLayout(Unit.VECTOR), reset_less=True)
        active = Signal()
        error = Signal(4)
        m.d.comb += [self.operation.eq(op), self.error.eq(error)]

        # Take an operation: fields that its kind ignores are made harmless, so that the loops need not ask.
        is_table = self.i.payload.kind == VectorKind.LOAD_TABLE
        first_leaves = ~(self.o.valid & self.o.payload.op_first)
        m.d.comb += self.i.ready.eq(~active & first_leaves & (error == 0))
        fresh = Signal()
        last_block = Signal(16, reset_less=True)
        m.d.comb += self.accepted.eq(self.i.valid & self.i.ready)
        with m.If(self.accepted):
            m.d.sync += [active.eq(1), fresh.eq(1)]
        # Loaded speculatively; reloaded until an operation is accepted.
        with m.If(~active & first_leaves):
            m.d.sync += [op.eq(self.i.payload), last_block.eq(self.i.payload.out_blocks - 1)]
            with m.If(is_table):
                m.d.sync += [op.use_acc.eq(0), op.use_params.eq(0), op.blocks_inner.eq(0), op.out_blocks.eq(1),
                             last_block.eq(0), op.tile_slots.eq(TABLE_ENTRIES), op.sub_first.eq(0)]

        block = Signal(16)
        sub = Signal(range(config.sub_blocks))
        left = Signal(24)
        tile_first = Signal()
        a, b, out, param = Signal(16), Signal(16), Signal(16), Signal(16)
        tile_last, block_first, block_last, compared = (
            Signal(name=name) for name in ("tile_last", "block_first", "block_last", "compared"))
        m.d.sync += [tile_last.eq(Mux(fresh, op.slots, left) <= op.tile_slots), block_first.eq(fresh | (block == 0)),
                     block_last.eq(Mux(fresh, 0, block) == last_block)]
        slots = Mux(tile_last, left[:16], op.tile_slots)
        inner = Signal()
        m.d.sync += inner.eq(op.blocks_inner & (op.out_blocks != 1))
        # Like the comparisons, of the tile that is made next.
        param_first = Signal()
        m.d.sync += param_first.eq(op.use_params & (inner | tile_first | fresh))
        last = block_last & tile_last

        free, step, broken = Signal(), Signal(), Signal()
        m.d.sync += compared.eq(fresh | (active & ~step))
        # The next stage takes no two tiles in a row, so there is time to see that one has left.
        m.d.comb += [
            free.eq(active & compared & ~broken & ~self.o.valid),
            step.eq(free & (self.params.ready | ~param_first)),
            self.params.valid.eq(free & param_first), self.params.payload.eq(param),
        ]
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.If(step):
            tile = self.o.payload
            m.d.sync += [
                self.o.valid.eq(1),
                tile.slots.eq(slots), tile.a.eq(a), tile.b.eq(b), tile.out.eq(out), tile.sub.eq(sub),
                tile.restart.eq(Mux(inner & ~block_first, Restart.TILE,
                                    Mux(tile_first, Restart.ORIGIN, Restart.CONTINUE))),
                tile.save.eq(inner & block_first),
                tile.op_first.eq(tile_first & block_first),
                tile.op_last.eq(last),
                tile.param_first.eq(param_first),
                tile.param_last.eq(op.use_params & (inner | tile_last)),
            ]
            with m.If(last):
                m.d.sync += active.eq(0)

        next_block, next_tile = Signal(), Signal()
        with m.If(inner):
            m.d.comb += [next_block.eq(1), next_tile.eq(block_last)]
        with m.Else():
            m.d.comb += [next_block.eq(tile_last), next_tile.eq(1)]
        wrap = block_last | fresh
        sub_wrap = ~op.use_acc | (sub == config.sub_blocks - 1)
        with m.If(fresh | (step & next_block)):
            m.d.sync += [block.eq(Mux(wrap, 0, block + 1)), param.eq(Mux(wrap, op.param_base,
                                                                         param + op.param_block_step))]
            with m.If(wrap):
                m.d.sync += [a.eq(op.a_base), b.eq(op.b_base), out.eq(op.out_base), sub.eq(op.sub_first)]
            with m.Elif(sub_wrap):
                m.d.sync += [a.eq(a + op.a_block_step), b.eq(b + op.b_block_step), out.eq(out + op.out_block_step),
                             sub.eq(0)]
            with m.Else():
                m.d.sync += sub.eq(sub + 1)
        with m.If(fresh | (step & next_tile)):
            again = fresh | (tile_last & ~inner)
            m.d.sync += [left.eq(Mux(again, op.slots, left - op.tile_slots)), tile_first.eq(again)]
        with m.If(fresh):
            m.d.sync += fresh.eq(0)
        # Compared as the operation comes in; in the cycle after that, what was found is gathered.
        found = self._broken(self.i.payload)
        m.d.sync += broken.eq(fresh & delayed(m, found, 1, "rules").any())
        with m.If(broken):
            m.d.sync += [error.eq(Status.BAD_OPERATION), active.eq(0)]
        return m
