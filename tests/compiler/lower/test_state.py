"""State between inferences: over a sequence, the program leaves in region 2 the state that golden leaves."""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.graph import Model, Operator, OptionValue, Subgraph, Tensor
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.model.tflite.writer import write_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import Oracle

sys.path.insert(0, str(Path(__file__).parents[3] / "benches"))
from agreement import check_model, check_oracle


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


def _svdf(b: ModelBuilder, x: int, state: int) -> int:
    rng = np.random.default_rng(3)
    feature = b.constant(rng.integers(-127, 128, (4, 8)).astype(np.int8), scale=0.01)
    time = b.constant(rng.integers(-3000, 3000, (4, 3)).astype(np.int16), scale=0.0001)
    bias = b.constant(rng.integers(-9999999, 9999999, 4).astype(np.int32), scale=1e-7)
    return b.add("SVDF", [x, feature, time, bias, state], scale=0.05, zero_point=3, rank=1,
                 fused_activation_function="RELU")


def _lstm(b: ModelBuilder, x: int, states: tuple[int, int]) -> int:
    rng = np.random.default_rng(3)

    def matrix(size: int) -> int:
        return b.constant(rng.integers(-127, 128, (8, size)).astype(np.int8), scale=0.005)
    biases = [b.constant(rng.integers(-9999, 9999, 8).astype(np.int32), scale=0.001) for _ in range(4)]
    inputs = [x, *(matrix(5) for _ in range(4)), *(matrix(8) for _ in range(4)), -1, -1, -1, *biases, -1, -1, *states,
              -1, -1, -1, -1]
    middle = [b.tensor((0,), "int16", scale=0.001) for _ in range(4)] + [b.tensor((0,), scale=2.0**-7, zero_point=-3)]
    output = b.tensor((1, 3, 8), scale=2.0**-7, zero_point=-3)
    b.operator("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [output], {
        "fused_activation_function": "TANH", "cell_clip": 0.0, "time_major": False, "proj_clip": 0.0},
        intermediates=middle)
    return output


def _transposed_twice(b: ModelBuilder, state: int) -> int:
    once = b.add("TRANSPOSE", [state, b.constant([1, 0])])
    return b.add("TRANSPOSE", [b.add("RESHAPE", [once, b.constant([4, 3])], shape=(4, 3)), b.constant([1, 0])])


def _function(b: ModelBuilder, state: int) -> int:
    return b.add("NEG", [b.add("DEQUANTIZE", [state])])


#: Operators that read a state of [1, 12] before its owner changes it, and operators on their results afterwards.
READS: dict[str, tuple[Callable[[ModelBuilder, int], int], Callable[[ModelBuilder, int], int]]] = {
    "view": (lambda b, s: b.add("RESHAPE", [s, b.constant([12])], shape=(12,)), lambda b, y: y),
    "part": (lambda b, s: b.add("SLICE", [s, b.constant([0, 2]), b.constant([1, 5])]), lambda b, y: y),
    "view, scaled": (lambda b, s: b.add("RESHAPE", [s, b.constant([12])], shape=(12,)),
                     lambda b, y: b.add("QUANTIZE", [y], scale=0.03, zero_point=4)),
    "joined transposes": (_transposed_twice, lambda b, y: y),
    "float island": (_function, lambda b, y: b.add("QUANTIZE", [y], scale=0.03, zero_point=4)),
    "float output": (lambda b, s: b.add("DEQUANTIZE", [s]), lambda b, y: y)}


def read_model(name: str, after: bool) -> Model:
    before, last = READS[name]
    b = ModelBuilder(name)
    x = b.input((1, 8), scale=0.05)
    state = b.tensor((1, 12), "int16", scale=0.001, is_variable=True)
    first = [] if after else [before(b, state)]
    made = _svdf(b, x, state)
    return parse_model(b.build(made, last(b, (first or [before(b, state)])[0])), name)


def hidden_model() -> Model:
    """Views and codes of both states of an LSTM, before and after it."""
    b = ModelBuilder("hidden")
    x = b.input((1, 3, 5), scale=0.05, zero_point=2)
    states = (b.tensor((1, 8), scale=2.0**-7, zero_point=-3, is_variable=True),
              b.tensor((1, 8), "int16", scale=2.0**-11, is_variable=True))
    before = b.add("RELU", [states[0]], scale=2.0**-7, zero_point=-3)
    cell = b.add("RESHAPE", [states[1], b.constant([2, 4])], shape=(2, 4))
    made = _lstm(b, x, states)
    return parse_model(b.build(made, b.add("ADD", [before, states[0]], scale=2.0**-6), cell, states[0]), "hidden")


@pytest.mark.parametrize("model", [hidden_model(), *(read_model(name, after) for name in READS
                                                     for after in (False, True))],
                         ids=lambda model: model.name)
def test_others_read_a_state_as_it_is_there(model: Model, oracles: Callable[[str], Oracle]) -> None:
    check_model(model, load_config("n16"), sets=3, trials=False)
    for engine in ("litert-ref", "tflm"):
        check_oracle(model, 1, oracles(engine), sets=3)


def test_an_lstm_of_which_only_the_states_are_read() -> None:
    b = ModelBuilder("states")
    x = b.input((1, 3, 5), scale=0.05, zero_point=2)
    states = (b.tensor((1, 8), scale=2.0**-7, zero_point=-3, is_variable=True),
              b.tensor((1, 8), "int16", scale=2.0**-11, is_variable=True))
    before = b.add("RESHAPE", [states[1], b.constant([2, 4])], shape=(2, 4))
    _lstm(b, x, states)
    for outputs in ([states[0]], [before], [b.add("QUANTIZE", [states[1]], scale=0.02)]):
        check_model(parse_model(b.build(*outputs), "states"), load_config("n16"), sets=3, trials=False)


def test_a_state_that_the_caller_gives_is_refused() -> None:
    b = ModelBuilder("given")
    x = b.input((1, 8), scale=0.05)
    state = b.tensor((1, 12), "int16", scale=0.001, is_variable=True)
    b.inputs.append(state)
    model = parse_model(b.build(_svdf(b, x, state)), "given")
    given = [np.ones((1, 8), np.int8), np.ones((1, 12), np.int16)]
    run(model, given)
    assert (given[1] == 1).all()
    with pytest.raises(UnsupportedError, match="is a variable, which stays in the accelerator"):
        compile_model(model, load_config("n16"))


def test_first_contents_come_before_all_uses() -> None:
    model = counter_model()
    operators = model.main.operators
    late = replace(model.main, operators=tuple(replace(op, index=at) for at, op in enumerate(
        (*operators[1:], operators[0]))))
    with pytest.raises(UnsupportedError, match="CALL_ONCE must come before"):
        compile_model(replace(model, subgraphs=(late, *model.subgraphs[1:])), load_config("n16"))
