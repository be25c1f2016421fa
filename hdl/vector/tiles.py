"""The outer loops of a vector operation: output blocks and tiles."""

from typing import Any

from amaranth import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.parts.numbers import NUMBER_BITS
from tq_hw.hdl.signatures import OperationLayout, operation_signature
from tq_hw.hdl.vector.params import BlockLayout
from tq_hw.hdl.vector.steps import Restart, TileLayout
from tq_hw.isa.config import Config
from tq_hw.isa.layout import Unit, VectorKind
from tq_hw.isa.legality import TABLE_ENTRIES

__all__ = ["TileWalker"]


class TileWalker(wiring.Component):
    """Take operations and walk their tiles, ahead of everything else.

    Because a tile waits here for the next stage, the parameter blocks of the next tiles, also of the next operation,
    are asked for while a tile is worked on. A tile leaves only when its parameter block was asked for.

    Members
    -------
    i : In(operations); taken when the first tile of the one before has left and all of its tiles are made
    o : Out(stream of TileLayout)
    operation : Out(OperationLayout), the operation of the tile at `o`
    params : Out(stream of BlockLayout), parameter blocks in the order in which tiles need them
    accepted : Out(1), strobe: an operation was taken
    """

    i: stream.Interface
    o: stream.Interface
    operation: Any
    params: stream.Interface
    accepted: Signal

    def __init__(self, config: Config) -> None:
        self._config = config
        super().__init__({
            "i": In(operation_signature(Unit.VECTOR)), "o": Out(stream.Signature(TileLayout(config))),
            "operation": Out(OperationLayout(Unit.VECTOR)), "params": Out(stream.Signature(BlockLayout)),
            "accepted": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        """Keep the loops' state; make a tile every second cycle, for in the other one the counters are compared."""
        m = Module()
        config = self._config
        op: Any = Signal(OperationLayout(Unit.VECTOR), reset_less=True)
        active = Signal()
        # Low bits of the operation's number; -1 before the first.
        number = Signal(NUMBER_BITS, init=(1 << NUMBER_BITS) - 1)
        m.d.comb += self.operation.eq(op)

        # Take an operation: fields that its kind ignores are made harmless, so that the loops need not ask.
        is_table = self.i.payload.kind == VectorKind.LOAD_TABLE
        first_leaves = ~(self.o.valid & self.o.payload.op_first)
        m.d.comb += self.i.ready.eq(~active & first_leaves)
        fresh = Signal()
        last_block = Signal(16, reset_less=True)
        m.d.comb += self.accepted.eq(self.i.valid & self.i.ready)
        with m.If(self.accepted):
            m.d.sync += [active.eq(1), fresh.eq(1), number.eq(number + 1)]
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

        free, step = Signal(), Signal()
        m.d.sync += compared.eq(fresh | (active & ~step))
        # The next stage takes no two tiles in a row, so there is time to see that one has left.
        m.d.comb += [
            free.eq(active & compared & ~self.o.valid),
            step.eq(free & (self.params.ready | ~param_first)),
            self.params.valid.eq(free & param_first), self.params.payload.address.eq(param),
            self.params.payload.number.eq(number),
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
        return m
