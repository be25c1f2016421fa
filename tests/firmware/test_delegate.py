"""LiteRT's external delegate on an emulated board, if LITERT_ROOT names a checkout of LiteRT or TensorFlow."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import interpreter as litert
from native import FIRMWARE

from tests.sim.mixed.networks import float_middle, topk_head
from tq_hw.compiler.partition import partition
from tq_hw.isa.config import load_config
from tq_hw.model.cut import compact
from tq_hw.model.graph import Model
from tq_hw.model.mixed import is_accelerated
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.samples.typical import typical
from tq_hw.model.tflite.reader import parse_model
from tq_hw.model.tflite.writer import write_model

ROOT = Path(os.environ.get("LITERT_ROOT", "/nowhere"))
# No Python or Debian package has these headers, so the user's checkout is needed; the last test of this file needs
# none.
needs_headers = pytest.mark.skipif(not ROOT.is_dir(), reason="LITERT_ROOT names no checkout of LiteRT or TensorFlow: "
                                   "a delegate is built against their C headers, and no package carries them")
TINY = load_config("tiny")

# Calls of a delegate hold Python's lock, so the board runs in a process of its own.
BOARD = """
import signal, sys
from tq_hw.cli.emulation.emulator import Emulator
from tq_hw.isa.config import load_config
emulator = Emulator(load_config("tiny"), 1 << 16, 100_000_000)
signal.signal(signal.SIGTERM, lambda *_: emulator.end())
print(emulator.port, flush=True)
emulator.serve()
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("delegate")
    subprocess.run(["make", "-s", "-C", FIRMWARE, "delegate", f"BUILD={folder}", f"LITERT_ROOT={ROOT.resolve()}"],
                   check=True)
    return str(folder / "libtq_delegate.so")


@pytest.fixture
def port() -> Iterator[str]:
    with subprocess.Popen([sys.executable, "-c", BOARD], stdout=subprocess.PIPE, text=True) as board:
        assert board.stdout is not None
        yield board.stdout.readline().strip()
        board.terminate()


def runs(interpreter: "litert.Interpreter", count: int) -> list[list[np.ndarray]]:
    interpreter.allocate_tensors()
    found = []
    for number in range(count):
        rng = np.random.default_rng(number)
        for detail in interpreter.get_input_details():
            value = rng.integers(-128, 128, detail["shape"]).astype(detail["dtype"])
            interpreter.set_tensor(detail["index"], value)
        interpreter.invoke()
        found.append([interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()])
    return found


def mixed(model: Model) -> bytes:
    return write_model(compact(partition(parse_model(write_model(model), "m", rules=False), TINY).model))


def by_litert(model: Model, count: int) -> list[list[np.ndarray]]:
    return runs(litert.Interpreter(model_content=write_model(model),
                                   experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF), count)


@needs_headers
@pytest.mark.parametrize("model", [topk_head(), float_middle(), parse_model(write_model(typical("SVDF")), "state")],
                         ids=["head", "two parts", "state"])
def test_a_model_on_an_emulated_board(library: str, port: str, model: Model) -> None:
    """Every output equals that of the whole model in LiteRT's reference kernels; state is kept between runs."""
    delegate = litert.load_delegate(library, {"port": port})
    found = runs(litert.Interpreter(model_content=mixed(model), experimental_delegates=[delegate]), 3)
    for outputs, expected in zip(found, by_litert(model, 3), strict=True):
        for output, right in zip(outputs, expected, strict=True):
            np.testing.assert_array_equal(output, right, strict=True)


@needs_headers
def test_a_state_is_kept_until_a_new_interpreter(library: str, port: str) -> None:
    """In LiteRT a second allocate_tensors keeps the state; a new interpreter starts with the initial one."""
    model = parse_model(write_model(typical("SVDF")), "state")
    delegate = litert.load_delegate(library, {"port": port})
    one = litert.Interpreter(model_content=mixed(model), experimental_delegates=[delegate])
    other = litert.Interpreter(model_content=write_model(model),
                               experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF)
    first = runs(one, 2)
    np.testing.assert_equal(first, runs(other, 2))
    second = runs(one, 2)
    np.testing.assert_equal(second, runs(other, 2))
    assert not np.array_equal(second[0][0], first[0][0])
    again = litert.Interpreter(model_content=mixed(model), experimental_delegates=[delegate])
    np.testing.assert_equal(runs(again, 2), first)


@needs_headers
def test_one_delegate_for_many_interpreters(library: str, port: str) -> None:
    """Memory of a deleted interpreter is reused by later ones, even while others exist."""
    models = [float_middle(), topk_head()]
    files = [mixed(model) for model in models]
    delegate = litert.load_delegate(library, {"port": port})
    wanted = [by_litert(model, 1) for model in models]
    kept = litert.Interpreter(model_content=files[0], experimental_delegates=[delegate])
    for number in range(24):
        # The new one is created before the previous one is deleted.
        interpreter = litert.Interpreter(model_content=files[number % 2], experimental_delegates=[delegate])
        for one, expected in ((interpreter, wanted[number % 2]), (kept, wanted[0])) if number % 8 < 2 else ():
            np.testing.assert_equal(runs(one, 1), expected)
        interpreter.allocate_tensors()


@needs_headers
@pytest.mark.parametrize("shape", [[1, 4, 5, 3], [2, 5, 4, 3], [1, 60]])
def test_another_shape_is_rejected(library: str, port: str, shape: list[int]) -> None:
    """Even one with the same number of bytes; afterwards the model's own shape works again."""
    delegate = litert.load_delegate(library, {"port": port})
    interpreter = litert.Interpreter(model_content=mixed(topk_head()), experimental_delegates=[delegate])
    first = runs(interpreter, 1)
    index = interpreter.get_input_details()[0]["index"]
    interpreter.resize_tensor_input(index, shape)
    with pytest.raises(RuntimeError, match="tensor image is not that of the program: its type and its shape are fixed"):
        interpreter.allocate_tensors()
    interpreter.resize_tensor_input(index, [1, 5, 4, 3])
    np.testing.assert_equal(runs(interpreter, 1), first)


def unread() -> Model:
    """Only one of two halves is read."""
    b = ModelBuilder("unread")
    halves = b.add_many("SPLIT", [b.constant(np.array(1, np.int32)), b.input((1, 8), scale=0.1)], 2)
    return b.model(b.add("LOGISTIC", [halves[0]]))


def with_operator(data: bytes, **changes: Any) -> bytes:
    """Return a mixed model with the accelerated operator changed."""
    model = parse_model(data, "m", rules=False)
    operators = [replace(op, **changes) if is_accelerated(op) else op for op in model.main.operators]
    return write_model(replace(model, subgraphs=(replace(model.main, operators=tuple(operators)),)))


@needs_headers
def test_a_result_that_nobody_reads(library: str, port: str) -> None:
    """It has no memory in LiteRT."""
    whole = partition(parse_model(write_model(unread()), "m", rules=False), TINY).model
    delegate = litert.load_delegate(library, {"port": port})
    found = runs(litert.Interpreter(model_content=write_model(compact(whole)), experimental_delegates=[delegate]), 2)
    assert len(whole.main.operators[0].outputs) == 2
    np.testing.assert_equal(found, by_litert(unread(), 2))


@needs_headers
@pytest.mark.parametrize(("changes", "message"), [
    ({"inputs": (-1,)}, "tensor image is not that of the program"),
    ({"custom_options": b""}, "tq-hw: "),
    ({"custom_options": b"TQHM" * 40}, "tq-hw: "),
])
def test_a_damaged_operator_is_rejected(library: str, port: str, changes: dict[str, Any], message: str) -> None:
    delegate = litert.load_delegate(library, {"port": port})
    interpreter = litert.Interpreter(model_content=with_operator(mixed(topk_head()), **changes),
                                     experimental_delegates=[delegate])
    with pytest.raises(RuntimeError, match=message):
        interpreter.allocate_tensors()


@needs_headers
@pytest.mark.parametrize(("options", "message"), [
    ({}, "tq-hw: name port, or uio, and not both"),
    ({"port": "/nowhere", "uio": "/nowhere"}, "tq-hw: name port, or uio, and not both"),
    ({"port": "/nowhere"}, "tq-hw: port /nowhere: No such file or directory"),
    ({"port": "/nowhere", "baud": "fast"}, "tq-hw: baud and seconds are whole numbers above 0"),
    ({"tty": "/nowhere"}, "tq-hw: there is no option tty; options are port, baud, uio, udmabuf and seconds"),
    ({"uio": "/nowhere", "udmabuf": "/dev/nowhere"},
     "tq-hw: /dev/nowhere: there is no such buffer: load the kernel module u-dma-buf")])
def test_invalid_options(library: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match="Failed to load delegate") as caught:
        litert.load_delegate(library, options)
    assert message in str(caught.value)


def test_missing_headers_are_named() -> None:
    made = subprocess.run(["make", "-s", "-C", FIRMWARE, "delegate", "BUILD=/nowhere", "LITERT_ROOT=/nowhere"],
                          capture_output=True, text=True)
    assert made.returncode == 2
    assert ("LITERT_ROOT must name a folder with tflite/c/common.h or tensorflow/lite/c/common.h, a checkout of LiteRT "
            'or TensorFlow; it is "/nowhere"') in made.stderr
