"""The rules of isa/legality.py in hardware: one bit per broken rule."""

from collections.abc import Mapping, Sequence
from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.hdl import Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.signatures import OperationLayout
from tq_hw.isa.config import Config
from tq_hw.isa.fields import fields_of
from tq_hw.isa.layout import Unit
from tq_hw.isa.legality import RULES, UOP_RULES, Test, bound, chunk_registers, names, value
from tq_hw.isa.uop import UOP

__all__ = ["CHUNK_REGISTERS", "Legality", "broken_by_word", "chunk_registers_of", "uop_rules"]

#: Chunks that fill this many vector registers, or more, are treated alike.
CHUNK_REGISTERS = 9
#: Fields of the operation that rules of micro-operations use.
_OF_OPERATION = frozenset(("use_acc", "use_params", "chunk_registers"))


class Legality(wiring.Component):
    """Check an operation against the rules that are not checked while it runs.

    Members
    -------
    op : In(operation of the unit)
    taken : In(1), strobe: `op` starts
    legal : Out(1), of the operation two cycles ago
    """

    op: Any
    taken: Signal
    legal: Signal

    def __init__(self, unit: Unit, config: Config) -> None:
        self._unit, self._config = unit, config
        super().__init__({"op": In(OperationLayout(unit, config)), "taken": In(1), "legal": Out(1)})

    def elaborate(self, platform: object) -> Module:
        """Compare, then combine."""
        m = Module()
        values: dict[str, Any] = {f.name: self.op[f.name] for f in fields_of(self._unit, self._config)}
        if self._unit is Unit.ARRAY:
            values["open_buffers"] = open_buffers = Signal(range(self._config.acc_buffers + 1))
            several = Mux(self.op.out_blocks == 1, 1, self._config.acc_open or 1)
            with m.If(self.taken):
                m.d.sync += open_buffers.eq(Mux(self.op.acc_last, 0, several))
        tests = [test for rule, test in bound(RULES[self._unit], self._config) if not rule.running]
        kept = Signal(len(tests))
        m.d.sync += [kept.eq(Cat(value(test, values) for test in tests)), self.legal.eq(kept.all())]
        return m


def uop_rules(config: Config, word: int) -> list[Test]:
    """Return the rules about one word of a micro-operation. No rule involves two words."""
    fields = [{field.name for field in register.fields} for register in UOP]
    found = []
    for _, test in bound(UOP_RULES, config):
        about = [number for number, of_word in enumerate(fields) if names(test) - _OF_OPERATION & of_word]
        assert len(about) == 1, test
        if about == [word]:
            found.append(test)
    return found


def broken_by_word(tests: Sequence[Test], values: Mapping[str, Any]) -> Value:
    """Return one bit per test, 1 where it fails."""
    return Cat(~Value.cast(value(test, values)) for test in tests)


def chunk_registers_of(config: Config, use_acc: Value, slots: Value) -> Value:
    """Return the vector registers that a chunk of `slots` fills, at most CHUNK_REGISTERS."""
    if config.beats_per_acc_word == config.beats_per_word:
        return _filled(config, True, slots)
    return Mux(use_acc, _filled(config, True, slots), _filled(config, False, slots))


def _filled(config: Config, use_acc: bool, slots: Value) -> Value:
    each = _most_slots(config, use_acc, 1)
    fits = [_most_slots(config, use_acc, registers) for registers in range(1, CHUNK_REGISTERS)]
    if each & each - 1 == 0 and fits == [each * registers for registers in range(1, CHUNK_REGISTERS)]:
        whole = (slots - 1)[each.bit_length() - 1:len(slots)]
        return Mux(whole >= CHUNK_REGISTERS - 1, CHUNK_REGISTERS, whole[:CHUNK_REGISTERS.bit_length()] + 1)
    # Compare with the most slots of each number of registers.
    total: Any = Const(1, CHUNK_REGISTERS.bit_length())
    for registers, most in enumerate(fits, 2):
        total = Mux(slots > most, registers, total)
    return Value.cast(total)


def _most_slots(config: Config, use_acc: bool, registers: int) -> int:
    """Return the slots of the longest chunk that fits into this many registers."""
    slots = registers * config.vector_register_words
    while chunk_registers(config, use_acc, slots) > registers:
        slots -= 1
    return slots
