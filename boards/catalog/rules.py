"""Rules for a board's record, from whichever package it comes."""

from collections import Counter
from collections.abc import Iterator

from tq_hw.boards.catalog.board import Board, Ddr3, Device, Memory, OnChip, Sdr, Spram, Toolchain
from tq_hw.boards.catalog.rates import DDR3_PHYS
from tq_hw.boards.gateware.uart import bit_cycles
from tq_hw.isa.config import Config

__all__ = ["broken_rule"]

#: Memory begins and ends at multiples of this.
_PAGE_BYTES = 256
_KINDS = (OnChip, Spram, Sdr, Ddr3)


def broken_rule(board: Board) -> str:
    """Return the first rule that a record breaks, as a sentence about what was found; "" if it breaks none."""
    return next(_broken(board), "")


def _broken(board: Board) -> Iterator[str]:
    for name, kind in (("device", Device), ("toolchain", Toolchain), ("config", Config), ("memories", tuple)):
        found = getattr(board, name)
        if not isinstance(found, kind):
            yield f"{name} must be a {kind.__name__}, not {found!r}"
    for name in ("clock_hz", "baud", "seeds"):
        found = getattr(board, name)
        if not isinstance(found, int) or found <= 0:
            yield f"{name} must be a whole number above 0, not {found!r}"
    try:
        bit_cycles(board.clock_hz, board.baud)
    except ValueError as error:
        yield str(error)
    if not board.memories:
        yield "memories must not be empty"
    for memory in board.memories:
        yield from _broken_memory(board, memory)
    for name, count in Counter(memory.name for memory in board.memories).items():
        if count > 1:
            yield f"{count} memories have the name {name!r}"


def _broken_memory(board: Board, memory: Memory) -> Iterator[str]:
    if not isinstance(memory, _KINDS):
        yield f"a memory must be one of {', '.join(kind.__name__ for kind in _KINDS)}, not {memory!r}"
    size, serial = memory.size_bytes, board.config.design == "serial"
    if size <= 0 or size % _PAGE_BYTES or size >= 1 << 32:
        yield f"{memory.name} must have a multiple of {_PAGE_BYTES} bytes below 2^32, not {size}"
    if isinstance(memory, Ddr3) and memory.phy not in DDR3_PHYS:
        yield f"{memory.name} has the PHY {memory.phy!r}, expected one of {', '.join(DDR3_PHYS)}"
    if isinstance(memory, Spram) and not (serial and board.toolchain is Toolchain.ICE40):
        yield f"{memory.name} is for a serial machine in an iCE40UP5K"
    if isinstance(memory, OnChip) and serial and size & size - 1:
        yield f"{memory.name} of a serial machine must have a power of two bytes, not {size}"
