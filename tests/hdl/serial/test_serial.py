"""The serial machine on the Verilated RTL: random streams against the executor, errors, and the register bus."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from serial_streams import CONFIG, array_stream, move_stream, vector_stream

from tq_hw.compiler import compile_model
from tq_hw.isa.config import Config, ConfigError
from tq_hw.isa.control import COUNTERS, MAGIC, STATUS_BUSY, STATUS_DONE, Status
from tq_hw.isa.encode import Assembler
from tq_hw.isa.layout import Unit
from tq_hw.isa.memory import Memory
from tq_hw.isa.program import Program
from tq_hw.model.samples.layers import sample
from tq_hw.sim.diagnose.compare import require_equal
from tq_hw.sim.engines import random_inputs
from tq_hw.sim.executor import execute
from tq_hw.sim.faults import SimulationError
from tq_hw.sim.rtl.bench import Bench
from tq_hw.sim.rtl.build import library
from tq_hw.sim.rtl.simulate import simulate

WORDS = {"count0": 1, "count1": 4, "count2": 1, "count3": 1, "step1": 1}
LOAD = WORDS | {"run_bytes": 16, "emit_bytes": 4, "advance_bytes": 4, "last_emit_bytes": 4, "last_advance_bytes": 4}
ARRAY = {"acc_first": 1, "acc_last": 1, "in_rows": 1, "in_cols": 4, "out_cols": 4, "slots": 4, "tile_slots": 4,
         "out_blocks": 1, "kernel_rows": 1, "kernel_cols": 1, "kernel_blocks": 1, "slices": 1, "weight_rows": 4}
VECTOR = {"cols": 4, "out_blocks": 1, "slots": 4, "tile_slots": 4, "chunk_slots": 4, "repeat1": 1, "repeat2": 1,
          "body_first": 1}


@pytest.mark.parametrize("stream", [vector_stream, array_stream, move_stream])
@pytest.mark.parametrize("seed", range(12))
def test_random_streams_equal_the_executor(stream: Callable[[int], Program], seed: int) -> None:
    made = stream(seed)
    # What no stream writes holds noise; the machine's differs from the executor's.
    expected = np.array([execute(made, [], seed=noise).outputs[0] for noise in range(5)])
    found = simulate(made, [], Memory(1 + seed)).outputs[0]
    fixed = (expected == expected[0]).all(axis=0)
    assert fixed.sum() > 100
    assert found[fixed].tolist() == expected[0][fixed].tolist()


@pytest.mark.parametrize(("kind", "seed"), [("conv", 1), ("depthwise", 2), ("fully_connected", 1), ("add", 1),
                                            ("softmax", 1), ("chain", 3)])
def test_models_equal_the_executor(kind: str, seed: int) -> None:
    program = compile_model(sample(kind, seed), CONFIG).program
    inputs = random_inputs(program, 1)
    expected = execute(program, inputs).outputs
    quick = simulate(program, inputs, Memory(1))
    slow = simulate(program, inputs, Memory(60, stalls=4))
    for result in (quick, slow):
        require_equal(result.outputs, expected, "rtl")
        assert result.counters["cycles"] <= result.cycles <= result.counters["cycles"] + 20
        assert {name for name, count in result.counters.items() if count} == {"cycles"}
        assert all(0 < began < done <= result.cycles for times in result.timeline.values() for began, done in times)
        assert sum(result.layer_cycles.values()) == result.cycles
    assert slow.cycles > quick.cycles


def stream(*runs: tuple[Unit, dict[str, int]], uop: dict[str, int] | None = None) -> Program:
    assembler = Assembler(CONFIG)
    assembler.uop(0, uop or {})
    for unit, fields in runs:
        assembler.run(unit, fields)
    assembler.end()
    commands = assembler.to_bytes()
    return Program("wrong", CONFIG, bytes(16) + commands, 16, len(commands), 64)


@pytest.mark.parametrize(("unit", "fields", "status"), [
    (Unit.LOAD, LOAD | {"destination": 2045}, Status.BAD_ADDRESS),
    (Unit.LOAD, LOAD | {"region": 3}, Status.BUS_ERROR),
    (Unit.LOAD, LOAD | {"count3": 0}, Status.BAD_OPERATION),
    (Unit.LOAD, LOAD | {"last_emit_bytes": 5}, Status.BAD_OPERATION),
    (Unit.LOAD, LOAD | {"last_advance_bytes": 5}, Status.BAD_OPERATION),
    (Unit.LOAD, LOAD | {"post_load": 1}, Status.BAD_OPERATION),
    (Unit.STORE, WORDS | {"take_bytes": 4, "last_take_bytes": 4, "source": 2045}, Status.BAD_ADDRESS),
    (Unit.STORE, WORDS | {"last_take_bytes": 4, "take_bytes": 4, "lane": 1}, Status.BAD_OPERATION),
    (Unit.STORE, WORDS | {"last_take_bytes": 4, "take_bytes": 4, "region": 3}, Status.BUS_ERROR),
    (Unit.ARRAY, ARRAY | {"mode": 3}, Status.BAD_OPERATION),
    (Unit.ARRAY, ARRAY | {"tile_slots": 33}, Status.BAD_OPERATION),
    (Unit.ARRAY, ARRAY | {"tile_slots": 2, "acc_first": 0}, Status.BAD_OPERATION),
    (Unit.ARRAY, ARRAY | {"weight_rows": 5}, Status.BAD_OPERATION),
    (Unit.ARRAY, ARRAY | {"kernel_blocks": 0}, Status.BAD_OPERATION),
    (Unit.ARRAY, ARRAY | {"in_base": 2046, "in_col_step": 1, "col_stride": 1}, Status.BAD_ADDRESS),
    (Unit.ARRAY, ARRAY | {"weight_base": 2046}, Status.BAD_ADDRESS),
    (Unit.ARRAY, ARRAY | {"mode": 1, "tile_rows": 2, "weight_rows": 1}, Status.BAD_OPERATION),
    (Unit.VECTOR, VECTOR | {"kind": 2}, Status.BAD_OPERATION),
    (Unit.VECTOR, VECTOR | {"kind": 1, "table_first": 509}, Status.BAD_OPERATION),
    (Unit.VECTOR, VECTOR | {"out_type": 3}, Status.BAD_OPERATION),
    (Unit.VECTOR, VECTOR | {"last": 32}, Status.BAD_OPERATION),
    (Unit.VECTOR, VECTOR | {"repeat1": 2}, Status.BAD_OPERATION),
    (Unit.VECTOR, VECTOR | {"sub_first": 1}, Status.BAD_OPERATION),
])
def test_wrong_operations(unit: Unit, fields: dict[str, int], status: Status) -> None:
    check_error(stream((unit, fields)), status, unit)


@pytest.mark.parametrize(("uop", "status"), [
    ({"a_source": 2}, Status.BAD_OPERATION), ({"b_source": 2}, Status.BAD_OPERATION),
    ({"multiply": 2}, Status.BAD_OPERATION), ({"shift_source": 1, "shift": -32}, Status.BAD_OPERATION),
    ({"b_table": 3}, Status.BAD_OPERATION), ({"alu": 15}, Status.BAD_OPERATION),
    ({"destination": 3}, Status.BAD_OPERATION), ({"destination": 2, "reduce": 3}, Status.BAD_OPERATION),
    ({"a_source": 1, "a_register": 7}, Status.BAD_OPERATION), ({"d_register": 7}, Status.BAD_OPERATION),
])
def test_wrong_micro_operations(uop: dict[str, int], status: Status) -> None:
    # 17 words are 68 beats, a register has 64.
    fields = VECTOR | {"slots": 17, "tile_slots": 17, "chunk_slots": 17}
    check_error(stream((Unit.VECTOR, fields), uop=uop), status, Unit.VECTOR)


def check_error(program: Program, status: Status, unit: Unit, run: int = 0) -> None:
    for engine in (simulate, execute):
        with pytest.raises(SimulationError, match=status.name) as caught:
            engine(program, [])
        assert (caught.value.status, caught.value.unit, caught.value.run) == (status, unit, run), engine


def test_words_of_one_slot_in_one_bank() -> None:
    assembler = Assembler(CONFIG)
    assembler.fold(0, ({"lane_end": 1}, {"lane_end": 2, "address": 8}, {}))
    assembler.run(Unit.ARRAY, ARRAY | {"mode": 2})
    assembler.end()
    commands = assembler.to_bytes()
    check_error(Program("banks", CONFIG, commands, 0, len(commands), 0), Status.BANK_CONFLICT, Unit.ARRAY)


def test_too_many_tokens() -> None:
    check_error(stream((Unit.LOAD, LOAD | {"post_store": 200}), (Unit.LOAD, LOAD | {"post_store": 56})),
                Status.TOKEN_OVERFLOW, Unit.LOAD, 1)


@pytest.mark.parametrize(("words", "status"), [
    ((0x00000001,), Status.NO_END), ((0x00008001, 0), Status.NO_END),
    ((0x00000005,), Status.BAD_COMMAND), ((0x01000001,), Status.BAD_COMMAND), ((0x00000000,), Status.BAD_COMMAND),
    ((0x00004008, 0), Status.BAD_COMMAND),
])
def test_wrong_streams(words: tuple[int, ...], status: Status) -> None:
    commands = b"".join(word.to_bytes(4, "little") for word in words)
    with pytest.raises(SimulationError, match=f"^wrong: {status.name} in the command stream, at cycle ") as caught:
        simulate(Program("wrong", CONFIG, commands + bytes(16), 0, len(commands), 0), [])
    assert caught.value.unit is Unit.CONTROL


def test_register_that_does_not_exist() -> None:
    commands = (0x00004000 | 30 << 4 | Unit.LOAD).to_bytes(4, "little") + bytes(4) + (8).to_bytes(4, "little")
    with pytest.raises(SimulationError, match=Status.BAD_COMMAND.name) as caught:
        simulate(Program("wrong", CONFIG, commands + bytes(4), 0, len(commands), 0), [])
    assert caught.value.unit is Unit.LOAD


def test_registers() -> None:
    """What the host writes stays; nothing but a stop gets through while the machine works."""
    endless = stream((Unit.LOAD, LOAD | {"wait_store": 1}))
    good = stream((Unit.LOAD, LOAD))
    with Bench(library(CONFIG)) as bench:
        bench.map(0x1000, endless.image)
        bench.map(0x2000, good.image)
        assert bench.read_register("magic") == MAGIC
        assert bench.read_register("fingerprint") == CONFIG.fingerprint
        for name, value, kept in (("base0", 0x100F, 0x1000), ("base3", 0xFFFFFFFF, 0xFFFFFFF0),
                                  ("command_offset", 16, 16), ("command_bytes", endless.command_bytes | 3,
                                                               endless.command_bytes)):
            bench.write_register(name, value)
            assert bench.read_register(name) == kept
        bench.write_register("magic", 1)
        bench.write_register("status", 7)
        assert (bench.read_register("magic"), bench.read_register("status")) == (MAGIC, 0)
        bench.write_register("control", 1)
        assert not bench.run(30_000)
        assert bench.read_register("status") == STATUS_BUSY
        bench.write_register("base0", 0)
        bench.write_register("control", 1)
        assert bench.read_register("base0") == 0x1000
        bench.write_register("control", 2)
        assert not bench.run(200)
        assert [bench.read_register(name) for name in ("status", "counter_cycles")] == [0, 0]
        for start in (2, 1):
            # A stop, and a start after it before it has ended.
            bench.write_register("control", 2)
            bench.write_register("control", 1)
            assert not bench.run(30_000), start
            assert bench.read_register("status") == STATUS_BUSY
        bench.write_register("control", 2)
        bench.run(200)
        for name, value in (("base0", 0x2000), ("command_bytes", good.command_bytes)):
            bench.write_register(name, value)
        for _ in range(2):
            bench.write_register("control", 1)
            assert bench.run(30_000)
            assert bench.read_register("status") == STATUS_DONE
        # An error stays until the next start.
        bench.write_register("command_bytes", good.command_bytes - 4)
        bench.write_register("control", 1)
        assert bench.run(30_000)
        assert [bench.read_register(f"error_{name}") for name in ("code", "unit", "index")] == [
            Status.NO_END, Unit.CONTROL, (1 << 32) - 1]
        bench.write_register("control", 2)
        bench.run(200)
        assert [bench.read_register(name) for name in ("status", "error_code", "error_index")] == [0, 0, 0]
        assert {bench.read_register(f"counter_{name}") for name in COUNTERS[1:]} == {0}


def test_configurations() -> None:
    parallel = replace(CONFIG, design="parallel")
    assert parallel.fingerprint == CONFIG.fingerprint
    assert (parallel.macs, CONFIG.macs) == (16, 4)
    with pytest.raises(ConfigError, match=r"^configuration 'x': design must be parallel or serial, not 'none'$"):
        Config("x", 4, 4, 1, 8 << 10, design="none")
    with pytest.raises(ConfigError, match=(
            r"^configuration 'x': the serial design has 4 rows, 4 cols, 1 of requantize_lanes, 4 of bus_bytes, at most "
            r"32768 of scratchpad_bytes, 2048 of vector_words and 1024 acc_words in all buffers, no "
            r"activation_lanes, no acc_open, no compressed_weights, no dsp_packing, no dsp_preadders, no block_uops, "
            r"no few_counters and no few_luts$")):
        Config("x", 4, 4, 2, 8 << 10, bus_bytes=4, design="serial")
