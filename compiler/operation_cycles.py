"""What an operation takes by itself: cycles of tiles and programs, and the bytes that it moves."""

from collections.abc import Callable, Mapping, Sequence

from tq_hw.compiler.ir import ELEMENT_BYTES
from tq_hw.compiler.stream import Operation
from tq_hw.isa.config import Config
from tq_hw.isa.layout import ArrayMode, Unit
from tq_hw.isa.uop import OUTPUTS, Destination, Source

__all__ = ["activation_cycles", "keeps_to_two_banks", "moved_bytes", "program_cycles", "read_beside", "tile_cycles",
           "tile_program_cycles", "tile_sizes"]

#: Rows of weights that a step, cycles that a tile and an operation of the array take at least.
_STEP_LEAST, _TILE_LEAST, _ARRAY_LEAST = 5, 7, 10
#: From one micro-operation to the next that waits for it, from a reduction to anything.
_UOP_GAP, _REDUCE_GAP = 23, 30
#: Cycles that an output is later behind an activation, beside the steps of its beat.
_ACTIVATION = 33


def keeps_to_two_banks(f: Mapping[str, int]) -> bool:
    """Whether input words of the array lie an even distance apart: they stay in two banks."""
    return f["mode"] != ArrayMode.DEPTHWISE and f.get("in_col_step" if f["out_cols"] > 1 else "in_row_step", 0) % 2 == 0


def tile_sizes(f: Mapping[str, int]) -> list[int]:
    """Slots of each tile in turn."""
    whole, rest = divmod(f["slots"], f["tile_slots"])
    return ([f["tile_slots"]] * whole + [rest] * (rest > 0)) * f["out_blocks"] if not f["blocks_inner"] else [
        size for size in [f["tile_slots"]] * whole + [rest] * (rest > 0) for _ in range(f["out_blocks"])]


def tile_cycles(f: Mapping[str, int], config: Config) -> tuple[list[int], int]:
    """Cycles of each tile, and steps of one."""
    depthwise = f["mode"] == ArrayMode.DEPTHWISE
    if depthwise:
        steps = -(-f["kernel_rows"] // config.groups) * -(-f["kernel_cols"] // 3)
    else:
        steps = f["kernel_rows"] * f["kernel_cols"] * f["kernel_blocks"] * f["slices"]
    found = []
    for size in tile_sizes(f):
        slots = size // f["out_cols"] * f["period"] if depthwise else size
        # Weights and input meet in the banks: three words of input at a time, or one; that then goes on out of step.
        if depthwise:
            refused = steps * (slots * 4 // 9)
        elif keeps_to_two_banks(f):
            refused = steps * (slots // 4)
        else:
            refused = steps // 3
        found.append(max(steps * slots, steps * max(f["weight_rows"], _STEP_LEAST) + refused, _TILE_LEAST))
    # Between operations one cycle, and one more where reading is behind the slots.
    found[0] = max(found[0] + 1 + (depthwise and f["col_first"] < 0), _ARRAY_LEAST)
    return found, steps


def program_cycles(operation: Operation, config: Config) -> int:
    """Cycles of a program over streams."""
    f = operation.fields
    return f["out_blocks"] * _in_parts(f["slots"], f["tile_slots"], lambda slots: tile_program_cycles(
        operation, slots, config.beats_per_word, config))


def tile_program_cycles(operation: Operation, slots: int, beats: int, config: Config) -> int:
    """Cycles of a program on a tile of words of so many beats: of each micro-operation, or the way to its result."""
    f = operation.fields
    lengths = [beats * _beat_words(f, uop, config) for uop in operation.uops]
    return _in_parts(slots, f["chunk_slots"], lambda part: _chunk_cycles(
        f, operation.uops, [part * length for length in lengths]))


def _beat_words(f: Mapping[str, int], uop: Mapping[str, int], config: Config) -> int:
    """Most words that a beat of a micro-operation touches, of the streams that it has; steps of an activation."""
    names = [f"{name}_type" for name in "ab" if uop.get(f"{name}_source") == Source.STREAM]
    activates = uop.get("destination") == Destination.ACTIVATION
    names += ["out_type"] * (uop.get("destination") in OUTPUTS)
    size = max((ELEMENT_BYTES[f.get(name, 0)] for name in names), default=1)
    words = 1 if size == 1 else -(-config.requantize_lanes * size // config.word_bytes)
    return max(words, config.activation_steps) if activates else words


def activation_cycles(operation: Operation, config: Config) -> int:
    """Cycles by which an operation's outputs are later, because they go through an activation."""
    activates = any(uop.get("destination") == Destination.ACTIVATION for uop in operation.uops)
    return activates * (_ACTIVATION + config.activation_steps)


def _in_parts(slots: int, limit: int, cycles: Callable[[int], int]) -> int:
    """Cycles of slots that are worked on `limit` at a time."""
    whole, rest = divmod(slots, limit)
    return (whole * cycles(limit) if whole else 0) + (cycles(rest) if rest else 0)


def _chunk_cycles(f: Mapping[str, int], uops: Sequence[Mapping[str, int]], beats: Sequence[int]) -> int:
    """Cycles of a chunk in which each micro-operation has so many beats."""
    count = f["last"] - f["first"] + 1
    body = f["body_last"] - f["body_first"] + 1
    if count == 1 and body <= 0:
        return beats[0]
    first = f["body_first"] - f["first"]
    order = [*range(first), *list(range(first, first + body)) * (f["repeat1"] * f["repeat2"]),
             *range(first + body, count)]
    at, reduced = 0, 0
    # Of the newest run that writes: the register, its first beat and the last; the last beat of all before it, for
    # which everything that reads registers waits.
    newest, began, ended, before = -1, 0, 0, -_UOP_GAP
    for number in order:
        uop = uops[number]
        took = 1 if uop.get("once") else beats[number]
        reads = {uop.get(f"{name}_register", 0) for name in "ab" if uop.get(f"{name}_source") == Source.REGISTER}
        at = max(at, reduced)
        if reads:
            at = max(at, before + _UOP_GAP)
        if newest in reads:
            # What is written more slowly than it is read must be ahead at the end, too.
            at = max(at, began + _UOP_GAP, ended + _UOP_GAP - took + 1)
        if uop.get("destination") == Destination.REDUCE:
            reduced = at + took + _REDUCE_GAP - 1
        elif uop.get("destination", 0) == Destination.REGISTER:
            newest, began, ended, before = uop.get("d_register", 0), at, at + took - 1, ended if newest >= 0 else before
        at += took
    return max(at, reduced)


def moved_bytes(operation: Operation) -> int:
    """Bytes that a load or store moves."""
    f = operation.fields
    if operation.unit is Unit.LOAD:
        return f.get("run_bytes", 0) * f["count2"] * f["count3"]
    if operation.unit is Unit.STORE:
        pixel = (f["count0"] - 1) * f["take_bytes"] + f["last_take_bytes"]
        return pixel * f["count1"] * f["count2"] * f["count3"]
    return 0


def read_beside(at: int, count: int, low: int, high: int, adds: int) -> int:
    """Return when so many words are read from `at` on, if `adds` cycles between `low` and `high` are not for them."""
    before = min(count, max(0, low - at))
    at, count = at + before, count - before
    if count == 0 or at >= high:
        return at + count
    left = max(0, high - low - adds) * (high - at) // (high - low)
    return at + count * (high - at) // left if count < left else high + count - left
