"""Float32 variables between QUANTIZE and DEQUANTIZE are int8: every inference in a sequence equals LiteRT's."""

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
    """A running average in float32, read and written through int8 with other scales."""
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


SCALES = {"int8": (0.07, 3), "int16": (0.0004, 0)}


def ring(dtype: str, start: np.ndarray, floats: bool = False, two: bool = False) -> Model:
    """The last four rows, as in models of streams: kept in float32, computed from codes of the input.

    With `floats` the new rows are joined to the old ones in float32. With `two` the oldest row is also kept in another
    variable, and returned one inference later.
    """
    b = ModelBuilder("ring")
    scale, point = SCALES[dtype]
    image = b.input((1, 3), dtype, scale=scale, zero_point=point)
    b.operator("CALL_ONCE", [], [], {"init_subgraph_index": 1})
    handles = [b.add("VAR_HANDLE", [], shape=(), options={"container": "", "shared_name": name})
               for name in ("oldest", "mean")]
    kept = b.add("READ_VARIABLE", [handles[1]], shape=(4, 3), dtype="float32")
    late = b.add("READ_VARIABLE", [handles[0]], shape=(1, 3), dtype="float32") if two else kept
    newer = b.add("SLICE", [kept, b.constant([1, 0]), b.constant([3, 3])])
    if floats:
        rows = b.add("CONCATENATION", [newer, b.add("DEQUANTIZE", [image])], axis=0)
        codes = b.add("QUANTIZE", [rows], scale=scale * 2, zero_point=point, dtype=dtype)
    else:
        codes = b.add("QUANTIZE", [newer], scale=scale, zero_point=point, dtype=dtype)
        codes = b.add("CONCATENATION", [codes, image], axis=0)
        rows = b.add("DEQUANTIZE", [codes])
    b.operator("ASSIGN_VARIABLE", [handles[1], rows], [])
    if two:
        b.operator("ASSIGN_VARIABLE", [handles[0], b.add("SLICE", [kept, b.constant([0, 0]), b.constant([1, 3])])], [])
    made = [b.add("MEAN", [codes, b.constant([0])], scale=scale), *([b.add("QUANTIZE", [late], scale=scale,
                                                                         dtype=dtype)] if two else [])]
    first = ModelBuilder("first")
    for name, contents in (("mean", start), ("oldest", start[:1])):
        handle = first.add("VAR_HANDLE", [], shape=(), options={"container": "", "shared_name": name})
        first.operator("ASSIGN_VARIABLE", [handle, first.constant(contents)], [])
    return Model("ring", (b.model(*made).main, first.model().main))


def hold(model: Model, inferences: int = 6) -> int:
    """Compare our interpreter with LiteRT's over several inferences; return the bytes that cross in the last one."""
    litert = pytest.importorskip("ai_edge_litert.interpreter", reason="the oracles are not installed")
    data = write_model(model)
    ours = tq_hw.Interpreter(model_content=data, config="tiny")
    theirs = litert.Interpreter(model_content=data, experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF)
    for each in (ours, theirs):
        each.allocate_tensors()
    place = ours.get_input_details()[0]
    limits = np.iinfo(place["dtype"])
    for number in range(inferences):
        drawn = np.random.default_rng(number).integers(limits.min, limits.max + 1, place["shape"])
        value = drawn.astype(place["dtype"])
        for each in (ours, theirs):
            each.set_tensor(each.get_input_details()[0]["index"], value)
            each.invoke()
        for mine, other in zip(ours.get_output_details(), theirs.get_output_details(), strict=True):
            np.testing.assert_array_equal(ours.get_tensor(mine["index"]), theirs.get_tensor(other["index"]),
                                          strict=True)
    crossing: int = ours.crossing_bytes
    return crossing


def test_it_goes_on_as_in_litert() -> None:
    assert hold(running_mean()) == 20, "a part stayed with the host"


@pytest.mark.parametrize("two", [False, True])
@pytest.mark.parametrize("floats", [False, True])
@pytest.mark.parametrize("dtype", SCALES)
def test_rings_go_on_as_in_litert(dtype: str, floats: bool, two: bool) -> None:
    """Also with two variables, one of which is written with what is read from the other."""
    scale, point = SCALES[dtype]
    start = (np.float64(np.float32(scale)) * np.arange(-6, 6)).astype(np.float32).reshape(4, 3)
    size = np.dtype(dtype).itemsize
    assert hold(ring(dtype, start, floats, two)) == (9 if two else 6) * size, "a part stayed with the host"


def test_a_ring_that_begins_with_other_numbers_stays_with_the_host() -> None:
    start = np.full((4, 3), 0.5, np.float32)
    model = ring("int8", start, two=True)
    hold(model)
    with pytest.raises(UnsupportedError) as caught:
        compile_model(parse_model(write_model(model), "ring"), load_config("n8"))
    assert str(caught.value) == (
        "operator 9 (ASSIGN_VARIABLE): input 1, tensor 10 ('t10'), is float32 computed inside the model (the "
        "variable's initial value and all assigned values must be codes of one scale); supported are float32 operators "
        "that together are a function of one int8 or int16 tensor or of two int8 tensors, or "
        f"{', '.join(FLOAT_COMPUTED)} of more int8 or int16 tensors, from DEQUANTIZE to QUANTIZE or to an output; "
        "`tq-hw compile --partition` leaves others to LiteRT on the host")


def test_the_variable_is_int8() -> None:
    made = quantized_variables(running_mean().main, {})
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
