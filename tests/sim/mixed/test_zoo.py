"""Typical networks that are not supported as a whole: in parts they equal the whole model in LiteRT."""

from pathlib import Path

import numpy as np
import pytest

from tq_hw.cli.shared.arrays import draw_inputs
from tq_hw.compiler.lower.legalize import legalize
from tq_hw.compiler.partition import partition
from tq_hw.isa.config import load_config
from tq_hw.isa.memory import Memory
from tq_hw.model.cut import compact
from tq_hw.model.errors import ToolError, TqError, UnsupportedError
from tq_hw.model.tflite.reader import parse_model, read_model
from tq_hw.model.tflite.writer import write_model
from tq_hw.sim.golden.profiles import check_profile
from tq_hw.sim.mixed import MixedEngine
from tq_hw.sim.oracles import Oracle

SHARED = Path(__file__).parents[4] / "shared"
MODELS = [path for folder in ("zoo", "models") for path in sorted((SHARED / folder).glob("*.tflite"))]


def is_taken(path: Path) -> bool:
    try:
        model = read_model(path).under("litert")
        check_profile(model)
        legalize(model)
    except TqError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_parts_equal_the_whole(path: Path) -> None:
    if is_taken(path):
        pytest.skip("is taken whole")
    source = read_model(path, rules=False)
    try:
        made = partition(source, load_config("n8"))
    except UnsupportedError as error:
        pytest.skip(str(error))
    sets = draw_inputs(source, 2, 0)
    with Oracle("litert-ref") as oracle:
        try:
            expected = oracle.run_sets(path, sets)
        except ToolError as error:
            pytest.skip(str(error))
    read = parse_model(write_model(compact(made.model)), "tq.tflite", rules=False)
    for model in (made.model, read):
        engine = MixedEngine(model, "executor", Memory())
        for inputs, wanted in zip(sets, expected, strict=True):
            for array, right in zip(engine.infer(inputs).outputs, wanted, strict=True):
                assert array.dtype == right.dtype
                np.testing.assert_array_equal(array, right)
