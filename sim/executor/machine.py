"""What the executor's units share: memories, undefined bytes, and the records of who wrote what."""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_hw.isa.config import Config
from tq_hw.isa.control import Status
from tq_hw.isa.layout import Unit
from tq_hw.sim.executor.races import RaceChecker

__all__ = ["AccBuffer", "Bytes", "Fault", "Index", "Ints", "Machine"]

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int32]
#: Word addresses, before they are taken modulo 2^16.
Index = npt.NDArray[np.int64]


class Fault(Exception):
    """A unit stops with `status`; the executor adds which RUN it was."""

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message)
        self.status = status


def require(holds: bool, message: str) -> None:
    """Stop the unit with BAD_OPERATION unless `holds`."""
    if not holds:
        raise Fault(Status.BAD_OPERATION, message)


@lru_cache(maxsize=16)
def _noise_of(seed: int) -> Bytes:
    """Return a million random bytes, which nobody changes: drawing them takes longer than running a small program."""
    noise = np.random.default_rng(seed).integers(0, 256, 1 << 20, np.uint8)
    noise.flags.writeable = False
    return noise


@dataclass
class AccBuffer:
    """One accumulator buffer: `values[slot, col]` of the tile in it."""

    values: Ints
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
    """

    config: Config
    memory: list[Bytes]
    seed: int
    races: RaceChecker | None = None
    unit: Unit = Unit.CONTROL
    run: int = 0
    full: list[AccBuffer] = field(default_factory=list)
    open: list[AccBuffer] = field(default_factory=list)

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
        """Return undefined bytes; different ones on each call."""
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

    def address(self, words: npt.NDArray[Any]) -> Index:
        """Take word addresses modulo 2^16; Fault(BAD_ADDRESS) for one beyond the scratchpad."""
        words = np.asarray(words, np.int64) & 0xFFFF
        if words.size and int(words.max()) >= self.config.scratchpad_words:
            raise Fault(Status.BAD_ADDRESS, f"word {int(words.max())} is accessed, the scratchpad has "
                                            f"{self.config.scratchpad_words}")
        return words

    def read(self, words: npt.NDArray[Any]) -> Bytes:
        """Return the scratchpad words at the given addresses: shape of `words` + (word_bytes,)."""
        words = self.address(words)
        self.note_read(words)
        return self.scratchpad[words]

    def note_read(self, words: Index) -> None:
        """Record a read for the race check."""
        if self.races is not None:
            self.races.read(self.unit, self.run, words)

    def write(self, words: npt.NDArray[Any], low: int, values: Bytes) -> None:
        """Write byte lanes `low`.. of the words at the given addresses; the last of equal addresses holds."""
        words = self.address(words)
        self.scratchpad[words, low:low + values.shape[-1]] = values
        self.writers[words] = (self.unit << 24) + self.run
        if self.races is not None:
            self.races.write(self.unit, self.run, words)

    def region(self, number: int, first: int, last: int) -> Bytes:
        """Return region `number` after a check that bytes first..last lie in it."""
        size = self.memory[number].size
        if first < 0 or last >= size:
            raise Fault(Status.BUS_ERROR, f"bytes {first}..{last} of region {number} are accessed, which has {size}")
        return self.memory[number]
