"""MacArray: the latency of slots, the wave of new weights, the filter over the column bytes."""

import random
from typing import Any

import numpy as np
import pytest
from amaranth.sim import Simulator

from tq_hw.hdl.array.grid import MacArray
from tq_hw.isa.config import Config
from tq_hw.isa.latency import array_latency_cycles

CONFIGS = [Config(name, rows, cols, 1, 8 << 10, dsp_preadders=preadders)
           for name, rows, cols in (("a", 4, 3), ("b", 9, 4)) for preadders in (0, 1)]
#: One of each kind: groups with and without partners, rows alone, one chain and two.
PACKED = [Config("packed", rows, 2, 1, 16 << 10, dsp_packing=2)
          for rows in (3, 4, 5, 6, 7, 8, 9, 10, 11, 16, 17, 21, 32)]


def stimulus(config: Config, seed: int) -> tuple[list[dict[str, Any]], list[np.ndarray | None]]:
    """Return the inputs of each cycle, and the sums of the slot of each cycle; None: one of two that is cut."""
    rng, rows, cols = np.random.default_rng(seed), config.rows, config.cols
    extremes = np.array([-128, -128, 127, -1, 0])
    slots, weights = [], np.zeros((rows, cols), np.int64)
    writes: dict[int, tuple[int, np.ndarray]] = {}
    pick = random.Random(seed)
    at = rows + 2
    while at < 200:
        # The rows of a step come right after the wave of the step before, which is at least `rows` ago.
        used = pick.randrange(1, rows + 1)
        new = np.zeros((rows, cols), np.int64)
        values = extremes if pick.random() < 0.3 else np.arange(-128, 128)
        new[:used] = rng.choice(values, (used, cols))
        writes |= {at - rows + r: (r, new[r]) for r in range(used)}
        slots.append((at, new))
        at += rows + pick.randrange(3)
    starts = dict(slots)
    x = rng.integers(-128, 128, (at + 3, config.groups, cols))
    cycles: list[dict[str, Any]] = []
    sums: list[np.ndarray | None] = []
    step = 0
    for t in range(at):
        a, sel = rng.integers(-128, 128, rows), rng.integers(0, 2, rows)
        if t in starts:
            if config.dsp_packing and sums and (t - step) % 2:
                sums[-1] = None
            weights, step = starts[t], t
        total = np.zeros(cols, np.int64)
        for r in range(rows):
            group, tap = divmod(r, 3)
            byte = x[t + tap, group] if sel[r] and group < config.groups else a[r]
            total += byte * weights[r]
        sums.append(total)
        row, weight = writes.get(t, (None, np.zeros(cols, np.int64)))
        cycles.append({"a": a.tolist(), "x": x[t].reshape(-1).tolist(), "swap": int(t in starts),
                       "sel": int(sum(s << r for r, s in enumerate(sel))), "weight": weight.tolist(),
                       "weight_row": 0 if row is None else 1 << row})
    return cycles, sums


@pytest.mark.parametrize("config", CONFIGS + PACKED, ids=lambda c: f"{c.rows}x{c.cols}{'+' * c.dsp_preadders}")
def test_sums(config: Config) -> None:
    cycles, want = stimulus(config, seed=config.rows)
    dut, got = MacArray(config), []

    async def bench(ctx: Any) -> None:
        for values in cycles:
            for name, value in values.items():
                ctx.set(getattr(dut, name), value)
            got.append(list(ctx.get(dut.psum)))
            await ctx.tick()

    sim = Simulator(dut)
    sim.add_clock(1e-6)
    sim.add_testbench(bench)
    sim.run()
    latency, first = array_latency_cycles(config), config.rows + 2
    for t in range(first, len(cycles) - latency):
        wanted = want[t]
        assert wanted is None or got[t + latency] == wanted.tolist(), f"slot {t}"
