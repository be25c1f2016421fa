"""An accelerator in hardware, from Python: behind a UART, or in this processor's address space.

    from tq_hw.host import open_uio
    with open_uio("/dev/uio0", "/dev/udmabuf0") as session:
        session.load("model.tqm")
        scores, = session.run(image)

`open_uart` is for a board on a serial port, `open_uio` for Linux on the chip itself (Zynq, LiteX), `open_pynq` for
a PYNQ image. All three return a `Session`.
"""

import os
from contextlib import AbstractContextManager
from typing import Protocol

from tq_hw.boards.link.device import Device, DeviceLink, DeviceRun, MachineError
from tq_hw.boards.link.host import Link, Progress
from tq_hw.boards.link.port import SerialPort
from tq_hw.boards.link.pynq import open_pynq as pynq_link
from tq_hw.boards.link.uio import open_uio as uio_link
from tq_hw.cli.shared.arrays import find_inputs, port_kinds
from tq_hw.compiled import CompiledNetwork
from tq_hw.isa.program import Program
from tq_hw.isa.program_file import load
from tq_hw.model.errors import DeviceError, OptionError
from tq_hw.sim import edges
from tq_hw.sim.faults import located
from tq_hw.tensors import Array, named_arrays

__all__ = ["Session", "open_pynq", "open_uart", "open_uio"]

#: The clock assumed for times if none is given; cycles do not depend on it.
DEFAULT_CLOCK_HZ = 100_000_000


class Closing(Protocol):
    """A resource that a session releases at its end."""

    def close(self) -> None:
        """Release it."""


class Session(AbstractContextManager["Session"]):
    """An accelerator that holds one model at a time. Use it as a context manager, or call `close`.

    Parameters
    ----------
    link : the link to the accelerator, not yet opened
    port : closed together with the session
    time_limit_seconds : limit for one inference

    Attributes
    ----------
    device : runs the model, on stored bytes
    last : the last inference with its counters, None before the first
    """

    def __init__(self, link: DeviceLink, port: Closing, *, time_limit_seconds: float = 60) -> None:
        self._port = port
        try:
            self.device = Device(link, time_limit_seconds=time_limit_seconds)
        except BaseException:
            port.close()
            raise
        self._program: Program | None = None
        self.last: DeviceRun | None = None

    def load(self, model: str | os.PathLike[str] | Program | CompiledNetwork,
             progress: Progress | None = None) -> None:
        """Load a compiled model: the path of a file from `tq-hw compile`, or the result of `tq_hw.load(..).compile`.

        Raises OptionError if it is for another configuration or does not fit, DeviceError if the device fails.
        """
        if isinstance(model, CompiledNetwork):
            model = model.program
        program = model if isinstance(model, Program) else load(os.fspath(model))
        self.device.load(program, progress)
        self._program = program

    def run(self, inputs: object, *, keep_state: bool = False) -> tuple[Array, ...]:
        """Run one inference and return its outputs in the model's types.

        Parameters
        ----------
        inputs : an array for the only input, a list of one array per input, or a mapping by name
        keep_state : continue from the state that the last inference left, for streaming models

        Raises OptionError for inputs that do not fit, DeviceError if the accelerator stops or exceeds the time limit.
        """
        program = self._program
        if program is None:
            raise OptionError("no model is loaded")
        kinds = port_kinds(program.inputs)
        sets, stacked = find_inputs(named_arrays(inputs, len(kinds)), kinds, program.name)
        if stacked:
            raise OptionError(f"{program.name}: expected one input set, found arrays with one more axis")
        stored = [edges.to_port(port, array) for port, array in zip(program.inputs, sets[0], strict=True)]
        try:
            self.last = self.device.run(stored, keep_state=keep_state)
        except MachineError as error:
            where = located(program, error.unit, error.run)
            raise DeviceError(f"{program.name}: {where}: {error.status.name}") from None
        return tuple(edges.from_port(port, data) for port, data in zip(program.outputs, self.last.outputs, strict=True))

    @property
    def cycles(self) -> int:
        """Cycles of the last inference; OptionError before the first."""
        if self.last is None:
            raise OptionError("nothing has been run yet")
        return self.last.cycles

    def close(self) -> None:
        """Release the port, or the registers and the memory."""
        self._port.close()

    def __exit__(self, *_: object) -> None:
        self.close()


def open_uart(port: str, baud: int, *, time_limit_seconds: float = 60) -> Session:
    """Return a session with the board on a serial port such as `/dev/ttyUSB0`; DeviceError if none answers."""
    serial = SerialPort(port, baud)
    return Session(Link(serial), serial, time_limit_seconds=time_limit_seconds)


def open_uio(uio: str = "/dev/uio0", buffer: str = "/dev/udmabuf0", *, clock_hz: int = DEFAULT_CLOCK_HZ,
             time_limit_seconds: float = 60) -> Session:
    """Return a session with registers at a UIO device and memory in a u-dma-buf; DeviceError if either is missing.

    The user needs read and write access to both, and to the buffer's files `sync_*` under /sys/class/u-dma-buf.
    """
    link = uio_link(uio, buffer, clock_hz)
    return Session(link, link, time_limit_seconds=time_limit_seconds)


def open_pynq(address: int, memory_bytes: int, *, clock_hz: int = DEFAULT_CLOCK_HZ,
              time_limit_seconds: float = 60) -> Session:
    """Return a session with registers at a physical address and memory from PYNQ's `allocate`.

    `address` is `overlay.ip_dict[NAME]["phys_addr"]`. `memory_bytes` is a multiple of 256. MissingToolError if PYNQ is
    not installed.
    """
    link = pynq_link(address, memory_bytes, clock_hz)
    return Session(link, link, time_limit_seconds=time_limit_seconds)
