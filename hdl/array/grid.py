"""The multipliers: a grid of weight-stationary cells without horizontal data flow.

A cell has three registers in sequence: activation, product, partial sum. A DSP48E1 has the same registers, so on
7-series parts a cell maps to one DSP block and needs no fabric.
"""

from collections.abc import Callable
from typing import Any

from amaranth import Module, Mux, Signal, signed
from amaranth.hdl import Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.array.packed_grid import PackedGrid
from tq_hw.hdl.outside import Outside, array_instance
from tq_hw.hdl.parts.delay import delayed
from tq_hw.isa.config import Config

__all__ = ["MacArray"]


class MacArray(wiring.Component):
    """rows x cols cells: `activation <= sel ? x : a; product <= activation * weight; sum <= above + product`.

    The byte `a[r]` goes to all cells of row r. The byte `x[g * cols + c]` goes to the three cells of column c in
    rows 3g..3g+2. All inputs of a slot arrive in one cycle; internal delays move the slot down one row per cycle.
    The sums of a slot taken in cycle t are on `psum` in cycle t + array_latency_cycles. With `sel` set, row 3g + k
    of slot p therefore takes the byte of group g that was on `x` in slot p + k: each column of a group is a
    three-tap filter over the stream `x`.

    With `dsp_packing` the contents are those of packed_grid.py, which takes slots in pairs. A slot with `swap` begins a
    pair, so the next `swap` comes an even number of cycles later, or after the last pair is complete.

    Members
    -------
    a : In(rows bytes), row bytes, signed
    x : In(groups * cols bytes), column bytes of the depthwise groups, signed
    sel : In(rows), rows that take `x`; rows beyond the groups ignore it
    swap : In(1), this slot is the first that uses the weights written last. Row r changes when the slot
        reaches it, and its shadow weights become 0 unless they are written in that same cycle
    weight : In(cols bytes), weights of the rows in `weight_row`, signed
    weight_row : In(rows), shadow rows written in this cycle, one at most with `dsp_packing`. Row r must be written
        after row r of the previous step has changed (cycle of that `swap` + r), and not after its own change
    psum : Out(cols sums), signed
    """

    a: Any
    x: Any
    sel: Signal
    swap: Signal
    weight: Any
    weight_row: Signal
    psum: Any

    def __init__(self, config: Config) -> None:
        self._config = config
        super().__init__({
            "a": In(data.ArrayLayout(signed(8), config.rows)),
            "x": In(data.ArrayLayout(signed(8), config.groups * config.cols)),
            "sel": In(config.rows),
            "swap": In(1),
            "weight": In(data.ArrayLayout(signed(8), config.cols)),
            "weight_row": In(config.rows),
            "psum": Out(data.ArrayLayout(signed(config.partial_sum_bits), config.cols)),
        })

    def elaborate(self, platform: object) -> Module:
        """Build the rows from the top."""
        if isinstance(platform, Outside) and platform.array:
            return array_instance(self)
        config = self._config
        if config.dsp_packing:
            return PackedGrid(config, self).build()
        m = Module()
        above: list[Signal] = []
        swap = self.swap
        for r in range(config.rows):
            group, tap = divmod(r, 3)
            a = delayed(m, self.a[r], r, f"a{r}")
            sel = delayed(m, self.sel[r], r, f"sel{r}")
            if tap == 0 and group < config.groups:
                x = [delayed(m, self.x[group * config.cols + c], 3 * group, f"x{group}_{c}")
                     for c in range(config.cols)]
            # Write enable and clear are per row, so that a weight bit is one flip-flop with enable and synchronous
            # reset, without a LUT.
            write = self.weight_row[r]
            clear = Signal(name=f"clear{r}")
            m.d.comb += clear.eq(swap & ~write)
            activation = self._activations(m, r, a, sel, x if group < config.groups else None)
            sums = []
            for c in range(config.cols):
                def register(name: str, bits: int, at: str = f"_{r}_{c}", reset_less: bool = True) -> Signal:
                    return Signal(signed(bits), name=name + at, reset_less=reset_less)

                shadow = register("shadow", 8, reset_less=False)
                active = register("active", 8)
                product = register("product", 16)
                total = register("total", config.partial_sum_bits)
                with m.If(clear):
                    m.d.sync += shadow.eq(0)
                with m.Elif(write):
                    m.d.sync += shadow.eq(self.weight[c])
                with m.If(swap):
                    m.d.sync += active.eq(shadow)
                m.d.sync += [
                    product.eq(activation(c) * active),
                    total.eq(above[c] + product if above else product),
                ]
                sums.append(total)
            above = sums
            swap = delayed(m, swap, 1, f"swap{r}", control=True)
        m.d.comb += [self.psum[c].eq(above[c]) for c in range(config.cols)]
        return m

    def _activations(self, m: Module, row: int, a: Value, sel: Value, x: list[Any] | None) -> Callable[[int], Value]:
        """Return a function from a column to the activation of the row's cell, one cycle after its bytes.

        With `dsp_preadders` the activation is the sum of two bytes, one of which is 0, so that no LUT selects: the
        registers have resets, and a DSP48E1 has a register for each operand of its pre-adder.
        """
        def register(name: str, value: Value) -> Signal:
            kept = Signal(signed(8), name=name, reset_less=True)
            m.d.sync += kept.eq(value)
            return kept

        if x is None:
            return lambda c: register(f"activation_{row}_{c}", a)
        if not self._config.dsp_preadders:
            return lambda c: register(f"activation_{row}_{c}", Mux(sel, x[c], a))
        shared = register(f"row{row}", Mux(sel, 0, a))
        return lambda c: shared + register(f"column_{row}_{c}", Mux(sel, x[c], 0))
