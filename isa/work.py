"""Upper bounds of an operation's time, for refusing files and for simulation time limits."""

from collections.abc import Mapping

from tq_hw.isa.config import Config
from tq_hw.isa.layout import ArrayMode, Unit, VectorKind
from tq_hw.isa.operations import Operation
from tq_hw.isa.sizes import ceil_div

__all__ = ["array_steps", "operation_cycles", "stored_bytes", "vector_passes"]

#: Cycles that starting an operation, a run of memory, a tile of the array or a chunk of the vector unit may cost.
_OPERATION, _RUN, _TILE, _CHUNK = 64, 4, 16, 16


def operation_cycles(operation: Operation, config: Config) -> int:
    """Return an upper bound of an operation's cycles, without waits for other units or for memory.

    Fields that break a rule of docs/reference/semantics.md make no number negative.
    """
    fields = operation.fields
    if operation.unit is Unit.ARRAY:
        return _OPERATION + _array(fields, config)
    if operation.unit is Unit.VECTOR:
        return _OPERATION + _vector(fields, config)
    runs = fields["count2"] * fields["count3"]
    size = fields["run_bytes"] if operation.unit is Unit.LOAD else stored_bytes(fields)
    return _OPERATION + runs * (_RUN + fields["count0"] * fields["count1"] + size // config.bus_bytes)


def stored_bytes(fields: Mapping[str, int]) -> int:
    """Return the bytes of one run of a store."""
    return fields["count1"] * (max(fields["count0"] - 1, 0) * fields["take_bytes"] + fields["last_take_bytes"])


def array_steps(fields: Mapping[str, int], config: Config) -> int:
    """Return how often an operation of the array loads weights for each output block."""
    if fields["mode"] == ArrayMode.GEMM:
        return fields["kernel_rows"] * fields["kernel_cols"] * fields["kernel_blocks"] * fields["slices"]
    if fields["mode"] == ArrayMode.FOLDED:
        return fields["kernel_blocks"]
    return ceil_div(fields["kernel_rows"], config.groups) * ceil_div(fields["kernel_cols"], 3)


def vector_passes(fields: Mapping[str, int]) -> int:
    """Return how many micro-operations a program of the vector unit executes for a chunk."""
    body = max(fields["body_last"] - fields["body_first"] + 1, 0)
    return max(fields["last"] - fields["first"] + 1, 0) + body * max(fields["repeat1"] * fields["repeat2"] - 1, 0)


def _array(fields: Mapping[str, int], config: Config) -> int:
    slots = fields["slots"]
    tiles = ceil_div(slots, max(fields["tile_slots"], 1))
    if fields["mode"] == ArrayMode.DEPTHWISE:
        slots = ceil_div(slots, max(fields["out_cols"], 1)) * max(fields["period"], fields["out_cols"])
    return array_steps(fields, config) * fields["out_blocks"] * (slots + tiles * (config.rows + _TILE))


def _vector(fields: Mapping[str, int], config: Config) -> int:
    slots, blocks = fields["slots"], fields["out_blocks"]
    if fields["kind"] == VectorKind.LOAD_TABLE:
        return slots
    tile = max(min(fields["tile_slots"], slots), 1)
    chunks = ceil_div(slots, tile) * ceil_div(tile, max(fields["chunk_slots"], 1))
    beats = max(config.beats_per_word, config.beats_per_acc_word, 1)
    return vector_passes(fields) * blocks * (slots * beats + chunks * _CHUNK)
