"""Rows of a table at indices from an input: any number of them, with scratchpads of any size."""

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import Config, load_config
from tq_hw.isa.layout import Unit
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run

SMALL = Config("small", 4, 4, 2, 4 << 10)


@pytest.mark.parametrize("config", [load_config("n16"), load_config("n8"), load_config("tiny"), SMALL],
                         ids=lambda config: config.name)
@pytest.mark.parametrize(("rows", "count"), [(100, 9), (5, 1), (33, 17)])
def test_look_up(rows: int, count: int, config: Config) -> None:
    rng, b = np.random.default_rng(rows), ModelBuilder("gather")
    table = b.constant(rng.integers(-128, 128, (rows, 12)).astype(np.int8), scale=0.02)
    indices = b.input((1, count), "int32")
    model = parse_model(b.build(b.add("GATHER", [table, indices], axis=0, batch_dims=0)), "gather")
    compiled = compile_model(model, config)
    inputs = [rng.integers(0, rows, (1, count)).astype(np.int32)]
    found = execute(compiled.program, inputs, seed=2, check_races=True).outputs[0]
    np.testing.assert_array_equal(found, run(model, inputs).outputs[0], strict=True)
    if config.name == "n16":  # all indices are in one load
        hot = [operation for operation in compiled.emitter.stream.by_unit[Unit.LOAD]
               if operation.layer == 0 and operation.fields["region"]]
        assert [operation.fields["count2"] for operation in hot] == [count]
