"""The reduction of a chunk to one value: a tree over the lanes of a beat, then an accumulation over the beats."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from amaranth import Cat, Const, Module, Mux, Signal, signed
from amaranth.hdl import Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.parts.delay import delayed
from tq_hw.hdl.parts.numbers import multiple
from tq_hw.isa.config import Config
from tq_hw.isa.latency import REDUCE_LEVEL_CYCLES
from tq_hw.isa.uop import Reduce

__all__ = ["ReduceLayout", "ReduceUnit"]


class ReduceLayout(data.StructLayout):
    """What a reduction needs to know of a beat.

    Members
    -------
    first, last : beat of the reduction; kind : `isa.uop.Reduce`
    lanes : channels of the beat's word that take part, from channel 0; position : the beat in the word
    word : register word for the result
    """

    def __init__(self, config: Config, word_bits: int) -> None:
        super().__init__({"first": 1, "last": 1, "kind": 2, "lanes": range(config.block + 1),
                          "position": range(config.beats_per_word), "word": word_bits})


class _Part(NamedTuple):
    """A value in the tree, and whether it takes part; if not, it is 0."""

    value: Value
    is_in: Value


class ReduceUnit(wiring.Component):
    """Reduce int32 lanes: SUM wraps, MAX and MIN are signed.

    Timing: `done` comes reduce_tree_cycles(config) - 1 after the last beat; one beat a cycle.

    Members
    -------
    valid : In(1), a beat of a reduction; beat : In(ReduceLayout); x : In(lanes int32)
    done : Out(1), strobe; word : Out, with it, register word; result : Out(signed(32)), with it, otherwise 0
    """

    valid: Signal
    beat: Any
    x: Any
    done: Signal
    word: Signal
    result: Signal

    def __init__(self, config: Config, word_bits: int) -> None:
        self._config = config
        super().__init__({
            "valid": In(1), "beat": In(ReduceLayout(config, word_bits)),
            "x": In(data.ArrayLayout(signed(32), config.requantize_lanes)), "done": Out(1), "word": Out(word_bits),
            "result": Out(signed(32)),
        })

    def elaborate(self, platform: object) -> Module:
        """Exclude lanes that take no part, reduce level by level, then over time.

        An excluded value is 0, with a flag. Of the sum and the selected value, the one not used is 0.
        """
        m = Module()
        lanes = self._config.requantize_lanes
        level: list[_Part] = []
        for lane in range(lanes):
            value, is_in = Signal(32, name=f"part{lane}", reset_less=True), Signal(name=f"in{lane}", reset_less=True)
            takes_part = multiple(self.beat.position, lanes) + lane < self.beat.lanes
            m.d.sync += [value.eq(Mux(takes_part, self.x[lane], 0)), is_in.eq(takes_part)]
            level.append(_Part(value, is_in))

        beat: Any = delayed(m, self.beat, 1, "beat")
        valid: Any = delayed(m, self.valid, 1, "valid", control=True)
        depth = 0
        while len(level) > 1:
            level = [self._node(m, beat.kind, level[i:i + 2], f"{depth}_{i}") for i in range(0, len(level), 2)]
            beat = delayed(m, beat, REDUCE_LEVEL_CYCLES, f"beat{depth}")
            valid = delayed(m, valid, REDUCE_LEVEL_CYCLES, f"valid{depth}", control=True)
            depth += 1

        # The first beat has no predecessor. Channel 0 belongs to it and always takes part.
        part, compares, first = level[0], beat.kind != Reduce.SUM, beat.first
        so_far = Signal(32, reset_less=True)
        added = _added(part.value, Mux(first, 0, so_far ^ compares.replicate(32)), compares)
        takes = first | part.is_in & (added[32] ^ (beat.kind == Reduce.MAX))
        with m.If(valid & (takes | ~compares)):
            m.d.sync += so_far.eq(Mux(compares, part.value, added[:32]))
        m.d.sync += [self.done.eq(valid & beat.last), self.word.eq(beat.word)]
        m.d.comb += self.result.eq(Mux(self.done, so_far, 0))
        return m

    @staticmethod
    def _node(m: Module, kind: Value, parts: Sequence[_Part], name: str) -> _Part:
        """Return the sum, maximum or minimum of two values, two cycles later. A single participant passes."""
        if len(parts) == 1:
            return _Part(delayed(m, parts[0].value, REDUCE_LEVEL_CYCLES, f"x{name}"),
                         delayed(m, parts[0].is_in, REDUCE_LEVEL_CYCLES, f"in_x{name}"))
        x, y = parts
        compares = kind != Reduce.SUM
        value = Signal(32, name=f"level{name}", reset_less=True)
        total, late_x, late_y = (Signal(32, name=f"{of}{name}", reset_less=True) for of in ("total", "x", "y"))
        less, if_less, if_not = (Signal(name=f"{of}{name}", reset_less=True) for of in ("less", "if_less", "if_not"))
        added = _added(x.value, y.value ^ compares.replicate(32), compares)
        m.d.sync += [
            total.eq(Mux(compares, 0, added[:32])), late_x.eq(Mux(compares, x.value, 0)),
            late_y.eq(Mux(compares, y.value, 0)), less.eq(added[32]),
            # Whether y is kept where x is less, and where it is not.
            if_less.eq(y.is_in & (~x.is_in | (kind == Reduce.MAX))),
            if_not.eq(y.is_in & (~x.is_in | (kind == Reduce.MIN))),
            value.eq(total | Mux(Mux(less, if_less, if_not), late_y, late_x)),
        ]
        return _Part(value, delayed(m, x.is_in | y.is_in, REDUCE_LEVEL_CYCLES, f"in{name}"))


def _added(x: Value, y: Value, carry: Value) -> Value:
    """Return x + y + carry of signed words, 33 bits. An extra bit below carries in."""
    return (Cat(Const(1, 1), x).as_signed() + Cat(carry, y).as_signed())[1:34]
