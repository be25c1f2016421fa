"""The registers with a host and the units around them, each of their signals by its name."""

from collections.abc import Callable
from functools import cache
from typing import Any

from bench import Bench

from tq_hw.hdl.control.registers import RESET_CYCLES, Registers
from tq_hw.hdl.parts.numbers import NUMBER_BITS
from tq_hw.isa.config import PRESETS, Config
from tq_hw.isa.control import (
    REGISTERS,
    Status,
)
from tq_hw.isa.layout import Unit

TINY = PRESETS["tiny"]
OFFSETS = {register.name: register.offset_bytes for register in REGISTERS}
START, STOP = 1, 2
#: Written registers, and the bits that they keep.
KEPT = {"command_offset": 0xFFFFFFF0, "command_bytes": 0xFFFFFFFC, "watchdog": 0xFFFFFFFF,
        **{f"base{n}": 0xFFFFFFF0 for n in range(4)}}
#: Cycles from an error or END of the units to `status`.
NEWS_CYCLES = 4


class Host:
    """The machine seen from its bus; it notes what goes to the units in each cycle."""

    def __init__(self, ctx: Any, dut: Any) -> None:
        self.ctx, self.dut = ctx, dut
        self.starts: list[int] = []
        self.resets: list[int] = []
        self.halts: list[int] = []
        self.now = 0

    async def tick(self, cycles: int = 1) -> None:
        for _ in range(cycles):
            *_, start, reset, halt = await self.ctx.tick().sample(
                self.dut.start, self.dut.reset_units, self.dut.halt)
            for seen, value in ((self.starts, start), (self.resets, reset), (self.halts, halt)):
                if value:
                    seen.append(self.now)
            self.now += 1

    async def write(self, name: str | int, value: int) -> None:
        self.ctx.set(self.dut.addr, OFFSETS[name] if isinstance(name, str) else name)
        self.ctx.set(self.dut.write_data, value)
        self.ctx.set(self.dut.write_en, 1)
        await self.tick()
        self.ctx.set(self.dut.write_en, 0)

    async def read(self, name: str | int) -> int:
        self.ctx.set(self.dut.addr, OFFSETS[name] if isinstance(name, str) else name)
        await self.tick(2)
        return self.ctx.get(self.dut.read_data)

    async def rest(self) -> None:
        """Wait until the machine must be at rest: it was drained, the units were reset and are ready."""
        self.ctx.set(self.dut.channels_idle, 1)
        await self.tick(2 * RESET_CYCLES + 4)
        self.starts, self.resets, self.halts = [], [], []

    async def begin(self) -> None:
        """Start a machine at rest; the cycle that follows is the first of the run."""
        await self.write("control", START)
        await self.tick()
        assert self.starts == [self.now - 1]

    async def fail(self, unit: Unit, code: Status, run: int = 0, started: int | None = None, grows: int = 1) -> None:
        """Let a unit say an error about a RUN, by default the last one it started, and let that come to the status.

        Meanwhile the unit starts `grows` more.
        """
        started = run + 1 if started is None else started
        self.ctx.set(self.dut.errors[unit], code)
        self.ctx.set(self.dut.error_at[unit], run % (1 << NUMBER_BITS))
        self.ctx.set(self.dut.runs[unit], started)
        await self.tick()
        self.ctx.set(self.dut.errors[unit], 0)
        self.ctx.set(self.dut.error_at[unit], (run + 3) % (1 << NUMBER_BITS))
        self.ctx.set(self.dut.runs[unit], started + grows)
        await self.tick(NEWS_CYCLES)

    async def finish(self, cycles: int = NEWS_CYCLES) -> None:
        """Let the units say that END was met and all is done; that stays so until they are reset."""
        self.ctx.set(self.dut.finished, 1)
        await self.tick(cycles)
        self.ctx.set(self.dut.finished, 0)

    async def status(self) -> tuple[int, int, int, int]:
        status, code, unit, index = [await self.read(name) for name in (
            "status", "error_code", "error_unit", "error_index")]
        return status, code, unit, index


@cache
def registers(config: Config = TINY) -> tuple[Any, Bench]:
    dut = Registers(config)
    return dut, Bench(dut)


def simulate(bench: Callable[[Host], Any], config: Config = TINY, *, rested: bool = True) -> None:
    dut, simulator = registers(config)

    async def run(ctx: Any) -> None:
        host = Host(ctx, dut)
        if rested:
            await host.rest()
        await bench(host)

    simulator.run(run)


async def until_reset(host: Host) -> int:
    """Return the cycle in which the reset of the units begins."""
    host.resets = []
    while not host.resets:
        await host.tick()
        assert host.now < 1000
    return host.resets[0]
