"""Memory and scratchpad as processes for the simulator, with stalls."""

import random
from collections import deque
from typing import Any

import numpy as np

__all__ = ["Stalls", "read_memory"]


class Stalls:
    """Random refusals: `chance` of 0 never refuses."""

    def __init__(self, seed: int, chance: float) -> None:
        self.rng, self.chance = random.Random(seed), chance

    def go(self) -> bool:
        return self.rng.random() >= self.chance


def read_memory(port: Any, memory: np.ndarray, bus_bytes: int, latency: int, asking: Stalls, giving: Stalls) -> Any:
    """Return a process that answers MemoryReadSignature `port` in order."""
    async def process(ctx: Any) -> None:
        waiting: deque[tuple[int, int]] = deque()
        now = 0
        while True:
            ready = asking.go()
            ctx.set(port.burst.ready, ready)
            beat = waiting.popleft()[1] if waiting and waiting[0][0] <= now and giving.go() else None
            ctx.set(port.valid, beat is not None)
            if beat is not None:
                ctx.set(port.data, int.from_bytes(memory[beat:beat + bus_bytes].tobytes(), "little"))
            _, _, valid, burst = await ctx.tick().sample(port.burst.valid, port.burst.payload)
            if valid and ready:
                assert burst.addr % bus_bytes == 0
                end = burst.addr + (burst.length + 1) * bus_bytes
                assert burst.addr // 256 == (end - 1) // 256, "a burst crosses 256 bytes"
                waiting += [(now + latency, a) for a in range(burst.addr, end, bus_bytes)]
            now += 1
    return process
