"""STABLEHLO_SCATTER that assigns at constant indices: its integers, the operators that compute it, what stays."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.model.rules.bodies import body
from tq_hw.compiler import compile_model
from tq_hw.isa.config import PRESETS
from tq_hw.model.errors import TqError
from tq_hw.model.graph import Model, OptionValue
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.model.tflite.writer import write_model
from tq_hw.sim.executor import execute
from tq_hw.sim.oracles import Oracle

QUANTIZATION = {"scale": 0.05, "zero_point": -3}
NAMES = "update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims", "index_vector_dim"
#: Shapes of the tensor and its updates, indices, and options as in `NAMES`.
Case = tuple[tuple[int, ...], tuple[int, ...], list[object], tuple[OptionValue, ...]]
#: As `x[0, [4, 1, 1], [2, 3, 3]] = y`: two updates of one element.
ELEMENTS: Case = (1, 5, 4), (3,), [[0, 4, 2], [0, 1, 3], [0, 1, 3]], ((), (0, 1, 2), (0, 1, 2), 1)
#: As `x[:, [3, 0, 7]] = y`: rows, of which the last one is beyond the end.
ROWS: Case = (2, 5, 4), (2, 3, 4), [[3], [0], [7]], ((0, 2), (1,), (1,), 1)
#: Windows that begin at an index; a part of the second one is beyond the end. Indices lie along the first dimension.
WINDOWS: Case = (6, 5), (2, 3, 2), [[0, 4], [1, 4]], ((1, 2), (), (0, 1), 0)
#: All elements are written.
WHOLE: Case = (3, 4), (4, 3), [[1], [0], [3], [2]], ((1,), (1,), (1,), 1)


def scatter(case: Case, *operators: str, dtype: str = "float32", given: bool = False) -> bytes:
    """Updates of a tensor, or of a constant before float32; `given` indices are an input."""
    b, (shape, more, indices, options) = ModelBuilder("scatter"), case
    updates = b.input(more, **QUANTIZATION)
    at = b.input(np.shape(indices), "int32") if given else b.constant(np.array(indices, np.int32))
    if dtype == "float32":
        updates = b.add("DEQUANTIZE", [updates])
        source = b.constant(np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape))
    else:
        source = b.input(shape, **QUANTIZATION)
    made = b.add("STABLEHLO_SCATTER", [source, at, updates], shape=shape, dtype=dtype, options={
        **dict(zip(NAMES, options, strict=True)), "update_computation_subgraph_index": 1},
        **({} if dtype == "float32" else QUANTIZATION))
    if dtype == "float32":
        made = b.add("QUANTIZE", [made], dtype="int8", scale=0.11, zero_point=4)
    return write_model(Model("scatter", (b.model(made).main, body(*operators, carries=1))))


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("case", [ELEMENTS, ROWS, WINDOWS, WHOLE], ids=["elements", "rows", "windows", "whole"])
def test_equals_litert(case: Case, dtype: str, oracles: Callable[[str], Oracle]) -> None:
    data = scatter(case, dtype=dtype)
    model, rng = parse_model(data, "m"), np.random.default_rng(0)
    assert "STABLEHLO_SCATTER" not in {op.op for op in model.main.operators}
    x = [rng.integers(-128, 128, model.main.tensors[each].shape).astype(np.int8) for each in model.main.inputs]
    ours = execute(compile_model(model, PRESETS["n8"]).program, x).outputs[0]
    np.testing.assert_array_equal(ours, oracles("litert-ref").run(data, x)[0], strict=True)


def test_rows_move_as_a_whole() -> None:
    main = parse_model(scatter(ROWS), "m").main
    gather = next(op for op in main.operators if op.op == "GATHER")
    assert main.tensors[gather.outputs[0]].shape == (10, 4)


@pytest.mark.parametrize("data", [
    scatter(ROWS, "STABLEHLO_ADD"), scatter((*ROWS[:2], [[-1], [0], [2]], ROWS[3])), scatter(ROWS, given=True)],
    ids=["sum", "negative", "given"])
def test_other_scatters_stay(data: bytes) -> None:
    with pytest.raises(TqError, match=r"operator \d \(STABLEHLO_SCATTER\) of float32 is not computed"):
        compile_model(parse_model(data, "m"), PRESETS["n8"])


@pytest.mark.parametrize(("name", "option"), [
    ("index_vector_dim", 2), ("scatter_dims_to_operand_dims", (1, 1)), ("scatter_dims_to_operand_dims", (3,)),
    ("update_window_dims", (0, 3)), ("update_window_dims", (2, 0)), ("update_window_dims", (0,)),
    ("inserted_window_dims", ())])
def test_wrong_options_stay(name: str, option: OptionValue) -> None:
    model = parse_model(scatter(ROWS), "m", check=False)
    main = replace(model.main, operators=tuple(
        replace(op, options={**op.options, name: option}) if op.op == "STABLEHLO_SCATTER" else op
        for op in parse_model(scatter(ROWS, "STABLEHLO_ADD"), "m").main.operators))
    read = parse_model(write_model(replace(model, subgraphs=(main, body(carries=1)))), "m")
    assert "STABLEHLO_SCATTER" in [op.op for op in read.main.operators]
