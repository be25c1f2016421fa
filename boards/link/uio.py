"""Registers through Linux's UIO, memory through the kernel module u-dma-buf."""

import errno
import mmap
import os
import select
import stat
import struct
import time
from pathlib import Path

from tq_hw.boards.link.mapped import MappedLink
from tq_hw.boards.link.port import LinkError
from tq_hw.isa.control import WINDOW_BYTES

__all__ = ["UdmaBuffer", "UioInterrupt", "UioRegisters", "open_uio"]

#: Where Linux reports the size of a u-dma-buf; older versions of the module use the second name.
_SYSFS = Path("/sys/class")
_CLASSES = ("u-dma-buf", "udmabuf")
#: A wait for an interrupt also ends after this time; `status` is then read in any case.
_MOST_SECONDS = 0.1
_ON = struct.pack("=I", 1)
#: Errors of a UIO device without an interrupt, or with one that it cannot enable.
_NO_INTERRUPT = (errno.EIO, errno.ENOSYS)


def _mapped(path: str, size_bytes: int, what: str) -> tuple[mmap.mmap, int]:
    """Return the mapping of a device and its open file descriptor."""
    try:
        # Linux never caches the mapping of a UIO device.
        handle = os.open(path, os.O_RDWR)
        try:
            return mmap.mmap(handle, size_bytes), handle
        except BaseException:
            os.close(handle)
            raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise LinkError(f"{what} {path} cannot be mapped: {reason}") from None


class UioInterrupt:
    """The interrupt of a UIO device. It is a level: the driver disables it when it comes, and enables it on request.

    handle : of the device, open for reading and writing; closed with this object
    """

    def __init__(self, handle: int) -> None:
        self._handle = handle
        #: False once the device has reported that it has none; a plain file has none either.
        self.there = stat.S_ISCHR(os.fstat(handle).st_mode)

    def wait(self, seconds: float) -> None:
        """Wait for the interrupt, or for this time if there is none; LinkError when the device fails."""
        if self.there:
            try:
                os.write(self._handle, _ON)
            except OSError as error:
                if error.errno not in _NO_INTERRUPT:
                    raise LinkError(f"the UIO device's interrupt cannot be enabled: {error.strerror}") from None
                self.there = False
        if not self.there:
            time.sleep(seconds)
        elif select.select([self._handle], [], [], _MOST_SECONDS)[0]:
            os.read(self._handle, len(_ON))

    def close(self) -> None:
        """Close the file descriptor."""
        os.close(self._handle)


class UioRegisters:
    """The first mapping of a UIO device, and its interrupt; LinkError when it cannot be mapped."""

    def __init__(self, path: str) -> None:
        self._map, handle = _mapped(path, WINDOW_BYTES, "UIO device")
        # A memoryview of words accesses each word as a whole.
        self._words = memoryview(self._map).cast("I")
        self.interrupt = UioInterrupt(handle)

    def read(self, offset: int) -> int:
        """Return a word."""
        return self._words[offset // 4]

    def write(self, offset: int, value: int) -> None:
        """Write a word."""
        self._words[offset // 4] = value

    def pause(self, seconds: float) -> None:
        """Wait for the interrupt, or for this time if there is none."""
        self.interrupt.wait(seconds)

    def close(self) -> None:
        """Release the mapping."""
        self._words.release()
        self._map.close()
        self.interrupt.close()


class UdmaBuffer:
    """A cached buffer of the kernel module u-dma-buf, whose files control cache maintenance.

    LinkError when it does not exist.
    """

    def __init__(self, path: str) -> None:
        name = Path(path).name
        folders = [_SYSFS / each / name for each in _CLASSES]
        found = next((folder for folder in folders if folder.is_dir()), None)
        if found is None:
            raise LinkError(f"buffer {path}: there is no {folders[0]}: load the kernel module u-dma-buf, with a buffer "
                            "of this name in the device tree")
        self._folder = found
        self.address, self.size_bytes = self._number("phys_addr"), self._number("size")
        self._map, handle = _mapped(path, self.size_bytes, "buffer")
        os.close(handle)
        # Another program may have set a part of the buffer, or one direction.
        self._say("sync_offset", 0)
        self._say("sync_direction", 0)
        #: Bytes from the start of the buffer that this program has touched. No cache has dirty lines of the rest.
        self._touched = 0

    def write(self, offset: int, data: bytes) -> None:
        """Write bytes."""
        self._touch(offset + len(data))
        self._map[offset:offset + len(data)] = data

    def read(self, offset: int, size_bytes: int) -> bytes:
        """Return bytes."""
        if offset + size_bytes > self._touched:
            # The previous call did not cover these bytes.
            self._touch(offset + size_bytes)
            self.for_cpu()
        return self._map[offset:offset + size_bytes]

    def for_device(self) -> None:
        """Write the caches back to memory."""
        self._say("sync_for_device", 1)

    def for_cpu(self) -> None:
        """Invalidate the caches."""
        self._say("sync_for_cpu", 1)

    def close(self) -> None:
        """Release the mapping."""
        self._map.close()

    def _touch(self, end: int) -> None:
        if end > self._touched:
            self._touched = end
            self._say("sync_size", end)

    def _number(self, name: str) -> int:
        path = self._folder / name
        try:
            return int(path.read_text(encoding="ascii"), 0)
        except (OSError, ValueError) as error:
            raise LinkError(f"{path} cannot be read as a number: {getattr(error, 'strerror', None) or error}") from None

    def _say(self, name: str, value: int) -> None:
        path = self._folder / name
        try:
            path.write_text(f"{value}\n", encoding="ascii")
        except OSError as error:
            raise LinkError(f"{path} cannot be written: {error.strerror}") from None


def open_uio(uio: str, buffer: str, clock_hz: int) -> MappedLink:
    """Return the accelerator at a UIO device, such as `/dev/uio0`, with a u-dma-buf, such as `/dev/udmabuf0`.

    LinkError if one of them does not exist.
    """
    registers = UioRegisters(uio)
    try:
        return MappedLink(registers, UdmaBuffer(buffer), clock_hz)
    except LinkError:
        registers.close()
        raise
