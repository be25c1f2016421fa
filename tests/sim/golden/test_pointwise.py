"""Functions of one int8, golden and compiled, equal LiteRT's; each operator of a file `pointwise_*.py` is a line."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.model.errors import ModelError, TqError, UnsupportedError
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.pointwise import POINTWISE
from tq_hw.sim.golden.registry import KERNELS
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import Oracle

#: Engines with which each operator is compared.
ENGINES = {"ABS": ("litert-ref", "tflm"), "RELU_0_TO_1": ("litert-ref",), "GELU": ("litert-ref",),
           "NEG": ("litert-ref",), "EXP": ("litert-ref",), "LOG": ("litert-ref",), "RSQRT": ("litert-ref", "tflm"),
           "SQRT": ("litert-ref",),
           # The reference resolver has no ELU.
           "ELU": ("litert-opt",)}
#: Operators that TFLite Micro computes differently; its profile follows it.
OF_TFLM = ("ELU", "RSQRT")
EVERY = np.arange(-128, 128).astype(np.int8)


def tables(op: str, rng: np.random.Generator, count: int) -> bytes:
    """A model of `count` operators, each on its own input of 256 codes, with scales of all magnitudes."""
    b, outputs = ModelBuilder(op), []
    for _ in range(count):
        scale = float(np.float32(10.0 ** rng.uniform(-3.5, -0.5)))
        point, out_point = (int(rng.choice([-128, 127, 0, int(rng.integers(-128, 128))])) for _ in range(2))
        natural = {"EXP": np.exp((127 - point) * scale) / 200, "LOG": 0.03, "RSQRT": 0.06 / scale**0.5,
                   "SQRT": (255 * scale)**0.5 / 200}.get(op, scale)
        x = b.input((256,), scale=scale, zero_point=-128 if op in ("RSQRT", "SQRT") else point)
        options = {"approximate": bool(rng.integers(2))} if op == "GELU" else {}
        outputs.append(b.add(op, [x], shape=(256,), scale=float(np.float32(natural * rng.choice([1, 0.3, 1.7, 3]))),
                             zero_point=out_point, options=options))
    return b.build(*outputs)


def test_every_operator_is_listed() -> None:
    assert sorted(ENGINES) == sorted(POINTWISE)


@pytest.mark.parametrize("op", ENGINES)
def test_equals_the_engines(op: str, agree: Callable[..., None]) -> None:
    data = tables(op, np.random.default_rng(0), 24)
    for engine in ENGINES[op]:
        agree(engine, data, [[EVERY] * 24])
    model = parse_model(tables(op, np.random.default_rng(1), 3), op)
    found = execute(compile_model(model, load_config("n16")).program, [EVERY] * 3).outputs
    for ours, theirs in zip(found, run(model, [EVERY] * 3).outputs, strict=True):
        np.testing.assert_array_equal(ours, theirs, strict=True)


@pytest.mark.parametrize("op", OF_TFLM)
def test_equals_tflm_under_its_profile(op: str, oracles: Callable[[str], Oracle]) -> None:
    data = tables(op, np.random.default_rng(2), 24)
    expected = oracles("tflm").run(data, [EVERY] * 24)
    for ours, theirs in zip(run(parse_model(data, op).under("tflm"), [EVERY] * 24).outputs, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs, strict=True)


@pytest.mark.slow
@pytest.mark.parametrize("op", ENGINES)
def test_sweep_of_scales(op: str, agree: Callable[..., None]) -> None:
    for seed in range(10):
        agree(ENGINES[op][0], tables(op, np.random.default_rng([seed, 7]), 100), [[EVERY] * 100])


@pytest.mark.parametrize(("op", "quantization", "message"), [
    ("RSQRT", (0.1, 3, 0.1), "operator 0 (RSQRT): the input must have zero point -128, or come from squares, because "
     "the kernel refuses negative values; found 3"),
    ("SQRT", (0.1, 3, 0.1), "operator 0 (SQRT): the input must have zero point -128, or come from squares, because the "
     "kernel refuses negative values; found 3"),
    ("SQRT", (1e20, -128, 1e-20), "operator 0 (SQRT): results must be below 2^31 times the output scale; above that, "
     "the kernel's result is undefined; use a larger output scale"),
    ("EXP", (0.5, -128, 0.01), "operator 0 (EXP): results must be finite and below 2^31 times the output scale "
     "0.009999999776482582, that of 17 is not, and the kernels' result is undefined; use a larger output "
     "scale")])
def test_refused_scales(op: str, quantization: tuple[float, int, float], message: str) -> None:
    scale, point, out_scale = quantization
    b = ModelBuilder("m")
    out = b.add(op, [b.input((3,), scale=scale, zero_point=point)], shape=(3,), scale=out_scale)
    with pytest.raises(UnsupportedError) as caught:
        compile_model(parse_model(b.build(out), "m"), load_config("n16"))
    assert str(caught.value) == message


@pytest.mark.parametrize(("output", "message"), [
    ({"shape": (3, 1)}, (ModelError, "operator 0 (ABS): output 0 has shape [3, 1], expected [3]")),
    ({"shape": (3,), "dtype": "int32"},
     (UnsupportedError, "operator 0 (ABS): output must be int8 with a scale and a zero point, not int32"))])
def test_refusals(output: dict[str, object], message: tuple[type[TqError], str]) -> None:
    b = ModelBuilder("m")
    out = b.add("ABS", [b.input((3,), scale=0.1)], **output)  # type: ignore[arg-type]  # mixed options
    with pytest.raises(message[0]) as caught:
        compile_model(parse_model(b.build(out), "m", check=False), load_config("n16"))
    assert str(caught.value) == message[1]


def test_the_file_of_the_guide_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file in docs/guide/add-an-operator.md, copied as it is, implements the operator."""
    ours = POINTWISE["EXP"]
    guide = (Path(__file__).parents[3] / "docs" / "guide" / "add-an-operator.md").read_text(encoding="utf-8")
    monkeypatch.setitem(POINTWISE, "EXP", ours)
    monkeypatch.delitem(KERNELS, "EXP")
    exec(compile(re.findall(r"^```python\n(.*?)^```$", guide, re.M | re.S)[0], "guide", "exec"), {})
    assert POINTWISE["EXP"] is not ours
    model = parse_model(tables("EXP", np.random.default_rng(1), 3), "EXP")
    found = run(model, [EVERY] * 3).outputs
    monkeypatch.undo()
    for theirs, output in zip(found, run(model, [EVERY] * 3).outputs, strict=True):
        np.testing.assert_array_equal(theirs, output, strict=True)
