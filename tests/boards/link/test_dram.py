"""What the host reads about a DRAM that is levelled, and its messages when levelling fails."""

from typing import Any

import pytest
from amaranth.sim import Simulator

from tq_hw.boards.gateware.board_status import BoardStatus
from tq_hw.boards.link import dram
from tq_hw.boards.link.dram import DramStatus, Window, await_dram, described, in_words, read_dram
from tq_hw.boards.link.port import LinkError
from tq_hw.boards.link.protocol import DRAM_REGISTERS, DramState
from tq_hw.isa.control import REGISTERS


class Board:
    """A link whose registers have given values; the last ones remain."""

    def __init__(self, *answers: tuple[int, int, int]) -> None:
        self.answers = list(answers)

    def dram_words(self) -> list[int]:
        return list(self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])


def test_board_registers_are_above_the_accelerators() -> None:
    assert max(register.offset_bytes for register in REGISTERS) < DRAM_REGISTERS[0].offset_bytes


def test_windows_are_read_after_levelling() -> None:
    board: Any = Board((1, 0, 0), (2, 0x09_03_07_05, 0x01_00_02_00))
    assert await_dram(board) == DramStatus(DramState.READY, (Window(5, 7, 3, 9), Window(0, 2, 0, 1)), ())


def test_dram_in_a_report() -> None:
    status = DramStatus(DramState.READY, (Window(5, 7, 3, 8), Window(0, 2, 0, 1)), ())
    assert described(status) == {"state": "READY", "windows": [
        {"first": 5, "length": 7, "slip": 3, "delay": 8}, {"first": 0, "length": 2, "slip": 0, "delay": 1}]}
    assert in_words(status) == ("byte 0: 7 delays from 5 on at bitslip 3, 8 is set; byte 1: 2 delays from 0 on at "
                                "bitslip 0, 1 is set")
    none = DramStatus(DramState.NONE, (), ())
    assert (described(none), in_words(none)) == (None, "")


def test_messages_of_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    failed: Any = Board((0x303, 0, 0))
    assert read_dram(failed).failed == (0, 1)
    for board, message in (
            (failed, "the board's DRAM did not come up: no setting reads byte 0 and byte 1 correctly; reset the "
                     "board, or build it for the DRAM chip that it has"),
            (Board((9, 0, 0)), "the state of the board's DRAM is not valid: 9"),
            (Board((1, 0, 0)), "the levelling of the board's DRAM has not finished after 0 seconds: check the clock of "
                               "the DRAM's controller")):
        monkeypatch.setattr(dram, "_PATIENCE_SECONDS", 0)
        link: Any = board
        with pytest.raises(LinkError) as error:
            await_dram(link)
        assert str(error.value) == message


def test_registers_of_the_board_and_the_accelerator_share_a_bus() -> None:
    status = BoardStatus()
    seen = []

    async def run(ctx: Any) -> None:
        ctx.set(status.inner_read_data, 0x77)
        ctx.set(status.bad, 2)
        ctx.set(status.windows[1], {"first": 1, "length": 2, "slip": 3, "delay": 4})
        for ended in ((), ("done",), ("done", "failed"), ("failed",)):
            for name in ("done", "failed"):
                ctx.set(getattr(status, name), name in ended)
            await ctx.tick().repeat(3)
            words = []
            for address in (0xC4, 0xE0, 0xE8, 0xFC):
                ctx.set(status.reg_addr, address)
                await ctx.tick().repeat(2)
                words.append(ctx.get(status.reg_read_data))
            seen.append(words)

    simulator = Simulator(status)
    simulator.add_clock(1e-8)
    simulator.add_testbench(run)
    simulator.run()
    window = 0x04030201
    assert seen == [[0x77, 1, 0, 0], [0x77, 0x202, window, 0], [0x77, 0x202, window, 0], [0x77, 0x203, window, 0]]
