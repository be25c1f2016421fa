"""`tq_hw.host`: sessions over memory-mapped registers and over a UART behave the same."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tq_hw
from tq_hw.boards.link import uio
from tq_hw.boards.link.host import Link
from tq_hw.host import Session, open_uio
from tq_hw.isa.program_file import to_bytes
from tq_hw.model.errors import OptionError
from tq_hw.model.samples.typical import typical
from tq_hw.model.tflite.writer import write_model


@pytest.fixture
def compiled(tmp_path: Path) -> Any:
    path = tmp_path / "sum.tflite"
    path.write_bytes(write_model(typical("ADD")))
    return tq_hw.load(path).compile("tiny")


@pytest.mark.parametrize("way", ["uio", "uart"])
def test_a_session(way: str, compiled: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(Path(__file__).parents[1] / "boards"), *sys.path])
    from fake_uio import FakeUio
    from line import BadLine

    fake = FakeUio(tmp_path, compiled.program)
    monkeypatch.setattr(uio, "_SYSFS", fake.sysfs)
    line: Any = BadLine(fake.board, seed=1, one_in=0)
    line.close = lambda: None
    with fake, (open_uio(str(fake.uio), str(fake.buffer)) if way == "uio" else Session(Link(line), line)) as session:
        with pytest.raises(OptionError, match="^no model is loaded$"):
            session.run([])
        with pytest.raises(OptionError, match="^nothing has been run yet$"):
            _ = session.cycles
        path = tmp_path / "sum.tqm"
        path.write_bytes(to_bytes(compiled.program))
        for model in (path, compiled, compiled.program)[:3 if way == "uio" else 1]:
            session.load(model)
            rng = np.random.default_rng(3)
            inputs = [rng.integers(-128, 128, port.shape).astype(np.int8) for port in compiled.program.inputs]
            expected = compiled.simulate(inputs, engine="executor").outputs
            found = session.run(inputs)
            assert all(np.array_equal(one, other) for one, other in zip(found, expected, strict=True))
            assert session.cycles == 1000
        with pytest.raises(OptionError, match="expected one input set, found arrays with one more axis$"):
            session.run([array[None] for array in inputs])
