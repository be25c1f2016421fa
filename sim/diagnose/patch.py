"""Inspect a program: the RUN and tile that wrote an element, and its values in the requantization stages.

The hardware stores only results. A program with modified commands, which skip the later stages, stores the low byte of
an earlier stage on any engine.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tq_hw.isa.encode import Assembler
from tq_hw.isa.layout import Unit
from tq_hw.isa.operations import Operation, operations
from tq_hw.isa.program import Port, Program
from tq_hw.isa.uop import Destination, Multiply, ShiftSource

__all__ = ["STAGES", "Tile", "find_tile", "with_stage"]

#: Changes of micro-operation fields that make a stage's value the stored one, first stage first.
STAGES: Mapping[str, Mapping[str, int]] = {
    "accumulator": {"multiply": Multiply.NONE, "shift_source": ShiftSource.NONE, "zero_point": 0, "clamp": 0},
    "after_shift": {"zero_point": 0, "clamp": 0},
}


@dataclass(frozen=True)
class Tile:
    """The tile of a vector RUN with a given element: slots `first`..`last` of output block `block`."""

    run: int
    number: int
    block: int
    first: int
    last: int

    def __str__(self) -> str:
        """Describe the tile in a few words."""
        return (f"tile {self.number} of vector RUN {self.run} (output block {self.block}, slots {self.first}.."
                f"{self.last})")


def find_tile(program: Program, port: Port, element: int, layer: int) -> Tile | None:
    """Return the tile that computed an int8 element of an output of operator `layer`.

    None if there is no such tile: the output is a constant, or the operator only moves bytes.
    """
    runs = operations(program.commands, program.config)
    own = {(unit, run) for one in program.layers if one.index == layer for unit, ranges in one.runs.items()
           for first, last in ranges for run in range(first, last + 1)}
    byte = port.region_offset_bytes + element
    stores = [(store, place) for store in runs[Unit.STORE] if store.fields["region"] == port.region
              if (place := _stored_from(store, byte)) is not None]
    if not stores:
        return None
    store, (word, lane) = stores[-1]
    vectors = [tile for run in runs[Unit.VECTOR] if ("vector", run.run) in own
               if (tile := _written_by(program, run, word, lane)) is not None]
    if not vectors:
        return None
    # A strip is rewritten for each rectangle and stored in between: the n-th store reads the n-th contents.
    same = [other for other in runs[Unit.STORE] if ("store", other.run) in own and _reads(other, word)]
    position = next((number for number, other in enumerate(same) if other.run == store.run), 0)
    return vectors[min(position, len(vectors) - 1)]


def _stored_from(store: Operation, byte: int) -> tuple[int, int] | None:
    """Return the word and lane from which a store takes a byte of its region."""
    f = store.fields
    pixel = (f["count0"] - 1) * f["take_bytes"] + f["last_take_bytes"]
    for i3 in range(f["count3"]):
        for i2 in range(f["count2"]):
            at = byte - f["memory_offset_bytes"] - i3 * f["stride3_bytes"] - i2 * f["stride2_bytes"]
            if 0 <= at < pixel * f["count1"]:
                i1, rest = divmod(at, pixel)
                i0 = min(rest // f["take_bytes"], f["count0"] - 1) if f["take_bytes"] else f["count0"] - 1
                word = f["source"] + i0 * f["step0"] + i1 * f["step1"] + i2 * f["step2"] + i3 * f["step3"]
                return word & 0xFFFF, f["lane"] + rest - i0 * f["take_bytes"]
    return None


def _reads(store: Operation, word: int) -> bool:
    f = store.fields
    words = sum((f[f"step{axis}"] * np.arange(f[f"count{axis}"]).reshape([-1 if axis == k else 1 for k in range(4)])
                 for axis in range(4)), np.int64(f["source"]))
    return bool(np.any(words & 0xFFFF == word))


def _written_by(program: Program, run: Operation, word: int, lane: int) -> Tile | None:
    """Return the tile of a vector program that writes a byte lane of a word."""
    f = run.fields
    if f["kind"] or not f["out_blocks"]:
        return None
    slots = np.arange(f["slots"])
    config = program.config
    for number in range(f["out_blocks"]):
        block, sub = divmod(f["sub_first"] + number, config.sub_blocks) if f["use_acc"] else (number, 0)
        if f["use_acc"] and lane // config.cols != sub:
            continue
        row, col = np.divmod(slots, max(f["cols"], 1))
        written = f["out_base"] + block * f["out_block_step"] + row * f["out_row_step"] + col * f["out_col_step"]
        hits = np.flatnonzero(written & 0xFFFF == word)
        if hits.size:
            tile, first = divmod(int(hits[0]), f["tile_slots"])
            start = int(hits[0]) - first
            return Tile(run.run, tile, number, start, min(start + f["tile_slots"], f["slots"]) - 1)
    return None


def with_stage(program: Program, run: int, stage: str) -> Program | None:
    """Return the program, changed so that RUN `run` of the vector unit stores the low byte of a stage of `STAGES`.

    None when that RUN has no requantization that ends in the output. Results of later layers are meaningless.
    """
    assembler = Assembler(program.config)
    found = False
    by_unit = operations(program.commands, program.config)
    for operation in sorted((one for some in by_unit.values() for one in some), key=lambda one: one.position):
        for index, feeds in enumerate(operation.folds):
            assembler.fold(index, feeds)
        for index, uop in enumerate(operation.uops):
            chosen = (operation.unit is Unit.VECTOR and operation.run == run and uop["multiply"] != Multiply.NONE
                      and uop["destination"] == Destination.OUTPUT
                      and operation.fields["first"] <= index <= operation.fields["last"])
            found |= chosen
            assembler.uop(index, {**uop, **STAGES[stage]} if chosen else uop)
        assembler.run(operation.unit, operation.fields)
    assembler.end()
    if not found:
        return None
    commands = assembler.to_bytes()
    image = program.image + bytes(-len(program.image) % 16)
    return replace(program, image=image + commands, command_offset=len(image), command_bytes=len(commands))
