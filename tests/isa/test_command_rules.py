"""Rules for the commands of a file: every message word for word, and limits far above what the compiler generates."""

from collections.abc import Mapping

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.command_rules import check_commands
from tq_hw.isa.config import PRESETS
from tq_hw.isa.encode import WORD_BYTES, Assembler
from tq_hw.isa.layout import UNITS, Unit
from tq_hw.isa.operations import operations, walk
from tq_hw.isa.program import Layer, Program, ProgramError
from tq_hw.isa.program_file import from_bytes, to_bytes
from tq_hw.isa.work import operation_cycles
from tq_hw.model.samples.layers import KINDS, sample
from tq_hw.sim.executor import SimulationError, execute

MOVE = {"count0": 1, "count1": 1, "count2": 1, "count3": 1, "region": 1}
LOAD = {**MOVE, "run_bytes": 4, "emit_bytes": 4, "last_emit_bytes": 4}
STORE = {**MOVE, "take_bytes": 4, "last_take_bytes": 4}
ARRAY = {"slots": 1, "out_blocks": 1, "kernel_rows": 1, "kernel_cols": 1, "kernel_blocks": 1, "slices": 1,
         "weight_rows": 1, "tile_slots": 1}
VECTOR = {"slots": 1, "out_blocks": 1, "tile_slots": 1, "chunk_slots": 1, "cols": 1, "repeat1": 1, "repeat2": 1,
          "body_first": 1}


def program(unit: Unit, values: Mapping[str, int], cycles: int = 0, count: int = 1) -> Program:
    """Return a program of `count` operations, with 64 bytes in each region, whose layer is estimated at `cycles`."""
    assembler = Assembler(PRESETS["tiny"])
    for _ in range(count):
        assembler.run(unit, values)
    assembler.end()
    commands = assembler.to_bytes()
    image = bytes(64) + commands
    return Program("net", PRESETS["tiny"], image, 64, len(commands), 64, bytes(64),
                   layers=(Layer(0, "ADD", "y", "vector", estimated_cycles=cycles),))


def refusal(one: Program) -> str:
    with pytest.raises(ProgramError) as found:
        check_commands(one)
    with pytest.raises(ProgramError):
        to_bytes(one)
    return str(found.value)


@pytest.mark.parametrize(("unit", "values", "message"), [
    (Unit.LOAD, LOAD | {"region": 3}, "it reads region 3, but a program has only regions 0, 1 and 2"),
    (Unit.LOAD, LOAD | {"memory_offset_bytes": 61}, "it reads bytes 61..64 of region 1, which has 64"),
    (Unit.LOAD, LOAD | {"region": 2, "count2": 3, "stride2_bytes": 31},
     "it reads bytes 0..65 of region 2, which has 64"),
    (Unit.LOAD, LOAD | {"count3": 2, "stride3_bytes": -1}, "it reads bytes -1..3 of region 1, which has 64"),
    (Unit.STORE, STORE | {"region": 0}, "it writes the image, which must not change"),
    (Unit.STORE, STORE | {"region": 3}, "it writes region 3, but a program has only regions 0, 1 and 2"),
    (Unit.STORE, STORE | {"count0": 3, "count1": 7}, "it writes bytes 0..83 of region 1, which has 64"),
    (Unit.LOAD, LOAD | {"count0": 257, "count1": 256}, "it has 65,792 words in a run; at most 65,536 can be addressed"),
    (Unit.STORE, STORE | {"count0": 65535, "count1": 2, "take_bytes": 0, "last_take_bytes": 0},
     "it has 131,070 words in a run; at most 65,536 can be addressed"),
    (Unit.ARRAY, ARRAY | {"slots": 32769, "out_blocks": 2},
     "it has 65,538 slots in all output blocks; at most 65,536 can be addressed"),
    (Unit.ARRAY, ARRAY | {"kernel_blocks": 16385, "weight_rows": 4},
     "it has 65,540 weight words; at most 65,536 can be addressed"),
    (Unit.VECTOR, VECTOR | {"slots": 65537},
     "it has 65,537 slots in all output blocks; at most 65,536 can be addressed"),
    (Unit.VECTOR, VECTOR | {"last": 63, "body_first": 0, "body_last": 63, "repeat1": 65535, "repeat2": 65535},
     "it takes up to 4,947,651,331,264 cycles; at most 16,777,216 are allowed"),
    (Unit.LOAD, LOAD | {"run_bytes": 0, "count2": 65535, "count3": 60},
     "it takes up to 19,660,564 cycles; at most 16,777,216 are allowed"),
    (Unit.ARRAY, ARRAY | {"mode": 1, "out_cols": 2, "tile_rows": 1},
     "tile_slots must be tile_rows * out_cols: the result is undefined otherwise"),
    (Unit.ARRAY, ARRAY | {"mode": 1, "tile_slots": 5, "out_cols": 5, "tile_rows": 1, "col_stride": 2, "period": 8},
     "period must be at least 9: the result is undefined otherwise"),
    (Unit.ARRAY, ARRAY | {"mode": 1, "out_cols": 1, "tile_rows": 1, "period": 2, "in_cols": 9, "col_first": 2,
                          "kernel_cols": 4}, "period must be at least 3: the result is undefined otherwise"),
    (Unit.ARRAY, ARRAY | {"mode": 1, "slots": 65536, "period": 65535, "out_cols": 1, "tile_rows": 1},
     "it takes up to 4,296,212,544 cycles; at most 16,777,216 are allowed"),
])
def test_operations_that_are_rejected(unit: Unit, values: Mapping[str, int], message: str) -> None:
    assert refusal(program(unit, values)) == f"{unit.name.lower()} RUN 0, at command word 0: {message}"


def stream(*runs: tuple[Unit, Mapping[str, int]]) -> Program:
    assembler = Assembler(PRESETS["tiny"])
    for unit, values in runs:
        assembler.run(unit, values)
    assembler.end()
    commands = assembler.to_bytes()
    return Program("net", PRESETS["tiny"], commands, 0, len(commands), 0)


def fills(slots: int, tile_slots: int, blocks: int = 1, inner: int = 0, last: int = 1) -> tuple[Unit, dict[str, int]]:
    return Unit.ARRAY, ARRAY | {"slots": slots, "tile_slots": tile_slots, "out_blocks": blocks, "blocks_inner": inner,
                                "acc_first": 1, "acc_last": last}


def takes(slots: int, tile_slots: int, blocks: int = 1, inner: int = 0) -> tuple[Unit, dict[str, int]]:
    return Unit.VECTOR, VECTOR | {"slots": slots, "tile_slots": tile_slots, "out_blocks": blocks,
                                  "blocks_inner": inner, "use_acc": 1}


@pytest.mark.parametrize("runs", [
    (fills(20, 8, 3), takes(20, 8, 3)), (takes(20, 8, 3), fills(20, 8, 3)), (fills(20, 8, 3, 1), takes(20, 8, 3, 1)),
    (fills(20, 8, 3), takes(20, 8, 1), takes(20, 8, 2)), (fills(20, 8, 2), takes(16, 8), takes(4, 4), takes(20, 8)),
    (fills(16, 8, 3), takes(48, 8)), (fills(16, 8, 3), takes(16, 8, 3, 1)), (fills(4, 8, 2), takes(4, 4, 2)),
    (fills(8, 8, last=0), fills(8, 16, last=0), fills(8, 8), takes(8, 8)), (fills(8, 8), takes(16, 8)),
    (fills(20, 8), (Unit.VECTOR, VECTOR), takes(20, 8)), (fills(6001, 2, 3), takes(6001, 2, 3)),
])
def test_tiles_that_agree_with_the_accumulator_buffers(runs: tuple[tuple[Unit, dict[str, int]], ...]) -> None:
    check_commands(stream(*runs))


@pytest.mark.parametrize(("runs", "where", "message"), [
    ((fills(16, 16), takes(16, 8)), "vector RUN 0, at command word 17",
     "vector RUN 0 takes a tile of 8 slots from an accumulator buffer that array RUN 0 fills with 16"),
    ((takes(20, 8, 2), fills(20, 8), fills(20, 10)), "array RUN 1, at command word 35",
     "vector RUN 0 takes a tile of 8 slots from an accumulator buffer that array RUN 1 fills with 10"),
    ((fills(20, 8, 2, 1), takes(20, 8, 2)), "vector RUN 0, at command word 17",
     "vector RUN 0 takes a tile of 4 slots from an accumulator buffer that array RUN 0 fills with 8"),
    ((fills(8, 8, last=0), fills(7, 8)), "array RUN 1, at command word 19",
     "it continues with 7 slots in accumulator buffers that array RUN 0 left open with 8"),
])
def test_tiles_of_other_numbers_of_slots(runs: tuple[tuple[Unit, dict[str, int]], ...], where: str,
                                         message: str) -> None:
    assert refusal(stream(*runs)) == f"{where}: {message}"


@pytest.mark.parametrize(("name", "value", "rule"), [
    ("alu", 15, "alu <= Alu.PAIR_DIFFERENCE"), ("rounding", 3, "rounding <= Rounding.FLOOR")])
def test_codes_of_micro_operations(name: str, value: int, rule: str) -> None:
    """The machine itself rejects these codes, so the check of the file does not."""
    assembler = Assembler(PRESETS["tiny"])
    assembler.uop(1, {name: value})
    assembler.run(Unit.VECTOR, VECTOR | {"last": 1, "body_first": 2, "body_last": 1})
    assembler.end()
    commands = assembler.to_bytes()
    one = Program("net", PRESETS["tiny"], commands, 0, len(commands), 0)
    check_commands(one)
    with pytest.raises(SimulationError) as found:
        execute(one, [])
    assert str(found.value) == (
        f"vector RUN 0: BAD_OPERATION: micro-operation 1: {rule} does not hold: {name} {value}")


@pytest.mark.parametrize(("limits", "out_type", "refused"), [
    ((5, 4), 0, True), ((-128, -128), 0, False), ((5, 4), 1, False)])
def test_limits_of_a_clamp(limits: tuple[int, int], out_type: int, refused: bool) -> None:
    """For an int16 output these limits do not apply."""
    assembler = Assembler(PRESETS["tiny"])
    assembler.uop(1, {"clamp": 1, "act_min": limits[0], "act_max": limits[1]})
    assembler.run(Unit.VECTOR, VECTOR | {"first": 1, "last": 1, "body_first": 2, "body_last": 1, "out_type": out_type})
    assembler.end()
    commands = assembler.to_bytes()
    one = Program("net", PRESETS["tiny"], commands, 0, len(commands), 0)
    if not refused:
        check_commands(one)
        return
    assert refusal(one) == ("vector RUN 0, at command word 5: micro-operation 1: act_min 5 must be at most act_max 4: "
                            "the result is undefined otherwise")


def test_only_bytes_that_are_moved_are_checked() -> None:
    for unit, values in ((Unit.LOAD, LOAD | {"run_bytes": 0, "region": 3}),
                         (Unit.LOAD, LOAD | {"memory_offset_bytes": 60}),
                         (Unit.STORE, STORE | {"count2": 16, "stride2_bytes": 4}),
                         (Unit.LOAD, LOAD | {"memory_offset_bytes": 60, "count2": 16, "stride2_bytes": -4})):
        check_commands(program(unit, values))


def test_a_program_may_not_take_far_longer_than_its_layers_say() -> None:
    long = VECTOR | {"slots": 1 << 16, "tile_slots": 1 << 10, "chunk_slots": 1 << 10}
    each = operation_cycles(operations(program(Unit.VECTOR, long).commands, PRESETS["tiny"])[Unit.VECTOR][0],
                            PRESETS["tiny"])
    count = (1 << 20) // each
    most = program(Unit.VECTOR, long, 0, count)
    check_commands(most)
    assert refusal(program(Unit.VECTOR, long, 0, count + 1)) == (
        f"vector RUN {count}, at command word {len(most.commands) // WORD_BYTES - 1}: the commands take more than "
        "1,048,576 cycles, but the layers say 0")
    check_commands(program(Unit.VECTOR, long, each // 64 + 1, count + 1))
    assert refusal(program(Unit.VECTOR, long, 1 << 62, (1 << 32) // each + 1)).endswith(
        "the commands take more than 4,294,967,296 cycles, but the layers say 4,611,686,018,427,387,904")


def test_commands_that_start_nothing_count_too() -> None:
    one = program(Unit.VECTOR, VECTOR)
    head = (Unit.LOAD).to_bytes(4, "little")
    filled = head * (1 << 20) + one.commands
    assert refusal(Program("net", one.config, filled, 0, len(filled), 0)) == (
        "the commands take more than 1,048,576 cycles, but the layers say 0")


@pytest.mark.parametrize(("word", "message"), [
    (0xFF000000, "the commands are malformed: word 0: 0xff000000 is not a command header"),
    (Unit.LOAD | 1023 << 14, "the commands are malformed: word 0: 1023 values expected, 0 left"),
    (Unit.LOAD, "the commands are malformed: word 1: the stream has no END"),
    (Unit.LOAD | 1000 << 4, "the commands are malformed: word 1: the stream has no END"),
    (Unit.LOAD | 1000 << 4 | 1 << 14, "the commands are malformed: word 0: 1 values expected, 0 left"),
])
def test_streams_that_break_the_layout(word: int, message: str) -> None:
    assert refusal(Program("net", PRESETS["tiny"], word.to_bytes(WORD_BYTES, "little"), 0, WORD_BYTES, 0)) == message


@pytest.mark.parametrize(("unit", "first", "count", "missing"), [
    (Unit.LOAD, 1000, 1, 1000), (Unit.LOAD, 12, 2, 13), (Unit.ARRAY, 15, 2, 16), (Unit.ARRAY, 63, 1, 63),
    (Unit.ARRAY, 111, 2, 112), (Unit.VECTOR, 255, 1, 255), (Unit.VECTOR, 511, 2, 512), (Unit.STORE, 11, 1, 11)])
def test_registers_that_do_not_exist(unit: Unit, first: int, count: int, missing: int) -> None:
    data = (unit | first << 4 | count << 14).to_bytes(WORD_BYTES, "little") + bytes(WORD_BYTES * count)
    assert refusal(Program("net", PRESETS["tiny"], data, 0, len(data), 0)) == (
        f"the commands are malformed: word 0: unit {unit.name.lower()} has no register {missing}")


@pytest.mark.parametrize("config", ["tiny", "n16", "n9x8", "serial"])
def test_compiled_programs_stay_far_below_the_limits(config: str) -> None:
    """At most a quarter of the cycles allowed, and a sixteenth of those of an operation."""
    for kind in KINDS:
        one = compile_model(sample(kind, 3), PRESETS[config]).program
        assert from_bytes(to_bytes(one)) == one
        cycles = [operation_cycles(operation, one.config) for operation in walk(one.commands, one.config)]
        said = sum(layer.estimated_cycles for layer in one.layers)
        assert sum(cycles) + one.command_bytes // WORD_BYTES <= 16 * said + (1 << 16), (kind, sum(cycles), said)
        assert max(cycles, default=0) <= 1 << 20


def test_no_field_makes_cycles_negative() -> None:
    rng = np.random.default_rng(5)
    for unit, layout in UNITS.items():
        for _ in range(300):
            assembler = Assembler(PRESETS["n16"])
            assembler.run(unit, {name: int(rng.choice((field.low, field.high, 0, 1))) for name, (_, field) in
                                 layout.fields.items()})
            assembler.end()
            for operation in walk(assembler.to_bytes(), PRESETS["n16"]):
                assert operation_cycles(operation, PRESETS["n16"]) > 0
