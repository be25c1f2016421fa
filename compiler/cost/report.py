"""The per-layer report: estimated cycles from the emitted operations, bytes moved, and the bound of a layer."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from tq_hw.compiler.cost.array_cycles import array_tiles, tile_sizes
from tq_hw.compiler.cost.operation_cycles import moved_bytes, program_cycles, tile_program_cycles
from tq_hw.compiler.cost.timing import Timeline, layer_cycles
from tq_hw.compiler.ir.layers import Graph
from tq_hw.compiler.stream.stream import Operation, Stream
from tq_hw.isa.config import Config
from tq_hw.isa.layout import Unit, VectorKind
from tq_hw.isa.program import REGION_IMAGE, Layer
from tq_hw.isa.sizes import ceil_div

__all__ = ["LayerReport", "report"]


@dataclass(frozen=True)
class LayerReport:
    """One operator of the model as it runs.

    Members
    -------
    cycles : estimated cycles from the end of the layer before to its own end
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

    @property
    def layer(self) -> Layer:
        """The record in the compiled file."""
        return Layer(self.index, self.op, self.name, self.unit, self.macs, self.cycles, self.bytes, self.bound,
                     self.runs)


def _vector_cycles(operation: Operation, config: Config) -> int:
    """Cycles of a vector operation without waits."""
    f = operation.fields
    if f.get("kind") == VectorKind.LOAD_TABLE:
        return f["slots"]
    if f.get("use_acc"):
        return sum(count * tile_program_cycles(operation, size, config.beats_per_acc_word, config)
                   for size, count in Counter(tile_sizes(f)).items())
    return program_cycles(operation, config)


def report(graph: Graph, stream: Stream, config: Config, times: Timeline) -> tuple[LayerReport, ...]:
    """Return one row per operator that has layers, in the order of its last layer."""
    cycles = layer_cycles(stream, times, [layer.index for layer in graph.layers])
    work: dict[int, dict[str, int]] = {}
    moved: dict[int, int] = {}
    numbers: dict[int, list[int]] = {}
    for number, layer in enumerate(graph.layers):
        work.setdefault(layer.index, dict.fromkeys(("compute", "vector", "weights", "activations"), 0))
        numbers.setdefault(layer.index, []).append(number)
    for unit, operations in stream.by_unit.items():
        for operation in operations:
            index = graph.layers[operation.layer].index
            size = moved_bytes(operation)
            moved[index] = moved.get(index, 0) + size
            if unit is Unit.ARRAY:
                work[index]["compute"] += sum(tile.cycles for tile in array_tiles(operation, config))
            elif unit is Unit.VECTOR:
                work[index]["vector"] += _vector_cycles(operation, config)
            elif operation.fields.get("region") == REGION_IMAGE and unit is Unit.LOAD:
                work[index]["weights"] += ceil_div(size, config.bus_bytes)
            else:
                work[index]["activations"] += ceil_div(size, config.bus_bytes)
    rows, runs = [], stream.runs_of([layer.index for layer in graph.layers])
    for index, parts in numbers.items():
        layers = [graph.layers[number] for number in parts]
        busy = work[index]
        macs = sum(layer.macs for layer in layers)
        unit_name = "array" if macs or busy["compute"] else "vector" if busy["vector"] else "load"
        took = cycles.get(index, 0)
        rows.append(LayerReport(
            index, layers[-1].op, layers[-1].output.name, unit_name, macs, took,
            macs / (took * config.macs) if took else 0.0, moved.get(index, 0), max(busy, key=lambda key: busy[key]),
            runs.get(index, {})))
    return tuple(rows)
