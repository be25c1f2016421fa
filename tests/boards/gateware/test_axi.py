"""Two masters on one memory: random bursts with random pauses, through every combination of parts in between."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from amaranth import ClockDomain, DomainRenamer, Module
from amaranth.lib import wiring
from amaranth.sim import Simulator

from tq_hw.boards.gateware.axi import DECODE_ERROR, AxiSignature, Crossing, Merge, Narrow
from tq_hw.boards.gateware.on_chip import BlockCells, OnChipMemory
from tq_hw.boards.gateware.widen import Widen

MEMORY_BYTES = 4096


class Path(wiring.Component):
    """Two masters of 8 bytes, a memory of `cell_bytes`, on the same clock or its own, and the parts in between."""

    def __init__(self, cell_bytes: int, crossing: bool, image: bytes) -> None:
        self.cell_bytes, self.crossing, self.image = cell_bytes, crossing, image
        super().__init__({"a": wiring.In(AxiSignature(8)), "b": wiring.In(AxiSignature(8))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.merge = merge = Merge(8, MEMORY_BYTES)
        memory: Any = OnChipMemory(BlockCells(self.cell_bytes, MEMORY_BYTES, self.image))
        m.submodules.memory = DomainRenamer("mem")(memory) if self.crossing else memory
        wiring.connect(m, wiring.flipped(self.a), merge.a)
        wiring.connect(m, wiring.flipped(self.b), merge.b)
        bus: Any = merge.o
        if self.cell_bytes < 8:
            m.submodules.narrow = narrow = Narrow(8, self.cell_bytes, 3)
            wiring.connect(m, bus, narrow.i)
            bus = narrow.o
        if self.crossing:
            m.domains.mem = ClockDomain()
            m.submodules.crossing = crossing = Crossing(min(8, self.cell_bytes), 3, "mem")
            wiring.connect(m, bus, crossing.i)
            bus = crossing.o
        if self.cell_bytes > 8:
            widen: Any = Widen(8, self.cell_bytes, 3, few_luts=self.crossing)
            m.submodules.widen = widen = DomainRenamer("mem")(widen) if self.crossing else widen
            wiring.connect(m, bus, widen.i)
            bus = widen.o
        wiring.connect(m, bus, memory.bus)
        return m


async def until(ctx: Any, condition: Any, *values: Any) -> list[int]:
    """Tick until `condition` held at the edge; return the values there. (Amaranth's own leaves a generator.)"""
    while True:
        _, _, held, *found = await ctx.tick().sample(condition, *values)
        if held:
            return found


class Master:
    """Random bursts on one port: first some writes, each with a response, then reads of what was written."""

    def __init__(self, port: Any, seed: int, base: int, memory: bytearray) -> None:
        self.port, self.rng, self.base, self.memory = port, random.Random(seed), base, memory
        self.beats_read = 0

    def bursts(self) -> list[tuple[int, int]]:
        """Return address and beats of a few bursts in this master's half; one may be beyond the memory."""
        found = []
        for _ in range(self.rng.randrange(1, 5)):
            beats = self.rng.choice((1, 2, 3, 16, 32))
            at = self.base + 256 * self.rng.randrange(8) + 8 * self.rng.randrange(0, 33 - beats)
            found.append((at, beats))
        if self.rng.random() < 0.3:
            found.insert(self.rng.randrange(len(found) + 1), (MEMORY_BYTES + 256 * self.rng.randrange(8), 4))
        return found

    async def pause(self, ctx: Any) -> None:
        while self.rng.random() < 0.3:
            await ctx.tick()

    async def send(self, ctx: Any, channel: str, **values: int) -> None:
        await self.pause(ctx)
        for name, value in values.items():
            ctx.set(getattr(self.port, channel + name), value)
        ctx.set(getattr(self.port, channel + "valid"), 1)
        await until(ctx, getattr(self.port, channel + "ready"))
        ctx.set(getattr(self.port, channel + "valid"), 0)

    async def receive(self, ctx: Any, channel: str, *names: str) -> list[int]:
        await self.pause(ctx)
        ctx.set(getattr(self.port, channel + "ready"), 1)
        values = await until(ctx, getattr(self.port, channel + "valid"),
                             *(getattr(self.port, channel + name) for name in names))
        ctx.set(getattr(self.port, channel + "ready"), 0)
        return values


async def writes(master: Master, ctx: Any, bursts: list[tuple[int, int]]) -> None:
    """Write random bytes; the model holds them once they are answered."""
    for at, beats in bursts:
        number = master.rng.randrange(2)
        await master.send(ctx, "aw", addr=at, len=beats - 1, id=number)
        for beat in range(beats):
            data, strobe = master.rng.getrandbits(64), master.rng.getrandbits(8)
            await master.send(ctx, "w", data=data, strb=strobe, last=beat == beats - 1)
            for lane in range(8):
                place = at + 8 * beat + lane
                if strobe >> lane & 1 and place < MEMORY_BYTES:
                    master.memory[place] = data >> 8 * lane & 255
        found, response = await master.receive(ctx, "b", "id", "resp")
        assert (found, response) == (number, DECODE_ERROR if at >= MEMORY_BYTES else 0)


async def reads(master: Master, ctx: Any, bursts: list[tuple[int, int]], asked: list[tuple[int, int, int]]) -> None:
    for at, beats in bursts:
        number = master.rng.randrange(2)
        asked.append((at, beats, number))
        await master.send(ctx, "ar", addr=at, len=beats - 1, id=number)


def simulate(cell_bytes: int, crossing: bool, mem_ns: int, rounds: int) -> int:
    """Run both masters concurrently; return the number of beats that were read and compared."""
    rng = random.Random(cell_bytes)
    memory = bytearray(rng.randbytes(MEMORY_BYTES))
    design = Path(cell_bytes, crossing, bytes(memory))
    masters = [Master(design.a, 1, 0, memory), Master(design.b, 2, 2048, memory)]
    simulator = Simulator(design)
    simulator.add_clock(10e-9)
    if crossing:
        simulator.add_clock(mem_ns * 1e-9, domain="mem")
    asked: list[list[tuple[int, int, int]]] = [[], []]

    def asker(index: int) -> Callable[[Any], Any]:
        async def run(ctx: Any) -> None:
            for _ in range(rounds):
                await writes(masters[index], ctx, masters[index].bursts())
                await reads(masters[index], ctx, masters[index].bursts(), asked[index])
                while asked[index]:
                    await ctx.tick()
        return run

    def answerer(index: int) -> Callable[[Any], Any]:
        master = masters[index]

        async def run(ctx: Any) -> None:
            while True:
                while not asked[index]:
                    await ctx.tick()
                at, beats, number = asked[index][0]
                for beat in range(beats):
                    found, data, response, last = await master.receive(ctx, "r", "id", "data", "resp", "last")
                    assert (found, last) == (number, beat == beats - 1)
                    if at < MEMORY_BYTES:
                        place = at + 8 * beat
                        assert data.to_bytes(8, "little") == memory[place:place + 8], hex(place)
                        assert response == 0
                    else:
                        assert response == DECODE_ERROR
                    master.beats_read += 1
                asked[index].pop(0)
        return run

    for index in range(2):
        simulator.add_testbench(asker(index))
        simulator.add_testbench(answerer(index), background=True)
    simulator.run()
    return sum(master.beats_read for master in masters)


@pytest.mark.parametrize(("cell_bytes", "crossing", "mem_ns"), [
    pytest.param(8, False, 10, id="same width, one clock"), pytest.param(2, False, 10, id="narrow"),
    pytest.param(2, True, 13, id="narrow, slower clock"), pytest.param(8, True, 7, id="same width, faster clock"),
    pytest.param(16, False, 10, id="wide"), pytest.param(32, True, 9, id="four times as wide, faster clock")])
def test_reads_return_what_was_written(cell_bytes: int, crossing: bool, mem_ns: int) -> None:
    assert simulate(cell_bytes, crossing, mem_ns, rounds=12) > 200
