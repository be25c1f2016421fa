"""Simulate one tile: array unit, scratchpad and vector unit in Amaranth's own simulator."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from amaranth import Elaboratable, Fragment, Module, Signal
from amaranth.lib import wiring
from amaranth.sim import Simulator

from tq_hw.hdl.array.unit import ArrayUnit
from tq_hw.hdl.scratchpad import Scratchpad
from tq_hw.hdl.vector.unit import VectorUnit
from tq_hw.isa.config import Config, load_config
from tq_hw.isa.encode import pack
from tq_hw.isa.latency import TAG_LEAD_CYCLES
from tq_hw.isa.layout import UNITS, ArrayMode, Unit
from tq_hw.isa.uop import UOP, Alu, Destination, Multiply, ShiftSource, Source
from tq_hw.sim.golden.arith import multiply_by_quantized_multiplier

__all__ = ["SLOTS", "STEPS", "TileRun", "run_tile"]

#: Output pixels of the tile, and the sets of weights applied to each: input channel blocks of a 1x1 kernel.
SLOTS, STEPS = 8, 2
_MULTIPLIER, _SHIFT, _ZERO_POINT = 1_527_099_489, -7, 4
#: Scratchpad addresses.
_IN, _WEIGHTS, _PARAMS, _OUT = 0, 32, 64, 96


@dataclass(frozen=True)
class TileRun:
    """The recorded signals and results.

    Members
    -------
    signals : value by cycle: `taken` the array's operation, `weights` a word requested, `begin` a step, `read` a word
        by feed 0, `keep` a slot's tag, `psum` of column 0, `full` a buffer, `take` its words, `out` a result, `bytes`
        of it
    sums : int32 sums of column 0 after each step, [steps, slots]
    outputs : int8 outputs, [slots, cols]
    """

    signals: Mapping[str, Sequence[int]]
    sums: npt.NDArray[np.int64]
    outputs: npt.NDArray[np.int8]


class _Bench(Elaboratable):
    """The two units around the scratchpad, wired as in the accelerator."""

    def __init__(self, config: Config) -> None:
        self.pad, self.array, self.vector = Scratchpad(config), ArrayUnit(config), VectorUnit(config)
        self.done = Signal()

    def elaborate(self, platform: object) -> Module:
        """Connect what wiring.connect can, and `done`."""
        m = Module()
        m.submodules.pad, m.submodules.array, m.submodules.vector = self.pad, self.array, self.vector
        for name in ("feed0", "feed1", "feed2", "weights"):
            wiring.connect(m, getattr(self.array, name), getattr(self.pad, name))
        for name in ("a", "b", "out"):
            wiring.connect(m, getattr(self.vector, name), getattr(self.pad, name))
        wiring.connect(m, self.array.acc, self.vector.acc)
        m.d.comb += self.done.eq(self.vector.done)
        return m


def run_tile(config: Config | None = None) -> TileRun:
    """Run the tile and compare every output byte with the golden model's arithmetic.

    `config` is `tiny` by default; another one must have as many rows as columns, and words of as many bytes.
    """
    config = config or load_config("tiny")
    rng = np.random.default_rng(5)
    rows, cols = config.rows, config.cols
    images = rng.integers(-128, 128, (STEPS, SLOTS, rows)).astype(np.int8)
    weights = rng.integers(-127, 128, (STEPS, rows, cols)).astype(np.int8)
    parameters = np.zeros(config.param_words * config.word_bytes, np.int8)
    sums = np.cumsum(np.einsum("snr,src->snc", images.astype(np.int64), weights.astype(np.int64)), axis=0)
    scaled = multiply_by_quantized_multiplier(sums[-1], _MULTIPLIER, _SHIFT)
    outputs = np.clip(scaled + _ZERO_POINT, -128, 127).astype(np.int8)

    dut = _Bench(config)
    words = {_IN: images.reshape(-1, rows), _WEIGHTS: weights.reshape(-1, cols),
             _PARAMS: parameters.reshape(-1, config.word_bytes)}

    async def bench(ctx: Any) -> None:
        pad, array, vector = dut.pad, dut.array, dut.vector
        ctx.set(pad.load.mask, -1)
        ctx.set(pad.load.en, 1)
        for base, rows_of in words.items():
            for number, word in enumerate(rows_of):
                ctx.set(pad.load.addr, base + number)
                ctx.set(pad.load.data, int.from_bytes(word.tobytes(), "little"))
                await ctx.tick()
        ctx.set(pad.load.en, 0)
        ctx.set(vector.table.en, 1)
        for index, register in enumerate(UOP):
            ctx.set(vector.table.index, index)
            ctx.set(vector.table.data, pack(register, _uop()))
            await ctx.tick()
        ctx.set(vector.table.en, 0)
        for unit, fields, stream in ((Unit.VECTOR, _vector_fields(), vector.i),
                                     (Unit.ARRAY, _array_fields(config), array.i)):
            ctx.set(stream.payload, {name: fields.get(name, 0) for name in UNITS[unit].fields})
            ctx.set(stream.valid, 1)
            await ctx.tick().until(stream.ready)
            ctx.set(stream.valid, 0)
        await ctx.tick().until(dut.done)

    elaborate: Any = Fragment.get
    fragment = elaborate(dut, None)
    accumulators, counter = _parts(fragment, "array", "accumulators"), _parts(fragment, "array", "slots")
    watched = {
        "taken": dut.array.i.valid & dut.array.i.ready, "weights": dut.array.weights.en, "begin": counter.start,
        "read": dut.array.feed0.en, "keep": accumulators.tag.keep,
        "psum": accumulators.psum[0], "full": dut.array.acc.full, "take": dut.array.acc.en,
        "out": dut.vector.out.en, "bytes": dut.vector.out.data,
    }
    signals: dict[str, list[int]] = {name: [] for name in watched}

    async def record(ctx: Any) -> None:
        while True:
            for name, signal in watched.items():
                signals[name].append(ctx.get(signal))
            await ctx.tick()

    simulator: Any = Simulator(fragment)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench)
    simulator.add_testbench(record, background=True)
    simulator.run()
    seen = [signals["psum"][cycle + TAG_LEAD_CYCLES] for cycle, keep in enumerate(signals["keep"]) if keep]
    written = [data for en, data in zip(signals["out"], signals["bytes"], strict=True) if en]
    expected = [int.from_bytes(word.tobytes(), "little") for word in outputs]
    summed = np.diff(sums[:, :, 0], axis=0, prepend=0).reshape(-1).tolist()
    if (seen, written) != (summed, expected):
        raise AssertionError(f"the simulation summed {seen} and wrote {written}; expected {summed} and {expected}")
    return TileRun(signals, sums[:, :, 0], outputs)


def _array_fields(config: Config) -> dict[str, int]:
    """A 1x1 kernel over two blocks of channels, one tile."""
    return {"mode": ArrayMode.GEMM, "acc_first": 1, "acc_last": 1, "in_base": _IN, "in_col_step": 1,
            "kernel_block_step": SLOTS, "kernel_blocks": STEPS, "row_stride": 1, "col_stride": 1,
            "kernel_row_dilation": 1, "kernel_col_dilation": 1, "in_rows": 1, "in_cols": SLOTS, "out_cols": SLOTS,
            "slots": SLOTS, "tile_slots": SLOTS, "out_blocks": 1, "kernel_rows": 1, "kernel_cols": 1,
            "weight_base": _WEIGHTS, "weight_rows": config.rows, "slices": 1}


def _vector_fields() -> dict[str, int]:
    """The same tile: micro-operation 0 on each word."""
    return {"use_acc": 1, "use_params": 1, "out_base": _OUT, "out_col_step": 1, "cols": SLOTS, "out_blocks": 1,
            "slots": SLOTS, "tile_slots": SLOTS, "chunk_slots": SLOTS, "param_base": _PARAMS, "body_first": 1,
            "repeat1": 1, "repeat2": 1}


def _uop() -> dict[str, int]:
    """Add the bias, multiply, shift, add the zero point, clamp."""
    return {"a_source": Source.ACC_OR_BIAS, "b_source": Source.ACC_OR_BIAS, "alu": Alu.ADD,
            "multiply": Multiply.HIGH_IMMEDIATE, "immediate": _MULTIPLIER, "shift_source": ShiftSource.IMMEDIATE,
            "shift": _SHIFT, "clamp": 1, "zero_point": _ZERO_POINT, "act_min": -128, "act_max": 127,
            "destination": Destination.OUTPUT}


def _parts(fragment: Any, *path: str) -> Any:
    """Return the component at a path of instances."""
    for name in path:
        fragment = next(inner for inner, found, _ in fragment.subfragments if found == name)
    return next(origin for origin in fragment.origins if isinstance(origin, wiring.Component))
