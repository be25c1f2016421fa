"""Streams of the vector unit: element types, addresses, sub-blocks, refusals; and random programs."""

import pytest
from vector_bench import check
from vector_random import random_scenario
from vector_reference import VECTOR_CONFIGS, Scenario, operation, uop

from tq_hw.isa.config import Config
from tq_hw.isa.uop import Alu, Destination, Source

CONFIGS = list(VECTOR_CONFIGS.values())
ACC, STREAM, IMMEDIATE = Source.ACC_OR_BIAS, Source.STREAM, Source.IMMEDIATE


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_elements_of_every_type(config: Config) -> None:
    operations = [operation(slots=3, tile_slots=3, cols=2, a_type=a, b_type=b, out_type=out, a_base=0, b_base=200,
                            out_base=600 + 100 * a, a_col_step=5, a_row_step=11, b_col_step=-7, b_row_step=40,
                            out_col_step=6, out_row_step=13)
                  for a, b, out in ((0, 3, 2), (1, 2, 0), (2, 1, 1), (3, 0, 2), (2, 0, 0), (0, 0, 1))]
    check(Scenario(config, [uop(STREAM, STREAM, Alu.SUB, zero_point=100)], operations, refuse=0.3))


@pytest.mark.parametrize(("name", "out_type"), [("8x4", 0), ("8x4", 2), ("6x3", 1)])
def test_sub_blocks_fill_their_part_of_a_word(name: str, out_type: int) -> None:
    config = VECTOR_CONFIGS[name]
    operations = [operation(use_acc=1, slots=7, tile_slots=5, cols=3, out_blocks=3, sub_first=sub, blocks_inner=sub,
                            a_type=out_type, b_type=0, out_type=out_type, a_base=300, a_col_step=5, a_row_step=16,
                            a_block_step=60, b_base=500, b_row_step=4, b_block_step=9, out_base=700 + 300 * sub,
                            out_col_step=4, out_row_step=13, out_block_step=50) for sub in (0, 1)]
    uops = [uop(ACC, STREAM, Alu.ADD), uop(ACC, STREAM, Alu.MAX)]
    check(Scenario(config, uops, operations, acc_cycles=9))
    uops = [uop(ACC, STREAM, Alu.ADD, destination=Destination.REGISTER, d_register=1),
            uop(STREAM, Source.REGISTER, Alu.SUB, b_register=1)]
    check(Scenario(config, uops, [op | {"last": 1, "body_first": 2, "body_last": 1} for op in operations], refuse=0.3))


def test_steps_may_be_negative() -> None:
    check(Scenario(VECTOR_CONFIGS["tiny4x4"], [uop(STREAM, STREAM, Alu.ADD)], [
        operation(slots=12, tile_slots=5, cols=4, out_blocks=2, a_base=30, a_col_step=3, a_row_step=12, a_block_step=40,
                  b_base=100, b_col_step=-2, b_row_step=-8, b_block_step=7, out_base=400, out_col_step=-1,
                  out_row_step=10, out_block_step=200)]))


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_random_programs(config: Config) -> None:
    check(random_scenario(config, 1003))
    check(random_scenario(config, 1004))


@pytest.mark.slow
@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
@pytest.mark.parametrize("seed", range(40))
def test_more_random_programs(config: Config, seed: int) -> None:
    check(random_scenario(config, seed))
