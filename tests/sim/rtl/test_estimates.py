"""The compiler's estimate for each layer is near the RTL, as benches/estimates.py checks for all networks."""

from pathlib import Path
from statistics import median

import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.isa.layout import Unit
from tq_hw.model.tflite.reader import read_model
from tq_hw.sim.engines import random_inputs
from tq_hw.sim.rtl.simulate import simulate

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits.tflite"
NETWORKS = ("tflm_hello_world_int8", "tinymaix_mnist_valid_q", "mww_okay_nabu_v2_streaming", "tflm_micro_speech")


def errors(path: Path, config: str) -> list[float]:
    """Return the relative error of each layer that takes at least 1 % of the cycles."""
    program = compile_model(read_model(path), load_config(config)).program
    result = simulate(program, random_inputs(program, seed=1))
    estimates = {layer.index: layer.estimated_cycles for layer in program.layers}
    return [abs(estimates[index] - cycles) / cycles for index, cycles in result.layer_cycles.items()
            if cycles >= result.cycles / 100]


@pytest.mark.parametrize("config", ["tiny", "n8"])
def test_layers_take_what_is_estimated(config: str, shared: Path) -> None:
    found = [error for path in (DIGITS, *(shared / "models" / f"{name}.tflite" for name in NETWORKS))
             for error in errors(path, config)]
    assert len(found) > 20
    assert median(found) <= 0.03
    assert max(found) <= 0.12


@pytest.mark.parametrize("config", ["tiny", "n8"])
def test_fetch_load_and_store_take_what_is_documented(config: str) -> None:
    """Exact to the cycle: the first operations, before small differences add up, and the only store."""
    compiled = compile_model(read_model(DIGITS), load_config(config))
    seen = simulate(compiled.program, random_inputs(compiled.program, seed=1)).timeline
    expected = compiled.timeline
    assert expected[Unit.LOAD][:3].tolist() == seen[Unit.LOAD][:3].tolist()
    for unit in (Unit.ARRAY, Unit.VECTOR):
        assert expected[unit][:3, 1].tolist() == seen[unit][:3, 1].tolist()
    assert len(seen[Unit.STORE]) == 1
    assert (expected[Unit.STORE][:, 1] - expected[Unit.STORE][:, 0] == seen[Unit.STORE][:, 1] - seen[Unit.STORE][:, 0]
            ).all()
