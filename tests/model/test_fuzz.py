"""Broken models end in a program or in one clear message: findings of long runs, and a short run."""

import sys
from pathlib import Path

import numpy as np
import pytest

from tq_hw.isa.config import load_config
from tq_hw.model.samples.layers import sample
from tq_hw.model.tflite.reader import parse_model
from tq_hw.model.tflite.writer import write_model

sys.path.insert(0, str(Path(__file__).parents[2] / "benches"))
from fuzz_models import check_one, main
from model_mutations import mutate_bytes, mutate_graph, sites_of

#: benches/fuzz_models.py allows 2 s of CPU time and 2 ms a command; this limit only detects work without end, even on a
#: busy machine.
_SECONDS = 20.0
CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.tflite"))


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_findings_of_long_runs(path: Path) -> None:
    assert check_one(path.read_bytes(), load_config("n16"), _SECONDS) in ("compiled", "ModelError", "UnsupportedError")


def test_mutations_reach_every_stage() -> None:
    data = write_model(sample("conv", 1))
    sites, model = sites_of(data), parse_model(data, "conv")
    assert {form for _, form in sites} >= {"H", "I", "i", "b"}
    verdicts = set()
    for seed in range(200):
        rng = np.random.default_rng(seed)
        broken = mutate_bytes(rng, data, sites) if seed % 2 else mutate_graph(rng, model)
        if broken:
            verdicts.add(check_one(broken, load_config("n16"), _SECONDS))
    assert verdicts >= {"compiled", "ModelError", "UnsupportedError"}


def test_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["--inputs", "20", "--keep", str(tmp_path), "--megabytes", "100000"]) == 0
    assert capsys.readouterr().out.startswith("20 inputs: {")


def test_a_traceback_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ValueError("broken")
    monkeypatch.setattr("fuzz_models.compile_model", fail)
    with pytest.raises(AssertionError, match="ValueError in test_fuzz.py:fail: broken"):
        check_one(write_model(sample("conv", 1)), load_config("n16"))
