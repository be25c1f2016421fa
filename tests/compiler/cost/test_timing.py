"""compiler.cost.timing: order of operations, the cycles that each unit adds, and the layers' shares."""

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.cost.operation_cycles import moved_bytes, read_beside
from tq_hw.compiler.cost.timing import Timeline, layer_cycles, run_times
from tq_hw.compiler.stream.stream import Access, Commands, Stream
from tq_hw.isa.config import PRESETS, Config
from tq_hw.isa.latency import VECTOR_START_CYCLES, done_cycles
from tq_hw.isa.layout import ArrayMode, Unit, VectorKind
from tq_hw.isa.memory import Memory
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.samples.layers import sample

CONFIG = PRESETS["n16"]
LOAD = {"memory_offset_bytes": 0, "region": 1, "run_bytes": 1600, "destination": 0, "emit_bytes": 16,
        "advance_bytes": 16, "last_emit_bytes": 16, "last_advance_bytes": 16, "count0": 100, "step0": 1, "count1": 1,
        "count2": 1, "count3": 1}
ARRAY = {"mode": ArrayMode.GEMM, "acc_first": 1, "acc_last": 1, "blocks_inner": 0, "kernel_rows": 1, "kernel_cols": 1,
         "kernel_blocks": 4, "slices": 1, "slots": 100, "tile_slots": 100, "out_blocks": 1, "out_cols": 100,
         "in_col_step": 1, "weight_rows": 16, "row_first": 0, "col_first": 0, "row_stride": 1, "col_stride": 1,
         "kernel_row_dilation": 1, "kernel_col_dilation": 1, "in_rows": 100, "in_cols": 1000}
VECTOR = {"use_acc": 1, "slots": 100, "tile_slots": 100, "chunk_slots": 100, "out_blocks": 1, "blocks_inner": 0,
          "first": 0, "last": 0, "body_first": 1, "body_last": 0, "repeat1": 1, "repeat2": 1}
STORE = {"memory_offset_bytes": 4096, "region": 1, "source": 200, "take_bytes": 16, "last_take_bytes": 16,
         "count0": 1, "count1": 100, "count2": 1, "count3": 1}
INPUT, RESULT = Access("pad", 0, 100), Access("pad", 200, 300)


def chain(**changes: int) -> Stream:
    """A load, an array operation on its data, a program on the sums, a store of the result."""
    stream = Stream(CONFIG)
    stream.uop(0, {"a_source": 2, "destination": 1})
    stream.add(Unit.LOAD, LOAD, (), (INPUT,), 0)
    stream.add(Unit.ARRAY, ARRAY | {key: n for key, n in changes.items() if key in ARRAY}, (INPUT,), (), 0)
    stream.add(Unit.VECTOR, VECTOR | {key: n for key, n in changes.items() if key in VECTOR}, (), (RESULT,), 0)
    stream.add(Unit.STORE, STORE, (RESULT,), (), 1)
    return stream


def times_of(stream: Stream, config: Config = CONFIG) -> Timeline:
    """When each RUN begins and ends, with the commands of the stream."""
    return run_times(stream, config, stream.assemble(), Memory())


def test_a_unit_begins_when_what_it_waits_for_is_done() -> None:
    times = times_of(chain())
    load, array, vector, store = (times[unit][0].tolist() for unit in (Unit.LOAD, Unit.ARRAY, Unit.VECTOR, Unit.STORE))
    assert load[0] < array[0] < array[1] < vector[1] <= store[0] < store[1]
    assert array[0] > load[1]
    # 200 beats of data, 400 slots, 100 words of results, a burst and 200 beats back, and latencies in between.
    assert load[1] - load[0] == 8 + 30 + 200 + 7
    assert array[1] - array[0] == 4 + 16 + 400 + 16 + 13
    assert vector[1] - array[1] == 99 + 32
    assert store[1] - store[0] == 8 + 32 + 200 + 7 + 30


@pytest.mark.parametrize(("changes", "more"), [
    ({"kernel_blocks": 5}, 100), ({"kernel_rows": 3, "kernel_blocks": 1}, -100),
    ({"slots": 60, "tile_slots": 60}, -160)])
def test_slots_cost_a_cycle_a_step(changes: dict[str, int], more: int) -> None:
    before, after = (times_of(chain(**c))[Unit.ARRAY][0].tolist() for c in ({}, changes))
    assert (after[1] - after[0]) - (before[1] - before[0]) == more


def test_short_tiles_wait_for_their_weights() -> None:
    def took(**changes: int) -> int:
        began, done = times_of(chain(**changes))[Unit.ARRAY][0].tolist()
        return int(done - began)
    short = {"slots": 16, "tile_slots": 16, "out_cols": 16}
    assert took(**short) - took(**short | {"slots": 1, "tile_slots": 1, "out_cols": 1}) == 15  # only of the last step
    assert 3 * 3 <= took(**short, in_col_step=2) - took(**short) <= 3 * 5  # bank conflicts in three steps
    assert took(**short | {"slots": 17, "tile_slots": 17, "out_cols": 17}) - took(**short) == 4


def test_operations_of_the_array_follow_after_two_cycles() -> None:
    depthwise = ARRAY | {"mode": ArrayMode.DEPTHWISE, "kernel_rows": 3, "kernel_cols": 3, "period": 10, "out_cols": 10,
                         "weight_rows": 9, "out_blocks": 2, "col_first": 0}
    for fields, each in ((ARRAY, 402), (depthwise, 202), (depthwise | {"col_first": -1}, 203)):
        stream = Stream(CONFIG)
        for _ in range(2):
            stream.add(Unit.ARRAY, fields | {"tile_slots": 100}, (), (), 0)
        assert np.diff(times_of(stream)[Unit.ARRAY][:, 1]).tolist() == [each]


@pytest.mark.parametrize(("pairs", "waits"), [(20, False), (300, True)])
def test_loads_behind_full_queues(pairs: int, waits: bool) -> None:
    """A queue holds 512 words: with more commands for array and vector unit, the load after them has to wait."""
    stream = Stream(CONFIG)
    stream.uop(0, {"a_source": 2, "destination": 1})
    for number in range(pairs):
        stream.add(Unit.ARRAY, ARRAY | {"weight_base": number}, (), (), 0)
        stream.add(Unit.VECTOR, VECTOR, (), (), 0)
    stream.add(Unit.LOAD, LOAD, (), (INPUT,), 0)
    times = times_of(stream)
    begun = int((times[Unit.ARRAY][:, 0] <= times[Unit.LOAD][0, 0]).sum())
    # Each array operation has two words: 256 wait, one has been taken.
    assert begun == (pairs - 256 - 1 if waits else 4)  # as many as are in flight


def test_only_streams_that_are_touched_are_wide() -> None:
    def took(**types: int) -> int:
        stream = Stream(CONFIG)
        stream.uop(0, {"a_source": 3, "destination": 0})
        stream.uop(1, {"a_source": 1, "destination": 1})
        fields = VECTOR | {"use_acc": 0, "slots": 32, "tile_slots": 32, "chunk_slots": 32, "last": 1, "body_first": 2,
                           "body_last": 1}
        stream.add(Unit.VECTOR, fields | types, (), (RESULT,), 0)
        began, done = times_of(stream)[Unit.VECTOR][0].tolist()
        return int(done - began)
    assert took(out_type=2) - took() == 3 * 32
    assert took(a_type=1) - took() == 32
    assert took(b_type=2) == took()


def test_commands_share_the_bus() -> None:
    """A load follows what fetch requested before it; after a load, commands delay later requests."""
    def loaded(before: int, behind: int) -> int:
        stream = chain()
        words = (before, 0, behind, *(0 for _ in stream.items[3:]))
        return int(run_times(stream, CONFIG, Commands(bytes(4 * sum(words)), words), Memory())[Unit.LOAD][0, 1])
    alone = loaded(0, 0)
    assert loaded(100, 0) - alone == 100  # a word per cycle
    behind = [loaded(0, words) - alone for words in (0, 100, 200, 256, 5000)]
    assert behind == sorted(behind) and behind[0] == 0
    # At first four bursts of 64 words, except those that arrived before the load.
    assert 64 < behind[3] <= 128 and behind[4] <= 128 + 3 * 32


def test_more_tiles_than_buffers_wait_for_the_vector_unit() -> None:
    # One step per tile: the array computes a tile of 16 words in 16 cycles; the vector unit's program takes 64.
    fields = {"kernel_blocks": 1, "slots": 160, "tile_slots": 16, "out_cols": 160}
    slow = PRESETS["n8"]
    ends = {config.name: int(times_of(chain(**fields), config)[Unit.ARRAY][0, 1]) for config in (CONFIG, slow)}
    assert ends["n8"] > ends["n16"] + 50


def test_sums_that_go_through_a_register() -> None:
    """A tile of a program with two micro-operations takes the latency to the first one's result."""
    def took(*uops: dict[str, int]) -> int:
        stream = Stream(CONFIG)
        for number, uop in enumerate(uops):
            stream.uop(number, uop)
        tiles = {"slots": 8, "tile_slots": 1}
        stream.add(Unit.ARRAY, ARRAY | tiles | {"kernel_blocks": 1, "weight_rows": 5, "out_cols": 8}, (), (), 0)
        stream.add(Unit.VECTOR, VECTOR | tiles | {"chunk_slots": 1, "last": len(uops) - 1, "body_first": len(uops),
                                                  "body_last": len(uops) - 1}, (), (RESULT,), 0)
        times = times_of(stream)
        return int(times[Unit.VECTOR][0, 1] - times[Unit.ARRAY][0, 0])
    first, second = {"a_source": 2, "destination": 0}, {"a_source": 1, "destination": 1}
    direct, through = took({"a_source": 2, "destination": 1}), took(first, second)
    assert direct < 8 * 24 < through <= direct + 8 * 25


def test_a_read_of_a_register_waits_for_all_but_the_newest() -> None:
    """A micro-operation that reads any register waits for the last beat of all writing ones except the newest."""
    def took(writes: int, read: int | None) -> int:
        stream = Stream(CONFIG)
        for number in range(writes):
            stream.uop(number, {"a_source": 0, "destination": 0, "d_register": number})
        stream.uop(writes, {"a_source": 0 if read is None else 1, "a_register": read or 0, "destination": 1})
        stream.add(Unit.VECTOR, COPY | {"slots": 4, "tile_slots": 4, "chunk_slots": 4, "last": writes,
                                        "body_first": writes + 1, "body_last": writes}, (), (RESULT,), 0)
        began, done = times_of(stream)[Unit.VECTOR][0].tolist()
        return int(done - began) - VECTOR_START_CYCLES - done_cycles(CONFIG) + 1 - 4
    assert [took(3, read) for read in (None, 2, 1, 0)] == [12, 8 + 20, 7 + 20, 7 + 20]
    assert [took(1, 0), took(2, 1), took(2, 0)] == [20, 4 + 20, 3 + 20]


COPY = VECTOR | {"use_acc": 0}


@pytest.mark.parametrize(("at", "count", "adds", "end"), [
    (0, 100, 150, 100),  # ends before the array adds
    (400, 100, 150, 500),  # begins afterwards
    (150, 60, 150, 200 + 10 * 4),  # 10 words are left, and one cycle in four is free
    (150, 200, 150, 400 + 200 - 50 - 50),  # 50 before, 50 meanwhile
    (200, 100, 200, 500)])
def test_sums_are_read_between_additions_to_the_same_memory(at: int, count: int, adds: int, end: int) -> None:
    assert read_beside(at, count, 200, 400, adds) == end


def test_streams_meet_input_that_keeps_to_two_banks() -> None:
    def took(step: int) -> int:
        stream = Stream(CONFIG)
        stream.uop(0, {"a_source": 3, "destination": 1})
        stream.add(Unit.ARRAY, ARRAY | {"in_col_step": step}, (), (), 0)
        stream.add(Unit.VECTOR, COPY | {"a_col_step": 1, "cols": 100, "out_col_step": 1}, (), (RESULT,), 0)
        began, done = times_of(stream)[Unit.VECTOR][0].tolist()
        return int(done - began)
    assert 0 <= took(1) - (VECTOR_START_CYCLES + 100 - 1 + done_cycles(CONFIG)) <= 3  # once or twice
    assert 20 < took(2) - took(1) <= 50


def test_tables_are_late_while_the_array_reads() -> None:
    """One entry per cycle, the first one 28 cycles after the outputs; its reads conflict with those of the array."""
    table = {"kind": VectorKind.LOAD_TABLE, "slots": 256, "tile_slots": 256}

    def took(steps: int) -> list[int]:
        stream = Stream(CONFIG)
        stream.uop(0, {"a_source": 3, "destination": 1})
        if steps:
            stream.add(Unit.ARRAY, ARRAY | {"kernel_blocks": steps}, (), (), 0)
        stream.add(Unit.VECTOR, COPY, (), (RESULT,), 0)
        for _ in range(2):
            stream.add(Unit.VECTOR, table, (), (), 0)
        times = times_of(stream)
        return [*np.diff(times[Unit.VECTOR][:, 1]).tolist(), *(times[Unit.ARRAY][:, 1] - times[Unit.VECTOR][0, 1])]
    assert took(0) == [256 + 25, 256]
    late = [cycles - free for cycles, free in zip(took(10)[:2], (256 + 28, 256), strict=True)]
    assert all(20 < cycles <= 256 // 4 for cycles in late)  # at most once per word of four entries
    assert took(4)[1] <= 256 + 3  # the array ends soon after it begins


def test_programs_on_registers_do_not_wait_for_outputs() -> None:
    """A stream is first read 28 cycles after the outputs before it; registers and immediates at once."""
    def took(source: int) -> int:
        stream = Stream(CONFIG)
        stream.uop(0, {"a_source": 3, "destination": 1})
        stream.uop(1, {"a_source": source, "destination": 1})
        stream.add(Unit.VECTOR, COPY, (), (RESULT,), 0)
        stream.add(Unit.VECTOR, COPY | {"first": 1, "last": 1, "body_first": 2, "body_last": 1}, (), (RESULT,), 0)
        one, other = times_of(stream)[Unit.VECTOR][:, 1].tolist()
        return int(other - one)
    assert [took(source) for source in (3, 1, 0)] == [100 + 25, 100, 100]


def test_micro_operations_are_written_when_nothing_is_in_flight() -> None:
    def took(*uops: tuple[int, dict[str, int]], **fields: int) -> int:
        stream = Stream(CONFIG)
        stream.uop(0, {"a_source": 3, "destination": 1})
        stream.add(Unit.VECTOR, COPY, (), (RESULT,), 0)
        for index, values in uops:
            stream.uop(index, values)
        stream.add(Unit.VECTOR, COPY | fields, (), (RESULT,), 0)
        return int(times_of(stream)[Unit.VECTOR][1, 1])
    new, other = {"a_source": 3, "destination": 1}, {"a_source": 3, "destination": 1, "immediate": 7}
    # One word for the command itself, five for a micro-operation that was never written, two for one changed field.
    assert took((1, new)) - took() == 23 + 5 + 1
    assert took((1, new), (2, new)) - took() == 23 + 2 * 5 + 1
    assert took((0, other)) - took() == 23 + 2 + 1
    assert took((0, other), out_base=300) - took() == 23 + 2 + 2
    assert took((0, new)) == took(out_base=300) == took()


def test_what_never_starts_names_its_operator() -> None:
    fault = ("operator 3 (CONV_2D) has commands that wait for each other, a bug in the compiler; another configuration "
             "may divide the layer differently")
    # The requantization of the first tiles waits for a load over the input of the last tile, which has no free buffer.
    behind_load = Stream(CONFIG, names=("", "operator 3 (CONV_2D)"))
    behind_load.uop(0, {"a_source": 2, "destination": 1})
    behind_load.add(Unit.ARRAY, ARRAY | {"tile_slots": 10}, (INPUT,), (), 1)
    behind_load.add(Unit.LOAD, LOAD, (), (INPUT,), 1)
    behind_load.add(Unit.VECTOR, VECTOR | {"tile_slots": 10}, (INPUT,), (RESULT,), 1)
    # A requantization comes before the array's operation, whose input it makes.
    too_early = Stream(CONFIG, names=("", "operator 3 (CONV_2D)"))
    too_early.uop(0, {"a_source": 2, "destination": 1})
    too_early.add(Unit.VECTOR, VECTOR, (), (RESULT,), 1)
    too_early.add(Unit.ARRAY, ARRAY, (RESULT,), (), 1)
    for stream in (behind_load, too_early):
        with pytest.raises(UnsupportedError) as error:
            times_of(stream)
        assert str(error.value) == fault


def test_times_of_a_network() -> None:
    compiled = compile_model(sample("chain", 0), CONFIG)
    stream, times = compiled.emitter.stream, compiled.timeline
    at = {id(op): times[unit][number] for unit, ops in stream.by_unit.items() for number, op in enumerate(ops)}
    for ops in stream.by_unit.values():
        for op in ops:
            began, done = at[id(op)]
            assert 0 < began < done
            assert all(began >= at[id(other)][1] for other in op.after) or op.unit is Unit.ARRAY
            assert all(done > at[id(other)][1] for other in op.after)
    for unit in (Unit.ARRAY, Unit.VECTOR, Unit.STORE):
        assert (np.diff(times[unit][:, 1]) > 0).all()
    indices = [layer.index for layer in compiled.emitter.graph.layers]
    shares = layer_cycles(stream, times, indices)
    assert sum(shares.values()) == max(int(t[:, 1].max()) for t in times.values() if len(t))
    assert set(shares) == set(indices) and min(shares.values()) >= 0


def test_moved_bytes() -> None:
    load, array, _, store = chain().operations
    assert (moved_bytes(load), moved_bytes(array), moved_bytes(store)) == (1600, 0, 1600)
