"""Unit activity from a timeline: the array's cycles by layer, windows, groups, and the lost cycles by reason."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_hw.isa.layout import Unit
from tq_hw.isa.program import Layer, Program

__all__ = ["REASONS", "Timeline", "array_cycles", "groups", "lost_cycles", "slices", "windows"]

Timeline = Mapping[Unit, npt.NDArray[Any]]

#: Reasons for an inference's cycles: a description and a remedy. Each cycle counts for the first reason that applies.
REASONS = {
    "multiplying": ("the multipliers at full rate", "more multipliers: rows, cols"),
    "shape": ("the array at work with some of its multipliers idle", "layers with more channels, or an array of "
              "another shape: depthwise convolutions and few channels do not fill this one"),
    "array": ("the array at work with some of its multipliers idle, or waiting for weights or a free buffer of sums "
              "(the RTL counts which)", "layers with more channels and pixels, or an array of another shape: depthwise "
              "convolutions and few channels do not fill this one"),
    "weights": ("the array waiting for its weights from the scratchpad", "more pixels for each weight (--batch): a "
                "weight used once takes as long to fetch as to use"),
    "sums": ("the array waiting for a free buffer of sums: the vector unit is behind", "more requantize_lanes"),
    "vector": ("the vector unit, while the array waits", "more requantize_lanes"),
    "first load": ("the first load, before anything is computed", "weights that stay in the scratchpad (--resident), "
                   "or a faster memory"),
    "load": ("loads from memory, while everything else waits", "a faster memory, a wider bus, or a larger scratchpad"),
    "store": ("stores to memory, while everything else waits", "a faster memory, a wider bus, or a larger scratchpad"),
    "latency": ("latency of memory, and between operations that depend on each other", "larger layers, or several "
                "inputs at once (--batch)"),
}


def slices(timeline: Timeline, unit: Unit) -> npt.NDArray[np.int64]:
    """Return begin and end of each RUN of a unit, [runs, 2]; one taken early begins when the previous one ends."""
    times = np.asarray(timeline[unit], np.int64).reshape(-1, 2).copy()
    times[1:, 0] = np.maximum(times[1:, 0], times[:-1, 1])
    return times


def array_cycles(program: Program, timeline: Timeline) -> dict[int, int]:
    """Return the array's busy cycles of each layer that uses it, by layer index."""
    times = slices(timeline, Unit.ARRAY)
    took = times[:, 1] - times[:, 0]
    return {layer.index: sum(int(took[first:last + 1].sum()) for first, last in layer.runs["array"])
            for layer in program.layers if layer.runs.get("array")}


def windows(program: Program, timeline: Timeline) -> dict[int, tuple[int, int]]:
    """Return the begin of each layer's first operation and the end of its last one, over all units, by layer index."""
    found = {}
    for layer in program.layers:
        times = [(int(timeline[Unit[name.upper()]][first, 0]), int(timeline[Unit[name.upper()]][last, 1]))
                 for name, ranges in layer.runs.items() for first, last in ranges]
        if times:
            found[layer.index] = min(begin for begin, _ in times), max(end for _, end in times)
    return found


def groups(layers: Sequence[Layer]) -> list[list[int]]:
    """Return the indices of layers by group: layers whose operations alternate on a computing unit form a group."""
    parent = {layer.index: layer.index for layer in layers}

    def root(index: int) -> int:
        while parent[index] != index:
            index = parent[index]
        return index

    for unit in ("array", "vector"):
        spans = sorted((layer.runs[unit][0][0], layer.runs[unit][-1][1], layer.index)
                       for layer in layers if layer.runs.get(unit))
        end, owner = -1, -1
        for first, last, index in spans:
            if first < end:
                parent[root(index)] = root(owner)
            if last > end:
                end, owner = last, index
    found: dict[int, list[int]] = {}
    for layer in layers:
        found.setdefault(root(layer.index), []).append(layer.index)
    return [sorted(members) for members in found.values()]


def lost_cycles(program: Program, timeline: Timeline, cycles: int,
                counters: Mapping[str, int] | None = None, *, macs: int) -> dict[str, int]:
    """Return an inference's cycles by REASONS; they add up to `cycles`. The machine does `macs` products a cycle.

    With the hardware's `counters` of the same run, waits of the array are divided into "shape", "weights" and "sums":
    the array waits only while it has an operation but no step. Without counters they are all "array".
    """
    busy = {unit: _covered(slices(timeline, unit), cycles) for unit in
            (Unit.LOAD, Unit.ARRAY, Unit.VECTOR, Unit.STORE)}
    computing = busy[Unit.ARRAY] | busy[Unit.VECTOR]
    begin = int(computing.argmax()) if computing.any() else cycles
    early = np.arange(cycles) < begin
    idle = ~computing
    loads = idle & ~early & busy[Unit.LOAD]
    stores = idle & ~early & ~busy[Unit.LOAD] & busy[Unit.STORE]
    array = int(busy[Unit.ARRAY].sum())
    full = sum(layer.macs for layer in program.layers) // macs
    waits = {"array": array - full}
    if counters:
        weights, sums = counters["array_weight"], counters["array_acc"]
        waits = {"shape": array - full - weights - sums, "weights": weights, "sums": sums}
    found = {"multiplying": full, **waits,
             "vector": int((busy[Unit.VECTOR] & ~busy[Unit.ARRAY]).sum()), "first load": begin,
             "load": int(loads.sum()), "store": int(stores.sum())}
    return found | {"latency": cycles - sum(found.values())}


def _covered(times: npt.NDArray[np.int64], cycles: int) -> npt.NDArray[np.bool_]:
    """Return for each cycle whether a span covers it."""
    steps = np.zeros(cycles + 1, np.int64)
    np.add.at(steps, np.clip(times[:, 0], 0, cycles), 1)
    np.add.at(steps, np.clip(times[:, 1], 0, cycles), -1)
    return np.cumsum(steps[:-1]) > 0
