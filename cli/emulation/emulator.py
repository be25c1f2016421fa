"""A board in the simulator, on a pseudo-terminal: the engine of `tq-hw emulate`."""

import os
import random
import select
import time
import tty
from contextlib import suppress

from tq_hw.boards.gateware.emulated import GAP_CYCLES
from tq_hw.boards.gateware.emulated_dram import LEVELLING_CYCLES, PHYS
from tq_hw.boards.link.faults import Fault, damage
from tq_hw.isa.config import Config
from tq_hw.isa.memory import YARDSTICK, Memory
from tq_hw.sim.rtl.bench import LinkBench
from tq_hw.sim.rtl.build import Progress, library
from tq_hw.sim.rtl.design import Design

__all__ = ["MOST_MEMORY_BYTES", "BadLine", "Emulator", "board_design"]

#: Limit of the emulated memory, for boards with more.
MOST_MEMORY_BYTES = 64 << 20

#: Cycles between polls of the line while the accelerator runs.
_SLICE_CYCLES = 1_000
#: Cycles simulated after each received byte sequence.
_AFTER_CYCLES = 200
#: The link's gap in time of the host.
_GAP_SECONDS = 0.05
_CHUNK_BYTES = 4096
_MOST_DELAY_SECONDS = 0.02
_FAULT_ONE_IN = 100
#: Most unread bytes of answers that are kept; as on a wire, the rest is lost.
_UNREAD_BYTES = 1 << 16
_MOST_IDLE_CYCLES = 5_000


def board_design(memory_bytes: int, clock_hz: int, phy: str = "") -> Design:
    """Return the design of a board's simulator; `phy` as in `Emulator`."""
    return Design("tq_hw.boards.gateware.emulated", "EmulatedSystem", ("tq_hw.hdl", "tq_hw.isa", "tq_hw.boards"),
                  (memory_bytes, clock_hz, *([1 + list(PHYS).index(phy)] if phy else [])), link=True)


class BadLine:
    """One direction of a bad line: about one byte in _FAULT_ONE_IN is dropped, flipped, doubled or late."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)

    def carry(self, data: bytes) -> bytes:
        """Return what arrives. The call takes as long as the delays of late bytes."""
        arrived = bytearray()
        for byte in data:
            fault, some = damage(byte, self._rng, _FAULT_ONE_IN)
            if fault is Fault.LATE:
                time.sleep(self._rng.random() * _MOST_DELAY_SECONDS)
            arrived += some
        return bytes(arrived)


class Emulator:
    """The Verilated board on a pseudo-terminal.

    Parameters
    ----------
    config : of the accelerator
    memory_bytes, clock_hz : of the board
    faults : seed of a line that is bad both ways; None for a good one
    phy : LiteDRAM's name of the PHY of a DDR3, which is levelled after each reset; "" for other memories
    memory : what the simulated one gives
    progress : called while the simulator is built

    Members
    -------
    port : name of the terminal
    """

    def __init__(self, config: Config, memory_bytes: int, clock_hz: int, *, faults: int | None = None,
                 phy: str = "", memory: Memory = YARDSTICK, progress: Progress | None = None) -> None:
        made = library(config, design=board_design(memory_bytes, clock_hz, phy), progress=progress)
        self._bench = LinkBench(made, memory)
        self._bench.add_memory(0, memory_bytes)
        self._levelled = bool(phy)
        if phy:
            # The windows depend on the time since power-on, which is drawn here.
            self._bench.exchange(b"", random.SystemRandom().randrange(1, _MOST_IDLE_CYCLES))
        self._resets = 0
        self._lines = None if faults is None else (BadLine(2 * faults), BadLine(2 * faults + 1))
        self._master, self._slave = os.openpty()
        tty.setraw(self._slave)
        # A peer that does not read must not block the board, or the end of the emulation.
        os.set_blocking(self._master, False)
        self._unread = bytearray()
        self.port = os.ttyname(self._slave)
        self._wanted_resets = 1
        self._ended = False

    def reset(self) -> None:
        """Request a press of the board's button; callable from a signal handler or another thread."""
        self._wanted_resets += 1

    def end(self) -> None:
        """Ask `serve` to return."""
        self._ended = True

    def close(self) -> None:
        """Close the terminal and the simulator."""
        for handle in (self._master, self._slave):
            os.close(handle)
        self._bench.close()

    def serve(self) -> None:
        """Answer until `end` is called."""
        last_byte: float | None = None
        while not self._ended:
            if self._resets != self._wanted_resets:
                self._resets = self._wanted_resets
                self._bench.reset(self._resets)
                if self._levelled:
                    self._bench.exchange(b"", LEVELLING_CYCLES)
            data = self._receive(0 if self._bench.running else 0.02)
            cycles = _SLICE_CYCLES if self._bench.running else _AFTER_CYCLES if data else 0
            if data:
                last_byte = time.monotonic()
            elif last_byte is not None and time.monotonic() - last_byte > _GAP_SECONDS:
                last_byte = None
                cycles += GAP_CYCLES
            if cycles:
                self._send(self._bench.exchange(data, cycles))

    def _receive(self, wait_seconds: float) -> bytes:
        readable, writable, _ = select.select([self._master], [self._master] * bool(self._unread), [], wait_seconds)
        if writable:
            self._send(b"")
        if not readable:
            return b""
        data = os.read(self._master, _CHUNK_BYTES)
        return data if self._lines is None else self._lines[0].carry(data)

    def _send(self, data: bytes) -> None:
        if self._lines is not None:
            data = self._lines[1].carry(data)
        self._unread += data[:_UNREAD_BYTES - len(self._unread)]
        with suppress(BlockingIOError):
            while self._unread:
                del self._unread[:os.write(self._master, self._unread)]
