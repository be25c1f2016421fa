"""Compile a model, run its commands, and compare every output with the golden model's."""

import numpy as np

from tq_hw.compiler import compile_model
from tq_hw.compiler.compile import Compiled
from tq_hw.isa.config import Config, load_config
from tq_hw.model.graph import Model
from tq_hw.sim.engines import random_inputs
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run

__all__ = ["compared"]


def compared(model: Model, config: Config | str) -> Compiled:
    """Return the compiled model; raise AssertionError if an output on random inputs differs."""
    compiled = compile_model(model, load_config(config) if isinstance(config, str) else config)
    inputs = random_inputs(model)
    found, wanted = execute(compiled.program, inputs, seed=1, check_races=True).outputs, run(model, inputs).outputs
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other, strict=True)
    return compiled
