"""STABLEHLO_REDUCE_WINDOW of float32 that comes from codes: its integers, the operators that compute it, what stays."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.model.rules.bodies import body
from tq_hw.compiler import compile_model
from tq_hw.isa.config import PRESETS
from tq_hw.model.errors import TqError
from tq_hw.model.graph import Model
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.model.tflite.writer import write_model
from tq_hw.sim.executor import execute
from tq_hw.sim.oracles import Oracle

QUANTIZATION = {"scale": 0.05, "zero_point": -3}
#: Shape of the input; lengths, strides, dilations and base dilations of windows; elements around the input.
LINE = (1, 3, 11), (1, 1, 3), (1, 1, 2), (1, 1, 1), (1, 1, 1), (0,) * 6
DILATED = (1, 7, 8, 3), (1, 3, 2, 1), (1, 2, 1, 1), (1, 2, 3, 1), (1,) * 4, (0, 0, 1, 1, 1, 2, 0, 0)
VOLUME = (1, 2, 4, 5, 6), (1, 1, 2, 3, 2), (1, 1, 2, 1, 2), (1,) * 5, (1,) * 5, (0, 0, 0, 0, 0, 0, 1, 1, 0, 0)
SPREAD = (2, 5, 3), (1, 4, 1), (1, 1, 1), (1, 1, 1), (1, 3, 1), (0, 0, 2, -1, 0, 0)
#: The second window reaches over no element.
BESIDE = (1, 2, 3), (1, 1, 1), (1, 1, 3), (1, 1, 1), (1, 1, 1), (0, 0, 0, 0, 0, 1)
STARTS = {"MAXIMUM": -np.inf, "MINIMUM": np.inf, "ADD": 0.0, "MUL": 1.0}


def sizes(where: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
    """Return the shape of the result."""
    shape, lengths, strides, dilations, spread, around = (np.array(each) for each in where)
    whole = (shape - 1) * spread + 1 + around[::2] + around[1::2]
    return tuple(int(each) for each in (whole - (lengths - 1) * dilations - 1) // strides + 1)


def windows(where: tuple[tuple[int, ...], ...], *operators: str, start: float | None = None,
            moved: str = "") -> bytes:
    """Windows of what a DEQUANTIZE gives, or of what an operator makes of that; a QUANTIZE follows."""
    b, name = ModelBuilder("windows"), operators[0].removeprefix("STABLEHLO_")
    shape, lengths, strides, dilations, spread, around = where
    real = b.add("DEQUANTIZE", [b.input(shape, **QUANTIZATION)])
    real = b.add(moved, [real], dtype="float32") if moved else real
    made = b.add("STABLEHLO_REDUCE_WINDOW", [real, b.constant(np.array(STARTS[name] if start is None else start,
                                                                       np.float32))],
                 shape=sizes(where), dtype="float32", options={
                     "window_dimensions": lengths, "window_strides": strides, "window_dilations": dilations,
                     "base_dilations": spread, "padding": around, "body_subgraph_index": 1})
    main = b.model(b.add("QUANTIZE", [made], dtype="int8", scale=0.11, zero_point=4)).main
    return write_model(Model("windows", (main, body(*operators))))


@pytest.mark.parametrize("op", ["MAXIMUM", "STABLEHLO_MAXIMUM", "MINIMUM", "ADD", "STABLEHLO_ADD"])
@pytest.mark.parametrize("where", [LINE, DILATED, VOLUME, SPREAD], ids=["line", "dilated", "volume", "spread"])
def test_equals_litert(where: tuple[tuple[int, ...], ...], op: str, oracles: Callable[[str], Oracle]) -> None:
    data = windows(where, op)
    model, rng = parse_model(data, "m"), np.random.default_rng(0)
    found = {each.op for each in model.main.operators} - {"QUANTIZE", "DEQUANTIZE", "PAD"}
    assert found == {"GATHER", {"MAXIMUM": "REDUCE_MAX", "MINIMUM": "REDUCE_MIN", "ADD": "SUM"}[
        op.removeprefix("STABLEHLO_")]}
    program = compile_model(model, PRESETS["n8"]).program
    for x in (rng.integers(-128, 128, where[0]).astype(np.int8), np.full(where[0], -128, np.int8)):
        ours = execute(program, [x]).outputs[0]
        np.testing.assert_array_equal(ours, oracles("litert-ref").run(data, [x])[0], strict=True)


@pytest.mark.parametrize("data", [
    windows(LINE, "MUL"), windows(LINE, "ADD", start=0.5), windows(LINE, "MAXIMUM", start=0.0),
    windows(LINE, "ADD", "ADD"), windows(BESIDE, "MAXIMUM"), windows(LINE, "MAXIMUM", moved="NEG")],
    ids=["product", "sum from", "maximum from", "two operators", "beside", "not of codes"])
def test_other_windows_stay(data: bytes) -> None:
    model = parse_model(data, "m")
    with pytest.raises(TqError, match=r"operator \d \(STABLEHLO_REDUCE_WINDOW\) of float32 is not computed"):
        compile_model(model, PRESETS["n8"])


def test_options_of_another_rank_stay() -> None:
    model = parse_model(windows(LINE, "ADD"), "m", check=False)
    ops = [replace(op, options={**op.options, "padding": (0,) * 4}) if op.op == "STABLEHLO_REDUCE_WINDOW" else op
           for op in model.main.operators]
    main = replace(model.main, operators=tuple(ops))
    read = parse_model(write_model(replace(model, subgraphs=(main, *model.subgraphs[1:]))), "m")
    assert "STABLEHLO_REDUCE_WINDOW" in [op.op for op in read.main.operators]
