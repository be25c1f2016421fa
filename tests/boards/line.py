"""A noisy line, and a board with an accelerator at its end, in this process."""

import random
import time

import numpy as np
from link_reference import ReferenceBoard

from tq_hw.boards.link.faults import Fault, damage
from tq_hw.boards.link.protocol import Identity
from tq_hw.isa.control import (
    COUNTERS,
    MAGIC,
    REGISTERS,
    STATUS_DONE,
    STATUS_ERROR,
    STATUS_OWED,
    WATCHDOG_CYCLES,
    Status,
)
from tq_hw.isa.layout import Unit
from tq_hw.isa.program import Program
from tq_hw.model.errors import OptionError
from tq_hw.sim import edges
from tq_hw.sim.executor import execute

__all__ = ["OFFSETS", "AcceleratorBoard", "BadLine", "Clock"]

OFFSETS = {register.name: register.offset_bytes for register in REGISTERS}


class AcceleratorBoard(ReferenceBoard):
    """Runs one program on the executor when it is started, if memory and registers hold all of it.

    Members
    -------
    runs : starts that were executed
    reset_at : positions in the bytes of requests at which the board is reset and loses its memory
    stop_with : error in which the next run ends
    """

    def __init__(self, program: Program, *, memory_bytes: int = 1 << 20, fingerprint: int | None = None) -> None:
        chosen = program.fingerprint if fingerprint is None else fingerprint
        super().__init__(Identity(1, chosen, 0x10000, memory_bytes, 256, 100_000_000))
        self.program = program
        self.runs = 0
        self.reset_at: list[int] = []
        self.stop_with: Status | None = None
        self.endless = self.owed = False
        self._taken = 0
        self._reset_registers()
        self.on_write = self._written

    def _reset_registers(self) -> None:
        self.registers[:] = bytes(len(self.registers))
        self.put("magic", MAGIC)
        self.put("fingerprint", self.identity.fingerprint)

    def get(self, name: str) -> int:
        return int.from_bytes(self.registers[OFFSETS[name]:OFFSETS[name] + 4], "little")

    def put(self, name: str, value: int) -> None:
        self.registers[OFFSETS[name]:OFFSETS[name] + 4] = value.to_bytes(4, "little")

    def feed(self, data: bytes) -> bytes:
        out = b""
        for byte in data:
            self._taken += 1
            if self._taken in self.reset_at:
                self.reset()
                self._reset_registers()
                self.memory[:] = random.Random(self._taken).randbytes(len(self.memory))
            out += super().feed(bytes([byte]))
        return out

    def region(self, number: int, size: int) -> slice:
        at = self.get(f"base{number}") - self.identity.memory_base
        return slice(at, at + size)

    def _written(self, offset: int, value: int) -> None:
        if offset != OFFSETS["control"]:
            return
        if value & 2:
            self.put("status", STATUS_OWED * self.owed)
            return
        self.runs += 1
        program = self.program
        if self.endless:
            self.put("status", 1)
            return
        if self.stop_with is not None:
            self.put("status", STATUS_ERROR)
            self.put("error_code", self.stop_with)
            self.put("error_unit", Unit.ARRAY)
            self.put("error_index", 3)
            return
        if self.get("command_offset") != program.command_offset:
            raise OptionError("the board was started with other commands")
        assert self.get("watchdog") == WATCHDOG_CYCLES, "the board was started without a watchdog"
        assert bytes(self.memory[self.region(0, len(program.image))]) == program.image, "the image is damaged"
        inputs = []
        for port in program.inputs:
            at = self.region(port.region, 0).start + port.region_offset_bytes
            inputs.append(edges.from_port(port, bytes(self.memory[at:at + port.size_bytes])))
        state = bytes(self.memory[self.region(2, len(program.state))])
        result = execute(program, inputs, state=state)
        self.memory[self.region(2, len(state))] = result.state
        for port, array in zip(program.outputs, result.outputs, strict=True):
            at = self.region(port.region, 0).start + port.region_offset_bytes
            self.memory[at:at + port.size_bytes] = edges.to_port(port, np.asarray(array))
        self.put("status", STATUS_DONE)
        for number, name in enumerate(COUNTERS):
            self.put(f"counter_{name}", 1000 + number)


class Clock:
    """Replaces the module `time`: only waiting takes time, so a busy computer does not look like a silent board."""

    def __init__(self) -> None:
        self._now = 0.0

    def monotonic(self) -> float:
        """The time; each call takes a microsecond."""
        self._now += 1e-6
        return self._now

    def sleep(self, seconds: float) -> None:
        """Advance the time."""
        self._now += seconds


class BadLine:
    """A port to a board in this process: in each direction, one byte in `one_in` is dropped, flipped, doubled or late.

    A late byte, with all bytes after it, arrives after the host has waited once; by then the board may have dropped an
    incomplete frame.
    """

    def __init__(self, board: ReferenceBoard, *, seed: int = 0, one_in: int = 0) -> None:
        self.board = board
        self.byte_seconds = 0.0
        self.damaged = 0
        self._rng = random.Random(seed)
        self._one_in = one_in
        self._to_host = bytearray()
        self._late: list[tuple[bool, bytes]] = []

    def _damage(self, data: bytes) -> tuple[bytes, bytes]:
        """Return what arrives at once, and what arrives late."""
        now, late = bytearray(), bytearray()
        for byte in data:
            fault, some = damage(byte, self._rng, self._one_in)
            self.damaged += fault is not Fault.NONE
            if late or fault is Fault.LATE:
                late += some
            else:
                now += some
        return bytes(now), bytes(late)

    def _to_board(self, data: bytes) -> None:
        now, late = self._damage(self.board.feed(data))
        self._to_host += now
        if late:
            self._late.append((False, late))

    def write(self, data: bytes) -> None:
        self._deliver()
        now, late = self._damage(data)
        self._to_board(now)
        if late:
            self._late.append((True, late))

    def _deliver(self) -> None:
        waiting, self._late = self._late, []
        for to_board, data in waiting:
            if to_board:
                self._to_board(data)
            else:
                self._to_host += data

    def read(self, wait_seconds: float) -> bytes:
        if not self._to_host and wait_seconds > 0:
            time.sleep(min(wait_seconds, 0.001))
            if self._rng.random() < 0.5:
                self.board.gap()
            self._deliver()
        data = bytes(self._to_host)
        self._to_host.clear()
        return data
