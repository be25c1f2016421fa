"""Networks whose constants are loaded as coded rows: exact, smaller, and verified by what the rows decode to."""

from dataclasses import replace

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.compile import Compiled
from tq_hw.compiler.emit.coded import coded_rows
from tq_hw.compiler.verify import DataflowError, verify
from tq_hw.compiler.warm import warm_program
from tq_hw.isa.config import PRESETS, Config
from tq_hw.isa.layout import Unit
from tq_hw.isa.memory import Memory
from tq_hw.isa.operations import Operation, operations
from tq_hw.model.samples.layers import sample
from tq_hw.model.samples.networks import network
from tq_hw.sim.engines import random_inputs
from tq_hw.sim.executor import execute
from tq_hw.sim.golden import run

#: A memory as slow as a ULX3S's.
SLOW = Memory(30, 1.45)
CONFIGS = {name: replace(PRESETS[name], name=name, compressed_weights=1) for name in ("tiny", "n8", "n16x8")}
CONFIGS["odd"] = Config("odd", 12, 12, 4, 32 << 10, compressed_weights=1)


def coded_loads(compiled: Compiled) -> list[Operation]:
    program = compiled.program
    return [op for op in operations(program.commands, program.config)[Unit.LOAD] if op.fields["coded"]]


@pytest.mark.parametrize(("kind", "name"), [
    ("unet", "n8"), ("lstm", "n8"), ("mobilenet_v3", "n16x8"), ("ssd", "odd"), ("attention", "tiny")])
def test_networks_are_exact(kind: str, name: str) -> None:
    model, config = network(kind, 1), CONFIGS[name]
    compiled = compile_model(model, config, memory=SLOW)
    assert coded_loads(compiled)
    inputs = random_inputs(model, 1)
    first = execute(compiled.program, inputs, check_races=True, keep=True)
    again = execute(warm_program(compiled), inputs, check_races=True, state=first.state, scratchpad=first.scratchpad)
    golden = run(model, inputs)
    for found, want in ((first, golden), (again, run(model, inputs, golden.state))):
        for got, expected in zip(found.outputs, want.outputs, strict=True):
            np.testing.assert_array_equal(got, expected)


def test_without_the_option_nothing_is_coded() -> None:
    model = network("unet", 1)
    plain, coded = (compile_model(model, config, memory=SLOW) for config in (PRESETS["n8"], CONFIGS["n8"]))
    assert not coded_loads(plain)
    moved = [sum(layer.bytes_moved for layer in compiled.program.layers) for compiled in (plain, coded)]
    cycles = [sum(layer.estimated_cycles for layer in compiled.program.layers) for compiled in (plain, coded)]
    assert moved[1] < moved[0] and cycles[1] < cycles[0]


def test_rows_that_gain_nothing_stay_as_they_are() -> None:
    """Rows with values of all sizes; runs that are not rows of the array; decoding slower than the memory."""
    config, rng = CONFIGS["n8"], np.random.default_rng(1)
    spread, zeros = rng.integers(0, 256, 800, np.uint8).tobytes(), bytes(800)
    assert coded_rows(spread, 8, config, SLOW) is None and coded_rows(zeros, 4, config, SLOW) is None
    assert coded_rows(zeros, 8, PRESETS["n8"], SLOW) is None
    found = coded_rows(zeros, 8, config, SLOW)
    assert found is not None and len(found) == config.bus_bytes
    # Three rows and the two cycles of a block.
    assert coded_rows(bytes(24), 8, config, SLOW) is not None and coded_rows(bytes(24), 8, config, Memory()) is None


def test_the_check_decodes_them() -> None:
    """A bit of a coded run changes a weight, or shifts all that follows."""
    compiled = compile_model(sample("fully_connected", 3), CONFIGS["tiny"], memory=SLOW)
    loads = coded_loads(compiled)
    emitter = compiled.emitter
    verify(emitter)
    wrong = 0
    for load in loads[:2]:
        at = load.fields["memory_offset_bytes"] + 2
        emitter.image.data[at] ^= 1
        try:
            verify(emitter)
        except DataflowError:
            wrong += 1
        emitter.image.data[at] ^= 1
    assert loads and wrong == len(loads[:2])
