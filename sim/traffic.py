"""Bytes between the accelerator and its memory over time: counted at the bus, or derived from the operations' times."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from tq_hw.isa.layout import Unit
from tq_hw.isa.operations import Operation, read_stream
from tq_hw.isa.program import Program
from tq_hw.isa.sizes import ceil_div
from tq_hw.isa.work import stored_bytes

__all__ = ["Traffic"]

#: Number of spans when traffic is derived from operations.
_SPANS = 240


@dataclass(frozen=True, eq=False)
class Traffic:
    """Bytes read and written in consecutive spans of `cycles_each` cycles from the start, each [spans], at least one.

    `measured`: the memory counted the bytes, including commands. Otherwise they are those of loads and stores, as early
    as memory could transfer them.
    """

    cycles_each: int
    read: npt.NDArray[np.int64]
    written: npt.NDArray[np.int64]
    measured: bool

    @classmethod
    def of_beats(cls, beats: npt.NDArray[np.int64], cycles_each: int, bus_bytes: int) -> Self:
        """Return the counts of a memory: beats read and written, [spans, 2]."""
        if not len(beats):
            beats = np.zeros((1, 2), np.int64)
        return cls(cycles_each, bus_bytes * beats[:, 0], bus_bytes * beats[:, 1], True)

    @classmethod
    def of_operations(cls, program: Program, timeline: Mapping[Unit, npt.NDArray[Any]], cycles: int,
                      bytes_per_cycle: float) -> Self:
        """Return the earliest times at which the loads and stores of a run of `cycles` cycles could move their bytes.

        Each begins when its unit takes it, and gets the memory bandwidth that earlier ones leave in each span.
        """
        each = max(ceil_div(cycles, _SPANS), 1)
        most = max(int(bytes_per_cycle * each), 1)
        room = [most] * max(ceil_div(cycles, each), 1)
        moved = {Unit.LOAD: [0] * len(room), Unit.STORE: [0] * len(room)}
        operations = read_stream(program.commands, program.config).operations
        begins = sorted(((begin, unit, operation) for unit in moved for operation, begin in zip(
            operations[unit], np.asarray(timeline[unit])[:, 0].tolist(), strict=True)), key=lambda item: item[0])
        for begin, unit, operation in begins:
            left, span = _moved_bytes(operation), begin // each
            while left:
                while span >= len(room):
                    room.append(most)
                    moved[Unit.LOAD].append(0)
                    moved[Unit.STORE].append(0)
                taken = min(left, room[span])
                moved[unit][span] += taken
                room[span] -= taken
                left -= taken
                span += 1
        return cls(each, np.array(moved[Unit.LOAD], np.int64), np.array(moved[Unit.STORE], np.int64), False)

    def coarser(self, most: int = _SPANS) -> "Traffic":
        """Return the same traffic in at most `most` spans."""
        together = ceil_div(len(self.read), most)
        starts = np.arange(0, len(self.read), together)
        read, written = (np.add.reduceat(side, starts) for side in (self.read, self.written))
        return Traffic(self.cycles_each * together, read, written, self.measured)


def _moved_bytes(operation: Operation) -> int:
    """Return the bytes of a load or a store."""
    fields = operation.fields
    run = fields["run_bytes"] if operation.unit is Unit.LOAD else stored_bytes(fields)
    return run * fields["count2"] * fields["count3"]
