"""Time against area: the digits example on machines around n8, and their Pareto front."""

import math
from dataclasses import dataclass, replace
from pathlib import Path

from svg import INK, MUTED, Drawing

from tq_hw.boards.resources.model import estimate_resources
from tq_hw.compiler.estimate import estimate_model
from tq_hw.isa.config import PRESETS, Config
from tq_hw.model.tflite.reader import read_model

__all__ = ["front"]

_MODEL = Path(__file__).parents[2] / "examples" / "digits" / "digits.tflite"
_FAMILY = "ecp5"
_ROWS, _COLS, _LANES = (4, 8, 9, 16), (4, 8, 16), (2, 4, 8)
_LEFT, _RIGHT, _TOP, _BOTTOM = 90, 920, 60, 380
#: Steps of the grid: LUTs; cycles, on a logarithmic scale.
_LUT_STEP, _MARKS = 10_000, (1000, 2000, 5000, 10_000, 20_000)


@dataclass(frozen=True)
class _Machine:
    config: Config
    luts: float
    cycles: int


def _machines() -> list[_Machine]:
    model, found = read_model(_MODEL), []
    for rows in _ROWS:
        for cols in _COLS:
            for lanes in (lanes for lanes in _LANES if lanes <= cols):
                config = replace(PRESETS["n8"], name=f"{rows}x{cols}, {lanes} lanes", rows=rows, cols=cols,
                                 requantize_lanes=lanes)
                luts = estimate_resources(config, _FAMILY).total("luts")
                found.append(_Machine(config, luts, estimate_model(model, config).cycles))
    return found


def _beaten(machine: _Machine, others: list[_Machine]) -> bool:
    return any(other.luts <= machine.luts and other.cycles <= machine.cycles
               and (other.luts, other.cycles) != (machine.luts, machine.cycles) for other in others)


def front() -> str:
    """Return the picture: a point per machine, a line through the front, names along it."""
    machines = _machines()
    best = sorted((one for one in machines if not _beaten(one, machines)), key=lambda one: one.luts)
    most = math.ceil(max(one.luts for one in machines) / _LUT_STEP) * _LUT_STEP
    inside = [mark for mark in _MARKS if mark <= 2 * max(one.cycles for one in machines)]
    low, high = math.log(min(one.cycles for one in machines) / 1.3), math.log(inside[-1])

    def place(luts: float, cycles: float) -> tuple[float, float]:
        return (round(_LEFT + (_RIGHT - _LEFT) * luts / most),
                round(_BOTTOM - (_BOTTOM - _TOP) * (math.log(cycles) - low) / (high - low)))

    d = Drawing(960, 450, "Estimated cycles of the digits example against estimated LUTs, by machine; the line joins "
                          "the machines that no other beats in both")
    d.words(40, 31, "cycles of one inference, digits", size=13, anchor="start", bold=True)
    d.words(_RIGHT, 430, f"LUTs, {_FAMILY}", size=13, anchor="end", bold=True)
    for luts in range(0, most + 1, _LUT_STEP):
        x, _ = place(luts, inside[-1])
        d.line((x, _TOP), (x, _BOTTOM), color="#e4e7eb", line=1)
        d.words(x, _BOTTOM + 20, f"{luts:,}", size=11, color=MUTED)
    for cycles in (mark for mark in inside if math.log(mark) >= low):
        _, y = place(0, cycles)
        d.line((_LEFT, y), (_RIGHT, y), color="#e4e7eb", line=1)
        d.words(_LEFT - 8, y + 4, f"{cycles:,}", size=11, color=MUTED, anchor="end")
    d.line(*(place(one.luts, one.cycles) for one in best), color=INK)
    for one in machines:
        x, y = place(one.luts, one.cycles)
        d.rect(x - 4, y - 4, 8, 8, fill=INK if one in best else "#c3cbd3", radius=4)
    last = -math.inf
    for one in best:
        x, y = place(one.luts, one.cycles)
        if x - last > 40:
            d.words(x - 6, y + 17, one.config.name, size=11, anchor="end")
            last = x
    return d.text()
