"""Mutations of the command stream of a compiled file: of its fields, or of any words."""

import struct
from collections.abc import Sequence

from program_parts import Parts, Rng, new_number, pick

from tq_hw.isa.config import Config, ConfigError
from tq_hw.isa.encode import EncodeError, decode
from tq_hw.isa.layout import FOLD_BASE, FOLD_ENTRY, UNITS, UOP_BASE, UOP_WORDS, Field, Unit
from tq_hw.isa.uop import UOP

__all__ = ["mutate_commands", "mutate_words"]


def _commands(parts: Parts) -> list[tuple[int, int, int, list[int]]]:
    """Return the commands as (unit, run, first, values), up to the first one that cannot be decoded."""
    found: list[tuple[int, int, int, list[int]]] = []
    try:
        config = Config.from_mapping({k: v for k, v in parts.described["config"].items() if k != "name"}, "fuzz")
        end = parts.command_offset + parts.command_bytes
        for command in decode(bytes(parts.image[parts.command_offset:end]), config):
            found.append((command.unit, command.run, command.first, list(command.values)))
    except (EncodeError, ConfigError, KeyError, TypeError, AttributeError):
        pass
    return found


def _field_value(rng: Rng, one: Field, old: int) -> int:
    choice = rng.random()
    if choice < 0.45:
        value = int(pick(rng, (0, 1, 2, 3, one.low, one.high, one.high // 2, one.high - 1, one.high // 256 + 1)))
    elif choice < 0.85:
        value = old + int(rng.integers(-4, 5))
    else:
        value = int(rng.integers(one.low, one.high + 1))
    return value & (1 << one.bits) - 1


def _fields_of(unit: int, register: int) -> Sequence[Field]:
    if unit == Unit.VECTOR and register >= UOP_BASE:
        return UOP[(register - UOP_BASE) % UOP_WORDS].fields
    if unit == Unit.ARRAY and register >= FOLD_BASE:
        return FOLD_ENTRY.fields
    registers = UNITS[Unit(unit)].registers
    return registers[register].fields if register < len(registers) else ()


def _mutate_field(rng: Rng, commands: list[tuple[int, int, int, list[int]]]) -> None:
    """Change a field of a command, or insert a write to a register."""
    at = int(rng.integers(len(commands)))
    unit, _, first, values = commands[at]
    if unit not in UNITS:
        return
    if values and rng.random() < 0.6:
        place = int(rng.integers(len(values)))
        fields = _fields_of(unit, first + place)
        if fields:
            one = pick(rng, fields)
            old = values[place] >> one.offset & (1 << one.bits) - 1
            values[place] ^= (old ^ _field_value(rng, one, old)) << one.offset
        return
    layout = UNITS[Unit(unit)]
    register, one = layout.fields[str(pick(rng, list(layout.fields)))]
    commands.insert(at, (unit, 0, register.index, [_field_value(rng, one, 1) << one.offset]))


def mutate_commands(rng: Rng, parts: Parts) -> None:
    """Change fields, headers or the order of some commands, and encode the stream again."""
    commands = _commands(parts)
    if not commands:
        return
    for _ in range(int(rng.integers(1, 4))):
        at, other = (int(number) for number in rng.integers(len(commands), size=2))
        unit, run, first, values = commands[at]
        choice = rng.random()
        if choice < 0.75:
            _mutate_field(rng, commands)
        elif choice < 0.8:
            commands[at] = (unit, 1 - run, first, values)
        elif choice < 0.84:
            commands[at] = (int(rng.integers(0, 6)), run, first, values)
        elif choice < 0.88:
            commands[at], commands[other] = commands[other], commands[at]
        elif choice < 0.92 and len(commands) > 1:
            del commands[at]
        elif choice < 0.96:
            commands[at:at] = [(unit, run, first, list(values))] * int(pick(rng, (1, 2, 300)))
        else:
            commands[at] = (unit, run, int(pick(rng, (0, 1, 15, 16, 17, 63, 64, 255, 511, 1023))), values)
    words = []
    for unit, run, first, values in commands:
        words += [unit & 7 | int(run) << 3 | (first & 1023) << 4 | (len(values) & 1023) << 14, *values]
    text = struct.pack(f"<{len(words)}I", *(word & 0xFFFFFFFF for word in words))
    parts.image[parts.command_offset:parts.command_offset + parts.command_bytes] = text
    parts.command_bytes = len(text)


def mutate_words(rng: Rng, parts: Parts) -> None:
    """Change words of the stream without decoding it."""
    for _ in range(int(rng.integers(1, 4))):
        at = parts.command_offset + 4 * int(rng.integers(max(parts.command_bytes // 4, 1)))
        if at + 4 <= len(parts.image):
            old, = struct.unpack_from("<I", parts.image, at)
            new = old ^ 1 << int(rng.integers(32)) if rng.random() < 0.5 else new_number(rng, old)
            struct.pack_into("<I", parts.image, at, new & 0xFFFFFFFF)
