"""The figures of a report are consistent and within the limits of the machine, both estimated and measured ones."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tq_hw.cli.report.layers import Report, compile_report, sim_report
from tq_hw.compiler import compile_model
from tq_hw.compiler.partition.macs import macs_of
from tq_hw.isa.config import PRESETS, Config
from tq_hw.isa.memory import Memory
from tq_hw.model.graph import Model
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model, read_model
from tq_hw.sim.engines import make_engine, random_inputs

EXAMPLES = Path(__file__).parents[3] / "examples"
SIDE = 4
FAST, SLOW = Memory(latency_cycles=2, bytes_per_cycle=16), Memory(latency_cycles=90, bytes_per_cycle=1)


def digits() -> Model:
    return read_model(EXAMPLES / "digits" / "digits.tflite")


def _weights(b: ModelBuilder, *shape: int) -> int:
    rng = np.random.default_rng(shape)
    return b.constant(rng.integers(-127, 128, shape).astype(np.int8), scale=0.01)


def _conv(b: ModelBuilder, op: str, x: int, channels: int, *weights: int, **options: Any) -> int:
    kernel = _weights(b, *weights)
    return b.add(op, [x, kernel, b.bias(x, kernel, [0] * channels)], shape=(1, SIDE, SIDE, channels), scale=0.9,
                 zero_point=4, padding="SAME", **options)


def spread() -> Model:
    """Weights that are larger as a matrix than in the model: groups, two outputs per channel, shuffled channels."""
    b = ModelBuilder("spread")
    x = b.input((1, SIDE, SIDE, 8), scale=0.5, zero_point=-3)
    y = _conv(b, "CONV_2D", x, 8, 8, 3, 3, 2)
    y = _conv(b, "DEPTHWISE_CONV_2D", y, 16, 1, 3, 3, 16, depth_multiplier=2)
    numbers = [b.constant(np.array(values, np.int32)) for values in (
        (1, SIDE, SIDE, 2, 8), (0, 1, 2, 4, 3), (1, SIDE, SIDE, 16))]
    y = b.add("RESHAPE", [y, numbers[0]], shape=(1, SIDE, SIDE, 2, 8))
    y = b.add("TRANSPOSE", [y, numbers[1]], shape=(1, SIDE, SIDE, 8, 2))
    y = b.add("RESHAPE", [y, numbers[2]], shape=(1, SIDE, SIDE, 16))
    return parse_model(b.build(_conv(b, "CONV_2D", y, 16, 16, 1, 1, 16)), "spread")


def products() -> Model:
    """Computed weights, and many that are used once."""
    b = ModelBuilder("products")
    x = b.input((1, 1, 12, 16), scale=0.5, zero_point=-3)
    y = b.add("BATCH_MATMUL", [x, x], shape=(1, 1, 12, 12), scale=9.0, zero_point=1, options={
        "adj_x": False, "adj_y": True})
    y = b.add("RESHAPE", [y, b.constant(np.array([1, 144], np.int32))], shape=(1, 144))
    weights = _weights(b, 40, 144)
    return parse_model(b.build(b.add("FULLY_CONNECTED", [y, weights, b.bias(y, weights, [0] * 40)], shape=(1, 40),
                                     scale=0.9)), "products")


MODELS = {"digits": digits, "spread": spread, "products": products}


def check(report: Report, model: Model, config: Config) -> None:
    """Raise AssertionError if figures of a report contradict each other."""
    cycles, rows, lost = report["cycles"], report["layers"], report["lost"]
    assert sum(lost.values()) == cycles and min(lost.values()) >= 0
    assert sum(row["cycles"] for row in rows) == cycles and min(row["cycles"] for row in rows) >= 0
    for sums in ("macs", "bytes"):
        assert sum(row[sums] for row in rows) == report[sums]
    busy = sum(row["array_cycles"] or 0 for row in rows)
    assert busy == sum(lost[name] for name in ("multiplying", "array", "shape", "weights", "sums") if name in lost)
    assert report["macs"] // config.macs == lost["multiplying"] <= busy <= cycles
    assert 0 < report["utilization"] <= 1
    for row in rows:
        op = model.main.operators[row["index"]]
        assert row["macs"] <= (row["array_cycles"] or 0) * config.macs
        assert row["utilization"] is None or 0 <= row["utilization"] <= 1
        if row["array_cycles"] and macs_of(op, model.main.tensors):
            assert row["unit"] == "array" and row["macs"] == macs_of(op, model.main.tensors)


@pytest.mark.parametrize("config", ["tiny", "n8", "n16", "n16x8"])
@pytest.mark.parametrize("name", list(MODELS))
def test_estimates_add_up(name: str, config: str) -> None:
    model = MODELS[name]()
    compiled = compile_model(model, PRESETS[config])
    check(compile_report(compiled, model, name, "", 0), model, PRESETS[config])


@pytest.mark.parametrize(("name", "memory"), [("digits", FAST), ("spread", SLOW), ("products", FAST)])
def test_what_the_rtl_counted_adds_up(name: str, memory: Memory) -> None:
    model = MODELS[name]()
    compiled = compile_model(model, PRESETS["tiny"], memory=memory)
    found = make_engine("rtl", model, compiled.program, memory).infer(random_inputs(model))
    report = sim_report(name, PRESETS["tiny"], model, compiled.program, "rtl", [found], True)
    check(report, model, PRESETS["tiny"])
    counters, lost = report["counters"], report["lost"]
    assert (lost["weights"], lost["sums"]) == (counters["array_weight"], counters["array_acc"])
    assert counters["array_busy"] == sum(row["array_cycles"] or 0 for row in report["layers"])
    assert sum(lost[name] for name in ("multiplying", "shape")) + lost["weights"] + lost["sums"] == counters[
        "array_busy"]
    if name == "products":
        assert lost["weights"] > 0
