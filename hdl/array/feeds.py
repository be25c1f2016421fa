"""Data path from scratchpad words to the inputs of the array."""

from typing import Any

from amaranth import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.array.steps import SLOT_FEEDS, Slot
from tq_hw.hdl.parts.choose import TURN_BITS, rotate_up
from tq_hw.hdl.parts.delay import delayed
from tq_hw.isa.config import Config
from tq_hw.isa.latency import ARRAY_READ_LATENCY_CYCLES, feed_cycles, rotate_cycles

__all__ = ["Feeds"]


class Feeds(wiring.Component):
    """Rotate the three words of a slot and distribute their bytes to the rows; padding becomes the zero point.

    GEMM and folded: row r takes byte r of the first rotated word whose `lane_end` is above r. Depthwise: the
    first `cols` bytes of rotated word g are the column bytes of group g, `sel` selects the rows whose tap lies
    in the image, and the row bytes are the zero point.

    Members
    -------
    slot : In(Slot); data : In, the feeds' words, ARRAY_READ_LATENCY_CYCLES later
    a, x, sel, swap : Out, to MacArray, feed_cycles later than `slot`
    """

    slot: Any
    data: Any
    a: Any
    x: Any
    sel: Signal
    swap: Signal

    def __init__(self, config: Config) -> None:
        self._config = config
        super().__init__({
            "slot": In(Slot(config)),
            "data": In(data.ArrayLayout(8 * config.word_bytes, SLOT_FEEDS)),
            "a": Out(data.ArrayLayout(signed(8), config.rows)),
            "x": Out(data.ArrayLayout(signed(8), config.groups * config.cols)),
            "sel": Out(config.rows), "swap": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        """First stage rotates, in one or two cycles, second stage selects."""
        m = Module()
        config, rows = self._config, range(self._config.rows)
        slot = delayed(m, self.slot, ARRAY_READ_LATENCY_CYCLES, "slot")
        later = rotate_cycles(config) - 1
        early_bits = TURN_BITS * later
        words = [delayed(m, rotate_up(m, self.data[g], slot.rotate[g][:early_bits], f"turn{g}"), later, f"turned{g}")
                 for g in range(SLOT_FEEDS)]
        slot = delayed(m, slot, later, "turned")
        rotated = []
        for g in range(SLOT_FEEDS):
            word = Signal(8 * config.word_bytes, name=f"rotated{g}", reset_less=True)
            m.d.sync += word.eq(rotate_up(m, words[g], slot.rotate[g][early_bits:], f"rotate{g}", 8 << early_bits))
            rotated.append(word)

        # The feed of which a row takes its byte, or SLOT_FEEDS for the zero point.
        row_feed = [Signal(range(SLOT_FEEDS + 1), init=SLOT_FEEDS, name=f"row_feed{r}", reset_less=True) for r in rows]
        for r in rows:
            m.d.sync += row_feed[r].eq(SLOT_FEEDS)
            for g in reversed(range(SLOT_FEEDS)):
                with m.If(slot.lane_end[g] > r):
                    m.d.sync += row_feed[r].eq(Mux(slot.row_valid[g], g, SLOT_FEEDS))
        zero_point = delayed(m, slot.zero_point, 1, "zero_point")
        for r in rows:
            lane = 8 * (r % config.word_bytes)
            bytes_of = data.ArrayLayout(signed(8), SLOT_FEEDS + 1)
            choices = data.View(bytes_of, Cat(*(word[lane:lane + 8] for word in rotated), zero_point))
            m.d.sync += self.a[r].eq(choices[row_feed[r]])

        taps = delayed(m, Cat(slot.depthwise & slot.row_valid[g] & slot.col_valid[k]
                              for g in range(config.groups) for k in range(3)), 2, "taps")
        columns = Cat(rotated[g][:8 * config.cols] for g in range(config.groups))
        m.d.comb += [
            self.sel.eq(taps),
            self.x.as_value().eq(delayed(m, columns, 1, "columns")),
            self.swap.eq(delayed(m, self.slot.swap, feed_cycles(config), "swap", control=True)),
        ]
        return m
