"""The reduction of a chunk to one value: a tree over the lanes of a beat, then a running result over the beats."""

from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal, signed
from amaranth.hdl import Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.parts.delay import delayed
from tq_hw.isa.config import Config
from tq_hw.isa.latency import REDUCE_LEVEL_CYCLES
from tq_hw.isa.uop import Reduce

__all__ = ["ReduceLayout", "ReduceUnit"]


class ReduceLayout(data.StructLayout):
    """What a reduction must know of a beat.

    Members
    -------
    first, last : beat of the reduction; kind : `isa.uop.Reduce`
    lanes : channels of the beat's word that take part, from channel 0; position : the beat in the word
    word : register word for the result
    """

    def __init__(self, config: Config, word_bits: int) -> None:
        super().__init__({"first": 1, "last": 1, "kind": 2, "lanes": range(config.block + 1),
                          "position": range(config.beats_per_word), "word": word_bits})


class ReduceUnit(wiring.Component):
    """Reduce int32 lanes: SUM wraps, MAX and MIN are signed.

    Timing: `done` comes reduce_tree_cycles(config) after the last beat; one beat a cycle.

    Members
    -------
    valid : In(1), a beat of a reduction; beat : In(ReduceLayout); x : In(lanes int32)
    ends : Out(1), strobe, one cycle before `done`; word : Out, with it, register word
    done : Out(1), strobe; result : Out(signed(32))
    """

    valid: Signal
    beat: Any
    x: Any
    ends: Signal
    word: Signal
    done: Signal
    result: Signal

    def __init__(self, config: Config, word_bits: int) -> None:
        self._config = config
        super().__init__({
            "valid": In(1), "beat": In(ReduceLayout(config, word_bits)),
            "x": In(data.ArrayLayout(signed(32), config.requantize_lanes)), "ends": Out(1), "word": Out(word_bits),
            "done": Out(1), "result": Out(signed(32)),
        })

    def elaborate(self, platform: object) -> Module:
        """Replace lanes that take no part by the neutral value, reduce level by level, then over time."""
        m = Module()
        lanes = self._config.requantize_lanes
        kind = self.beat.kind
        neutral = self._neutral(kind)
        level: list[Value] = []
        for lane in range(lanes):
            value = Signal(signed(32), name=f"part{lane}", reset_less=True)
            channel = self.beat.position * lanes + lane
            m.d.sync += value.eq(Mux(channel < self.beat.lanes, self.x[lane], neutral))
            level.append(value)

        beat: Any = delayed(m, self.beat, 1, "beat")
        valid: Any = delayed(m, self.valid, 1, "valid", control=True)
        depth = 0
        while len(level) > 1:
            above: list[Value] = []
            later = delayed(m, beat, 1, f"beat{depth}")
            for i in range(0, len(level), 2):
                value = Signal(signed(32), name=f"level{depth}_{i}", reset_less=True)
                x = delayed(m, level[i], 1, f"x{depth}_{i}")
                if i + 1 < len(level):
                    # One cycle to add or compare, one to choose.
                    y = delayed(m, level[i + 1], 1, f"y{depth}_{i}")
                    total = Signal(signed(33), name=f"total{depth}_{i}", reset_less=True)
                    m.d.sync += total.eq(self._total(beat.kind, level[i], level[i + 1]))
                    m.d.sync += value.eq(self._choice(later.kind, total, x, y))
                else:
                    m.d.sync += value.eq(x)
                above.append(value)
            level = above
            beat = delayed(m, later, 1, f"beat_late{depth}")
            valid = delayed(m, valid, REDUCE_LEVEL_CYCLES, f"valid{depth}", control=True)
            depth += 1

        # The first one meets what leaves it as it is.
        so_far = Mux(beat.first, self._neutral(beat.kind), self.result)
        with m.If(valid):
            m.d.sync += self.result.eq(
                self._choice(beat.kind, self._total(beat.kind, level[0], so_far), level[0], so_far))
        m.d.comb += [self.ends.eq(valid & beat.last), self.word.eq(beat.word)]
        m.d.sync += self.done.eq(self.ends)
        return m

    @staticmethod
    def _neutral(kind: Value) -> Value:
        return Cat((kind == Reduce.MIN).replicate(31), kind == Reduce.MAX).as_signed()

    @staticmethod
    def _total(kind: Value, x: Any, y: Any) -> Any:
        """Return the sum, or the difference, whose sign tells which is less: 33 bits. The carry goes in below."""
        minus = kind != Reduce.SUM
        addend = (y.as_unsigned() ^ minus.replicate(32)).as_signed()
        return (Cat(Const(1, 1), x).as_signed() + Cat(minus, addend).as_signed())[1:34].as_signed()

    @staticmethod
    def _choice(kind: Value, total: Any, x: Any, y: Any) -> Any:
        less = total[32]
        return Mux(kind == Reduce.SUM, total[:32], Mux(Mux(kind == Reduce.MAX, ~less, less), x, y)[:32]).as_signed()
