"""The bridge from the machine's AXI4 to Wishbone: every byte at its address, with slaves of any speed."""

import random
from typing import Any

import pytest
from amaranth.sim import Simulator

from tq_hw.hdl.bus.wishbone_master import WishboneMaster
from tq_hw.isa.config import PRESETS

CONFIG = PRESETS["tiny"]
WIDTH = CONFIG.bus_bytes
WORDS = 64
BURSTS = 60


class Bench:
    """The machine's side by random bursts, a slave that waits and fails at random, and what memory should hold."""

    def __init__(self, seed: int, wait: float, fails: float = 0.0) -> None:
        self.rng, self.wait = random.Random(seed), wait
        self.dut = WishboneMaster(CONFIG)
        self.memory = [self.rng.getrandbits(8 * WIDTH) for _ in range(WORDS)]
        self.bad = {word for word in range(WORDS) if self.rng.random() < fails}
        self.cycles: list[tuple[int, ...]] = []

    async def slave(self, ctx: Any) -> None:
        """Answer in the cycle of the question, so that `ack` follows `stb` as fast as it may."""
        bus = self.dut.bus
        while True:
            stb, adr = ctx.get(bus.stb), ctx.get(bus.adr)
            answers = bool(stb) and self.rng.random() >= self.wait
            failed = adr in self.bad
            ctx.set(bus.ack, answers and not failed)
            ctx.set(bus.err, answers and failed)
            ctx.set(bus.dat_r, self.memory[adr] if answers and not failed else self.rng.getrandbits(8 * WIDTH))
            if answers:
                self.cycles.append((adr, ctx.get(bus.we), ctx.get(bus.cti), ctx.get(bus.bte)))
                if ctx.get(bus.we) and not failed:
                    word, strobes = ctx.get(bus.dat_w), ctx.get(bus.sel)
                    for lane in range(WIDTH):
                        if strobes >> lane & 1:
                            mask = 255 << 8 * lane
                            self.memory[adr] = self.memory[adr] & ~mask | word & mask
                assert ctx.get(bus.cyc) and (ctx.get(bus.we) or ctx.get(bus.sel) == (1 << WIDTH) - 1)
            await ctx.tick()

    async def read(self, ctx: Any, first: int, words: int, burst_id: int) -> list[tuple[int, int]]:
        """Return each word and its response."""
        axi = self.dut.axi
        ctx.set(axi.araddr, first * WIDTH)
        ctx.set(axi.arlen, words - 1)
        ctx.set(axi.arid, burst_id)
        ctx.set(axi.arvalid, 1)
        found: list[tuple[int, int]] = []
        while len(found) < words:
            taken, came, word, resp, last, answered = (await ctx.tick().sample(
                axi.arready, axi.rvalid, axi.rdata, axi.rresp, axi.rlast, axi.rid))[2:]
            if taken:
                ctx.set(axi.arvalid, 0)
            if came:
                found.append((word, resp))
                assert answered == burst_id and last == (len(found) == words)
        return found

    async def write(self, ctx: Any, first: int, words: list[tuple[int, int]]) -> int:
        """Write words with their strobes, not always one in each cycle; return the response."""
        axi = self.dut.axi
        ctx.set(axi.awaddr, first * WIDTH)
        ctx.set(axi.awlen, len(words) - 1)
        ctx.set(axi.awvalid, 1)
        left = list(words)
        offered = False
        while True:
            if left and not offered and self.rng.random() < 0.8:
                offered = True
                ctx.set(axi.wdata, left[0][0])
                ctx.set(axi.wstrb, left[0][1])
                ctx.set(axi.wlast, len(left) == 1)
            ctx.set(axi.wvalid, offered)
            taken, moved, answered, resp = (await ctx.tick().sample(
                axi.awready, axi.wready, axi.bvalid, axi.bresp))[2:]
            if taken:
                ctx.set(axi.awvalid, 0)
            if moved and offered:
                left.pop(0)
                offered = False
            if answered:
                assert not left
                return int(resp)

    async def machine(self, ctx: Any) -> None:
        """Random bursts, each checked against the memory before it."""
        rng = self.rng
        for _ in range(BURSTS):
            words = rng.choice((1, 2, 3, 8, 32))
            first = rng.randrange(WORDS - words + 1)
            at = range(first, first + words)
            seen = len(self.cycles)
            if rng.random() < 0.5:
                found = await self.read(ctx, first, words, rng.randrange(2))
                assert [resp for _, resp in found] == [2 * (word in self.bad) for word in at]
                assert [got for (got, resp) in found if not resp] == [self.memory[word] for word in at
                                                                      if word not in self.bad]
                writes = 0
            else:
                data = [(rng.getrandbits(8 * WIDTH), rng.choice(((1 << WIDTH) - 1, rng.getrandbits(WIDTH))))
                        for _ in at]
                wanted = list(self.memory)
                for word, (value, strobes) in zip(at, data, strict=True):
                    mask = sum(255 << 8 * lane for lane in range(WIDTH) if strobes >> lane & 1)
                    if word not in self.bad:
                        wanted[word] = wanted[word] & ~mask | value & mask
                assert await self.write(ctx, first, data) == 2 * any(word in self.bad for word in at)
                assert self.memory == wanted
                writes = 1
            assert self.cycles[seen:] == [(word, writes, 2 if word + 1 < first + words else 7, 0) for word in at]

    def run(self) -> None:
        simulator = Simulator(self.dut)
        simulator.add_clock(1e-8)
        simulator.add_testbench(self.slave, background=True)
        simulator.add_testbench(self.machine)
        simulator.run()


@pytest.mark.parametrize("wait", [0.0, 0.5])
@pytest.mark.parametrize("fails", [0.0, 0.3])
def test_every_word_goes_where_it_belongs(wait: float, fails: float) -> None:
    Bench(int(10 * wait), wait, fails).run()
