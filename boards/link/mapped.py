"""An accelerator in this processor's own address space.

On a system on chip (Zynq, LiteX with Linux) the accelerator is a page of registers and a region of memory, without a
board that answers requests. `MappedLink` replaces `tq_hw.boards.link.host.Link` there. It has no sessions, so it does
not notice when somebody else resets the accelerator.
"""

import time
from typing import Protocol

from tq_hw.boards.link.host import Progress
from tq_hw.boards.link.port import LinkError
from tq_hw.boards.link.protocol import DRAM_REGISTERS, MOST_BYTES, VERSION, Identity
from tq_hw.isa.control import REGISTERS

__all__ = ["DmaBuffer", "MappedLink", "Registers"]

_OFFSETS = {register.name: register.offset_bytes for register in REGISTERS}
#: A write that takes longer than this did not reach the accelerator.
_PATIENCE_SECONDS = 10.0


class Registers(Protocol):
    """Words by byte offset."""

    def read(self, offset: int) -> int:
        """Return a word."""
        ...

    def write(self, offset: int, value: int) -> None:
        """Write a word."""

    def pause(self, seconds: float) -> None:
        """Wait for the accelerator's interrupt, or for this time if there is none."""

    def close(self) -> None:
        """Release everything."""


class DmaBuffer(Protocol):
    """Memory that the accelerator reads and writes.

    Members
    -------
    address : of its first byte, as the accelerator sees it
    size_bytes : of it
    """

    address: int
    size_bytes: int

    def write(self, offset: int, data: bytes) -> None:
        """Write bytes."""

    def read(self, offset: int, size_bytes: int) -> bytes:
        """Return bytes."""
        ...

    def for_device(self) -> None:
        """Make writes of this processor visible to the accelerator."""

    def for_cpu(self) -> None:
        """Make writes of the accelerator visible to reads."""

    def close(self) -> None:
        """Release everything."""


class MappedLink:
    """The accelerator through its registers and a buffer; `Device` takes it in place of a `Link`.

    Parameters
    ----------
    registers, buffer : of the accelerator; closed with this link
    clock_hz : of the accelerator, to convert cycles to times
    """

    def __init__(self, registers: Registers, buffer: DmaBuffer, clock_hz: int) -> None:
        self._registers, self._buffer, self._clock_hz = registers, buffer, clock_hz
        self._cpu_owns = True
        #: There are no requests that could be lost.
        self.repeats = 0

    def open(self) -> Identity:
        """Return the accelerator's identity; LinkError for a buffer that it cannot use."""
        try:
            return Identity(VERSION, self._registers.read(_OFFSETS["fingerprint"]), self._buffer.address,
                            self._buffer.size_bytes, MOST_BYTES, self._clock_hz)
        except ValueError as error:
            raise LinkError(f"the accelerator cannot use this buffer: {error}") from None

    def read_registers(self, name: str, count: int = 1) -> list[int]:
        """Return `count` registers from `name` on."""
        first = _OFFSETS[name]
        return [self._registers.read(first + 4 * number) for number in range(count)]

    def write_registers(self, name: str, *values: int) -> None:
        """Write registers from `name` on, one word each; LinkError where a start or stop has no effect.

        A bus may accept a write before it reaches the accelerator, so `control`, which reads as 0, is read back until
        it does.
        """
        first = _OFFSETS[name]
        if name == "control":
            self._give()
        for number, value in enumerate(values):
            self._registers.write(first + 4 * number, value)
        until = time.monotonic() + _PATIENCE_SECONDS
        while name == "control" and self._registers.read(first):
            if time.monotonic() > until:
                raise LinkError(f"the control register has not taken a write for {_PATIENCE_SECONDS:g} seconds: check "
                                "that the registers are the accelerator's")

    def write_memory(self, address: int, data: bytes, progress: Progress | None = None) -> None:
        """Write bytes from the accelerator's byte address on."""
        if data:
            self._take()
            self._buffer.write(self._offset(address, len(data)), data)
        if progress is not None:
            progress(len(data))

    def read_memory(self, address: int, size_bytes: int, progress: Progress | None = None) -> bytes:
        """Return bytes from the accelerator's byte address on."""
        self._take()
        data = self._buffer.read(self._offset(address, size_bytes), size_bytes)
        if progress is not None:
            progress(size_bytes)
        return data

    def pause(self, seconds: float) -> None:
        """Wait for the interrupt, or for this time."""
        self._registers.pause(seconds)

    def dram_words(self) -> list[int]:
        """Report that the memory needs no levelling: the processor already runs from it."""
        return [0] * len(DRAM_REGISTERS)

    def close(self) -> None:
        """Release registers and buffer."""
        self._registers.close()
        self._buffer.close()

    def _offset(self, address: int, size_bytes: int) -> int:
        offset = address - self._buffer.address
        if offset < 0 or offset + size_bytes > self._buffer.size_bytes:
            raise LinkError(f"{size_bytes} bytes at {address:#x} are not in the buffer of {self._buffer.size_bytes} "
                            f"bytes at {self._buffer.address:#x}")
        return offset

    def _give(self) -> None:
        if self._cpu_owns:
            self._buffer.for_device()
            self._cpu_owns = False

    def _take(self) -> None:
        if not self._cpu_owns:
            self._buffer.for_cpu()
            self._cpu_owns = True
