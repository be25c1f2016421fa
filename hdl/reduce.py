"""The reduction of a chunk to one value: a tree over the lanes of a beat, then a running result over the beats."""

from typing import Any

from amaranth import Cat, Module, Mux, Signal, signed
from amaranth.hdl import Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.delay import delayed
from tq_hw.isa.config import Config
from tq_hw.isa.uop import Reduce

__all__ = ["ReduceLayout", "ReduceUnit", "reduce_latency_cycles"]


def reduce_latency_cycles(config: Config) -> int:
    """Return the cycles from a beat at the input to the result of a reduction that it ends."""
    return 2 + (config.requantize_lanes - 1).bit_length()


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

    Timing: `done` comes reduce_latency_cycles(config) after the last beat; one beat a cycle.

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
        neutral = Cat((kind == Reduce.MIN).replicate(31), kind == Reduce.MAX).as_signed()
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
            for i in range(0, len(level), 2):
                value = Signal(signed(32), name=f"level{depth}_{i}", reset_less=True)
                m.d.sync += value.eq(self._of(beat.kind, level[i], level[i + 1]) if i + 1 < len(level) else level[i])
                above.append(value)
            level = above
            beat, valid = delayed(m, beat, 1, f"beat{depth}"), delayed(m, valid, 1, f"valid{depth}", control=True)
            depth += 1

        with m.If(valid):
            m.d.sync += self.result.eq(Mux(beat.first, level[0], self._of(beat.kind, level[0], self.result)))
        m.d.comb += [self.ends.eq(valid & beat.last), self.word.eq(beat.word)]
        m.d.sync += self.done.eq(self.ends)
        return m

    @staticmethod
    def _of(kind: Value, x: Any, y: Any) -> Value:
        less = x < y
        takes_x = Mux(kind == Reduce.MAX, ~less, less)
        return Mux(kind == Reduce.SUM, (x + y)[:32], Mux(takes_x, x, y)[:32]).as_signed()
