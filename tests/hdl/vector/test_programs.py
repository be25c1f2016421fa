"""Programs of micro-operations on the vector unit: sources, registers, repeats, reductions, tables."""

import random

import pytest
from vector_bench import check
from vector_reference import (
    INT32_MAX,
    INT32_MIN,
    VECTOR_CONFIGS,
    Operation,
    Scenario,
    Uop,
    operation,
    put_params,
    uop,
)

from tq_hw.isa.config import Config
from tq_hw.isa.uop import Alu, Destination, Multiply, Reduce, Rounding, ShiftSource, Source

TINY, N8, ODD = VECTOR_CONFIGS["tiny4x4"], VECTOR_CONFIGS["n8"], VECTOR_CONFIGS["6x3"]
#: Sizes of TINY, with lanes for LUTs of six inputs.
FEW = VECTOR_CONFIGS["tiny_few"]
LUTS = pytest.mark.parametrize("config", [TINY, FEW], ids=lambda config: config.name)
REGISTER, STREAM, IMMEDIATE = Source.REGISTER, Source.STREAM, Source.IMMEDIATE
TO_REGISTER, REDUCE = Destination.REGISTER, Destination.REDUCE
PARAMS = 1000


def program(config: Config, uops: list[Uop], **fields: int) -> Operation:
    return operation(**({"a_base": 10, "b_base": 100, "out_base": 300, "cols": 5, "a_row_step": 21, "b_row_step": 22,
                         "out_row_step": 23, "a_col_step": 4, "b_col_step": 4, "out_col_step": 4, "out_type": 2,
                         "a_type": 2, "slots": 6, "tile_slots": 6, "last": len(uops) - 1} | fields))


def run(config: Config, uops: list[Uop], *more: Operation, **fields: int) -> None:
    check(Scenario(config, uops, [*more, program(config, uops, **fields)], refuse=0.1))


@LUTS
def test_every_alu_operation(config: Config) -> None:
    uops = [uop(STREAM, STREAM, alu) for alu in Alu]
    operations = [program(config, uops, first=n, last=n, slots=3, tile_slots=3, out_base=300 + 30 * n,
                          b_type=2 if n % 2 else 0) for n in range(len(uops))]
    check(Scenario(config, uops, operations))


@LUTS
def test_every_multiplier_and_shift_source(config: Config) -> None:
    uops = [uop(STREAM, Source.ACC_OR_BIAS, Alu.SUB, multiply=int(multiply), shift_source=int(source),
                shift=4 if multiply == Multiply.SHL else -3, rounding=int(multiply) % 3, truncate=int(source) % 2,
                immediate=0x6543_2109, zero_point=-77) for multiply in Multiply for source in ShiftSource]
    operations = [program(config, uops, first=n, last=n, use_params=1, param_base=PARAMS, out_blocks=2, slots=3,
                          tile_slots=2, param_block_step=config.param_words, out_base=200 + 24 * n, out_block_step=12)
                  for n in range(len(uops))]
    scenario = Scenario(config, uops, operations)
    for block in range(2):
        put_params(config, scenario.memory, PARAMS + block * config.param_words, block)
    check(scenario)


@LUTS
@pytest.mark.parametrize("multiply", [Multiply.SHL_B, Multiply.SHL_B_SATURATE], ids=lambda multiply: multiply.name)
def test_left_shifts_of_extremes_by_every_amount(multiply: Multiply, config: Config) -> None:
    extremes = (0, 1, -1, 2, -2, 3, -3, 1 << 30, -1 << 30, INT32_MAX, INT32_MIN)
    uops = [uop(IMMEDIATE, STREAM, Alu.PASS, multiply=int(multiply), immediate=x) for x in extremes]
    operations = [program(config, uops, first=n, last=n, b_type=0, b_col_step=1, out_base=200 + 64 * n, out_row_step=10)
                  for n in range(len(uops))]
    scenario = Scenario(config, uops, operations)
    for number, word in enumerate(scenario.memory[:200]):
        word[:] = bytes((number * len(word) + byte) % 32 for byte in range(len(word)))
    check(scenario)


@LUTS
def test_a_beat_a_cycle_has_its_own_amount(config: Config) -> None:
    """Bytes in and out: with int32 a word is a cycle for each element, and an amount a cycle late the same one."""
    uops = [uop(STREAM, STREAM, Alu.PASS, multiply=int(Multiply.SHL_B)),
            uop(IMMEDIATE, STREAM, Alu.PASS, immediate=-0x1234_5678, shift_source=int(ShiftSource.SHIFT_B))]
    operations = [program(config, uops, first=n, last=n, a_type=0, b_type=0, out_type=0, a_col_step=1, b_col_step=1,
                          out_col_step=1, slots=40, tile_slots=40, out_base=400 + 200 * n) for n in range(len(uops))]
    scenario = Scenario(config, uops, operations)
    rng = random.Random(5)
    for word in scenario.memory[100:300]:
        word[:] = bytes(rng.randrange(32) for _ in range(len(word)))
    check(scenario)


def test_int16_output_clamps_to_int16() -> None:
    run(TINY, [uop(STREAM, clamp=1, act_min=-1, act_max=1)], out_type=1)


@pytest.mark.parametrize("config", [TINY, N8, ODD], ids=lambda config: config.name)
@pytest.mark.parametrize("chunk_slots", [1, 8])
def test_registers_carry_results_between_micro_operations(config: Config, chunk_slots: int) -> None:
    run(config, [uop(STREAM, IMMEDIATE, Alu.SUB, TO_REGISTER, d_register=1, immediate=12345),
                 uop(REGISTER, REGISTER, Alu.ADD, TO_REGISTER, a_register=1, b_register=1, d_register=2),
                 uop(STREAM, REGISTER, Alu.MIN, TO_REGISTER, b_register=1, d_register=1),
                 uop(REGISTER, REGISTER, Alu.MAX, a_register=1, b_register=2)],
        chunk_slots=chunk_slots, slots=3 * chunk_slots // 2 + 1, tile_slots=99)


def test_vectors_longer_than_a_register_run_into_the_next() -> None:
    slots = TINY.vector_register_words // TINY.beats_per_word * 2
    uops = [uop(STREAM, alu=Alu.PASS, destination=TO_REGISTER, d_register=2),
            uop(REGISTER, IMMEDIATE, Alu.ADD, TO_REGISTER, a_register=2, d_register=4, immediate=5),
            # The second half alone, right after the micro-operation that wrote it.
            uop(REGISTER, REGISTER, Alu.SUB, TO_REGISTER, a_register=5, b_register=3, d_register=6, once=1),
            uop(REGISTER, REGISTER, Alu.ADD, a_register=4, b_register=6, b_hold=1)]
    run(TINY, uops, slots=slots, tile_slots=slots)


def test_hold_and_once_work_on_word_0() -> None:
    run(TINY, [uop(STREAM, alu=Alu.PASS, destination=TO_REGISTER, d_register=1),
               uop(REGISTER, IMMEDIATE, Alu.ADD, TO_REGISTER, a_register=1, d_register=2, immediate=9, once=1),
               uop(REGISTER, REGISTER, Alu.SUB, TO_REGISTER, a_register=1, b_register=2, b_hold=1, d_register=3),
               uop(REGISTER, REGISTER, Alu.SUB, a_register=3, a_hold=1, b_register=1)], chunk_slots=4)


def test_a_program_of_once_alone_goes_on_to_the_next_chunk() -> None:
    run(TINY, [uop(STREAM, alu=Alu.PASS, destination=TO_REGISTER, d_register=1, once=1),
               uop(REGISTER, IMMEDIATE, Alu.ADD, a_register=1, immediate=1, once=1)], chunk_slots=4)


def test_body_repeats_with_the_steps_of_stream_a() -> None:
    run(TINY, [uop(IMMEDIATE, alu=Alu.PASS, destination=TO_REGISTER, immediate=3),
               uop(STREAM, REGISTER, Alu.ADD, TO_REGISTER), uop(STREAM, REGISTER, Alu.MAX, TO_REGISTER),
               uop(REGISTER, multiply=Multiply.HIGH_IMMEDIATE, immediate=1 << 29, shift_source=ShiftSource.IMMEDIATE,
                   shift=-1, rounding=Rounding.HALF_UP)],
        body_first=1, body_last=2, repeat1=3, repeat2=2, a_repeat1_step=4, a_repeat2_step=-2 * 4 + 1, chunk_slots=3)


def test_whole_program_may_be_the_body() -> None:
    run(TINY, [uop(STREAM, IMMEDIATE, Alu.ADD, immediate=1)], body_first=0, body_last=0, repeat1=2, repeat2=2,
        a_repeat1_step=4, a_repeat2_step=1)


@pytest.mark.parametrize("config", [TINY, ODD], ids=lambda config: config.name)
@pytest.mark.parametrize("reduce", list(Reduce), ids=lambda r: r.name)
def test_reduces_to_word_0_and_leaves_lanes_out(config: Config, reduce: Reduce) -> None:
    uops = [uop(STREAM, alu=Alu.PASS, destination=REDUCE, d_register=1, reduce=int(reduce)),
            uop(REGISTER, IMMEDIATE, Alu.SUB, TO_REGISTER, a_register=1, d_register=3, immediate=100, once=1),
            uop(STREAM, REGISTER, Alu.SUB, b_register=3, b_hold=1)]
    operations = [program(config, uops, chunk_slots=chunk, slots=5, tile_slots=5, valid_lanes=lanes)
                  for chunk, lanes in ((5, 0), (1, 1), (2, config.block - 1))]
    check(Scenario(config, uops, operations))


def test_reduction_of_one_beat_and_reductions_in_a_row() -> None:
    run(TINY, [uop(STREAM, alu=Alu.PASS, destination=REDUCE, d_register=1, once=1),
               uop(STREAM, alu=Alu.PASS, destination=REDUCE, d_register=1, reduce=Reduce.MAX),
               uop(STREAM, alu=Alu.PASS, destination=TO_REGISTER, d_register=2),
               uop(REGISTER, REGISTER, Alu.ADD, a_register=1, a_hold=1, b_register=2)], chunk_slots=3)


@pytest.mark.parametrize("config", [N8, FEW], ids=lambda config: config.name)
def test_tables_for_both_operands(config: Config) -> None:
    uops = [uop(STREAM, STREAM, Alu.SUB, a_table=a, b_table=b) for a, b in ((1, 1), (2, 2), (3, 0), (0, 1), (1, 2))]
    look_ups = [program(config, uops, first=n, last=n, slots=10, tile_slots=10, a_type=1, out_base=300 + 60 * n)
                for n in range(len(uops))]
    check(Scenario(config, uops, [operation(kind=1, a_base=1200, slots=512), *look_ups]))


@pytest.mark.parametrize("config", [TINY, FEW, N8], ids=lambda config: config.name)
def test_part_of_a_table_is_replaced_between_look_ups(config: Config) -> None:
    uops = [uop(STREAM, alu=Alu.PASS, a_table=1)]
    look_up = [program(config, uops, a_type=0, out_base=base, out_row_step=20) for base in (300, 500, 700)]
    loads = [operation(kind=1, a_base=1000 + 7 * i, slots=count, table_first=first)
             for i, (count, first) in enumerate(((120, 0), (37, 11), (1, 5)))]
    check(Scenario(config, uops, [op for pair in zip(loads, look_up, strict=True) for op in pair]))
