"""Registers and memory through PYNQ, if it is installed."""

import time
from typing import Any

from tq_hw.boards.link.mapped import MappedLink
from tq_hw.boards.link.protocol import MOST_BYTES
from tq_hw.isa.control import WINDOW_BYTES
from tq_hw.model.errors import MissingToolError, OptionError

__all__ = ["PynqBuffer", "PynqRegisters", "open_pynq"]


class PynqRegisters:
    """Registers through PYNQ's MMIO."""

    def __init__(self, mmio: Any) -> None:
        self._mmio = mmio

    def read(self, offset: int) -> int:
        """Return a word."""
        return int(self._mmio.read(offset))

    def write(self, offset: int, value: int) -> None:
        """Write a word."""
        self._mmio.write(offset, value)

    def pause(self, seconds: float) -> None:
        """Wait for this time: PYNQ identifies interrupts by the name of a pin, which is not known here."""
        time.sleep(seconds)

    def close(self) -> None:
        """Do nothing: PYNQ keeps its mapping."""


class PynqBuffer:
    """A buffer of PYNQ's `allocate`, of uint8."""

    def __init__(self, array: Any) -> None:
        self._array = array
        self.address, self.size_bytes = int(array.device_address), int(array.nbytes)

    def write(self, offset: int, data: bytes) -> None:
        """Write bytes."""
        self._array[offset:offset + len(data)] = memoryview(data)

    def read(self, offset: int, size_bytes: int) -> bytes:
        """Return bytes."""
        return bytes(self._array[offset:offset + size_bytes])

    def for_device(self) -> None:
        """Write the caches back to memory."""
        self._array.flush()

    def for_cpu(self) -> None:
        """Invalidate the caches."""
        self._array.invalidate()

    def close(self) -> None:
        """Release the memory."""
        self._array.freebuffer()


def open_pynq(address: int, memory_bytes: int, clock_hz: int) -> MappedLink:
    """Return the accelerator with its registers at a physical address, and a buffer that PYNQ allocates for it.

    `address` is `overlay.ip_dict[NAME]["phys_addr"]`. MissingToolError where PYNQ is not installed.
    """
    if memory_bytes <= 0 or memory_bytes % MOST_BYTES:
        raise OptionError(f"memory_bytes must be a multiple of {MOST_BYTES}, not {memory_bytes}")
    try:
        import pynq
    except ImportError:
        raise MissingToolError("the Python package pynq is not installed: it comes with a PYNQ image of the board; "
                               "without it use UIO and u-dma-buf") from None
    return MappedLink(PynqRegisters(pynq.MMIO(address, WINDOW_BYTES)),
                      PynqBuffer(pynq.allocate(shape=(memory_bytes,), dtype="u1")), clock_hz)
