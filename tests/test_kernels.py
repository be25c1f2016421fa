"""Every operator on every type of integers: equal to an engine, or refused by name, and never anything else."""

import importlib
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tq_hw.sim.oracles import ENGINES, Oracle, available

sys.path.insert(0, str(Path(__file__).parents[1] / "benches"))
forms: Any = importlib.import_module("kernel_forms")
kernels: Any = importlib.import_module("kernels")


@pytest.fixture(scope="module")
def oracles() -> Iterator[dict[str, Oracle]]:
    missing = [ENGINES[engine][0] for engine in kernels.ENGINES if not available(engine)]
    if missing:
        pytest.skip(f'{missing[0]} is not installed: pip install "tq-hw[oracles]"')
    started = {engine: Oracle(engine) for engine in kernels.ENGINES}
    yield started
    for oracle in started.values():
        oracle.close()


@pytest.mark.xdist_group("kernels")
@pytest.mark.parametrize("dtype", forms.TYPES)
def test_no_form_differs_or_ends_in_a_traceback(oracles: dict[str, Oracle], dtype: str) -> None:
    answers = {name: kernels.ask(name, dtype, oracles) for name in forms.FORMS}
    assert {name: answer for name, answer in answers.items() if answer.is_wrong} == {}
    # Of uint8 only what moves is taken.
    found = Counter(answer.verdict for answer in answers.values())
    assert found["equal"] >= {"int8": 90, "int16": 80, "int32": 70, "int64": 45}.get(dtype, 35)


def test_a_refusal_names_the_engine_and_the_reason(oracles: dict[str, Oracle], capsys: pytest.CaptureFixture[str]
                                                   ) -> None:
    assert kernels.main(["--operators", "WHERE", "NEG", "--types", "int8", "bool"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("refused WHERE int8 (litert-ref): not supported: WHERE (operator 0)")
    assert lines[-1] == "1 equal, 1 neither, 2 refused"
