"""Rules for operators with state: SVDF, LSTM, variables."""

import dataclasses

import numpy as np
import pytest

from tests.model.rules.refusals import edit_operator, edit_tensor, message_of, options
from tq_hw.model.errors import ModelError, UnsupportedError
from tq_hw.model.graph import Model, Quantization
from tq_hw.model.rules.check import check_model
from tq_hw.model.samples.build import ModelBuilder


def svdf(state_type="int16", is_variable=True):
    builder = ModelBuilder("m")
    inputs = [builder.input((1, 3), scale=0.5),
              builder.constant(np.ones((4, 3), np.int8), scale=0.1, name="feature"),
              builder.constant(np.ones((4, 2), state_type), scale=0.01, name="time"),
              builder.constant([1] * 4, scale=0.002, name="bias"),
              builder.tensor((1, 8), state_type, scale=0.2, name="state", is_variable=is_variable)]
    return builder.model(builder.add("SVDF", inputs, scale=0.3, rank=1, fused_activation_function="RELU"))


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_accepts_an_svdf(dtype):
    check_model(svdf(dtype))


def test_an_svdf_obeys_the_rules():
    assert message_of(svdf(is_variable=False)) == (
        "Make state inputs variables. Found tensor 4 'state', which is not one.")
    assert message_of(options(svdf(), rank=3)) == (
        "rank 3, input [1, 3], feature weights [4, 3], time weights [4, 2] do not match")
    assert message_of(options(svdf(), fused_activation_function="NONE")) == (
        "Fuse RELU: an int8 SVDF has no other activation. Found NONE.")
    assert message_of(edit_tensor(svdf(), 1, quantization=Quantization((0.1,) * 4, (0,) * 4))) == (
        "Give weights one scale: the kernel has no per-channel scales. Found 4 scales for tensor 1 'feature'.")
    check_model(edit_tensor(svdf(), 3, quantization=Quantization((0.05,), (0,))))
    assert message_of(edit_tensor(svdf(), 4, shape=(1, 6))) == "state has shape [1, 6], expected 1 x 8"


def lstm(cell_scale=2.0**-12, skip=(), hidden=0.01, extra=None):
    builder = ModelBuilder("m")
    inputs = [builder.input((1, 4, 3), scale=0.5)]
    inputs += [builder.constant(np.ones((2, 3 if gate < 4 else 2), np.int8), scale=0.1) for gate in range(8)]
    inputs += [-1] * 3 + [builder.constant([1, 2], scale=0.05) for _ in range(4)] + [-1] * 2
    inputs += [builder.tensor((1, 2), scale=0.01, name="state", is_variable=True),
               builder.tensor((1, 2), "int16", scale=cell_scale, name="cell", is_variable=True)]
    inputs += [-1] * 4
    for position in skip:
        inputs[position] = -1
    if extra is not None:
        inputs[extra] = builder.constant(np.ones(2, np.int16), scale=0.1)
    gates = [builder.tensor((0,), "int16", scale=2.0**-12) for _ in range(4)]
    gates.append(builder.tensor((0,), scale=hidden, name="hidden"))
    output = builder.add("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, scale=0.01, fused_activation_function="TANH")
    operator = dataclasses.replace(builder.operators[0], intermediates=tuple(gates))
    return Model("m", (dataclasses.replace(builder.model(output).main, operators=(operator,)),))


def test_accepts_an_lstm():
    check_model(lstm())


@pytest.mark.parametrize("model, error, message", [
    (lstm(cell_scale=0.001), ModelError, "Give the cell state zero point 0 and a scale that is a power of two, 2^-9 or "
     "less. Found scale 0.00100000005 for tensor 14 'cell'."),
    (lstm(cell_scale=2.0**-8), ModelError, "Give the cell state zero point 0 and a scale that is a power of two, 2^-9 "
     "or less. Found scale 0.00390625 for tensor 14 'cell'."),
    (lstm(hidden=0.02), ModelError, "Use the same scale and zero point for the output, the output state and the fifth "
     "intermediate tensor. Found different values for tensor 13 'state' and tensor 19 'hidden'."),
    (lstm(skip=(1, 5, 12)), UnsupportedError, "Use an LSTM without peepholes, projection, layer normalization and "
     "coupled gates. Found no weights of the input gate (coupled gates)."),
    (lstm(extra=10), UnsupportedError, "Use an LSTM without peepholes, projection, layer normalization and coupled "
     "gates. Found peephole weights."),
    (lstm(extra=21), UnsupportedError, "Use an LSTM without peepholes, projection, layer normalization and coupled "
     "gates. Found layer normalization."),
    (options(lstm(), fused_activation_function="RELU"), ModelError, "Fuse TANH: an int8 LSTM has no other activation. "
     "Found RELU."),
    (edit_tensor(lstm(), 13, is_variable=False), ModelError, "Make state inputs variables. Found tensor 13 'state', "
     "which is not one."),
    (edit_operator(lstm(), intermediates=()), ModelError, "Use the same scale and zero point for the output, the "
     "output state and the fifth intermediate tensor. Found 0 intermediate tensors, expected 5."),
    (edit_tensor(lstm(), 7, shape=(2, 3)), ModelError, "input 7 has shape [2, 3], expected [2, 2]"),
    (edit_tensor(lstm(), 14, shape=(1, 3)), ModelError, "cell state has shape [1, 3], expected [1, 2]"),
])
def test_an_lstm_obeys_the_rules(model, error, message):
    assert message_of(model, error) == message


def variable_model(assigned=(1, 4), name="v", source=None):
    """Subgraph 0 reads the variable `v`; subgraph 1 assigns the variable `name`."""
    builder = ModelBuilder("m")
    handle = builder.add("VAR_HANDLE", [], dtype="resource", shape=(), shared_name="v")
    image = builder.input((), "resource")
    model = builder.model(builder.add("READ_VARIABLE", [handle if source is None else image], dtype="int8",
                                      shape=(1, 4), scale=0.5))
    other = ModelBuilder("m")
    target = other.add("VAR_HANDLE", [], dtype="resource", shape=(), shared_name=name)
    other.operator("ASSIGN_VARIABLE", [target, other.constant(np.zeros(assigned, np.int8), scale=0.5)], [])
    return Model("m", (model.main, other.model().main))


def test_variables_agree_across_subgraphs():
    check_model(variable_model())
    for model, message in (
            (variable_model((1, 5)), "variable '/v' is int8 [1, 4] here and int8 [1, 5] elsewhere"),
            (variable_model(name="w"), "variable '/v' is read, but never assigned"),
            (variable_model(source="input"), "input 0 must come from a VAR_HANDLE of the same subgraph")):
        with pytest.raises(ModelError) as caught:
            check_model(model, "m.tflite")
        assert str(caught.value) == f"m.tflite: subgraph 0, operator 1 READ_VARIABLE: {message}"
