"""`--batch` and `--shape`: what the commands do with them, and what they say."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.samples.open_shapes import left_open, open_network
from tq_hw.model.tflite.writer import write_model
from tq_hw.sim.oracles import available

Tq = Callable[..., Any]


@pytest.fixture
def model(tmp_path: Path) -> str:
    (tmp_path / "open.tflite").write_bytes(write_model(left_open(lambda batch: open_network(3, batch))))
    return "open.tflite"


def test_batch_sizes_inputs_and_outputs(tq: Tq, model: str) -> None:
    shape = open_network(3, 2).main.tensors[0].shape
    np.savez("in.npz", image=np.arange(np.prod(shape)).reshape(shape).astype(np.int8))
    for wish in (["--batch", 2], ["--shape", f"image={','.join(map(str, shape))}"]):
        result = tq("sim", model, "--engine", "executor", "--config", "n8", *wish, "--inputs", "in.npz", "--outputs",
                    "out.npz")
        assert (result.code, result.err) == (0, "")
        with np.load("out.npz") as outputs:
            assert outputs["output_0"].shape == (2, 5)


def test_compiled_file_keeps_its_batch(tq: Tq, model: str) -> None:
    assert tq("compile", model, "--batch", 2, "--config", "n8", "-o", "open.tqm").code == 0
    np.savez("in.npz", image=np.zeros(open_network(3, 2).main.tensors[0].shape, np.int8))
    assert tq("sim", "open.tqm", "--engine", "executor", "--inputs", "in.npz").code == 0
    result = tq("sim", "open.tqm", "--engine", "executor", "--inputs", "in.npz", "--batch", 2)
    assert (result.code, result.err) == (
        2, "tq-hw: open.tqm: the shapes of a compiled file are fixed; give --batch, --shape and --signature "
        "to `tq-hw compile`\n")


@pytest.mark.parametrize("oracle", ["litert", "tflm"])
def test_engines_get_the_same_batch(tq: Tq, model: str, oracle: str) -> None:
    if not available({"litert": "litert-ref"}.get(oracle, oracle)):
        pytest.skip("the engine is not installed")
    result = tq("verify", model, "--batch", 3, "--engine", "executor", "--config", "n8", "--profile", oracle,
                "--oracle", oracle)
    assert (result.code, result.err) == (0, "")
    assert result.out.endswith("1 passed, 0 failed, 0 unsupported\n")


@pytest.mark.parametrize("more", [(), ("--partition",), ("--jobs", 2)])
def test_one_model_of_a_folder_with_fixed_shapes(tq: Tq, tmp_path: Path, more: tuple[object, ...]) -> None:
    """The other models are verified all the same."""
    if not available("litert-ref"):
        pytest.skip("the engine is not installed")
    for name, data in (("a", write_model(open_network(3, 1))), ("b", write_model(left_open(
            lambda batch: open_network(3, batch))))):
        (tmp_path / f"{name}.tflite").write_bytes(data)
    result = tq("verify", ".", "--batch", 2, "--engine", "executor", "--config", "n8", "--profile", "litert",
                "--oracle", "litert", *more)
    shape = ", ".join(map(str, open_network(3, 1).main.tensors[0].shape))
    lines = result.out.splitlines()
    assert lines[0] == ("unsupported a: a.tflite: --batch 2 sizes open dimensions, but all dimensions of the inputs "
                        f"are fixed: 'image' [{shape}]; export the model with an open batch")
    assert lines[1].startswith("passed      b: 3 input sets equal LiteRT's reference kernels")
    assert (result.code, result.err) == (2, "tq-hw: 1 of 2 cases are not supported; first a\n")


@pytest.mark.parametrize("wish, message", [
    (["--batch", 0], "Invalid value for '--batch': 0 is not in the range 1<=x<=2147483647. Try 'tq-hw compile "
     "--help'."),
    (["--shape", "1,2"], "Invalid value for '--shape': expected an input's name and its sizes, each 1 or more, as in "
     "x=1,96,96,3; found '1,2'. Try 'tq-hw compile --help'."),
    (["--shape", "image=1,-2"], "Invalid value for '--shape': expected an input's name and its sizes, each 1 or more, "
     "as in x=1,96,96,3; found 'image=1,-2'. Try 'tq-hw compile --help'."),
    (["--shape", "image=1", "--shape", "image=2"], "Invalid value for '--shape': the input 'image' is named twice. "
     "Try 'tq-hw compile --help'."),
    (["--shape", "picture=1"], "open.tflite: --shape picture: there is no such input; inputs are "
     "'image' [-1, {}, {}, {}]"),
])
def test_messages(tq: Tq, model: str, wish: list[object], message: str) -> None:
    result = tq("compile", model, *wish)
    assert (result.code, result.out) == (2, "")
    assert result.err == f"tq-hw: {message.format(*open_network(3, 1).main.tensors[0].shape[1:])}\n"


def test_build_without_a_model_has_nothing_to_size(tq: Tq) -> None:
    result = tq("build", "--board", "ulx3s_85f", "--batch", 2)
    assert (result.code, result.err) == (2, "tq-hw: --batch, --shape and --signature need --model\n")


def of_any_image(*, is_left: bool = False) -> bytes:
    """Return a convolution of any image, of float32 if an exporter has left it so."""
    b = ModelBuilder("any")
    x = b.input((1, 1, 1, 3), scale=0.1, name="image")
    read = b.add("DEQUANTIZE", [x], shape=(1, 1, 1, 3), dtype="float32") if is_left else x
    weights = b.constant(np.ones((4, 3, 3, 3), np.int8), scale=0.1)
    made = b.tensor((1, 1, 1, 4), scale=0.2)
    b.operator("CONV_2D", [read, weights, b.bias(x, weights, [1, 2, 3, 4])], [made], {
        "padding": "VALID", "stride_w": 1, "stride_h": 1, "dilation_w_factor": 1, "dilation_h_factor": 1,
        "fused_activation_function": "NONE"})
    model = b.model(made)
    tensors = [replace(tensor, shape_signature=(-1, -1, -1, tensor.shape[3])) if tensor.index in (x, read, made)
               else tensor for tensor in model.main.tensors]
    return write_model(replace(model, subgraphs=(replace(model.main, tensors=tuple(tensors)),)))


def test_sizes_that_are_taken_as_stored(tq: Tq) -> None:
    """Converters store 1 for sizes that a network of any image leaves open."""
    Path("any.tflite").write_bytes(of_any_image())
    wrong = "any.tflite: subgraph 0, operator 0 CONV_2D: height is {}, less than the filter's 3, with padding VALID"
    result = tq("compile", "any.tflite", "--config", "n8")
    assert (result.code, result.err) == (2, f"tq-hw: {wrong.format(1)}; the model leaves sizes of input 'image' open, "
                                         "which are taken as stored: [-1, -1, -1, 3] as [1, 1, 1, 3]; give others with "
                                         "--shape\n")
    result = tq("compile", "any.tflite", "--config", "n8", "--shape", "image=1,2,9,3")
    assert (result.code, result.err) == (2, f"tq-hw: {wrong.format(2)}\n")
    assert tq("compile", "any.tflite", "--config", "n8", "--shape", "image=1,5,9,3").code == 0


def test_sizes_are_told_after_what_is_offered(tq: Tq) -> None:
    Path("any.tflite").write_bytes(of_any_image(is_left=True))
    assert tq("compile", "any.tflite", "--config", "n8").err.splitlines()[0].endswith(
        "quantize the whole model to int8, or leave the operator to LiteRT on the host by `tq-hw compile --partition`; "
        "the model leaves sizes of input 'image' open, which are taken as stored: [-1, -1, -1, 3] as [1, 1, 1, 3]; "
        "give others with --shape")
