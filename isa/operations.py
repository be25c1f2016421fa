"""A command stream as the RUNs of each unit, with the registers as they stand at each."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from tq_hw.isa.config import Config
from tq_hw.isa.encode import decode, unpack
from tq_hw.isa.layout import FOLD_BASE, FOLD_ENTRY, UNITS, UOP_BASE, UOP_WORDS, Unit, register_count
from tq_hw.isa.uop import UOP

__all__ = ["Operation", "operations", "walk"]

Fields = Mapping[str, int]


@dataclass(frozen=True)
class Operation:
    """One RUN command.

    Members
    -------
    position : place among all RUN commands of the stream
    run : index among the RUN commands of its unit
    word_index : first word of the command in the stream
    words : command words of its unit since the RUN before, which the unit's queue has to hold
    registers : words of the unit's registers as the RUN finds them; `fields` says what they mean
    folds : array: the patch-folding table, three feeds an entry
    uops : vector: the micro-operations
    """

    unit: Unit
    position: int
    run: int
    word_index: int
    words: int
    registers: tuple[int, ...]
    folds: tuple[tuple[Fields, ...], ...] = ()
    uops: tuple[Fields, ...] = ()

    @property
    def fields(self) -> Fields:
        """Every field of the registers by name."""
        return _fields(self.unit, self.registers)


@lru_cache(maxsize=1 << 10)
def _fields(unit: Unit, registers: tuple[int, ...]) -> Fields:
    fields: dict[str, int] = {}
    for index, word in enumerate(registers):
        fields |= _unit_fields(unit, index, word)
    return fields


@lru_cache(maxsize=1 << 14)
def _unit_fields(unit: Unit, index: int, word: int) -> dict[str, int]:
    return unpack(UNITS[unit].registers[index], word)


@lru_cache(maxsize=1 << 12)
def _uop(words: tuple[int, ...]) -> Fields:
    return {k: v for register, word in zip(UOP, words, strict=True) for k, v in unpack(register, word).items()}


@lru_cache(maxsize=1 << 12)
def _fold(words: tuple[int, ...]) -> tuple[Fields, ...]:
    return tuple(unpack(FOLD_ENTRY, word) for word in words)


def walk(commands: bytes, config: Config) -> Iterator[Operation]:
    """Yield the RUNs of a stream in its order; EncodeError where it breaks the layout."""
    held = {unit: [0] * register_count(unit, config) for unit in UNITS}
    folds: tuple[tuple[Fields, ...], ...] | None = None
    uops: tuple[Fields, ...] | None = None
    words, runs = dict.fromkeys(UNITS, 0), dict.fromkeys(UNITS, 0)
    for command in decode(commands, config):
        unit = command.unit
        if unit is Unit.CONTROL:
            continue
        own, end, registers = len(UNITS[unit].registers), command.first + len(command.values), held[unit]
        words[unit] += 1 + len(command.values)
        registers[command.first:end] = command.values
        if end > own:
            folds, uops = (None, uops) if unit is Unit.ARRAY else (folds, None)
        if not command.run:
            continue
        if folds is None and unit is Unit.ARRAY:
            folds = tuple(_fold(tuple(registers[FOLD_BASE + 3 * k:FOLD_BASE + 3 * k + 3]))
                          for k in range(config.fold_steps))
        if uops is None and unit is Unit.VECTOR:
            uops = tuple(_uop(tuple(registers[UOP_BASE + UOP_WORDS * k:UOP_BASE + UOP_WORDS * (k + 1)]))
                         for k in range(config.uops))
        yield Operation(unit, sum(runs.values()), runs[unit], command.word_index, words[unit], tuple(registers[:own]),
                        (unit is Unit.ARRAY and folds) or (), (unit is Unit.VECTOR and uops) or ())
        runs[unit] += 1
        words[unit] = 0


def operations(commands: bytes, config: Config) -> dict[Unit, list[Operation]]:
    """Return the RUNs of each working unit, in order; EncodeError for a stream that breaks the layout."""
    found: dict[Unit, list[Operation]] = {unit: [] for unit in UNITS}
    for operation in walk(commands, config):
        found[operation.unit].append(operation)
    return found
