"""Compiled networks shared by the tests of link and driver."""

from collections.abc import Sequence

import numpy as np

from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.isa.program import Program
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim import edges

__all__ = ["compiled", "stateful_program", "stored"]


def compiled(data: bytes, name: str) -> Program:
    """Return a model compiled for `tiny`."""
    return compile_model(parse_model(data, name), load_config("tiny")).program


def stateful_program() -> Program:
    """Return an SVDF, whose outputs depend on previous inputs."""
    rng = np.random.default_rng(8)
    b = ModelBuilder("svdf")
    x = b.input((1, 8), scale=0.05, zero_point=3)
    feature = b.constant(rng.integers(-127, 128, (8, 8)).astype(np.int8), scale=0.01)
    weights = b.constant(rng.integers(-3000, 3000, (8, 4)).astype(np.int16), scale=0.0001)
    bias = b.constant(rng.integers(-9999, 9999, 8).astype(np.int32), scale=1e-7)
    state = b.tensor((1, 32), "int16", scale=0.001, is_variable=True)
    return compiled(b.build(b.add("SVDF", [x, feature, weights, bias, state], scale=0.1, zero_point=-4, rank=1,
                                  fused_activation_function="RELU")), "svdf")


def stored(program: Program, inputs: Sequence[np.ndarray]) -> list[bytes]:
    """Return the bytes of the inputs as stored in memory."""
    return [edges.to_port(port, array) for port, array in zip(program.inputs, inputs, strict=True)]
