"""A bench for the array unit: a scratchpad with four banks, a vector unit that reads, and random operations."""

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from amaranth.sim import Simulator
from array_reference import WORDS, Operation, reference

from tq_hw.hdl.array.unit import ArrayUnit
from tq_hw.isa.config import Config
from tq_hw.isa.latency import ACC_READ_LATENCY_CYCLES, ARRAY_READ_LATENCY_CYCLES
from tq_hw.isa.layout import UNITS, ArrayMode, Unit


@dataclass
class Result:
    """cycles: until the last operation was done; done: operations; the rest: cycles or reads counted."""

    buffers: list[np.ndarray]
    cycles: int
    done: int
    error: int
    stall_weight: int
    stall_acc: int
    feed_reads: int


class _Bench:
    """The unit under test and the models at its ports: operations, scratchpad, vector unit."""

    def __init__(self, config: Config, memory: np.ndarray, seed: int, refuse: float, slow: float) -> None:
        self.dut = ArrayUnit(config)
        self.config, self.refuse, self.slow = config, refuse, slow
        self.rng = random.Random(seed)
        self.words = [int.from_bytes(w.tobytes(), "little") for w in memory]
        self.result = Result([], 0, 0, 0, 0, 0, 0)

    async def drive(self, ctx, operations: Sequence[Operation]) -> None:
        dut, table, shape = self.dut, None, UNITS[Unit.ARRAY].fields
        for op in operations:
            if op.folds and table is not op.folds:
                table = op.folds
                await self._load(ctx, table)
            assert not set(op.fields) - set(shape)
            ctx.set(dut.i.payload, {name: op.fields.get(name, 0) for name in shape})
            ctx.set(dut.i.valid, 1)
            await ctx.tick().until(dut.i.ready)
            ctx.set(dut.i.valid, 0)
            if self.slow and self.rng.random() < 0.3:
                await ctx.tick().repeat(self.rng.randrange(1, 30))

    async def _load(self, ctx, folds) -> None:
        """Fill the table of folds, once the unit is idle."""
        dut = self.dut
        while not ctx.get(dut.idle):
            await ctx.tick()
        for k, entry in enumerate(folds):
            for g, (address, kernel_row, rotate, lane_end) in enumerate(entry):
                ctx.set(dut.table.en, 1)
                ctx.set(dut.table.index, 3 * k + g)
                ctx.set(dut.table.data, address & 0xFFFF | kernel_row << 16 | rotate << 21 | lane_end << 26)
                await ctx.tick()
        ctx.set(dut.table.en, 0)

    async def scratchpad(self, ctx) -> None:
        dut = self.dut
        ports = [dut.feed0, dut.feed1, dut.feed2, dut.weights]
        # What was asked for, newest first; the answer to the oldest stands in the next cycle.
        latencies = [ARRAY_READ_LATENCY_CYCLES] * 4
        coming = [deque([None] * (latency - 1), latency - 1) for latency in latencies]
        sampled = [s for port in ports for s in (port.en, port.addr, port.wants, port.taken)]
        while True:
            ctx.set(dut.weights.taken, 0 if self.rng.random() >= self.refuse else 15)
            _, _, *now = await ctx.tick().sample(*sampled)
            for n, port in enumerate(ports):
                en, addr, wants, taken = now[4 * n:4 * n + 4]
                assert wants == (1 << addr % 4 if en else 0)
                grant = not taken
                # Nothing but the cycle of the answer may count.
                asked = coming[n][-1]
                ctx.set(port.data, 0x55 if asked is None else self.words[asked])
                coming[n].appendleft(addr if en and grant else None)
                self.result.feed_reads += bool(en and n < 3)

    async def vector(self, ctx, sizes: Sequence[int]) -> None:
        acc, rng, slow, cols = self.dut.acc, self.rng, self.slow, self.config.cols
        for size in sizes:
            while not ctx.get(acc.full):
                await ctx.tick()
            got, pending, word = [], [False] * ACC_READ_LATENCY_CYCLES, 0
            while word < size or any(pending):
                en = word < size and rng.random() >= slow / 4
                ctx.set(acc.en, en)
                ctx.set(acc.word, min(word, size - 1))
                _, _, grant, data = await ctx.tick().sample(acc.grant, acc.data)
                if pending.pop(0):
                    got.append(data)
                pending.append(bool(en and grant))
                word += bool(en and grant)
            # `pending` covers the latency; the word asked for last is on `data` now.
            ctx.set(acc.en, 0)
            if slow and rng.random() < slow:
                await ctx.tick().repeat(rng.randrange(1, 60))
            ctx.set(acc.release, 1)
            await ctx.tick()
            ctx.set(acc.release, 0)
            raw = b"".join(v.to_bytes(4 * cols, "little") for v in got)
            self.result.buffers.append(np.frombuffer(raw, np.int32).reshape(size, cols))

    async def watch(self, ctx, operations: int, buffers: int, limit: int) -> None:
        """Count, until this many operations and buffers are done, or the unit stops with an error."""
        dut, result = self.dut, self.result
        sampled = (dut.done, dut.error, dut.stall_weight, dut.stall_acc)
        for cycle in range(limit):
            _, _, done, error, weight, acc = await ctx.tick().sample(*sampled)
            if done:
                result.cycles = cycle
            result.done += done
            result.stall_weight += weight
            result.stall_acc += acc
            result.error = error
            if error or (result.done == operations and len(result.buffers) == buffers):
                break


def run(config: Config, memory: np.ndarray, operations: Sequence[Operation], sizes: Sequence[int], *, seed: int = 0,
        refuse: float = 0.0, slow: float = 0.0, limit: int = 20000) -> Result:
    """Run operations; read `sizes[n]` words of the n-th buffer. refuse, slow: chances to hold the ports back."""
    bench = _Bench(config, memory, seed, refuse, slow)
    sim = Simulator(bench.dut)
    sim.add_clock(1e-6)
    sim.add_testbench(partial(bench.drive, operations=operations), background=True)
    sim.add_testbench(bench.scratchpad, background=True)
    sim.add_testbench(partial(bench.vector, sizes=sizes), background=True)
    sim.add_testbench(partial(bench.watch, operations=len(operations), buffers=len(sizes), limit=limit))
    sim.run()
    return bench.result


def check(config: Config, operations: Sequence[Operation], memory: np.ndarray, **kwargs: Any) -> Result:
    """Assert that every buffer is as the reference says."""
    expected = reference(config, memory, operations)
    result = run(config, memory, operations, [len(b) for b in expected], **kwargs)
    assert not result.error
    assert result.done == len(operations), (result.done, len(result.buffers), len(expected), result.cycles)
    assert len(result.buffers) == len(expected)
    for n, (got, want) in enumerate(zip(result.buffers, expected, strict=True)):
        assert np.array_equal(got, want), f"buffer {n}:\n{got - want}"
    return result


def gemm(config: Config, **changes: int) -> Operation:
    """Return a 3x3 convolution with padding; `changes` override fields."""
    f = {"mode": ArrayMode.GEMM, "acc_first": 1, "acc_last": 1, "blocks_inner": 0, "zero_point": -7,
         "in_base": 1000, "in_col_step": 2, "in_row_step": 21, "kernel_col_step": 2, "kernel_row_step": 21,
         "kernel_block_step": 1, "kernel_blocks": 2, "row_first": -1, "col_first": -1, "row_stride": 1, "col_stride": 1,
         "kernel_row_dilation": 1, "kernel_col_dilation": 1, "in_rows": 4, "in_cols": 5, "out_cols": 5, "slots": 20,
         "tile_slots": 7, "out_blocks": 2, "kernel_rows": 3, "kernel_cols": 3, "weight_base": 30000,
         "weight_block_step": 500, "weight_rows": config.gemm_rows, "slices": config.slices}
    return Operation({k: int(v) for k, v in (f | changes).items()})


def depthwise(config: Config, *, rows: int, cols: int, kernel: tuple[int, int], stride: tuple[int, int] = (1, 1),
              pads: tuple[int, int, int, int] | None = None, dilation: int = 1, **changes: int) -> Operation:
    """Return a depthwise convolution; pads: top, left, bottom, right, SAME by default."""
    extents = ((kernel[0] - 1) * dilation + 1, kernel[1])
    if pads is None:
        need = [max(0, (-(-n // s) - 1) * s + k - n) for n, s, k in zip((rows, cols), stride, extents, strict=True)]
        pads = (need[0] // 2, need[1] // 2, need[0] - need[0] // 2, need[1] - need[1] // 2)
    out_rows = (rows + pads[0] + pads[2] - extents[0]) // stride[0] + 1
    out_cols = (cols + pads[1] + pads[3] - extents[1]) // stride[1] + 1
    span = (out_cols - 1) * stride[1] + 1
    columns = [sum(0 <= 3 * j - pads[1] + q < cols for q in range(span + 2)) for j in range(-(-kernel[1] // 3))]
    tile_rows = changes.pop("tile_rows", max(1, min(out_rows, config.acc_words // out_cols)))
    f = {"mode": ArrayMode.DEPTHWISE, "acc_first": 1, "acc_last": 1, "blocks_inner": 0, "zero_point": 11,
         "in_base": 5000, "in_col_step": 3, "in_row_step": 41 * stride[0], "in_block_step": 1,
         "kernel_row_step": 41 * dilation,
         "row_first": -pads[0], "col_first": -pads[1], "row_stride": stride[0], "col_stride": stride[1],
         "kernel_row_dilation": dilation, "in_rows": rows, "in_cols": cols, "out_cols": out_cols,
         "period": max(span, *columns), "slots": out_rows * out_cols,
         "tile_rows": tile_rows, "tile_slots": tile_rows * out_cols, "out_blocks": 2,
         "kernel_rows": kernel[0], "kernel_cols": kernel[1], "weight_base": 30000, "weight_block_step": 500,
         "weight_rows": 3 * config.groups, "sub_first": 0}
    return Operation({k: int(v) for k, v in (f | changes).items()})


def fold(config: Config, rng: random.Random, entries: int, **changes: int) -> Operation:
    """Return a folded operation with a random table."""
    op = gemm(config, **({"mode": ArrayMode.FOLDED, "kernel_blocks": entries, "weight_rows": config.rows} | changes))
    for _ in range(entries):
        ends = sorted(rng.randrange(config.rows + 3) for _ in range(3))
        if rng.random() < 0.3:
            rng.shuffle(ends)
        base = rng.randrange(-30, 30)
        op.folds.append([(base + g + 4 * rng.randrange(-5, 5), rng.randrange(4), rng.randrange(32), ends[g])
                         for g in range(3)])
    return op


def random_operation(config: Config, rng: random.Random) -> Operation:
    """Return any legal small operation."""
    pick = rng.choice
    common = {"zero_point": rng.randrange(-128, 128), "in_base": rng.randrange(WORDS), "blocks_inner": rng.randrange(2),
              "weight_base": rng.randrange(WORDS), "weight_block_step": rng.randrange(-99, 99),
              "in_col_step": rng.randrange(-9, 9), "out_blocks": pick((1, 1, 2, 3))}
    mode = pick(list(ArrayMode))
    if mode == ArrayMode.DEPTHWISE:
        rows, cols, kernel = rng.randrange(1, 6), rng.randrange(1, 8), (rng.randrange(1, 6), rng.randrange(1, 8))
        dilation = pick((1, 1, 2))
        extent = (kernel[0] - 1) * dilation + 1
        top, left = rng.randrange(-1, kernel[0]), rng.randrange(-1, kernel[1])
        pads = (top, left, max(rng.randrange(-1, 3), extent - rows - top),
                max(rng.randrange(-1, 3), kernel[1] - cols - left))
        op = depthwise(config, rows=rows, cols=cols, kernel=kernel, stride=(pick((1, 1, 2, 3)), pick((1, 1, 2, 3, 4))),
                       pads=pads, dilation=dilation, sub_first=rng.randrange(config.sub_blocks),
                       in_block_step=rng.randrange(-9, 9), kernel_row_step=2 * rng.randrange(-99, 99) + 1, **common)
        op.fields["period"] += pick((0, 0, 1, 5))
        return op
    slots = rng.randrange(1, 25)
    common |= {"slots": slots, "tile_slots": min(config.acc_words, pick((slots, rng.randrange(1, slots + 1)))),
               "out_cols": rng.randrange(1, 9), "in_row_step": rng.randrange(-99, 99), "in_rows": rng.randrange(1, 9),
               "row_first": rng.randrange(-3, 2), "row_stride": rng.randrange(1, 4)}
    if mode == ArrayMode.FOLDED:
        return fold(config, rng, rng.randrange(1, 5), weight_rows=rng.randrange(1, config.rows + 1), **common)
    return gemm(config, **common, col_first=rng.randrange(-3, 2), col_stride=rng.randrange(1, 4),
                in_cols=rng.randrange(1, 9), kernel_rows=rng.randrange(1, 4), kernel_cols=rng.randrange(1, 4),
                kernel_blocks=rng.randrange(1, 4), kernel_row_dilation=rng.randrange(1, 4),
                kernel_col_dilation=rng.randrange(1, 4), kernel_block_step=rng.randrange(-9, 9),
                kernel_row_step=rng.randrange(-99, 99), kernel_col_step=rng.randrange(-9, 9),
                weight_rows=rng.randrange(1, config.gemm_rows + 1))


def random_operations(config: Config, rng: random.Random, count: int) -> list[Operation]:
    """Return operations one after the other; some add to one buffer."""
    operations: list[Operation] = []
    while len(operations) < count:
        op = random_operation(config, rng)
        if config.acc_open and rng.random() < 0.5:
            op.fields["out_blocks"] = config.acc_open
        if (op.fields["slots"] > op.fields["tile_slots"] or op.fields["out_blocks"] not in (1, config.acc_open)
                or rng.random() < 0.5):
            operations.append(op)
            continue
        links = rng.randrange(2, 5)
        operations += [Operation(op.fields | {"acc_first": int(n == 0), "acc_last": int(n == links - 1),
                                              "weight_base": rng.randrange(WORDS)}, op.folds) for n in range(links)]
    return operations


def clear_missing_taps(config: Config, memory: np.ndarray, op: Operation) -> None:
    """Write the zeros that the compiler puts where depthwise taps or GEMM lanes do not exist."""
    f = op.fields
    for o in range(f["out_blocks"]):
        at = f["weight_base"] + o * f["weight_block_step"]
        if f["mode"] == ArrayMode.DEPTHWISE:
            for i in range(-(-f["kernel_rows"] // config.groups)):
                for j in range(-(-f["kernel_cols"] // 3)):
                    for r in range(f["weight_rows"]):
                        if 3 * j + r % 3 >= f["kernel_cols"] or config.groups * i + r // 3 >= f["kernel_rows"]:
                            memory[(at + r) % WORDS] = 0
                    at += f["weight_rows"]
        elif f["mode"] == ArrayMode.GEMM:
            for n in range(f["kernel_rows"] * f["kernel_cols"] * f["kernel_blocks"] * f["slices"]):
                for r in range(f["weight_rows"]):
                    if n % f["slices"] * config.gemm_rows + r >= config.word_bytes:
                        memory[(at + n * f["weight_rows"] + r) % WORDS] = 0
