"""Small files with excessive demands are rejected at once, by name."""

import time
import tracemalloc

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run


def _refusal(b: ModelBuilder, *outputs: int) -> str:
    model, began = parse_model(b.build(*outputs), "m"), time.process_time()
    with pytest.raises(UnsupportedError) as caught:
        compile_model(model, load_config("n16"))
    assert time.process_time() - began < 2
    return str(caught.value)


def test_many_images() -> None:
    b = ModelBuilder("m")
    x = b.input((400000, 2, 2, 5), scale=0.1)
    weights = b.constant(np.ones((7, 3, 3, 5), np.int8), scale=0.1)
    out = b.add("CONV_2D", [x, weights, b.bias(x, weights, [0] * 7)], padding="SAME", scale=0.1)
    assert _refusal(b, out) == ("operator 0 (CONV_2D) takes at least 1200000 commands, a model may have 1048576; use a "
                                "larger configuration or smaller tensors")


def test_inputs_larger_than_a_file_has() -> None:
    b = ModelBuilder("m")
    x = b.input((1, 3000, 3000, 16), scale=0.1)
    out = b.add("ADD", [x, b.input((1, 3000, 3000, 16), scale=0.1)], scale=0.2)
    assert _refusal(b, out) == ("m: the inputs must have at most 33,554,432 bytes together, not 288,000,000; use "
                                "smaller tensors")


def test_activations_larger_than_memory() -> None:
    b = ModelBuilder("m")
    x = b.input((1, 2000, 1000, 16), scale=0.1)
    weights = b.constant(np.ones((160, 1, 1, 16), np.int8), scale=0.1)
    x = b.add("CONV_2D", [x, weights, b.bias(x, weights, [0] * 160)], padding="SAME", scale=0.1)
    out = b.add("MAX_POOL_2D", [x], filter_height=4, filter_width=4, stride_h=4, stride_w=4, padding="SAME")
    assert _refusal(b, out) == ("operator 0 (CONV_2D) raises the activations to 372,000,000 bytes of memory, "
                                "at most 268,435,456 fit; use smaller tensors")


def test_more_commands_than_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tq_hw.compiler.stream.stream.MOST_COMMANDS", 20)
    b = ModelBuilder("m")
    x = b.input((1, 40, 40, 16), scale=0.1)
    out = b.add("ADD", [x, b.input((1, 40, 40, 16), scale=0.1)], scale=0.2)
    assert _refusal(b, out) == ("operator 0 (ADD) raises the model to more than 20 commands; use a larger "
                                "configuration or smaller tensors")


def test_more_rows_than_a_field_holds() -> None:
    b = ModelBuilder("m")
    x = b.input((1, 65536, 11, 2), scale=0.1)
    weights = b.constant(np.ones((2, 3, 3, 2), np.int8), scale=0.1)
    out = b.add("CONV_2D", [x, weights, b.bias(x, weights, [0] * 2)], padding="SAME", scale=0.1)
    assert _refusal(b, out) == ("operator 0 (CONV_2D) is too large for one command of the array unit: in_rows must be "
                                "0..65535, not 65536")


def test_a_cast_to_float_inside_the_model() -> None:
    b = ModelBuilder("m")
    x = b.add("CAST", [b.input((2, 3), "int32")], in_data_type="int32", out_data_type="float32")
    out = b.add("CAST", [x], in_data_type="float32", out_data_type="int32")
    assert _refusal(b, out) == ("operator 0 (CAST): A float32 result must be an output of the model and nothing else; "
                                "found tensor 1 used inside the model")


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "bool"])
def test_a_cast_to_float_is_the_hosts(dtype: str) -> None:
    b = ModelBuilder("m")
    scale = 0.1 if dtype in ("int8", "uint8", "int16") else None
    x = b.input((50,), dtype, scale=scale, zero_point=3 if scale and dtype != "int16" else 0)
    out = b.add("CAST", [x], in_data_type=dtype, out_data_type="float32")
    model = parse_model(b.build(out), "m")
    low, high = (0, 1) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    values = np.random.default_rng(0).integers(low, high, 50, endpoint=True).astype(dtype)
    found = execute(compile_model(model, load_config("n16")).program, [values]).outputs[0]
    np.testing.assert_array_equal(found, run(model, [values]).outputs[0], strict=True)


def test_a_float_input_that_is_an_output() -> None:
    b = ModelBuilder("m")
    x = b.input((2, 3), "float32", name="x")
    b.add("QUANTIZE", [x], scale=0.1)
    assert _refusal(b, x) == ("model output 'x' (tensor 0) is a float32 input of the model, which the accelerator does "
                              "not have; use the caller's copy")


def test_weights_with_many_scales_as_output() -> None:
    b = ModelBuilder("m")
    x = b.input((1, 4, 4, 3), scale=0.1)
    weights = b.constant(np.ones((2, 1, 1, 3), np.int8), scale=[0.1, 0.2])
    out = b.add("CONV_2D", [x, weights, b.bias(x, weights, [0] * 2)], scale=0.1)
    assert compile_model(parse_model(b.build(out, weights), "m"), load_config("n16")).program.outputs[1].size_bytes == 6


def test_a_float_input_quantized_twice() -> None:
    b = ModelBuilder("m")
    x = b.input((2, 3), "float32", name="x")
    same = [b.add("QUANTIZE", [x], scale=0.1, zero_point=3) for _ in range(2)]
    out = b.add("ADD", same, scale=0.2)
    assert compile_model(parse_model(b.build(out), "m"), load_config("n16")).program.inputs[0].edge == "quantize"
    other = b.add("QUANTIZE", [x], scale=0.2, zero_point=3)
    assert _refusal(b, out, other) == ("operator 3 (QUANTIZE): float32 input 'x' (tensor 0) is quantized in two ways; "
                                       "quantize it once, then requantize its int8 tensor")


def test_a_cast_of_64_bits_to_bool_sees_all_of_them() -> None:
    b = ModelBuilder("m")
    out = b.add("CAST", [b.input((5,), "int64")], in_data_type="int64", out_data_type="bool")
    program = compile_model(parse_model(b.build(out), "m"), load_config("tiny")).program
    values = np.array([0, 1, -1, 1 << 32, -1 << 63], np.int64)
    np.testing.assert_array_equal(execute(program, [values]).outputs[0], [False, True, True, True, True], strict=True)


def test_weights_of_ones_are_not_the_models() -> None:
    b = ModelBuilder("m")
    out = b.add("AVERAGE_POOL_2D", [b.input((16, 9, 14, 100000), scale=0.1)], filter_height=9, filter_width=14,
                padding="VALID")
    assert _refusal(b, out) == ("m: the inputs must have at most 33,554,432 bytes together, not 201,600,000; use "
                                "smaller tensors")


def test_the_shape_of_a_tensor_larger_than_memory() -> None:
    b = ModelBuilder("m")
    out = b.add("SHAPE", [b.input((1000, 65536, 6, 5), scale=0.1)], out_type="int32")
    model = parse_model(b.build(out), "m")
    tracemalloc.start()
    # The input's address would be out of range; detecting that takes no memory.
    with pytest.raises(UnsupportedError) as caught:
        compile_model(model, load_config("n16"))
    assert str(caught.value) == ("m: the inputs must have at most 33,554,432 bytes together, not 1,966,080,000; use "
                                 "smaller tensors")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50 << 20


def test_large_windows_at_the_border() -> None:
    b = ModelBuilder("m")
    out = b.add("AVERAGE_POOL_2D", [b.input((1, 60, 60, 8), scale=0.1)], filter_height=50, filter_width=50,
                padding="SAME")
    assert _refusal(b, out) == ("operator 0 (AVERAGE_POOL_2D): windows of 50x50 extend beyond the image in "
                                "2500 ways, at most 400 are supported; a smaller filter, larger strides or VALID "
                                "padding help")
