"""What the hardware's counters say of one run, in words; and the traffic of its loads and stores over time."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tq_hw.isa.layout import Unit
from tq_hw.isa.operations import Operation, read_stream
from tq_hw.isa.program import Program
from tq_hw.isa.sizes import ceil_div
from tq_hw.isa.work import stored_bytes
from tq_hw.sim.diagnose.busy import Timeline

__all__ = ["WAITS", "Traffic", "most_waited", "traffic", "wait_rows"]

#: The counters of isa/control.py that count waiting: which unit, and for what. Several may count in one cycle.
WAITS = {
    "fetch_stall": ("fetch", "commands from memory"),
    "load_token": ("load", "another unit, to free what it writes over (tokens)"),
    "load_port": ("load", "memory, or a bank of the scratchpad"),
    "array_token": ("array", "another unit, mostly its inputs or weights (tokens)"),
    "array_acc": ("array", "a free accumulator buffer: the vector unit is behind"),
    "array_weight": ("array", "its weights, which come from the scratchpad"),
    "vector_token": ("vector", "another unit, mostly its inputs (tokens)"),
    "vector_acc": ("vector", "sums of the array"),
    "vector_port": ("vector", "a bank of the scratchpad"),
    "store_token": ("store", "another unit, mostly what it is to store (tokens)"),
    "store_port": ("store", "memory, or a bank of the scratchpad"),
}
#: Spans of a run for which the traffic is told.
_SPANS = 240


@dataclass(frozen=True, eq=False)
class Traffic:
    """Bytes of loads and stores in spans of `cycles_each` cycles from the start on."""

    cycles_each: int
    loaded: npt.NDArray[np.int64]
    stored: npt.NDArray[np.int64]


def wait_rows(counters: Mapping[str, int]) -> list[tuple[str, str, int, float]]:
    """Return unit, what it waited for, cycles and their share of the run's, the longest first."""
    rows = [(unit, what, counters[name], counters[name] / max(counters["cycles"], 1))
            for name, (unit, what) in WAITS.items() if counters[name]]
    return sorted(rows, key=lambda row: -row[2])


def most_waited(counters: Mapping[str, int]) -> str:
    """Return the longest wait of the units that compute, as text."""
    rows = [row for row in wait_rows(counters) if row[0] in ("array", "vector")]
    if not rows:
        return "array and vector unit never waited"
    unit, what, cycles, share = rows[0]
    return f"{unit} for {what}: {cycles:,} cycles, {share:.0%}"


def _moved_bytes(operation: Operation) -> int:
    """Return the bytes of a load or a store."""
    fields = operation.fields
    run = fields["run_bytes"] if operation.unit is Unit.LOAD else stored_bytes(fields)
    return run * fields["count2"] * fields["count3"]


def traffic(program: Program, timeline: Timeline, cycles: int) -> Traffic:
    """Return what loads and stores moved when: the bytes of each, evenly from when it was taken until it was done.

    Commands are not in it; a load may have asked memory before the one ahead of it was done.
    """
    each = max(ceil_div(cycles, _SPANS), 1)
    found = {}
    operations = read_stream(program.commands, program.config).operations
    for unit in (Unit.LOAD, Unit.STORE):
        moved = np.zeros(ceil_div(cycles, each) + 1, np.int64)
        for operation, (begin, done) in zip(operations[unit], np.asarray(timeline[unit]).tolist(), strict=True):
            size, end = _moved_bytes(operation), max(done, begin + 1)
            edges = [begin, *range((begin // each + 1) * each, end, each), end]
            moved_until = [size * (edge - begin) // (end - begin) for edge in edges]
            moved[begin // each:begin // each + len(edges) - 1] += np.diff(moved_until)
        found[unit] = moved
    return Traffic(each, found[Unit.LOAD], found[Unit.STORE])
