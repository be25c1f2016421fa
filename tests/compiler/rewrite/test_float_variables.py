"""Float32 variables between QUANTIZE and DEQUANTIZE are int8: every inference equals LiteRT's, one after the other."""

import numpy as np
import pytest

import tq_hw
from tq_hw.compiler import compile_model
from tq_hw.compiler.rewrite.float_variables import quantized_variables
from tq_hw.isa.config import load_config
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.graph import Model
from tq_hw.model.rules.signatures import FLOAT_COMPUTED
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.model.tflite.writer import write_model

HANDLE = {"container": "", "shared_name": "mean"}


def running_mean(writes_float: bool = False) -> Model:
    """An average that moves on: kept as float32, read and written through int8 of other scales."""
    b = ModelBuilder("mean")
    image = b.input((2, 5), scale=0.07, zero_point=3)
    b.operator("CALL_ONCE", [], [], {"init_subgraph_index": 1})
    handle = b.add("VAR_HANDLE", [], shape=(), options=HANDLE)
    kept = b.add("READ_VARIABLE", [handle], shape=(2, 5), dtype="float32")
    code = b.add("QUANTIZE", [kept], scale=0.05, zero_point=-9)
    old = b.add("MUL", [code, b.constant(np.full((1,), 90, np.int8), scale=[0.01])], scale=0.06)
    made = b.add("ADD", [old, image], scale=0.09, zero_point=5)
    real = b.add("DEQUANTIZE", [made])
    b.operator("ASSIGN_VARIABLE", [handle, b.add("SQUARE", [real]) if writes_float else real], [])
    first = ModelBuilder("first")
    handle = first.add("VAR_HANDLE", [], shape=(), options=HANDLE)
    start = np.linspace(-2, 2, 10).astype(np.float32).reshape(2, 5)
    first.operator("ASSIGN_VARIABLE", [handle, first.constant(start)], [])
    return Model("mean", (b.model(made).main, first.model().main))


def test_it_goes_on_as_in_litert() -> None:
    litert = pytest.importorskip("ai_edge_litert.interpreter", reason="the oracles are not installed")
    data = write_model(running_mean())
    ours = tq_hw.Interpreter(model_content=data, config="tiny")
    theirs = litert.Interpreter(model_content=data, experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF)
    for each in (ours, theirs):
        each.allocate_tensors()
    for number in range(5):
        value = np.random.default_rng(number).integers(-128, 128, (2, 5)).astype(np.int8)
        found = []
        for each in (ours, theirs):
            each.set_tensor(each.get_input_details()[0]["index"], value)
            each.invoke()
            found.append(each.get_tensor(each.get_output_details()[0]["index"]))
        np.testing.assert_array_equal(*found, strict=True)
    assert ours.crossing_bytes == 20, "a part stayed with the host"


def test_the_variable_is_int8() -> None:
    made = quantized_variables(running_mean().main)
    assert [op.op for op in made.operators] == ["CALL_ONCE", "VAR_HANDLE", "READ_VARIABLE", "MUL", "ADD", "DEQUANTIZE",
                                                "TABLE", "ASSIGN_VARIABLE"]


def test_another_writer_is_refused() -> None:
    model = parse_model(write_model(running_mean(writes_float=True)), "mean")
    with pytest.raises(UnsupportedError) as caught:
        compile_model(model, load_config("n8"))
    assert str(caught.value) == (
        "operator 7 (SQUARE): input 0, tensor 7 ('t7'), is float32 computed inside the model; supported are float32 "
        "operators that together are a function of one int8 or int16 tensor or of two int8 tensors, or "
        f"{', '.join(FLOAT_COMPUTED)} of more int8 or int16 tensors, from DEQUANTIZE to QUANTIZE or to an output; "
        "`tq-hw compile --partition` leaves others to LiteRT on the host")
