"""Programs on the Verilated RTL of the smallest configuration."""

from dataclasses import replace

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import PRESETS
from tq_hw.isa.control import Status
from tq_hw.isa.encode import Assembler
from tq_hw.isa.layout import Unit
from tq_hw.isa.memory import Memory
from tq_hw.isa.program import Layer, Port, Program
from tq_hw.model.errors import OptionError
from tq_hw.model.samples.layers import sample
from tq_hw.sim.diagnose.compare import require_equal
from tq_hw.sim.engines import random_inputs
from tq_hw.sim.executor import execute
from tq_hw.sim.faults import SimulationError
from tq_hw.sim.rtl.bench import Bench
from tq_hw.sim.rtl.build import library
from tq_hw.sim.rtl.simulate import simulate
from tq_hw.sim.rtl.waves import Waves

CONFIG = PRESETS["tiny"]


def copy_program(**changes: int) -> Program:
    """Load 64 bytes and store them elsewhere, with `changes` to the load."""
    assembler = Assembler(CONFIG)
    words = {"count0": 1, "count1": 16, "count2": 1, "count3": 1, "step1": 1, "region": 1}
    load = words | {"run_bytes": 64, "emit_bytes": 4, "advance_bytes": 4, "last_emit_bytes": 4, "last_advance_bytes": 4,
                    "post_store": 1}
    assembler.run(Unit.LOAD, load | changes)
    assembler.run(Unit.STORE, words | {"take_bytes": 4, "last_take_bytes": 4, "memory_offset_bytes": 100,
                                       "wait_load": 1})
    assembler.end()
    commands = assembler.to_bytes()
    port = Port("x", "uint8", (64,), 0.0, 0, 0, 64)
    return Program("copy", CONFIG, bytes(16) + commands, 16, len(commands), 164, bytes(5), (port,),
                   (replace(port, name="y", region_offset_bytes=100),),
                   (Layer(7, "RESHAPE", "y", "load", runs={"load": ((0, 0),), "store": ((0, 0),)}),))


DATA = np.arange(64, dtype=np.uint8) * 3


def test_chain_equals_the_executor():
    program = compile_model(sample("chain", 0), CONFIG).program
    inputs = random_inputs(program, 1)
    expected = execute(program, inputs).outputs
    quick = simulate(program, inputs, Memory(1, 16))
    slow = simulate(program, inputs, Memory(60, 0.75, stalls=4))
    for result in (quick, slow):
        require_equal(result.outputs, expected, "rtl")
        assert result.counters["cycles"] <= result.cycles <= result.counters["cycles"] + 20
        assert result.counters["read_beats"] == result.beats["read_beats"] > 0
        assert result.counters["write_beats"] == result.beats["write_beats"] > 0
        assert sum(result.layer_cycles.values()) == result.cycles
        assert all(0 < began < done <= result.cycles for times in result.timeline.values() for began, done in times)
    assert 2 * slow.cycles > 3 * quick.cycles


def test_copy():
    result = simulate(copy_program(), [DATA])
    assert np.array_equal(result.outputs[0], DATA) and result.state == bytes(5)
    assert list(result.layer_cycles) == [7]
    assert {unit: len(times) for unit, times in result.timeline.items()} == {
        Unit.LOAD: 1, Unit.ARRAY: 0, Unit.VECTOR: 0, Unit.STORE: 1}


@pytest.mark.parametrize(("changes", "status"), [
    ({"destination": 2040}, Status.BAD_ADDRESS), ({"region": 3}, Status.BUS_ERROR),
    ({"count3": 0}, Status.BAD_OPERATION), ({"post_load": 1}, Status.BAD_OPERATION),
])
def test_error_status(changes, status):
    with pytest.raises(SimulationError, match=rf"^load RUN 0 \(operator 7, RESHAPE 'y'\): {status.name}") as caught:
        simulate(copy_program(**changes), [DATA])
    assert (caught.value.status, caught.value.unit, caught.value.run) == (status, Unit.LOAD, 0)
    with pytest.raises(SimulationError) as same:
        execute(copy_program(**changes), [DATA])
    assert (same.value.status, same.value.unit, same.value.run) == (status, Unit.LOAD, 0)


def test_error_in_the_stream():
    program = copy_program()
    cut = replace(program, command_bytes=program.command_bytes - 4)
    with pytest.raises(SimulationError, match="^copy: NO_END in the command stream, at cycle ") as caught:
        simulate(cut, [DATA])
    assert (caught.value.status, caught.value.unit) == (Status.NO_END, Unit.CONTROL)


def test_hang():
    with pytest.raises(SimulationError, match=r"^copy: not finished after 2\d{4} cycles: load did 1 RUNs and waits; "
                                               "array "
                       "did 0 RUNs and waits; vector did 0 RUNs and waits; store did 0 RUNs and waits"):
        simulate(copy_program(post_store=0), [DATA])
    with pytest.raises(SimulationError, match="not finished after 30 cycles: .*"):
        simulate(copy_program(), [DATA], max_cycles=30)


def test_a_second_run_starts_from_the_initial_state():
    """Nothing of a previous run, such as tokens, affects the next one."""
    program = copy_program(post_array=3)
    with Bench(library(CONFIG)) as bench:
        bench.map(0x1000, program.image, writable=False)
        bench.map(0x2000, bytes(164))
        for name, value in (("base0", 0x1000), ("base1", 0x2000), ("command_offset", 16),
                            ("command_bytes", program.command_bytes)):
            bench.write_register(name, value)
        for start in (1, 2):
            bench.write(0x2000, (DATA + start).tobytes())
            bench.write_register("control", 1)
            assert bench.run(5_000)
            assert bench.read(0x2064, 64) == (DATA + start).tobytes()
            assert len(bench.timeline[Unit.LOAD]) == 1


def test_program_of_another_configuration(monkeypatch):
    made = library(CONFIG)
    monkeypatch.setattr("tq_hw.sim.rtl.simulate.library", lambda *_, **__: made)
    other = replace(copy_program(), config=replace(CONFIG, acc_words=32))
    with pytest.raises(SimulationError, match=f"compiled for fingerprint {other.fingerprint:08x}, the hardware has "
                       f"{CONFIG.fingerprint:08x}"):
        simulate(other, [DATA])


def test_options():
    with pytest.raises(OptionError, match=r"must end in .fst or .vcd, not 'waves.txt'"):
        simulate(copy_program(), [DATA], waves=Waves("waves.txt"))
    with pytest.raises(OptionError, match="state has 5 bytes, not 1"):
        simulate(copy_program(), [DATA], state=b"x")
    with pytest.raises(OptionError, match="expected 1 inputs"):
        simulate(copy_program(), [])
