"""Python interface of harness.cpp: one accelerator, its memory and its clock."""

import ctypes
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tq_hw.isa.control import REGISTERS
from tq_hw.isa.layout import Unit
from tq_hw.isa.memory import YARDSTICK, Memory
from tq_hw.model.errors import OptionError, ToolError
from tq_hw.sim.rtl.waves import Waves, full_scopes

__all__ = ["CHANNELS", "LAST_FAULTS", "Bench", "LinkBench", "SimulatedMemory", "SocBench"]

_OFFSETS = {register.name: register.offset_bytes for register in REGISTERS}
#: Channels of the bus, and kinds of misplaced RLAST, by their numbers in harness.cpp.
CHANNELS = ("AR", "R", "AW", "W", "B")
LAST_FAULTS = ("cut", "early", "late", "never")
_FOREVER = (1 << 64) - 1
_STATISTICS = ("read_beats", "write_beats", "read_bursts", "write_bursts")
_SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "tq_create": (ctypes.c_void_p, (ctypes.c_uint32, ctypes.c_double, ctypes.c_uint32, ctypes.c_uint64)),
    "tq_destroy": (None, (ctypes.c_void_p,)),
    "tq_map": (None, (ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_int)),
    "tq_write_memory": (ctypes.c_int, (ctypes.c_void_p, ctypes.c_uint32, ctypes.c_char_p, ctypes.c_uint32)),
    "tq_read_memory": (ctypes.c_int, (ctypes.c_void_p, ctypes.c_uint32, ctypes.c_char_p, ctypes.c_uint32)),
    "tq_stop_channel": (None, (ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64)),
    "tq_wrong_last": (None, (ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint32)),
    "tq_trace": (ctypes.c_int, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_uint64)),
    "tq_statistic": (ctypes.c_uint64, (ctypes.c_void_p, ctypes.c_uint32)),
    "tq_error": (ctypes.c_char_p, (ctypes.c_void_p,)),
}
_BUS_SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "tq_write_register": (None, (ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32)),
    "tq_read_register": (ctypes.c_uint32, (ctypes.c_void_p, ctypes.c_uint32)),
    "tq_run": (ctypes.c_int, (ctypes.c_void_p, ctypes.c_uint64)),
    "tq_cycles": (ctypes.c_uint64, (ctypes.c_void_p,)),
    "tq_events": (ctypes.c_uint64, (ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint64)),
    "tq_spans": (ctypes.c_uint64, (ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint64)),
    "tq_span_cycles": (ctypes.c_uint64, ()),
}
_LINK_SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "tq_reset": (None, (ctypes.c_void_p, ctypes.c_uint64)),
    "tq_exchange": (ctypes.c_int, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_uint64)),
    "tq_sent": (ctypes.c_uint64, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64)),
    "tq_running": (ctypes.c_int, (ctypes.c_void_p,)),
}
_SOC_SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "tq_load": (None, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_char_p,
                       ctypes.c_uint32)),
}


class SimulatedMemory:
    """A Verilated design after reset, and its AXI4 memory; `Bench` and `LinkBench` add access to its registers.

    Parameters
    ----------
    library : built by sim/rtl/build.py
    memory : latency, rate and stalls of the memory

    Use it as a context manager.
    """

    _SIGNATURES: ClassVar = _SIGNATURES

    def __init__(self, library: Path, memory: Memory = YARDSTICK) -> None:
        if not 1 <= memory.latency_cycles < 1 << 20:
            raise OptionError(f"the latency of the memory must be 1 to 2^20-1 cycles, not {memory.latency_cycles}")
        if not 0.01 <= memory.bytes_per_cycle <= 1024:
            raise OptionError(f"the memory's bytes per cycle must be 0.01 to 1024, not {memory.bytes_per_cycle}")
        if memory.bursts < 1:
            raise OptionError(f"the memory must take at least one burst at a time, not {memory.bursts}")
        self._library = library
        try:
            self._dll = ctypes.CDLL(str(library))
        except OSError as error:
            raise ToolError(f"the simulator cannot be loaded: {error}; set XDG_CACHE_HOME to a folder on a file system "
                            "that programs may run from") from None
        for name, (result, arguments) in self._SIGNATURES.items():
            function = getattr(self._dll, name)
            function.restype, function.argtypes = result, arguments
        seed = 0 if memory.stalls is None else (memory.stalls & (1 << 32) - 1) + 1
        self._handle: Any = self._dll.tq_create(memory.latency_cycles, float(memory.bytes_per_cycle),
                                                memory.bursts, seed)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the simulation, which completes the waves."""
        if self._handle is not None:
            self._dll.tq_destroy(self._handle)
            self._handle = None

    def add_memory(self, base: int, size_bytes: int) -> None:
        """Map memory at byte address `base`: zeros, and noise after the reset of a `LinkBench`."""
        self._dll.tq_map(self._handle, base, size_bytes, True)

    def map(self, base: int, contents: bytes, *, writable: bool = True) -> None:
        """Map memory at byte address `base`."""
        self._dll.tq_map(self._handle, base, len(contents), writable)
        self.write(base, contents)

    def write(self, address: int, contents: bytes) -> None:
        """Write mapped memory from the host."""
        if contents and not self._dll.tq_write_memory(self._handle, address, contents, len(contents)):
            raise ValueError(f"{len(contents)} bytes at {address:#x} are not mapped")

    def read(self, address: int, size_bytes: int) -> bytes:
        """Read mapped memory from the host."""
        buffer = ctypes.create_string_buffer(size_bytes)
        if size_bytes and not self._dll.tq_read_memory(self._handle, address, buffer, size_bytes):
            raise ValueError(f"{size_bytes} bytes at {address:#x} are not mapped")
        return buffer.raw[:size_bytes]

    def trace(self, waves: Waves) -> None:
        """Write waves from the next cycle on, as cycle 0 of the file; the library must be built for the file's kind."""
        path = Path(waves.path)
        scopes = "\n".join(full_scopes(waves.scopes, self._library))
        try:
            path.touch()
        except OSError as error:
            raise OptionError(f"waves cannot be written to {path}: {error.strerror or error}") from None
        last = _FOREVER if waves.last_cycle is None else waves.last_cycle
        if not self._dll.tq_trace(self._handle, os.fsencode(path), scopes.encode(), waves.first_cycle, last):
            raise OptionError(f"waves cannot be written to {path}")

    def stop_channel(self, channel: str, after: int) -> None:
        """Stop a channel of the bus (AR, R, AW, W, B) after this many transfers since reset."""
        self._dll.tq_stop_channel(self._handle, CHANNELS.index(channel), after)

    def start_channel(self, channel: str) -> None:
        """Let a stopped channel continue."""
        self.stop_channel(channel, _FOREVER)

    def wrong_last(self, burst: int, kind: str, at: int = 0) -> None:
        """Misplace RLAST of one read burst (counted from reset).

        `kind`: "cut": at beat `at`, and no beat comes after it; "early": at that beat and at the last one; "late": `at`
        beats after the last one; "never".
        """
        self._dll.tq_wrong_last(self._handle, burst, LAST_FAULTS.index(kind), at)

    @property
    def statistics(self) -> Mapping[str, int]:
        """The memory's counters: beats and bursts, read and written."""
        return {name: int(self._dll.tq_statistic(self._handle, i)) for i, name in enumerate(_STATISTICS)}

    def _check_bus(self, good: bool) -> None:
        if not good:
            raise ToolError(f"the design broke the bus protocol: {self._dll.tq_error(self._handle).decode()}")


class Bench(SimulatedMemory):
    """The accelerator, its memory and its register bus."""

    _SIGNATURES: ClassVar = _SIGNATURES | _BUS_SIGNATURES

    def write_register(self, name: str, value: int) -> None:
        """Write a register of isa/control.py."""
        self._dll.tq_write_register(self._handle, _OFFSETS[name], value)

    def read_register(self, name: str) -> int:
        """Read a register of isa/control.py; takes a few cycles."""
        return int(self._dll.tq_read_register(self._handle, _OFFSETS[name]))

    def run(self, max_cycles: int) -> bool:
        """Run until the interrupt, at most `max_cycles`; return whether it came.

        Raises ToolError for a broken AXI rule.
        """
        code = self._dll.tq_run(self._handle, max_cycles)
        self._check_bus(code != 2)
        return bool(code == 0)

    @property
    def cycles(self) -> int:
        """Cycles since the last write of a register."""
        return int(self._dll.tq_cycles(self._handle))

    def _table(self, name: str, first: int, width: int) -> npt.NDArray[np.int64]:
        """Return the rows of a table of the harness, from row `first` on."""
        parts: list[npt.NDArray[np.uint64]] = []
        while True:
            some = np.zeros((4096, width), np.uint64)
            count = getattr(self._dll, name)(self._handle, first, some.ctypes.data, len(some))
            if not count:
                break
            parts.append(some[:count])
            first += count
        return np.concatenate([*parts, np.zeros((0, width), np.uint64)]).astype(np.int64)

    def events(self, first: int = 0) -> npt.NDArray[np.int64]:
        """Return begins and ends of operations from event `first` on: cycle, unit, and 1 for an end, [events, 3]."""
        return self._table("tq_events", first, 3)

    @property
    def spans(self) -> npt.NDArray[np.int64]:
        """Beats read and written in each `span_cycles` cycles since the last write of a register, [spans, 2]."""
        return self._table("tq_spans", 0, 2)

    @property
    def span_cycles(self) -> int:
        """Cycles of each of the `spans`."""
        return int(self._dll.tq_span_cycles())

    @property
    def timeline(self) -> Mapping[Unit, npt.NDArray[np.int64]]:
        """Cycles in which each RUN began and was done, [runs, 2] per unit; -1: not done."""
        events = self.events()
        found = {}
        for number, unit in enumerate((Unit.LOAD, Unit.ARRAY, Unit.VECTOR, Unit.STORE)):
            began, done = (events[(events[:, 1] == number) & (events[:, 2] == kind), 0] for kind in (0, 1))
            found[unit] = np.full((len(began), 2), -1, np.int64)
            found[unit][:, 0] = began
            found[unit][:len(done), 1] = done
        return found


class LinkBench(SimulatedMemory):
    """A board: link, accelerator and memory, with the bytes of the link instead of a register bus."""

    _SIGNATURES: ClassVar = _SIGNATURES | _LINK_SIGNATURES

    def reset(self, seed: int = 0) -> None:
        """Reset the board and fill its memory with noise of `seed`."""
        self._dll.tq_reset(self._handle, seed)

    def exchange(self, data: bytes, cycles: int) -> bytes:
        """Send bytes, run until the board has handled them, then for `cycles` more; return the bytes that it sent.

        Raises ToolError for a broken AXI rule.
        """
        self._check_bus(bool(self._dll.tq_exchange(self._handle, data, len(data), cycles)))
        sent = ctypes.create_string_buffer(int(self._dll.tq_sent(self._handle, None, 0)))
        self._dll.tq_sent(self._handle, sent, len(sent))
        return sent.raw

    @property
    def running(self) -> bool:
        """Whether the accelerator was started and has not ended."""
        return bool(self._dll.tq_running(self._handle))


class SocBench(LinkBench):
    """A board with a soft core: the bytes are those of its UART."""

    _SIGNATURES: ClassVar = _SIGNATURES | _LINK_SIGNATURES | _SOC_SIGNATURES

    def load(self, program: bytes, flash_address: int, image: bytes) -> None:
        """Set the processor's memory contents for the next reset, and those of the flash from an address on."""
        program += bytes(-len(program) % 4)
        self._dll.tq_load(self._handle, program, len(program), flash_address, image, len(image))
