"""The reduction of a chunk to one value: a tree over the lanes of a beat, then a running result over the beats."""

from typing import Any

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
        """Replace lanes that take no part by the neutral value, reduce level by level, then over time.

        A minimum is a maximum of complements. What a node subtracts comes to it as a complement, that of its second
        part, so that it has only to add; of the sum and the greater part, the one that is not wanted is 0.
        """
        m = Module()
        lanes = self._config.requantize_lanes
        kind = self.beat.kind
        compares = kind != Reduce.SUM
        level: list[Value] = []
        for lane in range(lanes):
            value = Signal(32, name=f"part{lane}", reset_less=True)
            channel = multiple(self.beat.position, lanes) + lane
            complement = (kind == Reduce.MIN) ^ (compares & lane % 2)
            least = Cat((compares & lane % 2).replicate(31), compares & (lane + 1) % 2)
            m.d.sync += value.eq(Mux(channel < self.beat.lanes, self.x[lane] ^ complement.replicate(32), least))
            level.append(value)

        beat: Any = delayed(m, self.beat, 1, "beat")
        valid: Any = delayed(m, self.valid, 1, "valid", control=True)
        depth = 0
        while len(level) > 1:
            above: list[Value] = []
            later = delayed(m, beat, 1, f"beat{depth}")
            for i in range(0, len(level), 2):
                second = level[i + 1] if i + 1 < len(level) else None
                above.append(self._node(m, beat.kind, level[i], second, f"{depth}_{i}", i // 2 % 2 == 1))
            level = above
            beat = delayed(m, later, 1, f"beat_late{depth}")
            valid = delayed(m, valid, REDUCE_LEVEL_CYCLES, f"valid{depth}", control=True)
            depth += 1

        # The first one meets nothing: the sum with 0, or itself.
        compares = beat.kind != Reduce.SUM
        so_far, complemented = Signal(signed(32), reset_less=True), Signal(reset_less=True)
        other = so_far.as_unsigned() ^ compares.replicate(32)
        total = Signal(signed(33))
        m.d.comb += total.eq(self._added(level[0], Mux(beat.first, 0, other), compares))
        stays = compares & ~beat.first & total[32]
        with m.If(valid):
            m.d.sync += [so_far.eq(Mux(stays, so_far, Mux(compares, level[0], total[:32]))),
                         complemented.eq(beat.kind == Reduce.MIN)]
        m.d.comb += [self.ends.eq(valid & beat.last), self.word.eq(beat.word),
                     self.result.eq(so_far ^ complemented.replicate(32))]
        m.d.sync += self.done.eq(self.ends)
        return m

    def _node(self, m: Module, kind: Value, x: Value, y: Value | None, name: str, complements: bool) -> Value:
        """Return the sum or the greater one of x and of what y is the complement of, two cycles later.

        Where parts are compared and this one is to be subtracted next, it is the complement of that.
        """
        compares = kind != Reduce.SUM
        value = Signal(32, name=f"level{name}", reset_less=True)
        if y is None:
            late = delayed(m, x, 1, f"x{name}")
            m.d.sync += value.eq(late ^ delayed(m, compares & complements, 1, f"complements{name}").replicate(32))
            return value
        total = Signal(32, name=f"total{name}", reset_less=True)
        less = Signal(name=f"less{name}", reset_less=True)
        late_x, late_y = (Signal(32, name=f"{of}{name}", reset_less=True) for of in "xy")
        added = self._added(x, y, compares)
        # Both of the late parts count as 0 in a sum, by what their registers are reset or set to.
        none = (1 << 32) - 1 if complements else 0
        m.d.sync += [
            total.eq(Mux(compares, 0, added[:32])), less.eq(added[32]),
            late_x.eq(Mux(compares, x, none)), late_y.eq(Mux(compares, y, ~none)),
        ]
        greater = Mux(less, ~late_y, late_x)
        m.d.sync += value.eq(total | (~greater if complements else greater))
        return value

    @staticmethod
    def _added(x: Value, y: Value, carry: Value) -> Value:
        """Return x + y + carry of signed words, 33 bits. The carry goes in below."""
        return (Cat(Const(1, 1), x).as_signed() + Cat(carry, y).as_signed())[1:34]
