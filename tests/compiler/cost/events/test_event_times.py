"""compiler.cost.events.timing: which programs are timed event by event, and operations that never start."""

import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.cost.events import timing
from tq_hw.compiler.cost.events.timing import event_times, events, program_times
from tq_hw.compiler.cost.timing import run_times
from tq_hw.compiler.stream.stream import Stream
from tq_hw.isa.config import load_config
from tq_hw.isa.layout import Unit
from tq_hw.isa.memory import Memory
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.samples.layers import sample


def test_long_programs_are_timed_operation_by_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    config = load_config("n8")
    stream = compile_model(sample("chain", 0), config).emitter.stream
    given = stream, config, stream.assemble(), Memory(), 0
    exact, quick = event_times(*given), run_times(*given)
    assert any((exact[unit] != quick[unit]).any() for unit in exact)
    count = events(stream)
    for most, expected in ((count, exact), (count - 1, quick)):
        monkeypatch.setattr(timing, "_MOST_EVENTS", most)
        found = program_times(*given)
        assert all((found[unit] == expected[unit]).all() for unit in exact)


@pytest.mark.parametrize("rate", [1.45, 0.3])
def test_rates_that_are_no_whole_number_come_to_an_end(rate: float) -> None:
    """Slower memories take longer, but never forever."""
    config = load_config("n8")
    stream = compile_model(sample("chain", 1), config).emitter.stream
    commands = stream.assemble()
    slow, fast = (max(int(times[-1, 1]) for times in event_times(stream, config, commands, memory, 0).values())
                  for memory in (Memory(bytes_per_cycle=rate), Memory()))
    assert slow > fast


def test_operations_that_wait_for_each_other_are_named() -> None:
    config = load_config("n8")
    stream = Stream(config)
    load = {"memory_offset_bytes": 0, "region": 1, "run_bytes": 8, "destination": 0, "emit_bytes": 8,
            "advance_bytes": 8, "last_emit_bytes": 8, "last_advance_bytes": 8, "count0": 1, "step0": 1, "count1": 1,
            "count2": 1, "count3": 1}
    first, second = (stream.add(Unit.LOAD, load, (), (), 0) for _ in range(2))
    first.after.append(second)
    with pytest.raises(UnsupportedError, match="layer 0 has commands that wait for each other"):
        event_times(stream, config, stream.assemble(), Memory(), 0)
