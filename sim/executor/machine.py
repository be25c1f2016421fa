"""Shared state of the executor's units: memories, undefined bytes, and the last writer of each word."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_hw.isa.config import Config
from tq_hw.isa.control import Status
from tq_hw.isa.layout import Unit
from tq_hw.isa.refusals import broken_rule, broken_while_running
from tq_hw.sim.executor.races import Race, RaceChecker
from tq_hw.sim.executor.unknown import Flags, Unknown

__all__ = ["AccBuffer", "Bytes", "Fault", "Index", "Ints", "Machine"]

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int32]
#: Word addresses before the reduction modulo 2^16.
Index = npt.NDArray[np.int64]


class Fault(Exception):
    """A unit stops with `status`, None if the hardware continues; the executor adds the RUN."""

    def __init__(self, status: Status | None, message: str) -> None:
        super().__init__(message)
        self.status = status


@lru_cache(maxsize=16)
def _noise_of(seed: int) -> Bytes:
    """Return a million constant random bytes, cached: drawing them takes longer than running a small program."""
    noise = np.random.default_rng(seed).integers(0, 256, 1 << 20, np.uint8)
    noise.flags.writeable = False
    return noise


@dataclass
class AccBuffer:
    """One accumulator buffer: `values[slot, col]` of its tile, and their unknown flags."""

    values: Ints
    unknown: Flags
    clock: tuple[int, ...] = ()


@dataclass
class Machine:
    """State between operations.

    Members
    -------
    memory : bytes of the four regions
    scratchpad : [words, word_bytes]
    registers : vector registers, [vector_words, requantize_lanes]
    full : accumulator buffers handed over and not yet released, oldest first
    open : buffers that an operation without `acc_last` left open, in order
    writers : last writer of each scratchpad word, unit * 2^24 + RUN, or -1
    noted : in a survey, faults of the current operation; else None: the first fault ends the run
    unknown : in a survey, the unknown flags of all values
    undefined : in a survey, the first promise that was broken; empty if none was
    """

    config: Config
    memory: list[Bytes]
    seed: int
    races: RaceChecker | None = None
    unit: Unit = Unit.CONTROL
    run: int = 0
    full: list[AccBuffer] = field(default_factory=list)
    open: list[AccBuffer] = field(default_factory=list)
    noted: set[Status] | None = None
    unknown: Unknown | None = None
    undefined: str = ""

    def __post_init__(self) -> None:
        """Fill everything with seeded random values."""
        config = self.config
        rng = np.random.default_rng(self.seed)
        self._noise = _noise_of(self.seed)
        self._noise_at = int(rng.integers(0, 1 << 18))
        self.scratchpad: Bytes = rng.integers(0, 256, (config.scratchpad_words, config.word_bytes), np.uint8)
        self.table: Ints = rng.integers(-1 << 31, 1 << 31, 512).astype(np.int32)
        self.registers: Ints = rng.integers(-1 << 31, 1 << 31, (config.vector_words, config.requantize_lanes)).astype(
            np.int32)
        self.writers: npt.NDArray[np.int64] = np.full(config.scratchpad_words, -1, np.int64)

    def noise(self, *shape: int) -> Bytes:
        """Return undefined bytes, different ones on each call."""
        count = int(np.prod(shape))
        if count > self._noise.size // 2:
            return np.resize(self._noise, shape)
        if self._noise_at + count > self._noise.size:
            self._noise_at %= 4093
        out = self._noise[self._noise_at:self._noise_at + count].reshape(shape)
        self._noise_at += count
        return out

    def noise_int32(self, *shape: int) -> Ints:
        """Return undefined 32-bit values."""
        return np.frombuffer(self.noise(*shape, 4).tobytes(), np.int32).reshape(shape).copy()

    def fault(self, status: Status, message: str) -> None:
        """Stop the unit; in a survey, record that it would have stopped."""
        if self.noted is None:
            raise Fault(status, message)
        self.noted.add(status)

    def promise(self, holds: bool, message: str) -> None:
        """Require what defined results depend on and the hardware does not check; in a survey, record a violation."""
        if holds:
            return
        if self.noted is None:
            raise Fault(None, message)
        self.undefined = self.undefined or message

    def require_legal(self, unit: Unit, fields: Mapping[str, int]) -> None:
        """Refuse an operation that breaks a rule of isa/legality.py; record a rule that it breaks while it runs."""
        if broken := broken_rule(self.config, unit, fields, len(self.open)):
            raise Fault(Status.BAD_OPERATION, broken)
        if broken := broken_while_running(self.config, unit, fields):
            self.fault(Status.BAD_OPERATION, broken)

    def address(self, words: npt.NDArray[Any]) -> Index:
        """Reduce word addresses modulo 2^16; BAD_ADDRESS for one beyond the scratchpad."""
        words = np.asarray(words, np.int64) & 0xFFFF
        size = self.config.scratchpad_words
        if words.size and int(words.max()) >= size:
            self.fault(Status.BAD_ADDRESS, f"word {int(words.max())} is accessed, the scratchpad has {size}")
            words = words % size
        return words

    def read(self, words: npt.NDArray[Any]) -> Bytes:
        """Return the scratchpad words at the given addresses, of shape `words.shape` + (word_bytes,)."""
        words = self.address(words)
        self.note_read(words)
        return self.scratchpad[words]

    def read_unknown(self, words: npt.NDArray[Any]) -> Flags:
        """Return which bytes of these words are unknown."""
        assert self.unknown is not None
        return np.asarray(self.unknown.scratchpad[(words & 0xFFFF) % self.config.scratchpad_words])

    def note_read(self, words: Index, place: object = "scratchpad", unit: Unit | None = None) -> None:
        """Record a read for the race check."""
        self._note(words, place, unit, RaceChecker.read)

    def note_write(self, words: Index, place: object = "scratchpad", unit: Unit | None = None) -> None:
        """Record a write for the race check."""
        self._note(words, place, unit, RaceChecker.write)

    def _note(self, words: Index, place: object, unit: Unit | None, kind: Any) -> None:
        if self.races is None:
            return
        try:
            kind(self.races, self.unit if unit is None else unit, self.run, words, place)
        except Race as race:
            if self.unknown is None:
                raise
            self.unknown.give_up(f"race: {race.first} and {race.second} at {race.where}")

    def write(self, words: npt.NDArray[Any], low: int, values: Bytes, unknown: Flags | None = None) -> None:
        """Write byte lanes from `low` on of the words at the given addresses; of equal addresses, the last one wins."""
        words = self.address(words)
        lanes = slice(low, low + values.shape[-1])
        self.scratchpad[words, lanes] = values
        if self.unknown is not None:
            self.unknown.scratchpad[words, lanes] = False if unknown is None else unknown
            self.unknown.stamp(words)
        self.writers[words] = (self.unit << 24) + self.run
        self.note_write(words)

    def region(self, number: int, first: int, last: int) -> Bytes | None:
        """Return region `number` after checking that it contains bytes first..last; None in a survey if it does not."""
        size = self.memory[number].size
        if first < 0 or last >= size:
            self.fault(Status.BUS_ERROR, f"bytes {first}..{last} of region {number} are accessed, which has {size}")
            return None
        return self.memory[number]
