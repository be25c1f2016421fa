"""RowsAhead, and RowDecoder in it, against `isa.weight_code.decode_rows`, on what encoders make and other bytes."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from bench import Bench
from hypothesis import given, settings
from hypothesis import strategies as st
from stalls import STALLS, Stalls

from tq_hw.hdl.dma.row_ahead import RowsAhead
from tq_hw.isa.config import PRESETS, Config
from tq_hw.isa.weight_code import decode_rows, encode_rows, view_bytes

CONFIGS = {
    "cols4": replace(PRESETS["tiny"], compressed_weights=1), "cols8": replace(PRESETS["n9x8"], compressed_weights=1),
    "cols12": Config("cols12", 12, 12, 4, 64 << 10, compressed_weights=1),
    "cols16": replace(PRESETS["n16"], compressed_weights=1),
}


@cache
def decoder_of(name: str) -> tuple[Any, Bench]:
    dut = RowsAhead(CONFIGS[name])
    return dut, Bench(dut)


def decode_ref(name: str, runs: list[tuple[bytes, int]]) -> list[bytes]:
    cols = CONFIGS[name].cols
    return [row.tobytes() for data, rows in runs for row in decode_rows(data, rows, cols)]


def decode_rtl(name: str, runs: list[tuple[bytes, int]], seed: int = 0, idle: float = 0.0, refuse: float = 0.0,
               cycles: list[int] | None = None) -> list[bytes]:
    """Give runs, and take some rows of each; `cycles` gets the cycle of each row."""
    dut, bench = decoder_of(name)
    cols, size = CONFIGS[name].cols, view_bytes(CONFIGS[name].cols)
    found: list[bytes] = []
    ends = {sum(rows for _, rows in runs[:number + 1]) - 1 for number in range(len(runs))}

    async def give(ctx: Any) -> None:
        gaps = Stalls(seed, idle)
        for data, _ in runs:
            padded = data.ljust(max(1, -(-len(data) // size)) * size, b"\0")
            for first in range(0, len(padded), size):
                while not gaps.go():
                    await ctx.tick()
                ctx.set(dut.i.payload.data, int.from_bytes(padded[first:first + size], "little"))
                ctx.set(dut.i.payload.last, first + size == len(padded))
                ctx.set(dut.i.valid, 1)
                ready = False
                while not ready:
                    _, _, ready = await ctx.tick().sample(dut.i.ready)
                ctx.set(dut.i.valid, 0)

    async def take(ctx: Any) -> None:
        refuses = Stalls(seed + 1, refuse)
        taken, cycle, due = 0, 0, False
        while taken < sum(rows for _, rows in runs) or due:
            goes = bool(ctx.get(dut.can)) and refuses.go() and taken <= max(ends)
            ctx.set(dut.take, goes)
            ctx.set(dut.last, taken in ends)
            if due:
                found.append(ctx.get(dut.o).to_bytes(cols, "little"))
            if goes and cycles is not None:
                cycles.append(cycle)
            due, taken = goes, taken + goes
            await ctx.tick()
            cycle += 1
            assert cycle < 400 + 40 * taken, "the decoder hangs"
        ctx.set(dut.take, 0)
        for _ in range(2000):
            if ctx.get(dut.idle):
                break
            await ctx.tick()
        assert ctx.get(dut.idle), "not idle after the last run"

    bench.run(give, take)
    return found


def coded(name: str, rows: np.ndarray) -> tuple[bytes, int]:
    return encode_rows(rows.astype(np.int8).tobytes(), CONFIGS[name].cols)[0], len(rows)


def corners(name: str) -> list[tuple[bytes, int]]:
    """Blocks of each width, with none, some and only escapes; one row, and more rows than a block has."""
    cols, rng = CONFIGS[name].cols, np.random.default_rng(3)
    found = [coded(name, rows) for rows in (np.zeros((1, cols)), np.zeros((300, cols)), np.full((3, cols), -128))]
    for width in range(1, 8):
        half = 1 << width - 1
        rows = rng.integers(-half, half, (9, cols)).clip(-half + (width > 1), half - 1)
        rows[4] = 127
        rows[6, ::2] = -128
        found.append(coded(name, rows))
    found.append(coded(name, rng.integers(-128, 128, (20, cols))))
    return found


def noise(name: str, seed: int) -> list[tuple[bytes, int]]:
    """Bytes that no encoder made, more and fewer than the rows take."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(6):
        data = rng.integers(0, 256, int(rng.integers(1, 60)), np.uint8)
        data[0] = rng.integers(0, 16)
        data[1:2] = rng.integers(0, 8, len(data[1:2]))
        found.append((data.tobytes(), int(rng.integers(1, 24))))
    return found


@pytest.mark.parametrize(("idle", "refuse"), STALLS)
@pytest.mark.parametrize("name", CONFIGS)
def test_rows_of_corner_blocks(name: str, idle: float, refuse: float) -> None:
    runs = corners(name)
    assert decode_rtl(name, runs, 1, idle, refuse) == decode_ref(name, runs)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", CONFIGS)
def test_any_bytes_decode_to_rows(name: str, seed: int) -> None:
    runs = noise(name, seed)
    assert decode_rtl(name, runs, seed, 0.3, 0.3) == decode_ref(name, runs)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(data=st.binary(min_size=1, max_size=48), rows=st.integers(1, 30), name=st.sampled_from(["cols4", "cols8"]))
def test_any_bytes_have_rows_again(data: bytes, rows: int, name: str) -> None:
    runs = [(data, rows), coded(name, np.arange(2 * CONFIGS[name].cols).reshape(2, -1))]
    assert decode_rtl(name, runs) == decode_ref(name, runs)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_row_comes_in_each_cycle(name: str) -> None:
    """Of a block without escapes; before it, two cycles for the window, two for header and planes, four for queues."""
    rows = np.random.default_rng(1).integers(-7, 8, (64, CONFIGS[name].cols))
    cycles: list[int] = []
    runs = [coded(name, rows)]
    assert decode_rtl(name, runs, cycles=cycles) == decode_ref(name, runs)
    assert cycles == list(range(cycles[0], cycles[0] + 64)) and cycles[0] <= 10
