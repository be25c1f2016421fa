"""Dividers of the PLLs: rates that are exact to the hertz, within the limits of the data sheets, or an error."""

from collections.abc import Callable, Sequence
from fractions import Fraction

import pytest

from tq_hw.boards.build.top import board_clocks, input_hz, load_platform
from tq_hw.boards.catalog.board import Toolchain
from tq_hw.boards.catalog.catalog import BOARDS
from tq_hw.boards.gateware.pll import Clock, PllPlan, plan_ecp5, plan_ice40, plan_xilinx
from tq_hw.model.errors import OptionError

MHZ = 1_000_000
Plan = Callable[[int, Sequence[Clock]], PllPlan]
#: Planner; lowest and highest rate, in MHz, of the phase detector and of the oscillator.
LIMITS: dict[Toolchain, tuple[Plan, int, int, int, int]] = {
    Toolchain.ECP5: (plan_ecp5, 10, 400, 400, 800), Toolchain.XILINX: (plan_xilinx, 19, 450, 800, 1600),
    Toolchain.ICE40: (plan_ice40, 10, 133, 533, 1066),
}


def check(plan: PllPlan, clocks: Sequence[Clock], limits: tuple[Plan, int, int, int, int]) -> None:
    _, detector_low, detector_high, low, high = limits
    detector = Fraction(plan.input_hz, plan.input_div)
    assert detector_low * MHZ <= detector <= detector_high * MHZ
    oscillator = detector * plan.multiply
    assert low * MHZ <= oscillator <= high * MHZ
    for clock, div, lag in zip(clocks, plan.divs, plan.phase_eighths, strict=True):
        assert round(oscillator / div) == clock.hz
        assert Fraction(lag, 8 * div) * 360 == clock.phase_degrees


@pytest.mark.parametrize("name", BOARDS)
def test_every_board_has_its_clocks(name: str) -> None:
    board = BOARDS[name]
    given = input_hz(load_platform(board))
    for memory in board.memories:
        clocks = board_clocks(board, memory)
        if [clock.hz for clock in clocks] == [given]:
            continue
        limits = LIMITS[board.toolchain]
        check(limits[0](given, clocks), clocks, limits)


def test_feedback_of_an_ecp5_comes_from_the_first_clock() -> None:
    plan = plan_ecp5(25 * MHZ, [Clock(100 * MHZ), Clock(75 * MHZ), Clock(75 * MHZ, 90)])
    assert plan == PllPlan(25 * MHZ, 1, 24, (6, 8, 8), (0, 0, 16), 6)
    assert plan.outputs_hz == (100 * MHZ, 75 * MHZ, 75 * MHZ)


def test_a_third_of_a_rate_is_given_to_the_hertz() -> None:
    assert plan_ecp5(25 * MHZ, [Clock(100 * MHZ), Clock(83_333_333)]) == PllPlan(25 * MHZ, 1, 20, (5, 6), (0, 0), 5)


@pytest.mark.parametrize("hz", [83_333_332, 83_333_334])
def test_a_rate_one_hertz_off_is_rejected(hz: int) -> None:
    with pytest.raises(OptionError, match=r"^EHXPLLL cannot make .* exactly; "):
        plan_ecp5(25 * MHZ, [Clock(100 * MHZ), Clock(hz)])


def test_dividers_of_the_other_families() -> None:
    assert plan_xilinx(100 * MHZ, [Clock(120 * MHZ)]) == PllPlan(100 * MHZ, 1, 12, (10,), (0,))
    assert plan_ice40(12 * MHZ, [Clock(24 * MHZ)]) == PllPlan(12 * MHZ, 1, 64, (32,), (0,))


@pytest.mark.parametrize(("plan", "given", "clocks", "message"), [
    (plan_ecp5, 25 * MHZ, [Clock(333_333_333)],
     "EHXPLLL cannot make 333.333 MHz from 25 MHz exactly; choose rates that divide one oscillator rate of 400 to 800 "
     "MHz, a multiple of a divider of the input"),
    (plan_ecp5, 25 * MHZ, [Clock(100 * MHZ), Clock(75 * MHZ, 7)],
     "EHXPLLL cannot make 100 MHz, 75 MHz at 7 degrees from 25 MHz exactly; choose rates that divide one oscillator "
     "rate of 400 to 800 MHz, a multiple of a divider of the input"),
    (plan_ice40, 12 * MHZ, [Clock(7 * MHZ)],
     "SB_PLL40_PAD cannot make 7 MHz from 12 MHz exactly; choose rates that divide one oscillator rate of 533 to 1066 "
     "MHz, a multiple of a divider of the input"),
    (plan_ice40, 12 * MHZ, [Clock(24 * MHZ)] * 2, "SB_PLL40_PAD makes 1 to 1 clocks, not 2"),
    (plan_xilinx, 0, [Clock(100 * MHZ)], "PLLE2_ADV: the input's rate must be positive, not 0 Hz"),
    (plan_xilinx, 100 * MHZ, [Clock(100 * MHZ, 360)],
     "PLLE2_ADV: a clock has a positive rate and a phase of 0 to 359 degrees, not 100000000 Hz and 360 degrees"),
])
def test_rates_that_are_not_exact_are_errors(plan: Plan, given: int, clocks: list[Clock], message: str) -> None:
    with pytest.raises(OptionError) as error:
        plan(given, clocks)
    assert str(error.value) == message
