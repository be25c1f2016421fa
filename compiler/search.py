"""How layers are cut, by trial: the schedule that the cost model finds fastest.

The plan says where values live; into how many rectangles and operations a layer is cut is tried. A trial changes one
thing about all layers that it concerns and is emitted, encoded and timed as a whole; the layers that became faster by
it, with the one after them, keep it, and if all of them together are faster, too, they are the base of the next trial.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_hw.compiler.cost.timing import run_times
from tq_hw.compiler.emit.emitter import Emitter
from tq_hw.compiler.ir.layers import Elementwise, Graph, Mac, MaxPool
from tq_hw.compiler.plan.places import Choice, Plan
from tq_hw.compiler.stream.stream import Commands
from tq_hw.model.errors import UnsupportedError

__all__ = ["fastest", "search"]

#: What is tried, one after the other.
_MOVES: tuple[dict[str, Any], ...] = ({"dips": True}, {"parts": 4}, {"operation_cycles": 384}, {"parts": 3},
                                     {"tile_slots": 64}, {"tile_slots": 32}, {"table_cycles": 64},
                                     {"table_pieces": True})
#: Operations that are emitted for trials at most.
_OPERATIONS = 40_000
#: Cycles, and parts of all cycles, that are worth a change.
_LEAST_CYCLES, _LEAST_SHARE = 8, 2000
#: Layers after another one, of which one may have the tables that come during it.
_TABLE_LAYERS = 3
#: Parts of all cycles that are worth a plan with rests, and early tables: the model of bursts may differ by less.
_PLAN_SHARE, _TABLE_SHARE = 100, 50

Choices = Mapping[int, Choice]


class _Trial:
    """One schedule; its times are worked out when they are asked for, as a long one is compared with no other."""

    def __init__(self, emitter: Emitter) -> None:
        self.emitter = emitter
        self.commands = emitter.stream.assemble()

    @cached_property
    def ends(self) -> npt.NDArray[np.int64]:
        """When all layers up to each are done."""
        emitter = self.emitter
        times = run_times(emitter.stream, emitter.config, self.commands, emitter.memory)
        ends = [0] * len(emitter.graph.layers)
        for unit, operations in emitter.stream.by_unit.items():
            for operation, done in zip(operations, times[unit][:, 1].tolist(), strict=True):
                ends[operation.layer] = max(ends[operation.layer], done)
        return np.maximum.accumulate(ends)

    @property
    def cycles(self) -> int:
        """When all is done."""
        return int(self.ends[-1])

    def spent(self, number: int) -> int:
        """Cycles from the end of all layers before a layer to the end of the one after it."""
        last = min(number + 1, len(self.ends) - 1)
        return int(self.ends[last] - (self.ends[number - 1] if number else 0))


def _concerns(move: Mapping[str, Any], graph: Graph, plan: Plan, number: int) -> bool:
    """Whether a move may change a layer."""
    layer, made = graph.layers[number], plan.layers[number]
    if not isinstance(layer, Mac | Elementwise | MaxPool) or made.cuts is not None:
        return False
    whole = made.rows >= layer.output.shape[1]
    if "dips" in move:
        return isinstance(layer, Mac) and any(made.in_words) and not whole
    if "table_cycles" in move or "table_pieces" in move:
        near = graph.layers[number + 1:number + (_TABLE_LAYERS if "table_pieces" in move else 1) + 1]
        return isinstance(layer, Mac) and any(table is not None for other in near
                                              for table in getattr(other, "tables", ()))
    if "parts" in move:
        return whole and layer.output.shape[1] > 1
    return isinstance(layer, Mac)


def _fastest(plans: Sequence[Plan], emit: Callable[[Plan, Choices], Emitter]) -> tuple[Plan, _Trial, int]:
    """Return the fastest plan as it is, its schedule, and how many more trials there may be."""
    plan = plans[0]
    best = _Trial(emit(plan, {}))
    stream = best.emitter.stream
    left = _OPERATIONS // (max(1, len(stream.items)) + stream.work)
    for other in plans[1:1 + max(0, left)]:
        left -= 1
        try:
            tried = _Trial(emit(other, {}))
        except UnsupportedError:  # too many commands
            continue
        if tried.cycles + best.cycles // _PLAN_SHARE < best.cycles:
            best, plan = tried, other
    return plan, best, left


def fastest(plans: Sequence[Plan], emit: Callable[[Plan, Choices], Emitter]) -> tuple[Emitter, Commands]:
    """Return the schedule of the fastest of `plans`, without trials of how layers are cut, and its commands."""
    _, best, _ = _fastest(plans, emit)
    return best.emitter, best.commands


def search(graph: Graph, plans: Sequence[Plan], others: Sequence[Plan],
           emit: Callable[[Plan, Choices], Emitter]) -> tuple[Emitter, Commands]:
    """Return the best schedule found, and its commands.

    `emit` makes a schedule of a plan and choices. The choices are tried with the fastest of `plans`, then the best with
    others.
    """
    plan, best, left = _fastest(plans, emit)
    choices: Choices = {}

    def attempt(changed: Choices, plan: Plan) -> _Trial:
        nonlocal left
        left -= 1
        return _Trial(emit(plan, changed))

    for move in _MOVES:
        changed = {number: replace(choices.get(number, Choice()), **move) for number in range(len(graph.layers))
                   if _concerns(move, graph, plan, number)}
        if not changed or left < 2:
            continue
        try:
            tried = attempt({**choices, **changed}, plan)
            faster = {number: choice for number, choice in changed.items()
                      if tried.spent(number) + _LEAST_CYCLES < best.spent(number)}
            if faster and len(faster) < len(changed):
                tried = attempt({**choices, **faster}, plan)
        except UnsupportedError:  # too many commands
            continue
        share = _TABLE_SHARE if "table_cycles" in move else _LEAST_SHARE
        if faster and tried.cycles + best.cycles // share < best.cycles:
            best, choices = tried, {**choices, **faster}
    for other in [*(other for other in plans if other is not plan), *others][:max(0, left)]:
        share = _PLAN_SHARE if any(other is one for one in plans) else _LEAST_SHARE
        try:
            tried = attempt(choices, other)
        except UnsupportedError:
            continue
        if tried.cycles + best.cycles // share < best.cycles:
            best = tried
    return best.emitter, best.commands
