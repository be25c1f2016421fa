"""The serial machine's memory with a small scratchpad gives the same words as the full one."""

from random import Random
from typing import Any

from amaranth import Module
from amaranth.sim import Simulator

from tq_hw.boards.gateware.serial_cells import SmallCells
from tq_hw.hdl.serial.cells import Cells
from tq_hw.hdl.serial.encoding import CELL_WORDS, PRIVATE_WORDS

SCRATCHPAD_BYTES = 2 << 10


def test_reads_and_writes_are_those_of_the_full_memory() -> None:
    """Words of both parts in any order, single bytes, and reads that follow writes to the other part."""
    m = Module()
    m.submodules.small, m.submodules.full = small, full = SmallCells(SCRATCHPAD_BYTES), Cells()
    random = Random(3)
    places = [random.randrange(SCRATCHPAD_BYTES // 4) for _ in range(8)]
    places += [random.randrange(PRIVATE_WORDS, CELL_WORDS) for _ in range(8)]

    async def run(ctx: Any) -> None:
        for _ in range(600):
            addr, write, value = random.choice(places), random.choice((0, 0, 15, 1, 6)), random.getrandbits(32)
            for cells in (small, full):
                ctx.set(cells.addr, addr)
                ctx.set(cells.write, write)
                ctx.set(cells.wdata, value)
            await ctx.tick()
            if not write:
                assert ctx.get(small.rdata) == ctx.get(full.rdata)

    simulator = Simulator(m)
    simulator.add_clock(1e-8)
    simulator.add_testbench(run)
    simulator.run()
