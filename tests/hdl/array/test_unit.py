"""ArrayUnit against the reference written from semantics.md."""

import random
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from array_bench import check, clear_missing_taps, depthwise, fold, gemm, random_operations, run
from array_reference import Operation, make_memory

from tq_hw.isa.config import Config, ConfigError
from tq_hw.isa.control import Status
from tq_hw.isa.latency import ARRAY_GAP_CYCLES, STEP_LEAST_CYCLES, step_cycles


def config(rows: int, cols: int, acc_words: int = 16, acc_buffers: int = 4) -> Config:
    return Config(f"{rows}x{cols}", rows, cols, 1, 16 << 10, acc_words=acc_words, acc_buffers=acc_buffers)


def run_all(config: Config, operations: list[Operation], seed: int = 0, **kwargs: float):
    memory = make_memory(config, seed)
    for op in operations:
        clear_missing_taps(config, memory, op)
    return check(config, operations, memory, seed=seed, **kwargs)


@pytest.mark.parametrize("rows, cols", [(4, 4), (9, 4), (8, 4), (5, 12), (3, 8)])
def test_gemm(rows: int, cols: int) -> None:
    run_all(config(rows, cols), [
        gemm(config(rows, cols), slots=9, tile_slots=4, out_blocks=1),
        gemm(config(rows, cols), slots=6, tile_slots=5, blocks_inner=1, col_stride=2, in_col_step=4, in_cols=8,
             kernel_rows=2, kernel_cols=1, kernel_row_dilation=2),
    ])


@pytest.mark.parametrize("rows, cols", [(4, 4), (9, 4), (5, 12)])
def test_folded(rows: int, cols: int) -> None:
    rng, c = random.Random(rows), config(rows, cols)
    run_all(c, [fold(c, rng, 3), fold(c, rng, 1, weight_rows=2, slots=4), fold(c, rng, 6, blocks_inner=1)])


@pytest.mark.parametrize("rows", [4, 7, 9])
def test_depthwise(rows: int) -> None:
    c = config(rows, 4)
    run_all(c, [
        *(depthwise(c, rows=4, cols=5, kernel=kernel, stride=(stride, stride), out_blocks=1)
          for stride in (1, 2, 3) for kernel in ((3, 3), (5, 5), (1, 3), (7, 1))),
        depthwise(c, rows=5, cols=7, kernel=(3, 3), pads=(0, 0, 0, 0)),
        depthwise(c, rows=5, cols=9, kernel=(3, 3), stride=(1, 4), pads=(0, 0, 0, 0)),
        depthwise(c, rows=4, cols=5, kernel=(2, 7), dilation=3, tile_rows=1),
    ])


def test_depthwise_reads_behind_longer_than_a_row() -> None:
    c = config(9, 4)
    run_all(c, [depthwise(c, rows=1, cols=1, kernel=(3, 3)), depthwise(c, rows=2, cols=2, kernel=(5, 5)),
                depthwise(c, rows=3, cols=3, kernel=(3, 3), pads=(3, 4, 3, 4)),
                depthwise(c, rows=5, cols=8, kernel=(3, 5), pads=(-1, -2, 0, 0))])


def test_depthwise_sub_blocks() -> None:
    c = config(12, 4)
    run_all(c, [depthwise(c, rows=3, cols=4, kernel=(3, 3), out_blocks=5, sub_first=2, in_block_step=50)])


def test_one_slot_tiles() -> None:
    c = config(4, 4)
    one = {"kernel_rows": 1, "kernel_cols": 1, "kernel_blocks": 1, "tile_slots": 1, "slots": 3}
    run_all(c, [gemm(c, **({"tile_slots": 1, "slots": 3} if n % 2 else one) | {"weight_rows": 1 + n % 4})
                for n in range(8)])


@pytest.mark.parametrize("slots", range(1, 7))
def test_short_steps_add_to_the_same_words(slots: int) -> None:
    """The sequencer is no faster than the accumulators, which need REWRITE_CYCLES from one sum to the next."""
    c = config(4, 4)
    one = {"slots": slots, "tile_slots": slots, "out_blocks": 1, "weight_rows": 1}
    more, fewer = (run_all(c, [gemm(c, **one, kernel_blocks=count)]) for count in (4, 2))
    assert more.cycles - fewer.cycles == 2 * 9 * max(slots, STEP_LEAST_CYCLES)


def test_chain_into_one_buffer() -> None:
    c = config(4, 4, acc_buffers=2)
    chain = [gemm(c, slots=slots, tile_slots=slots, out_blocks=1, kernel_rows=1, kernel_cols=1, kernel_blocks=1,
                  weight_base=100 * n, weight_rows=1, acc_first=n % 4 == 0, acc_last=n % 4 == 3)
             for slots in (1, 2, 3, 9) for n in range(4)]
    run_all(c, chain)
    run_all(c, chain, refuse=0.5, slow=1)


@pytest.mark.parametrize("buffers", [2, 4])
def test_chain_into_all_buffers(buffers: int) -> None:
    c = replace(config(4, 4, acc_buffers=buffers), acc_open=buffers)
    few = {"kernel_rows": 1, "kernel_cols": 1, "kernel_blocks": 1, "weight_rows": 1}
    chain = [gemm(c, **few, slots=slots, tile_slots=slots, out_blocks=blocks, weight_base=100 * n,
                  weight_block_step=7, acc_first=n % 3 == 0, acc_last=n % 3 == 2, blocks_inner=n % 2)
             for slots in (1, 5, 16) for blocks in (1, buffers, buffers) for n in range(3)]
    run_all(c, [gemm(c), *chain, gemm(c)])
    run_all(c, chain, refuse=0.5, slow=1)


@pytest.mark.parametrize("seed", range(6))
def test_random(seed: int) -> None:
    rng = random.Random(seed)
    c = config(*((4, 4), (9, 4), (8, 4), (5, 12), (6, 4), (3, 4))[seed % 6], acc_buffers=rng.choice((2, 4)))
    c = replace(c, acc_open=c.acc_buffers * (seed % 2), few_luts=seed // 2 % 2)
    run_all(c, random_operations(c, rng, 6), seed, refuse=rng.choice((0, 0.3, 0.7)), slow=rng.choice((0, 0.5, 1)))


@pytest.mark.parametrize("seed", range(2))
def test_random_with_adders_in_place_of_choices(seed: int) -> None:
    rng = random.Random(seed)
    c = replace(config(*((4, 4), (6, 4))[seed], acc_buffers=2 + 2 * seed), dsp_preadders=1)
    run_all(c, random_operations(c, rng, 6), seed, refuse=0.3 * seed, slow=rng.choice((0, 0.5, 1)))


@pytest.mark.parametrize("seed", range(4))
def test_random_packed(seed: int) -> None:
    rng = random.Random(seed)
    c = replace(config(*((9, 4), (4, 4), (12, 4), (5, 12))[seed], acc_buffers=rng.choice((2, 4))), dsp_packing=2)
    c = replace(c, acc_open=c.acc_buffers * (seed % 2), few_luts=seed // 2)
    run_all(c, random_operations(c, rng, 6), seed, refuse=rng.choice((0, 0.3, 0.7)), slow=rng.choice((0, 0.5, 1)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 200))
def test_random_long(seed: int) -> None:
    rng = random.Random(seed)
    shapes = ((4, 4), (9, 4), (8, 4), (12, 4), (3, 4), (4, 12), (5, 12), (7, 4), (9, 8), (7, 16))
    c = config(*shapes[seed % len(shapes)], acc_words=rng.choice((16, 32)), acc_buffers=rng.choice((2, 4)))
    c = replace(c, acc_open=c.acc_buffers * (seed % 3 > 0), dsp_packing=seed % 2 * 2, few_luts=seed // 2 % 2)
    run_all(c, random_operations(c, rng, 12), seed, refuse=rng.choice((0, 0.3, 0.7)), slow=rng.choice((0, 0.5, 1)),
            limit=100000)


def test_steps_are_back_to_back() -> None:
    c = config(4, 4)
    steps, slots = 18, 15
    once = run_all(c, [gemm(c, slots=slots, tile_slots=slots, out_blocks=1)])
    twice = run_all(c, [gemm(c, slots=slots, tile_slots=slots, out_blocks=1)] * 2)
    assert twice.cycles - once.cycles == steps * slots + ARRAY_GAP_CYCLES  # none between steps and tiles


@pytest.mark.parametrize("slots", [14, 15])
def test_packed_steps_take_an_even_number_of_cycles(slots: int) -> None:
    c = replace(config(4, 4), dsp_packing=2)
    more, fewer = (run_all(c, [gemm(c, slots=slots, tile_slots=slots, out_blocks=1, kernel_blocks=n)]) for n in (4, 2))
    assert more.cycles - fewer.cycles == 2 * 9 * step_cycles(c, slots) == 2 * 9 * (slots + slots % 2)


def test_short_steps_take_as_long_as_their_weights() -> None:
    c = config(8, 8)
    long, short = (run_all(c, [gemm(c, slots=1, tile_slots=1, out_blocks=1, kernel_blocks=n)]) for n in (4, 2))
    assert long.cycles - short.cycles == 2 * 9 * 8


def test_depthwise_rows_are_back_to_back() -> None:
    c = config(9, 4)
    long, short = (run_all(c, [depthwise(c, rows=3, cols=5, kernel=(3, 3), out_blocks=n)]) for n in (5, 2))
    # A sixth block would wait for its buffer: these are read one after the other, slower than they are filled.
    assert long.cycles - short.cycles == 3 * 15


@pytest.mark.parametrize("packing", [0, 2])
def test_bank_conflict(packing: int) -> None:
    c = replace(config(9, 4), dsp_packing=packing)
    op = depthwise(c, rows=3, cols=5, kernel=(3, 3), kernel_row_step=4)
    assert run(c, make_memory(c, 0), [op], []).error == Status.BANK_CONFLICT


@pytest.mark.parametrize("changes", [
    {"slots": 14}, {"tile_slots": 7}, {"tile_slots": 4}, {"period": 4}, {"period": 1},
], ids=str)
def test_rows_that_are_cut(changes: dict[str, Any]) -> None:
    """Tiles of five columns a row that end within one, and rows that end before their last column."""
    c = config(9, 4)
    shape = partial(depthwise, c, rows=3, cols=5, kernel=(3, 3), out_blocks=1)
    assert not run_all(c, [shape()]).error
    assert run(c, make_memory(c, 0), [shape(**changes)], []).error == Status.BAD_OPERATION


def test_two_buffers_are_enough() -> None:
    c = replace(config(4, 4), acc_buffers=2)
    result = run_all(c, [gemm(c, kernel_rows=1, kernel_blocks=1, out_blocks=4)], slow=1)
    assert result.stall_acc


def test_all_buffers_are_open_or_one() -> None:
    c = config(4, 4)
    assert len({replace(c, acc_open=count).fingerprint for count in (0, 4)}) == 2
    for count in (-1, 1, 2, 8):
        with pytest.raises(ConfigError, match=r"^configuration '4x4': acc_open must be 0 or acc_buffers, not "):
            replace(c, acc_open=count)
