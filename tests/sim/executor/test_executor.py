"""Whole streams: order by tokens, transfer of accumulators, and the errors reported for wrong ones."""

from dataclasses import replace

import numpy as np
import pytest

from tq_hw.isa.config import PRESETS
from tq_hw.isa.control import Status
from tq_hw.isa.encode import Assembler
from tq_hw.isa.layout import Unit
from tq_hw.isa.program import Layer, Port, Program
from tq_hw.isa.uop import Destination, Source
from tq_hw.model.errors import OptionError
from tq_hw.sim.executor import SimulationError, execute

CONFIG = PRESETS["n16"]
PIXELS = 600
#: Makes a vector operation one that takes no accumulators.
NO_TILES = {"kind": 1, "use_acc": 0, "slots": 1}
WEIGHTS_AT, INPUT_AT, OUTPUT_AT = 0, 32, 4096


def loops(words: int) -> dict[str, int]:
    return {"count0": 1, "count1": words, "count2": 1, "count3": 1, "step1": 1}


def move(words: int, **more: int) -> dict[str, int]:
    return loops(words) | {"emit_bytes": 16, "advance_bytes": 16, "last_emit_bytes": 16, "last_advance_bytes": 16,
                           "run_bytes": 16 * words} | more


def array(first: int, slots: int, **more: int) -> dict[str, int]:
    return {"acc_first": 1, "acc_last": 1, "in_base": INPUT_AT + first, "in_col_step": 1, "in_rows": 1,
            "in_cols": slots, "out_cols": slots, "col_stride": 1, "slots": slots, "tile_slots": 64, "out_blocks": 1,
            "kernel_rows": 1, "kernel_cols": 1, "kernel_blocks": 1, "slices": 1, "weight_rows": 16,
            "weight_base": WEIGHTS_AT} | more


def vector(first: int, slots: int, **more: int) -> dict[str, int]:
    return {"use_acc": 1, "cols": slots, "out_blocks": 1, "slots": slots, "tile_slots": 64, "chunk_slots": 64,
            "repeat1": 1, "repeat2": 1, "body_first": 1, "out_base": OUTPUT_AT + first, "out_col_step": 1} | more


def pointwise(**changes: dict[str, int]) -> Program:
    """A 1x1 convolution of 600 pixels, 16 to 16 channels, in two pieces; `changes` by RUN name."""
    assembler = Assembler(CONFIG)
    half = PIXELS // 2

    def run(name: str, unit: Unit, fields: dict[str, int]) -> None:
        assembler.run(unit, fields | changes.get(name, {}))

    assembler.uop(0, {"a_source": Source.ACC_OR_BIAS, "destination": Destination.OUTPUT})
    run("weights", Unit.LOAD, move(16, destination=WEIGHTS_AT))
    run("load0", Unit.LOAD, move(half, destination=INPUT_AT, region=1, post_array=1))
    run("load1", Unit.LOAD, move(half, destination=INPUT_AT + half, region=1, memory_offset_bytes=16 * half,
                                 post_array=1))
    run("array0", Unit.ARRAY, array(0, half, wait_load=1))
    run("vector0", Unit.VECTOR, vector(0, half))
    run("array1", Unit.ARRAY, array(half, half, wait_load=1))
    run("vector1", Unit.VECTOR, vector(half, half, post_store=1))
    run("store", Unit.STORE, loops(PIXELS) | {"source": OUTPUT_AT, "take_bytes": 16, "last_take_bytes": 16, "region": 1,
                                              "memory_offset_bytes": 16 * PIXELS, "wait_vector": 1})
    assembler.end()
    commands = assembler.to_bytes()
    weights = np.random.default_rng(3).integers(-128, 128, (16, 16)).astype(np.int8)
    shape, size = (1, PIXELS, 16), 16 * PIXELS
    layer = Layer(4, "CONV_2D", "y", "array", runs={"array": ((0, 1),), "load": ((1, 2),), "vector": ((0, 1),)})
    return Program("pointwise", CONFIG, weights.tobytes() + commands, 256, len(commands), 2 * size, b"",
                   (Port("x", "int8", shape, 1.0, 0, 0, size),), (Port("y", "int8", shape, 1.0, 0, size, size),),
                   (layer,))


def drawn_input() -> np.ndarray:
    return np.random.default_rng(1).integers(-128, 128, (1, PIXELS, 16)).astype(np.int8)


def expected_output() -> np.ndarray:
    weights = np.frombuffer(pointwise().image[:256], np.int8).reshape(16, 16)
    return (drawn_input().astype(np.int32) @ weights.astype(np.int32)).astype(np.int8)


@pytest.mark.parametrize("seed", range(12))
def test_any_order_gives_the_result(seed):
    result = execute(pointwise(), [drawn_input()], seed=seed, check_races=True, keep=True)
    assert np.array_equal(result.outputs[0], expected_output())
    assert result.runs == {Unit.LOAD: 3, Unit.ARRAY: 2, Unit.VECTOR: 2, Unit.STORE: 1} and not result.tokens_left
    assert result.writer_of_word(OUTPUT_AT + 299) == (Unit.VECTOR, 0)
    assert result.writer_of_word(OUTPUT_AT + 300) == (Unit.VECTOR, 1)
    assert result.writer_of_word(WEIGHTS_AT) == (Unit.LOAD, 0)
    assert result.writer_of_word(8000) is None
    assert result.writer_of(1, 16 * PIXELS) == (Unit.STORE, 0)
    assert result.writer_of(1, 16 * PIXELS - 1) is None


def test_missing_token_is_a_race_and_shows_as_a_wrong_result():
    program = pointwise(load1={"post_array": 0}, array1={"wait_load": 0})
    with pytest.raises(SimulationError, match=r"race: load RUN 2 \(operator 4, CONV_2D 'y'\) writes and array RUN 1 "
                       r"\(operator 4, CONV_2D 'y'\) reads scratchpad word 332") as caught:
        execute(program, [drawn_input()], check_races=True)
    assert (caught.value.status, caught.value.unit, caught.value.run) == (None, Unit.ARRAY, 1)
    results = [execute(program, [drawn_input()], seed=seed).outputs[0] for seed in range(10)]
    assert not all(np.array_equal(result, expected_output()) for result in results)


def test_overwriting_data_still_to_be_read_is_a_race():
    program = pointwise(load1={"destination": INPUT_AT + 8})
    with pytest.raises(SimulationError, match="race: .* writes .*scratchpad word 40"):
        for seed in range(8):
            execute(program, [drawn_input()], seed=seed, check_races=True)


def test_store_too_early_is_a_race_in_memory():
    program = pointwise(store={"memory_offset_bytes": 16 * 300, "wait_vector": 0, "source": 8192})
    with pytest.raises(SimulationError, match="race: .* byte 4800 of region 1"):
        execute(program, [drawn_input()], check_races=True)


def test_units_that_wait_for_each_other():
    with pytest.raises(SimulationError) as caught:
        execute(pointwise(load1={"post_array": 0}), [drawn_input()])
    message = str(caught.value)
    assert "pointwise: the commands wait for each other forever: array RUN 1 (operator 4, CONV_2D 'y') at command " \
        in message
    assert "waits for 1 tokens from load (it has 0); vector RUN 1 (operator 4, CONV_2D 'y') waits for a full accu" \
        in message
    assert "store RUN 0 at command word" in message


def test_full_queue():
    """Loads wait for the array, whose command comes after more of them than a queue holds."""
    assembler = Assembler(CONFIG)
    for i in range(110):
        assembler.run(Unit.LOAD, move(1, destination=i, memory_offset_bytes=16 * (i % 2), fill=i % 251,
                                      pad_after_bytes=i, wait_array=int(i == 1)))
    assembler.run(Unit.ARRAY, array(0, 64, post_load=1))
    assembler.run(Unit.VECTOR, vector(0, 64) | NO_TILES | {"use_acc": 1, "kind": 0, "slots": 64})
    assembler.end()
    commands = assembler.to_bytes()
    program = Program("full", CONFIG, commands, 0, len(commands), 16)
    with pytest.raises(SimulationError, match=r"load RUN 1 .* 1 tokens from array .*; the queue of the load unit \(512 "
                       "words\\) is full and blocks the commands from word"):
        execute(program, [])


def test_array_waits_for_a_free_buffer():
    with pytest.raises(SimulationError, match="array RUN 1 .*waits for a free accumulator buffer; vector RUN 1"):
        execute(pointwise(vector1={"wait_store": 1}), [drawn_input()])


def test_accumulators_that_nobody_reads():
    with pytest.raises(SimulationError, match="3 accumulator buffers are never read"):
        execute(pointwise(array1={"tile_slots": 128}, vector1=NO_TILES), [drawn_input()])


def test_tiles_other_than_those_of_the_array():
    with pytest.raises(SimulationError, match=r"vector RUN 1 .*undefined: a tile has 32 slots, the accumulator .* 64"):
        execute(pointwise(vector1={"tile_slots": 32, "chunk_slots": 32}), [drawn_input()])


def test_token_overflow():
    with pytest.raises(SimulationError, match="load RUN 2 .*TOKEN_OVERFLOW.*256 tokens") as caught:
        execute(pointwise(load0={"post_store": 200}, load1={"post_store": 56}), [drawn_input()])
    assert caught.value.status is Status.TOKEN_OVERFLOW


def test_tokens_left():
    result = execute(pointwise(load0={"post_store": 3}), [drawn_input()])
    assert result.tokens_left == {(Unit.LOAD, Unit.STORE): 3}


def test_error_names_the_operation():
    with pytest.raises(SimulationError, match=r"^load RUN 1 \(operator 4, .*\): BAD_ADDRESS: word 16") as caught:
        execute(pointwise(load0={"destination": 16200}), [drawn_input()])
    assert (caught.value.status, caught.value.unit, caught.value.run) == (Status.BAD_ADDRESS, Unit.LOAD, 1)


def test_data_that_is_no_stream():
    program = pointwise()
    cut = replace(program, command_bytes=program.command_bytes - 4)
    with pytest.raises(SimulationError, match="NO_END") as caught:
        execute(cut, [drawn_input()])
    assert caught.value.status is Status.NO_END
    bad = replace(program, image=program.image[:256] + b"\xff" + program.image[257:])
    with pytest.raises(SimulationError, match="BAD_COMMAND") as caught:
        execute(bad, [drawn_input()])
    assert caught.value.status is Status.BAD_COMMAND


def test_sum_over_two_operations():
    """acc_last = 0 leaves a buffer open for the next operation, which has acc_first = 0."""
    pieces = pointwise(array0={"acc_last": 0, "slots": 64}, array1={"acc_first": 0, "slots": 64, "in_base": INPUT_AT},
                       vector0={"slots": 64}, vector1=NO_TILES)
    result = execute(replace(pieces, layers=()), [drawn_input()], keep=True)
    assert result.scratchpad is not None
    words = result.scratchpad[OUTPUT_AT:OUTPUT_AT + 64].view(np.int8)
    assert np.array_equal(words, 2 * expected_output()[0, :64])


def test_inputs_are_checked():
    with pytest.raises(OptionError, match="expected 1 inputs, found 0"):
        execute(pointwise(), [])
    with pytest.raises(OptionError, match=r"input 0 \('x'\) must be int8\[1, 600, 16\], found int16"):
        execute(pointwise(), [drawn_input().astype(np.int16)])


def test_undefined_bytes_differ_between_seeds():
    program = pointwise(load1={"run_bytes": 16, "last_emit_bytes": 15})
    one, two = (execute(program, [drawn_input()], seed=seed).outputs[0] for seed in (0, 1))
    assert not np.array_equal(one, two)


def test_state_is_kept_by_the_caller():
    program = pointwise()
    program = replace(program, state=bytes(16 * PIXELS), outputs=(replace(program.outputs[0], region=2,
                                                                          region_offset_bytes=0),))
    with pytest.raises(OptionError, match="state has 9600 bytes, not 3"):
        execute(program, [drawn_input()], state=b"abc")
    assert execute(program, [drawn_input()]).state == program.state
    assert execute(program, [drawn_input()], state=b"a" * 9600).state == b"a" * 9600
