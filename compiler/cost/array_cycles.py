"""Cycles of the steps of an array operation, bank by bank.

While a step streams its slots, the words of the next step's weights are read by what the slots leave of the four
banks. Which banks these are follows from the addresses, so the cycles are counted as the hardware has them. What tiles
and steps have in common is counted once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tq_hw.compiler.stream.stream import Operation
from tq_hw.isa.config import BANKS, Config
from tq_hw.isa.latency import SLOT_TO_PORT_CYCLES, STEP_LEAST_CYCLES, TILE_LEAST_CYCLES, step_cycles
from tq_hw.isa.layout import ArrayMode
from tq_hw.isa.sizes import ceil_div

__all__ = ["ArrayTile", "array_masks", "array_tiles", "tile_sizes"]

#: Weights of so few rows are there before the sequencer has made the next step.
_FEW_ROWS = 4
_EVERY_BANK = (1 << BANKS) - 1
#: Steps, and slots of one, that the banks are shown for.
_STEPS_OF_MASKS, _SLOTS_OF_MASKS = 3, 64


#: Entries of the folding table: bank of the address and lane_end of each feed.
_Folds = tuple[tuple[tuple[int, int], ...], ...]


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
    """

    slots: int
    steps: int
    cycles: int
    last_slot: int
    lag: int


def tile_sizes(f: Mapping[str, int]) -> list[int]:
    """Slots of each tile in turn."""
    whole, rest = divmod(f["slots"], f["tile_slots"])
    sizes = [f["tile_slots"]] * whole + [rest] * (rest > 0)
    return [size for size in sizes for _ in range(f["out_blocks"])] if f["blocks_inner"] else sizes * f["out_blocks"]


def array_tiles(operation: Operation, config: Config) -> tuple[ArrayTile, ...]:
    """Return the tiles of an operation in their order."""
    return _tiles(*_key(operation), config)


def array_masks(operation: Operation, config: Config) -> tuple[int, ...]:
    """Return the banks that an operation reads in a cycle, a bit for each, for some steps from its first slot on."""
    return _masks(*_key(operation), config)


def _key(operation: Operation) -> tuple[tuple[int, ...], tuple[int, ...], _Folds]:
    """What the cycles of an operation depend on."""
    f = operation.fields
    folds = tuple(tuple((entry.get("address", 0) % BANKS, entry.get("lane_end", 0)) for entry in feeds)
                  for feeds in operation.folds)
    sizes = tuple(f.get(name, 0) for name in _SIZES)
    banks = tuple(f.get(name, 0) % BANKS for name in _ADDRESSES)
    return sizes, banks, folds


_SIZES = ("mode", "slots", "tile_slots", "out_blocks", "blocks_inner", "kernel_rows", "kernel_cols", "kernel_blocks",
          "slices", "weight_rows", "out_cols", "period", "col_first", "in_cols", "sub_first")
_ADDRESSES = ("in_base", "in_col_step", "in_row_step", "in_block_step", "kernel_row_step", "kernel_col_step",
              "kernel_block_step", "weight_base", "weight_block_step")


@lru_cache(maxsize=4096)
def _tiles(sizes: tuple[int, ...], addresses: tuple[int, ...], folds: _Folds, config: Config) -> tuple[ArrayTile, ...]:
    f = dict(zip(_SIZES + _ADDRESSES, sizes + addresses, strict=True))
    steps = _steps(f, folds, config)
    rows = f["weight_rows"]
    walk = _Walk(rows)
    order = _order(f)
    # Where the weights of each step lie; what follows the last one, and where, is not known.
    first_weights = [f["weight_base"] + block * f["weight_block_step"] for block, _, _ in order]
    found = []
    for number, (block, first, slots) in enumerate(order):
        base, pattern = _pattern(f, first, slots)
        in_block = (block + f["sub_first"]) // config.sub_blocks * f["in_block_step"]
        cycles = 0
        for step, (offset, feeds, lag) in enumerate(steps):
            last = step == len(steps) - 1
            if last and number == len(order) - 1:
                weights = None
            elif last:
                weights = first_weights[number + 1]
            else:
                weights = first_weights[number] + (step + 1) * rows
            least = max(TILE_LEAST_CYCLES if last else STEP_LEAST_CYCLES, step_cycles(config, len(pattern)))
            if steps[(step + 1) % len(steps)][2] < lag:  # the rest of its last row is read before
                least = max(least, len(pattern) + lag + 1)
            took = walk.step(pattern, feeds, base + in_block + offset, weights, least)
            if last:
                found.append(ArrayTile(slots, len(steps), cycles + took, cycles + len(pattern), lag))
            cycles += took
    return tuple(found)


def _order(f: Mapping[str, int]) -> list[tuple[int, int, int]]:
    """Output block, first slot and slots of each tile in turn."""
    tiles = [(first, min(f["tile_slots"], f["slots"] - first)) for first in range(0, f["slots"], f["tile_slots"])]
    if f["blocks_inner"]:
        return [(block, *tile) for tile in tiles for block in range(f["out_blocks"])]
    return [(block, *tile) for block in range(f["out_blocks"]) for tile in tiles]


def _steps(f: Mapping[str, int], folds: _Folds, config: Config) -> list[tuple[int, tuple[int, ...], int]]:
    """Of each step the offset of its words, next to it those of the feeds, and its lag."""
    if f["mode"] == ArrayMode.FOLDED:
        return [(0, _used(entry), 0) for entry in folds]
    if f["mode"] == ArrayMode.DEPTHWISE:
        rows = [(row * f["kernel_row_step"], tuple(feed * f["kernel_row_step"] % BANKS for feed in range(
            min(config.groups, f["kernel_rows"] - row)))) for row in range(0, f["kernel_rows"], config.groups)]
        return [(offset + col * f["in_col_step"], feeds, max(0, -f["col_first"] - col))
                for offset, feeds in rows for col in range(0, f["kernel_cols"], 3)]
    return [(row * f["kernel_row_step"] + col * f["kernel_col_step"] + block * f["kernel_block_step"], (0,), 0)
            for row in range(f["kernel_rows"]) for col in range(f["kernel_cols"])
            for block in range(f["kernel_blocks"]) for _ in range(f["slices"])]


def _used(entry: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """Offsets of the feeds of a folded step that bring lanes."""
    covered, found = 0, []
    for address, lane_end in entry:
        if lane_end > covered:
            found.append(address)
            covered = lane_end
    return tuple(found)


def _pattern(f: Mapping[str, int], first: int, slots: int) -> tuple[int, tuple[int, ...]]:
    """Return the place of a tile's first word, and that of each slot's word from there; -1: it reads none."""
    row, col = divmod(first, f["out_cols"])
    base = f["in_base"] + row * f["in_row_step"]
    if f["mode"] != ArrayMode.DEPTHWISE:
        return base + col * f["in_col_step"], _gemm_pattern(
            slots, f["out_cols"], f["in_row_step"], f["in_col_step"], col)
    return base, _depthwise_pattern(ceil_div(slots, f["out_cols"]), f["period"], f["in_row_step"], f["in_col_step"],
                                    f["col_first"], f["in_cols"])


@lru_cache(maxsize=4096)
def _gemm_pattern(slots: int, cols: int, row_step: int, col_step: int, first: int) -> tuple[int, ...]:
    return tuple((slot // cols * row_step + (slot % cols - first) * col_step) % BANKS
                 for slot in range(first, first + slots))


@lru_cache(maxsize=4096)
def _depthwise_pattern(rows: int, period: int, row_step: int, col_step: int, first_col: int,
                       in_cols: int) -> tuple[int, ...]:
    found = []
    for slot in range(rows * period):
        row, place = divmod(slot, period)
        if place + first_col < 0:  # the end of the row before
            row, place = row - 1, place + period
        reads = row >= 0 and place + first_col < in_cols
        found.append((row * row_step + place * col_step) % BANKS if reads else -1)
    return tuple(found)


@lru_cache(maxsize=4096)
def _masks(sizes: tuple[int, ...], addresses: tuple[int, ...], folds: _Folds, config: Config) -> tuple[int, ...]:
    f = dict(zip(_SIZES + _ADDRESSES, sizes + addresses, strict=True))
    steps, (_, first, slots) = _steps(f, folds, config), _order(f)[0]
    base, pattern = _pattern(f, first, slots)
    weights, found = f["weight_base"], []
    for step in range(_STEPS_OF_MASKS):
        offset, feeds, _ = steps[step % len(steps)]
        read = [_turned(sum(1 << feed for feed in set(feeds)), place + base + offset) if place >= 0 else 0
                for place in pattern[:_SLOTS_OF_MASKS]]
        left = f["weight_rows"]
        for cycle in range(max(len(read), STEP_LEAST_CYCLES, left)):
            mask = read[cycle] if cycle < len(read) else 0
            if left and not mask >> weights % BANKS & 1:
                mask |= 1 << weights % BANKS
                weights, left = weights + 1, left - 1
            found.append(mask)
    return tuple(found)


class _Walk:
    """Steps one after the other: what the end of one leaves for the next."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        #: The next step's weights are asked for a cycle late; what the last slots read in its first cycles.
        self._late = int(rows <= _FEW_ROWS)
        self._tail = (0, 0)

    def step(self, pattern: tuple[int, ...], feeds: tuple[int, ...], base: int, weights: int | None,
             least: int) -> int:
        """Return the cycles of a step, at least this many; `weights` is the place of the next one's, None: any."""
        bank = -1 if weights is None else (weights - base) % BANKS
        cycles, tail = _step(pattern, feeds, self._rows, bank, self._late, self._tail_at(base), least)
        self._late = int(cycles <= STEP_LEAST_CYCLES)
        self._tail = (_turned(tail[0], base), _turned(tail[1], base))
        return cycles

    def _tail_at(self, base: int) -> tuple[int, int]:
        return _turned(self._tail[0], -base), _turned(self._tail[1], -base)


def _turned(banks: int, by: int) -> int:
    """Banks, a bit for each, moved up."""
    by %= BANKS
    return (banks << by | banks >> BANKS - by) & _EVERY_BANK


@lru_cache(maxsize=1 << 16)
def _step(pattern: tuple[int, ...], feeds: tuple[int, ...], rows: int, bank: int, late: int,
          tail: tuple[int, int], least: int) -> tuple[int, tuple[int, int]]:
    """Return the cycles of a step, and the banks that its last slots read in the two cycles after it.

    Places count from the step's first word; `bank` is that of the next step's first word of weights, -1: of any.
    """
    shape = 0
    for feed in feeds:
        shape |= 1 << feed
    slots = len(pattern)

    def read(cycle: int) -> int:
        slot = cycle - SLOT_TO_PORT_CYCLES
        if slot < 0:
            return tail[cycle]
        return _turned(shape, pattern[slot]) if slot < slots and pattern[slot] >= 0 else 0

    cycle = late
    if bank >= 0:
        got = 0
        while got < rows:
            if not read(cycle) >> bank & 1:
                got += 1
                bank = (bank + 1) % BANKS
            cycle += 1
    else:
        cycle += rows
    cycles = max(slots, least, cycle)
    return cycles, (read(cycles), read(cycles + 1))
