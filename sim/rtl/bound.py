"""How long a program can take at most: what is longer is taken for a hang."""

from collections.abc import Mapping, Sequence

from tq_hw.isa.config import Config
from tq_hw.isa.encode import EncodeError
from tq_hw.isa.layout import ArrayMode, Unit
from tq_hw.isa.memory import Memory
from tq_hw.isa.program import Program
from tq_hw.sim.executor.stream import Operation, operations

__all__ = ["cycle_bound"]

#: Cycles of the serial machine for a byte of commands, which every unit looks at, and for a cycle of the parallel one:
#: of moves (beside the memory's latency), of the array, of the vector unit.
_SERIAL_COMMAND, _SERIAL_BYTE, _SERIAL_STEP, _SERIAL_BEAT = 40, 60, 400, 500
#: Cycles in which the serial machine clears its registers.
_SERIAL_START = 20_000
#: Cycles that starting any operation, tile or step may cost beside its work.
_START_CYCLES = 100


def cycle_bound(program: Program, memory: Memory) -> int:
    """Return cycles that the program must end in, with every unit working alone and no overlap at all.

    Streams that break the layout stop the hardware within a bound that needs no look at them.
    """
    config, latency = program.config, memory.latency_cycles
    try:
        runs = operations(program.commands, config)
    except EncodeError:
        return 1_000_000
    per_byte = 1 / min(memory.bytes_per_cycle, config.bus_bytes)
    total = program.command_bytes * per_byte + latency
    for unit, found in runs.items():
        for operation in found:
            total += _START_CYCLES + 2 * latency
            if unit is Unit.ARRAY:
                total += _array(operation, config)
            elif unit is Unit.VECTOR:
                total += _vector(operation, config)
            else:
                total += _move(operation.fields, config, latency, per_byte)
    if config.design == "serial":
        total = _serial(program, runs, latency)
    # Random pauses hold up each channel for about half the time.
    return int(2 * total * (1 if memory.stalls is None else 8)) + 20_000


def _serial(program: Program, runs: Mapping[Unit, Sequence[Operation]], latency: int) -> float:
    config = program.config
    total: float = _SERIAL_START + program.command_bytes * (_SERIAL_COMMAND + latency)
    for unit, found in runs.items():
        for operation in found:
            total += 10 * _START_CYCLES
            if unit is Unit.ARRAY:
                total += _SERIAL_STEP * _array(operation, config)
            elif unit is Unit.VECTOR:
                total += _SERIAL_BEAT * _vector(operation, config)
            else:
                total += (_SERIAL_BYTE + latency) * _move(operation.fields, config, 0, 1)
    return total


def _move(fields: Mapping[str, int], config: Config, latency: int, per_byte: float) -> float:
    runs = fields["count2"] * fields["count3"]
    words = runs * fields["count0"] * fields["count1"]
    run_bytes = fields.get("run_bytes", fields["count0"] * fields["count1"] * config.word_bytes)
    return 4 * words + runs * (latency + 8 + (run_bytes + 512) * per_byte)


def _array(operation: Operation, config: Config) -> float:
    fields = operation.fields
    slots = fields["slots"]
    mode = fields["mode"]
    if mode == ArrayMode.GEMM:
        steps = fields["kernel_rows"] * fields["kernel_cols"] * fields["kernel_blocks"] * fields["slices"]
    elif mode == ArrayMode.FOLDED:
        steps = fields["kernel_blocks"]
    else:
        steps = fields["kernel_rows"] * fields["kernel_cols"]
        slots = -(-slots // max(fields["out_cols"], 1)) * (fields["period"] + abs(fields["col_first"]))
    tiles = -(-fields["slots"] // max(fields["tile_slots"], 1)) * fields["out_blocks"]
    return steps * (slots * fields["out_blocks"] + tiles * (2 * config.rows + _START_CYCLES))


def _vector(operation: Operation, config: Config) -> float:
    fields = operation.fields
    body = max(0, fields["body_last"] - fields["body_first"] + 1)
    passes = fields["last"] - fields["first"] + 1 + body * (fields["repeat1"] * fields["repeat2"] - 1)
    words = fields["slots"] * max(fields["out_blocks"], 1)
    chunks = words // max(fields["chunk_slots"], 1) + fields["out_blocks"] * (
        fields["slots"] // max(fields["tile_slots"], 1) + 1)
    return passes * (4 * words * max(config.beats_per_word, 1) + chunks * _START_CYCLES) + 600
