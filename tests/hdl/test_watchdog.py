"""Whole machines whose memory stops answering, or whose commands deadlock: status, and a stop."""

from collections import Counter
from collections.abc import Iterator

import pytest
from serial_streams import CONFIG

from tq_hw.isa.config import PRESETS
from tq_hw.isa.control import (
    DRAIN_CYCLES,
    NO_RUN,
    STATUS_BUSY,
    STATUS_DONE,
    STATUS_ERROR,
    STATUS_OWED,
    WATCHDOG_CYCLES,
    Status,
)
from tq_hw.isa.encode import Assembler
from tq_hw.isa.layout import Unit
from tq_hw.isa.memory import Memory
from tq_hw.sim.rtl.bench import CHANNELS, Bench
from tq_hw.sim.rtl.build import library

MACHINES = {"parallel": PRESETS["tiny"], "serial": CONFIG}
IMAGE, ARENA = 0x10000, 0x20000
DATA = bytes(range(1, 33))
#: Cycles that are enough; a start of the serial machine clears its registers first.
LIMIT = {"parallel": 4_000, "serial": 40_000}
WATCHDOG = 500
WORDS = {"count0": 1, "count1": 4, "count2": 1, "count3": 1, "step1": 1}
LOAD = WORDS | {"run_bytes": 16, "emit_bytes": 4, "advance_bytes": 4, "last_emit_bytes": 4, "last_advance_bytes": 4}
STORE = WORDS | {"region": 1, "take_bytes": 4, "last_take_bytes": 4}
ARRAY = {"acc_first": 1, "acc_last": 1, "out_cols": 1, "slots": 9, "tile_slots": 1, "out_blocks": 1, "kernel_rows": 1,
         "kernel_cols": 1, "kernel_blocks": 1, "slices": 1, "weight_rows": 1}
VECTOR = {"use_acc": 1, "cols": 1, "out_blocks": 1, "slots": 1, "tile_slots": 1, "chunk_slots": 1, "repeat1": 1,
          "repeat2": 1, "body_first": 1}
#: Two loads and two stores: the 32 bytes of DATA.
COPY = ((Unit.LOAD, LOAD), (Unit.LOAD, LOAD | {"memory_offset_bytes": 16, "destination": 4, "post_store": 1}),
        (Unit.STORE, STORE | {"wait_load": 1}), (Unit.STORE, STORE | {"source": 4, "memory_offset_bytes": 16}))

Runs = tuple[tuple[Unit, dict[str, int]], ...]
End = tuple[Status, Unit, int]


@pytest.fixture(params=MACHINES)
def design(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def begin(bench: Bench, design: str, runs: Runs, watchdog: int) -> None:
    """Start a machine on these operations, with commands in a block of their own."""
    assembler = Assembler(MACHINES[design])
    for unit, fields in runs:
        assembler.run(unit, fields)
    assembler.end()
    commands = assembler.to_bytes()
    bench.map(IMAGE, DATA + bytes(256 - len(DATA)) + commands + bytes(-len(commands) % 16))
    bench.map(ARENA, bytes(len(DATA)))
    for name, value in (("base0", IMAGE), ("base1", ARENA), ("command_offset", 256), ("watchdog", watchdog),
                        ("command_bytes", len(commands)), ("control", 1)):
        bench.write_register(name, value)


def error(bench: Bench) -> End:
    code, unit, run = (bench.read_register(name) for name in ("error_code", "error_unit", "error_index"))
    return Status(code), Unit(unit), run


def ended(bench: Bench, design: str) -> End:
    """Run to an error; the serial machine says at once that memory owes an answer, the other one when it gives up."""
    assert bench.run(LIMIT[design])
    code, unit, run = error(bench)
    owed = STATUS_OWED if design == "serial" and code is Status.NO_ANSWER else 0
    assert bench.read_register("status") == STATUS_ERROR | owed
    return code, unit, run


def copies(bench: Bench, design: str) -> None:
    """Start again; the machine works as after a reset."""
    bench.write(ARENA, bytes(len(DATA)))
    bench.write_register("control", 1)
    assert bench.run(LIMIT[design]) and bench.read_register("status") == STATUS_DONE
    assert bench.read(ARENA, len(DATA)) == DATA


def transfers(design: str) -> dict[str, int]:
    """Count what each channel carries in the copy."""
    with Bench(library(MACHINES[design])) as bench:
        begin(bench, design, COPY, WATCHDOG)
        assert bench.run(LIMIT[design]) and bench.read_register("status") == STATUS_DONE
        found = bench.statistics
    return {"AR": found["read_bursts"], "R": found["read_beats"], "AW": found["write_bursts"],
            "W": found["write_beats"], "B": found["write_bursts"]}


def ends_where_stopped(design: str, channel: str, count: int) -> Iterator[End]:
    """Stop a channel after 0, 1, ... transfers, `count` of them; yield how each run ends."""
    for after in range(count):
        with Bench(library(MACHINES[design])) as bench:
            bench.stop_channel(channel, after)
            begin(bench, design, COPY, WATCHDOG)
            yield ended(bench, design)
            # Answers that come late are waited for: nothing is left of them in the next run.
            bench.start_channel(channel)
            copies(bench, design)


@pytest.mark.parametrize("channel", CHANNELS)
def test_a_channel_that_stands_still(design: str, channel: str) -> None:
    """Wherever the channel stops, the error names the operation whose transfers are missing."""
    count = transfers(design)[channel]
    found = Counter(ends_where_stopped(design, channel, count))
    unit = Unit.LOAD if channel in ("AR", "R") else Unit.STORE
    of_fetch = found.pop((Status.NO_ANSWER, Unit.CONTROL, NO_RUN), 0)
    beats = 16 // MACHINES[design].bus_bytes
    # The serial machine's bursts are of one beat.
    each = beats if design == "serial" or channel in ("R", "W") else 1
    of_runs = [found.pop((Status.NO_ANSWER, unit, run)) for run in range(2)]
    assert not found
    assert sum(of_runs) + of_fetch == count and (of_fetch > 0) == (unit is Unit.LOAD)
    if (design, channel) == ("parallel", "R"):
        # The first load waits while the rest of the commands is still to come: it is named then, not fetch.
        assert of_runs[0] > each and of_runs[1] == each
    else:
        assert of_runs == [each, each]


def test_a_memory_that_is_only_slow(design: str) -> None:
    """Waits below the limit are not an error, however many there are."""
    with Bench(library(MACHINES[design]), Memory(WATCHDOG - 60)) as bench:
        begin(bench, design, COPY, WATCHDOG)
        assert bench.run(100 * WATCHDOG) and bench.read_register("status") == STATUS_DONE
        assert bench.read(ARENA, len(DATA)) == DATA
    with Bench(library(MACHINES[design]), Memory(WATCHDOG + 60)) as bench:
        begin(bench, design, COPY, WATCHDOG)
        assert ended(bench, design) == (Status.NO_ANSWER, Unit.CONTROL, NO_RUN)


DEADLOCKS: dict[str, tuple[Runs, Unit, int]] = {
    "nobody gives": ((*COPY[:2], (Unit.STORE, STORE | {"wait_load": 2})), Unit.STORE, 0),
    "one after the other": ((*COPY, (Unit.LOAD, LOAD | {"wait_vector": 1, "post_array": 1}),
                              (Unit.VECTOR, VECTOR | {"use_acc": 0, "wait_array": 1, "post_load": 1})), Unit.LOAD, 2),
    "no accumulators are free": (((Unit.ARRAY, ARRAY),), Unit.ARRAY, 0),
    "no accumulators are full": (((Unit.VECTOR, VECTOR),), Unit.VECTOR, 0),
    "tokens before accumulators": (((Unit.VECTOR, VECTOR), (Unit.STORE, STORE | {"wait_vector": 1})), Unit.STORE, 0),
}


@pytest.mark.parametrize("kind", DEADLOCKS)
def test_a_deadlock(design: str, kind: str) -> None:
    """Status names who waits; without a watchdog it waits for ever; a stop ends it at once."""
    runs, unit, run = DEADLOCKS[kind]
    with Bench(library(MACHINES[design])) as bench:
        begin(bench, design, runs, WATCHDOG)
        assert ended(bench, design) == (Status.DEADLOCK, unit, run)
        bench.write_register("watchdog", 0)
        bench.write_register("control", 1)
        assert not bench.run(2 * LIMIT[design]) and bench.read_register("status") == STATUS_BUSY
        bench.write_register("control", 2)
        assert not bench.run(LIMIT[design]) and bench.read_register("status") == 0
    with Bench(library(MACHINES[design])) as bench:
        begin(bench, design, runs, WATCHDOG_CYCLES)
        assert not bench.run(2 * LIMIT[design]) or design == "serial"


@pytest.mark.parametrize("channel", CHANNELS)
def test_a_stop_while_memory_owes_answers(design: str, channel: str) -> None:
    """It is busy until they come."""
    with Bench(library(MACHINES[design])) as bench:
        bench.stop_channel(channel, 1)
        begin(bench, design, COPY, 0)
        assert not bench.run(2 * LIMIT[design]) and bench.read_register("status") == STATUS_BUSY
        bench.write_register("control", 2)
        assert not bench.run(2 * LIMIT[design]) and bench.read_register("status") == STATUS_BUSY
        bench.start_channel(channel)
        assert not bench.run(LIMIT[design]) and bench.read_register("status") == 0
        copies(bench, design)


def test_a_stop_comes_back_without_answers(design: str) -> None:
    """After DRAIN_CYCLES; a start ends in NO_ANSWER until they have come after all."""
    # Two million cycles: the parallel machine takes them at 200,000 a second.
    starts = design == "serial"
    with Bench(library(MACHINES[design])) as bench:
        bench.stop_channel("R", 1)
        begin(bench, design, COPY, 0)
        assert not bench.run(LIMIT[design])
        bench.write_register("control", 2)
        assert not bench.run(DRAIN_CYCLES - 2000) and bench.read_register("status") == STATUS_BUSY
        assert not bench.run(4000) and bench.read_register("status") == STATUS_OWED
        if starts:
            bench.write_register("control", 1)
            assert bench.run(DRAIN_CYCLES + LIMIT[design])
            assert bench.read_register("status") == STATUS_ERROR | STATUS_OWED
            assert error(bench) == (Status.NO_ANSWER, Unit.CONTROL, NO_RUN)
        bench.start_channel("R")
        for _ in range(100):
            status = bench.read_register("status")
        assert status == STATUS_ERROR * starts
        copies(bench, design)
