"""The RTL equals the executor on streams that no compiler emits."""

import numpy as np
import pytest

from tq_hw.isa.config import PRESETS, Config
from tq_hw.isa.layout import Unit, VectorKind
from tq_hw.isa.memory import Memory
from tq_hw.isa.operations import walk
from tq_hw.isa.uop import Destination, Source
from tq_hw.sim.executor import execute
from tq_hw.sim.executor.core import Executor
from tq_hw.sim.random_streams import random_program
from tq_hw.sim.rtl.simulate import simulate

#: Corner cases of the configuration: several output blocks in a word, words with unused lanes, two steps per word, the
#: narrowest and the widest bus, small memories.
ODD = (Config("r6c3", 6, 3, 3, 4096, acc_words=16, acc_buffers=2, bus_bytes=4),
       Config("r4c6", 4, 6, 2, 8192, acc_words=16, bus_bytes=16, fold_steps=4, uops=32, vector_words=256))
#: Options that no preset has all of; tests/sim/rtl/test_samples.py has the same machine.
OPTIONS = Config("r4c12a2o2", 4, 12, 4, 16 << 10, bus_bytes=4, acc_buffers=2, activation_lanes=2, acc_open=2)
OPEN = Config("r4c4o4", 4, 4, 2, 4096, acc_words=16, acc_open=4)
PACKED = Config("r9c4p2", 9, 4, 2, 8192, acc_words=16, acc_open=4, dsp_packing=2, few_luts=1)
#: Words whose beats do not divide the words of a register (10 and 16); registers with more slots than inputs.
UNEVEN = Config("r32c3", 32, 3, 3, 16 << 10, acc_words=16, vector_words=128)
LONG = Config("r4c2", 4, 2, 2, 2048, acc_words=16, vector_words=4096)


def defined(program) -> tuple[np.ndarray, np.ndarray]:
    """The output, and which of its bytes do not depend on undefined bytes."""
    runs = [execute(program, [], seed=seed, check_races=seed == 1).outputs[0] for seed in range(4)]
    return runs[0], np.logical_and.reduce([run == runs[0] for run in runs])


@pytest.mark.parametrize("config", [*PRESETS.values(), *ODD, UNEVEN, LONG], ids=lambda config: config.name)
def test_registers_and_tables_begin_defined(config):
    """All register words that slots may occupy: an undefined value may saturate, and then look defined."""
    machines = []
    for seed in (1, 2):
        executor = Executor(random_program(config, 3, operations=0), seed=seed)
        executor.run([])
        machines.append(executor.machine)
    words = config.vector_words // config.beats_per_word * config.beats_per_word
    assert (machines[0].registers[:words] == machines[1].registers[:words]).all()
    assert (machines[0].table == machines[1].table).all()


def written_early(uop, beats: int, words: int) -> bool:
    """Whether a micro-operation reads a register word that it writes in an earlier beat, an undefined value."""
    if uop["destination"] != Destination.REGISTER or uop["once"]:
        return False
    writes = {uop["d_register"] * words + n: n for n in range(beats)}
    return any(writes.get(uop[f"{name}_register"] * words + (0 if uop[f"{name}_hold"] else n), n) < n
               for name in "ab" if uop[f"{name}_source"] == Source.REGISTER for n in range(beats))


@pytest.mark.parametrize("config", [PRESETS["tiny"], UNEVEN], ids=lambda config: config.name)
def test_long_vectors_do_not_overlap_their_own_source(config):
    for seed in range(60):
        for operation in walk(random_program(config, seed).commands, config):
            f = operation.fields
            if operation.unit is Unit.VECTOR and f["kind"] == VectorKind.PROGRAM:
                beats = min(f["chunk_slots"], f["tile_slots"], f["slots"]) * (
                    config.beats_per_acc_word if f["use_acc"] else config.beats_per_word)
                assert not any(written_early(operation.uops[number], beats, config.vector_register_words)
                               for number in range(f["first"], f["last"] + 1)), f"seed {seed}"


@pytest.mark.parametrize("config", [*PRESETS.values(), *ODD, OPTIONS, OPEN, UNEVEN, LONG], ids=lambda each: each.name)
def test_order_of_units_does_not_matter(config):
    shares = [defined(random_program(config, seed))[1].mean() for seed in range(4)]
    assert min(shares) > 0.5


def check(config: Config, seeds: range) -> None:
    for seed in seeds:
        program = random_program(config, seed)
        expected, same = defined(program)
        result = simulate(program, [], Memory(stalls=seed if seed % 2 else None))
        wrong = np.flatnonzero(same & (result.outputs[0] != expected))
        assert not len(wrong), f"{program.name}: byte {wrong[0]} and {len(wrong) - 1} others"


@pytest.mark.parametrize("config", [PRESETS["tiny"], OPTIONS], ids=lambda config: config.name)
def test_rtl(config):
    check(config, range(12))


@pytest.mark.slow
@pytest.mark.parametrize("config", [*ODD, OPTIONS, OPEN, PACKED], ids=lambda config: config.name)
def test_rtl_odd(config):
    check(config, range(200))
