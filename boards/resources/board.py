"""Resources of a machine on a board, with clocks, link and memory, and whether all of it fits."""

from collections.abc import Mapping

from tq_hw.boards.catalog.board import FAMILIES, Board, Memory
from tq_hw.boards.resources.model import Resources, estimate_resources
from tq_hw.boards.resources.record import KINDS, BoardRecord, boards
from tq_hw.isa.config import Config
from tq_hw.model.errors import UnsupportedError

__all__ = ["BOARD_UNIT", "LIMITED", "board_resources", "recorded_memories", "shortages", "taken"]

#: The name for everything on a board except the machine.
BOARD_UNIT = "board"
#: Resources of which a device has a limited number.
LIMITED = ("luts", "flip_flops", "multipliers", "block_rams")
#: LUT sites that a carry cell and a small RAM occupy; LUT counts of a 7 series include them. nextpnr-ecp5 begins
#: and ends carry chains in extra cells: with these, five boards of 24,684 to 42,777 LUTs are off by at most 63.
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
    """Return the resources of a configuration on a board with a memory, including the rest of the board.

    The rest is the recorded synthesis of the whole board, less the estimate of the machine in it: negative where the
    whole takes fewer cells than its units that were synthesized one by one. So the recorded machine has the recorded
    cells. Raises UnsupportedError if there is no such record.
    """
    record = _record(board, memory)
    machine = estimate_resources(config, FAMILIES[board.toolchain])
    recorded = estimate_resources(record.config, machine.family)
    rest = {kind: record.cells.get(kind, 0) - recorded.total(kind) for kind in KINDS}
    return Resources(machine.family, {**machine.units, BOARD_UNIT: rest})


def taken(resources: Resources) -> Mapping[str, float]:
    """Return the totals of the limited resources; LUTs include the sites of carries and small RAMs."""
    totals = {kind: resources.total(kind) for kind in LIMITED}
    carry, small_ram = _STAND_IN.get(resources.family, (0, 0))
    totals["luts"] += round(carry * resources.total("carries") + small_ram * resources.total("small_rams"))
    return totals


def shortages(board: Board, resources: Resources) -> list[str]:
    """Return the resources that exceed the device, as text."""
    return [f"{kind.replace('_', ' ')}: {count:,.10g} of {getattr(board.device, kind):,}"
            for kind, count in taken(resources).items() if count > getattr(board.device, kind)]
