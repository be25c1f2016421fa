"""Compile a network, run it on the RTL, and derive its figures and those of its layers."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt
from yardsticks import Yardstick

from tq_hw.boards.catalog.board import Ddr3, Sdr
from tq_hw.boards.catalog.catalog import BOARDS
from tq_hw.boards.catalog.rates import memory_rate
from tq_hw.compiler import compile_model
from tq_hw.compiler.warm import warm_program
from tq_hw.isa.config import Config
from tq_hw.isa.layout import Unit
from tq_hw.isa.memory import YARDSTICK, Memory
from tq_hw.isa.program import Layer, Program
from tq_hw.model.errors import MismatchError
from tq_hw.sim import golden
from tq_hw.sim.engines import random_inputs
from tq_hw.sim.rtl.simulate import RtlResult, simulate_in_turn

__all__ = ["BOARD_MEMORIES", "LayerFigures", "Memory", "NetworkFigures", "measure"]

_BOUND_SHARE = 0.75
Array = npt.NDArray[Any]


#: Memory timing as seen by the accelerator on boards with DRAM.
BOARD_MEMORIES = {name: memory_rate(board, memory) for name, board in BOARDS.items()
                  for memory in board.memories if isinstance(memory, Sdr | Ddr3)}


@dataclass(frozen=True)
class LayerFigures:
    """One operator.

    Members
    -------
    cycles : from the latest end of the layers that end before it to its own end; overlapped work counts for the layer
        that ends first
    estimate, error : the compiler's estimate, and its relative error
    utilization : MACs per multiplier and cycle
    busy : per unit, the cycles in which it had a RUN of this layer in progress
    bound : the first unit in the direction of the data that was busy for _BOUND_SHARE of the cycles, else the busiest
        one. Later units are busy, too, while they wait for it
    """

    index: int
    op: str
    name: str
    macs: int
    cycles: int
    estimate: int
    error: float
    utilization: float
    busy: dict[str, int]
    bound: str


@dataclass(frozen=True)
class NetworkFigures:
    """One inference from a cold start: commands, weights and input from memory.

    Members
    -------
    ideal : max(macs / multipliers, (image + input + output bytes) / bytes per cycle)
    ratio_ideal, ratio_to_beat, ratio_stretch : cycles divided by these
    cycles_per_cpu_second : simulation speed, without the build
    warm : cycles of the next inference, with resident weights; None for a single layer
    vela : Vela's estimate for an Ethos-U55 with the same number of multipliers, None if there is none
    """

    name: str
    config: str
    cycles: int
    estimate: int
    macs: int
    utilization: float
    ideal: int
    ratio_ideal: float
    to_beat: int | None
    ratio_to_beat: float | None
    stretch: int | None
    ratio_stretch: float | None
    compile_seconds: float
    cycles_per_cpu_second: float
    image_bytes: int
    command_bytes: int
    counters: dict[str, int]
    beats: dict[str, int]
    layers: list[LayerFigures]
    warm: int | None = None
    vela: int | None = None

    @property
    def errors(self) -> tuple[float, float]:
        """Return median and worst error of the estimate over the layers that take at least 1 % of the cycles."""
        found = [abs(layer.error) for layer in self.layers if layer.cycles >= self.cycles / 100]
        return (median(found), max(found)) if found else (0.0, 0.0)

    def to_json(self) -> dict[str, object]:
        """Return the figures as JSON values."""
        return asdict(self)


def measure(yardstick: Yardstick, config: Config, memory: Memory, *, warm: bool = True) -> NetworkFigures:
    """Measure one inference of seeded random inputs; MismatchError if an integer differs from the golden model's.

    The simulator must be built before, otherwise its build counts as simulation time. `warm`: also the next inference.
    """
    model = yardstick.model()
    start = time.process_time()
    compiled = compile_model(model, config, resident=yardstick.resident, memory=memory)
    compile_seconds = time.process_time() - start
    program = compiled.program
    warm = warm and not yardstick.resident
    programs = [program, warm_program(compiled)] if warm else [program]

    inputs = random_inputs(program, seed=1)
    start = time.process_time()
    results = simulate_in_turn(programs, inputs, memory)
    seconds = time.process_time() - start
    expected = golden.run(model, inputs).outputs
    for result in results:
        _compare(yardstick, result.outputs, expected)
    result = results[0]
    cycles = _resident_cycles(result) if yardstick.resident else result.cycles

    macs = sum(layer.macs for layer in program.layers)
    moved = len(program.image) + sum(port.size_bytes for port in (*program.inputs, *program.outputs))
    moved = 0 if yardstick.resident else moved
    ideal = max(1, round(max(macs / config.macs, moved / memory.bytes_per_cycle)))
    goals = [goal.get(config.name) if memory == YARDSTICK else None for goal in (yardstick.to_beat, yardstick.stretch)]
    return NetworkFigures(
        yardstick.name, config.name, cycles, sum(layer.estimated_cycles for layer in program.layers), macs,
        macs / (cycles * config.macs), ideal, cycles / ideal,
        goals[0], goals[0] and cycles / goals[0], goals[1], goals[1] and cycles / goals[1],
        compile_seconds, sum(each.cycles for each in results) / seconds, len(program.image), program.command_bytes,
        dict(result.counters), dict(result.beats), _layers(program, result),
        warm=results[1].cycles if warm else None)


def _compare(yardstick: Yardstick, outputs: Sequence[Array], expected: Sequence[Array]) -> None:
    for number, (found, right) in enumerate(zip(outputs, expected, strict=True)):
        if not np.array_equal(found, right):
            raise MismatchError(f"{yardstick.name}: output {number} of the RTL differs from the golden model in "
                                f"{np.count_nonzero(found != right)} of {right.size} elements; "
                                f"tq-hw verify {yardstick.path.name} --engine rtl --resident says where")


def _resident_cycles(result: RtlResult) -> int:
    """Return the cycles from the first operation of the array to the last result.

    Without an array operation they begin at the vector unit's first operation after the operands are loaded.
    """
    array, vector, load = (result.timeline[unit] for unit in (Unit.ARRAY, Unit.VECTOR, Unit.LOAD))
    loaded = max(int(done) for _, done in load)
    starts = [int(began) for began, _ in array] or [int(began) for began, _ in vector if began >= loaded]
    return max(int(done) for _, done in vector) - min(starts)


def _layers(program: Program, result: RtlResult) -> list[LayerFigures]:
    """Return the layers that have commands, in the order in which they end."""
    found: list[LayerFigures] = []
    before = 0
    by_index = {layer.index: layer for layer in program.layers}
    for index, cycles in result.layer_cycles.items():
        layer = by_index[index]
        end = before + cycles
        busy = {unit.name.lower(): _busy(layer, unit, result, before, end)
                for unit in (Unit.LOAD, Unit.ARRAY, Unit.VECTOR, Unit.STORE)}
        bound = next((name for name, count in busy.items() if count and count >= _BOUND_SHARE * cycles),
                     max(busy, key=lambda name: busy[name]) if any(busy.values()) else "")
        estimate = layer.estimated_cycles
        found.append(LayerFigures(
            layer.index, layer.op, layer.name, layer.macs, cycles, estimate,
            (estimate - cycles) / cycles if cycles else 0.0,
            layer.macs / (cycles * program.config.macs) if cycles else 0.0, busy, bound))
        before = end
    return found


def _busy(layer: Layer, unit: Unit, result: RtlResult, start: int, end: int) -> int:
    """Return the cycles between `start` and `end` in which a unit had a RUN of the layer in progress."""
    total, covered = 0, start
    for first, last in layer.runs.get(unit.name.lower(), ()):
        for began, done in result.timeline[unit][first:last + 1]:
            total += max(0, min(int(done), end) - max(int(began), covered))
            covered = max(covered, min(int(done), end))
    return total
