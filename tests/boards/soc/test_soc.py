"""Parts of the system with a soft core: flash, the model of the DRAM controller, generated files, the flash image."""

import itertools
import random
import struct
import zlib
from dataclasses import replace

import pytest
from amaranth.sim import Simulator, SimulatorContext

from tq_hw.boards.build import soc_header
from tq_hw.boards.build.build import elaborate
from tq_hw.boards.build.firmware import FIRMWARE, read_elf
from tq_hw.boards.catalog.catalog import find_board
from tq_hw.boards.gateware.dram import ControlCrossing
from tq_hw.boards.soc import soc
from tq_hw.boards.soc.emulated import DramModel
from tq_hw.boards.soc.flash import FlashReader
from tq_hw.boards.soc.map import FLASH_MAGIC, RAM_BYTES, flash_image
from tq_hw.isa.config import load_config
from tq_hw.model.errors import ToolError


@pytest.mark.parametrize("half_cycles", [1, 2, 3])
def test_flash_words(half_cycles: int) -> None:
    """The model of the flash follows its data sheet: it samples at rising edges and drives at falling ones."""
    contents = random.Random(1).randbytes(4096)
    dut = FlashReader(half_cycles)
    commands: list[int] = []

    async def flash(ctx: SimulatorContext) -> None:
        taken, out, before = 0, "", 0
        async for _clk, _rst, select, clk, copi in ctx.tick().sample(dut.select, dut.clk, dut.copi):
            if not select:
                taken, out = 1, ""
            elif clk and not before and taken < 1 << 32:
                taken = taken << 1 | copi
                if taken >= 1 << 32:
                    commands.append(taken & (1 << 32) - 1)
                    assert taken >> 24 & 255 == 3
                    out = "".join(f"{byte:08b}" for byte in contents[taken & 0xffffff:])
            elif before and not clk and taken >= 1 << 32:
                ctx.set(dut.cipo, int(out[0]))
                out = out[1:]
            before = clk

    async def read(ctx: SimulatorContext, addr: int) -> tuple[int, int]:
        ctx.set(dut.request, 1)
        ctx.set(dut.addr, addr)
        for cycles in itertools.count(1):
            _clk, _rst, ready, data = await ctx.tick().sample(dut.ready, dut.data)
            if ready:
                ctx.set(dut.request, 0)
                return cycles, data
        raise AssertionError

    async def bench(ctx: SimulatorContext) -> None:
        for addr, most, asked in ((5, 160, 1), (6, 70, 1), (6, 4, 1), (7, 70, 1), (900, 160, 2), (5, 160, 3)):
            cycles, data = await read(ctx, addr)
            assert data == int.from_bytes(contents[4 * addr:4 * addr + 4], "little")
            assert cycles <= most * half_cycles + 4
            assert len(commands) == asked
            await ctx.tick()

    sim = Simulator(dut)
    sim.add_clock(1e-6)
    sim.add_testbench(flash, background=True)
    sim.add_testbench(bench)
    sim.run()
    assert commands == [0x03000000 | 4 * addr for addr in (5, 900, 5)]


SEQUENCE = ((0x800, 14, 30), (0x80C, 5, 0), (0x000, 1, 0))


@pytest.mark.parametrize(("writes", "ready"), [
    (((0x800, 14, 40), (0x80C, 5, 1), (0x000, 1, 1)), True),
    (((0x800, 14, 10), (0x80C, 5, 1), (0x000, 1, 1)), False),
    (((0x80C, 5, 40), (0x800, 14, 40), (0x000, 1, 1)), False),
    (((0x800, 15, 40), (0x80C, 5, 1), (0x000, 1, 1)), False),
    (((0x800, 14, 40), (0x80C, 5, 1)), False),
    (((0x800, 14, 40), (0x80C, 5, 1), (0x000, 1, 1), (0x000, 1, 1)), False),
], ids=["as it must be", "too early", "wrong order", "wrong value", "too few", "too many"])
def test_the_dram_model_asks_for_the_sequence(writes: tuple[tuple[int, int, int], ...], ready: bool) -> None:
    dut = DramModel(SEQUENCE)

    async def bench(ctx: SimulatorContext) -> None:
        for address, value, wait in writes:
            assert not ctx.get(dut.ready) or len(writes) > len(SEQUENCE)
            ctx.set(dut.adr, address >> 2)
            ctx.set(dut.dat_w, value)
            ctx.set(dut.request, 1)
            await ctx.tick().until(dut.ack)
            ctx.set(dut.request, 0)
            await ctx.tick().repeat(wait)
        assert ctx.get(dut.ready) == ready

    sim = Simulator(dut)
    sim.add_clock(1e-6)
    sim.add_testbench(bench)
    sim.run()


@pytest.mark.parametrize("mem_period", [0.4e-6, 1.3e-6, 7e-6])
def test_register_writes_cross_once_each_and_in_order(mem_period: float) -> None:
    dut = ControlCrossing()
    rng = random.Random(3)
    wanted = [(rng.getrandbits(30), rng.getrandbits(32)) for _ in range(12)]
    came: list[tuple[int, int]] = []

    async def core(ctx: SimulatorContext) -> None:
        while True:
            _clk, _rst, request, adr, dat_w = await ctx.tick("mem").sample(dut.core_request, dut.core_adr,
                                                                           dut.core_dat_w)
            if request:
                await ctx.tick("mem").repeat(rng.randrange(3) + 1)
                ctx.set(dut.core_ack, 1)
                await ctx.tick("mem")
                ctx.set(dut.core_ack, 0)
                came.append((adr, dat_w))

    async def bench(ctx: SimulatorContext) -> None:
        for adr, dat_w in wanted:
            ctx.set(dut.adr, adr)
            ctx.set(dut.dat_w, dat_w)
            ctx.set(dut.request, 1)
            await ctx.tick().until(dut.ack)
            ctx.set(dut.request, 0)
            ctx.set(dut.adr, 0)
            await ctx.tick().repeat(rng.randrange(1, 4))
        await ctx.tick().repeat(30)

    sim = Simulator(dut)
    sim.add_clock(1e-6)
    sim.add_clock(mem_period, domain="mem")
    sim.add_testbench(core, background=True)
    sim.add_testbench(bench)
    sim.run()
    assert came == wanted


def test_the_board_elaborates_with_a_soft_core() -> None:
    for package in ("litedram", "amaranth_boards", soc.CPU_PACKAGE):
        pytest.importorskip(package)
    board = replace(find_board("ulx3s_85f"), config=load_config("tiny"), program=b"program!")
    plan = elaborate(replace(board, clock_hz=board.soc_clock_hz), board.memories[0])
    assert "module VexRiscv" in plan.files["VexRiscv.v"]
    assert "USRMCLK" in plan.files["top.il"]
    assert 'LOCATE COMP "spi_flash_0__cipo__io" SITE "V2";' in plan.files["top.lpf"]


def test_committed_files_are_current() -> None:
    pytest.importorskip("litedram")
    board = find_board("ulx3s_85f")
    folder = FIRMWARE / "runtime" / board.name
    facts = soc_header.soc_facts(board, board.memories[0])
    message = "run: python -m tq_hw.boards.build.soc_header"
    assert (folder / "tq_soc.h").read_text() == soc_header.header(facts), message
    assert (folder / "tq_soc.ld").read_text() == soc_header.linker_script(), message


def test_flash_image() -> None:
    sets = [b"abcde", b"fghij"]
    image = flash_image(b"MODEL", sets)
    magic, crc, version, model_at, model_bytes, count, set_bytes, inputs_at = struct.unpack_from("<8I", image)
    assert (magic, version, model_bytes, count, set_bytes) == (FLASH_MAGIC, 1, 5, 2, 5)
    assert image[inputs_at:inputs_at + 10] == b"abcdefghij"
    assert image[model_at:] == b"MODEL" and model_at % 16 == 0
    assert crc == zlib.crc32(image[8:model_at])
    with pytest.raises(ValueError, match="all sets of inputs must have the same size"):
        flash_image(b"MODEL", [b"abc", b"de"])


def elf(address: int, contents: bytes, memory_bytes: int) -> bytes:
    header = struct.pack("<16s2H5I6H", b"\x7fELF\1\1\1", 2, 243, 1, 0, 52, 0, 0, 52, 32, 2, 0, 0, 0)
    segments = struct.pack("<8I", 1, 116, address, address, len(contents), memory_bytes, 7, 4)
    return header + segments + struct.pack("<8I", 0x6474e551, 0, 0, 0, 0, 1 << 20, 6, 0) + contents


def test_elf() -> None:
    assert read_elf(elf(8, b"code", 12)) == (bytes(8) + b"code", 20)
    with pytest.raises(ToolError, match=f"the program needs {RAM_BYTES + 1} bytes, block RAM has {RAM_BYTES}"):
        read_elf(elf(1, b"code", RAM_BYTES))
    with pytest.raises(ToolError, match="the compiler did not write a 32-bit little-endian ELF file"):
        read_elf(b"\x7fELF\2\1" + bytes(100))
