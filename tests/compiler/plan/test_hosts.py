"""Nested tensors, in the scratchpad and in memory, equal golden; and where no copy is needed."""

import numpy as np
import pytest
from nested import CASES, Net

from tq_hw.compiler import compile_model
from tq_hw.compiler.ir.staged import Move
from tq_hw.compiler.lower.legalize import legalize
from tq_hw.compiler.specialize.in_place import in_place
from tq_hw.isa.config import load_config
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run


def _check(name: str, shape: tuple[int, int, int], config: str, *, resident: bool) -> None:
    net = Net(shape)
    model = parse_model(net.b.build(*CASES[name](net)), name)
    image = np.random.default_rng(1).integers(-128, 128, (1, *shape)).astype(np.int8)
    program = compile_model(model, load_config(config), resident=resident).program
    for got, want in zip(execute(program, [image], seed=1, check_races=True).outputs, run(model, [image]).outputs,
                         strict=True):
        np.testing.assert_array_equal(got, want, strict=True)


@pytest.mark.parametrize("config", ["n16", "tiny"])
@pytest.mark.parametrize("shape", [(1, 1, 16), (4, 3, 16)], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_nested_tensors_equal_golden(name: str, shape: tuple[int, int, int], config: str) -> None:
    _check(name, shape, config, resident=False)


@pytest.mark.slow
@pytest.mark.parametrize("resident", [False, True])
@pytest.mark.parametrize("config", ["n16", "n9x8", "n8", "tiny"])
@pytest.mark.parametrize("shape", [(1, 1, 16), (1, 5, 16), (4, 1, 8), (6, 7, 16)], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_nested_tensors_equal_golden_in_a_sweep(name: str, shape: tuple[int, int, int], config: str,
                                                resident: bool) -> None:
    _check(name, shape, config, resident=resident)


def test_nested_concatenations_of_one_pixel_are_written_where_they_belong() -> None:
    net = Net((1, 1, 16))
    model = parse_model(net.b.build(*CASES["inception"](net)), "inception")
    assert not any(isinstance(layer, Move) for layer in in_place(legalize(model)).layers)
    compiled = compile_model(model, load_config("n16"))
    assert len(compiled.emitter.plan.parts) == 5
    stored = {compiled.program.layers[layer].name for layer in range(len(compiled.program.layers))
              if "store" in compiled.program.layers[layer].runs}
    assert stored == {port.name for port in compiled.program.outputs}
