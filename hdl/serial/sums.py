"""Four sums of products of bytes: the array of the serial machine."""

from typing import Any

from amaranth import Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["COLUMNS", "Sums"]

#: Columns of weights: bytes of a word.
COLUMNS = 4


class Sums(wiring.Component):
    """sum[c] += byte c of `weights` times a byte of `inputs`, all signed, while `en`; 0 after `clear`.

    Members
    -------
    inputs, weights : In(32)
    row : In(2), the byte of `inputs` that is multiplied with every column
    lanes : In(1), multiply byte c with column c instead
    en, clear : In(1)
    which : In(2); sum : Out(32), one of the four
    """

    inputs: Signal
    weights: Signal
    row: Signal
    lanes: Signal
    en: Signal
    clear: Signal
    which: Signal
    sum: Signal

    def __init__(self) -> None:
        super().__init__({"inputs": In(32), "weights": In(32), "row": In(2), "lanes": In(1), "en": In(1),
                          "clear": In(1), "which": In(2), "sum": Out(32)})

    def elaborate(self, platform: object) -> Module:
        """Four multipliers, four registers."""
        m = Module()
        sums: Any = Signal(data.ArrayLayout(32, COLUMNS), reset_less=True)
        for column in range(COLUMNS):
            x, weight = Signal(signed(8), name=f"x{column}"), Signal(signed(8), name=f"weight{column}")
            m.d.comb += [
                x.eq(self.inputs.word_select(Mux(self.lanes, column, self.row), 8)),
                weight.eq(self.weights.word_select(column, 8)),
            ]
            with m.If(self.clear):
                m.d.sync += sums[column].eq(0)
            with m.Elif(self.en):
                m.d.sync += sums[column].eq(sums[column] + x * weight)
        m.d.comb += self.sum.eq(sums[self.which])
        return m
