"""Streams with changed words end alike on the RTL and in the executor; `benches/corrupt.py` runs thousands of them."""

from collections import Counter

from tq_hw.compiler import compile_model
from tq_hw.isa.config import PRESETS
from tq_hw.isa.encode import Assembler
from tq_hw.isa.layout import Unit
from tq_hw.isa.program import Program
from tq_hw.isa.uop import Destination, Source
from tq_hw.model.samples.layers import sample
from tq_hw.sim.corruption import Verdict, check, corrupted
from tq_hw.sim.engines import random_inputs

TINY = PRESETS["tiny"]
ARRAY = {"acc_first": 1, "acc_last": 1, "out_cols": 4, "slots": 4, "tile_slots": 4, "out_blocks": 1, "kernel_rows": 1,
         "kernel_cols": 1, "kernel_blocks": 1, "slices": 1, "weight_rows": 1}
VECTOR = {"use_acc": 1, "cols": 4, "out_blocks": 1, "slots": 4, "tile_slots": 4, "chunk_slots": 4, "repeat1": 1,
          "repeat2": 1, "body_first": 1}


def test_streams_with_changed_words() -> None:
    programs = [compile_model(sample(kind, 1), TINY).program for kind in ("conv", "depthwise", "add", "softmax")]
    found: Counter[str] = Counter()
    for seed in range(80):
        program = programs[seed % len(programs)]
        verdict = check(corrupted(program, seed, 1 + seed % 2), random_inputs(program, 1), seed)
        assert verdict.kind != "different", (seed, program.name, verdict)
        found[f"{verdict.kind} {verdict.end}" if verdict.kind == "same" else verdict.kind] += 1
    assert found["same done"] >= 5 and found["same BAD_OPERATION"] >= 5, found
    assert sum(count for name, count in found.items() if name.startswith("same")) >= 60, found


def verdict_of(*runs: tuple[Unit, dict[str, int]]) -> Verdict:
    assembler = Assembler(TINY)
    for unit, fields in runs:
        assembler.run(unit, fields)
    assembler.end()
    commands = assembler.to_bytes()
    return check(Program("made", TINY, commands, 0, len(commands), 16), [], 1)


def test_undefined_results_do_not_count_as_agreement() -> None:
    assert verdict_of((Unit.ARRAY, ARRAY), (Unit.VECTOR, VECTOR)) == Verdict("same", "done", "memory")
    assert verdict_of((Unit.ARRAY, ARRAY), (Unit.VECTOR, VECTOR | {"slots": 2})) == Verdict(
        "undefined", "done", "a tile has 2 slots, the accumulator buffer 4")
    assert verdict_of((Unit.ARRAY, ARRAY | {"acc_last": 0}), (Unit.ARRAY, ARRAY | {"slots": 3}),
                      (Unit.VECTOR, VECTOR | {"slots": 3})) == Verdict(
        "undefined", "done", "the open accumulator buffer has 4 slots, the tile 3")
    assert verdict_of((Unit.ARRAY, ARRAY | {"mode": 1, "col_stride": 1, "period": 4}),
                      (Unit.VECTOR, VECTOR)) == Verdict("undefined", "done", "tile_slots must be tile_rows * out_cols")


def test_a_clamp_with_its_limits_crossed_is_undefined() -> None:
    """Memory that depends on its results is undefined, too."""
    assembler = Assembler(TINY)
    assembler.run(Unit.ARRAY, ARRAY)
    assembler.uop(0, {"a_source": Source.IMMEDIATE, "immediate": 3, "clamp": 1, "act_min": 8, "act_max": 0,
                      "destination": Destination.OUTPUT})
    assembler.run(Unit.VECTOR, VECTOR | {"post_store": 1})
    assembler.run(Unit.STORE, {"wait_vector": 1, "region": 1, "take_bytes": 4, "last_take_bytes": 4, "count0": 1,
                               "count1": 1, "count2": 1, "count3": 1})
    assembler.end()
    commands = assembler.to_bytes()
    assert check(Program("made", TINY, commands, 0, len(commands), 16), [], 1) == Verdict(
        "undefined", "done", "act_min 8 must be at most act_max 0")
