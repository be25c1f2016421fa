"""`--profile` of compile, sim, verify and report."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tq_hw.isa.program_file import load
from tq_hw.model.graph import PROFILES
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim import golden

Tq = Callable[..., Any]
TINY = ["--engine", "executor", "--config", "tiny"]
#: What a public engine is held against.
ORACLES = {"tflm": "TFLite Micro", "litert": "LiteRT's reference kernels"}


@pytest.fixture
def relu6_dense(tmp_path: Path) -> Path:
    """RELU6 (TFLite Micro's does not rescale) and a dense layer with halves (LiteRT's is in double): `two.tflite`."""
    rng, b = np.random.default_rng(1), ModelBuilder("two")
    gate = b.add("RELU6", [b.input((8, 6), scale=2.0**-5, zero_point=3, name="x")], scale=2.0**-6, zero_point=-5)
    weights = b.constant(rng.integers(-127, 128, (30, 6)).astype(np.int8), scale=2.0**-8)
    dense = b.add("FULLY_CONNECTED", [gate, weights, b.bias(gate, weights, rng.integers(-99, 99, 30))], scale=2.0**-8)
    path = tmp_path / "two.tflite"
    path.write_bytes(b.build(dense))
    return path


def sets() -> np.ndarray:
    return np.random.default_rng(2).integers(-128, 128, (2, 8, 6)).astype(np.int8)


def expected(path: Path) -> dict[str, np.ndarray]:
    """Outputs of the golden model by profile."""
    model = parse_model(path.read_bytes(), "two")
    return {profile: np.stack([golden.run(model.under(profile), [x]).outputs[0] for x in sets()])
            for profile in PROFILES}


def test_the_model_tells_profiles_apart(relu6_dense: Path) -> None:
    canon, tflm, litert = expected(relu6_dense).values()
    assert (canon != tflm).any() and (canon != litert).any() and (tflm != litert).any()


@pytest.mark.parametrize("profile", PROFILES)
def test_compile_and_sim(tq: Tq, relu6_dense: Path, profile: str) -> None:
    np.savez("in.npz", x=sets())
    right = expected(relu6_dense)[profile]
    report = json.loads(tq("compile", "two.tflite", "--config", "tiny", "--profile", profile, "--json", "-").out)
    assert (report["profile"], load("two.tqm").profile) == (profile, profile)
    runs = [["two.tflite", *TINY, "--profile", profile], ["two.tflite", "--engine", "golden", "--profile", profile],
            ["two.tqm", "--engine", "executor"], ["two.tqm", "--engine", "executor", "--profile", profile]]
    for arguments in runs:
        result = tq("sim", *arguments, "--inputs", "in.npz", "--outputs", "o.npz", "--json", "-")
        assert (result.code, result.err, json.loads(result.out)["profile"]) == (0, "", profile)
        with np.load("o.npz") as outputs:
            assert np.array_equal(outputs["output_0"], right)
    assert f"profile      {profile}\n" in tq("compile", "two.tflite", "--config", "tiny", "--profile", profile).out


def test_dump_is_of_the_profile(tq: Tq, relu6_dense: Path) -> None:
    model = parse_model(relu6_dense.read_bytes(), "two").under("tflm")
    name = model.main.tensors[1].name
    np.savez("in.npz", x=sets()[0])
    assert tq("sim", "two.tflite", *TINY, "--profile", "tflm", "--inputs", "in.npz", "--outputs", "o.npz", "--dump",
              name).code == 0
    with np.load("o.npz") as outputs:
        assert np.array_equal(outputs[name], golden.run(model, [sets()[0]], keep=True).tensors[1])


@pytest.mark.parametrize("profile", ORACLES)
@pytest.mark.parametrize("engine", ["executor", "golden"])
def test_verify_against_the_engine(tq: Tq, relu6_dense: Path, profile: str, engine: str) -> None:
    arguments = ["two.tflite", "--engine", engine, "--config", "tiny", "--oracle", profile]
    assert tq("verify", *arguments, "--profile", profile).out == (
        f"passed      two: 3 input sets equal {ORACLES[profile]}\n1 passed, 0 failed, 0 unsupported\n")
    assert tq("verify", *arguments).code == 1


@pytest.mark.parametrize("profile", PROFILES)
def test_verify_takes_the_stored_expectations_of_the_profile(tq: Tq, relu6_dense: Path, profile: str) -> None:
    right = expected(relu6_dense)
    np.savez("two.npz", input_0=sets(), expected_0=right["canon"], tflm_0=right["tflm"], ref_0=right["litert"])
    result = tq("verify", "two.tflite", *TINY, "--profile", profile)
    assert result.out == ("passed      two: 2 input sets equal the stored expectations\n"
                          "1 passed, 0 failed, 0 unsupported\n")
    np.savez("two.npz", input_0=sets(), expected_0=right[profile])
    assert tq("verify", "two.tflite", *TINY, "--profile", profile).code == 0
    other = next(each for each in PROFILES if each != profile)
    assert tq("verify", "two.tflite", *TINY, "--profile", other).code == 1


def test_a_difference_is_found_in_the_profile(tq: Tq, relu6_dense: Path) -> None:
    right = expected(relu6_dense)["tflm"]
    wrong = right.copy()
    wrong[0, 0, 0] ^= 1
    np.savez("two.npz", input_0=sets(), expected_0=wrong)
    assert tq("verify", "two.tflite", *TINY, "--profile", "tflm", "--json", "-").err == (
        f"tq-hw: 1 of 1 cases differ; first two: input set 0, output 0, element [0, 0] is {right[0, 0, 0]}, expected "
        f"{wrong[0, 0, 0]} (1 of 240 differ) by the stored expectations; the golden model agrees with the "
        "executor\n")


def test_report(tq: Tq, relu6_dense: Path) -> None:
    result = tq("report", "two.tflite", "-o", "two.html", *TINY, "--profile", "litert")
    assert (result.code, result.err) == (0, "")
    assert "litert" in Path("two.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(("arguments", "message"), [
    (["sim", "two.tqm", "--engine", "executor", "--profile", "canon"],
     "two.tqm: is compiled for profile tflm, not for canon; compile it again or leave --profile out"),
    (["sim", "two.tflite", "--profile", "xnnpack"], "Invalid value for '--profile': 'xnnpack' is not one of 'canon', "
     "'tflm', 'litert'. Try 'tq-hw sim --help'."),
    (["verify", "two.tflite", "--profile", "tflm", "--oracle", "litert"], "--profile tflm is the arithmetic of TFLite "
     "Micro: it cannot be compared with --oracle litert; name --oracle tflm or golden"),
    (["verify", "two.tflite", "--profile", "litert", "--oracle", "tflm"], "--profile litert is the arithmetic of "
     "LiteRT's reference kernels: it cannot be compared with --oracle tflm; name --oracle litert or golden"),
    (["verify", "two.tqm"], "two.tqm: expected a .tflite model, found a compiled file; `tq-hw sim` runs it"),
])
def test_what_does_not_go_together(tq: Tq, relu6_dense: Path, arguments: list[str], message: str) -> None:
    tq("compile", "two.tflite", "--config", "tiny", "--profile", "tflm")
    result = tq(*arguments)
    assert (result.code, result.err) == (2, f"tq-hw: {message}\n")
