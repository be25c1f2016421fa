"""Cost of a single operation: cycles of tiles and programs, and the bytes that it moves."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from tq_hw.compiler.ir.value import ELEMENT_BYTES
from tq_hw.compiler.stream.stream import Operation
from tq_hw.isa.config import Config
from tq_hw.isa.latency import (
    RUN_LEAST_CYCLES,
    UOP_WAIT_CYCLES,
    VECTOR_TILE_CYCLES,
    activation_cycles,
    beat_words,
    reduce_latency_cycles,
)
from tq_hw.isa.layout import Unit, VectorKind
from tq_hw.isa.sizes import ceil_div
from tq_hw.isa.uop import OUTPUTS, Destination, Source

__all__ = ["activation_delay", "awaits_outputs", "has_outputs", "in_parts", "moved_bytes", "param_block_cycles",
           "program_cycles", "read_beside", "run_beats", "stream_words", "tile_program_cycles"]

#: Fields of an operation that decide how long a chunk takes.
_PROGRAM_FIELDS = ("first", "last", "body_first", "body_last", "repeat1", "repeat2", "a_type", "b_type", "out_type")


def program_cycles(operation: Operation, config: Config) -> int:
    """Cycles of a program over streams."""
    f = operation.fields
    return f["out_blocks"] * in_parts(f["slots"], f["tile_slots"], lambda slots: max(
        VECTOR_TILE_CYCLES, tile_program_cycles(operation, slots, config.beats_per_word, config)))


def tile_program_cycles(operation: Operation, slots: int, beats: int, config: Config) -> int:
    """Cycles of a program on a tile, for words of `beats` beats, including waits for results."""
    f = operation.fields
    used = tuple(f.get(name, 0) for name in _PROGRAM_FIELDS)
    uops = tuple(tuple(uop.items()) for uop in operation.uops)
    return in_parts(slots, f["chunk_slots"], lambda part: _chunk_cycles(used, uops, part * beats, config))


@lru_cache(maxsize=4096)
def _chunk_cycles(used: tuple[int, ...], items: tuple[tuple[tuple[str, int], ...], ...], beats: int,
                  config: Config) -> int:
    """Return the cycles of a chunk; the operations of a layer differ mostly in addresses."""
    f, uops = dict(zip(_PROGRAM_FIELDS, used, strict=True)), [dict(each) for each in items]
    return chunk_runs(f, uops, beats, [_beat_words(f, uop, config) for uop in uops], config)[1]


def beat_cycles(operation: Operation, config: Config) -> list[int]:
    """Return the cycles of a beat, for each micro-operation of a program."""
    return [_beat_words(operation.fields, uop, config) for uop in operation.uops]


def _beat_words(f: Mapping[str, int], uop: Mapping[str, int], config: Config) -> int:
    """Most words that a beat of a micro-operation accesses in one stream, or the steps of its activation."""
    names = [f"{name}_type" for name in "ab" if uop.get(f"{name}_source") == Source.STREAM]
    activates = uop.get("destination") == Destination.ACTIVATION
    names += ["out_type"] * (uop.get("destination") in OUTPUTS)
    size = max((ELEMENT_BYTES[f.get(name, 0)] for name in names), default=1)
    words = beat_words(config, size)
    return max(words, config.activation_steps) if activates else words


def stream_words(operation: Operation, config: Config) -> int:
    """Words of stream A that a program reads."""
    f = operation.fields
    body = range(f["body_first"], f["body_last"] + 1)
    repeats = f["repeat1"] * f["repeat2"]
    reads = sum(repeats if number in body else 1 for number, uop in enumerate(operation.uops, f["first"])
                if uop.get("a_source") == Source.STREAM and not uop.get("once"))
    return reads * f["slots"] * f["out_blocks"] * ELEMENT_BYTES[f.get("a_type", 0)]


def param_block_cycles(config: Config) -> int:
    """Cycles of reading a parameter block: one for each beat that a word serves."""
    lanes, found = config.requantize_lanes, 0
    for size in (4, 4, 1):
        of_word = config.word_bytes // size
        found += sum(ceil_div(min(of_word, config.cols - first), lanes) for first in range(0, config.cols, of_word))
    return found


def activation_delay(operation: Operation, config: Config) -> int:
    """Additional latency of an operation's outputs if they pass an activation."""
    activates = any(uop.get("destination") == Destination.ACTIVATION for uop in operation.uops)
    return activation_cycles(config) if activates else 0


def has_outputs(operation: Operation) -> bool:
    """Whether a program writes words; one that only writes registers does not delay a stream."""
    return any(uop.get("destination", Destination.REGISTER) in OUTPUTS for uop in operation.uops)


def awaits_outputs(operation: Operation) -> bool:
    """Whether an operation without sums starts only after all earlier outputs: it reads a stream, or a table."""
    return operation.fields.get("kind") == VectorKind.LOAD_TABLE or any(
        uop.get(f"{name}_source") == Source.STREAM for uop in operation.uops for name in "ab")


def in_parts(slots: int, limit: int, cycles: Callable[[int], int]) -> int:
    """Cycles of slots in parts of at most `limit`."""
    whole, rest = divmod(slots, limit)
    return (whole * cycles(limit) if whole else 0) + (cycles(rest) if rest else 0)


def chunk_runs(f: Mapping[str, int], uops: Sequence[Mapping[str, int]], beats: int, words: Sequence[int],
               config: Config) -> tuple[list[tuple[int, int, int]], int]:
    """Return the runs of micro-operations in a chunk of `beats` beats, and the cycles of all runs.

    A run is the number of the micro-operation in the program, the number of the repetition, and its first cycle. A beat
    takes one cycle for each word that the micro-operation accesses.
    """
    count = f["last"] - f["first"] + 1
    body = f["body_last"] - f["body_first"] + 1
    first = f["body_first"] - f["first"]
    order = [(number, 0) for number in range(first if body > 0 else count)]
    if body > 0:
        order += [(number, repeat) for repeat in range(f["repeat1"] * f["repeat2"])
                  for number in range(first, first + body)]
        order += [(number, 0) for number in range(first + body, count)]
    found = []
    at, reduced = 0, 0
    # For the newest run that writes: the register, its last beat, and the cycle from which its first beat can be read.
    # For all runs before it: their last beat, for which every run that reads registers waits.
    newest, ended, ready, before = -1, 0, 0, -UOP_WAIT_CYCLES
    for number, repeat in order:
        uop = uops[number]
        writes = 1 if uop.get("once") else beats
        last = writes * words[number] - 1
        reads = {uop.get(f"{name}_register", 0) for name in "ab" if uop.get(f"{name}_source") == Source.REGISTER}
        at = max(at, reduced)
        if reads:
            at = max(at, before + UOP_WAIT_CYCLES)
        if newest in reads:
            at = max(at, ready)
        if uop.get("destination") == Destination.REDUCE:
            reduced = at + last + reduce_latency_cycles(config)
        elif uop.get("destination", 0) == Destination.REGISTER:
            newest, ended, before = uop.get("d_register", 0), at + last, ended if newest >= 0 else before
            # While it writes, only beats are counted: a writer slower than its reader must be ahead at its end.
            ready = ended + max(0, UOP_WAIT_CYCLES + 1 - writes)
        found.append((number, repeat, at))
        at += max(RUN_LEAST_CYCLES, last + 1)
    return found, max(at, reduced)


def moved_bytes(operation: Operation) -> int:
    """Bytes that a load or store moves."""
    f = operation.fields
    if operation.unit is Unit.LOAD:
        return f.get("run_bytes", 0) * f["count2"] * f["count3"]
    if operation.unit is Unit.STORE:
        pixel = (f["count0"] - 1) * f["take_bytes"] + f["last_take_bytes"]
        return pixel * f["count1"] * f["count2"] * f["count3"]
    return 0


def run_beats(f: Mapping[str, int], config: Config) -> int:
    """Beats on the bus of the runs of a load or store."""
    width = config.bus_bytes
    first, size = f["memory_offset_bytes"] % width, f["run_bytes"]
    found = 0
    for outer, times in _places(f["count3"], f.get("stride3_bytes", 0), width):
        for inner, each in _places(f["count2"], f.get("stride2_bytes", 0), width):
            found += times * each * ceil_div((first + outer + inner) % width + size, width)
    return found


def _places(count: int, stride: int, width: int) -> list[tuple[int, int]]:
    """Return the offsets within a beat at which runs begin, and the number of runs at each."""
    if stride % width == 0:
        return [(0, count)]
    return [(number * stride % width, ceil_div(count - number, width)) for number in range(min(count, width))]


def read_beside(at: int, count: int, low: int, high: int, adds: int, beats: int = 1) -> int:
    """Return when `count` cycles of reading, from `at` on, end, if `adds` of the cycles `low` to `high` are not free.

    A word is read in the first of its `beats` cycles; the others need no access.
    """
    before = min(count, ceil_div(max(0, low - at), beats) * beats)
    at, count = at + before, count - before
    if count == 0 or at >= high:
        return at + count
    left = max(0, high - low - adds) * (high - at) // (high - low)
    return at + count * (high - at) // left if count < left else high + count - left
