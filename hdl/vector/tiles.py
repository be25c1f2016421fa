"""The outer loops of a vector operation: output blocks and tiles."""

from typing import Any, NamedTuple

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
    """Take operations and walk their tiles, ahead of the other stages.

    A tile waits here for the next stage, so the parameter blocks of the next tiles, even of the next operation, are
    requested while the current tile is processed. A tile leaves only once its parameter block is requested.

    Members
    -------
    i : In(operations); taken when all tiles of the previous one are made and its first one has left
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
        """Keep the loops' state. Make a tile every second cycle; in the other cycle the counters are compared."""
        m = Module()
        at = _Position(self._config)
        m.d.comb += self.operation.eq(at.op)
        self._take(m, at)
        ends = self._ends(m, at)
        step = self._make(m, at, ends)
        self._advance(m, at, ends, step)
        return m

    def _take(self, m: Module, at: "_Position") -> None:
        """Take an operation. Fields that its kind ignores get neutral values, so that the loops need no cases."""
        op = at.op
        is_table = self.i.payload.kind == VectorKind.LOAD_TABLE
        first_leaves = ~(self.o.valid & self.o.payload.op_first)
        m.d.comb += self.i.ready.eq(~at.active & first_leaves)
        m.d.comb += self.accepted.eq(self.i.valid & self.i.ready)
        with m.If(self.accepted):
            m.d.sync += [at.active.eq(1), at.fresh.eq(1), at.number.eq(at.number + 1)]
        # Loaded speculatively; reloaded until an operation is accepted.
        with m.If(~at.active & first_leaves):
            m.d.sync += [op.eq(self.i.payload), at.last_block.eq(self.i.payload.out_blocks - 1)]
            with m.If(is_table):
                m.d.sync += [op.use_acc.eq(0), op.use_params.eq(0), op.blocks_inner.eq(0), op.out_blocks.eq(1),
                             at.last_block.eq(0), op.tile_slots.eq(TABLE_ENTRIES), op.sub_first.eq(0)]

    def _ends(self, m: Module, at: "_Position") -> "_Ends":
        """Return the flags of the tile that is made next, compared one cycle before."""
        op, fresh = at.op, at.fresh
        ends = _Ends(*(Signal(name=name) for name in _Ends._fields))
        m.d.sync += [ends.tile_last.eq(Mux(fresh, op.slots, at.left) <= op.tile_slots),
                     ends.block_first.eq(fresh | (at.block == 0)),
                     ends.block_last.eq(Mux(fresh, 0, at.block) == at.last_block)]
        m.d.sync += ends.inner.eq(op.blocks_inner & (op.out_blocks != 1))
        m.d.sync += ends.param_first.eq(op.use_params & (ends.inner | at.tile_first | fresh))
        return ends

    def _make(self, m: Module, at: "_Position", ends: "_Ends") -> Signal:
        """Make the tile when its parameter block can be requested; return the strobe."""
        op, inner, tile_first = at.op, ends.inner, at.tile_first
        last = ends.block_last & ends.tile_last
        compared = Signal()
        free, step = Signal(), Signal()
        m.d.sync += compared.eq(at.fresh | (at.active & ~step))
        # The next stage takes no two tiles in successive cycles, so there is time to see that one has left.
        m.d.comb += [
            free.eq(at.active & compared & ~self.o.valid),
            step.eq(free & (self.params.ready | ~ends.param_first)),
            self.params.valid.eq(free & ends.param_first), self.params.payload.address.eq(at.param),
            self.params.payload.number.eq(at.number),
        ]
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.If(step):
            tile = self.o.payload
            m.d.sync += [
                self.o.valid.eq(1), tile.slots.eq(Mux(ends.tile_last, at.left[:16], op.tile_slots)),
                tile.a.eq(at.a), tile.b.eq(at.b), tile.out.eq(at.out), tile.sub.eq(at.sub),
                tile.restart.eq(Mux(inner & ~ends.block_first, Restart.TILE,
                                    Mux(tile_first, Restart.ORIGIN, Restart.CONTINUE))),
                tile.save.eq(inner & ends.block_first),
                tile.op_first.eq(tile_first & ends.block_first),
                tile.op_last.eq(last),
                tile.param_first.eq(ends.param_first),
                tile.param_last.eq(op.use_params & (inner | ends.tile_last)),
            ]
            with m.If(last):
                m.d.sync += at.active.eq(0)
        return step

    def _advance(self, m: Module, at: "_Position", ends: "_Ends", step: Signal) -> None:
        """Advance to the next block and tile, in the order of the two loops; begin with the first of both."""
        op, fresh, param = at.op, at.fresh, at.param
        next_block, next_tile = Signal(), Signal()
        with m.If(ends.inner):
            m.d.comb += [next_block.eq(1), next_tile.eq(ends.block_last)]
        with m.Else():
            m.d.comb += [next_block.eq(ends.tile_last), next_tile.eq(1)]
        wrap = ends.block_last | fresh
        sub_wrap = ~op.use_acc | (at.sub == self._config.sub_blocks - 1)
        with m.If(fresh | (step & next_block)):
            m.d.sync += [at.block.eq(Mux(wrap, 0, at.block + 1)),
                         param.eq(Mux(wrap, op.param_base, param + op.param_block_step))]
            with m.If(wrap):
                m.d.sync += [at.a.eq(op.a_base), at.b.eq(op.b_base), at.out.eq(op.out_base), at.sub.eq(op.sub_first)]
            with m.Elif(sub_wrap):
                m.d.sync += [at.a.eq(at.a + op.a_block_step), at.b.eq(at.b + op.b_block_step),
                             at.out.eq(at.out + op.out_block_step), at.sub.eq(0)]
            with m.Else():
                m.d.sync += at.sub.eq(at.sub + 1)
        with m.If(fresh | (step & next_tile)):
            again = fresh | (ends.tile_last & ~ends.inner)
            m.d.sync += [at.left.eq(Mux(again, op.slots, at.left - op.tile_slots)), at.tile_first.eq(again)]
        with m.If(fresh):
            m.d.sync += fresh.eq(0)


class _Position:
    """The position of the walk: the operation, its output block and its tile."""

    def __init__(self, config: Config) -> None:
        self.op: Any = Signal(OperationLayout(Unit.VECTOR), reset_less=True)
        #: An operation is in progress; it was taken in the cycle before.
        self.active, self.fresh = Signal(name="active"), Signal(name="fresh")
        #: Low bits of the operation's number; -1 before the first.
        self.number = Signal(NUMBER_BITS, init=(1 << NUMBER_BITS) - 1)
        #: Number of the block, of the operation's last one, and of the block's share of an accumulator word.
        self.block, self.last_block = Signal(16, name="block"), Signal(16, name="last_block", reset_less=True)
        self.sub = Signal(range(config.sub_blocks))
        #: Slots of the block from this tile on; this is its first tile.
        self.left, self.tile_first = Signal(24, name="left"), Signal(name="tile_first")
        #: Word addresses of the block: streams, output, parameters.
        self.a, self.b, self.out, self.param = Signal(16), Signal(16), Signal(16), Signal(16)


class _Ends(NamedTuple):
    """The tile's place in its loops, one flag each."""

    tile_last: Signal
    block_first: Signal
    block_last: Signal
    #: Blocks are the inner loop: each tile is made for all of them.
    inner: Signal
    #: The tile is the first that uses its parameter block.
    param_first: Signal
