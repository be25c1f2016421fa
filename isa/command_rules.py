"""Rules for the commands of a compiled file, beyond their layout: rules of each operation, and of all together.

They are checked when a file is written or read. isa/legality.py has the rules that the machine itself checks.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from tq_hw.isa.encode import WORD_BYTES, EncodeError
from tq_hw.isa.layout import Unit, VectorKind
from tq_hw.isa.operations import Operation, walk
from tq_hw.isa.program import Layer, Program
from tq_hw.isa.program_rules import ProgramError, require, run_ranges
from tq_hw.isa.promises import Buffers, broken_clamp, broken_depthwise
from tq_hw.isa.work import array_steps, operation_cycles, stored_bytes

__all__ = ["COMMAND_RULES", "CYCLES_PER_ESTIMATE", "FREE_CYCLES", "MOST_CYCLES", "MOST_OPERATION_CYCLES", "MOST_WORDS",
           "check_commands"]

#: Number of scratchpad word addresses.
MOST_WORDS = 1 << 16
#: Most cycles of one operation; the largest of a compiled network takes a hundredth of it.
MOST_OPERATION_CYCLES = 1 << 24
#: Most cycles of a program: the range of the hardware's counter.
MOST_CYCLES = 1 << 32
#: Most cycles of a program: the first for each cycle that its layers give, plus the second. Adding the units' cycles,
#: and rounding up in `operation_cycles`, make a factor of at most 13 for a compiled network.
CYCLES_PER_ESTIMATE, FREE_CYCLES = 64, 1 << 20


def _rule_region(program: Program, operation: Operation) -> None:
    """A load reads, and a store writes, bytes of an existing region; no store writes the image."""
    fields, unit = operation.fields, operation.unit
    if unit not in (Unit.LOAD, Unit.STORE):
        return
    size = fields["run_bytes"] if unit is Unit.LOAD else stored_bytes(fields)
    if size == 0:
        return
    region = fields["region"]
    does = "reads" if unit is Unit.LOAD else "writes"
    require(region <= 2, f"it {does} region 3, but a program has only regions 0, 1 and 2")
    require(unit is Unit.LOAD or region != 0, "it writes the image, which must not change")
    low = high = fields["memory_offset_bytes"]
    for count, stride in (("count2", "stride2_bytes"), ("count3", "stride3_bytes")):
        way = (fields[count] - 1) * fields[stride]
        low, high = low + min(way, 0), high + max(way, 0)
    require(low >= 0 and high + size <= program.region_bytes(region),
            f"it {does} bytes {low}..{high + size - 1} of region {region}, which has {program.region_bytes(region)}")


def _rule_words(program: Program, operation: Operation) -> None:
    """A load's or store's run has at most 65,536 words; slots in all blocks, and weight words, are at most as many."""
    fields = operation.fields
    if operation.unit in (Unit.LOAD, Unit.STORE):
        counts = {"words in a run": fields["count0"] * fields["count1"]}
    else:
        counts = {"slots in all output blocks": fields["slots"] * fields["out_blocks"]}
    if operation.unit is Unit.ARRAY:
        counts["weight words"] = fields["out_blocks"] * fields["weight_rows"] * array_steps(fields, program.config)
    for what, count in counts.items():
        require(count <= MOST_WORDS, f"it has {count:,} {what}; at most {MOST_WORDS:,} can be addressed")


def _rule_depthwise(program: Program, operation: Operation) -> None:
    """A depthwise tile is `tile_rows` rows; all columns that the taps of a row need pass the array within `period`."""
    if operation.unit is Unit.ARRAY:
        broken = broken_depthwise(operation.fields)
        require(not broken, f"{broken}: the result is undefined otherwise")


def _rule_clamp(program: Program, operation: Operation) -> None:
    """A clamp's `act_min` is at most its `act_max`."""
    fields = operation.fields
    if operation.unit is Unit.VECTOR and fields["kind"] == VectorKind.PROGRAM:
        for number, uop in enumerate(operation.uops[fields["first"]:fields["last"] + 1], fields["first"]):
            broken = broken_clamp(uop, fields)
            require(not broken, f"micro-operation {number}: {broken}: the result is undefined otherwise")


#: Rules of each operation.
COMMAND_RULES: Sequence[Callable[[Program, Operation], None]] = (
    _rule_region, _rule_words, _rule_depthwise, _rule_clamp)


def check_commands(program: Program) -> None:
    """Raise ProgramError for the first rule of the commands that a program breaks.

    The stream has a valid layout and ends with END. The RUNs that the layers name exist. Each operation satisfies
    COMMAND_RULES.

    A tile of the vector unit has as many slots as the accumulator buffer that it reads. An array operation that
    continues in open buffers has as many slots as the operation that left them open.

    An operation that does not have to wait takes at most 16,777,216 cycles. All operations, one after the other, take
    at most 64 times the cycles that the layers give plus 1,048,576, and never more than 2^32, the range of the
    hardware's counter.
    """
    said = sum(layer.estimated_cycles for layer in program.layers)
    limit = min(CYCLES_PER_ESTIMATE * said + FREE_CYCLES, MOST_CYCLES)
    runs = dict.fromkeys(Unit, 0)
    total = program.command_bytes // WORD_BYTES
    too_long = f"the commands take more than {limit:,} cycles, but the layers say {said:,}"
    require(total <= limit, too_long)
    buffers = Buffers()
    try:
        for operation in walk(program.commands, program.config):
            runs[operation.unit] += 1
            for rule in COMMAND_RULES:
                rule(program, operation)
            cycles = operation_cycles(operation, program.config)
            require(cycles <= MOST_OPERATION_CYCLES,
                    f"it takes up to {cycles:,} cycles; at most {MOST_OPERATION_CYCLES:,} are allowed")
            broken = buffers.follow(operation)
            require(not broken, broken)
            total += cycles
            require(total <= limit, too_long)
    except ProgramError as error:
        raise ProgramError(f"{operation.unit.name.lower()} RUN {operation.run}, at command word "
                           f"{operation.word_index}: {error}") from None
    except EncodeError as error:
        raise ProgramError(f"the commands are malformed: {error}") from None
    _check_ranges(program.layers, {unit.name.lower(): count for unit, count in runs.items()})


def _check_ranges(layers: Iterable[Layer], runs: Mapping[str, int]) -> None:
    for unit, ranges in run_ranges(layers).items():
        first, last, layer = ranges[-1]
        require(last < runs[unit], f"layer {layer} has RUNs {first}..{last} of the {unit} unit, but the commands have "
                f"{runs[unit]}")
