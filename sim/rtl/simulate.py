"""Run a program on the Verilated RTL."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tq_hw.isa.control import MAGIC, NO_RUN, STATUS_DONE, STATUS_ERROR, Status, counted
from tq_hw.isa.layout import Unit
from tq_hw.isa.memory import YARDSTICK, Memory
from tq_hw.isa.program import Program
from tq_hw.model.errors import OptionError
from tq_hw.sim import edges
from tq_hw.sim.faults import SimulationError, located
from tq_hw.sim.rtl.arithmetic import RTL, Arithmetic
from tq_hw.sim.rtl.bench import Bench
from tq_hw.sim.rtl.bound import cycle_bound, quiet_bound
from tq_hw.sim.rtl.build import Progress, library
from tq_hw.sim.rtl.design import accelerator_with
from tq_hw.sim.rtl.waves import Waves, written_whole

__all__ = ["RtlResult", "layer_cycles", "simulate", "simulate_in_turn"]

Array = npt.NDArray[Any]

#: Cycles between checks of the time, a fraction of a second.
_SLICE_CYCLES = 50_000
#: Undefined bytes of the arena that are drawn at a time.
_NOISE_BYTES = 1 << 20
#: Addresses of the regions, as the host sets them.
_BASES = (0x10000000, 0x50000000, 0x90000000)


class _Bounds(NamedTuple):
    """Limits of a run: cycles in total, and cycles without a begin or end of an operation or a transfer."""

    cycles: int
    quiet: int


@dataclass(frozen=True, eq=False)
class RtlResult:
    """Result of one run.

    Members
    -------
    outputs : one array per output port, in the model's type and shape
    state : region 2 after the run
    cycles : from the write of the start register to the interrupt
    counters : the hardware's own, by name; see isa/control.py
    beats : the memory's counters
    spans : beats read and written in each `span_cycles` cycles from the start on, [spans, 2]
    timeline : cycles in which each RUN began and was done, [runs, 2] per unit
    layer_cycles : by layer index, the time from the previous end of a layer to the layer's own end
    """

    outputs: tuple[Array, ...]
    state: bytes
    cycles: int
    counters: Mapping[str, int]
    beats: Mapping[str, int]
    spans: npt.NDArray[np.int64]
    span_cycles: int
    timeline: Mapping[Unit, npt.NDArray[np.int64]]
    layer_cycles: Mapping[int, int]


def simulate(program: Program, inputs: Sequence[Array], memory: Memory = YARDSTICK, *, waves: Waves | None = None,
             max_cycles: int | None = None, watchdog_cycles: int = 0, state: bytes | None = None,
             progress: Progress | None = None, arithmetic: Arithmetic = RTL) -> RtlResult:
    """Run `program` once, from reset, on the RTL of its configuration (built first if necessary).

    Parameters
    ----------
    memory : of the simulation; the seed of its stalls also draws unusual addresses for the regions
    waves : file to write
    arithmetic : multipliers and lanes as "rtl" or as "model", see arithmetic.py; waves need the RTL
    max_cycles : when to give up; by default a bound that no program reaches
    watchdog_cycles : of the machine's own watchdog; 0 disables it
    state : region 2 before the run, by default the program's
    progress : called while the simulator is built

    Raises SimulationError for an error status or a hang, OptionError for wrong inputs or options, ToolError and
    MissingToolError from the build.
    """
    return simulate_in_turn((program,), inputs, memory, waves=waves, max_cycles=max_cycles,
                            watchdog_cycles=watchdog_cycles, state=state, progress=progress, arithmetic=arithmetic)[0]


def simulate_in_turn(programs: Sequence[Program], inputs: Sequence[Array], memory: Memory = YARDSTICK, *,
                     waves: Waves | None = None, max_cycles: int | None = None, watchdog_cycles: int = 0,
                     state: bytes | None = None, progress: Progress | None = None,
                     arithmetic: Arithmetic = RTL) -> list[RtlResult]:
    """Run programs one after the other on hardware that is reset only before the first one.

    Each program starts with the scratchpad of the previous one, and with the initial inputs and state. The last
    program's image must contain what all need. Parameters, waves (of all runs) and errors as of `simulate`.
    """
    program = programs[-1]
    edges.check_inputs(program, inputs)
    state = program.state if state is None else state
    if len(state) != len(program.state):
        raise OptionError(f"{program.name}: the state has {len(program.state)} bytes, not {len(state)}")
    if waves is not None and arithmetic != RTL:
        raise OptionError("waves show the whole RTL: leave --array and --lanes out")
    most = cycle_bound(program, memory) if max_cycles is None else max_cycles
    bounds = _Bounds(most, quiet_bound(program, memory))
    made = library(program.config, trace="" if waves is None else waves.kind, progress=progress,
                   scopes=() if waves is None else waves.scopes,
                   design=accelerator_with(arithmetic, program.config))
    with written_whole(waves) as recorded, Bench(made, memory) as bench:
        bench.write_register("watchdog", watchdog_cycles)
        return _run(programs, inputs, bench, state, memory.stalls, bounds, recorded)


def _run(programs: Sequence[Program], inputs: Sequence[Array], bench: Bench, state: bytes, stalls: int | None,
         bounds: _Bounds, waves: Waves | None) -> list[RtlResult]:
    rng = np.random.default_rng(0 if stalls is None else stalls)
    bases = [base + (0 if stalls is None else 16 * int(rng.integers(0, 256))) for base in _BASES]
    last = programs[-1]
    bench.map(bases[0], last.image)
    bench.add_memory(bases[1], last.arena_bytes)
    for at in range(0, last.arena_bytes, _NOISE_BYTES):
        bench.write(bases[1] + at, rng.bytes(min(_NOISE_BYTES, last.arena_bytes - at)))
    bench.map(bases[2], state)
    for number, base in enumerate(bases):
        bench.write_register(f"base{number}", base)
    results = []
    for program in programs:
        bench.write(bases[2], state)
        for port, array in zip(program.inputs, inputs, strict=True):
            bench.write(bases[port.region] + port.region_offset_bytes, edges.to_port(port, array))
        results.append(_run_one(program, bench, bases, bounds, waves))
        waves = None  # the same file continues
    return results


def _wait(program: Program, bench: Bench, bounds: _Bounds) -> int:
    """Run until the interrupt and return the cycles; SimulationError when it does not come."""
    cycles = quiet = events = 0
    beats = bench.statistics
    while not bench.run(slice_cycles := min(bounds.cycles - cycles, _SLICE_CYCLES)):
        cycles += slice_cycles
        if cycles >= bounds.cycles:
            raise SimulationError(_hang_message(program, bench, f"not finished after {cycles} cycles"))
        more, now = len(bench.events(events)), bench.statistics
        quiet = 0 if more or now != beats else quiet + slice_cycles
        if quiet > bounds.quiet:
            raise SimulationError(_hang_message(program, bench, f"no activity after {cycles} cycles"))
        events, beats = events + more, now
    return bench.cycles


def _run_one(program: Program, bench: Bench, bases: Sequence[int], bounds: _Bounds,
             waves: Waves | None) -> RtlResult:
    _check_identity(program, bench)
    bench.write_register("command_offset", program.command_offset)
    bench.write_register("command_bytes", program.command_bytes)
    before = bench.statistics
    if waves is not None:
        bench.trace(waves)
    bench.write_register("control", 1)
    cycles = _wait(program, bench, bounds)
    status = bench.read_register("status")
    if status != STATUS_DONE:
        raise _device_error(program, bench, status, cycles)
    outputs = tuple(
        edges.from_port(port, bench.read(bases[port.region] + port.region_offset_bytes, port.size_bytes))
        for port in program.outputs)
    counters = {name: bench.read_register(f"counter_{name}") for name in counted(program.config)}
    beats = {name: count - before[name] for name, count in bench.statistics.items()}
    timeline = bench.timeline
    return RtlResult(outputs, bench.read(bases[2], len(program.state)), cycles, counters, beats, bench.spans,
                     bench.span_cycles, timeline, layer_cycles(program, timeline, cycles))


def _check_identity(program: Program, bench: Bench) -> None:
    """Refuse a program on hardware of another configuration."""
    magic, fingerprint = bench.read_register("magic"), bench.read_register("fingerprint")
    if magic != MAGIC or fingerprint != program.fingerprint:
        raise SimulationError(f"{program.name}: is compiled for fingerprint {program.fingerprint:08x}, the hardware "
                              f"has {fingerprint:08x} (magic {magic:08x}, expected {MAGIC:08x})")


def _device_error(program: Program, bench: Bench, status: int, cycles: int) -> SimulationError:
    code, unit_number, index = (bench.read_register(name) for name in ("error_code", "error_unit", "error_index"))
    if not status & STATUS_ERROR or code not in list(Status) or unit_number not in list(Unit):
        return SimulationError(f"{program.name}: the interrupt came with status {status:#x}, error code {code}, unit "
                               f"{unit_number}, which are not valid")
    found, unit = Status(code), Unit(unit_number)
    if unit is Unit.CONTROL:
        where = "of fetch" if found is Status.NO_ANSWER else "in the command stream"
        return SimulationError(f"{program.name}: {found.name} {where}, at cycle {cycles}", found, unit)
    if index == NO_RUN:
        what = f"{found.name} of the {unit.name.lower()} unit"
        return SimulationError(f"{program.name}: {what}, at cycle {cycles}", found, unit)
    return SimulationError(f"{located(program, unit, index)}: {found.name}, at cycle {cycles}", found, unit, index)


def _hang_message(program: Program, bench: Bench, what: str) -> str:
    parts = []
    for unit, times in bench.timeline.items():
        under_way = [(run, began) for run, (began, done) in enumerate(times) if done < 0]
        if under_way:
            run, began = under_way[0]
            parts.append(f"{located(program, unit, run)} began in cycle {began} and is not done")
        else:
            parts.append(f"{unit.name.lower()} did {len(times)} RUNs and waits")
    return f"{program.name}: {what}: " + "; ".join(parts)


def layer_cycles(program: Program, timeline: Mapping[Unit, npt.NDArray[np.int64]],
                 run_cycles: int | None = None) -> dict[int, int]:
    """Divide the run time among layers: each gets the time from the previous end of a layer to its own end.

    Layers are in the order of their ends. The last one also gets the rest of `run_cycles`, the few cycles in which the
    machine detects the end.
    """
    ends: dict[int, int] = {}
    for layer in program.layers:
        last = [int(timeline[Unit[name.upper()]][run_range[1], 1]) for name, ranges in layer.runs.items()
                for run_range in ranges]
        if last:
            ends[layer.index] = max(last)
    cycles, before = {}, 0
    for index, end in sorted(ends.items(), key=lambda item: item[1]):
        cycles[index] = end - before
        before = end
    if cycles and run_cycles is not None:
        cycles[list(cycles)[-1]] += run_cycles - before
    return cycles
