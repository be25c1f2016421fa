"""Cycles of the steps of an array operation, bank by bank.

While a step streams its slots, the words of the next step's weights are read by what the slots leave of the four
banks. Which banks these are follows from the addresses, so the cycles are counted as the hardware has them. What tiles
and steps have in common is counted once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from tq_hw.compiler.cost.array_reads import Folds, array_steps, step_reads
from tq_hw.compiler.stream.stream import Operation
from tq_hw.isa.config import BANKS, Config
from tq_hw.isa.latency import SLOT_TO_PORT_CYCLES, STEP_LEAST_CYCLES, TILE_LEAST_CYCLES, step_cycles

__all__ = ["ArrayTile", "array_tiles", "tile_order", "tile_sizes"]

#: Weights of so few rows are there before the sequencer has made the next step.
_FEW_ROWS = 4
#: Steps, and cycles, of a tile's stretch at most.
_STRETCH_STEPS, _STRETCH_CYCLES = 3, 192


@dataclass(frozen=True)
class ArrayTile:
    """A tile.

    Members
    -------
    slots : output words
    steps : sets of weights
    cycles : from its first slot to the first slot of the tile after it, at least
    last_slot : from its first slot to after its last one
    lag : cycles by which reading is behind its last slot
    banks : of each step, the banks that feeds and weights ask for cycle by cycle, a bit for each, from the step's
        first slot on; the last one's go on for as long as feeds read after the tile
    stretch : the first of them
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


#: The fields on which the cycles of an operation depend, and those of which only the bank counts.
_SIZES = ("mode", "slots", "tile_slots", "out_blocks", "blocks_inner", "kernel_rows", "kernel_cols", "kernel_blocks",
          "slices", "weight_rows", "out_cols", "period", "row_first", "col_first", "in_rows", "in_cols", "sub_first",
          "row_stride", "col_stride", "kernel_row_dilation", "kernel_col_dilation")
_ADDRESSES = ("in_base", "in_col_step", "in_row_step", "in_block_step", "kernel_row_step", "kernel_col_step",
              "kernel_block_step", "weight_base", "weight_block_step")


def array_tiles(operation: Operation, config: Config) -> tuple[ArrayTile, ...]:
    """Return the tiles of an operation in their order."""
    return _tiles(*_key(operation), config)


def _key(operation: Operation) -> tuple[tuple[int, ...], Folds]:
    """What the cycles of an operation depend on."""
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
    # The banks in which the next step's weights begin; what follows the last step, and where, is not known.
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
            if steps[(at + 1) % len(steps)].lag < step.lag:  # the rest of its last row is read before
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
    """Steps one after the other: what the end of one leaves for the next.

    Members
    -------
    tail : banks that the last slots read in the cycles after their step
    """

    def __init__(self, rows: int) -> None:
        self._rows = rows
        #: The next step's weights are asked for a cycle late.
        self._late = int(rows <= _FEW_ROWS)
        self.tail = bytes(SLOT_TO_PORT_CYCLES)

    def step(self, reads: bytes, slots: int, weights: int, least: int) -> tuple[int, bytes]:
        """Return the cycles of a step of this many slots, at least `least`, and the banks that it asks for in each.

        `weights` is the bank of the next step's first word of weights, -1: of any.
        """
        cycles, asked, self.tail = _step(reads, slots, self._rows, weights, self._late, self.tail, least)
        self._late = int(cycles <= STEP_LEAST_CYCLES)
        return cycles, asked


@lru_cache(maxsize=1 << 14)
def _step(reads: bytes, slots: int, rows: int, bank: int, late: int, tail: bytes, least: int
          ) -> tuple[int, bytes, bytes]:
    """Return the cycles of a step, the banks that it asks for, and those that its feeds read after it."""
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
