"""Memory and scratchpad as processes for the simulator, with stalls."""

import random
from collections import deque
from typing import Any

import numpy as np

__all__ = ["STALLS", "Stalls", "read_memory"]

#: Chances per cycle that a source is idle and that a sink refuses: no stall, gaps, back-pressure, both.
STALLS = ((0.0, 0.0), (0.5, 0.0), (0.0, 0.5), (0.5, 0.5))


class Stalls:
    """Random refusals; with a `chance` of 0 there are none."""

    def __init__(self, seed: int, chance: float) -> None:
        self.rng, self.chance = random.Random(seed), chance

    def go(self) -> bool:
        return self.rng.random() >= self.chance


def read_memory(port: Any, memory: np.ndarray, bus_bytes: int, latency: int, asking: Stalls, giving: Stalls, *,
                wrong: int | None = None, asked: list[int] | None = None, most_beats: int | None = None,
                waiting: deque[tuple[int, int, int]] | None = None) -> Any:
    """Return a process that answers MemoryReadSignature `port` in order.

    wrong : address of a beat that is an error, which is told a cycle after it with its burst's number
    asked : gets the addresses of all beats, as they are asked for
    most_beats : beats that the client may wait for, at most; waiting : holds the beats that are asked for and not given
    """
    waiting = deque() if waiting is None else waiting

    async def process(ctx: Any) -> None:
        now = number = 0
        late = False
        while True:
            ready = asking.go()
            ctx.set(port.burst.ready, ready)
            ctx.set(port.error, late)
            ctx.set(port.error_at, number)
            beat = None
            if waiting and waiting[0][0] <= now and giving.go():
                _, beat, number = waiting.popleft()
            late = beat is not None and beat == wrong
            ctx.set(port.valid, beat is not None)
            if beat is not None:
                ctx.set(port.data, int.from_bytes(memory[beat:beat + bus_bytes].tobytes(), "little"))
            _, _, valid, burst = await ctx.tick().sample(port.burst.valid, port.burst.payload)
            if valid and ready:
                assert burst.addr % bus_bytes == 0
                end = burst.addr + (burst.length + 1) * bus_bytes
                assert burst.addr // 256 == (end - 1) // 256, "a burst crosses 256 bytes"
                beats = range(burst.addr, end, bus_bytes)
                waiting.extend((now + latency, a, burst.number) for a in beats)
                if asked is not None:
                    asked.extend(beats)
                assert most_beats is None or len(waiting) <= most_beats, "more is asked for than there is room"
            now += 1
    return process
