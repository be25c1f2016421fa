"""A command stream as the RUNs of each unit, with the register contents at each."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from tq_hw.isa.config import Config
from tq_hw.isa.encode import Command, EncodeError, dealt, decode, unpack
from tq_hw.isa.fields import fields_of
from tq_hw.isa.layout import FOLD_BASE, FOLD_ENTRY, UNITS, UOP_BASE, UOP_WORDS, Unit, register_count
from tq_hw.isa.uop import UOP

__all__ = ["Operation", "Stream", "operations", "read_stream", "walk"]

Fields = Mapping[str, int]


@dataclass(frozen=True)
class Operation:
    """One RUN command.

    Members
    -------
    position : index among all RUN commands of the stream
    run : index among the RUN commands of its unit
    word_index : first word of the command in the stream
    words : command words of its unit since the RUN before, which the unit's queue must have room for
    registers : words of the unit's registers at the RUN; `fields` decodes them
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


@lru_cache(maxsize=16)
def _absent(unit: Unit, config: Config) -> tuple[tuple[int, int], ...]:
    """Return registers with the bits of fields that a configuration does not have, which its hardware ignores."""
    there = fields_of(unit, config)
    return tuple((r.index, (1 << f.bits) - 1 << f.offset) for r in UNITS[unit].registers for f in r.fields
                 if f not in there)


@lru_cache(maxsize=1 << 12)
def _uop(words: tuple[int, ...]) -> Fields:
    return {k: v for register, word in zip(UOP, words, strict=True) for k, v in unpack(register, word).items()}


@lru_cache(maxsize=1 << 12)
def _fold(words: tuple[int, ...]) -> tuple[Fields, ...]:
    return tuple(unpack(FOLD_ENTRY, word) for word in words)


class _Registers:
    """The registers of all units, updated command by command."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._held = {unit: [0] * register_count(unit, config) for unit in UNITS}
        self._folds: tuple[tuple[Fields, ...], ...] | None = None
        self._uops: tuple[Fields, ...] | None = None
        self._words, self._runs = dict.fromkeys(UNITS, 0), dict.fromkeys(UNITS, 0)

    def take(self, command: Command) -> Operation | None:
        """Write a unit's registers, which exist, and return the operation if it RUNs."""
        config, unit = self._config, command.unit
        own, end, held = len(UNITS[unit].registers), command.first + len(command.values), self._held[unit]
        self._words[unit] += 1 + len(command.values)
        held[command.first:end] = command.values
        for index, bits in _absent(unit, self._config):
            held[index] &= ~bits
        if end > own:
            self._folds, self._uops = (None, self._uops) if unit is Unit.ARRAY else (self._folds, None)
        if not command.run:
            return None
        if self._folds is None and unit is Unit.ARRAY:
            self._folds = tuple(_fold(tuple(held[FOLD_BASE + 3 * k:FOLD_BASE + 3 * k + 3]))
                                for k in range(config.fold_steps))
        if self._uops is None and unit is Unit.VECTOR:
            self._uops = tuple(_uop(tuple(held[UOP_BASE + UOP_WORDS * k:UOP_BASE + UOP_WORDS * (k + 1)]))
                               for k in range(config.uops))
        operation = Operation(
            unit, sum(self._runs.values()), self._runs[unit], command.word_index, self._words[unit], tuple(held[:own]),
            (unit is Unit.ARRAY and self._folds) or (), (unit is Unit.VECTOR and self._uops) or ())
        self._runs[unit] += 1
        self._words[unit] = 0
        return operation


def walk(commands: bytes, config: Config) -> Iterator[Operation]:
    """Yield the RUNs of a stream in its order; EncodeError where it breaks the layout."""
    registers = _Registers(config)
    for command in decode(commands, config):
        operation = None if command.unit is Unit.CONTROL else registers.take(command)
        if operation is not None:
            yield operation


def operations(commands: bytes, config: Config) -> dict[Unit, list[Operation]]:
    """Return the RUNs of each working unit, in order; EncodeError for a stream that breaks the layout."""
    found: dict[Unit, list[Operation]] = {unit: [] for unit in UNITS}
    for operation in walk(commands, config):
        found[operation.unit].append(operation)
    return found


@dataclass(frozen=True)
class Stream:
    """A command stream, possibly malformed, as the units get it.

    Members
    -------
    operations : RUNs of each working unit, in order
    refused : units whose next command after these names a register that does not exist
    end : the error at which the stream breaks off after all of these, or None if it ends properly
    """

    operations: dict[Unit, list[Operation]]
    refused: dict[Unit, EncodeError]
    end: EncodeError | None


def read_stream(commands: bytes, config: Config) -> Stream:
    """Return what the units get of a stream, up to its first error."""
    registers = _Registers(config)
    stream = Stream({unit: [] for unit in UNITS}, {}, None)
    try:
        for command in dealt(commands):
            if command.unit is Unit.CONTROL or command.unit in stream.refused:
                continue
            try:
                command.check(config)
            except EncodeError as error:
                stream.refused[command.unit] = error
                continue
            operation = registers.take(command)
            if operation is not None:
                stream.operations[operation.unit].append(operation)
    except EncodeError as error:
        return replace(stream, end=error)
    return stream
