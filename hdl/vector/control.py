"""The micro-operation memory, and the controls decoded from it once for all lanes."""

from typing import Any

from amaranth import Cat, Module, Mux, Signal, signed
from amaranth.hdl import Value
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.lane.alu import a_inverted, alu_flags
from tq_hw.hdl.lane.lane import CONTROL, STAGE_TABLE, LaneControl
from tq_hw.hdl.legality import broken_by_word, uop_rules
from tq_hw.hdl.parts.delay import DelayLine, delayed
from tq_hw.hdl.signatures import TableWriteSignature
from tq_hw.hdl.vector.steps import UopWord0, uop_layout
from tq_hw.isa.config import Config
from tq_hw.isa.layout import UOP_WORDS
from tq_hw.isa.uop import UOP, Multiply

__all__ = ["VectorControl"]

#: Stage at which a micro-operation is available: one cycle for the memory, one for its output register.
STAGE_UOP = 2
#: Wide delays of at least this many cycles use a small RAM.
_LONG_CYCLES = 6


class VectorControl(wiring.Component):
    """Store the micro-operations, and derive LaneControl for each beat.

    Members
    -------
    table : writes of micro-operation words, UOP_WORDS each
    number : In, fetch : In(1), for the program's walker; uop : Out(UopWord0), one cycle later, until the next fetch;
        broken : Out(2), with it: whether the other words break a rule, with parameter blocks and without
    step_number : In, out_type : In(2), of the step that started in the cycle before
    beat : In(1), a beat is at the last stage but two; there is none at the one after while `reduced`
    reduced : In(1), `reduction` : In(signed(32)): at the last stage but one, all lanes' result is this number; else 0
    table_write : In(1), table_index : In(9), table_entry : In(32): load table, at the stage of the tables
    reduce : Out(2), `isa.uop.Reduce` at stage 2
    control : Out(LaneControl)
    """

    table: Any
    number: Signal
    fetch: Signal
    uop: Any
    broken: Signal
    step_number: Signal
    out_type: Signal
    beat: Signal
    reduced: Signal
    reduction: Signal
    table_write: Signal
    table_index: Signal
    table_entry: Signal
    reduce: Signal
    control: Any

    def __init__(self, config: Config) -> None:
        self._config = config
        super().__init__({
            "table": In(TableWriteSignature()), "number": In(range(config.uops)), "fetch": In(1), "uop": Out(UopWord0),
            "broken": Out(2), "step_number": In(range(config.uops)), "out_type": In(2), "beat": In(1),
            "reduced": In(1), "reduction": In(signed(32)),
            "table_write": In(1), "table_index": In(9), "table_entry": In(32), "reduce": Out(2),
            "control": Out(LaneControl),
        })

    def elaborate(self, platform: object) -> Module:
        """Read the four words of a micro-operation together, and distribute their fields over the stages."""
        m = Module()
        words: list[Any] = []
        # They are written only while the unit is idle, when no word is read.
        attributes: Any = ({"ram_style": "block", "no_rw_check": 1} if self._config.block_uops
                           else {"ram_style": "distributed"})
        for number in range(UOP_WORDS):
            memory: Any = Memory(shape=32, depth=self._config.uops, init=[], attrs=attributes)
            m.submodules[f"uops{number}"] = memory
            write, read = memory.write_port(), memory.read_port(domain="comb")
            m.d.comb += [
                write.en.eq(self.table.en & (self.table.index[:2] == number)),
                write.addr.eq(self.table.index[2:]), write.data.eq(self.table.data),
                read.addr.eq(self.step_number),
            ]
            word: Any = Signal(uop_layout(number), name=f"word{number}", reset_less=True)
            m.d.sync += word.as_value().eq(read.data)
            words.append(word)
            if number == 0:
                # The program walker needs the word within the same cycle, which block RAM cannot do.
                kept = self._copy(m, write) if self._config.block_uops else memory
                ahead = kept.read_port()
                m.d.comb += [ahead.addr.eq(self.number), ahead.en.eq(self.fetch), self.uop.as_value().eq(ahead.data)]
        self._rules(m)

        first, second, third, fourth = words
        multiply = third.multiply
        high = multiply.matches(Multiply.HIGH_IMMEDIATE, Multiply.HIGH_PARAM, Multiply.HIGH_B)
        wide = delayed(m, self.out_type, STAGE_UOP - 1, "out_type") == 1
        values: dict[str, Value] = {
            "a_source": first.a_source, "b_source": first.b_source, "operand": second.immediate,
            "a_table": first.a_table, "b_table": first.b_table, "a_used": first.a_table != 0,
            "b_used": first.b_table != 0, "a_inverted": a_inverted(first.alu),
            "shift_source": third.shift_source, "shift": third.shift,
            "shifts_left": multiply == Multiply.SHL,
            "shifts_by_b": multiply.matches(Multiply.SHL_B, Multiply.SHL_B_SATURATE),
            "by_b": multiply.matches(Multiply.HIGH_B, Multiply.LOW_B),
            "by_power": multiply.matches(Multiply.SHL, Multiply.SHL_B, Multiply.SHL_B_SATURATE),
            "by_param": multiply == Multiply.HIGH_PARAM, "multiplier": Mux(
                multiply == Multiply.HIGH_IMMEDIATE, second.immediate, multiply == Multiply.NONE),
            "nudge": high & ~third.truncate,
            "low_product": ~high, "saturate": high & ~third.truncate | (multiply == Multiply.SHL_B_SATURATE),
            "rounding": third.rounding, "zero_point": fourth.zero_point, "clamp": third.clamp,
            "low": Mux(wide, -1 << 15, fourth.act_min), "high": Mux(wide, (1 << 15) - 1, fourth.act_max),
        }
        control, due = self.control, {}
        far = [name for name in values if CONTROL[name][0] - STAGE_UOP > _LONG_CYCLES]
        for stage in sorted({CONTROL[name][0] for name in far}):
            names = [name for name in far if CONTROL[name][0] == stage]
            fields = {name: values[name] for name in names}
            line = DelayLine(sum(len(value) for value in fields.values()), stage - STAGE_UOP)
            m.submodules[f"delay{stage}"] = line
            m.d.comb += line.i.eq(Cat(fields.values()))
            offset = 0
            for name, value in fields.items():
                due[name] = line.o[offset:offset + len(value)]
                offset += len(value)
        for name in values:
            if name not in far:
                due[name] = delayed(m, values[name], CONTROL[name][0] - STAGE_UOP, name)
        due["clamp"] = due["clamp"] & self.beat
        m.d.comb += [control[name].eq(value) for name, value in due.items()]

        # Decoded one cycle ahead of the ALU, because the wires to the lanes are long enough.
        alu = delayed(m, first.alu, CONTROL["alu0"][0] - 1 - STAGE_UOP, "alu")
        for late, flags in enumerate(alu_flags(alu)):
            m.d.comb += control[f"alu{late}"].as_value().eq(delayed(m, flags, late + 1, f"alu{late}"))
        for name, before in (("power_late", "by_power"), ("low_late", "low"), ("high_late", "high")):
            m.d.comb += control[name].eq(delayed(m, control[before], 1, name))
        m.d.comb += [
            control.used.eq(self.beat), control.also.eq(self.reduction),
            control.take.eq(delayed(m, self.beat, 1, "take", control=True) | self.reduced),
            control.table_write.eq(self.table_write),
            control.table_index.eq(self.table_index), control.table_entry.eq(self.table_entry),
            self.reduce.eq(first.reduce),
        ]
        assert CONTROL["table_write"][0] == STAGE_TABLE
        return m

    def _copy(self, m: Module, write: Any) -> Any:
        """Return a small RAM with the same writes as another memory."""
        memory: Any = Memory(shape=32, depth=self._config.uops, init=[], attrs={"ram_style": "distributed"})
        m.submodules.uops_ahead = memory
        port = memory.write_port()
        m.d.comb += [port.en.eq(write.en), port.addr.eq(write.addr), port.data.eq(write.data)]
        return memory

    def _rules(self, m: Module) -> None:
        """Check a word against the rules when it is written; two bits are stored."""
        assert not any(uop_rules(self._config, word) for word in (1, 3))
        memory: Any = Memory(shape=2, depth=self._config.uops, init=[], attrs={"ram_style": "distributed"})
        m.submodules.broken = memory
        write, ahead = memory.write_port(), memory.read_port()
        fields: Any = data.View(uop_layout(2), self.table.data)
        values = {field.name: fields[field.name] for field in UOP[2].fields}
        tests = uop_rules(self._config, 2)
        m.d.comb += [
            write.en.eq(self.table.en & (self.table.index[:2] == 2)), write.addr.eq(self.table.index[2:]),
            write.data.eq(Cat(broken_by_word(tests, values | {"use_params": params}).any() for params in (1, 0))),
            ahead.addr.eq(self.number), ahead.en.eq(self.fetch), self.broken.eq(ahead.data),
        ]
