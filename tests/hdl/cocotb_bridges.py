"""Cocotb side of test_bridges.py: random accesses at any pace, held against what the registers should hold."""

import itertools
import random
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge, with_timeout
from cocotbext.axi import ApbBus, ApbMaster, AxiLiteBus, AxiLiteMaster, AxiResp

from tq_hw.isa.config import load_config
from tq_hw.isa.control import MAGIC, REGISTERS

OFFSETS = {register.name: register.offset_bytes for register in REGISTERS}
NAMES = {register.offset_bytes: register for register in REGISTERS}
#: The bits of a written word that the registers keep.
KEPT = {"command_offset": ~15, "command_bytes": ~3, "watchdog": ~0, **{f"base{n}": ~15 for n in range(4)}}
BUSES = ("axi4lite", "wishbone", "apb")
Access = Callable[[int, int | None, int], Awaitable[tuple[int, bool]]]


def chances(seed: int, chance: float) -> Iterator[bool]:
    rng = random.Random(seed)
    return (rng.random() < chance for _ in itertools.count())


async def started(dut: Any) -> None:
    """Reset everything; no master asks for anything."""
    for name in ("s_axi_awvalid", "s_axi_wvalid", "s_axi_arvalid", "s_axi_bready", "s_axi_rready", "s_wb_cyc",
                 "s_wb_stb", "s_apb_psel", "s_apb_penable"):
        getattr(dut, name).value = 0
    dut.aresetn.value = 0
    cocotb.start_soon(Clock(dut.aclk, 10, "ns").start())
    for _ in range(4):
        await RisingEdge(dut.aclk)
    dut.aresetn.value = 1
    await RisingEdge(dut.aclk)


def axi4lite(dut: Any, seed: int, pause: float) -> Access:
    master = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axi"), dut.aclk, dut.aresetn, reset_active_level=False)
    write: Any = master.write_if
    read: Any = master.read_if
    for number, channel in enumerate((write.aw_channel, write.w_channel, write.b_channel, read.ar_channel,
                                      read.r_channel)):
        if pause:
            channel.set_pause_generator(chances(seed + number, pause))

    async def access(addr: int, value: int | None, strobe: int) -> tuple[int, bool]:
        if value is None:
            got = await master.read(addr, 4)
            return int.from_bytes(got.data, "little"), got.resp is AxiResp.SLVERR
        # The model makes strobes of addresses: bytes in a row, or all.
        first = (strobe & -strobe).bit_length() - 1
        data = value.to_bytes(4, "little")[first:strobe.bit_length()]
        return 0, (await master.write(addr + first, data)).resp is AxiResp.SLVERR
    return access


def apb(dut: Any, seed: int, pause: float) -> Access:
    master = ApbMaster(ApbBus.from_prefix(dut, "s_apb"), dut.aclk, dut.aresetn, reset_active_level=False)
    if pause:
        master.set_pause_generator(chances(seed, pause))

    async def access(addr: int, value: int | None, strobe: int) -> tuple[int, bool]:
        if value is None:
            got = await master.read(addr, 4)
            return int.from_bytes(got.data, "little"), got.resp is AxiResp.SLVERR
        first = (strobe & -strobe).bit_length() - 1
        data = value.to_bytes(4, "little")[first:strobe.bit_length()]
        return 0, (await master.write(addr + first, data)).resp is AxiResp.SLVERR
    return access


def wishbone(dut: Any, seed: int, pause: float) -> Access:
    paused = chances(seed, pause)

    async def access(addr: int, value: int | None, strobe: int) -> tuple[int, bool]:
        while pause and next(paused):
            dut.s_wb_cyc.value = int(next(paused))
            dut.s_wb_stb.value = 0
            await RisingEdge(dut.aclk)
        dut.s_wb_adr.value, dut.s_wb_sel.value = addr >> 2, strobe
        dut.s_wb_we.value, dut.s_wb_dat_w.value = int(value is not None), value or 0
        dut.s_wb_cyc.value = dut.s_wb_stb.value = 1
        while True:
            await RisingEdge(dut.aclk)
            ack, err, word = int(dut.s_wb_ack.value), int(dut.s_wb_err.value), int(dut.s_wb_dat_r.value)
            if ack or err:
                dut.s_wb_stb.value = 0
                assert not ack & err
                return word, bool(err)
    return access


MASTERS = {"axi4lite": axi4lite, "wishbone": wishbone, "apb": apb}


def random_access(rng: random.Random) -> tuple[int, int | None, int]:
    """Mostly registers, some words that are none, now and then bytes of a word."""
    known = [offset for offset in NAMES if offset != OFFSETS["control"]]
    addr = rng.choice(known) if rng.random() < 0.7 else 4 * rng.randrange(1024)
    if addr == OFFSETS["control"]:
        addr = 0xFFC
    value = None if rng.random() < 0.5 else rng.getrandbits(32)
    return addr, value, 15 if rng.random() < 0.7 else rng.choice((1, 2, 3, 4, 6, 7, 8, 12, 14))


@cocotb.test()
@cocotb.parametrize(bus=BUSES, pause=[0.0, 0.6])
async def registers_hold_what_was_written(dut: Any, bus: str, pause: float) -> None:
    await started(dut)
    rng = random.Random(len(bus) + int(10 * pause))
    access = MASTERS[bus](dut, 7, pause)
    held = dict.fromkeys(KEPT, 0) | {"magic": MAGIC, "fingerprint": load_config("tiny").fingerprint}
    errors = 0
    for _ in range(80):
        addr, value, strobe = random_access(rng)
        register = NAMES.get(addr)
        word, error = await with_timeout(access(addr, value, strobe), 5, "us")
        errors += error
        if value is None:
            assert error == (register is None), hex(addr)
            assert word == (held.get(register.name, 0) if register else 0), hex(addr)
        else:
            assert error == (register is None or "w" not in register.access or strobe != 15), (hex(addr), strobe)
            if not error and register is not None:
                held[register.name] = value & KEPT[register.name] & 0xFFFFFFFF
    assert errors > 10


@cocotb.test()
@cocotb.parametrize(bus=BUSES)
async def a_start_is_seen_by_the_next_read(dut: Any, bus: str) -> None:
    """And writes while busy are ignored, and a reset in the middle of anything leaves nothing behind."""
    await started(dut)
    access = MASTERS[bus](dut, 1, 0.0)
    for _ in range(30):
        await RisingEdge(dut.aclk)
    for again in range(6):
        await access(OFFSETS["base0"], 0x1230, 15)
        assert await access(OFFSETS["control"], 1, 15) == (0, False)
        assert await access(OFFSETS["status"], None, 15) == (1, False)
        await access(OFFSETS["base0"], 0x5550, 15)
        assert await access(OFFSETS["base0"], None, 15) == (0x1230, False)
        assert await access(OFFSETS["control"], None, 15) == (0, False)
        running = cocotb.start_soon(access(OFFSETS["base0"], None, 15))
        for _ in range(again):
            await RisingEdge(dut.aclk)
        running.cancel()
        dut.aresetn.value = 0
        dut.s_wb_cyc.value = dut.s_wb_stb.value = 0
        await RisingEdge(dut.aclk)
        await RisingEdge(dut.aclk)
        dut.aresetn.value = 1
        for _ in range(30):
            await RisingEdge(dut.aclk)
            await ReadOnly()
            assert not int(dut.s_axi_rvalid.value) and not int(dut.s_axi_bvalid.value)
            assert not int(dut.s_wb_ack.value) and not int(dut.s_apb_pready.value)
        await RisingEdge(dut.aclk)
        assert await access(OFFSETS["base0"], None, 15) == (0, False)


@cocotb.test()
async def channels_of_axi4lite_do_not_wait_for_each_other(dut: Any) -> None:
    """Word before address, answers left standing, strobes of nothing; and each latency as it is documented."""
    await started(dut)

    async def latency(valid: Any, answer: Any) -> int:
        """Cycles from the one in which `valid` is taken to the first of `answer`."""
        valid.value = 1
        await RisingEdge(dut.aclk)
        valid.value = 0
        for cycles in itertools.count(1):
            await RisingEdge(dut.aclk)
            if int(answer.value):
                return cycles
        raise AssertionError

    dut.s_axi_wdata.value, dut.s_axi_wstrb.value = 0xABCDE0, 15
    dut.s_axi_wvalid.value = 1
    await RisingEdge(dut.aclk)
    dut.s_axi_wvalid.value = 0
    for _ in range(9):
        await RisingEdge(dut.aclk)
        assert not int(dut.s_axi_wready.value) and not int(dut.s_axi_bvalid.value)
    dut.s_axi_awaddr.value = OFFSETS["base1"]
    assert await latency(dut.s_axi_awvalid, dut.s_axi_bvalid) == 6
    # The answer of the write stands; reads go on.
    dut.s_axi_araddr.value = OFFSETS["base1"] + 3
    assert await latency(dut.s_axi_arvalid, dut.s_axi_rvalid) == 6
    assert int(dut.s_axi_rdata.value) == 0xABCDE0 and int(dut.s_axi_rresp.value) == 0
    # Now both answers stand: a write without a byte waits for the first one to be taken.
    dut.s_axi_wstrb.value = 0
    dut.s_axi_awvalid.value = dut.s_axi_wvalid.value = 1
    await RisingEdge(dut.aclk)
    dut.s_axi_awvalid.value = dut.s_axi_wvalid.value = 0
    for _ in range(9):
        await RisingEdge(dut.aclk)
        assert int(dut.s_axi_bvalid.value) and int(dut.s_axi_rvalid.value)
    dut.s_axi_bready.value = 1
    await RisingEdge(dut.aclk)
    dut.s_axi_bready.value = 0
    await RisingEdge(dut.aclk)
    assert not int(dut.s_axi_bvalid.value)
    for _ in range(6):
        await RisingEdge(dut.aclk)
    assert int(dut.s_axi_bvalid.value) and int(dut.s_axi_bresp.value) == 0
    dut.s_axi_rready.value = 1
    await RisingEdge(dut.aclk)
    await RisingEdge(dut.aclk)
    assert await latency(dut.s_axi_arvalid, dut.s_axi_rvalid) == 6
    assert int(dut.s_axi_rdata.value) == 0xABCDE0


@cocotb.test()
@cocotb.parametrize(bus=["wishbone", "apb"])
async def answers_come_as_early_as_documented(dut: Any, bus: str) -> None:
    await started(dut)
    ready = dut.s_wb_ack if bus == "wishbone" else dut.s_apb_pready
    dut.s_wb_adr.value = dut.s_apb_paddr.value = 0
    dut.s_wb_we.value = dut.s_apb_pwrite.value = 0
    begun = (dut.s_wb_cyc, dut.s_wb_stb) if bus == "wishbone" else (dut.s_apb_psel,)
    for signal in begun:
        signal.value = 1
    seen = []
    for _ in range(9):
        await RisingEdge(dut.aclk)
        dut.s_apb_penable.value = 1
        seen.append(int(ready.value))
    assert seen.index(1) == 6
