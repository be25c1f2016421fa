"""Timeline of a run in the trace-event format, for Perfetto and Chrome's tracing page.

Each unit has a track with one slice per operation, named by its operator. A further track has one slice per layer. A
gap in a unit's track is a wait: for tokens, for commands, or for another unit.
"""

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

from tq_hw.isa.layout import Unit
from tq_hw.isa.program import Program

__all__ = ["timed", "trace_events"]

_PROCESS = 1
_LAYERS = "layers"
#: Tracks from top to bottom.
_TRACKS = (_LAYERS, *(unit.name.lower() for unit in (Unit.LOAD, Unit.ARRAY, Unit.VECTOR, Unit.STORE)))


def trace_events(program: Program, timeline: Mapping[Unit, npt.NDArray[Any]],
                 layer_cycles: Mapping[int, int]) -> dict[str, Any]:
    """Return the trace of one run as JSON values, with cycles as its unit of time.

    A unit may take an operation before the previous one is done. Its slice begins when the previous one is done;
    `taken_cycle` says when it was taken.
    """
    events: list[dict[str, Any]] = [_name("process_name", 0, f"{program.name} on {program.config.name}")]
    events += [_name("thread_name", number, track) for number, track in enumerate(_TRACKS)]
    layers = {layer.index: layer for layer in program.layers}
    at = 0
    for index, cycles in layer_cycles.items():
        layer = layers[index]
        events.append(_slice(0, f"{index} {layer.op}", at, at + cycles,
                             {"tensor": layer.name, "macs": layer.macs, "estimated_cycles": layer.estimated_cycles,
                              "bound": layer.bound}))
        at += cycles
    for number, track in enumerate(_TRACKS[1:], 1):
        owners = {run: layer for layer in program.layers for first, last in layer.runs.get(track, ())
                  for run in range(first, last + 1)}
        before = 0
        for run, (taken, done) in enumerate(timeline[Unit[track.upper()]].tolist()):
            owner = owners.get(run)
            name = "-" if owner is None else f"{owner.index} {owner.op}"
            events.append(_slice(number, name, max(taken, before), done, {"run": run, "taken_cycle": taken}))
            before = done
    config = program.config
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {
        "program": program.name, "configuration": config.name, "fingerprint": f"{config.fingerprint:08x}",
        "time_unit": "cycle"}}


def timed(trace: dict[str, Any], clock_hz: int) -> dict[str, Any]:
    """Return a trace converted to microseconds, the unit of the format, for a clock; cycles become arguments."""
    microseconds = 1e6 / clock_hz
    events = [event if event["ph"] != "X" else event | {
        "ts": event["ts"] * microseconds, "dur": event["dur"] * microseconds,
        "args": event["args"] | {"begin_cycle": event["ts"], "end_cycle": event["ts"] + event["dur"]}}
        for event in trace["traceEvents"]]
    return trace | {"traceEvents": events, "otherData": trace["otherData"] | {
        "time_unit": "us", "clock_hz": clock_hz}}


def _name(kind: str, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "pid": _PROCESS, "tid": thread, "name": kind, "args": {"name": name}}


def _slice(thread: int, name: str, begin: int, end: int, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "X", "pid": _PROCESS, "tid": thread, "name": name, "ts": begin, "dur": end - begin,
            "args": arguments}
