"""An accelerator behind a link: load a compiled model, run it."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from tq_hw.boards.link.dram import await_dram
from tq_hw.boards.link.host import Progress, SessionLostError
from tq_hw.boards.link.port import LinkError
from tq_hw.boards.link.protocol import Identity
from tq_hw.boards.link.room import aligned, check_program, memory_bytes
from tq_hw.isa.control import (
    COUNTERS,
    MAGIC,
    NO_RUN,
    STATUS_BUSY,
    STATUS_DONE,
    STATUS_ERROR,
    STATUS_OWED,
    WATCHDOG_CYCLES,
    Status,
)
from tq_hw.isa.layout import Unit
from tq_hw.isa.program import REGION_STATE, Port, Program
from tq_hw.model.errors import DeviceError, OptionError

__all__ = ["Device", "DeviceLink", "DeviceRun", "MachineError"]

Result = TypeVar("Result")

#: If the board resets more often than this during one inference, it is broken.
_MOST_RESETS = 5
_RESETS = "the board was reset {} times: check its power"
#: Poll for the end of a run without sleeping for this time: a small model ends sooner than a sleep would.
_SPIN_SECONDS = 0.002
_FIRST_SLEEP, _MOST_SLEEP = 0.001, 0.02


class DeviceLink(Protocol):
    """Access to an accelerator: a `Link` to a board, or a `MappedLink` if it is in this processor's address space."""

    def open(self) -> Identity:
        """Open a session and return the identity; LinkError for an accelerator that cannot be used."""
        ...

    def dram_words(self) -> list[int]:
        """Return DRAM_REGISTERS of the protocol."""
        ...

    def pause(self, seconds: float) -> None:
        """Wait for the end of a run: for its interrupt if the link has one, otherwise for this time."""

    def read_registers(self, name: str, count: int = 1) -> list[int]:
        """Return `count` registers from `name` on."""
        ...

    def write_registers(self, name: str, *values: int) -> None:
        """Write registers from `name` on, one word each."""

    def write_memory(self, address: int, data: bytes, progress: Progress | None = None) -> None:
        """Write bytes from a byte address on."""

    def read_memory(self, address: int, size_bytes: int, progress: Progress | None = None) -> bytes:
        """Return bytes from a byte address on."""
        ...


class MachineError(DeviceError):
    """The accelerator stopped with an error.

    Members
    -------
    status, unit, run : the error code, the unit that stopped, and its RUN command, or NO_RUN
    """

    def __init__(self, status: Status, unit: Unit, run: int) -> None:
        super().__init__(f"{unit.name.lower()}{'' if run == NO_RUN else f' RUN {run}'}: {status.name}")
        self.status, self.unit, self.run = status, unit, run


@dataclass(frozen=True)
class DeviceRun:
    """The result of one inference.

    Members
    -------
    outputs : stored bytes of each output port
    counters : the hardware's own, by name; see isa/control.py; 0 except `cycles` if the machine has few of them
    seconds : from the start until the host saw its end
    """

    outputs: tuple[bytes, ...]
    counters: Mapping[str, int]
    seconds: float

    @property
    def cycles(self) -> int:
        """Cycles from start to done."""
        return self.counters["cycles"]


@dataclass(frozen=True)
class _Place:
    """A loaded program: the bases of its regions, and the address after them. Keeps the program object alive."""

    program: Program
    bases: tuple[int, ...]
    end: int


class Device:
    """The accelerator at the end of a link.

    After an unexpected reset of the board, the device opens a new session, loads the model again and repeats the
    inference.

    Parameters
    ----------
    link : not yet opened
    time_limit_seconds : of one inference
    """

    def __init__(self, link: DeviceLink, *, time_limit_seconds: float = 60) -> None:
        self._link, self._limit = link, time_limit_seconds
        self._program: Program | None = None
        #: Regions of the programs whose images are in memory, by the program's identity.
        self._places: dict[int, _Place] = {}
        #: Unexpected resets of the board.
        self.resets = 0
        self.identity = self._open_at_last()

    def load(self, program: Program, progress: Progress | None = None) -> None:
        """Write a program's image into the board's memory, after those already there if there is room for all.

        The program becomes the one that `run` executes. Raises OptionError when it is compiled for another
        configuration or does not fit; never SessionLostError.
        """
        check_program(program, self.identity.fingerprint, self.identity.memory_bytes)
        self._program = program
        self._survive(lambda: self._load(program, progress), reload=False)

    def select(self, program: Program, progress: Progress | None = None) -> bool:
        """Make `run` execute this program, and load it unless its image is still in memory; return whether it was.

        A loaded program keeps its state until its image has to make room for another one, or the board is reset.
        """
        kept = id(program) in self._places
        if kept:
            self._program = program
        else:
            self.load(program, progress)
        return kept

    def run(self, inputs: Sequence[bytes], *, keep_state: bool = False) -> DeviceRun:
        """Run one inference on the stored bytes of the inputs.

        keep_state : continue from the state of the previous inference, otherwise from the program's initial one. A
        reset of the board is then a DeviceError, since the state is lost.

        Raises MachineError when the accelerator stops, DeviceError when it does not end in time.
        """
        program = self._loaded()
        if [len(data) for data in inputs] != [port.size_bytes for port in program.inputs]:
            raise OptionError(f"{program.name}: inputs must have {[port.size_bytes for port in program.inputs]} bytes, "
                              f"found {[len(data) for data in inputs]}")
        if keep_state and program.state:
            try:
                return self._run(program, inputs, self._bases(program), fresh=False)
            except SessionLostError:
                self._places.clear()
                raise DeviceError(f"{program.name}: the board was reset, and the state of the model is lost: load it "
                                  "again") from None
        return self._survive(lambda: self._run(program, inputs, self._bases(program), fresh=True))

    def run_part(self, command_bytes: int, end: bytes) -> int:
        """Run the first `command_bytes` of the commands, then `end`, on the memory as it is; return the cycles.

        The command stream is restored afterwards.
        """
        program = self._loaded()
        whole = program.commands[command_bytes:command_bytes + len(end)]
        part = replace(program, command_bytes=command_bytes + len(end), inputs=(), outputs=(), layers=())

        def run() -> int:
            bases = self._bases(program)
            at = bases[0] + program.command_offset + command_bytes
            self._link.write_memory(at, end)
            cycles = self._run(part, (), bases, fresh=False).cycles
            self._link.write_memory(at, whole)
            return cycles
        return self._survive(run)

    def _open(self) -> Identity:
        identity = self._link.open()
        magic, fingerprint = self._link.read_registers("magic", 2)
        if magic != MAGIC or fingerprint != identity.fingerprint:
            raise LinkError(f"the board has no accelerator at its registers: magic {magic:08x} and fingerprint "
                            f"{fingerprint:08x}, expected {MAGIC:08x} and {identity.fingerprint:08x}")
        self.dram = await_dram(self._link)
        return identity

    def _open_at_last(self) -> Identity:
        """Open a session; retry if the board resets meanwhile."""
        for _ in range(_MOST_RESETS):
            with suppress(SessionLostError):
                return self._open()
            self.resets += 1
        raise DeviceError(_RESETS.format(self.resets))

    def _loaded(self) -> Program:
        if self._program is None:
            raise OptionError("no model is loaded")
        return self._program

    def _bases(self, program: Program) -> tuple[int, ...]:
        """Return the bases of a program's regions; SessionLostError when they were lost with a session."""
        if id(program) not in self._places:
            raise SessionLostError("the board was reset")
        return self._places[id(program)].bases

    def _survive(self, work: Callable[[], Result], *, reload: bool = True) -> Result:
        """Repeat `work` after each reset of the board."""
        for _ in range(_MOST_RESETS):
            try:
                return work()
            except SessionLostError:
                self.resets += 1
            self._places.clear()
            try:
                self.identity = self._open()
                program = self._loaded()
                check_program(program, self.identity.fingerprint, self.identity.memory_bytes)
                if reload:
                    self._load(program, None)
            except SessionLostError:
                self.resets += 1
        raise DeviceError(_RESETS.format(self.resets))

    def _load(self, program: Program, progress: Progress | None) -> None:
        self._stop()
        self._places.pop(id(program), None)
        at = max((place.end for place in self._places.values()), default=self.identity.memory_base)
        if at + memory_bytes([program]) > self.identity.memory_base + self.identity.memory_bytes:
            self._places.clear()
            at = self.identity.memory_base
        bases = []
        for region in range(3):
            bases.append(at)
            at += aligned(program.region_bytes(region))
        self._link.write_memory(bases[0], program.image, progress)
        self._link.write_memory(bases[REGION_STATE], program.state)
        self._places[id(program)] = _Place(program, tuple(bases), at)

    def _run(self, program: Program, inputs: Sequence[bytes], bases: tuple[int, ...], *, fresh: bool) -> DeviceRun:
        link = self._link
        if fresh:
            link.write_memory(bases[REGION_STATE], program.state)
        for port, data in zip(program.inputs, inputs, strict=True):
            link.write_memory(_address(port, bases), data)
        link.write_registers("command_offset", program.command_offset, program.command_bytes, WATCHDOG_CYCLES)
        link.write_registers("base0", *bases)
        link.write_registers("control", 1)
        began = time.monotonic()
        status = self._wait_while_busy(program)
        seconds = time.monotonic() - began
        if status != STATUS_DONE:
            code, unit, run = link.read_registers("error_code", 3)
            if not status & STATUS_ERROR or code not in list(Status) or unit not in list(Unit):
                raise DeviceError(f"{program.name}: the accelerator has status {status:#x}, error code {code}, unit "
                                  f"{unit}, which are not valid")
            raise MachineError(Status(code), Unit(unit), run)
        counters = dict(zip(COUNTERS, link.read_registers(f"counter_{COUNTERS[0]}", len(COUNTERS)), strict=True))
        outputs = tuple(link.read_memory(_address(port, bases), port.size_bytes) for port in program.outputs)
        return DeviceRun(outputs, counters, seconds)

    def _wait_while_busy(self, program: Program) -> int:
        began = time.monotonic()
        sleep, until = _FIRST_SLEEP, began + self._limit
        while (status := self._link.read_registers("status")[0]) & STATUS_BUSY:
            if time.monotonic() > until:
                self._stop()
                raise DeviceError(f"{program.name}: timed out after {self._limit:g} s; the accelerator was stopped")
            if time.monotonic() > began + _SPIN_SECONDS:
                self._link.pause(sleep)
                sleep = min(2 * sleep, _MOST_SLEEP)
        return status

    def _stop(self) -> None:
        self._link.write_registers("control", 2)
        until = time.monotonic() + 1
        while (status := self._link.read_registers("status")[0]) & STATUS_BUSY and time.monotonic() < until:
            pass
        if status & (STATUS_BUSY | STATUS_OWED):
            raise DeviceError("the accelerator does not stop: its memory does not answer; reset the board")


def _address(port: Port, bases: tuple[int, ...]) -> int:
    return bases[port.region] + port.region_offset_bytes
