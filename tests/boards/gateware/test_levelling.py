"""Read levelling with a model of PHY and DRAM: windows of any position and width, different for each byte."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from amaranth import Elaboratable, Module
from amaranth.sim import Simulator

from tq_hw.boards.gateware.levelling import Leveller
from tq_hw.boards.gateware.levelling_plan import PhyShape, plan_levelling
from tq_hw.boards.gateware.phy_model import ARTY_SHAPE, PhyModel, model_registers
from tq_hw.model.errors import OptionError

SMALL = PhyShape(phases=2, words=2, lanes=2, delays=8, slips=4, read_phase=1, write_phase=0)
WAKE = ((model_registers(SMALL)["sdram_dfii_control"], 14, 40),)
Eye = tuple[int, int, int]


class Bench(Elaboratable):
    """A leveller and the model."""

    def __init__(self, shape: PhyShape) -> None:
        registers = model_registers(shape)
        self.leveller = Leveller(plan_levelling(WAKE, registers, shape))
        self.phy = PhyModel(shape)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.leveller, m.submodules.phy = one, other = self.leveller, self.phy
        for name in ("adr", "dat_w", "we", "request"):
            m.d.comb += getattr(other, name).eq(getattr(one, name))
        m.d.comb += [one.dat_r.eq(other.dat_r), one.ack.eq(other.ack)]
        return m


def level(eyes: list[Eye], shape: PhyShape = SMALL, *, drift: int = 0) -> dict[str, Any]:
    """Return the result, and which bytes are correct then, and after the windows have moved by `drift` delays."""
    bench = Bench(shape)
    found: dict[str, Any] = {}

    def set_eyes(ctx: Any, moved: int) -> None:
        for lane, (first, length, slip) in enumerate(eyes):
            ctx.set(bench.phy.eyes[lane], {"first": first + moved, "length": length, "slip": slip})

    async def run(ctx: Any) -> None:
        set_eyes(ctx, 0)
        await ctx.tick().repeat(200)
        found["early"] = ctx.get(bench.phy.ready)
        await ctx.tick().until(bench.leveller.done | bench.leveller.failed)
        found.update({name: ctx.get(value) for name, value in (
            ("done", bench.leveller.done), ("failed", bench.leveller.failed), ("bad", bench.leveller.bad),
            ("ready", bench.phy.ready), ("error", bench.phy.error), ("good", bench.phy.good))})
        windows = [ctx.get(bench.leveller.windows[lane]) for lane in range(shape.lanes)]
        found["windows"] = [(one.first, one.length, one.slip, one.delay) for one in windows]
        set_eyes(ctx, drift)
        found["drifted"] = ctx.get(bench.phy.good)

    simulator = Simulator(bench)
    simulator.add_clock(1e-8)
    simulator.add_testbench(run)
    simulator.run()
    return found


@pytest.mark.parametrize(("eyes", "windows"), [
    ([(2, 4, 1), (5, 2, 3)], [(2, 4, 1, 4), (5, 2, 3, 6)]),
    ([(0, 8, 0), (7, 1, 2)], [(0, 8, 0, 4), (7, 1, 2, 7)]),
])
def test_each_byte_gets_the_middle_of_its_window(eyes: list[Eye], windows: list[tuple[int, ...]]) -> None:
    found = level(eyes)
    assert found == {"early": 0, "done": 1, "failed": 0, "bad": 0, "ready": 1, "error": 0, "good": 3,
                     "windows": windows, "drifted": 3}


def test_windows_of_an_artix() -> None:
    """Random windows, with an Artix's numbers of delays and bitslips; later they move by almost half their width."""
    random = Random(7)
    eyes = [(random.randrange(4, 16), random.randrange(9, 14), slip) for slip in random.sample(range(8), 2)]
    found = level(eyes, ARTY_SHAPE, drift=-4)
    assert (found["done"], found["good"], found["drifted"]) == (1, 3, 3)
    assert [window[:3] for window in found["windows"]] == eyes


def test_levelling_fails_if_one_byte_has_no_window() -> None:
    found = level([(0, 0, 0), (3, 3, 3)])
    assert found == {"early": 0, "done": 0, "failed": 1, "bad": 1, "ready": 0, "error": 1, "good": 2,
                     "windows": [(0, 0, 0, 0), (3, 3, 3, 4)], "drifted": 2}


def test_a_wider_dram_is_rejected() -> None:
    """Bytes that are not compared would seem correct at every setting."""
    wide = replace(SMALL, lanes=8)
    with pytest.raises(OptionError, match="^a DRAM 8 bytes wide cannot be levelled here: expected 2 or fewer$"):
        plan_levelling(WAKE, model_registers(wide), wide)
