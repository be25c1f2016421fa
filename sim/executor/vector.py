"""Vector operations: the vector program on chunks of words, on many chunks at once if they are independent."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tq_hw.isa.layout import Unit
from tq_hw.isa.sizes import ceil_div
from tq_hw.sim.executor.machine import Ints, Machine
from tq_hw.sim.executor.microprogram import MicroProgram, Uops
from tq_hw.sim.executor.overlaps import note_overlaps, note_parameters
from tq_hw.sim.executor.unknown import Flags

__all__ = ["VectorTile", "load_table", "run_tiles", "vector_tiles"]

#: Register file entries of all chunks that run together.
_GROUP_ENTRIES = 1 << 21


@dataclass(frozen=True)
class VectorTile:
    """One (output block, tile): `block` o and the slots first..last-1."""

    block: int
    first: int
    last: int


def vector_tiles(machine: Machine, fields: Mapping[str, int]) -> Iterator[VectorTile]:
    """Check the operation and yield its tiles in order."""
    machine.require_legal(Unit.VECTOR, fields)
    slots, size = fields["slots"], fields["tile_slots"]
    tiles = range(ceil_div(slots, size))
    blocks = range(fields["out_blocks"])
    pairs = [(o, t) for t in tiles for o in blocks]
    if not fields["blocks_inner"]:
        pairs.sort()
    for o, t in pairs:
        yield VectorTile(o, t * size, min(slots, (t + 1) * size))


def load_table(machine: Machine, fields: Mapping[str, int]) -> None:
    """Run one load-table operation."""
    machine.require_legal(Unit.VECTOR, fields)
    first, count, per_word = fields["table_first"], fields["slots"], machine.config.word_bytes // 4
    places = fields["a_base"] + np.arange(ceil_div(count, per_word))
    words = machine.read(places)
    machine.table[first:first + count] = words.reshape(-1).view("<i4")[:count]
    if machine.unknown is not None:
        unknown = np.asarray(machine.read_unknown(places).reshape(-1, 4).any(axis=1))
        machine.unknown.table[first:first + count] = unknown[:count]


def run_tiles(machine: Machine, fields: Mapping[str, int], uops: Uops, tiles: Sequence[VectorTile],
              acc: Ints | None, acc_unknown: Flags | None = None) -> None:
    """Run the program on tiles; with accumulators (`acc[slot, col]`, and their unknown flags) on exactly one."""
    chunks = [(tile.block, low, min(tile.last, low + fields["chunk_slots"]))
              for tile in tiles for low in range(tile.first, tile.last, fields["chunk_slots"])]
    program = MicroProgram(machine, fields, uops)
    size_limit = max(1, _GROUP_ENTRIES // machine.registers.size)
    at = 0
    while at < len(chunks):
        size = chunks[at][2] - chunks[at][1]
        end = at + 1
        while (end < len(chunks) and end - at < size_limit and chunks[end][2] - chunks[end][1] == size
               and (chunks[end][0] == chunks[at][0] or not fields["use_params"])):
            end += 1
        group = chunks[at:end]
        at = end
        blocks = np.array([c[0] for c in group])
        slots = np.array([c[1] for c in group])[:, None] + np.arange(size)
        sums = None if acc is None else acc[slots - tiles[0].first]
        flags = None if acc_unknown is None else acc_unknown[slots - tiles[0].first]
        if machine.unknown is not None:
            note_overlaps(machine, program, blocks, slots, machine.unknown.written)
        if len(group) > 1 and not program.independent(blocks, slots):
            for i in range(len(group)):
                some = slice(i, i + 1)
                program.run(blocks[some], slots[some], None if sums is None else sums[some],
                            None if flags is None else flags[some])
        else:
            program.run(blocks, slots, sums, flags)
    if machine.unknown is not None:
        note_parameters(machine, program)
