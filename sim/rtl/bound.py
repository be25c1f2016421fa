"""Upper bounds of a program's run time: a longer run counts as a hang."""

from collections.abc import Iterable, Mapping
from itertools import chain

from tq_hw.isa.command_rules import MOST_CYCLES
from tq_hw.isa.config import Config
from tq_hw.isa.layout import ArrayMode, Unit
from tq_hw.isa.memory import Memory
from tq_hw.isa.operations import Operation, read_stream
from tq_hw.isa.program import Program
from tq_hw.isa.sizes import ceil_div
from tq_hw.isa.work import array_steps, stored_bytes, vector_passes

__all__ = ["cycle_bound", "quiet_bound"]

#: Cycles of the serial machine per byte of commands, which every unit examines, and per cycle of the parallel machine:
#: of moves (plus the memory's latency), of the array, of the vector unit.
_SERIAL_COMMAND, _SERIAL_BYTE, _SERIAL_STEP, _SERIAL_BEAT = 40, 60, 400, 500
#: Cycles in which the serial machine clears its registers.
_SERIAL_START = 20_000
#: Overhead of starting any operation, tile or step.
_START_CYCLES = 100
#: Cycles after which a machine without work has stopped.
_LEAST_CYCLES = 20_000


def cycle_bound(program: Program, memory: Memory) -> int:
    """Return a bound of the program's cycles, with no overlap between units.

    It is at least 20,000 and at most 2^32, whatever the commands are.
    """
    if program.config.design == "serial":
        total = _serial(program, memory.latency_cycles)
    else:
        total = program.command_bytes * _per_byte(program.config, memory) + memory.latency_cycles
        total += sum(_alone(operation, program.config, memory) for operation in _read(program))
    return _rounded_up(total, memory)


def quiet_bound(program: Program, memory: Memory) -> int:
    """Return the cycles within which a machine that is not stuck begins or ends an operation, or moves a byte.

    The serial machine does not report its operations, so its bound is that of the whole program.
    """
    if program.config.design == "serial":
        return cycle_bound(program, memory)
    return _rounded_up(max((_alone(operation, program.config, memory) for operation in _read(program)), default=0),
                       memory)


def _rounded_up(cycles: float, memory: Memory) -> int:
    # Random stalls block each channel for about half the time.
    return min(int(2 * cycles * (1 if memory.stalls is None else 8)) + _LEAST_CYCLES, MOST_CYCLES)


def _per_byte(config: Config, memory: Memory) -> float:
    return 1 / min(memory.bytes_per_cycle, config.bus_bytes)


def _alone(operation: Operation, config: Config, memory: Memory) -> float:
    """Return the cycles of an operation that runs alone."""
    latency = memory.latency_cycles
    started = _START_CYCLES + 2 * latency
    if operation.unit is Unit.ARRAY:
        return started + _array(operation, config)
    if operation.unit is Unit.VECTOR:
        return started + _vector(operation, config)
    return started + _move(operation.fields, config, latency, _per_byte(config, memory))


def _read(program: Program) -> Iterable[Operation]:
    """Return the operations that the units receive; the hardware stops where a stream is malformed."""
    return chain.from_iterable(read_stream(program.commands, program.config).operations.values())


def _serial(program: Program, latency: int) -> float:
    config = program.config
    total: float = _SERIAL_START + program.command_bytes * (_SERIAL_COMMAND + latency)
    for operation in _read(program):
        total += 10 * _START_CYCLES
        if operation.unit is Unit.ARRAY:
            total += _SERIAL_STEP * _array(operation, config)
        elif operation.unit is Unit.VECTOR:
            total += _SERIAL_BEAT * _vector(operation, config)
        else:
            total += (_SERIAL_BYTE + latency) * _move(operation.fields, config, 0, 1)
    return total


def _move(fields: Mapping[str, int], config: Config, latency: int, per_byte: float) -> float:
    runs = fields["count2"] * fields["count3"]
    words = runs * fields["count0"] * fields["count1"]
    run_bytes = fields["run_bytes"] if "run_bytes" in fields else stored_bytes(fields)
    return 4 * words + runs * (latency + 8 + (run_bytes + 512) * per_byte)


def _array(operation: Operation, config: Config) -> float:
    fields = operation.fields
    slots, steps = fields["slots"], array_steps(fields, config)
    if fields["mode"] == ArrayMode.DEPTHWISE:
        # The serial machine takes one step per tap.
        steps = fields["kernel_rows"] * fields["kernel_cols"]
        slots = ceil_div(slots, max(fields["out_cols"], 1)) * (fields["period"] + abs(fields["col_first"]))
    tiles = ceil_div(fields["slots"], max(fields["tile_slots"], 1)) * fields["out_blocks"]
    return steps * (slots * fields["out_blocks"] + tiles * (2 * config.rows + _START_CYCLES))


def _vector(operation: Operation, config: Config) -> float:
    fields = operation.fields
    words = fields["slots"] * max(fields["out_blocks"], 1)
    chunks = words // max(fields["chunk_slots"], 1) + fields["out_blocks"] * (
        fields["slots"] // max(fields["tile_slots"], 1) + 1)
    # A beat of an activation takes several cycles.
    beats = max(config.beats_per_word, config.beats_per_acc_word, 1) * max(4, config.activation_steps)
    return vector_passes(fields) * (words * beats + chunks * _START_CYCLES) + 600
