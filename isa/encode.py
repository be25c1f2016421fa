"""Command streams as bytes and back.

`Assembler` tracks the contents of each register and emits only changes; `decode` walks a stream and yields
commands; `disassemble` writes one line each. All raise EncodeError with the word's index.
"""

import struct
import sys
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from tq_hw.isa.config import Config
from tq_hw.isa.control import Status
from tq_hw.isa.fields import fields_of
from tq_hw.isa.layout import (
    FOLD_BASE,
    FOLD_ENTRY,
    HEADER,
    UNITS,
    UOP_BASE,
    UOP_WORDS,
    Field,
    Register,
    Unit,
    register_count,
    register_exists,
)
from tq_hw.isa.uop import UOP

__all__ = ["WORD_BYTES", "Assembler", "Command", "EncodeError", "decode", "disassemble", "pack", "unpack",
           "dealt"]

#: Bytes of a command word.
WORD_BYTES = 4
_UOP_FIELDS = frozenset(f.name for r in UOP for f in r.fields)


class EncodeError(ValueError):
    """A field does not fit, or a stream breaks the layout.

    Members
    -------
    status, unit : the hardware's error for such a stream
    word_index : of the command, if it is one of a stream
    """

    def __init__(self, message: str, status: Status = Status.BAD_COMMAND, unit: Unit = Unit.CONTROL,
                 word_index: int = 0) -> None:
        super().__init__(message)
        self.status, self.unit, self.word_index = status, unit, word_index


def pack(register: Register, values: Mapping[str, int]) -> int:
    """Return the 32-bit word of `register` with the given field values; absent fields are 0."""
    word = 0
    for f in register.fields:
        if f.name in values:
            word |= _bits(f, int(values[f.name]))
    return word


def _bits(f: Field, value: int) -> int:
    """Return a field's value at its bit position in the register's word."""
    if not f.low <= value <= f.high:
        raise EncodeError(f"{f.name} must be {f.low}..{f.high}, not {value}")
    return (value & (1 << f.bits) - 1) << f.offset


@lru_cache(maxsize=4096)
def _header(unit: Unit, run: bool, first: int, count: int) -> int:
    return pack(HEADER, {"unit": unit, "run": run, "first": first, "count": count})


@lru_cache(maxsize=4096)
def _read_header(word: int) -> tuple[Unit, bool, int, int] | None:
    """Return unit, run, first and count; None if the word is no header."""
    head = unpack(HEADER, word)
    if head["unit"] > Unit.STORE or head["reserved"]:
        return None
    return Unit(head["unit"]), bool(head["run"]), head["first"], head["count"]


def unpack(register: Register, word: int) -> dict[str, int]:
    """Return the field values of a 32-bit word."""
    out = {}
    for f in register.fields:
        value = word >> f.offset & (1 << f.bits) - 1
        out[f.name] = value - (1 << f.bits) if f.signed and value >> f.bits - 1 else value
    return out


@dataclass(frozen=True)
class Command:
    """One decoded command: `values[i]` goes to register `first + i` of `unit`."""

    word_index: int
    unit: Unit
    run: bool
    first: int
    values: tuple[int, ...]

    def check(self, config: Config) -> None:
        """Raise EncodeError if one of the registers does not exist."""
        for index in range(self.first, self.first + len(self.values)):
            if not register_exists(self.unit, index, config):
                raise EncodeError(f"word {self.word_index}: unit {self.unit.name.lower()} has no register {index}",
                                  unit=self.unit, word_index=self.word_index)


@dataclass
class Assembler:
    """Builds a command stream for `config`, with delta encoding per unit."""

    config: Config
    words: list[int] = field(default_factory=list)
    runs: dict[Unit, int] = field(default_factory=lambda: dict.fromkeys(Unit, 0))
    _held: dict[Unit, dict[int, int]] = field(default_factory=lambda: {unit: {} for unit in Unit})

    def run(self, unit: Unit, values: Mapping[str, int]) -> int:
        """Start `unit` with `values` (absent fields are 0); return the index of this RUN in the unit."""
        known = UNITS[unit].fields
        wanted = [0] * len(UNITS[unit].registers)
        for name, value in values.items():
            if name not in known:
                raise EncodeError(f"unit {unit.name.lower()} has no field {name!r}")
            if value:
                register, f = known[name]
                wanted[register.index] |= _bits(f, int(value))
        self._emit(unit, 0, wanted, run=True)
        self.runs[unit] += 1
        return self.runs[unit] - 1

    def fold(self, step: int, feeds: tuple[Mapping[str, int], ...]) -> None:
        """Write entry `step` of the patch-folding table (one mapping per feed)."""
        self._emit(Unit.ARRAY, FOLD_BASE + 3 * step, [pack(FOLD_ENTRY, feeds[g]) for g in range(3)])

    def uop(self, index: int, values: Mapping[str, int]) -> None:
        """Write micro-operation `index`; absent fields are 0."""
        for name in values:
            if name not in _UOP_FIELDS:
                raise EncodeError(f"a micro-operation has no field {name!r}")
        if not 0 <= index < self.config.uops:
            raise EncodeError(f"micro-operation index must be below {self.config.uops}, not {index}")
        self._emit(Unit.VECTOR, UOP_BASE + UOP_WORDS * index, [pack(r, values) for r in UOP])

    def end(self) -> None:
        """Emit END."""
        self.words.append(pack(HEADER, {"unit": Unit.CONTROL, "run": 1}))

    def to_bytes(self) -> bytes:
        """Return the stream, little-endian."""
        return struct.pack(f"<{len(self.words)}I", *self.words)

    def _emit(self, unit: Unit, first: int, wanted: Sequence[int], run: bool = False) -> None:
        """Set the registers from `first` on to these values."""
        held = self._held[unit]
        changed = [index for index, word in enumerate(wanted, first) if held.get(index) != word]
        if changed and changed[-1] >= register_count(unit, self.config):
            raise EncodeError(f"unit {unit.name.lower()} has no register {changed[-1]}")
        spans: list[tuple[int, int]] = []
        for index in changed:
            # One unchanged word between two changed ones costs no more than a header.
            if spans and index - spans[-1][1] <= 2:
                spans[-1] = (spans[-1][0], index)
            else:
                spans.append((index, index))
        if run and not spans:
            spans = [(0, -1)]
        for low, high in spans:
            self.words.append(_header(unit, run and (low, high) == spans[-1], low, high - low + 1))
            self.words += wanted[low - first:high - first + 1]
        for index in changed:
            held[index] = wanted[index - first]


def decode(data: bytes, config: Config) -> Iterator[Command]:
    """Yield the commands of a stream up to and including END."""
    for command in dealt(data):
        command.check(config)
        yield command


def dealt(data: bytes) -> Iterator[Command]:
    """Yield commands as fetch sees them, without checking their registers; one that is cut short, without its RUN."""
    if len(data) % WORD_BYTES:
        raise EncodeError(f"a command stream must have whole words, not {len(data)} bytes")
    # An array takes four bytes a word; a tuple would take ten times as much.
    words = array("I", data)
    if sys.byteorder == "big":
        words.byteswap()
    at = 0
    while at < len(words):
        head = _read_header(words[at])
        if head is None:
            raise EncodeError(f"word {at}: {words[at]:#010x} is not a command header")
        unit, run, first, count = head
        if unit is Unit.CONTROL and (count or not run):
            raise EncodeError(f"word {at}: the control unit has no command but END")
        if at + 1 + count > len(words):
            yield Command(at, unit, False, first, tuple(words[at + 1:]))
            raise EncodeError(f"word {at}: {count} values expected, {len(words) - at - 1} left", Status.NO_END)
        yield Command(at, unit, run, first, tuple(words[at + 1:at + 1 + count]))
        if unit is Unit.CONTROL:
            return
        at += 1 + count
    raise EncodeError(f"word {at}: the stream has no END", Status.NO_END)


def disassemble(data: bytes, config: Config) -> Iterator[str]:
    """Yield one readable line per command."""
    runs = dict.fromkeys(Unit, 0)
    absent = {name for unit, part in UNITS.items() for name in part.fields} - {
        f.name for unit in UNITS for f in fields_of(unit, config)}
    for command in decode(data, config):
        if command.unit is Unit.CONTROL:
            yield f"{command.word_index:6} END"
            continue
        parts = []
        for index, word in enumerate(command.values, command.first):
            name, register = _named(command.unit, index)
            shown = " ".join(f"{k}={v}" for k, v in unpack(register, word).items() if k not in absent)
            parts.append(f"{name}[{shown}]")
        label = ""
        if command.run:
            label = f" RUN {runs[command.unit]}"
            runs[command.unit] += 1
        yield f"{command.word_index:6} {command.unit.name.lower()}{label} {' '.join(parts)}".rstrip()


def _named(unit: Unit, index: int) -> tuple[str, Register]:
    if unit is Unit.VECTOR and index >= UOP_BASE:
        step, word = divmod(index - UOP_BASE, UOP_WORDS)
        return f"uop{step}.{word}", UOP[word]
    if unit is Unit.ARRAY and index >= FOLD_BASE:
        step, feed = divmod(index - FOLD_BASE, 3)
        return f"fold{step}.{feed}", FOLD_ENTRY
    registers = UNITS[unit].registers
    if index >= len(registers):
        raise EncodeError(f"unit {unit.name.lower()} has no register {index}")
    return registers[index].name, registers[index]
