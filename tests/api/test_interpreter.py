"""`tq_hw.Interpreter` and LiteRT's interpreter run the same script with the same results."""

import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tq_hw
from tests.model.tflite.signed import signed_model, stateful
from tests.sim.mixed.networks import NETWORKS, parts_of, topk_head
from tq_hw.model.cut import compact
from tq_hw.model.errors import ModelError, OptionError, UnsupportedError
from tq_hw.model.graph import Model, Signature
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.samples.open_shapes import left_open, open_network
from tq_hw.model.samples.typical import typical
from tq_hw.model.tflite.writer import write_model

litert = pytest.importorskip("ai_edge_litert.interpreter", reason="the oracles are not installed")
MODELS = {**{name: lambda name=name: write_model(NETWORKS[name]()) for name in NETWORKS},
          "state": lambda: write_model(typical("SVDF"))}


def reference(data):
    return litert.Interpreter(model_content=data, experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF)


def script(interpreter, count, shape=None):
    """A typical user's script; returns details and the outputs of each inference."""
    if shape is not None:
        interpreter.resize_tensor_input(interpreter.get_input_details()[0]["index"], shape)
    interpreter.allocate_tensors()
    found = []
    for number in range(count):
        rng = np.random.default_rng(number)
        for detail in interpreter.get_input_details():
            value = rng.integers(-128, 128, detail["shape"]).astype(detail["dtype"])
            interpreter.set_tensor(detail["index"], value)
        interpreter.invoke()
        found.append([interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()])
    return interpreter.get_input_details() + interpreter.get_output_details(), found


def check_same(one, other):
    details, outputs = one
    expected_details, expected = other
    for found, wanted in zip(details, expected_details, strict=True):
        assert found.keys() == wanted.keys()
        for key in found:
            np.testing.assert_equal(found[key], wanted[key])
    for found, wanted in zip(outputs, expected, strict=True):
        for array, right in zip(found, wanted, strict=True):
            assert array.dtype == right.dtype
            np.testing.assert_array_equal(array, right)


@pytest.mark.parametrize("name", MODELS)
def test_runs_what_litert_runs(name):
    """Variables persist between inferences in both interpreters."""
    data = MODELS[name]()
    check_same(script(tq_hw.Interpreter(model_content=data, config="tiny"), 3), script(reference(data), 3))


def test_the_rtl():
    data = write_model(topk_head())
    check_same(script(tq_hw.Interpreter(model_content=data, config="tiny", device="rtl"), 2),
               script(reference(data), 2))


def test_inputs_are_resized():
    data = write_model(left_open(lambda batch: open_network(3, batch)))
    shape = (2, *open_network(3, 2).main.tensors[0].shape[1:])
    check_same(script(tq_hw.Interpreter(model_content=data, config="n8"), 1, shape), script(reference(data), 1, shape))


def test_details_have_the_new_shape_at_once():
    """Scripts shape an input by the details before they call allocate_tensors."""
    data = write_model(left_open(lambda batch: open_network(3, batch)))
    for interpreter in (tq_hw.Interpreter(model_content=data, config="n8"), reference(data)):
        entry = interpreter.get_input_details()[0]
        interpreter.resize_tensor_input(entry["index"], (3, *entry["shape"][1:]))
        assert interpreter.get_input_details()[0]["shape"][0] == 3


def test_subgraphs_and_constants():
    """Details of each subgraph, and the constants of the first one."""
    data = write_model(signed_model())
    one, other = tq_hw.Interpreter(model_content=data, config="tiny"), reference(data)
    assert one.num_subgraphs() == other.num_subgraphs() == 4
    for number in range(4):
        np.testing.assert_equal(one.get_tensor_details(number), other.get_tensor_details(number))
    for interpreter in (one, other):
        with pytest.raises(ValueError) as caught:
            interpreter.get_tensor_details(4)
        assert str(caught.value) == "subgraph_index is out of range: 4 for the model, which has 4 subgraphs."
    with pytest.raises(ValueError) as caught:
        one.get_tensor(0, 1)
    assert str(caught.value) == "tensors of subgraph 1 cannot be looked at"
    model = topk_head()
    data = write_model(model)
    one, other = tq_hw.Interpreter(model_content=data, config="tiny"), reference(data)
    constants = [tensor.index for tensor in model.main.tensors if tensor.data is not None]
    one.allocate_tensors()
    other.allocate_tensors()
    assert constants
    for index in constants:
        np.testing.assert_equal(one.get_tensor(index), other.get_tensor(index, 0))


def test_arguments_of_litert():
    """Arguments without effect are accepted, also by position; others are refused as by LiteRT, or with one line."""
    data = write_model(topk_head())
    for given in ((None, data, None, 2), (None, data, [])):
        for kind in (tq_hw.Interpreter, litert.Interpreter):
            kind(*given, experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF,
                 experimental_preserve_all_tensors=False, experimental_disable_delegate_clustering=True)
    for number, message in ((0, "num_threads should >= 1"), (2.0, "type of num_threads should be int")):
        for kind in (tq_hw.Interpreter, litert.Interpreter):
            with pytest.raises(ValueError) as caught:
                kind(model_content=data, num_threads=number)
            assert str(caught.value) == message
    for options, error, message in (
            ({"experimental_delegates": [object()]}, ValueError, "experimental_delegates are LiteRT's only: device "
             "says what runs the model"),
            ({"experimental_preserve_all_tensors": True}, ValueError, "experimental_preserve_all_tensors: tensors "
             "other than inputs, outputs and constants cannot be looked at"),
            ({"boards": "n"}, TypeError, "Interpreter.__init__() got an unexpected keyword argument 'boards'")):
        with pytest.raises(error) as caught:
            tq_hw.Interpreter(model_content=data, **options)
        assert str(caught.value) == message
    with pytest.raises(TypeError):
        tq_hw.Interpreter(model_content=5)
    for kind in (tq_hw.Interpreter, litert.Interpreter):
        with pytest.raises(ValueError):
            kind(model_content=b"no model at all")
    with pytest.raises(ModelError, match="not a TFLite model"):
        tq_hw.Interpreter(model_content=b"no model at all")


def test_names_of_files_in_bytes(tmp_path: Path):
    path = os.fsencode(tmp_path) + b"/m\xff.tflite"
    Path(os.fsdecode(path)).write_bytes(write_model(topk_head()))
    tq_hw.Interpreter(path, config="tiny").allocate_tensors()
    with pytest.raises(ValueError, match="No such file"):
        tq_hw.Interpreter(path + b"x")


def test_a_compiled_model_is_not_compiled_again(tmp_path: Path):
    data = write_model(topk_head())
    made, _ = parts_of(data)
    (tmp_path / "tq.tflite").write_bytes(write_model(compact(made.model)))
    _, found = script(tq_hw.Interpreter(tmp_path / "tq.tflite"), 1)
    _, wanted = script(reference(data), 1)
    np.testing.assert_array_equal(found[0][0], wanted[0][0])
    np.testing.assert_array_equal(found[0][1], wanted[0][1])
    with pytest.raises(ValueError) as caught:
        tq_hw.Interpreter(tmp_path / "tq.tflite", config="n8").allocate_tensors()
    assert str(caught.value) == ("tq.tflite: is compiled for configuration 'tiny', not for 'n8'; compile it again or "
                                 "leave config out")


def test_a_board(monkeypatch):
    """On a line that damages bytes, with a board that runs the executor."""
    monkeypatch.setattr(sys, "path", [str(Path(__file__).parents[1] / "boards"), *sys.path])
    from line import AcceleratorBoard, BadLine

    from tq_hw.boards.link.device import Device
    from tq_hw.boards.link.host import Link
    data = write_model(topk_head())
    made, _ = parts_of(data)
    board = AcceleratorBoard(made.parts[0].program)
    device = Device(Link(BadLine(board, seed=1, one_in=300), patience_seconds=5), time_limit_seconds=0.2)
    interpreter = tq_hw.Interpreter(model_content=data, config="tiny", device=device)
    check_same(script(interpreter, 2), script(reference(data), 2))
    assert board.runs >= 2
    assert interpreter.crossing_bytes == 96


def test_signatures():
    """Each has its own subgraph; the third keeps a variable between calls."""
    data = write_model(signed_model())
    one, other = tq_hw.Interpreter(model_content=data, config="tiny"), reference(data)
    assert one.get_signature_list() == other.get_signature_list()
    for name in ("plain", "six", "sum"):
        runner, wanted = one.get_signature_runner(name), other.get_signature_runner(name)
        for found, expected in ((runner.get_input_details(), wanted.get_input_details()),
                                (runner.get_output_details(), wanted.get_output_details())):
            np.testing.assert_equal(found, expected)
        for number in range(3):
            value = np.random.default_rng(number).integers(-128, 128, (1, 6)).astype(np.int8)
            np.testing.assert_equal(runner(x0=value), wanted(x0=value))


def test_a_signature_takes_other_shapes():
    """The interpreter's own methods see the same subgraph."""
    model = left_open(lambda batch: open_network(3, batch))
    main = model.main
    data = write_model(replace(model, signatures=(Signature(
        "serve", 0, {"b": main.inputs[0]}, dict(zip("zyx", main.outputs, strict=False))),)))
    one, other = tq_hw.Interpreter(model_content=data, config="n8"), reference(data)
    assert one.get_signature_list() == other.get_signature_list()
    shape = open_network(3, 1).main.tensors[0].shape
    for batch in (2, 1):
        value = np.random.default_rng(batch).integers(-128, 128, (batch, *shape[1:])).astype(np.int8)
        found = one.get_signature_runner()(b=value)
        np.testing.assert_equal(found, other.get_signature_runner()(b=value))
        np.testing.assert_equal(one.get_tensor(main.outputs[0]), found["z"])


def test_misuse_of_signatures():
    one = tq_hw.Interpreter(model_content=write_model(signed_model()), config="tiny")
    plain = one.get_signature_runner("plain")
    for call, message in (
            (one.get_signature_runner, "SignatureDef signature_key is None and model has 3 Signatures. None is only "
             "allowed when the model has 1 SignatureDef"),
            (lambda: one.get_signature_runner("seven"), 'Invalid signature_key provided: "seven".'),
            (plain, "Invalid number of inputs provided for running a SignatureDef, expected 1 vs provided 0"),
            (lambda: plain(z=np.zeros((1, 6), np.int8)), "Invalid Input name (z) for SignatureDef")):
        with pytest.raises(ValueError) as caught:
            call()
        assert str(caught.value) == message
    main, first = stateful()
    twice = Model("m", (main, replace(main, name="again"), first, first), signatures=(
        Signature("one", 0, {}, {}), Signature("two", 1, {}, {})))
    with pytest.raises(UnsupportedError) as caught:
        tq_hw.Interpreter(model_content=write_model(twice)).get_signature_runner("two")
    assert str(caught.value) == ("model.tflite: signatures 'two' and 'one' both use resource variables in subgraphs of "
                                 "their own: each would keep its own copy")


def test_arrays_in_place():
    data = write_model(topk_head())
    one, other = tq_hw.Interpreter(model_content=data, config="tiny"), reference(data)
    for interpreter in (one, other):
        interpreter.allocate_tensors()
        interpreter.tensor(interpreter.get_input_details()[0]["index"])().fill(7)
        interpreter.invoke()
    index = one.get_output_details()[0]["index"]
    np.testing.assert_array_equal(one.tensor(index)(), other.get_tensor(index))


def test_misuse_raises_what_litert_raises():
    interpreter = tq_hw.Interpreter(model_content=write_model(topk_head()), config="tiny")
    for call, error, message in (
            (interpreter.invoke, RuntimeError, "call allocate_tensors first, and again after resize_tensor_input"),
            (lambda: interpreter.resize_tensor_input(0, (2, 5, 4, 3)), ValueError, "input 0 ('image') has shape "
             "[1, 5, 4, 3], where -1 is open: it cannot be resized to [2, 5, 4, 3]"),
            (lambda: interpreter.set_tensor(3, 0), ValueError, "tensor 3 is not an input of the model; inputs are [0]"),
            (lambda: interpreter.set_tensor(0, np.zeros((1, 5, 4, 3), np.float32)), ValueError, "Cannot set tensor: "
             "Got value of type float32 but expected type int8 for input 0, name: image"),
            (lambda: interpreter.set_tensor(0, np.zeros((5, 4, 3), np.int8)), ValueError, "Cannot set tensor: Got "
             "value of shape [5, 4, 3] but expected [1, 5, 4, 3] for input 0, name: image"),
            *((call, ValueError, "call allocate_tensors first, and again after resize_tensor_input") for call in (
                lambda: interpreter.set_tensor(0, np.zeros((1, 5, 4, 3), np.int8)),
                lambda: interpreter.get_tensor(0), interpreter.tensor(0)))):
        with pytest.raises(error) as caught:
            call()
        assert str(caught.value) == message
    interpreter.allocate_tensors()
    # Resizing to the present shape changes nothing.
    interpreter.resize_tensor_input(0, (1, 5, 4, 3))
    for index, message in ((9999, "tensor 9999 is neither an input nor an output of the model, nor a constant"),
                           (interpreter.get_output_details()[0]["index"], None)):
        with pytest.raises(ValueError) as caught:
            interpreter.get_tensor(index)
        assert str(caught.value) == (message or f"output {index} holds nothing before invoke")
    interpreter.invoke()


def test_refusals():
    with pytest.raises(ValueError, match="needs either model_path or model_content, not both"):
        tq_hw.Interpreter()
    data = write_model(topk_head())
    with pytest.raises(ValueError) as wrong:
        tq_hw.Interpreter(model_content=data, config=3)
    assert str(wrong.value) == "config is the name of a configuration, a TOML file's or a Config, found 3"
    with pytest.raises(OptionError) as caught:
        tq_hw.Interpreter(model_content=data, device="/dev/ttyUSB0")
    assert str(caught.value) == ("device '/dev/ttyUSB0' is taken to be a serial port, which needs board, the name of "
                                 'the board there; other devices are "executor" and "rtl"')
    b = ModelBuilder("soft")
    soft = b.build(b.add("SOFTMAX", [b.input((1, 4), dtype="float32")], dtype="float32"))
    with pytest.raises(UnsupportedError):
        tq_hw.Interpreter(model_content=soft).allocate_tensors()
