"""All boards: those of this package, and those that other packages declare by an entry point.

A package adds a board through an entry point of the group `tq_hw.boards`: its name is the board's, its object the
`Board`. The module is imported when the board is requested or when all boards are listed.
"""

from collections.abc import Iterator
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points

from tq_hw.boards.catalog import (
    arty_a7,
    arty_a7_100,
    ecpix5_85f,
    icebreaker,
    icesugar_pro,
    tang_primer_20k,
    ulx3s_85f,
)
from tq_hw.boards.catalog.board import Board, Memory
from tq_hw.boards.catalog.rules import broken_rule
from tq_hw.model.errors import OptionError

__all__ = ["BOARDS", "GROUP", "all_boards", "board_names", "find_board", "find_memory"]

#: Boards of this package.
BOARDS: dict[str, Board] = {module.BOARD.name: module.BOARD for module in (
    arty_a7, arty_a7_100, ecpix5_85f, icebreaker, icesugar_pro, tang_primer_20k, ulx3s_85f)}
#: Entry points of other packages.
GROUP = "tq_hw.boards"


def _others() -> dict[str, list[EntryPoint]]:
    """Return the entry points by name; several packages may declare boards of the same name."""
    found: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=GROUP):
        found.setdefault(point.name, []).append(point)
    return found


def _package(point: EntryPoint) -> str:
    return f"package {point.dist.name}" if point.dist is not None else f"entry point {point.value}"


def board_names() -> list[str]:
    """Return the names of all boards; nothing is imported."""
    return [*BOARDS, *(name for name in sorted(_others()) if name not in BOARDS)]


def find_board(name: str) -> Board:
    """Return the board of that name; OptionError lists all names, or says what is wrong with a package."""
    points = _others().get(name, [])
    if name in BOARDS and not points:
        return BOARDS[name]
    if len(points) + (name in BOARDS) > 1:
        sources = [*(["tq-hw"] if name in BOARDS else []), *map(_package, points)]
        raise OptionError(f"there is more than one board {name!r}: of {' and of '.join(sources)}; uninstall one, or "
                          "give it another name")
    if points:
        return _load(points[0])
    near = get_close_matches(name.lower(), board_names(), 1)
    raise OptionError(f"no board {name!r}: expected one of {', '.join(board_names())}"
                      + "".join(f"; did you mean {one}?" for one in near))


def _load(point: EntryPoint) -> Board:
    """Return the board of an entry point; OptionError if it cannot be loaded."""
    where = f"board {point.name!r} of {_package(point)}"
    try:
        found = point.load()
    except Exception as error:
        # A module of another package may raise anything.
        raise OptionError(f"{where} cannot be loaded: {type(error).__name__}: {error}") from error
    if not isinstance(found, Board):
        raise OptionError(f"{where}: {point.value} is not a tq_hw.boards.catalog.board.Board but "
                          f"{type(found).__name__}")
    if found.name != point.name:
        raise OptionError(f"{where}: the Board there is called {found.name!r}; entry point and board must have the "
                          "same name")
    if rule := broken_rule(found):
        raise OptionError(f"{where}: {rule}")
    return found


def all_boards() -> Iterator[Board]:
    """Yield every board; OptionError at one that cannot be loaded."""
    for name in board_names():
        yield find_board(name)


def find_memory(board: Board, name: str | None) -> Memory:
    """Return the memory of `board` named `name`, by default its first; OptionError lists the names."""
    if name is None:
        return board.memories[0]
    for memory in board.memories:
        if memory.name == name:
            return memory
    raise OptionError(f"{board.name} has no memory {name!r}: expected "
                      + " or ".join(repr(memory.name) for memory in board.memories))
