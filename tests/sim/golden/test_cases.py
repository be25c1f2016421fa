"""Every conformance case and network of ../shared: the golden model gives exactly the expected values."""

import json
from pathlib import Path

import numpy as np
import pytest

from tq_hw.model.tflite.reader import read_model
from tq_hw.sim.golden.run import run


def check(stem: Path) -> int:
    """Compare every input set; return the number of sets."""
    model = read_model(stem.with_suffix(".tflite"))
    with np.load(stem.with_suffix(".npz")) as archive:
        arrays = dict(archive)
    sets = arrays["expected_0"].shape[0]
    for number in range(sets):
        # A stateful model starts each set from the initial state, the default of `run`.
        inputs = [arrays[f"input_{position}"][number] for position in range(len(model.main.inputs))]
        for position, output in enumerate(run(model, inputs).outputs):
            expected = arrays[f"expected_{position}"][number]
            assert output.dtype == expected.dtype
            np.testing.assert_array_equal(output, expected, strict=True)
    return sets


def test_all_cases(shared: Path) -> None:
    cases = json.loads((shared / "cases" / "index.json").read_text(encoding="utf-8"))["cases"]
    assert len(cases) == 314
    failed, sets = [], 0
    for case in cases:
        try:
            sets += check(shared / "cases" / "cases" / case["name"])
        except Exception as error:
            failed.append(f"{case['name']}: {type(error).__name__}: {error}")
    assert not failed, "\n".join(failed)
    assert sets == 1763


@pytest.mark.parametrize("name", ["dscnn_kws", "mlp_autoencoder", "mobilenetv2_035_96", "portrait"])
def test_networks(shared: Path, name: str) -> None:
    assert check(shared / "cases" / "nets" / name) > 0
