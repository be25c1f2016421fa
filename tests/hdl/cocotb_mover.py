"""Cocotb side of test_axi.py: the accelerator moves bytes between a memory that others wrote and its scratchpad."""

import itertools
import os
import random
from collections.abc import Sequence
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge, with_timeout
from cocotbext.axi import AxiBus, AxiRam
from dma_reference import Fields, load_ref, random_load, random_store, store_ref

from tq_hw.isa.config import load_config
from tq_hw.isa.control import COUNTERS, MAGIC, REGISTERS, Status
from tq_hw.isa.encode import Assembler
from tq_hw.isa.layout import Unit

CONFIG = load_config(os.environ["TQ_HW_CONFIG"])
OFFSETS = {register.name: register.offset_bytes for register in REGISTERS}
REGION_BYTES = 16384
BASES = (0x10000, 0x20000, 0x30000, 0x40000)
INPUT, OUTPUT = 1, 2


class Machine:
    """Register bus and memory of the design under test."""

    def __init__(self, dut: Any) -> None:
        self.dut = dut
        self.ram = AxiRam(AxiBus.from_prefix(dut, "m_axi"), dut.clk, dut.rst, size=1 << 19)

    def stall(self, seed: int, idle: float, pressure: float) -> None:
        """Let the memory answer late and take late, with these chances per cycle."""
        read: Any = self.ram.read_if
        write: Any = self.ram.write_if
        for number, (channel, chance) in enumerate((
                (read.r_channel, idle), (write.b_channel, idle),
                (read.ar_channel, pressure), (write.aw_channel, pressure), (write.w_channel, pressure))):
            if chance:
                rng = random.Random(seed + number)
                channel.set_pause_generator(rng.random() < chance for _ in itertools.count())

    async def write(self, name: str, value: int) -> None:
        self.dut.reg_addr.value = OFFSETS[name]
        self.dut.reg_write_data.value = value
        self.dut.reg_write_en.value = 1
        await RisingEdge(self.dut.clk)
        self.dut.reg_write_en.value = 0

    async def read(self, name: str) -> int:
        self.dut.reg_addr.value = OFFSETS[name]
        for _ in range(3):
            await RisingEdge(self.dut.clk)
        return int(self.dut.reg_read_data.value)

    async def start(self, commands: bytes, offset: int = 64) -> None:
        self.ram.write(BASES[0] + offset, commands)
        for region, base in enumerate(BASES):
            await self.write(f"base{region}", base)
        await self.write("command_offset", offset)
        await self.write("command_bytes", len(commands))
        await self.write("control", 1)

    async def finish(self) -> dict[str, int]:
        await with_timeout(RisingEdge(self.dut.interrupt), 1, "ms")
        return {name: await self.read(name) for name in ("status", "error_code", "error_unit", "error_index")}


async def machine(dut: Any) -> Machine:
    """Reset the design and return it with its memory."""
    dut.reg_write_en.value = 0
    dut.rst.value = 1
    cocotb.start_soon(Clock(dut.clk, 10, "ns").start())
    unit = Machine(dut)
    for _ in range(4):
        await RisingEdge(dut.clk)
    dut.rst.value = 0
    await RisingEdge(dut.clk)
    return unit


async def watch_protocol(dut: Any) -> None:
    """What is offered and not taken must hold still; bursts must not cross 4 KiB."""
    channels = {"aw": ("addr", "len"), "w": ("data", "strb", "last"), "ar": ("addr", "len", "id")}
    held: dict[str, tuple[int, ...] | None] = dict.fromkeys(channels)
    while True:
        await RisingEdge(dut.clk)
        await ReadOnly()
        for channel, fields in channels.items():
            valid, ready = (bool(getattr(dut, f"m_axi_{channel}{name}").value) for name in ("valid", "ready"))
            now = tuple(int(getattr(dut, f"m_axi_{channel}{name}").value) for name in fields)
            assert held[channel] is None or (valid and now == held[channel]), f"{channel} moved"
            held[channel] = now if valid and not ready else None
            if valid and channel != "w":
                assert now[0] % CONFIG.bus_bytes == 0
                assert now[0] // 4096 == (now[0] + (now[1] + 1) * CONFIG.bus_bytes - 1) // 4096


def whole_fill(value: int) -> dict[str, int]:
    """Return a load that sets every scratchpad byte."""
    width = CONFIG.word_bytes
    return {"fill": value, "emit_bytes": width, "last_emit_bytes": width, "count0": 1,
            "count1": CONFIG.scratchpad_words, "count2": 1, "count3": 1, "step1": 1}


def program(rng: random.Random, count: int) -> tuple[bytes, list[tuple[Unit, dict[str, int]]]]:
    """Return commands of random loads and stores, in order where a unit follows the other one, and the operations."""
    assembler = Assembler(CONFIG)
    steps: list[tuple[Unit, dict[str, int]]] = [(Unit.LOAD, whole_fill(0x5A))]
    for _ in range(count):
        if rng.random() < 0.5:
            steps.append((Unit.LOAD, random_load(rng, CONFIG, REGION_BYTES) | {"region": INPUT}))
        else:
            steps.append((Unit.STORE, random_store(rng, CONFIG, REGION_BYTES) | {"region": OUTPUT}))
    for (unit, op), following in zip(steps, [*steps[1:], None], strict=True):
        other = Unit.STORE if unit is Unit.LOAD else Unit.LOAD
        if following is not None and following[0] is other:
            op[f"post_{other.name.lower()}"] = 1
            following[1][f"wait_{unit.name.lower()}"] = 1
    for unit, op in steps:
        assembler.run(unit, op)
    assembler.end()
    return assembler.to_bytes(), steps


def reference(steps: Sequence[tuple[Unit, Fields]], source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Run `steps` on the two regions; return which bytes of `target` are defined."""
    scratchpad = np.zeros((CONFIG.scratchpad_words, CONFIG.word_bytes), np.uint8)
    known = np.zeros_like(scratchpad)
    defined = np.ones_like(target)
    for unit, op in steps:
        full = {"flip": 0, "memory_offset_bytes": 0, "run_bytes": 0, "pad_before_bytes": 0, "pad_after_bytes": 0,
                "destination": 0, "advance_bytes": 0, "last_advance_bytes": 0, "stride2_bytes": 0, "stride3_bytes": 0,
                **{f"step{level}": 0 for level in range(4)}} | dict(op)
        if unit is Unit.LOAD:
            written: dict[int, list[int | None]] = {}
            load_ref(CONFIG, full, source, 0, written)
            for address, word in written.items():
                known[address] = [byte is not None for byte in word]
                scratchpad[address] = [byte or 0 for byte in word]
        else:
            store_ref(CONFIG, full, target, 0, scratchpad)
            store_ref(CONFIG, full | {"flip": 0}, defined, 0, known)
    return defined.astype(bool)


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.5], pressure=[0.0, 0.5])
async def moves_bytes(dut: Any, idle: float, pressure: float) -> None:
    unit = await machine(dut)
    watcher = cocotb.start_soon(watch_protocol(dut))
    seed = int(4 * idle + 2 * pressure)
    unit.stall(seed, idle, pressure)
    for again in range(2):
        rng = random.Random(seed + 10 * again)
        source = np.frombuffer(rng.randbytes(REGION_BYTES), np.uint8)
        target = np.frombuffer(rng.randbytes(REGION_BYTES), np.uint8).copy()
        unit.ram.write(BASES[INPUT], source.tobytes())
        unit.ram.write(BASES[OUTPUT], target.tobytes())
        commands, steps = program(rng, 24)
        await unit.start(commands)
        result = await unit.finish()
        assert result["status"] == 2, result
        defined = reference(steps, source, target)
        written: Any = unit.ram.read(BASES[OUTPUT], REGION_BYTES)
        got = np.frombuffer(written, np.uint8)
        wrong = np.flatnonzero((got != target) & defined)
        assert wrong.size == 0, f"byte {wrong[0]} is {got[wrong[0]]}, not {target[wrong[0]]}"
    watcher.cancel()
    counts = {name: await unit.read(f"counter_{name}") for name in COUNTERS}
    assert counts["cycles"] > counts["load_busy"] > 0 and counts["store_busy"] > 0
    assert counts["array_busy"] == counts["vector_busy"] == 0
    assert counts["write_beats"] > 0 and counts["read_beats"] >= len(commands) // CONFIG.bus_bytes


def commands_of(*steps: tuple[Unit, Fields], end: bool = True) -> bytes:
    assembler = Assembler(CONFIG)
    for unit, op in steps:
        assembler.run(unit, op)
    if end:
        assembler.end()
    return assembler.to_bytes()


def header(unit: int, *, run: int = 0, first: int = 0, count: int = 0, reserved: int = 0) -> bytes:
    return (unit | run << 3 | first << 4 | count << 14 | reserved << 24).to_bytes(4, "little")


END = header(0, run=1)
FILL = whole_fill(1)
READ = FILL | {"region": INPUT, "run_bytes": 2000, "advance_bytes": CONFIG.word_bytes,
               "last_advance_bytes": CONFIG.word_bytes}
WRITE = {"take_bytes": 1, "last_take_bytes": 1, "count0": 1, "count1": 64, "count2": 1, "count3": 1, "step1": 1,
         "region": OUTPUT}
#: Commands, and the code, unit and index of the error in which they must end.
BAD = {
    "no_end": (commands_of((Unit.LOAD, FILL), end=False), Status.NO_END, Unit.CONTROL, -1),
    "empty": (b"", Status.NO_END, Unit.CONTROL, -1),
    "cut_short": (header(1, count=3) + bytes(8), Status.NO_END, Unit.CONTROL, -1),
    "no_such_unit": (header(5, run=1) + END, Status.BAD_COMMAND, Unit.CONTROL, -1),
    "reserved": (header(1, reserved=1) + END, Status.BAD_COMMAND, Unit.CONTROL, -1),
    "control_without_end": (header(0) + END, Status.BAD_COMMAND, Unit.CONTROL, -1),
    "no_such_register": (header(1, first=15, count=1) + bytes(4) + END, Status.BAD_COMMAND, Unit.LOAD, 0),
    "no_such_table": (header(4, first=300, count=1) + bytes(4) + END, Status.BAD_COMMAND, Unit.STORE, 0),
    "own_tokens": (commands_of((Unit.LOAD, FILL), (Unit.LOAD, FILL | {"wait_load": 1})),
                   Status.BAD_OPERATION, Unit.LOAD, 1),
    "load_count": (commands_of((Unit.LOAD, FILL | {"count2": 0})), Status.BAD_OPERATION, Unit.LOAD, 0),
    "load_emit": (commands_of((Unit.LOAD, FILL), (Unit.LOAD, FILL | {"last_emit_bytes": CONFIG.word_bytes + 1})),
                  Status.BAD_OPERATION, Unit.LOAD, 1),
    "store_take": (commands_of((Unit.STORE, WRITE | {"lane": CONFIG.word_bytes})),
                   Status.BAD_OPERATION, Unit.STORE, 0),
    "load_address": (commands_of((Unit.LOAD, FILL), (Unit.LOAD, FILL | {"destination": 1})),
                     Status.BAD_ADDRESS, Unit.LOAD, 1),
    "store_address": (commands_of((Unit.STORE, WRITE | {"source": CONFIG.scratchpad_words - 3})),
                      Status.BAD_ADDRESS, Unit.STORE, 0),
    "overflow": (commands_of((Unit.STORE, WRITE | {"post_load": 255}), (Unit.STORE, WRITE | {"post_load": 1})),
                 Status.TOKEN_OVERFLOW, Unit.STORE, 1),
}


@cocotb.test()
@cocotb.parametrize(case=list(BAD))
async def stops_at_an_error(dut: Any, case: str) -> None:
    commands, code, number, index = BAD[case]
    unit = await machine(dut)
    await unit.start(commands)
    result = await unit.finish()
    assert result == {"status": 4, "error_code": code, "error_unit": number, "error_index": index % (1 << 32)}, result
    # The next run is not affected by the error.
    await unit.start(commands_of((Unit.LOAD, READ | {"post_store": 1}), (Unit.STORE, WRITE | {"wait_load": 1})))
    assert (await unit.finish())["status"] == 2


@cocotb.test()
@cocotb.parametrize(what=["commands", "load", "store"])
async def a_bus_error_stops(dut: Any, what: str) -> None:
    unit = await machine(dut)
    region = {"commands": 0, "load": INPUT, "store": OUTPUT}[what]
    channel = unit.ram.write_if if what == "store" else unit.ram.read_if
    method = "_write" if what == "store" else "_read"
    plain = getattr(channel, method)

    async def refuse(address: int, rest: Any) -> Any:
        if address // 0x10000 == BASES[region] // 0x10000:
            raise ValueError("out of order")
        return await plain(address, rest)

    setattr(channel, method, refuse)
    commands = commands_of((Unit.LOAD, READ | {"post_store": 1}), (Unit.STORE, WRITE | {"wait_load": 1}))
    await unit.start(commands)
    result = await unit.finish()
    number = {"commands": Unit.CONTROL, "load": Unit.LOAD, "store": Unit.STORE}[what]
    assert result["status"] == 4 and result["error_code"] == Status.BUS_ERROR and result["error_unit"] == number
    setattr(channel, method, plain)
    await unit.start(commands)
    assert (await unit.finish())["status"] == 2


@cocotb.test()
@cocotb.parametrize(cycles=[30, 75, 200, 500])
async def a_stop_lets_open_bursts_end(dut: Any, cycles: int) -> None:
    unit = await machine(dut)
    cocotb.start_soon(watch_protocol(dut))
    unit.stall(cycles, 0.3, 0.3)
    writes = WRITE | {"take_bytes": CONFIG.word_bytes, "last_take_bytes": CONFIG.word_bytes, "count1": 500}
    commands = commands_of(*[(Unit.STORE, writes)] * 4, *[(Unit.LOAD, READ)] * 4)
    await unit.start(commands)
    for _ in range(cycles):
        await RisingEdge(dut.clk)
    assert await unit.read("status") == 1
    await unit.write("control", 2)
    for _ in range(400):
        if await unit.read("status") == 0:
            break
    else:
        raise AssertionError("the machine does not stop")
    await unit.start(commands_of((Unit.LOAD, READ | {"post_store": 1}), (Unit.STORE, WRITE | {"wait_load": 1})))
    assert (await unit.finish())["status"] == 2


@cocotb.test()
async def has_registers(dut: Any) -> None:
    unit = await machine(dut)
    assert await unit.read("magic") == MAGIC
    assert await unit.read("fingerprint") == CONFIG.fingerprint
    assert await unit.read("status") == 0
    await unit.write("base3", 0x1234_5678)
    assert await unit.read("base3") == 0x1234_5670
    await unit.write("command_bytes", 0xFFFF)
    assert await unit.read("command_bytes") == 0xFFFC
    await unit.write("magic", 0)
    assert await unit.read("magic") == MAGIC
