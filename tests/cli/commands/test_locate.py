"""A fault injected into one engine is located: operator, tile, element, stage."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tq_hw.cli import verifier
from tq_hw.compiler import compile_model
from tq_hw.isa.config import PRESETS
from tq_hw.isa.layout import Unit
from tq_hw.isa.operations import operations
from tq_hw.isa.uop import Rounding
from tq_hw.model.graph import Model
from tq_hw.model.tflite.reader import read_model
from tq_hw.sim import engines
from tq_hw.sim.diagnose.patch import Tile, find_tile
from tq_hw.sim.diagnose.tensors import with_outputs
from tq_hw.sim.executor import execute, uop

Tq = Callable[..., Any]
FIRST = re.compile(r"first at operator 0 \(CONV_2D\), tensor 't3', tile \d+ of vector RUN \d+ \(output block 0, slots "
                   r"\d+\.\.\d+\), element (\[[\d, ]+\]): -?\d+, expected -?\d+ \(\d+ of 120 differ\); the golden "
                   r"model has accumulator (-?\d+), after multiply -?\d+, after shift (-?\d+), after clamp -?\d+; the "
                   r"first stage that differs is (.*)\n")


def found(tq: Tq, model: Path) -> re.Match[str]:
    result = tq("verify", model.name, "--engine", "executor", "--config", "tiny", "--sets", "1")
    assert result.code == 1
    match = FIRST.search(result.out)
    assert match is not None, result.out
    return match


def test_wrong_accumulator(tq: Tq, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler adds 64 to the bias of channel 2."""
    def wrong(graph: Model, *arguments: Any, **options: Any) -> Any:
        tensors = [replace(t, data=t.data + np.array([0, 0, 64, 0], np.int32))
                   if t.dtype == "int32" and t.data is not None and t.data.size == 4 else t for t in graph.main.tensors]
        main = replace(graph.main, tensors=tuple(tensors))
        return compile_model(replace(graph, subgraphs=(main,)), *arguments, **options)

    monkeypatch.setattr(verifier, "compile_model", wrong)
    monkeypatch.setattr("tq_hw.cli.subject.compile_model", wrong)
    match = found(tq, model)
    acc = int(match[2])
    assert match[1].endswith(", 2]")
    assert match[4] == f"accumulator: its low byte is {acc + 64 & 0xFF:#04x}, expected {acc & 0xFF:#04x}"


def test_wrong_rounding(tq: Tq, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The executor rounds down instead of half away from zero."""
    right = uop._shift_right
    monkeypatch.setattr(uop, "_shift_right", lambda x, by, rounding: right(x, by, Rounding.FLOOR))
    match = found(tq, model)
    after_shift = int(match[3])
    assert match[4] == f"after shift: its low byte is {after_shift - 1 & 0xFF:#04x}, expected {after_shift & 0xFF:#04x}"


def test_wrong_order_is_told_apart(tq: Tq, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The executor fails only if no tensor but the last one is stored."""
    def wrong(program: Any, inputs: Sequence[np.ndarray]) -> Any:
        result = execute(program, inputs)
        if len(program.outputs) > 1:
            return result
        outputs = [array ^ 1 for array in result.outputs]
        return replace(result, outputs=tuple(outputs))

    monkeypatch.setattr(engines, "execute", wrong)
    result = tq("verify", model.name, "--engine", "executor", "--config", "tiny", "--sets", "1")
    assert result.code == 1
    assert "; no operator differs when every intermediate tensor is stored, so the difference lies in" in result.out


def test_sim_tells_a_difference_and_writes_what_it_found(tq: Tq, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(program: Any, inputs: Sequence[np.ndarray]) -> Any:
        result = execute(program, inputs)
        outputs = [array.copy() for array in result.outputs]
        outputs[0][0, 1, 1, 1] ^= 1
        return replace(result, outputs=tuple(outputs))

    monkeypatch.setattr(engines, "execute", wrong)
    result = tq("sim", model.name, "--engine", "executor", "--config", "tiny", "--outputs", "o.npz")
    assert result.code == 1
    assert re.fullmatch(r"tq-hw: small\.tflite: input set 0, output 0, element \[0, 1, 1, 1\] is -?\d+, expected -?\d+ "
                        r"\(1 of 24 differ\) by the golden model; `tq-hw verify` finds the operator\n", result.err)
    assert Path("o.npz").is_file()


@pytest.mark.parametrize("config", ["tiny", "n9x8", "n16x8"])
def test_tiles_share_the_elements_out(model: Path, config: str) -> None:
    """Each tile holds as many pixels as it has slots, in order, with all channels of each pixel."""
    program = compile_model(with_outputs(read_model(model), [3]), PRESETS[config]).program
    runs = {run.run: run for run in operations(program.commands, program.config)[Unit.VECTOR]}
    elements: dict[Tile, list[int]] = {}
    for element in range(6 * 5 * 4):
        tile = find_tile(program, program.outputs[1], element, 0)
        assert tile is not None
        elements.setdefault(tile, []).append(element)
    for tile, held in elements.items():
        assert len(held) == 4 * (tile.last - tile.first + 1)
        assert held == list(range(held[0], held[0] + len(held)))
        assert tile.first == tile.number * runs[tile.run].fields["tile_slots"]
        assert tile.block == 0
    assert list(elements) == sorted(elements, key=lambda tile: (tile.run, tile.number))
