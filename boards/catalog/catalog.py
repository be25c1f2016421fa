"""The boards that there are."""

from difflib import get_close_matches

from tq_hw.boards.catalog import arty_a7, arty_a7_100, ecpix5_85f, icebreaker, icesugar_pro, ulx3s_85f
from tq_hw.boards.catalog.board import Board, Memory
from tq_hw.model.errors import OptionError

__all__ = ["BOARDS", "find_board", "find_memory"]

BOARDS: dict[str, Board] = {module.BOARD.name: module.BOARD for module in (
    arty_a7, arty_a7_100, ecpix5_85f, icebreaker, icesugar_pro, ulx3s_85f)}


def find_board(name: str) -> Board:
    """Return the board of that name; OptionError says which there are."""
    if name in BOARDS:
        return BOARDS[name]
    near = get_close_matches(name, BOARDS, 1)
    raise OptionError(f"no board {name!r}: expected one of {', '.join(BOARDS)}" + "".join(f"; did you mean {one}?"
                                                                                      for one in near))


def find_memory(board: Board, name: str | None) -> Memory:
    """Return the memory of `board` that is called `name`, by default its first; OptionError says which there are."""
    if name is None:
        return board.memories[0]
    for memory in board.memories:
        if memory.name == name:
            return memory
    raise OptionError(f"{board.name} has no memory {name!r}: expected "
                      + " or ".join(repr(memory.name) for memory in board.memories))
