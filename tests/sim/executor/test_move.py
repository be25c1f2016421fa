"""Loads and stores of the executor give the results of the loops in docs/reference/semantics.md."""

import random
from dataclasses import replace

import numpy as np
import pytest

from tq_hw.isa.config import PRESETS
from tq_hw.isa.control import Status
from tq_hw.isa.layout import UNITS, Unit
from tq_hw.isa.weight_code import decode_rows
from tq_hw.sim.executor.machine import Fault, Machine
from tq_hw.sim.executor.move import load, store, store_covers

MEMORY_BYTES = 4096


def machine_of(name: str, seed: int) -> Machine:
    rng = np.random.default_rng(seed)
    memory = [rng.integers(0, 256, MEMORY_BYTES, np.uint8) for _ in range(3)]
    return Machine(PRESETS[name], memory, seed)


def random_loops(rng: random.Random) -> dict[str, int]:
    fields = {f"count{i}": rng.randint(1, 4) for i in range(4)}
    fields |= {f"step{i}": rng.randint(-9, 9) for i in range(4)}
    return fields | {"stride2_bytes": rng.randint(-60, 60), "stride3_bytes": rng.randint(-200, 200),
                     "memory_offset_bytes": rng.randint(1000, 3000), "region": rng.randint(0, 2),
                     "flip": rng.randint(0, 1)}


def reference_load(machine: Machine, f: dict[str, int]) -> dict[int, list[int]]:
    """Return the defined bytes of each word written."""
    words: dict[int, list[int]] = {}
    fill = f["fill"]
    for i3 in range(f["count3"]):
        for i2 in range(f["count2"]):
            start = f["memory_offset_bytes"] + i3 * f["stride3_bytes"] + i2 * f["stride2_bytes"]
            run = [int(b) ^ 0x80 * f["flip"] for b in machine.memory[f["region"]][start:start + f["run_bytes"]]]
            stream = [fill] * f["pad_before_bytes"] + run + [fill] * f["pad_after_bytes"]
            for i1 in range(f["count1"]):
                for i0 in range(f["count0"]):
                    last = i0 == f["count0"] - 1
                    e = f["last_emit_bytes"] if last else f["emit_bytes"]
                    a = f["last_advance_bytes"] if last else f["advance_bytes"]
                    address = (f["destination"] + i0 * f["step0"] + i1 * f["step1"] + i2 * f["step2"]
                               + i3 * f["step3"]) % 65536
                    words[address] = (stream + [fill] * e)[:e]
                    stream = stream[a:]
    return words


@pytest.mark.parametrize("name", ["tiny", "n9x8", "n16"])
def test_load(name):
    rng = random.Random(name)
    for seed in range(60):
        machine = machine_of(name, seed)
        width = machine.config.word_bytes
        f = random_loops(rng) | {
            "run_bytes": rng.choice([0, rng.randint(1, 99)]), "fill": rng.randint(0, 255),
            "pad_before_bytes": rng.randint(0, 20), "pad_after_bytes": rng.randint(0, 20), "destination": 200,
            "emit_bytes": rng.randint(1, width), "advance_bytes": rng.randint(0, width),
            "last_emit_bytes": rng.randint(1, width), "last_advance_bytes": rng.randint(0, width)}
        expected = reference_load(machine, f)
        before = machine.scratchpad.copy()
        machine.unit, machine.run = Unit.LOAD, 5
        load(machine, f)
        for address, values in expected.items():
            assert machine.scratchpad[address, :len(values)].tolist() == values
        others = np.setdiff1d(np.arange(len(before)), list(expected))
        assert np.array_equal(machine.scratchpad[others], before[others])
        assert (machine.writers[list(expected)] == (1 << 24) + 5).all() and (machine.writers[others] == -1).all()


@pytest.mark.parametrize("name", ["tiny", "n9x8", "n16x8", "n16"])
def test_load_of_coded_rows(name):
    """Fields that a coded load ignores have any value; without the option the load is like any other."""
    rng = random.Random(name)
    for seed in range(20):
        machine = machine_of(name, seed)
        config = machine.config = replace(machine.config, compressed_weights=1)
        f = random_loops(rng) | {"count2": 1, "count3": 1, "run_bytes": 8 * rng.randint(1, 12), "coded": 1,
                                 "fill": 7, "pad_before_bytes": 9, "pad_after_bytes": 3, "destination": 200,
                                 "emit_bytes": 1, "advance_bytes": 0, "last_emit_bytes": 1, "last_advance_bytes": 1,
                                 "memory_offset_bytes": 8 * rng.randint(0, 400)}
        first = f["memory_offset_bytes"]
        rows = decode_rows(machine.memory[f["region"]][first:first + f["run_bytes"]].tobytes(),
                           f["count0"] * f["count1"], config.cols)
        expected = {}
        for number, row in enumerate(rows):
            i1, i0 = divmod(number, f["count0"])
            expected[f["destination"] + i0 * f["step0"] + i1 * f["step1"]] = row.tolist()
        before = machine.scratchpad.copy()
        load(machine, f)
        for address, values in expected.items():
            assert machine.scratchpad[address, :config.cols].tolist() == values
        others = np.setdiff1d(np.arange(len(before)), list(expected))
        assert np.array_equal(machine.scratchpad[others], before[others])


def test_coded_rows_lie_in_their_region():
    machine = machine_of("n9x8", 1)
    machine.config = replace(machine.config, compressed_weights=1)
    f = dict.fromkeys(UNITS[Unit.LOAD].fields, 0) | {
        "count0": 1, "count1": 1, "count2": 1, "count3": 1, "last_emit_bytes": 8, "coded": 1, "run_bytes": 16,
        "memory_offset_bytes": MEMORY_BYTES - 8}
    with pytest.raises(Fault, match=r"bytes 4088\.\.4103 of region 0 are accessed, which has 4096") as found:
        load(machine, f)
    assert found.value.status is Status.BUS_ERROR
    with pytest.raises(Fault, match="run_bytes % config.bus_bytes == 0, where config.compressed_weights == 1") as found:
        load(machine, f | {"run_bytes": 12})
    assert found.value.status is Status.BAD_OPERATION


@pytest.mark.parametrize("name", ["tiny", "n9x8", "n16"])
def test_store(name):
    rng = random.Random(name)
    for seed in range(60):
        machine = machine_of(name, seed)
        width = machine.config.word_bytes
        lane = rng.randint(0, width - 1)
        f = random_loops(rng) | {
            "source": 300, "lane": lane, "take_bytes": rng.randint(1, width - lane),
            "last_take_bytes": rng.randint(1, width - lane)}
        expected = machine.memory[f["region"]].copy()
        written = set()
        for i3 in range(f["count3"]):
            for i2 in range(f["count2"]):
                stream = []
                for i1 in range(f["count1"]):
                    for i0 in range(f["count0"]):
                        t = f["last_take_bytes"] if i0 == f["count0"] - 1 else f["take_bytes"]
                        word = machine.scratchpad[f["source"] + i0 * f["step0"] + i1 * f["step1"] + i2 * f["step2"]
                                                  + i3 * f["step3"]]
                        stream += [int(b) ^ 0x80 * f["flip"] for b in word[lane:lane + t]]
                start = f["memory_offset_bytes"] + i3 * f["stride3_bytes"] + i2 * f["stride2_bytes"]
                expected[start:start + len(stream)] = stream
                written |= set(range(start, start + len(stream)))
        store(machine, f)
        assert np.array_equal(machine.memory[f["region"]], expected)
        some = range(seed % 16, MEMORY_BYTES, 16)
        assert {b for b in some if store_covers(f, b)} == written & set(some)


LOAD = {"count0": 1, "count1": 1, "count2": 1, "count3": 1, "step0": 1, "step1": 1, "step2": 1, "step3": 1,
        "stride2_bytes": 0, "stride3_bytes": 0, "memory_offset_bytes": 0, "region": 0, "flip": 0, "run_bytes": 4,
        "fill": 0, "pad_before_bytes": 0, "pad_after_bytes": 0, "destination": 0, "emit_bytes": 4, "advance_bytes": 4,
        "last_emit_bytes": 4, "last_advance_bytes": 4}


@pytest.mark.parametrize(("change", "status"), [
    ({"count2": 0}, Status.BAD_OPERATION), ({"last_emit_bytes": 0}, Status.BAD_OPERATION),
    ({"last_emit_bytes": 5}, Status.BAD_OPERATION), ({"last_advance_bytes": 5}, Status.BAD_OPERATION),
    ({"destination": 2048}, Status.BAD_ADDRESS), ({"step1": -1, "count1": 2}, Status.BAD_ADDRESS),
    ({"memory_offset_bytes": MEMORY_BYTES - 3}, Status.BUS_ERROR),
    ({"stride2_bytes": -1, "count2": 2}, Status.BUS_ERROR),
])
def test_load_wrong(change, status):
    with pytest.raises(Fault) as caught:
        load(machine_of("tiny", 0), LOAD | change)
    assert caught.value.status is status


def test_a_large_load_is_split_into_parts():
    machine = machine_of("n16", 0)
    machine.memory[1] = np.arange(1 << 24, dtype=np.uint32).astype(np.uint8)
    f = LOAD | {"region": 1, "count1": 60000, "count3": 16, "step1": 0, "step3": 1, "run_bytes": 960000,
                "stride3_bytes": 1000003, "emit_bytes": 16, "last_emit_bytes": 16, "last_advance_bytes": 16}
    load(machine, f)
    for i in range(16):
        end = 1000003 * i + 960000
        assert np.array_equal(machine.scratchpad[i], machine.memory[1][end - 16:end])
