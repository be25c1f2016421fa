"""The C driver on the Verilated accelerator and over the link equals the executor; its compilers and its size."""

import ctypes
import itertools
import os
import re
import shutil
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from line import AcceleratorBoard, BadLine
from native import (
    DRIVER,
    FIRMWARE,
    MEMORY,
    MEMORY_BYTES,
    MEMORY_SPACE,
    RECEIVE,
    SEND,
    WARNINGS,
    BenchBus,
    Bus,
    Driver,
    Line,
    Link,
    Tensor,
    machine,
)
from networks import compiled, stateful_program, stored

from tq_hw.boards.link import c_header as link_header
from tq_hw.isa import c_header, program
from tq_hw.isa.program import Program
from tq_hw.isa.program_file import to_bytes
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.sim import edges
from tq_hw.sim.engines import random_inputs
from tq_hw.sim.executor import execute

RISCV = "riscv64-unknown-elf-gcc"


@pytest.fixture(scope="module")
def small() -> Program:
    """A network with two inputs and two outputs."""
    rng = np.random.default_rng(7)
    b = ModelBuilder("small")
    image = b.input((1, 6, 5, 3), scale=0.5, zero_point=-3, name="image")
    other = b.input((1, 6, 5, 4), scale=0.4, zero_point=1, name="other")
    weights = b.constant(rng.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8), scale=[0.01, 0.02, 0.03, 0.04])
    conv = b.add("CONV_2D", [image, weights, b.bias(image, weights, [5, -7, 900, 0])], scale=0.9, zero_point=4,
                 padding="SAME")
    return compiled(b.build(conv, b.add("ADD", [conv, other], scale=1.0)), "small")


@pytest.fixture(scope="module")
def stateful() -> Program:
    return stateful_program()


def expected(one: Program, inputs: Any, state: bytes | None = None) -> list[bytes]:
    return [np.ascontiguousarray(array).tobytes() for array in execute(one, inputs, state=state).outputs]


def test_open_returns_the_tensors(tq: Any, rtl: BenchBus, small: Program) -> None:
    driver = Driver(tq, rtl.bus)
    assert driver.open(to_bytes(small), MEMORY, MEMORY_BYTES) == "done"
    model = driver.model
    assert (model.input_count, model.output_count) == (2, 2)
    for tensor, port in zip(model.tensors, (*small.inputs, *small.outputs), strict=False):
        assert (tensor.name.decode(), tuple(tensor.shape[:tensor.rank]), tensor.scale, tensor.zero_point) == (
            port.name, port.shape, port.scale, port.zero_point)
        assert tensor.bytes == port.size_bytes
        assert tensor.dtype == list(program.DTYPES).index(port.dtype)
        assert tensor.address == model.bases[port.region] + port.region_offset_bytes
    assert list(model.bases) == sorted(model.bases)


def test_outputs_of_the_verilated_accelerator_are_exact(tq: Any, rtl: BenchBus, small: Program) -> None:
    driver = Driver(tq, rtl.bus)
    assert driver.open(to_bytes(small), MEMORY, MEMORY_BYTES) == "done"
    for seed in range(3):
        inputs = random_inputs(small, seed)
        assert driver.run(stored(small, inputs)) == expected(small, inputs)
    cycles = ctypes.c_uint32()
    assert tq.tq_counter(ctypes.byref(driver.model), 0x80, ctypes.byref(cycles)) == 0
    assert cycles.value > 100


def test_state_is_kept_and_can_be_reset(tq: Any, rtl: BenchBus, stateful: Program) -> None:
    driver = Driver(tq, rtl.bus)
    assert driver.open(to_bytes(stateful), MEMORY, MEMORY_BYTES) == "done"
    for _ in range(2):
        state = stateful.state
        for seed in range(3):
            inputs = random_inputs(stateful, seed)
            assert driver.run(stored(stateful, inputs)) == expected(stateful, inputs, state)
            state = execute(stateful, inputs, state=state).state
        assert tq.tq_reset_state(ctypes.byref(driver.model)) == 0


def changed(data: bytes, at: int, value: int, *, repair: bool = True) -> bytes:
    """Return a file with one word changed and its checksum corrected."""
    out = bytearray(data)
    out[at:at + 4] = value.to_bytes(4, "little")
    if repair:
        out[4:8] = zlib.crc32(out[8:]).to_bytes(4, "little")
    return bytes(out)


@pytest.mark.parametrize(("offset", "value", "text"), [
    (0, 5, "not a compiled model"),
    (8, 2, "compiled model of another version: compile it again"),
    (16, 0xDEADBEEF, "compiled for another configuration of the accelerator"),
    (24, 0x7FFFFFFF, "the compiled model is damaged"),
    (36, 0x3FFFFFFF, "the model is larger than the memory"),
    (52, 99, "more tensors than TQ_MOST_TENSORS"),
    (56, 0xFFFFFFFF, "more tensors than TQ_MOST_TENSORS"),
    (60, 63, "the compiled model is damaged"),
])
def test_a_wrong_file_is_refused(tq: Any, rtl: BenchBus, small: Program, offset: int, value: int, text: str) -> None:
    driver = Driver(tq, rtl.bus)
    assert driver.open(changed(to_bytes(small), offset, value), MEMORY, MEMORY_BYTES) == text


@pytest.mark.parametrize(("offset", "value"), [(0, 1 << 20), (4, 1 << 20), (8, 9), (8, 0xFF), (24, 1 << 20), (28, 3),
                                               (32, 2), (32, 0)])
def test_a_wrong_port_is_refused(tq: Any, rtl: BenchBus, small: Program, offset: int, value: int) -> None:
    data = to_bytes(small)
    at = int.from_bytes(data[48:52], "little")
    assert Driver(tq, rtl.bus).open(changed(data, at + offset, value), MEMORY, MEMORY_BYTES) == (
        "the compiled model is damaged")


def test_a_truncated_or_damaged_file_is_refused(tq: Any, rtl: BenchBus, small: Program) -> None:
    driver = Driver(tq, rtl.bus)
    data = to_bytes(small)
    for size in (0, 79):
        assert driver.open(data[:size], MEMORY, MEMORY_BYTES) == "not a compiled model"
    for size in (80, len(data) - 1):
        assert driver.open(data[:size], MEMORY, MEMORY_BYTES) == "the compiled model is truncated"
    for at in range(100, len(data), 997):
        word = int.from_bytes(data[at:at + 4], "little") ^ 1 << at % 32
        assert driver.open(changed(data, at, word, repair=False), MEMORY, MEMORY_BYTES) == (
            "the compiled model is damaged")
    assert driver.open(data + b"more", MEMORY, MEMORY_BYTES) == "done"


def test_wrong_arguments_and_a_dead_bus_give_statuses(tq: Any, rtl: BenchBus, small: Program) -> None:
    driver = Driver(tq, rtl.bus)
    data = to_bytes(small)
    assert driver.open(data, MEMORY + 128, MEMORY_BYTES) == "bad argument"
    assert driver.open(data, MEMORY, len(small.image)) == "the model is larger than the memory"
    assert driver.open(data, MEMORY, MEMORY_BYTES) == "done"
    tensor = driver.model.inputs[0]
    assert driver.text(tq.tq_write(ctypes.byref(driver.model), ctypes.byref(tensor), b"12", 2)) == "bad argument"
    rtl.fail = True
    assert driver.open(data, MEMORY, MEMORY_BYTES) == "the bus failed"
    assert driver.text(99) == "unknown status"


def test_a_machine_that_stops_gives_its_error(tq: Any, rtl: BenchBus, small: Program) -> None:
    driver = Driver(tq, rtl.bus)
    bad = bytearray(small.image)
    bad[small.command_offset:small.command_offset + 4] = b"\xff" * 4
    data = to_bytes(small).replace(small.image, bytes(bad))
    assert driver.open(changed(data, 8, 1), MEMORY, MEMORY_BYTES) == "done"
    assert driver.text(tq.tq_run(ctypes.byref(driver.model), 100_000)) == "the accelerator stopped with an error"
    assert (driver.model.error_code, driver.model.error_unit) == (1, 0)
    assert driver.open(to_bytes(small), MEMORY, MEMORY_BYTES) == "done"
    inputs = random_inputs(small, 5)
    assert driver.run(stored(small, inputs)) == expected(small, inputs)


def test_a_run_that_takes_too_long_is_stopped(tq: Any, small: Program) -> None:
    with machine() as bench:
        driver = Driver(tq, BenchBus(bench, cycles_per_poll=20).bus)
        assert driver.open(to_bytes(small), MEMORY, MEMORY_BYTES) == "done"
        assert driver.text(tq.tq_run(ctypes.byref(driver.model), 100)) == "the accelerator did not end in time"
        inputs = random_inputs(small, 5)
        assert driver.run(stored(small, inputs)) == expected(small, inputs)


class LineOf:
    """A BadLine as a tq_line."""

    def __init__(self, line: BadLine) -> None:
        self._line, self._came = line, bytearray()
        self.line = Line(SEND(self._send), RECEIVE(self._receive), None)

    def _send(self, _context: Any, data: int, count: int) -> int:
        self._line.write(ctypes.string_at(data, count))
        return 0

    def _receive(self, _context: Any, byte: Any, wait_ms: int) -> int:
        for _ in range(3):
            if self._came:
                byte[0] = self._came.pop(0)
                return 1
            self._came += self._line.read(wait_ms / 1e6)
        return 0


@pytest.mark.parametrize("one_in", [0, 100], ids=["good", "bad"])
def test_the_link_in_c_survives_what_the_one_in_python_does(tq: Any, small: Program, one_in: int) -> None:
    board = AcceleratorBoard(small)
    line = LineOf(BadLine(board, seed=3, one_in=one_in))
    link = Link()
    assert tq.tq_link_open(ctypes.byref(link), ctypes.byref(line.line), 77) == 0
    assert (link.fingerprint, link.memory_base, link.memory_bytes, link.clock_hz) == (
        small.fingerprint, 0x10000, 1 << 20, 100_000_000)
    driver = Driver(tq, tq.tq_link_bus(ctypes.byref(link)))
    assert driver.open(to_bytes(small), link.memory_base, link.memory_bytes) == "done"
    for seed in range(3):
        inputs = random_inputs(small, seed)
        assert driver.run(stored(small, inputs)) == expected(small, inputs)
    assert board.runs == 3
    board.reset()
    assert driver.text(tq.tq_run(ctypes.byref(driver.model), 1000)) == "the board was reset: open link and model again"


def test_a_dead_line_is_an_error(tq: Any) -> None:
    link = Link()
    line = Line(SEND(lambda *_: 0), RECEIVE(lambda *_: 0), None)
    driver = Driver(tq, tq.tq_link_bus(ctypes.byref(link)))
    assert driver.text(tq.tq_link_open(ctypes.byref(link), ctypes.byref(line), 1)) == "the board does not answer"


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_float_edges_are_those_of_the_host(tq: Any, dtype: str) -> None:
    rng = np.random.default_rng(3)
    values = np.concatenate([rng.uniform(-40, 40, 4000), np.arange(-400, 400) * 0.05, [0.125, -0.125, 1e8, -1e8]]
                            ).astype(np.float32)
    for scale, zero_point in ((0.1, 3), (0.25, -7), (1 / 3, 0)):
        port = program.Port("x", dtype, values.shape, scale, zero_point, 0, values.size * program.DTYPES[dtype],
                            "quantize")
        tensor = Tensor(b"x", scale, zero_point, list(program.DTYPES).index(dtype), 1)
        buffer = ctypes.create_string_buffer(port.size_bytes)
        assert tq.tq_quantize(ctypes.byref(tensor), values.ctypes.data_as(ctypes.c_void_p), buffer, values.size) == 0
        assert buffer.raw == edges.to_port(port, values)
        tensor.edge = 2
        back = np.zeros(values.shape, np.float32)
        assert tq.tq_dequantize(ctypes.byref(tensor), buffer, back.ctypes.data_as(ctypes.c_void_p), values.size) == 0
        given = program.Port("x", dtype, values.shape, scale, zero_point, 0, port.size_bytes, "dequantize")
        assert np.array_equal(back, edges.from_port(given, buffer.raw))
    bad = np.array([np.nan], np.float32)
    tensor.edge = 1
    assert tq.tq_text(tq.tq_quantize(ctypes.byref(tensor), bad.ctypes.data_as(ctypes.c_void_p), buffer, 1)) == (
        b"a value is not finite or too large")


def test_committed_headers_are_current() -> None:
    assert (DRIVER / "tq_layout.h").read_text() == c_header.header(), (
        "run: python -m tq_hw.isa.c_header > firmware/driver/tq_layout.h")
    assert (DRIVER / "tq_link_layout.h").read_text() == link_header.header(), (
        "run: python -m tq_hw.boards.link.c_header > firmware/driver/tq_link_layout.h")


def compiler(name: str) -> list[str]:
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    return [name, *WARNINGS, "-Wstrict-prototypes"] + (
        ["-march=rv32imc", "-mabi=ilp32", "-ffreestanding"] if name == RISCV else [])


@pytest.mark.parametrize("name", ["gcc", "clang", RISCV])
def test_every_compiler_compiles_driver_and_example_without_a_warning(name: str, tmp_path: Path) -> None:
    command = compiler(name)
    for source in (*sorted(DRIVER.glob("*.c")), FIRMWARE / "example" / "main.c"):
        for level in ("-Os", "-O3"):
            subprocess.run([*command, level, f"-I{DRIVER}", "-c", source, "-o", tmp_path / "out.o"], check=True)


@pytest.mark.parametrize("standard", ["c++11", "c++20"])
def test_a_program_in_cpp_is_linked(standard: str, tmp_path: Path) -> None:
    subprocess.run(["make", "-s", "-C", FIRMWARE, f"BUILD={tmp_path}", "CC=gcc"], check=True)
    (tmp_path / "main.cc").write_text('#include "tq_link.h"\nint main() { return tq_text(TQ_OK)[0] != \'d\'; }\n')
    subprocess.run(["g++", f"-std={standard}", "-pedantic", "-Wall", "-Wextra", "-Werror", f"-I{DRIVER}",
                    tmp_path / "main.cc", tmp_path / "libtq.a", "-o", tmp_path / "main"], check=True)
    subprocess.run([tmp_path / "main"], check=True)


def test_the_runtime_compiles_without_a_warning(tmp_path: Path) -> None:
    compiler(RISCV)
    for flags in ("-Os", "-O3"):
        subprocess.run(["make", "-s", "-C", FIRMWARE, f"BUILD={tmp_path / flags}", f"SOC_FLAGS=-march=rv32im_zicsr "
                        f"-mabi=ilp32 {flags}", "runtime"], check=True)


class Mmio(ctypes.Structure):
    """tq_mmio."""

    _fields_ = [("registers", ctypes.c_void_p), ("memory", ctypes.c_void_p), ("memory_address", ctypes.c_uint32)]


def test_memory_mapped_copies_are_exact_at_every_alignment(tq: Any) -> None:
    tq.tq_mmio_bus.restype = Bus
    rng = np.random.default_rng(2)
    memory = ctypes.create_string_buffer(64)
    mmio = Mmio(None, ctypes.addressof(memory), 0x1000)
    bus = tq.tq_mmio_bus(ctypes.byref(mmio))
    for at, skip, size in itertools.product(range(4), range(4), range(12)):
        before, data = rng.bytes(64), ctypes.create_string_buffer(rng.bytes(32), 32)
        memory.raw = before
        assert bus.write(bus.context, MEMORY_SPACE, 0x1008 + at, ctypes.addressof(data) + skip, size) == 0
        after = before[:8 + at] + data.raw[skip:skip + size] + before[8 + at + size:]
        assert memory.raw == after
        kept = data.raw
        assert bus.read(bus.context, MEMORY_SPACE, 0x1000 + at, ctypes.addressof(data) + skip, size) == 0
        assert data.raw == kept[:skip] + after[at:at + size] + kept[skip + size:]


def test_the_driver_includes_nothing_but_the_compilers_headers() -> None:
    for file in sorted(DRIVER.glob("*.[ch]")):
        for name in re.findall(r"#include <(.+)>", file.read_text()):
            assert name in ("stddef.h", "stdint.h"), f"{file.name} includes {name}"


def test_cppcheck_finds_nothing() -> None:
    found = shutil.which("cppcheck", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if found is None:
        pytest.skip("cppcheck is not installed")
    run = subprocess.run(["make", "-C", FIRMWARE, f"CPPCHECK={found}", "check"], capture_output=True, text=True,
                         check=False)
    assert run.returncode == 0, run.stdout + run.stderr


def test_the_stated_size_is_the_size(tmp_path: Path) -> None:
    """docs/guide/use-the-driver.md states what `make -C firmware size` prints with this compiler."""
    compiler(RISCV)
    version = subprocess.run([RISCV, "-dumpfullversion"], capture_output=True, text=True, check=True).stdout.strip()
    page = (FIRMWARE.parent / "docs" / "guide" / "use-the-driver.md").read_text()
    if f"gcc {version}" not in page:
        pytest.skip(f"the page is about another compiler than gcc {version}")
    run = subprocess.run(["make", "-s", "-C", FIRMWARE, f"BUILD={tmp_path}", "size"], capture_output=True, text=True,
                         check=True)
    for text, name in re.findall(r"^\s*(\d+)\s+0\s+0\s.*/(\w+)\.o$", run.stdout, re.MULTILINE):
        assert f"| `{name}.c` | {int(text):,} |" in page
    (text, bss), = re.findall(r"^\s*(\d+)\s+0\s+(\d+)\s.*/runtime\.elf$", run.stdout, re.MULTILINE)
    assert f"{int(text):,} bytes of text, {bss} of bss" in page
    for name, size in re.findall(r"^RAM (\w+)_bytes (\d+)$", run.stdout, re.MULTILINE):
        assert f"`tq_{name}` has {int(size):,} bytes" in page
