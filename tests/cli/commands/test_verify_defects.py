"""`tq-hw verify` where tq-hw has a defect in one case or the machine stops: the cases after it are verified."""

import json
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
_PASSED = "passed      small: 2 input sets equal the stored expectations\n"


@pytest.fixture
def fail_with(case: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[TqError], None]:
    """Return a function after which `wrong.tflite`, a copy of `case`, ends in an error when it is compiled."""
    compile_all = verifier.compile_all
    Path("wrong.tflite").write_bytes(case.read_bytes())

    def use(error: TqError) -> None:
        def compile_one(model: Model, config: Config, source: str, *options: Any) -> Compiled:
            if Path(source).stem == "wrong":
                raise error
            return compile_all(model, config, source, *options)

        monkeypatch.setattr(verifier, "compile_all", compile_one)

    return use


def test_a_defect_is_its_own_verdict(tq: Tq, case: Path, fail_with: Callable[[TqError], None]) -> None:
    fail_with(DataflowError("internal error: RUN 3 reads what nobody wrote"))
    command = ("verify", "wrong.tflite", case.name, "--engine", "executor", "--config", "tiny")
    result = tq(*command)
    said = "tq-hw: 1 of 2 cases show a defect of tq-hw; first wrong: internal error: RUN 3 reads what nobody wrote\n"
    assert (result.code, result.err) == (4, said)
    assert result.out == (f"defect      wrong: internal error: RUN 3 reads what nobody wrote\n{_PASSED}"
                          "1 passed, 0 failed, 0 unsupported, 1 defect\n")
    result = tq(*command, "--json", "-")
    report = json.loads(result.out)
    assert [report[status] for status in ("passed", "failed", "unsupported", "defect")] == [1, 0, 0, 1]
    assert (result.code, result.err) == (4, said)


def test_a_machine_that_stops_has_failed(tq: Tq, case: Path, fail_with: Callable[[TqError], None]) -> None:
    fail_with(SimulationError("stopped at RUN 3"))
    result = tq("verify", "wrong.tflite", case.name, "--engine", "executor", "--config", "tiny")
    assert (result.code, result.err) == (1, "tq-hw: 1 of 2 cases differ; first wrong\n")
    assert result.out == f"failed      wrong: stopped at RUN 3\n{_PASSED}1 passed, 1 failed, 0 unsupported\n"
