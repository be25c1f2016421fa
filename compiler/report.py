"""The per-layer report: estimated cycles from the emitted operations, bytes moved, what bounds a layer."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tq_hw.compiler.ir import Graph, Mac
from tq_hw.compiler.stream import Operation, Stream
from tq_hw.isa.config import Config
from tq_hw.isa.layout import ArrayMode, Unit

__all__ = ["LayerReport", "report"]

#: Cycles from a unit's first read to its last write, added once per layer.
_PIPELINE_CYCLES = 60


@dataclass(frozen=True)
class LayerReport:
    """One operator of the model as it runs.

    Members
    -------
    cycles : estimate: the busiest unit, plus one pipeline latency
    utilization : macs / (cycles * multipliers)
    bytes : moved to and from system memory
    bound : "compute", "weights", "activations" or "vector"
    """

    index: int
    op: str
    name: str
    unit: str
    macs: int
    cycles: int
    utilization: float
    bytes: int
    bound: str
    runs: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)


def _array_cycles(f: Mapping[str, int], config: Config) -> int:
    slots, rows = f["slots"], f["weight_rows"]
    tiles = -(-slots // f["tile_slots"]) * f["out_blocks"]
    if f["mode"] == ArrayMode.DEPTHWISE:
        steps = -(-f["kernel_rows"] // config.groups) * -(-f["kernel_cols"] // 3)
        out_rows = -(-slots // f["out_cols"])
        return f["out_blocks"] * steps * max(out_rows * f["period"], rows)
    steps = f["kernel_rows"] * f["kernel_cols"] * f["kernel_blocks"] * f["slices"]
    return max(f["out_blocks"] * slots * steps, tiles * steps * rows)


def _vector_cycles(f: Mapping[str, int], config: Config) -> int:
    if f.get("kind"):
        return f["slots"]
    beats = config.beats_per_acc_word if f.get("use_acc") else config.beats_per_word
    body = f["body_last"] - f["body_first"] + 1
    uops = f["last"] - f["first"] + 1 - body + body * f["repeat1"] * f["repeat2"]
    return f["slots"] * f["out_blocks"] * beats * uops


def _bytes(operation: Operation) -> int:
    f = operation.fields
    if operation.unit is Unit.LOAD:
        return f.get("run_bytes", 0) * f["count2"] * f["count3"]
    if operation.unit is Unit.STORE:
        pixel = (f["count0"] - 1) * f["take_bytes"] + f["last_take_bytes"]
        return pixel * f["count1"] * f["count2"] * f["count3"]
    return 0


def report(graph: Graph, stream: Stream, config: Config) -> tuple[LayerReport, ...]:
    """Return one row per layer."""
    rows = []
    for number, layer in enumerate(graph.layers):
        work = dict.fromkeys(("compute", "vector", "weights", "activations"), 0)
        moved = 0
        for unit, operations in stream.by_unit.items():
            for operation in operations:
                if operation.layer != number:
                    continue
                size = _bytes(operation)
                moved += size
                if unit is Unit.ARRAY:
                    work["compute"] += _array_cycles(operation.fields, config)
                elif unit is Unit.VECTOR:
                    work["vector"] += _vector_cycles(operation.fields, config)
                elif operation.fields.get("region") == 0 and unit is Unit.LOAD:
                    work["weights"] += -(-size // config.bus_bytes)
                else:
                    work["activations"] += -(-size // config.bus_bytes)
        bound = max(work, key=lambda key: work[key])
        cycles = max(work["compute"], work["vector"], work["weights"] + work["activations"]) + _PIPELINE_CYCLES
        macs = layer.macs if isinstance(layer, Mac) else 0
        unit_name = "array" if isinstance(layer, Mac) else "vector" if work["vector"] else "load"
        rows.append(LayerReport(layer.index, layer.op, layer.output.name, unit_name, macs, cycles,
                                macs / (cycles * config.macs), moved, bound, stream.runs_of(number)))
    return tuple(rows)
