"""The bridge and a board in Python give the same bytes: every command, every error, stalls, damaged frames."""

import random
from typing import Any

import pytest
from amaranth.sim import Simulator
from link_reference import IDENTITY, ReferenceBoard

from tq_hw.boards.gateware.bridge import Bridge
from tq_hw.boards.link.protocol import Command, Request
from tq_hw.isa.config import Config

GAP_CYCLES = 400
#: Limit for any request, with stalls.
LONGEST_CYCLES = 8000
BASE = IDENTITY.memory_base


def config(bus_bytes: int) -> Config:
    return Config("link", 4, 4, 2, 8 << 10, acc_words=16, bus_bytes=bus_bytes)


async def until(ctx: Any, condition: Any, *values: Any) -> list[int]:
    """Tick until `condition` held at the edge; return the values there. (Amaranth's own leaves a generator.)"""
    while True:
        _, _, held, *found = await ctx.tick().sample(condition, *values)
        if held:
            return found


class Rig:
    """A bridge in the simulator, with registers, a memory, and the sender of bytes."""

    def __init__(self, bus_bytes: int, *, seed: int = 0, stalls: float = 0.0, latency: int = 3) -> None:
        self.bus_bytes, self.latency = bus_bytes, latency
        self.rng, self.stalls = random.Random(seed), stalls
        self.dut = Bridge(config(bus_bytes), IDENTITY, GAP_CYCLES)
        self.reference = ReferenceBoard()
        self.memory = bytearray(IDENTITY.memory_bytes)
        self.registers = bytearray(256)
        self.writes: list[tuple[int, int]] = []
        self.deaf_memory = False
        self.broken: set[int] = set()

    def go(self) -> bool:
        return self.rng.random() >= self.stalls

    async def registers_process(self, ctx: Any) -> None:
        dut = self.dut
        async for _, _, addr, write, value in ctx.tick().sample(dut.reg_addr, dut.reg_write_en, dut.reg_write_data):
            assert addr % 4 == 0
            ctx.set(dut.reg_read_data, int.from_bytes(self.registers[addr:addr + 4], "little"))
            if write:
                self.registers[addr:addr + 4] = value.to_bytes(4, "little")
                self.writes.append((addr, value))

    def place(self, addr: int) -> int:
        assert addr % self.bus_bytes == 0
        assert 0 <= addr - BASE <= len(self.memory) - self.bus_bytes, "an access beyond the memory"
        return addr - BASE

    async def reads(self, ctx: Any) -> None:
        dut = self.dut
        while True:
            while self.deaf_memory or not self.go():
                await ctx.tick()
            ctx.set(dut.m_axi_arready, 1)
            addr, length, size = await until(
                ctx, dut.m_axi_arvalid, dut.m_axi_araddr, dut.m_axi_arlen, dut.m_axi_arsize)
            ctx.set(dut.m_axi_arready, 0)
            assert (length, 1 << size) == (0, self.bus_bytes)
            await ctx.tick().repeat(self.latency + self.rng.randrange(1 + int(20 * self.stalls)))
            at = self.place(addr)
            word = self.memory[at:at + self.bus_bytes]
            ctx.set(dut.m_axi_rdata, int.from_bytes(word, "little"))
            ctx.set(dut.m_axi_rresp, 2 if at in self.broken else 0)
            ctx.set(dut.m_axi_rlast, 1)
            ctx.set(dut.m_axi_rvalid, 1)
            await until(ctx, dut.m_axi_rready)
            ctx.set(dut.m_axi_rvalid, 0)

    async def taken(self, ctx: Any, valid: Any, ready: Any, values: Any) -> Any:
        while self.deaf_memory or not self.go():
            await ctx.tick()
        ctx.set(ready, 1)
        value, = await until(ctx, valid, values)
        ctx.set(ready, 0)
        return value

    async def writes_process(self, ctx: Any) -> None:
        dut = self.dut
        while True:
            # Address and data may be accepted in either order.
            order = self.rng.random() < 0.5
            addr = None if order else await self.taken(ctx, dut.m_axi_awvalid, dut.m_axi_awready, dut.m_axi_awaddr)
            while not ctx.get(dut.m_axi_wvalid):
                await ctx.tick()
            strobe = ctx.get(dut.m_axi_wstrb)
            word = await self.taken(ctx, dut.m_axi_wvalid, dut.m_axi_wready, dut.m_axi_wdata)
            if addr is None:
                addr = await self.taken(ctx, dut.m_axi_awvalid, dut.m_axi_awready, dut.m_axi_awaddr)
            await ctx.tick().repeat(self.latency)
            at = self.place(addr)
            for lane in range(self.bus_bytes):
                if strobe >> lane & 1 and at not in self.broken:
                    self.memory[at + lane] = word >> 8 * lane & 255
            ctx.set(dut.m_axi_bresp, 2 if at in self.broken else 0)
            ctx.set(dut.m_axi_bvalid, 1)
            await until(ctx, dut.m_axi_bready)
            ctx.set(dut.m_axi_bvalid, 0)

    async def receive(self, ctx: Any, count: int) -> bytes:
        """Take `count` bytes, then see that there are no more."""
        out = bytearray()
        quiet = 0
        while len(out) < count or quiet < 12:
            ready = self.go()
            ctx.set(self.dut.tx.ready, ready)
            _, _, valid, byte = await ctx.tick().sample(self.dut.tx.valid, self.dut.tx.payload)
            if valid and ready:
                out.append(byte)
            quiet = 0 if valid else quiet + 1
            assert quiet < LONGEST_CYCLES, f"the board says nothing; {count - len(out)} bytes of its answer are missing"
        ctx.set(self.dut.tx.ready, 0)
        return bytes(out)

    async def send(self, ctx: Any, data: bytes) -> bytes:
        """Send bytes to both boards; where the reference answers, so must the bridge. Return the answers."""
        out = b""
        for byte in data:
            expected = self.reference.feed(bytes([byte]))
            ctx.set(self.dut.rx_valid, 1)
            ctx.set(self.dut.rx_data, byte)
            await ctx.tick()
            ctx.set(self.dut.rx_valid, 0)
            await ctx.tick().repeat(3)
            if expected:
                found = await self.receive(ctx, len(expected))
                assert found == expected, f"{found.hex()} instead of {expected.hex()}"
                out += found
        return out

    async def gap(self, ctx: Any) -> None:
        self.reference.gap()
        await ctx.tick().repeat(GAP_CYCLES + 2)

    def run(self, bench: Any) -> None:
        simulator = Simulator(self.dut)
        simulator.add_clock(1e-8)
        for process in (self.registers_process, self.reads, self.writes_process):
            simulator.add_testbench(process, background=True)
        simulator.add_testbench(bench)
        simulator.run()
        assert self.memory == self.reference.memory
        assert self.registers == self.reference.registers
        assert self.writes == self.reference.executed


def random_request(rng: random.Random, sequence: int, session: int) -> Request:
    """Return a request, mostly legal, with sizes and addresses near every limit."""
    command = rng.choice([Command.READ_REGISTERS, Command.WRITE_REGISTERS, Command.READ_MEMORY, Command.WRITE_MEMORY,
                          Command.READ_MEMORY, Command.WRITE_MEMORY, Command.OPEN])
    if rng.random() < 0.03:
        return Request(rng.choice([0, 0x12, 0x22, 0x32, 0xFE]), sequence, session, 4)
    if command is Command.OPEN:
        return Request(command, sequence, session, rng.choice([24, 24, 24, 20, 28]), rng.choice([0, 0, 0, 4]))
    size = rng.choice([1, 2, 3, 4, 8, 12, 16, 20, 31, 60, 64, rng.randrange(1, 257), 256])
    if command in (Command.READ_REGISTERS, Command.WRITE_REGISTERS):
        address = 4 * rng.randrange(64) + (rng.random() < 0.1)
        size = size if rng.random() < 0.2 else max(4, size // 4 * 4)
    else:
        last = IDENTITY.memory_bytes - size
        address = BASE + rng.choice([0, last, last + 1, -1, rng.randrange(last), rng.randrange(last)])
    if command & 1:
        return Request(command, sequence, session, size, address, rng.randbytes(size))
    if rng.random() < 0.05:
        size = rng.choice([0, 257, 512, 65535])
    return Request(command, sequence, session, size, address)


@pytest.mark.parametrize("stalls", [0.0, 0.5], ids=["free", "stalls"])
@pytest.mark.parametrize("bus_bytes", [4, 8, 16])
def test_every_answer_is_that_of_the_reference(bus_bytes: int, stalls: float) -> None:
    rig = Rig(bus_bytes, seed=bus_bytes, stalls=stalls)
    rng = random.Random(100 + bus_bytes)

    async def bench(ctx: Any) -> None:
        await rig.send(ctx, Request(Command.OPEN, 0, 7, 24).to_bytes())
        await rig.send(ctx, Request(Command.WRITE_REGISTERS, 1, 7, 12, 16, bytes(range(12))).to_bytes())
        for number in range(2, 32):
            await rig.send(ctx, random_request(rng, number, 7).to_bytes())
        assert rig.reference.executed[:3] == [(16, 0x03020100), (20, 0x07060504), (24, 0x0B0A0908)]

    rig.run(bench)


def damaged(frame: bytes, rng: random.Random, one_in: int) -> bytes:
    """Drop, flip or double bytes, each about once in `one_in` bytes."""
    out = bytearray()
    for byte in frame:
        kind = rng.randrange(one_in)
        if kind == 0:
            continue
        out.append(byte ^ (1 << rng.randrange(8)) if kind == 1 else byte)
        if kind == 2:
            out.append(byte)
    return bytes(out)


@pytest.mark.parametrize("seed", range(2))
def test_damaged_frames_change_nothing_and_the_board_recovers(seed: int) -> None:
    rig = Rig(8, seed=seed, stalls=0.2)
    rng = random.Random(200 + seed)

    async def bench(ctx: Any) -> None:
        answered = 0
        await rig.send(ctx, Request(Command.OPEN, 0, 7, 24).to_bytes())
        for number in range(30):
            answered += bool(await rig.send(ctx, damaged(random_request(rng, number, 7).to_bytes(), rng, 60)))
            if rng.random() < 0.5:
                await rig.gap(ctx)
        assert answered >= 10
        await rig.gap(ctx)
        assert await rig.send(ctx, Request(Command.OPEN, 60, 9, 24).to_bytes())

    rig.run(bench)


def test_a_repeated_write_is_executed_once() -> None:
    rig = Rig(8)
    start = Request(Command.WRITE_REGISTERS, 5, 7, 4, 8, (1).to_bytes(4, "little")).to_bytes()

    async def bench(ctx: Any) -> None:
        await rig.send(ctx, Request(Command.OPEN, 4, 7, 24).to_bytes())
        first = await rig.send(ctx, start)
        assert await rig.send(ctx, start) == first
        assert rig.writes == [(8, 1)]
        await rig.send(ctx, Request(Command.READ_REGISTERS, 6, 7, 4, 8).to_bytes())
        await rig.send(ctx, start)
        assert rig.writes == [(8, 1)] * 2

    rig.run(bench)


def test_a_request_without_the_session_is_not_executed() -> None:
    rig = Rig(8)

    async def bench(ctx: Any) -> None:
        for session in (0, 7):
            await rig.send(ctx, Request(Command.WRITE_REGISTERS, 5, session, 4, 8, bytes(4)).to_bytes())
        await rig.send(ctx, Request(Command.OPEN, 4, 7, 24).to_bytes())
        await rig.send(ctx, Request(Command.WRITE_REGISTERS, 5, 8, 4, 8, bytes(4)).to_bytes())
        assert rig.writes == []

    rig.run(bench)


@pytest.mark.parametrize("write", [False, True], ids=["read", "write"])
def test_an_error_of_the_memory_is_reported(write: bool) -> None:
    rig = Rig(8)
    rig.broken = {64}
    rig.reference.broken = set(range(64, 72))

    async def bench(ctx: Any) -> None:
        await rig.send(ctx, Request(Command.OPEN, 4, 7, 24).to_bytes())
        if write:
            await rig.send(ctx, Request(Command.WRITE_MEMORY, 5, 7, 8, BASE + 64, b"12345678").to_bytes())
            await rig.send(ctx, Request(Command.WRITE_MEMORY, 6, 7, 8, BASE + 72, b"12345678").to_bytes())
        else:
            await rig.send(ctx, Request(Command.READ_MEMORY, 5, 7, 40, BASE + 40).to_bytes())
            await rig.send(ctx, Request(Command.READ_MEMORY, 6, 7, 40, BASE + 80).to_bytes())

    rig.run(bench)


def test_a_memory_that_does_not_answer_times_out_and_recovers() -> None:
    rig = Rig(8)
    rig.deaf_memory = True

    async def ask(ctx: Any, request: Request, status: int) -> None:
        for byte in request.to_bytes():
            ctx.set(rig.dut.rx_valid, 1)
            ctx.set(rig.dut.rx_data, byte)
            await ctx.tick()
            ctx.set(rig.dut.rx_valid, 0)
            await ctx.tick().repeat(3)
        size = request.size if status == 0 and not request.command & 1 else 0
        answer = await rig.receive(ctx, 12 + size)
        assert answer[2] == status

    async def bench(ctx: Any) -> None:
        await rig.send(ctx, Request(Command.OPEN, 4, 7, 24).to_bytes())
        await ask(ctx, Request(Command.READ_MEMORY, 5, 7, 8, BASE), 7)
        await ask(ctx, Request(Command.WRITE_MEMORY, 6, 7, 8, BASE, b"abcdefgh"), 7)
        await ask(ctx, Request(Command.READ_REGISTERS, 7, 7, 4, 8), 0)
        rig.deaf_memory = False
        await ask(ctx, Request(Command.WRITE_MEMORY, 8, 7, 8, BASE, b"ABCDEFGH"), 0)
        await ask(ctx, Request(Command.READ_MEMORY, 9, 7, 8, BASE), 0)
        assert rig.memory[:8] == b"ABCDEFGH"
        rig.reference.memory[:8] = b"ABCDEFGH"

    rig.run(bench)
