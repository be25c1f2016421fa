"""The accelerator as a UIO device and a buffer, both made of files, and through a stand-in for PYNQ."""

import errno
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake_uio import BASE, FakeUio, on_rtl, rtl_bench
from networks import stateful_program, stored

from tq_hw.boards.link import mapped, uio
from tq_hw.boards.link.device import Device, MachineError
from tq_hw.boards.link.port import LinkError
from tq_hw.boards.link.pynq import open_pynq
from tq_hw.boards.link.uio import open_uio
from tq_hw.isa.control import Status
from tq_hw.isa.program import Program
from tq_hw.model.errors import DeviceError, MissingToolError, OptionError
from tq_hw.sim import edges
from tq_hw.sim.engines import random_inputs
from tq_hw.sim.executor import execute


@pytest.fixture(scope="module")
def program() -> Program:
    return stateful_program()


@pytest.fixture
def fake(tmp_path: Path, program: Program, monkeypatch: pytest.MonkeyPatch) -> FakeUio:
    one = FakeUio(tmp_path, program)
    monkeypatch.setattr(uio, "_SYSFS", one.sysfs)
    return one


def device(fake: FakeUio, **options: float) -> Device:
    return Device(open_uio(str(fake.uio), str(fake.buffer), 100_000_000), **options)


def check(one: Device, program: Program, sets: int) -> None:
    """Run input sets in sequence; each starts with the state that the previous one left."""
    state = program.state
    for number in range(sets):
        inputs = random_inputs(program, number)
        found = execute(program, inputs, state=state)
        state = found.state
        expected = [edges.to_port(port, np.asarray(array)) for port, array in
                    zip(program.outputs, found.outputs, strict=True)]
        assert list(one.run(stored(program, inputs), keep_state=number > 0).outputs) == expected


def test_a_model_runs_and_keeps_its_state(fake: FakeUio, program: Program) -> None:
    with fake:
        one = device(fake)
        assert (one.identity.memory_base, one.identity.memory_bytes) == (BASE, 1 << 20)
        one.load(program)
        check(one, program, 3)
        assert int((fake.sync / "sync_size").read_text()) >= len(program.image)
        assert (fake.sync / "sync_for_device").read_text() == (fake.sync / "sync_for_cpu").read_text() == "1\n"


def test_the_verilated_accelerator_behind_the_same_files(fake: FakeUio, program: Program) -> None:
    with rtl_bench(program) as bench:
        on_rtl(fake, bench)
        with fake:
            one = device(fake)
            one.load(program)
            check(one, program, 2)
            assert one.run(stored(program, random_inputs(program, 0))).cycles > 100


def test_an_interrupt_ends_the_wait_for_a_run(fake: FakeUio, program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plain file has no interrupt, so the registers and the interrupt are two files here."""
    monkeypatch.setattr(uio, "_MOST_SECONDS", 30)
    fake.slow_seconds = 0.05
    path = fake.add_interrupt()
    registers = uio.UioRegisters(str(fake.uio))
    assert not registers.interrupt.there
    registers.interrupt.close()
    registers.interrupt = uio.UioInterrupt(os.open(path, os.O_RDWR | os.O_NOCTTY))
    with fake:
        link = mapped.MappedLink(registers, uio.UdmaBuffer(str(fake.buffer)), 1)
        one = Device(link)
        one.load(program)
        check(one, program, 3)
        assert registers.interrupt.there and fake.interrupts == 3
        link.close()


@pytest.mark.parametrize(("code", "there"), [(errno.EIO, False), (errno.ENOSYS, False), (errno.EPERM, True)])
def test_a_device_without_an_interrupt_is_polled(code: int, there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt = uio.UioInterrupt(os.open("/dev/null", os.O_RDWR))
    assert interrupt.there

    def write(handle: int, data: bytes) -> int:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write)
        if there:
            with pytest.raises(LinkError, match="^the UIO device's interrupt cannot be enabled: Operation not"):
                interrupt.wait(0)
        else:
            interrupt.wait(0)
    assert interrupt.there is there
    interrupt.close()


def test_the_cache_is_synchronized_at_every_transfer(program: Program) -> None:
    """Each start sees all writes, each read what the accelerator wrote; no synchronization is repeated."""
    said: list[str] = []
    memory = bytearray(4096)

    class Buffer:
        address, size_bytes = BASE, len(memory)

        def write(self, offset: int, data: bytes) -> None:
            said.append("write")

        def read(self, offset: int, size_bytes: int) -> bytes:
            said.append("read")
            return bytes(size_bytes)

        def for_device(self) -> None:
            said.append("for device")

        def for_cpu(self) -> None:
            said.append("for cpu")

        def close(self) -> None:
            said.append("close")

    words: dict[int, int] = {}
    registers: Any = SimpleNamespace(read=lambda offset: 0, write=words.__setitem__, close=lambda: None)
    link = mapped.MappedLink(registers, Buffer(), 1)
    link.write_memory(BASE, b"1")
    link.write_memory(BASE, b"2")
    link.write_registers("control", 1)
    link.write_registers("control", 1)
    link.read_memory(BASE, 4)
    link.read_memory(BASE, 4)
    link.close()
    assert said == ["write", "write", "for device", "for cpu", "read", "read", "close"]
    with pytest.raises(LinkError, match=rf"^8 bytes at {BASE + 4090:#x} are not in the buffer of 4096 bytes at "
                                        rf"{BASE:#x}$"):
        link.read_memory(BASE + 4090, 8)


def test_an_error_of_the_machine_is_reported(fake: FakeUio, program: Program) -> None:
    fake.board.stop_with = Status.BAD_ADDRESS
    with fake:
        one = device(fake)
        one.load(program)
        with pytest.raises(MachineError, match=r"^array RUN 3: BAD_ADDRESS$"):
            one.run(stored(program, random_inputs(program, 0)))


def test_a_run_without_an_end_is_stopped(fake: FakeUio, program: Program) -> None:
    fake.board.endless = True
    with fake:
        one = device(fake, time_limit_seconds=0.05)
        one.load(program)
        with pytest.raises(DeviceError, match=r"^svdf: timed out after 0\.05 s; the accelerator was stopped$"):
            one.run(stored(program, random_inputs(program, 0)))


def test_registers_that_do_nothing(fake: FakeUio, program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped, "_PATIENCE_SECONDS", 0.05)
    fake.dead = True
    with fake:
        one = device(fake)
        with pytest.raises(LinkError, match=r"^the control register has not taken a write for 0\.05 seconds: check "
                                            r"that the registers are the accelerator's$"):
            one.load(program)


def test_registers_of_something_else(fake: FakeUio) -> None:
    fake.board.put("magic", 0)
    with fake, pytest.raises(LinkError, match="^the board has no accelerator at its registers: magic 00000000 and"):
        device(fake)


@pytest.mark.parametrize(("change", "message"), [
    (lambda fake: fake.uio.unlink(), "UIO device {uio} cannot be mapped: No such file or directory"),
    (lambda fake: fake.uio.write_bytes(b""), "UIO device {uio} cannot be mapped: mmap length is greater than file"),
    (lambda fake: fake.buffer.unlink(), "buffer {buffer} cannot be mapped: No such file or directory"),
    (lambda fake: (fake.sync / "size").write_text("much"), "{sync}/size cannot be read as a number: invalid literal"),
    (lambda fake: (fake.sync / "phys_addr").write_text("0x800000000"), "the accelerator cannot use this buffer: memory "
     "must begin and end at multiples of 256 below 2^32, not 0x800000000 and 0x100000 bytes"),
    (lambda fake: fake.sync.rename(fake.sync.with_name("other")), "buffer {buffer}: there is no {sync}: load the "
     "kernel module u-dma-buf, with a buffer of this name in the device tree"),
])
def test_missing_files_are_named(fake: FakeUio, change: Any, message: str) -> None:
    change(fake)
    with pytest.raises(LinkError) as error:
        device(fake)
    assert str(error.value).startswith(message.format(uio=fake.uio, buffer=fake.buffer, sync=fake.sync))


def test_pynq_gives_the_same(fake: FakeUio, program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """PYNQ's MMIO and allocate do the same as these: words at offsets, and an array of bytes with an address."""
    files = uio.UioRegisters(str(fake.uio))
    made: list[tuple[Any, ...]] = []

    class Array(np.ndarray):
        device_address = BASE

        def flush(self) -> None:
            made.append(("flush",))

        def invalidate(self) -> None:
            made.append(("invalidate",))

        def freebuffer(self) -> None:
            made.append(("freebuffer",))

    def allocate(shape: tuple[int], dtype: str) -> Any:
        made.append(("allocate", shape, dtype))
        return np.memmap(fake.buffer, dtype, "r+", shape=shape).view(Array)

    def mmio(address: int, size_bytes: int) -> Any:
        made.append(("MMIO", address, size_bytes))
        return files

    with pytest.raises(MissingToolError, match="^the Python package pynq is not installed"):
        open_pynq(0xA0000000, 1 << 20, 1)
    monkeypatch.setitem(sys.modules, "pynq", SimpleNamespace(MMIO=mmio, allocate=allocate))
    with pytest.raises(OptionError, match="^memory_bytes must be a multiple of 256, not 100$"):
        open_pynq(0xA0000000, 100, 1)
    with fake:
        link = open_pynq(0xA0000000, 1 << 20, 1)
        one = Device(link)
        one.load(program)
        check(one, program, 2)
        link.close()
    files.close()
    assert made[:2] == [("MMIO", 0xA0000000, 4096), ("allocate", (1 << 20,), "u1")]
    assert made[-1] == ("freebuffer",) and {("flush",), ("invalidate",)} <= set(made)
