"""A UIO device and a u-dma-buf made of files, which a thread of this process serves like the accelerator."""

import mmap
import os
import select
import sys
import threading
import time
import tty
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from line import OFFSETS, AcceleratorBoard

from tq_hw.isa.control import REGISTERS, STATUS_BUSY, STATUS_DONE, STATUS_ERROR, WINDOW_BYTES
from tq_hw.isa.program import Program
from tq_hw.sim.rtl.bench import Bench
from tq_hw.sim.rtl.build import library

__all__ = ["BASE", "FakeUio", "on_rtl"]

#: Physical address of the buffer.
BASE = 0x10000


class _Board(AcceleratorBoard):
    """Writes `status` last, because the host polls it while the other registers are written."""

    held: int | None = None
    holds = False

    def put(self, name: str, value: int) -> None:
        if name == "status" and self.holds:
            self.held = value
        else:
            super().put(name, value)

    def work(self, value: int) -> None:
        """Execute a write of `control`."""
        self.holds, self.held = True, None
        self.on_write(OFFSETS["control"], value)
        self.holds = False
        self.put("status", 0 if self.held is None else self.held)


class _Handles:
    """File handles that are closed together."""

    def __init__(self, *handles: int) -> None:
        self.handles = handles

    def close(self) -> None:
        for each in self.handles:
            os.close(each)


class FakeUio:
    """Files `uio0`, `udmabuf0` and `class/u-dma-buf/udmabuf0/` in a folder, served while it is used as a context.

    As on a bus with posted writes, a write of `control` takes effect some time later: then `status` is busy and
    `control` reads as 0.

    Members
    -------
    board : runs programs on the executor
    work : called with the value of `control`; replaces the board
    dead : whether writes have no effect
    slow_seconds : time from a write of `control` to its effect
    """

    def __init__(self, folder: Path, program: Program, *, memory_bytes: int = 1 << 20) -> None:
        self.uio, self.buffer = folder / "uio0", folder / "udmabuf0"
        self.sysfs = folder / "class"
        self.sync = self.sysfs / "u-dma-buf" / "udmabuf0"
        self.sync.mkdir(parents=True)
        for name, value in (("phys_addr", f"0x{BASE:08x}"), ("size", str(memory_bytes)), ("sync_size", ""),
                            ("sync_for_cpu", ""), ("sync_for_device", "")):
            (self.sync / name).write_text(f"{value}\n")
        self.board = _Board(program, memory_bytes=memory_bytes)
        self._maps: list[Any] = []
        for path, contents in ((self.uio, bytes(self.board.registers).ljust(WINDOW_BYTES, b"\xff")),
                               (self.buffer, bytes(memory_bytes))):
            path.write_bytes(contents)
            with path.open("r+b") as file:
                self._maps.append(mmap.mmap(file.fileno(), 0))
        registers: Any = self._maps[0]
        memory: Any = self._maps[1]
        self.board.registers, self.board.memory = registers, memory
        self.work: Callable[[int], None] = self.board.work
        self.dead = False
        self.slow_seconds = 0.0
        self._interrupt: int | None = None
        #: Number of interrupts so far, and whether the next one is enabled.
        self.interrupts, self._on = 0, False
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._serve)

    def add_interrupt(self) -> str:
        """Return the path of a device that gives interrupts like UIO's."""
        self._interrupt, other = os.openpty()
        tty.setraw(other)
        self._maps.append(_Handles(self._interrupt, other))
        return os.ttyname(other)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()
        for each in self._maps:
            each.close()

    def _serve(self) -> None:
        while not self._ends.is_set():
            value = 0 if self.dead else self.board.get("control")
            self._signal()
            if not value:
                time.sleep(0.0005)
                continue
            self.board.put("status", STATUS_BUSY)
            self.board.put("control", 0)
            time.sleep(self.slow_seconds if value == 1 else 0)
            self.work(value)

    def _signal(self) -> None:
        """Give the interrupt if it is enabled and the run has ended, and disable it."""
        if self._interrupt is None:
            return
        if select.select([self._interrupt], [], [], 0)[0]:
            # Enabling it twice is the same as once.
            assert set(memoryview(os.read(self._interrupt, 4096)).cast("I")) == {1}
            self._on = True
        if self._on and self.board.get("status") & (STATUS_DONE | STATUS_ERROR):
            self.interrupts, self._on = self.interrupts + 1, False
            os.write(self._interrupt, self.interrupts.to_bytes(4, sys.byteorder))


def on_rtl(fake: FakeUio, bench: Bench) -> None:
    """Run on the Verilated accelerator; the memory is copied before and after."""
    bench.map(BASE, bytes(len(fake.board.memory)))

    def work(value: int) -> None:
        bench.write(BASE, bytes(fake.board.memory))
        for register in REGISTERS:
            if register.access == "rw":
                bench.write_register(register.name, fake.board.get(register.name))
        bench.write_register("control", value)
        bench.run(1_000_000 if value == 1 else 1000)
        fake.board.memory[:] = bench.read(BASE, len(fake.board.memory))
        # `status` last.
        for register in sorted(REGISTERS, key=lambda register: register.name == "status"):
            if register.access == "r":
                fake.board.put(register.name, bench.read_register(register.name))
    fake.work = work


def rtl_bench(program: Program) -> Bench:
    """Return the Verilated accelerator for a program's configuration."""
    return Bench(library(program.config))
