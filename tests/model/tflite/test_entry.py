"""Signatures: the subgraph that is run, and what it calls, are those that LiteRT's signature runner runs."""

from dataclasses import replace

import numpy as np
import pytest

from tests.model.tflite.signed import act, signed_model
from tq_hw.model.errors import ModelError, OptionError
from tq_hw.model.graph import Model, Signature
from tq_hw.model.rules.propagate import InputShapes
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.model.tflite.writer import write_model
from tq_hw.sim import golden


@pytest.fixture
def signed():
    return write_model(signed_model())


@pytest.mark.parametrize("name, ops", [
    ("plain", [["RELU"]]), ("six", [["RELU6"]]), ("", [["RELU"]]),
    ("sum", [["CALL_ONCE", "VAR_HANDLE", "READ_VARIABLE", "ADD", "ASSIGN_VARIABLE"],
             ["VAR_HANDLE", "ASSIGN_VARIABLE"]])])
def test_a_signature_runs_its_subgraph(signed, name, ops):
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    model = parse_model(signed, "m.tflite", shapes=InputShapes(signature=name))
    assert [[op.op for op in subgraph.operators] for subgraph in model.subgraphs] == ops
    interpreter = litert.Interpreter(model_content=signed,
                                     experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF)
    value = np.arange(-50, 70, 20, dtype=np.int8).reshape(1, 6)
    expected = interpreter.get_signature_runner(name or "plain")(x0=value)["y0"]
    np.testing.assert_array_equal(golden.run(model, [value]).outputs[0], expected)


def test_a_signature_that_does_not_exist(signed):
    for data, has in ((signed, "the file has 'plain', 'six', 'sum'"),
                      (write_model(Model("m", (act("RELU"),))), "the file has none")):
        with pytest.raises(OptionError) as caught:
            parse_model(data, "m.tflite", shapes=InputShapes(signature="seven"))
        assert str(caught.value) == f"m.tflite: --signature seven: there is no such signature; {has}"


def test_a_signature_of_no_subgraph():
    with pytest.raises(ModelError) as caught:
        parse_model(write_model(Model("m", (act("RELU"),), signatures=(Signature("plain", 4, {}, {}),))), "m.tflite")
    assert str(caught.value) == ("m.tflite: signature 0, subgraph_index: refers to subgraph 4; the file has 1 "
                                 "subgraphs")


def test_a_signature_of_no_tensor():
    with pytest.raises(ModelError) as caught:
        parse_model(write_model(Model("m", (act("RELU"),), signatures=(Signature("plain", 0, {"x": 9}, {}),))),
                    "m.tflite")
    assert str(caught.value) == ("m.tflite: signature input 0, tensor_index: refers to tensor 9; the subgraph has 2 "
                                 "tensors")


def test_subgraphs_that_are_not_called_keep_no_rules():
    wrong = act("RELU", dtype="int32")
    model = Model("m", (act("RELU"), wrong))
    assert len(parse_model(write_model(model), "m.tflite").subgraphs) == 1
    assert len(parse_model(write_model(model), "m.tflite", check=False).subgraphs) == 2
    swapped = replace(model, subgraphs=model.subgraphs[::-1])
    with pytest.raises(ModelError):
        parse_model(write_model(swapped), "m.tflite")


def test_a_tensor_of_no_elements_needs_no_buffer():
    """Converters write the shape of a scalar so."""
    b = ModelBuilder("m")
    x = b.input((2, 3), scale=0.5)
    shape = b.tensor((2,), "int32")
    b.operator("BROADCAST_ARGS", [b.constant([2, 3]), b.tensor((0,), "int32")], [shape])
    model = parse_model(b.build(b.add("BROADCAST_TO", [x, shape], shape=(2, 3))), "m.tflite")
    value = np.arange(6, dtype=np.int8).reshape(2, 3)
    np.testing.assert_array_equal(golden.run(model, [value]).outputs[0], value)
