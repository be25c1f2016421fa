"""Running a model: inputs, state, errors, and the explanation of one element."""

import numpy as np
import pytest

from tq_hw.model.errors import ModelError, OptionError, UnsupportedError
from tq_hw.model.graph import Model, Operator, OptionValue, Subgraph, Tensor
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.golden import State, accumulators, explain, run
from tq_hw.sim.golden.kernels import KERNELS
from tq_hw.sim.golden.registry import kernel

ZEROS = np.zeros((1, 4, 4, 2), np.int8)


def small() -> Model:
    b = ModelBuilder("small")
    x = b.input((1, 4, 4, 2), scale=0.5, zero_point=-3)
    w = b.constant(np.arange(-8, 8).reshape(2, 2, 2, 2).astype(np.int8), scale=[0.1, 0.2])
    y = b.add("CONV_2D", [x, w, b.bias(x, w, [5, -7])], scale=1.5, zero_point=4, padding="SAME",
              fused_activation_function="RELU")
    return parse_model(b.build(y), "small.tflite")


def resources() -> Model:
    """Build a counter: a resource variable, set once by subgraph 1, is added to the input."""
    b = ModelBuilder()
    b.input((2,), scale=1.0)
    b.tensor((), "resource")
    b.tensor((2,), scale=1.0)
    b.tensor((2,), scale=1.0)
    main = Subgraph("main", tuple(b.tensors), (
        Operator(0, "CALL_ONCE", (), (), {"init_subgraph_index": 1}),
        Operator(1, "VAR_HANDLE", (), (1,), {"container": "", "shared_name": "count"}),
        Operator(2, "READ_VARIABLE", (1,), (2,)),
        Operator(3, "ADD", (0, 2), (3,), {"fused_activation_function": "NONE"}),
        Operator(4, "ASSIGN_VARIABLE", (1, 3), ())), (0,), (3,))
    c = ModelBuilder()
    c.tensor((), "resource")
    c.constant(np.array([10, 20], np.int8), scale=1.0)
    start = Subgraph("start", tuple(c.tensors), (
        Operator(0, "VAR_HANDLE", (), (0,), {"container": "", "shared_name": "count"}),
        Operator(1, "ASSIGN_VARIABLE", (0, 1), ())), (), ())
    return Model("counter", (main, start))


def test_keeps_every_tensor_when_asked() -> None:
    model = small()
    assert run(model, [ZEROS]).tensors == {}
    kept = run(model, [ZEROS], keep=True)
    assert sorted(kept.tensors) == [tensor.index for tensor in model.main.tensors]
    assert (kept.tensors[model.main.outputs[0]] == kept.outputs[0]).all()


def test_resource_variables_live_in_the_state() -> None:
    model, one = resources(), np.ones(2, np.int8)
    first = run(model, [one])
    second = run(model, [one], first.state)
    assert first.outputs[0].tolist() == [11, 21] and second.outputs[0].tolist() == [12, 22]
    # The state that was passed in does not change.
    assert run(model, [one], first.state).outputs[0].tolist() == [12, 22]


def test_a_resource_variable_must_be_assigned_first() -> None:
    model = resources()
    main = Subgraph("main", model.main.tensors, model.main.operators[1:], (0,), (3,))
    with pytest.raises(ModelError, match=r"^operator 2 \(READ_VARIABLE\): resource variable '/count' is read before"):
        run(Model("counter", (main,)), [np.ones(2, np.int8)])


def test_variable_tensors_start_at_their_zero_point() -> None:
    b = ModelBuilder()
    b.tensor((2, 3), scale=0.5, zero_point=-9, is_variable=True)
    b.tensor((2,), "int16", scale=0.5, is_variable=True)
    model = b.model()
    state = State()
    assert state.variable(model, 0, 0).tolist() == [[-9] * 3] * 2
    assert state.variable(model, 0, 1).tolist() == [0, 0]


def test_wrong_count_of_inputs() -> None:
    with pytest.raises(OptionError, match="^small: expected 1 inputs, found 0$"):
        run(small(), [])


def test_wrong_shape_of_input() -> None:
    with pytest.raises(OptionError, match=r"^small: input 0 \('t0'\) must be int8\[1, 4, 4, 2\], found "
                                          r"float64\[1, 4, 4\]$"):
        run(small(), [np.zeros((1, 4, 4))])


def single(op: str, *tensors: Tensor, outputs: tuple[int, ...] = (1,), **options: OptionValue) -> Model:
    """Build a model of one operator that maps tensor 0 to the rest."""
    operator = Operator(0, op, (0,), outputs, options)
    return Model("single", (Subgraph("main", tensors, (operator,), (0,), outputs),))


def test_unknown_operator_is_named() -> None:
    model = single("WHERE", Tensor(0, "x", "int8", (2,)), Tensor(1, "y", "int8", (2,)))
    with pytest.raises(UnsupportedError, match=r"^operator 0 \(WHERE\): the golden model has no kernel"):
        run(model, [np.zeros(2, np.int8)])


def test_declared_shape_must_be_the_computed_one() -> None:
    model = single("SHAPE", Tensor(0, "x", "int8", (2, 3)), Tensor(1, "y", "int32", (5,)))
    with pytest.raises(ModelError, match=r"^operator 0 \(SHAPE\): output tensor 1 \('y'\) is declared int32\[5\], "
                                         r"computed int32\[2\]$"):
        run(model, [np.zeros((2, 3), np.int8)])


def test_kernels_are_registered_once() -> None:
    assert len(KERNELS) > 60
    with pytest.raises(ValueError, match="kernel ADD must be registered once"):
        kernel("ADD")(KERNELS["ADD"])


def test_explanation_follows_one_element_through_the_stages() -> None:
    model = small()
    x = np.random.default_rng(0).integers(-128, 128, (1, 4, 4, 2)).astype(np.int8)
    kept = run(model, [x], keep=True)
    acc, p = accumulators(model, kept.tensors, 0)
    weights, bias = model.main.tensors[1].data, model.main.tensors[2].data
    assert weights is not None and bias is not None
    row, col, channel = 1, 2, 1
    window = x[0, row:row + 2, col:col + 2].astype(int) + 3
    expected = int((window * weights[channel]).sum()) + int(bias[channel])
    element = int(np.ravel_multi_index((0, row, col, channel), acc.shape))
    stages = explain(model, kept.tensors, 0, element)
    assert stages["accumulator"] == expected == acc[0, row, col, channel]
    assert stages["after_clamp"] == kept.outputs[0][0, row, col, channel]
    assert stages["after_clamp"] == min(max(stages["after_shift"] + 4, p.act_min), p.act_max)
    assert list(stages) == ["accumulator", "after_multiply", "after_shift", "after_clamp"]


def test_explanation_needs_an_element_that_exists() -> None:
    model = small()
    kept = run(model, [ZEROS], keep=True)
    with pytest.raises(OptionError, match=r"element must be in 0\.\.31, not 32"):
        explain(model, kept.tensors, 0, 32)


def test_explanation_is_for_multiply_accumulate_operators() -> None:
    model = single("SHAPE", Tensor(0, "x", "int8", (2, 3)), Tensor(1, "y", "int32", (2,)))
    with pytest.raises(UnsupportedError, match=r"^operator 0 \(SHAPE\): only CONV_2D, .* have accumulators$"):
        explain(model, {0: np.zeros((2, 3), np.int8)}, 0, 0)
