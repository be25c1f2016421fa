"""Conformance cases and networks of ../shared, compiled, on the executor: exactly the expected values."""

import json
from pathlib import Path

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.model.tflite.reader import read_model
from tq_hw.sim.executor import execute


@pytest.fixture
def cases(shared: Path) -> Path:
    return shared / "cases"


def check(stem: Path, config_name: str, limit: int) -> None:
    """Compare the first `limit` input sets."""
    model = read_model(stem.with_suffix(".tflite"))
    program = compile_model(model, load_config(config_name)).program
    with np.load(stem.with_suffix(".npz")) as archive:
        arrays = dict(archive)
    for number in range(min(limit, arrays["expected_0"].shape[0])):
        inputs = [arrays[f"input_{position}"][number] for position in range(len(model.main.inputs))]
        found = execute(program, inputs, seed=number, check_races=True).outputs
        for position, output in enumerate(found):
            np.testing.assert_array_equal(output, arrays[f"expected_{position}"][number], strict=True)


@pytest.mark.slow
@pytest.mark.parametrize("config_name", ["n16", "n8"])
def test_all_cases(cases: Path, config_name: str) -> None:
    index = json.loads((cases / "index.json").read_text(encoding="utf-8"))["cases"]
    failed = []
    for case in index:
        try:
            check(cases / "cases" / case["name"], config_name, 6)
        except Exception as error:
            failed.append(f"{case['name']}: {type(error).__name__}: {error}")
    assert not failed, f"{len(failed)} of {len(index)} cases failed:\n" + "\n".join(failed)


@pytest.mark.parametrize("config_name", ["n16", "n8"])
def test_one_case_of_each_operator(cases: Path, config_name: str) -> None:
    index = json.loads((cases / "index.json").read_text(encoding="utf-8"))["cases"]
    first = {case["op"]: case["name"] for case in reversed(index)}
    for name in first.values():
        check(cases / "cases" / name, config_name, 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dscnn_kws", "mlp_autoencoder", "mobilenetv2_035_96", "portrait"])
def test_networks(cases: Path, name: str) -> None:
    check(cases / "nets" / name, "n16", 1)
