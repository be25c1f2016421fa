"""State between inferences: what the program leaves in region 2 equals golden's, over a sequence."""

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.model.graph import Model, Operator, OptionValue, Subgraph, Tensor
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.model.tflite.writer import write_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run


def svdf_model(seed: int) -> Model:
    rng = np.random.default_rng(seed)
    batch, depth, units, rank, memory = (int(rng.integers(1, most)) for most in (4, 9, 20, 3, 7))
    filters = units * rank
    b = ModelBuilder("svdf")
    x = b.input((batch, depth), scale=0.05, zero_point=3)
    feature = b.constant(rng.integers(-127, 128, (filters, depth)).astype(np.int8), scale=0.01)
    time = b.constant(rng.integers(-3000, 3000, (filters, memory)).astype(np.int16), scale=0.0001)
    bias = b.constant(rng.integers(-9999999, 9999999, units).astype(np.int32), scale=1e-7)
    state = b.tensor((batch, filters * memory), "int16", scale=0.001, is_variable=True)
    return parse_model(b.build(b.add("SVDF", [x, feature, time, bias, state], scale=0.1, zero_point=-4, rank=rank,
                                     fused_activation_function="RELU")), "svdf")


def counter_model() -> Model:
    """Keep a running maximum in a variable that CALL_ONCE sets to -5."""
    b = ModelBuilder("running")
    x = b.input((2, 7), scale=0.5)
    name: dict[str, OptionValue] = {"container": "", "shared_name": "best"}
    handle = b.tensor((), "resource")
    best = b.tensor((2, 7), scale=0.5)
    largest = b.tensor((2, 7), scale=0.5)
    b.operator("CALL_ONCE", [], [], {"init_subgraph_index": 1})
    b.operator("VAR_HANDLE", [], [handle], name)
    b.operator("READ_VARIABLE", [handle], [best])
    b.operator("MAXIMUM", [best, x], [largest])
    b.operator("ASSIGN_VARIABLE", [handle, largest], [])
    main = b.model(largest).main
    first = Tensor(1, "first", "int8", (2, 7), main.tensors[x].quantization, np.full((2, 7), -5, np.int8))
    once = Subgraph("once", (Tensor(0, "handle", "resource", ()), first), (
        Operator(0, "VAR_HANDLE", (), (0,), name), Operator(1, "ASSIGN_VARIABLE", (0, 1), ())), (), ())
    return parse_model(write_model(Model("running", (main, once))), "running")


@pytest.mark.parametrize("config_name", ["n16", "n8", "tiny"])
@pytest.mark.parametrize("model", [svdf_model(0), svdf_model(1), svdf_model(2), counter_model()],
                         ids=["svdf0", "svdf1", "svdf2", "variable"])
def test_sequences_equal_golden(model: Model, config_name: str) -> None:
    program = compile_model(model, load_config(config_name)).program
    rng = np.random.default_rng(1)
    shape = model.main.tensors[model.main.inputs[0]].shape
    state, golden = None, None
    for step in range(4):
        x = rng.integers(-128, 128, shape).astype(np.int8)
        want = run(model, [x], golden)
        found = execute(program, [x], seed=step, check_races=True, state=state)
        golden, state = want.state, found.state
        np.testing.assert_array_equal(found.outputs[0], want.outputs[0])
