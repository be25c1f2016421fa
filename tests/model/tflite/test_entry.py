"""Signatures: the subgraphs that are run are those that LiteRT's signature runner runs, with all that they call."""

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


def test_subgraphs_that_are_not_called_need_not_obey_rules():
    wrong = act("RELU", dtype="int32")
    model = Model("m", (act("RELU"), wrong))
    assert len(parse_model(write_model(model), "m.tflite").subgraphs) == 1
    assert len(parse_model(write_model(model), "m.tflite", check=False).subgraphs) == 2
    swapped = replace(model, subgraphs=model.subgraphs[::-1])
    with pytest.raises(ModelError):
        parse_model(write_model(swapped), "m.tflite")


def test_a_tensor_of_no_elements_needs_no_buffer():
    """Converters write the shape of a scalar like this."""
    b = ModelBuilder("m")
    x = b.input((2, 3), scale=0.5)
    shape = b.tensor((2,), "int32")
    b.operator("BROADCAST_ARGS", [b.constant([2, 3]), b.tensor((0,), "int32")], [shape])
    model = parse_model(b.build(b.add("BROADCAST_TO", [x, shape], shape=(2, 3))), "m.tflite")
    value = np.arange(6, dtype=np.int8).reshape(2, 3)
    np.testing.assert_array_equal(golden.run(model, [value]).outputs[0], value)


def calling(*calls):
    """Subgraph n has an IF that calls a given pair of others, or no call for None."""
    subgraphs = []
    for number, pair in enumerate(calls):
        b = ModelBuilder(str(number))
        chosen, x = b.input((), "bool"), b.input((1, 6), scale=0.1)
        made = b.add("RELU" if number % 2 else "LOGISTIC", [x], scale=0.1, zero_point=0) if pair is None else b.tensor(
            (1, 6), scale=0.1)
        if pair is not None:
            b.operator("IF", [chosen, chosen, x], [made], dict(zip(("then_subgraph_index", "else_subgraph_index"), pair,
                                                                  strict=True)))
        subgraphs.append(replace(b.model(made).main, name=str(number)))
    return Model("m", tuple(subgraphs), signatures=(Signature("late", len(calls) - 1, {}, {}),))


def test_a_called_subgraph_may_come_first():
    """As TensorFlow numbers an IF in the condition of a WHILE."""
    model = calling((3, 3), None, None, (2, 1))
    data = write_model(model)
    assert [each.name for each in parse_model(data, "m.tflite", check=False).subgraphs] == ["0", "1", "2", "3"]
    late = parse_model(data, "m.tflite", check=False, shapes=InputShapes(signature="late"))
    assert [each.name for each in late.subgraphs] == ["3", "1", "2"]
    assert late.main.operators[0].options == {"then_subgraph_index": 2, "else_subgraph_index": 1}
    assert [(each.name, each.subgraph) for each in late.signatures] == [("late", 0)]


def test_a_long_chain_of_calls_is_followed_once():
    count = 4000
    data = write_model(calling(*((n + 1, n + 1) for n in range(count)), None))
    assert len(parse_model(data, "m.tflite", check=False).subgraphs) == count + 1


@pytest.mark.parametrize("calls, where, callee", [
    ([(1, 1), (2, 2), (1, 1)], "subgraph 1, operator 0 IF, then_subgraph_index: subgraph 1", 2),
    ([(1, 1), None, (0, 1)], None, None),
    ([(1, 2), None, (1, 0)], "subgraph 0, operator 0 IF, else_subgraph_index: subgraph 0", 2),
])
def test_no_subgraph_calls_itself(calls, where, callee):
    data = write_model(calling(*calls))
    if where is None:
        parse_model(data, "m.tflite", check=False)
        return
    with pytest.raises(ModelError) as caught:
        parse_model(data, "m.tflite", check=False)
    caller = where.rpartition(" ")[2]
    assert str(caught.value) == (f"m.tflite: {where} calls subgraph {callee}, which is or calls subgraph {caller}: "
                                 "recursion is not supported")
