"""Random graphs, compiled, on the executor equal golden, with the race checker on."""

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.model.samples.graphs import graph
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run


def _check(seed: int, config_name: str) -> None:
    model, rng = graph(seed), np.random.default_rng(seed)
    inputs = [rng.integers(-128, 128, model.main.tensors[index].shape).astype(np.int8) for index in model.main.inputs]
    found = execute(compile_model(model, load_config(config_name)).program, inputs, seed=seed, check_races=True).outputs
    for got, want in zip(found, run(model, inputs).outputs, strict=True):
        np.testing.assert_array_equal(got, want, strict=True)


@pytest.mark.parametrize("config_name", ["n16", "tiny"])
@pytest.mark.parametrize("seed", range(12))
def test_equals_golden(seed: int, config_name: str) -> None:
    _check(seed, config_name)


@pytest.mark.slow
@pytest.mark.parametrize("config_name", ["n16", "n8", "n9x8", "tiny"])
@pytest.mark.parametrize("seed", range(12, 150))
def test_equals_golden_in_a_sweep(seed: int, config_name: str) -> None:
    _check(seed, config_name)


def test_graphs_have_branches_and_several_outputs() -> None:
    models = [graph(seed).main for seed in range(40)]
    assert any(len(model.outputs) > 1 for model in models)
    assert any(sum(index in op.inputs for op in model.operators) > 1 for model in models
               for operator in model.operators for index in operator.outputs)
    assert len({operator.op for model in models for operator in model.operators}) > 30
