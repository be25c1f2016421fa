"""Bit slips of a 7-series PHY: the same shifts as LiteDRAM's own, but one counter for all pins of a byte."""

import random
import re
from collections import Counter
from typing import Any

import litedram.common
import pytest
from migen import Module, Signal, run_simulation

from tq_hw.boards.build.dram_core import core_description, generate_core
from tq_hw.boards.build.lean_phy import Slip
from tq_hw.boards.catalog import arty_a7

CYCLES = 400


def shifted(slip: Any, writes: bool, seed: int, strobed: bool) -> list[int]:
    """Return what a bit slip gives in each cycle; with `strobed`, resets and slips are strobed as by a PHY."""
    rng, found = random.Random(seed), []
    m = Module()
    lanes, again, on, word = Signal(2), Signal(), Signal(), Signal(8)
    given = {"i": word} if writes else {}
    m.submodules.dut = dut = slip(8, rst=lanes[1] & again, slp=lanes[1] & on, cycles=1, **given)
    if not writes:
        m.comb += dut.i.eq(word)

    def bench() -> Any:
        for _ in range(CYCLES):
            yield word.eq(rng.getrandbits(8))
            yield lanes.eq(rng.randrange(4))
            yield again.eq(strobed and rng.random() < 0.02)
            yield on.eq(strobed and rng.random() < 0.5)
            yield
            found.append((yield dut.o))

    run_simulation(m, bench())
    return found


@pytest.fixture(autouse=True)
def _no_counters() -> None:
    Slip.counts = {}


@pytest.mark.parametrize("seed", range(3))
def test_reads_are_shifted_as_litedram_shifts_them(seed: int) -> None:
    assert shifted(Slip, False, seed, True) == shifted(litedram.common.BitSlip, False, seed, True)


def test_writes_are_shifted_as_litedram_shifts_them_after_a_reset() -> None:
    wanted = shifted(litedram.common.BitSlip, True, 1, False)
    assert shifted(Slip, True, 1, False) == wanted
    assert len(set(wanted)) > 100


def test_pins_of_a_byte_have_one_counter() -> None:
    m = Module()
    lanes, again, on = Signal(2), Signal(), Signal()
    for lane in (0, 0, 1, 0):
        m.submodules += Slip(8, rst=lanes[lane] & again, slp=lanes[lane] & on, cycles=1)
    assert len(Slip.counts) == 2
    other = Signal()
    m.submodules += Slip(8, rst=lanes[0] & other, slp=lanes[0] & on, cycles=1)
    assert len(Slip.counts) == 3


def test_the_core_of_a_board_has_a_counter_for_each_byte_and_no_phases_to_choose() -> None:
    core = generate_core(core_description(arty_a7.DDR3, arty_a7.BOARD.device.name, 100_000_000))
    assert len(re.findall(r"^reg +\[2:0\] +\w+_slip ", core.verilog, re.MULTILINE)) == 2
    phases = re.findall(r"\w*(?:rd|wr)phase_storage\b", core.verilog)
    # Each is declared, set, reset and read back; nothing else reads it.
    assert sorted(Counter(phases).values()) == [4, 4]
