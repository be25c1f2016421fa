"""The vector unit's rates, its order of operations, and what it refuses."""

import pytest
from vector_bench import Outcome, check, run
from vector_reference import VECTOR_CONFIGS, Operation, Scenario, Uop, operation, put_params, requantize, uop

from tq_hw.isa.config import Config
from tq_hw.isa.control import Status
from tq_hw.isa.uop import Alu, Destination, Source

TINY, N8, FOLDED = VECTOR_CONFIGS["tiny4x4"], VECTOR_CONFIGS["n8"], VECTOR_CONFIGS["8x4"]
PARAMS = 1000


def with_params(config: Config, operations: list[Operation], **fields: float) -> Scenario:
    scenario = Scenario(config, [requantize(config)], operations, **fields)  # type: ignore[arg-type]
    for block in range(4):
        put_params(config, scenario.memory, PARAMS + block * config.param_words, block)
    return scenario


def convolution(config: Config, **fields: int) -> Operation:
    return operation(**({"use_acc": 1, "use_params": 1, "param_base": PARAMS, "param_block_step": config.param_words,
                         "slots": 24, "tile_slots": 16, "out_blocks": 2, "out_base": 100, "out_block_step": 50,
                         "cols": 7, "out_row_step": 7} | fields))


def first_to_last(outcome: Outcome) -> int:
    return outcome.writes[-1] - outcome.writes[0] + 1


@pytest.mark.parametrize(("config", "blocks_inner"), [(TINY, 0), (N8, 1), (FOLDED, 0), (FOLDED, 1)])
def test_requantizes_one_beat_a_cycle_across_tiles_blocks_and_operations(config: Config, blocks_inner: int) -> None:
    operations = [convolution(config, blocks_inner=blocks_inner, tile_slots=10, out_base=base) for base in (100, 300)]
    outcome = check(with_params(config, operations))
    beats = 2 * 2 * 24 * config.beats_per_acc_word
    # The first word is written with its last beat.
    assert first_to_last(outcome) == beats - config.beats_per_acc_word + 1
    assert outcome.done[1] - outcome.done[0] == beats // 2


def test_operations_of_one_tile_follow_without_a_bubble() -> None:
    operations = [convolution(TINY, slots=5, tile_slots=5, out_blocks=1, out_base=100 + 10 * i) for i in range(6)]
    outcome = check(with_params(TINY, operations))
    # 5 words of 2 beats, in which also a parameter block is read: 8 words, and one more for two beats.
    assert [b - a for a, b in zip(outcome.done, outcome.done[1:], strict=False)] == [10] * 5


def test_parameters_of_the_next_block_are_there_in_time() -> None:
    """A parameter block of n8 is read in 10 cycles; blocks of 5 words (10 beats) hide its reading."""
    outcome = check(with_params(N8, [convolution(N8, slots=5, tile_slots=5, out_blocks=4, out_block_step=20)]))
    assert first_to_last(outcome) == 4 * 5 * 2 - 1


def added(**fields: int) -> Operation:
    return operation(**({"a_base": 10, "b_base": 100, "out_base": 300, "cols": 5, "a_row_step": 7, "b_row_step": 9,
                         "out_row_step": 6, "slots": 24, "tile_slots": 12} | fields))


@pytest.mark.parametrize("config", [TINY, N8], ids=lambda config: config.name)
def test_adds_two_tensors_through_tables_one_beat_a_cycle(config: Config) -> None:
    table = operation(kind=1, a_base=500, slots=60, table_first=200)
    program = uop(Source.STREAM, Source.STREAM, Alu.ADD, a_table=1, b_table=2, clamp=1, act_min=-128, act_max=127)
    outcome = check(Scenario(config, [program], [table, added()]))
    assert first_to_last(outcome) == 24 * config.beats_per_word - config.beats_per_word + 1


def test_long_chunks_have_no_bubble_between_micro_operations() -> None:
    program = [uop(Source.STREAM, alu=Alu.PASS, destination=Destination.REGISTER, d_register=1),
               uop(Source.REGISTER, alu=Alu.SUB, a_register=1, immediate=3, destination=Destination.REGISTER,
                   d_register=2),
               uop(Source.REGISTER, Source.REGISTER, Alu.MAX, a_register=1, b_register=2)]
    few, many = (
        check(Scenario(N8, program, [added(slots=16 * n, tile_slots=16 * n, chunk_slots=16, last=2)])) for n in (1, 3))
    assert many.done[0] - few.done[0] == 2 * 3 * 16 * N8.beats_per_word


def test_waits_for_accumulators_and_counts_it() -> None:
    outcome = check(with_params(TINY, [convolution(TINY)], acc_cycles=60))
    assert outcome.stall_acc > 60
    assert outcome.stall_port == 0


def test_waits_for_ports_and_counts_it() -> None:
    outcome = check(with_params(TINY, [convolution(TINY)], refuse=0.5))
    assert outcome.stall_port > 25


def test_reads_what_the_operation_before_wrote() -> None:
    program = uop(Source.STREAM, Source.IMMEDIATE, Alu.ADD, immediate=1)
    operations = [added(slots=4, tile_slots=4, cols=4, a_base=10 + 4 * i, out_base=14 + 4 * i) for i in range(4)]
    outcome = check(Scenario(TINY, [program], operations))
    assert outcome.done == sorted(outcome.done)


def test_works_in_place() -> None:
    program = [uop(Source.STREAM, Source.IMMEDIATE, Alu.ADD, immediate=1),
               uop(Source.STREAM, Source.STREAM, Alu.ADD, b_table=0)]
    check(Scenario(TINY, program, [added(out_base=10, out_row_step=7, b_base=10, b_row_step=7, chunk_slots=2, last=1)]))


@pytest.mark.parametrize("broken", [
    uop(Source.ACC_OR_BIAS), uop(Source.STREAM, Source.ACC_OR_BIAS), uop(Source.STREAM, b_table=3),
    uop(Source.STREAM, destination=Destination.ACTIVATION),
    uop(Source.STREAM, destination=Destination.REDUCE, reduce=3),
    uop(Source.STREAM, multiply=2), uop(Source.STREAM, alu=14),
    uop(Source.STREAM, shift_source=2), uop(Source.STREAM, shift_source=1, shift=-32),
    uop(Source.STREAM, shift_source=1, shift=1), uop(Source.STREAM, rounding=3),
], ids=str)
def test_stops_at_a_micro_operation_that_breaks_a_rule(broken: Uop) -> None:
    good = added(slots=2, tile_slots=2, chunk_slots=2)
    assert run(Scenario(TINY, [uop(Source.STREAM)], [good])).error == Status.OK
    outcome = run(Scenario(TINY, [uop(Source.STREAM), uop(Source.STREAM), broken],
                           [good, good | {"last": 2, "body_first": 3, "body_last": 2}, good]), limit_cycles=500)
    assert outcome.error == Status.BAD_OPERATION
