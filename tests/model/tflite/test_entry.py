"""Signatures: the subgraph that is run, and what it calls, are those that LiteRT's signature runner runs."""

from dataclasses import replace

import numpy as np
import pytest

from tq_hw.model.errors import ModelError, OptionError
from tq_hw.model.graph import Model
from tq_hw.model.rules.propagate import InputShapes
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.model.tflite.writer import _Writer
from tq_hw.sim import golden


class SignedWriter(_Writer):
    """Writes signatures too: name, subgraph."""

    def __init__(self, model, signatures):
        super().__init__(model)
        self.signatures = signatures

    def _maps(self, subgraph, indices, letter):
        return self._offsets([self._table([(0, None, self.builder.CreateString(f"{letter}{number}")),
                                           (1, "Uint32", index)]) for number, index in enumerate(indices)])

    def _signature(self, name, number):
        subgraph = self.model.subgraphs[min(number, len(self.model.subgraphs) - 1)]
        return self._table([
            (0, None, self._maps(subgraph, subgraph.inputs, "x")),
            (1, None, self._maps(subgraph, subgraph.outputs, "y")),
            (2, None, self.builder.CreateString(name)), (4, "Uint32", number)])

    def _table(self, fields):
        if (0, "Uint32", 3) in fields:
            signed = self._offsets([self._signature(*each) for each in self.signatures])
            return super()._table([*fields, (7, None, signed)])
        return super()._table(fields)


def act(op, scale=0.1, dtype="int8"):
    b = ModelBuilder("m")
    image = b.input((1, 6), scale=scale, dtype=dtype)
    return b.model(b.add(op, [image], scale=scale)).main


def stateful():
    """Adds to a variable that a second subgraph of its own initializes."""
    b = ModelBuilder("m")
    image = b.input((1, 6), scale=0.1)
    options = {"container": "", "shared_name": "v"}
    b.operator("CALL_ONCE", [], [], {"init_subgraph_index": 3})
    handle = b.add("VAR_HANDLE", [], shape=(), options=options)
    read = b.add("READ_VARIABLE", [handle], shape=(1, 6), dtype="int8", scale=0.1)
    total = b.add("ADD", [image, read], scale=0.1)
    b.operator("ASSIGN_VARIABLE", [handle, total], [])
    first = ModelBuilder("m")
    handle = first.add("VAR_HANDLE", [], shape=(), options=options)
    first.operator("ASSIGN_VARIABLE", [handle, first.constant(np.full((1, 6), 7, np.int8), scale=[0.1])], [])
    return b.model(total).main, first.model().main


@pytest.fixture
def signed():
    model = Model("m", (act("RELU"), act("RELU6"), *stateful()))
    return SignedWriter(model, [("plain", 0), ("six", 1), ("sum", 2)]).write()


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
                      (_Writer(Model("m", (act("RELU"),))).write(), "the file has none")):
        with pytest.raises(OptionError) as caught:
            parse_model(data, "m.tflite", shapes=InputShapes(signature="seven"))
        assert str(caught.value) == f"m.tflite: --signature seven: there is no such signature; {has}"


def test_a_signature_of_no_subgraph():
    with pytest.raises(ModelError) as caught:
        parse_model(SignedWriter(Model("m", (act("RELU"),)), [("plain", 4)]).write(), "m.tflite")
    assert str(caught.value) == ("m.tflite: signature 0, subgraph_index: refers to subgraph 4; the file has 1 "
                                 "subgraphs")


def test_subgraphs_that_are_not_called_keep_no_rules():
    wrong = act("RELU", dtype="int16")
    model = Model("m", (act("RELU"), wrong))
    assert len(parse_model(SignedWriter(model, []).write(), "m.tflite").subgraphs) == 1
    assert len(parse_model(SignedWriter(model, []).write(), "m.tflite", check=False).subgraphs) == 2
    swapped = replace(model, subgraphs=model.subgraphs[::-1])
    with pytest.raises(ModelError):
        parse_model(SignedWriter(swapped, []).write(), "m.tflite")
