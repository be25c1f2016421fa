"""A bench for components without back pressure: one case goes in and one result comes out every cycle."""

from collections.abc import Sequence
from typing import Any

from amaranth.sim import Simulator, SimulatorContext

Case = dict[str, int]


def rtl(component: Any, cases: Sequence[Case], when: dict[str, int] | None = None, output: str = "y") -> list[int]:
    """Give one case per cycle to the inputs (`when`: cycles after the operand) and collect one result per cycle."""
    when = when or {}
    latency = component.LATENCY_CYCLES
    results: list[int] = []

    async def bench(ctx: SimulatorContext) -> None:
        for cycle in range(-1, len(cases) + latency):
            for name in cases[0]:
                at = cycle - when.get(name, 0)
                if 0 <= at < len(cases):
                    ctx.set(getattr(component, name), cases[at][name])
            if cycle >= latency:
                results.append(ctx.get(getattr(component, output)))
            await ctx.tick()

    sim = Simulator(component)
    sim.add_clock(1e-8)
    sim.add_testbench(bench)
    sim.run()
    return results
