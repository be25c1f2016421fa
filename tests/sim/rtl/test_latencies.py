"""The latencies in isa/latency.py of fetch, load and store are exact to the cycle in the whole machine."""

from typing import NamedTuple

import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.cost.operation_cycles import moved_bytes, run_beats
from tq_hw.compiler.stream.stream import Operation
from tq_hw.isa.config import Config, load_config
from tq_hw.isa.latency import (
    FETCH_TO_BEAT_CYCLES,
    FETCH_TO_WORD_CYCLES,
    LOAD_GAP_CYCLES,
    LOAD_TO_BURST_CYCLES,
    OFFER_CYCLES,
    SENT_TO_DONE_CYCLES,
    STORE_TO_READ_CYCLES,
    TAKE_CYCLES,
    TOKEN_CYCLES,
    beat_to_word_cycles,
    read_to_pack_cycles,
)
from tq_hw.isa.layout import FETCH_BYTES, Unit
from tq_hw.isa.memory import YARDSTICK
from tq_hw.isa.sizes import ceil_div
from tq_hw.model.samples.layers import sample
from tq_hw.sim.engines import random_inputs
from tq_hw.sim.rtl.simulate import simulate

#: Those of `make test-all` have words of 16 bytes, which the last rotates in two cycles.
CONFIGS = [load_config("tiny"), load_config("n8"),
           *(pytest.param(config, marks=pytest.mark.slow) for config in (
               load_config("n16x8"), Config("packed", 16, 8, 2, 64 << 10, dsp_packing=2, few_luts=1)))]


class Seen(NamedTuple):
    """A load or a store: words of commands up to its own, cycles of its begin and end, words and beats it moves."""

    commands: int
    taken: int
    done: int
    words: int
    beats: int


class Machine(NamedTuple):
    """Results of a run: bytes of all commands, moves by unit, and the ends of the vector unit's operations."""

    command_bytes: int
    loads: list[Seen]
    stores: list[Seen]
    vector: list[int]


def run(kind: str, config: Config) -> Machine:
    compiled = compile_model(sample(kind, 0), config)
    times = simulate(compiled.program, random_inputs(compiled.program, seed=1)).timeline
    stream, commands = compiled.emitter.stream, 0
    moves: dict[Unit, list[Seen]] = {Unit.LOAD: [], Unit.STORE: []}
    for item, size in zip(stream.items, stream.assemble().words, strict=True):
        commands += size
        if isinstance(item, Operation) and item.unit in moves:
            f, found = item.fields, moves[item.unit]
            runs = f["count2"] * f["count3"]
            taken, done = times[item.unit][len(found)].tolist()
            beats = run_beats({**f, "run_bytes": f.get("run_bytes", moved_bytes(item) // runs)}, config)
            found.append(Seen(commands, taken, done, f["count0"] * f["count1"] * runs, beats))
    return Machine(compiled.program.command_bytes, moves[Unit.LOAD], moves[Unit.STORE],
                   times[Unit.VECTOR][:, 1].tolist())


def first_taken(load: Seen) -> int:
    """When the first load is taken: fetch reads a word per cycle up to its last one, then the command is offered."""
    return YARDSTICK.latency_cycles + FETCH_TO_WORD_CYCLES + load.commands + OFFER_CYCLES + TAKE_CYCLES[Unit.LOAD]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_loads_take_what_is_documented(config: Config) -> None:
    seen = run("quantize", config)
    first, second, third, *_ = seen.loads
    for load in (first, second, third):  # none waits for the previous one's requests
        assert load.taken == first_taken(load)
    commands = ceil_div(seen.command_bytes, config.bus_bytes)
    assert FETCH_TO_BEAT_CYCLES + commands < first.taken + LOAD_TO_BURST_CYCLES  # the bus is free
    assert first.done == (first.taken + LOAD_TO_BURST_CYCLES + YARDSTICK.latency_cycles
                          + beat_to_word_cycles(config) + max(first.words, first.beats))
    for before, load in ((first, second), (second, third)):
        assert load.done == before.done + max(LOAD_GAP_CYCLES - 1 + load.words, load.beats)


def test_a_load_waits_for_the_words_that_fetch_requested() -> None:
    """The first beat of data arrives after the last beat of commands."""
    config = load_config("tiny")
    seen = run("transpose_conv", config)
    first = seen.loads[0]
    commands = ceil_div(seen.command_bytes, config.bus_bytes)
    assert seen.command_bytes <= FETCH_BYTES  # all are requested at the start
    assert first.taken == first_taken(first)
    beat = YARDSTICK.latency_cycles + FETCH_TO_BEAT_CYCLES - 1 + commands
    assert beat > first.taken + LOAD_TO_BURST_CYCLES + YARDSTICK.latency_cycles
    assert first.done == beat + beat_to_word_cycles(config) + max(first.words, first.beats)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_a_store_takes_what_is_documented(config: Config) -> None:
    """A store of one burst, sent when its last word is packed, while nothing else reads the scratchpad."""
    seen = run("softmax", config)
    alone = [seen.stores[1], seen.stores[-1]]
    assert alone[0].taken == max(seen.vector) + TOKEN_CYCLES + TAKE_CYCLES[Unit.STORE]
    for store in alone:
        assert store.words > 1  # the beat of a single word leaves a cycle later
        assert store.done == (store.taken + STORE_TO_READ_CYCLES + read_to_pack_cycles(config)
                              + max(store.words, store.beats) + store.beats + SENT_TO_DONE_CYCLES
                              + YARDSTICK.latency_cycles)
