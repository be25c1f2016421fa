"""A simulator that is built once and run many times."""

from collections.abc import Awaitable, Callable
from typing import Any

from amaranth.sim import Simulator

__all__ = ["Bench", "Process"]

#: A process of the simulator: it gets the context, and waits for nothing but single ticks of the clock.
Process = Callable[[Any], Awaitable[None]]


class Bench:
    """Run processes on `dut`, each time from power-on. Built once: that takes longer than most tests."""

    def __init__(self, dut: Any, processes: int = 3) -> None:
        self._chosen: list[Process] = []
        self._simulator = Simulator(dut)
        self._simulator.add_clock(1e-8)
        for index in range(processes):
            self._simulator.add_testbench(self._slot(index), background=index < processes - 1)
        self._processes = processes
        self._fresh = True

    def run(self, *processes: Process) -> None:
        """Run until the last process ends."""
        self._chosen = [*[_nothing] * (self._processes - len(processes)), *processes]
        # A reset would drop processes that never started, and Python warns of those.
        if not self._fresh:
            self._simulator.reset()
        self._fresh = False
        self._simulator.run()

    def _slot(self, index: int) -> Any:
        async def process(ctx: Any) -> None:
            await self._chosen[index](ctx)
            # A process that ended must not be woken in the next run by what its slot waited for in this one.
            while index < self._processes - 1:
                await ctx.tick()
        return process


async def _nothing(ctx: Any) -> None:
    """Take the slot of a process that there is none for."""
