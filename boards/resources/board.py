"""A machine on a board: what clocks, link and memory add to it, and whether all of it fits."""

from collections.abc import Mapping

from tq_hw.boards.catalog.board import FAMILIES, Board, Memory
from tq_hw.boards.resources.model import Resources, estimate_resources
from tq_hw.boards.resources.record import KINDS, BoardRecord, boards
from tq_hw.isa.config import Config
from tq_hw.model.errors import UnsupportedError

__all__ = ["BOARD_UNIT", "LIMITED", "board_resources", "recorded_memories", "shortages", "taken"]

#: The unit that is everything on a board but the machine.
BOARD_UNIT = "board"
#: What a device has a number of.
LIMITED = ("luts", "flip_flops", "multipliers", "block_rams")
#: LUTs that a carry cell and a small RAM stand in; for a 7 series LUTs are counted with them. nextpnr-ecp5 begins and
#: ends chains of carries in cells of their own: of five boards of 24,684 to 42,777 LUTs these are off by 63 at most.
_STAND_IN = {"ecp5": (2.4, 6.5), "gowin": (1, 4)}


def recorded_memories(board: Board) -> tuple[str, ...]:
    """Return the names of the memories with which a board was synthesized, in the board's order."""
    known = {record.memory for record in boards() if record.board == board.name}
    return tuple(memory.name for memory in board.memories if memory.name in known)


def _record(board: Board, memory: Memory) -> BoardRecord:
    for record in boards():
        if (record.board, record.memory) == (board.name, memory.name):
            return record
    known = recorded_memories(board)
    others = f" with {memory.name}; it was with {' and '.join(known)}" if known else ""
    raise UnsupportedError(f"{board.name} was never synthesized{others}: benches/area.py makes the record")


def board_resources(board: Board, memory: Memory, config: Config) -> Resources:
    """Return what a configuration takes on a board with a memory, with the rest of the board.

    The rest is what the board took when it was synthesized whole, less the estimate of its machine. Raises
    UnsupportedError where that was never done.
    """
    record = _record(board, memory)
    machine = estimate_resources(config, FAMILIES[board.toolchain])
    recorded = estimate_resources(record.config, machine.family)
    rest = {kind: max(0, record.cells.get(kind, 0) - recorded.total(kind)) for kind in KINDS}
    return Resources(machine.family, {**machine.units, BOARD_UNIT: rest})


def taken(resources: Resources) -> Mapping[str, float]:
    """Return the totals of what a device has a number of, LUTs with those that carries and small RAMs stand in."""
    totals = {kind: resources.total(kind) for kind in LIMITED}
    carry, small_ram = _STAND_IN.get(resources.family, (0, 0))
    totals["luts"] += round(carry * resources.total("carries") + small_ram * resources.total("small_rams"))
    return totals


def shortages(board: Board, resources: Resources) -> list[str]:
    """Return what the device has too little of, as a person reads it."""
    return [f"{kind.replace('_', ' ')}: {count:,.10g} of {getattr(board.device, kind):,}"
            for kind, count in taken(resources).items() if count > getattr(board.device, kind)]
