"""Transfer rates of boards' memories."""

from tq_hw.boards.catalog.catalog import BOARDS
from tq_hw.boards.catalog.rates import memory_rate
from tq_hw.isa.memory import Memory


def test_rates_of_the_kinds_of_memory() -> None:
    ulx3s, arty = BOARDS["ulx3s_85f"], BOARDS["arty_a7"]
    assert memory_rate(ulx3s, ulx3s.memories[0]) == Memory(30, 1.61)
    assert memory_rate(arty, arty.memories[0]) == Memory(30, 7.75)
    ecpix5 = BOARDS["ecpix5_85f"]
    assert memory_rate(ecpix5, ecpix5.memories[0]) == Memory(30, 5.14)
    assert memory_rate(arty, arty.memories[1]) == Memory(6, 7.53)
    assert memory_rate(BOARDS["icebreaker"], BOARDS["icebreaker"].memories[0]).bytes_per_cycle < 4


def test_a_soft_core_has_a_clock_on_every_board() -> None:
    for board in BOARDS.values():
        assert board.core_clock_hz == (board.soc_clock_hz if board.soc_clock_hz else board.clock_hz) > 0
