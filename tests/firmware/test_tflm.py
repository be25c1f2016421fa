"""The kernel for TFLite Micro on the Verilated accelerator, if TFLM_ROOT names a checkout with a built library:

    make -f tensorflow/lite/micro/tools/make/Makefile third_party_downloads
    make -f tensorflow/lite/micro/tools/make/Makefile microlite ADDITIONAL_DEFINES=-fPIC
"""

import ctypes
import os
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from native import DRIVER, FIRMWARE, MEMORY, MEMORY_BYTES, BenchBus, machine

from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.isa.program_file import to_bytes
from tq_hw.model.cut import cut
from tq_hw.model.graph import Model, Operator
from tq_hw.model.mixed import ACCELERATED
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.model.tflite.writer import write_model
from tq_hw.sim import golden
from tq_hw.sim.golden.state import State

KERNEL = FIRMWARE / "tflm"
ROOT = Path(os.environ.get("TFLM_ROOT", "/nowhere"))
TINY = load_config("tiny")
# TFLite Micro's makefile builds the library and downloads files for it; no Python or Debian package has it.
pytestmark = pytest.mark.skipif(not ROOT.is_dir(), reason="TFLM_ROOT names no checkout of TFLite Micro: the kernel is "
                                "built against its sources, and no package carries them")


def headers() -> list[str]:
    downloads = ROOT / "tensorflow/lite/micro/tools/make/downloads"
    found = [ROOT, downloads / "flatbuffers/include", downloads / "gemmlowp", downloads / "ruy"]
    return [word for folder in found for word in ("-isystem", str(folder))]


def microlite() -> Path:
    """TFLite Micro as a library, the newest if the checkout has several builds."""
    built = sorted(ROOT.glob("gen/*/lib/libtensorflow-microlite.a"), key=lambda file: file.stat().st_mtime)
    if not built:
        make = "make -f tensorflow/lite/micro/tools/make/Makefile"
        pytest.fail(f"TFLM_ROOT names {ROOT}, which has no gen/*/lib/libtensorflow-microlite.a; build microlite first: "
                    f"cd {ROOT} && {make} third_party_downloads && {make} microlite ADDITIONAL_DEFINES=-fPIC",
                    pytrace=False)
    return built[-1]


@pytest.fixture(scope="module")
def tflm(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The kernel, the driver and TFLite Micro as one library; warnings in our files are errors."""
    folder, library = tmp_path_factory.mktemp("tflm"), microlite()
    objects = []
    for source in sorted(DRIVER.glob("*.c")):
        objects.append(folder / f"{source.stem}.o")
        subprocess.run(["gcc", "-std=c11", "-g", "-fPIC", "-c", source, "-o", objects[-1]], check=True)
    subprocess.run(["g++", "-std=c++17", "-g", "-fPIC", "-shared", "-Wall", "-Wextra", "-Wconversion", "-Wshadow",
                    "-Werror", "-DTF_LITE_STATIC_MEMORY", "-fno-exceptions", "-fno-rtti", *headers(), f"-I{DRIVER}",
                    f"-I{KERNEL}", KERNEL / "tq_hw.cc", Path(__file__).with_name("tflm_run.cc"), *objects,
                    library, "-Wl,--no-undefined", "-o", folder / "libtflm.so"], check=True)
    return ctypes.CDLL(str(folder / "libtflm.so"))


def in_parts(model: Model, starts: Sequence[int]) -> bytes:
    """Return the partitioned model whose parts begin at these operators."""
    main = model.main
    operators = []
    for first, end in zip(starts, [*starts[1:], len(main.operators)], strict=True):
        inner = main.operators[first:end]
        outside = {index for op in main.operators if op not in inner for index in op.inputs} | set(main.outputs)
        part = cut(model, inner, outside)
        operators.append(Operator(first, ACCELERATED, part.main.inputs, part.main.outputs,
                                  custom_options=to_bytes(compile_model(part, TINY).program)))
    tensors = tuple(replace(tensor, data=None, is_variable=False) for tensor in main.tensors)
    return write_model(Model(model.name, (replace(main, tensors=tensors, operators=tuple(operators)),)))


def allocated(tflm: ctypes.CDLL, data: bytes) -> bool:
    """Return whether the tensors of a model can be allocated."""
    file = ctypes.create_string_buffer(data, len(data))
    with machine() as bench:
        bus = BenchBus(bench)
        status = tflm.run(file, ctypes.byref(bus.bus), ctypes.c_uint32(MEMORY), ctypes.c_uint32(MEMORY_BYTES), 0, -1,
                          None, None)
    assert status in (0, 2)
    return bool(status == 0)


def run(tflm: ctypes.CDLL, data: bytes, inputs: Sequence[np.ndarray], like: Sequence[np.ndarray],
        reset: int = -1) -> list[np.ndarray]:
    """Return the output of each inference on the Verilated accelerator."""
    given = b"".join(array.tobytes() for array in inputs)
    outputs = ctypes.create_string_buffer(sum(array.nbytes for array in like))
    file = ctypes.create_string_buffer(data, len(data))
    with machine() as bench:
        bus = BenchBus(bench)
        assert tflm.run(file, ctypes.byref(bus.bus), ctypes.c_uint32(MEMORY), ctypes.c_uint32(MEMORY_BYTES),
                        len(inputs), reset, given, outputs) == 0
    size = like[0].nbytes
    return [np.frombuffer(outputs.raw, like[0].dtype, like[0].size, number * size).reshape(like[0].shape)
            for number in range(len(like))]


def float_ends() -> Model:
    """float32 to int8, two layers, and back to float32."""
    rng = np.random.default_rng(3)
    b = ModelBuilder("ends")
    code = b.add("QUANTIZE", [b.input((1, 5, 4, 3), dtype="float32")], scale=0.1, zero_point=2)
    weights = b.constant(rng.integers(-99, 99, (4, 3, 3, 3)).astype(np.int8), scale=[0.01] * 4)
    conv = b.add("CONV_2D", [code, weights, b.bias(code, weights, [5, -7, 900, 0])], scale=0.3, padding="SAME")
    return parse_model(b.build(b.add("DEQUANTIZE", [b.add("LOGISTIC", [conv])])), "ends.tflite")


def test_two_parts_with_float32_ends(tflm: ctypes.CDLL) -> None:
    model = float_ends()
    rng = np.random.default_rng(4)
    inputs = [rng.uniform(-12, 12, (1, 5, 4, 3)).astype(np.float32) for _ in range(2)]
    expected = [golden.run(model, [one]).outputs[0] for one in inputs]
    for found, right in zip(run(tflm, in_parts(model, (0, 2)), inputs, expected), expected, strict=True):
        np.testing.assert_array_equal(found, right)


def test_tensors_and_programs_that_do_not_match_are_rejected(tflm: ctypes.CDLL) -> None:
    """A truncated program, a tensor of another shape with the same number of bytes, and one of another type."""
    model = parse_model(in_parts(float_ends(), (0, 2)), "m", rules=False)
    main = model.main
    assert allocated(tflm, write_model(model))
    between, first = main.operators[0].outputs[0], main.operators[0]
    assert main.tensors[between].shape == (1, 5, 4, 4)
    for tensors, operators in (
            (main.tensors, (replace(first, custom_options=first.custom_options[:60]), main.operators[1])),
            (tuple(replace(each, shape=(1, 4, 5, 4)) if each.index == between else each for each in main.tensors),
             main.operators),
            (tuple(replace(each, dtype="uint8") if each.index == between else each for each in main.tensors),
             main.operators)):
        changed = replace(model, subgraphs=(replace(main, tensors=tensors, operators=operators),))
        assert not allocated(tflm, write_model(changed))


def test_a_state_is_kept_until_it_is_reset(tflm: ctypes.CDLL) -> None:
    rng = np.random.default_rng(5)
    b = ModelBuilder("state")
    feature = b.constant(rng.integers(-99, 99, (4, 6)).astype(np.int8), scale=0.01)
    times = b.constant(rng.integers(-9999, 9999, (4, 3)).astype(np.int16), scale=2.0 ** -15)
    bias = b.constant(np.zeros(4, np.int32), scale=0.005 * 2.0 ** -15)
    state = b.tensor((1, 12), "int16", scale=0.005, is_variable=True)
    out = b.add("SVDF", [b.input((1, 6), scale=0.1), feature, times, bias, state], scale=0.02, zero_point=-7, rank=1,
                fused_activation_function="RELU")
    model = parse_model(b.build(out), "state.tflite")
    inputs = [rng.integers(-128, 128, (1, 6)).astype(np.int8) for _ in range(4)]
    expected, kept = [], State()
    for number, one in enumerate(inputs):
        result = golden.run(model, [one], State() if number == 3 else kept)
        kept = result.state
        expected.append(result.outputs[0])
    for found, right in zip(run(tflm, in_parts(model, (0,)), inputs, expected, reset=3), expected, strict=True):
        np.testing.assert_array_equal(found, right)
