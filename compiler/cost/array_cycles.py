"""Cycles of the steps of an array operation, bank by bank.

While a step streams its slots, the next step's weights are read from the banks that the slots leave free. The banks
follow from the addresses, so the count is that of the hardware. Equal tiles and steps are counted once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from tq_hw.compiler.cost.array_reads import Folds, array_steps, step_reads
from tq_hw.compiler.stream.stream import Operation
from tq_hw.isa.config import BANKS, Config
from tq_hw.isa.latency import SLOT_TO_PORT_CYCLES, STEP_LEAST_CYCLES, TILE_LEAST_CYCLES, step_cycles

__all__ = ["ArrayTile", "array_tiles", "tile_order", "tile_sizes"]

#: Weights of at most this many rows are read before the sequencer has prepared the next step.
_FEW_ROWS = 4
#: Most steps and most cycles of a tile's stretch.
_STRETCH_STEPS, _STRETCH_CYCLES = 3, 192


@dataclass(frozen=True)
class ArrayTile:
    """Cycles and bank accesses of a tile.

    Members
    -------
    slots : output words
    steps : sets of weights
    cycles : least cycles from its first slot to the first slot of the next tile
    last_slot : cycles from its first slot to after its last one
    lag : cycles by which feeds read after the last slot
    banks : for each step and cycle from its first slot on, a bit mask of the banks that feeds and weights request; the
        last step includes the cycles in which feeds read after the tile
    stretch : the first of these masks
    """

    slots: int
    steps: int
    cycles: int
    last_slot: int
    lag: int
    banks: tuple[bytes, ...]
    stretch: bytes


def tile_sizes(f: Mapping[str, int]) -> list[int]:
    """Slots of each tile, in order."""
    whole, rest = divmod(f["slots"], f["tile_slots"])
    sizes = [f["tile_slots"]] * whole + [rest] * (rest > 0)
    blocks = f["out_blocks"]
    return [size for size in sizes for _ in range(blocks)] if f.get("blocks_inner") else sizes * blocks


#: The fields that determine the cycles of an operation, and those of which only the bank matters.
_SIZES = ("mode", "slots", "tile_slots", "out_blocks", "blocks_inner", "kernel_rows", "kernel_cols", "kernel_blocks",
          "slices", "weight_rows", "out_cols", "period", "row_first", "col_first", "in_rows", "in_cols", "sub_first",
          "row_stride", "col_stride", "kernel_row_dilation", "kernel_col_dilation")
_ADDRESSES = ("in_base", "in_col_step", "in_row_step", "in_block_step", "kernel_row_step", "kernel_col_step",
              "kernel_block_step", "weight_base", "weight_block_step")


def array_tiles(operation: Operation, config: Config) -> tuple[ArrayTile, ...]:
    """Return the tiles of an operation in their order."""
    return _tiles(*_key(operation), config)


def _key(operation: Operation) -> tuple[tuple[int, ...], Folds]:
    """Return the values that determine the cycles of an operation."""
    f = operation.fields
    folds = tuple(tuple((entry.get("address", 0) % BANKS, entry.get("lane_end", 0), entry.get("kernel_row", 0))
                        for entry in feeds) for feeds in operation.folds)
    return (*(f.get(name, 0) for name in _SIZES), *(f.get(name, 0) % BANKS for name in _ADDRESSES)), folds


@lru_cache(maxsize=1 << 12)
def _tiles(values: tuple[int, ...], folds: Folds, config: Config) -> tuple[ArrayTile, ...]:
    """Return the tiles of an operation of these sizes and addresses, step by step."""
    f: dict[str, int] = dict(zip(_SIZES + _ADDRESSES, values, strict=True))
    steps = array_steps(f, folds, config)
    walk = _Walk(f["weight_rows"])
    order = tile_order(f)
    # The banks in which the next step's weights begin; unknown after the last step.
    firsts = [f["weight_base"] + block * f["weight_block_step"] for block, _, _ in order]
    banks_of_weights = [(first + at * f["weight_rows"]) % BANKS for first in firsts for at in range(len(steps))]
    next_banks = [*banks_of_weights[1:], -1]
    found = []
    for number, (block, first, slots) in enumerate(order):
        in_block = (block + f["sub_first"]) // config.sub_blocks * f["in_block_step"]
        cycles, banks = 0, []
        for at, step in enumerate(steps):
            last = at == len(steps) - 1
            weights = next_banks[number * len(steps) + at]
            reads = step_reads(f, step, first, slots, in_block)
            least = max(TILE_LEAST_CYCLES if last else STEP_LEAST_CYCLES, step_cycles(config, len(reads) - step.lag))
            if steps[(at + 1) % len(steps)].lag < step.lag:  # the rest of its last row is read first
                least = max(least, len(reads) + 1)
            took, asked = walk.step(reads, len(reads) - step.lag, weights, least)
            banks.append(asked)
            if last:
                banks[-1] += walk.tail
                found.append(ArrayTile(slots, len(steps), cycles + took, cycles + len(reads) - step.lag, step.lag,
                                       tuple(banks), b"".join(banks[:_STRETCH_STEPS])[:_STRETCH_CYCLES]))
            cycles += took
    return tuple(found)


def tile_order(f: Mapping[str, int]) -> list[tuple[int, int, int]]:
    """Output block, first slot and slots of each tile, in order."""
    tiles = [(first, min(f["tile_slots"], f["slots"] - first)) for first in range(0, f["slots"], f["tile_slots"])]
    if f.get("blocks_inner"):
        return [(block, *tile) for tile in tiles for block in range(f["out_blocks"])]
    return [(block, *tile) for block in range(f["out_blocks"]) for tile in tiles]


class _Walk:
    """Successive steps, with the reads that continue from one step into the next.

    Members
    -------
    tail : banks that the last slots read in the cycles after their step
    """

    def __init__(self, rows: int) -> None:
        self._rows = rows
        #: Whether the next step's weights are requested a cycle late.
        self._late = int(rows <= _FEW_ROWS)
        self.tail = bytes(SLOT_TO_PORT_CYCLES)

    def step(self, reads: bytes, slots: int, weights: int, least: int) -> tuple[int, bytes]:
        """Return the cycles of a step of `slots` slots, at least `least`, and the banks that it requests in each.

        `weights` is the bank of the next step's first word of weights, -1 for any bank.
        """
        cycles, asked, self.tail = _step(reads, slots, self._rows, weights, self._late, self.tail, least)
        self._late = int(cycles <= STEP_LEAST_CYCLES)
        return cycles, asked


@lru_cache(maxsize=1 << 14)
def _step(reads: bytes, slots: int, rows: int, bank: int, late: int, tail: bytes, least: int
          ) -> tuple[int, bytes, bytes]:
    """Return the cycles of a step, the banks that it requests, and those that its feeds read after it."""
    asked = bytearray(SLOT_TO_PORT_CYCLES) + reads
    for cycle, banks in enumerate(tail):
        if banks and cycle < len(asked):
            asked[cycle] |= banks
    cycle = late
    if bank < 0:
        cycle += rows
    else:
        left = rows
        asked += bytes(max(0, cycle + rows - len(asked)))
        while left:
            if cycle == len(asked):
                asked.append(0)
            if not asked[cycle] >> bank & 1:
                asked[cycle] |= 1 << bank
                left -= 1
                bank = (bank + 1) % BANKS
            cycle += 1
    cycles = max(slots, least, cycle)
    asked += bytes(max(0, cycles + SLOT_TO_PORT_CYCLES - len(asked)))
    return cycles, bytes(asked[:cycles]), bytes(asked[cycles:])
