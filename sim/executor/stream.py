"""A command stream as the RUNs of each unit, with the registers as they stand at each."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from tq_hw.isa.config import Config
from tq_hw.isa.encode import decode, unpack
from tq_hw.isa.layout import FOLD_BASE, FOLD_ENTRY, UNITS, UOP_BASE, UOP_WORDS, Unit, register_count
from tq_hw.isa.uop import UOP

__all__ = ["Operation", "operations"]

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
    folds : array: the patch-folding table, three feeds an entry
    uops : vector: the micro-operations
    """

    unit: Unit
    position: int
    run: int
    word_index: int
    words: int
    fields: Fields
    folds: tuple[tuple[Fields, ...], ...] = ()
    uops: tuple[Fields, ...] = ()


@lru_cache(maxsize=1 << 14)
def _unit_fields(unit: Unit, index: int, word: int) -> dict[str, int]:
    return unpack(UNITS[unit].registers[index], word)


@lru_cache(maxsize=1 << 12)
def _uop(words: tuple[int, ...]) -> Fields:
    return {k: v for register, word in zip(UOP, words, strict=True) for k, v in unpack(register, word).items()}


@lru_cache(maxsize=1 << 12)
def _fold(words: tuple[int, ...]) -> tuple[Fields, ...]:
    return tuple(unpack(FOLD_ENTRY, word) for word in words)


def operations(commands: bytes, config: Config) -> dict[Unit, list[Operation]]:
    """Return the RUNs of each working unit, in order; EncodeError for a stream that breaks the layout."""
    registers = {unit: [0] * register_count(unit, config) for unit in UNITS}
    folds: tuple[tuple[Fields, ...], ...] | None = None
    uops: tuple[Fields, ...] | None = None
    found: dict[Unit, list[Operation]] = {unit: [] for unit in UNITS}
    words = dict.fromkeys(UNITS, 0)
    for command in decode(commands, config):
        if command.unit is Unit.CONTROL:
            break
        unit, held = command.unit, registers[command.unit]
        words[unit] += 1 + len(command.values)
        held[command.first:command.first + len(command.values)] = command.values
        if command.first + len(command.values) > len(UNITS[unit].registers):
            folds, uops = (None, uops) if unit is Unit.ARRAY else (folds, None)
        if not command.run:
            continue
        if folds is None and unit is Unit.ARRAY:
            folds = tuple(_fold(tuple(held[FOLD_BASE + 3 * k:FOLD_BASE + 3 * k + 3])) for k in range(config.fold_steps))
        if uops is None and unit is Unit.VECTOR:
            uops = tuple(_uop(tuple(held[UOP_BASE + UOP_WORDS * k:UOP_BASE + UOP_WORDS * (k + 1)]))
                         for k in range(config.uops))
        fields: dict[str, int] = {}
        for index in range(len(UNITS[unit].registers)):
            fields |= _unit_fields(unit, index, held[index])
        position = sum(len(runs) for runs in found.values())
        found[unit].append(Operation(unit, position, len(found[unit]), command.word_index, words[unit], fields,
                                     (unit is Unit.ARRAY and folds) or (), (unit is Unit.VECTOR and uops) or ()))
        words[unit] = 0
    return found

