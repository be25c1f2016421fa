"""sim.diagnose.trace: every operation is a slice on its unit's track, and slices of a track do not overlap."""

import json

import numpy as np

from tq_hw.compiler import compile_model
from tq_hw.isa.config import PRESETS
from tq_hw.isa.layout import Unit
from tq_hw.model.samples.layers import sample
from tq_hw.sim.diagnose.trace import timed, trace_events


def test_slices_by_unit_and_layer():
    program = compile_model(sample("chain", 0), PRESETS["tiny"]).program
    counts = {unit: 1 + max((last for layer in program.layers for _, last in layer.runs.get(unit.name.lower(), ())),
                            default=-1) for unit in (Unit.LOAD, Unit.ARRAY, Unit.VECTOR, Unit.STORE)}
    assert all(counts.values())
    # Operations are taken two cycles apart and done ten cycles apart: all but the first wait for the previous one.
    timeline = {unit: np.array([(2 * n, 10 * n + 9) for n in range(count)]) for unit, count in counts.items()}
    cycles = {layer.index: 40 + layer.index for layer in program.layers if layer.runs}
    events = json.loads(json.dumps(trace_events(program, timeline, cycles)))["traceEvents"]
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert list(names.values()) == ["layers", "load", "array", "vector", "store"]
    for thread, name in names.items():
        slices = [event for event in events if event["ph"] == "X" and event["tid"] == thread]
        ends = [event["ts"] + event["dur"] for event in slices]
        assert all(event["ts"] >= end for event, end in zip(slices[1:], ends, strict=False))
        if name == "layers":
            assert [event["dur"] for event in slices] == list(cycles.values())
        else:
            assert [event["args"]["run"] for event in slices] == list(range(counts[Unit[name.upper()]]))
            assert ends == timeline[Unit[name.upper()]][:, 1].tolist()
            owners = {run: f"{layer.index} {layer.op}" for layer in program.layers
                      for first, last in layer.runs.get(name, ()) for run in range(first, last + 1)}
            assert [event["name"] for event in slices] == [owners[event["args"]["run"]] for event in slices]


def test_times_at_a_clock():
    program = compile_model(sample("chain", 0), PRESETS["tiny"]).program
    timeline = {unit: np.array([(0, 50)] * 100) for unit in Unit}
    trace = trace_events(program, timeline, {})
    real = timed(trace, 25_000_000)
    assert trace["otherData"]["time_unit"] == "cycle"
    assert real["otherData"] == {"program": program.name, "configuration": "tiny", "time_unit": "us",
                                 "fingerprint": f"{PRESETS['tiny'].fingerprint:08x}", "clock_hz": 25_000_000}
    first = next(event for event in real["traceEvents"] if event["ph"] == "X")
    assert (first["ts"], first["dur"]) == (0.0, 2.0)
    assert (first["args"]["begin_cycle"], first["args"]["end_cycle"]) == (0, 50)
    assert [event for event in real["traceEvents"] if event["ph"] == "M"] == [
        event for event in trace["traceEvents"] if event["ph"] == "M"]
