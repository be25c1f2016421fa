"""`tq-hw verify` where one case fails by a defect or a stopped machine: the cases after it are verified."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tq_hw.cli import verifier
from tq_hw.compiler.compile import Compiled
from tq_hw.isa.config import Config
from tq_hw.model.errors import DataflowError, TqError
from tq_hw.model.graph import Model
from tq_hw.sim.faults import SimulationError

Tq = Callable[..., Any]


@pytest.mark.parametrize("error", [DataflowError("internal error: RUN 3 reads"), SimulationError("stopped at RUN 3")])
def test_the_cases_after_it_are_verified(tq: Tq, case: Path, monkeypatch: pytest.MonkeyPatch, error: TqError) -> None:
    compile_all = verifier.compile_all

    def fail_at_one(model: Model, config: Config, source: str, *options: Any) -> Compiled:
        if Path(source).stem == "defect":
            raise error
        return compile_all(model, config, source, *options)

    monkeypatch.setattr(verifier, "compile_all", fail_at_one)
    Path("defect.tflite").write_bytes(case.read_bytes())
    result = tq("verify", "defect.tflite", case.name, "--engine", "executor", "--config", "tiny")
    assert (result.code, result.err) == (1, "tq-hw: 1 of 2 cases differ; first defect\n")
    assert result.out == (f"failed      defect: {error}\n"
                          "passed      small: 2 input sets equal the stored expectations\n"
                          "1 passed, 1 failed, 0 unsupported\n")
