"""Array operations of the executor give the results of the loops in docs/reference/semantics.md."""

import random

import numpy as np
import pytest

from tq_hw.isa.config import PRESETS, Config
from tq_hw.isa.control import Status
from tq_hw.isa.layout import UNITS, ArrayMode, Unit
from tq_hw.sim.executor.array import array_tiles
from tq_hw.sim.executor.machine import Fault, Machine

FIELDS = dict.fromkeys(UNITS[Unit.ARRAY].fields, 0)
CONFIGS = [*PRESETS.values(), Config("r6c4", 6, 4, 4, 8 << 10), Config("r12c3", 12, 3, 3, 16 << 10),
           Config("r4c6", 4, 6, 3, 8 << 10)]


def reference(machine: Machine, f: dict[str, int], folds, n: int, o: int) -> list[int]:
    """Accumulators of one slot of one output block, as semantics.md defines them."""
    config, pad = machine.config, machine.scratchpad.view(np.int8)
    oy, ox = divmod(n, f["out_cols"])
    zero = f["zero_point"]
    acc = np.zeros(config.cols, np.int64)

    def read(address: int) -> np.ndarray:
        return pad[address % 65536].astype(int)

    def inside(row: int, col: int) -> bool:
        return 0 <= row < f["in_rows"] and 0 <= col < f["in_cols"]

    def step(k: int, x) -> None:
        for r in range(f["weight_rows"]):
            w = read(f["weight_base"] + o * f["weight_block_step"] + k * f["weight_rows"] + r)
            acc[:] += x(r) * w[:config.cols]

    row0 = f["row_first"] + oy * f["row_stride"]
    col0 = f["col_first"] + ox * f["col_stride"]
    base = f["in_base"] + oy * f["in_row_step"]
    k = 0
    if f["mode"] == ArrayMode.GEMM:
        for ky in range(f["kernel_rows"]):
            for kx in range(f["kernel_cols"]):
                for ib in range(f["kernel_blocks"]):
                    row, col = row0 + ky * f["kernel_row_dilation"], col0 + kx * f["kernel_col_dilation"]
                    is_in = inside(row, col)
                    address = (base + ox * f["in_col_step"] + ky * f["kernel_row_step"] + kx * f["kernel_col_step"]
                               + ib * f["kernel_block_step"])
                    word = read(address) if is_in else None
                    for s in range(f["slices"]):
                        def of_slice(r, s=s, word=word):
                            lane = s * config.gemm_rows + r
                            return zero if word is None else word[lane] if lane < config.word_bytes else 0
                        step(k, of_slice)
                        k += 1
    elif f["mode"] == ArrayMode.FOLDED:
        for k in range(f["kernel_blocks"]):
            def folded(r, k=k):
                for feed in folds[k]:
                    if r < feed["lane_end"]:
                        if not 0 <= row0 + feed["kernel_row"] < f["in_rows"]:
                            return zero
                        return read(base + ox * f["in_col_step"] + feed["address"])[
                            (r - feed["rotate"]) % config.word_bytes]
                return zero
            step(k, folded)
    else:
        block = o + f["sub_first"]
        for i in range(-(-f["kernel_rows"] // config.groups)):
            for j in range(-(-f["kernel_cols"] // 3)):
                def x(r, i=i, j=j):
                    ky, kx = config.groups * i + r // 3, 3 * j + r % 3
                    if ky >= f["kernel_rows"] or not inside(row0 + ky * f["kernel_row_dilation"], col0 + kx):
                        return zero
                    word = read(base + ky * f["kernel_row_step"] + (ox * f["col_stride"] + kx) * f["in_col_step"]
                                + block // config.sub_blocks * f["in_block_step"])
                    first = block % config.sub_blocks * config.cols
                    return word[first:first + config.cols]
                step(k, x)
                k += 1
    return acc.tolist()


def check(machine: Machine, f: dict[str, int], folds=()) -> None:
    tiles = list(array_tiles(machine, f, folds))
    count = -(-f["slots"] // f["tile_slots"])
    order = [(o, t) for o in range(f["out_blocks"]) for t in range(count)]
    if f["blocks_inner"]:
        order.sort(key=lambda pair: pair[1])
    assert len(tiles) == len(order)
    for (o, t), tile in zip(order, tiles, strict=True):
        slots = range(t * f["tile_slots"], min(f["slots"], (t + 1) * f["tile_slots"]))
        assert tile.values.tolist() == [reference(machine, f, folds, n, o) for n in slots]


def image_fields(rng: random.Random) -> dict[str, int]:
    """An image at a random place in the scratchpad, with odd row pitch, and a window partly outside it."""
    rows, cols = rng.randint(1, 6), rng.randint(1, 6)
    return {"in_rows": rows, "in_cols": cols, "row_first": rng.randint(-2, 1), "col_first": rng.randint(-2, 1),
            "row_stride": rng.randint(1, 2), "col_stride": rng.randint(1, 3), "zero_point": rng.randint(-128, 127),
            "acc_first": 1, "acc_last": 1, "blocks_inner": rng.randint(0, 1)}


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c.name)
def test_gemm(config):
    rng = random.Random(config.name)
    for seed in range(8):
        machine = Machine(config, [], seed)
        f = FIELDS | image_fields(rng)
        blocks, out_cols, slots = rng.randint(1, 3), rng.randint(1, 4), rng.randint(1, 12)
        row_pitch = f["in_cols"] * blocks | 1
        f |= {"mode": ArrayMode.GEMM, "out_cols": out_cols, "slots": slots, "tile_slots": rng.randint(1, slots),
              "out_blocks": rng.randint(1, 3), "kernel_rows": rng.randint(1, 3), "kernel_cols": rng.randint(1, 3),
              "kernel_blocks": blocks, "slices": config.slices, "weight_rows": rng.randint(1, config.gemm_rows),
              "kernel_row_dilation": rng.randint(1, 2), "kernel_col_dilation": rng.randint(1, 2),
              "weight_base": 100, "weight_block_step": rng.randint(0, 40), "kernel_block_step": f["in_cols"]}
        f |= {"kernel_row_step": row_pitch * f["kernel_row_dilation"], "kernel_col_step": f["kernel_col_dilation"],
              "in_row_step": row_pitch * f["row_stride"], "in_col_step": f["col_stride"],
              "in_base": 400 + f["row_first"] * row_pitch + f["col_first"] & 0xFFFF}
        check(machine, f)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c.name)
def test_depthwise(config):
    rng = random.Random(config.name)
    for seed in range(8):
        machine = Machine(config, [], seed)
        f = FIELDS | image_fields(rng)
        row_pitch = f["in_cols"] * 4 | 1
        out_cols, tile_rows, rows = rng.randint(1, 4), rng.randint(1, 3), rng.randint(1, 4)
        kernel_rows, kernel_cols = rng.randint(1, 5), rng.randint(1, 5)
        dilation = rng.choice([1, 1, 3])
        steps = -(-kernel_rows // config.groups) * -(-kernel_cols // 3)
        used = rng.randint(1, 3 * config.groups)
        f |= {"mode": ArrayMode.DEPTHWISE, "out_cols": out_cols, "slots": rows * out_cols, "tile_rows": tile_rows,
              "tile_slots": tile_rows * out_cols, "out_blocks": rng.randint(1, 3), "kernel_rows": kernel_rows,
              "kernel_cols": kernel_cols, "weight_rows": used, "kernel_row_dilation": dilation,
              "weight_base": 100, "weight_block_step": steps * used, "in_block_step": f["in_cols"],
              "sub_first": rng.randint(0, config.sub_blocks - 1), "period": 40,
              "kernel_row_step": row_pitch * dilation, "in_row_step": row_pitch * f["row_stride"], "in_col_step": 1,
              "in_base": 400 + f["row_first"] * row_pitch + f["col_first"] & 0xFFFF}
        for o in range(f["out_blocks"]):
            for k in range(steps):
                for r in range(used):
                    if 3 * (k % -(-kernel_cols // 3)) + r % 3 >= kernel_cols:
                        machine.scratchpad[100 + (o * steps + k) * used + r] = 0
        check(machine, f)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c.name)
def test_folded(config):
    rng = random.Random(config.name)
    for seed in range(8):
        machine = Machine(config, [], seed)
        f = FIELDS | image_fields(rng)
        out_cols, slots, entries = rng.randint(1, 4), rng.randint(1, 12), rng.randint(1, 3)
        pitch = out_cols | 1
        f |= {"mode": ArrayMode.FOLDED, "out_cols": out_cols, "slots": slots, "tile_slots": rng.randint(1, slots),
              "out_blocks": rng.randint(1, 2), "kernel_blocks": entries, "weight_rows": rng.randint(1, config.rows),
              "weight_base": 100, "weight_block_step": entries * config.rows, "in_row_step": pitch * f["row_stride"],
              "in_col_step": 1, "in_base": 400}
        folds = [[{"address": pitch * (4 * k + g), "kernel_row": 3 * k + g, "rotate": rng.randint(0, 15),
                   "lane_end": end} for g, end in enumerate(sorted(rng.randint(0, config.rows + 3) for _ in range(3)))]
                 for k in range(entries)]
        # Words of neighbouring rows lie in different banks if pitch * (g - g') is no multiple of four.
        check(machine, f, folds)


def gemm_fields() -> dict[str, int]:
    return FIELDS | {"mode": ArrayMode.GEMM, "acc_first": 1, "acc_last": 1, "in_rows": 1, "in_cols": 1, "out_cols": 1,
                     "slots": 1, "tile_slots": 1, "out_blocks": 1, "kernel_rows": 1, "kernel_cols": 1,
                     "kernel_blocks": 1, "slices": 1, "weight_rows": 4}


@pytest.mark.parametrize(("change", "status"), [
    ({"mode": 3}, Status.BAD_OPERATION), ({"slices": 0}, Status.BAD_OPERATION), ({"slots": 0}, Status.BAD_OPERATION),
    ({"tile_slots": 17}, Status.BAD_OPERATION), ({"weight_rows": 5}, Status.BAD_OPERATION),
    ({"acc_first": 0, "slots": 2}, Status.BAD_OPERATION), ({"acc_last": 0, "out_blocks": 2}, Status.BAD_OPERATION),
    ({"in_base": 2048}, Status.BAD_ADDRESS), ({"weight_base": 2045}, Status.BAD_ADDRESS),
    ({"mode": 1, "tile_rows": 2}, Status.BAD_OPERATION),
    ({"mode": 1, "tile_rows": 1, "weight_rows": 3}, Status.BAD_OPERATION),
    ({"mode": 2, "kernel_blocks": 17}, Status.BAD_OPERATION),
])
def test_wrong(change, status):
    machine = Machine(PRESETS["tiny"], [], 0)
    with pytest.raises(Fault) as caught:
        list(array_tiles(machine, gemm_fields() | change, [[{"lane_end": 0}] * 3] * 16))
    assert caught.value.status is status


def test_word_outside_the_image_is_not_read():
    machine = Machine(PRESETS["tiny"], [], 0)
    fields = gemm_fields() | {"in_base": 5000, "row_first": -1, "zero_point": 3}
    weights = machine.scratchpad[:4].view(np.int8).astype(int)
    (tile,) = array_tiles(machine, fields, [])
    assert tile.values.tolist() == [(3 * weights.sum(axis=0)).tolist()]


def test_bank_conflict():
    config = PRESETS["n16"]
    machine = Machine(config, [], 0)
    fields = FIELDS | {"mode": ArrayMode.DEPTHWISE, "acc_first": 1, "acc_last": 1, "in_rows": 3, "in_cols": 1,
                       "out_cols": 1, "slots": 1, "tile_slots": 1, "tile_rows": 1, "out_blocks": 1, "kernel_rows": 3,
                       "kernel_cols": 1, "weight_rows": 9, "row_stride": 1, "col_stride": 1, "period": 9,
                       "kernel_row_dilation": 1, "kernel_row_step": 2}
    machine.scratchpad[:9] = 0
    with pytest.raises(Fault, match="one bank") as caught:
        list(array_tiles(machine, fields, []))
    assert caught.value.status is Status.BANK_CONFLICT
    list(array_tiles(machine, fields | {"in_rows": 2}, []))


def test_long_sums_are_exact():
    """All products have their largest value: float32 would lose bits for more than 1024 of them."""
    config = PRESETS["n16"]
    machine = Machine(config, [], 0)
    machine.scratchpad[:] = 0x80
    machine.scratchpad[5, 3] = 0x81
    fields = gemm_fields() | {"kernel_blocks": 400, "kernel_block_step": 1, "weight_rows": 16, "weight_base": 1000}
    (tile,) = array_tiles(machine, fields, [])
    assert tile.values[0].tolist() == [400 * 16 * 16384 - 128] * 16
