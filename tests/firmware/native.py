"""The C driver as a shared library for this machine, and its structures for ctypes."""

import ctypes
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tq_hw.isa import control
from tq_hw.isa.config import load_config
from tq_hw.sim.rtl.bench import Bench
from tq_hw.sim.rtl.build import library

__all__ = ["DRIVER", "FIRMWARE", "MEMORY", "MEMORY_BYTES", "MEMORY_SPACE", "NAMES", "RECEIVE", "SEND", "WARNINGS",
           "BenchBus", "Bus", "Driver", "Line", "Link", "Model", "Tensor", "build", "machine"]

FIRMWARE = Path(__file__).parents[2] / "firmware"
DRIVER = FIRMWARE / "driver"
WARNINGS = ["-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Wsign-conversion", "-Wshadow", "-Werror"]
OK, FAILED = 0, 2
REGISTERS, MEMORY_SPACE = 0, 1
#: Registers of the accelerator under test, by their offsets.
MEMORY, MEMORY_BYTES = 0x20000000, 1 << 16
NAMES = {register.offset_bytes: register.name for register in control.REGISTERS}


class Tensor(ctypes.Structure):
    """tq_tensor."""

    _fields_ = [("name", ctypes.c_char_p), ("scale", ctypes.c_double), ("zero_point", ctypes.c_int32),
                ("dtype", ctypes.c_uint32), ("edge", ctypes.c_uint32), ("rank", ctypes.c_uint32),
                ("shape", ctypes.c_uint32 * 8), ("address", ctypes.c_uint32), ("bytes", ctypes.c_uint32)]


class Model(ctypes.Structure):
    """tq_model."""

    _fields_ = [("bus", ctypes.c_void_p), ("file", ctypes.c_void_p), ("tensors", Tensor * 8),
                ("inputs", ctypes.POINTER(Tensor)), ("outputs", ctypes.POINTER(Tensor)),
                ("input_count", ctypes.c_uint32), ("output_count", ctypes.c_uint32), ("bases", ctypes.c_uint32 * 3),
                ("error_code", ctypes.c_uint32), ("error_unit", ctypes.c_uint32), ("error_index", ctypes.c_uint32)]


READ = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_uint32)


class Bus(ctypes.Structure):
    """tq_bus."""

    _fields_ = [("read", READ), ("write", READ), ("context", ctypes.c_void_p)]


SEND = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32)
RECEIVE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint8), ctypes.c_uint32)


class Line(ctypes.Structure):
    """tq_line."""

    _fields_ = [("send", SEND), ("receive", RECEIVE), ("context", ctypes.c_void_p)]


class Link(ctypes.Structure):
    """tq_link."""

    _fields_ = [("line", ctypes.c_void_p), ("session", ctypes.c_uint16), ("sequence", ctypes.c_uint8),
                ("block", ctypes.c_uint32), ("good", ctypes.c_uint32), ("fingerprint", ctypes.c_uint32),
                ("memory_base", ctypes.c_uint32), ("memory_bytes", ctypes.c_uint32), ("clock_hz", ctypes.c_uint32)]


def build(folder: Path, *more: str) -> Any:
    """Return the driver as a library, compiled by gcc with warnings as errors."""
    target = folder / "libtq.so"
    subprocess.run(["gcc", *WARNINGS, "-g", "-O1", "-fPIC", "-shared", *more, "-o", target,
                    *sorted(DRIVER.glob("*.c"))], check=True)
    library = ctypes.CDLL(str(target))
    library.tq_text.restype = ctypes.c_char_p
    library.tq_text.argtypes = [ctypes.c_int]
    library.tq_open.argtypes = [ctypes.POINTER(Model), ctypes.POINTER(Bus), ctypes.c_char_p, ctypes.c_size_t,
                                ctypes.c_uint32, ctypes.c_uint32]
    library.tq_link_bus.restype = Bus
    library.tq_crc32.restype = ctypes.c_uint32
    return library


@contextmanager
def machine(memory: int = MEMORY) -> Iterator[Bench]:
    """Yield a Verilated `tiny` whose memory begins at an address."""
    with Bench(library(load_config("tiny"))) as bench:
        bench.map(memory, bytes(MEMORY_BYTES))
        yield bench


class BenchBus:
    """Registers and memory of the Verilated accelerator as a tq_bus; the clock runs while the driver polls."""

    def __init__(self, bench: Bench, cycles_per_poll: int = 2000) -> None:
        self._bench, self._cycles = bench, cycles_per_poll
        self.fail = False
        self.starts = 0
        self.bus = Bus(READ(self._read), READ(self._write), None)

    def _read(self, _context: Any, space: int, address: int, data: int, size: int) -> int:
        if self.fail:
            return FAILED
        if space == REGISTERS:
            if NAMES[address] == "status":
                self._bench.run(self._cycles)
            value = self._bench.read_register(NAMES[address]).to_bytes(4, "little")
        else:
            value = self._bench.read(address, size)
        ctypes.memmove(data, value, size)
        return OK

    def _write(self, _context: Any, space: int, address: int, data: int, size: int) -> int:
        if self.fail:
            return FAILED
        value = ctypes.string_at(data, size)
        if space == REGISTERS:
            self.starts += NAMES[address] == "control" and value[0] == 1
            self._bench.write_register(NAMES[address], int.from_bytes(value, "little"))
        else:
            self._bench.write(address, value)
        return OK


class Driver:
    """The driver with one model open; every status is checked."""

    def __init__(self, library: Any, bus: Bus) -> None:
        self.library, self.bus = library, bus
        self.model = Model()
        self._file = b""

    def open(self, file: bytes, memory: int, memory_bytes: int) -> str:
        """Return the text of the status of tq_open."""
        self._file = file
        return self.text(self.library.tq_open(ctypes.byref(self.model), ctypes.byref(self.bus), file, len(file), memory,
                                              memory_bytes))

    def text(self, status: int) -> str:
        """Return the text of a status."""
        text: bytes = self.library.tq_text(status)
        return text.decode()

    def run(self, inputs: list[bytes], most_cycles: int = 1_000_000) -> list[bytes]:
        """Write the inputs, run, and return the outputs; AssertionError with the text of a bad status."""
        model = ctypes.byref(self.model)
        for tensor, data in zip(self.model.inputs[:self.model.input_count], inputs, strict=True):
            self._check(self.library.tq_write(model, ctypes.byref(tensor), data, len(data)))
        self._check(self.library.tq_run(model, most_cycles))
        outputs = []
        for tensor in self.model.outputs[:self.model.output_count]:
            buffer = ctypes.create_string_buffer(tensor.bytes)
            self._check(self.library.tq_read(model, ctypes.byref(tensor), buffer, tensor.bytes))
            outputs.append(buffer.raw)
        return outputs

    def _check(self, status: int) -> None:
        assert status == OK, self.text(status)


