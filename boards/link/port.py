"""The line to a board: bytes out and in, over a serial port or a substitute in a test."""

import contextlib
import errno
import os
from typing import Protocol

import serial

from tq_hw.model.errors import DeviceError

__all__ = ["LinkError", "Port", "SerialPort"]


class LinkError(DeviceError):
    """The board does not answer, refuses a request, or is not what was expected."""


class Port(Protocol):
    """A line of bytes.

    Members
    -------
    byte_seconds : time of one byte on the wire
    """

    byte_seconds: float

    def write(self, data: bytes) -> None:
        """Send all of `data`."""

    def read(self, wait_seconds: float) -> bytes:
        """Return the bytes that have come, else wait for at least one; return none after the time."""
        ...


class SerialPort:
    """A serial port or a URL of pyserial; LinkError if it cannot be opened or disappears.

    A local device is opened exclusively: two programs that talk at once would get each other's answers.
    """

    def __init__(self, name: str, baud: int) -> None:
        self.name = name
        self.byte_seconds = 10 / baud
        try:
            self._serial = serial.serial_for_url(name, baud, timeout=0, write_timeout=5, exclusive=True)
        except (OSError, ValueError, OverflowError) as error:
            if getattr(error, "errno", None) in (errno.EAGAIN, errno.EBUSY):
                raise LinkError(f"port {name} is in use by another program; close that first") from None
            raise LinkError(f"port {name} cannot be opened: {_reason(error)}; `tq-hw doctor` lists "
                            "the ports") from None
        # USB adapters otherwise keep received bytes for up to 16 ms; not every port and system has this option.
        with contextlib.suppress(AttributeError, NotImplementedError, OSError, ValueError):
            self._serial.set_low_latency_mode(True)

    def close(self) -> None:
        """Close the port."""
        self._serial.close()

    def write(self, data: bytes) -> None:
        """Send all of `data`."""
        try:
            self._serial.write(data)
        except OSError as error:
            raise LinkError(f"port {self.name} failed: {_reason(error)}") from None

    def read(self, wait_seconds: float) -> bytes:
        """Return the bytes that have come, else wait for at least one; return none after the time."""
        try:
            waiting = self._serial.in_waiting
            self._serial.timeout = 0 if waiting else wait_seconds
            return bytes(self._serial.read(max(waiting, 1)))
        except OSError as error:
            raise LinkError(f"port {self.name} failed: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    number = getattr(error, "errno", None)
    # pyserial wraps the system's message about a file or another device in its own words.
    if error.__context__ is not None and errno.ENOTTY in error.__context__.args:
        return "it is not a serial port"
    return os.strerror(number) if number else str(error)
